//! Webhooks in: what is genuine is stored once and answered fast, whatever else arrives.

use std::{sync::Arc, time::Duration};

use holdfast_app::admin::{self, Ask};
use holdfast_core::Role;
use holdfast_sandbox::EventOrder;
use holdfast_tests::{
    database::Database,
    hooks::Hook,
    on_both,
    service::{TestApp, oauth_app},
    wait::{until, uptime},
};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

on_both! {
    events_of_every_provider_are_taken_and_forgeries_are_not,
    an_event_that_comes_again_is_the_same_event,
    new_headers_on_an_old_body_make_no_new_event,
    events_without_an_id_are_told_apart_by_what_they_say,
    a_form_is_verified_as_it_came_and_what_is_no_text_is_kept_to_be_looked_at,
    a_push_is_for_the_mailbox_of_its_address_and_has_to_be_authenticated,
    an_apps_address_serves_each_company_by_its_attested_id,
    a_provider_that_asks_whether_somebody_is_there_is_answered,
    the_secret_before_counts_while_it_is_changed,
    large_and_slow_requests_keep_nobody_else_waiting,
    many_deliveries_are_answered_at_once,
    bodies_are_for_those_who_may_see_them_and_for_nobody_of_another_organisation,
}

/// One of each provider that has a connector of its own.
async fn hooks(app: &TestApp) -> Vec<Hook> {
    let google = app.import_of("google", "ada@example.com").await;
    let channel = app.import_of("google", "ben@example.com").await;
    let shopify = app.import_of("shopify", "acme-store").await;
    let front = app.import_of("front", "acme").await;
    let gorgias = app.import_of("gorgias", "acme").await;
    let freshdesk = app.import_of("freshdesk", "acme").await;
    let github = app.import_of("github", "acme").await;
    let account = "push@acme.iam.gserviceaccount.com";
    let mut all = vec![
        app.zendesk_hook("acme").await,
        app.hook(&google, "google-push", "ada@example.com", json!({ "secret": account })).await,
        app.hook(&channel, "google-channel", "", json!({ "kind": "channel" })).await,
        app.hook(&shopify, "shopify", "acme-store", json!({})).await,
        app.hook(&front, "front-rule", "", json!({ "kind": "rule", "secret": "front-api-secret" })).await,
        app.hook(&gorgias, "gorgias", "acme", json!({})).await,
        app.hook(&freshdesk, "freshdesk", "acme", json!({})).await,
        app.hook(&github, "generic", "acme", json!({})).await,
    ];
    // It is the OAuth app's.
    all[3].secret =
        oauth_app().client_secret.map(|secret| secrecy::ExposeSecret::expose_secret(&secret).to_owned()).unwrap();
    all
}

async fn start(db: &Arc<Database>) -> TestApp {
    TestApp::builder(db).with(|config| drop(config.oauth_apps.insert("shopify".to_owned(), oauth_app()))).start().await
}

/// Google's keys are fetched beside: a delivery that needs them is told to come again until they are here.
async fn taken_in_the_end(app: &TestApp, order: &EventOrder) {
    until("it is taken", async || app.sent(order).await, |status| *status == 200).await;
}

async fn events_of_every_provider_are_taken_and_forgeries_are_not(db: Arc<Database>) {
    let app = start(&db).await;
    for hook in hooks(&app).await {
        let who = hook.provider;
        taken_in_the_end(&app, &hook.event("1")).await;
        let forged = EventOrder { secret: "another-secret@example.com".to_owned(), ..hook.event("2") };
        assert_eq!(app.sent(&forged).await, 401, "{who}");
        assert_eq!(app.sent(&hook.unsigned()).await, 401, "{who}");

        let kept = app.deliveries(&hook.connector).await;
        assert_eq!((kept.len(), &kept[0]["state"]), (1, &json!("processed")), "{who}: {kept:?}");
        assert!(kept[0]["job"].is_string() && kept[0]["provider_type"].is_string(), "{who}: {kept:?}");
        let webhook = app.webhook(&hook.connector).await;
        assert_eq!((&webhook["status"], &webhook["failures"]), (&json!("active"), &json!(2)), "{who}: {webhook}");
        assert!(webhook["first_at"].is_string(), "{who}");
        assert_eq!(app.show(&hook.connector).await["webhook"]["url"], hook.url, "{who}");
    }
    let topics = "SELECT COUNT(DISTINCT topic) FROM deliveries WHERE topic <> 'other'";
    assert!(db.number(topics).await >= 5);
    assert_eq!(db.number("SELECT COUNT(*) FROM jobs WHERE kind = 'event'").await, 8);
}

