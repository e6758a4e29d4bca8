//! What makes providers send: made, found again, mended and taken away there, whatever happens between.

use std::{sync::Arc, time::Duration};

use holdfast_core::{Role, ports::Clock as _};
use holdfast_sandbox::{Canned, EventOrder, ZendeskWebhook};
use holdfast_tests::{
    browser::Browser,
    database::Database,
    on_both,
    service::{TestApp, oauth_app},
    wait::until,
};
use reqwest::Method;
use serde_json::{Value, json};

on_both! {
    a_customer_who_writes_sets_an_agent_off,
    whoever_connects_a_helpdesk_receives_its_events_without_doing_anything,
    an_import_and_a_switch_that_is_off_change_nothing_at_the_provider,
    however_often_it_is_reconnected_there_is_one_subscription,
    an_answer_that_is_lost_makes_no_second_subscription,
    a_subscription_that_the_sender_deleted_is_made_anew_and_the_gap_is_told,
    one_that_was_switched_off_is_switched_on_again_after_an_unusual_silence,
    a_lack_of_rights_is_said_with_its_remedy_and_mailed_where_events_came_before,
    a_dead_connector_is_not_asked_about_and_is_looked_at_once_it_is_reconnected,
    what_is_switched_off_disconnected_or_deleted_leaves_nothing_there,
    another_secret_of_the_providers_is_noticed_and_the_one_before_still_counts,
    what_a_person_has_to_make_is_refused_and_its_first_delivery_is_noticed,
    gorgias_is_told_our_secret_and_switched_on_again_after_its_own_limit,
    a_shop_has_one_subscription_a_topic_whatever_is_lost,
    a_late_uninstall_message_fails_nobody_who_has_connected_again,
    a_watch_is_renewed_daily_and_people_are_warned_before_it_ends,
    history_that_is_gone_is_told_and_sending_goes_on,
    a_calendars_channel_is_replaced_before_it_ends_and_none_is_left_over,
}

const HOUR: Duration = Duration::from_hours(1);

async fn start(db: &Arc<Database>) -> TestApp {
    TestApp::builder(db).with(|config| config.webhooks.make_on_connect = true).start().await
}

fn webhook(shown: &Value) -> &Value {
    &shown["webhook"]
}

/// The connector's webhook, once it stands so.
async fn stands(app: &TestApp, id: &str, status: &str) -> Value {
    let shown = until(status, async || app.show(id).await, |shown| webhook(shown)["status"] == status).await;
    webhook(&shown).clone()
}

/// The lines of the timeline about its webhook, newest first.
async fn lines(app: &TestApp, id: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = app.timeline(id).await;
    let ours = all.iter().filter(|line| line["kind"] == "webhook");
    ours.map(|line| (text(&line["outcome"]), text(&line["detail"]))).collect()
}

fn has(lines: &[(String, String)], outcome: &str) -> bool {
    lines.iter().any(|(said, _)| said == outcome)
}

/// Waits for a look that is asked for now.
async fn looked(app: &TestApp, id: &str) -> Value {
    app.advance(Duration::from_secs(1));
    let before = app.clock.now();
    let _asked = app.post(&format!("/connectors/{id}/webhook"), json!({})).await;
    let at = |shown: &Value| webhook(shown)["subscription"]["looked_at"].as_str().map(str::to_owned);
    let is_new =
        |shown: &Value| at(shown).is_some_and(|at| at.parse::<chrono::DateTime<chrono::Utc>>().unwrap() >= before);
    let shown = until("somebody looks", async || app.show(id).await, is_new).await;
    webhook(&shown).clone()
}

fn ours(app: &TestApp) -> Vec<ZendeskWebhook> {
    app.acme.webhooks()
}

fn event(one: &ZendeskWebhook, id: &str) -> EventOrder {
    EventOrder {
        provider: "zendesk".to_owned(),
        url: one.endpoint.clone(),
        secret: one.secret.clone(),
        subject: "42".to_owned(),
        id: id.to_owned(),
        once: true,
        ..EventOrder::default()
    }
}

/// A helpdesk that was connected by a person, and whose webhook is made.
async fn connected(app: &TestApp) -> (String, ZendeskWebhook) {
    let id = app.connect("acme").await;
    stands(app, &id, "waiting").await;
    (id, ours(app).remove(0))
}

