//! Due refreshes: who finds them, who may begin them, and what a look costs.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use chrono::{DateTime, Utc};
use futures::future::join_all;
use holdfast_core::{
    AppId, ConnectorId, Secret,
    credential::Trouble,
    health::Event,
    ports::{ClaimDue, CredentialStore as _, DueRefresh, DueStore as _, Marks, Place, Trigger},
    refresh::OutcomeKind,
};
use holdfast_store::{Created, NewConnector, Options, Store};
use tokio_util::sync::CancellationToken;

use crate::harness::{
    TestDatabase, close, connect, eventually, exchange, lease, load, moment, new_connector, on_both, on_postgres,
    refusal, rotation, seconds, tokens,
};

on_both! {
    what_is_claimed_is_due_connected_and_not_backing_off,
    replicas_that_claim_at_once_get_other_ones,
    a_claim_that_its_owner_left_behind_is_free_after_its_time,
    a_claim_that_is_given_back_is_free_at_once,
    a_claim_ends_with_the_due_moment_that_it_is_for,
    one_providers_backlog_is_not_in_anothers_way,
    of_what_is_due_the_token_that_ends_first_is_claimed_first,
    what_was_missed_is_put_off_over_the_window_unless_its_token_still_lives,
    what_only_a_person_can_mend_is_not_met_by_a_look,
    a_look_with_nothing_due_finds_nothing_and_a_claim_takes_nothing,
    a_claim_finds_what_is_due_by_the_index,
}

const TTL: Duration = Duration::from_mins(1);

async fn claim_as(store: &Store, holder: &str, at: DateTime<Utc>, limit: u32, ttl: Duration) -> Vec<DueRefresh> {
    store.claim_due(&ClaimDue { app: &AppId::instance("zendesk"), now: at, holder, ttl, limit }).await.unwrap()
}

async fn claim(store: &Store, at: DateTime<Utc>, limit: u32) -> Vec<ConnectorId> {
    claim_as(store, "one", at, limit, TTL).await.into_iter().map(|due| due.connector).collect()
}

async fn create(store: &Store, new: &NewConnector) -> ConnectorId {
    match store.create_connector(new).await.unwrap() {
        Created::New(id) => id,
        other => panic!("{other:?}"),
    }
}

/// `count` connectors that are due at 3000 and whose tokens end at 3600.
async fn crowd(store: &Store, count: usize) -> HashSet<ConnectorId> {
    let mut ids = HashSet::new();
    for number in 0..count {
        ids.insert(connect(store, &format!("acme{number}")).await.1);
    }
    ids
}

async fn what_is_claimed_is_due_connected_and_not_backing_off(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (_, soon) = connect(&store, "soon").await;
    let (_, failed) = connect(&store, "failed").await;
    let (_, backing_off) = connect(&store, "backing_off").await;
    let broken = load(&store, &failed).await;
    store.fail(&broken.credential.id, &refusal(broken.credential.version), None).await.unwrap();
    let busy = load(&store, &backing_off).await;
    let exchange = exchange(&busy, &lease(&store, &busy, "one").await, "a");
    store.begin(&exchange).await.unwrap();
    let mut closing = close(OutcomeKind::Busy);
    closing.marks = Some(Marks { trouble: Trouble::Busy, retry_at: moment(3500), failures: 1, answer_lost: false });
    store.close(&exchange, &closing).await.unwrap();
    let counts = store.due_counts(&["zendesk"], moment(3400), moment(3200)).await.unwrap();

    assert_eq!(claim(&store, moment(2999), 10).await, []);
    assert_eq!(claim(&store, moment(3001), 10).await, std::slice::from_ref(&soon));
    assert_eq!(claim(&store, moment(3499), 10).await, [], "that one is claimed, the other one backs off");
    assert_eq!(claim(&store, moment(3501), 10).await, [backing_off]);

    assert_eq!((counts[0].due, counts[0].overdue), (1, 1));
    let counts = store.due_counts(&["zendesk"], moment(3600), moment(3200)).await.unwrap();
    assert_eq!((counts[0].due, counts[0].overdue), (2, 1), "since its back-off is over, not since it was due");
}

