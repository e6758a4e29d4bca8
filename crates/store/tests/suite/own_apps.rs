//! OAuth apps of single orgs, and what was connected with them.

use std::{sync::Arc, time::Duration};

use holdfast_core::{
    AppId, ConnectorId, OrgId, Secret,
    credential::Trouble,
    ports::{Changed, ClaimDue, CredentialStore as _, DueStore as _, Signal, Signals as _, Stored},
};
use holdfast_store::{AppSecret, AppUse, Created, Grant, GrantClaim, GrantClaimed, Granted, Rival, Store, StoredApp};
use secrecy::{ExposeSecret as _, SecretString};

use crate::{
    grants::grant,
    harness::{TestDatabase, connect, exchange, lease, load, moment, new_connector, on_both, refusal, rotation},
    people::stored,
    signals::{heard, running},
};

on_both! {
    an_own_app_is_written_over_the_revision_that_was_read_and_told_of,
    an_own_app_opens_for_its_org_and_in_its_place_alone,
    a_credential_keeps_the_app_of_its_grant,
    what_is_due_of_an_own_app_is_found_and_claimed_apart,
    verdicts_are_held_and_waiting_is_counted_for_each_app_apart,
    another_orgs_connector_is_a_rival_only_with_the_same_client,
}

const ZENDESK: &str = "zendesk";

fn own(org: &OrgId, revision: i64, current: &str, next: Option<&str>) -> StoredApp {
    let secret = |text: &str| AppSecret { secret: Some(SecretString::from(text)), set_at: moment(1), checked_at: None };
    StoredApp {
        org: Some(org.clone()),
        provider: ZENDESK.to_owned(),
        client_id: "own-client".to_owned(),
        secret: Some(secret(current)),
        next_secret: next.map(secret),
        secret_expires_at: None,
        revision,
        changed_by: None,
        changed_at: moment(2),
    }
}

/// Revision and secrets; `sealed`: it does not open.
async fn read(store: &Store, org: Option<&OrgId>) -> Option<(i64, Option<String>, Option<String>)> {
    let found = store.find_oauth_app(org, ZENDESK).await.unwrap()?;
    let open = |one: AppSecret| one.secret.map_or("sealed".to_owned(), |text| text.expose_secret().to_owned());
    let plain = |secret: Option<AppSecret>| secret.map(open);
    Some((found.revision, plain(found.secret), plain(found.next_secret)))
}

/// A connector whose grant was given to this app, due at 8000.
async fn connected(store: &Store, org: &OrgId, account: &str, app: &AppId) -> ConnectorId {
    let made = store.create_connector(&new_connector(org, account, Secret::Absent)).await.unwrap();
    let Created::New(id) = made else { panic!("it is new: {made:?}") };
    let granted = store.store_grant(&Grant { app: app.clone(), ..grant(&id, 1, account) }).await.unwrap();
    assert!(matches!(granted, Granted::Yes(_)), "{granted:?}");
    id
}

async fn an_own_app_is_written_over_the_revision_that_was_read_and_told_of(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, other) = (store.ensure_org("Acme").await.unwrap(), store.ensure_org("Globex").await.unwrap());
    let _running = running(&store).await;
    let mut signals = store.subscribe();

    assert_eq!(store.save_oauth_app(&own(&org, 0, "first", None)).await.unwrap(), Changed::Yes);
    heard(&mut signals, &Signal::OAuthApp(ZENDESK.to_owned())).await;
    assert_eq!(store.save_oauth_app(&own(&org, 0, "another", None)).await.unwrap(), Changed::No, "it is there already");
    assert_eq!(store.save_oauth_app(&own(&other, 1, "theirs", None)).await.unwrap(), Changed::No, "theirs is not");
    assert_eq!(store.save_oauth_app(&own(&org, 1, "first", Some("second"))).await.unwrap(), Changed::Yes);
    assert_eq!(store.save_oauth_app(&own(&org, 1, "late", None)).await.unwrap(), Changed::No);

    assert_eq!(read(&store, Some(&org)).await, Some((2, Some("first".to_owned()), Some("second".to_owned()))));
    assert_eq!((read(&store, Some(&other)).await, read(&store, None).await), (None, None));
    assert_eq!((store.own_oauth_apps().await.unwrap().len(), store.oauth_apps().await.unwrap().len()), (1, 0));
    for (of, revision) in [(Some(&org), 1), (Some(&other), 2), (None, 2)] {
        assert_eq!(store.remove_oauth_app(of, ZENDESK, revision).await.unwrap(), Changed::No);
    }
    assert_eq!(store.remove_oauth_app(Some(&org), ZENDESK, 2).await.unwrap(), Changed::Yes);
    assert_eq!(read(&store, Some(&org)).await, None);
}

