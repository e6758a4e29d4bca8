//! Mirrors: a page is kept with its cursor or not at all, newer states stay, and a change is told once, whoever finds it.

use std::sync::Arc;

use chrono::{DateTime, SubsecRound as _, TimeDelta, Utc};
use holdfast_core::{
    ConnectorId, DeliveryId, OrgId, Secret,
    agent::{TicketEvents, Trigger},
    job::{Fault, Kind, Outcome, Policy},
    mirror::{Change, Seen},
    ports::Changed,
    ticket::{Mapped, Person, Priority, Status, Ticket},
    webhook::{Author, Event, Key, Topic},
};
use holdfast_store::{
    Arrived, Attempt, Created, DeliveryFilter, Endpoint, JobsWanted, Kept, Known, Mirror, MirrorPage, MirrorQuery,
    NewAgent, NewEndpoint, Owner, Receiver, Store, TakenDelivery, Turn, WorkedOff,
};
use serde_json::json;

use crate::{
    agents::{bound, fail, heal, make, new_agent},
    harness::{TestDatabase, connect, moment, new_connector, on_both, tokens},
};

on_both! {
    an_older_page_does_not_take_the_place_of_a_newer_state,
    a_page_is_kept_with_its_cursor_or_not_at_all,
    what_is_gone_is_kept_no_more_and_a_disconnect_empties_it,
    one_job_is_open_for_a_connector,
    the_first_sync_tells_nobody_and_a_later_one_what_no_webhook_told,
    the_same_change_by_webhook_and_then_by_sync_makes_one_run,
    the_same_change_by_sync_and_then_by_webhook_makes_one_run,
    a_later_change_that_was_taken_for_the_same_is_told_by_the_next_sync,
    what_was_written_from_here_is_no_news,
    a_mirror_is_searched_by_what_lies_open_and_the_rest_is_sealed,
    a_failed_connector_is_not_synced_and_a_recovered_one_at_once,
}

fn at(secs: i64) -> DateTime<Utc> {
    moment(secs).trunc_subsecs(6)
}

fn ticket(id: &str, created: i64, updated: i64) -> Ticket {
    Ticket {
        id: id.to_owned(),
        url: None,
        subject: Some(format!("Subject of {id}")),
        description: Some("The lamp smells burnt".to_owned()),
        status: Mapped { value: Status::Open, original: "open".to_owned() },
        priority: Some(Mapped { value: Priority::High, original: "high".to_owned() }),
        channel: None,
        requester: Some(Person { id: "77".to_owned(), name: None, email: Some("mira@example.com".to_owned()) }),
        assignee: None,
        tags: vec!["Refund".to_owned()],
        created_at: at(created),
        updated_at: at(updated),
    }
}

fn is(id: &str, created: i64, updated: i64) -> Change {
    Change::Is(Box::new(Seen { ticket: ticket(id, created, updated), replied_at: None }))
}

fn replied(id: &str, created: i64, updated: i64) -> Change {
    Change::Is(Box::new(Seen { ticket: ticket(id, created, updated), replied_at: Some(at(updated)) }))
}

async fn mirror(store: &Store, connector: &ConnectorId) -> Mirror {
    store.mirror(connector).await.unwrap().expect("it is connected")
}

/// Keeps a page that has all there is, as of a minute ago.
async fn keep(store: &Store, connector: &ConnectorId, changes: &[Change], secs: i64) -> Kept {
    let mirror = mirror(store, connector).await;
    let cursor = format!("behind {secs}");
    let page = MirrorPage {
        mirror: &mirror,
        changes,
        cursor: &cursor,
        walk_began_at: at(secs),
        as_of: Some(at(secs)),
        news_since: at(secs) - TimeDelta::days(3),
        at: at(secs),
    };
    store.keep_page(&page).await.unwrap()
}

struct Rig {
    org: OrgId,
    connector: ConnectorId,
    here: (Endpoint, Receiver),
}

