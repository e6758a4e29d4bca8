//! Connect links for an org's customers: whose face they show, where they lead back to, and in which frames.

use std::{sync::Arc, time::Duration};

use holdfast_core::Role;
use holdfast_tests::{
    browser::{Browser, Page},
    database::Database,
    html::read,
    on_both,
    people::Person,
    service::TestApp,
};
use reqwest::Method;
use serde_json::json;

on_both! {
    a_link_shows_whose_customers_it_is_for,
    an_org_registers_where_its_links_lead_back_to,
    in_a_frame_a_link_opens_a_window_of_its_own,
    a_link_by_hand_connects_whoever_has_the_account,
    a_link_by_hand_reconnects_in_place_for_a_week,
    a_face_that_cannot_be_is_told_by_field,
}

const HERE: &str = "/settings/organisation";
const DAY: Duration = Duration::from_hours(24);

async fn save(app: &TestApp, person: &Person, fields: &[(&str, &str)]) -> Page {
    let all = ["name", "colour", "origins"].map(|name| {
        let given = fields.iter().find(|(field, _)| *field == name).map(|(_, value)| *value);
        (name, given.unwrap_or(if name == "name" { "Acme" } else { "" }))
    });
    person.browser.press(&app.at(HERE), HERE, &all).await
}

async fn a_link_shows_whose_customers_it_is_for(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let admin = app.somebody(Role::Admin).await;
    let (link, _) = app.link("acme").await;
    let plain = Browser::new().get(&link).await;
    assert!(plain.says("Acme") && !plain.text.contains("/brand/"), "{}", plain.text);

    let saved = save(&app, &admin, &[("name", "Acme & Söhne"), ("colour", "#FFCC00")]).await.expect(303);
    let page = admin.open(&saved.location()).await;
    assert!(page.says("It is changed."), "{}", page.text);

    let browser = Browser::new();
    let shown = browser.get(&link).await;
    assert!(shown.says("Acme & Söhne") && shown.says("Connections are kept by Holdfast."), "{}", shown.text);
    assert!(shown.text.contains("href=\"/brand/ffcc00\""), "{}", shown.text);
    let style = browser.get(&app.at("/brand/ffcc00")).await;
    assert_eq!((style.status, style.headers["content-type"].to_str().unwrap()), (200, "text/css; charset=utf-8"));
    assert!(style.text.contains("color: #000000"), "black is read better on yellow: {}", style.text);
    assert_eq!(browser.get(&app.at("/brand/red;}body{")).await.status, 404);
    let ended = app.consent_as(&browser, &link, "ada").await;
    assert!(ended.says("Acme & Söhne") && ended.text.contains("/brand/ffcc00"), "{}", ended.text);
}

async fn an_org_registers_where_its_links_lead_back_to(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let admin = app.somebody(Role::Admin).await;
    let other = app.key_of("Globex").await;
    let ask = async |key: &str, url: &str| {
        let body = json!({ "provider": "zendesk", "account": "acme", "return_url": url });
        app.call(Method::POST, "/connect-sessions", Some(key), Some(body)).await
    };
    let target = "https://app.example.com/done";
    assert_eq!(ask(&app.key, target).await.problem(422, "invalid").json["field"], "return_url");

    let _saved =
        save(&app, &admin, &[("origins", "https://APP.example.com/\r\nhttp://localhost:3000")]).await.expect(303);

    let link = ask(&app.key, target).await.expect(201).text_of("url");
    let _local = ask(&app.key, "http://localhost:3000/x").await.expect(201);
    for elsewhere in
        ["https://app.example.com.evil.test/", "http://localhost:3001/", "https://app.example.com@evil.test/"]
    {
        assert_eq!(ask(&app.key, elsewhere).await.status, 422, "{elsewhere}");
    }
    assert_eq!(ask(&other, target).await.status, 422, "it is another organisation's");
    let back = app.consent_as(&Browser::new(), &link, "ada").await.location();
    assert!(back.starts_with(&format!("{target}?connector_id=")) && back.ends_with("status=connected"), "{back}");
}

