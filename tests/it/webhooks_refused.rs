//! Webhooks in: what is turned away, who is told, and when an address says that it is gone.

use std::{sync::Arc, time::Duration};

use holdfast_sandbox::EventOrder;
use holdfast_tests::{database::Database, hooks::Hook, on_both, service::TestApp, wait::until};
use reqwest::Method;
use serde_json::{Value, json};

on_both! {
    without_a_secret_nothing_is_taken_and_nothing_is_counted,
    what_the_database_does_not_take_is_asked_for_again_and_taken_once,
    trouble_of_ours_is_never_gone_however_long_it_lasts,
    bad_requests_use_up_nothing_of_the_good_ones,
    a_failed_connector_keeps_its_events_up_to_its_limits,
    an_event_whose_job_a_person_discards_has_failed_until_it_is_tried_again,
    a_disconnected_connectors_address_is_gone_in_the_end_and_back_with_it,
    a_stranger_switches_nobody_off,
    addresses_of_what_is_gone_or_never_was_say_so,
    people_are_warned_before_the_provider_gives_up,
}

const HOUR: Duration = Duration::from_hours(1);

/// Small numbers, so that a test reaches them.
async fn start(db: &Arc<Database>) -> TestApp {
    let few = |config: &mut holdfast_app::Config| {
        config.webhooks.gone_after = 20;
        config.webhooks.gone_after_time = HOUR;
        config.webhooks.warn_after = 5;
        config.webhooks.park_events = 3;
    };
    TestApp::builder(db).with(few).start().await
}

async fn disconnect(app: &TestApp, hook: &Hook) {
    let _done = app.post(&format!("/connectors/{}/disconnect", hook.connector), json!({})).await.expect(200);
}

async fn send(app: &TestApp, hook: &Hook, count: u32, prefix: &str) -> Vec<u16> {
    let mut statuses = Vec::new();
    for number in 0..count {
        statuses.push(app.sent(&hook.event(&format!("{prefix}-{number}"))).await);
    }
    statuses
}

/// WV-05
async fn without_a_secret_nothing_is_taken_and_nothing_is_counted(db: Arc<Database>) {
    let app = start(&db).await;
    let connector = app.import("acme").await;
    let hook = app.hook(&connector, "zendesk", "acme", json!({})).await;
    assert_eq!(app.show(&connector).await["webhook"]["status"], "needs_secret");
    let answer = app.send(&hook.unsigned()).await.remove(0);
    assert_eq!((answer.status, answer.retry_after), (503, Some(30)));

    let hook = app.hook(&connector, "zendesk", "acme", json!({ "secret": "zendesk-signing-secret" })).await;
    assert_eq!(app.sent(&hook.event("1")).await, 200);
    // A damaged one is no reason to believe anybody, nor to tell anybody to stop.
    let bytes = if db.is_sqlite() { "x'01'" } else { "'\\x01'::bytea" };
    db.execute(&format!("UPDATE webhook_endpoints SET sealed_secret = {bytes}")).await;
    for order in [hook.event("2"), hook.unsigned()] {
        assert_eq!(app.sent(&order).await, 503);
    }

    let webhook = app.webhook(&connector).await;
    assert_eq!((&webhook["failures"], &webhook["refused"]), (&json!(0), &json!(0)), "{webhook}");
    assert_eq!(webhook["rejections"], json!([]));
}

/// WD-04
async fn what_the_database_does_not_take_is_asked_for_again_and_taken_once(db: Arc<Database>) {
    let app = start(&db).await;
    let hook = app.zendesk_hook("acme").await;
    db.refuse_writes(&["deliveries"]).await;

    let answer = app.send(&EventOrder { once: false, ..hook.event("1") }).await;
    assert!(
        answer.len() == 4 && answer.iter().all(|one| (one.status, one.retry_after) == (503, Some(30))),
        "{answer:?}"
    );
    assert_eq!(db.number("SELECT COUNT(*) FROM jobs WHERE kind = 'event'").await, 0, "neither without the other");
    db.allow_writes().await;
    until("it is taken", async || app.sent(&hook.event("1")).await, |status| *status == 200).await;
    assert_eq!(app.sent(&hook.event("1")).await, 200);

    let webhook = app.webhook(&hook.connector).await;
    assert_eq!((&webhook["failures"], app.deliveries(&hook.connector).await.len()), (&json!(0), 1));
}

/// WR-02
async fn trouble_of_ours_is_never_gone_however_long_it_lasts(db: Arc<Database>) {
    let app = start(&db).await;
    let hook = app.zendesk_hook("acme").await;
    db.execute("ALTER TABLE webhook_endpoints RENAME TO away").await;

    for number in 0..50 {
        let answer = app.send(&hook.event(&number.to_string())).await.remove(0);
        assert_eq!((answer.status, answer.retry_after), (503, Some(30)));
        app.advance(Duration::from_mins(10));
    }
    db.execute("ALTER TABLE away RENAME TO webhook_endpoints").await;

    assert_eq!(app.sent(&hook.event("1")).await, 200);
    let webhook = app.webhook(&hook.connector).await;
    assert_eq!((&webhook["failures"], &webhook["status"]), (&json!(0), &json!("active")), "{webhook}");
}