/// A connector with a webhook, whose first sync is through, and an agent that waits for these events.
async fn rig(store: &Store, events: &[&str]) -> Rig {
    let org = store.ensure_org("Acme").await.unwrap();
    let created = store.create_connector(&new_connector(&org, "acme", Secret::Tokens(tokens("first")))).await.unwrap();
    let Created::New(connector) = created else { panic!("{created:?}") };
    let owner = Owner::Connector(connector.clone());
    let new = NewEndpoint {
        org: Some(&org),
        owner: &owner,
        provider: "zendesk",
        kind: "events",
        secret: None,
        at: moment(0),
        actor: "Ada",
    };
    let (endpoint, _) = store.make_endpoint(&new).await.unwrap();
    let Some(Known::Live(endpoint, Some(receiver))) = store.find_endpoint(&endpoint.id, moment(0)).await.unwrap()
    else {
        panic!("it was just made")
    };
    let trigger = Trigger::Events(TicketEvents::of(events).unwrap());
    make(store, &NewAgent { trigger, ..new_agent(&org, vec![bound(&connector, "desk")]) }).await;
    assert_eq!(keep(store, &connector, &[is("42", 100, 100)], 1000).await, Kept::Yes { told: 0 });
    Rig { org, connector, here: (*endpoint, *receiver) }
}

/// A webhook tells of a change of ticket 42, and its job is done.
async fn told(store: &Store, rig: &Rig, id: &str, topic: Topic, came: i64, happened: Option<i64>) {
    let event = Event {
        key: Key::Id(id.to_owned()),
        kind: topic.as_str().to_owned(),
        topic,
        subject: Some("42".to_owned()),
        account: None,
        author: Author::Customer(None),
        at: happened.map(at),
    };
    let (endpoint, receiver) = &rig.here;
    let arrived =
        Arrived { endpoint, receiver, event: Ok(&event), parked: false, headers: json!({}), body: b"{}", at: at(came) };
    let TakenDelivery::New(delivery, _) = store.take_delivery(&arrived).await.unwrap() else { panic!("it is new") };
    work_off(store, &delivery, came).await;
}

async fn work_off(store: &Store, delivery: &DeliveryId, secs: i64) {
    assert_eq!(store.work_off_event(delivery, 20, true, at(secs)).await.unwrap(), WorkedOff::Yes);
}

/// What syncs found is worked off.
async fn work_off_all(store: &Store, rig: &Rig, secs: i64) {
    let all = store.deliveries(&rig.org, &DeliveryFilter::default(), None, 100).await.unwrap().data;
    for delivery in all.iter().rev().filter(|one| one.endpoint == "sync" && one.settled_at.is_none()) {
        work_off(store, &delivery.id, secs).await;
    }
}

async fn runs(db: &TestDatabase) -> i64 {
    db.number("SELECT COUNT(*) FROM runs").await
}

async fn an_older_page_does_not_take_the_place_of_a_newer_state(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (_, connector) = connect(&store, "acme").await;
    keep(&store, &connector, &[is("1", 100, 500), is("1", 100, 400), is("2", 100, 300)], 1000).await;

    keep(&store, &connector, &[is("1", 100, 450)], 1100).await;
    keep(&store, &connector, &[is("2", 100, 600)], 1200).await;

    let mirror = mirror(&store, &connector).await;
    assert_eq!((mirror.tickets, mirror.first_at, mirror.as_of), (2, Some(at(1000)), Some(at(1200))));
    let query = MirrorQuery { limit: 10, ..MirrorQuery::default() };
    let found = store.search_mirror(&mirror, &query).await.unwrap().tickets;
    let states: Vec<_> = found.iter().map(|ticket| (ticket.id.as_str(), ticket.updated_at)).collect();
    assert_eq!(states, [("2", at(600)), ("1", at(500))]);
}

async fn a_page_is_kept_with_its_cursor_or_not_at_all(db: Arc<TestDatabase>) {
    let (one, two) = (db.store().await, db.replica("two").await);
    let (_, connector) = connect(&one, "acme").await;
    let before = mirror(&one, &connector).await;
    assert_eq!(before.cursor, None);
    let (first, second) = ([is("1", 100, 500)], [is("2", 100, 500)]);
    let page = |changes| MirrorPage {
        mirror: &before,
        changes,
        cursor: "behind the first",
        walk_began_at: at(990),
        as_of: None,
        news_since: at(0),
        at: at(1000),
    };

    let (first, second) = (page(&first), page(&second));
    let (here, there) = tokio::join!(one.keep_page(&first), two.keep_page(&second));

    let kept: Vec<_> = [here.unwrap(), there.unwrap()].into_iter().filter(|kept| *kept != Kept::Overtaken).collect();
    assert_eq!(kept, [Kept::Yes { told: 0 }], "who comes second keeps nothing");
    let after = mirror(&one, &connector).await;
    assert_eq!(after.walk_began_at, Some(at(990)), "what comes next goes on with this walk");
    assert_eq!((after.cursor.as_deref(), after.tickets, after.read), (Some("behind the first"), 1, 1));
    assert_eq!((after.first_at, after.as_of), (None, None), "there are more pages");
    assert_eq!(db.number("SELECT COUNT(*) FROM mirrored_tickets").await, 1);
}

