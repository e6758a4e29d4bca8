//! The journal: one open row per credential, lost owners, and many at once.

use std::{sync::Arc, time::Duration};

use holdfast_core::{
    AppId, Health, TokenSet,
    credential::Reason,
    health::Event,
    ports::{Acquired, Begun, Changed, CredentialStore as _, Failure, Lease, LeaseStore as _, Loss, Stored},
    refresh::OutcomeKind,
};
use holdfast_store::{Options, Store};
use secrecy::ExposeSecret as _;
use sqlx::{Connection as _, Executor as _};
use tokio_util::sync::CancellationToken;

use crate::harness::{
    TestDatabase, close, connect, eventually, exchange, lease, load, moment, on_both, on_postgres, refusal, rotation,
    tokens,
};

on_both! {
    one_exchange_of_a_credential_is_open_at_a_time,
    an_open_row_tells_whether_its_holder_lives_and_its_lease_is_over,
    a_lost_owners_row_is_closed_once_and_its_answer_is_marked_lost,
    the_row_of_an_owner_that_is_back_is_not_closed_for_it,
    a_row_that_is_opened_after_its_closing_stays_closed,
    a_row_that_is_opened_while_it_is_closed_ends_closed,
    a_verdict_that_is_taken_back_leaves_what_it_knew_of_a_lost_answer,
    a_holders_line_and_signs_of_life_are_told_apart,
    a_row_that_its_owner_does_not_work_on_is_closed_by_its_owner_alone,
    the_second_answer_to_a_token_is_kept_beside_the_first_alone,
    an_exchange_of_an_older_version_does_not_begin,
    a_hundred_tasks_lose_nothing,
    one_connection_is_enough_for_everything,
}

async fn one_exchange_of_a_credential_is_open_at_a_time(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (_, id) = connect(&store, "acme").await;
    let snapshot = load(&store, &id).await;
    let lease = lease(&store, &snapshot, "one").await;
    let exchanges: Vec<_> = (0..10).map(|n| exchange(&snapshot, &lease, &n.to_string())).collect();

    let begun = futures::future::join_all(exchanges.iter().map(|exchange| store.begin(exchange))).await;

    let begun: Vec<_> = begun.into_iter().map(Result::unwrap).collect();
    assert_eq!(begun.iter().filter(|begun| **begun == Begun::Yes).count(), 1);
    assert!(begun.iter().all(|begun| !matches!(begun, Begun::Moved)));
    let open = begun.iter().position(|begun| *begun == Begun::Yes).unwrap();
    store.close(&exchanges[open], &close(OutcomeKind::Transient)).await.unwrap();
    let next = exchange(&snapshot, &lease, "next");
    assert_eq!(store.begin(&next).await.unwrap(), Begun::Yes);
}

async fn an_open_row_tells_whether_its_holder_lives_and_its_lease_is_over(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (_, id) = connect(&store, "acme").await;
    let snapshot = load(&store, &id).await;
    let mut owners = lease(&store, &snapshot, "owner").await;
    let first = exchange(&snapshot, &owners, "a");
    store.begin(&first).await.unwrap();
    let second = exchange(&snapshot, &owners, "b");

    let Begun::Other(open) = store.begin(&second).await.unwrap() else { panic!("it is open") };
    assert_eq!((open.id.clone(), open.holder.as_str()), (first.id.clone(), "owner"));
    assert!(!open.holder_alive, "it never gave a sign of life");
    assert_eq!(open.lease_over_for, Duration::ZERO);

    let mut options = db.options("owner");
    options.heartbeat = Options::HEARTBEAT;
    let owner = Store::connect(options).await.unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let (owner, stop) = (owner.clone(), stop.clone());
        async move { owner.run(stop).await }
    });
    eventually("the owner counts as alive", || async {
        matches!(store.begin(&second).await.unwrap(), Begun::Other(open) if open.holder_alive).then_some(())
    })
    .await;
    stop.cancel();
    running.await.unwrap();

    owners.expires_at_ms -= 100_000;
    store.extend(&first.id, &owners).await.unwrap();
    let Begun::Other(open) = store.begin(&second).await.unwrap() else { panic!("it is open") };
    assert!(open.lease_over_for > Duration::from_mins(1), "{open:?}");
    db.execute("UPDATE replicas SET seen_at_ms = seen_at_ms - 8001").await;
    let Begun::Other(open) = store.begin(&second).await.unwrap() else { panic!("it is open") };
    assert!(!open.holder_alive, "it was not seen for eight seconds");
}