async fn replicas_that_claim_at_once_get_other_ones(db: Arc<TestDatabase>) {
    let all = crowd(&db.store().await, 60).await;
    // On SQLite there is one process; its tasks may still ask at once.
    let mut replicas: Vec<Store> = Vec::new();
    for name in ["one", "two", "three", "four"] {
        replicas.push(if db.is_sqlite() && name != "one" { replicas[0].clone() } else { db.replica(name).await });
    }

    for of in [2, 4] {
        db.execute("DELETE FROM refresh_claims").await;
        let mut claimed: Vec<Vec<DueRefresh>> = vec![Vec::new(); of];
        loop {
            let round = join_all((0..of).map(|number| claim_as(&replicas[number], "it", moment(3001), 7, TTL))).await;
            if round.iter().all(Vec::is_empty) {
                break;
            }
            for (sum, some) in claimed.iter_mut().zip(round) {
                sum.extend(some);
            }
        }
        let taken: Vec<_> = claimed.iter().flatten().map(|due| due.connector.clone()).collect();
        assert_eq!(taken.len(), 60, "none twice");
        assert_eq!(taken.into_iter().collect::<HashSet<_>>(), all, "and none is left");
    }
}

async fn a_claim_that_its_owner_left_behind_is_free_after_its_time(db: Arc<TestDatabase>) {
    let store = db.store().await;
    crowd(&store, 3).await;
    let ttl = Duration::from_millis(300);
    #[expect(clippy::disallowed_methods, reason = "the database's clock is real")]
    let before = Instant::now();
    assert_eq!(claim_as(&store, "dead", moment(3001), 2, ttl).await.len(), 2);

    assert_eq!(claim_as(&store, "one", moment(3001), 10, TTL).await.len(), 1);
    let taken_over = eventually("the claims are over", async || {
        let taken = claim_as(&store, "one", moment(3001), 10, TTL).await;
        (!taken.is_empty()).then_some(taken)
    });

    assert_eq!(taken_over.await.len(), 2);
    assert!(before.elapsed() >= ttl);
}

async fn a_claim_that_is_given_back_is_free_at_once(db: Arc<TestDatabase>) {
    let store = db.store().await;
    crowd(&store, 3).await;
    let claimed = claim_as(&store, "one", moment(3001), 3, TTL).await;
    let ids: Vec<_> = claimed.iter().map(|due| due.credential.clone()).collect();

    store.give_back("two", &ids).await.unwrap();
    assert_eq!(claim_as(&store, "two", moment(3001), 3, TTL).await, [], "they are not its own");
    store.give_back("one", &ids[..2]).await.unwrap();

    assert_eq!(claim_as(&store, "two", moment(3001), 3, TTL).await.len(), 2);
}

async fn a_claim_ends_with_the_due_moment_that_it_is_for(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (_, id) = connect(&store, "acme").await;
    assert_eq!(claim(&store, moment(3001), 1).await, std::slice::from_ref(&id));

    let snapshot = load(&store, &id).await;
    let first = exchange(&snapshot, &lease(&store, &snapshot, "one").await, "a");
    store.begin(&first).await.unwrap();
    store.store_rotation(&first, &rotation("second")).await.unwrap();

    assert_eq!(claim(&store, moment(5999), 1).await, []);
    assert_eq!(claim(&store, moment(6001), 1).await, std::slice::from_ref(&id), "it is due again");
    store.postpone(&id, Trouble::Ours, moment(6001), moment(6010)).await.unwrap();
    assert_eq!(claim(&store, moment(6009), 1).await, []);
    assert_eq!(claim(&store, moment(6011), 1).await, [id]);
}

