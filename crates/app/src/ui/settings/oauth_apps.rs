//! OAuth apps: the instance's for its operators, an org's own for its admins. One page each, with what to copy to the provider
//! and what is known of the client here. A secret is never shown again.

use std::{convert::Infallible, sync::Arc};

use axum::{
    extract::{FromRequestParts, MatchedPath, Path, Query, State as Shared},
    http::{StatusCode, request::Parts},
    response::Response,
};
use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::{AppId, OrgId, Provider, Role, provider::AuthKind};
use holdfast_store::{AppSecret, AppUse, StoredApp};
use serde::{Deserialize, Serialize};

use super::oauth_app_form;
use crate::{
    app::App,
    config::variable,
    oauth_apps::{SECRET_WARNING_DAYS, in_days},
    ui::{
        moment::Moment,
        person::Person,
        routes::{Needs, Routes},
        trouble::Trouble,
        view::{Here, View},
    },
};

const INSTANCE: &str = "/settings/oauth-apps";
const OWN: &str = "/settings/own-apps";

pub(super) fn routes() -> Routes {
    Routes::new()
        .get(INSTANCE, Needs::Operator, list)
        .get("/settings/oauth-apps/{provider}", Needs::Operator, show)
        .get(OWN, Needs::Role(Role::Admin), list)
        .get("/settings/own-apps/{provider}", Needs::Role(Role::Admin), show)
        .merge(oauth_app_form::routes())
}

/// Whose apps a page is about: its address says so, and the guard of the routes has looked who may.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    Instance,
    /// Of the person's org.
    Own,
}

impl Whose {
    pub(super) fn org(self, person: &Person) -> Option<&OrgId> {
        (self == Self::Own).then(|| person.org())
    }

    /// Where they are listed.
    pub(super) fn here(self) -> &'static str {
        match self {
            Self::Instance => INSTANCE,
            Self::Own => OWN,
        }
    }

    /// In the navigation of the settings.
    fn nav(self) -> &'static str {
        match self {
            Self::Instance => "oauth_apps",
            Self::Own => "own_apps",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Instance => "OAuth apps",
            Self::Own => "Your OAuth apps",
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Whose {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        let path = parts.extensions.get::<MatchedPath>().map(MatchedPath::as_str).unwrap_or_default();
        Ok(if path.starts_with(INSTANCE) { Self::Instance } else { Self::Own })
    }
}

/// What is known of one provider's app.
pub(super) struct State {
    pub(super) provider: &'static str,
    pub(super) name: &'static str,
    source: Source,
    now: DateTime<Utc>,
    /// Connectors that hold a grant of it, and those of them that wait for a better client.
    pub(super) held: u64,
    waiting: u64,
    /// Of an org's own: what is there beside it.
    beside: Option<Beside>,
}

#[derive(Serialize)]
struct Beside {
    /// The instance has an app, which counts where the org has none.
    instance: bool,
    /// The org's connectors that hold a grant of that.
    on_instance: u64,
    /// Own apps that connectors were connected with and that are not there any more.
    gone: Vec<Gone>,
}

#[derive(Serialize)]
struct Gone {
    client_id: String,
    held: u64,
}

/// Where it was set.
enum Source {
    Nowhere,
    /// The configuration goes first; `hidden`: there is one of the UI as well.
    Configuration {
        app: Box<crate::config::OAuthAppConfig>,
        hidden: bool,
    },
    Here(Box<StoredApp>),
}

impl State {
    /// As it is now.
    pub(super) async fn of(app: &App, org: Option<&OrgId>, provider: &dyn Provider) -> Result<Self, Trouble> {
        let about = provider.about();
        let stored = app.store.find_oauth_app(org, about.id).await?;
        let configured = app.apps.configured(about.id);
        let id = match (&stored, org) {
            (Some(stored), _) => Some(stored.id()),
            (None, None) => Some(AppId::instance(about.id)),
            (None, Some(_)) => None,
        };
        let beside = match org {
            None => None,
            Some(_) => Some(configured.is_some() || app.store.find_oauth_app(None, about.id).await?.is_some()),
        };
        let source = match (configured.filter(|_| org.is_none()), stored) {
            (Some(configured), stored) => {
                Source::Configuration { app: Box::new(configured.clone()), hidden: stored.is_some() }
            }
            (None, Some(stored)) => Source::Here(Box::new(stored)),
            (None, None) => Source::Nowhere,
        };
        let uses = app.store.apps_in_use(org, about.id).await?;
        let (held, waiting) =
            uses.iter().find(|one| Some(&one.app) == id.as_ref()).map_or((0, 0), |one| (one.held, one.waiting));
        let beside = beside.map(|instance| Beside::new(instance, &uses, id.as_ref()));
        Ok(Self { provider: about.id, name: about.name, source, now: app.seams.clock.now(), held, waiting, beside })
    }