/// WR-01, WR-06
async fn bad_requests_use_up_nothing_of_the_good_ones(db: Arc<Database>) {
    let app = start(&db).await;
    let hook = app.zendesk_hook("acme").await;

    for number in 0..60 {
        assert_eq!(app.sent(&hook.unsigned()).await, 401);
        if number % 20 == 0 {
            assert_eq!(app.sent(&hook.event(&number.to_string())).await, 200);
        }
        app.advance(Duration::from_mins(5));
    }
    assert_eq!(app.sent(&hook.event("last")).await, 200);

    let reads = app.key_with(&["connectors:read"]).await;
    let path = format!("/connectors/{}/webhook", hook.connector);
    holdfast_app::hooks::round(&app.app).await;
    let webhook = &app.call(Method::GET, &path, Some(&reads), None).await.expect(200).json["data"][0];
    assert_eq!((&webhook["failures"], &webhook["status"]), (&json!(0), &json!("active")), "{webhook}");
    assert_eq!((&webhook["gone_at"], &webhook["refused"]), (&Value::Null, &json!(0)), "{webhook}");
    let unsigned = &webhook["rejections"][0];
    assert_eq!((&unsigned["reason"], &unsigned["count"]), (&json!("no_signature"), &json!(60)), "{webhook}");
    assert!(unsigned["samples"].as_array().unwrap().is_empty(), "samples are for who sees jobs");
}

