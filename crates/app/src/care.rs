//! What people and keys do to a connector: test, disconnect, delete. One place for API and command line.

use std::{sync::Arc, time::Duration};

use holdfast_core::{Identity, Secret, Snapshot, provider::Auth};
use holdfast_store::Entry;
use serde_json::{Value, json};
use tracing::info;

use crate::{api::TestBody, app::App, problem::Problem};

/// Whether people can call something this: 1 to 100 characters, on one line.
pub(crate) fn is_name(text: &str) -> bool {
    (1..=100).contains(&text.chars().count()) && !text.chars().any(char::is_control)
}

/// Tests it, keeps who the provider says it is, and writes the timeline.
pub(crate) async fn test(app: &Arc<App>, known: &Snapshot, actor: &str) -> Result<TestBody, Problem> {
    let report = app.engine.test(&known.connector).await?;
    if let Ok(identity) = &report.identity {
        app.store.set_identity(&known.connector, &identity_json(identity)).await?;
    }
    let error = report.identity.as_ref().err().map(|error| error.message.clone());
    let mut entry = entry(app, known, "test", actor);
    entry.outcome = Some(if error.is_none() { "passed" } else { "failed" }.to_owned());
    entry.detail = error;
    entry.duration = Some(report.latency);
    entry.version = Some(report.snapshot.credential.version);
    app.store.add_timeline(&entry).await?;
    app.changed(&known.connector);
    Ok(TestBody::new(&report, app.providers()))
}

/// Who the provider says the credential speaks for, as it is kept: on one line each, and no longer than a page shows.
pub(crate) fn identity_json(identity: &Identity) -> Value {
    let plain = |text: &str| text.chars().filter(|c| !c.is_control()).take(200).collect::<String>();
    let optional = |text: &Option<String>| text.as_deref().map(plain);
    json!({
        "id": plain(&identity.user_id), "name": optional(&identity.name), "email": optional(&identity.email),
        "role": optional(&identity.role), "account": plain(&identity.account_name),
    })
}

/// Takes it off here at once, whatever the provider says; then gives the grant back there.
pub(crate) async fn disconnect(app: &Arc<App>, known: &Snapshot, actor: &str) -> Result<(), Problem> {
    let held = app.store.disconnect(&known.org, &known.connector, app.seams.clock.now()).await?;
    app.changed(&known.connector);
    let Some(held) = held else { return Err(Problem::not_found("connector")) };
    let mut entry = entry(app, known, "disconnected", actor);
    if !matches!(held, Secret::Absent) {
        let revoked = give_back(app, known, &held).await;
        entry.outcome = Some(if revoked { "revoked" } else { "not_revoked" }.to_owned());
        entry.detail =
            (!revoked).then(|| "The grant may still exist at the provider; remove the app there.".to_owned());
    }
    app.store.add_timeline(&entry).await?;
    info!(connector.id = %known.connector, "disconnected connector {}", known.connector);
    Ok(())
}

/// Removes it, and gives the grant back.
pub(crate) async fn delete(app: &Arc<App>, known: &Snapshot) -> Result<(), Problem> {
    let held = app.store.delete_connector(&known.org, &known.connector).await?;
    app.changed(&known.connector);
    let Some(held) = held else { return Err(Problem::not_found("connector")) };
    let revoked = give_back(app, known, &held).await;
    info!(connector.id = %known.connector, revoked, "deleted connector {}", known.connector);
    Ok(())
}

/// Revokes at the provider, for at most two seconds; what has to be done there by hand is said otherwise.
async fn give_back(app: &App, known: &Snapshot, held: &Secret) -> bool {
    let Some(tokens) = held.tokens() else { return false };
    // An access token that is over cannot take itself back: the answer is 401, and what renews it lives on.
    if !tokens.alive(app.seams.clock.now()) {
        return false;
    }
    let revoke = async {
        let provider = app.providers().find(&known.provider)?;
        let Auth::OAuth2(facts) = provider.auth(&provider.account(&known.account).ok()?) else { return None };
        let client = app.apps.of(&known.provider).await.ok()??;
        Some(app.engine.revoke(&facts, &client, &tokens.access_token).await)
    };
    tokio::select! {
        revoked = revoke => revoked.unwrap_or(false),
        () = app.seams.clock.sleep(Duration::from_secs(2)) => false,
    }
}

fn entry(app: &App, known: &Snapshot, kind: &str, actor: &str) -> Entry {
    Entry {
        org: known.org.clone(),
        connector: known.connector.clone(),
        at: app.seams.clock.now(),
        kind: kind.to_owned(),
        outcome: None,
        actor: Some(actor.to_owned()),
        detail: None,
        duration: None,
        version: None,
    }
}
