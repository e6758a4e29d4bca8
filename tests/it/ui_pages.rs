//! What all pages have in common: headers, nothing from elsewhere, words where nothing is found.

use std::sync::Arc;

use holdfast_app::ui;
use holdfast_core::Role;
use holdfast_tests::{
    browser::{Browser, Page},
    database::Database,
    html::Html,
    people::PASSWORD,
    service::TestApp,
};
use reqwest::Method;

/// No page may weigh more, with nothing compressed.
const HEAVIEST_BYTES: usize = 60_000;
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// Pages with a form that leads to a provider, and so over hosts that nobody knows beforehand.
const LEADS_TO_PROVIDERS: [&str; 3] = ["/connectors", "/connectors/new/{provider}", "/connectors/{id}"];
/// Answer the script alone, with JSON and with events.
const NO_PAGES: [&str; 4] =
    ["/connectors/new/{provider}/account", "/events", "/brand/{colour}", "/settings/audit/export"];

async fn start() -> (TestApp, Browser) {
    let app = TestApp::start(&Arc::new(Database::sqlite())).await;
    app.person_with("Acme", "ada@example.com", Role::Owner, true, PASSWORD).await;
    let browser = app.signed_in("ada@example.com").await;
    (app, browser)
}

#[track_caller]
fn wears_its_armour(what: &str, page: &Page) {
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cache-control", "no-store"),
    ] {
        assert_eq!(page.headers.get(name).map(|value| value.to_str().unwrap()), Some(value), "{what}: {name}");
    }
    // The pages behind a link tell nobody of it.
    let referrer = page.headers.get("referrer-policy").map(|value| value.to_str().unwrap());
    assert!(matches!(referrer, Some("same-origin" | "no-referrer")), "{what}: {referrer:?}");
    assert!(page.headers.contains_key("content-security-policy"), "{what}");
}

/// Well formed (the reader insists), light, and with nothing from elsewhere and nothing inline.
#[track_caller]
fn is_a_page_of_ours(what: &str, page: &Page) -> Html {
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    if LEADS_TO_PROVIDERS.contains(&what) {
        let (before, after) = POLICY.split_once("'self'; base-uri").unwrap();
        let rest = policy.strip_prefix(&format!("{before}'self'")).unwrap_or_else(|| panic!("{what}: {policy}"));
        let more = rest.strip_suffix(&format!("; base-uri{after}")).unwrap_or_else(|| panic!("{what}: {policy}"));
        assert!(more.is_empty() || more.starts_with(" https:"), "{what}: {policy}");
    } else {
        assert_eq!(policy, POLICY, "{what}");
    }
    assert_eq!(page.headers["content-type"], "text/html; charset=utf-8", "{what}");
    assert!(page.text.len() < HEAVIEST_BYTES, "{what}: {} bytes", page.text.len());
    let html = page.html("http://127.0.0.1/");
    for link in &html.links {
        let local = (link.starts_with('/') && !link.starts_with("//")) || link.starts_with('#');
        assert!(local, "{what}: {link}");
    }
    assert!(page.text.contains("<html lang=\"en\">") && page.text.matches("<h1").count() == 1, "{what}: {}", page.text);
    html
}

