//! The feed: the list, the last change first, back to what is known.

use std::time::Duration;

use holdfast_core::{
    ErrorKind, Provider as _,
    mirror::Feed,
    testkit::feed::{read_all, read_on},
};
use holdfast_sandbox::Canned;
use serde_json::json;

use crate::rig::Rig;

fn feed(rig: &Rig) -> &dyn Feed {
    rig.gorgias.feed().unwrap()
}

#[tokio::test]
async fn every_ticket_is_told_over_more_than_one_page_and_then_only_what_changes() {
    let rig = Rig::start().await;
    let api = rig.agent();

    let told = read_all(feed(&rig), &api).await;

    let there = rig.acme.ticket_ids();
    assert_eq!(told.there().count(), there.len());
    assert!(told.pages > 1, "{}", told.pages);
    assert!(told.tickets.values().any(Option::is_none), "what was thrown away is told as gone");

    rig.sandbox.advance(Duration::from_mins(5));
    let id = there.last().unwrap().to_string();
    rig.acme.write(there[there.len() - 1], "email", 1);
    let changed = read_on(feed(&rig), &api, &told.cursor).await.unwrap();
    assert_eq!(changed.pages, 1, "not all is read again");
    let seen = changed.seen(&id);
    assert!(seen.ticket.updated_at > told.seen(&id).ticket.updated_at);
    assert!(seen.replied_at > told.seen(&id).replied_at);
}

#[tokio::test]
async fn what_is_thrown_away_is_told_as_gone() {
    let rig = Rig::start().await;
    let api = rig.agent();
    let told = read_all(feed(&rig), &api).await;
    let id = rig.acme.ticket_ids()[3];

    rig.sandbox.advance(Duration::from_mins(5));
    rig.acme.change_ticket(id, |ticket| ticket["trashed_datetime"] = json!("2026-11-29T10:00:00.000000+00:00"));

    let changed = read_on(feed(&rig), &api, &told.cursor).await.unwrap();
    assert_eq!(changed.tickets.get(&id.to_string()), Some(&None));
}

#[tokio::test]
async fn a_rate_limit_is_waited_for_and_a_cursor_that_is_none_is_refused() {
    let rig = Rig::start().await;
    let api = rig.agent();
    let limited = Canned::new(429, json!({"error": {"msg": "Rate limit exceeded."}}).to_string());
    rig.acme.answer_at("tickets", limited.header("Retry-After", "3").times(1));
    let cursor = feed(&rig).begin(chrono::DateTime::UNIX_EPOCH);

    let (page, ()) = tokio::join!(feed(&rig).page(&api, &cursor), rig.pass(5));

    assert!(!page.unwrap().changes.is_empty());
    assert_eq!(feed(&rig).page(&api, "since:1").await.unwrap_err().kind, ErrorKind::Invalid);
}
