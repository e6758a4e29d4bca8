//! Two-factor sign-in: set up, asked for at the door, lost, and asked of everybody.

use std::{sync::Arc, time::Duration};

use holdfast_app::admin::{self, Ask};
use holdfast_core::{Role, ports::Clock as _, totp};
use holdfast_store::AuditFilter;
use holdfast_tests::{
    browser::{Browser, Page},
    canary::Canaries,
    database::Database,
    on_both,
    people::{PASSWORD, Person},
    service::TestApp,
    smtp::Smtp,
};

on_both! {
    a_second_factor_is_set_up_and_asked_for_at_the_door,
    it_is_turned_on_by_a_code_and_the_password_alone,
    a_code_is_good_once_and_around_its_time,
    guessing_codes_is_slowed_down_and_told,
    a_recovery_code_is_good_once_and_new_ones_end_those_before,
    it_is_turned_off_by_a_code_and_the_password_alone,
    a_new_password_leaves_it_on_and_ends_what_was_begun,
    an_operator_turns_it_off_for_who_lost_it,
    an_org_that_requires_it_shows_nothing_before,
    its_secrets_are_in_no_page_mail_or_row,
    what_is_done_with_it_is_in_the_audit_log,
}

const PAGE: &str = "/settings/account/two-factor";
const STEP: &str = "/sign-in/code";

/// Somebody's authenticator app.
struct Phone(Vec<u8>);

impl Phone {
    /// Takes the secret from the page, as somebody who types it.
    fn scan(page: &Page) -> Self {
        let read = page.read();
        let typed = read.all().into_iter().find(|part| part.get("data-copy") == Some("the secret")).unwrap().text();
        let (mut bytes, mut held, mut bits) = (Vec::new(), 0u32, 0);
        for c in typed.chars().filter(|c| !c.is_whitespace()) {
            let value = match c {
                'A'..='Z' => c as u32 - 'A' as u32,
                '2'..='7' => c as u32 - '2' as u32 + 26,
                other => panic!("{other:?} in {typed:?}"),
            };
            held = (held << 5) | value;
            bits += 5;
            if bits >= 8 {
                bits -= 8;
                bytes.push(u8::try_from((held >> bits) & 255).unwrap());
            }
        }
        assert_eq!(totp::base32(&bytes), typed.replace(' ', ""));
        Self(bytes)
    }

    /// What it shows now, or so many steps from now.
    fn code(&self, app: &TestApp, off: i64) -> String {
        totp::code(&self.0, totp::step_at(app.clock.now()) + off)
    }
}

fn codes_of(page: &Page) -> Vec<String> {
    let read = page.read();
    let codes = read.all().into_iter().find(|part| part.get("data-copy") == Some("the recovery codes"));
    let codes: Vec<_> = codes.unwrap().text().split_whitespace().map(str::to_owned).collect();
    assert_eq!(codes.len(), 10, "{codes:?}");
    codes
}

/// Sets it up for somebody.
async fn set_up(app: &TestApp, person: &Person) -> (Phone, Vec<String>) {
    let page = person.submit_and_go_on(PAGE, &format!("{PAGE}/begin"), &[]).await.expect(200);
    let phone = Phone::scan(&page);
    let fields = [("code", &*phone.code(app, 0)), ("password", PASSWORD)];
    let page = person.submit(PAGE, &format!("{PAGE}/on"), &fields).await.expect(200);
    assert!(page.says("Two-factor sign-in is on."), "{}", page.text);
    app.clock.advance(Duration::from_secs(30));
    (phone, codes_of(&page))
}

/// A browser in which somebody has shown their password.
async fn half(app: &TestApp, email: &str, next: &str) -> Browser {
    let browser = Browser::new();
    let fields = [("email", email), ("password", PASSWORD), ("next", next)];
    let page = browser.press(&app.at("/sign-in"), "/sign-in", &fields).await.expect(303);
    assert_eq!(page.location(), STEP);
    browser
}

