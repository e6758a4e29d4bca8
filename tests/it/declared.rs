//! Providers that a file describes, through the whole service: consent, refresh, proxy, reconnect, keys; and the commands
//! for such files, as processes.

use std::{process::Stdio, sync::Arc, time::Duration};

use holdfast_sandbox::{CLIENT_ID, CLIENT_SECRET, GENERIC_KEY, Sandbox};
use holdfast_tests::{
    browser::Browser,
    command::{Installation, binary},
    database::Database,
    on_both,
    service::{TestApp, oauth_app},
};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader},
    process::Command,
};

on_both! {
    an_account_is_connected_used_lost_and_reconnected_in_place,
    what_a_consent_found_leads_to_the_site_that_was_meant,
    an_imported_grant_finds_what_its_requests_need,
    a_dead_token_is_heard_of_where_every_answer_is_200,
    a_scope_that_answers_do_not_name_is_not_missing,
    somebody_of_another_account_is_turned_away_before_anything_is_stored,
    a_key_works_as_a_bearer,
}

async fn started(db: &Arc<Database>, ids: &[&str]) -> TestApp {
    let with_apps = |config: &mut holdfast_app::Config| {
        config.oauth_apps.extend(ids.iter().map(|id| ((*id).to_owned(), oauth_app())));
    };
    TestApp::builder(db).with(with_apps).start().await
}

async fn link(app: &TestApp, provider: &str, account: &str) -> (String, String) {
    let made = app.post("/connect-sessions", json!({ "provider": provider, "account": account })).await.expect(201);
    (made.text_of("url"), made.text_of("connector_id"))
}

async fn connect(app: &TestApp, provider: &str, account: &str) -> String {
    let (link, id) = link(app, provider, account).await;
    let page = app.consent(&link).await;
    assert_eq!((page.status, page.title()), (200, "Connected"), "{}", page.text);
    id
}

async fn organisation(app: &TestApp, id: &str) -> Value {
    app.proxy(Method::GET, id, "api.xro/2.0/Organisation", "").await.expect(200).json["Organisations"][0]["Name"]
        .clone()
}

async fn an_account_is_connected_used_lost_and_reconnected_in_place(db: Arc<Database>) {
    let app = started(&db, &["xero"]).await;

    let id = connect(&app, "xero", "Tidewater Supply").await;
    let tested = app.post(&format!("/connectors/{id}/test"), json!({})).await.expect(200).json;
    assert_eq!((&tested["ok"], &tested["identity"]["account"]), (&json!(true), &json!("Tidewater Supply")), "{tested}");
    assert_eq!(organisation(&app, &id).await, "Tidewater Supply");
    let other = [("xero-tenant-id", "11111111-0000-4000-8000-000000000000")];
    let path = format!("/api/v1/connectors/{id}/proxy/api.xro/2.0/Organisation");
    let passed = app.raw(Method::GET, &path, Some(&app.key), &other, Vec::new()).await.expect(200);
    assert_eq!(passed.json["Organisations"][0]["Name"], "Tidewater Supply", "no caller chooses the organisation");

    app.advance(Duration::from_mins(31));
    assert_eq!(organisation(&app, &id).await, "Tidewater Supply", "after a refresh");
    assert_eq!(app.sandbox.generic().refreshes(), 1);

    app.sandbox.generic().revoke("xero");
    app.advance(Duration::from_mins(31));
    let _told = app.token(&id).await.problem(409, "connector_auth_failed");

    let page = app.consent(&app.reconnect_link(&id).await).await;
    assert_eq!((page.status, page.title()), (200, "Connected"), "{}", page.text);
    assert_eq!(app.show(&id).await["health"], "connected");
    assert_eq!(organisation(&app, &id).await, "Tidewater Supply");
}

