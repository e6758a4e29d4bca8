//! Webhooks that have stopped, or are about to: each admin is told once, with the reason and the steps back.

use std::{sync::Arc, time::Duration};

use holdfast_core::Role;
use holdfast_sandbox::EventOrder;
use holdfast_tests::{database::Database, on_both, smtp::Smtp};
use serde_json::json;

use super::{Post, sent};

on_both! {
    admins_are_warned_once_and_told_once_that_a_webhook_has_stopped,
    a_webhook_and_its_connector_in_one_minute_are_one_message,
}

/// EM-07, WR-08
async fn admins_are_warned_once_and_told_once_that_a_webhook_has_stopped(db: Arc<Database>) {
    let few = |config: &mut holdfast_app::Config| {
        config.webhooks.gone_after = 10;
        config.webhooks.gone_after_time = Duration::from_hours(1);
        config.webhooks.warn_after = 5;
    };
    let post = Post::with(&db, Smtp::start().await, |builder| builder.with(few)).await;
    post.person("ada@acme.example", Role::Owner).await;
    post.person("ben@acme.example", Role::Admin).await;
    post.person("cleo@acme.example", Role::Member).await;
    let id = post.connector("acme", "Acme support").await;
    let hook = post.app.hook(&id, "zendesk", "acme", json!({ "secret": "zendesk-signing-secret" })).await;
    let _done = post.app.post(&format!("/connectors/{id}/disconnect"), json!({})).await.expect(200);
    let turned = async |count: u32| {
        for number in 0..count {
            post.app.sent(&hook.event(&number.to_string())).await;
        }
        post.app.webhook(&id).await;
    };

    turned(4).await;
    assert_eq!(post.look().await, sent(0));
    turned(1).await;
    assert_eq!(post.look().await, sent(2));
    turned(5).await;
    post.app.advance(Duration::from_hours(1));
    assert_eq!(post.look().await, sent(0), "once");
    turned(3).await;
    assert_eq!(post.look().await, sent(2));
    assert_eq!(post.look().await, sent(0));

    let messages = post.smtp.messages_to("ada@acme.example").await;
    let subjects: Vec<_> = messages.iter().map(|message| message.subject.as_str()).collect();
    let stopped = "Events of Acme support do not arrive any more (Zendesk)";
    assert_eq!(subjects, ["Events of Acme support are turned away (Zendesk)", stopped]);
    for words in ["The connector was disconnected.", "What to do: Connect it again", "11 events in a row"] {
        assert!(messages[1].text.contains(words), "{words}: {}", messages[1].text);
    }
    let link = format!("/connectors/{id}/webhook");
    assert!(messages[1].links().iter().any(|found| found.ends_with(&link)), "{:?}", messages[1].links());
    assert!(!messages[1].text.contains("zendesk-signing-secret") && !messages[1].text.contains("hook_"));
    assert!(post.smtp.messages_to("cleo@acme.example").await.is_empty());
}

/// EM-01, where a webhook is turned away and its connector fails in the same minute.
async fn a_webhook_and_its_connector_in_one_minute_are_one_message(db: Arc<Database>) {
    let few = |config: &mut holdfast_app::Config| config.webhooks.warn_after = 5;
    let post = Post::with(&db, Smtp::start().await, |builder| builder.with(few)).await;
    post.person("ada@acme.example", Role::Owner).await;
    let id = post.connector("acme", "Acme support").await;
    let hook = post.app.hook(&id, "zendesk", "acme", json!({ "secret": "zendesk-signing-secret" })).await;
    let of_nobody = EventOrder { secret: "wrong-secret".to_owned(), ..hook.event("1") };
    post.fail(&id, "acme").await;
    for _ in 0..6 {
        assert_eq!(post.app.sent(&of_nobody).await, 401);
    }
    post.app.webhook(&id).await;

    let first = post.look().await;
    let second = post.tell().await;

    assert_eq!(first.sent + second.sent, 1, "{first:?} {second:?}");
    let messages = post.smtp.messages().await;
    assert_eq!(messages[0].subject, "Acme support needs you: Zendesk refused the access");
    assert!(messages[0].text.contains("Webhook:  Its events are turned away since"), "{}", messages[0].text);
    post.app.advance(super::WINDOW);
    assert_eq!(post.tell().await, sent(0));
}
