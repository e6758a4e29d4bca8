//! An organisation's own OAuth app: what is connected with it, and what stays with another one. The sandbox refuses a grant
//! that comes with another client than the one it was given to.

use std::{sync::Arc, time::Duration};

use holdfast_core::Role;
use holdfast_sandbox::CLIENT_ID;
use holdfast_tests::{
    browser::{Browser, Page},
    database::Database,
    html::Html,
    on_both,
    people::Person,
    service::{LIFE, TestApp},
    wait::until,
};
use serde_json::{Value, json};

on_both! {
    new_consents_go_to_the_own_app_and_what_was_connected_before_keeps_its_app,
    an_own_app_that_is_taken_out_leaves_its_connectors_degraded_until_it_is_back,
    another_client_in_its_place_renews_nothing_of_the_first,
    a_consent_is_finished_with_the_app_that_it_was_begun_with,
    a_refused_own_app_is_told_to_its_admins_and_cured_without_consent,
    an_own_app_is_one_organisations_alone,
    an_own_app_is_checked_before_it_is_saved,
}

const PAGE: &str = "/settings/own-apps/zendesk";
const OWN: &str = "acme-own";
const SECRET: &str = "own-secret";

/// With the instance's app of the configuration, and a client that Acme registered itself.
async fn start(db: &Arc<Database>) -> (TestApp, Person) {
    let app = TestApp::start(db).await;
    app.sandbox.register_client(OWN, SECRET);
    app.sandbox.create_helpdesk("own").unwrap();
    let admin = app.somebody(Role::Admin).await;
    (app, admin)
}

async fn open(person: &Person) -> Html {
    person.browser.open(&person.url(PAGE)).await
}

async fn save(person: &Person, client_id: &str, secret: &str) -> Page {
    let form = open(person).await.form(PAGE).with("client_id", client_id).with("client_secret", secret);
    person.browser.send_form(&form).await
}

async fn take_out(person: &Person) -> Html {
    let remove = open(person).await.form(&format!("{PAGE}/remove")).with("name", "Zendesk");
    let (at, page) = person.browser.follow(&remove).await;
    page.html(&at)
}

#[track_caller]
fn says(page: &Html, words: &str) {
    assert!(page.text.contains(words), "{words:?} is not in: {}", page.text);
}

/// The client that a consent of this link is for.
async fn client_of(link: &str) -> String {
    let authorize = url::Url::parse(&Browser::new().post(link).await.location()).unwrap();
    authorize.query_pairs().find(|(name, _)| name == "client_id").unwrap().1.into_owned()
}

async fn degraded(app: &TestApp, id: &str) -> Value {
    let shown = app.show(id).await;
    assert_eq!(shown["health"], "connected", "nothing has failed");
    shown["degraded"]["class"].clone()
}

/// What ended while nobody refreshed it, a scheduler spreads over some minutes.
async fn refresh_what_is_due(app: &TestApp) {
    let mut scheduler = app.app.scheduler();
    scheduler.round().await.unwrap();
    app.advance(Duration::from_mins(6));
    scheduler.round().await.unwrap();
}

async fn new_consents_go_to_the_own_app_and_what_was_connected_before_keeps_its_app(db: Arc<Database>) {
    let (app, admin) = start(&db).await;
    let before = app.connect("acme").await;
    says(&open(&admin).await, "This installation has an app for Zendesk, and you connect with that.");

    let page = save(&admin, OWN, SECRET).await;

    assert_eq!((page.status, page.location()), (303, format!("{PAGE}?done=saved")), "{}", page.text);
    let html = open(&admin).await;
    says(&html, "You connect Zendesk with your own app.");
    says(&html, "One connector was connected with this installation's app, and stays with it");
    assert_eq!(client_of(&app.link("own").await.0).await, OWN);
    let after = app.connect("own").await;
    for round in 2..4 {
        app.advance(LIFE);
        for id in [&before, &after] {
            assert_eq!(app.token(id).await.expect(200).json["version"], round);
        }
    }

    let link = app.reconnect_link(&before).await;
    assert_eq!(client_of(&link).await, OWN);
    assert_eq!(app.consent(&link).await.title(), "Connected");
    app.advance(LIFE);
    let _fresh = app.token(&before).await.expect(200);
    says(&open(&admin).await, "2 connectors rest on it.");
    assert!(!String::from_utf8_lossy(&db.dump().await).contains(SECRET), "it is sealed");
}