async fn a_customer_who_writes_sets_an_agent_off(db: Arc<Database>) {
    let app = start(&db).await;
    let (id, _) = connected(&app).await;
    let agent = json!({
        "name": "Greeting", "connectors": [{ "connector": id }], "trigger": { "kind": "events", "events": ["ticket.created"] },
        "runner": { "kind": "playbook", "steps": [{ "id": "greet", "tool": "reply_to_ticket", "with": {
            "ticket_id": "{{ event.ticket_id }}", "public": true, "body": "We are on it." } }] },
    });
    let _made = app.post("/agents", agent).await.expect(201);

    let before = app.acme.write_ticket();

    let button = format!("{}/control/zendesk/acme/do", app.sandbox.url());
    let _pressed = Browser::new().submit(&button, &[("action", "write")]).await.expect(303);

    let newest = before + 1;
    let greeted = async || app.acme.comments(newest).iter().filter(|one| one["body"] == "We are on it.").count();
    until("the customer is answered", greeted, |greeted| *greeted == 1).await;
}

async fn whoever_connects_a_helpdesk_receives_its_events_without_doing_anything(db: Arc<Database>) {
    let app = start(&db).await;
    let id = app.connect("acme").await;

    let made = stands(&app, &id, "waiting").await;

    assert_eq!((&made["receive"], &made["can_receive"]), (&json!(true), &json!(true)), "{made}");
    let there = ours(&app);
    assert_eq!((there.len(), there[0].endpoint.as_str()), (1, made["url"].as_str().unwrap()));
    assert_eq!(made["subscription"]["ids"], json!([there[0].id]));
    assert_eq!(app.sent(&event(&there[0], "1")).await, 200);
    assert_eq!(stands(&app, &id, "active").await["failures"], 0);
    assert_eq!(app.sent(&EventOrder { secret: "another".to_owned(), ..event(&there[0], "2") }).await, 401);
    let lines = lines(&app, &id).await;
    assert!(has(&lines, "subscribed") && has(&lines, "made") && !has(&lines, "secret_changed"), "{lines:?}");
    let page = app.somebody(Role::Admin).await.open(&format!("/connectors/{id}/webhook")).await;
    assert!(page.text.contains("Holdfast has made the webhook there"), "{}", page.text);
    let (_, numbers) = app.plain("/metrics").await;
    assert!(numbers.contains("holdfast_subscriptions_total{provider=\"zendesk\",outcome=\"made\"}"));
}

async fn an_import_and_a_switch_that_is_off_change_nothing_at_the_provider(db: Arc<Database>) {
    let app = start(&db).await;
    let id = app.import("acme").await;
    let path = format!("/connectors/{id}/webhook");
    let made = app.post(&path, json!({ "secret": "zendesk-signing-secret" })).await.expect(201).json;
    assert_eq!((&made["receive"], &made["status"]), (&json!(false), &json!("waiting")));
    app.advance(24 * HOUR);
    holdfast_app::hooks::subscriptions::round(&app.app).await.unwrap();
    assert_eq!(db.number("SELECT COUNT(*) FROM jobs WHERE kind = 'subscription'").await, 0);
    assert_eq!(ours(&app).len(), 0);

    let _on = app.post(&path, json!({ "receive": true })).await.expect(200);
    let made = stands(&app, &id, "waiting").await;

    assert_eq!(ours(&app).len(), 1);
    assert!(made["previous_secret_until"].is_string(), "the secret that a person brought still counts: {made}");
}

/// RC-07
async fn however_often_it_is_reconnected_there_is_one_subscription(db: Arc<Database>) {
    let app = start(&db).await;
    let (id, first) = connected(&app).await;
    let reconnect = async || {
        app.advance(Duration::from_secs(1));
        let page = app.consent(&app.reconnect_link(&id).await).await;
        assert_eq!(page.title(), "Connected", "{}", page.text);
        looked(&app, &id).await
    };
    for _ in 0..3 {
        reconnect().await;
    }
    let there = ours(&app);
    assert_eq!((there.len(), &there[0].id, &there[0].secret), (1, &first.id, &first.secret));

    app.acme.change_webhooks(|all| {
        for number in 0..2 {
            let endpoint = first.endpoint.replace(&app.base, "https://old.example");
            all.push(ZendeskWebhook { id: format!("01OLD{number}"), endpoint, ..first.clone() });
        }
        all.remove(0);
    });
    reconnect().await;
    let there = ours(&app);
    assert_eq!((there.len(), &there[0].endpoint), (1, &first.endpoint), "what pointed to the old address is set right");

    app.acme.change_webhooks(Vec::clear);
    let shown = reconnect().await;
    let there = ours(&app);
    assert_eq!((there.len(), &there[0].endpoint), (1, &first.endpoint));
    assert_eq!(shown["url"], first.endpoint.as_str());
    assert_eq!(app.sent(&event(&there[0], "1")).await, 200);
}

