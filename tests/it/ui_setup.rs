//! The first-run set-up: whoever reads the log makes the first owner, once.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use holdfast_core::Role;
use holdfast_tests::{
    browser::Browser,
    command::{Installation, Server},
    database::Database,
    html::Form,
    on_both,
    people::PASSWORD,
    service::{TestApp, sandbox},
    wait::until,
};

on_both! {
    the_link_of_the_log_makes_the_first_owner_once,
    without_the_right_token_nothing_is_shown_or_made,
    before_it_the_sign_in_form_says_where_the_link_is,
    of_two_who_set_up_at_once_one_does,
    what_is_wrong_stands_by_its_field_and_what_was_typed_stays,
    somebody_who_was_added_by_command_closes_it,
}

/// The link, once the service has made its secret.
async fn link(app: &TestApp) -> String {
    let secret = async || app.app.store.find_instance_secret("setup").await.unwrap();
    let secret = until("the secret is made", secret, Option::is_some).await.unwrap();
    app.at(&format!("/setup?token={}", URL_SAFE_NO_PAD.encode(secret)))
}

fn filled(form: Form, org: &str, email: &str) -> Form {
    form.with("org", org).with("name", "Ada Lovelace").with("email", email).with("password", PASSWORD)
}

async fn logged_link(server: &Server) -> String {
    let log = async || server.log();
    let log = until("the link is logged", log, |log| log.contains("/setup?token=")).await;
    let at = log.rfind("http://127.0.0.1").unwrap();
    log[at..].split_whitespace().next().unwrap().to_owned()
}

async fn before_it_the_sign_in_form_says_where_the_link_is(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let words = "Nobody can sign in yet";

    let before = Browser::new().visit(&app.at("/")).await.expect(200);
    app.person("Acme", "ada@example.com", Role::Owner).await;
    let after = Browser::new().visit(&app.at("/")).await.expect(200);

    assert!(before.says(words) && before.says("make the first owner at"), "{}", before.text);
    assert!(!before.text.contains("token="), "the link itself stands in the log alone: {}", before.text);
    assert!(!after.says(words) && after.form("/sign-in").is_some(), "{}", after.text);
}

async fn the_link_of_the_log_makes_the_first_owner_once(db: Arc<Database>) {
    let here = Installation::new(&db, &*sandbox().await);
    let server = here.serve().await;
    let link = logged_link(&server).await;
    if !db.is_sqlite() {
        let token = |link: &str| link.split_once("token=").unwrap().1.to_owned();
        assert_eq!(token(&logged_link(&here.serve().await).await), token(&link), "all replicas log the same one");
    }
    let browser = Browser::new();

    let form = browser.open(&link).await.form("/setup");
    let (at, _) = browser.follow(&filled(form.clone(), " Ünïcödé Söhne ", "Ada@Example.com")).await;

    assert_eq!(at, format!("{}/", server.base));
    let html = browser.open(&format!("{}/settings/account", server.base)).await;
    for words in ["ada@example.com", "Ünïcödé Söhne", "Owner: everything", "You also run this installation."] {
        assert!(html.text.contains(words), "{words}: {}", html.text);
    }
    let again = browser.get(&link).await;
    assert_eq!((again.status, again.title()), (410, "Holdfast is set up already"), "{}", again.text);
    let again = Browser::new().send_form(&form).await;
    assert_eq!(again.status, 403, "without the cookie that the form was made for: {}", again.text);
    assert_eq!(db.number("SELECT COUNT(*) FROM instance WHERE key LIKE 'secret.setup%'").await, 0);
    let (_, _) = server.terminate().await;
    let (_, log) = here.serve().await.terminate().await;
    assert!(!log.contains("/setup?token="), "{log}");
}

