//! Disconnect and delete: a page before each says what will stop, and asks for the name. One that was never connected is
//! discarded with one press.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
};
use holdfast_core::{Health, Snapshot};
use serde::{Deserialize, Serialize};

use super::{AgentLine, Mark, find};
use crate::{
    app::App,
    called, care,
    ui::{
        form::Posted,
        person::Person,
        trouble::Trouble,
        view::{Here, View},
    },
};

/// Which of the two.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Disconnect,
    Delete,
}

#[derive(Serialize)]
struct EndPage<'a> {
    id: &'a str,
    mark: Mark,
    name: String,
    account: String,
    provider: &'a str,
    delete: bool,
    /// It was never connected: nothing is lost with it, and no name is asked for.
    discard: bool,
    /// It has something to give back.
    held: bool,
    /// The agents that stop.
    agents: Vec<AgentLine>,
    typed: &'a str,
    problem: &'a str,
}

/// The name, typed again.
#[derive(Deserialize)]
pub(super) struct Sure {
    #[serde(default)]
    name: String,
}

/// GET /connectors/{id}/disconnect
pub(super) async fn ask_disconnect(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
) -> Result<Response, Trouble> {
    ask(&app, &person, &id, End::Disconnect).await
}

/// GET /connectors/{id}/delete
pub(super) async fn ask_delete(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
) -> Result<Response, Trouble> {
    ask(&app, &person, &id, End::Delete).await
}

async fn ask(app: &App, person: &Person, id: &str, end: End) -> Result<Response, Trouble> {
    let snapshot = find(app, person, id).await?;
    if end == End::Disconnect && snapshot.health == Health::Disconnected {
        return Ok(Redirect::to(&format!("/connectors/{id}")).into_response());
    }
    page(app, person, &snapshot, end, ("", "")).await
}

async fn page(
    app: &App,
    person: &Person,
    snapshot: &Snapshot,
    end: End,
    (typed, problem): (&str, &str),
) -> Result<Response, Trouble> {
    let agents = app.store.agents_of(std::slice::from_ref(&snapshot.connector)).await?;
    let name = called::connector(app, snapshot);
    let discard = is_discarded(snapshot, end);
    let title = match end {
        End::Disconnect => format!("Disconnect {name}"),
        End::Delete if discard => format!("Discard {name}"),
        End::Delete => format!("Delete {name}"),
    };
    let page = EndPage {
        id: snapshot.connector.as_str(),
        mark: Mark::of(app, &snapshot.provider),
        name,
        account: called::account(app, &snapshot.provider, &snapshot.account),
        provider: app.provider_name(&snapshot.provider),
        delete: end == End::Delete,
        discard,
        held: matches!(snapshot.health, Health::Connected | Health::AuthFailed),
        agents: agents.get(&snapshot.connector).map(|agents| AgentLine::working(agents)).unwrap_or_default(),
        typed,
        problem,
    };
    let status = if problem.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
    let view = View::of(person, Here::Connectors, "pages/connectors/end.html", &title, &page);
    Ok(view.status(status).show(app))
}

fn is_discarded(snapshot: &Snapshot, end: End) -> bool {
    end == End::Delete && snapshot.health == Health::Pending
}

/// `Err` is the page that asks again.
async fn sure(
    app: &App,
    person: &Person,
    id: &str,
    form: &Sure,
    end: End,
) -> Result<Result<Arc<Snapshot>, Response>, Trouble> {
    let snapshot = find(app, person, id).await?;
    let name = called::connector(app, &snapshot);
    if is_discarded(&snapshot, end) || form.name.trim() == name.trim() {
        return Ok(Ok(snapshot));
    }
    let problem = "This is not its name. Type it as it stands above, or go back.";
    Ok(Err(page(app, person, &snapshot, end, (&form.name, problem)).await?))
}

/// POST /connectors/{id}/disconnect
pub(super) async fn disconnect(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
    Posted(form): Posted<Sure>,
) -> Result<Response, Trouble> {
    let snapshot = match sure(&app, &person, &id, &form, End::Disconnect).await? {
        Ok(snapshot) => snapshot,
        Err(page) => return Ok(page),
    };
    let done = care::disconnect(&app, &snapshot, &person.actor()).await;
    let given_back = done.map_err(|problem| Trouble::from_problem(&person, &problem))?;
    let did = if given_back { "disconnected" } else { "not-given-back" };
    Ok(Redirect::to(&format!("/connectors/{id}?did={did}")).into_response())
}

/// POST /connectors/{id}/delete
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
    Posted(form): Posted<Sure>,
) -> Result<Response, Trouble> {
    let snapshot = match sure(&app, &person, &id, &form, End::Delete).await? {
        Ok(snapshot) => snapshot,
        Err(page) => return Ok(page),
    };
    care::delete(&app, &snapshot).await.map_err(|problem| Trouble::from_problem(&person, &problem))?;
    Ok(Redirect::to("/connectors?did=deleted").into_response())
}
