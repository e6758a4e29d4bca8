//! Making connectors, new grants, extras.

use std::sync::Arc;

use holdfast_core::{AppId, ConnectorId, Health, OrgId, Role, Secret, ports::Changed};
use holdfast_store::{Created, Grant, Granted, Moved, NewUser, StartSession, Store};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;

use crate::{
    harness::{TestDatabase, connect, load, moment, new_connector, on_both, refusal, tokens},
    sessions::{session, start},
};
use holdfast_core::ports::CredentialStore as _;

on_both! {
    a_connector_with_a_credential_starts_connected,
    an_import_that_is_repeated_changes_nothing,
    a_grant_makes_a_pending_connector_work,
    of_two_grants_the_one_whose_consent_started_last_wins,
    a_grant_whose_commit_was_not_answered_is_found_to_be_stored,
    a_reconnect_keeps_extras_that_it_does_not_carry,
    an_account_is_named_once,
    one_that_was_never_connected_is_moved_to_another_account,
    another_orgs_connector_is_not_there,
    an_address_is_taken_once_in_an_org,
}

pub(crate) fn grant(connector: &ConnectorId, sequence: i64, mark: &str) -> Grant {
    Grant {
        connector: connector.clone(),
        sequence,
        app: AppId::instance("zendesk"),
        secret: Secret::Tokens(tokens(mark)),
        identity: Some(json!({"account_id": "acme", "name": mark})),
        extras: vec![("host".to_owned(), SecretString::from(format!("host-{mark}")))],
        due_at: Some(moment(8000)),
        at: moment(500),
        actor: Some("ada@acme.example".to_owned()),
    }
}

async fn a_connector_with_a_credential_starts_connected(db: Arc<TestDatabase>) {
    let store = db.store().await;

    let (org, id) = connect(&store, "acme").await;

    let read = load(&store, &id).await;
    assert_eq!((read.health, read.epoch, read.credential.version.0), (Health::Connected, 1, 1));
    let effects: Vec<_> = store.outbox(&org).await.unwrap().into_iter().map(|row| row.effect).collect();
    assert_eq!(effects.len(), 2);
    let key = new_connector(&org, "other", Secret::ApiKey(SecretString::from("key")));
    let Created::New(id) = store.create_connector(&key).await.unwrap() else { panic!("it is new") };
    let Secret::ApiKey(key) = load(&store, &id).await.credential.secret else { panic!("it is an API key") };
    assert_eq!(key.expose_secret(), "key");
}

async fn an_import_that_is_repeated_changes_nothing(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, id) = connect(&store, "acme").await;
    let before = format!("{:?}", load(&store, &id).await);
    let mut again = new_connector(&org, "acme", Secret::Tokens(tokens("other")));
    again.alias = Some("foreign-1".to_owned());

    assert_eq!(store.create_connector(&again).await.unwrap(), Created::Exists(id.clone()));

    assert_eq!(format!("{:?}", load(&store, &id).await), before);
    assert_eq!(db.number("SELECT COUNT(*) FROM credentials").await, 1, "nothing is left of the second");
    "second".clone_into(&mut again.account);
    let Created::New(second) = store.create_connector(&again).await.unwrap() else { panic!("it is new") };
    "third".clone_into(&mut again.account);
    assert_eq!(store.create_connector(&again).await.unwrap(), Created::AliasTaken(second.clone()));
    let found = store.find_connector(&org, "foreign-1").await.unwrap().unwrap();
    assert_eq!((found.snapshot.connector, found.alias.as_deref()), (second, Some("foreign-1")));
    assert_eq!(store.rename_connector(&org, &id, "Support").await.unwrap(), Changed::Yes);
    let renamed = load(&store, &id).await;
    assert_eq!((renamed.name.as_str(), renamed.credential.version.0, renamed.epoch), ("Support", 1, 1));
}