async fn a_lost_owners_row_is_closed_once_and_its_answer_is_marked_lost(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (_, id) = connect(&store, "acme").await;
    let snapshot = load(&store, &id).await;
    let lease = lease(&store, &snapshot, "one").await;
    let lost = exchange(&snapshot, &lease, "a");
    store.begin(&lost).await.unwrap();

    assert_eq!(store.close_lost(&lost.id, Loss::Silent, moment(200)).await.unwrap(), Changed::Yes);
    assert_eq!(store.close_lost(&lost.id, Loss::Silent, moment(201)).await.unwrap(), Changed::No);

    assert!(load(&store, &id).await.credential.answer_lost);
    let line = &store.timeline(&snapshot.org, &id, None, 10).await.unwrap().data[0];
    assert_eq!(line.outcome.as_deref(), Some("owner_lost"));

    let stored = store.store_rotation(&lost, &rotation("late")).await.unwrap();
    assert!(matches!(stored, Stored::Yes(_)), "{stored:?}");
    assert!(!load(&store, &id).await.credential.answer_lost);
    let line = &store.timeline(&snapshot.org, &id, None, 10).await.unwrap().data[0];
    assert_eq!(line.outcome.as_deref(), Some("rotated"), "the owner was not lost after all");
}

/// Found by the model: relieved on an old look, a living replica's token set was taken for lost.
async fn the_row_of_an_owner_that_is_back_is_not_closed_for_it(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (_, id) = connect(&store, "acme").await;
    let snapshot = load(&store, &id).await;
    let lease = lease(&store, &snapshot, "owner").await;
    let owners = exchange(&snapshot, &lease, "a");
    store.begin(&owners).await.unwrap();
    let mut options = db.options("owner");
    options.heartbeat = Options::HEARTBEAT;
    let owner = Store::connect(options).await.unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let (owner, stop) = (owner.clone(), stop.clone());
        async move { owner.run(stop).await }
    });
    let second = exchange(&snapshot, &lease, "b");
    eventually("the owner counts as alive again", || async {
        matches!(store.begin(&second).await.unwrap(), Begun::Other(open) if open.holder_alive).then_some(())
    })
    .await;

    assert_eq!(store.close_lost(&owners.id, Loss::Silent, moment(200)).await.unwrap(), Changed::No);

    assert!(!load(&store, &id).await.credential.answer_lost);
    assert_eq!(store.open_exchange_count().await.unwrap(), 1);
    stop.cancel();
    running.await.unwrap();
}

/// Found by the model: a statement that was given up opened its row after its owner had closed it, and as long as that
/// replica lived nobody could exchange any more.
async fn a_row_that_is_opened_after_its_closing_stays_closed(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (_, id) = connect(&store, "acme").await;
    let snapshot = load(&store, &id).await;
    let lease = lease(&store, &snapshot, "one").await;
    let late = exchange(&snapshot, &lease, "late");
    store.close(&late, &close(OutcomeKind::NotSent)).await.unwrap();

    store.begin(&late).await.unwrap();

    assert_eq!(store.open_exchange_count().await.unwrap(), 0);
    assert_eq!(store.begin(&exchange(&snapshot, &lease, "next")).await.unwrap(), Begun::Yes);
}

/// Found by torture: the statement that opened the row committed between the two of its closing.
async fn a_row_that_is_opened_while_it_is_closed_ends_closed(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (_, id) = connect(&store, "acme").await;
    let snapshot = load(&store, &id).await;
    let lease = lease(&store, &snapshot, "one").await;
    for round in 0..200 {
        let late = exchange(&snapshot, &lease, &format!("late{round}"));
        let not_sent = close(OutcomeKind::NotSent);
        let (begun, closed) = tokio::join!(store.begin(&late), store.close(&late, &not_sent));
        begun.unwrap();
        closed.unwrap();
        assert_eq!(store.open_exchange_count().await.unwrap(), 0, "round {round}");
    }
}

