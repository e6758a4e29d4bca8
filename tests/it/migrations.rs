//! A provider's migration on the pages and in the API: who has to reconnect what, and how far they are.

use std::sync::Arc;

use holdfast_app::admin::{self, Ask};
use holdfast_core::{Role, ports::Clock as _};
use holdfast_tests::{
    browser::Page,
    database::Database,
    days::{deadline, deadline_in_words},
    on_both,
    service::TestApp,
    wait::until,
};
use serde_json::{Value, json};

on_both! {
    admins_reconnect_from_the_list_and_see_how_far_they_are,
    a_program_learns_what_must_be_reconnected,
    a_long_list_is_cut_and_found_again_by_its_filter,
    an_operator_starts_watches_and_ends_one_on_pages,
}

async fn start(app: &TestApp) -> Value {
    let (provider, reason) = ("zendesk".to_owned(), Some("Old tokens stop".to_owned()));
    let deadline = Some(deadline());
    let ask = Ask::MigrationStart { provider, deadline, reason, only_endless: false, dry_run: false };
    admin::run(&app.app, ask).await.unwrap()
}

#[track_caller]
fn needs(page: &Page) -> String {
    page.read().by_id("needs").unwrap_or_else(|| panic!("{}", page.text)).text()
}

async fn admins_reconnect_from_the_list_and_see_how_far_they_are(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let (ada, cleo) = (app.somebody(Role::Admin).await, app.somebody(Role::Member).await);
    let gus = app.somebody_of("Globex", Role::Owner).await;
    let support = app.import_with("acme", json!({ "name": "Support" })).await;
    app.import_with("second", json!({ "name": "Second" })).await;
    assert!(needs(&ada.open("/connectors").await).contains("All well"));

    start(&app).await;

    let home = ada.open("/connectors").await.expect(200);
    let told = needs(&home);
    let both = format!("2 connectors have to be reconnected by {}", deadline_in_words());
    for words in [both.as_str(), "Old tokens stop. 0 of 2 done.", "Support"] {
        assert!(told.contains(words), "{words:?} is not in {told}");
    }
    assert!(!told.contains("All well"), "{told}");
    let reconnect = format!("/connectors/{support}/reconnect");
    let seen = cleo.open("/connectors").await.expect(200);
    assert!(needs(&seen).contains("2 connectors have to be reconnected"), "{}", seen.text);
    assert!(needs(&seen).contains("An admin of your organisation can do it.") && !seen.text.contains(&reconnect));
    assert!(!gus.open("/connectors").await.text.contains("reconnected by"), "another organisation's is not theirs");

    let started = ada.submit("/connectors", &reconnect, &[]).await;
    ada.browser.visit(&app.sandbox.consent(&started.location(), "ada").unwrap()).await;

    let home = async || needs(&ada.open("/connectors").await);
    let one_left = format!("1 connector has to be reconnected by {}", deadline_in_words());
    let told = until("the grant is stored", home, |told| told.contains(&one_left)).await;
    assert!(told.contains("1 of 2 done.") && told.contains("Second") && !told.contains("Support"), "{told}");
}

async fn a_program_learns_what_must_be_reconnected(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let (one, two) = (app.import("acme").await, app.import("second").await);
    assert_eq!(app.show(&one).await["must_reconnect"], json!(null));

    let id = start(&app).await["id"].clone();

    let must = json!({ "by": deadline(), "reason": "Old tokens stop", "migration": id });
    assert_eq!(app.show(&one).await["must_reconnect"], must);
    let page = app.consent(&app.reconnect_link(&one).await).await;
    assert_eq!(page.title(), "Connected", "{}", page.text);
    assert_eq!(app.show(&one).await["must_reconnect"], json!(null));
    for (asked, expected) in [("true", &two), ("false", &one)] {
        let found = app.get(&format!("/connectors?must_reconnect={asked}")).await.expect(200).json;
        let ids: Vec<_> = found["data"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
        assert_eq!(ids, [expected.as_str()], "{asked}");
    }
    assert_eq!(app.get("/connectors?must_reconnect=soon").await.status, 422);

    admin::run(&app.app, Ask::MigrationEnd { id: id.as_str().unwrap().to_owned() }).await.unwrap();
    assert_eq!(app.show(&two).await["must_reconnect"], json!(null));
}

async fn a_long_list_is_cut_and_found_again_by_its_filter(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let ada = app.somebody(Role::Admin).await;
    for number in 0..12 {
        app.import_with(&format!("desk{number}"), json!({ "name": format!("Desk {number:02}") })).await;
    }
    start(&app).await;
    app.import_with("later", json!({ "name": "Later" })).await;

    let home = ada.open("/connectors").await;

    let told = needs(&home);
    assert!(told.contains("Desk 09") && !told.contains("Desk 10"), "{told}");
    assert_eq!(home.read().link("2 more to be reconnected"), Some("/connectors?health=must_reconnect".to_owned()));
    let list = ada.open("/connectors?health=must_reconnect").await.expect(200);
    let rows = list.read().by_id("list").unwrap().text();
    assert!(rows.contains("Desk 11") && !rows.contains("Later"), "{rows}");
    assert!(list.text.contains("Provider’s migration (12)"), "{}", list.text);
}

fn fields<'a>(deadline: &'a str, reason: &'a str, act: &'a str) -> [(&'a str, &'a str); 4] {
    [("provider", "zendesk"), ("deadline", deadline), ("reason", reason), ("act", act)]
}

