//! People, their browsers' sessions, what slows down guessing, and the instance's OAuth apps.

use std::sync::Arc;

use chrono::{DateTime, SubsecRound as _, TimeDelta, Utc};
use holdfast_core::{
    OrgId, Role,
    ports::{Changed, Signal, Signals as _},
};
use holdfast_store::{AppSecret, FirstUser, NewBrowserSession, NewUser, Store, StoredApp, Throttle};
use secrecy::{ExposeSecret as _, SecretString};

use crate::{
    harness::{TestDatabase, moment, on_both},
    signals::{heard, running},
};

on_both! {
    of_two_who_count_the_same_attempt_one_does,
    the_first_person_spends_the_secret_once,
    a_session_switches_only_to_whom_it_still_proves,
    an_app_is_written_over_the_revision_that_was_read_and_told_of,
}

const HASH: &str = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$aGFzaA";

/// A moment as it is kept: to the microsecond.
pub(crate) fn stored(at: i64) -> DateTime<Utc> {
    moment(at).trunc_subsecs(6)
}

async fn person(store: &Store, org: &OrgId) -> String {
    let user = NewUser {
        org: org.clone(),
        email: " Ada@Example.com ".to_owned(),
        name: None,
        role: Role::Member,
        operator: false,
        password_hash: Some(SecretString::from(HASH)),
        at: moment(0),
    };
    store.create_user(&user).await.unwrap().unwrap()
}

async fn of_two_who_count_the_same_attempt_one_does(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let subject = [7; 32];
    let count = async |seen: Option<Throttle>, at: i64| {
        store.count_attempt(&subject, seen.as_ref(), moment(at), moment(at) - TimeDelta::hours(1)).await.unwrap()
    };

    assert_eq!((count(None, 0).await, count(None, 0).await), (Changed::Yes, Changed::No));
    let seen = store.find_throttle(&subject).await.unwrap();
    assert_eq!(seen, Some(Throttle { failures: 1, last_at: stored(0) }));
    assert_eq!((count(seen, 1).await, count(seen, 2).await), (Changed::Yes, Changed::No));
    store.uncount_attempt(&subject).await.unwrap();
    let seen = store.find_throttle(&subject).await.unwrap();
    assert_eq!(seen, Some(Throttle { failures: 1, last_at: stored(1) }), "those before it still count");

    // An hour later it begins anew, and what others left behind is cleared away.
    assert_eq!(count(seen, 4000).await, Changed::Yes);
    let seen = store.find_throttle(&subject).await.unwrap();
    assert_eq!(seen, Some(Throttle { failures: 1, last_at: stored(4000) }));
    store.forget_failures(&subject).await.unwrap();
    assert_eq!(store.find_throttle(&subject).await.unwrap(), None);
}

async fn the_first_person_spends_the_secret_once(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let first = |org: &str| FirstUser {
        secret: "setup".to_owned(),
        org: org.to_owned(),
        email: "Ada@Example.com".to_owned(),
        name: "Ada".to_owned(),
        password_hash: SecretString::from(HASH),
        at: moment(0),
    };
    assert_eq!(store.create_first_user(&first("Acme")).await.unwrap(), None, "nobody has made the secret");
    let secret = store.instance_secret("setup").await.unwrap();
    assert_eq!(db.replica("two").await.instance_secret("setup").await.unwrap(), secret, "all replicas have one");

    let at_once = (0..4).map(|number| {
        let (store, first) = (store.clone(), first(&format!("Org {number}")));
        tokio::spawn(async move { store.create_first_user(&first).await.unwrap() })
    });
    let made = futures::future::join_all(at_once.collect::<Vec<_>>()).await;

    let made: Vec<_> = made.into_iter().filter_map(Result::unwrap).collect();
    assert_eq!(made.len(), 1, "{made:?}");
    let user = store.find_user(&made[0]).await.unwrap().unwrap();
    assert_eq!((user.email.as_str(), user.role, user.operator), ("ada@example.com", Role::Owner, true));
    assert_eq!(store.orgs().await.unwrap().len(), 1, "the others have left nothing behind");
    assert_eq!(store.find_instance_secret("setup").await.unwrap(), None);
}