async fn one_providers_backlog_is_not_in_anothers_way(db: Arc<TestDatabase>) {
    let store = db.store().await;
    crowd(&store, 30).await;
    let org = store.ensure_org("Acme").await.unwrap();
    let new = new_connector(&org, "other", Secret::Tokens(tokens("first")));
    let due_at = Some(moment(3002));
    let other = create(&store, &NewConnector { provider: "other".to_owned(), due_at, ..new }).await;

    let first = store.first_due(&["zendesk", "other", "nobody"], moment(3003)).await.unwrap();
    let wish = ClaimDue { app: &AppId::instance("other"), now: moment(3003), holder: "one", ttl: TTL, limit: 5 };
    let claimed = store.claim_due(&wish).await.unwrap();

    let mut providers: Vec<_> = first.iter().map(|(app, _)| app.provider()).collect();
    providers.sort_unstable();
    assert_eq!(providers, ["other", "zendesk"]);
    assert_eq!(claimed.len(), 1);
    assert_eq!(
        (&claimed[0].connector, claimed[0].due_at.timestamp_micros()),
        (&other, moment(3002).timestamp_micros())
    );
}

async fn of_what_is_due_the_token_that_ends_first_is_claimed_first(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    let mut made = Vec::new();
    // Due in this order, ending in another one.
    for (account, due, end) in
        [("month", 100, 2_600_000), ("never", 150, 0), ("week", 200, 600_000), ("hour", 300, 3600)]
    {
        let mut set = tokens(account);
        set.expires_at = (end > 0).then(|| moment(end));
        let due_at = Some(moment(due));
        made.push(create(&store, &NewConnector { due_at, ..new_connector(&org, account, Secret::Tokens(set)) }).await);
    }

    let mut order = Vec::new();
    for _ in 0..4 {
        order.extend(claim(&store, moment(400), 1).await);
    }

    assert_eq!(order, [3, 2, 0, 1].map(|at: usize| made[at].clone()));
}

async fn what_was_missed_is_put_off_over_the_window_unless_its_token_still_lives(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let over = crowd(&store, 40).await;
    let org = store.ensure_org("Acme").await.unwrap();
    let mut set = tokens("living");
    set.expires_at = Some(moment(90_000));
    let living = create(&store, &new_connector(&org, "living", Secret::Tokens(set))).await;

    let (now, window) = (moment(10_000), Duration::from_mins(5));
    let count = store.put_off_missed(&AppId::instance("zendesk"), moment(9_940), now, window).await.unwrap();

    assert_eq!(count, 40);
    assert_eq!(claim(&store, now, 100).await, [living]);
    let mut due = Vec::new();
    for id in &over {
        due.push((load(&store, id).await.credential.due_at.unwrap() - now).num_seconds());
    }
    assert!(due.iter().all(|secs| (-1..=300).contains(secs)), "{due:?}");
    let early = due.iter().filter(|secs| **secs < 150).count();
    assert!((5..=35).contains(&early), "about half of them in the first half: {due:?}");
    assert_eq!(claim(&store, now + seconds(301), 100).await.len(), 40);
}

async fn what_only_a_person_can_mend_is_not_met_by_a_look(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (_, id) = connect(&store, "acme").await;
    let snapshot = load(&store, &id).await;
    store.fail(&snapshot.credential.id, &refusal(snapshot.credential.version), None).await.unwrap();
    let parked = async || db.number("SELECT COUNT(*) FROM credentials WHERE parked").await;
    assert_eq!((parked().await, store.first_due(&["zendesk"], moment(9000)).await.unwrap()), (1, Vec::new()));

    // The verdict is taken back: many were refused at once.
    let back = store.withdraw(&AppId::instance("zendesk"), moment(0), moment(150), moment(140)).await.unwrap();
    assert_eq!((back, parked().await), (vec![id.clone()], 0));
    store.fail(&snapshot.credential.id, &refusal(snapshot.credential.version), None).await.unwrap();
    assert_eq!(parked().await, 1);

    // A test call passed: the provider has taken it back.
    store.heal(&id, snapshot.credential.version, Event::TestPassed, moment(200)).await.unwrap();
    assert_eq!((parked().await, claim(&store, moment(3001), 1).await), (0, vec![id.clone()]));

    // A late success of the same grant is stored before it heals.
    let mut late = exchange(&snapshot, &lease(&store, &snapshot, "one").await, "late");
    late.trigger = Trigger::Test;
    store.begin(&late).await.unwrap();
    store.fail(&snapshot.credential.id, &refusal(snapshot.credential.version), None).await.unwrap();
    store.store_rotation(&late, &rotation("second")).await.unwrap();
    assert_eq!(claim(&store, moment(6001), 1).await, [], "it waits for its proof");
    store.heal(&id, snapshot.credential.version.next(), Event::LateSuccess, moment(300)).await.unwrap();
    assert_eq!(claim(&store, moment(6001), 1).await, [id]);
}