async fn without_the_right_token_nothing_is_shown_or_made(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let link = link(&app).await;
    let browser = Browser::new();
    let form = browser.open(&link).await.form("/setup");
    for wrong in ["/setup", "/setup?token=", "/setup?token=x", &link[app.base.len()..link.len() - 1]] {
        let page = browser.get(&app.at(wrong)).await;
        assert_eq!((page.status, page.title()), (403, "This is not the set-up link"), "{wrong}: {}", page.text);
    }
    let good = filled(form, "Globex", "ada@example.com");
    for forged in [good.clone().with("token", "x"), good.clone().without("token"), good.clone().without("csrf")] {
        assert_eq!(browser.send_form(&forged).await.status, 403);
    }
    assert_eq!(db.number("SELECT COUNT(*) FROM users").await, 0);
    assert_eq!(db.number("SELECT COUNT(*) FROM orgs WHERE name = 'Globex'").await, 0);

    assert_eq!(browser.send_form(&good).await.status, 303);
}

async fn of_two_who_set_up_at_once_one_does(db: Arc<Database>) {
    let one = TestApp::start(&db).await;
    let two = if db.is_sqlite() { None } else { Some(TestApp::builder(&db).beside(&one).start().await) };
    let link = link(&one).await;
    let (here, there) = (Browser::new(), Browser::new());
    let first = filled(here.open(&link).await.form("/setup"), "Globex", "ada@example.com");
    let other = link.replace(&one.base, two.as_ref().map_or(&one.base, |two| &two.base));
    let second = filled(there.open(&other).await.form("/setup"), "Initech", "eve@example.com");

    let (first, second) = tokio::join!(here.send_form(&first), there.send_form(&second));

    let mut statuses = [first.status, second.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [303, 410], "{} {}", first.text, second.text);
    assert_eq!(db.number("SELECT COUNT(*) FROM users").await, 1);
    assert_eq!(db.number("SELECT COUNT(*) FROM orgs").await, 2, "the harness's own, and the one");
}

async fn what_is_wrong_stands_by_its_field_and_what_was_typed_stays(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let browser = Browser::new();
    let good = filled(browser.open(&link(&app).await).await.form("/setup"), "Globex", "ada@example.com");
    for (field, value, problem) in [
        ("org", "  ", "The organisation's name has 1 to 100 characters, on one line, and none that is invisible."),
        (
            "org",
            &"x".repeat(101),
            "The organisation's name has 1 to 100 characters, on one line, and none that is invisible.",
        ),
        (
            "name",
            "",
            "Your name has 1 to 100 characters, on one line, and none that is invisible; your colleagues see it.",
        ),
        ("email", "ada", "This is not an e-mail address, such as ada@example.com."),
        ("email", "ada@example.com\r\nBcc: eve@example.com", "This is not an e-mail address, such as ada@example.com."),
        ("password", "short", "A password has at least 8 characters; a few words make a good one."),
        ("password", "ADA@example.com", "That is one of the first that anybody would try"),
    ] {
        let page = browser.send_form(&good.clone().with(field, value)).await;

        assert_eq!(page.status, 422, "{field}: {}", page.text);
        let html = page.html(&app.base);
        assert!(html.text.contains(problem), "{field}: {}", html.text);
        let again = html.form("/setup");
        for (name, typed) in [("org", "Globex"), ("name", "Ada Lovelace"), ("email", "ada@example.com")] {
            let kept = if name == field { value } else { typed };
            assert_eq!(again.value(name), Some(kept), "{field}: {name}");
        }
        assert_eq!(again.value("password"), Some(""), "a password is never shown");
    }
    assert_eq!(db.number("SELECT COUNT(*) FROM users").await, 0);
    assert_eq!(browser.send_form(&good).await.status, 303);
}

async fn somebody_who_was_added_by_command_closes_it(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let browser = Browser::new();
    let link = link(&app).await;
    let form = filled(browser.open(&link).await.form("/setup"), "Globex", "eve@example.com");

    app.person("Acme", "ada@example.com", Role::Owner).await;

    assert_eq!(browser.get(&link).await.status, 410);
    assert_eq!(browser.send_form(&form).await.status, 410);
    assert_eq!(db.number("SELECT COUNT(*) FROM users").await, 1);
}
