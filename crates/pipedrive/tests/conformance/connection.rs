//! Consent, the exchange, refreshes, and whose access it is.

use std::time::Duration;

use holdfast_core::{
    ErrorKind, Health,
    exchange::Outcome,
    ports::{Clock as _, Trigger},
    refresh::Need,
};
use secrecy::ExposeSecret;

use crate::rig::Rig;

#[tokio::test]
async fn the_identity_is_the_company_and_who_connected_it() {
    let rig = Rig::start().await;

    let identity = rig.api().await.identity().await.unwrap();

    assert_eq!((identity.account_id.as_str(), identity.account_name.as_str()), ("acme", "Acme"));
    assert_eq!(identity.email.as_deref(), Some("ada@acme.example"));
}

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
    assert!(page.contains("Ada Admin"), "{page}");
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
async fn a_grant_that_nobody_used_for_sixty_days_asks_for_a_person() {
    let rig = Rig::start().await;
    let connector = rig.connect().await;
    let told = rig.tokens(&connector).refresh_expires_at.unwrap() - rig.clock.now();
    assert!((59..=60).contains(&told.num_days()), "{told}");
    rig.advance(Duration::from_hours(24 * 61));

    rig.engine.fresh(&connector, &soon(), Trigger::Caller).await.unwrap_err();

    assert_eq!(rig.store.row(&connector).health, Health::AuthFailed);
}

#[tokio::test]
async fn a_grant_is_given_back_by_either_token() {
    let rig = Rig::start().await;
    for by_refresh_token in [true, false] {
        let connector = rig.connect().await;
        let tokens = rig.tokens(&connector);
        let refresh_token = tokens.refresh_token.unwrap();
        assert!(rig.there.is_alive(refresh_token.expose_secret()));

        let token = if by_refresh_token { &refresh_token } else { &tokens.access_token };
        assert!(rig.give_back(token).await);

        assert!(!rig.there.is_alive(refresh_token.expose_secret()));
        assert!(!rig.there.accepts(tokens.access_token.expose_secret()));
    }
}

#[tokio::test]
async fn a_consent_asks_for_no_scopes_which_are_set_on_the_app() {
    let rig = Rig::start().await;
    let url = rig.authorize();
    let names: Vec<String> = url.query_pairs().map(|(name, _)| name.into_owned()).collect();
    assert_eq!(names, ["response_type", "client_id", "redirect_uri", "state"]);
}

#[tokio::test]
async fn a_token_that_is_not_known_is_refused_as_that() {
    let rig = Rig::start().await;

    let refused = rig.api_with("made-up").identity().await.unwrap_err();

    assert_eq!(refused.kind, ErrorKind::AuthFailed);
}
