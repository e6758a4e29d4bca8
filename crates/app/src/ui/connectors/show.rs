//! The page of one connector.

use std::sync::Arc;

use axum::{
    extract::{Path, Query, State},
    http::StatusCode,
    response::Response,
};
use chrono::{DateTime, Utc};
use holdfast_core::{
    Fingerprint, Health, Role, Secret, credential::Trouble as Class, ports::StoreError, refresh::timing,
};
use holdfast_store::{AgentBrief, ConnectorView, Session};
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};

use super::{
    AgentLine, Mark,
    chart::{self, Chart, Strip},
    checklist::Checklist,
    connect_word,
    migrations::MigrationMark,
    sync,
    timeline::Timeline,
    told::Told,
    webhook::Card,
};
use crate::{
    app::App,
    called,
    care::LastTest,
    connect,
    ui::{
        live,
        moment::Moment,
        parts::Badge,
        person::Person,
        trouble::Trouble,
        view::{Here, View},
    },
    words,
};

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    consent: String,
    did: String,
    kind: String,
    before: String,
}

#[derive(Serialize)]
struct ConnectorPage {
    id: String,
    /// Where it follows what happens.
    events: String,
    mark: Mark,
    name: String,
    account: String,
    badge: Badge,
    since: Moment,
    connect: &'static str,
    ways: connect::Ways,
    failed: Option<Failed>,
    told: Option<Told>,
    degraded: Option<DegradedMark>,
    ends: Option<Ends>,
    migration: Option<MigrationMark>,
    /// The stable word.
    health: &'static str,
    agents: Vec<AgentLine>,
    /// Whether its provider has tools for agents; all others reach it through the API.
    has_tools: bool,
    field: Option<AccountField>,
    checklist: Option<Checklist>,
    /// What is said when the page changes.
    news: String,
    test: Option<TestView>,
    overview: Overview,
    timeline: Timeline,
    charts: Charts,
    /// `None`: its provider tells of nothing by itself.
    webhook: Option<Card>,
    /// How much work waits until it is connected.
    waiting: u64,
    /// `None`: nothing is mirrored of it.
    sync: Option<sync::Card>,
    can_test: bool,
    did: Option<&'static str>,
    rename: Rename,
}

/// What happened to it over a fortnight.
#[derive(Serialize)]
struct Charts {
    refreshes: Chart,
    calls: Chart,
    health: Strip,
    used: Option<Moment>,
}

impl Charts {
    async fn read(app: &App, view: &ConnectorView, now: DateTime<Utc>) -> Result<Self, StoreError> {
        let (org, connector, since) = (&view.snapshot.org, &view.snapshot.connector, chart::since(now));
        let refreshes = app.store.exchange_days(org, Some(connector), since).await?;
        let calls = app.store.call_days(org, Some(connector), since).await?;
        let changes = app.store.health_changes(org, connector, since).await?;
        let used = app.store.last_used(std::slice::from_ref(connector)).await?;
        Ok(Self {
            refreshes: Chart::new(&refreshes, now),
            calls: Chart::new(&calls, now),
            health: Strip::new(&changes, view.created_at, now),
            used: Moment::maybe(used.get(connector).copied(), now),
        })
    }
}

/// The form for another name: what was typed, and what is wrong with it.
#[derive(Clone, Default, Serialize)]
pub(super) struct Rename {
    pub(super) typed: String,
    pub(super) problem: String,
}

/// A failed connector: why, since when, what to do.
#[derive(Serialize)]
struct Failed {
    what: String,
    todo: String,
    since: Moment,
    /// The stable word, and the provider's own.
    code: &'static str,
    detail: Option<String>,
    /// The agents that stand still for it.
    stopped: Vec<AgentLine>,
}

#[derive(Serialize)]
struct DegradedMark {
    what: String,
    todo: String,
    since: Moment,
    retry: Option<Moment>,
    /// For who wants to know more.
    more: Option<&'static str>,
    app: bool,
    /// It is about the org's own.
    own_app: bool,
}

#[derive(Serialize)]
struct Ends {
    what: String,
    todo: String,
    at: Moment,
}

/// For a connector whose account nobody has named yet.
#[derive(Serialize)]
struct AccountField {
    label: &'static str,
    example: &'static str,
    rule: String,
}

#[derive(Serialize)]
struct TestView {
    ok: bool,
    at: Moment,
    actor: String,
    who: Option<String>,
    account: Option<String>,
    /// What is not granted, in words; empty when all is.
    missing: String,
    all_granted: bool,
    latency: String,
    room: Option<String>,
    error: Option<String>,
    next: Option<&'static str>,
}

