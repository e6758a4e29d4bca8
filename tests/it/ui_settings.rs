//! Settings in a browser: one's own account, the browsers that are signed in, and API keys.

use std::{sync::Arc, time::Duration};

use holdfast_core::Role;
use holdfast_tests::{
    browser::{Browser, Page},
    database::Database,
    html::Html,
    on_both,
    people::PASSWORD,
    service::TestApp,
};

on_both! {
    a_name_is_changed_and_shown,
    a_password_is_changed_with_the_current_one_and_every_other_browser_is_out,
    a_password_is_changed_in_all_orgs_where_it_is_the_same,
    a_changed_password_is_not_proven_by_older_sessions_of_other_orgs,
    the_current_password_is_guessed_no_faster_here_than_at_the_door,
    browsers_are_listed_and_signed_out,
    a_key_is_shown_once_and_opens_what_it_may,
    a_form_that_is_sent_twice_makes_one_key,
    what_is_wrong_with_a_key_stands_by_its_field,
    a_revoked_key_opens_nothing_and_another_orgs_cannot_be_touched,
}

const ADA: &str = "ada@example.com";
const NEW: &str = "another good password";

async fn start(db: &Arc<Database>) -> (TestApp, Browser) {
    let app = TestApp::start(db).await;
    app.person("Acme", ADA, Role::Admin).await;
    let browser = app.signed_in(ADA).await;
    (app, browser)
}

async fn account(app: &TestApp, browser: &Browser) -> Html {
    browser.open(&app.at("/settings/account")).await
}

async fn change_password(app: &TestApp, browser: &Browser, current: &str, new: &str) -> Page {
    let form = account(app, browser).await.form("/settings/account/password");
    browser.send_form(&form.with("current", current).with("new", new)).await
}

/// A browser that calls itself this.
async fn signed_in_with(app: &TestApp, name: &str) -> Browser {
    let browser = Browser::new();
    let form = browser.open(&app.at("/sign-in")).await.form("/sign-in").with("email", ADA).with("password", PASSWORD);
    assert_eq!(browser.send_body(&form.action, &form.encoded(), &[("user-agent", name)]).await.status, 303);
    browser
}

async fn a_name_is_changed_and_shown(db: Arc<Database>) {
    let (app, browser) = start(&db).await;
    let form = account(&app, &browser).await.form("/settings/account/name");
    for bad in ["", "   ", "a\r\nb", &"x".repeat(101)] {
        let page = browser.send_form(&form.clone().with("name", bad)).await;
        assert_eq!(page.status, 422, "{bad:?}");
        let html = page.html(&app.base);
        assert!(html.text.contains("Your name has 1 to 100 characters"), "{}", html.text);
        assert_eq!(html.form("/settings/account/name").value("name"), Some(bad), "what was typed is kept");
    }

    let (at, page) = browser.follow(&form.with("name", " <b>Ada</b> \"Lovelace\" & 愛 ")).await;

    assert_eq!(at, app.at("/settings/account?done=name"));
    let html = page.html(&at);
    assert!(html.text.contains("Your name is changed."), "{}", html.text);
    assert!(html.text.contains("<b>Ada</b> \"Lovelace\" & 愛 Acme"), "in the frame: {}", html.text);
    assert_eq!(html.form("/settings/account/name").value("name"), Some("<b>Ada</b> \"Lovelace\" & 愛"));
}

