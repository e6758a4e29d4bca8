//! A provider's migration: each admin of each org that it concerns is told once, and reminded once.

use std::{sync::Arc, time::Duration};

use holdfast_app::admin::{self, Ask};
use holdfast_core::Role;
use holdfast_tests::{
    database::Database,
    days::{deadline, deadline_in_words},
    on_both,
};
use serde_json::{Value, json};

use super::{Post, sent};

on_both! {
    a_migration_is_one_message_per_admin_and_one_reminder,
    what_was_done_or_ended_before_it_was_told_is_not_told,
}

const DAY: Duration = Duration::from_hours(24);

impl Post {
    async fn ask(&self, ask: Ask) -> Value {
        admin::run(&self.app.app, ask).await.unwrap()
    }

    async fn migration(&self, deadline: String) -> String {
        let reason = Some("old tokens <b>stop</b>".to_owned());
        let provider = "zendesk".to_owned();
        let ask =
            Ask::MigrationStart { provider, deadline: Some(deadline), reason, only_endless: false, dry_run: false };
        self.ask(ask).await["id"].as_str().unwrap().to_owned()
    }

    async fn subjects(&self, address: &str) -> Vec<String> {
        self.smtp.messages_to(address).await.into_iter().map(|message| message.subject).collect()
    }
}

async fn a_migration_is_one_message_per_admin_and_one_reminder(db: Arc<Database>) {
    let post = Post::start(&db).await;
    post.person("ada@acme.example", Role::Owner).await;
    post.person("ben@acme.example", Role::Admin).await;
    post.person("cleo@acme.example", Role::Member).await;
    let support = post.connector("acme", "Acme support").await;
    post.connector("second", "Second desk").await;
    let key = post.app.key_of("Globex").await;
    post.person_of("Globex", "gus@globex.example", Role::Owner, false).await;
    let mut body = post.app.import_body("globex");
    body["name"] = json!("Globex desk");
    let _made = post.app.call(reqwest::Method::POST, "/connectors", Some(&key), Some(body)).await.expect(201);
    let deadline = (post.app.app.seams.clock.now() + DAY * 30).date_naive();

    let id = post.migration(deadline.to_string()).await;
    assert_eq!(post.look().await, sent(3));
    assert_eq!(post.look().await, sent(0));

    let by = deadline.format("%-d %B %Y");
    let subject = format!("2 connectors of Acme have to be reconnected by {by} (Zendesk)");
    assert_eq!(post.subjects("ada@acme.example").await.join("; "), subject);
    assert_eq!(post.subjects("ben@acme.example").await, [subject]);
    let subject = format!("1 connector of Globex has to be reconnected by {by} (Zendesk)");
    assert_eq!(post.subjects("gus@globex.example").await, [subject]);
    let message = post.smtp.messages_to("ada@acme.example").await.remove(0);
    for words in ["Old tokens <b>stop</b>.", "Acme support, acme.zendesk.com", "Second desk"] {
        assert!(message.text.contains(words), "{words} is not in {}", message.text);
    }
    assert!(!message.text.contains("Globex") && !message.html.contains("<b>stop"), "{}", message.html);
    let lists = message.links().into_iter().filter(|link| link.ends_with("/connectors?health=must_reconnect"));
    assert!(lists.count() > 0 && message.reconnect_links().is_empty(), "{:?}", message.links());

    post.mend(&support).await;
    let shown = post.ask(Ask::MigrationShow { id: id.clone() }).await;
    assert_eq!((&shown["done"], &shown["connectors"], &shown["orgs"]), (&json!(1), &json!(3), &json!(2)));
    assert!(shown["by_org"][0]["told_at"].is_string(), "{shown}");
    post.app.advance(DAY * 22);
    assert_eq!(post.look().await, sent(0));
    post.app.advance(DAY * 2);
    assert_eq!(post.look().await, sent(3));
    assert_eq!(post.look().await, sent(0));

    let reminder = format!("Reminder: 1 connector of Acme has to be reconnected by {by} (Zendesk)");
    assert_eq!(post.subjects("ada@acme.example").await[1], reminder);
    assert!(post.smtp.messages_to("ada@acme.example").await[1].text.contains("Done:     1 of 2"));
    post.ask(Ask::MigrationEnd { id }).await;
    post.app.advance(DAY);
    assert_eq!(post.look().await, sent(0));
}

async fn what_was_done_or_ended_before_it_was_told_is_not_told(db: Arc<Database>) {
    let post = Post::start(&db).await;
    post.person("ada@acme.example", Role::Owner).await;
    let support = post.connector("acme", "Acme support").await;

    let ended = post.migration(deadline()).await;
    post.ask(Ask::MigrationEnd { id: ended }).await;
    assert_eq!(post.look().await, sent(0));
    let done = post.migration(deadline()).await;
    post.mend(&support).await;
    assert_eq!(post.look().await, sent(0));

    post.ask(Ask::MigrationEnd { id: done }).await;
    post.migration(deadline()).await;
    assert_eq!(post.look().await, sent(1));
    let subject = format!("1 connector of Acme has to be reconnected by {} (Zendesk)", deadline_in_words());
    assert_eq!(post.subjects("ada@acme.example").await, [subject]);
}