async fn an_own_app_that_is_taken_out_leaves_its_connectors_degraded_until_it_is_back(db: Arc<Database>) {
    let (app, admin) = start(&db).await;
    assert_eq!(save(&admin, OWN, SECRET).await.status, 303);
    let id = app.connect("own").await;
    says(&open(&admin).await, "What you connect afterwards goes through this installation's app");

    let html = take_out(&admin).await;

    says(&html, "The app is taken out.");
    says(&html, &format!("One connector was connected with your client {OWN}, which is not set up here any more"));
    app.advance(LIFE);
    let told = app.token(&id).await.problem(502, "oauth_app_rejected");
    assert!(told.text.contains(OWN) && told.text.contains("Your OAuth apps"), "{}", told.text);
    refresh_what_is_due(&app).await;
    assert_eq!(degraded(&app, &id).await, "app_broken");
    let page = admin.open(&format!("/connectors/{id}")).await.expect(200);
    assert!(page.says("refuses your organisation's own OAuth app that this was connected with"), "{}", page.text);
    assert!(page.text.contains(&format!("href=\"{PAGE}\"")), "{}", page.text);
    assert_eq!(client_of(&app.link("acme").await.0).await, CLIENT_ID, "new ones go to the instance's again");

    assert_eq!(save(&admin, OWN, SECRET).await.status, 303);

    let class = async || degraded(&app, &id).await;
    until("it goes on with the same client, by itself", class, Value::is_null).await;
    assert_eq!(app.token(&id).await.expect(200).json["version"], 2);
}

async fn another_client_in_its_place_renews_nothing_of_the_first(db: Arc<Database>) {
    let (app, admin) = start(&db).await;
    app.sandbox.register_client("acme-second", "second-secret");
    assert_eq!(save(&admin, OWN, SECRET).await.status, 303);
    let id = app.connect("own").await;

    let asked = save(&admin, "acme-second", "second-secret").await;
    assert_eq!(asked.status, 422);
    let html = asked.html(&app.base);
    says(&html, &format!("One connector was authorised for the client {OWN}."));
    let sure = html.form(PAGE).ticked("confirm", "yes").with("client_secret", "second-secret");
    assert_eq!(admin.browser.send_form(&sure).await.status, 303);

    app.advance(LIFE);
    let _told = app.token(&id).await.problem(502, "oauth_app_rejected");
    refresh_what_is_due(&app).await;
    assert_eq!(degraded(&app, &id).await, "app_broken");
    let shown = app.sandbox.helpdesk("own").unwrap().ledger().presentations.len();
    assert_eq!(shown, 0, "its token was shown to nobody with another client");
    assert_eq!(app.consent(&app.reconnect_link(&id).await).await.title(), "Connected");
    app.advance(LIFE);
    let _fresh = app.token(&id).await.expect(200);
    assert!(!open(&admin).await.text.contains(OWN), "nothing needs the first one any more");
}

async fn a_consent_is_finished_with_the_app_that_it_was_begun_with(db: Arc<Database>) {
    let (app, admin) = start(&db).await;
    let begin = async |account: &str| {
        let ((link, id), browser) = (app.link(account).await, Browser::new());
        let back = app.sandbox.consent(&browser.post(&link).await.location(), "ada").unwrap();
        (id, browser, back)
    };
    let (first, browser, back) = begin("acme").await;
    assert_eq!(save(&admin, OWN, SECRET).await.status, 303);

    let page = browser.get(&back).await;

    assert_eq!(page.title(), "Connected", "{}", page.text);
    app.advance(LIFE);
    let _fresh = app.token(&first).await.expect(200);

    let (second, browser, back) = begin("own").await;
    take_out(&admin).await;
    let page = browser.get(&back).await;
    assert_eq!((page.status, page.title()), (409, "The OAuth app was replaced meanwhile"), "{}", page.text);
    assert_eq!(app.show(&second).await["health"], "pending");
    assert_eq!(app.sandbox.helpdesk("own").unwrap().counters().code_exchanges, 0);
}

