//! Freshdesk: keys, lists with their thirty days, the search language, validation, limits.

#![expect(clippy::unwrap_used, reason = "helpers of tests: clippy only knows functions marked as tests")]

use std::time::Duration;

use holdfast_sandbox::{Canned, Freshdesk, FreshdeskPlan, Sandbox, TicketScope};
use reqwest::{Client, Method, Response};
use serde_json::{Value, json};

struct It {
    sandbox: Sandbox,
    acme: Freshdesk,
    http: Client,
}

impl It {
    async fn start() -> Self {
        rustls::crypto::ring::default_provider().install_default().ok();
        let http = Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        let sandbox = Sandbox::builder().start().await.unwrap();
        let acme = sandbox.freshdesk("acme").unwrap();
        Self { sandbox, acme, http }
    }

    async fn send(&self, agent: &str, method: Method, path: &str, body: Option<Value>) -> Response {
        let url = if path.starts_with("http") { path.to_owned() } else { format!("{}/api/v2/{path}", self.acme.url()) };
        let request = self.http.request(method, url).basic_auth(self.acme.api_key(agent).unwrap(), Some("X"));
        let request = if let Some(body) = body { request.json(&body) } else { request };
        request.send().await.unwrap()
    }

    async fn get(&self, path: &str) -> Response {
        self.send("ada", Method::GET, path, None).await
    }

    async fn json(&self, path: &str) -> Value {
        let response = self.get(path).await;
        assert_eq!(response.status(), 200, "{path}");
        response.json().await.unwrap()
    }

    async fn write(&self, method: Method, path: &str, body: Value) -> (u16, Value) {
        let response = self.send("ada", method, path, Some(body)).await;
        (response.status().as_u16(), response.json().await.unwrap_or_default())
    }
}

/// Field and code of the first refused field.
fn refusal((status, body): &(u16, Value)) -> (u16, &str, &str) {
    let first = &body["errors"][0];
    assert_eq!(body["description"], "Validation failed", "{body}");
    (*status, first["field"].as_str().unwrap(), first["code"].as_str().unwrap())
}

#[tokio::test]
async fn a_key_is_the_user_name_of_basic_and_dies_at_once() {
    let it = It::start().await;
    let key = it.acme.api_key("gus").unwrap();
    let me = async |key: &str, password: &str| {
        let url = format!("{}/api/v2/agents/me", it.acme.url());
        it.http.get(url).basic_auth(key, Some(password)).send().await.unwrap()
    };
    assert_eq!(me(&key, "anything").await.json::<Value>().await.unwrap()["contact"]["name"], "Gus Agent");

    let new = it.acme.reset_key("gus").unwrap();

    let refused = me(&key, "X").await;
    assert_eq!(refused.status(), 401);
    assert_eq!(refused.json::<Value>().await.unwrap()["code"], "invalid_credentials");
    assert!(it.acme.accepts(&new) && !it.acme.accepts(&key));
    it.acme.set_active("gus", false);
    assert_eq!(me(&new, "X").await.status(), 401);
    let bearer = it.http.get(format!("{}/api/v2/agents/me", it.acme.url())).bearer_auth(&new).send().await.unwrap();
    assert_eq!(bearer.status(), 401);
    assert_eq!(it.acme.counters().unauthorized, 3);
    let nowhere = it.http.get(format!("{}/freshdesk/nowhere/api/v2/agents/me", it.sandbox.url()));
    let nowhere = nowhere.basic_auth(&new, Some("X")).send().await.unwrap();
    assert_eq!(nowhere.status(), 404);
    assert!(nowhere.text().await.unwrap().contains("<html>"));
}

#[tokio::test]
async fn a_list_has_thirty_days_a_page_has_a_link_and_both_have_an_end() {
    let it = It::start().await;
    let recent = it.json("tickets?per_page=100").await.as_array().unwrap().len();
    assert!((55..=62).contains(&recent), "two a day: {recent}");

    let mut path = "tickets?updated_since=2010-01-01T00:00:00Z&per_page=100".to_owned();
    let mut all = 0;
    for _ in 0..10 {
        let page = it.get(&path).await;
        let link = page.headers().get("link").map(|link| link.to_str().unwrap().to_owned());
        all += page.json::<Value>().await.unwrap().as_array().unwrap().len();
        let Some(link) = link else { break };
        path = link.strip_prefix('<').unwrap().split_once(">; rel=\"next\"").unwrap().0.to_owned();
    }
    assert_eq!(all, it.acme.tickets().len());

    for (path, field) in [
        ("tickets?page=301", "page"),
        ("tickets?per_page=101", "per_page"),
        ("tickets?page=0", "page"),
        ("tickets?sort=id", "sort"),
        ("tickets?include=conversations", "include"),
        ("tickets?email=nobody@example.com", "email"),
        ("tickets?updated_since=yesterday", "updated_since"),
        ("tickets?order_by=id", "order_by"),
    ] {
        let response = it.get(path).await;
        let refused = (response.status().as_u16(), response.json().await.unwrap());
        assert_eq!((refusal(&refused).0, refusal(&refused).1), (400, field), "{path}");
    }
}