async fn what_a_consent_found_leads_to_the_site_that_was_meant(db: Arc<Database>) {
    let app = started(&db, &["jira-service-management"]).await;

    let id = connect(&app, "jira-service-management", "https://acme.atlassian.net/jira/your-work").await;

    let myself = app.proxy(Method::GET, &id, "rest/api/3/myself", "").await.expect(200);
    assert_eq!(myself.json["site"], "acme");
    let base = app.token(&id).await.expect(200).text_of("base_url");
    assert!(base.ends_with("/generic/api.atlassian.com/ex/jira/22222222-0000-4000-8000-000000000000"), "{base}");
    let tested = app.post(&format!("/connectors/{id}/test"), json!({})).await.expect(200).json;
    assert_eq!(tested["ok"], true, "the test call goes to where it goes before the site is known: {tested}");
}

/// Imports the grant of this connector into another organisation, without what its consent found.
async fn moved(app: &TestApp, from: &str, provider: &str, account: &str) -> (String, String) {
    let token = app.token(from).await.expect(200).text_of("access_token");
    let key = app.key_of("Globex").await;
    let credential = json!({ "access_token": token, "expires_in": 3600 });
    let body = json!({ "provider": provider, "account": account, "credential": credential });
    let made = app.call(Method::POST, "/connectors", Some(&key), Some(body)).await.expect(201);
    (made.text_of("id"), key)
}

async fn an_imported_grant_finds_what_its_requests_need(db: Arc<Database>) {
    let app = started(&db, &["xero", "jira-service-management"]).await;
    let xero = connect(&app, "xero", "Tidewater Supply").await;
    let jira = connect(&app, "jira-service-management", "acme.atlassian.net").await;
    let get = async |id: &str, key: &str, path: &str| {
        app.call(Method::GET, &format!("/connectors/{id}/{path}"), Some(key), None).await
    };

    let (moved_xero, key) = moved(&app, &xero, "xero", "Tidewater Supply").await;
    let own = get(&moved_xero, &key, "proxy/api.xro/2.0/Organisation").await.expect(200);
    assert_eq!(own.json["Organisations"][0]["Name"], "Tidewater Supply");

    let (moved_jira, key) = moved(&app, &jira, "jira-service-management", "acme.atlassian.net").await;
    let base = get(&moved_jira, &key, "token").await.expect(200).text_of("base_url");
    assert!(base.ends_with("/ex/jira/22222222-0000-4000-8000-000000000000"), "{base}");
    assert_eq!(get(&moved_jira, &key, "proxy/rest/api/3/myself").await.expect(200).json["site"], "acme");
    let version = get(&moved_jira, &key, "token").await.expect(200).json["version"].clone();
    assert_eq!(version, json!(1), "it is no new token");

    let (nowhere, key) = moved(&app, &jira, "jira-service-management", "initech.atlassian.net").await;
    let refused = get(&nowhere, &key, "proxy/rest/api/3/myself").await;
    let words = "the access reaches no Jira site at Jira Service Management";
    assert!(refused.status == 403 && refused.text.contains(words), "{}: {}", refused.status, refused.text);
}

async fn a_dead_token_is_heard_of_where_every_answer_is_200(db: Arc<Database>) {
    let app = started(&db, &["slack"]).await;
    let renewed = connect(&app, "slack", "acme.slack.com").await;
    let token = app.token(&renewed).await.expect(200).text_of("access_token");
    let key = app.key_of("Globex").await;
    // An app without token rotation: nothing ends its token, and nothing renews it.
    let body = json!({ "provider": "slack", "account": "acme.slack.com", "credential": { "access_token": token } });
    let endless = app.call(Method::POST, "/connectors", Some(&key), Some(body)).await.expect(201).text_of("id");
    let test = async |id: &str, key: &str| {
        app.call(Method::POST, &format!("/connectors/{id}/test"), Some(key), Some(json!({}))).await.expect(200).json
    };
    for (id, key) in [(&renewed, &app.key), (&endless, &key)] {
        assert_eq!(test(id, key).await["ok"], true);
    }

    app.sandbox.generic().revoke("slack");

    for (id, key) in [(&renewed, &app.key), (&endless, &key)] {
        let tested = test(id, key).await;
        assert_eq!((&tested["ok"], &tested["health"]), (&json!(false), &json!("auth_failed")), "{tested}");
    }
    let page = app.consent(&app.reconnect_link(&renewed).await).await;
    assert_eq!(page.title(), "Connected", "{}", page.text);
    assert_eq!(test(&renewed, &app.key).await["ok"], true);
}

