//! Tickets, people, search, limits.

use std::collections::BTreeSet;
use std::time::Duration;

use holdfast_sandbox::{API_TOKEN, Canned, GrantRequest, Sandbox};
use serde_json::{Value, json};

use crate::support::{Fixture, error_of};

fn as_user(it: &Fixture, user: &str, scope: &str) -> String {
    let request =
        GrantRequest { user: Some(user.to_owned()), scope: Some(scope.to_owned()), ..GrantRequest::default() };
    it.acme.grant(&request).expect("the user is seeded").access_token
}

#[tokio::test]
async fn users_me_is_open_to_anonymous_visitors_and_not_to_bad_tokens() {
    let it = Fixture::start().await;
    let url = format!("{}/api/v2/users/me", it.acme.url());

    let anonymous: Value = it.http.get(&url).send().await.unwrap().json().await.unwrap();

    assert!(anonymous["user"]["id"].is_null());
    assert_eq!(anonymous["user"]["role"], "end-user");
    assert_eq!(error_of(it.get("users/me", "nonsense").await, 401).await, "invalid_token");
    let basic = it.http.get(&url).basic_auth("ada.admin@example.com/token", Some(API_TOKEN)).send().await.unwrap();
    let me: Value = basic.json().await.unwrap();
    assert_eq!(me["user"]["role"], "admin");
    let wrong = it.http.get(&url).basic_auth("ada.admin@example.com/token", Some("x"));
    let wrong = wrong.send().await.unwrap();
    assert_eq!(error_of(wrong, 401).await, "Couldn't authenticate you");
    assert_eq!(it.acme.counters().unauthorized, 2);
}

#[tokio::test]
async fn scopes_and_roles_forbid_in_two_shapes() {
    let it = Fixture::start().await;
    let reader = as_user(&it, "ada", "tickets:read");
    let missing = it.get("users/search.json?query=mira", &reader).await;
    assert_eq!(missing.status(), 403);
    let body: Value = missing.json().await.unwrap();
    assert_eq!(body["description"], "You are missing the following required scopes: read");
    assert_eq!(it.get("tickets/1.json", &reader).await.status(), 200);
    let write = it.put("tickets/1.json", &reader, json!({"ticket": {"status": "open"}})).await;
    assert_eq!(write.status(), 403);
    assert_eq!(it.get("search.json?query=type:ticket", &reader).await.status(), 403);

    let light = as_user(&it, "lia", "read write");
    let public = json!({"ticket": {"comment": {"body": "hi", "public": true}}});
    let refused = it.put("tickets/1.json", &light, public).await;
    assert_eq!(refused.status(), 403);
    let body: Value = refused.json().await.unwrap();
    assert_eq!(body["error"]["title"], "Forbidden");
    let note = json!({"ticket": {"comment": {"body": "hi", "public": false}}});
    assert_eq!(it.put("tickets/1.json", &light, note).await.status(), 200);

    let customer = as_user(&it, "eve", "read");
    assert_eq!(it.get("users/me", &customer).await.status(), 200);
    assert_eq!(it.get("tickets.json", &customer).await.status(), 403);
}

#[tokio::test]
async fn search_pages_to_a_thousand_results_and_still_offers_the_next_page() {
    let it = Fixture::start().await;
    it.acme.add_tickets(800);
    let token = as_user(&it, "ada", "read");

    let mut next = "search.json?query=type%3Aticket&per_page=100&sort_by=created_at&sort_order=asc".to_owned();
    let mut ids = BTreeSet::new();
    for page in 1..=10 {
        let body = it.get_json(&next, &token).await;
        assert_eq!(body["count"], 1120);
        let results = body["results"].as_array().unwrap();
        assert_eq!((results.len(), &results[0]["result_type"]), (100, &json!("ticket")), "{page}");
        ids.extend(results.iter().map(|ticket| ticket["id"].as_i64().unwrap()));
        body["next_page"].as_str().unwrap().clone_into(&mut next);
    }

    assert_eq!(ids.len(), 1000);
    let beyond = it.get(&next, &token).await;
    assert_eq!(error_of(beyond, 422).await, "invalid");
}