    pub(super) fn is_set_up(&self) -> bool {
        !matches!(self.source, Source::Nowhere)
    }

    /// The one that was set in the UI, unless the configuration's goes before it.
    pub(super) fn stored(self) -> Option<StoredApp> {
        match self.source {
            Source::Here(stored) => Some(*stored),
            Source::Nowhere | Source::Configuration { .. } => None,
        }
    }

    pub(super) fn is_configured(&self) -> bool {
        matches!(self.source, Source::Configuration { .. })
    }

    fn ends_at(&self) -> Option<DateTime<Utc>> {
        match &self.source {
            Source::Nowhere => None,
            Source::Configuration { app, .. } => app.client_secret_expires_at,
            Source::Here(stored) => stored.secret_expires_at,
        }
    }

    fn unreadable(&self) -> bool {
        let cannot = |secret: &Option<AppSecret>| secret.as_ref().is_some_and(|secret| secret.secret.is_none());
        matches!(&self.source, Source::Here(stored) if cannot(&stored.secret) || cannot(&stored.next_secret))
    }

    /// Whether somebody has to look.
    pub(super) fn trouble(&self) -> bool {
        let near = |end| end <= self.now + TimeDelta::days(SECRET_WARNING_DAYS);
        self.waiting > 0 || self.has_gone() || self.unreadable() || self.ends_at().is_some_and(near)
    }

    fn has_gone(&self) -> bool {
        self.beside.as_ref().is_some_and(|beside| !beside.gone.is_empty())
    }

    /// Tone and word of its badge.
    fn badge(&self) -> (&'static str, String) {
        match self.ends_at() {
            _ if self.has_gone() => ("bad", "Taken out".to_owned()),
            _ if !self.is_set_up() && self.beside.is_some() => ("idle", "None".to_owned()),
            _ if !self.is_set_up() => ("idle", "Not set up".to_owned()),
            _ if self.unreadable() => ("bad", "Secret unreadable".to_owned()),
            _ if self.waiting > 0 => ("bad", "Refused".to_owned()),
            Some(end) if end <= self.now => ("bad", "Secret has ended".to_owned()),
            Some(end) if end <= self.now + TimeDelta::days(SECRET_WARNING_DAYS) => {
                ("warn", format!("Secret ends {}", in_days((end - self.now).num_days())))
            }
            _ => ("good", "Set up".to_owned()),
        }
    }

    fn row(&self) -> Row {
        let (tone, word) = self.badge();
        Row {
            id: self.provider,
            name: self.name,
            letter: self.name.chars().take(1).collect(),
            tone,
            word,
            source: match &self.source {
                Source::Nowhere => "",
                Source::Configuration { .. } => "configuration",
                Source::Here(_) => "here",
            },
            client_id: match &self.source {
                Source::Nowhere => String::new(),
                Source::Configuration { app, .. } => app.client_id.clone(),
                Source::Here(stored) => stored.client_id.clone(),
            },
            held: self.held,
            instance: self.beside.as_ref().is_some_and(|beside| beside.instance),
        }
    }

    fn facts(&self) -> Facts {
        let secret = |secret: &Option<AppSecret>| secret.as_ref().map(|secret| Secret::new(secret, self.now));
        let (secret, next, changed) = match &self.source {
            Source::Nowhere => (None, None, None),
            Source::Configuration { app, .. } => (
                app.client_secret.as_ref().map(|_| Secret::default()),
                app.next_client_secret.as_ref().map(|_| Secret::default()),
                None,
            ),
            Source::Here(stored) => (
                secret(&stored.secret),
                secret(&stored.next_secret),
                Some(Changed { by: stored.changed_by.clone(), at: Moment::new(stored.changed_at, self.now) }),
            ),
        };
        let ended = self.ends_at().filter(|end| *end <= self.now);
        let soon =
            self.ends_at().filter(|end| ended.is_none() && *end <= self.now + TimeDelta::days(SECRET_WARNING_DAYS));
        Facts {
            secret,
            next,
            changed,
            revision: match &self.source {
                Source::Here(stored) => stored.revision,
                Source::Nowhere | Source::Configuration { .. } => 0,
            },
            hidden: matches!(self.source, Source::Configuration { hidden: true, .. }),
            ends: Moment::maybe(self.ends_at(), self.now),
            ends_on: self.ends_at().map(|end| end.date_naive().to_string()).unwrap_or_default(),
            ended: ended.is_some(),
            ends_soon: soon.map(|end| in_days((end - self.now).num_days())),
            unreadable: self.unreadable(),
            waiting: self.waiting,
            secret_hint: match self.source {
                Source::Here(_) => "Leave it empty to keep the one that is set.".to_owned(),
                Source::Nowhere | Source::Configuration { .. } => {
                    "It is stored sealed, and never shown again. Only a public client has none.".to_owned()
                }
            },
            next_hint: "For a rotation without a break, in the steps below: it is tried when the current one is refused.",
        }
    }
}