async fn step(app: &TestApp, browser: &Browser, field: &str, value: &str) -> Page {
    browser.press(&app.at(STEP), STEP, &[(field, value)]).await
}

/// One of the two changes of a factor that is on.
async fn change(person: &Person, what: &str, code: &str, password: &str) -> Page {
    let csrf = person.open("/settings/account").await.form("/sign-out").unwrap().value("csrf").unwrap().to_owned();
    let fields = [("csrf", csrf.as_str()), ("code", code), ("password", password)];
    person.browser.submit(&person.url(&format!("{PAGE}/{what}")), &fields).await
}

async fn a_second_factor_is_set_up_and_asked_for_at_the_door(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let ada = app.somebody(Role::Owner).await;
    let other = app.signed_in(&ada.email).await;
    assert!(ada.open("/settings/account").await.says("Set it up"));

    let page = ada.submit_and_go_on(PAGE, &format!("{PAGE}/begin"), &[]).await.expect(200);
    let link = page.read().link("Open the app on this device").unwrap();
    let email = ada.email.replace('@', "%40");
    assert!(
        link.starts_with("otpauth://totp/Holdfast%20(127.0.0.1):") && link.contains("issuer=Holdfast%20"),
        "{link}"
    );
    assert!(link.contains(&email) || link.contains(&ada.email), "{link}");
    assert!(page.text.contains("<svg class=\"qr\""), "{}", page.text);
    let (phone, _codes) = set_up(&app, &ada).await;

    for browser in [&ada.browser, &other] {
        assert_eq!(app.settings_of(browser).await, 200, "sessions that are there stay");
    }
    assert!(ada.open(PAGE).await.says("It is on"));
    let browser = half(&app, &ada.email, "/settings/account?done=name").await;
    assert!(!browser.cookies().contains_key("holdfast_session"));
    assert_eq!(app.settings_of(&browser).await, 303, "half of a sign-in opens nothing");
    let page = browser.get(&app.at(STEP)).await;
    assert!(page.text.contains("autocomplete=\"one-time-code\" inputmode=\"numeric\""), "{}", page.text);
    let in_ = step(&app, &browser, "code", &phone.code(&app, 0)).await.expect(303);
    assert_eq!(in_.location(), "/settings/account?done=name");
    assert_eq!(app.settings_of(&browser).await, 200);
    assert!(!browser.cookies().contains_key("holdfast_half"));
    assert_eq!(db.number("SELECT COUNT(*) FROM half_sign_ins").await, 0);
    // Without the first half there is no second one.
    let stranger = Browser::new();
    assert_eq!(stranger.get(&app.at(STEP)).await.location(), "/sign-in");
    // API keys are another door.
    assert_eq!(app.get("/connectors").await.status, 200);
}

async fn it_is_turned_on_by_a_code_and_the_password_alone(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let ada = app.somebody(Role::Viewer).await;
    let page = ada.submit_and_go_on(PAGE, &format!("{PAGE}/begin"), &[]).await.expect(200);
    let phone = Phone::scan(&page);
    let on = format!("{PAGE}/on");
    let right = phone.code(&app, 0);

    for (code, password, says) in [
        (right.as_str(), "guessed", "That is not your password."),
        (&phone.code(&app, 3), PASSWORD, "That is not the code."),
        ("", PASSWORD, "That is not the code."),
    ] {
        let page = ada.submit(PAGE, &on, &[("code", code), ("password", password)]).await.expect(422);
        assert!(page.says(says), "{says}: {}", page.text);
    }
    assert_eq!(db.number("SELECT COUNT(*) FROM second_factors").await, 0);
    // What lay there for an hour is no secret any more.
    app.clock.advance(Duration::from_hours(1));
    let late = ada.submit(PAGE, &on, &[("code", &phone.code(&app, 0)), ("password", PASSWORD)]).await;
    assert_ne!(late.status, 200, "{}", late.text);
    assert!(ada.open(PAGE).await.says("It is off"));
    let (_, codes) = set_up(&app, &ada).await;
    assert_eq!(codes.len(), 10);
    assert_eq!(db.number("SELECT COUNT(*) FROM second_factor_setups").await, 0);
}

