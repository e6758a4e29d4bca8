//! Whatever an org has, another one neither reads nor changes: every route of the API, with every scope, and the streams of
//! events. The pages have the same in `ui_roles`.

use std::{collections::BTreeMap, sync::Arc};

use holdfast_core::{Role, job::Kind, ports::Clock as _};
use holdfast_store::NewJob;
use holdfast_tests::{database::Database, on_both, service::TestApp};
use reqwest::Method;
use serde_json::{Value, json};

on_both! {
    no_route_of_the_api_reaches_what_another_org_has,
    no_stream_tells_of_what_another_org_has,
}

/// What Acme has, by the word that stands for it in a path.
struct Acme {
    connector: String,
    agent: String,
    run: String,
    job: String,
    delivery: String,
    endpoint: String,
}

impl Acme {
    async fn new(app: &TestApp) -> Self {
        let connector = app.import_with("acme", json!({ "name": "Acme help", "alias": "acme-7" })).await;
        let sample = json!({ "sample": "annotate_urgent_tickets", "connectors": [{ "connector": connector }] });
        let agent = app.post("/agents", sample).await.expect(201).text_of("id");
        let run = app.post(&format!("/agents/{agent}/run"), json!({})).await.expect(202).text_of("id");
        app.app.run_due_agents().await.unwrap();
        let hook = app.zendesk_hook("initech").await;
        assert_eq!(app.sent(&hook.event("evt-1")).await, 200);
        let delivery = app.deliveries(&hook.connector).await[0]["id"].as_str().unwrap().to_owned();
        let key = app.key_with(&["admin"]).await;
        let body = json!({ "url": "https://app.example.com/events" });
        let made = app.call(Method::POST, "/event-endpoints", Some(&key), Some(body)).await;
        let at = app.clock.now();
        let job = NewJob {
            org: app.org.clone(),
            kind: Kind::Mail,
            key: "acme's".to_owned(),
            connector: None,
            subject: "tickets".to_owned(),
            payload: json!({}),
            due_at: at,
            at,
        };
        let job = app.app.store.enqueue(&job).await.unwrap().id().to_string();
        Self { connector, agent, run, job, delivery, endpoint: made.expect(201).text_of("id") }
    }

    fn fill(&self, path: &str) -> String {
        let id = match path.split('/').nth(1) {
            Some("agents") => &self.agent,
            Some("jobs") => &self.job,
            Some("deliveries") => &self.delivery,
            Some("event-endpoints") => &self.endpoint,
            _ => &self.connector,
        };
        let filled = path.replace("{id}", id).replace("{run}", &self.run).replace("{tool}", "search_tickets");
        filled.replace("{path}", "api/v2/users/me.json")
    }

    /// None of them may stand in what somebody else is answered.
    fn names(&self) -> [&str; 7] {
        let Self { connector, agent, run, job, delivery, endpoint } = self;
        [connector, agent, run, job, delivery, endpoint, "Acme help"]
    }
}

/// All rows, but for signs of life and those of this org.
async fn kept(db: &Database, but: &str) -> BTreeMap<String, Vec<String>> {
    let mut content = db.content().await;
    content.remove("replicas");
    for rows in content.values_mut() {
        rows.retain(|row| !row.contains(but));
    }
    content
}

async fn no_route_of_the_api_reaches_what_another_org_has(db: Arc<Database>) {
    let app = TestApp::builder(&db).with(|config| config.sync.enabled = true).start().await;
    let acme = Acme::new(&app).await;
    let globex = app.app.store.ensure_org("Globex").await.unwrap();
    // All scopes but one, and that one: what keeps it out is whose key it is.
    let keys = [app.key_of("Globex").await, app.key_of_with("Globex", &["admin"]).await];
    let document = app.call(Method::GET, "/openapi.json", None, None).await.expect(200).json;
    let before = kept(&db, globex.as_str()).await;

    let mut asked = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            // Names what may be made of one's own; the connector in it is Acme's.
            let body = match (method.as_str(), path.as_str()) {
                ("POST", "/agents") => Some(json!({
                    "sample": "annotate_urgent_tickets", "connectors": [{ "connector": acme.connector }]
                })),
                ("POST", "/connectors" | "/connect-sessions" | "/event-endpoints") => continue,
                ("POST", path) if path.ends_with("/rejected") => Some(json!({ "access_token": "x" })),
                ("POST", path) if path.ends_with("/replay") => Some(json!({ "since": "2026-01-01T00:00:00Z" })),
                ("POST" | "PATCH", _) => Some(json!({})),
                _ => None,
            };
            for key in &keys {
                let answer = app.call(method.clone(), &acme.fill(path), Some(key), body.clone()).await;
                asked += 1;
                let named = path.contains("{id}");
                assert!(
                    !named || matches!(answer.status, 403 | 404),
                    "{method} {path}: {} {}",
                    answer.status,
                    answer.text
                );
                let told =
                    acme.names().into_iter().find(|name| !acme.fill(path).contains(name) && answer.text.contains(name));
                assert_eq!(told, None, "{method} {path}: {}", answer.text);
            }
        }
    }

    assert!(asked > 60, "{asked} calls");
    assert_eq!(kept(&db, globex.as_str()).await, before, "nothing of anybody else has changed");
    let list: Value = app.get("/connectors").await.expect(200).json;
    assert_eq!(list["data"].as_array().unwrap().len(), 2);
}

async fn no_stream_tells_of_what_another_org_has(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let acme = Acme::new(&app).await;
    for role in Role::ALL {
        let stranger = app.somebody_of("Globex", role).await;
        let ours = app.somebody(role).await;
        for path in [format!("/events?connector={}", acme.connector), format!("/events?agent={}", acme.agent)] {
            let open = async |browser: &holdfast_tests::browser::Browser| {
                let asked = browser.request(Method::GET, &app.at(&path)).header("accept", "text/event-stream");
                asked.send().await.unwrap().status().as_u16()
            };
            assert_eq!((open(&stranger.browser).await, open(&ours.browser).await), (404, 200), "{path} {role:?}");
        }
    }
}
