//! HL-06: a provider refuses thousands at once.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use holdfast_core::{
    AppId, AuthError, ConnectorId, Engine, Health,
    credential::{Reason, Trouble},
    health::Effect,
    ports::{Body, CredentialStore as _, Http, HttpFailure, HttpRequest, HttpResponse},
};
use http::{HeaderMap, StatusCode};
use serde_json::json;

use crate::{HOUR, Rig, ask, ask_token, refresh_due};

const MINUTE: Duration = Duration::from_mins(1);

/// A token endpoint for many grants, each named by its connector.
#[derive(Default)]
struct Many {
    refusing: AtomicBool,
    revoked: Mutex<HashSet<String>>,
    posts: AtomicUsize,
}

impl Many {
    fn refuse(&self, refusing: bool) {
        self.refusing.store(refusing, Ordering::SeqCst);
    }
}

#[async_trait]
impl Http for Many {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpFailure> {
        self.posts.fetch_add(1, Ordering::SeqCst);
        let Body::Bytes(body) = &request.body else { panic!("a token request is in memory") };
        let fields: Vec<(String, String)> = url::form_urlencoded::parse(body).into_owned().collect();
        let token = &fields.iter().find(|(name, _)| name == "refresh_token").unwrap().1;
        let (name, number) = token.split_once('.').unwrap();
        let refused = self.refusing.load(Ordering::SeqCst) || self.revoked.lock().unwrap().contains(name);
        let (status, body) = if refused {
            (400, json!({ "error": "invalid_grant" }))
        } else {
            let next = format!("{name}.{}", number.parse::<u32>().unwrap() + 1);
            (200, json!({ "access_token": format!("at-{next}"), "refresh_token": next, "expires_in": 3600 }))
        };
        let body = stream::iter([Ok(Bytes::from(body.to_string()))]).boxed();
        Ok(HttpResponse { status: StatusCode::from_u16(status).unwrap(), headers: HeaderMap::new(), body })
    }
}

/// So many connectors whose access tokens are over.
fn over(rig: &Rig, name: &str, number: usize) -> Vec<ConnectorId> {
    let connect = |number| {
        let name = format!("{name}{number}");
        rig.store.connect(&name, &(format!("at-{name}.1"), format!("{name}.1")), Duration::ZERO)
    };
    (0..number).map(connect).collect()
}

async fn ask_all(engine: &Arc<Engine>, connectors: &[ConnectorId]) -> Vec<AuthError> {
    let asked = connectors.iter().map(|connector| ask(engine, connector));
    futures::future::join_all(asked).await.into_iter().filter_map(Result::err).collect()
}

fn failed(rig: &Rig) -> usize {
    rig.store.all().iter().filter(|row| row.health == Health::AuthFailed).count()
}

fn mailed(rig: &Rig) -> usize {
    rig.store.effects().iter().filter(|(_, _, effect)| *effect == Effect::MailAdmins).count()
}

/// The scheduler's rounds over this time.
async fn run(rig: &Rig, engine: &Arc<Engine>, time: Duration) {
    for _ in 0..time.as_secs() / 60 {
        refresh_due(rig, engine).await;
        rig.pass(MINUTE).await;
    }
}

/// HL-06, with its numbers.
#[tokio::test(start_paused = true)]
async fn two_hundred_at_once_are_held_and_ten_are_failed_when_it_has_passed() {
    let (rig, provider) = (Rig::new(), Arc::new(Many::default()));
    let engine = rig.replica_on("a", provider.clone()).0;
    let connectors = over(&rig, "con", 200);
    provider.refuse(true);

    let errors = ask_all(&engine, &connectors).await;
    assert_eq!(errors.len(), 200);
    assert_eq!(failed(&rig), 0, "the first verdicts are taken back as well");
    for error in &errors[errors.len() / 2..] {
        assert!(matches!(error, AuthError::Unavailable { class: Trouble::Held, .. }), "{error:?}");
    }
    run(&rig, &engine, MINUTE * 30).await;
    assert_eq!(failed(&rig), 0);
    let posts = provider.posts.load(Ordering::SeqCst);
    assert!(posts <= 200 * 2 * 6, "tried again slowly: {posts}");

    provider.refuse(false);
    provider.revoked.lock().unwrap().extend(connectors[..10].iter().map(ToString::to_string));
    run(&rig, &engine, HOUR).await;

    assert_eq!(failed(&rig), 10);
    assert!(connectors[..10].iter().all(|connector| rig.store.row(connector).health == Health::AuthFailed));
    assert!(rig.store.all().iter().all(|row| row.credential.degraded.is_none() || row.health == Health::AuthFailed));
    let reasons = connectors[..10].iter().map(|connector| rig.store.row(connector).health_reason);
    assert!(reasons.into_iter().all(|reason| reason == Some(Reason::RefreshRefused)));
    let incident = rig.store.replica().incident(&AppId::instance("fake")).await.unwrap().unwrap();
    assert!(incident.passed && incident.recovered > 100, "{incident:?}");
}