async fn an_answer_that_is_lost_makes_no_second_subscription(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let mut lost = Canned::new(503, "").times(2);
    lost.after_processing = true;
    app.acme.trouble(|faults| faults.api_answer = Some(lost));

    let _on = app.post(&format!("/connectors/{id}/webhook"), json!({ "receive": true })).await;
    let look = async || {
        app.advance(Duration::from_mins(2));
        app.show(&id).await
    };
    until("it is made", look, |shown| webhook(shown)["status"] == "waiting").await;

    assert_eq!(ours(&app).len(), 1);
    assert!(db.number("SELECT MAX(attempts) FROM jobs WHERE kind = 'subscription'").await >= 2);
}

/// WR-05
async fn a_subscription_that_the_sender_deleted_is_made_anew_and_the_gap_is_told(db: Arc<Database>) {
    let app = start(&db).await;
    let (id, first) = connected(&app).await;
    assert_eq!(app.sent(&event(&first, "1")).await, 200);
    db.execute("UPDATE webhook_endpoints SET gone_at = created_at, refused = 500").await;
    assert_eq!(app.sent(&event(&first, "2")).await, 410);
    app.acme.change_webhooks(Vec::clear);
    app.advance(2 * HOUR);

    looked(&app, &id).await;

    let there = ours(&app);
    assert_eq!((there.len(), &there[0].endpoint), (1, &first.endpoint));
    assert_eq!(app.sent(&event(&there[0], "3")).await, 200);
    let lines = lines(&app, &id).await;
    let (_, gap) = lines.iter().find(|(said, _)| said == "subscribed_again").expect("it is told");
    assert!(gap.contains("may not have arrived") && gap.contains("(UTC)"), "{gap}");
}

/// Also WR-08: what the provider has switched off itself.
async fn one_that_was_switched_off_is_switched_on_again_after_an_unusual_silence(db: Arc<Database>) {
    let app = start(&db).await;
    let (id, first) = connected(&app).await;
    for number in 0..30 {
        assert_eq!(app.sent(&event(&first, &number.to_string())).await, 200);
        app.advance(Duration::from_mins(5));
    }
    looked(&app, &id).await;
    app.acme.change_webhooks(|all| "inactive".clone_into(&mut all[0].status));

    // Ten usual pauses, and far less than the twelve hours between two looks.
    app.advance(Duration::from_mins(90));
    let look = async || {
        holdfast_app::hooks::subscriptions::round(&app.app).await.unwrap();
        ours(&app)
    };
    until("it is switched on", look, |there| there[0].status == "active").await;

    let look = async || lines(&app, &id).await;
    until("it is told", look, |lines| has(lines, "switched_on_again")).await;
    assert_eq!(ours(&app)[0].secret, first.secret);
}

async fn a_lack_of_rights_is_said_with_its_remedy_and_mailed_where_events_came_before(db: Arc<Database>) {
    let app = start(&db).await;
    let admin = app.somebody(Role::Admin).await;
    let (link, id) = app.link("acme").await;
    app.consent_as(&Browser::new(), &link, "gus").await;

    let refused = stands(&app, &id, "not_subscribed").await;

    let words = refused["subscription"]["words"].as_str().unwrap();
    assert!(words.contains("only administrators") && words.contains("reconnect it as one"), "{words}");
    let page = admin.open(&format!("/connectors/{id}/webhook")).await;
    assert!(page.text.contains("only administrators") && page.text.contains("Not made"), "{}", page.text);
    let mails = "SELECT COUNT(*) FROM mails WHERE kind = 'webhook_stopped'";
    app.app.mail_due().await.unwrap();
    assert_eq!(db.number(mails).await, 0, "who has just connected it sees it");

    app.consent_as(&Browser::new(), &app.reconnect_link(&id).await, "ada").await;
    stands(&app, &id, "waiting").await;
    app.acme.change_webhooks(Vec::clear);
    app.consent_as(&Browser::new(), &app.reconnect_link(&id).await, "gus").await;
    stands(&app, &id, "not_subscribed").await;
    app.app.mail_due().await.unwrap();
    app.app.mail_due().await.unwrap();
    assert_eq!(db.number(mails).await, 1, "once");
    assert!(has(&lines(&app, &id).await, "not_allowed"));
}