#[tokio::test]
async fn a_search_takes_a_quoted_query_of_fields_and_ten_pages() {
    let it = It::start().await;
    let found = it.json("search/tickets?query=%22status:2%20AND%20priority:%3E3%22").await;
    let results = found["results"].as_array().unwrap();
    assert!(results.len() <= 30 && found["total"].as_u64().unwrap() >= results.len() as u64);
    for ticket in results {
        assert!(ticket["status"] == 2 && ticket["priority"].as_i64().unwrap() >= 3, "{ticket}");
        assert!(ticket.get("description").is_none());
    }
    for path in [
        "search/tickets",
        "search/tickets?query=status:2",
        "search/tickets?query=%22refund%22",
        "search/tickets?query=%22subject:'x'%22",
        "search/tickets?query=%22status:2%22&page=11",
        "search/tickets?query=%22status:2%22&per_page=100",
    ] {
        assert_eq!(it.get(path).await.status(), 400, "{path}");
    }
}

#[tokio::test]
async fn a_ticket_has_ten_conversations_at_most_and_its_first_message_is_not_among_them() {
    let it = It::start().await;
    let ticket = it.json("tickets/7?include=conversations,requester").await;
    assert_eq!(ticket["conversations"].as_array().unwrap().len(), 10);
    assert_eq!(ticket["requester"]["id"], ticket["requester_id"]);
    let page = it.get("tickets/7/conversations").await;
    assert!(page.headers()["link"].to_str().unwrap().contains("page=2"));
    let page: Value = page.json().await.unwrap();
    assert_eq!(page.as_array().unwrap().len(), 30);
    assert!(page.as_array().unwrap().iter().all(|said| said["body_text"] != ticket["description_text"]));

    let missing = it.get("tickets/99999").await;
    assert_eq!((missing.status().as_u16(), missing.text().await.unwrap().as_str()), (404, ""));
    it.acme.restrict("gus", TicketScope::Own);
    let hidden = it.send("lia", Method::GET, "tickets/7", None).await;
    assert_eq!(hidden.status(), 403);
    assert_eq!(hidden.json::<Value>().await.unwrap()["code"], "access_denied");
}

