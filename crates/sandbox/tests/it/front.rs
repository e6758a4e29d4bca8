//! Front: client authentication, refresh tokens that stay until their last day, pages, the 202, merged conversations, limits.

#![expect(clippy::unwrap_used, reason = "helpers of tests: clippy only knows functions marked as tests")]

use std::time::Duration;

use holdfast_sandbox::{CLIENT_ID, CLIENT_SECRET, FrontRig, Sandbox};
use reqwest::{Client, Method, Response};
use serde_json::{Value, json};
use url::Url;

const BACK: &str = "http://127.0.0.1:8080/oauth/callback";
const DAY: Duration = Duration::from_hours(24);

struct It {
    sandbox: Sandbox,
    front: FrontRig,
    http: Client,
    token: String,
}

impl It {
    async fn start() -> Self {
        rustls::crypto::ring::default_provider().install_default().ok();
        let http = Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        let sandbox = Sandbox::builder().start().await.unwrap();
        let front = sandbox.front();
        let token = front.grant("acme").unwrap().access_token;
        Self { sandbox, front, http, token }
    }

    async fn send(&self, method: Method, path: &str, body: Option<Value>) -> Response {
        let url = format!("{}/api2.frontapp.com/{path}", self.sandbox.front_override());
        let request = self.http.request(method, url).bearer_auth(&self.token);
        let request = if let Some(body) = body { request.json(&body) } else { request };
        request.send().await.unwrap()
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        let response = self.send(Method::GET, path, None).await;
        (response.status().as_u16(), response.json().await.unwrap_or_default())
    }