async fn a_code_is_good_once_and_around_its_time(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let ada = app.somebody(Role::Member).await;
    let (phone, _) = set_up(&app, &ada).await;
    app.clock.advance(Duration::from_mins(1));

    let code = phone.code(&app, 0);
    let browser = half(&app, &ada.email, "/").await;
    let _in = step(&app, &browser, "code", &code).await.expect(303);
    let again = half(&app, &ada.email, "/").await;
    let page = step(&app, &again, "code", &code).await.expect(422);
    assert!(page.says("That code was used already."), "{}", page.text);
    let page = step(&app, &again, "code", &phone.code(&app, -1)).await.expect(422);
    assert!(page.says("That code was used already."), "an older one neither: {}", page.text);
    let page = step(&app, &again, "code", &phone.code(&app, 2)).await.expect(422);
    assert!(page.says("That is not the code."), "{}", page.text);
    let ahead = phone.code(&app, 1);
    let (spaced, rest) = ahead.split_at(3);
    let _in = step(&app, &again, "code", &format!("{spaced} {rest}")).await.expect(303);
    // Of two at once, one gets in.
    app.clock.advance(Duration::from_secs(90));
    let (one, two) = (half(&app, &ada.email, "/").await, half(&app, &ada.email, "/").await);
    let code = phone.code(&app, 0);
    let (first, second) = tokio::join!(step(&app, &one, "code", &code), step(&app, &two, "code", &code));
    let mut statuses = [first.status, second.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [303, 422]);
    // The first half is good for ten minutes.
    let late = half(&app, &ada.email, "/connectors").await;
    app.clock.advance(Duration::from_mins(10));
    let page = late.get(&app.at(STEP)).await;
    assert_eq!(page.location(), "/sign-in");
}

async fn guessing_codes_is_slowed_down_and_told(db: Arc<Database>) {
    let smtp = Smtp::start().await;
    let app = TestApp::builder(&db).with(|config| smtp.configure(config)).start().await;
    let ada = app.somebody(Role::Member).await;
    let (phone, codes) = set_up(&app, &ada).await;
    let (_, ben) = (app.app.mail_due().await.unwrap(), app.somebody(Role::Member).await);
    let (phone_of_ben, _) = set_up(&app, &ben).await;
    app.app.mail_due().await.unwrap();

    for _ in 0..5 {
        // Another first half makes no other guesses.
        let guess = step(&app, &half(&app, &ada.email, "/").await, "code", &phone.code(&app, 5)).await;
        assert_eq!(guess.status, 422, "{}", guess.text);
    }
    let browser = half(&app, &ada.email, "/").await;
    for (field, value) in [("code", &*phone.code(&app, 0)), ("recovery", &*codes[0])] {
        let page = step(&app, &browser, field, value).await.expect(429);
        assert!(
            page.says("Too many attempts. Wait a minute") || page.says("Too many attempts. Wait 1 minute"),
            "{}",
            page.text
        );
        assert!(page.headers.contains_key("retry-after"));
    }
    let page = change(&ada, "off", &phone.code(&app, 0), PASSWORD).await;
    assert!(page.says("Too many attempts."), "nor in the settings: {}", page.text);
    let in_ = step(&app, &half(&app, &ben.email, "/").await, "code", &phone_of_ben.code(&app, 0)).await;
    assert_eq!(in_.status, 303, "others do not wait: {}", in_.text);
    assert_eq!(app.app.mail_due().await.unwrap().sent, 2, "and of a new browser");
    let message = smtp.messages_to(&ada.email).await.pop().unwrap();
    assert_eq!(message.subject, "Somebody may have your password (Holdfast)");

    app.clock.advance(Duration::from_mins(1));
    let _in = step(&app, &browser, "code", &phone.code(&app, 0)).await.expect(303);
}