async fn a_dead_connector_is_not_asked_about_and_is_looked_at_once_it_is_reconnected(db: Arc<Database>) {
    let app = start(&db).await;
    let (id, first) = connected(&app).await;
    app.fail(&id).await;
    app.acme.change_webhooks(Vec::clear);
    let before = db.number("SELECT COUNT(*) FROM jobs WHERE kind = 'subscription'").await;
    let calls = app.acme.counters().api_calls;
    for _ in 0..3 {
        app.advance(24 * HOUR);
        holdfast_app::hooks::subscriptions::round(&app.app).await.unwrap();
    }
    assert_eq!(db.number("SELECT COUNT(*) FROM jobs WHERE kind = 'subscription'").await, before);
    assert_eq!(app.acme.counters().api_calls, calls);

    app.consent(&app.reconnect_link(&id).await).await;

    until("it is made again", async || ours(&app), |there| there.len() == 1).await;
    assert_eq!(ours(&app)[0].endpoint, first.endpoint);
}

async fn what_is_switched_off_disconnected_or_deleted_leaves_nothing_there(db: Arc<Database>) {
    let app = start(&db).await;
    let (id, first) = connected(&app).await;
    let path = format!("/connectors/{id}/webhook");
    let _off = app.post(&path, json!({ "receive": false })).await.expect(200);
    until("it is taken away", async || ours(&app).len(), |there| *there == 0).await;
    until("it is told", async || lines(&app, &id).await, |lines| has(lines, "unsubscribed")).await;
    stands(&app, &id, "off").await;
    let admin = app.somebody(Role::Admin).await;
    let page = admin.open(&format!("/connectors/{id}/webhook")).await;
    assert!(page.text.contains("Not received") && page.text.contains("Receive events"), "{}", page.text);
    assert!(!page.text.contains("Takes deliveries"), "{}", page.text);

    let _on = app.post(&path, json!({ "receive": true })).await.expect(200);
    stands(&app, &id, "waiting").await;
    app.advance(HOUR);
    let _done = app.post(&format!("/connectors/{id}/disconnect"), json!({})).await.expect(200);
    assert_eq!(ours(&app).len(), 0, "it goes before the access does, also with a token that was over");
    until("it is told", async || lines(&app, &id).await, |lines| has(lines, "withdrawn")).await;

    app.consent(&app.reconnect_link(&id).await).await;
    until("it is made again", async || ours(&app).len(), |there| *there == 1).await;
    assert_eq!(ours(&app)[0].endpoint, first.endpoint, "the address is the same");
    stands(&app, &id, "waiting").await;
    let _gone = app.call(Method::DELETE, &format!("/connectors/{id}"), Some(&app.key), None).await.expect(204);
    assert_eq!(ours(&app).len(), 0);
}

async fn another_secret_of_the_providers_is_noticed_and_the_one_before_still_counts(db: Arc<Database>) {
    let app = start(&db).await;
    let (id, first) = connected(&app).await;
    app.acme.change_webhooks(|all| "c29tZXRoaW5nIGVsc2U=".clone_into(&mut all[0].secret));

    looked(&app, &id).await;

    assert_eq!(app.sent(&event(&ours(&app)[0], "1")).await, 200);
    assert_eq!(app.sent(&event(&first, "2")).await, 200, "on its way when it was changed");
    assert!(has(&lines(&app, &id).await, "secret_changed"));
    app.advance(25 * HOUR);
    assert_eq!(app.sent(&event(&first, "3")).await, 401);
}