#[derive(Serialize)]
struct Overview {
    who: Option<String>,
    email: Option<String>,
    scopes: Vec<ScopeLine>,
    kind: &'static str,
    expires: Option<Moment>,
    assumed: bool,
    refresh_expires: Option<Moment>,
    renewed: Option<Moment>,
    /// The next refresh, or the next try of one that did not succeed.
    due: Option<Moment>,
    /// A refresh is under way, or about to be.
    overdue: bool,
    version: i64,
    epoch: i64,
    fingerprint: Option<String>,
    alias: Option<String>,
    created: Moment,
}

#[derive(Serialize)]
struct ScopeLine {
    name: String,
    words: Option<&'static str>,
    missing: bool,
}

/// GET /connectors/{id}
pub(super) async fn show(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
    Query(asked): Query<Asked>,
) -> Result<Response, Trouble> {
    shown(&app, &person, &id, &asked, None).await
}

/// The page; once more, where a new name is none.
pub(super) async fn shown(
    app: &App,
    person: &Person,
    id: &str,
    asked: &Asked,
    refused: Option<Rename>,
) -> Result<Response, Trouble> {
    let status = if refused.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    let (org, now) = (person.org(), app.seams.clock.now());
    // Before the connector: a consent that has ended well by now is one whose grant is seen below.
    let session = match asked.consent.as_str() {
        "" => None,
        id => app.store.find_session_by_id(id).await?,
    };
    let found = app.store.find_connector(org, id).await?.filter(|view| view.snapshot.connector.as_str() == id);
    let view = found.ok_or_else(|| Trouble::not_found(person))?;
    let snapshot = &view.snapshot;
    let test = app.store.last_test(org, &snapshot.connector).await?;
    let test = test.and_then(|kept| serde_json::from_value::<LastTest>(kept).ok());
    let mirror = crate::sync::mirror(app, &snapshot.provider, &snapshot.connector).await?;
    let checklist = match session.and_then(|session| checklist(app, &view, &session, now)) {
        Some(checklist) => {
            let endpoints = app.store.endpoints_of(org, &snapshot.connector, now).await?;
            Some(checklist.with_webhook(&endpoints, app.provider_name(&snapshot.provider)).with_sync(mirror.as_ref()))
        }
        None => None,
    };
    let timeline = Timeline::read(app, org, snapshot, &asked.kind, &asked.before, now).await?;
    let charts = Charts::read(app, &view, now).await?;
    let agents = app.store.agents_of(std::slice::from_ref(&snapshot.connector)).await?;
    let agents = agents.get(&snapshot.connector).map(Vec::as_slice).unwrap_or_default();
    let told = match snapshot.health {
        Health::AuthFailed => Told::read(app, org, snapshot, now).await?,
        _ => None,
    };
    let likely = called::likely_end(app, snapshot).await?;
    let ways = match app.providers().find(&snapshot.provider) {
        Some(adapter) => connect::ways(app, org, adapter.about(), Some(snapshot)).await?,
        None => connect::Ways { key: false, both: false },
    };
    let mut page = page(app, person, &view, agents, ways, told, checklist, test, timeline, charts, &asked.did, now);
    if let (Some(failed), Some(likely)) = (&mut page.failed, likely) {
        failed.what = format!("{} {likely}", failed.what);
    }
    page.webhook = Card::of(app, org, snapshot, now).await?;
    let waiting = app.store.waiting_jobs(std::slice::from_ref(&snapshot.connector)).await?;
    page.waiting = waiting.first().map_or(0, |(_, count)| *count);
    page.sync = mirror.map(|mirror| sync::Card::new(&mirror, snapshot.health, now));
    page.migration = MigrationMark::read(app, snapshot, now).await?;
    page.rename = refused.unwrap_or_else(|| Rename { typed: page.name.clone(), ..Rename::default() });
    let title = page.name.clone();
    let view = View::of(person, Here::Connectors, "pages/connectors/show.html", &title, &page).status(status);
    // Only who may reconnect has forms that lead to a provider.
    let leads_to = person.may(Role::Admin).then(|| connect::leads_to(app));
    Ok(view.leads_to(leads_to.as_deref()).show(app))
}

/// The consent that the address names, if it is one of this connector's.
fn checklist(app: &App, view: &ConnectorView, session: &Session, now: DateTime<Utc>) -> Option<Checklist> {
    let snapshot = &view.snapshot;
    if session.connector != snapshot.connector || session.org != snapshot.org {
        return None;
    }
    let checklist = Checklist::new(app, session, &snapshot.provider, &snapshot.account, now);
    Some(checklist).filter(|checklist| !checklist.is_stale(snapshot.health))
}

