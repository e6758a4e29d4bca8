//! Event endpoints in a browser: made with a secret that is shown once, tried, changed, stopped, mailed of, deleted.

use std::{sync::Arc, time::Duration};

use holdfast_core::Role;
use holdfast_tests::{
    browser::Page, database::Database, on_both, people::Person, receiver::Receiver, service::TestApp, smtp::Smtp,
    wait::until,
};

on_both! {
    an_endpoint_is_made_and_its_secret_is_shown_once,
    what_is_wrong_stands_by_its_field_and_what_was_typed_stays,
    a_form_that_is_sent_twice_makes_one_endpoint,
    a_test_is_sent_and_its_attempt_is_shown,
    a_secret_is_changed_and_the_one_before_signs_too,
    an_endpoint_is_disabled_enabled_and_told_again_what_it_missed,
    an_endpoint_is_changed_and_deleted,
    admins_are_told_once_of_an_endpoint_that_is_gone,
}

const HERE: &str = "/settings/event-endpoints";

async fn start(db: &Arc<Database>) -> (TestApp, Person, Receiver) {
    let app = TestApp::start(db).await;
    let ada = app.somebody(Role::Admin).await;
    (app, ada, Receiver::start().await)
}

/// Makes one in the browser; the page with its secret.
async fn make(ada: &Person, url: &str) -> Page {
    ada.submit(HERE, HERE, &[("url", url), ("description", "Our app")]).await
}

fn secret_in(page: &Page) -> Option<String> {
    let begins = page.text.find("whsec_")?;
    let rest = &page.text[begins..];
    let word: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || "_+/=".contains(*c)).collect();
    Some(word)
}

/// The page of the only endpoint.
async fn path(app: &TestApp) -> String {
    let all = app.app.store.event_endpoints(&app.org, app.app.seams.clock.now()).await.unwrap();
    assert_eq!(all.len(), 1, "{all:?}");
    format!("{HERE}/{}", all[0].id)
}

/// Waits until the page says so.
async fn says(ada: &Person, path: &str, words: &str) -> Page {
    until(&format!("the page says {words}"), async || ada.open(path).await, |page| page.text.contains(words)).await
}

async fn an_endpoint_is_made_and_its_secret_is_shown_once(db: Arc<Database>) {
    let (app, ada, receiver) = start(&db).await;
    let empty = ada.open(HERE).await;
    assert!(empty.text.contains("No endpoint yet") && empty.text.contains("signed POST"), "{}", empty.text);

    let made = make(&ada, &receiver.url).await;

    let secret = secret_in(&made).expect("it is shown");
    assert!(made.status == 200 && made.text.contains("the only time that you see it"), "{}", made.text);
    let path = path(&app).await;
    for again in [path.as_str(), HERE, "/settings"] {
        assert!(!ada.open(again).await.text.contains("whsec_"), "{again}");
    }
    let list = ada.open(HERE).await;
    assert!(list.text.contains("Our app") && list.text.contains(&receiver.url), "{}", list.text);
    assert!(ada.open("/settings").await.text.contains("One endpoint is told"));
    let _connected = app.import("acme").await;
    assert!(receiver.hears(1).await[0].is_verified_by(&secret));
    let others = app.somebody_of("Globex", Role::Owner).await;
    assert_eq!(others.open(&path).await.status, 404);
    assert!(others.open(HERE).await.text.contains("No endpoint yet"));
}

async fn what_is_wrong_stands_by_its_field_and_what_was_typed_stays(db: Arc<Database>) {
    let (app, ada, _) = start(&db).await;

    for (fields, words) in [
        ([("url", "http://app.example.com/<x>"), ("description", "Our app"), ("which", "all")], "begin with https://"),
        ([("url", "nowhere"), ("description", "Our app"), ("which", "all")], "Enter an address such as"),
        ([("url", "https://app.example.com/"), ("description", "Our app"), ("which", "some")], "Choose at least one"),
    ] {
        let page = ada.submit(HERE, HERE, &fields).await;
        assert_eq!(page.status, 422, "{words}");
        assert!(page.text.contains(words) && page.text.contains("Our app"), "{}", page.text);
    }
    assert!(app.app.store.event_endpoints(&app.org, app.app.seams.clock.now()).await.unwrap().is_empty());
}

async fn a_form_that_is_sent_twice_makes_one_endpoint(db: Arc<Database>) {
    let (app, ada, receiver) = start(&db).await;
    let page = ada.open(HERE).await;
    let form = page.html(&ada.url(HERE)).form(HERE).with("url", &receiver.url);

    let (first, second) = (ada.browser.send_form(&form).await, ada.browser.send_form(&form).await);

    assert_eq!(secret_in(&first), secret_in(&second));
    path(&app).await;
}

async fn a_test_is_sent_and_its_attempt_is_shown(db: Arc<Database>) {
    let (app, ada, receiver) = start(&db).await;
    make(&ada, &receiver.url).await;
    let path = path(&app).await;
    receiver.answer(500);

    let sent = ada.submit_and_go_on(&path, &format!("{path}/test"), &[]).await;

    assert!(sent.text.contains("A test is on its way"), "{}", sent.text);
    let page = says(&ada, &path, "Failing").await;
    assert!(page.text.contains("Not taken, 500") && page.text.contains("endpoint.test"), "{}", page.text);
    assert!(page.text.contains("It answered 500: only 2xx counts as taken."), "{}", page.text);
    let event = receiver.told()[0].id();
    let again = ada.submit_and_go_on(&path, &format!("{path}/replay"), &[("event", &event)]).await;
    assert!(again.text.contains("One event is on its way again"), "{}", again.text);
    let page = says(&ada, &path, "Taken, 204").await;
    assert!(page.text.contains("Active"), "{}", page.text);
    assert_eq!(receiver.told()[1].id(), event);
}

