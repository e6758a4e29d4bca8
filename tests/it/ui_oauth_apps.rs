//! The instance's OAuth apps in a browser: set, refused, rotated, and at work on every replica.

use std::{sync::Arc, time::Duration};

use chrono::Days;
use holdfast_core::Role;
use holdfast_sandbox::{CLIENT_ID, CLIENT_SECRET, Canned};
use holdfast_tests::{
    browser::{Browser, Page},
    database::Database,
    html::{Form, Html},
    on_both,
    service::{LIFE, TestApp},
    wait::until,
};

on_both! {
    an_app_that_is_set_in_the_ui_connects_and_refreshes,
    a_provider_without_an_app_says_what_is_to_be_done,
    the_redirect_uri_to_copy_is_the_one_that_is_sent,
    a_refused_secret_is_not_saved_and_the_right_one_cures_without_consent,
    a_secret_is_rotated_without_a_break,
    a_secret_that_nobody_could_be_asked_about_is_saved_and_says_so,
    the_configuration_goes_first_and_is_not_changed_here,
    the_end_of_a_secret_is_told_on_the_page,
    another_client_is_meant_on_purpose,
    two_operators_do_not_overwrite_each_other,
    a_secret_that_cannot_be_opened_is_said_to_be_so,
    an_app_is_taken_out_by_its_name,
}

const OPS: &str = "ops@example.com";
const PAGE: &str = "/settings/oauth-apps/zendesk";

/// Without an app of the configuration.
async fn start(db: &Arc<Database>) -> (TestApp, Browser) {
    let app = TestApp::builder(db).with(|config| config.oauth_apps.clear()).start().await;
    app.person_with("Acme", OPS, Role::Owner, true, holdfast_tests::people::PASSWORD).await;
    let browser = app.signed_in(OPS).await;
    (app, browser)
}

async fn open(app: &TestApp, browser: &Browser) -> Html {
    browser.open(&app.at(PAGE)).await
}

async fn form(app: &TestApp, browser: &Browser) -> Form {
    open(app, browser).await.form(PAGE)
}

async fn save(app: &TestApp, browser: &Browser, client_id: &str, secret: &str) -> Page {
    let form = form(app, browser).await.with("client_id", client_id).with("client_secret", secret);
    browser.send_form(&form).await
}

#[track_caller]
fn says(page: &Html, words: &str) {
    assert!(page.text.contains(words), "{words:?} is not in: {}", page.text);
}

async fn an_app_that_is_set_in_the_ui_connects_and_refreshes(db: Arc<Database>) {
    let (app, browser) = start(&db).await;
    let second = if db.is_sqlite() {
        None
    } else {
        let beside = TestApp::builder(&db).with(|config| config.oauth_apps.clear()).beside(&app);
        Some(beside.start().await)
    };
    let available = async |app: &TestApp| app.provider("zendesk").await["available"].clone();
    says(&open(&app, &browser).await, "Not set up");
    for replica in [Some(&app), second.as_ref()].into_iter().flatten() {
        assert_eq!(available(replica).await, false);
    }
    let (link, _) = app.link("acme").await;
    let refused = Browser::new().post(&link).await;
    assert_eq!((refused.status, refused.title()), (503, "Zendesk cannot be connected yet"), "{}", refused.text);

    let page = save(&app, &browser, CLIENT_ID, CLIENT_SECRET).await;

    assert_eq!((page.status, page.location()), (303, format!("{PAGE}?done=saved")), "{}", page.text);
    for replica in [Some(&app), second.as_ref()].into_iter().flatten() {
        let ready = async || available(replica).await;
        until("every replica has heard of it", ready, |available| *available == true).await;
        let id = replica.connect(if second.is_some() { "globex" } else { "acme" }).await;
        let first = replica.token(&id).await.expect(200).text_of("access_token");
        replica.advance(LIFE);
        assert_ne!(replica.token(&id).await.expect(200).text_of("access_token"), first, "it was refreshed");
        if second.is_some() {
            break;
        }
    }
    if let Some(second) = &second {
        second.sandbox.create_helpdesk("initech").unwrap();
        let id = second.connect("initech").await;
        second.advance(LIFE);
        let _refreshed = second.token(&id).await.expect(200);
    }
    assert!(!String::from_utf8_lossy(&db.dump().await).contains(CLIENT_SECRET), "it is sealed");
}