impl Beside {
    fn new(instance: bool, uses: &[AppUse], id: Option<&AppId>) -> Self {
        let gone = uses
            .iter()
            .filter(|one| Some(&one.app) != id)
            .filter_map(|one| Some(Gone { client_id: one.app.own_client_id()?.to_owned(), held: one.held }));
        let of_instance = uses.iter().find(|one| one.app.org().is_none());
        Self { instance, on_instance: of_instance.map_or(0, |one| one.held), gone: gone.collect() }
    }
}

#[derive(Serialize)]
struct ListPage {
    own: bool,
    nav: &'static str,
    here: &'static str,
    title: &'static str,
    apps: Vec<Row>,
    /// Some are the configuration's.
    configured: bool,
    redirect_uri: String,
}

/// A provider's app in a few words.
#[derive(Serialize)]
struct Row {
    id: &'static str,
    name: &'static str,
    letter: String,
    tone: &'static str,
    word: String,
    /// `configuration`, `here`, or empty.
    source: &'static str,
    client_id: String,
    held: u64,
    /// Of an org's own: the instance has one as well.
    instance: bool,
}

#[derive(Serialize)]
struct Facts {
    secret: Option<Secret>,
    next: Option<Secret>,
    changed: Option<Changed>,
    /// What a form is about: a change in between refuses it.
    revision: i64,
    /// One of the UI is not used, since the configuration has one.
    hidden: bool,
    ends: Option<Moment>,
    /// As a date field takes it.
    ends_on: String,
    ended: bool,
    /// `in 7 days`.
    ends_soon: Option<String>,
    unreadable: bool,
    waiting: u64,
    secret_hint: String,
    next_hint: &'static str,
}

#[derive(Serialize)]
struct Changed {
    by: Option<String>,
    at: Moment,
}

/// Of a client secret everything but the secret.
#[derive(Serialize, Default)]
struct Secret {
    set: Option<Moment>,
    checked: Option<Moment>,
}

impl Secret {
    fn new(secret: &AppSecret, now: DateTime<Utc>) -> Self {
        Self { set: Some(Moment::new(secret.set_at, now)), checked: Moment::maybe(secret.checked_at, now) }
    }
}

/// How the secret of a configured app is rotated: keys and variables by their names.
#[derive(Serialize)]
struct Recipe {
    /// Secrets stand in files, and keys name those.
    in_file: bool,
    current: &'static str,
    next: &'static str,
    /// In parts, between which a line may end.
    variable: Vec<String>,
    next_variable: Vec<String>,
}

impl Recipe {
    /// `None`: it is not the configuration's, or has no secret.
    fn of(state: &State) -> Option<Self> {
        let Source::Configuration { app, .. } = &state.source else { return None };
        app.client_secret.as_ref()?;
        let in_file = app.client_secret_file.is_some();
        let (current, next) = if in_file {
            ("client_secret_file", "next_client_secret_file")
        } else {
            ("client_secret", "next_client_secret")
        };
        let variable = |key: &str| {
            let name = variable(&format!("oauth_apps.{}.{key}", state.provider));
            name.split_inclusive("__").map(str::to_owned).collect()
        };
        Some(Self { in_file, current, next, variable: variable(current), next_variable: variable(next) })
    }
}

#[derive(Serialize)]
struct ScopeRow {
    name: &'static str,
    words: &'static str,
}

#[derive(Serialize)]
struct AppPage<'a> {
    own: bool,
    nav: &'static str,
    here: &'static str,
    title: &'static str,
    app: Row,
    beside: Option<Beside>,
    facts: Facts,
    /// How a client is made there.
    steps: &'static [&'static str],
    recipe: Option<Recipe>,
    redirect_uri: String,
    scopes: Vec<ScopeRow>,
    told: Told<'a>,
}