/// Found by the model: after a replay the verdict alone knew that an answer was lost, and the next one said "revoked".
async fn a_verdict_that_is_taken_back_leaves_what_it_knew_of_a_lost_answer(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (_, id) = connect(&store, "acme").await;
    let before = load(&store, &id).await;
    let failure = Failure { reason: Reason::ResponseLost, ..refusal(before.credential.version) };
    store.fail(&before.credential.id, &failure, None).await.unwrap();

    let withdrawn = store.withdraw(&AppId::instance("zendesk"), moment(0), moment(400), moment(200)).await.unwrap();

    assert_eq!(withdrawn, std::slice::from_ref(&id));
    let after = load(&store, &id).await;
    assert_eq!((after.health, after.credential.answer_lost), (Health::Connected, true));
}

async fn a_holders_line_and_signs_of_life_are_told_apart(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (_, id) = connect(&store, "acme").await;
    let snapshot = load(&store, &id).await;
    let lease = lease(&store, &snapshot, "owner").await;
    let found = store.holder(&lease).await.unwrap();
    assert!(!found.alive && !found.exchanging, "{found:?}");
    let open = exchange(&snapshot, &lease, "a");
    store.begin(&open).await.unwrap();
    assert!(store.holder(&lease).await.unwrap().exchanging);
    let [(connector, row)] = &store.lost(10).await.unwrap()[..] else { panic!("it seems lost") };
    assert_eq!((connector, &row.id, row.holder_alive), (&id, &open.id, false));

    let stop = CancellationToken::new();
    let owner = Store::connect(db.options("owner")).await.unwrap();
    let running = tokio::spawn({
        let (owner, stop) = (owner.clone(), stop.clone());
        async move { owner.run(stop).await }
    });
    eventually("the owner is there", || async {
        let found = store.holder(&lease).await.unwrap();
        (found.alive && found.connected).then_some(())
    })
    .await;
    assert!(store.lost(10).await.unwrap().is_empty());
    assert!(owner.lost(10).await.unwrap().is_empty());

    stop.cancel();
    running.await.unwrap();
    owner.shut().await.unwrap();
    if !db.is_sqlite() {
        // Its line ends at once, its last sign of life is fresh.
        eventually("the line is over", || async { (!store.holder(&lease).await.unwrap().connected).then_some(()) })
            .await;
        assert!(store.holder(&lease).await.unwrap().alive);
        assert_eq!(store.lost(10).await.unwrap().len(), 1);
    }
    db.execute("UPDATE replicas SET seen_at_ms = seen_at_ms - 8001").await;
    assert!(!store.holder(&lease).await.unwrap().alive);
    assert!(!store.lost(10).await.unwrap()[0].1.holder_alive);
    let owner = Store::connect(db.options("owner")).await.unwrap();
    assert!(owner.lost(10).await.unwrap().is_empty(), "one's own rows are not lost while their lease lasts");
    let over = Lease { expires_at_ms: lease.expires_at_ms - 3_600_000, ..lease };
    store.extend(&open.id, &over).await.unwrap();
    assert_eq!(owner.lost(10).await.unwrap().len(), 1);
}

async fn a_row_that_its_owner_does_not_work_on_is_closed_by_its_owner_alone(db: Arc<TestDatabase>) {
    let other = db.store().await;
    let owner = Store::connect(db.options("owner")).await.unwrap();
    let (_, id) = connect(&other, "acme").await;
    let snapshot = load(&other, &id).await;
    let open = exchange(&snapshot, &lease(&owner, &snapshot, "owner").await, "a");
    owner.begin(&open).await.unwrap();

    assert_eq!(other.close_lost(&open.id, Loss::Forgotten, moment(200)).await.unwrap(), Changed::No);
    assert_eq!(owner.close_lost(&open.id, Loss::Forgotten, moment(200)).await.unwrap(), Changed::Yes);
    assert_eq!(owner.close_lost(&open.id, Loss::Forgotten, moment(201)).await.unwrap(), Changed::No);

    assert!(load(&other, &id).await.credential.answer_lost);
    assert_eq!(other.open_exchange_count().await.unwrap(), 0);
}