async fn a_provider_without_an_app_says_what_is_to_be_done(db: Arc<Database>) {
    let (app, operator) = start(&db).await;
    let admin = app.somebody(Role::Admin).await;

    for path in ["/connectors", "/connectors/new"] {
        let page = operator.open(&app.at(path)).await;
        says(&page, "These need an OAuth app first: pick one to enter it.");
        let page = operator.get(&app.at(path)).await;
        assert!(page.text.contains(&format!("<a class=\"tile off\" href=\"{PAGE}\">")), "{}", page.text);
        let page = admin.open(path).await.expect(200);
        assert!(page.says("pick one to enter one of your own, or ask whoever runs this installation"), "{}", page.text);
        assert!(!page.text.contains(PAGE), "{}", page.text);
        assert!(page.text.contains("href=\"/settings/own-apps/zendesk\""), "{}", page.text);
    }
}

/// CO-01
async fn the_redirect_uri_to_copy_is_the_one_that_is_sent(db: Arc<Database>) {
    let public = |config: &mut holdfast_app::Config| {
        config.oauth_apps.clear();
        config.public_url_setting = Some("https://hub.example.test".parse().unwrap());
    };
    let app = TestApp::builder(&db).with(public).start().await;
    app.person_with("Acme", OPS, Role::Owner, true, holdfast_tests::people::PASSWORD).await;
    let browser = app.signed_in(OPS).await;
    let page = save(&app, &browser, CLIENT_ID, CLIENT_SECRET).await;
    assert_eq!(page.status, 303, "{}", page.text);
    let forged = [("host", "10.0.0.5:8080"), ("x-forwarded-host", "evil.example.test"), ("x-forwarded-proto", "http")];

    let shown = browser.send_with(reqwest::Method::GET, &app.at(PAGE), &forged).await.html(&app.base);
    let (link, _) = app.link("acme").await;
    let link = link.replace("https://hub.example.test", &app.base);
    let authorize = Browser::new().press_with(&link, &link, &[], &forged[1..]).await.location();

    let sent = url::Url::parse(&authorize).unwrap();
    let sent = sent.query_pairs().find(|(name, _)| name == "redirect_uri").unwrap().1.into_owned();
    assert_eq!(sent, "https://hub.example.test/oauth/callback");
    assert!(shown.codes.contains(&sent), "{:?}", shown.codes);
    assert!(!shown.text.contains("evil.example.test") && !shown.text.contains("10.0.0.5"), "{}", shown.text);
}

/// RC-03
async fn a_refused_secret_is_not_saved_and_the_right_one_cures_without_consent(db: Arc<Database>) {
    let (app, browser) = start(&db).await;
    assert_eq!(save(&app, &browser, CLIENT_ID, CLIENT_SECRET).await.status, 303);
    let ids = [app.connect("acme").await, app.connect("globex").await];
    let before = app.token(&ids[0]).await.expect(200).text_of("access_token");
    app.sandbox.set_client_secret("rotated-upstream", None);
    app.advance(LIFE);
    for id in &ids {
        let _told = app.token(id).await.problem(502, "oauth_app_rejected");
        assert_eq!(app.show(id).await["degraded"]["class"], "app_broken");
    }
    let html = open(&app, &browser).await;
    says(&html, "Refused");
    says(&html, "2 connectors wait for a right one. None has failed, and nobody has to reconnect");

    let wrong = save(&app, &browser, CLIENT_ID, "wrong-secret-of-somebody").await;

    assert_eq!(wrong.status, 422);
    let html = wrong.html(&app.base);
    says(&html, "Zendesk refuses this client id and secret (invalid_client). Nothing was saved;");
    assert!(!wrong.text.contains("wrong-secret-of-somebody") && !wrong.text.contains(CLIENT_SECRET));
    assert_eq!(db.number("SELECT revision FROM oauth_apps").await, 1, "the one before is kept");
    let presented = app.acme.ledger().presentations.len();
    app.sandbox.set_client_secret(CLIENT_SECRET, None);
    app.advance(Duration::from_mins(6));
    assert_eq!(app.token(&ids[0]).await.expect(200).json["version"], 2, "it still works with the one before");
    assert!(app.acme.ledger().presentations.len() > presented);

    // Rotated again; nobody asks for a token this time: the right secret alone brings both back, at once.
    app.sandbox.set_client_secret("rotated-again", None);
    app.advance(LIFE);
    for id in &ids {
        let _told = app.token(id).await.problem(502, "oauth_app_rejected");
    }
    let right = save(&app, &browser, CLIENT_ID, "rotated-again").await;
    assert_eq!(right.status, 303, "{}", right.text);
    for id in &ids {
        let degraded = async || app.show(id).await["degraded"].clone();
        until("the connector is refreshed", degraded, serde_json::Value::is_null).await;
        assert_eq!(app.show(id).await["health"], "connected");
    }
    assert_ne!(app.token(&ids[0]).await.expect(200).text_of("access_token"), before);
    let html = open(&app, &browser).await;
    says(&html, "Set up");
    says(&html, "Set just now. Taken by Zendesk");
}