    async fn token(&self, secret: Option<&str>, fields: &[(&str, &str)]) -> (u16, Value) {
        let url = format!("{}/app.frontapp.com/oauth/token", self.sandbox.front_override());
        let request = self.http.post(url).form(fields);
        let request = if let Some(secret) = secret { request.basic_auth(CLIENT_ID, Some(secret)) } else { request };
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    async fn refresh(&self, token: &str) -> (u16, Value) {
        self.token(Some(CLIENT_SECRET), &[("grant_type", "refresh_token"), ("refresh_token", token)]).await
    }

    fn authorize(&self, more: &[(&str, &str)]) -> String {
        let base = format!("{}/app.frontapp.com/oauth/authorize", self.sandbox.front_override());
        let usual = [("response_type", "code"), ("client_id", CLIENT_ID), ("redirect_uri", BACK), ("state", "s&1")];
        Url::parse_with_params(&base, usual.iter().chain(more)).unwrap().into()
    }
}

#[tokio::test]
async fn only_an_admin_lets_an_app_in_and_no_scope_is_asked_for() {
    let it = It::start().await;
    let back = it.sandbox.consent(&it.authorize(&[]), "ada").unwrap();
    let query: Vec<_> = Url::parse(&back).unwrap().query_pairs().into_owned().collect();
    assert_eq!(query[1], ("state".to_owned(), "s&1".to_owned()));
    let fields = [("grant_type", "authorization_code"), ("code", query[0].1.as_str()), ("redirect_uri", BACK)];

    let (status, answer) = it.token(Some(CLIENT_SECRET), &fields).await;

    assert_eq!((status, &answer["token_type"]), (200, &json!("Bearer")));
    assert!(answer["expires_at"].as_i64().unwrap() > 1_700_000_000 && answer.get("expires_in").is_none(), "{answer}");
    assert_eq!(it.token(Some(CLIENT_SECRET), &fields).await.1["error"], "invalid_grant", "a code works once");
    assert_eq!(it.sandbox.consent(&it.authorize(&[]), "gus").unwrap_err().error, "access_denied");
    for more in [("scope", "conversations:read"), ("code_challenge", "x"), ("state", "again")] {
        assert_eq!(it.sandbox.consent(&it.authorize(&[more]), "ada").unwrap_err().error, "invalid_request");
    }
    assert!(it.sandbox.deny(&it.authorize(&[])).unwrap().contains("error=access_denied"));
}

#[tokio::test]
async fn the_client_authenticates_by_basic_alone() {
    let it = It::start().await;
    let grant = it.front.grant("acme").unwrap();
    let refresh = [("grant_type", "refresh_token"), ("refresh_token", grant.refresh_token.as_str())];
    let in_body = [refresh[0], refresh[1], ("client_id", CLIENT_ID), ("client_secret", CLIENT_SECRET)];

    assert_eq!(
        it.token(None, &in_body).await,
        (
            401,
            json!({"error": "invalid_client",
        "error_description": "Client authentication failed"})
        )
    );
    assert_eq!(it.token(Some("wrong"), &refresh).await.0, 401);
    assert_eq!(it.token(Some(CLIENT_SECRET), &in_body).await.1["error"], "invalid_request");
    assert_eq!(it.token(Some(CLIENT_SECRET), &refresh).await.0, 200);
}

#[tokio::test]
async fn a_refresh_token_stays_until_its_last_day_is_replaced_there_and_dies_after_six_months() {
    let it = It::start().await;
    let first = it.front.grant("acme").unwrap().refresh_token;
    let idle = it.front.grant("acme").unwrap().refresh_token;
    it.sandbox.advance(DAY * 180);
    let (_, kept) = it.refresh(&first).await;
    assert_eq!(kept["refresh_token"], first.as_str());

    it.sandbox.advance(DAY + Duration::from_hours(1));
    let (_, new) = it.refresh(&first).await;

    let second = new["refresh_token"].as_str().unwrap();
    assert_ne!(second, first);
    assert_eq!(
        it.refresh(&first).await,
        (
            400,
            json!({"error": "invalid_grant",
        "error_description": "The refresh token is invalid"})
        ),
        "what was replaced is dead"
    );
    it.sandbox.advance(DAY);
    assert!(!it.front.is_alive(&idle), "nobody refreshed it on its last day");
    assert_eq!(it.refresh(&idle).await.0, 400);
    assert_eq!(it.refresh(second).await.0, 200);
    assert_eq!(it.front.counters().rotations, 1);
}

#[tokio::test]
async fn pages_are_linked_on_another_host_by_a_token_of_that_list() {
    let it = It::start().await;
    let (_, first) = it.get("conversations?limit=50").await;
    let next = Url::parse(first["_pagination"]["next"].as_str().unwrap()).unwrap();
    assert_eq!(next.host_str(), Some("acme.api.frontapp.com"));
    let token = next.query_pairs().find(|(name, _)| name == "page_token").unwrap().1.into_owned();

    let (_, last) = it.get(&format!("conversations?limit=50&page_token={token}")).await;

    assert_eq!(last["_results"].as_array().unwrap().len(), 9, "one of sixty was merged");
    assert_eq!(last["_pagination"]["next"], Value::Null);
    assert_eq!(it.get(&format!("tags?page_token={token}")).await.0, 400);
    assert_eq!(it.get("conversations?limit=101").await.1["_error"]["status"], 400);
    let times: Vec<f64> =
        first["_results"].as_array().unwrap().iter().map(|one| one["updated_at"].as_f64().unwrap()).collect();
    assert!(times.is_sorted_by(|a, b| a >= b) && times[0].fract() > 0.0, "newest first, with fractions");
    let (_, found) = it.get("conversations/search/is%3Aarchived%20question?limit=3").await;
    assert_eq!((found["_total"].as_u64(), found["_results"].as_array().unwrap().len()), (Some(8), 3));
}

#[tokio::test]
async fn a_reply_is_accepted_and_archives_unless_that_is_declined() {
    let it = It::start().await;
    it.front.set(|options| options.processes_later = true);
    let id = it.front.conversation_id("acme", 4).unwrap();
    let path = format!("conversations/{id}/messages");
    let kept = it.send(Method::POST, &path, Some(json!({"body": "<p>a</p>", "options": {"archive": false}}))).await;
    assert_eq!(kept.status(), 202);
    let accepted: Value = kept.json().await.unwrap();
    let by_uid = format!("messages/alt:uid:{}", accepted["message_uid"].as_str().unwrap());
    assert_eq!((accepted["status"].as_str(), it.get(&by_uid).await.0), (Some("accepted"), 404));
    assert_eq!(it.get(&format!("conversations/{id}")).await.1["status"], "unassigned");
    it.front.process();
    assert_eq!(it.get(&by_uid).await.1["body"], "<p>a</p>");

    it.send(Method::POST, &path, Some(json!({"body": "<p>b</p>"}))).await;

    assert_eq!(it.get(&format!("conversations/{id}")).await.1["status"], "archived");
    let chat = it.front.conversation_id("acme", 5).unwrap();
    let ambiguous = it.send(Method::POST, &format!("conversations/{chat}/messages"), Some(json!({"body": "x"}))).await;
    let said: Value = ambiguous.json().await.unwrap();
    assert!(said["_error"]["details"][0].as_str().unwrap().contains("channel_id"), "{said}");
}

#[tokio::test]
async fn a_merged_conversation_leads_to_the_other_one_and_404_hides_the_rest() {
    let it = It::start().await;
    let (merged, into) = (it.front.conversation_id("acme", 2).unwrap(), it.front.conversation_id("acme", 3).unwrap());

    let moved = it.send(Method::GET, &format!("conversations/{merged}/comments"), None).await;

    assert_eq!(moved.status(), 301);
    let location = moved.headers()["location"].to_str().unwrap();
    assert_eq!(location, format!("https://acme.api.frontapp.com/conversations/{into}/comments"));
    let foreign = it.front.conversation_id("globex", 3).unwrap();
    for path in [format!("conversations/{foreign}"), "company/statuses".to_owned(), "nothing".to_owned()] {
        assert_eq!(it.get(&path).await.1["_error"]["title"], "Not found", "{path}");
    }
    it.front.set_ticketing("acme", true);
    assert_eq!(it.get("company/statuses").await.1["_results"][1]["category"], "waiting");
}

#[tokio::test]
async fn an_external_id_is_imported_once() {
    let it = It::start().await;
    let (_, inboxes) = it.get("inboxes").await;
    let path = format!("inboxes/{}/imported_messages", inboxes["_results"][0]["id"].as_str().unwrap());
    let whole = json!({"sender": {"handle": "zoe@example.org"}, "to": ["support@acme.example"], "body": "Schön",
        "external_id": "one", "created_at": 1_790_000_000, "metadata": {"is_inbound": true}});
    let before = it.front.conversations("acme");
    let once = it.send(Method::POST, &path, Some(whole.clone())).await;
    assert_eq!(once.status(), 202);
    let again = it.send(Method::POST, &path, Some(whole.clone())).await;
    assert_eq!(once.json::<Value>().await.unwrap(), again.json::<Value>().await.unwrap());
    assert_eq!(it.front.conversations("acme"), before + 1);

    for missing in ["sender", "to", "body", "external_id", "created_at", "metadata"] {
        let mut part = whole.clone();
        part.as_object_mut().unwrap().remove(missing);
        assert_eq!(it.send(Method::POST, &path, Some(part)).await.status(), 400, "{missing}");
    }
}

#[tokio::test]
async fn a_minute_has_so_many_requests_and_fewer_searches() {
    let it = It::start().await;
    it.front.set_per_minute("acme", 10);
    for _ in 0..4 {
        assert_eq!(it.get("conversations/search/refund").await.0, 200);
    }

    let response = it.send(Method::GET, "conversations/search/refund", None).await;

    assert_eq!(response.status(), 429);
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    assert!((1..=60).contains(&header("retry-after").parse::<u64>().unwrap()));
    assert_eq!((header("x-ratelimit-limit"), header("x-ratelimit-remaining")), ("10".to_owned(), "6".to_owned()));
    assert!(header("x-ratelimit-reset").parse::<f64>().unwrap() > 1_700_000_000.0);
    assert_eq!(it.get("me").await.0, 200);
    it.sandbox.advance(Duration::from_mins(1));
    assert_eq!(it.get("conversations/search/refund").await.0, 200);
}

#[tokio::test]
async fn a_missing_permission_is_403_and_a_removed_app_401() {
    let it = It::start().await;
    it.front.set(|options| options.lacks.extend(["tags:read".to_owned()]));
    let (status, body) = it.get("tags").await;
    assert!(status == 403 && body["_error"]["message"].as_str().unwrap().contains("tags:read"), "{body}");
    assert_eq!(it.get("me").await.1["name"], "Acme");

    assert_eq!(it.front.remove_app("acme"), 1);

    assert_eq!(it.get("me").await.1["_error"]["title"], "Unauthenticated");
    it.sandbox.reset();
    assert!(it.sandbox.front().grant("acme").is_some());
}