async fn in_a_frame_a_link_opens_a_window_of_its_own(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let admin = app.somebody(Role::Admin).await;
    let (link, _) = app.link("acme").await;
    let framed = async || Browser::new().send_with(Method::GET, &link, &[("sec-fetch-dest", "iframe")]).await;
    let policy = |page: &Page| page.headers["content-security-policy"].to_str().unwrap().to_owned();

    let nobody = framed().await;
    assert!(policy(&nobody).contains("frame-ancestors 'none'") && nobody.headers.contains_key("x-frame-options"));
    let _saved = save(&app, &admin, &[("origins", "https://app.example.com")]).await.expect(303);

    let page = framed().await;
    assert!(policy(&page).ends_with("frame-ancestors https://app.example.com"), "{}", policy(&page));
    assert!(!page.headers.contains_key("x-frame-options") && page.forms().is_empty(), "{}", page.text);
    let html = read(&page.text);
    let button = html.all().into_iter().find(|part| part.get("target") == Some("_blank")).expect("a button");
    assert!(link.ends_with(button.get("href").unwrap()), "{:?}", button.get("href"));
    let alone = Browser::new().get(&link).await;
    assert!(
        policy(&alone).contains("frame-ancestors 'none'") && alone.forms().len() == 1,
        "with a form it is never framed"
    );
}

/// The link on the page that shows it once.
fn shown(page: &Page) -> String {
    let html = read(&page.text);
    let code = html.all().into_iter().find(|part| part.get("data-copy") == Some("the link")).expect("a link");
    code.text()
}

async fn a_link_by_hand_connects_whoever_has_the_account(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let admin = app.somebody(Role::Admin).await;
    let form = app.at("/connectors/new/zendesk");

    let made =
        admin.browser.press(&form, "/connectors/new/zendesk/link", &[("name", "Their helpdesk")]).await.expect(200);
    let link = shown(&made);
    let other =
        admin.browser.press(&form, "/connectors/new/zendesk/link", &[("name", "Their helpdesk")]).await.expect(200);
    assert_ne!(shown(&other), link, "a page that is loaded again makes another link");
    let again = admin.browser.get(&form).await;
    assert!(!again.text.contains(&link), "it is shown once");

    let stranger = Browser::new();
    let asked = stranger.fill(&link, "account", "https://acme.zendesk.com/agent").await;
    let back = app.sandbox.consent(&asked.location(), "ada").unwrap();
    let ended = stranger.go_on(stranger.get(&back).await).await;
    assert_eq!(ended.status, 200, "{}", ended.text);
    let all = app.get("/connectors").await.expect(200).json;
    let one = &all["data"][0];
    assert_eq!(all["data"].as_array().unwrap().len(), 1, "and no second connector: {all}");
    assert_eq!(
        (&one["name"], &one["account"], &one["health"]),
        (&json!("Their helpdesk"), &json!("acme"), &json!("connected"))
    );
    let member = app.somebody(Role::Member).await;
    assert_eq!(member.browser.get(&form).await.status, 403);
}

async fn a_link_by_hand_reconnects_in_place_for_a_week(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let admin = app.somebody(Role::Admin).await;
    let id = app.import("acme").await;
    app.fail(&id).await;
    let (page, to) = (app.at(&format!("/connectors/{id}")), format!("/connectors/{id}/link"));
    let late = shown(&admin.browser.press(&page, &to, &[]).await.expect(200));
    let link = shown(&admin.browser.press(&page, &to, &[]).await.expect(200));

    app.advance(DAY * 6);
    let ended = app.consent_as(&Browser::new(), &link, "ada").await;
    assert_eq!((ended.status, app.show(&id).await["health"].as_str()), (200, Some("connected")), "{}", ended.text);
    assert_ne!(Browser::new().post(&link).await.status, 303, "it works once");
    app.advance(DAY * 2);
    assert_eq!(Browser::new().get(&late).await.status, 410, "its week is over");
}

async fn a_face_that_cannot_be_is_told_by_field(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let admin = app.somebody(Role::Admin).await;
    let _globex = app.key_of("Globex").await;
    for (field, value, why) in [
        ("name", "", "A name"),
        ("name", "Globex", "Another organisation of this installation is called so"),
        ("name", "GLOB EX", "Another organisation of this installation is called so"),
        ("colour", "green", "six hex digits"),
        ("colour", "#0b6b4f;}", "six hex digits"),
        ("origins", "app.example.com", "is no address"),
        ("origins", "https://app.example.com\nhttp://app.example.com", "has to begin with https://"),
        ("origins", "https://app.example.com/back", "has more than scheme"),
    ] {
        let page = save(&app, &admin, &[(field, value)]).await;
        assert_eq!(page.status, 422, "{field} {value}");
        assert!(page.says(why), "{field} {value}: {}", page.text);
    }
    let many: Vec<_> = (0..21).map(|number| format!("https://app{number}.example.com")).collect();
    assert!(save(&app, &admin, &[("origins", &many.join("\n"))]).await.says("There can be 20 of them."));
    let kept = admin.open(HERE).await;
    assert!(!kept.text.contains("app1.example.com") && kept.text.contains("Acme"), "nothing of it is kept");
}