async fn a_secret_is_rotated_without_a_break(db: Arc<Database>) {
    let (app, browser) = start(&db).await;
    assert_eq!(save(&app, &browser, CLIENT_ID, CLIENT_SECRET).await.status, 303);
    let id = app.connect("acme").await;
    let refused = form(&app, &browser).await.with("next_client_secret", "not-known-there");
    let refused = browser.send_form(&refused).await;
    assert_eq!(refused.status, 422);
    says(&refused.html(&app.base), "Zendesk refuses this client id and secret");

    // At the provider both count for a while.
    app.sandbox.set_client_secret(CLIENT_SECRET, Some("second-secret"));
    let next = form(&app, &browser).await.with("next_client_secret", "second-secret").with("ends_on", "2027-01-31");
    assert_eq!(browser.send_form(&next).await.status, 303);
    app.advance(LIFE);
    let _fresh = app.token(&id).await.expect(200);
    // The first one is taken out there: the next one is tried, and nobody notices.
    app.sandbox.set_client_secret("second-secret", None);
    app.advance(LIFE);
    assert_eq!(app.token(&id).await.expect(200).json["version"], 3);
    let html = open(&app, &browser).await;
    let (at, page) = browser.follow(&html.form(&format!("{PAGE}/promote"))).await;

    let html = page.html(&at);
    says(&html, "The next secret is the current one now.");
    says(&html, "Next secret None. Enter one above");
    assert_eq!(html.form(PAGE).value("ends_on"), Some(""), "the end was the first one's");
    app.advance(LIFE);
    assert_eq!(app.token(&id).await.expect(200).json["version"], 4);
    // One that turns out not to be needed is taken out again.
    app.sandbox.set_client_secret("second-secret", Some("third-secret"));
    assert_eq!(browser.send_form(&html.form(PAGE).with("next_client_secret", "third-secret")).await.status, 303);
    let drop = open(&app, &browser).await.form(&format!("{PAGE}/drop-next"));
    let (at, page) = browser.follow(&drop).await;
    says(&page.html(&at), "The next secret is taken out.");
    assert_eq!(db.number("SELECT COUNT(*) FROM oauth_apps WHERE sealed_next_secret IS NULL").await, 1);
}

async fn a_secret_that_nobody_could_be_asked_about_is_saved_and_says_so(db: Arc<Database>) {
    let (app, browser) = start(&db).await;
    assert_eq!(save(&app, &browser, CLIENT_ID, "nobody-knows-yet").await.status, 303);
    let html = open(&app, &browser).await;
    says(&html, "Not checked yet");
    let check = html.form(&format!("{PAGE}/check"));
    says(&browser.send_form(&check).await.html(&app.base), "could not be checked (no account of it is connected yet)");

    // An account is there now: a check finds out.
    app.import("acme").await;
    let html = browser.send_form(&check).await.html(&app.base);
    says(&html, "Zendesk refuses the current secret (HTTP 401, invalid_client");
    app.acme.trouble(|faults| faults.token_answer = Some(Canned::new(503, "{}").times(1)));
    assert_eq!(save(&app, &browser, CLIENT_ID, CLIENT_SECRET).await.status, 303, "no answer is no refusal");
    says(&open(&app, &browser).await, "Not checked yet");
    let html = browser.send_form(&check).await.html(&app.base);
    says(&html, "The provider takes this client.");
    says(&html, "Taken by Zendesk");
    says(&open(&app, &browser).await, "Taken by Zendesk");
}