/// All pages without a thing of their own in the path. Who adds one finds it in here by itself.
#[tokio::test(flavor = "multi_thread")]
async fn every_page_wears_the_same_headers_and_brings_nothing_from_elsewhere() {
    let (app, browser) = start().await;
    let nobody = Browser::new();
    let mut seen = 0;
    for declared in ui::declared().iter().filter(|declared| declared.method == Method::GET) {
        let path = declared.path.replace("{provider}", "zendesk").replace("{id}", "none").replace("{key}", "none");
        if path.starts_with("/static/") || path == "/robots.txt" || NO_PAGES.contains(&declared.path) {
            continue;
        }
        for browser in [&browser, &nobody] {
            let page = browser.get(&app.at(&path)).await;
            wears_its_armour(&path, &page);
            if page.status < 300 || page.status >= 400 {
                is_a_page_of_ours(declared.path, &page);
                seen += 1;
            }
        }
    }
    assert!(seen >= 8, "{seen} pages");

    // Troubles are pages as well.
    let form = nobody.open(&app.at("/sign-in")).await.form("/sign-in");
    for (status, page) in [
        (404, browser.get(&app.at("/nothing")).await),
        (404, nobody.get(&app.at("/nothing")).await),
        (404, nobody.get(&app.at("/%ff")).await),
        (405, nobody.get(&app.at("/sign-out")).await),
        (401, nobody.send_with(Method::POST, &app.at("/settings/keys"), &[]).await),
        (403, nobody.send_form(&form.clone().without("csrf")).await),
        (422, nobody.send_form(&form.clone().with("email", "nobody@example.com")).await),
        (413, nobody.send_form(&form.clone().with("password", &"x".repeat(300_000))).await),
        (421, nobody.send_with(Method::GET, &app.at("/settings"), &[("host", "evil.example")]).await),
    ] {
        assert_eq!(page.status, status, "{}", page.text);
        wears_its_armour(&status.to_string(), &page);
        is_a_page_of_ours(&status.to_string(), &page);
    }
    for path in ["/healthz", "/metrics", "/api/v1/connectors", "/api/v1/nothing", "/robots.txt"] {
        let page = nobody.get(&app.at(path)).await;
        wears_its_armour(path, &page);
        assert!(page.headers["content-security-policy"].to_str().unwrap().starts_with("default-src 'none'"), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nothing_is_people_find_a_page_and_programs_a_problem() {
    let (app, browser) = start().await;
    for (browser, button) in [(&browser, "To your connectors"), (&Browser::new(), "To the start page")] {
        let page = browser.get(&app.at("/no/such/page?x=1")).await;
        assert_eq!((page.status, page.title()), (404, "There is nothing here"), "{}", page.text);
        assert!(page.html(&app.base).text.contains(button), "{}", page.text);
    }
    assert!(browser.get(&app.at("/no/such/page")).await.html(&app.base).text.contains("ada@example.com Acme"));

    for path in ["/api", "/api/", "/api/v2/connectors", "/api/v1/nothing"] {
        let page = browser.get(&app.at(path)).await;
        assert_eq!(
            (page.status, page.headers["content-type"].to_str().unwrap()),
            (404, "application/problem+json"),
            "{path}"
        );
    }
    // A form's address, opened from the history.
    let page = browser.get(&app.at("/settings/account/password")).await;
    assert_eq!((page.status, page.title()), (405, "This address only takes a form"), "{}", page.text);
    // A form that was filled in before the session ended.
    let headers = [("referer", app.at("/settings/keys?x=1")), ("sec-fetch-site", "same-origin".to_owned())];
    let headers = headers.iter().map(|(name, value)| (*name, value.as_str())).collect::<Vec<_>>();
    let page = Browser::new().send_with(Method::POST, &app.at("/settings/keys"), &headers).await;
    assert_eq!((page.status, page.title()), (401, "You are signed out"), "{}", page.text);
    assert!(
        page.html(&app.base).links.contains(&"/sign-in?next=%2Fsettings%2Fkeys%3Fx%3D1".to_owned()),
        "{}",
        page.text
    );
    let elsewhere = [("referer", "https://evil.example/settings")];
    let page = Browser::new().send_with(Method::POST, &app.at("/settings/keys"), &elsewhere).await;
    assert!(page.html(&app.base).links.contains(&"/sign-in".to_owned()), "{}", page.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_kept_and_compressed_and_pages_are_neither() {
    let (app, browser) = start().await;
    let raw = reqwest::Client::builder().no_gzip().no_proxy().build().unwrap();
    let get = async |path: &str| {
        let response = raw.get(app.at(path)).header("accept-encoding", "gzip").send().await.unwrap();
        let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        (
            response.status().as_u16(),
            header("content-type").unwrap_or_default(),
            header("content-encoding"),
            header("cache-control"),
        )
    };
    let links = browser.open(&app.at("/settings")).await.links;
    let marked = |name: &str| links.iter().find(|link| link.starts_with(&format!("/static/{name}?"))).unwrap().clone();

    for (name, kind) in [("style.css", "text/css; charset=utf-8"), ("app.js", "text/javascript; charset=utf-8")] {
        let kept = Some("public, max-age=31536000, immutable".to_owned());
        assert_eq!(get(&marked(name)).await, (200, kind.to_owned(), Some("gzip".to_owned()), kept));
        // Under another mark it may be another file soon.
        let soon = Some("public, max-age=600".to_owned());
        for path in [format!("/static/{name}"), format!("/static/{name}?0123456789ab")] {
            assert_eq!(get(&path).await, (200, kind.to_owned(), Some("gzip".to_owned()), soon.clone()));
        }
    }
    for path in ["/static/nothing.css", "/static/..%2f..%2fCargo.toml", "/static/"] {
        assert_eq!(get(path).await.0, 404, "{path}");
    }
    // A page holds a form's token beside words that somebody else may have chosen (BREACH).
    let (status, _, encoding, kept) = get("/sign-in").await;
    assert_eq!((status, encoding, kept), (200, None, Some("no-store".to_owned())));
    assert_eq!(get("/api/v1/openapi.json").await.2, None);

    let robots = browser.get(&app.at("/robots.txt")).await;
    assert_eq!((robots.status, robots.text.as_str()), (200, "User-agent: *\nDisallow: /\n"));
    assert_eq!(robots.headers["content-type"], "text/plain; charset=utf-8");
    let icon = browser.get(&app.at("/favicon.ico")).await;
    assert!(icon.status == 308 && icon.location().starts_with("/static/mark.svg?"), "{icon:?}");
    assert_eq!(get(&icon.location()).await.1, "image/svg+xml");
}
