//! The REST contract: what API.md and the served document promise.

use std::{collections::BTreeSet, sync::Arc};

use holdfast_core::job::Kind;
use holdfast_store::{ByHand, NewJob};
use holdfast_tests::{
    database::Database,
    on_both,
    service::{Answer, LIFE, TestApp},
};
use reqwest::Method;
use serde_json::{Value, json};

on_both! {
    a_body_of_another_shape_is_refused_in_plain_words,
    every_documented_route_answers_and_every_promised_one_is_documented,
    each_operation_has_a_name_of_its_own,
    every_refusal_is_a_problem,
    a_key_is_needed_and_its_scopes_count,
    another_organisations_connector_does_not_exist,
    bad_input_names_its_field,
    a_list_is_paged_and_filtered,
    the_bounds_of_min_ttl_hold,
    a_token_that_nobody_knows_refreshes_nothing,
    an_alias_does_what_the_id_does,
    the_same_account_is_connected_once,
    no_answer_but_the_token_call_holds_a_secret,
    a_readiness_check_needs_no_key,
    input_in_the_wrong_place_is_not_repeated,
}

/// What was built so far of what is promised.
const PROMISED: [(&str, &str); 48] = [
    ("get", "/connectors/{id}/webhook"),
    ("post", "/connectors/{id}/webhook"),
    ("get", "/deliveries"),
    ("get", "/deliveries/{id}"),
    ("get", "/providers"),
    ("post", "/connectors"),
    ("get", "/connectors"),
    ("get", "/connectors/{id}"),
    ("patch", "/connectors/{id}"),
    ("delete", "/connectors/{id}"),
    ("post", "/connectors/{id}/disconnect"),
    ("get", "/connectors/{id}/token"),
    ("post", "/connectors/{id}/token/rejected"),
    ("post", "/connectors/{id}/test"),
    ("post", "/connectors/{id}/sync"),
    ("post", "/connectors/{id}/reconnect"),
    ("post", "/connect-sessions"),
    ("get", "/connectors/{id}/timeline"),
    ("post", "/connectors/{id}/tools/{tool}"),
    ("get", "/agent-samples"),
    ("post", "/agents"),
    ("get", "/agents"),
    ("get", "/agents/{id}"),
    ("patch", "/agents/{id}"),
    ("delete", "/agents/{id}"),
    ("post", "/agents/{id}/pause"),
    ("post", "/agents/{id}/resume"),
    ("post", "/agents/{id}/run"),
    ("get", "/agents/{id}/runs"),
    ("get", "/agents/{id}/runs/{run}"),
    ("get", "/jobs"),
    ("get", "/jobs/{id}"),
    ("post", "/jobs/{id}/retry"),
    ("post", "/jobs/{id}/discard"),
    ("post", "/jobs/retry"),
    ("post", "/jobs/discard"),
    ("get", "/event-endpoints"),
    ("post", "/event-endpoints"),
    ("get", "/event-endpoints/{id}"),
    ("patch", "/event-endpoints/{id}"),
    ("delete", "/event-endpoints/{id}"),
    ("post", "/event-endpoints/{id}/rotate-secret"),
    ("post", "/event-endpoints/{id}/test"),
    ("post", "/event-endpoints/{id}/replay"),
    ("get", "/event-endpoints/{id}/attempts"),
    ("get", "/connectors/{id}/proxy/{path}"),
    ("post", "/connectors/{id}/proxy/{path}"),
    ("get", "/openapi.json"),
];