#[tokio::test(start_paused = true)]
async fn a_few_refusals_are_verdicts_at_once() {
    let (rig, provider) = (Rig::new(), Arc::new(Many::default()));
    let engine = rig.replica_on("a", provider.clone()).0;
    assert!(ask_all(&engine, &over(&rig, "well", 20)).await.is_empty());
    let connectors = over(&rig, "con", 19);
    provider.refuse(true);

    for connector in &connectors {
        let error = ask(&engine, connector).await.unwrap_err();
        assert!(matches!(error, AuthError::AuthFailed { .. }), "{error:?}");
    }
    assert_eq!((failed(&rig), mailed(&rig)), (19, 19));
}

/// The verdict of a replica that has heard nothing else: what one knows all know.
#[tokio::test(start_paused = true)]
async fn an_incident_is_every_replicas() {
    let (rig, provider) = (Rig::new(), Arc::new(Many::default()));
    let (one, other) = (rig.replica_on("a", provider.clone()).0, rig.replica_on("b", provider.clone()).0);
    let connectors = over(&rig, "con", 13);
    provider.refuse(true);
    ask_all(&one, &connectors[..12]).await;

    let error = ask(&other, &connectors[12]).await.unwrap_err();

    assert!(matches!(error, AuthError::Unavailable { class: Trouble::Held, .. }), "{error:?}");
    assert_eq!(failed(&rig), 0);
}

/// What an org did to its own app is no incident of the provider, and an incident of another app is no excuse for it.
#[tokio::test(start_paused = true)]
async fn the_refusals_of_one_app_hold_no_verdict_of_another() {
    let (rig, provider) = (Rig::new(), Arc::new(Many::default()));
    let engine = rig.replica_on("a", provider.clone()).0;
    let (instance, own) = (over(&rig, "con", 12), over(&rig, "own", 3));
    let app = AppId::own("fake", "org".into(), "client");
    for connector in &own {
        rig.store.change(connector, |row| row.credential.app = app.clone());
    }
    provider.refuse(true);

    let before = ask(&engine, &own[0]).await.unwrap_err();
    ask_all(&engine, &instance).await;
    let after = ask(&engine, &own[1]).await.unwrap_err();

    for error in [before, after] {
        assert!(matches!(error, AuthError::AuthFailed { .. }), "{error:?}");
    }
    assert_eq!(failed(&rig), 2, "and none of the instance's");
    let incident = async |app: &AppId| rig.store.replica().incident(app).await.unwrap();
    assert_eq!(incident(&AppId::instance("fake")).await.unwrap().held, 12);
    assert_eq!(incident(&app).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_lives_is_served_while_its_verdict_is_held() {
    let (mut rig, provider) = (Rig::new(), Arc::new(Many::default()));
    rig.settings.mass_number = 1;
    let engine = rig.replica_on("a", provider.clone()).0;
    let [connector] = over(&rig, "con", 1).try_into().unwrap();
    let token = ask_token(&engine, &connector).await;
    provider.refuse(true);
    rig.pass(MINUTE * 56).await;
    refresh_due(&rig, &engine).await;

    assert_eq!(rig.store.row(&connector).credential.degraded.unwrap().class, Trouble::Held);
    assert_eq!(ask_token(&engine, &connector).await, token);
}

/// Somebody has to hear of it at some time.
#[tokio::test(start_paused = true)]
async fn what_is_refused_for_hours_is_failed() {
    let (rig, provider) = (Rig::new(), Arc::new(Many::default()));
    let engine = rig.replica_on("a", provider.clone()).0;
    let connectors = over(&rig, "con", 20);
    provider.refuse(true);
    ask_all(&engine, &connectors).await;

    run(&rig, &engine, HOUR * 5).await;
    assert_eq!(failed(&rig), 0);
    run(&rig, &engine, HOUR * 2).await;
    assert_eq!(failed(&rig), 20);
}