async fn a_look_with_nothing_due_finds_nothing_and_a_claim_takes_nothing(db: Arc<TestDatabase>) {
    let store = db.store().await;
    crowd(&store, 3).await;

    assert_eq!(store.first_due(&["zendesk"], moment(2999)).await.unwrap(), []);
    assert_eq!(store.first_due(&[], moment(9000)).await.unwrap(), []);
    assert_eq!(claim(&store, moment(2999), 10).await, []);
    assert_eq!(db.number("SELECT COUNT(*) FROM refresh_claims").await, 0);
}

async fn a_claim_finds_what_is_due_by_the_index(db: Arc<TestDatabase>) {
    let store = db.store().await;
    connect(&store, "acme").await;
    // As many more, by copying the one.
    let copy = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) ";
    let columns = "org_id, kind, sealed, version, scopes, obtained_at, expires_at, due_at, provider";
    db.execute(&format!(
        "{copy} INSERT INTO credentials (id, {columns}) SELECT 'cred_' || n.i, {columns} FROM credentials, n"
    ))
    .await;
    let columns = "org_id, provider, name, health, health_since, created_at";
    db.execute(&format!(
        "{copy} INSERT INTO connectors (id, credential_id, account, {columns}) \
         SELECT 'con_' || n.i, 'cred_' || n.i, 'copy' || n.i, {columns} FROM connectors, n"
    ))
    .await;
    db.execute(&format!(
        "{copy} UPDATE credentials SET due_at = NULL WHERE id IN (SELECT 'cred_' || n.i FROM n WHERE n.i > 50)"
    ))
    .await;
    db.execute("ANALYZE").await;

    let wish = ClaimDue { app: &AppId::instance("zendesk"), now: moment(3001), holder: "one", ttl: TTL, limit: 64 };
    let plan = store.explain_claim(&wish).await.unwrap();

    assert!(plan.contains("credentials_due"), "{plan}");
    for whole in ["Seq Scan on credentials", "Seq Scan on connectors", "SCAN k\n", "SCAN c\n"] {
        assert!(!plan.contains(whole), "{plan}");
    }
    assert_eq!(claim(&store, moment(3001), 64).await.len(), 51);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_live_replica_has_a_place_of_its_own() {
    on_postgres(places).await;
}

async fn places(db: Arc<TestDatabase>) {
    let heartbeat = Duration::from_millis(100);
    let mut stores = Vec::new();
    for name in ["a", "b", "c"] {
        let store = Store::connect(Options { heartbeat, ..db.options(name) }).await.unwrap();
        store.migrate().await.unwrap();
        stores.push(store);
    }
    assert_eq!(stores[0].place("a").await.unwrap(), Place { rank: 0, of: 1 }, "it has not even said that it lives");
    let stops: Vec<_> = stores
        .iter()
        .map(|store| {
            let (store, stop) = (store.clone(), CancellationToken::new());
            let stopped = stop.clone();
            tokio::spawn(async move { store.run(stopped).await });
            stop
        })
        .collect();

    let places = async || {
        let of = async |at: usize, name: &str| stores[at].place(name).await.unwrap();
        [of(0, "a").await, of(1, "b").await, of(2, "c").await]
    };
    let three = [0, 1, 2].map(|rank| Place { rank, of: 3 });
    eventually("all three live", async || (places().await == three).then_some(())).await;
    stops[1].cancel();
    let two = [Place { rank: 0, of: 2 }, Place { rank: 1, of: 2 }];
    eventually("one is taken for dead", async || {
        let [first, _, last] = places().await;
        ([first, last] == two).then_some(())
    })
    .await;
    stops.iter().for_each(CancellationToken::cancel);
}