async fn a_secret_is_changed_and_the_one_before_signs_too(db: Arc<Database>) {
    let (app, ada, receiver) = start(&db).await;
    let old = secret_in(&make(&ada, &receiver.url).await).unwrap();
    let path = path(&app).await;

    let rotated = ada.submit(&path, &format!("{path}/rotate"), &[]).await;

    let new = secret_in(&rotated).expect("it is shown");
    assert!(new != old && rotated.text.contains("the one before signs too"), "{}", rotated.text);
    let _sent = ada.submit(&path, &format!("{path}/test"), &[]).await;
    let told = receiver.hears(1).await.remove(0);
    assert!(told.is_verified_by(&old) && told.is_verified_by(&new));
    let leaked = ada.submit(&path, &format!("{path}/rotate"), &[("before", "now")]).await;
    let last = secret_in(&leaked).expect("it is shown");
    let _sent = ada.submit(&path, &format!("{path}/test"), &[]).await;
    let told = receiver.hears(2).await.remove(1);
    assert_eq!((told.is_verified_by(&new), told.is_verified_by(&last)), (false, true));
}

async fn an_endpoint_is_disabled_enabled_and_told_again_what_it_missed(db: Arc<Database>) {
    let (app, ada, receiver) = start(&db).await;
    make(&ada, &receiver.url).await;
    let path = path(&app).await;
    app.advance(Duration::from_mins(2));
    let since = app.app.seams.clock.now().format("%Y-%m-%dT%H:%M").to_string();

    let off = ada.submit_and_go_on(&path, &format!("{path}/disable"), &[]).await;
    assert!(off.text.contains("nothing is sent there") && !off.text.contains("Send a test"), "{}", off.text);
    app.import("acme").await;
    let on = ada.submit_and_go_on(&path, &format!("{path}/enable"), &[]).await;
    assert!(on.text.contains("It is enabled."), "{}", on.text);
    assert!(receiver.told().is_empty());
    let again = ada.submit_and_go_on(&path, &format!("{path}/replay"), &[("event", ""), ("since", &since)]).await;

    assert!(again.text.contains("One event is on its way again"), "{}", again.text);
    assert_eq!(receiver.hears(1).await[0].kind(), "connector.connected");
    let none =
        ada.submit_and_go_on(&path, &format!("{path}/replay"), &[("event", ""), ("since", "2030-01-01T00:00")]).await;
    assert!(none.text.contains("There was nothing to send again"), "{}", none.text);
    let bad = ada.submit(&path, &format!("{path}/replay"), &[("event", ""), ("since", "yesterday")]).await;
    assert!(bad.status == 422 && bad.text.contains("2026-11-30T10:00"), "{}", bad.text);
}

async fn an_endpoint_is_changed_and_deleted(db: Arc<Database>) {
    let (app, ada, receiver) = start(&db).await;
    make(&ada, "https://app.example.com/old").await;
    let path = path(&app).await;

    let fields =
        [("url", receiver.url.as_str()), ("description", "<b>New</b>"), ("which", "some"), ("types", "ticket.created")];
    let changed = ada.submit_and_go_on(&path, &path, &fields).await;

    assert!(changed.text.contains("It is changed.") && changed.text.contains("One type"), "{}", changed.text);
    assert!(changed.text.contains("&lt;b&gt;New"), "{}", changed.text);
    app.import("acme").await;
    let wrong = ada.submit(&path, &path, &[("url", "http://x.example/")]).await;
    assert!(wrong.status == 422 && wrong.text.contains("begin with https://"), "{}", wrong.text);
    let gone = ada.submit_and_go_on(&path, &format!("{path}/delete"), &[]).await;
    assert!(gone.text.contains("The endpoint is deleted") && gone.text.contains("No endpoint yet"), "{}", gone.text);
    assert_eq!(ada.open(&path).await.status, 404);
    assert!(receiver.told().is_empty(), "it had chosen other events");
}

async fn admins_are_told_once_of_an_endpoint_that_is_gone(db: Arc<Database>) {
    let smtp = Smtp::start().await;
    let app = TestApp::builder(&db).with(|config| smtp.configure(config)).start().await;
    let (ada, receiver) = (app.somebody(Role::Admin).await, Receiver::start().await);
    app.somebody(Role::Member).await;
    make(&ada, &receiver.url).await;
    let path = path(&app).await;
    receiver.answer(410);

    let _sent = ada.submit(&path, &format!("{path}/test"), &[]).await;
    let page = says(&ada, &path, "It answered that it is gone (410)").await;
    for _ in 0..2 {
        app.app.mail_due().await.unwrap();
    }

    assert!(page.text.contains("Enable"), "{}", page.text);
    assert!(ada.open("/settings").await.text.contains("Needs you"));
    let mails = smtp.messages().await;
    assert_eq!(mails.len(), 1, "admins alone, once");
    assert_eq!(mails[0].subject, "Our app gets no events any more");
    let place = receiver.url.trim_start_matches("http://");
    for words in ["It answered that it is gone (410).", place, "kept for 30 days", "It answered 410"] {
        assert!(mails[0].text.contains(words), "{words}: {}", mails[0].text);
    }
    assert!(mails[0].links().iter().any(|link| link.ends_with(&path)), "{:?}", mails[0].links());
    assert!(!mails[0].text.contains("whsec_"));
}