async fn every_documented_route_answers_and_every_promised_one_is_documented(db: Arc<Database>) {
    let app = TestApp::builder(&db).with(|config| config.sync.enabled = true).start().await;
    let document = app.call(Method::GET, "/openapi.json", None, None).await.expect(200).json;
    let paths = document["paths"].as_object().unwrap();
    let documented: BTreeSet<(String, String)> = paths
        .iter()
        .flat_map(|(path, item)| item.as_object().unwrap().keys().map(move |method| (method.clone(), path.clone())))
        .collect();

    for (method, path) in PROMISED.iter().filter(|(_, path)| *path != "/openapi.json") {
        assert!(documented.contains(&((*method).to_owned(), (*path).to_owned())), "{method} {path} is not documented");
    }
    // What removes the connector comes last.
    let mut calls: Vec<_> = documented.iter().collect();
    calls
        .sort_by_key(|(method, path)| (method == "delete" && !path.contains("/proxy/"), path.ends_with("/disconnect")));
    let id = app.import("acme").await;
    let agent = app.post("/agents", sample_agent(&id)).await.expect(201).text_of("id");
    let run = app.post(&format!("/agents/{agent}/run"), json!({})).await.expect(202).text_of("id");
    app.app.run_due_agents().await.unwrap();
    let hook = app.zendesk_hook("initech").await;
    assert_eq!(app.sent(&hook.event("evt-1")).await, 200);
    let delivery = app.deliveries(&hook.connector).await[0]["id"].as_str().unwrap().to_owned();
    let admin = app.key_with(&["admin"]).await;
    let endpoint = json!({ "url": "https://app.example.com/events", "types": ["ticket.created"] });
    let made = app.call(Method::POST, "/event-endpoints", Some(&admin), Some(endpoint.clone())).await;
    let listening = made.expect(201).text_of("id");
    for (method, path) in calls {
        let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
        let body = match (method.as_str(), path.as_str()) {
            ("POST", "/agents") => Some(sample_agent(&id)),
            ("POST", "/event-endpoints") => Some(endpoint.clone()),
            ("POST", "/event-endpoints/{id}/replay") => Some(json!({ "since": "2026-01-01T00:00:00Z" })),
            ("POST", "/connectors") => Some(json!({ "provider": "zendesk", "account": "globex" })),
            ("POST", "/connect-sessions") => Some(json!({ "provider": "zendesk", "account": "acme" })),
            ("POST", path) if path.ends_with("/rejected") => Some(json!({ "access_token": "unknown" })),
            ("POST" | "PATCH", _) => Some(json!({})),
            _ => None,
        };
        let job = job_of(&app, path).await;
        let named = match path.split('/').nth(1) {
            Some("agents") => &agent,
            Some("jobs") => &job,
            Some("deliveries") => &delivery,
            Some("event-endpoints") => &listening,
            _ => &id,
        };
        let key = if path.starts_with("/event-endpoints") { &admin } else { &app.key };
        let called = path
            .replace("{id}", named)
            .replace("{run}", &run)
            .replace("{tool}", "search_tickets")
            .replace("{path}", "api/v2/users/me.json");
        let answer = app.call(method.clone(), &called, Some(key), body).await;
        if path.contains("/proxy/") {
            assert_eq!(answer.header("x-holdfast-source"), "provider", "{method} {path}: {}", answer.text);
            continue;
        }
        assert!((200..300).contains(&answer.status), "{method} {path}: {} {}", answer.status, answer.text);
        assert_eq!(answer.header("cache-control"), "no-store", "{method} {path}");
        let promised = &document["paths"][path][method.as_str().to_lowercase()]["responses"];
        assert!(
            promised.get(answer.status.to_string()).is_some(),
            "{method} {path}: {} is undocumented",
            answer.status
        );
    }
}

/// A job that nobody works off; one that is discarded, for a retry.
async fn job_of(app: &TestApp, path: &str) -> String {
    let (org, at) = (app.org.clone(), app.app.seams.clock.now());
    let job = NewJob {
        org: org.clone(),
        kind: Kind::Mail,
        key: path.to_owned(),
        connector: None,
        subject: "tickets".to_owned(),
        payload: json!({}),
        due_at: at,
        at,
    };
    let id = app.app.store.enqueue(&job).await.unwrap().id().to_string();
    if path.ends_with("/retry") {
        app.app.store.handle_job(&org, &id, ByHand::Discard, "test", at).await.unwrap();
    }
    id
}

/// An agent of a sample, on this connector.
fn sample_agent(connector: &str) -> Value {
    json!({ "sample": "annotate_urgent_tickets", "connectors": [{ "connector": connector }] })
}

