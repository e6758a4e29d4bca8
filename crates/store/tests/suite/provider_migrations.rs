//! Providers' migrations: whom they concern, who has acted, who is told.

use std::sync::Arc;

use holdfast_core::{ConnectorId, OrgId, Role, Secret, TokenSet, ports::Changed};
use holdfast_store::{
    Created, Filter, Granted, LineFilter, LineState, MigrationProgress, MigrationStart, NewConnector, NewMigration,
    NewUser, Store, TellMigrations,
};

use crate::{
    grants::grant,
    harness::{TestDatabase, moment, new_connector, on_both, seconds, tokens},
};

on_both! {
    who_has_a_newer_grant_than_the_start_has_acted,
    only_endless_tokens_are_concerned_where_that_is_asked,
    what_is_taken_off_counts_no_more,
    a_provider_has_one_migration_at_a_time,
    a_dry_run_changes_nothing,
    each_org_is_told_once_and_reminded_once,
}

const DAY: i64 = 86_400;

async fn connector(store: &Store, org: &OrgId, account: &str, secret: Secret) -> ConnectorId {
    let due_at = secret.tokens().and_then(|tokens| tokens.refresh_token.as_ref()).map(|_| moment(3000));
    match store.create_connector(&NewConnector { due_at, ..new_connector(org, account, secret) }).await.unwrap() {
        Created::New(id) => id,
        other => panic!("{other:?}"),
    }
}

async fn renewed(store: &Store, org: &OrgId, account: &str) -> ConnectorId {
    connector(store, org, account, Secret::Tokens(tokens("first"))).await
}

async fn endless(store: &Store, org: &OrgId, account: &str) -> ConnectorId {
    let tokens = TokenSet { refresh_token: None, expires_at: None, expires_assumed: false, ..tokens("first") };
    connector(store, org, account, Secret::Tokens(tokens)).await
}

fn new() -> NewMigration<'static> {
    let deadline = Some((moment(0) + seconds(30 * DAY)).date_naive());
    NewMigration {
        provider: "zendesk",
        reason: Some("Old tokens stop"),
        deadline,
        only_endless: false,
        at: moment(100),
        dry_run: false,
    }
}

async fn start(store: &Store, new: &NewMigration<'_>) -> MigrationProgress {
    match store.start_migration(new).await.unwrap() {
        MigrationStart::Started(started) => started,
        other => panic!("{other:?}"),
    }
}

async fn reconnect(store: &Store, id: &ConnectorId) {
    assert!(matches!(store.store_grant(&grant(id, 1, "second")).await.unwrap(), Granted::Yes(_)));
}

/// Orgs, connectors, open ones.
fn numbers(progress: &MigrationProgress) -> (u64, u64, u64) {
    (progress.orgs, progress.connectors, progress.open)
}

async fn who_has_a_newer_grant_than_the_start_has_acted(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (acme, globex) = (store.ensure_org("Acme").await.unwrap(), store.ensure_org("Globex").await.unwrap());
    let (one, two) = (renewed(&store, &acme, "one").await, renewed(&store, &acme, "two").await);
    let other = renewed(&store, &globex, "one").await;

    let started = start(&store, &new()).await;

    assert_eq!(numbers(&started), (2, 3, 3));
    let id = started.migration.id.as_str();
    let later = renewed(&store, &acme, "later").await;
    reconnect(&store, &one).await;
    assert_eq!(numbers(&store.find_migration(id).await.unwrap().unwrap()), (2, 3, 2));
    assert_eq!(numbers(&store.migrations_of(&acme).await.unwrap()[0]), (1, 2, 1));
    let ids = [one.clone(), two.clone(), other.clone(), later.clone()];
    let must = store.must_reconnect(&ids).await.unwrap();
    assert_eq!((must.len(), must.contains_key(&two), must.contains_key(&other)), (2, true, true));
    assert_eq!((must[&two].by, must[&two].reason.as_deref()), (new().deadline, Some("Old tokens stop")));
    let lines = store.migration_lines(&acme, id, 10).await.unwrap();
    assert_eq!(lines.iter().map(|line| &line.id).collect::<Vec<_>>(), [&two]);
    let state = LineFilter { state: Some(LineState::MustReconnect), ..LineFilter::default() };
    let lines = store.connector_lines(&acme, &state, None, 10).await.unwrap().data;
    assert_eq!(lines.iter().map(|line| &line.id).collect::<Vec<_>>(), [&two]);
    for (must, expected) in [(true, vec![&two]), (false, vec![&one, &later])] {
        let filter = Filter { must_reconnect: Some(must), ..Filter::default() };
        let found = store.connectors(&acme, &filter, None, 10).await.unwrap().data;
        assert_eq!(found.iter().map(|view| &view.snapshot.connector).collect::<Vec<_>>(), expected);
    }
    let orgs = store.migration_orgs(id).await.unwrap();
    let orgs: Vec<_> = orgs.iter().map(|org| (org.org.as_str(), org.connectors, org.open)).collect();
    assert_eq!(orgs, [("Acme", 2, 1), ("Globex", 1, 1)]);
    let open = store.migration_connectors(id, None).await.unwrap();
    assert_eq!(open.iter().map(|one| &one.id).collect::<Vec<_>>(), [&two, &other]);

    assert_eq!(store.end_migration(id, moment(900)).await.unwrap(), Changed::Yes);
    assert_eq!(store.end_migration(id, moment(901)).await.unwrap(), Changed::No);
    assert!(store.must_reconnect(&ids).await.unwrap().is_empty());
    assert!(store.migrations_of(&acme).await.unwrap().is_empty());
    assert!(store.migrations().await.unwrap()[0].migration.ended_at.is_some());
}