#[tokio::test]
async fn search_understands_status_order_and_people() {
    let it = Fixture::start().await;
    let token = as_user(&it, "ada", "read");

    let open = it
        .get_json("search.json?query=type:ticket%20status%3Csolved%20requester:mira.castellan@example.com", &token)
        .await;

    let results = open["results"].as_array().unwrap();
    assert!(!results.is_empty());
    assert!(results.iter().all(|t| t["status"] != "solved" && t["status"] != "closed"));
    let people = it.get_json("users/search.json?query=email:mira.castellan@example.com", &token).await;
    assert_eq!(people["users"][0]["id"], results[0]["requester_id"]);
    assert_eq!(it.get("search.json?query=status:opened", &token).await.status(), 422);
}

#[tokio::test]
async fn tickets_page_by_cursor_and_some_ids_are_too_big_for_a_double() {
    let it = Fixture::start().await;
    let token = as_user(&it, "ada", "read");
    let mut next = "tickets.json?page[size]=90&sort=-updated_at&include=users".to_owned();
    let mut ids = BTreeSet::new();
    loop {
        let body = it.get_json(&next, &token).await;
        ids.extend(body["tickets"].as_array().unwrap().iter().map(|t| t["id"].as_i64().unwrap()));
        assert!(!body["users"].as_array().unwrap().is_empty());
        if body["meta"]["has_more"] == json!(false) {
            assert!(body["links"]["next"].is_null());
            break;
        }
        body["links"]["next"].as_str().unwrap().clone_into(&mut next);
    }

    assert_eq!(ids.len(), 320);
    let big = *ids.last().unwrap();
    assert!(big > 1 << 53);
    let shown = it.get_json(&format!("tickets/{big}.json?include=users"), &token).await;
    assert_eq!(shown["ticket"]["id"].as_i64(), Some(big));
    assert_eq!(it.get("tickets/999999.json", &token).await.status(), 404);
}

#[tokio::test]
async fn comments_need_a_second_page() {
    let it = Fixture::start().await;
    let token = as_user(&it, "ada", "read");
    let first = it.get_json("tickets/7/comments.json?page[size]=100", &token).await;
    assert_eq!(first["meta"]["has_more"], true);
    let second = it.get_json(first["links"]["next"].as_str().unwrap(), &token).await;
    let (one, two) = (first["comments"].as_array().unwrap(), second["comments"].as_array().unwrap());

    assert_eq!((one.len(), two.len()), (100, 37));
    assert_eq!(second["meta"]["has_more"], false);
    assert!(one[0]["created_at"].as_str() < two[0]["created_at"].as_str());
    let newest = it.get_json("tickets/7/comments.json?page[size]=1&sort=-created_at", &token).await;
    assert_eq!(newest["comments"][0]["id"], two[36]["id"]);
}

#[tokio::test]
async fn a_reply_answers_the_id_of_its_comment_and_a_closed_ticket_none() {
    let it = Fixture::start().await;
    let token = as_user(&it, "gus", "read write");
    let reply =
        json!({"ticket": {"comment": {"body": "<Hello>", "public": false}, "status": "pending", "tags": ["A b"]}});

    let body: Value = it.put("tickets/3.json", &token, reply).await.json().await.unwrap();

    let event = &body["audit"]["events"][0];
    assert_eq!((&event["type"], &event["public"]), (&json!("Comment"), &json!(false)));
    let last = it.acme.comments(3).pop().unwrap();
    assert_eq!(last["id"], event["id"]);
    assert_eq!(last["html_body"], "<p>&lt;Hello&gt;</p>");
    assert_eq!(body["ticket"]["tags"], json!(["a_b"]));
    assert_eq!(body["ticket"]["status"], "pending");
    let bad = it.put("tickets/3.json", &token, json!({"ticket": {"status": "nope"}})).await;
    assert_eq!(error_of(bad, 422).await, "RecordInvalid");

    let closed = it.get_json("search.json?query=status:closed&per_page=1", &token).await;
    let path = format!("tickets/{}.json", closed["results"][0]["id"]);
    let late = it.put(&path, &token, json!({"ticket": {"comment": {"body": "late"}}})).await;
    assert_eq!(error_of(late, 422).await, "RecordInvalid");
}

