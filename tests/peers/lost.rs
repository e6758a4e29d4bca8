//! A peer has rotated, and its answer never comes.

use std::{collections::BTreeSet, time::Duration};

use holdfast_tests::wait::within;
use reqwest::Method;
use serde_json::json;

use crate::{
    peer::{DJANGO, DJANGO_WITH_GRACE, Kind, OIDC},
    scene::Scene,
};

const BOUND: Duration = Duration::from_mins(1);
/// What callers read as long as it is not known whether an answer is lost.
const MAYBE: &str = "Nobody has to reconnect yet.";

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_oidc_provider_that_is_lost_is_said_to_be() {
    a_lost_answer_is_said_to_be(&OIDC).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_django_oauth_toolkit_that_is_lost_is_said_to_be() {
    a_lost_answer_is_said_to_be(&DJANGO).await;
}

async fn a_lost_answer_is_said_to_be(kind: &'static Kind) {
    let scene = Scene::set(kind).await;
    let id = scene.connect().await;
    scene.expire(&id).await;
    scene.relay.lose_the_next_answer();

    let first = scene.one.token(&id).await;
    let (last, _) = scene.two.token_in_the_end(&id, BOUND).await;

    assert_eq!((first.status.as_u16(), first.code()), (503, "refresh_unavailable"), "{first:?}");
    assert!(first.retry_after.is_some() && first.text("detail").ends_with(MAYBE), "{first:?}");
    assert_eq!((last.status.as_u16(), last.code()), (409, "connector_auth_failed"), "{last:?}");
    assert_eq!(scene.health(&id).await, ("auth_failed".to_owned(), "response_lost".to_owned()));
    // The lost one, the attempt after it, and the one that confirms what the peer says.
    assert_eq!(scene.relay.statuses(), [200, 400, 400]);
    let shown: BTreeSet<_> = scene.relay.refreshes().into_iter().map(|one| one.shown).collect();
    assert_eq!(shown.len(), 1);
    // The peer has taken the second one for a theft.
    let refreshes = scene.relay.refreshes();
    let unheard = refreshes[0].answer["access_token"].as_str().unwrap();
    assert!(!scene.peer.accepts(unheard).await, "the whole grant is over");
}

/// Callers are served meanwhile. But this peer has ended the old token with its rotation.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_django_oauth_toolkit_lost_ahead_of_the_end_is_noticed_by_whoever_uses_the_old_token() {
    let scene = Scene::set(&DJANGO).await;
    let id = scene.connect().await;
    let old = lose_an_answer_ahead_of_the_end(&scene, &id).await;

    assert!(!scene.peer.accepts(&old).await);
    let refused = json!({ "access_token": old });
    let told = scene.call(Method::POST, &format!("/connectors/{id}/token/rejected"), Some(refused)).await;
    assert_eq!((told.status.as_u16(), told.code()), (503, "refresh_unavailable"), "{told:?}");
    assert!(told.retry_after.is_some() && told.text("detail").ends_with(MAYBE), "{told:?}");
    is_lost_in_the_end(&scene, &id).await;
}

/// This one ends it once it is shown the refresh token again.
#[tokio::test(flavor = "multi_thread")]
async fn the_old_token_of_oidc_provider_works_until_a_lost_answer_is_asked_for_again() {
    let scene = Scene::set(&OIDC).await;
    let id = scene.connect().await;
    let old = lose_an_answer_ahead_of_the_end(&scene, &id).await;

    assert!(scene.peer.accepts(&old).await);
    is_lost_in_the_end(&scene, &id).await;
    assert!(!scene.peer.accepts(&old).await);
}

/// Whoever asks is served all the time; answers the old access token.
async fn lose_an_answer_ahead_of_the_end(scene: &Scene, id: &str) -> String {
    let old = scene.one.token(id).await.access_token().to_owned();
    scene.relay.forget();
    scene.relay.lose_the_next_answer();
    within("it is refreshed ahead of its end", BOUND, async || {
        let told = scene.one.token(id).await;
        assert_eq!(told.access_token(), old);
        if scene.relay.statuses() == [200] { Ok(()) } else { Err(told) }
    })
    .await;
    old
}

async fn is_lost_in_the_end(scene: &Scene, id: &str) {
    let verdict = within("the old token is over, and a verdict falls", BOUND, async || {
        let told = scene.two.token(id).await;
        if told.status == 409 { Ok(told) } else { Err(told) }
    });
    assert_eq!(verdict.await.code(), "connector_auth_failed");
    assert_eq!(scene.health(id).await, ("auth_failed".to_owned(), "response_lost".to_owned()));
    let statuses = scene.relay.statuses();
    // Each attempt is confirmed once: one ahead of the old token's end, and one after it.
    let expected = [200, 400, 400, 400, 400];
    assert!(statuses == expected || statuses == expected[..3], "{statuses:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_is_asked_for_again_inside_a_grace_and_no_caller_notices() {
    let scene = Scene::set(&DJANGO_WITH_GRACE).await;
    let id = scene.connect().await;
    scene.expire(&id).await;
    scene.relay.lose_the_next_answer();

    scene.storm(&id).await;

    let refreshes = scene.relay.refreshes();
    assert_eq!(scene.relay.statuses(), [200, 200]);
    assert_eq!(refreshes[0].shown, refreshes[1].shown);
    assert_eq!(refreshes[0].answer["access_token"], refreshes[1].answer["access_token"], "it is the same answer");
    assert_eq!(refreshes[0].answer["refresh_token"], refreshes[1].answer["refresh_token"]);
    scene.expire(&id).await;
    scene.storm(&id).await;
    assert_eq!(scene.relay.statuses(), [200], "the grant lives on");
    assert_eq!(scene.health(&id).await.0, "connected");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_killed_with_an_answer_under_way_costs_nobody_a_reconnect_inside_a_grace() {
    let scene = Scene::set(&DJANGO_WITH_GRACE).await;
    let id = scene.connect().await;
    scene.expire(&id).await;
    scene.relay.hold_answers(true);
    let call = tokio::spawn(scene.one.token_call(&id));
    within("the peer has rotated", BOUND, async || {
        let seen = scene.relay.refreshes().len();
        if seen == 1 { Ok(()) } else { Err(seen) }
    })
    .await;

    let Scene { one, two, relay, peer, .. } = scene;
    call.abort();
    one.kill().await;
    relay.hold_answers(false);
    let (answer, _) = two.token_in_the_end(&id, BOUND).await;

    assert!(peer.accepts(answer.access_token()).await);
    assert_eq!(relay.statuses(), [200, 200]);
    assert_eq!(two.show(&id).await["health"], "connected");
}