async fn a_recovery_code_is_good_once_and_new_ones_end_those_before(db: Arc<Database>) {
    let smtp = Smtp::start().await;
    let app = TestApp::builder(&db).with(|config| smtp.configure(config)).start().await;
    let ada = app.somebody(Role::Member).await;
    let (phone, codes) = set_up(&app, &ada).await;
    app.app.mail_due().await.unwrap();

    let browser = half(&app, &ada.email, "/").await;
    let page = browser.open(&app.at(&format!("{STEP}?with=recovery"))).await;
    let form = page.form(STEP).with("recovery", &codes[0].to_uppercase().replace('-', " "));
    assert_eq!(browser.send_form(&form).await.status, 303);
    app.app.mail_due().await.unwrap();
    let subjects: Vec<_> = smtp.messages_to(&ada.email).await.into_iter().map(|message| message.subject).collect();
    assert!(subjects.contains(&"A recovery code was used (Holdfast)".to_owned()), "{subjects:?}");
    let message = smtp.messages_to(&ada.email).await;
    assert!(message.iter().any(|message| message.text.contains("There are 9 left.")));
    let page = step(&app, &half(&app, &ada.email, "/").await, "recovery", &codes[0]).await.expect(422);
    assert!(page.says("it was used before"), "{}", page.text);

    let page = change(&ada, "codes", &phone.code(&app, 0), PASSWORD).await.expect(200);
    let new = codes_of(&page);
    assert!(new.iter().all(|code| !codes.contains(code)));
    let page = step(&app, &half(&app, &ada.email, "/").await, "recovery", &codes[1]).await;
    assert_eq!(page.status, 422, "{}", page.text);
    let page = step(&app, &half(&app, &ada.email, "/").await, "recovery", &new[1]).await;
    assert_eq!(page.status, 303, "{}", page.text);
    assert!(ada.open(PAGE).await.read().text().contains('9'));
}

async fn it_is_turned_off_by_a_code_and_the_password_alone(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let ada = app.somebody(Role::Member).await;
    let (phone, codes) = set_up(&app, &ada).await;

    for (code, password) in
        [(phone.code(&app, 0), "guessed"), ("000000".to_owned(), PASSWORD), (String::new(), PASSWORD)]
    {
        let page = change(&ada, "off", &code, password).await;
        assert_eq!(page.status, 422, "{}", page.text);
    }
    assert_eq!(db.number("SELECT COUNT(*) FROM second_factors").await, 1);
    let page = change(&ada, "off", &codes[3], PASSWORD).await.expect(303);
    assert_eq!(page.location(), format!("{PAGE}?done=off"));
    assert_eq!(db.number("SELECT COUNT(*) FROM second_factors").await, 0);
    assert_eq!(db.number("SELECT COUNT(*) FROM recovery_codes").await, 0);
    let _in = app.signed_in(&ada.email).await;
    assert_eq!(change(&ada, "off", &codes[4], PASSWORD).await.status, 409);
}

async fn a_new_password_leaves_it_on_and_ends_what_was_begun(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let ada = app.somebody(Role::Member).await;
    let (phone, _) = set_up(&app, &ada).await;
    let begun = half(&app, &ada.email, "/").await;

    let made = admin::run(&app.app, Ask::UserResetPassword { email: ada.email.clone() }).await.unwrap();
    let link = made["url"].as_str().unwrap();
    let path = url::Url::parse(link).unwrap().path().to_owned();
    let page = Browser::new().press(&app.at(&path), &path, &[("password", "another good password")]).await;
    assert_eq!(page.location(), "/sign-in?done=reset");

    let over = begun.get(&app.at(STEP)).await;
    assert_eq!(over.location(), "/sign-in");
    let browser = Browser::new();
    let page = app.try_to_sign_in(&browser, &ada.email, "another good password").await;
    assert_eq!(page.location(), STEP);
    let _in = step(&app, &browser, "code", &phone.code(&app, 0)).await.expect(303);
}

