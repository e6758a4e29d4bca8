//! What came back from the provider, worked off: exchange, ask whose account it is, and only then store. Once there are
//! tokens, neither a database in trouble nor a crash loses them.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use holdfast_core::{
    ApiClient, AppId, Identity, Secret, Snapshot, TokenSet,
    error::{Error, ErrorKind},
    exchange::{self, Grant as CodeGrant, Outcome},
    ports::{HttpFailure, OAuthApp, OAuthApps as _, StoreError},
    provider::{Auth, CallbackRefused, OAuth2},
    refresh::timing,
};
use holdfast_store::{
    By, ByKind, CheckedGrant, Created, Entry, Grant, Granted, KeptGrant, Purpose, Session, Surface, Way, acting, by,
};
use secrecy::SecretString;
use tracing::{info, warn};

use super::{
    asked::{Asked, NotAsked, asked},
    callback::Received,
    claim,
    ending::{Ended, Ending, Told, lacking},
    progress::{self, Permissions, Progress, Who},
};
use crate::{app::App, called, care, giving_back::Giving};

/// What a person brought back.
pub(super) enum Brought {
    /// From the provider.
    Answer(Received),
    /// A key, from our own page.
    Key(SecretString),
}

/// Works it off to its end, whatever it takes, and notes that.
pub(super) async fn work(app: &Arc<App>, session: &Session, brought: Brought) {
    let mut progress = Progress::default();
    let (ended, grant) = match brought {
        Brought::Answer(received) => consent(app, session, received, &mut progress).await,
        Brought::Key(key) => (take_key(app, session, key, &mut progress).await, None),
    };
    finish(app, session, &ended, grant.as_ref(), &mut progress).await;
}

async fn finish(app: &Arc<App>, session: &Session, ended: &Ended, grant: Option<&KeptGrant>, progress: &mut Progress) {
    let kept = ended.keep();
    app.engine.insist("note how a consent ended", || app.store.finish_session(session, &kept)).await;
    if let Some(grant) = grant {
        take_out(app, grant).await;
    }
    if ended.ok() {
        first_test(app, session, progress).await;
    } else {
        tell(app, session, ended).await;
    }
}

/// Nothing is stored unless all of it is right.
async fn consent(
    app: &Arc<App>,
    session: &Session,
    received: Received,
    progress: &mut Progress,
) -> (Ended, Option<KeptGrant>) {
    let asked = match asked(app, session).await {
        Ok(asked) => asked,
        Err(not_asked) => return (cannot_ask(not_asked), None),
    };
    let name = asked.provider.about().name;
    let Received { code, error, query } = received;
    let Some(code) = code.filter(|_| error.is_none()) else {
        let own = error.as_deref().and_then(|error| asked.provider.refused_consent(error));
        let ending =
            own.map_or_else(|| Ending::refused(error.as_deref()), |why| Ending::NotLetIn { why: why.to_owned() });
        return (ended(name, ending), None);
    };
    let Auth::OAuth2(facts) = &asked.auth else { return (ended(name, Ending::CannotAsk), None) };
    if let Some(ending) = moved(session, &asked) {
        return (ended(name, ending), None);
    }
    let redeemed = match may_redeem(app, &asked, session, &query).await {
        Ok(client) => redeem(app, &asked, facts, session, &client, &code).await,
        Err(ending) => Err(ending),
    };
    match redeemed {
        Ok(grant) => {
            app.consents.begin(&grant);
            let ending = settle(app, session, &asked, &grant, progress).await;
            (ended(name, ending), Some(grant))
        }
        Err(ending) => (ended(name, ending), None),
    }
}

/// The same with a key that a person gave in place of a consent. It is theirs: nothing is lost with it, and nothing has
/// to be given back.
async fn take_key(app: &Arc<App>, session: &Session, key: SecretString, progress: &mut Progress) -> Ended {
    progress.authorised = true;
    progress::note(app, session, progress).await;
    match asked(app, session).await {
        Ok(asked) if matches!(asked.auth, Auth::ApiKey(_)) => {
            if let Some(ending) = moved(session, &asked) {
                return ended(asked.provider.about().name, ending);
            }
            let secret = Secret::ApiKey(key);
            let ending = match checked(app, session, &asked, &secret, None, progress).await {
                Ok(checked) => {
                    let app_id = AppId::instance(asked.provider.about().id);
                    store(app, session, &asked, &app_id, &secret, session.sequence, checked).await
                }
                Err(ending) => ending,
            };
            ended(asked.provider.about().name, ending)
        }
        Ok(asked) => ended(asked.provider.about().name, Ending::CannotAsk),
        Err(not_asked) => cannot_ask(not_asked),
    }
}