#[tokio::test]
async fn a_safe_update_with_an_old_stamp_conflicts() {
    let it = Fixture::start().await;
    let token = as_user(&it, "ada", "read write");
    let stamp = it.acme.ticket(1).unwrap()["updated_at"].clone();
    let change = json!({"ticket": {"priority": "high", "safe_update": true, "updated_stamp": stamp}});

    assert_eq!(it.put("tickets/1.json", &token, change.clone()).await.status(), 200);
    assert_eq!(it.put("tickets/1.json", &token, change).await.status(), 409);
}

#[tokio::test]
async fn put_adds_tags_and_post_sets_them() {
    let it = Fixture::start().await;
    let token = as_user(&it, "ada", "read write");
    let url = format!("{}/api/v2/tickets/1/tags.json", it.acme.url());
    let send = async |method: reqwest::Method, tags: Value| -> Value {
        let request = it.http.request(method, &url).bearer_auth(&token);
        let response = request.json(&json!({"tags": tags})).send().await.unwrap();
        response.json::<Value>().await.unwrap()["tags"].clone()
    };

    assert_eq!(send(reqwest::Method::POST, json!(["a"])).await, json!(["a"]));
    assert_eq!(send(reqwest::Method::PUT, json!(["b"])).await, json!(["a", "b"]));
    assert_eq!(send(reqwest::Method::DELETE, json!(["a"])).await, json!(["b"]));
}

#[tokio::test]
async fn an_idempotency_key_makes_one_ticket_for_two_hours() {
    let it = Fixture::start().await;
    let token = as_user(&it, "ada", "read write");
    let create = async |subject: &str| {
        let body = json!({"ticket": {
            "subject": subject, "comment": {"body": "Help"}, "requester": {"name": "New", "email": "new@example.com"},
        }});
        let url = format!("{}/api/v2/tickets.json", it.acme.url());
        let request = it.http.post(url).bearer_auth(&token).header("Idempotency-Key", "k1");
        let response = request.json(&body).send().await.unwrap();
        let lookup = response.headers().get("x-idempotency-lookup").cloned();
        let status = response.status().as_u16();
        (status, lookup, response.json::<Value>().await.unwrap())
    };

    let (status, lookup, first) = create("One").await;
    assert_eq!((status, lookup.unwrap().to_str().unwrap()), (201, "miss"));
    let (status, lookup, second) = create("One").await;
    assert_eq!((status, lookup.unwrap().to_str().unwrap()), (201, "hit"));
    assert_eq!(first["ticket"]["id"], second["ticket"]["id"]);
    let (status, _, other) = create("Two").await;
    assert_eq!((status, &other["error"]), (400, &json!("IdempotentRequestError")));
    it.sandbox.advance(Duration::from_secs(7201));
    let token = as_user(&it, "ada", "read write");
    let found = it.get_json("users/search.json?query=new@example.com", &token).await;
    assert_eq!(found["count"], 1);
}

#[tokio::test]
async fn over_the_limit_the_answer_is_plain_text_and_says_when_to_come_back() {
    let it = Fixture::with(Sandbox::builder().with(|options| options.rate_limit = 2)).await;
    let token = as_user(&it, "ada", "read");

    let first = it.get("users/me", &token).await;
    assert_eq!(first.headers()["x-rate-limit-remaining"], "1");
    assert_eq!(first.headers()["ratelimit-limit"], "2");
    it.get("users/me", &token).await;
    let over = it.get("users/me", &token).await;

    assert_eq!(over.status(), 429);
    let wait: u64 = over.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait));
    assert!(serde_json::from_str::<Value>(&over.text().await.unwrap()).is_err());
    it.sandbox.advance(Duration::from_secs(wait));
    assert_eq!(it.get("users/me", &token).await.status(), 200);
}

