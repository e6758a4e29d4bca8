//! What is sealed stays sealed, and one damaged row spoils nothing else.

use std::sync::Arc;

use holdfast_core::{Secret, ports::CredentialStore as _};
use holdfast_store::{Filter, NewSession, Purpose, StartSession, Store, Way};
use secrecy::SecretString;

use crate::harness::{TestDatabase, connect, load, master_key, moment, on_both};

on_both! {
    a_damaged_row_is_unreadable_while_the_others_list,
    a_secret_moved_to_another_row_is_unreadable,
    another_master_key_is_refused,
}

async fn a_damaged_row_is_unreadable_while_the_others_list(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let mut ids = Vec::new();
    let mut org = None;
    for n in 0..50 {
        let (of, id) = connect(&store, &format!("acme{n}")).await;
        org = Some(of);
        ids.push(id);
    }
    let damaged = load(&store, &ids[20]).await;
    let garbage = if db.is_sqlite() { "X'0102030405'" } else { r"'\x0102030405'" };
    let credential = &damaged.credential.id;
    db.execute(&format!("UPDATE credentials SET sealed = {garbage} WHERE id = '{credential}'")).await;

    let page = store.connectors(&org.unwrap(), &Filter::default(), None, 100).await.unwrap();

    assert_eq!(page.data.len(), 50);
    for view in page.data {
        let unreadable = matches!(view.snapshot.credential.secret, Secret::Unreadable);
        assert_eq!(unreadable, view.snapshot.connector == ids[20], "{}", view.snapshot.connector);
    }
    let one = store.load(&ids[20]).await.unwrap().unwrap();
    assert!(matches!(one.credential.secret, Secret::Unreadable));
}

async fn a_secret_moved_to_another_row_is_unreadable(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (_, one) = connect(&store, "one").await;
    let (_, two) = connect(&store, "two").await;
    let (from, to) = (load(&store, &one).await.credential.id, load(&store, &two).await.credential.id);

    let moved = format!("(SELECT sealed FROM credentials WHERE id = '{from}')");
    db.execute(&format!("UPDATE credentials SET sealed = {moved} WHERE id = '{to}'")).await;

    assert!(matches!(load(&store, &two).await.credential.secret, Secret::Unreadable));
    assert!(matches!(load(&store, &one).await.credential.secret, Secret::Tokens(_)));
}

async fn another_master_key_is_refused(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (_, id) = connect(&store, "acme").await;
    let mut options = db.options("two");
    options.master_key = master_key();
    let other = Store::connect(options).await.unwrap();

    let refused = other.unlock().await.unwrap_err();

    assert_eq!(refused.to_string(), "this database was sealed with another master key");
    assert!(matches!(load(&other, &id).await.credential.secret, Secret::Unreadable));
    assert!(other.extras(&id).await.unwrap().is_empty());
    store.unlock().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_stands_in_the_database_file() {
    let db = TestDatabase::sqlite();
    let store = db.store().await;
    let (org, id) = connect(&store, "acme").await;
    store.put_extra(&id, "signing_secret", &SecretString::from("extra-canary")).await.unwrap();
    let session = NewSession {
        org,
        connector: id,
        link_hash: [1; 32],
        purpose: Purpose::Connect,
        return_url: None,
        way: Way::Link,
        user: None,
        at: moment(0),
        expires_at: moment(600),
        asked_for: true,
    };
    store.create_session(&session).await.unwrap();
    let start = StartSession {
        link_hash: [1; 32],
        state_hash: [2; 32],
        browser_hash: [3; 32],
        app: None,
        verifier: Some(SecretString::from("verifier-canary")),
        account: None,
        by_key: false,
        at: moment(1),
        state_expires_at: moment(600),
    };
    store.start_session(&start).await.unwrap().unwrap();

    let mut bytes = Vec::new();
    for file in std::fs::read_dir(db.dir.path()).unwrap() {
        bytes.extend(std::fs::read(file.unwrap().path()).unwrap());
    }

    let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(holds("Helpdesk acme"), "the right files are read");
    for secret in ["access-first", "refresh-first", "extra-canary", "verifier-canary", "wh_1"] {
        assert!(!holds(secret), "{secret} stands in the file");
    }
}