async fn a_grant_makes_a_pending_connector_work(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    let pending = new_connector(&org, "acme", Secret::Absent);
    let Created::New(id) = store.create_connector(&pending).await.unwrap() else { panic!("it is new") };
    let before = load(&store, &id).await;
    assert_eq!((before.health, before.epoch, before.credential.version.0), (Health::Pending, 0, 0));

    let granted = store.store_grant(&grant(&id, 1, "granted")).await.unwrap();

    let Granted::Yes(snapshot) = granted else { panic!("{granted:?}") };
    assert_eq!(format!("{snapshot:?}"), format!("{:?}", load(&store, &id).await));
    assert_eq!((snapshot.health, snapshot.epoch, snapshot.credential.version.0), (Health::Connected, 1, 1));
    let view = store.find_connector(&org, id.as_str()).await.unwrap().unwrap();
    assert_eq!(view.identity.unwrap()["name"], "granted");
    let line = &store.timeline(&org, &id, None, 10).await.unwrap().data[0];
    assert_eq!((line.kind.as_str(), line.actor.as_deref()), ("connected", Some("ada@acme.example")));
    let gone = store.store_grant(&grant(&ConnectorId::from("con_0"), 1, "x")).await.unwrap();
    assert!(matches!(gone, Granted::Gone));
}

async fn of_two_grants_the_one_whose_consent_started_last_wins(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (_, id) = connect(&store, "acme").await;
    let (older, newer) = (grant(&id, 1, "older"), grant(&id, 2, "newer"));

    let (one, two) = tokio::join!(store.store_grant(&older), store.store_grant(&newer));

    assert!(matches!(two.unwrap(), Granted::Yes(_)));
    drop(one.unwrap());
    let read = load(&store, &id).await;
    assert_eq!(read.credential.secret.bearer().unwrap().expose_secret(), "access-newer");
    assert!(matches!(store.store_grant(&older).await.unwrap(), Granted::Older));
    assert_eq!(load(&store, &id).await.credential.version, read.credential.version);
}

/// Taken for an older one, it would be revoked.
async fn a_grant_whose_commit_was_not_answered_is_found_to_be_stored(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (_, id) = connect(&store, "acme").await;
    let Granted::Yes(first) = store.store_grant(&grant(&id, 1, "granted")).await.unwrap() else { panic!("it is new") };

    let again = store.store_grant(&grant(&id, 1, "granted")).await.unwrap();

    let Granted::Yes(again) = again else { panic!("{again:?}") };
    assert_eq!(format!("{again:?}"), format!("{first:?}"), "nothing was written twice");
}

async fn a_reconnect_keeps_extras_that_it_does_not_carry(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, id) = connect(&store, "acme").await;
    let before = load(&store, &id).await;
    store.fail(&before.credential.id, &refusal(before.credential.version), None).await.unwrap();
    store.put_extra(&id, "host", &SecretString::from("old")).await.unwrap();

    let granted = store.store_grant(&grant(&id, 1, "again")).await.unwrap();

    let Granted::Yes(snapshot) = granted else { panic!("{granted:?}") };
    assert_eq!((snapshot.health, snapshot.epoch), (Health::Connected, before.epoch + 2));
    let extras = store.extras(&id).await.unwrap();
    let extras: Vec<_> = extras.iter().map(|(name, value)| (name.as_str(), value.expose_secret())).collect();
    assert_eq!(extras, [("host", "host-again"), ("webhook_id", "wh_1")]);
    let line = &store.timeline(&org, &id, None, 10).await.unwrap().data[0];
    assert_eq!((line.kind.as_str(), line.version), ("reconnected", Some(snapshot.credential.version)));
    let effects = store.outbox_rows(&id).await.unwrap();
    assert!(effects.iter().any(|row| row.epoch == snapshot.epoch && row.effect == "mail_recovery"));
}

async fn an_account_is_named_once(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, taken) = connect(&store, "taken").await;
    let nameless = new_connector(&org, "", Secret::Absent);
    let Created::New(id) = store.create_connector(&nameless).await.unwrap() else { panic!("it is new") };

    assert_eq!(store.name_account(&id, "taken", "Taken").await.unwrap(), Created::Exists(taken));
    assert_eq!(store.name_account(&id, "acme", "Acme").await.unwrap(), Created::New(id.clone()));
    assert_eq!(store.name_account(&id, "acme", "Acme").await.unwrap(), Created::New(id.clone()), "it is its own");
    assert_eq!(store.name_account(&id, "globex", "Globex").await.unwrap(), Created::Exists(id.clone()));

    let read = load(&store, &id).await;
    assert_eq!((read.account.as_str(), read.name.as_str()), ("acme", nameless.name.as_str()));
}

