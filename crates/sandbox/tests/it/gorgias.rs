//! Gorgias accounts over HTTP: strict where Gorgias is, and in both readings where its documentation has a gap.

#![expect(clippy::unwrap_used, reason = "helpers of tests: clippy only knows functions marked as tests")]

use std::time::Duration;

use holdfast_sandbox::{CLIENT_ID, CLIENT_SECRET, Gorgias, GorgiasRotation, Sandbox};
use reqwest::{Client, Method, Response};
use serde_json::{Value, json};
use url::Url;

const REDIRECT_URI: &str = "http://127.0.0.1:8080/oauth/callback";
const SCOPES: &str = "openid offline account:read users:read customers:read tickets:read tickets:write";

struct Fixture {
    sandbox: Sandbox,
    acme: Gorgias,
    http: Client,
}

impl Fixture {
    async fn start() -> Self {
        rustls::crypto::ring::default_provider().install_default().ok();
        let http = Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        let sandbox = Sandbox::builder().start().await.unwrap();
        let acme = sandbox.gorgias("acme").unwrap();
        Self { sandbox, acme, http }
    }

    fn authorize_url(&self, change: &[(&str, &str)]) -> String {
        let mut params = vec![
            ("response_type", "code"),
            ("client_id", CLIENT_ID),
            ("redirect_uri", REDIRECT_URI),
            ("scope", SCOPES),
            ("state", "a b&c"),
            ("nonce", "n-1"),
        ];
        for (name, value) in change {
            params.retain(|(known, _)| known != name);
            if !value.is_empty() {
                params.push((name, value));
            }
        }
        Url::parse_with_params(&format!("{}/oauth/authorize", self.acme.url()), params).unwrap().into()
    }

    fn code(&self, change: &[(&str, &str)]) -> String {
        let back = self.sandbox.consent(&self.authorize_url(change), "ada").unwrap();
        Url::parse(&back).unwrap().query_pairs().find(|(name, _)| name == "code").unwrap().1.into_owned()
    }

    async fn token(&self, client: (&str, &str), form: &[(&str, &str)]) -> Response {
        let url = format!("{}/oauth/token", self.acme.url());
        self.http.post(url).basic_auth(client.0, Some(client.1)).form(form).send().await.unwrap()
    }

    async fn exchange(&self, code: &str) -> Response {
        let form = [("grant_type", "authorization_code"), ("code", code), ("redirect_uri", REDIRECT_URI)];
        self.token((CLIENT_ID, CLIENT_SECRET), &form).await
    }

    async fn refresh(&self, token: &str) -> Response {
        let form = [("grant_type", "refresh_token"), ("refresh_token", token)];
        self.token((CLIENT_ID, CLIENT_SECRET), &form).await
    }

    async fn api(&self, method: Method, path: &str, token: &str, body: Option<Value>) -> (u16, Value) {
        let request = self.http.request(method, format!("{}/api/{path}", self.acme.url())).bearer_auth(token);
        let request = if let Some(body) = body { request.json(&body) } else { request };
        let answer = request.send().await.unwrap();
        assert!(answer.headers().contains_key("x-gorgias-account-api-call-limit"), "{path}");
        let status = answer.status().as_u16();
        (status, serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap_or_default())
    }

    async fn get(&self, path: &str, token: &str) -> (u16, Value) {
        self.api(Method::GET, path, token, None).await
    }
}

async fn json_of(response: Response, status: u16) -> Value {
    assert_eq!(response.status(), status);
    response.json().await.unwrap()
}

#[tokio::test]
async fn an_authorisation_request_that_goes_beyond_the_documentation_has_no_page() {
    let fixture = Fixture::start().await;
    let page = fixture.http.get(fixture.authorize_url(&[])).send().await.unwrap();
    assert_eq!(page.status(), 200);
    assert!(page.text().await.unwrap().contains("tickets:write"));
    for change in [
        [("client_id", "another")],
        [("redirect_uri", "https://evil.example/")],
        [("response_type", "token")],
        [("scope", "tickets:read write:all")],
        [("scope", "tickets:read,tickets:write")],
        [("state", "")],
        [("nonce", "")],
        [("code_challenge", "x")],
    ] {
        let page = fixture.http.get(fixture.authorize_url(&change)).send().await.unwrap();
        assert_eq!(page.status(), 400, "{change:?}");
    }
    let without = fixture.authorize_url(&[("nonce", ""), ("scope", "offline tickets:read")]);
    assert!(fixture.sandbox.consent(&without, "gus").is_ok(), "only openid wants a nonce");
    let elsewhere = fixture.authorize_url(&[]).replace("/acme/", "/nobody/");
    assert!(fixture.sandbox.consent(&elsewhere, "ada").is_err());
    let denied = fixture.sandbox.deny(&fixture.authorize_url(&[])).unwrap();
    assert!(denied.contains("error=access_denied") && denied.contains("state=a+b%26c"), "{denied}");
}