async fn a_session_switches_only_to_whom_it_still_proves(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let mut people = Vec::new();
    for org in ["Acme", "Globex", "Initech"] {
        people.push(person(&store, &store.ensure_org(org).await.unwrap()).await);
    }
    let (here, there, stranger) = (&people[0], &people[1], &people[2]);
    let session = NewBrowserSession {
        by_provider: false,
        user: here.clone(),
        also: vec![there.clone()],
        token_hash: [1; 32],
        browser: None,
        at: moment(0),
        expires_at: moment(0) + TimeDelta::days(30),
    };
    let id = store.create_browser_session(&session).await.unwrap();
    let switch = async |from: &str, to: &str, token: u8| {
        store.switch_browser_session(&id, from, to, &[token; 32]).await.unwrap()
    };
    let of_cookie = async |token: u8| {
        let found = store.find_browser_session(&[token; 32], moment(1), moment(-1)).await.unwrap();
        found.map(|(session, user)| (session.also, user.id))
    };

    assert_eq!(switch(here, stranger, 2).await, Changed::No);
    assert_eq!(switch(there, here, 2).await, Changed::No, "it acts as somebody else");
    assert_eq!(switch(here, there, 2).await, Changed::Yes);
    assert_eq!(of_cookie(1).await, None, "the cookie before is over");
    assert_eq!(of_cookie(2).await, Some((vec![here.clone()], there.clone())));
    assert_eq!(store.browser_sessions(here, moment(-1)).await.unwrap().len(), 1, "it can act as both");

    store.set_password(&[here.as_str()], &SecretString::from(HASH), None, None).await.unwrap();
    assert_eq!(switch(there, here, 3).await, Changed::No, "the password that it proved has changed");
    assert_eq!(of_cookie(2).await, Some((vec![], there.clone())));
    store.set_password(&[there.as_str()], &SecretString::from(HASH), Some(&id), None).await.unwrap();
    assert!(of_cookie(2).await.is_some(), "the one that changed it goes on");
    store.set_password(&[there.as_str()], &SecretString::from(HASH), None, None).await.unwrap();
    assert_eq!(of_cookie(2).await, None);
}

async fn an_app_is_written_over_the_revision_that_was_read_and_told_of(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let _running = running(&store).await;
    let mut signals = store.subscribe();
    let secret = |text: &str| AppSecret { secret: Some(SecretString::from(text)), set_at: moment(1), checked_at: None };
    let app = |revision: i64, current: &str, next: Option<&str>| StoredApp {
        org: None,
        provider: "zendesk".to_owned(),
        client_id: "client".to_owned(),
        secret: Some(secret(current)),
        next_secret: next.map(secret),
        secret_expires_at: Some(moment(99)),
        revision,
        changed_by: Some("ada".to_owned()),
        changed_at: moment(2),
    };
    let opened = |app: &StoredApp| {
        let plain = |secret: &Option<AppSecret>| {
            secret.as_ref().map(|secret| secret.secret.as_ref().map(|text| text.expose_secret().to_owned()))
        };
        (app.revision, plain(&app.secret), plain(&app.next_secret))
    };
    let text = |text: &str| Some(Some(text.to_owned()));

    assert_eq!(store.save_oauth_app(&app(0, "first", None)).await.unwrap(), Changed::Yes);
    heard(&mut signals, &Signal::OAuthApp("zendesk".to_owned())).await;
    assert_eq!(store.save_oauth_app(&app(0, "another", None)).await.unwrap(), Changed::No, "it is there already");
    let found = store.find_oauth_app(None, "zendesk").await.unwrap().unwrap();
    assert_eq!(opened(&found), (1, text("first"), None));
    assert_eq!(store.save_oauth_app(&app(1, "first", Some("second"))).await.unwrap(), Changed::Yes);
    assert_eq!(store.save_oauth_app(&app(1, "late", None)).await.unwrap(), Changed::No);
    let found = store.oauth_apps().await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(opened(&found[0]), (2, text("first"), text("second")));
    assert_eq!(found[0].secret_expires_at, Some(stored(99)));

    // Sealed for its place: in another one it does not open, and is not thrown away either.
    db.execute("UPDATE oauth_apps SET sealed_secret = sealed_next_secret").await;
    let moved = store.find_oauth_app(None, "zendesk").await.unwrap().unwrap();
    assert_eq!(opened(&moved), (2, Some(None), text("second")));
    assert!(store.save_oauth_app(&moved).await.is_err());

    assert_eq!(store.remove_oauth_app(None, "zendesk", 1).await.unwrap(), Changed::No);
    assert_eq!(store.remove_oauth_app(None, "zendesk", 2).await.unwrap(), Changed::Yes);
    assert!(store.find_oauth_app(None, "zendesk").await.unwrap().is_none());
}
