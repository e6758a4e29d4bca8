//! What came back from the provider, worked off: exchange, ask whose account it is, and only then store.

use std::sync::Arc;

use holdfast_core::{
    ApiClient, Identity, Secret, Snapshot, TokenSet,
    error::ErrorKind,
    exchange::{self, Grant as CodeGrant, Outcome, TokenAnswer},
    ports::OAuthApp,
    refresh::timing,
};
use holdfast_store::{Created, Entry, Grant, Granted, Purpose, Session};
use secrecy::SecretString;
use tracing::{info, warn};

use super::{
    asked::{Asked, NotAsked, asked},
    ending::{Ended, Ending, Told},
    progress::{self, Permissions, Progress, Who},
};
use crate::{app::App, care};

/// Works it off to its end, whatever it takes, and notes that.
pub(super) async fn work(app: &Arc<App>, session: &Session, code: Option<SecretString>, error: Option<&str>) {
    let mut progress = Progress::default();
    let ended = consent(app, session, code, error, &mut progress).await;
    let kept = ended.keep();
    app.engine.insist("note how a consent ended", || app.store.finish_session(session, &kept)).await;
    if ended.ok() {
        first_test(app, session, &mut progress).await;
    } else {
        tell(app, session, &ended).await;
    }
}

/// Nothing is stored unless all of it is right.
async fn consent(
    app: &Arc<App>,
    session: &Session,
    code: Option<SecretString>,
    error: Option<&str>,
    progress: &mut Progress,
) -> Ended {
    let asked = match asked(app, session).await {
        Ok(asked) => asked,
        Err(NotAsked::Removed) => return ended("The provider", Ending::Removed),
        Err(NotAsked::NoAdapter(name) | NotAsked::NoAccount(name)) => return ended(&name, Ending::CannotAsk),
        Err(NotAsked::Ours(error)) => {
            warn!(%error, "a consent cannot be worked off");
            return ended("The provider", Ending::StartLost);
        }
    };
    let name = asked.provider.about().name;
    let Some(code) = code.filter(|_| error.is_none()) else { return ended(name, Ending::refused(error)) };
    ended(name, granted(app, session, &asked, &code, progress).await.unwrap_or_else(|ending| ending))
}

fn ended(provider: &str, ending: Ending) -> Ended {
    Ended { provider: provider.to_owned(), ending }
}

async fn granted(
    app: &Arc<App>,
    session: &Session,
    asked: &Asked,
    code: &SecretString,
    progress: &mut Progress,
) -> Result<Ending, Ending> {
    let (outcome, client) = redeem(app, asked, session, code).await?;
    let answer = match outcome {
        Outcome::Rotated(answer) => answer,
        other => return Err(Ending::not_exchanged(&other)),
    };
    progress.authorised = true;
    progress::note(app, session, progress).await;
    let tokens = exchange::merge(&asked.facts, None, &answer, app.seams.clock.now());
    match checked(app, session, asked, &tokens, &answer, progress).await {
        Ok(identity) => Ok(store(app, session, asked, tokens, &identity, &client).await),
        Err(ending) => {
            // The mistaken grant is given back; nothing of it was stored.
            app.engine.revoke(&asked.facts, &client, &tokens.access_token).await;
            Err(ending)
        }
    }
}

async fn redeem(
    app: &Arc<App>,
    asked: &Asked,
    session: &Session,
    code: &SecretString,
) -> Result<(Outcome, OAuthApp), Ending> {
    let client = match app.apps.of(&asked.snapshot.provider).await {
        Ok(Some(client)) => client,
        Ok(None) => return Err(Ending::NoApp),
        Err(error) => {
            warn!(%error, "the OAuth app cannot be read");
            return Err(Ending::StartLost);
        }
    };
    if asked.facts.pkce && session.verifier.is_none() {
        return Err(Ending::StartLost);
    }
    let redirect_uri = app.redirect_uri();
    let grant = CodeGrant::Code { code, redirect_uri: &redirect_uri, verifier: session.verifier.as_ref() };
    let outcome = app.engine.redeem(asked.provider.as_ref(), &asked.facts, &client, &grant).await;
    Ok((outcome, client))
}

/// Whose account it is, and whether it may do what is needed.
async fn checked(
    app: &Arc<App>,
    session: &Session,
    asked: &Asked,
    tokens: &TokenSet,
    answer: &TokenAnswer,
    progress: &mut Progress,
) -> Result<Identity, Ending> {
    let secret = Secret::Tokens(tokens.clone());
    let api = ApiClient::with(&app.engine, &asked.snapshot.provider, &asked.account.id, secret);
    let identity = api.ok_or(Ending::CannotAsk)?.identity().await.map_err(|error| match error.kind {
        ErrorKind::Forbidden | ErrorKind::AuthFailed => Ending::NotLetIn { why: error.message },
        _ => Ending::NoIdentity,
    })?;
    if identity.account_id != asked.account.id {
        return Err(Ending::OtherAccount {
            expected: asked.account.display.clone(),
            got: identity.account_name,
            got_id: identity.account_id,
        });
    }
    progress.who = Some(who(app, session, &identity).await);
    let granted = identity.scopes.as_ref().or(answer.scopes.as_ref());
    let lacks = |scope: &&String| granted.is_some_and(|granted| !granted.contains(scope));
    let missing: Vec<_> = asked.facts.scopes.iter().filter(lacks).cloned().collect();
    progress.permissions = Some(Permissions { missing: missing.clone(), told: granted.is_some() });
    progress::note(app, session, progress).await;
    if missing.is_empty() { Ok(identity) } else { Err(Ending::MissingScopes { scopes: missing }) }
}

