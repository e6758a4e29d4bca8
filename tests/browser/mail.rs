//! With the mail and a browser alone: how a mail looks, and how its link leads to a connector that works again.

use std::time::Duration;

use axum::{Router, http::StatusCode, response::Html, routing::get};
use holdfast_core::{Role, ports::Clock as _};
use holdfast_store::NewUser;
use holdfast_tests::{
    chromium::{Chromium, Visitor},
    database::Database,
    service::TestApp,
    smtp::{Message, Smtp},
};
use serde_json::json;
use tokio::net::TcpListener;

const CONTINUE: &str = "Continue to Zendesk";
const CONSENT: &str = "Allow Holdfast to access Acme?";

/// A service with a mail server, and one admin.
struct Post {
    _db: std::sync::Arc<Database>,
    app: TestApp,
    smtp: Smtp,
}

impl Post {
    async fn start() -> Self {
        let (db, smtp) = (std::sync::Arc::new(Database::sqlite()), Smtp::start().await);
        let app = TestApp::builder(&db).at_localhost().with(|config| smtp.configure(config)).start().await;
        let ada = NewUser {
            org: app.org.clone(),
            email: "ada@acme.example".to_owned(),
            name: Some("Ada".to_owned()),
            role: Role::Owner,
            operator: false,
            password_hash: None,
            at: app.clock.now(),
        };
        app.app.store.create_user(&ada).await.unwrap().unwrap();
        Self { _db: db, app, smtp }
    }

    /// Connects these, and lets all of them fail; the mail about it.
    async fn failed(&self, desks: &[(&str, &str)]) -> (Vec<String>, Message) {
        let mut ids = Vec::new();
        for (account, name) in desks {
            ids.push(self.app.import_with(account, json!({ "name": name })).await);
        }
        for (id, (account, _)) in ids.iter().zip(desks) {
            let token = self.app.token(id).await.expect(200).text_of("access_token");
            self.app.sandbox.helpdesk(account).unwrap().revoke(None);
            let path = format!("/connectors/{id}/token/rejected");
            let _told =
                self.app.post(&path, json!({ "access_token": token })).await.problem(409, "connector_auth_failed");
        }
        (ids, self.told().await)
    }

    /// The next mail.
    async fn told(&self) -> Message {
        self.app.advance(Duration::from_secs(4));
        assert_eq!(self.app.app.mail_due().await.unwrap().sent, 1);
        self.smtp.messages().await.pop().unwrap()
    }
}

async fn goes_through(visitor: impl FnOnce(&TestApp) -> Visitor, name: &str) {
    let post = Post::start().await;
    let (ids, message) = post.failed(&[("acme", "Acme support")]).await;
    let [link] = message.reconnect_links().try_into().unwrap();
    visitor(&post.app)
        .run(async |chromium| {
            chromium.open(&link).await;
            chromium.heading("Reconnect Acme support").await;
            chromium.picture(&format!("{name}-1-link")).await;
            chromium.press(CONTINUE).await;
            chromium.heading(CONSENT).await;
            chromium.press("Allow").await;
            chromium.heading("Acme support is reconnected").await;
            // The same mail once more.
            chromium.open(&link).await;
            chromium.heading("Already reconnected").await;
            chromium.shows("Ada (at Zendesk as Ada Admin) reconnected it on").await;
            chromium.picture(&format!("{name}-2-again")).await;
        })
        .await;
    let shown = post.app.show(&ids[0]).await;
    assert_eq!((&shown["health"], &shown["credential"]["version"]), (&json!("connected"), &json!(2)), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connector_is_repaired_from_its_mail_with_scripts() {
    goes_through(Chromium::visitor_of, "mail-reconnect").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connector_is_repaired_from_its_mail_without_scripts() {
    let visitor = |app: &TestApp| Chromium::visitor_of(app).without_scripts();
    goes_through(visitor, "mail-reconnect-without-scripts").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_link_can_be_read_by_everybody() {
    let post = Post::start().await;
    let (_, message) = post.failed(&[("acme", "Acme support")]).await;
    let [link] = message.reconnect_links().try_into().unwrap();
    Chromium::visitor_of(&post.app)
        .run(async |chromium| {
            chromium.open(&link).await;
            chromium.heading("Reconnect Acme support").await;
            chromium.inspect("mail-link").await;
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_button_that_is_pressed_twice_connects_once() {
    let post = Post::start().await;
    let (ids, message) = post.failed(&[("acme", "Acme support")]).await;
    let [link] = message.reconnect_links().try_into().unwrap();
    Chromium::visitor_of(&post.app)
        .run(async |chromium| {
            chromium.open(&link).await;
            chromium.press_twice(CONTINUE).await;
            chromium.heading(CONSENT).await;
            chromium.press("Allow").await;
            chromium.heading("Acme support is reconnected").await;
        })
        .await;
    assert_eq!(post.app.show(&ids[0]).await["credential"]["version"], 2);
}

/// As a mail program without special wishes shows them.
#[tokio::test(flavor = "multi_thread")]
async fn mails_can_be_read_by_everybody() {
    let post = Post::start().await;
    let (ids, one) = post.failed(&[("acme", "Acme support")]).await;
    let body = json!({
        "sample": "annotate_urgent_tickets", "name": "Annotate urgent tickets",
        "connectors": [{ "connector": ids[0] }], "trigger": { "kind": "manual" },
    });
    let _agent = post.app.post("/agents", body).await.expect(201);
    let page = post.app.consent(&post.app.reconnect_link(&ids[0]).await).await;
    assert_eq!(page.title(), "Connected");
    let back = post.told().await;
    post.app.advance(Duration::from_mins(6));
    let long = "A helpdesk with quite a long name that somebody gave it one day, and nobody has shortened since";
    let (_, several) = post.failed(&[("globex", "Globex"), ("initech", long), ("hooli", "הולי 東京")]).await;

    post.app.advance(Duration::from_hours(24));
    post.app.app.mail_due().await.unwrap();
    let waiting = post.told().await;
    assert!(waiting.subject.contains("still need you"), "{}", waiting.subject);

    for (name, message) in
        [("needs-you", &one), ("several-need-you", &several), ("still-waiting", &waiting), ("back-again", &back)]
    {
        can_be_read(name, message).await;
    }
}

/// Looks at a mail in both widths and schemes.
pub(crate) async fn can_be_read(name: &str, message: &Message) {
    let html = message.html.clone();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let site = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new()
        .route("/", get(move || async move { Html(html) }))
        .route("/favicon.ico", get(async || StatusCode::NO_CONTENT));
    let server = tokio::spawn(async move { axum::serve(listener, router).await });
    Chromium::visitor(&[&site])
        .run(async |chromium| {
            chromium.open(&site).await;
            chromium.inspect(&format!("mail-{name}")).await;
        })
        .await;
    server.abort();
}