async fn a_scope_that_answers_do_not_name_is_not_missing(db: Arc<Database>) {
    let app = started(&db, &["microsoft-graph"]).await;

    let id = connect(&app, "microsoft-graph", "Ada@Example.com").await;

    let tested = app.post(&format!("/connectors/{id}/test"), json!({})).await.expect(200).json;
    assert_eq!((&tested["ok"], &tested["missing_scopes"]), (&json!(true), &json!([])), "{tested}");
}

async fn somebody_of_another_account_is_turned_away_before_anything_is_stored(db: Arc<Database>) {
    let app = started(&db, &["quickbooks", "github"]).await;
    for (provider, account) in [("quickbooks", "9130357849536736"), ("github", "octocat")] {
        let (link, id) = link(&app, provider, account).await;

        let page = app.consent_as(&Browser::new(), &link, "bob").await;
        let page = if page.status == 303 { Browser::new().get(&page.location()).await } else { page };

        assert_eq!(app.show(&id).await["health"], "pending", "{provider}: {}", page.text);
    }
}

async fn a_key_works_as_a_bearer(db: Arc<Database>) {
    let app = started(&db, &[]).await;
    let body =
        json!({ "provider": "stripe", "account": "acct_1032D82eZvKYlo2C", "credential": { "api_key": GENERIC_KEY } });

    let id = app.post("/connectors", body).await.expect(201).text_of("id");

    let tested = app.post(&format!("/connectors/{id}/test"), json!({})).await.expect(200).json;
    assert_eq!((&tested["ok"], &tested["identity"]["account"]), (&json!(true), &json!("Tidewater Supply")), "{tested}");
    let passed = app.proxy(Method::GET, &id, "v1/account", "").await.expect(200);
    assert_eq!(passed.json["object"], "account");
}

/// A file of the operator's: Okta, under another name.
fn own() -> String {
    let (_, okta) = holdfast_declared::SHIPPED.iter().find(|(name, _)| name.ends_with("okta.toml")).unwrap();
    okta.replace("id = \"okta\"", "id = \"own-okta\"").replace("name = \"Okta\"", "name = \"Own Okta\"")
}

#[tokio::test]
async fn a_bad_file_stops_the_start_with_one_line_and_a_good_one_is_listed() {
    let folder = TempDir::new().unwrap();
    let here = Installation::empty(folder.path());
    std::fs::create_dir(folder.path().join("providers")).unwrap();
    let here = here.with("HOLDFAST_PROVIDERS__DIR", "providers");
    here.write("providers/own.toml", &own());

    let listed = here.run(&["provider", "list", "--json"]).await.done().json();
    let row = |id: &str| listed.as_array().unwrap().iter().find(|row| row["id"] == id).unwrap().clone();
    assert_eq!(row("own-okta")["source"], "providers/own.toml");
    assert_eq!((&row("okta")["source"], &row("zendesk")["source"]), (&json!("shipped file"), &json!("built in")));
    let checked = here.run(&["provider", "check", "providers/own.toml"]).await.done();
    assert!(checked.out.contains("token_url: https://acme.okta.com/oauth2/v1/token"), "{checked:?}");

    here.write("providers/bad.toml", &own().replace("pkce = true", "pkce = true\nclient_secret = \"hush\""));
    for command in [&["serve"][..], &["provider", "list"], &["provider", "check", "providers/bad.toml"]] {
        let ended = here.run(command).await;
        let line = ended.one_line(1);
        assert!(
            line.starts_with("holdfast: providers/bad.toml: line ") && line.contains(": client_secret: "),
            "{line}"
        );
        assert!(!line.contains("hush"), "{line}");
    }
}

