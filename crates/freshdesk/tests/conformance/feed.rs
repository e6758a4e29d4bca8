//! The feed: three lists, from the oldest change on.

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
    rig.freshdesk.feed().unwrap()
}

#[tokio::test]
async fn every_ticket_is_told_over_more_than_one_page_and_then_only_what_changes() {
    let rig = Rig::start().await;
    rig.acme.add_tickets(230);
    // Their conversations go on for hours.
    rig.sandbox.advance(Duration::from_hours(48));
    let api = rig.api_as("ada");

    let told = read_all(feed(&rig), &api).await;

    assert_eq!(told.there().count(), rig.acme.tickets().len());
    assert!(told.pages > 3, "{}", told.pages);
    let last = rig.acme.tickets()[0]["id"].to_string();
    let again = read_on(feed(&rig), &api, &told.cursor).await.unwrap();
    for seen in again.there() {
        assert_eq!(seen, told.seen(&seen.ticket.id), "what is told again is told the same");
    }

    let id: i64 = last.parse().unwrap();
    rig.sandbox.advance(Duration::from_mins(1));
    rig.acme.write(id, 1);
    let changed = read_on(feed(&rig), &api, &again.cursor).await.unwrap();
    let seen = changed.seen(&last);
    assert!(seen.ticket.updated_at > told.seen(&last).ticket.updated_at);
    assert_eq!(seen.replied_at, Some(seen.ticket.updated_at));
    assert!(seen.ticket.description.is_some() && seen.ticket.requester.as_ref().unwrap().name.is_some());
}

#[tokio::test]
async fn what_is_deleted_or_spam_is_told_as_gone() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada");
    let told = read_all(feed(&rig), &api).await;
    let ids: Vec<String> = told.there().take(2).map(|seen| seen.ticket.id.clone()).collect();

    rig.sandbox.advance(Duration::from_mins(1));
    rig.acme.put_away(ids[0].parse().unwrap(), false);
    rig.acme.put_away(ids[1].parse().unwrap(), true);

    let changed = read_on(feed(&rig), &api, &told.cursor).await.unwrap();
    for id in &ids {
        assert_eq!(changed.tickets.get(id), Some(&None), "{id}");
    }
}

#[tokio::test]
async fn a_rate_limit_is_waited_for_and_a_cursor_that_is_none_is_refused() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada");
    let limited =
        Canned::new(429, json!({"message": "You have exceeded the limit of requests per minute"}).to_string());
    rig.acme.trouble(|trouble| trouble.answer = Some(limited.header("Retry-After", "3").times(1)));
    let cursor = feed(&rig).begin(chrono::DateTime::UNIX_EPOCH);

    let (page, ()) = tokio::join!(feed(&rig).page(&api, &cursor), rig.pass(5));

    assert!(!page.unwrap().changes.is_empty());
    assert_eq!(feed(&rig).page(&api, "since:1").await.unwrap_err().kind, ErrorKind::Invalid);
}