async fn an_operator_starts_watches_and_ends_one_on_pages(db: Arc<Database>) {
    const HERE: &str = "/settings/migrations";
    let app = TestApp::start(&db).await;
    let (ada, op) = (app.somebody(Role::Admin).await, app.operator().await);
    let support = app.import_with("acme", json!({ "name": "Support" })).await;
    app.import_with("second", json!({ "name": "Second" })).await;
    let (day, today) = (deadline(), app.clock.now().date_naive().to_string());
    assert!(
        op.open("/settings").await.expect(200).says("Migrations") && !ada.open("/settings").await.says("Migrations")
    );
    assert!(op.open(HERE).await.expect(200).says("None so far"));

    for (deadline, reason, words) in [
        ("", "Old tokens stop", "By when? It is the last day to reconnect on."),
        ("soon", "Old tokens stop", "This is not a day; one is written as 2027-04-01."),
        (
            "2020-04-01",
            "Old tokens stop",
            "This day is not ahead; it is the last one to reconnect on. The earliest is ",
        ),
        (&today, "Old tokens stop", "This day is not ahead; "),
        (
            "9999-12-31",
            "Old tokens stop",
            "This day is more than 10 years ahead, and nobody would act by it. The latest is ",
        ),
        (&day, " ", "Why? The people who are asked to act read it."),
        (&day, "Old\ntokens", "It is one line of at most 300 characters, all of them visible."),
    ] {
        let page = op.submit(HERE, HERE, &fields(deadline, reason, "start")).await;
        assert!(page.status == 422 && page.says(words), "{words}: {}", page.text);
    }
    let nobody = [("provider", "front"), ("deadline", ""), ("reason", ""), ("act", "look")];
    let page = op.submit(HERE, HERE, &nobody).await;
    assert!(
        page.status == 422 && page.says("Nobody has to act: none of its connectors is connected."),
        "{}",
        page.text
    );
    let page = op.submit(HERE, HERE, &fields("", "", "look")).await.expect(200);
    assert!(page.says("It would ask for 2 connectors of 1 organisation. Nothing was changed."), "{}", page.text);
    assert!(page.says("None so far"));

    let started = op.submit(HERE, HERE, &fields(&day, "Old tokens stop", "start")).await.expect(303).location();

    let page = op.open(&started).await.expect(200);
    for words in ["0 of 2 done", &deadline_in_words(), "Old tokens stop", "Support", "Second", "Not done", "Acme"] {
        assert!(page.says(words), "{words} is not in {}", page.text);
    }
    assert!(page.says(&format!("/connectors/{support}")), "its page can be handed on: {}", page.text);
    let both = format!("2 connectors have to be reconnected by {}", deadline_in_words());
    assert!(needs(&ada.open("/connectors").await).contains(&both));
    let twice = op.submit(HERE, HERE, &fields(&day, "Old tokens stop", "start")).await;
    assert!(twice.status == 422 && twice.says("One of this provider is under way. End it first."), "{}", twice.text);
    assert_eq!(app.consent(&app.reconnect_link(&support).await).await.title(), "Connected");
    let place = started.split('?').next().unwrap();
    let page = op.open(place).await.expect(200);
    assert!(page.says("1 of 2 done") && page.says("Second") && !page.says("Support"), "{}", page.text);

    let ended = op.submit(place, &format!("{place}/end"), &[]).await.expect(303).location();

    let page = op.open(&ended).await.expect(200);
    assert!(page.says("Ended without these") && !page.says("To be reconnected"), "{}", page.text);
    assert!(!needs(&ada.open("/connectors").await).contains("reconnected"));
    assert!(op.open(HERE).await.expect(200).says("Ended"));
    assert_eq!(ada.open(place).await.status, 404, "it is for operators");
}