/// The connector was given another account since the person was asked: what they bring is for nobody's host but its own.
fn moved(session: &Session, asked: &Asked) -> Option<Ending> {
    let begun = session.account.clone().filter(|begun| *begun != asked.account.id)?;
    let got = asked.provider.account(&begun).map_or_else(|_| begun.clone(), |account| account.display);
    Some(Ending::OtherAccount { expected: asked.account.display.clone(), got, got_id: begun })
}

fn cannot_ask(why: NotAsked) -> Ended {
    match why {
        NotAsked::Removed => ended("The provider", Ending::Removed),
        NotAsked::NoAdapter(name) | NotAsked::NoAccount(name) => ended(&name, Ending::CannotAsk),
        NotAsked::Ours(error) => {
            warn!(%error, "a consent cannot be worked off");
            ended("The provider", Ending::StartLost)
        }
    }
}

fn ended(provider: &str, ending: Ending) -> Ended {
    Ended { provider: provider.to_owned(), ending }
}

/// What the code brought, to its end: in the lifeboat meanwhile, since the code is spent and nobody else has it. A crash
/// from here on is only a pause: [`resume`].
async fn settle(
    app: &Arc<App>,
    session: &Session,
    asked: &Asked,
    grant: &KeptGrant,
    progress: &mut Progress,
) -> Ending {
    keep(app, grant).await;
    progress.authorised = true;
    progress::note(app, session, progress).await;
    let secret = Secret::Tokens(grant.tokens.clone());
    let checked = match grant.checked.clone() {
        Some(checked) => Ok((checked, grant.tokens.clone())),
        None => match checked(app, session, asked, &secret, grant.scopes.as_ref(), progress).await {
            Ok(checked) => with_what_is_found(app, asked, &grant.tokens).await.map(|tokens| (checked, tokens)),
            Err(ending) => Err(ending),
        },
    };
    match checked {
        Ok((checked, tokens)) => {
            // What was found out needs not be asked again, when the token may be over.
            keep(app, &KeptGrant { checked: Some(checked.clone()), tokens: tokens.clone(), ..grant.clone() }).await;
            store(app, session, asked, &grant.app, &Secret::Tokens(tokens), grant.sequence, checked).await
        }
        Err(ending) => {
            // The mistaken grant is given back; nothing of it was stored.
            give_back(app, session, asked, &grant.app, &secret).await;
            ending
        }
    }
}

async fn keep(app: &App, grant: &KeptGrant) {
    if let Err(error) = app.lifeboat.put_grant(grant).await {
        let error = format!("{:#}", anyhow::Error::new(error));
        warn!(error, "the lifeboat does not take what a consent brought; a crash would lose it");
    }
}

/// The consent has ended, and that is noted.
async fn take_out(app: &App, grant: &KeptGrant) {
    if let Err(error) = app.lifeboat.remove_grant(grant).await {
        let error = format!("{:#}", anyhow::Error::new(error));
        warn!(error, "could not take what a consent brought out of the lifeboat");
    }
    app.consents.end(grant);
}

/// Of a consent whose end is not noted yet.
async fn give_back(app: &Arc<App>, session: &Session, asked: &Asked, app_id: &AppId, secret: &Secret) {
    let (Auth::OAuth2(facts), Secret::Tokens(tokens)) = (&asked.auth, secret) else { return };
    let provider = &asked.snapshot.provider;
    let (mut user, mut account) = (None, asked.account.id.clone());
    if asked.provider.grants().end_together {
        // The connector itself may work with an earlier grant of the same person.
        let api = ApiClient::with(&app.engine, provider, &account, secret.clone());
        let Some(api) = api else { return };
        let Ok(identity) = api.identity().await else { return };
        (user, account) = (Some(identity.user_id), identity.account_id);
    }
    if let Ok(Some(client)) = app.apps.find(app_id).await {
        let giving = Giving {
            provider: Arc::clone(&asked.provider),
            app: app_id.clone(),
            facts: facts.clone(),
            client,
            token: tokens.access_token.clone(),
            user,
            account,
            consent: Some(session.consent()),
        };
        giving.run(app).await;
    }
}