async fn what_a_person_has_to_make_is_refused_and_its_first_delivery_is_noticed(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import_of("freshdesk", "acme").await;
    let refused = app.post(&format!("/connectors/{id}/webhook"), json!({ "receive": true })).await;
    let refused = refused.problem(422, "invalid");
    assert!(refused.text.contains("as the steps say") && refused.json["field"] == "receive", "{}", refused.text);
    assert_eq!(app.show(&id).await["webhook"], json!(null), "nothing is made");

    let hook = app.hook(&id, "freshdesk", "acme", json!({})).await;
    for number in ["1", "2"] {
        assert_eq!(app.sent(&hook.event(number)).await, 200);
    }
    let lines = lines(&app, &id).await;
    assert_eq!(lines.iter().filter(|(said, _)| said == "first_delivery").count(), 1, "noticed once: {lines:?}");
    let page = app.somebody(Role::Admin).await.open(&format!("/connectors/{id}")).await;
    assert!(page.text.contains("The first event arrived"), "{}", page.text);
}

/// WR-08
async fn gorgias_is_told_our_secret_and_switched_on_again_after_its_own_limit(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let gorgias = app.sandbox.gorgias("acme").unwrap();
    let scopes = "offline account:read tickets:read integrations:read integrations:write";
    let grant = gorgias.grant("ada", scopes).unwrap();
    let credential = json!({
        "access_token": grant.access_token, "refresh_token": grant.refresh_token, "expires_in": 86_400,
    });
    let body = json!({ "provider": "gorgias", "account": "acme", "credential": credential });
    let id = app.post("/connectors", body).await.expect(201).text_of("id");
    let path = format!("/connectors/{id}/webhook");
    let made = app.post(&path, json!({ "receive": true })).await.expect(201).json;
    stands(&app, &id, "waiting").await;

    let there = gorgias.integrations();
    assert_eq!((there.len(), &there[0]["http"]["url"]), (1, &made["url"]));
    let secret = |there: &Value| there["http"]["headers"]["x-holdfast-secret"].as_str().unwrap().to_owned();
    let first = secret(&there[0]);
    let event = |secret: &str, id: &str| EventOrder {
        provider: "gorgias".to_owned(),
        url: made["url"].as_str().unwrap().to_owned(),
        secret: secret.to_owned(),
        id: id.to_owned(),
        subject: "7".to_owned(),
        once: true,
        ..EventOrder::default()
    };
    assert_eq!(app.sent(&event(&first, "1")).await, 200);

    // A secret that was changed here is brought there, and while that is under way both count.
    let rotated = app.post(&path, json!({ "rotate_secret": true })).await.expect(200).text_of("secret");
    until("it is brought there", async || secret(&gorgias.integrations()[0]), |told| *told == rotated).await;
    assert_eq!(app.sent(&event(&first, "2")).await, 200);
    assert_eq!(app.sent(&event(&rotated, "3")).await, 200);

    gorgias.change_integrations(|all| all[0]["deactivated_datetime"] = json!("2026-11-30T10:00:00"));
    looked(&app, &id).await;
    assert_eq!(gorgias.integrations()[0]["deactivated_datetime"], json!(null));
    assert!(has(&lines(&app, &id).await, "switched_on_again"));
    let _gone = app.call(Method::DELETE, &format!("/connectors/{id}"), Some(&app.key), None).await.expect(204);
    assert_eq!(gorgias.integrations().len(), 0);
}

/// A connector of the sandbox's shop `acme`, imported; its id.
async fn shop(app: &TestApp) -> String {
    let shop = app.sandbox.shop("acme").unwrap();
    let token = shop.grant("read_orders,read_customers,read_products");
    let credential = json!({
        "access_token": token.access_token, "refresh_token": token.refresh_token, "expires_in": 3600,
        "scope": token.scope,
    });
    let body = json!({ "provider": "shopify", "account": "acme", "credential": credential });
    app.post("/connectors", body).await.expect(201).text_of("id")
}

async fn start_with_apps(db: &Arc<Database>) -> TestApp {
    let apps = |config: &mut holdfast_app::Config| {
        for provider in ["shopify", "google"] {
            config.oauth_apps.insert(provider.to_owned(), oauth_app());
        }
        let google = config.providers.by_id.entry("google".to_owned()).or_default();
        google.push_topic = Some("projects/sandbox/topics/mail".to_owned());
    };
    TestApp::builder(db).with(apps).start().await
}