#[tokio::test]
async fn a_code_is_good_once_for_a_day_and_brings_a_refresh_token_with_offline_alone() {
    let fixture = Fixture::start().await;
    let code = fixture.code(&[]);

    let answer = json_of(fixture.exchange(&code).await, 200).await;

    assert_eq!((&answer["expires_in"], &answer["token_type"]), (&json!(86_400), &json!("Bearer")));
    assert!(answer["refresh_token"].is_string() && answer["id_token"].is_string());
    let access = answer["access_token"].as_str().unwrap();
    assert!(fixture.acme.accepts(access));
    let again = json_of(fixture.exchange(&code).await, 400).await;
    assert_eq!(again["error"], "invalid_grant");
    assert!(!fixture.acme.accepts(access), "a code that comes twice ends what it bought");

    let plain = json_of(fixture.exchange(&fixture.code(&[("scope", "tickets:read")])).await, 200).await;
    assert_eq!((&plain["refresh_token"], &plain["id_token"]), (&Value::Null, &Value::Null));
    let late = fixture.code(&[]);
    fixture.sandbox.advance(Duration::from_mins(2));
    json_of(fixture.exchange(&late).await, 400).await;
    let access = plain["access_token"].as_str().unwrap();
    assert!(fixture.acme.accepts(access));
    fixture.sandbox.advance(Duration::from_hours(24));
    assert!(!fixture.acme.accepts(access));
}

#[tokio::test]
async fn a_client_proves_itself_by_basic_and_nowhere_else() {
    let fixture = Fixture::start().await;
    let code = fixture.code(&[]);
    let form = [("grant_type", "authorization_code"), ("code", code.as_str()), ("redirect_uri", REDIRECT_URI)];
    for client in [(CLIENT_ID, "wrong"), ("wrong", CLIENT_SECRET)] {
        let refused = json_of(fixture.token(client, &form).await, 401).await;
        assert_eq!(refused["error"], "invalid_client");
    }
    let url = format!("{}/oauth/token", fixture.acme.url());
    let in_form: Vec<_> =
        form.into_iter().chain([("client_id", CLIENT_ID), ("client_secret", CLIENT_SECRET)]).collect();
    let refused = json_of(fixture.http.post(url).form(&in_form).send().await.unwrap(), 401).await;
    assert_eq!(refused["error"], "invalid_client");
    for more in [("code_verifier", "x"), ("scope", "tickets:read")] {
        let form: Vec<_> = form.into_iter().chain([more]).collect();
        let refused = json_of(fixture.token((CLIENT_ID, CLIENT_SECRET), &form).await, 400).await;
        assert_eq!(refused["error"], "invalid_request");
    }
    json_of(fixture.exchange(&code).await, 200).await;
}

#[tokio::test]
async fn a_refresh_rotates_or_does_not_as_the_account_says() {
    let fixture = Fixture::start().await;
    let first = fixture.acme.grant("ada", SCOPES).unwrap();
    let spent = first.refresh_token.unwrap();
    let next = json_of(fixture.refresh(&spent).await, 200).await;
    let (access, new) = (next["access_token"].as_str().unwrap(), next["refresh_token"].as_str().unwrap());
    assert!(!fixture.acme.accepts(&first.access_token) && fixture.acme.accepts(access) && spent != new);
    let refused = json_of(fixture.refresh(&spent).await, 400).await;
    assert_eq!(refused["error"], "invalid_grant");
    assert!(!fixture.acme.accepts(access), "the whole grant is over");
    assert_eq!((fixture.acme.counters().rotations, fixture.acme.counters().reuses), (1, 1));

    for (rotation, told) in [(GorgiasRotation::Stays, false), (GorgiasRotation::SameAgain, true)] {
        fixture.acme.set_rules(|rules| rules.rotation = rotation);
        let first = fixture.acme.grant("ada", SCOPES).unwrap();
        let token = first.refresh_token.unwrap();
        for _ in 0..3 {
            let next = json_of(fixture.refresh(&token).await, 200).await;
            assert_eq!(next["refresh_token"].as_str(), told.then_some(token.as_str()), "{rotation:?}");
            assert!(fixture.acme.accepts(&first.access_token), "the older one lives to its own end");
        }
        fixture.acme.revoke(Some(first.grant));
        json_of(fixture.refresh(&token).await, 400).await;
    }
}

