//! Webhooks and deliveries in a browser: set up with the steps of the provider, watched, read by those who may.

use std::{sync::Arc, time::Duration};

use holdfast_core::Role;
use holdfast_sandbox::EventOrder;
use holdfast_tests::{database::Database, hooks::Hook, on_both, service::TestApp};
use serde_json::json;

on_both! {
    a_webhook_is_set_up_with_the_steps_of_its_provider_and_its_secret_is_shown_once,
    what_was_turned_away_stands_on_a_page_for_the_admins_of_that_organisation,
    a_stopped_webhook_is_mailed_and_its_page_has_the_way_back,
    a_delivery_is_shown_with_its_body_to_admins_alone,
}

/// The secret in a page, where it is 64 hex digits.
fn secret_in(text: &str) -> Option<String> {
    let hex = |word: &&str| word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    text.split(|c: char| !c.is_ascii_alphanumeric()).find(hex).map(str::to_owned)
}

async fn a_webhook_is_set_up_with_the_steps_of_its_provider_and_its_secret_is_shown_once(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import_of("freshdesk", "acme").await;
    let path = format!("/connectors/{id}/webhook");
    let admin = app.somebody(Role::Admin).await;
    let page = admin.open(&format!("/connectors/{id}")).await;
    assert!(page.text.contains("nothing is set up for it yet") && page.text.contains(&path), "{}", page.text);

    let made = admin.submit(&path, &path, &[("kind", "rule"), ("act", "make")]).await;

    let secret = secret_in(&made.text).expect("it is shown");
    let url = app.show(&id).await["webhook"]["url"].as_str().unwrap().to_owned();
    for words in [url.as_str(), "Trigger webhook", "X-Holdfast-Secret", "ticket.updated_at"] {
        assert!(made.text.contains(words), "{words}: {}", made.text);
    }
    let again = admin.open(&path).await;
    assert!(!again.text.contains(&secret) && again.text.contains("Nothing came yet"), "{}", again.text);
    let hook = Hook { connector: id.clone(), provider: "freshdesk", url, secret, account: "acme".to_owned() };
    assert_eq!(app.sent(&hook.event("1")).await, 200);
    let page = admin.open(&path).await;
    assert!(page.text.contains("Takes deliveries") && page.text.contains("First delivery"), "{}", page.text);
    let rotated = admin.submit(&path, &path, &[("kind", "rule"), ("act", "rotate")]).await;
    let other = secret_in(&rotated.text).expect("it is shown");
    assert!(other != hook.secret && rotated.text.contains("Secret before"), "{}", rotated.text);

    let zendesk = app.import("acme").await;
    let path = format!("/connectors/{zendesk}/webhook");
    let _made = admin.submit(&path, &path, &[("kind", "events"), ("act", "make")]).await;
    assert!(admin.open(&path).await.text.contains("Needs its secret"));
    let refused = admin.submit(&path, &path, &[("kind", "events"), ("act", "secret"), ("secret", "short")]).await;
    assert!(refused.status == 422 && refused.text.contains("8 to 512 characters"), "{}", refused.text);
    let _kept =
        admin.submit(&path, &path, &[("kind", "events"), ("act", "secret"), ("secret", "zendesk-secret-1")]).await;
    let page = admin.open(&path).await.text;
    assert!(!page.contains("zendesk-secret-1") && page.contains("Nothing came yet"), "{page}");
}