async fn the_second_answer_to_a_token_is_kept_beside_the_first_alone(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, id) = connect(&store, "acme").await;
    let snapshot = load(&store, &id).await;
    let lease = lease(&store, &snapshot, "one").await;
    let (slow, quick) = (exchange(&snapshot, &lease, "slow"), exchange(&snapshot, &lease, "quick"));
    let credential = &snapshot.credential.id;
    let spare = async |version| store.spare(&org, credential, version).await.unwrap();
    store.begin(&slow).await.unwrap();
    assert_eq!(store.keep_spare(&slow, &tokens("second")).await.unwrap(), Changed::No, "no first answer is stored");
    store.close_lost(&slow.id, Loss::Silent, moment(200)).await.unwrap();
    store.begin(&quick).await.unwrap();
    store.store_rotation(&quick, &rotation("first-answer")).await.unwrap();
    assert!(matches!(store.store_rotation(&slow, &rotation("second")).await.unwrap(), Stored::Superseded));

    assert_eq!(store.keep_spare(&slow, &tokens("second")).await.unwrap(), Changed::Yes);
    assert_eq!(store.keep_spare(&slow, &tokens("second")).await.unwrap(), Changed::Yes);

    let next = slow.version.next();
    let kept = spare(next).await.unwrap();
    assert_eq!(format!("{kept:?}"), format!("{:?}", as_stored(tokens("second"))));
    assert_eq!(kept.refresh_token.unwrap().expose_secret(), "refresh-second");
    assert!(spare(next.next()).await.is_none(), "it belongs to one version");
    assert_eq!(store.keep_spare(&quick, &tokens("own")).await.unwrap(), Changed::No, "the first answer is no spare");
    assert_eq!(db.number("SELECT COUNT(*) FROM spares").await, 1);

    store.disconnect(&org, &id, moment(300)).await.unwrap();
    assert_eq!(db.number("SELECT COUNT(*) FROM spares").await, 0, "nothing of a grant is kept that was taken off");
    assert_eq!(store.keep_spare(&slow, &tokens("second")).await.unwrap(), Changed::No);
}

/// As it comes back from the database.
fn as_stored(tokens: TokenSet) -> TokenSet {
    let cut = |at: chrono::DateTime<chrono::Utc>| chrono::SubsecRound::trunc_subsecs(at, 6);
    TokenSet {
        obtained_at: cut(tokens.obtained_at),
        expires_at: tokens.expires_at.map(cut),
        refresh_expires_at: tokens.refresh_expires_at.map(cut),
        ..tokens
    }
}

async fn an_exchange_of_an_older_version_does_not_begin(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, id) = connect(&store, "acme").await;
    let snapshot = load(&store, &id).await;
    let lease = lease(&store, &snapshot, "one").await;
    let first = exchange(&snapshot, &lease, "a");
    store.begin(&first).await.unwrap();
    store.store_rotation(&first, &rotation("second")).await.unwrap();

    assert_eq!(store.begin(&exchange(&snapshot, &lease, "b")).await.unwrap(), Begun::Moved);

    let current = load(&store, &id).await;
    store.disconnect(&org, &id, moment(300)).await.unwrap();
    assert_eq!(store.begin(&exchange(&current, &lease, "c")).await.unwrap(), Begun::Moved);
    store.delete_connector(&org, &id).await.unwrap();
    assert_eq!(store.begin(&exchange(&current, &lease, "d")).await.unwrap(), Begun::Moved);
}