async fn a_password_is_changed_with_the_current_one_and_every_other_browser_is_out(db: Arc<Database>) {
    let (app, browser) = start(&db).await;
    let other = app.signed_in(ADA).await;
    let copied = Browser::new();
    copied.keep("holdfast_session", &browser.cookies()["holdfast_session"]);
    assert_eq!(app.settings_of(&copied).await, 200);

    for (current, new, problem) in [
        ("wrong", NEW, "That is not your password."),
        ("", NEW, "That is not your password."),
        (PASSWORD, "short", "A password has at least 8 characters"),
        (PASSWORD, ADA, "That is one of the first that anybody would try"),
        (PASSWORD, PASSWORD, "That is the one that you have already."),
    ] {
        let page = change_password(&app, &browser, current, new).await;
        assert_eq!(page.status, 422, "{problem}");
        assert!(page.html(&app.base).text.contains(problem), "{problem}: {}", page.text);
        assert!(!page.text.contains(PASSWORD) && !page.text.contains(NEW), "a password is never shown");
    }
    assert_eq!(app.settings_of(&other).await, 200, "nothing has changed so far");

    let page = change_password(&app, &browser, PASSWORD, NEW).await;

    assert_eq!((page.status, page.location().as_str()), (303, "/settings/account?done=password"));
    assert_eq!(app.settings_of(&browser).await, 200);
    assert_eq!(app.settings_of(&other).await, 303, "every other browser is out");
    assert_eq!(app.settings_of(&copied).await, 303, "and so is a copy of this one's cookie");
    assert_eq!(app.try_to_sign_in(&Browser::new(), ADA, PASSWORD).await.status, 422);
    assert_eq!(app.try_to_sign_in(&Browser::new(), ADA, NEW).await.status, 303);
}

async fn a_password_is_changed_in_all_orgs_where_it_is_the_same(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    for org in ["Acme", "Globex", "Initech"] {
        let password = if org == "Initech" { "of Initech alone" } else { PASSWORD };
        app.person_with(org, ADA, Role::Viewer, false, password).await;
    }
    let browser = app.signed_in(ADA).await;
    let html = account(&app, &browser).await;
    assert!(html.text.contains("Also in Globex, where the current one is the same"), "{}", html.text);

    let form = html.form("/settings/account/password").with("current", PASSWORD).with("new", NEW);
    assert_eq!(form.value("everywhere"), Some("yes"), "ticked beforehand");
    assert_eq!(browser.send_form(&form).await.status, 303);

    let of_new = Browser::new();
    assert_eq!(app.try_to_sign_in(&of_new, ADA, NEW).await.status, 303);
    let html = of_new.open(&app.at("/settings/organisations")).await;
    assert!(html.text.contains("Acme") && html.text.contains("Globex") && !html.text.contains("Initech"));
    assert_eq!(app.try_to_sign_in(&Browser::new(), ADA, PASSWORD).await.status, 422);
    assert_eq!(app.try_to_sign_in(&Browser::new(), ADA, "of Initech alone").await.status, 303);
    assert!(browser.open(&app.at("/settings/organisations")).await.text.contains("Globex"), "still proven here");
}

async fn a_changed_password_is_not_proven_by_older_sessions_of_other_orgs(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    app.person("Acme", ADA, Role::Viewer).await;
    app.person("Globex", ADA, Role::Viewer).await;
    let (browser, over) = (app.signed_in(ADA).await, app.signed_in(ADA).await);
    let form = over.open(&app.at("/settings/organisations")).await.form("/settings/organisations");
    assert_eq!(over.send_form(&form).await.status, 303, "goes over to Globex");
    let back = over.open(&app.at("/settings/organisations")).await.form("/settings/organisations");

    let form = account(&app, &browser).await.form("/settings/account/password").without("everywhere");
    assert_eq!(browser.send_form(&form.with("current", PASSWORD).with("new", NEW)).await.status, 303);

    let html = over.open(&app.at("/settings/organisations")).await;
    assert!(html.text.contains("Globex") && !html.text.contains("Acme"), "{}", html.text);
    assert_eq!(over.send_form(&back).await.status, 404, "the way back is closed");
}

