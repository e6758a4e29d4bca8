//! The feed: the list, latest activity first, back to what is known.

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
    rig.front.feed().unwrap()
}

#[tokio::test]
async fn every_conversation_is_told_over_more_than_one_page_and_then_only_what_changes() {
    let rig = Rig::start().await;
    rig.there.converse("acme", 90);
    let api = rig.api_as("acme");

    let told = read_all(feed(&rig), &api).await;

    assert!(told.pages > 1, "{}", told.pages);
    let (there, gone) = (told.there().count(), told.tickets.values().filter(|seen| seen.is_none()).count());
    assert_eq!(there + gone, rig.there.conversations("acme") - 1, "one was merged into another");
    assert!(told.there().any(|seen| seen.replied_at.is_some()), "some customer waits");

    rig.advance(Duration::from_mins(5));
    let id = told.there().last().unwrap().ticket.id.clone();
    rig.call(&api, "reply_to_ticket", json!({"ticket_id": id, "body": "A note", "public": false})).await.unwrap();
    let changed = read_on(feed(&rig), &api, &told.cursor).await.unwrap();
    assert_eq!(changed.pages, 1, "not all is read again");
    assert!(changed.seen(&id).ticket.updated_at > told.seen(&id).ticket.updated_at);
}

#[tokio::test]
async fn what_goes_to_the_trash_is_told_as_gone() {
    let rig = Rig::start().await;
    let api = rig.api_as("acme");
    let told = read_all(feed(&rig), &api).await;
    let id = told.there().next().unwrap().ticket.id.clone();

    rig.advance(Duration::from_mins(5));
    let change = json!({"status": "deleted"});
    api.request(http::Method::PATCH, format!("conversations/{id}")).json(&change).send().await.unwrap();

    let changed = read_on(feed(&rig), &api, &told.cursor).await.unwrap();
    assert_eq!(changed.tickets.get(&id), Some(&None));
}

#[tokio::test]
async fn a_rate_limit_is_waited_for_and_what_tells_no_change_is_not_guessed() {
    let rig = Rig::start().await;
    let api = rig.api_as("acme");
    let cursor = feed(&rig).begin(chrono::DateTime::UNIX_EPOCH);
    let limited = Canned::new(429, json!({"_error": {"status": 429, "title": "Rate limit exceeded"}}).to_string());
    rig.there.trouble(|faults| faults.api_answer = Some(limited.header("Retry-After", "3").times(1)));

    let (page, ()) = tokio::join!(feed(&rig).page(&api, &cursor), rig.pass(5));

    assert!(!page.unwrap().changes.is_empty());
    assert_eq!(feed(&rig).page(&api, "since:1").await.unwrap_err().kind, ErrorKind::Invalid);
    rig.there.set(|options| options.tells_updated_at = false);
    assert_eq!(feed(&rig).page(&api, &cursor).await.unwrap_err().kind, ErrorKind::Unreadable);
}