/// WD-01, WD-02
async fn an_event_that_comes_again_is_the_same_event(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let hook = app.zendesk_hook("acme").await;
    let again = EventOrder {
        headers: vec![
            ("X-Request-Id".to_owned(), "another".to_owned()),
            ("X-Zendesk-Webhook-Invocation-Id".to_owned(), "another".to_owned()),
            ("traceparent".to_owned(), "00-1-1-01".to_owned()),
        ],
        ..hook.event("evt-1")
    };

    assert_eq!(app.sent(&hook.event("evt-1")).await, 200);
    app.advance(Duration::from_millis(400));
    assert_eq!(app.sent(&again).await, 200);

    let kept = app.deliveries(&hook.connector).await;
    assert_eq!((kept.len(), &kept[0]["repeats"]), (1, &json!(1)), "{kept:?}");
    assert_eq!((&kept[0]["topic"], &kept[0]["subject"]), (&json!("ticket.replied"), &json!("42")));
    assert_eq!(db.number("SELECT COUNT(*) FROM jobs WHERE kind = 'event'").await, 1);
}

/// WV-04: of what is signed over the body alone.
async fn new_headers_on_an_old_body_make_no_new_event(db: Arc<Database>) {
    let app = start(&db).await;
    let all = hooks(&app).await;
    for hook in all.iter().filter(|hook| matches!(hook.provider, "shopify" | "generic")) {
        let body = json!({ "id": 7, "updated_at": "2026-11-30T10:00:00Z" }).to_string();
        let order = EventOrder { body: Some(body), ..hook.event("1") };
        assert_eq!(app.sent(&order).await, 200);
        app.advance(Duration::from_hours(20));
        let resent = EventOrder {
            headers: vec![("Date".to_owned(), "Mon, 30 Nov 2026 10:00:00 GMT".to_owned())],
            ..order.clone()
        };
        assert_eq!(app.sent(&resent).await, 200);

        assert_eq!(app.deliveries(&hook.connector).await.len(), 1, "{}", hook.provider);
    }
}

/// WD-09
async fn events_without_an_id_are_told_apart_by_what_they_say(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let connector = app.import_of("freshdesk", "acme").await;
    let hook = app.hook(&connector, "freshdesk", "acme", json!({})).await;
    let send = async |body: &str| app.sent(&EventOrder { body: Some(body.to_owned()), ..hook.event("") }).await;

    for body in [
        r#"{"ticket_id":"7","event":"status","at":"10:00:00"}"#,
        r#"{"ticket_id":"7","event":"status","at":"10:00:00"}"#,
        r#"{"at":"10:00:00","ticket_id":"7","event":"status"}"#,
        r#"{"ticket_id":"7","event":"priority","at":"10:00:00"}"#,
    ] {
        assert_eq!(send(body).await, 200);
    }

    let kept = app.deliveries(&connector).await;
    assert_eq!((kept.len(), &kept[1]["repeats"]), (2, &json!(2)), "{kept:?}");
}

/// WV-01, WV-02
async fn a_form_is_verified_as_it_came_and_what_is_no_text_is_kept_to_be_looked_at(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let connector = app.import_of("github", "acme").await;
    let hook = app.hook(&connector, "generic", "acme", json!({})).await;
    let form = EventOrder { body: Some("payload=%7B%22id%22%3A1%7D&x=a+b".to_owned()), ..hook.event("") };
    assert_eq!(app.sent(&form).await, 200);

    let no_text = [0xFF, 0xFE, 0x00, 0x80];
    let right = format!("sha256={}", mac(&hook.secret, &no_text));
    let path = hook.url.strip_prefix(&app.base).unwrap();
    let send = async |signature: &str| {
        app.raw(Method::POST, path, None, &[("x-hub-signature-256", signature)], no_text.to_vec()).await
    };
    let _wrong = send(&format!("sha256={}", "0".repeat(64))).await.problem(401, "not_proven");
    let _accented = send(&format!("sha256={}é", "0".repeat(63))).await.problem(401, "not_proven");
    let _unreadable = send(&right).await.problem(422, "not_parsable");

    let kept = app.deliveries(&connector).await;
    let states: Vec<&str> = kept.iter().filter_map(|one| one["state"].as_str()).collect();
    assert_eq!(states, ["unreadable", "processed"]);
    let webhook = app.webhook(&connector).await;
    let reasons: Vec<_> =
        webhook["rejections"].as_array().unwrap().iter().map(|one| (&one["reason"], &one["count"])).collect();
    assert_eq!(reasons.len(), 2, "{reasons:?}");
    assert_eq!(app.delivery(kept[0]["id"].as_str().unwrap()).await["body"]["base64"], "//4AgA==");
}