/// RC-07, of a provider that has one subscription a topic.
async fn a_shop_has_one_subscription_a_topic_whatever_is_lost(db: Arc<Database>) {
    let app = start_with_apps(&db).await;
    let (id, place) = (shop(&app).await, app.sandbox.shop("acme").unwrap());
    let path = format!("/connectors/{id}/webhook");
    let made = app.post(&path, json!({ "receive": true })).await.expect(201).json;
    stands(&app, &id, "waiting").await;
    let topics = || place.webhooks().iter().map(|one| one["topic"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    let all = topics();
    assert!(all.contains(&"APP_UNINSTALLED".to_owned()) && all.contains(&"ORDERS_CREATE".to_owned()), "{all:?}");
    assert!(place.webhooks().iter().all(|one| one["uri"] == made["url"]));

    // What Shopify does after too many failures, and what somebody's old public URL leaves behind.
    place.change_webhooks(|all| {
        all.retain(|one| one["topic"] != "ORDERS_PAID");
        let moved = made["url"].as_str().unwrap().replace(&app.base, "https://old.example");
        all[1]["uri"] = json!(moved);
        let mut twice = all[2].clone();
        twice["id"] = json!("gid://shopify/WebhookSubscription/999");
        twice["uri"] = json!(moved);
        all.push(twice);
    });
    looked(&app, &id).await;

    let (mut before, mut after) = (all, topics());
    before.sort();
    after.sort();
    assert_eq!(before, after);
    assert!(place.webhooks().iter().all(|one| one["uri"] == made["url"]), "{:?}", place.webhooks());
    let _done = app.post(&format!("/connectors/{id}/disconnect"), json!({})).await.expect(200);
    assert_eq!(place.webhooks().len(), 0);
}

/// RC-08
async fn a_late_uninstall_message_fails_nobody_who_has_connected_again(db: Arc<Database>) {
    let app = start_with_apps(&db).await;
    let (id, place) = (shop(&app).await, app.sandbox.shop("acme").unwrap());
    let url = app.post(&format!("/connectors/{id}/webhook"), json!({})).await.expect(201).text_of("url");
    let told = |at_ms: i64| EventOrder {
        provider: "shopify".to_owned(),
        url: url.clone(),
        secret: holdfast_sandbox::CLIENT_SECRET.to_owned(),
        account: "acme".to_owned(),
        kind: "app/uninstalled".to_owned(),
        id: at_ms.to_string(),
        at_ms: Some(at_ms),
        once: true,
        ..EventOrder::default()
    };
    let version = app.show(&id).await["credential"]["version"].clone();

    assert_eq!(app.sent(&told(1_790_000_000_000)).await, 200);

    until("the provider was asked", async || lines(&app, &id).await, |lines| has(lines, "not_removed")).await;
    let shown = app.show(&id).await;
    assert_eq!((&shown["health"], &shown["credential"]["version"]), (&json!("connected"), &version));

    place.uninstall();
    assert_eq!(app.sent(&told(1_790_000_100_000)).await, 200);
    let failed = |shown: &Value| shown["health_reason"] == "uninstalled";
    let shown = until("it has failed", async || app.show(&id).await, failed).await;
    assert_eq!(shown["health"], "auth_failed");
    assert!(shown["health_words"].as_str().unwrap().contains("taken the app off"));
}

async fn mailbox(app: &TestApp) -> String {
    let grant = app.sandbox.google().grant("ada", &["openid", "gmail.readonly", "calendar.events"]).unwrap();
    let credential = json!({
        "access_token": grant.access_token, "refresh_token": grant.refresh_token, "expires_in": 3600,
    });
    let body = json!({ "provider": "google", "account": "ada@example.com", "credential": credential });
    app.post("/connectors", body).await.expect(201).text_of("id")
}

/// Time passes an hour at a time, with a look for what is due each time.
async fn hours(app: &TestApp, db: &Database, count: u32) {
    for _ in 0..count {
        app.advance(HOUR);
        holdfast_app::hooks::subscriptions::round(&app.app).await.unwrap();
        let open = "SELECT COUNT(*) FROM jobs WHERE kind = 'subscription' AND state IN ('ready', 'running')";
        until("the looks are over", async || db.number(open).await, |open| *open == 0).await;
    }
}

/// WD-08
async fn a_watch_is_renewed_daily_and_people_are_warned_before_it_ends(db: Arc<Database>) {
    let app = start_with_apps(&db).await;
    let _admin = app.somebody(Role::Admin).await;
    let (id, google) = (mailbox(&app).await, app.sandbox.google());
    let _on = app.post(&format!("/connectors/{id}/webhook"), json!({ "receive": true })).await.expect(201);
    let made = stands(&app, &id, "waiting").await;
    let watch = google.watch("ada").unwrap();
    assert_eq!(watch.topic, "projects/sandbox/topics/mail");
    let end = made["lapses_at"].as_str().unwrap().parse::<chrono::DateTime<chrono::Utc>>().unwrap();
    assert_eq!(end.timestamp_millis(), watch.expires_at_ms);

    hours(&app, &db, 25).await;
    assert_eq!(google.watch("ada").unwrap().asked, 2, "renewed within the day");

    google.trouble(|faults| faults.api_answer = Some(Canned::new(500, "{}")));
    let mails = "SELECT COUNT(*) FROM mails WHERE kind = 'webhook_stopped'";
    for _ in 0..10 {
        hours(&app, &db, 12).await;
    }
    app.app.mail_due().await.unwrap();
    assert_eq!(db.number(mails).await, 1, "less than two days are left");
    let webhook = &app.show(&id).await["webhook"];
    assert_eq!(webhook["subscription"]["state"], "failing", "{webhook}");

    google.calm();
    hours(&app, &db, 13).await;
    let webhook = &app.show(&id).await["webhook"];
    assert_eq!(webhook["subscription"]["state"], "made", "{webhook}");
    assert!(google.watch("ada").unwrap().expires_at_ms > watch.expires_at_ms);
}

/// WD-07, and WD-08's dead connector: what Google does not remember is told, and the connector works on.
async fn history_that_is_gone_is_told_and_sending_goes_on(db: Arc<Database>) {
    let app = start_with_apps(&db).await;
    let (id, google) = (mailbox(&app).await, app.sandbox.google());
    let _on = app.post(&format!("/connectors/{id}/webhook"), json!({ "receive": true })).await.expect(201);
    stands(&app, &id, "waiting").await;
    google.receive_text("ada", &[("Subject", "Hello")], "Hello");
    google.forget_history("ada");
    app.advance(9 * 24 * HOUR);

    looked(&app, &id).await;

    let lines = lines(&app, &id).await;
    let (_, gap) = lines.iter().find(|(said, _)| said == "history_lost").expect("it is told");
    assert!(gap.contains("may not have arrived"), "{gap}");
    assert_eq!(app.show(&id).await["health"], "connected");
    assert_eq!(google.watch("ada").unwrap().asked, 2);
}

async fn a_calendars_channel_is_replaced_before_it_ends_and_none_is_left_over(db: Arc<Database>) {
    let app = start_with_apps(&db).await;
    let (id, google) = (mailbox(&app).await, app.sandbox.google());
    let mut lost = Canned::new(503, "").times(1);
    lost.after_processing = true;
    google.trouble(|faults| faults.api_answer = Some(lost));
    let body = json!({ "kind": "channel", "receive": true });
    let _on = app.post(&format!("/connectors/{id}/webhook"), body).await.expect(201);
    let look = async || {
        app.advance(Duration::from_secs(3));
        app.show(&id).await
    };
    until("it is made", look, |shown| webhook(shown)["status"] == "waiting").await;
    let first = google.channels("ada");
    assert_eq!(first.len(), 1, "{first:?}");

    hours(&app, &db, 24 * 6).await;
    let next = google.channels("ada");
    assert_eq!(next.len(), 1, "{next:?}");
    assert!(next[0].expires_at_ms > first[0].expires_at_ms && next[0].id != first[0].id);
    let event = EventOrder {
        provider: "google-channel".to_owned(),
        url: next[0].address.clone(),
        secret: next[0].token.clone(),
        id: "2".to_owned(),
        once: true,
        ..EventOrder::default()
    };
    assert_eq!(app.sent(&event).await, 200);
    let _gone = app.call(Method::DELETE, &format!("/connectors/{id}"), Some(&app.key), None).await.expect(204);
    assert_eq!(google.channels("ada").len(), 0);
}