/// Goes on with the consents that a crash cut off after their codes were exchanged.
pub(crate) async fn resume(app: &Arc<App>) -> Result<(), StoreError> {
    for grant in app.lifeboat.list_grants().await? {
        if !app.consents.begin(&grant) {
            continue;
        }
        let app = Arc::clone(app);
        info!("going on with a consent for connector {} that was cut off", grant.connector);
        app.clone().engine.spawn(async move {
            if let Err(error) = go_on(&app, &grant).await {
                let error = format!("{:#}", anyhow::Error::new(error));
                warn!(error, "cannot go on with a consent that was cut off; it is tried again");
                app.consents.end(&grant);
            }
        });
    }
    Ok(())
}

/// An error leaves everything as it is.
async fn go_on(app: &Arc<App>, grant: &KeptGrant) -> Result<(), StoreError> {
    let session = app.store.find_session_by_id(&grant.session).await?;
    if session.as_ref().is_some_and(|session| session.sequence == grant.sequence && session.result.is_some()) {
        take_out(app, grant).await;
        return Ok(());
    }
    // The session may have been started again since; this consent keeps its own place in the order, and its account.
    let account = Some(grant.account.clone());
    let session = session.map(|session| Session { sequence: grant.sequence, account, ..session });
    let asked = match &session {
        Some(session) => asked(app, session).await,
        None => Err(NotAsked::Removed),
    };
    match (session, asked) {
        // The connector was given another account meanwhile: what was brought is for nobody's host but its own.
        (Some(session), Ok(asked)) if asked.account.id != grant.account => {
            let (expected, got) = (asked.account.display.clone(), grant.account.clone());
            let ending = Ending::OtherAccount { expected, got_id: got.clone(), got };
            let ended = ended(asked.provider.about().name, ending);
            finish(app, &session, &ended, Some(grant), &mut Progress::default()).await;
        }
        (Some(session), Ok(asked)) => {
            let mut progress = Progress::default();
            let ending = settle(app, &session, &asked, grant, &mut progress).await;
            let ended = ended(asked.provider.about().name, ending);
            finish(app, &session, &ended, Some(grant), &mut progress).await;
        }
        (_, Err(NotAsked::Ours(error))) => return Err(error),
        // Connector and session are gone together, or the adapter is: nothing can be done with it.
        _ => {
            warn!("nobody wants what a consent for connector {} brought any more", grant.connector);
            take_out(app, grant).await;
        }
    }
    Ok(())
}

/// What has to be right before a code is spent: the OAuth app is there, the callback is the provider's and about this
/// account, and the new grant would end nobody else's.
async fn may_redeem(
    app: &Arc<App>,
    asked: &Asked,
    session: &Session,
    query: &[(String, String)],
) -> Result<OAuthApp, Ending> {
    let app_id = begun_with(asked, session);
    let client = match app.apps.find(&app_id).await {
        Ok(Some(client)) => client,
        Ok(None) if app_id.org().is_some() => return Err(Ending::AppReplaced),
        Ok(None) => return Err(Ending::NoApp),
        Err(error) => {
            warn!(%error, "the OAuth app cannot be read");
            return Err(Ending::StartLost);
        }
    };
    let secrets: Vec<_> = [&client.client_secret, &client.next_client_secret].into_iter().flatten().cloned().collect();
    match asked.provider.check_callback(&asked.account, query, &secrets) {
        Ok(()) => {}
        Err(CallbackRefused::NotProven(why)) => {
            warn!(connector.id = %session.connector, "a callback is refused before its code is exchanged: {why}");
            return Err(Ending::NotProven);
        }
        Err(CallbackRefused::OtherAccount(got)) => {
            return Err(Ending::OtherAccount {
                expected: asked.account.display.clone(),
                got: got.display,
                got_id: got.id,
            });
        }
    }
    claim::hold(app, asked, session, &app_id).await?;
    Ok(client)
}

/// The OAuth app that the person was asked for. A code is good for that one alone, whatever the org has now.
fn begun_with(asked: &Asked, session: &Session) -> AppId {
    session.app.clone().unwrap_or_else(|| AppId::instance(asked.provider.about().id))
}