async fn start_for(store: &Store, org: &OrgId, connector: &ConnectorId, account: &str) -> Option<i64> {
    let link = u8::try_from(account.len()).unwrap();
    session(store, org, connector, link).await;
    store.start_session(&StartSession { account: Some(account.to_owned()), ..start(link, link) }).await.unwrap()
}

async fn one_that_was_never_connected_is_moved_to_another_account(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, taken) = connect(&store, "taken").await;
    let pending = new_connector(&org, "acmee", Secret::Absent);
    let Created::New(id) = store.create_connector(&pending).await.unwrap() else { panic!("it is new") };
    let stranger = store.ensure_org("Globex").await.unwrap();

    assert_eq!(store.move_unfinished(&org, &id, "taken").await.unwrap(), Moved::Taken(taken.clone()));
    assert_eq!(store.move_unfinished(&stranger, &id, "acme").await.unwrap(), Moved::No);
    assert_eq!(load(&store, &id).await.account, "acmee");
    assert_eq!(store.move_unfinished(&org, &id, "acme").await.unwrap(), Moved::Yes);

    let read = load(&store, &id).await;
    assert_eq!((read.account.as_str(), read.health), ("acme", Health::Pending));
    // A replica that has not heard of it yet starts a consent for the account before.
    assert_eq!(start_for(&store, &org, &id, "acmee").await, None);
    assert_eq!(start_for(&store, &org, &id, "acme").await, Some(2));
    let old = store.store_grant(&grant(&id, 0, "begun for acmee")).await.unwrap();
    assert!(!matches!(old, Granted::Yes(_)), "{old:?}");
    assert!(matches!(store.store_grant(&grant(&id, 2, "begun for acme")).await.unwrap(), Granted::Yes(_)));
    for connected in [&id, &taken] {
        assert_eq!(store.move_unfinished(&org, connected, "other").await.unwrap(), Moved::No);
    }
    assert_eq!(store.move_unfinished(&org, &"con_none".into(), "other").await.unwrap(), Moved::No);
}

async fn another_orgs_connector_is_not_there(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, id) = connect(&store, "acme").await;
    let other = store.ensure_org("Other").await.unwrap();
    assert_eq!(store.ensure_org("Other").await.unwrap(), other);
    assert_eq!(store.find_org("Nobody").await.unwrap(), None);

    assert!(store.find_connector(&other, id.as_str()).await.unwrap().is_none());
    assert_eq!(store.rename_connector(&other, &id, "x").await.unwrap(), Changed::No);
    assert!(store.disconnect(&other, &id, moment(1)).await.unwrap().is_none());
    assert!(store.delete_connector(&other, &id).await.unwrap().is_none());
    assert!(store.timeline(&other, &id, None, 10).await.unwrap().data.is_empty());

    let held = store.delete_connector(&org, &id).await.unwrap().unwrap();
    assert_eq!(held.bearer().unwrap().expose_secret(), "access-first");
    assert!(store.load(&id).await.unwrap().is_none());
    assert_eq!(db.number("SELECT COUNT(*) FROM credentials").await, 0);
}

async fn an_address_is_taken_once_in_an_org(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    let mut user = NewUser {
        org,
        email: "Ada@Acme.example".to_owned(),
        name: None,
        role: Role::Owner,
        operator: true,
        password_hash: None,
        at: moment(0),
    };

    assert!(store.create_user(&user).await.unwrap().is_ok());

    "ada@acme.EXAMPLE".clone_into(&mut user.email);
    assert!(store.create_user(&user).await.unwrap().is_err());
    user.org = store.ensure_org("Other").await.unwrap();
    assert!(store.create_user(&user).await.unwrap().is_ok());
}
