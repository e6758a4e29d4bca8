//! API keys: listed, made and shown once, revoked.

use std::sync::Arc;

use axum::{
    extract::{Path, Query, State},
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
};
use holdfast_core::{Role, ports::Changed};
use holdfast_store::{ApiKey, NewKey};
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use tracing::info;

use crate::{
    app::App,
    care,
    keys::{self, SCOPES, scope_in_words},
    ui::{
        form::{Nothing, Posted},
        moment::Moment,
        person::Person,
        routes::{Needs, Routes},
        trouble::Trouble,
        view::{Here, View},
    },
};

const HERE: &str = "/settings/keys";
const ADMIN: Needs = Needs::Role(Role::Admin);

pub(super) fn routes() -> Routes {
    Routes::new().get(HERE, ADMIN, show).post(HERE, ADMIN, make).post("/settings/keys/{id}/revoke", ADMIN, revoke)
}

#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    done: String,
}

#[derive(Serialize)]
struct KeysPage<'a> {
    done: Option<&'static str>,
    /// The key that was just made, this once.
    made: Option<Made<'a>>,
    keys: Vec<Row>,
    /// Of those that are over.
    revoked: Vec<Row>,
    form: Form,
}

#[derive(Serialize)]
struct Made<'a> {
    name: &'a str,
    key: &'a str,
}

#[derive(Serialize)]
struct Row {
    id: String,
    name: String,
    scopes: Vec<Scope>,
    made: Moment,
    revoked: Option<Moment>,
}

#[derive(Serialize)]
struct Scope {
    name: String,
    words: &'static str,
    /// Ticked in the form.
    chosen: bool,
}

/// The form, as it is shown again with what was typed.
#[derive(Serialize)]
struct Form {
    id: String,
    name: String,
    scopes: Vec<Scope>,
    problems: Problems,
}

/// By the fields that they stand by.
#[derive(Serialize, Default, PartialEq)]
struct Problems {
    name: String,
    scopes: String,
}

impl Form {
    fn new(app: &App, name: &str, chosen: &[String], problems: Problems) -> Self {
        let scope = |scope: &str| Scope {
            name: scope.to_owned(),
            words: scope_in_words(scope),
            chosen: chosen.iter().any(|one| one == scope),
        };
        Self {
            id: app.store.new_key_id(),
            name: name.to_owned(),
            scopes: SCOPES.iter().copied().map(scope).collect(),
            problems,
        }
    }
}

async fn page(
    app: &App,
    person: &Person,
    done: Option<&'static str>,
    made: Option<Made<'_>>,
    form: Form,
) -> Result<Response, Trouble> {
    let now = app.seams.clock.now();
    let row = |key: ApiKey| Row {
        id: key.id,
        name: key.name,
        scopes: key
            .scopes
            .iter()
            .map(|scope| Scope { name: scope.clone(), words: scope_in_words(scope), chosen: true })
            .collect(),
        made: Moment::new(key.created_at, now),
        revoked: Moment::maybe(key.revoked_at, now),
    };
    let all = app.store.keys(person.org()).await?;
    let (revoked, keys): (Vec<_>, Vec<_>) = all.into_iter().rev().map(row).partition(|key| key.revoked.is_some());
    let wrong = form.problems != Problems::default();
    let page = KeysPage { done, made, keys, revoked, form };
    let status = if wrong { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    let view = View::of(person, Here::Settings, "pages/settings/keys.html", "API keys", &page);
    Ok(view.status(status).show(app))
}

/// GET /settings/keys
async fn show(State(app): State<Arc<App>>, person: Person, Query(asked): Query<Asked>) -> Result<Response, Trouble> {
    let done = (asked.done == "revoked").then_some("The key is revoked; it opens nothing any more.");
    let form = Form::new(&app, "", &[], Problems::default());
    page(&app, &person, done, None, form).await
}

#[derive(Deserialize)]
struct Make {
    /// Of the key that is to be made: a form that is sent twice makes one key.
    #[serde(default)]
    id: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    scope: Vec<String>,
}

/// POST /settings/keys. Answers with the key itself: it cannot be shown after a redirect, since it is nowhere.
async fn make(State(app): State<Arc<App>>, person: Person, Posted(form): Posted<Make>) -> Result<Response, Trouble> {
    let name = form.name.trim();
    let unless = |good: bool, text: &str| if good { String::new() } else { text.to_owned() };
    let problems = Problems {
        name: unless(care::is_name(name), &format!("A key's name {}; it says what the key is for.", care::NAME_RULE)),
        scopes: unless(!form.scope.is_empty(), "Choose what the key may do."),
    };
    if problems != Problems::default() {
        let again = Form::new(&app, &form.name, &form.scope, problems);
        return page(&app, &person, None, None, again).await;
    }
    if !is_key_id(&form.id) || form.scope.iter().any(|scope| !SCOPES.contains(&scope.as_str())) {
        return Err(Trouble::Garbled);
    }
    let key = keys::secret_text("hf_", app.seams.random.as_ref());
    let (hash, at) = (keys::hash(key.expose_secret()), app.seams.clock.now());
    let new = NewKey { org: person.org(), id: &form.id, name, scopes: &form.scope, hash: &hash, at };
    let by = person.actor();
    if app.store.create_key_as(&new, Some((&app.telling(), by.as_str()))).await? == Changed::No {
        let way_on = "The form was sent twice, and a key is shown only once. If you do not have it, revoke it and make \
                      another one.";
        return Err(Trouble::told(&person, StatusCode::CONFLICT, "This key was made already", way_on));
    }
    info!(user.id = person.user.id, key.id = form.id, "{} made the API key {}", person.user.id, form.id);
    let made = Made { name, key: key.expose_secret() };
    page(&app, &person, None, Some(made), Form::new(&app, "", &[], Problems::default())).await
}

/// POST /settings/keys/{id}/revoke
async fn revoke(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
    Posted(Nothing {}): Posted<Nothing>,
) -> Result<Response, Trouble> {
    if !app.store.keys(person.org()).await?.iter().any(|key| key.id == id) {
        return Err(Trouble::not_found(&person));
    }
    if app.store.revoke_key(person.org(), &id, app.seams.clock.now()).await? == Changed::Yes {
        app.keys.forget();
        info!(user.id = person.user.id, key.id = id, "{} revoked the API key {id}", person.user.id);
    }
    Ok(Redirect::to(&format!("{HERE}?done=revoked")).into_response())
}

/// As [`holdfast_core::id::new`] makes them.
fn is_key_id(id: &str) -> bool {
    id.strip_prefix("key_").is_some_and(|rest| rest.len() == 32 && rest.bytes().all(|b| b.is_ascii_hexdigit()))
}