#[tokio::test]
async fn a_list_has_pages_and_what_is_unknown_is_refused() {
    let fixture = Fixture::start().await;
    let token = fixture.acme.grant("gus", SCOPES).unwrap().access_token;
    let (mut ids, mut cursor) = (Vec::new(), String::new());
    loop {
        let (status, page) = fixture.get(&format!("tickets?limit=100{cursor}"), &token).await;
        assert_eq!((status, &page["object"]), (200, &json!("list")));
        ids.extend(page["data"].as_array().unwrap().iter().map(|ticket| ticket["id"].as_i64().unwrap()));
        let Some(next) = page["meta"]["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(ids.len(), 230, "those that were thrown away are among them");
    ids.dedup();
    assert_eq!(ids.len(), 230);
    let (_, page) = fixture.get("tickets?trashed=false&limit=1", &token).await;
    assert!(page["data"][0]["updated_datetime"].as_str().unwrap().ends_with("+00:00"));
    assert_eq!(fixture.acme.ticket_ids().len(), 225);
    for (path, field) in [
        ("tickets?status=open", "status"),
        ("tickets?query=parcel", "query"),
        ("tickets?limit=101", "limit"),
        ("tickets?cursor=2", "cursor"),
        ("tickets?order_by=priority:asc", "order_by"),
        ("tickets?trashed=maybe", "trashed"),
        ("customers?phone=1", "phone"),
        ("tickets/5?include=messages", "include"),
    ] {
        let (status, refused) = fixture.get(path, &token).await;
        assert_eq!(status, 400, "{path}");
        assert!(refused["error"]["data"][field][0].is_string(), "{path}: {refused}");
    }
    let body = json!({"status": "open", "colour": "red"});
    let (status, refused) = fixture.api(Method::PUT, "tickets/5", &token, Some(body)).await;
    assert_eq!((status, &refused["error"]["data"]["colour"][0]), (400, &json!("Unknown field.")));
}

#[tokio::test]
async fn a_change_is_accepted_with_an_empty_body() {
    let fixture = Fixture::start().await;
    let token = fixture.acme.grant("gus", SCOPES).unwrap().access_token;
    let close = || Some(json!({"status": "closed", "priority": "low", "assignee_user": null}));

    let (status, answer) = fixture.api(Method::PUT, "tickets/5", &token, close()).await;

    assert_eq!((status, answer), (202, Value::Null));
    let ticket = fixture.acme.ticket(5).unwrap();
    assert_eq!((&ticket["status"], &ticket["assignee_user"]), (&json!("closed"), &Value::Null));
    fixture.acme.set_rules(|rules| rules.answers_changes = true);
    let (status, answer) = fixture.api(Method::PUT, "tickets/5", &token, close()).await;
    assert_eq!((status, &answer["id"]), (200, &json!(5)));
    let names = |names: &[&str]| Some(json!({"names": names}));
    assert_eq!(fixture.api(Method::PUT, "tickets/5/tags", &token, names(&["a"])).await.0, 202);
    assert_eq!(fixture.api(Method::POST, "tickets/5/tags", &token, names(&["A", "a"])).await.0, 201);
    assert_eq!(fixture.api(Method::DELETE, "tickets/5/tags", &token, names(&["a"])).await.0, 204);
    let ticket = fixture.acme.ticket(5).unwrap();
    assert_eq!(ticket["tags"][0]["name"], "A");
    assert_eq!(ticket["tags"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_mail_without_an_address_of_the_account_is_taken_and_not_sent() {
    let fixture = Fixture::start().await;
    let token = fixture.acme.grant("gus", SCOPES).unwrap().access_token;
    let mail = |source: Value| {
        Some(json!({"channel": "email", "via": "api", "from_agent": true, "public": true, "body_text": "x",
            "source": source}))
    };
    let to = json!([{"address": "mira.castellan@example.com"}]);
    for (from, fails) in [("support@acme.example", false), ("nobody@acme.example", true)] {
        let source = json!({"type": "email", "from": {"address": from}, "to": to});
        let (status, answer) = fixture.api(Method::POST, "tickets/5/messages", &token, mail(source)).await;
        assert_eq!((status, &answer["sent_datetime"]), (201, &Value::Null));
        let ticket = fixture.acme.ticket(5).unwrap();
        let last = ticket["messages"].as_array().unwrap().last().unwrap();
        assert_eq!((last["sent_datetime"].is_null(), last["failed_datetime"].is_null()), (fails, !fails));
    }
    let note = json!({"channel": "internal-note", "via": "api", "from_agent": true, "body_text": "x"});
    let (status, refused) = fixture.api(Method::POST, "tickets/5/messages", &token, Some(note)).await;
    assert_eq!(status, 400, "{refused}");
    fixture.acme.set_rules(|rules| rules.quota_used_up = true);
    let (status, refused) = fixture.api(Method::POST, "tickets/5/messages", &token, mail(json!({}))).await;
    assert_eq!(status, 403);
    assert!(refused["error"]["msg"].as_str().unwrap().ends_with("Messaging quota exceeded."));
}

#[tokio::test]
async fn a_key_goes_by_basic_and_has_a_smaller_bucket() {
    let fixture = Fixture::start().await;
    let (email, key) = fixture.acme.api_key("gus").unwrap();
    let get = async |user: &str, key: &str| {
        let url = format!("{}/api/users/0", fixture.acme.url());
        fixture.http.get(url).basic_auth(user, Some(key)).send().await.unwrap()
    };
    let me = json_of(get(&email, &key).await, 200).await;
    assert_eq!(me["email"], email.as_str());
    assert_eq!(get("ada.admin@acme.example", &key).await.status(), 401);
    fixture.acme.set_rules(|rules| rules.hides_current_user = true);
    assert_eq!(get(&email, &key).await.status(), 403);
    fixture.acme.set_active("gus", false);
    assert_eq!(get(&email, &key).await.status(), 401);
    for _ in 0..50 {
        let answer = get(&email, &key).await;
        if answer.status() == 429 {
            assert_eq!(answer.headers()["x-gorgias-account-api-call-limit"], "40/40");
            assert!(answer.headers().contains_key("retry-after"));
            fixture.sandbox.advance(Duration::from_secs(20));
            assert_eq!(get(&email, &key).await.status(), 401);
            return;
        }
    }
    panic!("the bucket holds more than 40");
}

#[tokio::test]
async fn scopes_are_held_to_and_an_account_goes_on_from_its_file() {
    let file = std::env::temp_dir().join(format!("holdfast-sandbox-gorgias-{}.json", std::process::id()));
    let sandbox = Sandbox::builder().file(&file).start().await.unwrap();
    let kept = sandbox.create_gorgias("kept").unwrap();
    kept.set_rules(|rules| rules.rotation = GorgiasRotation::Stays);
    let token = kept.grant("ada", "tickets:read").unwrap().access_token;
    sandbox.stop().await;

    let sandbox = Sandbox::builder().file(&file).start().await.unwrap();
    std::fs::remove_file(&file).ok();

    let acme = sandbox.gorgias("kept").unwrap();
    assert_eq!(acme.rules().rotation, GorgiasRotation::Stays);
    let fixture = Fixture { acme, sandbox, http: Fixture::start().await.http };
    assert_eq!(fixture.get("tickets/5", &token).await.0, 200);
    assert_eq!(fixture.get("tickets/5/", &token).await.0, 200, "with a slash at the end as well");
    for path in ["account", "users/0", "customers"] {
        assert_eq!(fixture.get(path, &token).await.0, 403, "{path}");
    }
    assert_eq!(fixture.get("tickets/999", &token).await.0, 404);
    assert_eq!(fixture.api(Method::PATCH, "tickets/5", &token, None).await.0, 405);
    assert_eq!(fixture.get("tickets/5", "nobody").await.0, 401);
    fixture.sandbox.reset();
    assert!(fixture.sandbox.gorgias("kept").is_none());
}