async fn only_endless_tokens_are_concerned_where_that_is_asked(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    let old = endless(&store, &org, "old").await;
    let mended = endless(&store, &org, "mended").await;
    renewed(&store, &org, "new").await;

    let started = start(&store, &NewMigration { only_endless: true, ..new() }).await;

    assert_eq!(numbers(&started), (1, 2, 2));
    // Some providers exchange an endless token for one that is renewed, without anybody's consent.
    db.execute(&format!(
        "UPDATE credentials SET due_at = obtained_at WHERE id = (SELECT credential_id FROM connectors WHERE id = '{mended}')"
    ))
    .await;
    let open = store.migration_connectors(&started.migration.id, None).await.unwrap();
    assert_eq!(open.iter().map(|one| &one.id).collect::<Vec<_>>(), [&old]);
}

async fn what_is_taken_off_counts_no_more(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    let (off, gone) = (renewed(&store, &org, "off").await, renewed(&store, &org, "gone").await);
    renewed(&store, &org, "stays").await;
    let started = start(&store, &new()).await;

    store.disconnect(&org, &off, moment(200)).await.unwrap();
    store.delete_connector(&org, &gone).await.unwrap();

    assert_eq!(numbers(&store.find_migration(&started.migration.id).await.unwrap().unwrap()), (1, 1, 1));
}

async fn a_provider_has_one_migration_at_a_time(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    assert_eq!(store.start_migration(&new()).await.unwrap(), MigrationStart::Nobody);
    assert!(store.migrations().await.unwrap().is_empty());
    renewed(&store, &org, "one").await;
    let id = start(&store, &new()).await.migration.id;

    assert_eq!(store.start_migration(&new()).await.unwrap(), MigrationStart::UnderWay(id.clone()));

    store.end_migration(&id, moment(200)).await.unwrap();
    let second = start(&store, &NewMigration { at: moment(300), ..new() }).await.migration.id;
    let all: Vec<_> = store.migrations().await.unwrap().into_iter().map(|one| one.migration.id).collect();
    assert_eq!(all, [second, id], "the newest first");
}

async fn a_dry_run_changes_nothing(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    renewed(&store, &org, "one").await;

    let would = start(&store, &NewMigration { dry_run: true, ..new() }).await;

    assert_eq!(numbers(&would), (1, 1, 1));
    assert!(store.migrations().await.unwrap().is_empty());
    assert!(!store.migration_is_untold(moment(200)).await.unwrap());
}

async fn each_org_is_told_once_and_reminded_once(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (acme, globex) = (store.ensure_org("Acme").await.unwrap(), store.ensure_org("Globex").await.unwrap());
    for (org, email, role) in [
        (&acme, "ada@acme.example", Role::Owner),
        (&acme, "ben@acme.example", Role::Admin),
        (&acme, "cleo@acme.example", Role::Member),
    ] {
        let (org, email) = (org.clone(), email.to_owned());
        let user = NewUser { org, email, name: None, role, operator: false, password_hash: None, at: moment(0) };
        store.create_user(&user).await.unwrap().unwrap();
    }
    let mine = renewed(&store, &acme, "one").await;
    renewed(&store, &acme, "two").await;
    renewed(&store, &globex, "one").await;
    let id = start(&store, &new()).await.migration.id;
    let tell = async |day: i64| {
        let at = moment(100 + day * DAY);
        let untold = store.migration_is_untold(at).await.unwrap();
        let tell = TellMigrations { at, domain: "hub.example", sends: true, orgs: 100 };
        // Two replicas at once.
        let other = db.replica("two").await;
        let (one, two) = tokio::join!(store.tell_migrations(&tell), other.tell_migrations(&tell));
        let nobody = one.unwrap().len() + two.unwrap().len();
        (untold, nobody, db.number("SELECT COUNT(*) FROM mails").await)
    };

    assert_eq!(tell(0).await, (true, 1, 2), "Globex has nobody");
    assert_eq!(tell(1).await, (false, 0, 2));
    reconnect(&store, &mine).await;
    assert_eq!(tell(22).await, (false, 0, 2));
    assert_eq!(tell(24).await, (true, 1, 4), "something of each is open still");
    assert_eq!(tell(25).await, (false, 0, 4));
    assert!(store.migration_orgs(&id).await.unwrap().iter().all(|org| org.told_at.is_some()));
}
