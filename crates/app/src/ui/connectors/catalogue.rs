//! What can be connected, and the form that starts it.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, Query, State},
    http::{StatusCode, header},
    response::{IntoResponse, Redirect, Response},
};
use holdfast_core::{
    ConnectorId, Health, OrgId, Provider, Secret, Snapshot,
    provider::{About, Account},
};
use holdfast_store::{Created, NewConnector, Way};
use serde::{Deserialize, Serialize};

use super::{Mark, find};
use crate::{
    app::App,
    called, care, connect as consent,
    ui::{
        form::Posted,
        person::{Person, Visitor},
        trouble::Trouble,
        view::{Here, View},
    },
    words,
};

/// A provider in the catalogue.
#[derive(Serialize)]
struct Tile {
    mark: Mark,
    line: &'static str,
}

/// Providers by name: those that can be connected now, and those that somebody has to set up first.
#[derive(Default, Serialize)]
pub(super) struct Tiles {
    ready: Vec<Tile>,
    unset: Vec<Tile>,
}

impl Tiles {
    /// All that have this in name or line.
    pub(super) async fn find(app: &App, org: &OrgId, search: &str) -> Result<Self, Trouble> {
        let search = search.trim().to_lowercase();
        let mut tiles = Self::default();
        for provider in app.providers().iter() {
            let about = provider.about();
            if about.name.to_lowercase().contains(&search) || about.line.to_lowercase().contains(&search) {
                let part = if ready(app, org, about).await? { &mut tiles.ready } else { &mut tiles.unset };
                part.push(Tile { mark: Mark::of(app, about.id), line: about.line });
            }
        }
        Ok(tiles)
    }
}

async fn ready(app: &App, org: &OrgId, about: &About) -> Result<bool, Trouble> {
    Ok(about.takes_keys() || app.apps.is_set_up(org, about.id).await?)
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Search {
    q: String,
}

#[derive(Serialize)]
struct CataloguePage {
    search: String,
    tiles: Tiles,
}

/// GET /connectors/new
pub(super) async fn show(
    State(app): State<Arc<App>>,
    person: Person,
    Query(asked): Query<Search>,
) -> Result<Response, Trouble> {
    let search = asked.q.trim().to_owned();
    let tiles = Tiles::find(&app, person.org(), &search).await?;
    let page = CataloguePage { search, tiles };
    Ok(View::of(&person, Here::Connectors, "pages/connectors/catalogue.html", "Connect", &page).show(&app))
}

/// What was typed.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Typed {
    pub(super) account: String,
    pub(super) name: String,
    /// The way in that the button said.
    pub(super) by: String,
}

/// What is wrong with it, by its field.
#[derive(Default, PartialEq, Serialize)]
pub(super) struct Problems {
    pub(super) account: String,
    pub(super) name: String,
}

/// The form, filled in.
pub(super) struct Filled<'a> {
    pub(super) typed: &'a Typed,
    pub(super) problems: Problems,
    /// The connector whose account is corrected; `None`: a new one is made.
    pub(super) corrects: Option<&'a Snapshot>,
    /// The connector that has the account.
    pub(super) taken: Option<Arc<Snapshot>>,
}

#[derive(Serialize)]
struct FormPage<'a> {
    mark: Mark,
    label: &'static str,
    example: &'static str,
    rule: String,
    account: &'a str,
    name: &'a str,
    problems: Problems,
    scopes: Vec<ScopeLine>,
    ways: consent::Ways,
    help: Option<&'static str>,
    ready: bool,
    redirect_uri: String,
    corrects: Option<Named>,
    taken: Option<Named>,
}

/// A connector to be led to.
#[derive(Serialize)]
struct Named {
    id: String,
    name: String,
}

impl Named {
    fn of(app: &App, snapshot: &Snapshot) -> Self {
        Self { id: snapshot.connector.to_string(), name: called::connector(app, snapshot) }
    }
}

#[derive(Serialize)]
struct ScopeLine {
    name: &'static str,
    words: &'static str,
}

/// GET /connectors/new/{provider}
pub(super) async fn form(
    State(app): State<Arc<App>>,
    person: Person,
    Path(provider): Path<String>,
    Query(typed): Query<Typed>,
) -> Result<Response, Trouble> {
    let provider = adapter(&app, &person, &provider)?;
    page(&app, &person, provider.as_ref(), Filled::new(&typed, Problems::default())).await
}

impl<'a> Filled<'a> {
    /// For a new connector.
    fn new(typed: &'a Typed, problems: Problems) -> Self {
        Self { typed, problems, corrects: None, taken: None }
    }
}