async fn the_configuration_goes_first_and_is_not_changed_here(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    app.person_with("Acme", OPS, Role::Owner, true, holdfast_tests::people::PASSWORD).await;
    let browser = app.signed_in(OPS).await;
    app.import("acme").await;

    let page = browser.get(&app.at(PAGE)).await;

    let html = page.html(&app.base);
    says(&html, "This app is set in the settings file or the environment, under oauth_apps.zendesk");
    says(&html, CLIENT_ID);
    let recipe = page.text.replace("<wbr>", "");
    for name in ["next_client_secret", "[oauth_apps.zendesk]", "HOLDFAST_OAUTH_APPS__ZENDESK__NEXT_CLIENT_SECRET"] {
        assert!(recipe.contains(name), "{name} is not in: {recipe}");
    }
    assert!(!page.text.contains(CLIENT_SECRET), "{}", page.text);
    assert!(!html.forms.iter().any(|form| form.action.ends_with(PAGE)), "nothing to fill in: {:?}", html.forms);
    let check = html.form(&format!("{PAGE}/check"));
    says(&browser.send_form(&check).await.html(&app.base), "The provider takes this client.");
    let body = format!("{}&client_id=x&client_secret=y&name=Zendesk", check.encoded());
    for path in ["", "/promote", "/drop-next", "/remove"] {
        let page = browser.send_body(&app.at(&format!("{PAGE}{path}")), &body, &[]).await;
        assert_eq!((page.status, page.title()), (409, "This app is set in the configuration"), "{path}: {}", page.text);
    }
    assert_eq!(db.number("SELECT COUNT(*) FROM oauth_apps").await, 0);
    assert_eq!(browser.get(&app.at("/settings/oauth-apps/nobody")).await.status, 404);
    says(&browser.open(&app.at("/settings/oauth-apps")).await, "set in the settings file or the environment");
}

/// TE-11
async fn the_end_of_a_secret_is_told_on_the_page(db: Arc<Database>) {
    let (app, browser) = start(&db).await;
    let today = app.app.seams.clock.now().date_naive();
    let end = today.checked_add_days(Days::new(40)).unwrap();
    let form = form(&app, &browser).await.with("client_id", CLIENT_ID).with("client_secret", CLIENT_SECRET);
    let bad = browser.send_form(&form.clone().with("ends_on", "31.1.2027")).await;
    assert_eq!(bad.status, 422);
    says(&bad.html(&app.base), "A date, such as 2027-01-31.");
    assert_eq!(browser.send_form(&form.with("ends_on", &end.to_string())).await.status, 303);
    let day = Duration::from_hours(24);
    let settings = app.at("/settings");
    let nothing = open(&app, &browser).await.text;
    assert!(!nothing.contains("The client secret"), "{nothing}");
    assert!(!browser.open(&settings).await.text.contains("Needs you"));

    for (days, words) in [(11, "in 28 days"), (32, "in 7 days"), (38, "in 1 day"), (39, "today")] {
        app.clock.advance(day * days - since(&app, today));
        let browser = app.signed_in(OPS).await;
        let html = open(&app, &browser).await;
        says(&html, &format!("The client secret ends {words}"));
        says(&browser.open(&settings).await, "Needs you");
        says(&browser.open(&app.at("/settings/oauth-apps")).await, &format!("Secret ends {words}"));
        assert_eq!(app.app.apps.ends().await.unwrap().len(), 1, "and the log tells of it as well");
    }
    app.clock.advance(day * 40 - since(&app, today));
    let browser = app.signed_in(OPS).await;
    says(&open(&app, &browser).await, &format!("The client secret has ended On {end}"));
}

