//! Access that ends for good: told as data and by mail, in time and once.

use std::{sync::Arc, time::Duration};

use holdfast_core::Role;
use holdfast_tests::{browser::Browser, database::Database, on_both, wait::until};
use serde_json::json;

use super::{Post, sent};

on_both! {
    an_access_that_ends_is_told_a_week_and_a_day_ahead_and_each_once,
    who_reconnects_in_time_hears_no_more_of_it,
    what_is_over_or_short_is_not_told_of,
    several_that_end_soon_are_one_message,
}

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

impl Post {
    /// A connector that was given nothing to renew its access with.
    async fn ending(&self, account: &str, name: &str, life: Duration) -> String {
        let mut body = self.app.import_body(account);
        body["name"] = json!(name);
        let credential = body["credential"].as_object_mut().unwrap();
        credential.remove("refresh_token");
        credential.insert("expires_in".to_owned(), json!(life.as_secs()));
        self.app.post("/connectors", body).await.expect(201).text_of("id")
    }

    /// The look that every replica takes once a minute; this one may be taking its own just now. Waits until the connector
    /// has so many warnings in its timeline.
    async fn warn(&self, id: &str, events: usize) {
        self.app.app.warn_of_ends().await.unwrap();
        until("the warning is written", async || self.events(id).await, |found| *found >= events).await;
        assert_eq!(self.events(id).await, events);
    }

    async fn events(&self, id: &str) -> usize {
        self.app.timeline(id).await.iter().filter(|line| line["kind"] == "expiring").count()
    }
}

async fn an_access_that_ends_is_told_a_week_and_a_day_ahead_and_each_once(db: Arc<Database>) {
    let post = Post::start(&db).await;
    post.person("ada@acme.example", Role::Owner).await;
    post.person("ben@acme.example", Role::Admin).await;
    post.person("cleo@acme.example", Role::Member).await;
    let id = post.ending("acme", "Acme support", DAY * 10).await;
    let shown = post.app.show(&id).await;
    assert_eq!(shown["credential"]["ends_at"], shown["credential"]["expires_at"]);
    post.app.advance(DAY * 3 - HOUR);
    post.warn(&id, 0).await;

    post.app.advance(HOUR * 2);
    post.warn(&id, 1).await;
    assert_eq!(post.tell().await, sent(2));

    let messages = post.smtp.messages().await;
    assert_eq!(messages[0].subject, "Acme support ends in 7 days: reconnect it before");
    let text = &messages[0].text;
    for words in ["acme.zendesk.com", "gave nothing to renew this access with", "without a break"] {
        assert!(text.contains(words), "{words} is not in {text}");
    }
    let line = post.app.timeline(&id).await.into_iter().find(|line| line["kind"] == "expiring").unwrap();
    assert!(line["detail"].as_str().unwrap().starts_with("The access ends on "), "{line}");
    assert_eq!(post.app.show(&id).await["health"], "connected");
    for _ in 0..5 {
        post.app.advance(DAY);
        post.warn(&id, 1).await;
        assert_eq!(post.look().await, sent(0));
    }

    post.app.advance(DAY);
    post.warn(&id, 2).await;
    assert_eq!(post.tell().await, sent(2));
    assert_eq!(post.smtp.messages().await[3].subject, "Acme support ends in 1 day: reconnect it before");
    assert_eq!(post.smtp.attempts().await, 4);
}

async fn who_reconnects_in_time_hears_no_more_of_it(db: Arc<Database>) {
    let post = Post::start(&db).await;
    post.person("ada@acme.example", Role::Owner).await;
    let id = post.ending("acme", "Acme support", DAY * 10).await;
    post.app.advance(DAY * 3 + HOUR);
    post.warn(&id, 1).await;
    assert_eq!(post.tell().await, sent(1));

    let [link] = post.smtp.messages().await.remove(0).reconnect_links().try_into().unwrap();
    let browser = Browser::new();
    let page = browser.get(&link).await;
    assert_eq!((page.status, page.title()), (200, "Reconnect Acme support"), "{}", page.text);
    assert!(page.text.contains("Works until") && page.text.contains("ends for good"), "{}", page.text);
    let authorize = browser.post(&link).await.location();
    let back = post.app.sandbox.consent(&authorize, "ada").unwrap();
    assert_eq!(browser.get(&back).await.title(), "Acme support is reconnected");

    assert_eq!(post.app.show(&id).await["credential"]["ends_at"], json!(null), "it is renewed from now on");
    post.app.advance(DAY * 6 + HOUR);
    post.warn(&id, 1).await;
    assert_eq!(post.look().await, sent(0));
    assert_eq!(browser.get(&link).await.status, 410);
}

async fn what_is_over_or_short_is_not_told_of(db: Arc<Database>) {
    let post = Post::start(&db).await;
    post.person("ada@acme.example", Role::Owner).await;
    let short = post.ending("short", "Short", HOUR * 2).await;
    let taken_off = post.ending("off", "Off", DAY * 10).await;
    let missed = post.ending("missed", "Missed", DAY * 10).await;
    let off = post.app.post(&format!("/connectors/{taken_off}/disconnect"), json!({})).await;
    assert!(off.status < 300, "{}", off.text);
    // Whoever gave two hours knows it.
    post.warn(&short, 0).await;

    // Nobody looked before it was over.
    post.app.advance(DAY * 11);

    for id in [&short, &taken_off, &missed] {
        post.warn(id, 0).await;
    }
    assert_eq!(post.tell().await, sent(0));
}

async fn several_that_end_soon_are_one_message(db: Arc<Database>) {
    let post = Post::start(&db).await;
    post.person("ada@acme.example", Role::Owner).await;
    let acme = post.ending("acme", "Acme support", DAY * 10).await;
    let globex = post.ending("globex", "Globex", DAY * 10 - HOUR).await;
    post.app.advance(DAY * 4);

    post.warn(&acme, 1).await;
    post.warn(&globex, 1).await;
    assert_eq!(post.tell().await, sent(1));

    let message = post.smtp.messages().await.remove(0);
    assert_eq!(message.subject, "2 connectors of Acme end soon: Globex and Acme support");
    assert_eq!(message.reconnect_links().len(), 2);
}
