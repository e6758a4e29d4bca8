//! Grants of which a provider keeps one per account: claimed before they are made.

use std::sync::Arc;

use holdfast_core::{AppId, ConnectorId, OrgId, Secret, ports::CredentialStore as _};
use holdfast_store::{Created, GrantClaim, GrantClaimed, Granted, Rival, Store};

use crate::{
    grants::grant,
    harness::{TestDatabase, connect, load, moment, new_connector, on_both, tokens},
};

on_both! {
    what_another_grant_would_end_is_named_before_it_is_made,
    of_many_claims_for_an_account_one_holds,
    a_claim_ends_with_its_grant_and_with_its_time,
    a_consent_waits_for_an_earlier_one_of_its_connector_and_not_for_long,
    what_a_consent_brought_is_not_stored_once_another_has_its_claim,
    an_import_and_a_consent_do_not_both_get_an_account,
}

fn claim(connector: &ConnectorId, account: &str, sequence: i64) -> GrantClaim {
    GrantClaim {
        consent: format!("{connector}-{sequence}"),
        sequence,
        connector: connector.clone(),
        provider: "zendesk".to_owned(),
        account: account.to_owned(),
        app: AppId::instance("zendesk"),
        alone: true,
    }
}

/// Not connected yet; of an org of this name.
async fn pending(store: &Store, org: &str, account: &str) -> ConnectorId {
    let org = store.ensure_org(org).await.unwrap();
    match store.create_connector(&new_connector(&org, account, Secret::Absent)).await.unwrap() {
        Created::New(id) => id,
        other => panic!("it is new: {other:?}"),
    }
}

async fn what_another_grant_would_end_is_named_before_it_is_made(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, first) = connect(&store, "acme").await;
    let nameless = pending(&store, "Acme", "").await;
    let elsewhere = pending(&store, "Globex", "acme").await;
    let ask = async |id: &ConnectorId, account: &str, sequence| {
        store.claim_grant(&claim(id, account, sequence), moment(0)).await.unwrap()
    };
    let held = |claimed: GrantClaimed, by: &ConnectorId, of: &OrgId| matches!(claimed, GrantClaimed::Held(Rival { connector, org, .. }) if connector == *by && org == *of);

    assert_eq!(ask(&first, "acme", 1).await, GrantClaimed::Yes, "its own is no rival");
    for id in [&nameless, &elsewhere] {
        assert!(held(ask(id, "acme", 1).await, &first, &org));
        assert_eq!(ask(id, &format!("another of {id}"), 1).await, GrantClaimed::Yes);
    }

    // Of another org only what works counts; the org's own counts always.
    assert!(matches!(
        store.store_claimed(&grant(&first, 1, "x"), Some(&claim(&first, "acme", 1))).await.unwrap(),
        Granted::Yes(_)
    ));
    store.disconnect(&org, &first, moment(600)).await.unwrap();
    assert!(held(ask(&nameless, "acme", 2).await, &first, &org));
    assert_eq!(ask(&elsewhere, "acme", 7).await, GrantClaimed::Yes);

    // A consent that was started later is stored already.
    let late = store.store_claimed(&grant(&elsewhere, 7, "late"), Some(&claim(&elsewhere, "acme", 7))).await.unwrap();
    assert!(matches!(late, Granted::Yes(_)));
    assert_eq!(ask(&elsewhere, "acme", 6).await, GrantClaimed::Later);
    assert_eq!(ask(&elsewhere, "acme", 8).await, GrantClaimed::Yes);
}

async fn of_many_claims_for_an_account_one_holds(db: Arc<TestDatabase>) {
    let stores = [db.store().await, db.replica("two").await];
    let mut claims = Vec::new();
    for number in 0..8 {
        claims.push(claim(&pending(&stores[0], &format!("Org {number}"), "acme").await, "acme", 1));
    }

    let tries = claims.iter().enumerate().map(|(n, claim)| stores[n % 2].claim_grant(claim, moment(0)));
    let claimed: Vec<_> = futures::future::join_all(tries).await.into_iter().map(Result::unwrap).collect();

    assert_eq!(claimed.iter().filter(|claimed| **claimed == GrantClaimed::Yes).count(), 1, "{claimed:?}");
    assert_eq!(claimed.iter().filter(|claimed| **claimed == GrantClaimed::UnderWay).count(), 7, "{claimed:?}");
    for (claim, before) in claims.iter().zip(claimed) {
        assert_eq!(stores[1].claim_grant(claim, moment(60)).await.unwrap(), before, "asked again, it is the same");
    }
}