async fn an_own_app_opens_for_its_org_and_in_its_place_alone(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, other) = (store.ensure_org("Acme").await.unwrap(), store.ensure_org("Globex").await.unwrap());
    store.save_oauth_app(&own(&org, 0, "ours", Some("ours-next"))).await.unwrap();
    store.save_oauth_app(&own(&other, 0, "theirs", None)).await.unwrap();
    store.save_oauth_app(&StoredApp { org: None, ..own(&org, 0, "everybodys", None) }).await.unwrap();

    let moved = format!("(SELECT sealed_secret FROM own_oauth_apps WHERE org_id = '{org}')");
    db.execute(&format!("UPDATE own_oauth_apps SET sealed_secret = {moved} WHERE org_id = '{other}'")).await;
    db.execute(&format!("UPDATE oauth_apps SET sealed_secret = {moved}")).await;
    assert_eq!(read(&store, Some(&other)).await, Some((1, Some("sealed".to_owned()), None)));
    assert_eq!(read(&store, None).await, Some((1, Some("sealed".to_owned()), None)));
    db.execute(&format!("UPDATE own_oauth_apps SET sealed_next_secret = sealed_secret WHERE org_id = '{org}'")).await;

    assert_eq!(read(&store, Some(&org)).await, Some((1, Some("ours".to_owned()), Some("sealed".to_owned()))));
    let unreadable = store.find_oauth_app(Some(&org), ZENDESK).await.unwrap().unwrap();
    assert!(store.save_oauth_app(&unreadable).await.is_err(), "it is not thrown away either");
}

async fn a_credential_keeps_the_app_of_its_grant(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, first) = connect(&store, "acme").await;
    let other = store.ensure_org("Globex").await.unwrap();
    let (instance, own) = (AppId::instance(ZENDESK), AppId::own(ZENDESK, org.clone(), "own:client"));
    assert_eq!(load(&store, &first).await.credential.app, instance);

    let id = connected(&store, &org, "own", &own).await;

    let before = load(&store, &id).await;
    assert_eq!(before.credential.app, own);
    let held = lease(&store, &before, "one").await;
    let begun = exchange(&before, &held, "a");
    store.begin(&begun).await.unwrap();
    let rotated = store.store_rotation(&begun, &rotation("second")).await.unwrap();
    let Stored::Yes(rotated) = rotated else { panic!("{rotated:?}") };
    assert_eq!((&rotated.credential.app, rotated.provider.as_str()), (&own, ZENDESK));
    assert_eq!(load(&store, &id).await.credential.app, own);
    store.store_grant(&grant(&id, 2, "instance's")).await.unwrap();
    assert_eq!(load(&store, &id).await.credential.app, instance, "reconnected with another one");

    // One of another org makes no sense, and is used by nobody.
    let foreign = AppId::own(ZENDESK, other, "own:client");
    db.execute(&format!("UPDATE credentials SET provider = '{foreign}' WHERE id = '{}'", before.credential.id)).await;
    assert!(store.load(&id).await.is_err());
}

async fn what_is_due_of_an_own_app_is_found_and_claimed_apart(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, other) = (store.ensure_org("Acme").await.unwrap(), store.ensure_org("Globex").await.unwrap());
    let apps = [
        AppId::instance(ZENDESK),
        AppId::own(ZENDESK, org.clone(), "client"),
        AppId::own(ZENDESK, other.clone(), "client"),
        AppId::own(ZENDESK, org.clone(), "before"),
    ];
    let mut made = Vec::new();
    for (number, app) in apps.iter().enumerate() {
        let of = app.org().unwrap_or(&org);
        made.push(connected(&store, of, &format!("desk-{number}"), app).await);
    }

    let mut first = store.first_due(&[ZENDESK], moment(8001)).await.unwrap();

    first.sort();
    let mut expected: Vec<_> = apps.iter().map(|app| (app.clone(), stored(8000))).collect();
    expected.sort();
    assert_eq!(first, expected);
    assert_eq!(store.first_due(&["google"], moment(8001)).await.unwrap(), []);
    let counts = store.due_counts(&[ZENDESK], moment(8001), moment(0)).await.unwrap();
    assert_eq!((counts.len(), counts[0].due, counts[0].overdue), (1, 4, 0));
    for (app, id) in apps.iter().zip(&made) {
        let ttl = Duration::from_mins(1);
        let wish = ClaimDue { app, now: moment(8001), holder: "one", ttl, limit: 10 };
        let claimed: Vec<_> = store.claim_due(&wish).await.unwrap().into_iter().map(|due| due.connector).collect();
        assert_eq!(claimed, std::slice::from_ref(id), "{app}");
    }
    assert_eq!(store.first_due(&[ZENDESK], moment(8001)).await.unwrap(), []);
}

