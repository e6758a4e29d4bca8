//! The README's first command: what it begins with, that it goes on, and the story that docs/DEMO.md tells in a shell.

use std::path::Path;

use holdfast_tests::{
    browser::{Browser, http},
    demo::Demo,
    wait::until,
};
use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};

/// Somebody with a shell and the names of the story.
struct Shell {
    http: Client,
    connector: String,
    control: String,
    key: String,
}

impl Shell {
    async fn of(folder: &Path) -> Self {
        let [connector, control, key] = Demo::names(folder).await;
        Self { http: http(), connector, control, key }
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

    async fn version(&self) -> i64 {
        let (status, body) = self.send(self.http.get(&self.connector)).await;
        assert_eq!(status, 200, "{body}");
        body["credential"]["version"].as_i64().unwrap_or_else(|| panic!("no version in {body}"))
    }

    async fn expire(&self) {
        let _expired = self.send(self.http.post(format!("{}/expire", self.control))).await;
    }

    /// Its access token is refused somewhere: Holdfast gets another one.
    async fn reject(&self, access_token: &Value) -> (u16, Value) {
        let body = json!({ "access_token": access_token });
        self.send(self.http.post(format!("{}/token/rejected", self.connector)).json(&body)).await
    }
}

/// Somebody with a browser who has signed in.
async fn signed_in(demo: &Demo) -> Browser {
    let (browser, sign_in) = (Browser::new(), format!("{}/sign-in", demo.base));
    let (email, password) = &demo.sign_in;
    let _in = browser.press(&sign_in, "/sign-in", &[("email", email), ("password", password)]).await.expect(303);
    browser
}

/// Presses a button of the sandbox for Zendesk's OAuth client; answers the new secret that the page shows, if one is new.
async fn client(demo: &Demo, action: &str) -> Option<String> {
    let url = format!("{}/clients/zendesk/do", demo.control);
    let pressed = http().post(url).form(&[("action", action)]).send().await.unwrap();
    assert_eq!(pressed.status(), 303);
    let page = http().get(&demo.control).header("accept", "text/html").send().await.unwrap().text().await.unwrap();
    let (_, after) = page.split_once("readonly value=\"")?;
    after.split('"').next().map(str::to_owned)
}

/// What was typed into the fields of a page's form, by name.
fn field(page: &str, name: &str) -> Option<String> {
    let (_, after) = page.split_once(&format!("name=\"{name}\""))?;
    let (tag, _) = after.split_once('>')?;
    let (_, value) = tag.split_once("value=\"")?;
    Some(value.split('"').next().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn the_demo_does_what_its_story_in_a_shell_says() {
    let folder = tempfile::tempdir().unwrap();
    let _demo = Demo::start(folder.path(), &[]).await;
    let shell = Shell::of(folder.path()).await;

    let (status, token) = shell.token().await;
    assert_eq!((status, &token["token_type"]), (200, &json!("Bearer")), "{token}");

    let before = shell.counters().await["exchanges"].as_u64().unwrap();
    shell.expire().await;
    for (status, renewed) in futures::future::join_all((0..50).map(|_| shell.reject(&token["access_token"]))).await {
        assert_eq!(status, 200, "{renewed}");
        assert_ne!(renewed["access_token"], token["access_token"]);
    }
    let grown = shell.counters().await["exchanges"].as_u64().unwrap() - before;
    assert_eq!(grown, 1, "50 callers, one exchange");

    let _revoked = shell.send(shell.http.post(format!("{}/revoke", shell.control))).await;
    let (_, report) = shell.send(shell.http.post(format!("{}/test", shell.connector))).await;
    assert_eq!((&report["ok"], &report["health"]), (&json!(false), &json!("auth_failed")), "{report}");
    let (status, problem) = shell.token().await;
    assert_eq!((status, &problem["code"]), (409, &json!("connector_auth_failed")), "{problem}");

    let browser = Browser::new();
    let authorize = browser.post(problem["reconnect_url"].as_str().unwrap()).await.location();
    let consent = shell.control.replace("/zendesk/acme", "/consent");
    let (_, back) = shell.send(shell.http.post(consent).json(&json!({"authorize_url": authorize}))).await;
    assert_eq!(browser.get(back["location"].as_str().unwrap()).await.title(), "Connected");

    let (status, _) = shell.token().await;
    assert_eq!(status, 200);
    let (_, timeline) = shell.send(shell.http.get(format!("{}/timeline", shell.connector))).await;
    let kinds: Vec<_> =
        timeline["data"].as_array().unwrap().iter().map(|line| line["kind"].as_str().unwrap()).collect();
    for kind in ["connected", "exchange", "test", "health", "reconnected"] {
        assert!(kinds.contains(&kind), "no {kind} in {kinds:?}");
    }
}

#[tokio::test]
async fn a_killed_demo_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let first = Demo::start(folder.path(), &[]).await;
    let shell = Shell::of(folder.path()).await;
    let (_, old) = shell.token().await;
    shell.expire().await;
    assert_eq!(shell.reject(&old["access_token"]).await.0, 200);
    let (version, rotations) = (shell.version().await, shell.counters().await["rotations"].clone());
    let (open, sign_in, control) = (first.open.clone(), first.sign_in.clone(), first.control.clone());
    first.kill().await;

    let next = Demo::start(folder.path(), &[]).await;

    assert!(next.said.contains("goes on"), "{}", next.said);
    assert_eq!((&next.open, &next.sign_in, &next.control), (&open, &sign_in, &control), "ports and password stay");
    let again = Shell::of(folder.path()).await;
    assert_eq!((&again.key, &again.connector), (&shell.key, &shell.connector));
    assert!(shell.counters().await["rotations"].as_u64() >= rotations.as_u64());
    // The refresh token that Holdfast holds is the one that the sandbox honours.
    let (_, old) = shell.token().await;
    shell.expire().await;
    let (status, renewed) = shell.reject(&old["access_token"]).await;
    assert_eq!(status, 200, "{renewed}");
    assert!(shell.version().await > version);
    assert_eq!(next.end().await, Some(0));

    let moved = std::net::TcpListener::bind(open.split('/').nth(2).unwrap()).unwrap();
    let last = Demo::start(folder.path(), &[]).await;
    assert!(last.said.contains("is taken"), "{}", last.said);
    assert!(!open.starts_with(&last.base));
    drop(moved);
    assert_eq!(Shell::of(folder.path()).await.token().await.0, 200, "it goes on elsewhere");
}

#[tokio::test]
async fn a_client_secret_is_rotated_in_the_demo_and_stays_so() {
    const PAGE: &str = "/settings/oauth-apps/zendesk";
    let folder = tempfile::tempdir().unwrap();
    let demo = Demo::start(folder.path(), &[]).await;
    let shell = Shell::of(folder.path()).await;
    let renewed = async || {
        let (_, old) = shell.token().await;
        shell.expire().await;
        shell.reject(&old["access_token"]).await
    };
    let page = format!("{}{PAGE}", demo.base);
    let ada = signed_in(&demo).await;
    let before = ada.get(&page).await.expect(200);
    assert!(before.says("Taken by Zendesk") && before.text.contains("#client-zendesk"), "{}", before.text);

    let second = client(&demo, "make").await.expect("it is shown");
    let _entered = ada.press(&page, PAGE, &[("next_client_secret", &second)]).await.expect(303);
    assert_eq!(client(&demo, "retire").await, None);
    demo.kill().await;
    let demo = Demo::start(folder.path(), &[]).await;

    assert_eq!(renewed().await.0, 200, "the next one is used in place of the one that was retired");
    let ada = signed_in(&demo).await;
    let promoted = ada.press(&page, &format!("{PAGE}/promote"), &[]).await.expect(303);
    assert!(ada.go_on(promoted).await.says("The next secret is the current one now."));
    assert_eq!(demo.end().await, Some(0));
    let demo = Demo::start(folder.path(), &[]).await;
    assert_eq!(renewed().await.0, 200, "a start enters nothing again");

    // Retired there without a word here: it is told, and nobody has to reconnect.
    let ada = signed_in(&demo).await;
    let third = client(&demo, "make").await.expect("it is shown");
    client(&demo, "retire").await;
    let (status, problem) = renewed().await;
    assert_eq!((status, &problem["code"]), (502, &json!("oauth_app_rejected")), "{problem}");
    let told = async || ada.get(&page).await;
    until("the operator's page tells it", told, |page| page.says("Zendesk refuses this client")).await;
    let mailbox = async || ada.get(&format!("{}/demo/mailbox", demo.base)).await;
    until("so does a mail", mailbox, |page| page.says("Zendesk refuses")).await;
    let _entered = ada.press(&page, PAGE, &[("client_secret", &third)]).await.expect(303);
    assert_eq!(renewed().await.0, 200);
    assert!(!mailbox().await.says("needs you"), "nobody has to reconnect");
}

#[tokio::test]
async fn what_keeps_a_demo_from_starting_names_the_way_on() {
    let folder = tempfile::tempdir().unwrap();
    let first = Demo::start(folder.path(), &[]).await;
    let shell = Shell::of(folder.path()).await;
    let proxied = shell.send(shell.http.get(format!("{}/proxy/api/v2/users/me.json", shell.connector))).await;
    assert_eq!(proxied.0, 200, "docs/PROXY.md can be tried with its key: {}", proxied.1);
    assert_eq!(first.end().await, Some(0));

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let (code, said) = Demo::refused(folder.path(), &["--port", &port]).await;
    assert_eq!(code, Some(1));
    assert!(said.contains("holdfast demo --port 0") && !said.contains("--listen"), "{said}");
    std::fs::write(folder.path().join("sandbox.json"), "{\"format\": 1, \"de").unwrap();
    let (code, said) = Demo::refused(folder.path(), &[]).await;
    assert_eq!(code, Some(1));
    assert!(said.contains("sandbox.json") && said.contains("--fresh"), "{said}");
}

#[tokio::test]
async fn a_first_start_that_was_cut_off_is_finished_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let first = Demo::start(folder.path(), &[]).await;
    let (sign_in, shell) = (first.sign_in.clone(), Shell::of(folder.path()).await);
    first.kill().await;
    // As it was before everything was made: the last word is missing.
    let file = folder.path().join("demo.json");
    let mut kept: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    kept["seeded"] = false.into();
    kept["connector"] = Value::Null;
    std::fs::write(&file, kept.to_string()).unwrap();

    let next = Demo::start(folder.path(), &[]).await;

    assert_eq!(next.sign_in, sign_in);
    let again = Shell::of(folder.path()).await;
    assert_eq!((&again.key, &again.connector), (&shell.key, &shell.connector), "nothing is made twice");
    assert_eq!(again.token().await.0, 200);
}

#[tokio::test]
async fn fresh_starts_over_and_says_what_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let first = Demo::start(folder.path(), &[]).await;
    let (sign_in, shell) = (first.sign_in.clone(), Shell::of(folder.path()).await);
    assert_eq!(first.end().await, Some(0));
    std::fs::write(folder.path().join("notes.txt"), "mine").unwrap();