#[tokio::test]
async fn what_a_ticket_may_not_hold_is_refused_by_field() {
    let it = It::start().await;
    let whole = |more: Value| {
        let mut body = json!({"email": "a@example.com", "subject": "s", "description": "d"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    for (body, field, code) in [
        (whole(json!({"x": 1})), "x", "invalid_field"),
        (whole(json!({"status": "2"})), "status", "datatype_mismatch"),
        (whole(json!({"status": 1})), "status", "invalid_value"),
        (whole(json!({"priority": 5})), "priority", "invalid_value"),
        (whole(json!({"tags": "vip"})), "tags", "datatype_mismatch"),
        (whole(json!({"tags": ["x".repeat(33)]})), "tags", "too_long"),
        (whole(json!({"responder_id": 1})), "responder_id", "invalid_value"),
        (whole(json!({"email": "a"})), "email", "invalid_value"),
        (whole(json!({"type": "Song"})), "type", "invalid_value"),
        (whole(json!({"custom_fields": {"cf_x": 1}})), "cf_x", "invalid_field"),
        (json!({"email": "a@example.com", "subject": "s"}), "description", "missing_field"),
        (json!({"subject": "s", "description": "d"}), "requester_id", "missing_field"),
    ] {
        let answer = it.write(Method::POST, "tickets", body.clone()).await;
        assert_eq!(refusal(&answer), (400, field, code), "{body}");
    }
    let list = it.write(Method::POST, "tickets", json!([1])).await;
    assert_eq!((list.0, &list.1["code"]), (400, &json!("invalid_json")));
    let form = it
        .http
        .post(format!("{}/api/v2/tickets", it.acme.url()))
        .basic_auth(it.acme.api_key("ada").unwrap(), Some("X"));
    assert_eq!(form.form(&[("subject", "s")]).send().await.unwrap().status(), 415);
    assert_eq!(it.send("ada", Method::DELETE, "tickets", None).await.status(), 405);

    let (status, made) = it.write(Method::POST, "tickets", whole(json!({}))).await;
    assert_eq!((status, &made["status"], &made["priority"], &made["source"]), (201, &json!(2), &json!(1), &json!(2)));
}

#[tokio::test]
async fn tags_are_replaced_null_unassigns_and_a_reply_needs_an_address() {
    let it = It::start().await;
    let (_, made) = it.write(Method::PUT, "tickets/5", json!({"tags": ["a"], "responder_id": null})).await;
    assert_eq!((&made["tags"], &made["responder_id"]), (&json!(["a"]), &Value::Null));
    assert_eq!(it.write(Method::PUT, "tickets/5", json!({})).await.0, 400);
    it.acme.require_to_close(Some("cf_resolution"));
    let closing = it.write(Method::PUT, "tickets/5", json!({"status": 5})).await;
    assert_eq!(refusal(&closing), (400, "cf_resolution", "missing_field"));
    let filled = json!({"status": 5, "custom_fields": {"cf_resolution": "sent"}});
    assert_eq!(it.write(Method::PUT, "tickets/5", filled).await.0, 200);

    let (status, said) = it.write(Method::POST, "tickets/5/reply", json!({"body": "<p>Hi &amp; bye</p>"})).await;
    assert_eq!((status, &said["private"], &said["body_text"]), (201, &json!(false), &json!("Hi & bye")));
    assert_eq!(said["to_emails"].as_array().unwrap().len(), 1);
    let (_, note) = it.write(Method::POST, "tickets/5/notes", json!({"body": "x"})).await;
    assert_eq!((&note["private"], &note["to_emails"]), (&json!(true), &json!([])));
    assert_eq!(it.write(Method::POST, "tickets/5/notes", json!({"body": "<p> </p>"})).await.0, 400);
    it.acme.hand_over(5, "Phil");
    assert_eq!(it.write(Method::POST, "tickets/5/reply", json!({"body": "x"})).await.0, 400);
}

#[tokio::test]
async fn a_minute_has_so_many_credits_and_includes_cost_more() {
    let it = It::start().await;
    it.acme.set_plan(FreshdeskPlan::Growth);
    let first = it.get("tickets?include=requester,description").await;
    let header = |response: &Response, name: &str| response.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header(&first, "x-ratelimit-total"), "200");
    assert_eq!(header(&first, "x-ratelimit-used-currentrequest"), "5");
    assert_eq!(header(&first, "x-ratelimit-remaining"), "195");
    for _ in 1..20 {
        assert_eq!(it.get("tickets").await.status(), 200);
    }

    let over = it.get("tickets").await;

    assert_eq!(over.status(), 429);
    assert!(header(&over, "retry-after").parse::<u64>().unwrap() <= 60);
    assert_eq!(it.get("agents/me").await.status(), 200, "the list has a limit of its own");
    it.sandbox.advance(Duration::from_mins(1));
    assert_eq!(it.get("tickets").await.status(), 200);
    it.acme.set_plan(FreshdeskPlan::Free);
    assert_eq!(it.get("agents/me").await.json::<Value>().await.unwrap()["code"], "require_feature");
}

#[tokio::test]
async fn trouble_comes_before_or_after_the_work() {
    let it = It::start().await;
    let count = || it.acme.conversations(5).len();
    let before = count();
    it.acme.trouble(|trouble| trouble.answer = Some(Canned::new(502, "").times(1)));
    assert_eq!(it.write(Method::POST, "tickets/5/notes", json!({"body": "x"})).await.0, 502);
    assert_eq!(count(), before);

    it.acme.trouble(|trouble| trouble.answer = Some(Canned::new(502, "").after_processing().times(1)));
    assert_eq!(it.write(Method::POST, "tickets/5/notes", json!({"body": "x"})).await.0, 502);
    assert_eq!(count(), before + 1);

    it.acme.trouble(|trouble| trouble.answer = Some(Canned::new(503, "").for_secs(60)));
    assert_eq!(it.get("agents/me").await.status(), 503);
    it.sandbox.advance(Duration::from_mins(1));
    assert_eq!(it.get("agents/me").await.status(), 200);
}

#[tokio::test]
async fn a_closed_account_stays_closed_until_a_reset_and_another_is_untouched() {
    let it = It::start().await;
    let globex = it.sandbox.freshdesk("globex").unwrap();
    assert_ne!(globex.api_key("ada"), it.acme.api_key("ada"));

    assert!(it.sandbox.close_freshdesk("acme"));

    assert!(it.sandbox.freshdesk("acme").is_none() && !it.sandbox.close_freshdesk("acme"));
    assert_eq!(it.get("agents/me").await.status(), 404);
    assert!(it.sandbox.freshdesk("globex").is_some());
    it.sandbox.reset();
    assert!(it.sandbox.freshdesk("acme").is_some());
    assert!(it.sandbox.create_freshdesk("initech").is_some() && it.sandbox.create_freshdesk("no.label").is_none());
}