async fn the_current_password_is_guessed_no_faster_here_than_at_the_door(db: Arc<Database>) {
    let (app, browser) = start(&db).await;
    for _ in 0..5 {
        assert_eq!(change_password(&app, &browser, "wrong", NEW).await.status, 422);
    }

    let page = change_password(&app, &browser, PASSWORD, NEW).await;

    assert!(page.html(&app.base).text.contains("Too many attempts. Wait 5 seconds"), "{}", page.text);
    assert_eq!(app.try_to_sign_in(&Browser::new(), ADA, PASSWORD).await.status, 303, "the door is another matter");
    app.clock.advance(Duration::from_secs(5));
    assert_eq!(change_password(&app, &browser, PASSWORD, NEW).await.status, 303);
}

async fn browsers_are_listed_and_signed_out(db: Arc<Database>) {
    let (app, browser) = start(&db).await;
    app.person("Acme", "eve@example.com", Role::Owner).await;
    let eve = app.signed_in("eve@example.com").await;
    let phone =
        signed_in_with(&app, "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) Version/26.0 Safari/604.1").await;
    app.clock.advance(Duration::from_hours(3));
    let desk = signed_in_with(&app, "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0 <b>").await;

    let html = account(&app, &browser).await;
    for words in [
        "Safari on an iPhone Last used 3 hours ago. Signed in 3 hours ago",
        "Firefox on Linux Last used just now.",
        "This browser",
    ] {
        assert!(html.text.contains(words), "{words}: {}", html.text);
    }
    let ends: Vec<_> = html.forms.iter().filter(|form| form.action.ends_with("/end")).collect();
    assert_eq!(ends.len(), 2, "one's own is left with the menu's button: {:?}", html.forms);
    // The one used last comes first, so the telephone's is the last of these.
    let of_phone = ends[1];
    assert_eq!(eve.send_body(&of_phone.action, &eve_csrf(&app, &eve).await, &[]).await.status, 404, "not Eve's to end");
    assert_eq!(app.settings_of(&phone).await, 200);
    assert_eq!(browser.send_form(of_phone).await.location(), "/settings/account?done=ended");

    assert_eq!((app.settings_of(&phone).await, app.settings_of(&desk).await), (303, 200));
    assert_eq!(browser.send_form(of_phone).await.status, 404, "it is over already");
    let others = account(&app, &browser).await.form("/settings/account/sessions/end-others");
    assert_eq!(browser.send_form(&others).await.location(), "/settings/account?done=others");
    assert_eq!((app.settings_of(&desk).await, app.settings_of(&browser).await), (303, 200));
    assert_eq!(app.settings_of(&eve).await, 200, "other people are left alone");
    let html = account(&app, &browser).await;
    assert!(!html.forms.iter().any(|form| form.action.contains("/sessions/")), "{:?}", html.forms);
}

async fn eve_csrf(app: &TestApp, eve: &Browser) -> String {
    let csrf = eve.open(&app.at("/settings")).await.form("/sign-out").value("csrf").unwrap().to_owned();
    format!("csrf={csrf}")
}

async fn a_key_is_shown_once_and_opens_what_it_may(db: Arc<Database>) {
    let (app, browser) = start(&db).await;
    let html = browser.open(&app.at("/settings/keys")).await;
    let form = html.form("/settings/keys").with("name", " <i>Assistant</i> ").ticked("scope", "connectors:read");

    let page = browser.send_form(&form).await;

    assert_eq!(page.status, 200, "{}", page.text);
    assert_eq!(page.headers["cache-control"], "no-store");
    let html = page.html(&app.base);
    let key = html.codes.iter().find(|code| code.starts_with("hf_") && code.len() == 46).unwrap().clone();
    assert!(html.text.contains("The key <i>Assistant</i> is made"), "{}", html.text);
    assert!(html.text.contains("See connectors, their health and what happened to them"), "{}", html.text);
    let call = async |path: &str, body: Option<serde_json::Value>| {
        let method = if body.is_some() { reqwest::Method::POST } else { reqwest::Method::GET };
        app.call(method, path, Some(&key), body).await.status
    };
    assert_eq!(call("/connectors", None).await, 200);
    assert_eq!(call("/connectors", Some(app.import_body("acme"))).await, 403, "it may only read");
    let html = browser.open(&app.at("/settings/keys")).await;
    assert!(html.text.contains("<i>Assistant</i>") && !html.text.contains(&key), "{}", html.text);
    assert!(!String::from_utf8_lossy(&db.dump().await).contains(&key[3..]), "it is stored nowhere");
}