async fn redeem(
    app: &Arc<App>,
    asked: &Asked,
    facts: &OAuth2,
    session: &Session,
    client: &OAuthApp,
    code: &SecretString,
) -> Result<KeptGrant, Ending> {
    if facts.pkce && session.verifier.is_none() {
        return Err(Ending::StartLost);
    }
    let redirect_uri = app.redirect_uri();
    let grant = CodeGrant::Code { code, redirect_uri: &redirect_uri, verifier: session.verifier.as_ref() };
    let answer = match app.engine.redeem(asked.provider.as_ref(), facts, client, &grant).await {
        Outcome::Rotated(answer) => answer,
        other => return Err(Ending::not_exchanged(&other)),
    };
    Ok(KeptGrant {
        org: session.org.clone(),
        connector: session.connector.clone(),
        session: session.id.clone(),
        sequence: session.sequence,
        provider: asked.snapshot.provider.clone(),
        account: asked.account.id.clone(),
        app: begun_with(asked, session),
        tokens: exchange::merge(facts, None, &answer, app.seams.clock.now()),
        scopes: answer.scopes,
        checked: None,
    })
}

/// Whose account it is, and whether it may do what is needed.
async fn checked(
    app: &Arc<App>,
    session: &Session,
    asked: &Asked,
    secret: &Secret,
    scopes: Option<&Vec<String>>,
    progress: &mut Progress,
) -> Result<CheckedGrant, Ending> {
    let unlasting = secret.tokens().is_some_and(|tokens| tokens.refresh_token.is_none());
    if asked.provider.grants().need_refresh_token && unlasting {
        return Err(Ending::NotLasting);
    }
    let api = ApiClient::with(&app.engine, &asked.snapshot.provider, &asked.account.id, secret.clone());
    let identity = api.ok_or(Ending::CannotAsk)?.identity().await.map_err(not_let_in)?;
    let known = known_user(app, session).await.map_err(|error| {
        warn!(%error, "nobody can look whose access a connector had; the consent is not taken");
        Ending::NotNow
    })?;
    if !asked.provider.is_account(&asked.account, &identity, known.as_deref()) {
        let same_name = identity.account_name.to_lowercase() == asked.account.display.to_lowercase();
        let got = if same_name {
            format!("another one that is called {}", identity.account_name)
        } else {
            identity.account_name
        };
        return Err(Ending::OtherAccount { expected: asked.account.display.clone(), got, got_id: identity.account_id });
    }
    progress.who = Some(who(app, session, &identity).await);
    let granted = identity.scopes.as_ref().or(scopes);
    let lacks = |scope: &&String| granted.is_some_and(|granted| !granted.contains(scope));
    let wanted = match &asked.auth {
        Auth::OAuth2(facts) => facts.scopes.as_slice(),
        Auth::ApiKey(_) => &[],
    };
    let told = |scope: &&String| !asked.provider.silent_scopes().contains(&scope.as_str());
    let missing: Vec<_> = wanted.iter().filter(told).filter(lacks).cloned().collect();
    progress.permissions = Some(Permissions { missing: missing.clone(), told: granted.is_some() });
    progress::note(app, session, progress).await;
    let indispensable = asked.provider.indispensable(&missing);
    if !indispensable.is_empty() {
        let scopes = called::scopes(app, asked.provider.about().id, &indispensable);
        return Err(Ending::MissingScopes { scopes });
    }
    let actor = actor(app, session, asked, &identity).await;
    let scopes = identity.scopes.clone();
    Ok(CheckedGrant { identity: care::identity_json(&identity), who: identity.name, actor, scopes })
}

/// The adapter's words tell a wrong key, a wrong address, missing rights and an outage apart. Where no answer came, there
/// are none that somebody could act on.
fn not_let_in(error: Error) -> Ending {
    let unheard = error.source.as_ref().is_some_and(|source| source.is::<HttpFailure>());
    match error.kind {
        ErrorKind::Forbidden | ErrorKind::AuthFailed => Ending::NotLetIn { why: error.message },
        _ => Ending::NoIdentity { why: Some(error.message).filter(|_| !unheard) },
    }
}