#[tokio::test]
async fn a_name_that_looks_like_anothers_and_an_extension_in_capitals_stop_the_start_too() {
    let folder = TempDir::new().unwrap();
    let here = Installation::empty(folder.path());
    std::fs::create_dir(folder.path().join("providers")).unwrap();
    let here = here.with("HOLDFAST_PROVIDERS__DIR", "providers");
    for (name, said) in [
        ("Slack", "name: \"Slack\" looks like the name of the slack that comes with Holdfast; choose a name"),
        ("zen desk", "name: \"zen desk\" looks like the name of the adapter zendesk of Holdfast's own"),
        ("Own Okta ", "name: it begins or ends with a space; take that space out"),
        ("Own\u{200b} Okta", "name: it holds characters that nobody sees; type it anew"),
    ] {
        here.write("providers/own.TOML", &own().replace("\"Own Okta\"", &format!("\"{name}\"")));
        for command in [&["serve"][..], &["provider", "list"], &["provider", "check", "providers/own.TOML"]] {
            let ended = here.run(command).await;
            let line = ended.one_line(1);
            assert!(line.starts_with("holdfast: providers/own.TOML: line ") && line.contains(said), "{line}");
        }
    }
    here.write("providers/own.TOML", &own());
    let listed = here.run(&["provider", "list"]).await.done();
    assert!(listed.out.contains("providers/own.TOML"), "it is read: {listed:?}");
}

#[tokio::test]
async fn a_port_that_is_taken_is_told_with_the_flag_of_the_command() {
    let folder = TempDir::new().unwrap();
    let here = Installation::empty(folder.path())
        .with("HOLDFAST_OAUTH_APPS__OWN-OKTA__CLIENT_ID", CLIENT_ID)
        .with("HOLDFAST_OAUTH_APPS__OWN-OKTA__CLIENT_SECRET", CLIENT_SECRET);
    here.write("own.toml", &own());
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();

    let tried = here.run(&["provider", "try", "own.toml", "--port", &port]).await;

    let line = tried.one_line(1);
    assert!(line.contains("Choose another with --port PORT") && !line.contains("--listen"), "{line}");
}

#[tokio::test]
async fn a_file_is_tried_the_whole_way_and_nothing_secret_is_said() {
    let sandbox = Sandbox::builder().start().await.unwrap();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("own.toml");
    std::fs::write(&file, own()).unwrap();
    let missing = Installation::empty(folder.path()).run(&["provider", "try", "own.toml", "--port", "0"]).await;
    assert!(missing.one_line(1).contains("[oauth_apps.own-okta]"), "{missing:?}");

    let mut tried = Command::new(binary())
        .args(["provider", "try", "own.toml", "--account", "acme.okta.com", "--port", "0", "--json"])
        .current_dir(folder.path())
        .env_clear()
        .env("HOLDFAST_OAUTH_APPS__OWN-OKTA__CLIENT_ID", CLIENT_ID)
        .env("HOLDFAST_OAUTH_APPS__OWN-OKTA__CLIENT_SECRET", CLIENT_SECRET)
        .env("HOLDFAST_PROVIDERS__OWN-OKTA__BASE_URL_OVERRIDE", sandbox.generic_override())
        .env("HOLDFAST_NETWORK__ALLOW_PRIVATE_HOSTS", "loopback")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(tried.stderr.take().unwrap()).lines();
    let link = loop {
        let line = lines.next_line().await.unwrap().expect("it names the page before it ends");
        if let Some(link) = line.trim().strip_prefix("http") {
            break format!("http{link}");
        }
    };
    let browser = Browser::new();
    let authorize = browser.post(&link).await.location();
    let back = sandbox.consent(&authorize, "ada").unwrap();
    let _ended = browser.get(&back).await.expect(200);

    let mut out = String::new();
    tried.stdout.take().unwrap().read_to_string(&mut out).await.unwrap();
    let status = tried.wait().await.unwrap();
    let report: Value = serde_json::from_str(&out).unwrap();

    assert!(status.success(), "{report}");
    assert_eq!((&report["ok"], &report["account"]), (&json!(true), &json!("acme.okta.com")), "{report}");
    assert_eq!(report["connected"]["life_secs"], 3600);
    assert_eq!(report["refreshed"]["refresh_token_replaced"], true, "{report}");
    assert_eq!(report["test"]["name"], "Ada Lindholm", "{report}");
    assert_eq!(sandbox.generic().refreshes(), 1);
    for secret in [CLIENT_SECRET, "access-", "refresh-"] {
        assert!(!out.contains(secret), "{out}");
    }
}