#[expect(clippy::too_many_arguments, reason = "the parts that the page is put together from")]
fn page(
    app: &App,
    person: &Person,
    view: &ConnectorView,
    agents: &[AgentBrief],
    ways: connect::Ways,
    told: Option<Told>,
    checklist: Option<Checklist>,
    test: Option<LastTest>,
    timeline: Timeline,
    charts: Charts,
    did: &str,
    now: DateTime<Utc>,
) -> ConnectorPage {
    let snapshot = &view.snapshot;
    let provider = app.provider_name(&snapshot.provider);
    let health = snapshot.health;
    let name = called::connector(app, snapshot);
    let badge = Badge::of_health(health, snapshot.credential.degraded.is_some());
    // Of what the badge says.
    let since = match snapshot.credential.degraded.filter(|_| health == Health::Connected) {
        Some(mark) => mark.since,
        None => snapshot.health_since,
    };
    let about = app.providers().find(&snapshot.provider).map(|adapter| adapter.about());
    let field = about.filter(|_| snapshot.account.is_empty()).map(|about| AccountField {
        label: about.account_label,
        example: about.account_example,
        rule: words::sentence(about.account_rule),
    });
    let news = match &checklist {
        Some(checklist) => checklist.news().to_owned(),
        None => format!("{name}: {}", badge.word),
    };
    ConnectorPage {
        id: snapshot.connector.to_string(),
        events: live::address(Some(&snapshot.connector), now),
        mark: Mark::of(app, &snapshot.provider),
        account: called::account(app, &snapshot.provider, &snapshot.account),
        since: Moment::new(since, now),
        connect: connect_word(health),
        ways,
        failed: (health == Health::AuthFailed).then(|| {
            let said = words::failure(snapshot.health_reason, provider);
            Failed {
                what: said.what,
                todo: said.todo,
                since: Moment::new(snapshot.health_since, now),
                code: snapshot.health_reason.map_or("", holdfast_core::credential::Reason::as_str),
                detail: snapshot.health_detail.clone(),
                stopped: AgentLine::stopped(agents),
            }
        }),
        agents: agents.iter().map(AgentLine::of).collect(),
        has_tools: about.is_some_and(|about| !about.tools.is_empty()),
        told,
        degraded: degraded(view, provider, now),
        ends: ends(view, provider, now),
        migration: None,
        health: health.as_str(),
        field,
        checklist,
        news,
        // What was so before it failed, or was connected again, is not so any more.
        test: test.filter(|test| test.epoch == snapshot.epoch).map(|test| test_view(app, view, test, now)),
        overview: overview(app, view, now),
        timeline,
        charts,
        webhook: None,
        waiting: 0,
        sync: None,
        can_test: person.may(Role::Member) && matches!(health, Health::Connected | Health::AuthFailed),
        did: said(did, health),
        rename: Rename::default(),
        name,
        badge,
    }
}

/// What was done just now, as long as it is still so.
fn said(did: &str, health: Health) -> Option<&'static str> {
    match (did, health) {
        ("renamed", _) => Some("It is renamed."),
        ("account-stays", _) => {
            Some("It was connected before, and stays with its account. Another one is a new connector.")
        }
        ("disconnected", Health::Disconnected) => {
            Some("It is disconnected: nothing uses it any more, and all else is kept.")
        }
        ("not-given-back", Health::Disconnected) => Some(
            "It is disconnected: nothing here uses it any more. But the access could not be given back and may still \
             exist at the provider: remove the app there. The timeline says more.",
        ),
        ("sync", Health::Connected) => Some("A sync has begun. The number of tickets moves as they are read."),
        ("exists", Health::Connected) => Some("Your organisation has this account already: this is it, and it works."),
        ("exists", _) => Some("Your organisation has this account already: this is it. Connect it again from here."),
        _ => None,
    }
}

fn degraded(view: &ConnectorView, provider: &str, now: DateTime<Utc>) -> Option<DegradedMark> {
    let snapshot = &view.snapshot;
    let mark = snapshot.credential.degraded.filter(|_| snapshot.health == Health::Connected)?;
    let (app, own) = (mark.class == Class::AppBroken, snapshot.credential.app.org().is_some());
    let said = if app && own { words::own_app_broken(provider) } else { words::degraded(mark.class, provider) };
    Some(DegradedMark {
        what: said.what,
        todo: said.todo,
        since: Moment::new(mark.since, now),
        retry: Moment::maybe(retry(view, now), now),
        more: words::degraded_more(mark.class),
        app: app && !own,
        own_app: app && own,
    })
}

/// When a refresh that did not succeed is tried again.
fn retry(view: &ConnectorView, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let snapshot = &view.snapshot;
    let works = snapshot.health == Health::Connected;
    snapshot.credential.backoff.retry_at.filter(|at| works && *at > now)
}

