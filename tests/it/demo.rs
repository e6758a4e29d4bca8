//! The README's first command: the story that it prints, step by step.

use std::process::Stdio;

use holdfast_tests::{
    browser::{Browser, http},
    command::binary,
};
use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

/// A running demo, with what its story names.
struct Demo {
    http: Client,
    process: Child,
    connector: String,
    control: String,
    key: String,
}

impl Demo {
    async fn start(folder: &std::path::Path) -> Self {
        let mut process = Command::new(binary())
            .args(["demo", "--port", "0", "--no-browser", "--dir"])
            .arg(folder)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut story = String::new();
        while !story.contains("Press Ctrl-C") {
            story.push_str(&lines.next_line().await.unwrap().expect("the demo tells its story"));
            story.push('\n');
        }
        let after = |mark: &str, end: char| {
            let (_, rest) = story.split_once(mark).unwrap_or_else(|| panic!("no {mark} in {story}"));
            rest.split(end).next().unwrap().to_owned()
        };
        let http = http();
        Self { http, process, connector: after(" H=", ';'), control: after(" Z=", ';'), key: after("Bearer ", '"') }
    }

    async fn send(&self, request: RequestBuilder) -> (u16, Value) {
        let response = request.bearer_auth(&self.key).send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    async fn token(&self) -> (u16, Value) {
        self.send(self.http.get(format!("{}/token", self.connector))).await
    }

    async fn counters(&self) -> Value {
        self.send(self.http.get(format!("{}/counters", self.control))).await.1
    }
}

#[tokio::test]
async fn the_demo_does_what_its_story_says() {
    let folder = tempfile::tempdir().unwrap();
    let demo = Demo::start(folder.path()).await;

    let (status, token) = demo.token().await;
    assert_eq!((status, &token["token_type"]), (200, &json!("Bearer")), "{token}");

    let before = demo.counters().await["exchanges"].as_u64().unwrap();
    let _expired = demo.send(demo.http.post(format!("{}/expire", demo.control))).await;
    let callers = (0..50).map(|_| {
        let body = json!({"access_token": token["access_token"]});
        demo.send(demo.http.post(format!("{}/token/rejected", demo.connector)).json(&body))
    });
    for (status, renewed) in futures::future::join_all(callers).await {
        assert_eq!(status, 200, "{renewed}");
        assert_ne!(renewed["access_token"], token["access_token"]);
    }
    let grown = demo.counters().await["exchanges"].as_u64().unwrap() - before;
    assert_eq!(grown, 1, "50 callers, one exchange");

    let _revoked = demo.send(demo.http.post(format!("{}/revoke", demo.control))).await;
    let (_, report) = demo.send(demo.http.post(format!("{}/test", demo.connector))).await;
    assert_eq!((&report["ok"], &report["health"]), (&json!(false), &json!("auth_failed")), "{report}");
    let (status, problem) = demo.token().await;
    assert_eq!((status, &problem["code"]), (409, &json!("connector_auth_failed")), "{problem}");

    let browser = Browser::new();
    let authorize = browser.post(problem["reconnect_url"].as_str().unwrap()).await.location();
    let consent = demo.control.replace("/zendesk/acme", "/consent");
    let (_, back) = demo.send(demo.http.post(consent).json(&json!({"authorize_url": authorize}))).await;
    assert_eq!(browser.get(back["location"].as_str().unwrap()).await.title(), "Connected");

    let (status, _) = demo.token().await;
    assert_eq!(status, 200);
    let (_, timeline) = demo.send(demo.http.get(format!("{}/timeline", demo.connector))).await;
    let kinds: Vec<_> =
        timeline["data"].as_array().unwrap().iter().map(|line| line["kind"].as_str().unwrap()).collect();
    for kind in ["connected", "exchange", "test", "health", "reconnected"] {
        assert!(kinds.contains(&kind), "no {kind} in {kinds:?}");
    }
}

#[tokio::test]
async fn a_demo_clears_no_folder_that_is_not_its_own() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("holdfast.sqlite"), "precious").unwrap();
    let refused =
        Command::new(binary()).args(["demo", "--port", "0", "--dir"]).arg(folder.path()).output().await.unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--dir"), "{refused:?}");
    assert_eq!(std::fs::read(folder.path().join("holdfast.sqlite")).unwrap(), b"precious");

    let folder = tempfile::tempdir().unwrap();
    let mut first = Demo::start(folder.path()).await;
    let second =
        Command::new(binary()).args(["demo", "--port", "0", "--dir"]).arg(folder.path()).output().await.unwrap();
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stderr).contains("another demo"), "{second:?}");
    assert_eq!(first.token().await.0, 200, "the first one goes on");
    first.process.kill().await.unwrap();
}
