//! Connect and Reconnect by somebody who is signed in: the form, the provider, and back on a live checklist.

use std::{sync::Arc, time::Duration};

use holdfast_core::Role;
use holdfast_sandbox::{Canned, Counters};
use holdfast_tests::{
    browser::{Browser, Page},
    database::Database,
    on_both,
    people::Person,
    service::{Builder, TestApp},
    wait::until,
};
use serde_json::json;
use url::Url;

on_both! {
    somebody_connects_and_sees_each_step,
    the_webhook_is_a_step_of_its_own_where_it_is_made,
    what_is_typed_is_understood_while_it_is_typed,
    what_is_no_account_is_refused_and_kept,
    an_account_that_is_connected_leads_to_its_connector,
    two_tabs_and_a_double_click_make_one_connector,
    a_callback_that_comes_twice_exchanges_once,
    a_denial_burns_the_state_and_can_be_tried_again,
    each_error_of_the_provider_has_its_own_words,
    a_sent_authorisation_link_connects_nobody,
    nothing_is_called_connected_before_it_is_stored,
    a_refused_app_or_answer_is_no_success,
    a_missing_permission_is_named,
    a_consent_that_took_too_long_can_be_started_again,
    a_session_that_ends_in_the_middle_loses_nothing,
    a_consent_whose_replica_died_is_called_cut_off_at_once,
    a_consent_of_another_organisation_ends_on_a_plain_page,
    without_an_oauth_app_the_catalogue_says_so,
    a_reconnect_from_home_is_one_click_and_keeps_everything,
    a_reconnect_that_is_abandoned_changes_nothing,
    a_colleague_who_reconnects_is_shown_as_such,
    the_account_of_a_nameless_connector_is_named_on_its_page,
    a_mistyped_account_is_corrected_in_place,
    a_grant_of_the_account_before_is_given_back,
    a_connector_that_was_never_connected_is_discarded_with_one_press,
    the_way_back_comes_from_the_configuration,
}

/// Connects the account from the form, up to the provider's page.
async fn start(person: &Person, account: &str) -> Page {
    let form = "/connectors/new/zendesk";
    person.submit(form, form, &[("account", account)]).await
}

/// Goes through the consent as this user of the helpdesk, and on to our page.
async fn consent(app: &TestApp, person: &Person, started: &Page, user: &str) -> Page {
    let back = app.sandbox.consent(&started.location(), user).expect("the provider asks");
    person.browser.visit(&back).await
}

/// The page once what is under way there has ended.
async fn settled(person: &Person, page: &Page) -> Page {
    assert!(page.url.contains("?consent=sess_"), "{}: {}", page.url, page.text);
    let look = async || person.browser.visit(&page.url).await.expect(200);
    until("the consent has ended", look, |page| !page.text.contains("under way")).await
}

/// Each step of the checklist with its state.
fn steps(page: &Page) -> Vec<(String, String)> {
    let read = page.read();
    let list = read.named("ol").into_iter().find(|list| list.is("checklist"));
    let step = |step: &&holdfast_tests::html::Element| (step.get("class").unwrap_or_default().to_owned(), step.text());
    list.map(|list| list.named("li").iter().map(step).collect()).unwrap_or_default()
}

fn states(page: &Page) -> Vec<String> {
    steps(page).into_iter().map(|(state, _)| state).collect()
}

/// The id in the address of a connector's page.
fn id_of(page: &Page) -> String {
    let url = Url::parse(&page.url).unwrap();
    url.path().strip_prefix("/connectors/").unwrap_or_else(|| panic!("{}", page.url)).to_owned()
}

