//! What people and keys do to a connector: test, disconnect, delete. One place for API and command line.

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use holdfast_core::{
    Identity, Providers, Secret, Snapshot,
    ports::{OAuthApps as _, StoreError},
    provider::{Account, Auth, Revoke},
    refresh::TestReport,
    visible,
};
use holdfast_store::{Entry, Moved};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracing::info;

use crate::{
    api::TestBody,
    app::App,
    called,
    giving_back::{GivenBack, Giving},
    hooks::subscriptions::{self, Leaving},
    problem::Problem,
    words,
};

/// Whoever switches something off is answered within two seconds, whatever the provider does.
pub(crate) const WITHIN: Duration = Duration::from_millis(1500);

/// What [`is_name`] asks for, after "A name".
pub(crate) const NAME_RULE: &str = "has 1 to 100 characters, on one line, and none that is invisible";

/// Whether people can call something this: one rule for connectors, agents, people, organisations and keys. A name that
/// shows nothing could not be pressed, and one that turns the direction of what stands around it lies.
pub(crate) fn is_name(text: &str) -> bool {
    visible::is_line(text, 100)
}

/// What a test found, as it is kept beside the connector and shown on its page.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) struct LastTest {
    /// When.
    pub(crate) at: DateTime<Utc>,
    /// The connector's epoch right after it: what is known of another one says nothing of now.
    #[serde(default)]
    pub(crate) epoch: i64,
    /// Who asked for it.
    pub(crate) actor: String,
    /// Who the provider says it is; see [`identity_json`].
    pub(crate) identity: Option<Value>,
    /// What the access may do, as far as it is known.
    pub(crate) scopes: Vec<String>,
    /// Asked for, and not granted.
    pub(crate) missing: Vec<String>,
    /// How long the provider took.
    pub(crate) latency_ms: u64,
    /// What is left of the provider's rate limit, and the limit.
    pub(crate) room: Option<(u64, u64)>,
    /// Why it failed: the kind of error as [`words::kind`] calls it, and a sentence.
    pub(crate) error: Option<(String, String)>,
}

impl LastTest {
    fn new(report: &TestReport, actor: &str, app: &App) -> Self {
        let (scopes, missing) = scopes(report, app.providers());
        Self {
            at: report.checked_at,
            epoch: report.snapshot.epoch,
            actor: actor.to_owned(),
            identity: report.identity.as_ref().ok().map(identity_json),
            scopes,
            missing,
            latency_ms: u64::try_from(report.latency.as_millis()).unwrap_or(u64::MAX),
            room: report.rate_room.map(|room| (room.remaining, room.limit)),
            error: report
                .identity
                .as_ref()
                .err()
                .map(|error| (words::kind(error.kind).to_owned(), error.message.clone())),
        }
    }
}

/// What the access may do, and what was asked for and not granted; the latter is known after a success alone.
pub(crate) fn scopes(report: &TestReport, providers: &Providers) -> (Vec<String>, Vec<String>) {
    let tokens = report.snapshot.credential.secret.tokens();
    let stored = || tokens.map(|tokens| tokens.scopes.clone()).unwrap_or_default();
    let Ok(identity) = &report.identity else { return (stored(), Vec::new()) };
    // A key may do what its owner may.
    if tokens.is_none() {
        return (identity.scopes.clone().unwrap_or_default(), Vec::new());
    }
    let scopes = identity.scopes.clone().unwrap_or_else(stored);
    let asked = providers.find(&report.snapshot.provider).map_or(&[][..], |provider| provider.about().scopes);
    let missing = asked.iter().map(|scope| scope.name.to_owned()).filter(|scope| !scopes.contains(scope)).collect();
    (scopes, missing)
}

/// Tests it, keeps what was found, and writes the timeline.
pub(crate) async fn test(app: &Arc<App>, known: &Snapshot, actor: &str) -> Result<TestBody, Problem> {
    let report = app.engine.test(&known.connector).await?;
    let kept = LastTest::new(&report, actor, app);
    let test = serde_json::to_value(&kept).expect("a test's result is plain data");
    app.store.set_test(&known.connector, &test, kept.identity.as_ref()).await?;
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
    let seen = |c: &char| !c.is_control() && !visible::is_invisible(*c);
    let plain = |text: &str| text.chars().filter(seen).take(200).collect::<String>();
    let optional = |text: &Option<String>| text.as_deref().map(plain);
    json!({
        "id": plain(&identity.user_id), "name": optional(&identity.name), "email": optional(&identity.email),
        "role": optional(&identity.role), "account": plain(&identity.account_name),
    })
}

/// Takes it off here at once, whatever the provider says; then gives the grant back there. Answers whether nothing of it
/// is left there.
pub(crate) async fn disconnect(app: &Arc<App>, known: &Snapshot, actor: &str) -> Result<bool, Problem> {
    let user = user_of(app, known).await?;
    let leaving = subscriptions::leaving(app, known).await?;
    let held = app.store.disconnect(&known.org, &known.connector, app.seams.clock.now()).await?;
    app.changed(&known.connector);
    let Some(held) = held else { return Err(Problem::not_found("connector")) };
    let mut entry = entry(app, known, "disconnected", actor);
    let given = give_back(app, known, &held, user, leaving, false).await;
    if !matches!(held, Secret::Absent) {
        entry.outcome = Some(if given == GivenBack::Yes { "revoked" } else { "not_revoked" }.to_owned());
        entry.detail = match given {
            GivenBack::Yes => None,
            GivenBack::No => Some("The grant may still exist at the provider; remove the app there.".to_owned()),
            GivenBack::Needed => Some(format!(
                "Not given back to {}: another connector works with the same person's access there, or may be about to, \
                 and giving one back would end both.",
                app.provider_name(&known.provider)
            )),
        };
    }
    app.store.add_timeline(&entry).await?;
    info!(connector.id = %known.connector, "disconnected connector {}", known.connector);
    Ok(entry.outcome.as_deref() != Some("not_revoked"))
}

