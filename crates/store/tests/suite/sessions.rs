//! Connect sessions.

use std::sync::Arc;

use holdfast_core::{ConnectorId, OrgId};
use holdfast_store::{NewSession, Purpose, StartSession, Store, Taken, Way};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;

use crate::harness::{TestDatabase, connect, moment, on_both};

on_both! {
    a_state_is_taken_once,
    sequences_grow_over_all_sessions_of_a_connector,
}

pub(crate) async fn session(store: &Store, org: &OrgId, connector: &ConnectorId, link: u8) -> String {
    let new = NewSession {
        org: org.clone(),
        connector: connector.clone(),
        link_hash: [link; 32],
        purpose: Purpose::Reconnect,
        return_url: Some("https://app.example/done".to_owned()),
        way: Way::SignedIn,
        user: Some("user_1".to_owned()),
        at: moment(0),
        expires_at: moment(3600),
        asked_for: true,
    };
    store.create_session(&new).await.unwrap()
}

pub(crate) fn start(link: u8, state: u8) -> StartSession {
    StartSession {
        link_hash: [link; 32],
        state_hash: [state; 32],
        browser_hash: [9; 32],
        app: None,
        verifier: Some(SecretString::from("verifier")),
        account: Some("acme".to_owned()),
        by_key: false,
        at: moment(10),
        state_expires_at: moment(610),
    }
}

async fn a_state_is_taken_once(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, connector) = connect(&store, "acme").await;
    let id = session(&store, &org, &connector, 1).await;
    assert_eq!(store.start_session(&start(1, 20)).await.unwrap(), Some(1));
    assert_eq!(store.start_session(&start(1, 21)).await.unwrap(), Some(2));

    let tries = futures::future::join_all((0..5).map(|_| store.take_state(&[21; 32], moment(20)))).await;

    let mut taken: Vec<_> = tries.into_iter().map(Result::unwrap).collect();
    assert_eq!(taken.iter().filter(|taken| matches!(taken, Taken::Used(None))).count(), 4);
    taken.retain(|taken| matches!(taken, Taken::Yes(_)));
    let Some(Taken::Yes(found)) = taken.pop() else { panic!("one got it") };
    assert_eq!((found.id.as_str(), found.sequence, found.purpose), (id.as_str(), 2, Purpose::Reconnect));
    assert_eq!(found.verifier.as_ref().unwrap().expose_secret(), "verifier");
    assert_eq!(found.browser_hash.as_deref(), Some(&[9; 32][..]));
    assert_eq!(found.return_url.as_deref(), Some("https://app.example/done"));
    assert!(matches!(store.take_state(&[20; 32], moment(20)).await.unwrap(), Taken::Unknown), "it was started again");

    assert_eq!(found.user.as_deref(), Some("user_1"));
    store.note_progress(&found, &json!({"authorised": true})).await.unwrap();
    store.finish_session(&found, &json!({"connected": true})).await.unwrap();
    let used = store.take_state(&[21; 32], moment(30)).await.unwrap();
    assert!(matches!(&used, Taken::Used(Some(result)) if result["connected"] == true), "{used:?}");
    let finished = store.find_session_by_link(&[1; 32]).await.unwrap().unwrap();
    assert!(finished.verifier.is_none() && finished.result.is_some());
    assert_eq!(finished.progress, Some(json!({"authorised": true})));
    assert_eq!(store.start_session(&start(1, 22)).await.unwrap(), Some(3), "a consent that failed can be tried again");
    let anew = store.find_session_by_id(&id).await.unwrap().unwrap();
    assert_eq!((anew.progress, anew.result), (None, None));
    store.finish_session(&found, &json!({"connected": true})).await.unwrap();
    let anew = store.find_session_by_id(&id).await.unwrap().unwrap();
    assert_eq!(anew.result, None, "what was started before has nothing to say any more");
    let again = store.find_session_by_state(&[22; 32]).await.unwrap().unwrap();
    assert_eq!((again.id, again.sequence), (id, 3));
}

async fn sequences_grow_over_all_sessions_of_a_connector(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, connector) = connect(&store, "acme").await;
    session(&store, &org, &connector, 1).await;
    session(&store, &org, &connector, 2).await;

    assert_eq!(store.start_session(&start(2, 30)).await.unwrap(), Some(1));
    assert_eq!(store.start_session(&start(1, 31)).await.unwrap(), Some(2));

    assert!(matches!(store.take_state(&[30; 32], moment(611)).await.unwrap(), Taken::Expired));
    let mut late = start(1, 32);
    late.at = moment(3601);
    assert_eq!(store.start_session(&late).await.unwrap(), None, "the link is over");
    assert_eq!(store.start_session(&start(3, 33)).await.unwrap(), None, "there is no such link");
    assert!(store.find_session_by_link(&[3; 32]).await.unwrap().is_none());
}
