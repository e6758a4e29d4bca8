//! What is done to a connector from its page: test, reconnect, rename.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::{StatusCode, header},
    response::{IntoResponse, Redirect, Response},
};
use holdfast_store::Way;
use serde::Deserialize;

use super::{
    find,
    show::{self, Asked, Rename},
};
use crate::{
    app::App,
    care, connect as consent,
    ui::{
        form::{Nothing, Posted},
        person::{Person, Visitor},
        trouble::Trouble,
    },
};

/// POST /connectors/{id}/test. The result is kept beside the connector, and its page shows it.
pub(super) async fn test(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
    Posted(Nothing {}): Posted<Nothing>,
) -> Result<Redirect, Trouble> {
    let snapshot = find(&app, &person, &id).await?;
    care::test(&app, &snapshot, &person.actor()).await.map_err(|problem| Trouble::from_problem(&person, &problem))?;
    Ok(Redirect::to(&format!("/connectors/{id}?did=tested#test-result")))
}

/// What the form may carry: the account, where nobody has named it yet, and the way in.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Named {
    account: Option<String>,
    by: String,
}

/// POST /connectors/{id}/reconnect: to the provider at once; the first consent, or another one in place.
pub(super) async fn reconnect(
    State(app): State<Arc<App>>,
    person: Person,
    visitor: Visitor,
    Path(id): Path<String>,
    Posted(form): Posted<Named>,
) -> Result<Response, Trouble> {
    let snapshot = find(&app, &person, &id).await?;
    let account = match form.account.filter(|_| snapshot.account.is_empty()) {
        None => None,
        Some(typed) => {
            let provider = app.providers().find(&snapshot.provider);
            let provider = provider.ok_or_else(|| consent::no_app(&snapshot.provider).seen_by(&person))?;
            let account = provider.account(&typed).map_err(|invalid| {
                let title = "That is no account";
                Trouble::told(&person, StatusCode::UNPROCESSABLE_ENTITY, title, invalid.message)
            })?;
            Some(account.id)
        }
    };
    let (user, browser) = (&person.user.id, &visitor.browser);
    let target = consent::begin(&app, &snapshot, account, &form.by, Way::SignedIn, user, browser).await;
    let target = target.map_err(|trouble| trouble.seen_by(&person))?;
    Ok((StatusCode::SEE_OTHER, visitor.jar, [(header::LOCATION, target)]).into_response())
}

/// The new name.
#[derive(Deserialize)]
pub(super) struct Renamed {
    #[serde(default)]
    name: String,
}

/// POST /connectors/{id}/rename
pub(super) async fn rename(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
    Posted(form): Posted<Renamed>,
) -> Result<Response, Trouble> {
    let snapshot = find(&app, &person, &id).await?;
    let name = form.name.trim();
    if !care::is_name(name) {
        let refused = Rename { typed: form.name.clone(), problem: format!("A name {}.", care::NAME_RULE) };
        return show::shown(&app, &person, &id, &Asked::default(), Some(refused)).await;
    }
    care::rename(&app, &snapshot, name, &person.actor()).await?;
    Ok(Redirect::to(&format!("/connectors/{id}?did=renamed")).into_response())
}