async fn a_form_that_is_sent_twice_makes_one_key(db: Arc<Database>) {
    let (app, browser) = start(&db).await;
    let before = db.number("SELECT COUNT(*) FROM api_keys").await;
    let form = browser.open(&app.at("/settings/keys")).await.form("/settings/keys");
    let form = form.with("name", "Assistant").ticked("scope", "tools").ticked("scope", "agents");

    let (one, two) = tokio::join!(browser.send_form(&form), browser.send_form(&form));

    let mut statuses = [one.status, two.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409], "{} {}", one.text, two.text);
    let late = if one.status == 409 { one } else { two };
    assert_eq!(late.title(), "This key was made already");
    assert_eq!(db.number("SELECT COUNT(*) FROM api_keys").await, before + 1);
}

async fn what_is_wrong_with_a_key_stands_by_its_field(db: Arc<Database>) {
    let (app, browser) = start(&db).await;
    let before = db.number("SELECT COUNT(*) FROM api_keys").await;
    let form = browser.open(&app.at("/settings/keys")).await.form("/settings/keys");

    let page = browser.send_form(&form.clone().with("name", "Assistant")).await;
    assert_eq!(page.status, 422);
    let html = page.html(&app.base);
    assert!(html.text.contains("Choose what the key may do."), "{}", html.text);
    assert_eq!(html.form("/settings/keys").value("name"), Some("Assistant"), "what was typed is kept");
    let page = browser.send_form(&form.clone().ticked("scope", "tools")).await;
    assert_eq!(page.status, 422);
    let html = page.html(&app.base);
    assert!(html.text.contains("A key's name has 1 to 100 characters"), "{}", html.text);
    assert_eq!(html.form("/settings/keys").value("scope"), Some("tools"), "what was ticked is kept");
    // What no form of ours sends.
    let mut forged = form.clone().with("name", "Assistant");
    forged.fields.push(("scope".to_owned(), "root".to_owned()));
    assert_eq!(browser.send_form(&forged).await.status, 400);
    let forged = form.ticked("scope", "tools").with("name", "Assistant").with("id", "key_../../x");
    assert_eq!(browser.send_form(&forged).await.status, 400);

    assert_eq!(db.number("SELECT COUNT(*) FROM api_keys").await, before);
}

async fn a_revoked_key_opens_nothing_and_another_orgs_cannot_be_touched(db: Arc<Database>) {
    let (app, browser) = start(&db).await;
    let theirs = app.key_of("Globex").await;
    app.person("Globex", "eve@example.com", Role::Owner).await;
    let eve = app.signed_in("eve@example.com").await;
    let html = browser.open(&app.at("/settings/keys")).await;
    let revoke = html.forms.iter().find(|form| form.action.ends_with("/revoke")).unwrap().clone();
    assert_eq!(app.get("/connectors").await.status, 200);

    assert_eq!(eve.send_body(&revoke.action, &eve_csrf(&app, &eve).await, &[]).await.status, 404);
    assert_eq!(app.get("/connectors").await.status, 200);
    let (at, page) = browser.follow(&revoke).await;

    assert!(page.html(&at).text.contains("The key is revoked; it opens nothing any more."), "{}", page.text);
    let html = page.html(&at);
    assert!(html.text.contains("1 revoked") && html.text.contains("No key yet"), "{}", html.text);
    let _refused = app.get("/connectors").await.problem(401, "unauthorized");
    assert_eq!(browser.send_form(&revoke).await.status, 303, "pressed twice: it stays revoked");
    assert_eq!(app.call(reqwest::Method::GET, "/connectors", Some(&theirs), None).await.status, 200);
}
