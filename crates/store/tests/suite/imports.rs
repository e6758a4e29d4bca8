//! Connectors that are taken over together: each after those before it, and none in the way of another.

use std::sync::Arc;

use holdfast_core::Secret;
use holdfast_store::{Import, Imported, NewConnector};

use crate::harness::{TestDatabase, connect, load, new_connector, on_both, tokens};

on_both! {
    each_is_taken_over_after_those_before_it,
    what_an_import_would_meet_is_told_and_nothing_is_written,
}

async fn each_is_taken_over_after_those_before_it(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, there) = connect(&store, "there").await;
    let before = load(&store, &there).await;
    let new = |account: &str, alias: Option<&str>| NewConnector {
        alias: alias.map(str::to_owned),
        ..new_connector(&org, account, Secret::Tokens(tokens(account)))
    };
    let all = [
        new("one", Some("x")),
        new("one", Some("x")),
        new("one", Some("y")),
        new("two", Some("x")),
        new("there", Some("x")),
        new("there", Some("y")),
        new("three", Some("y")),
        new("three", None),
    ];
    let longer = [None, None, None, Some("k:x"), None, None, None, None];
    let imports: Vec<_> =
        all.iter().zip(longer).map(|(new, longer_alias)| Import { new, longer_alias, alone: false }).collect();

    let done = store.import_connectors(&imports).await.unwrap();

    let [Imported::New(one), same, other, Imported::New(_), taken, named, theirs, Imported::New(_)] = &done[..] else {
        panic!("{done:?}")
    };
    assert_eq!(same, &Imported::Exists(one.clone()));
    assert_eq!(other, &Imported::OtherAlias(one.clone(), "x".to_owned()));
    assert_eq!(taken, &Imported::AliasTaken(one.clone()));
    assert_eq!(named, &Imported::Named(there.clone()));
    assert_eq!(theirs, &Imported::AliasTaken(there.clone()));
    let found = store.find_connector(&org, "y").await.unwrap().unwrap();
    assert_eq!(found.snapshot.connector, there);
    let after = load(&store, &there).await;
    assert_eq!((after.epoch, after.credential.version), (before.epoch, before.credential.version), "only its alias");
    assert_eq!(db.number("SELECT COUNT(*) FROM connectors").await, 4);
    assert_eq!(db.number("SELECT COUNT(*) FROM credentials").await, 4, "nothing is left of the others");
    assert_eq!(db.number("SELECT COUNT(*) FROM timeline WHERE kind = 'alias'").await, 1);
    let again = store.import_connectors(&imports).await.unwrap();
    assert!(again.iter().all(|done| !matches!(done, Imported::New(_) | Imported::Named(_))), "{again:?}");
}

async fn what_an_import_would_meet_is_told_and_nothing_is_written(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, there) = connect(&store, "acme").await;
    let globex = store.ensure_org("Globex").await.unwrap();
    let mut new = new_connector(&org, "acme", Secret::Tokens(tokens("more")));
    new.alias = Some("x".to_owned());

    let own = store.meet_import(&Import { new: &new, longer_alias: Some("k:x"), alone: true }).await.unwrap();
    new.org = globex;
    let others = store.meet_import(&Import { new: &new, longer_alias: None, alone: true }).await.unwrap();
    let beside = store.meet_import(&Import { new: &new, longer_alias: None, alone: false }).await.unwrap();

    assert_eq!((own.account, own.held), (Some((there, None)), false));
    assert_eq!(own.aliases, [("x".to_owned(), false), ("k:x".to_owned(), false)]);
    assert_eq!((others.account, others.held, beside.held), (None, true, false));
    assert_eq!(db.number("SELECT COUNT(*) FROM connectors").await, 1);
    assert_eq!(db.number("SELECT COUNT(*) FROM credentials").await, 1);
}
