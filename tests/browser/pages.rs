//! Every page of the UI with something on it, for everybody: axe, a phone's width, light and dark.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use holdfast_app::ui::{self, routes::Needs};
use holdfast_core::{
    Role,
    error::Retry,
    job::{Fault, Kind, Outcome},
};
use holdfast_store::{Attempt, JobsWanted, NewJob, NewUser, Turn};
use holdfast_tests::{
    chromium::Chromium,
    database::Database,
    days::deadline,
    people::PASSWORD,
    service::{LIFE, TestApp},
    wait::until,
};
use reqwest::Method;
use serde_json::json;

use crate::{revoke, service, sign_in};

const ADA: &str = "ada@example.com";
const BEA: &str = "bea@example.com";

/// Names that people give, and that some give to do harm.
const NAMES: [&str; 4] = [
    "דוד & Söhne <דסק>",
    "東京サポート 👩‍🚒",
    "\"><img src=x onerror=alert(1)>",
    "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
];

/// Declared, but no page: files, streams, answers to scripts, ways to somewhere else. `/setup` is shown before there is
/// anybody, and has a test of its own here; so has the sign-in.
const NO_PAGES: [&str; 13] = [
    "/",
    "/static/{file}",
    "/brand/{colour}",
    "/favicon.ico",
    "/robots.txt",
    "/setup",
    "/sign-in",
    "/sign-in/code",
    "/sign-in/callback",
    "/demo/open/{key}",
    "/events",
    "/connectors/new/{provider}/account",
    "/settings/audit/export",
];

/// The last part of an address.
fn last(address: &str) -> String {
    address.split('?').next().unwrap_or_default().rsplit('/').next().unwrap_or_default().to_owned()
}

/// A service in use.
struct House {
    app: TestApp,
    connector: String,
    /// One that was never connected.
    pending: String,
    agent: String,
    run: String,
    job: String,
    delivery: String,
    migration: String,
    endpoint: String,
    member: String,
}

impl House {
    async fn new(app: TestApp) -> Self {
        app.person_with("Acme", ADA, Role::Owner, true, PASSWORD).await;
        let ada = app.signed_in(ADA).await;
        let connector = app.import_with("acme", json!({ "name": NAMES[0], "alias": "old-7" })).await;
        for _ in 0..3 {
            app.advance(LIFE);
            let _fresh = app.token(&connector).await.expect(200);
        }
        let _tested = app.post(&format!("/connectors/{connector}/test"), json!({})).await.expect(200);

        let form = app.at("/agents/new?sample=annotate_urgent_tickets");
        let made = ada.press(&form, "/agents/new", &[("name", NAMES[2])]).await.expect(303);
        let agent = last(&made.location());
        let page = app.at(&format!("/agents/{agent}"));
        let started = ada.press(&page, &format!("/agents/{agent}/run"), &[]).await.expect(303);
        let run = last(&started.location());
        app.app.run_due_agents().await.unwrap();

        for name in ["Ticket assistant", NAMES[1]] {
            let fields = [("name", name), ("scope", "tokens:read")];
            let _made = ada.press(&app.at("/settings/keys"), "/settings/keys", &fields).await.expect(200);
        }
        let (_, pending) = app.link("pending").await;
        let job = job(&app, &connector).await;
        let hook = app.zendesk_hook("initech").await;
        assert_eq!(app.sent(&hook.event("1")).await, 200);
        let delivery = app.deliveries(&hook.connector).await[0]["id"].as_str().unwrap().to_owned();
        let day = deadline();
        let fields = [("provider", "zendesk"), ("deadline", &*day), ("reason", NAMES[2]), ("act", "start")];
        let started = ada.press(&app.at("/settings/migrations"), "/settings/migrations", &fields).await.expect(303);
        let migration = last(&started.location());
        let key = app.key_with(&["admin"]).await;
        let body = json!({ "url": "https://app.example.com/", "description": NAMES[1] });
        let made = app.call(Method::POST, "/event-endpoints", Some(&key), Some(body)).await.expect(201);
        let endpoint = made.text_of("id");
        let bea = NewUser {
            org: app.org.clone(),
            email: BEA.to_owned(),
            name: Some(NAMES[0].to_owned()),
            role: Role::Member,
            operator: false,
            password_hash: None,
            at: app.app.seams.clock.now(),
        };
        let member = app.app.store.create_user(&bea).await.unwrap().unwrap();
        let fields = [("email", "somebody.with.a.rather.long.name@branch.office.example"), ("role", "viewer")];
        let to = "/settings/team/invitations";
        let _link = ada.press(&app.at("/settings/team"), to, &fields).await.expect(200);
        Self { app, connector, pending, agent, run, job, delivery, migration, endpoint, member }
    }

