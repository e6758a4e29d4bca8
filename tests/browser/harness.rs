//! The checks that every browser test makes find what they are for. A check that cannot fail is none.

use std::panic::AssertUnwindSafe;

use axum::{
    Router,
    http::{StatusCode, header},
    response::{Html, IntoResponse},
    routing::get,
};
use futures::FutureExt as _;
use holdfast_tests::chromium::{Chromium, Scheme, Width, pictures};
use tokio::net::TcpListener;

const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src *";

fn page(body: &str) -> Html<String> {
    Html(format!(
        "<!doctype html><html lang=en><head><meta name=viewport content='width=device-width'><title>Page</title>\
         <link rel=stylesheet href=/style.css><link rel=icon href=/style.css></head><body><main><h1>Page</h1>{body}</main></body></html>"
    ))
}

/// A site with one page for each thing that must not be. Its address.
async fn bad_site() -> String {
    let style = "
        .red { background: #fff; color: #fbb } .wide { width: 800px }
        @media (prefers-color-scheme: dark) { body { background: #111; color: #eee } .dark-only { color: #333 } }
        button:focus { outline: none }";
    let typed = |kind: &'static str, text: String| ([(header::CONTENT_TYPE, kind)], text);
    let heavy = format!("/* {} */", "heavy ".repeat(11_000));
    let routes = Router::new()
        .route("/good", get(|| async { page("<button>Press</button>") }))
        .route("/policy", get(|| async { page("<p style='color: red'>Styled here</p>") }))
        .route("/console", get(|| async { page("<script src=/oops.js></script>") }))
        .route("/foreign", get(|| async { page("<img alt='' src='http://127.0.0.2:9/x.png'>") }))
        .route("/missing", get(|| async { page("<script src=/nothing.js></script>") }))
        .route("/heavy", get(|| async { page("<script src=/heavy.js></script>") }))
        .route("/wide", get(|| async { page("<p class=wide>Wide</p>") }))
        .route("/unnamed", get(|| async { page("<input>") }))
        .route("/pale", get(|| async { page("<p class=dark-only>Pale in the dark</p>") }))
        .route("/unseen", get(|| async { page("<button>Unseen</button>") }))
        .route("/refused", get(|| async { (StatusCode::CONFLICT, page("Refused")) }))
        .route("/style.css", get(move || async move { typed("text/css", style.to_owned()) }))
        .route("/oops.js", get(move || async move { typed("text/javascript", "oops()".to_owned()) }))
        .route("/heavy.js", get(move || async move { typed("text/javascript", heavy) }))
        .layer(axum::middleware::map_response(async |response: axum::response::Response| {
            ([(header::CONTENT_SECURITY_POLICY, POLICY)], response).into_response()
        }));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let site = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async { axum::serve(listener, routes).await });
    site
}

/// The words of a failure.
async fn failure<T>(of: impl Future<Output = T>) -> String {
    let failed = AssertUnwindSafe(of).catch_unwind().await;
    let failed = failed.err().expect("it fails");
    failed.downcast_ref::<String>().expect("a failure has words").clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_beside_a_test_is_noticed() {
    let site = bad_site().await;
    let visitor = Chromium::visitor(&[&site]);
    visitor
        .run(async |chromium| {
            for fine in ["good", "refused"] {
                chromium.open(&format!("{site}/{fine}")).await;
                assert_eq!(chromium.problems().await, Vec::<String>::new(), "{fine}");
            }
            for (path, words) in [
                ("policy", "Content Security Policy"),
                ("console", "oops is not defined"),
                ("foreign", "asks http://127.0.0.2:9"),
                ("missing", "nothing.js"),
                ("heavy", "/heavy weighs 6"),
            ] {
                chromium.open(&format!("{site}/{path}")).await;
                let problems = chromium.problems().await;
                assert!(problems.iter().any(|problem| problem.contains(words)), "{path}: {problems:?}");
            }
            // The heavy script comes from the cache now.
            chromium.open(&format!("{site}/heavy")).await;
            let again = chromium.problems().await;
            assert!(again.iter().any(|problem| problem.contains("/heavy weighs 6")), "{again:?}");
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_whose_page_misbehaves_fails_though_it_went_well() {
    let site = bad_site().await;
    let visitor = Chromium::visitor(&[&site]);

    let run = visitor.run(async |chromium| chromium.open(&format!("{site}/policy")).await);

    let words = failure(run).await;
    assert!(words.contains("it went well, but") && words.contains("Content Security Policy"), "{words}");
    let test = std::thread::current().name().unwrap().replace("::", "-");
    std::fs::remove_file(pictures().join(format!("failed-{test}.png"))).expect("it is kept as a picture");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_that_some_people_cannot_use_are_noticed() {
    let site = bad_site().await;
    let visitor = Chromium::visitor(&[&site]);
    visitor
        .run(async |chromium| {
            chromium.open(&format!("{site}/good")).await;
            assert!(chromium.axe().await.is_empty());

            chromium.open(&format!("{site}/unnamed")).await;
            let found = chromium.axe().await;
            assert!(found.iter().any(|one| one.rule == "label" && one.to_string().contains("<input>")), "{found:?}");

            chromium.open(&format!("{site}/pale")).await;
            assert!(chromium.axe().await.is_empty(), "it can be read in the light");
            chromium.look(Width::Desk, Scheme::Dark).await;
            let found = chromium.axe().await;
            assert!(found.iter().any(|one| one.rule == "color-contrast"), "{found:?}");
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_too_wide_for_a_phone_and_a_focus_that_nobody_sees_are_noticed() {
    let site = bad_site().await;
    let visitor = Chromium::visitor(&[&site]);
    visitor
        .run(async |chromium| {
            chromium.open(&format!("{site}/wide")).await;
            let words = failure(chromium.inspect("harness-wide")).await;
            assert!(words.contains("at 390 pixels, light") && words.contains("over the edge: p.wide"), "{words}");
            assert!(!words.contains("1280 pixels"), "{words}");

            chromium.open(&format!("{site}/unseen")).await;
            let words = failure(chromium.tab_to("Unseen")).await;
            assert!(words.contains("the focus cannot be seen on button \"Unseen\""), "{words}");
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_visitor_without_scripts_runs_none() {
    let site = bad_site().await;
    let visitor = Chromium::visitor(&[&site]).without_scripts();
    visitor
        .run(async |chromium| {
            // With scripts, this one fails.
            chromium.open(&format!("{site}/console")).await;
            chromium.heading("Page").await;
            chromium.picture("harness-without-scripts").await;
            assert_eq!(chromium.problems().await, Vec::<String>::new());
        })
        .await;
}
