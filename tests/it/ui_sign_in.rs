//! Signing in and out in a browser: who gets in, who has to wait, and when a session is over.

use std::{sync::Arc, time::Duration};

use holdfast_app::admin::{self, Ask};
use holdfast_core::Role;
use holdfast_tests::{browser::Browser, database::Database, on_both, people::PASSWORD, service::TestApp};
use reqwest::Method;

on_both! {
    who_has_the_password_gets_in_and_out_again,
    a_session_is_over_when_it_rests_or_gets_old,
    signing_in_gives_a_new_session_and_ends_the_one_before,
    nobody_learns_which_addresses_exist,
    guessing_is_slowed_down_and_the_right_password_waits_as_well,
    a_thousand_guesses_at_once_are_a_thousand_guesses,
    a_form_without_its_token_signs_nobody_in,
    nobody_is_sent_elsewhere_after_signing_in,
    a_person_of_two_orgs_with_one_password_can_go_over,
    a_person_of_two_orgs_with_two_passwords_gets_where_the_password_leads,
    sessions_and_api_keys_open_only_their_own_doors,
    a_form_of_many_megabytes_is_refused,
    people_and_passwords_of_any_script_are_at_home,
}

const ADA: &str = "ada@example.com";

async fn start(db: &Arc<Database>) -> TestApp {
    let app = TestApp::start(db).await;
    app.person("Acme", ADA, Role::Owner).await;
    app
}

fn cookie_header(page: &holdfast_tests::browser::Page, name: &str) -> String {
    let mut all = page.headers.get_all("set-cookie").iter().rev().map(|value| value.to_str().unwrap());
    all.find(|cookie| cookie.starts_with(&format!("{name}="))).unwrap_or_default().to_owned()
}

async fn who_has_the_password_gets_in_and_out_again(db: Arc<Database>) {
    let app = start(&db).await;
    let browser = Browser::new();
    let refused = browser.get(&app.at("/settings?x=1")).await;
    assert_eq!((refused.status, refused.location().as_str()), (303, "/sign-in?next=%2Fsettings%3Fx%3D1"));

    let form = browser.open(&app.at(&refused.location())).await.form("/sign-in");
    let form = form.with("email", " Ada@Example.com").with("password", PASSWORD);
    let let_in = browser.send_form(&form).await;

    assert_eq!((let_in.status, let_in.location().as_str()), (303, "/settings?x=1"));
    let cookie = cookie_header(&let_in, "holdfast_session");
    for attribute in ["HttpOnly", "SameSite=Lax", "Path=/"] {
        assert!(cookie.contains(attribute), "{attribute} in {cookie}");
    }
    assert!(!cookie.contains("Domain") && !cookie.contains("Secure"), "{cookie}");
    let value = browser.cookies()["holdfast_session"].clone();
    assert_eq!(value.len(), 43, "256 bits");
    assert_eq!(db.number("SELECT COUNT(*) FROM browser_sessions").await, 1);
    let dump = db.dump().await;
    assert!(!dump.windows(value.len()).any(|bytes| bytes == value.as_bytes()), "the cookie itself is nowhere");
    let html = browser.open(&app.at("/settings")).await;
    assert!(html.text.contains(ADA) && html.text.contains("Acme"), "{}", html.text);

    let signed_out = browser.send_form(&html.form("/sign-out")).await;

    assert_eq!((signed_out.status, signed_out.location().as_str()), (303, "/sign-in"));
    assert!(cookie_header(&signed_out, "holdfast_session").contains("Max-Age=0"));
    assert!(!browser.cookies().contains_key("holdfast_session"));
    assert_eq!(db.number("SELECT COUNT(*) FROM browser_sessions").await, 0);
    browser.keep("holdfast_session", &value);
    assert_eq!(app.settings_of(&browser).await, 303, "the old cookie opens nothing");
    // Pressed once more, in another tab: that is what was wanted.
    let again = browser.send_form(&html.form("/sign-out")).await;
    assert_eq!((again.status, again.location().as_str()), (303, "/sign-in"));
}