async fn an_operator_turns_it_off_for_who_lost_it(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let ada = app.somebody(Role::Member).await;
    app.person("Globex", &ada.email, Role::Owner).await;
    let reset = || Ask::UserResetTwoFactor { email: ada.email.to_uppercase() };
    let none = admin::run(&app.app, reset()).await.unwrap_err();
    assert!(none.message.contains("has no second factor"), "{}", none.message);
    let (phone, _) = set_up(&app, &ada).await;
    let listed = admin::run(&app.app, Ask::UserList { org: None }).await.unwrap();
    let on = listed.as_array().unwrap().iter().filter(|user| user["two_factor"] == "on").count();
    assert_eq!(on, 2, "it is the address's, in both organisations: {listed}");
    let browser = half(&app, &ada.email, "/").await;

    admin::run(&app.app, reset()).await.unwrap();

    let _in = app.signed_in(&ada.email).await;
    let page = step(&app, &browser, "code", &phone.code(&app, 0)).await;
    assert_eq!(page.status, 303, "half of a sign-in is enough then: {}", page.text);
    // Whoever is nowhere any more leaves nothing.
    set_up(&app, &ada).await;
    for (org, left) in [("Acme", 1), ("Globex", 1)] {
        app.person(org, "heir@example.com", Role::Owner).await;
        let ask = Ask::UserRemove { email: ada.email.clone(), org: Some(org.to_owned()) };
        admin::run(&app.app, ask).await.unwrap();
        let left = if org == "Acme" { left } else { 0 };
        assert_eq!(db.number("SELECT COUNT(*) FROM second_factors").await, left, "{org}");
    }
}

async fn an_org_that_requires_it_shows_nothing_before(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let (ada, ben) = (app.somebody(Role::Owner).await, app.somebody(Role::Member).await);
    let switch = "/settings/team/two-factor";
    let csrf = ada.open("/settings/team").await.form("/sign-out").unwrap().value("csrf").unwrap().to_owned();
    let own = ada.browser.submit(&app.at(switch), &[("csrf", &*csrf), ("required", "yes")]).await;
    assert!(own.status == 409 && own.says("You have none yourself"), "{}", own.text);
    let (_phone, _) = set_up(&app, &ada).await;
    assert!(ada.open("/settings/team").await.says("No two-factor"));

    let page = ada.submit_and_go_on("/settings/team", switch, &[("required", "yes")]).await.expect(200);
    assert!(page.says("Required"), "{}", page.text);

    for path in ["/connectors", "/settings", "/settings/team", "/agents", "/jobs", "/events", "/settings/team/leave"] {
        let page = ben.browser.get(&app.at(path)).await;
        assert_eq!(page.status, 303, "{path}");
        assert!(page.location().starts_with(PAGE), "{path}: {}", page.location());
    }
    for path in ["/settings/account", "/settings/organisations"] {
        assert_eq!(ben.browser.get(&app.at(path)).await.status, 200, "{path}");
    }
    let ben = ben.at(Browser::new());
    let again = ben.sign_in_again("/agents?q=x").await;
    assert!(again.says("asks for it: set it up here"), "{}", again.text);
    let begun = ben.browser.send_form(&again.form(&format!("{PAGE}/begin")).unwrap()).await;
    let page = ben.browser.go_on(begun).await;
    let phone = Phone::scan(&page);
    let form = page.form(&format!("{PAGE}/on")).unwrap();
    let on = ben.browser.send_form(&form.with("code", &phone.code(&app, 0)).with("password", PASSWORD)).await;
    assert_eq!(on.read().link("I have kept them").as_deref(), Some("/agents?q=x"), "{}", on.text);
    assert_eq!(ben.browser.get(&app.at("/connectors")).await.status, 200);
    assert!(!ben.open("/settings/team").await.says("No two-factor"));
    // Members look at it, and switch nothing.
    let csrf = ben.open("/settings/team").await.form("/sign-out").unwrap().value("csrf").unwrap().to_owned();
    let page = ben.browser.submit(&app.at(switch), &[("csrf", &*csrf), ("required", "no")]).await;
    assert_eq!(page.status, 403);
    let page = ada.submit_and_go_on("/settings/team", switch, &[("required", "no")]).await;
    assert!(page.says("everybody's own choice again"), "{}", page.text);
    let cleo = app.somebody(Role::Viewer).await;
    assert_eq!(cleo.browser.get(&app.at("/connectors")).await.status, 200);
}