fn mac(secret: &str, body: &[u8]) -> String {
    use hmac::{KeyInit as _, Mac as _};
    let mac = hmac::Hmac::<sha2::Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    let digits = mac.chain_update(body).finalize().into_bytes();
    digits.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

/// WV-06, WV-08
async fn a_push_is_for_the_mailbox_of_its_address_and_has_to_be_authenticated(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let key = app.key_of("Globex").await;
    let body = json!({ "provider": "google", "account": "gus@globex.example", "credential": { "access_token": "a", "refresh_token": "r", "expires_in": 9000 } });
    let theirs = app.call(Method::POST, "/connectors", Some(&key), Some(body)).await.expect(201).text_of("id");
    let connector = app.import_of("google", "ada@example.com").await;
    let account = "push@acme.iam.gserviceaccount.com";
    let hook = app.hook(&connector, "google-push", "ada@example.com", json!({ "secret": account })).await;
    taken_in_the_end(&app, &hook.event("1")).await;

    let other_mailbox = EventOrder { account: "gus@globex.example".to_owned(), ..hook.event("2") };
    assert_eq!(app.sent(&other_mailbox).await, 200, "it is Google's, and nobody's here");
    let other_sender = EventOrder { secret: "x@evil.iam.gserviceaccount.com".to_owned(), ..hook.event("3") };
    assert_eq!(app.sent(&other_sender).await, 401);
    let other_receiver = EventOrder { url: "http://other.test/".to_owned(), ..hook.event("4") };
    let refused = EventOrder { at_ms: Some(0), ..hook.event("5") };
    assert_eq!(app.sent(&refused).await, 401);
    assert_eq!(app.sent(&hook.unsigned()).await, 401);

    drop(other_receiver);
    assert_eq!(app.deliveries(&connector).await.len(), 1);
    assert_eq!(
        app.call(Method::GET, &format!("/deliveries?connector={theirs}"), Some(&key), None).await.json["data"],
        json!([])
    );
    let webhook = app.webhook(&connector).await;
    let words = webhook["rejections"].to_string();
    assert!(words.contains("no_signature") && words.contains("wrong_sender") && words.contains("stale"), "{words}");
    assert!(words.contains("no proof of who sent them"), "{words}");
    let shown = app.somebody(Role::Admin).await.open(&format!("/connectors/{connector}")).await;
    assert!(shown.text.contains("What arrives carries no proof of who sent it"), "{}", shown.text);
}

async fn an_apps_address_serves_each_company_by_its_attested_id(db: Arc<Database>) {
    let app = TestApp::builder(&db)
        .with(|config| drop(config.oauth_apps.insert("front".to_owned(), oauth_app())))
        .start()
        .await;
    let connector = app.import_of("front", "acme").await;
    let hook = app.hook(&connector, "front", "cmp_1", json!({ "kind": "app", "secret": "front-app-secret" })).await;
    let order = |account: &str, id: &str| EventOrder { account: account.to_owned(), ..hook.event(id) };

    // Nobody has told yet that this company is Acme.
    assert_eq!(app.sent(&order("cmp_1", "evt_1")).await, 200);
    assert_eq!(app.deliveries(&connector).await.len(), 0);
    let identity = json!({ "id": "cmp_1", "account": "Acme" });
    app.app.store.set_test(&connector.as_str().into(), &json!({}), Some(&identity)).await.unwrap();
    assert_eq!(app.sent(&order("cmp_1", "evt_1")).await, 200);
    assert_eq!(app.sent(&order("cmp_2", "evt_2")).await, 200);

    let kept = app.deliveries(&connector).await;
    assert_eq!((kept.len(), &kept[0]["provider_type"]), (1, &json!("inbound")), "{kept:?}");
    let ask = |provider: &str, secret: Option<&str>| Ask::WebhookOfApp {
        provider: provider.to_owned(),
        org: None,
        kind: None,
        secret: secret.map(str::to_owned),
    };
    let made = admin::run(&app.app, ask("front", Some("front-app-secret"))).await.unwrap();
    let again = admin::run(&app.app, ask("front", None)).await.unwrap();
    assert_eq!((&made["url"], &made["status"]), (&again["url"], &json!("waiting")));
    assert!(admin::run(&app.app, ask("zendesk", None)).await.unwrap_err().message.contains("for each connector"));
    let at_app =
        |account: &str, id: &str| EventOrder { url: made["url"].as_str().unwrap().to_owned(), ..order(account, id) };
    for (account, id) in [("cmp_1", "evt_3"), ("cmp_2", "evt_4")] {
        assert_eq!(app.sent(&at_app(account, id)).await, 200);
    }
    let unsigned = EventOrder { secret: String::new(), ..at_app("cmp_1", "evt_5") };
    assert_eq!(app.sent(&unsigned).await, 401);
    assert_eq!(app.deliveries(&connector).await.len(), 2);
    // What it cannot take is nobody else's loss, and no reason to stop.
    let _done = app.post(&format!("/connectors/{connector}/disconnect"), json!({})).await.expect(200);
    assert_eq!(app.sent(&at_app("cmp_1", "evt_6")).await, 200);
}

async fn a_provider_that_asks_whether_somebody_is_there_is_answered(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let front = app.import_of("front", "acme").await;
    let hook = app.hook(&front, "front", "cmp_1", json!({ "kind": "app", "secret": "front-app-secret" })).await;
    let asked = |secret: &str| EventOrder {
        secret: secret.to_owned(),
        body: Some(r#"{"type":"sync","authorization":{"id":"cmp_1"}}"#.to_owned()),
        headers: vec![("X-Front-Challenge".to_owned(), "c-1".to_owned())],
        ..hook.event("")
    };
    let answer = app.send(&asked("front-app-secret")).await.remove(0);
    assert_eq!((answer.status, answer.body.as_str()), (200, r#"{"challenge":"c-1"}"#));
    assert!(answer.content_type.starts_with("application/json"));
    assert_eq!(app.sent(&asked("another-secret")).await, 401);

    let dropbox = app.import_of("dropbox", "ada@example.com").await;
    let hook = app.hook(&dropbox, "generic", "", json!({})).await;
    let path = hook.url.strip_prefix(&app.base).unwrap();
    let answer = app.raw(Method::GET, &format!("{path}?challenge=abc-1"), None, &[], Vec::new()).await.expect(200);
    assert_eq!((answer.text.as_str(), answer.header("content-type")), ("abc-1", "text/plain; charset=utf-8"));
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    for query in ["", "?challenge=", "?challenge=%3Cb%3E%20x"] {
        let answer = app.raw(Method::GET, &format!("{path}{query}"), None, &[], Vec::new()).await;
        assert_eq!(answer.problem(405, "method_not_allowed").header("allow"), "POST", "{query}");
    }
    assert_eq!(app.deliveries(&front).await.len() + app.deliveries(&dropbox).await.len(), 0);
}

async fn the_secret_before_counts_while_it_is_changed(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let connector = app.import_of("gorgias", "acme").await;
    let before = app.hook(&connector, "gorgias", "acme", json!({})).await;
    let shown = app.post(&format!("/connectors/{connector}/webhook"), json!({})).await.expect(200).json;
    assert!(shown["secret"].is_null(), "it is shown once: {shown}");

    let now = app.hook(&connector, "gorgias", "acme", json!({ "rotate_secret": true })).await;

    assert!(now.url == before.url && now.secret != before.secret);
    for (hook, id) in [(&before, "1"), (&now, "2")] {
        assert_eq!(app.sent(&hook.event(id)).await, 200);
    }
    app.advance(Duration::from_hours(25));
    assert_eq!(app.sent(&before.event("3")).await, 401);
    assert_eq!(app.sent(&now.event("3")).await, 200);
    let zendesk = app.zendesk_hook("acme").await;
    let path = format!("/connectors/{}/webhook", zendesk.connector);
    let made_there = app.post(&path, json!({ "rotate_secret": true })).await;
    assert_eq!(made_there.problem(422, "invalid").json["field"], "secret");
    for body in [json!({ "kind": "nonsense" }), json!({ "secret": "short" }), json!({ "kind": 1 }), json!({ "x": 1 })] {
        let refused = app.post(&path, body).await;
        assert_eq!(refused.status, 422, "{}", refused.text);
    }
    let all = String::from_utf8(db.dump().await).unwrap_or_default();
    assert!(!all.contains(&now.secret) && !all.contains("zendesk-signing-secret"), "secrets are sealed");
}

/// WV-07
async fn large_and_slow_requests_keep_nobody_else_waiting(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let hook = app.zendesk_hook("acme").await;
    let (host, path) = hook.url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let open = async |head: &str| {
        let mut socket = TcpStream::connect(host).await.unwrap();
        let head = head.replace("{}", &format!("POST /{path} HTTP/1.1\r\nHost: {host}\r\n"));
        socket.write_all(head.as_bytes()).await.unwrap();
        socket
    };
    let answer = async |socket: &mut TcpStream| {
        let mut text = Vec::new();
        // It may be cut off in the middle of what it was about to send.
        drop(socket.read_to_end(&mut text).await);
        String::from_utf8_lossy(&text).lines().next().unwrap_or_default().to_owned()
    };
    let mut slow = Vec::new();
    for _ in 0..100 {
        slow.push(open("{}Content-Length: 5000\r\n\r\n{").await);
        slow.push(open("POST /ho").await);
    }

    let mut told = open("{}Content-Length: 52428800\r\n\r\n").await;
    assert!(answer(&mut told).await.contains(" 413 "));
    let mut chunked = open("{}Transfer-Encoding: chunked\r\n\r\n").await;
    let piece = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    for _ in 0..800 {
        if chunked.write_all(piece.as_bytes()).await.is_err() {
            break;
        }
    }
    let heard = answer(&mut chunked).await;
    assert!(heard.is_empty() || heard.contains(" 413 "), "{heard}");
    let began = uptime();
    assert_eq!(app.sent(&hook.event("1")).await, 200);
    assert!(uptime() - began < Duration::from_secs(1), "{:?}", uptime() - began);

    app.advance(Duration::from_secs(31));
    for (number, socket) in slow.iter_mut().enumerate() {
        let heard = answer(socket).await;
        assert!(if number % 2 == 0 { heard.contains(" 408 ") } else { heard.is_empty() }, "{number}: {heard}");
    }
    assert_eq!(app.sent(&hook.event("2")).await, 200);
}

/// WD-06: nothing is asked of anybody while a delivery waits.
async fn many_deliveries_are_answered_at_once(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let hook = app.zendesk_hook("acme").await;
    app.acme.trouble(|faults| faults.delay_ms = 60_000);

    let mut tasks = futures::stream::FuturesUnordered::new();
    for number in 0..300 {
        let (app, order) = (&app, hook.event(&format!("evt-{number}")));
        tasks.push(async move {
            let began = uptime();
            assert_eq!(app.sent(&order).await, 200);
            uptime() - began
        });
    }
    let mut took: Vec<Duration> = futures::StreamExt::collect(&mut tasks).await;
    took.sort();

    assert!(took[296] < Duration::from_secs(10), "even on a busy machine: {:?}", took[296]);
    assert_eq!(db.number("SELECT COUNT(*) FROM deliveries").await, 300);
    assert_eq!(db.number("SELECT COUNT(*) FROM jobs WHERE kind = 'event'").await, 300);
}

/// WD-03
async fn bodies_are_for_those_who_may_see_them_and_for_nobody_of_another_organisation(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let hook = app.zendesk_hook("acme").await;
    for id in ["1", "2", "3"] {
        assert_eq!(app.sent(&hook.event(id)).await, 200);
    }

    let page = app.get("/deliveries?limit=2").await.expect(200).json;
    let (first, cursor) = (page["data"][0]["id"].as_str().unwrap(), page["next_cursor"].as_str().unwrap());
    let rest = app.get(&format!("/deliveries?limit=2&cursor={cursor}")).await.expect(200).json;
    assert_eq!((rest["data"].as_array().unwrap().len(), &rest["next_cursor"]), (1, &Value::Null));
    assert_eq!(app.get("/deliveries?state=parked").await.expect(200).json["data"], json!([]));
    for (query, field) in [("state=x", "state"), ("cursor=x", "cursor"), ("limit=0", "limit")] {
        assert_eq!(app.get(&format!("/deliveries?{query}")).await.problem(422, "invalid").json["field"], field);
    }
    let reads = app.key_with(&["connectors:read"]).await;
    let seen = app.call(Method::GET, &format!("/deliveries/{first}"), Some(&reads), None).await.expect(200).json;
    assert!(seen["body"].is_null(), "{seen}");
    assert_eq!(seen["headers"]["x-zendesk-webhook-signature"], "[masked]", "{seen}");
    let seen = app.delivery(first).await;
    assert_eq!(seen["body"]["detail"]["id"], "42", "{seen}");
    let tokens = app.key_with(&["tokens:read"]).await;
    let _refused = app.call(Method::GET, "/deliveries", Some(&tokens), None).await.problem(403, "missing_scope");
    let other = app.key_of("Globex").await;
    let path = format!("/deliveries/{first}");
    let _hidden = app.call(Method::GET, &path, Some(&other), None).await.problem(404, "not_found");
    assert_eq!(app.call(Method::GET, "/deliveries", Some(&other), None).await.json["data"], json!([]));
    let webhook = format!("/connectors/{}/webhook", hook.connector);
    for method in [Method::GET, Method::POST] {
        let _hidden = app.call(method, &webhook, Some(&other), None).await.problem(404, "not_found");
    }
}