async fn each_operation_has_a_name_of_its_own(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let document = app.call(Method::GET, "/openapi.json", None, None).await.expect(200).json;

    let operations =
        document["paths"].as_object().unwrap().values().flat_map(|item| item.as_object().unwrap().values());
    let mut names: Vec<&str> = operations.map(|operation| operation["operationId"].as_str().unwrap()).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();

    assert_eq!(names.len(), all, "{names:?}");
}

async fn every_refusal_is_a_problem(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let key = app.key.clone();
    let json_type = &[("content-type", "application/json")][..];
    let send = async |method: Method, path: &str, headers: &[(&str, &str)], body: &[u8]| -> Answer {
        app.raw(method, &format!("/api/v1{path}"), Some(&key), headers, body.to_vec()).await
    };
    let reconnect = format!("/connectors/{id}/reconnect");
    let large = format!("{{\"provider\":\"{}\"}}", "x".repeat(1024 * 1024));

    for (method, path, headers, body, status) in [
        (Method::GET, "/nowhere", &[][..], &b""[..], 404),
        (Method::GET, "", &[], b"", 404),
        (Method::GET, "/connectors/", &[], b"", 404),
        (Method::PUT, "/connectors", &[], b"", 405),
        (Method::GET, "/connect-sessions", &[], b"", 405),
        (Method::GET, "/connectors/con_unknown", &[], b"", 404),
        (Method::GET, "/connectors/%ff", &[], b"", 404),
        (Method::GET, "/connectors/a%2Fb/token", &[], b"", 404),
        (Method::POST, "/connectors", json_type, b"{", 400),
        (Method::POST, "/connectors", json_type, b"", 400),
        (Method::POST, "/connectors", json_type, b"[]", 422),
        (Method::POST, "/connectors", json_type, b"{\"provider\":\"\xff\"}", 400),
        (Method::POST, "/connectors", &[], b"{}", 415),
        (Method::POST, "/connectors", &[("content-type", "text/plain")], b"{}", 415),
        (Method::POST, "/connectors", json_type, large.as_bytes(), 413),
        (Method::POST, &reconnect, json_type, large.as_bytes(), 413),
        (Method::POST, &reconnect, json_type, b"{\"return\":1}", 422),
        (Method::GET, "/connectors?limit=many", &[], b"", 422),
        (Method::GET, "/connectors?colour=red", &[], b"", 422),
    ] {
        let answer = send(method.clone(), path, headers, body).await;
        let what = format!("{method} {path} {}: {}", String::from_utf8_lossy(&body[..body.len().min(40)]), answer.text);
        assert_eq!(answer.status, status, "{what}");
        assert_eq!(answer.header("content-type"), "application/problem+json", "{what}");
        assert_eq!(answer.json["status"], status, "{what}");
        for field in ["type", "title", "detail", "code"] {
            assert!(answer.json[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {what}");
        }
        assert_eq!(answer.header("cache-control"), "no-store", "{what}");
        assert!(!answer.header("x-request-id").is_empty(), "{what}");
    }
}

async fn a_key_is_needed_and_its_scopes_count(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let calls = [
        (Method::GET, "/providers".to_owned(), "connectors:read"),
        (Method::GET, "/connectors".to_owned(), "connectors:read"),
        (Method::POST, "/connectors".to_owned(), "connectors:write"),
        (Method::GET, format!("/connectors/{id}"), "connectors:read"),
        (Method::PATCH, format!("/connectors/{id}"), "connectors:write"),
        (Method::DELETE, format!("/connectors/{id}"), "connectors:write"),
        (Method::POST, format!("/connectors/{id}/disconnect"), "connectors:write"),
        (Method::POST, format!("/connectors/{id}/test"), "connectors:read"),
        (Method::POST, format!("/connectors/{id}/sync"), "connectors:read"),
        (Method::GET, format!("/connectors/{id}/timeline"), "connectors:read"),
        (Method::GET, format!("/connectors/{id}/token"), "tokens:read"),
        (Method::POST, format!("/connectors/{id}/token/rejected"), "tokens:read"),
        (Method::POST, format!("/connectors/{id}/reconnect"), "connectors:write"),
        (Method::POST, "/connect-sessions".to_owned(), "connectors:write"),
        (Method::POST, format!("/connectors/{id}/tools/search_tickets"), "tools"),
        (Method::GET, "/agent-samples".to_owned(), "agents"),
        (Method::GET, "/agents".to_owned(), "agents"),
        (Method::POST, "/agents".to_owned(), "agents"),
        (Method::GET, "/agents/agent_1".to_owned(), "agents"),
        (Method::PATCH, "/agents/agent_1".to_owned(), "agents"),
        (Method::DELETE, "/agents/agent_1".to_owned(), "agents"),
        (Method::POST, "/agents/agent_1/pause".to_owned(), "agents"),
        (Method::POST, "/agents/agent_1/resume".to_owned(), "agents"),
        (Method::POST, "/agents/agent_1/run".to_owned(), "agents"),
        (Method::GET, "/agents/agent_1/runs".to_owned(), "agents"),
        (Method::GET, "/agents/agent_1/runs/run_1".to_owned(), "agents"),
        (Method::GET, "/jobs".to_owned(), "jobs"),
        (Method::GET, "/jobs/job_1".to_owned(), "jobs"),
        (Method::POST, "/jobs/job_1/retry".to_owned(), "jobs"),
        (Method::POST, "/jobs/job_1/discard".to_owned(), "jobs"),
        (Method::POST, "/jobs/retry".to_owned(), "jobs"),
        (Method::POST, "/jobs/discard".to_owned(), "jobs"),
        (Method::GET, "/audit".to_owned(), "audit:read"),
        (Method::GET, "/event-endpoints".to_owned(), "admin"),
        (Method::POST, "/event-endpoints".to_owned(), "admin"),
        (Method::GET, "/event-endpoints/eep_1".to_owned(), "admin"),
        (Method::PATCH, "/event-endpoints/eep_1".to_owned(), "admin"),
        (Method::DELETE, "/event-endpoints/eep_1".to_owned(), "admin"),
        (Method::POST, "/event-endpoints/eep_1/rotate-secret".to_owned(), "admin"),
        (Method::POST, "/event-endpoints/eep_1/test".to_owned(), "admin"),
        (Method::POST, "/event-endpoints/eep_1/replay".to_owned(), "admin"),
        (Method::GET, "/event-endpoints/eep_1/attempts".to_owned(), "admin"),
        (Method::GET, format!("/connectors/{id}/proxy/api/v2/users/me.json"), "proxy"),
        (Method::POST, format!("/connectors/{id}/proxy/api/v2/tickets"), "proxy"),
    ];
    let body = |method: &Method, path: &str| match (method.as_str(), path) {
        ("POST", "/connectors" | "/connect-sessions") => Some(json!({ "provider": "zendesk", "account": "globex" })),
        ("POST", path) if path.ends_with("/rejected") => Some(json!({ "access_token": "x" })),
        ("POST", "/agents") => Some(sample_agent(&id)),
        ("POST", "/event-endpoints") => Some(json!({ "url": "https://app.example.com/" })),
        ("POST" | "PATCH", _) => Some(json!({})),
        _ => None,
    };
    let others =
        ["connectors:read", "connectors:write", "tokens:read", "tools", "agents", "jobs", "proxy", "audit:read"];

    for (method, path, scope) in &calls {
        let with = async |key: Option<&str>| app.call(method.clone(), path, key, body(method, path)).await;
        for key in [None, Some("hf_unknown"), Some("unknown"), Some("")] {
            let told = with(key).await.problem(401, "unauthorized");
            assert_eq!(told.header("www-authenticate"), "Bearer");
        }
        let lacking: Vec<_> = others.iter().copied().filter(|other| other != scope).collect();
        let told = with(Some(&app.key_with(&lacking).await)).await.problem(403, "missing_scope");
        assert!(told.text.contains("holdfast key create --org ORG --name NAME --scope"), "{}", told.text);
        assert!(told.text_of("detail").contains(scope), "{method} {path}: {}", told.text);
    }
    let raw = async |value: &str| {
        app.raw(Method::GET, "/api/v1/connectors", None, &[("authorization", value)], Vec::new()).await
    };
    let _basic = raw(&format!("Basic {}", app.key)).await.problem(401, "unauthorized");
    let _alone = raw(&app.key).await.problem(401, "unauthorized");
    let _small = raw(&format!("bearer {}", app.key)).await.expect(200);
    let admin = app.key_with(&["admin"]).await;
    let _all = app.call(Method::GET, "/connectors", Some(&admin), None).await.expect(200);

    let keys = app.app.store.keys(&app.org).await.unwrap();
    let usual = keys.iter().find(|key| key.scopes.len() == holdfast_tests::service::EVERYTHING.len()).unwrap();
    let ask = holdfast_app::admin::Ask::KeyRevoke { id: usual.id.clone() };
    holdfast_app::admin::run(&app.app, ask).await.unwrap();
    let told = app.get("/connectors").await.problem(401, "unauthorized");
    assert!(told.text_of("detail").contains("revoked"), "{}", told.text);
}

/// ST-04
async fn another_organisations_connector_does_not_exist(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import_with("acme", json!({ "alias": "ours" })).await;
    let stranger = app.key_of("Globex").await;
    let _warm = app.token(&id).await.expect(200);

    for (method, end, body) in [
        (Method::GET, "", None),
        (Method::PATCH, "", Some(json!({ "name": "mine" }))),
        (Method::DELETE, "", None),
        (Method::GET, "/token", None),
        (Method::POST, "/token/rejected", Some(json!({ "access_token": "x" }))),
        (Method::POST, "/test", None),
        (Method::POST, "/reconnect", None),
        (Method::POST, "/disconnect", None),
        (Method::GET, "/timeline", None),
        (Method::POST, "/tools/search_tickets", Some(json!({}))),
        (Method::GET, "/proxy/api/v2/users/me.json", None),
        (Method::POST, "/proxy/oauth/tokens", Some(json!({}))),
    ] {
        let ask = async |id: &str| {
            app.call(method.clone(), &format!("/connectors/{id}{end}"), Some(&stranger), body.clone()).await
        };
        let unknown = ask("con_01a2288df842b57442cdbffd547ba515").await.problem(404, "not_found");
        for other in [id.as_str(), "ours"] {
            let theirs = ask(other).await;

            assert_eq!((theirs.status, &theirs.text), (unknown.status, &unknown.text), "{method} {end} {other}");
        }
    }
    let list = app.call(Method::GET, "/connectors", Some(&stranger), None).await.expect(200);
    assert_eq!(list.json["data"], json!([]));
    // The same account in two organisations is two connectors, and the same alias too.
    let mut body = app.import_body("acme");
    body["alias"] = json!("ours");
    let theirs = app.call(Method::POST, "/connectors", Some(&stranger), Some(body)).await.expect(201);
    assert_ne!(theirs.text_of("id"), id);
    let _ours = app.token(&id).await.expect(200);
}

async fn bad_input_names_its_field(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let tokens = |credential: Value| json!({ "provider": "zendesk", "account": "acme", "credential": credential });
    let id = app.import("globex").await;

    for (body, field) in [
        (json!({ "provider": "fax", "account": "acme" }), "provider"),
        (json!({ "provider": "zendesk", "account": "a b" }), "account"),
        (json!({ "provider": "zendesk", "account": "acme", "name": "" }), "name"),
        (json!({ "provider": "zendesk", "account": "acme", "name": "two\nlines" }), "name"),
        (json!({ "provider": "zendesk", "account": "acme", "name": "x".repeat(101) }), "name"),
        (json!({ "provider": "zendesk", "account": "acme", "alias": "a/b" }), "alias"),
        (json!({ "provider": "zendesk", "account": "acme", "alias": "con_1" }), "alias"),
        (tokens(json!({})), "credential.refresh_token"),
        (tokens(json!({ "api_key": "k3y" })), "credential.api_key"),
        (tokens(json!({ "access_token": "" })), "credential.access_token"),
        (tokens(json!({ "access_token": "two\nlines" })), "credential.access_token"),
        (tokens(json!({ "refresh_token": "umläut" })), "credential.refresh_token"),
        (
            tokens(json!({ "refresh_token": "r", "expires_in": 1, "expires_at": "2027-01-01T00:00:00Z" })),
            "credential.expires_in",
        ),
    ] {
        let told = app.post("/connectors", body.clone()).await.problem(422, "invalid");
        assert_eq!(told.json["field"], field, "{body}: {}", told.text);
    }
    let path = format!("/connectors/{id}");
    let told = app.call(Method::PATCH, &path, Some(&app.key), Some(json!({ "name": " " }))).await;
    assert_eq!(told.problem(422, "invalid").json["field"], "name");
    assert_eq!(app.get("/connectors").await.json["data"].as_array().unwrap().len(), 1, "nothing is half-made");
}

async fn a_list_is_paged_and_filtered(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let mut ids = Vec::new();
    for number in 0..7 {
        ids.push(app.import(&format!("desk{number}")).await);
    }
    let _pending = app.link("acme").await;

    let mut seen: Vec<String> = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = app.get(&format!("/connectors?limit=3&health=connected{cursor}")).await.expect(200).json;
        let data = page["data"].as_array().unwrap();
        assert!(data.len() <= 3);
        seen.extend(data.iter().map(|one| one["id"].as_str().unwrap().to_owned()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }

    assert_eq!(seen, ids, "each once, oldest first");
    let count = async |query: &str| {
        let page = app.get(&format!("/connectors?{query}")).await.expect(200).json;
        page["data"].as_array().unwrap().len()
    };
    assert_eq!(count("health=pending").await, 1);
    assert_eq!(count("health=auth_failed").await, 0);
    assert_eq!(count("provider=zendesk").await, 8);
    assert_eq!(count("provider=other").await, 0);
    for (query, field) in
        [("limit=0", "limit"), ("limit=201", "limit"), ("health=fine", "health"), ("cursor=nonsense", "cursor")]
    {
        let told = app.get(&format!("/connectors?{query}")).await.problem(422, "invalid");
        assert_eq!(told.json["field"], field, "{query}");
    }
    let id = &ids[0];
    let nowhere = app.get(&format!("/connectors/{id}/timeline?cursor=nonsense")).await.problem(422, "invalid");
    assert_eq!(nowhere.json["field"], "cursor");
    for _ in 0..5 {
        let _report = app.post(&format!("/connectors/{id}/test"), json!({})).await.expect(200);
    }
    let first = app.get(&format!("/connectors/{id}/timeline?limit=2")).await.expect(200).json;
    let next = first["next_cursor"].as_str().unwrap();
    let second = app.get(&format!("/connectors/{id}/timeline?limit=2&cursor={next}")).await.expect(200).json;
    let at = |page: &Value, line: usize| page["data"][line]["at"].as_str().unwrap().to_owned();
    assert!(at(&first, 0) >= at(&first, 1) && at(&first, 1) >= at(&second, 0), "newest first: {first} {second}");
    assert_ne!(first["data"][1]["id"], second["data"][0]["id"]);
}

async fn the_bounds_of_min_ttl_hold(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let ask = async |query: &str| app.get(&format!("/connectors/{id}/token{query}")).await;

    for query in ["", "?min_ttl=0", "?min_ttl=60", "?min_ttl=86400"] {
        let token = ask(query).await.expect(200);
        assert_eq!(token.json["token_type"], "Bearer", "{query}");
        assert_eq!(token.json["version"], 1, "{query}: half of its life is enough");
        let mut fields: Vec<_> = token.json.as_object().unwrap().keys().cloned().collect();
        fields.sort();
        let known =
            ["access_token", "account", "base_url", "expires_at", "header", "header_value", "token_type", "version"];
        assert_eq!(fields, known);
        assert_eq!(token.json["header"], "Authorization");
        assert_eq!(token.header("cache-control"), "no-store");
    }
    for query in ["?min_ttl=86401", "?min_ttl=-1", "?min_ttl=soon", "?min_ttl=99999999999999999999", "?ttl=5"] {
        let _told = ask(query).await.problem(422, "invalid");
    }
    assert_eq!(ask("?min_ttl=86401").await.json["field"], "min_ttl");
    assert_eq!(app.acme.counters().exchanges, 0);
}

async fn a_token_that_nobody_knows_refreshes_nothing(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let path = format!("/connectors/{id}/token/rejected");
    let current = app.token(&id).await.expect(200).json;

    let unknown = app.post(&path, json!({ "access_token": "never-issued" })).await.expect(200);

    assert_eq!(unknown.json, current);
    assert_eq!(app.acme.counters().exchanges, 0);
    let other = app.post(&path, json!({ "access_token": current["access_token"] })).await.expect(200);
    assert_ne!(other.json["access_token"], current["access_token"]);
    let late = app.post(&path, json!({ "access_token": current["access_token"] })).await.expect(200);
    assert_eq!(late.json, other.json, "refreshed only if nobody has yet");
    assert_eq!(app.acme.counters().exchanges, 1);
    let told = app.post(&path, json!({ "access_token": "" })).await.problem(422, "invalid");
    assert_eq!(told.json["field"], "access_token");
}

async fn an_alias_does_what_the_id_does(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import_with("acme", json!({ "alias": "zammad:42" })).await;

    assert_eq!(app.show("zammad:42").await["id"], id.as_str());
    let token = app.token("zammad:42").await.expect(200).text_of("access_token");
    assert_eq!(app.token(&id).await.expect(200).text_of("access_token"), token);
    for (end, body) in [
        ("/test", json!({})),
        ("/token/rejected", json!({ "access_token": "x" })),
        ("/reconnect", json!({})),
        ("/disconnect", json!({})),
    ] {
        let _done = app.post(&format!("/connectors/zammad:42{end}"), body).await.expect(200);
    }
    let mut same_alias = app.import_body("globex");
    same_alias["alias"] = json!("zammad:42");
    let told = app.post("/connectors", same_alias.clone()).await.problem(409, "alias_taken");
    assert_eq!(told.json["connector_id"], id.as_str());
    // An alias is remembered, and not for longer than it holds.
    let _warm = app.token("zammad:42").await;
    let gone = app.call(Method::DELETE, &format!("/connectors/{id}"), Some(&app.key), None).await;
    assert!(gone.status < 300, "{}", gone.text);
    let _nobody = app.token("zammad:42").await.problem(404, "not_found");
    let other = app.post("/connectors", same_alias).await.expect(201).text_of("id");
    let token = app.token(&other).await.expect(200).text_of("access_token");
    assert_eq!(app.token("zammad:42").await.expect(200).text_of("access_token"), token);
    assert_eq!(app.token("zammad:42").await.expect(200).json["account"], "globex");
}

async fn the_same_account_is_connected_once(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let before = app.token(&id).await.expect(200).json;

    let told = app.post("/connectors", app.import_body("acme")).await.problem(409, "connector_exists");

    assert_eq!(told.json["connector_id"], id.as_str());
    assert_eq!(app.token(&id).await.expect(200).json, before, "nothing was changed");
}

/// ST-04
async fn no_answer_but_the_token_call_holds_a_secret(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let mut body = app.import_body("acme");
    body["credential"]["extras"] = json!({ "webhook_secret": "extra-s3cret-value" });
    let id = app.post("/connectors", body).await.expect(201).text_of("id");
    let patch = json!({ "extras": { "signing": "another-s3cret-value" } });
    let _patched = app.call(Method::PATCH, &format!("/connectors/{id}"), Some(&app.key), Some(patch)).await.expect(200);
    app.advance(LIFE);
    let report = app.post(&format!("/connectors/{id}/test"), json!({})).await.expect(200);
    assert_eq!(report.json["ok"], true, "{}", report.text);
    for path in ["/providers", "/connectors", &format!("/connectors/{id}"), &format!("/connectors/{id}/timeline")] {
        let _seen = app.get(path).await.expect(200);
    }
    app.fail(&id).await;
    let _seen = app.get("/connectors").await.expect(200);
    let _seen = app.post(&format!("/connectors/{id}/disconnect"), json!({})).await.expect(200);

    let mut canaries = holdfast_tests::canary::Canaries::new();
    canaries.plant("an extra", "extra-s3cret-value");
    canaries.plant("another extra", "another-s3cret-value");
    canaries.plant("the client secret", holdfast_sandbox::CLIENT_SECRET);
    canaries.plant("the API key", &app.key);
    for (number, set) in app.acme.ledger().sets.into_iter().enumerate() {
        canaries.plant(format!("access token {number}"), &set.access_token.unwrap());
        canaries.plant(format!("refresh token {number}"), &set.refresh_token.unwrap());
    }
    assert!(canaries.count() >= 8);
    assert_eq!(canaries.found_in("the answers", &app.seen()), Vec::<String>::new());
}

async fn a_readiness_check_needs_no_key(db: Arc<Database>) {
    let app = TestApp::start(&db).await;

    assert_eq!(app.plain("/healthz").await, (200, "ok\n".to_owned()));
    let (status, text) = app.plain("/readyz").await;
    let body: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((status, &body["ready"]), (200, &json!(true)), "{text}");
    assert_eq!(body["checks"], json!({ "database": true, "signals": true, "serving": true }));
    assert_eq!(body["degraded"], json!([]));
}

/// A credential that was put in the wrong place must not come back in an error.
async fn input_in_the_wrong_place_is_not_repeated(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let secret = "zd_rt_s3cret-in-the-wrong-place";
    let quoted = format!("a\"{secret}\"b\"{secret}");

    for credential in [
        json!(secret),
        json!({ "expires_in": secret }),
        json!({ "expires_in": quoted }),
        json!({ "expires_at": secret }),
        json!({ "expires_at": quoted }),
        json!({ "extras": secret }),
        json!({ "extras": [quoted] }),
        json!({ "refresh_token": format!("{secret}\n") }),
        json!({ "api_key": secret }),
    ] {
        let body = json!({ "provider": "zendesk", "account": "acme", "credential": credential });
        let told = app.post("/connectors", body).await.problem(422, "invalid");
        assert!(!told.text.contains(secret), "{}", told.text);
    }
    for body in [json!({ "provider": secret, "account": "acme" }), json!({ "provider": "zendesk", "account": secret })]
    {
        let told = app.post("/connectors", body).await.problem(422, "invalid");
        assert!(!told.text.contains(secret), "{}", told.text);
    }
}

async fn a_body_of_another_shape_is_refused_in_plain_words(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;

    for (method, path, body, field, words) in [
        (Method::POST, "/connectors".to_owned(), json!(["zendesk", "acme"]), None, "The body is a list"),
        (Method::POST, "/connectors".to_owned(), json!({}), Some("provider"), "provider is missing."),
        (
            Method::POST,
            "/connectors".to_owned(),
            json!("zendesk"),
            None,
            "The body is a text, and has to be an object.",
        ),
        (Method::PATCH, format!("/connectors/{id}"), json!({ "name": 7 }), Some("name"), "name is a number"),
        (Method::POST, format!("/connectors/{id}/reconnect"), json!(["x"]), None, "The body is a list"),
        (
            Method::POST,
            "/agents".to_owned(),
            json!({ "nmae": "x" }),
            Some("nmae"),
            "There is no field nmae. There are: ",
        ),
    ] {
        let told = app.call(method, &path, Some(&app.key), Some(body)).await.problem(422, "invalid");

        assert!(told.json["detail"].as_str().unwrap().starts_with(words), "{path}: {}", told.text);
        assert_eq!(told.json["field"].as_str(), field, "{path}: {}", told.text);
        assert!(!told.text.contains("struct") && !told.text.contains("Body"), "{}", told.text);
    }
}