async fn verdicts_are_held_and_waiting_is_counted_for_each_app_apart(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let org = store.ensure_org("Acme").await.unwrap();
    let (instance, own) = (AppId::instance(ZENDESK), AppId::own(ZENDESK, org.clone(), "client"));
    let with_instance = connected(&store, &org, "one", &instance).await;
    let with_own = connected(&store, &org, "two", &own).await;
    for id in [&with_instance, &with_own] {
        let credential = load(&store, id).await.credential;
        store.fail(&credential.id, &refusal(credential.version), None).await.unwrap();
    }

    assert_eq!(store.begin_incident(&own, moment(600), moment(0)).await.unwrap(), Changed::Yes);
    let withdrawn = store.withdraw(&own, moment(0), moment(700), moment(600)).await.unwrap();

    assert_eq!(withdrawn, std::slice::from_ref(&with_own));
    assert_eq!(store.incident(&own).await.unwrap().unwrap().held, 1);
    assert!(store.incident(&instance).await.unwrap().is_none());
    store.note_recovered(&instance).await.unwrap();
    assert_eq!(store.end_incident(&instance, moment(601)).await.unwrap(), Changed::No);
    assert_eq!(store.incident(&own).await.unwrap().unwrap().recovered, 0);

    let refused = Trouble::AppBroken.as_str();
    db.execute(&format!("UPDATE credentials SET degraded_class = '{refused}'")).await;
    let of = |app: &AppId| AppUse { app: app.clone(), held: 1, waiting: 1 };
    assert_eq!(store.apps_in_use(Some(&org), ZENDESK).await.unwrap(), [of(&instance), of(&own)]);
    let other = store.ensure_org("Globex").await.unwrap();
    assert_eq!(store.apps_in_use(Some(&other), ZENDESK).await.unwrap(), []);
    assert_eq!(store.retry_refused_app(&own, moment(650)).await.unwrap(), 1);
    assert_eq!(load(&store, &with_own).await.credential.due_at, Some(stored(650)));
    assert_eq!(load(&store, &with_instance).await.credential.due_at, Some(stored(8000)));
}

async fn another_orgs_connector_is_a_rival_only_with_the_same_client(db: Arc<TestDatabase>) {
    let store = db.store().await;
    let (org, other) = (store.ensure_org("Acme").await.unwrap(), store.ensure_org("Globex").await.unwrap());
    let theirs = connected(&store, &other, "shop", &AppId::own(ZENDESK, other.clone(), "client")).await;
    let made = store.create_connector(&new_connector(&org, "shop", Secret::Absent)).await.unwrap();
    let Created::New(ours) = made else { panic!("it is new: {made:?}") };

    let rival = async |app: AppId| {
        let claim = GrantClaim {
            consent: "consent-1".to_owned(),
            sequence: 1,
            connector: ours.clone(),
            provider: ZENDESK.to_owned(),
            account: "shop".to_owned(),
            app,
            alone: true,
        };
        store.claim_grant(&claim, moment(700)).await.unwrap()
    };

    assert_eq!(rival(AppId::instance(ZENDESK)).await, GrantClaimed::Yes);
    assert_eq!(rival(AppId::own(ZENDESK, org.clone(), "ours")).await, GrantClaimed::Yes);
    let same = rival(AppId::own(ZENDESK, org.clone(), "client")).await;
    assert!(
        matches!(&same, GrantClaimed::Held(Rival { connector, org, .. }) if *connector == theirs && *org == other),
        "{same:?}"
    );
}