async fn a_session_is_over_when_it_rests_or_gets_old(db: Arc<Database>) {
    let app = start(&db).await;
    let day = Duration::from_hours(24);
    let (idle, busy) = (app.signed_in(ADA).await, app.signed_in(ADA).await);

    // Fourteen days without a visit end it; each visit gives it fourteen more, and thirty are the end of every one.
    for _ in 0..2 {
        app.clock.advance(13 * day);
        assert_eq!(app.settings_of(&busy).await, 200);
    }
    assert_eq!(app.settings_of(&idle).await, 303);
    app.clock.advance(4 * day - Duration::from_mins(1));
    assert_eq!(app.settings_of(&busy).await, 200);
    app.clock.advance(Duration::from_secs(61));
    assert_eq!(app.settings_of(&busy).await, 303);

    // What is over is cleared away with the next sign-in.
    let _somebody = app.signed_in(ADA).await;
    assert_eq!(db.number("SELECT COUNT(*) FROM browser_sessions").await, 1);
}

async fn signing_in_gives_a_new_session_and_ends_the_one_before(db: Arc<Database>) {
    let app = start(&db).await;
    app.person("Acme", "bob@example.com", Role::Member).await;
    let browser = Browser::new();
    let planted = "x".repeat(43);
    browser.keep("holdfast_session", &planted);

    app.try_to_sign_in(&browser, ADA, PASSWORD).await;
    let first = browser.cookies()["holdfast_session"].clone();
    assert_ne!(first, planted, "nobody can hand out a session beforehand");
    // A form of the sign-in page that was left open, sent while somebody is signed in.
    let left_open = {
        let other = Browser::new();
        other.keep("holdfast_browser", &browser.cookies()["holdfast_browser"]);
        other.open(&app.at("/sign-in")).await.form("/sign-in")
    };
    let page = browser.send_form(&left_open.with("email", "bob@example.com").with("password", PASSWORD)).await;

    assert_eq!(page.status, 303, "{}", page.text);
    assert_ne!(browser.cookies()["holdfast_session"], first);
    assert!(browser.open(&app.at("/settings")).await.text.contains("bob@example.com"));
    assert_eq!(db.number("SELECT COUNT(*) FROM browser_sessions").await, 1, "Ada's is over");
}

/// The same words, the same status, and one verification each (the unit tests of the passwords count them).
async fn nobody_learns_which_addresses_exist(db: Arc<Database>) {
    let app = start(&db).await;
    let no_password = Ask::UserCreate {
        org: "Acme".into(),
        email: "new@example.com".into(),
        role: Some(Role::Viewer),
        operator: false,
        password: None,
    };
    let _made = admin::run(&app.app, no_password).await.unwrap();

    let mut pages = Vec::new();
    for email in [ADA, "nobody@example.com", "new@example.com"] {
        let browser = Browser::new();
        let page = app.try_to_sign_in(&browser, email, "a wrong password").await;
        let html = page.html(&app.base);
        assert_eq!(html.form("/sign-in").value("email"), Some(email), "what was typed is kept");
        assert_eq!(html.form("/sign-in").value("password"), Some(""), "but not the password");
        let csrf = html.form("/sign-in").value("csrf").unwrap().to_owned();
        let text = page.text.replace(email, "EMAIL").replace(&csrf, "CSRF");
        pages.push((page.status, text));
    }

    assert_eq!(pages[0].0, 422);
    assert!(pages[0].1.contains("Address or password is not right."));
    assert_eq!(pages[0], pages[1]);
    assert_eq!(pages[0], pages[2]);
}