/// Calls it something else, and writes the timeline.
pub(crate) async fn rename(app: &App, known: &Snapshot, name: &str, actor: &str) -> Result<(), StoreError> {
    if known.name == name {
        return Ok(());
    }
    app.store.rename_connector(&known.org, &known.connector, name).await?;
    app.changed(&known.connector);
    let mut entry = entry(app, known, "renamed", actor);
    entry.detail =
        Some(if known.name.is_empty() { format!("Now {name}") } else { format!("From {} to {name}", known.name) });
    app.store.add_timeline(&entry).await
}

/// Another account for one that was never connected, and a name; writes the timeline.
pub(crate) async fn correct(
    app: &App,
    known: &Snapshot,
    account: &Account,
    name: &str,
    actor: &str,
) -> Result<Moved, StoreError> {
    if account.id != known.account {
        match app.store.move_unfinished(&known.org, &known.connector, &account.id).await? {
            Moved::Yes => app.changed(&known.connector),
            other => return Ok(other),
        }
        let mut entry = entry(app, known, "account", actor);
        let before = called::account(app, &known.provider, &known.account);
        entry.detail = Some(format!("From {before} to {}", account.display));
        app.store.add_timeline(&entry).await?;
    }
    rename(app, known, name, actor).await?;
    Ok(Moved::Yes)
}

/// Removes it, and gives the grant back.
pub(crate) async fn delete(app: &Arc<App>, known: &Snapshot) -> Result<(), Problem> {
    let user = user_of(app, known).await?;
    let leaving = subscriptions::leaving(app, known).await?;
    let held = app.store.delete_connector(&known.org, &known.connector).await?;
    app.changed(&known.connector);
    let Some(held) = held else { return Err(Problem::not_found("connector")) };
    let revoked = give_back(app, known, &held, user, leaving, true).await == GivenBack::Yes;
    info!(connector.id = %known.connector, revoked, "deleted connector {}", known.connector);
    Ok(())
}

/// Takes its webhooks away at the provider, then revokes, and waits for that only so long; what has to be done there by hand
/// is said otherwise.
async fn give_back(
    app: &Arc<App>,
    known: &Snapshot,
    held: &Secret,
    user: Option<String>,
    leaving: Option<Leaving>,
    deleted: bool,
) -> GivenBack {
    let giving = giving(app, known, held, user).await;
    // Not broken off with the wait: a consent waits until its end is noted.
    let app_for_giving = Arc::clone(app);
    let given = app.engine.spawn(async move {
        if let Some(leaving) = leaving {
            leaving.run(deleted).await;
        }
        match giving {
            Some(giving) => giving.run(&app_for_giving).await,
            None => GivenBack::No,
        }
    });
    tokio::select! {
        given = given => given.unwrap_or(GivenBack::No),
        () = app.seams.clock.sleep(WITHIN) => GivenBack::No,
    }
}

/// `None`: there is nothing to revoke, or no way to.
async fn giving(app: &App, known: &Snapshot, held: &Secret, user: Option<String>) -> Option<Giving> {
    let tokens = held.tokens()?;
    let provider = Arc::clone(app.providers().find(&known.provider)?);
    let Auth::OAuth2(facts) = provider.auth(&provider.account(&known.account).ok()?) else { return None };
    let token = match (&facts.revoke, &tokens.refresh_token) {
        // An access token that is over cannot take itself back: the answer is 401, and what renews it lives on.
        (Some(Revoke::Bearer { .. }), _) | (_, None) => {
            Some(&tokens.access_token).filter(|_| tokens.alive(app.seams.clock.now()))
        }
        (_, refresh_token) => refresh_token.as_ref(),
    };
    let (token, client) = (token?.clone(), app.apps.find(&known.credential.app).await.ok()??);
    let app = known.credential.app.clone();
    Some(Giving { provider, app, facts, client, token, user, account: known.account.clone(), consent: None })
}

/// The id at the provider of the user whose access a connector works with, where that has a say in giving it back.
async fn user_of(app: &App, known: &Snapshot) -> Result<Option<String>, StoreError> {
    let asks = app.providers().find(&known.provider).is_some_and(|provider| provider.grants().end_together);
    if !asks {
        return Ok(None);
    }
    let view = app.store.find_connector(&known.org, known.connector.as_str()).await?;
    Ok(view.and_then(|view| view.identity?["id"].as_str().map(str::to_owned)))
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

#[cfg(test)]
mod tests {
    use super::is_name;

    #[test]
    fn a_name_shows_something_and_hides_nothing() {
        for good in
            ["Acme", "a", "שלום", "東京", "नमस्\u{200D}ते", "👩\u{200D}💻", "❤\u{FE0F}", "-", "<b>", &"é".repeat(100)]
        {
            assert!(is_name(good), "{good}");
        }
        for bad in [
            "",
            " ",
            "a\nb",
            "a\u{1B}[31mb",
            "\u{200B}",
            "\u{200D}",
            "\u{FE0F}",
            "\u{3164}",
            "\u{2800}",
            "a\u{2028}b",
            "a\u{202E}gpj.exe",
            "a\u{2066}b",
            "Ac\u{AD}me",
            &"é".repeat(101),
        ] {
            assert!(!is_name(bad), "{bad:?}");
        }
    }
}
