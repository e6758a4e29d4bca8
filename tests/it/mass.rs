//! HL-06 on real databases: a provider refuses many at once. Nobody's agents stop, nobody is mailed; what stays refused is
//! failed when it has passed.

use std::{sync::Arc, time::Duration};

use holdfast_app::mail::Round;
use holdfast_core::Role;
use holdfast_sandbox::{Canned, Helpdesk};
use holdfast_tests::{
    database::Database,
    on_both,
    service::{LIFE, TestApp},
    smtp::Smtp,
};
use reqwest::Method;
use serde_json::{Value, json};

on_both! {
    many_refusals_at_once_are_held_and_only_what_stays_refused_is_failed,
    a_verdict_that_somebody_was_told_of_stands_until_the_provider_takes_it_back,
}

const ORGS: [&str; 3] = ["Acme", "Globex", "Initech"];
const OF_EACH: usize = 4;
/// A little more than a held verdict rests at most.
const PAUSE: Duration = Duration::from_mins(13);

struct House {
    app: TestApp,
    smtp: Smtp,
    /// Key of the org, id, helpdesk.
    connectors: Vec<(String, String, Helpdesk)>,
}

impl House {
    async fn new(db: &Arc<Database>) -> Self {
        let smtp = Smtp::start().await;
        let guard = |config: &mut holdfast_app::config::Config| config.refresh.mass_number = 4;
        let app = TestApp::builder(db).with(|config| smtp.configure(config)).with(guard).start().await;
        let mut connectors = Vec::new();
        for org in ORGS {
            // The key first: there is nobody yet to be mailed that it was made.
            let key = app.key_of(org).await;
            app.person(org, &format!("admin@{}.example", org.to_lowercase()), Role::Admin).await;
            for number in 0..OF_EACH {
                let account = format!("{}{number}", org.to_lowercase());
                let body = app.import_body(&account);
                let made = app.call(Method::POST, "/connectors", Some(&key), Some(body)).await.expect(201);
                connectors.push((key.clone(), made.text_of("id"), app.sandbox.helpdesk(&account).unwrap()));
            }
        }
        Self { app, smtp, connectors }
    }

    /// The token endpoint refuses every grant, or does its work again.
    fn refuse(&self, refuses: bool) {
        for (_, _, desk) in &self.connectors {
            let answer = refuses.then(|| Canned::new(400, json!({ "error": "invalid_grant" }).to_string()));
            desk.trouble(|faults| faults.token_answer = answer);
        }
    }

    async fn token(&self, place: usize) -> holdfast_tests::service::Answer {
        let (key, id, _) = &self.connectors[place];
        self.app.call(Method::GET, &format!("/connectors/{id}/token"), Some(key), None).await
    }

    async fn shown(&self) -> Vec<Value> {
        let mut shown = Vec::new();
        for (key, id, _) in &self.connectors {
            let path = format!("/connectors/{id}");
            shown.push(self.app.call(Method::GET, &path, Some(key), None).await.expect(200).json);
        }
        shown
    }

    async fn failed(&self) -> Vec<usize> {
        let shown = self.shown().await;
        (0..shown.len()).filter(|place| shown[*place]["health"] == "auth_failed").collect()
    }

    /// The workers' step, for refreshes and for mail.
    async fn look(&self) -> Round {
        self.app.app.scheduler().round().await.unwrap();
        self.app.app.mail_due().await.unwrap()
    }
}

/// HL-06
async fn many_refusals_at_once_are_held_and_only_what_stays_refused_is_failed(db: Arc<Database>) {
    let house = House::new(&db).await;
    let app = &house.app;
    let (key, first, _) = &house.connectors[0];
    let agent = json!({
        "sample": "annotate_urgent_tickets", "connectors": [{ "connector": first }], "trigger": { "kind": "manual" },
    });
    let agent = app.call(Method::POST, "/agents", Some(key), Some(agent)).await.expect(201).text_of("id");
    app.advance(LIFE);
    house.refuse(true);

    for place in 0..house.connectors.len() {
        let answer = house.token(place).await;
        if place < 3 {
            // Nobody can tell yet.
            let _declared = answer.problem(409, "connector_auth_failed");
        } else {
            let held = answer.problem(503, "refresh_unavailable");
            assert!(held.header("retry-after").parse::<u64>().unwrap() > 60, "{}", held.text);
        }
    }
    app.advance(Duration::from_secs(4));
    assert_eq!(house.look().await, Round::default(), "nobody is mailed");
    for shown in house.shown().await {
        assert_eq!((&shown["health"], &shown["degraded"]["class"]), (&json!("connected"), &json!("held")), "{shown}");
    }
    let agents = app.call(Method::GET, &format!("/agents/{agent}"), Some(key), None).await.expect(200);
    assert_eq!(agents.json["status"], "active");
    let metrics = app.plain("/metrics").await.1;
    assert!(metrics.contains("holdfast_held_verdicts 12"), "{metrics}");

    for _ in 0..2 {
        app.advance(PAUSE);
        assert_eq!(house.look().await, Round::default());
    }
    assert_eq!(house.failed().await, Vec::<usize>::new(), "tried again, refused again, and held");
    house.refuse(false);
    let gone = [1, 6];
    for place in gone {
        house.connectors[place].2.revoke(None);
    }
    for _ in 0..3 {
        app.advance(PAUSE);
        house.look().await;
    }
    app.advance(Duration::from_secs(4));
    house.look().await;

    assert_eq!(house.failed().await, gone);
    for (place, shown) in house.shown().await.iter().enumerate() {
        assert!(shown["degraded"].is_null() || gone.contains(&place), "{shown}");
        assert!(gone.contains(&place) || house.token(place).await.status == 200);
    }
    let told: Vec<_> = house.smtp.messages().await.into_iter().map(|message| message.subject).collect();
    assert_eq!(told.len(), 2, "the admins of those alone: {told:?}");
    assert_eq!(house.smtp.messages_to("admin@initech.example").await.len(), 0);
}

async fn a_verdict_that_somebody_was_told_of_stands_until_the_provider_takes_it_back(db: Arc<Database>) {
    let house = House::new(&db).await;
    house.app.advance(LIFE);
    house.refuse(true);
    let _declared = house.token(0).await.problem(409, "connector_auth_failed");
    house.app.advance(Duration::from_secs(4));
    assert_eq!(house.app.app.mail_due().await.unwrap().sent, 1);

    for place in 1..house.connectors.len() {
        house.token(place).await;
    }

    assert_eq!(house.failed().await, [0]);
    house.refuse(false);
    let (key, id, _) = &house.connectors[0];
    let _taken =
        house.app.call(Method::POST, &format!("/connectors/{id}/test"), Some(key), Some(json!({}))).await.expect(200);
    assert_eq!(house.failed().await, Vec::<usize>::new());
}