/// Who consented, and who had before, if that was somebody else: a colleague may reconnect, and is shown as such.
async fn who(app: &Arc<App>, session: &Session, identity: &Identity) -> Who {
    let now = care::identity_json(identity);
    let text = |of: &serde_json::Value, field: &str| of[field].as_str().map(str::to_owned);
    let shown = |of: &serde_json::Value| text(of, "name").or_else(|| text(of, "email")).or_else(|| text(of, "id"));
    let known = app.store.find_connector(&session.org, session.connector.as_str()).await.ok().flatten();
    let before = known.and_then(|view| view.identity).filter(|before| before["id"] != now["id"]);
    Who {
        name: shown(&now).unwrap_or_default(),
        role: text(&now, "role"),
        account: text(&now, "account").unwrap_or_default(),
        before: before.and_then(|before| shown(&before)),
    }
}

/// Stores the grant, whatever it takes: it exists at the provider, and nobody else has it.
async fn store(
    app: &Arc<App>,
    session: &Session,
    asked: &Asked,
    tokens: TokenSet,
    identity: &Identity,
    client: &OAuthApp,
) -> Ending {
    let snapshot: &Snapshot = &asked.snapshot;
    let access_token = tokens.access_token.clone();
    let give_back = async || {
        app.engine.revoke(&asked.facts, client, &access_token).await;
    };
    if snapshot.account.is_empty() {
        let named = app.store.name_account(&session.connector, &asked.account.id, &asked.account.display).await;
        let taken = match named {
            Ok(Created::New(_)) => None,
            Ok(Created::Exists(other) | Created::AliasTaken(other)) => Some(Some(other.to_string())),
            Err(_) => Some(None),
        };
        if let Some(connector) = taken {
            give_back().await;
            return Ending::Taken { account: asked.account.display.clone(), connector };
        }
    }
    let grant = Grant {
        connector: session.connector.clone(),
        sequence: session.sequence,
        due_at: timing::due_at(&tokens, &snapshot.credential.id, &app.config.engine()),
        tokens,
        identity: Some(care::identity_json(identity)),
        extras: Vec::new(),
        at: app.seams.clock.now(),
        actor: actor(app, session, asked, identity).await,
    };
    let granted = app.engine.insist("store a new grant", || app.store.store_grant(&grant)).await;
    app.changed(&session.connector);
    match granted {
        Granted::Yes(snapshot) => {
            info!(
                connector.id = %snapshot.connector,
                credential.version = %snapshot.credential.version,
                "connected connector {}",
                snapshot.connector
            );
            Ending::Connected {
                account: asked.account.display.clone(),
                who: identity.name.clone(),
                again: session.purpose == Purpose::Reconnect,
            }
        }
        Granted::Older => {
            give_back().await;
            Ending::Overtaken
        }
        Granted::Gone => {
            give_back().await;
            Ending::Removed
        }
    }
}

/// For the timeline: who started it here, and who consented there.
async fn actor(app: &Arc<App>, session: &Session, asked: &Asked, identity: &Identity) -> Option<String> {
    let there = identity.name.clone().or_else(|| identity.email.clone());
    match (starter(app, session).await, there) {
        (Some(here), Some(there)) if here != there => {
            Some(format!("{here} (at {} as {there})", app.provider_name(&asked.snapshot.provider)))
        }
        (here, there) => here.or(there),
    }
}

/// Who started it, where that is known.
async fn starter(app: &App, session: &Session) -> Option<String> {
    let user = app.store.find_user(session.user.as_deref()?).await.ok().flatten()?;
    Some(user.shown().to_owned())
}

/// A line of the timeline for a consent that came to nothing: who looks for why it still fails finds it there.
async fn tell(app: &Arc<App>, session: &Session, ended: &Ended) {
    let (title, _) = ended.words(Told::Here);
    let detail = match &ended.ending {
        Ending::OtherAccount { expected, got, .. } => format!("{title}: {got} instead of {expected}"),
        Ending::MissingScopes { scopes } => format!("{title}: {}", scopes.join(", ")),
        Ending::Removed => return,
        _ => title,
    };
    let actor = starter(app, session).await.unwrap_or_else(|| "connect link".to_owned());
    let entry = Entry {
        org: session.org.clone(),
        connector: session.connector.clone(),
        at: app.seams.clock.now(),
        kind: "consent".to_owned(),
        outcome: Some(ended.keep()["ended"].as_str().unwrap_or_default().to_owned()),
        actor: Some(actor),
        detail: Some(detail),
        duration: None,
        version: None,
    };
    if let Err(error) = app.store.add_timeline(&entry).await {
        warn!(%error, "could not write the timeline");
    }
}

/// Proves what was stored, for the checklist.
async fn first_test(app: &Arc<App>, session: &Session, progress: &mut Progress) {
    let Ok(Some(snapshot)) = app.engine.snapshot(&session.connector).await else { return };
    let user = starter(app, session).await.unwrap_or_else(|| "Holdfast".to_owned());
    progress.test = Some(match care::test(app, &snapshot, &user).await {
        Ok(report) => report.outcome(),
        Err(problem) => Err(problem.detail().to_owned()),
    });
    progress::note(app, session, progress).await;
}