async fn what_is_gone_is_kept_no_more_and_a_disconnect_empties_it(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, connector) = connect(&store, "acme").await;
    keep(&store, &connector, &[is("1", 100, 500), is("2", 100, 500)], 1000).await;

    keep(&store, &connector, &[Change::Gone("1".to_owned()), Change::Gone("9".to_owned())], 1100).await;
    assert_eq!(mirror(&store, &connector).await.tickets, 1);
    assert_eq!(db.number("SELECT COUNT(*) FROM mirrored_tickets").await, 1);

    store.disconnect(&org, &connector, at(1200)).await.unwrap();
    assert_eq!(store.mirror(&connector).await.unwrap(), None);
    assert_eq!(db.number("SELECT COUNT(*) FROM mirrored_tickets").await, 0);
}

async fn one_job_is_open_for_a_connector(db: Arc<TestDatabase>) {
    let (one, two) = (db.store().await, db.replica("two").await);
    let (_, connector) = connect(&one, "acme").await;
    let jobs = "SELECT COUNT(*) FROM jobs WHERE kind = 'sync'";

    let due = one.due_syncs(at(10), 10).await.unwrap();
    assert_eq!((due.len(), &due[0].connector), (1, &connector));
    let (here, there) =
        tokio::join!(one.claim_sync(&due[0], Some(at(300)), at(10)), two.claim_sync(&due[0], Some(at(300)), at(10)));
    assert_ne!(here.unwrap(), there.unwrap(), "one of them claims it");
    assert_eq!(db.number(jobs).await, 1);

    // While it is not done, a further turn makes no second one.
    one.sync_soon(&connector, at(20)).await.unwrap();
    let due = one.due_syncs(at(20), 10).await.unwrap();
    assert_eq!(one.claim_sync(&due[0], Some(at(320)), at(20)).await.unwrap(), Changed::Yes);
    assert_eq!(db.number(jobs).await, 1);

    // While it runs, the turn stays for afterwards.
    let wanted = JobsWanted { kind: Kind::Sync, count: 1, per_connector: 1, lease: std::time::Duration::from_mins(1) };
    let claimed = one.claim_jobs(&wanted, &mut Turn::default(), at(30)).await.unwrap().jobs.remove(0);
    one.sync_soon(&connector, at(40)).await.unwrap();
    let due = one.due_syncs(at(40), 10).await.unwrap();
    assert_eq!(one.claim_sync(&due[0], Some(at(340)), at(40)).await.unwrap(), Changed::No);
    let second = std::time::Duration::from_secs(1);
    let policy = Policy { attempts: 3, backoff_base: second, backoff_cap: second };
    let attempt = Attempt { claimed, outcome: Outcome::Done, policy, unit: 0.5, at: at(41) };
    one.settle_jobs(&[attempt]).await.unwrap();
    assert_eq!(one.claim_sync(&due[0], Some(at(340)), at(42)).await.unwrap(), Changed::Yes);
    assert_eq!(db.number(jobs).await, 2);
}

async fn the_first_sync_tells_nobody_and_a_later_one_what_no_webhook_told(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let rig = rig(&store, &["ticket.created", "ticket.replied", "ticket.changed"]).await;
    assert_eq!(db.number("SELECT COUNT(*) FROM deliveries").await, 0);

    let changes = [is("42", 100, 1100), replied("43", 1050, 1060), is("44", 100, 100)];
    assert_eq!(keep(&store, &rig.connector, &changes, 1200).await, Kept::Yes { told: 3 });
    work_off_all(&store, &rig, 1201).await;

    let all = store.deliveries(&rig.org, &DeliveryFilter::default(), None, 10).await.unwrap().data;
    let mut told: Vec<_> =
        all.iter().map(|one| (one.subject.as_deref().unwrap_or_default(), one.topic.as_str())).collect();
    told.sort_unstable();
    // The last one changed long before: it is only now among what is read.
    assert_eq!(told, [("42", "ticket.changed"), ("43", "ticket.created"), ("43", "ticket.replied")]);
    assert_eq!(runs(&db).await, 3);

    keep(&store, &rig.connector, &changes, 1300).await;
    work_off_all(&store, &rig, 1301).await;
    assert_eq!(runs(&db).await, 3, "a page that is read again tells nothing");
}