    let next = Demo::start(folder.path(), &["--fresh"]).await;

    assert!(next.said.contains("removed demo.json, holdfast.sqlite") && next.said.contains("Holdfast is running"));
    let again = Shell::of(folder.path()).await;
    assert_ne!((&next.sign_in, &again.key), (&sign_in, &shell.key));
    assert_ne!(again.connector, shell.connector);
    assert_eq!(again.token().await.0, 200);
    let before = Shell { key: shell.key, ..again };
    assert_eq!(before.token().await.0, 401, "the key of before is worth nothing");
    assert_eq!(std::fs::read(folder.path().join("notes.txt")).unwrap(), b"mine");
}

#[tokio::test]
async fn a_demo_touches_no_folder_that_is_not_its_own() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("holdfast.sqlite"), "precious").unwrap();
    for more in [&[] as &[&str], &["--fresh"]] {
        let (code, said) = Demo::refused(folder.path(), more).await;
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("not a demo's folder") && said.contains("--dir"), "{said}");
    }
    assert_eq!(std::fs::read(folder.path().join("holdfast.sqlite")).unwrap(), b"precious");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn two_demos_run_side_by_side_but_not_in_one_folder() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let first = Demo::start(here.path(), &[]).await;

    for more in [&[] as &[&str], &["--fresh"]] {
        let (code, said) = Demo::refused(here.path(), more).await;
        assert_eq!(code, Some(1));
        assert!(said.contains("another demo") && said.contains(&first.base), "{said}");
    }
    let second = Demo::start(there.path(), &[]).await;

    assert_ne!((&first.base, &first.control), (&second.base, &second.control));
    assert_ne!(first.sign_in.1, second.sign_in.1);
    for folder in [&here, &there] {
        assert_eq!(Shell::of(folder.path()).await.token().await.0, 200);
    }
    // A port that was asked for is taken or nothing is.
    let port = first.base.rsplit(':').next().unwrap();
    let third = tempfile::tempdir().unwrap();
    let (code, said) = Demo::refused(third.path(), &["--port", port]).await;
    assert_eq!(code, Some(1));
    assert!(said.contains("--port 0"), "{said}");
}