async fn a_refused_own_app_is_told_to_its_admins_and_cured_without_consent(db: Arc<Database>) {
    let (app, admin) = start(&db).await;
    let fine = app.import("acme").await;
    assert_eq!(save(&admin, OWN, SECRET).await.status, 303);
    let id = app.connect("own").await;
    app.sandbox.register_client(OWN, "rotated-there");
    app.advance(LIFE);

    let _told = app.token(&id).await.problem(502, "oauth_app_rejected");

    assert_eq!(degraded(&app, &id).await, "app_broken");
    let _fresh = app.token(&fine).await.expect(200);
    assert_eq!(degraded(&app, &fine).await, Value::Null);
    says(&open(&admin).await, "Zendesk refuses this client");
    let home = admin.open("/settings").await;
    assert!(home.says("Your OAuth apps Needs you"), "{}", home.text);
    app.app.store.note_app_troubles(app.app.seams.clock.now()).await.unwrap();
    let troubles = async |of: &str| db.number(&format!("SELECT COUNT(*) FROM app_troubles WHERE org_id IS {of}")).await;
    assert_eq!((troubles("NOT NULL").await, troubles("NULL").await), (1, 0), "no operator can mend it");

    assert_eq!(save(&admin, OWN, "rotated-there").await.status, 303);
    let class = async || degraded(&app, &id).await;
    until("it goes on", class, Value::is_null).await;
    // Rotated once more, with both known here for a while.
    app.sandbox.register_client(OWN, "third");
    let form = open(&admin).await.form(PAGE).with("next_client_secret", "third");
    assert_eq!(admin.browser.send_form(&form).await.status, 303);
    app.advance(LIFE);
    let _fresh = app.token(&id).await.expect(200);
}

async fn an_own_app_is_one_organisations_alone(db: Arc<Database>) {
    let app = TestApp::builder(&db).with(|config| config.oauth_apps.clear()).start().await;
    app.sandbox.register_client(OWN, SECRET);
    let (admin, stranger) = (app.somebody(Role::Owner).await, app.somebody_of("Globex", Role::Owner).await);
    let theirs = app.key_of("Globex").await;
    assert_eq!(save(&admin, OWN, SECRET).await.status, 303);

    let available = async |key: &str| {
        let all = app.call(reqwest::Method::GET, "/providers", Some(key), None).await.expect(200).json;
        let all = all["data"].as_array().unwrap().clone();
        all.into_iter().find(|provider| provider["id"] == "zendesk").unwrap()["available"].clone()
    };
    assert_eq!((available(&app.key).await, available(&theirs).await), (json!(true), json!(false)));
    let id = app.connect("acme").await;
    app.advance(LIFE);
    let _fresh = app.token(&id).await.expect(200);

    for path in ["/settings/own-apps", PAGE, "/connectors/new"] {
        let page = stranger.open(path).await.expect(200);
        assert!(!page.text.contains(OWN), "{path}: {}", page.text);
    }
    let account = json!({ "provider": "zendesk", "account": "own" });
    let link = app.call(reqwest::Method::POST, "/connect-sessions", Some(&theirs), Some(account)).await.expect(201);
    let refused = Browser::new().post(&link.text_of("url")).await;
    assert_eq!((refused.status, refused.title()), (503, "Zendesk cannot be connected yet"), "{}", refused.text);
    // What is sent to Globex' page changes nothing of Acme's.
    let form = open(&stranger).await.form(PAGE).with("client_id", "globex-own").with("client_secret", "x");
    assert_eq!(stranger.browser.send_form(&form).await.status, 303);
    says(&open(&admin).await, "One connector rests on it.");
    assert_eq!(client_of(&app.link("second").await.0).await, OWN);
}

async fn an_own_app_is_checked_before_it_is_saved(db: Arc<Database>) {
    let (app, admin) = start(&db).await;
    app.import("acme").await;

    let wrong = save(&admin, OWN, "not-its-secret").await;
    let instances = save(&admin, CLIENT_ID, "anything").await;

    assert_eq!((wrong.status, instances.status), (422, 422));
    says(&wrong.html(&app.base), "Zendesk refuses this client id and secret (invalid_client). Nothing was saved;");
    assert!(!wrong.text.contains("not-its-secret"), "{}", wrong.text);
    says(&instances.html(&app.base), "This installation connects with this client already.");
    assert_eq!(db.number("SELECT COUNT(*) FROM own_oauth_apps").await, 0);
    assert_eq!(save(&admin, OWN, SECRET).await.status, 303);
    says(&open(&admin).await, "Taken by Zendesk");
    // Nobody could be asked at another organisation's account.
    let stranger = app.somebody_of("Globex", Role::Owner).await;
    assert_eq!(save(&stranger, "globex-own", "x").await.status, 303);
    says(&open(&stranger).await, "Not checked yet");
}
