@if oauth@
//! Consent, the exchange, refreshes, and whose access it is.
@end@
@if key@
//! The key: whose it is, and what becomes of it.
@end@

@if oauth@
use std::time::Duration;

use holdfast_core::{ErrorKind, Health, exchange::Outcome, ports::Trigger, refresh::Need};
use secrecy::ExposeSecret;

@end@
@if key@
use holdfast_core::{ErrorKind, Health};
use serde_json::json;

@end@
use crate::rig::Rig;

#[tokio::test]
async fn the_identity_is_the_workspace_and_who_connected_it() {
    let rig = Rig::start().await;

@if oauth@
    let identity = rig.api().await.identity().await.unwrap();
@end@
@if key@
    let identity = rig.api().identity().await.unwrap();
@end@

    assert_eq!((identity.account_id.as_str(), identity.account_name.as_str()), ("acme", "Acme"));
    assert_eq!(identity.email.as_deref(), Some("ada@acme.example"));
}
@if oauth@

fn soon() -> Need {
    Need::ValidFor(Duration::from_mins(1))
}

#[tokio::test]
async fn a_consent_brings_a_code_that_works_once_and_may_be_denied() {
    let rig = Rig::start().await;
    let url = rig.authorize();
    assert!(rig.sandbox.deny(url.as_str()).unwrap().contains("error=access_denied"));

    let back = rig.sandbox.consent(url.as_str(), "ada").unwrap();
    assert!(matches!(rig.exchange(&back).await, Outcome::Rotated(_)));
    assert!(!matches!(rig.exchange(&back).await, Outcome::Rotated(_)), "it is spent");

    let page = reqwest::get(url).await.unwrap().text().await.unwrap();
    assert!(page.contains("Ada Admin") && page.contains("contacts:read"), "{page}");
}

#[tokio::test]
async fn an_access_token_that_ended_is_renewed_and_the_new_refresh_token_is_stored() {
    let rig = Rig::start().await;
    let connector = rig.connect().await;
    let refresh_token = || rig.tokens(&connector).refresh_token.unwrap().expose_secret().to_owned();
    let first = refresh_token();
    for _ in 0..3 {
        rig.advance(Duration::from_mins(70));
        let fresh = rig.engine.fresh(&connector, &soon(), Trigger::Caller).await.unwrap();
        assert!(rig.there.accepts(fresh.credential.secret.bearer().unwrap().expose_secret()));
        assert!(rig.there.is_alive(&refresh_token()));
    }
    assert_ne!(refresh_token(), first);
    assert!(!rig.there.is_alive(&first), "it worked once");
    assert_eq!(rig.store.row(&connector).health, Health::Connected);
}

#[tokio::test]
async fn a_grant_that_was_taken_back_asks_for_a_person() {
    let rig = Rig::start().await;
    let connector = rig.connect().await;
    rig.there.revoke("ada");
    rig.advance(Duration::from_mins(70));

    rig.engine.fresh(&connector, &soon(), Trigger::Caller).await.unwrap_err();

    assert_eq!(rig.store.row(&connector).health, Health::AuthFailed);
}

#[tokio::test]
async fn a_token_that_is_not_known_is_refused_as_that() {
    let rig = Rig::start().await;

    let refused = rig.api_with("made-up").identity().await.unwrap_err();

    assert_eq!(refused.kind, ErrorKind::AuthFailed);
}
@end@
@if key@

#[tokio::test]
async fn a_key_that_was_replaced_asks_for_a_person() {
    let rig = Rig::start().await;
    let connector = rig.connect();
    let api = rig.api_of(&connector);
    rig.there.reset_key("ada");

    let refused = rig.call(&api, "find_contact", json!({"email": "mira@example.com"})).await.unwrap_err();

    assert_eq!(refused.kind, ErrorKind::AuthFailed);
    assert_eq!(rig.store.row(&connector).health, Health::AuthFailed);
}

#[tokio::test]
async fn a_key_that_is_not_known_is_refused_as_that() {
    let rig = Rig::start().await;

    let refused = rig.api_with("made-up").identity().await.unwrap_err();

    assert_eq!(refused.kind, ErrorKind::AuthFailed);
}
@end@