#[tokio::test]
async fn only_whoever_opens_the_printed_address_finds_the_form_filled_in() {
    let folder = tempfile::tempdir().unwrap();
    let demo = Demo::start(folder.path(), &[]).await;
    let sign_in = format!("{}/sign-in", demo.base);
    let (email, password) = &demo.sign_in;

    let stranger = Browser::new();
    let page = stranger.get(&sign_in).await.text;
    assert!(page.contains("This is a demo") && !page.contains(password.as_str()));
    let wrong = stranger.get(&format!("{}/demo/open/AAAAAAAAAAAAAAAAAAAA", demo.base)).await;
    assert_eq!(wrong.status, 404);
    assert!(!stranger.get(&sign_in).await.text.contains(password.as_str()));

    let ada = Browser::new();
    assert_eq!(ada.get(&demo.open).await.location(), "/sign-in");
    let page = ada.get(&sign_in).await.text;
    assert_eq!((field(&page, "email").as_ref(), field(&page, "password").as_ref()), (Some(email), Some(password)));
    let form = [("csrf", field(&page, "csrf").unwrap()), ("email", email.clone()), ("password", password.clone())];
    let signed_in = ada.submit(&sign_in, &form).await;
    assert_eq!((signed_in.status, signed_in.location().as_str()), (303, "/"));
    assert_eq!(ada.get(&demo.open).await.location(), "/sign-in");
    assert_eq!(ada.get(&sign_in).await.location(), "/", "who is signed in goes on");
}

#[tokio::test]
async fn a_demo_answers_to_loopback_names_alone() {
    let folder = tempfile::tempdir().unwrap();
    let demo = Demo::start(folder.path(), &[]).await;
    for url in [&demo.open, &demo.control] {
        let ask = |host: &'static str| http().get(url).header("host", host).send();
        assert_eq!(ask("holdfast.example").await.unwrap().status(), 421, "{url}");
        assert_ne!(ask("localhost").await.unwrap().status(), 421, "{url}");
    }
}