/// What is said on top of the page, and what was typed.
#[derive(Serialize, Default)]
pub(super) struct Told<'a> {
    pub(super) done: Option<&'static str>,
    /// What did not work.
    pub(super) trouble: Option<String>,
    /// `None`: the form is as it is stored.
    pub(super) typed: Option<Typed<'a>>,
    pub(super) problems: Problems,
}

/// What was typed and may be shown again: no secret.
#[derive(Serialize)]
pub(super) struct Typed<'a> {
    pub(super) client_id: &'a str,
    pub(super) ends_on: &'a str,
    /// Another client id has to be confirmed.
    pub(super) confirm: bool,
}

/// By the fields that they stand by.
#[derive(Serialize, Default, PartialEq)]
pub(super) struct Problems {
    pub(super) client_id: String,
    pub(super) secret: String,
    pub(super) next: String,
    pub(super) ends_on: String,
}

/// GET /settings/oauth-apps, /settings/own-apps
async fn list(Shared(app): Shared<Arc<App>>, whose: Whose, person: Person) -> Result<Response, Trouble> {
    let mut apps = Vec::new();
    for provider in app.providers().iter().filter(|provider| provider.about().auth_kind == AuthKind::OAuth2) {
        apps.push(State::of(&app, whose.org(&person), provider.as_ref()).await?.row());
    }
    // Those that count first, as in the catalogue.
    apps.sort_by_key(|row| (row.source.is_empty(), !row.instance));
    let (own, here, title) = (whose == Whose::Own, whose.here(), whose.title());
    let configured = apps.iter().any(|row| row.source == "configuration");
    let page = ListPage { own, nav: whose.nav(), here, title, apps, configured, redirect_uri: app.redirect_uri() };
    Ok(View::of(&person, Here::Settings, "pages/settings/oauth_apps.html", title, &page).show(&app))
}

#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    done: String,
}

fn done(word: &str) -> Option<&'static str> {
    match word {
        "saved" => Some("Saved."),
        "next-saved" => {
            Some("Saved. Both secrets are good now: retire the older one at the provider, then check here.")
        }
        "promoted" => Some("The next secret is the current one now."),
        "dropped" => Some("The next secret is taken out."),
        "removed" => Some("The app is taken out. Nothing can be connected with it any more."),
        _ => None,
    }
}

/// GET /settings/oauth-apps/{provider}, /settings/own-apps/{provider}
async fn show(
    Shared(app): Shared<Arc<App>>,
    whose: Whose,
    person: Person,
    Path(id): Path<String>,
    Query(asked): Query<Asked>,
) -> Result<Response, Trouble> {
    let provider = found(&app, &person, &id)?;
    let told = Told { done: done(&asked.done), ..Told::default() };
    page(&app, whose, &person, provider.as_ref(), told, StatusCode::OK).await
}

/// The provider of this id, if it takes an OAuth app.
pub(super) fn found(app: &App, person: &Person, id: &str) -> Result<Arc<dyn Provider>, Trouble> {
    let provider = app.providers().find(id).filter(|provider| provider.about().auth_kind == AuthKind::OAuth2);
    provider.cloned().ok_or_else(|| Trouble::not_found(person))
}

/// The page of one app.
pub(super) async fn page(
    app: &App,
    whose: Whose,
    person: &Person,
    provider: &dyn Provider,
    told: Told<'_>,
    status: StatusCode,
) -> Result<Response, Trouble> {
    let state = State::of(app, whose.org(person), provider).await?;
    let about = provider.about();
    let title = match whose {
        Whose::Instance => format!("{} OAuth app", about.name),
        Whose::Own => format!("Your {} OAuth app", about.name),
    };
    let page = AppPage {
        own: whose == Whose::Own,
        nav: whose.nav(),
        here: whose.here(),
        title: whose.title(),
        app: state.row(),
        facts: state.facts(),
        recipe: Recipe::of(&state),
        beside: state.beside,
        steps: about.app_steps,
        redirect_uri: app.redirect_uri(),
        scopes: about.scopes.iter().map(|scope| ScopeRow { name: scope.name, words: scope.words }).collect(),
        told,
    };
    let view = View::of(person, Here::Settings, "pages/settings/oauth_app.html", &title, &page);
    Ok(view.status(status).show(app))
}