/// An access that nothing renews.
fn ends(view: &ConnectorView, provider: &str, now: DateTime<Utc>) -> Option<Ends> {
    let snapshot = &view.snapshot;
    let tokens = snapshot.credential.secret.tokens().filter(|_| snapshot.health == Health::Connected)?;
    let at = tokens.ends_at()?;
    // A year's grant is no news in its first months.
    if tokens.refresh_token.is_some() && at - now > timing::WARNINGS[0] {
        return None;
    }
    let said = words::ending(provider, tokens.refresh_token.is_some());
    Some(Ends { what: said.what, todo: said.todo, at: Moment::new(at, now) })
}

fn test_view(app: &App, view: &ConnectorView, found: LastTest, now: DateTime<Utc>) -> TestView {
    let failed = view.snapshot.health == Health::AuthFailed;
    let provider = app.provider_name(&view.snapshot.provider);
    let identity = found.identity.as_ref();
    let text = |field: &str| identity.and_then(|identity| identity[field].as_str()).map(str::to_owned);
    let asked = app.providers().find(&view.snapshot.provider).map_or(0, |adapter| adapter.about().scopes.len());
    TestView {
        ok: found.error.is_none(),
        at: Moment::new(found.at, now),
        actor: found.actor,
        who: who(identity),
        account: text("account"),
        all_granted: found.missing.is_empty() && asked > 0,
        missing: called::scopes(app, &view.snapshot.provider, &found.missing).join("; "),
        latency: format!("{} ms", found.latency_ms),
        room: found.room.map(|(left, all)| format!("{left} of {all} calls")),
        next: found.error.as_ref().map(|(kind, _)| words::after_test(kind, failed)),
        // Whatever the call itself said: the connector has failed, and that is why.
        error: found.error.map(|(kind, message)| match kind.as_str() {
            "auth_failed" if failed => words::failure(view.snapshot.health_reason, provider).what,
            _ => words::sentence(&message),
        }),
    }
}

/// `Ada Admin, admin`.
fn who(identity: Option<&serde_json::Value>) -> Option<String> {
    let text = |field: &str| identity.and_then(|identity| identity[field].as_str());
    let name = text("name").or_else(|| text("email")).or_else(|| text("id"))?;
    let role = text("role").map(|role| format!(", {role}")).unwrap_or_default();
    Some(format!("{name}{role}"))
}

fn overview(app: &App, view: &ConnectorView, now: DateTime<Utc>) -> Overview {
    let credential = &view.snapshot.credential;
    let tokens = credential.secret.tokens();
    let works = view.snapshot.health == Health::Connected;
    let about = app.providers().find(&view.snapshot.provider).map(|adapter| adapter.about());
    let asked = about.map_or(&[][..], |about| about.scopes);
    let granted = tokens.map(|tokens| &tokens.scopes[..]).unwrap_or_default();
    let known = !granted.is_empty();
    let named = |name: &str| about.and_then(|about| about.scope_words(name));
    let has = granted.iter().map(|name| ScopeLine { name: name.clone(), words: named(name), missing: false });
    let lacks = asked.iter().filter(|scope| known && !granted.iter().any(|name| name == scope.name));
    let lacks = lacks.map(|scope| ScopeLine { name: scope.name.to_owned(), words: Some(scope.words), missing: true });
    let identity = view.identity.as_ref();
    let due = credential.due_at.filter(|_| works);
    let bearer = credential.secret.bearer().filter(|secret| !secret.expose_secret().is_empty());
    Overview {
        who: who(identity),
        email: identity.and_then(|identity| identity["email"].as_str()).map(str::to_owned),
        scopes: has.chain(lacks).collect(),
        kind: match &credential.secret {
            Secret::Absent => "Nothing yet",
            Secret::Tokens(_) if !works => "OAuth",
            Secret::Tokens(tokens) if tokens.refresh_token.is_some() => "OAuth, renewed by itself",
            Secret::Tokens(_) => "OAuth, not renewable",
            Secret::ApiKey(_) => "API key",
            Secret::Unreadable => "Stored, but it cannot be decrypted",
        },
        expires: Moment::maybe(tokens.filter(|_| works).and_then(|tokens| tokens.expires_at), now),
        assumed: tokens.is_some_and(|tokens| tokens.expires_assumed),
        refresh_expires: Moment::maybe(tokens.filter(|_| works).and_then(|tokens| tokens.refresh_expires_at), now),
        renewed: Moment::maybe(credential.rotated_at, now),
        due: Moment::maybe(retry(view, now).or(due.filter(|at| *at > now)), now),
        overdue: due.is_some_and(|at| at <= now),
        version: credential.version.0,
        epoch: view.snapshot.epoch,
        fingerprint: bearer.map(|secret| Fingerprint::of(secret).to_string()),
        alias: view.alias.clone(),
        created: Moment::new(view.created_at, now),
    }
}
