//! Try again, discard: one, or all of a filter.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
};
use holdfast_store::{ByHand, Did};

use super::home::{Asked, address};
use crate::{
    app::App,
    jobs::refused_by_hand,
    ui::{
        form::{Nothing, Posted},
        person::Person,
        trouble::Trouble,
    },
};

fn did(wish: ByHand) -> &'static str {
    match wish {
        ByHand::Retry => "retried",
        ByHand::Discard => "discarded",
    }
}

/// POST /jobs/{id}/retry
pub(super) async fn retry(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
    Posted(Nothing {}): Posted<Nothing>,
) -> Result<Response, Trouble> {
    one(&app, person, &id, ByHand::Retry).await
}

/// POST /jobs/{id}/discard
pub(super) async fn discard(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
    Posted(Nothing {}): Posted<Nothing>,
) -> Result<Response, Trouble> {
    one(&app, person, &id, ByHand::Discard).await
}

/// POST /jobs/retry
pub(super) async fn retry_all(
    State(app): State<Arc<App>>,
    person: Person,
    Posted(asked): Posted<Asked>,
) -> Result<Response, Trouble> {
    all(&app, &person, &asked, ByHand::Retry).await
}

/// POST /jobs/discard
pub(super) async fn discard_all(
    State(app): State<Arc<App>>,
    person: Person,
    Posted(asked): Posted<Asked>,
) -> Result<Response, Trouble> {
    all(&app, &person, &asked, ByHand::Discard).await
}

async fn one(app: &App, person: Person, id: &str, wish: ByHand) -> Result<Response, Trouble> {
    match app.store.handle_job(person.org(), id, wish, &person.actor(), app.seams.clock.now()).await? {
        Did::Yes => Ok(Redirect::to(&format!("/jobs/{id}?did={}", did(wish))).into_response()),
        Did::No(state) => Err(Trouble::Told {
            status: StatusCode::CONFLICT,
            title: "Nothing was changed".to_owned(),
            way_on: refused_by_hand(wish, state),
            way: None,
            person: Some(Box::new(person)),
        }),
        Did::NoJob => Err(Trouble::not_found(&person)),
    }
}

async fn all(app: &App, person: &Person, asked: &Asked, wish: ByHand) -> Result<Response, Trouble> {
    let filter = asked.filter();
    let now = app.seams.clock.now();
    let changed = app.store.handle_jobs(person.org(), &filter, wish, &person.actor(), now).await?;
    let number = changed.to_string();
    Ok(Redirect::to(&address(&filter, &[("did", did(wish)), ("number", &number)])).into_response())
}