/// The page of the form.
pub(super) async fn page(
    app: &App,
    person: &Person,
    provider: &dyn Provider,
    filled: Filled<'_>,
) -> Result<Response, Trouble> {
    let about = provider.about();
    let fine = filled.problems == Problems::default();
    let page = FormPage {
        mark: Mark::of(app, about.id),
        label: about.account_label,
        example: about.account_example,
        rule: words::sentence(about.account_rule),
        account: &filled.typed.account,
        name: &filled.typed.name,
        problems: filled.problems,
        scopes: about.scopes.iter().map(|scope| ScopeLine { name: scope.name, words: scope.words }).collect(),
        ways: consent::ways(app, person.org(), about, filled.corrects).await?,
        help: about.key_help,
        ready: ready(app, person.org(), about).await?,
        redirect_uri: app.redirect_uri(),
        corrects: filled.corrects.map(|snapshot| Named::of(app, snapshot)),
        taken: filled.taken.map(|snapshot| Named::of(app, &snapshot)),
    };
    let title =
        if page.corrects.is_some() { "Change the account".to_owned() } else { format!("Connect {}", about.name) };
    let view = View::of(person, Here::Connectors, "pages/connectors/new.html", &title, &page);
    let status = if fine { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
    Ok(view.status(status).leads_to(consent::leads_to(app).as_str()).show(app))
}

pub(super) fn adapter(app: &App, person: &Person, id: &str) -> Result<Arc<dyn Provider>, Trouble> {
    app.providers().find(id).cloned().ok_or_else(|| Trouble::not_found(person))
}

/// The same, where somebody can be sent there.
pub(super) async fn connectable(app: &App, person: &Person, id: &str) -> Result<Arc<dyn Provider>, Trouble> {
    let provider = adapter(app, person, id)?;
    let about = provider.about();
    if ready(app, person.org(), about).await? { Ok(provider) } else { Err(consent::no_app(about.name).seen_by(person)) }
}

/// The account that was typed, if a name that fits was typed with it.
pub(super) fn read(provider: &dyn Provider, typed: &Typed) -> Result<Account, Problems> {
    let name = typed.name.trim();
    let name_fits = name.is_empty() || care::is_name(name);
    match provider.account(&typed.account) {
        Ok(account) if name_fits => Ok(account),
        account => Err(Problems {
            account: account.err().map(|invalid| invalid.message).unwrap_or_default(),
            name: if name_fits { String::new() } else { format!("A name {}.", care::NAME_RULE) },
        }),
    }
}

/// POST /connectors/new/{provider}: makes the connector, or finds the one that was not finished, and sends the browser
/// to the provider. Twice at once, or after going back, it is the same connector.
pub(super) async fn connect(
    State(app): State<Arc<App>>,
    person: Person,
    visitor: Visitor,
    Path(provider): Path<String>,
    Posted(typed): Posted<Typed>,
) -> Result<Response, Trouble> {
    let provider = connectable(&app, &person, &provider).await?;
    let about = provider.about();
    let account = match read(provider.as_ref(), &typed) {
        Ok(account) => account,
        Err(problems) => return page(&app, &person, provider.as_ref(), Filled::new(&typed, problems)).await,
    };
    let name = typed.name.trim();
    let id = match make(&app, &person, about.id, &account, name).await? {
        Made::Pending(id) => id,
        Made::Before(id) => return Ok(Redirect::to(&format!("/connectors/{id}?did=exists")).into_response()),
    };
    let snapshot = find(&app, &person, id.as_str()).await?;
    if !name.is_empty() {
        care::rename(&app, &snapshot, name, &person.actor()).await?;
    }
    go(&app, &person, visitor, &snapshot, &typed.by).await
}

/// To the provider, or to where a key is asked for.
pub(super) async fn go(
    app: &App,
    person: &Person,
    visitor: Visitor,
    snapshot: &Arc<Snapshot>,
    by: &str,
) -> Result<Response, Trouble> {
    let (user, browser) = (&person.user.id, &visitor.browser);
    let target = consent::begin(app, snapshot, None, by, Way::SignedIn, user, browser).await;
    let target = target.map_err(|trouble| trouble.seen_by(person))?;
    Ok((StatusCode::SEE_OTHER, visitor.jar, [(header::LOCATION, target)]).into_response())
}

enum Made {
    /// Not connected yet.
    Pending(ConnectorId),
    /// It was connected before: there is a page for it, with all it needs.
    Before(ConnectorId),
}

async fn make(app: &App, person: &Person, provider: &str, account: &Account, name: &str) -> Result<Made, Trouble> {
    let (org, store) = (person.org(), &app.store);
    if store.find_account(org, provider, &account.id).await?.is_none() {
        let new = NewConnector {
            org: org.clone(),
            provider: provider.to_owned(),
            account: account.id.clone(),
            name: if name.is_empty() { account.display.clone() } else { name.to_owned() },
            alias: None,
            secret: Secret::Absent,
            app: None,
            due_at: None,
            extras: Vec::new(),
            at: app.seams.clock.now(),
        };
        if let Created::New(id) = store.create_connector(&new).await? {
            return Ok(Made::Pending(id));
        }
    }
    // It was there, or somebody was faster a moment ago.
    let found = store.find_account(org, provider, &account.id).await?;
    let found = found.ok_or_else(|| Trouble::not_found(person))?;
    Ok(if found.health == Health::Pending { Made::Pending(found.id) } else { Made::Before(found.id) })
}

/// What is understood of an account while it is typed.
#[derive(Serialize)]
pub(super) struct Understood {
    /// The account as people know it.
    account: Option<String>,
    /// Why it is none.
    problem: Option<String>,
    /// The org has it already: where.
    known: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Typing {
    typed: String,
}

/// GET /connectors/new/{provider}/account: asked by the script while somebody types.
pub(super) async fn account(
    State(app): State<Arc<App>>,
    person: Person,
    Path(provider): Path<String>,
    Query(typing): Query<Typing>,
) -> Result<Json<Understood>, Trouble> {
    let provider = adapter(&app, &person, &provider)?;
    Ok(Json(match provider.account(&typing.typed) {
        Err(invalid) => Understood { account: None, problem: Some(invalid.message), known: None },
        Ok(account) => {
            let found = app.store.find_account(person.org(), provider.about().id, &account.id).await?;
            let known = found.filter(|line| line.health != Health::Pending);
            Understood {
                account: Some(account.display),
                problem: None,
                known: known.map(|line| format!("/connectors/{}", line.id)),
            }
        }
    }))
}