async fn guessing_is_slowed_down_and_the_right_password_waits_as_well(db: Arc<Database>) {
    let app = start(&db).await;
    app.person("Acme", "bob@example.com", Role::Member).await;
    // Where there can be two replicas, they take turns.
    let second = if db.is_sqlite() { None } else { Some(TestApp::builder(&db).beside(&app).start().await) };
    let attempt = async |number: usize, email: &str, password: &str| {
        let at = second.as_ref().filter(|_| number % 2 == 1).unwrap_or(&app);
        at.try_to_sign_in(&Browser::new(), email, password).await
    };
    for number in 0..5 {
        assert_eq!(attempt(number, ADA, "wrong").await.status, 422, "attempt {number}");
    }

    for (number, password) in [(5, "wrong"), (6, PASSWORD), (7, "wrong"), (8, PASSWORD)] {
        let page = attempt(number, ADA, password).await;
        assert_eq!(page.status, 429, "attempt {number}");
        assert!(
            page.headers["retry-after"] == "5"
                && page.html(&app.base).text.contains("Too many attempts. Wait 5 seconds, then try again."),
            "{}",
            page.text
        );
    }
    assert_eq!(attempt(0, "nobody@example.com", PASSWORD).await.status, 422, "another address is not held up");
    assert_eq!(attempt(1, "bob@example.com", PASSWORD).await.status, 303);
    // Who asks too early does not have to wait for longer.
    app.clock.advance(Duration::from_secs(5));
    assert_eq!(attempt(2, ADA, "wrong").await.status, 422);
    app.clock.advance(Duration::from_secs(9));
    assert_eq!(attempt(3, ADA, PASSWORD).await.status, 429, "each failure costs twice as much");
    app.clock.advance(Duration::from_secs(1));
    assert_eq!(attempt(4, ADA, PASSWORD).await.status, 303);
    // A success forgives all of it.
    for number in 0..5 {
        assert_eq!(attempt(number, ADA, "wrong").await.status, 422, "attempt {number}");
    }
    assert_eq!(attempt(5, ADA, PASSWORD).await.status, 429);
    // And so does an hour, for addresses that nobody has as well.
    app.clock.advance(Duration::from_secs(3601));
    assert_eq!(attempt(6, ADA, "wrong").await.status, 422);
    assert_eq!(db.number("SELECT COUNT(*) FROM throttles").await, 1);
}

async fn a_thousand_guesses_at_once_are_a_thousand_guesses(db: Arc<Database>) {
    let app = start(&db).await;
    let browser = Browser::new();
    let form = browser.open(&app.at("/sign-in")).await.form("/sign-in").with("email", ADA);
    // Fewer than a thousand, but more than are free.
    let guesses: Vec<_> = (0..24).map(|number| form.clone().with("password", &format!("guess {number}"))).collect();

    let pages = futures::future::join_all(guesses.iter().map(|guess| browser.send_form(guess))).await;

    let mut statuses: Vec<_> = pages.iter().map(|page| page.status).collect();

    statuses.sort_unstable();
    let tried = statuses.iter().filter(|status| **status == 422).count();
    assert!((1..=5).contains(&tried), "{statuses:?}");
    assert_eq!(statuses.len() - tried, statuses.iter().filter(|status| **status == 429).count(), "{statuses:?}");
}

async fn a_form_without_its_token_signs_nobody_in(db: Arc<Database>) {
    let app = start(&db).await;
    let browser = Browser::new();
    let form = browser.open(&app.at("/sign-in")).await.form("/sign-in").with("email", ADA).with("password", PASSWORD);
    let other = Browser::new().open(&app.at("/sign-in")).await.form("/sign-in");
    let elsewhere = other.value("csrf").unwrap();

    let mut refused = vec![
        browser.send_form(&form.clone().without("csrf")).await,
        browser.send_form(&form.clone().with("csrf", "")).await,
        browser.send_form(&form.clone().with("csrf", elsewhere)).await,
        Browser::new().send_form(&form).await,
    ];
    for site in ["cross-site", "same-site"] {
        refused.push(browser.send_body(&form.action, &form.encoded(), &[("sec-fetch-site", site)]).await);
    }

    for page in refused {
        assert_eq!((page.status, page.title()), (403, "This form is out of date"), "{}", page.text);
    }
    assert_eq!(db.number("SELECT COUNT(*) FROM browser_sessions").await, 0);
    assert_eq!(db.number("SELECT COUNT(*) FROM throttles").await, 0, "and nothing is counted");
    for site in ["same-origin", "none"] {
        let page = browser.send_body(&form.action, &form.encoded(), &[("sec-fetch-site", site)]).await;
        assert_eq!(page.status, 303, "{site}: {}", page.text);
    }
}