async fn the_same_change_by_webhook_and_then_by_sync_makes_one_run(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let rig = rig(&store, &["ticket.replied"]).await;

    told(&store, &rig, "evt-1", Topic::TicketReplied, 1101, None).await;
    assert_eq!(keep(&store, &rig.connector, &[replied("42", 100, 1100)], 1200).await, Kept::Yes { told: 0 });
    assert_eq!(runs(&db).await, 1);

    // One that no webhook told.
    assert_eq!(keep(&store, &rig.connector, &[replied("42", 100, 1300)], 1400).await, Kept::Yes { told: 1 });
    work_off_all(&store, &rig, 1401).await;
    assert_eq!(runs(&db).await, 2);
}

async fn the_same_change_by_sync_and_then_by_webhook_makes_one_run(db: Arc<TestDatabase>) {
    let (one, two) = (db.store().await, db.replica("two").await);
    let rig = rig(&one, &["ticket.replied", "ticket.changed"]).await;

    assert_eq!(keep(&one, &rig.connector, &[replied("42", 100, 1100)], 1200).await, Kept::Yes { told: 1 });
    work_off_all(&one, &rig, 1201).await;
    // Late, and as two events, as some providers tell of a reply.
    told(&one, &rig, "evt-1", Topic::TicketReplied, 1210, None).await;
    told(&one, &rig, "evt-2", Topic::TicketChanged, 1211, None).await;
    // So late that only its own moment tells.
    told(&one, &rig, "evt-3", Topic::TicketReplied, 9000, Some(1100)).await;
    assert_eq!(runs(&db).await, 1);

    // Both at once, on two replicas.
    let mirror = mirror(&one, &rig.connector).await;
    let changes = [replied("42", 100, 20_000)];
    let page = MirrorPage {
        mirror: &mirror,
        changes: &changes,
        cursor: "next",
        walk_began_at: at(20_010),
        as_of: Some(at(20_010)),
        news_since: at(0),
        at: at(20_010),
    };
    let sync = async {
        two.keep_page(&page).await.unwrap();
        work_off_all(&two, &rig, 20_011).await;
    };
    tokio::join!(sync, told(&one, &rig, "evt-4", Topic::TicketReplied, 20_009, None));
    work_off_all(&one, &rig, 20_012).await;
    assert_eq!(runs(&db).await, 2);
}

async fn a_later_change_that_was_taken_for_the_same_is_told_by_the_next_sync(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let rig = rig(&store, &["ticket.replied"]).await;
    keep(&store, &rig.connector, &[replied("42", 100, 1100)], 1200).await;
    work_off_all(&store, &rig, 1201).await;

    // It does not say when it happened: the change that was told before, or another one?
    told(&store, &rig, "evt-1", Topic::TicketReplied, 1260, None).await;
    assert_eq!(runs(&db).await, 1);

    assert_eq!(keep(&store, &rig.connector, &[replied("42", 100, 1259)], 1500).await, Kept::Yes { told: 1 });
    work_off_all(&store, &rig, 1501).await;
    assert_eq!(runs(&db).await, 2, "it was another one, and is not lost");
}

