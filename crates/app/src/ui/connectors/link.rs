//! Connect links by hand: for somebody who has the account and none here.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    response::Response,
};
use serde::{Deserialize, Serialize};

use super::{Mark, find};
use crate::{
    api::for_link,
    app::App,
    called,
    connect::{self, Link},
    ui::{
        form::{Nothing, Posted},
        moment::Moment,
        person::Person,
        trouble::Trouble,
        view::{Here, View},
    },
};

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Typed {
    name: String,
}

#[derive(Serialize)]
struct LinkPage {
    mark: Mark,
    /// Of the connector that it is for.
    id: String,
    name: String,
    again: bool,
    url: String,
    expires: Moment,
}

/// POST /connectors/new/{provider}/link: a new connector, whose account is named by who opens the link. Under a name that an
/// open one has already it is another link for that one, so that a page that is loaded again makes no second connector.
pub(super) async fn make(
    State(app): State<Arc<App>>,
    person: Person,
    Path(provider): Path<String>,
    Posted(typed): Posted<Typed>,
) -> Result<Response, Trouble> {
    let name = Some(typed.name.trim().to_owned()).filter(|name| !name.is_empty());
    let open = app.store.find_unnamed(person.org(), &provider, name.as_deref().unwrap_or_default()).await?;
    if let Some(open) = open {
        return show(&app, &person, open.as_str(), false).await;
    }
    let id = for_link(&app, person.org(), provider, None, name).await;
    let id = id.map_err(|problem| Trouble::from_problem(&person, &problem))?;
    show(&app, &person, id.as_str(), false).await
}

/// POST /connectors/{id}/link: to reconnect it in place.
pub(super) async fn again(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
    Posted(Nothing {}): Posted<Nothing>,
) -> Result<Response, Trouble> {
    show(&app, &person, &id, true).await
}

/// The link is shown this once.
async fn show(app: &App, person: &Person, id: &str, again: bool) -> Result<Response, Trouble> {
    let snapshot = find(app, person, id).await?;
    let made = connect::make_link_by_hand(app, &snapshot).await;
    let Link { url, expires_at } = made.map_err(|problem| Trouble::from_problem(person, &problem))?;
    let page = LinkPage {
        mark: Mark::of(app, &snapshot.provider),
        id: snapshot.connector.to_string(),
        name: called::connector(app, &snapshot),
        again,
        url,
        expires: Moment::new(expires_at, app.seams.clock.now()),
    };
    let title = if again { format!("A link to reconnect {}", page.name) } else { "A connect link".to_owned() };
    Ok(View::of(person, Here::Connectors, "pages/connectors/link.html", &title, &page).show(app))
}