    /// The path with what is here in it.
    fn path(&self, declared: &str) -> String {
        let id = match declared.split('/').nth(1) {
            Some("settings") if declared.contains("/event-endpoints/") => &self.endpoint,
            Some("settings") if declared.contains("/team/") => &self.member,
            Some("settings") => &self.migration,
            Some("agents") => &self.agent,
            Some("jobs") => &self.job,
            Some("deliveries") => &self.delivery,
            _ if declared == "/connectors/{id}/account" => &self.pending,
            _ => &self.connector,
        };
        let filled = declared.replace("{id}", id).replace("{provider}", "zendesk");
        let filled = filled.replace("{run}", &self.run).replace("{position}", "1");
        assert!(!filled.contains('{'), "say here what stands for the parts of {declared}");
        filled
    }
}

/// A job that has failed, of a kind that nobody works off here, with a name that somebody gave.
async fn job(app: &TestApp, connector: &str) -> String {
    let (store, at) = (&app.app.store, app.app.seams.clock.now());
    let job = NewJob {
        org: app.org.clone(),
        kind: Kind::Sync,
        key: "event 1".to_owned(),
        connector: Some(connector.into()),
        subject: NAMES[2].to_owned(),
        payload: json!({}),
        due_at: at,
        at,
    };
    let id = store.enqueue(&job).await.unwrap().id().to_string();
    let wanted = JobsWanted { kind: Kind::Sync, count: 1, per_connector: 1, lease: LIFE };
    let claims = store.claim_jobs(&wanted, &mut Turn::default(), at).await.unwrap();
    let attempt = Attempt {
        claimed: claims.jobs[0].clone(),
        outcome: Outcome::Failed(Fault::new("refused", NAMES[3]), Retry::Never),
        policy: app.app.config.jobs.policy(Kind::Sync),
        unit: 0.5,
        at,
    };
    store.settle_jobs(&[attempt]).await.unwrap();
    id
}