async fn a_claim_ends_with_its_grant_and_with_its_time(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (one, two) = (pending(&store, "Acme", "acme").await, pending(&store, "Globex", "acme").await);
    let (first, second) = (claim(&one, "acme", 1), claim(&two, "acme", 1));
    assert_eq!(store.claim_grant(&first, moment(0)).await.unwrap(), GrantClaimed::Yes);

    assert_eq!(store.claim_grant(&second, moment(899)).await.unwrap(), GrantClaimed::UnderWay);
    assert_eq!(store.claim_grant(&second, moment(901)).await.unwrap(), GrantClaimed::Yes, "a crash left the first");
    assert_eq!(db.number("SELECT COUNT(*) FROM grant_claims").await, 1);

    let stored = store.store_claimed(&grant(&two, 1, "second"), Some(&second)).await.unwrap();
    assert!(matches!(stored, Granted::Yes(_)));
    assert_eq!(db.number("SELECT COUNT(*) FROM grant_claims").await, 0);
    assert!(matches!(store.claim_grant(&first, moment(902)).await.unwrap(), GrantClaimed::Held(_)));
}

async fn a_consent_waits_for_an_earlier_one_of_its_connector_and_not_for_long(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let id = pending(&store, "Acme", "acme").await;
    let ask = async |sequence, secs| store.claim_grant(&claim(&id, "acme", sequence), moment(secs)).await.unwrap();
    assert_eq!(ask(2, 0).await, GrantClaimed::Yes);

    assert_eq!(ask(3, 9).await, GrantClaimed::UnderWay);
    assert_eq!(ask(1, 11).await, GrantClaimed::UnderWay, "an earlier one would end the later one's grant");
    assert_eq!(ask(3, 11).await, GrantClaimed::Yes);
    assert_eq!(ask(2, 12).await, GrantClaimed::UnderWay, "its claim is gone");
    let older = store.store_claimed(&grant(&id, 2, "older"), Some(&claim(&id, "acme", 2))).await.unwrap();
    assert!(matches!(older, Granted::UnderWay), "{older:?}");
    assert!(store.load(&id).await.unwrap().unwrap().credential.secret.bearer().is_none());
}

async fn what_a_consent_brought_is_not_stored_once_another_has_its_claim(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (one, two) = (pending(&store, "Acme", "acme").await, pending(&store, "Globex", "acme").await);
    let (first, second) = (claim(&one, "acme", 1), claim(&two, "acme", 1));
    assert_eq!(store.claim_grant(&first, moment(0)).await.unwrap(), GrantClaimed::Yes);
    assert_eq!(store.claim_grant(&second, moment(1000)).await.unwrap(), GrantClaimed::Yes);
    let late = holdfast_store::Grant { at: moment(1001), ..grant(&one, 1, "first") };

    let under_way = store.store_claimed(&late, Some(&first)).await.unwrap();
    assert!(matches!(under_way, Granted::UnderWay), "{under_way:?}");
    let stored = store.store_claimed(&grant(&two, 1, "second"), Some(&second)).await.unwrap();
    assert!(matches!(stored, Granted::Yes(_)));
    let held = store.store_claimed(&late, Some(&first)).await.unwrap();

    assert!(matches!(held, Granted::Held(Rival { connector, .. }) if connector == two));
    assert!(load(&store, &one).await.credential.secret.bearer().is_none());
}

async fn an_import_and_a_consent_do_not_both_get_an_account(db: Arc<TestDatabase>) {
    let (one, two) = (db.store().await, db.replica("two").await);
    let globex = one.ensure_org("Globex").await.unwrap();
    for round in 0..6 {
        let account = format!("acme{round}");
        let id = pending(&one, "Acme", &account).await;
        let consent = claim(&id, &account, 1);
        let import = new_connector(&globex, &account, Secret::Tokens(tokens("imported")));

        let (claimed, imported) =
            tokio::join!(one.claim_grant(&consent, moment(0)), two.create_connector_alone(&import));

        let (claimed, imported) = (claimed.unwrap(), imported.unwrap());
        assert_eq!(claimed == GrantClaimed::Yes, imported.is_none(), "{claimed:?} {imported:?}");
        let again = two.create_connector_alone(&import).await.unwrap();
        match imported {
            None => assert_eq!(again, None, "the consent is at it"),
            Some(Created::New(made)) => assert_eq!(again, Some(Created::Exists(made)), "repeated, it is the same"),
            Some(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(db.number("SELECT COUNT(*) FROM connectors").await, db.number("SELECT COUNT(*) FROM credentials").await);
}