async fn nobody_is_sent_elsewhere_after_signing_in(db: Arc<Database>) {
    let app = start(&db).await;
    let evil = [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example/",
        "/\t/evil.example/",
        "\\\\evil.example",
        "javascript:alert(1)",
        "evil.example",
        "",
    ];
    let signed_in = app.signed_in(ADA).await;
    for next in evil {
        let query = url::form_urlencoded::Serializer::new(String::new()).append_pair("next", next).finish();
        let address = app.at(&format!("/sign-in?{query}"));
        let browser = Browser::new();
        let form = browser.open(&address).await.form("/sign-in").with("email", ADA).with("password", PASSWORD);
        let page = browser.send_form(&form).await;
        assert_eq!((page.status, page.location().as_str()), (303, "/"), "{next:?}");
        // Neither by a form that was tampered with, nor for somebody who is signed in already.
        let browser = Browser::new();
        let form =
            browser.open(&app.at("/sign-in")).await.form("/sign-in").with("email", ADA).with("password", PASSWORD);
        let page = browser.send_form(&form.with("next", next)).await;
        assert_eq!((page.status, page.location().as_str()), (303, "/"), "{next:?}");
        let page = signed_in.get(&address).await;
        assert_eq!((page.status, page.location().as_str()), (303, "/"), "{next:?}");
    }
    let page = signed_in.get(&app.at("/sign-in?next=%2Fsettings%2Faccount%3Fdone%3Dname")).await;
    assert_eq!(page.location(), "/settings/account?done=name");
}

async fn a_person_of_two_orgs_with_one_password_can_go_over(db: Arc<Database>) {
    let app = start(&db).await;
    let there = app.person("Globex", ADA, Role::Viewer).await;
    app.person_with("Initech", ADA, Role::Owner, false, "another password").await;
    let browser = app.signed_in(ADA).await;
    let before = browser.cookies()["holdfast_session"].clone();

    let html = browser.open(&app.at("/settings/organisations")).await;
    assert!(html.text.contains("Acme You are its owner. You are here"), "{}", html.text);
    assert!(html.text.contains("Globex You are its viewer. Go over"), "{}", html.text);
    assert!(!html.text.contains("Initech"), "its password was not proven: {}", html.text);
    let form = html.form("/settings/organisations");
    assert_eq!(form.value("user"), Some(there.as_str()));
    let page = browser.send_form(&form).await;

    assert_eq!((page.status, page.location().as_str()), (303, "/"));
    assert_ne!(browser.cookies()["holdfast_session"], before, "with a new cookie");
    let html = browser.open(&app.at("/settings/organisations")).await;
    assert!(html.text.contains("Globex You are its viewer. You are here"), "{}", html.text);
    assert_eq!(db.number("SELECT COUNT(*) FROM browser_sessions").await, 1);
    browser.keep("holdfast_session", &before);
    assert_eq!(app.settings_of(&browser).await, 303, "the cookie before is over");
}

async fn a_person_of_two_orgs_with_two_passwords_gets_where_the_password_leads(db: Arc<Database>) {
    let app = start(&db).await;
    let there = app.person_with("Globex", ADA, Role::Viewer, false, "another password").await;
    let (here, over) = (Browser::new(), Browser::new());

    assert_eq!(app.try_to_sign_in(&here, ADA, PASSWORD).await.status, 303);
    assert_eq!(app.try_to_sign_in(&over, ADA, "another password").await.status, 303);

    let html = here.open(&app.at("/settings/organisations")).await;
    assert!(html.text.contains("Acme") && !html.text.contains("Globex"), "{}", html.text);
    let html = over.open(&app.at("/settings/organisations")).await;
    assert!(html.text.contains("Globex") && !html.text.contains("Acme"), "{}", html.text);
    // Whoever knows the other row's id does not get there.
    let csrf = here.open(&app.at("/settings")).await.form("/sign-out").value("csrf").unwrap().to_owned();
    let body = format!("csrf={csrf}&user={there}");
    assert_eq!(here.send_body(&app.at("/settings/organisations"), &body, &[]).await.status, 404);
    assert!(here.open(&app.at("/settings")).await.text.contains("Acme"));
}

