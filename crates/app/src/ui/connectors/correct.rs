//! A slip in the account of a connector that was never connected: the form that it was begun with, with what was typed then,
//! and saved in place.

use std::sync::Arc;

use axum::{
    extract::{Path, Query, State},
    response::{IntoResponse, Redirect, Response},
};
use holdfast_core::{Health, Snapshot};
use holdfast_store::Moved;

use super::{
    catalogue::{Filled, Problems, Typed, adapter, connectable, go, page, read},
    find,
};
use crate::{
    app::App,
    called, care,
    ui::{
        form::Posted,
        person::{Person, Visitor},
        trouble::Trouble,
    },
};

/// GET /connectors/{id}/account
pub(super) async fn show(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
    Query(typed): Query<Typed>,
) -> Result<Response, Trouble> {
    let snapshot = find(&app, &person, &id).await?;
    if snapshot.health != Health::Pending {
        return Ok(stays(&snapshot));
    }
    let provider = adapter(&app, &person, &snapshot.provider)?;
    // Who comes back from the provider finds what they typed, as the browser has kept it.
    let typed = if typed.account.is_empty() { begun_with(&app, &snapshot) } else { typed };
    let filled = Filled { typed: &typed, problems: Problems::default(), corrects: Some(&snapshot), taken: None };
    page(&app, &person, provider.as_ref(), filled).await
}

/// POST /connectors/{id}/account: saved, and on to the provider.
pub(super) async fn save(
    State(app): State<Arc<App>>,
    person: Person,
    visitor: Visitor,
    Path(id): Path<String>,
    Posted(typed): Posted<Typed>,
) -> Result<Response, Trouble> {
    let snapshot = find(&app, &person, &id).await?;
    if snapshot.health != Health::Pending {
        return Ok(stays(&snapshot));
    }
    let provider = connectable(&app, &person, &snapshot.provider).await?;
    let again = |problems, taken| Filled { typed: &typed, problems, corrects: Some(&snapshot), taken };
    let account = match read(provider.as_ref(), &typed) {
        Ok(account) => account,
        Err(problems) => return page(&app, &person, provider.as_ref(), again(problems, None)).await,
    };
    let name = Some(typed.name.trim()).filter(|name| !name.is_empty()).unwrap_or(&account.display);
    match care::correct(&app, &snapshot, &account, name, &person.actor()).await? {
        Moved::Yes => {}
        Moved::No => return Ok(stays(&snapshot)),
        Moved::Taken(other) => {
            let taken = find(&app, &person, other.as_str()).await?;
            let account = format!("Your organisation has {} on another connector.", account.display);
            let problems = Problems { account, ..Problems::default() };
            return page(&app, &person, provider.as_ref(), again(problems, Some(taken))).await;
        }
    }
    let snapshot = find(&app, &person, &id).await?;
    go(&app, &person, visitor, &snapshot, &typed.by).await
}

/// It was connected before, and belongs to its account.
fn stays(snapshot: &Snapshot) -> Response {
    Redirect::to(&format!("/connectors/{}?did=account-stays", snapshot.connector)).into_response()
}

/// What was typed then. One that is called by its account was given no name.
fn begun_with(app: &App, snapshot: &Snapshot) -> Typed {
    let named = snapshot.name != called::account(app, &snapshot.provider, &snapshot.account);
    let name = if named { snapshot.name.clone() } else { String::new() };
    Typed { account: snapshot.account.clone(), name, by: String::new() }
}