/// The name of a picture of a page.
fn named(declared: &str) -> String {
    let words = declared.trim_matches('/').replace(['{', '}'], "").replace('/', "-");
    format!("page-{words}")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_can_be_used_by_everybody() {
    let (_db, app) = service().await;
    let house = House::new(app).await;
    Chromium::visitor_of(&house.app)
        .run(async |chromium| {
            sign_in(&house.app, chromium, ADA, "/connectors").await;
            chromium.heading("Connectors").await;
            let mut looked_at = 0;
            for declared in ui::declared() {
                // Pages behind a link are looked at with one, in connect.rs and mail.rs.
                let none = declared.needs == Needs::Link || NO_PAGES.contains(&declared.path);
                if declared.method != "GET" || none || declared.path.starts_with("/demo/") {
                    continue;
                }
                let address = house.app.at(&house.path(declared.path));
                chromium.open(&address).await;
                assert_eq!(chromium.url().await.as_str(), address, "it is shown to its owner");
                let text = chromium.text().await;
                assert!(!text.contains("There is nothing here"), "{}: {text}", declared.path);
                chromium.inspect(&named(declared.path)).await;
                looked_at += 1;
            }
            assert!(looked_at >= 18, "{looked_at}");
        })
        .await;
}

/// HL-01
#[tokio::test(flavor = "multi_thread")]
async fn connectors_can_be_read_in_every_state() {
    let (_db, app) = service().await;
    app.person("Acme", ADA, Role::Admin).await;
    let fine = app.import_with("acme", json!({ "name": NAMES[0] })).await;
    let globex = app.sandbox.create_helpdesk("globex").unwrap();
    let failed = app.import_with("globex", json!({ "name": NAMES[2] })).await;
    revoke(&app, &globex, &failed).await;
    let long = app.sandbox.create_helpdesk("long").unwrap();
    let second = app.import_with("long", json!({ "name": NAMES[3] })).await;
    revoke(&app, &long, &second).await;
    let ends = json!({
        "provider": "zendesk", "account": "ends", "name": NAMES[1],
        "credential": { "access_token": "secret", "expires_in": 3600 },
    });
    let ends = app.post("/connectors", ends).await.expect(201).text_of("id");
    let (_, pending) = app.link("pending").await;
    let off = app.import_with("off", json!({ "name": "Off" })).await;
    let ada = app.signed_in(ADA).await;
    let to = format!("/connectors/{off}/disconnect");
    let _off = ada.press(&app.at(&to), &to, &[("name", "Off")]).await.expect(303);

    Chromium::visitor_of(&app)
        .run(async |chromium| {
            sign_in(&app, chromium, ADA, "/connectors").await;
            chromium.shows("Needs you").await;
            chromium.inspect("connectors-home").await;
            chromium.open(&app.at("/connectors?q=nothing&health=connected")).await;
            chromium.shows("No connector is like that").await;
            chromium.inspect("connectors-home-filtered").await;
            for (id, shows, name) in [
                (&fine, "Connected", "fine"),
                (&failed, "It stopped working", "failed"),
                (&ends, "The access ends", "ends"),
                (&pending, "Not connected yet", "pending"),
                (&off, "Disconnected", "off"),
            ] {
                chromium.open(&app.at(&format!("/connectors/{id}"))).await;
                chromium.shows(shows).await;
                chromium.inspect(&format!("connector-{name}")).await;
            }
            chromium.open(&app.at(&format!("/connectors/{pending}"))).await;
            chromium.follow("Discard").await;
            chromium.shows("It was never connected").await;
            chromium.inspect("connector-discard").await;
            // What can be unfolded.
            chromium.open(&app.at(&format!("/connectors/{failed}"))).await;
            chromium
                .driver()
                .execute("for (const one of document.querySelectorAll('details.more')) one.open = true", vec![])
                .await
                .unwrap();
            chromium.inspect("connector-failed-unfolded").await;
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_degraded_connector_and_a_failed_test_can_be_read() {
    let (_db, app) = service().await;
    app.person("Acme", ADA, Role::Admin).await;
    let id = app.import_with("acme", json!({ "name": "Support" })).await;
    Chromium::visitor_of(&app)
        .run(async |chromium| {
            sign_in(&app, chromium, ADA, &format!("/connectors/{id}")).await;
            app.acme.trouble(|faults| faults.api_answer = Some(holdfast_sandbox::Canned::new(500, "{}")));
            chromium.press("Test").await;
            chromium.focus_is_on("Test failed").await;
            chromium.inspect("connector-test-failed").await;
            app.acme.calm();

            app.advance(LIFE);
            app.sandbox.set_client_secret("another", None);
            let _told = app.token(&id).await.problem(502, "oauth_app_rejected");
            chromium.shows("refuses the OAuth app").await;
            chromium.inspect("connector-degraded").await;
            chromium.open(&app.at("/connectors")).await;
            chromium.shows("In trouble, being retried").await;
            chromium.inspect("connectors-home-degraded").await;
        })
        .await;
}

/// In place of the installation's, and what is left when it is taken out again.
#[tokio::test(flavor = "multi_thread")]
async fn an_own_oauth_app_is_entered_and_taken_out() {
    let (_db, app) = service().await;
    app.sandbox.register_client("acme-own", "own-secret");
    app.person("Acme", ADA, Role::Admin).await;
    app.import_with("acme", json!({ "name": NAMES[0] })).await;
    app.sandbox.create_helpdesk("own").unwrap();
    Chromium::visitor_of(&app)
        .run(async |chromium| {
            sign_in(&app, chromium, ADA, "/settings").await;
            chromium.open(&app.at("/settings/own-apps")).await;
            chromium.heading("Your OAuth apps").await;
            chromium.open(&app.at("/settings/own-apps/zendesk")).await;
            chromium.heading("Your Zendesk OAuth app").await;
            chromium.inspect("own-app-none").await;
            chromium.fill("Client id", "acme-own").await;
            chromium.fill("Client secret (optional)", "own-secret").await;
            chromium.press("Save").await;
            chromium.shows("Saved.").await;
            chromium.shows("You connect Zendesk with your own app").await;
            app.connect("own").await;
            chromium.open(&app.at("/settings/own-apps/zendesk")).await;
            chromium.shows("One connector rests on it").await;
            chromium.inspect("own-app-set").await;
            chromium.open(&app.at("/settings/own-apps")).await;
            chromium.inspect("own-apps").await;
            let ada = app.signed_in(ADA).await;
            let to = "/settings/own-apps/zendesk/remove";
            let _out = ada.press(&app.at("/settings/own-apps/zendesk"), to, &[("name", "Zendesk")]).await.expect(303);
            chromium.open(&app.at("/settings/own-apps/zendesk")).await;
            chromium.shows("An app that connectors need is gone").await;
            chromium.inspect("own-app-gone").await;
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_has_connectors_reconnected_by_a_day() {
    let (_db, app) = service().await;
    app.person_with("Acme", ADA, Role::Owner, true, PASSWORD).await;
    app.import_with("acme", json!({ "name": NAMES[3] })).await;
    Chromium::visitor_of(&app)
        .run(async |chromium| {
            sign_in(&app, chromium, ADA, "/settings/migrations").await;
            chromium.shows("None so far").await;
            let zendesk = "document.querySelector('#provider').value = 'zendesk'";
            chromium.driver().execute(zendesk, vec![]).await.unwrap();
            chromium.press("See whom it concerns").await;
            chromium.shows("It would ask for 1 connector of 1 organisation.").await;
            chromium.fill("Why", "Zendesk ends tokens that never expire").await;
            for (day, shows) in [("2020-04-01", "This day is not ahead"), (&*deadline(), "It is started.")] {
                let set = format!("document.querySelector('#deadline').value = '{day}'");
                chromium.driver().execute(set, vec![]).await.unwrap();
                chromium.press("Start it").await;
                chromium.shows(shows).await;
                chromium.inspect(&format!("migrations-{day}")).await;
            }
            chromium.shows("0 of 1 done").await;
            chromium.press("End it").await;
            chromium.press("End it now").await;
            chromium.shows("It is ended.").await;
            chromium.shows("Ended without these").await;
            chromium.inspect("migration-ended").await;
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_pages_say_what_comes_next() {
    let (_db, app) = service().await;
    app.person_with("Acme", ADA, Role::Admin, true, PASSWORD).await;
    app.person("Acme", BEA, Role::Viewer).await;
    Chromium::visitor_of(&app)
        .run(async |chromium| {
            sign_in(&app, chromium, ADA, "/connectors").await;
            chromium.shows("Nothing is connected yet").await;
            chromium.inspect("empty-connectors").await;
            chromium.open(&app.at("/connectors/new?q=%3Cb%3Enothing")).await;
            chromium.shows("Nothing here is called “<b>nothing”").await;
            chromium.inspect("empty-catalogue").await;
            chromium.open(&app.at("/connectors/new/zendesk")).await;
            chromium.fill("Zendesk subdomain", "-no-").await;
            chromium.press("Continue to Zendesk").await;
            chromium.heading("Connect Zendesk").await;
            chromium.shows("hyphen").await;
            chromium.inspect("connect-form-wrong").await;
            chromium.open(&app.at("/nothing/here")).await;
            chromium.heading("There is nothing here").await;
            // A status that is no success is said in the console, by the browser itself.
            chromium.inspect("trouble-nothing-here").await;
        })
        .await;
    Chromium::visitor_of(&app)
        .run(async |chromium| {
            sign_in(&app, chromium, BEA, "/connectors").await;
            chromium.shows("An admin of your organisation connects the first one").await;
            chromium.inspect("empty-connectors-viewer").await;
            chromium.open(&app.at("/connectors/new")).await;
            chromium.inspect("trouble-forbidden").await;
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ways_in_can_be_used_by_everybody() {
    let db = std::sync::Arc::new(Database::sqlite());
    let app = TestApp::builder(&db).at_localhost().start().await;
    let secret = async || app.app.store.find_instance_secret("setup").await.unwrap();
    let secret = until("the secret is made", secret, Option::is_some).await.unwrap();
    let link = app.at(&format!("/setup?token={}", URL_SAFE_NO_PAD.encode(secret)));
    Chromium::visitor_of(&app)
        .run(async |chromium| {
            chromium.open(&link).await;
            chromium.heading("Set up Holdfast").await;
            chromium.inspect("setup").await;
            chromium.fill("Organisation", NAMES[0]).await;
            chromium.fill("Your name", "Ada").await;
            chromium.fill("E-mail address", ADA).await;
            chromium.fill("Password", "short").await;
            chromium.press("Set up Holdfast").await;
            chromium.shows("8 characters").await;
            chromium.inspect("setup-wrong").await;
            chromium.fill("Password", PASSWORD).await;
            chromium.press("Set up Holdfast").await;
            chromium.heading("Connectors").await;
            chromium.inspect("setup-done").await;
        })
        .await;
    Chromium::visitor_of(&app)
        .run(async |chromium| {
            chromium.open(&app.at("/sign-in")).await;
            chromium.heading("Sign in").await;
            chromium.inspect("sign-in").await;
            chromium.fill("E-mail address", ADA).await;
            chromium.fill("Password", "wrong").await;
            chromium.press("Sign in").await;
            chromium.heading("Sign in").await;
            assert_eq!(chromium.value("E-mail address").await, ADA, "it is kept");
            chromium.inspect("sign-in-wrong").await;
        })
        .await;
}