/// With what the account's requests need beside the token.
async fn with_what_is_found(app: &Arc<App>, asked: &Asked, tokens: &TokenSet) -> Result<TokenSet, Ending> {
    let secret = Secret::Tokens(tokens.clone());
    let api = ApiClient::with(&app.engine, &asked.snapshot.provider, &asked.account.id, secret);
    let found = asked.provider.find(&api.ok_or(Ending::CannotAsk)?).await.map_err(not_let_in)?;
    let base_url = found.base_url.or_else(|| tokens.base_url.clone());
    Ok(TokenSet { base_url, found: found.values, ..tokens.clone() })
}

/// The user's id of the connector's last consent, where there was one. An error must not be taken for none: another account
/// might be.
async fn known_user(app: &Arc<App>, session: &Session) -> Result<Option<String>, StoreError> {
    let known = app.store.find_connector(&session.org, session.connector.as_str()).await?;
    Ok(known.and_then(|known| known.identity?["id"].as_str().map(str::to_owned)))
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
    app_id: &AppId,
    secret: &Secret,
    sequence: i64,
    checked: CheckedGrant,
) -> Ending {
    let snapshot: &Snapshot = &asked.snapshot;
    let (id, account) = (&session.connector, &asked.account);
    if snapshot.account.is_empty() {
        let name = || app.store.name_account(id, &account.id, &account.display);
        match app.engine.insist("name the account of a connector", name).await {
            Created::New(_) => {}
            Created::Exists(own) if own == *id => {
                give_back(app, session, asked, app_id, secret).await;
                let named = app.engine.snapshot(id).await.ok().flatten().map(|named| named.account.clone());
                let got = account.display.clone();
                return Ending::OtherAccount { expected: named.unwrap_or_default(), got, got_id: account.id.clone() };
            }
            Created::Exists(other) | Created::AliasTaken(other) => {
                give_back(app, session, asked, app_id, secret).await;
                return Ending::Taken { account: account.display.clone(), connector: Some(other.to_string()) };
            }
        }
    }
    let grant = Grant {
        connector: id.clone(),
        sequence,
        app: app_id.clone(),
        due_at: due_at(app, asked, secret),
        secret: secret.clone(),
        identity: Some(checked.identity),
        extras: Vec::new(),
        at: app.seams.clock.now(),
        actor: checked.actor,
    };
    let claim = claim::of(asked, session, app_id);
    let storing = app.engine.insist("store a new grant", || app.store.store_claimed(&grant, claim.as_ref()));
    let granted = acting(giver(app, session).await, storing).await;
    app.changed(id);
    match granted {
        Granted::Yes(snapshot) => {
            info!(
                connector.id = %snapshot.connector,
                credential.version = %snapshot.credential.version,
                "connected connector {}",
                snapshot.connector
            );
            let again = session.purpose == Purpose::Reconnect;
            let told = secret.tokens().map_or(&[][..], |tokens| tokens.scopes.as_slice());
            let lacks = lacking(asked.provider.as_ref(), checked.scopes.as_deref().unwrap_or(told));
            Ending::Connected { account: account.display.clone(), who: checked.who, again, lacks }
        }
        Granted::Older => {
            give_back(app, session, asked, app_id, secret).await;
            claim::overtaken(app, asked).await
        }
        // Another one was made since, and has ended this one: there is nothing to give back.
        Granted::Held(rival) => claim::held(rival, &session.org, &account.display),
        Granted::UnderWay => Ending::UnderWay,
        Granted::Gone => {
            give_back(app, session, asked, app_id, secret).await;
            Ending::Removed
        }
    }
}

fn due_at(app: &App, asked: &Asked, secret: &Secret) -> Option<DateTime<Utc>> {
    let (Auth::OAuth2(facts), Some(tokens)) = (&asked.auth, secret.tokens()) else { return None };
    timing::due_at(tokens, facts.refresh_life, &asked.snapshot.credential.id, &app.config.engine())
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

/// For the audit log: who started it, or whoever has the link.
async fn giver(app: &App, session: &Session) -> By {
    let user = session.user.as_deref();
    let name = starter(app, session).await;
    By {
        kind: if name.is_some() { ByKind::Person } else { ByKind::Link },
        id: user.filter(|_| name.is_some()).or(Some(&session.id)).map(str::to_owned),
        name: name.unwrap_or_else(|| "Whoever has the connect link".to_owned()),
        surface: if session.way == Way::SignedIn { Surface::Web } else { Surface::Link },
        address: by().address,
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
        Ending::NotLetIn { why } | Ending::NoIdentity { why: Some(why) } => format!("{title}: {why}"),
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