/// EM-07: of that organisation alone, and also after a sign-in.
async fn what_was_turned_away_stands_on_a_page_for_the_admins_of_that_organisation(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let hook = app.zendesk_hook("acme").await;
    assert_eq!(app.sent(&hook.event("1")).await, 200);
    assert_eq!(app.sent(&EventOrder { secret: "wrong-secret".to_owned(), ..hook.event("2") }).await, 401);
    assert_eq!(app.sent(&hook.unsigned()).await, 401);
    let path = format!("/connectors/{}/webhook", hook.connector);

    let page = app.somebody(Role::Admin).await.open(&path).await;

    assert!(
        page.text.contains("Their signature is wrong") && page.text.contains("no proof of who sent"),
        "{}",
        page.text
    );
    assert!(page.text.contains("Retries come without a signature"), "WR-06: {}", page.text);
    assert!(!page.text.contains("wrong-secret") && page.text.contains("[masked]"), "{}", page.text);
    app.key_of("Globex").await;
    let stranger = app.somebody_of("Globex", Role::Owner).await;
    assert_eq!(stranger.open(&path).await.status, 404);
    assert_eq!(app.somebody(Role::Member).await.open(&path).await.status, 403);
    let back = app.somebody(Role::Admin).await.at(holdfast_tests::browser::Browser::new()).sign_in_again(&path).await;
    assert!(back.text.contains("Turned away"), "{}", back.text);
}

async fn a_stopped_webhook_is_mailed_and_its_page_has_the_way_back(db: Arc<Database>) {
    let few = |config: &mut holdfast_app::Config| {
        config.webhooks.gone_after = 10;
        config.webhooks.gone_after_time = Duration::from_hours(1);
        config.webhooks.warn_after = 9;
    };
    let app = TestApp::builder(&db).with(few).start().await;
    let admin = app.somebody(Role::Admin).await;
    let hook = app.zendesk_hook("acme").await;
    let _done = app.post(&format!("/connectors/{}/disconnect", hook.connector), json!({})).await.expect(200);
    for number in 0..12 {
        app.sent(&hook.event(&number.to_string())).await;
        app.advance(Duration::from_mins(6));
    }
    assert_eq!(app.sent(&hook.event("last")).await, 410);
    let path = format!("/connectors/{}/webhook", hook.connector);

    let page = admin.open(&path).await;

    assert!(page.text.contains("Stopped") && page.text.contains("senders are told to stop (410)"), "{}", page.text);
    let page = admin.open(&format!("/connectors/{}?kind=webhook", hook.connector)).await;
    assert!(
        page.text.contains("The webhook stopped") && page.text.contains("The webhook&#x27;s address was made")
            || page.text.contains("webhook"),
        "{}",
        page.text
    );
    let _enabled = admin.submit_and_go_on(&path, &path, &[("kind", "events"), ("act", "enable")]).await;
    assert!(!admin.open(&path).await.text.contains("senders are told to stop"));
    assert_eq!(app.sent(&hook.event("next")).await, 503, "it is disconnected still");
}

async fn a_delivery_is_shown_with_its_body_to_admins_alone(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let admin = app.somebody(Role::Admin).await;
    assert!(admin.open("/deliveries").await.text.contains("Nothing came yet"));
    let hook = app.zendesk_hook("acme").await;
    for id in ["1", "1", "2"] {
        assert_eq!(app.sent(&hook.event(id)).await, 200);
    }
    let kept = app.deliveries(&hook.connector).await;
    let path = format!("/deliveries/{}", kept[0]["id"].as_str().unwrap());

    for filter in ["", "?state=processed", &format!("?connector={}", hook.connector)] {
        let page = admin.open(&format!("/deliveries{filter}")).await;
        assert!(page.text.contains(&path) && page.text.contains("came again 1 times"), "{filter}: {}", page.text);
    }
    assert!(!admin.open("/deliveries?state=parked").await.text.contains(&path));
    let page = admin.open(&path).await;
    assert!(page.text.contains("zendesk_event_version") && page.text.contains("[masked]"), "{}", page.text);
    let viewer = app.somebody(Role::Viewer).await;
    let seen = viewer.open(&path).await;
    assert!(seen.status == 200 && !seen.text.contains("zendesk_event_version"), "{}", seen.text);
    assert!(viewer.open("/deliveries").await.text.contains(&path));
    assert_eq!(admin.open("/deliveries?connector=con_unknown").await.status, 404);
}