fn since(app: &TestApp, day: chrono::NaiveDate) -> Duration {
    (app.app.seams.clock.now() - day.and_time(chrono::NaiveTime::MIN).and_utc()).to_std().unwrap()
}

async fn another_client_is_meant_on_purpose(db: Arc<Database>) {
    let (app, browser) = start(&db).await;
    assert_eq!(save(&app, &browser, CLIENT_ID, CLIENT_SECRET).await.status, 303);
    app.connect("acme").await;

    let asked = save(&app, &browser, "another-client", "its-secret").await;

    assert_eq!(asked.status, 422);
    let html = asked.html(&app.base);
    says(&html, &format!("One connector was authorised for the client {CLIENT_ID}."));
    let form = html.form(PAGE);
    assert_eq!(form.value("client_id"), Some("another-client"), "what was typed is kept");
    assert_eq!(form.value("client_secret"), Some(""), "but no secret");
    let sure = form.ticked("confirm", "yes").with("client_secret", "its-secret");
    let refused = browser.send_form(&sure).await;
    assert_eq!(refused.status, 422, "Zendesk does not know it");
    says(&refused.html(&app.base), "Zendesk refuses this client id and secret");
    assert_eq!(db.number("SELECT revision FROM oauth_apps").await, 1);
}

async fn two_operators_do_not_overwrite_each_other(db: Arc<Database>) {
    let (app, browser) = start(&db).await;
    let seen = form(&app, &browser).await.with("client_id", CLIENT_ID).with("client_secret", CLIENT_SECRET);

    let (one, two) = tokio::join!(browser.send_form(&seen), browser.send_form(&seen));

    let mut statuses = [one.status, two.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [303, 409], "{} {}", one.text, two.text);
    let stale = browser.send_form(&seen).await;
    assert_eq!((stale.status, stale.title()), (409, "Not as you saw it any more"), "{}", stale.text);
    assert_eq!(db.number("SELECT revision FROM oauth_apps").await, 1);
}

/// Like ST-02: one row that cannot be read takes nothing else with it.
async fn a_secret_that_cannot_be_opened_is_said_to_be_so(db: Arc<Database>) {
    let (app, browser) = start(&db).await;
    assert_eq!(save(&app, &browser, CLIENT_ID, CLIENT_SECRET).await.status, 303);
    // Moved to the other place, it does not open there.
    db.execute("UPDATE oauth_apps SET sealed_next_secret = sealed_secret, next_set_at = secret_set_at").await;
    app.app.apps.forget();

    let html = open(&app, &browser).await;

    says(&html, "Secret unreadable");
    says(&html, "A stored secret cannot be opened");
    assert_eq!(app.provider("zendesk").await["available"], false);
    let kept = browser.send_form(&html.form(PAGE)).await;
    assert_eq!(kept.status, 422);
    says(&kept.html(&app.base), "The stored one cannot be opened with this master key. Enter it again.");
    let mended = browser.send_form(&html.form(PAGE).with("next_client_secret", "entered-again")).await;
    assert_eq!(mended.status, 303, "{}", mended.text);
    assert_eq!(app.provider("zendesk").await["available"], true);
}

async fn an_app_is_taken_out_by_its_name(db: Arc<Database>) {
    let (app, browser) = start(&db).await;
    assert_eq!(save(&app, &browser, CLIENT_ID, CLIENT_SECRET).await.status, 303);
    app.connect("acme").await;
    let html = open(&app, &browser).await;
    says(&html, "One connector rests on it: its token is not renewed any more");
    let remove = html.form(&format!("{PAGE}/remove"));

    let page = browser.send_form(&remove.clone().with("name", "Freshdesk")).await;
    assert_eq!(page.status, 422, "{}", page.text);
    assert_eq!(db.number("SELECT COUNT(*) FROM oauth_apps").await, 1);
    let (at, page) = browser.follow(&remove.with("name", " zendesk ")).await;

    says(&page.html(&at), "The app is taken out.");
    says(&page.html(&at), "Not set up");
    assert_eq!(db.number("SELECT COUNT(*) FROM oauth_apps").await, 0);
    let (link, _) = app.link("globex").await;
    assert_eq!(Browser::new().post(&link).await.status, 503);
}