async fn sessions_and_api_keys_open_only_their_own_doors(db: Arc<Database>) {
    let app = start(&db).await;
    let browser = app.signed_in(ADA).await;

    let api = browser.get(&app.at("/api/v1/connectors")).await;
    assert_eq!(api.status, 401, "{}", api.text);
    let bearer = format!("Bearer {}", browser.cookies()["holdfast_session"]);
    let api = Browser::new().send_with(Method::GET, &app.at("/api/v1/connectors"), &[("authorization", &bearer)]).await;
    assert_eq!(api.status, 401, "{}", api.text);

    let key = format!("Bearer {}", app.key);
    let page = Browser::new().send_with(Method::GET, &app.at("/settings"), &[("authorization", &key)]).await;
    assert_eq!((page.status, page.location().as_str()), (303, "/sign-in?next=%2Fsettings"));
    let keyed = Browser::new();
    keyed.keep("holdfast_session", &app.key);
    assert_eq!(app.settings_of(&keyed).await, 303);
}

async fn a_form_of_many_megabytes_is_refused(db: Arc<Database>) {
    let app = start(&db).await;
    let browser = Browser::new();
    let form = browser.open(&app.at("/sign-in")).await.form("/sign-in").with("email", ADA).with("password", PASSWORD);

    let page = browser.send_form(&form.clone().with("password", &"x".repeat(10 * 1024 * 1024))).await;
    assert_eq!((page.status, page.title()), (413, "That is too long"), "{}", page.text);
    let nul = browser.send_form(&form.clone().with("email", "ada\0@example.com")).await;
    assert_eq!(nul.status, 400, "{}", nul.text);
    let long = browser.send_form(&form.clone().with("password", &"x".repeat(100_000))).await;
    assert_eq!(long.status, 422, "too long to be anybody's: {}", long.text);

    assert_eq!(browser.send_form(&form).await.status, 303);
}

async fn people_and_passwords_of_any_script_are_at_home(db: Arc<Database>) {
    let app = start(&db).await;
    for (org, email, password) in [
        ("Ünïcödé & <Söhne>", "zoë@exämple.de", "пароль с пробелами"),
        ("株式会社\"例\"", "user+tag@例え.jp", "密码密码密码密码 🐙"),
        ("شركة 'مثال'", "علي@example.com", "كلمة سر طويلة"),
    ] {
        app.person_with(org, email, Role::Admin, false, password).await;
        let browser = Browser::new();
        assert_eq!(app.try_to_sign_in(&browser, email, &format!("{password}x")).await.status, 422, "{email}");
        assert_eq!(app.try_to_sign_in(&browser, email, password).await.status, 303, "{email}");
        let html = browser.open(&app.at("/settings/account")).await;
        assert!(html.text.contains(org) && html.text.contains(email), "{}", html.text);
    }
}

/// Over https the cookies are bound to this very host, whatever its neighbours do; and the browser is told to stay with
/// https.
#[tokio::test(flavor = "multi_thread")]
async fn over_https_cookies_belong_to_this_host_alone() {
    let db = Arc::new(Database::sqlite());
    let public = |config: &mut holdfast_app::Config| {
        config.public_url_setting = Some("https://hub.example.test".parse().unwrap());
        config.network.allow_private_hosts.clear();
    };
    let app = TestApp::builder(&db).with(public).start().await;
    app.person("Acme", ADA, Role::Owner).await;
    let browser = app.signed_in(ADA).await;

    let names: Vec<_> = browser.cookies().into_keys().collect();
    assert_eq!(names, ["__Host-holdfast_browser", "__Host-holdfast_session"]);
    let page = app.try_to_sign_in(&Browser::new(), ADA, PASSWORD).await;
    let cookie = cookie_header(&page, "__Host-holdfast_session");
    for attribute in ["HttpOnly", "SameSite=Lax", "Path=/", "Secure"] {
        assert!(cookie.contains(attribute), "{attribute} in {cookie}");
    }
    assert!(!cookie.contains("Domain"), "{cookie}");
    assert_eq!(page.headers["strict-transport-security"], "max-age=31536000");
    let signed_out = browser.send_form(&browser.open(&app.at("/settings")).await.form("/sign-out")).await;
    let cookie = cookie_header(&signed_out, "__Host-holdfast_session");
    assert!(cookie.contains("Secure") && cookie.contains("Path=/") && cookie.contains("Max-Age=0"), "{cookie}");
}