async fn its_secrets_are_in_no_page_mail_or_row(db: Arc<Database>) {
    let smtp = Smtp::start().await;
    let app = TestApp::builder(&db).with(|config| smtp.configure(config)).start().await;
    let ada = app.somebody(Role::Owner).await;
    let (phone, codes) = set_up(&app, &ada).await;
    let browser = half(&app, &ada.email, "/").await;
    let _in = step(&app, &browser, "recovery", &codes[9]).await.expect(303);
    app.app.mail_due().await.unwrap();

    let mut canaries = Canaries::new();
    let secret = totp::base32(&phone.0);
    canaries.plant("the secret", &secret);
    canaries.plant(
        "the secret, grouped",
        &secret[..4].chars().chain([' ']).chain(secret[4..8].chars()).collect::<String>(),
    );
    for (number, code) in codes.iter().enumerate() {
        canaries.plant(format!("code {number}"), code);
        canaries.plant(format!("code {number}, plain"), &code.replace('-', ""));
    }
    let mut found = canaries.found_in("the database", &db.dump().await);
    for path in [PAGE, "/settings/account", "/settings/team", "/settings", &format!("{PAGE}?done=off")] {
        found.extend(canaries.found_in(path, ada.open(path).await.text.as_bytes()));
    }
    for message in smtp.messages_to(&ada.email).await {
        found.extend(canaries.found_in("a mail", message.raw.as_bytes()));
        found.extend(canaries.found_in("a mail's text", message.text.as_bytes()));
    }
    assert_eq!(found, Vec::<String>::new());
    let rows = String::from_utf8_lossy(&db.dump().await).into_owned();
    assert!(!rows.contains(&String::from_utf8_lossy(&phone.0).into_owned()), "nor as it is");
}

async fn what_is_done_with_it_is_in_the_audit_log(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let ada = app.somebody(Role::Owner).await;
    app.person("Globex", &ada.email, Role::Owner).await;
    let (phone, codes) = set_up(&app, &ada).await;
    let _in = step(&app, &half(&app, &ada.email, "/").await, "recovery", &codes[0]).await.expect(303);
    let _new = change(&ada, "codes", &phone.code(&app, 0), PASSWORD).await.expect(200);
    for required in ["yes", "yes", "no"] {
        let page = ada.submit_and_go_on("/settings/team", "/settings/team/two-factor", &[("required", required)]).await;
        assert_eq!(page.status, 200, "{}", page.text);
    }
    app.clock.advance(Duration::from_secs(30));
    let _off = change(&ada, "off", &phone.code(&app, 0), PASSWORD).await.expect(303);

    for (org, required) in [("Acme", 2), ("Globex", 0)] {
        let org = app.app.store.ensure_org(org).await.unwrap();
        let mut lines = app.app.store.audit_lines(&org, &AuditFilter::default(), None, 100).await.unwrap().data;
        lines.reverse();
        let of_factor = lines.iter().filter_map(|line| line.action.strip_prefix("second_factor."));
        assert_eq!(of_factor.collect::<Vec<_>>(), ["turned_on", "recovery_used", "codes_renewed", "turned_off"]);
        let changed = lines.iter().filter(|line| line.action == "organisation.changed");
        assert_eq!(changed.count(), required, "what was so already is no change");
        assert!(lines.iter().filter(|line| line.action.contains("factor")).all(|line| line.actor.0 == "person"));
    }
    let seen = ada.open("/settings/audit").await;
    assert!(seen.says("turned two-factor sign-in off"), "{}", seen.text);
}
