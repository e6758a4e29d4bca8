//! Callers on two replicas at the moment when a peer's access token is over.

use std::collections::BTreeSet;

use crate::{
    peer::{DJANGO, DJANGO_WITH_GRACE, Kind, OIDC},
    scene::Scene,
};

/// How often the token runs out.
const EXPIRIES: usize = 3;

#[tokio::test(flavor = "multi_thread")]
async fn callers_at_expiry_make_one_exchange_with_oidc_provider_each_time() {
    one_exchange_each_time(&OIDC).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_at_expiry_make_one_exchange_with_django_oauth_toolkit_each_time() {
    one_exchange_each_time(&DJANGO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_at_expiry_make_one_exchange_with_django_oauth_toolkit_and_its_grace_each_time() {
    one_exchange_each_time(&DJANGO_WITH_GRACE).await;
}

async fn one_exchange_each_time(kind: &'static Kind) {
    let scene = Scene::set(kind).await;
    let id = scene.connect().await;

    let mut shown = BTreeSet::new();
    for _ in 0..EXPIRIES {
        let old = scene.expire(&id).await;
        let new = scene.storm(&id).await;

        assert_ne!(old, new);
        assert_eq!(scene.relay.statuses(), [200]);
        shown.extend(scene.relay.refreshes().into_iter().map(|one| one.shown));
    }

    assert_eq!(shown.len(), EXPIRIES, "each refresh token is shown once");
    assert_eq!(scene.relay.most_open(), 1);
    assert_eq!(scene.test(&id).await["ok"], true);
}
