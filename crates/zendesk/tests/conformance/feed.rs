//! The feed: incremental exports, to their end and from there on.

use std::time::Duration;

use holdfast_core::{
    ErrorKind, Provider as _, Retry,
    mirror::{Feed, Seen},
    testkit::feed::{read_all, read_on},
    ticket::Status,
};
use holdfast_sandbox::Sandbox;
use serde_json::json;

use crate::rig::Rig;

/// More than the 10 requests a minute of the usual plan, for tests that are about something else.
async fn rig() -> Rig {
    Rig::with(Sandbox::builder().with(|options| options.export_limit = 0), |zendesk| zendesk).await
}

fn feed(rig: &Rig) -> &dyn Feed {
    rig.zendesk.feed().unwrap()
}

#[tokio::test]
async fn every_ticket_is_told_over_more_than_one_page_and_then_only_what_changes() {
    let rig = rig().await;
    rig.acme.add_tickets(800);
    // Each is two hours younger than the one before.
    rig.sandbox.advance(Duration::from_hours(2000));
    let api = rig.api_as("ada", "read write");

    let told = read_all(feed(&rig), &api).await;

    assert_eq!((told.there().count(), told.pages), (1120, 3));
    let seen = told.seen("9007199254741033");
    assert!(seen.ticket.requester.as_ref().unwrap().email.is_some(), "with its people");
    assert!(seen.replied_at.is_some());

    let again = read_on(feed(&rig), &api, &told.cursor).await.unwrap();
    assert_eq!((again.tickets.len(), again.pages), (0, 1));

    let open = |seen: &&Seen| seen.ticket.status.value == Status::Open;
    let id = told.there().find(open).unwrap().ticket.id.clone();
    rig.call(&api, "reply_to_ticket", json!({"ticket_id": id, "body": "Hello", "public": true})).await.unwrap();
    let young = read_on(feed(&rig), &api, &again.cursor).await.unwrap();
    assert_eq!(young.tickets.len(), 0, "what is younger than a minute is told later");
    rig.sandbox.advance(feed(&rig).lag() + Duration::from_secs(2));

    let changed = read_on(feed(&rig), &api, &young.cursor).await.unwrap();
    assert_eq!(changed.tickets.len(), 1);
    let seen = changed.seen(&id);
    assert!(seen.replied_at.unwrap() > told.seen(&id).replied_at.unwrap());
    assert!(seen.ticket.updated_at > told.seen(&id).ticket.updated_at);
}

#[tokio::test]
async fn a_deleted_ticket_is_told_as_gone() {
    let rig = rig().await;
    let api = rig.api_as("ada", "read write");
    let told = read_on(feed(&rig), &api, &feed(&rig).begin(chrono::DateTime::UNIX_EPOCH)).await.unwrap();

    api.request(http::Method::DELETE, "api/v2/tickets/7.json").send().await.unwrap();
    rig.sandbox.advance(Duration::from_secs(62));

    let changed = read_on(feed(&rig), &api, &told.cursor).await.unwrap();
    assert_eq!(changed.tickets.into_iter().collect::<Vec<_>>(), [("7".to_owned(), None)]);
}

#[tokio::test]
async fn the_exports_own_rate_limit_says_when_to_come_again() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada", "read write");
    let cursor = feed(&rig).begin(chrono::DateTime::UNIX_EPOCH);
    for _ in 0..10 {
        feed(&rig).page(&api, &cursor).await.unwrap();
    }

    let error = feed(&rig).page(&api, &cursor).await.unwrap_err();

    assert_eq!(error.kind, ErrorKind::Busy);
    let Retry::After(pause) = error.retry else { panic!("{error:?}") };
    assert!(pause > Duration::from_secs(20), "longer than a call waits: {pause:?}");
    rig.sandbox.advance(pause);
    feed(&rig).page(&api, &cursor).await.unwrap();
}

#[tokio::test]
async fn who_is_no_administrator_and_a_cursor_that_is_none_are_told_apart() {
    let rig = rig().await;
    let cursor = feed(&rig).begin(chrono::DateTime::UNIX_EPOCH);

    let agent = rig.api_as("gus", "read write");
    assert_eq!(feed(&rig).page(&agent, &cursor).await.unwrap_err().kind, ErrorKind::Forbidden);
    let admin = rig.api_as("ada", "read write");
    assert_eq!(feed(&rig).page(&admin, "no cursor").await.unwrap_err().kind, ErrorKind::Invalid);
}