async fn what_was_written_from_here_is_no_news(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let rig = rig(&store, &["ticket.replied", "ticket.changed"]).await;

    store.note_ticket_write(&rig.connector, "42", Topic::TicketReplied, at(1102)).await.unwrap();
    assert_eq!(keep(&store, &rig.connector, &[replied("42", 100, 1101)], 1200).await, Kept::Yes { told: 0 });

    assert_eq!(keep(&store, &rig.connector, &[replied("42", 100, 1250)], 1300).await, Kept::Yes { told: 1 });

    // A tag that is put on behind a customer's reply does not hide it.
    store.note_ticket_write(&rig.connector, "42", Topic::TicketChanged, at(1358)).await.unwrap();
    let mut tagged = ticket("42", 100, 1358);
    tagged.tags = vec!["seen".to_owned()];
    let tagged = Change::Is(Box::new(Seen { ticket: tagged, replied_at: Some(at(1350)) }));
    assert_eq!(keep(&store, &rig.connector, &[tagged], 1400).await, Kept::Yes { told: 1 });
    store.note_ticket_write(&rig.connector, "42", Topic::TicketChanged, at(1458)).await.unwrap();
    let own = Change::Is(Box::new(Seen { ticket: ticket("42", 100, 1458), replied_at: Some(at(1350)) }));
    assert_eq!(keep(&store, &rig.connector, &[own], 1500).await, Kept::Yes { told: 0 });
}

async fn a_mirror_is_searched_by_what_lies_open_and_the_rest_is_sealed(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (_, connector) = connect(&store, "acme").await;
    let mut urgent = ticket("4", 400, 500);
    urgent.priority = Some(Mapped { value: Priority::Urgent, original: "urgent".to_owned() });
    urgent.tags = vec!["VIP_100%".to_owned(), "billing".to_owned()];
    let changes = [
        is("1", 100, 500),
        is("2", 200, 500),
        is("3", 200, 500),
        Change::Is(Box::new(Seen { ticket: urgent, replied_at: None })),
    ];
    keep(&store, &connector, &changes, 1000).await;
    let mirror = mirror(&store, &connector).await;
    let find = async |query: MirrorQuery| {
        let found = store.search_mirror(&mirror, &query).await.unwrap();
        (found.tickets.into_iter().map(|ticket| ticket.id).collect::<Vec<_>>(), found.more)
    };
    let all = MirrorQuery { limit: 3, ..MirrorQuery::default() };

    assert_eq!(find(all.clone()).await, (vec!["4".to_owned(), "3".to_owned(), "2".to_owned()], true));
    let after = Some((at(200), "2".to_owned()));
    assert_eq!(find(MirrorQuery { after, ..all.clone() }).await, (vec!["1".to_owned()], false));
    for query in [
        MirrorQuery { priority: vec![Priority::Urgent, Priority::Low], ..all.clone() },
        MirrorQuery { tags: vec!["vip_100%".to_owned(), "vip".to_owned()], ..all.clone() },
    ] {
        assert_eq!(find(query).await, (vec!["4".to_owned()], false));
    }
    assert_eq!(find(MirrorQuery { tags: vec!["vip".to_owned()], ..all.clone() }).await.0.len(), 0);
    assert_eq!(find(MirrorQuery { status: vec![Status::Solved], ..all.clone() }).await.0.len(), 0);
    assert_eq!(find(MirrorQuery { requester: Some("77".to_owned()), ..all }).await.0.len(), 3);

    for words in ["lamp", "Subject", "mira@example.com"] {
        let raw = format!("SELECT COUNT(*) FROM mirrored_tickets WHERE CAST(sealed AS TEXT) LIKE '%{words}%'");
        assert_eq!(db.number(&raw).await, 0, "{words}");
    }
}

async fn a_failed_connector_is_not_synced_and_a_recovered_one_at_once(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (_, connector) = connect(&store, "acme").await;
    keep(&store, &connector, &[is("1", 100, 500)], 1000).await;
    let fault = Fault::new("unavailable", "Zendesk does not answer.");
    store.note_sync_fault(&connector, &fault, Some(at(2000)), at(1010)).await.unwrap();
    let noted = mirror(&store, &connector).await;
    assert_eq!((noted.fault, noted.failing_since, noted.due_at), (Some(fault), Some(at(1010)), Some(at(2000))));

    fail(&store, &connector).await;
    assert_eq!(mirror(&store, &connector).await.due_at, None);
    assert_eq!(store.sync_soon(&connector, at(1101)).await.unwrap(), Changed::No);

    heal(&store, &connector).await;
    let mirror = mirror(&store, &connector).await;
    assert_eq!((mirror.due_at, mirror.fault), (Some(at(400)), None));
    assert_eq!((mirror.cursor.as_deref(), mirror.tickets), (Some("behind 1000"), 1), "it goes on where it was");
}