async fn an_event_whose_job_a_person_discards_has_failed_until_it_is_tried_again(db: Arc<Database>) {
    let app = start(&db).await;
    let id = app.connect("acme").await;
    let hook = app.hook(&id, "zendesk", "acme", json!({ "secret": "zendesk-signing-secret" })).await;
    app.fail(&id).await;
    assert_eq!(send(&app, &hook, 2, "a").await, [200, 200]);
    let kept = app.deliveries(&id).await;
    let job = kept[0]["job"].as_str().unwrap();
    let states = async || {
        holdfast_app::hooks::forget(&app.app).await;
        let kept = app.deliveries(&id).await;
        kept.iter().map(|one| one["state"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };

    let _gone = app.post(&format!("/jobs/{job}/discard"), json!({})).await.expect(200);
    assert_eq!(states().await, ["failed", "parked"], "the other one waits on");

    assert_eq!(app.consent(&app.reconnect_link(&id).await).await.title(), "Connected");
    let _again = app.post(&format!("/jobs/{job}/retry"), json!({})).await.expect(200);
    until("both are processed", states, |states| states.iter().all(|state| state == "processed")).await;
}

/// WR-07 (2)
async fn a_failed_connector_keeps_its_events_up_to_its_limits(db: Arc<Database>) {
    let app = start(&db).await;
    let id = app.connect("acme").await;
    let hook = app.hook(&id, "zendesk", "acme", json!({ "secret": "zendesk-signing-secret" })).await;
    app.fail(&id).await;

    assert_eq!(send(&app, &hook, 5, "a").await, [200, 200, 200, 503, 503]);
    let kept = app.deliveries(&id).await;
    assert!(kept.len() == 3 && kept.iter().all(|one| one["state"] == "parked"), "{kept:?}");
    let webhook = app.webhook(&id).await;
    assert_eq!((&webhook["refused"], &webhook["gone_at"]), (&json!(2), &Value::Null), "{webhook}");
    assert_eq!(webhook["rejections"][0]["reason"], "parked_too_much");
    app.advance(HOUR * 73);
    assert_eq!(send(&app, &hook, 1, "b").await, [503]);
    assert_eq!(app.webhook(&id).await["rejections"][0]["reason"], "parked_too_long");

    let page = app.consent(&app.reconnect_link(&id).await).await;
    assert_eq!(page.title(), "Connected", "{}", page.text);

    assert_eq!(send(&app, &hook, 1, "c").await, [200], "the same address, the same secret");
    let webhook = app.webhook(&id).await;
    assert_eq!(
        (&webhook["refused"], &webhook["failures"], &webhook["status"]),
        (&json!(0), &json!(0), &json!("active"))
    );
}

/// WR-03: a burst is no time; what lasts trips once, and is over with a reconnect.
async fn a_disconnected_connectors_address_is_gone_in_the_end_and_back_with_it(db: Arc<Database>) {
    let app = start(&db).await;
    let id = app.connect("acme").await;
    let hook = app.hook(&id, "zendesk", "acme", json!({ "secret": "zendesk-signing-secret" })).await;
    disconnect(&app, &hook).await;

    assert!(send(&app, &hook, 40, "burst").await.iter().all(|status| *status == 503));
    app.advance(HOUR);
    assert_eq!(send(&app, &hook, 2, "late").await, [410, 410]);
    assert_eq!(app.sent(&hook.unsigned()).await, 410);

    let webhook = app.webhook(&id).await;
    assert_eq!((&webhook["status"], &webhook["refused"]), (&json!("gone"), &json!(41)), "{webhook}");
    let lines = app.timeline(&id).await;
    let gone: Vec<_> = lines.iter().filter(|line| line["kind"] == "webhook" && line["outcome"] == "gone").collect();
    assert_eq!(gone.len(), 1, "{lines:?}");
    let page = app.consent(&app.reconnect_link(&id).await).await;
    assert_eq!(page.title(), "Connected", "{}", page.text);
    assert_eq!(send(&app, &hook, 1, "back").await, [200]);

    disconnect(&app, &hook).await;
    send(&app, &hook, 20, "again").await;
    app.advance(HOUR);
    assert_eq!(send(&app, &hook, 1, "gone").await, [410]);
    let enabled = app.post(&format!("/connectors/{id}/webhook"), json!({})).await.expect(200).json;
    assert_eq!((&enabled["gone_at"], &enabled["url"]), (&Value::Null, &json!(hook.url)));
    assert_eq!(send(&app, &hook, 1, "still").await, [503], "it is disconnected still");
}

/// Nobody without the secret can switch a webhook off, however much he sends; memory and rows stay as they are.
async fn a_stranger_switches_nobody_off(db: Arc<Database>) {
    let app = start(&db).await;
    let hook = app.zendesk_hook("acme").await;
    let unsigned = hook.unsigned();

    for _ in 0..4 {
        let all = futures::future::join_all((0..100).map(|_| app.sent(&unsigned))).await;
        assert!(all.iter().all(|status| *status == 401));
        app.advance(HOUR);
    }

    let webhook = app.webhook(&hook.connector).await;
    assert_eq!((&webhook["failures"], &webhook["gone_at"]), (&json!(400), &Value::Null), "{webhook}");
    assert_eq!(webhook["status"], "failing");
    assert_eq!(db.number("SELECT COUNT(*) FROM webhook_rejections").await, 1);
    assert_eq!(db.number("SELECT COUNT(*) FROM deliveries").await, 0);
    assert_eq!(app.sent(&hook.event("1")).await, 200);
    assert_eq!(app.webhook(&hook.connector).await["status"], "active");
}

/// WR-07
async fn addresses_of_what_is_gone_or_never_was_say_so(db: Arc<Database>) {
    let app = start(&db).await;
    let (hook, other) = (app.zendesk_hook("acme").await, app.zendesk_hook("globex").await);
    let at = |name: &str| EventOrder { url: format!("{}/hooks/{name}", app.base), ..hook.event("1") };
    let _gone =
        app.call(Method::DELETE, &format!("/connectors/{}", hook.connector), Some(&app.key), None).await.expect(204);

    assert_eq!(app.sent(&hook.event("1")).await, 410);
    for name in ["hook_00000000000000000000000000000000", &other.connector, "x", "..%2Fx", "%00"] {
        assert_eq!(app.sent(&at(name)).await, 404, "{name}");
    }

    let webhook = app.webhook(&other.connector).await;
    assert_eq!((&webhook["failures"], &webhook["refused"]), (&json!(0), &json!(0)), "{webhook}");
}

/// WR-08
async fn people_are_warned_before_the_provider_gives_up(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let connector = app.import_of("gorgias", "acme").await;
    let hook = app.hook(&connector, "gorgias", "acme", json!({})).await;
    let wrong = EventOrder { secret: "wrong-secret".to_owned(), ..hook.event("1") };
    let send = async |count: usize| {
        for _ in 0..count {
            assert_eq!(app.sent(&wrong).await, 401);
        }
        app.webhook(&connector).await
    };
    let due = async || app.app.store.webhook_is_untold(app.app.seams.clock.now()).await.unwrap();

    let webhook = send(49).await;
    assert_eq!((&webhook["warn_after"], &webhook["status"], due().await), (&json!(50), &json!("waiting"), false));
    let webhook = send(1).await;
    assert_eq!((&webhook["status"], due().await), (&json!("failing"), true), "well before the hundredth");
    assert_eq!(webhook["maybe_off_at_provider"], false);
    let webhook = send(50).await;
    assert_eq!((&webhook["maybe_off_at_provider"], &webhook["gone_at"]), (&json!(true), &Value::Null), "{webhook}");

    assert_eq!(app.sent(&hook.event("2")).await, 200);
    let webhook = app.webhook(&connector).await;
    assert_eq!((&webhook["maybe_off_at_provider"], &webhook["status"]), (&json!(false), &json!("active")));
}