async fn somebody_connects_and_sees_each_step(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let ada = app.somebody(Role::Admin).await;
    let form = "/connectors/new/zendesk";
    let page = ada.open(form).await.expect(200);
    assert!(page.says("Zendesk will ask you to allow See the tickets and people"), "{}", page.text);

    let fields = [("account", "https://ACME.zendesk.com/agent/tickets/1"), ("name", "  Support ")];
    let started = ada.submit(form, form, &fields).await.expect(303);
    assert!(
        started.location().starts_with(&app.acme.url().replace("acme", "acme/oauth/authorizations/new?")),
        "{started:?}"
    );
    let page = consent(&app, &ada, &started, "ada").await.expect(200);
    let id = id_of(&page);
    let page = settled(&ada, &page).await;

    assert_eq!(page.title(), "Support");
    assert!(page.says("acme.zendesk.com is connected"), "{}", page.text);
    assert_eq!(states(&page), ["good"; 4], "{:?}", steps(&page));
    let read: Vec<_> = steps(&page).into_iter().map(|(_, text)| text).collect();
    assert_eq!(read[1], "Identity, done Ada Admin, admin of acme.zendesk.com");
    assert_eq!(read[2], "Permissions, done All that was asked for");
    assert!(read[3].starts_with("First test, done Zendesk answered in"), "{read:?}");
    let shown = app.show(&id).await;
    assert_eq!(
        (&shown["health"], &shown["name"], &shown["account"]),
        (&json!("connected"), &json!("Support"), &json!("acme"))
    );
    let timeline = app.timeline(&id).await;
    let kinds: Vec<_> = timeline.iter().map(|line| line["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["test", "connected"]);
    assert_eq!(timeline[1]["actor"], format!("{} (at Zendesk as Ada Admin)", ada.email));
    assert!(ada.open("/connectors").await.says("Support"));
    assert!(ada.open(&format!("/connectors/{id}")).await.read().by_id("consent-title").is_none());
}

async fn the_webhook_is_a_step_of_its_own_where_it_is_made(db: Arc<Database>) {
    let app = TestApp::builder(&db).with(|config| config.webhooks.make_on_connect = true).start().await;
    let ada = app.somebody(Role::Admin).await;
    for (account, user, step) in [
        ("acme", "ada", "Webhook, done Zendesk sends its events here"),
        ("globex", "gus", "Webhook, not made The user who connected Zendesk may not do this."),
    ] {
        let started = start(&ada, account).await;
        let page = consent(&app, &ada, &started, user).await;
        let read = async || steps(&ada.browser.visit(&page.url).await);
        let shown = |steps: &Vec<(String, String)>| steps.get(3).is_some_and(|(_, text)| text.starts_with(step));
        let steps = until(step, read, shown).await;
        assert!(steps[4].1.starts_with("First test"), "{steps:?}");
    }
}

async fn what_is_typed_is_understood_while_it_is_typed(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let known = app.import("globex").await;
    let ada = app.somebody(Role::Admin).await;
    let ask = async |typed: &str| {
        let query = url::form_urlencoded::Serializer::new(String::new()).append_pair("typed", typed).finish();
        let answer = ada.open(&format!("/connectors/new/zendesk/account?{query}")).await.expect(200);
        serde_json::from_str::<serde_json::Value>(&answer.text).unwrap()
    };

    let found = ask("https://acme.zendesk.com/agent").await;
    assert_eq!(found, json!({ "account": "acme.zendesk.com", "problem": null, "known": null }));
    let found = ask("help.acme.com").await;
    assert_eq!(found["account"], json!(null));
    assert!(found["problem"].as_str().unwrap().contains("not an address below zendesk.com"), "{found}");
    let found = ask(" GLOBEX ").await;
    assert_eq!(found["known"], format!("/connectors/{known}"));
    assert_eq!(app.acme.counters().api_calls, 0, "nobody is asked while somebody types");
    let viewer = app.somebody(Role::Viewer).await;
    assert_eq!(viewer.open("/connectors/new/zendesk/account?typed=acme").await.status, 403);
    let page = Browser::new().get(&format!("{}/connectors/new/zendesk/account?typed=globex", app.base)).await;
    assert_eq!(page.status, 303);
}

/// CO-10
async fn what_is_no_account_is_refused_and_kept(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let ada = app.somebody(Role::Admin).await;
    let form = "/connectors/new/zendesk";

    for typed in [
        "",
        "acme.zendesk.com.evil.example",
        "evil.example/acme.zendesk.com",
        "acme.zendesk.com@evil.example",
        "acme.zendesk.com%2eevil.example",
        "acme..zendesk.com",
        "аcme.zendesk.com",
        "<script>alert(1)</script>",
        "\"><img src=x>",
    ] {
        let page = ada.submit(form, form, &[("account", typed), ("name", "Mine")]).await.expect(422);

        let kept = page.form(form).unwrap().fields;
        let field = |name: &str| kept.iter().find(|(own, _)| own == name).unwrap().1.clone();
        assert_eq!((field("account").as_str(), field("name").as_str()), (typed, "Mine"));
        assert!(page.says("for example acme or acme.zendesk.com"), "{typed}: {}", page.text);
        assert!(!page.text.contains("<script>alert") && !page.text.contains("<img src=x"), "{}", page.text);
    }
    let page = ada.submit(form, form, &[("account", "acme"), ("name", "a\nb")]).await.expect(422);
    assert!(page.says("A name has 1 to 100 characters"), "{}", page.text);
    assert_eq!(db.number("SELECT COUNT(*) FROM connectors").await, 0);
    assert_eq!(app.acme.counters(), Counters::default());
    assert_eq!(ada.open("/connectors/new/no-such-thing").await.status, 404);
}

async fn an_account_that_is_connected_leads_to_its_connector(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import_with("acme", json!({ "name": "Support" })).await;
    let ada = app.somebody(Role::Admin).await;

    let page = ada.browser.go_on(start(&ada, "acme").await).await.expect(200);
    assert_eq!((id_of(&page), page.title()), (id.clone(), "Support"));
    assert!(page.says("Your organisation has this account already: this is it, and it works."), "{}", page.text);

    app.fail(&id).await;
    let page = ada.browser.go_on(start(&ada, "acme").await).await.expect(200);
    assert!(page.says("Connect it again from here."), "{}", page.text);
    assert_eq!(app.show(&id).await["name"], "Support");
    let other = app.somebody_of("Other", Role::Admin).await;
    let started = start(&other, "acme").await.expect(303);
    assert!(
        started.location().contains("/oauth/authorizations/new"),
        "another organisation learns nothing: {started:?}"
    );
}

async fn two_tabs_and_a_double_click_make_one_connector(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let ada = app.somebody(Role::Admin).await;

    let (one, two, three) = tokio::join!(start(&ada, "acme"), start(&ada, "acme.zendesk.com"), start(&ada, "ACME"));

    let starts = [one, two, three];
    assert!(starts.iter().all(|started| started.status == 303), "{starts:?}");
    assert_eq!(db.number("SELECT COUNT(*) FROM connectors").await, 1);
    // The last one that was started is gone through, then the back button, and an older one too.
    let page = settled(&ada, &consent(&app, &ada, &starts[2], "ada").await).await;
    assert_eq!(states(&page), ["good"; 4]);
    let version = app.show(&id_of(&page)).await["credential"]["version"].clone();
    let older = settled(&ada, &consent(&app, &ada, &starts[0], "ada").await).await;
    assert!(older.says("is connected"), "{}", older.text);
    let token = app.token(&id_of(&page)).await.expect(200);
    assert!(app.acme.accepts(&token.text_of("access_token")));
    assert!(token.json["version"].as_i64().unwrap() >= version.as_i64().unwrap());
    assert_eq!(db.number("SELECT COUNT(*) FROM connectors").await, 1);
}

/// CO-02
async fn a_callback_that_comes_twice_exchanges_once(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let ada = app.somebody(Role::Admin).await;
    let started = start(&ada, "acme").await;
    let back = app.sandbox.consent(&started.location(), "ada").unwrap();

    let (one, two) = tokio::join!(ada.browser.visit(&back), ada.browser.visit(&back));

    assert_eq!(one.url, two.url);
    for page in [one, two, ada.browser.visit(&back).await] {
        let page = settled(&ada, &page).await;
        assert!(page.says("acme.zendesk.com is connected"), "{}", page.text);
    }
    assert_eq!(app.acme.counters().code_exchanges, 1);
    assert_eq!(db.number("SELECT COUNT(*) FROM connectors").await, 1);
}

/// CO-03
async fn a_denial_burns_the_state_and_can_be_tried_again(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let ada = app.somebody(Role::Admin).await;
    let started = start(&ada, "acme").await;

    let denied = ada.browser.visit(&app.sandbox.deny(&started.location()).unwrap()).await;
    let denied = settled(&ada, &denied).await;
    let late = settled(&ada, &consent(&app, &ada, &started, "ada").await).await;

    for page in [&denied, &late] {
        assert!(page.says("Access was not allowed") && page.says("declined"), "{}", page.text);
        assert_eq!(states(page), ["bad", "idle", "idle", "idle"], "{:?}", steps(page));
    }
    assert_eq!(app.acme.counters().code_exchanges, 0);
    let id = id_of(&denied);
    assert_eq!(app.show(&id).await["health"], "pending");
    let line = app.timeline(&id).await.remove(0);
    assert_eq!(
        (&line["kind"], &line["outcome"], &line["actor"]),
        (&json!("consent"), &json!("denied"), &json!(ada.email))
    );

    let again = ada.submit(&denied.url, &format!("/connectors/{id}/reconnect"), &[]).await.expect(303);
    let page = settled(&ada, &consent(&app, &ada, &again, "ada").await).await;
    assert_eq!(states(&page), ["good"; 4]);
    assert_eq!(id_of(&page), id);
}

/// CO-04
async fn each_error_of_the_provider_has_its_own_words(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let ada = app.somebody(Role::Admin).await;

    for (answer, title) in [
        ("error=server_error", "Zendesk has a problem"),
        ("error=temporarily_unavailable", "Zendesk has a problem"),
        ("error=invalid_scope", "The OAuth app is not set up right"),
        ("error=unauthorized_client", "The OAuth app is not set up right"),
        ("error=something_new", "Zendesk sent an error"),
        ("nothing=1", "Nothing was received"),
    ] {
        let started = start(&ada, "acme").await.location();
        let url = Url::parse(&started).unwrap();
        let state = url.query_pairs().find(|(key, _)| key == "state").unwrap().1.into_owned();

        let page = ada.browser.visit(&format!("{}/oauth/callback?{answer}&state={state}", app.base)).await;
        let page = settled(&ada, &page).await;

        assert!(page.says(title), "{answer}: {}", page.text);
        assert!(!page.says("declined") && !page.says("your link"), "{answer}: {}", page.text);
        let again = page.form(&format!("/connectors/{}/reconnect", id_of(&page))).unwrap();
        assert_eq!(again.buttons, ["Try again"], "{answer}");
    }
    for without in ["code=x", "state=&code=x", "code=x&state=not-ours"] {
        let page = ada.browser.visit(&format!("{}/oauth/callback?{without}", app.base)).await.expect(400);
        assert!(page.says("start again") || page.says("Start again"), "{without}: {}", page.text);
        assert_eq!(page.read().link("To your connectors").as_deref(), Some("/connectors"));
    }
    assert_eq!(app.acme.counters().code_exchanges, 0);
    assert_eq!(app.get("/connectors").await.json["data"][0]["health"], "pending");
}

/// CO-06
async fn a_sent_authorisation_link_connects_nobody(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let ada = app.somebody(Role::Admin).await;
    let started = start(&ada, "acme").await;
    let back = app.sandbox.consent(&started.location(), "ada").unwrap();
    let colleague = app.somebody(Role::Owner).await;

    for (victim, buttons) in [(&Browser::new(), 0), (&colleague.browser, 1)] {
        let page = victim.visit(&back).await.expect(403);
        assert_eq!(page.title(), "This was started in another browser");
        assert!(page.says("Start from Holdfast itself"), "{}", page.text);
        assert_eq!(page.read().all().iter().filter(|part| part.is("button")).count(), buttons);
    }
    assert_eq!(app.acme.counters().code_exchanges, 0);
    let page = settled(&ada, &ada.browser.visit(&back).await).await;
    assert_eq!(states(&page), ["good"; 4], "the one who started it is not hindered");
}

/// CO-07: the grant exists at the provider and nowhere else, so it is kept until the database takes it.
async fn nothing_is_called_connected_before_it_is_stored(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let ada = app.somebody(Role::Admin).await;
    let started = start(&ada, "acme").await;
    let id = app.get("/connectors").await.json["data"][0]["id"].as_str().unwrap().to_owned();
    db.execute("ALTER TABLE timeline RENAME TO timeline_gone").await;

    let back = app.sandbox.consent(&started.location(), "ada").unwrap();
    let ended = ada.browser.get(&back).await;
    let progress = "SELECT COUNT(*) FROM connect_sessions WHERE CAST(progress AS TEXT) LIKE '%permissions%missing%'";
    until("all is checked", async || db.number(progress).await, |count| *count == 1).await;
    app.clock.advance(Duration::from_secs(5));
    assert_eq!(app.show(&id).await["health"], "pending");
    let page = ada.open(&format!("/connectors/{id}")).await;
    assert_eq!((page.status, page.title()), (503, "Not at the moment"), "{}", page.text);
    db.execute("ALTER TABLE timeline_gone RENAME TO timeline").await;
    app.clock.advance(Duration::from_secs(5));

    let page = settled(&ada, &ada.open(&ended.location()).await).await;
    assert!(page.says("acme.zendesk.com is connected"), "{}", page.text);
    assert_eq!(app.acme.counters().code_exchanges, 1);
}

/// CO-07
async fn a_refused_app_or_answer_is_no_success(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let ada = app.somebody(Role::Admin).await;

    app.sandbox.set_client_secret("another", None);
    let started = start(&ada, "acme").await;
    let page = settled(&ada, &consent(&app, &ada, &started, "ada").await).await;
    assert!(page.says("The OAuth app is refused") && page.says("then try again"), "{}", page.text);
    assert_eq!(states(&page), ["bad", "idle", "idle", "idle"]);
    app.sandbox.set_client_secret(holdfast_sandbox::CLIENT_SECRET, None);

    for body in [r#"{"token_type":"bearer"}"#, r#"{"access_token":""}"#, "<html>"] {
        app.acme.trouble(|faults| faults.token_answer = Some(Canned::new(200, body).times(1)));
        let started = start(&ada, "acme").await;
        let page = settled(&ada, &consent(&app, &ada, &started, "ada").await).await;
        assert!(page.says("Zendesk did not answer as it should"), "{body}: {}", page.text);
        assert!(!page.says("is connected"), "{body}: {}", page.text);
        assert_eq!(app.show(&id_of(&page)).await["health"], "pending");
    }

    let started = start(&ada, "acme").await;
    let page = settled(&ada, &consent(&app, &ada, &started, "Mira Castellan").await).await;
    assert!(page.says("Zendesk did not let us in") && page.says("is a customer there"), "{}", page.text);
    assert_eq!(states(&page), ["good", "bad", "idle", "idle"]);
    assert!(app.acme.ledger().sets.iter().all(|set| !set.is_live()), "the mistaken grant is given back");
}

async fn a_missing_permission_is_named(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let ada = app.somebody(Role::Admin).await;
    let less = r#"{"access_token":"{access_token}","refresh_token":"{refresh_token}","token_type":"bearer",
                   "expires_in":{expires_in},"scope":"read"}"#;
    app.acme.trouble(|faults| {
        faults.token_answer = Some(Canned::new(200, less).after_processing().times(1));
        faults.api_delay_ms = 500;
    });
    let started = start(&ada, "acme").await;

    // Who it is, is told; which scopes the token has, is not, so that only the answer's scope counts.
    let page = consent(&app, &ada, &started, "ada").await;
    until("the identity is asked for", async || app.acme.counters().api_calls, |count| *count == 1).await;
    app.acme.trouble(|faults| {
        faults.api_delay_ms = 0;
        faults.api_answer = Some(Canned::new(500, "{}").times(1));
    });
    let page = settled(&ada, &page).await;

    assert!(
        page.says("A permission is missing")
            && page.says("did not grant: Answer and change the tickets that the person who connects may change."),
        "{}",
        page.text
    );
    assert_eq!(states(&page), ["good", "good", "bad", "idle"]);
    assert!(steps(&page)[2].1.contains("Not allowed: Answer and change the tickets"), "{:?}", steps(&page));
    assert_eq!(app.show(&id_of(&page)).await["health"], "pending");
    assert!(app.acme.ledger().sets.iter().all(|set| !set.is_live()), "it is given back");
}

async fn a_consent_that_took_too_long_can_be_started_again(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let ada = app.somebody(Role::Admin).await;
    let started = start(&ada, "acme").await;
    app.advance(Duration::from_mins(11));

    let page = consent(&app, &ada, &started, "ada").await.expect(200);

    assert!(page.says("That took too long") && page.says("within ten minutes"), "{}", page.text);
    assert_eq!(app.acme.counters().code_exchanges, 0);
    let again = ada.submit(&page.url, &format!("/connectors/{}/reconnect", id_of(&page)), &[]).await;
    let page = settled(&ada, &consent(&app, &ada, &again, "ada").await).await;
    assert_eq!(states(&page), ["good"; 4]);
}

async fn a_session_that_ends_in_the_middle_loses_nothing(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let ada = app.somebody(Role::Admin).await;
    let started = start(&ada, "acme").await;
    let _signed_out = ada.submit("/connectors", "/sign-out", &[]).await.expect(303);

    let page = consent(&app, &ada, &started, "ada").await.expect(200);

    assert_eq!(page.title(), "Sign in");
    until(
        "it is connected all the same",
        async || app.get("/connectors").await.json,
        |list| list["data"][0]["health"] == "connected",
    )
    .await;
    let next = Url::parse(&page.url).unwrap();
    let next = next.query_pairs().find(|(name, _)| name == "next").unwrap().1.into_owned();
    let page = settled(&ada, &ada.sign_in_again(&next).await).await;
    assert_eq!(states(&page), ["good"; 4]);

    // A form that is posted after the session has ended is not lost without a word.
    let reconnect = format!("/connectors/{}/reconnect", id_of(&page));
    let form = page.form(&reconnect).unwrap();
    ada.browser.keep("holdfast_session", "");
    let page = ada.browser.send_fields(&ada.url(&reconnect), &form.fields, &[], &[]).await.expect(401);
    assert!(page.says("Sign in again"), "{}", page.text);
}

async fn a_consent_of_another_organisation_ends_on_a_plain_page(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let ada = app.somebody(Role::Admin).await;
    let started = start(&ada, "acme").await;
    let other = app.somebody_of("Other", Role::Owner).await;
    // The same browser, signed in elsewhere meanwhile.
    let _signed_out = ada.submit("/connectors", "/sign-out", &[]).await.expect(303);
    let signed_in = other.at(ada.browser);
    let _home = signed_in.sign_in_again("/connectors").await.expect(200);

    let page = consent(&app, &signed_in, &started, "ada").await.expect(200);

    assert_eq!(page.title(), "Connected");
    assert!(page.url.contains("/connect/ended/"), "{}", page.url);
    assert_eq!(app.get("/connectors").await.json["data"][0]["health"], "connected");
}

async fn without_an_oauth_app_the_catalogue_says_so(db: Arc<Database>) {
    let app = TestApp::builder(&db).with(|config| config.oauth_apps.clear()).start().await;
    let id =
        app.post("/connectors", json!({ "provider": "zendesk", "account": "acme" })).await.expect(201).text_of("id");
    let ada = app.somebody(Role::Admin).await;

    let catalogue = ada.open("/connectors/new").await.expect(200);
    assert!(
        catalogue.says("pick one to enter one of your own, or ask whoever runs this installation"),
        "{}",
        catalogue.text
    );
    assert!(!catalogue.text.contains("href=\"/connectors/new/zendesk\""), "{}", catalogue.text);
    let form = ada.open("/connectors/new/zendesk").await.expect(200);
    assert!(form.form("/connectors/new/zendesk").is_none() && form.says("cannot be connected yet"), "{}", form.text);
    let page = ada.submit(&format!("/connectors/{id}"), &format!("/connectors/{id}/reconnect"), &[]).await.expect(503);
    assert_eq!(page.title(), "Zendesk cannot be connected yet");
    assert!(page.read().named("header").len() == 1, "in the frame of who is signed in: {}", page.text);
}

async fn a_reconnect_from_home_is_one_click_and_keeps_everything(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import_with("acme", json!({ "name": "Support", "alias": "old-7" })).await;
    app.app.store.put_extra(&id.as_str().into(), "webhook_id", &"wh_1".to_owned().into()).await.unwrap();
    app.fail(&id).await;
    let before = app.show(&id).await;
    let ada = app.somebody(Role::Admin).await;
    let reconnect = format!("/connectors/{id}/reconnect");

    let home = ada.open("/connectors").await.expect(200);
    assert_eq!(home.form(&reconnect).unwrap().buttons, ["Reconnect"]);
    let started = ada.submit("/connectors", &reconnect, &[]).await.expect(303);
    let page = settled(&ada, &consent(&app, &ada, &started, "ada").await).await;

    assert_eq!(id_of(&page), id);
    assert_eq!(states(&page), ["good"; 4]);
    let after = app.show(&id).await;
    for field in ["id", "name", "alias", "account", "provider", "created_at"] {
        assert_eq!(after[field], before[field], "{field}");
    }
    assert_eq!(after["health"], "connected");
    assert_eq!(after["epoch"], before["epoch"].as_i64().unwrap() + 1);
    assert_eq!(db.number("SELECT COUNT(*) FROM extras").await, 1);
    assert!(ada.open("/connectors").await.says("Nothing needs you"), "home is quiet again");
    let line = app.timeline(&id).await.into_iter().find(|line| line["kind"] == "reconnected").unwrap();
    assert_eq!(line["actor"], format!("{} (at Zendesk as Ada Admin)", ada.email));
}

async fn a_reconnect_that_is_abandoned_changes_nothing(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let ada = app.somebody(Role::Admin).await;
    let (shown, token) = (app.show(&id).await, app.token(&id).await.expect(200).json);
    let path = format!("/connectors/{id}");

    let started = ada.submit(&path, &format!("{path}/reconnect"), &[]).await.expect(303);
    let _never_opened = app.sandbox.consent(&started.location(), "ada").unwrap();
    let page = ada.open(&path).await.expect(200);

    assert!(page.says("Connected") && page.read().by_id("consent-title").is_none(), "{}", page.text);
    let again = ada.submit(&path, &format!("{path}/reconnect"), &[]).await;
    ada.browser.visit(&app.sandbox.deny(&again.location()).unwrap()).await;
    assert_eq!(app.show(&id).await, shown);
    assert_eq!(app.token(&id).await.expect(200).json, token);
    assert!(app.acme.accepts(token["access_token"].as_str().unwrap()));
}

async fn a_colleague_who_reconnects_is_shown_as_such(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let ada = app.somebody(Role::Admin).await;
    let started = start(&ada, "acme").await;
    let page = settled(&ada, &consent(&app, &ada, &started, "ada").await).await;
    let path = format!("/connectors/{}", id_of(&page));

    let started = ada.submit(&path, &format!("{path}/reconnect"), &[]).await;
    let page = settled(&ada, &consent(&app, &ada, &started, "gus").await).await;

    assert_eq!(states(&page), ["good"; 4], "{:?}", steps(&page));
    assert!(steps(&page)[1].1.ends_with("; before it was Ada Admin"), "{:?}", steps(&page));
}

async fn the_account_of_a_nameless_connector_is_named_on_its_page(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let made = app.post("/connect-sessions", json!({ "provider": "zendesk" })).await.expect(201);
    let id = made.text_of("connector_id");
    let taken = app.import("globex").await;
    let ada = app.somebody(Role::Admin).await;
    let (path, reconnect) = (format!("/connectors/{id}"), format!("/connectors/{id}/reconnect"));
    assert!(ada.open("/connectors").await.says("Zendesk, not named yet"));

    let refused = ada.submit(&path, &reconnect, &[("account", "help.acme.com")]).await.expect(422);
    assert!(refused.says("not an address below zendesk.com"), "{}", refused.text);

    // One that the organisation has already: nothing is written, and the way leads to the other one.
    app.sandbox.create_helpdesk("globex").unwrap();
    let started = ada.submit(&path, &reconnect, &[("account", "globex")]).await.expect(303);
    let page = settled(&ada, &consent(&app, &ada, &started, "ada").await).await;
    assert!(page.says("globex.zendesk.com is connected already"), "{}", page.text);
    assert_eq!(page.read().link("To that connector"), Some(format!("/connectors/{taken}")));

    let started = ada.submit(&path, &reconnect, &[("account", "acme")]).await.expect(303);
    let page = settled(&ada, &consent(&app, &ada, &started, "ada").await).await;
    assert_eq!((states(&page), page.title()), (["good"; 4].map(str::to_owned).to_vec(), "acme.zendesk.com"));
}

async fn a_consent_whose_replica_died_is_called_cut_off_at_once(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let ada = app.somebody(Role::Admin).await;
    let started = start(&ada, "acme").await;
    let page = settled(&ada, &consent(&app, &ada, &started, "ada").await).await;
    assert_eq!(states(&page), ["good"; 4]);

    let sessions = "UPDATE connect_sessions SET";
    let known = r#"{"authorised":true,"who":{"name":"Ada","role":null,"account":"Acme","before":null},"#;
    let test = r#""permissions":{"missing":[],"told":true},"test":null}"#;
    db.execute(&format!("{sessions} worker = 'rep_dead', progress = '{known}{test}'")).await;
    let untested = ada.browser.visit(&page.url).await.expect(200);
    let test = r#""permissions":null,"test":null}"#;
    db.execute(&format!("{sessions} result = NULL, progress = '{known}{test}'")).await;
    let cut = ada.browser.visit(&page.url).await.expect(200);

    assert_eq!(states(&untested), ["good", "good", "good", "bad"], "{:?}", steps(&untested));
    assert!(untested.says("This was cut off. Press Test"), "{}", untested.text);
    assert!(cut.says("This was cut off") && !cut.says("it goes on by itself"), "{}", cut.text);
    assert_eq!(states(&cut), ["good", "good", "bad", "idle"], "{:?}", steps(&cut));
    let forms = cut.forms().into_iter().filter(|form| form.goes_to(&format!("/connectors/{}/reconnect", id_of(&page))));
    assert!(forms.into_iter().any(|form| form.buttons == ["Try again"]), "{}", cut.text);
}

async fn a_mistyped_account_is_corrected_in_place(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let typo = app.sandbox.create_helpdesk("acmee").unwrap();
    let globex = app.import("globex").await;
    let ada = app.somebody(Role::Admin).await;
    let viewer = app.somebody(Role::Viewer).await;
    let begun = ada.submit("/connectors/new/zendesk", "/connectors/new/zendesk", &[("account", "acmee")]).await;
    let id = app.get("/connectors").await.json["data"][1]["id"].as_str().unwrap().to_owned();
    let (page, path) = (format!("/connectors/{id}"), format!("/connectors/{id}/account"));

    // They come back without an answer, and see what they typed.
    let link = ada.open(&page).await.expect(200).read().link("Change the account");
    assert_eq!(link.as_ref(), Some(&path));
    let form = ada.open(&path).await.expect(200).form(&path).unwrap();
    assert_eq!((form.value("account"), form.value("name")), (Some("acmee"), Some("")));
    assert!(!viewer.open(&page).await.text.contains(&path));
    assert_eq!(viewer.open(&path).await.status, 403);
    let refused = ada.submit(&path, &path, &[("account", "help.acme.com")]).await.expect(422);
    assert!(refused.says("not an address below zendesk.com"), "{}", refused.text);
    let taken = ada.submit(&path, &path, &[("account", "globex")]).await.expect(422);
    assert!(taken.says("Your organisation has globex.zendesk.com on another connector."), "{}", taken.text);
    assert_eq!(taken.read().link("globex.zendesk.com"), Some(format!("/connectors/{globex}")));
    assert_eq!(app.show(&id).await["account"], "acmee");

    let started = ada.submit(&path, &path, &[("account", "https://acme.zendesk.com/agent")]).await.expect(303);

    let shown = app.show(&id).await;
    assert_eq!((&shown["account"], &shown["name"]), (&json!("acme"), &json!("acme.zendesk.com")));
    let told = app.timeline(&id).await.into_iter().find(|line| line["kind"] == "account").unwrap();
    assert_eq!(told["detail"], "From acmee.zendesk.com to acme.zendesk.com");
    // What was begun for the other one comes to nothing, and its code goes nowhere.
    let late = settled(&ada, &consent(&app, &ada, &begun, "ada").await).await;
    assert!(late.says("That was another account") && late.says("belongs to acme.zendesk.com"), "{}", late.text);
    assert_eq!((typo.counters().code_exchanges, app.acme.counters().code_exchanges), (0, 0));
    let connected = settled(&ada, &consent(&app, &ada, &started, "ada").await).await;
    assert_eq!((states(&connected), id_of(&connected)), (["good"; 4].map(str::to_owned).to_vec(), id.clone()));

    // From now on it belongs to its account.
    assert!(!connected.text.contains(&path), "{}", connected.text);
    let stays = ada.open(&path).await;
    assert!(stays.says("It was connected before, and stays with its account."), "{}", stays.text);
    let csrf = stays.form("/sign-out").unwrap().fields;
    let posted = ada.browser.send_fields(&ada.url(&path), &csrf, &[("account", "other")], &[]).await;
    assert_eq!((posted.status, posted.location()), (303, format!("{page}?did=account-stays")));
    assert_eq!(app.show(&id).await["account"], "acme");
}

/// The consent was exchanged, and its answer comes only after the account was changed.
async fn a_grant_of_the_account_before_is_given_back(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let ada = app.somebody(Role::Admin).await;
    let begun = start(&ada, "acme").await;
    let id = app.get("/connectors").await.json["data"][0]["id"].as_str().unwrap().to_owned();
    let path = format!("/connectors/{id}/account");
    app.acme.trouble(|faults| faults.hold_answers = true);

    let page = consent(&app, &ada, &begun, "ada").await;
    until("it is exchanged", async || app.acme.counters().code_exchanges, |count| *count == 1).await;
    let _moved = ada.submit(&path, &path, &[("account", "globex")]).await.expect(303);
    app.acme.calm();

    let ended = settled(&ada, &page).await;
    assert!(ended.says("That was another account") && ended.says("belongs to globex.zendesk.com"), "{}", ended.text);
    let shown = app.show(&id).await;
    assert_eq!((&shown["account"], &shown["health"]), (&json!("globex"), &json!("pending")));
    assert!(app.acme.ledger().sets.iter().all(|set| !set.is_live()), "it is given back where it is from");
}

async fn a_connector_that_was_never_connected_is_discarded_with_one_press(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let ada = app.somebody(Role::Admin).await;
    let started = start(&ada, "acme").await;
    let denied = ada.browser.visit(&app.sandbox.deny(&started.location()).unwrap()).await;
    let id = id_of(&denied);
    let discard = format!("/connectors/{id}/delete");
    let page = settled(&ada, &denied).await;
    assert_eq!(page.read().link("Discard"), Some(discard.clone()));

    let asked = ada.open(&discard).await.expect(200);
    assert!(asked.says("It was never connected"), "{}", asked.text);
    let form = asked.form(&discard).unwrap();
    assert_eq!(form.fields.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["csrf"]);
    let page = ada.submit_and_go_on(&discard, &discard, &[]).await.expect(200);

    assert!(page.says("The connector was deleted."), "{}", page.text);
    assert_eq!(ada.open(&format!("/connectors/{id}")).await.status, 404);
}

/// CO-01
async fn the_way_back_comes_from_the_configuration(db: Arc<Database>) {
    let public = "https://hub.example.test";
    let app = TestApp::builder(&db)
        .with(|config| config.public_url_setting = Some(Url::parse(public).unwrap()))
        .start()
        .await;
    let ada = app.somebody(Role::Admin).await;
    let form = ada.url("/connectors/new/zendesk");

    for headers in [
        &[("host", "10.0.0.5:8080")][..],
        &[("host", "10.0.0.5:8080"), ("x-forwarded-host", "evil.example.test"), ("x-forwarded-proto", "http")],
    ] {
        let started = ada.browser.press_with(&form, "/connectors/new/zendesk", &[("account", "acme")], headers).await;
        let url = Url::parse(&started.expect(303).location()).unwrap();
        let to = url.query_pairs().find(|(name, _)| name == "redirect_uri").unwrap().1.into_owned();
        assert_eq!(to, "https://hub.example.test/oauth/callback");
    }
}

/// CO-05: begun on one replica, which ends, and finished on another.
#[tokio::test(flavor = "multi_thread")]
async fn a_consent_starts_on_one_replica_and_is_watched_on_another() {
    holdfast_tests::database::on_postgres(async |db: Arc<Database>| {
        let public = "http://localhost:9";
        let begin = |builder: Builder| {
            builder.with(|config| config.public_url_setting = Some(Url::parse(public).unwrap())).start()
        };
        let one = begin(TestApp::builder(&db)).await;
        let two = begin(TestApp::builder(&db).beside(&one)).await;
        let ada = one.somebody(Role::Admin).await;
        let started = start(&ada, "acme").await;
        one.stop();
        two.advance(Duration::from_mins(5));

        let back = two.sandbox.consent(&started.location(), "ada").unwrap();
        let page = ada.browser.visit(&back.replace(public, &two.base)).await;
        let page = settled(&ada, &page).await;

        assert_eq!(states(&page), ["good"; 4], "{:?}", steps(&page));
        assert_eq!(two.show(&id_of(&page)).await["health"], "connected");
    })
    .await;
}