/// All on ten connectors: each rotates once, whoever else is at it.
async fn a_hundred_tasks_lose_nothing(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let mut ids = Vec::new();
    for n in 0..10 {
        ids.push(connect(&store, &format!("acme{n}")).await.1);
    }

    let tasks: Vec<_> = (0..100)
        .map(|n| {
            let (store, id) = (store.clone(), ids[n % ids.len()].clone());
            tokio::spawn(async move {
                let snapshot = load(&store, &id).await;
                let credential = snapshot.credential.id.clone();
                let holder = format!("task {n}");
                let lease = eventually("the lease is free", || async {
                    match store.acquire(&credential, &holder, Duration::from_mins(1)).await.unwrap() {
                        Acquired::Yes(lease) => Some(lease),
                        Acquired::Held { .. } => None,
                    }
                })
                .await;
                let current = load(&store, &id).await;
                let exchange = exchange(&current, &lease, &n.to_string());
                assert_eq!(store.begin(&exchange).await.unwrap(), Begun::Yes);
                let stored = store.store_rotation(&exchange, &rotation(&n.to_string())).await.unwrap();
                assert!(matches!(stored, Stored::Yes(_)), "{stored:?}");
                store.release(&lease).await.unwrap();
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }

    for id in &ids {
        assert_eq!(load(&store, id).await.credential.version.0, 11, "the first set and ten rotations");
    }
}

/// No call holds a connection when it is over, and none needs two.
async fn one_connection_is_enough_for_everything(db: Arc<TestDatabase>) {
    let mut options = db.options("one");
    options.max_connections = 1;
    let store = Store::connect(options).await.unwrap();
    store.migrate().await.unwrap();
    store.unlock().await.unwrap();
    let (org, id) = connect(&store, "acme").await;

    let snapshot = load(&store, &id).await;
    let lease = lease(&store, &snapshot, "one").await;
    let first = exchange(&snapshot, &lease, "a");
    assert_eq!(store.begin(&first).await.unwrap(), Begun::Yes);
    assert!(matches!(store.begin(&exchange(&snapshot, &lease, "b")).await.unwrap(), Begun::Other(_)));
    for _ in 0..2 {
        let stored = store.store_rotation(&first, &rotation("second")).await.unwrap();
        assert!(matches!(stored, Stored::Yes(_)), "{stored:?}");
    }
    let second = exchange(&load(&store, &id).await, &lease, "c");
    store.begin(&second).await.unwrap();
    let closing = close(OutcomeKind::Rejected);
    let failure = refusal(second.version);
    store.fail(&second.credential, &failure, Some((&second, &closing))).await.unwrap();
    store.heal(&id, second.version, Event::TestPassed, moment(400)).await.unwrap();
    store.disconnect(&org, &id, moment(401)).await.unwrap();
    store.delete_connector(&org, &id).await.unwrap();

    store.shut().await.unwrap();
    assert!(store.ping().await.is_err());
}

/// The insert meets a write of the credential that has not committed yet, and has to look again after it.
async fn begin_behind(db: &TestDatabase, first: &str, then: &str) -> Begun {
    let store = db.store().await;
    let (_, id) = connect(&store, "acme").await;
    let snapshot = load(&store, &id).await;
    let lease = lease(&store, &snapshot, "one").await;
    store.begin(&exchange(&snapshot, &lease, "a")).await.unwrap();
    let mut writer = sqlx::PgConnection::connect(&db.url).await.unwrap();
    writer.execute("BEGIN").await.unwrap();
    writer.execute(sqlx::AssertSqlSafe(first)).await.unwrap();

    let beginning = tokio::spawn({
        let (store, exchange) = (store.clone(), exchange(&snapshot, &lease, "b"));
        async move { store.begin(&exchange).await.unwrap() }
    });
    let waiting = "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
                   AND datname = current_database()";
    eventually("the insert waits", || async { (db.number(waiting).await == 1).then_some(()) }).await;
    writer.execute(sqlx::AssertSqlSafe(then)).await.unwrap();
    writer.execute("UPDATE exchanges SET closed_at = now(), outcome = 'rotated'").await.unwrap();
    writer.execute("COMMIT").await.unwrap();

    beginning.await.unwrap()
}

async fn behind_a_rotation(db: Arc<TestDatabase>) {
    let nothing = "SELECT 1";
    assert_eq!(begin_behind(&db, "UPDATE credentials SET version = version + 1", nothing).await, Begun::Moved);
}

async fn behind_a_verdict(db: Arc<TestDatabase>) {
    let failed = "UPDATE connectors SET health = 'auth_failed'";
    assert_eq!(begin_behind(&db, "SELECT id FROM credentials FOR UPDATE", failed).await, Begun::Moved);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_does_not_begin_behind_a_rotation_that_is_committing() {
    on_postgres(behind_a_rotation).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_does_not_begin_behind_a_verdict_that_is_committing() {
    on_postgres(behind_a_verdict).await;
}