#[tokio::test]
async fn an_access_token_ends_by_the_sandboxs_clock() {
    let it = Fixture::start().await;
    let token = as_user(&it, "ada", "read");

    it.sandbox.advance(Duration::from_secs(1790));
    assert_eq!(it.get("users/me", &token).await.status(), 200);
    it.sandbox.advance(Duration::from_secs(11));
    assert_eq!(it.get("users/me", &token).await.status(), 401);
}

#[tokio::test]
async fn articles_are_searched_by_words_and_locale_a_page_at_a_time() {
    let it = Fixture::start().await;
    let token = as_user(&it, "ada", "hc:read");
    let search = async |query: &str| it.get_json(&format!("help_center/articles/search.json?{query}"), &token).await;

    let first = search("query=account").await;
    assert_eq!((first["results"].as_array().unwrap().len(), &first["page_count"]), (12, &json!(1)));
    assert!(first["results"][0]["body"].as_str().unwrap().contains("&amp;"));
    let all = search("query=parcel+return+account+refund+code+battery+VAT&per_page=20").await;
    let next = search("query=parcel+return+account+refund+code+battery+VAT&per_page=20&page=2").await;
    assert!(all["next_page"].is_string() && all["previous_page"].is_null());
    assert!(next["previous_page"].is_string());
    assert_ne!(all["results"][0]["id"], next["results"][0]["id"]);
    let german = search("query=r%C3%BCcksendungen&locale=de").await;
    assert_eq!((&german["count"], &german["results"][0]["locale"]), (&json!(1), &json!("de")));
    assert_eq!(search("query=r%C3%BCcksendungen").await["count"], 0);

    for query in ["", "?locale=de", "?query=a&page=101", "?query=a&page=0", "?query=a&per_page=x"] {
        let refused = it.get(&format!("help_center/articles/search.json{query}"), &token).await;
        assert_eq!(refused.status(), 400, "{query}");
    }
    let other = as_user(&it, "ada", "tickets:read users:read");
    assert_eq!(it.get("help_center/articles/search.json?query=a", &other).await.status(), 403);
    let customer = as_user(&it, "eve", "read");
    assert_eq!(it.get("help_center/articles/search.json?query=a", &customer).await.status(), 403);
}

#[tokio::test]
async fn users_are_found_exactly_or_by_words_up_to_the_hundredth_page() {
    let it = Fixture::start().await;
    let token = as_user(&it, "ada", "users:read");
    let search = async |query: &str| it.get_json(&format!("users/search.json?{query}"), &token).await;

    let by_mail = search("query=email:%22mira.castellan@example.com%22").await;
    assert_eq!((&by_mail["count"], &by_mail["users"][0]["name"]), (&json!(1), &json!("Mira Castellan")));
    let external = by_mail["users"][0]["external_id"].as_str().unwrap();
    assert_eq!(search(&format!("external_id={external}")).await["users"][0]["id"], by_mail["users"][0]["id"]);
    let page = search("query=example.com&per_page=10").await;
    assert_eq!((page["users"].as_array().unwrap().len(), page["next_page"].is_string()), (10, true));

    for query in ["", "?query=a&page=101"] {
        assert_eq!(it.get(&format!("users/search.json{query}"), &token).await.status(), 400, "{query}");
    }
}

#[tokio::test]
async fn an_answer_may_be_replaced_after_its_ticket_was_made() {
    let it = Fixture::start().await;
    let token = as_user(&it, "ada", "read write");
    let before = it.get_json("search.json?query=type:ticket", &token).await["count"].clone();
    it.acme.trouble(|faults| faults.api_answer = Some(Canned::new(502, "").after_processing().times(2)));

    let create = async |body: Value| {
        let url = format!("{}/api/v2/tickets.json", it.acme.url());
        it.http.post(url).bearer_auth(&token).json(&body).send().await.unwrap().status().as_u16()
    };

    assert_eq!(create(json!({"ticket": {"subject": "a", "comment": {"body": "b"}}})).await, 502);
    assert_eq!(create(json!({"ticket": {"subject": "a"}})).await, 422, "a refusal stays one");
    let after = it.get_json("search.json?query=type:ticket", &token).await["count"].clone();
    assert_eq!(after.as_u64(), before.as_u64().map(|count| count + 1));
}
