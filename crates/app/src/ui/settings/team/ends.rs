//! Somebody leaves the team, or is taken out: what that means is said before.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
};
use axum_extra::extract::cookie::CookieJar;
use holdfast_core::Role;
use holdfast_store::{TeamChange, User};
use serde::{Deserialize, Serialize};
use tracing::info;

use super::{ADMIN, HERE, refused};
use crate::{
    app::App,
    ui::{
        cookies::Kind,
        form::Posted,
        person::Person,
        routes::{Needs, Routes},
        trouble::Trouble,
        view::{Here, View},
    },
};

const REMOVE: &str = "/settings/team/{id}/remove";
const LEAVE: &str = "/settings/team/leave";

pub(super) fn routes() -> Routes {
    Routes::new()
        .get(REMOVE, ADMIN, show_removal)
        .post(REMOVE, ADMIN, remove)
        .get(LEAVE, Needs::SignedIn, show_leaving)
        .post(LEAVE, Needs::SignedIn, leave)
}

#[derive(Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a line of its own on the page")]
struct EndPage<'a> {
    /// Whether it is the reader who leaves.
    own: bool,
    /// What is to be typed: the person's name, or the organisation's.
    name: &'a str,
    person: &'a str,
    org: &'a str,
    /// Whether they hear of failures, and whether somebody else does.
    hears: bool,
    heard: bool,
    /// Whether they run this installation, which ends with it.
    operator: bool,
    /// Their invitations that nobody has accepted.
    invitations: Vec<String>,
    typed: &'a str,
    problem: &'a str,
}

/// A form that asks for the name.
#[derive(Deserialize)]
struct Sure {
    #[serde(default)]
    name: String,
}

/// GET /settings/team/{id}/remove
async fn show_removal(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
) -> Result<Response, Trouble> {
    let user = of(&app, &person, &id).await?;
    page(&app, &person, &user, "", "").await
}

/// GET /settings/team/leave
async fn show_leaving(State(app): State<Arc<App>>, person: Person) -> Result<Response, Trouble> {
    page(&app, &person, &person.user, "", "").await
}

/// Somebody of this org whom the reader may take out; oneself leaves elsewhere.
async fn of(app: &App, person: &Person, id: &str) -> Result<User, Trouble> {
    let found = app.store.find_user(id).await?.filter(|user| user.org == *person.org());
    let user = found.ok_or_else(|| Trouble::not_found(person))?;
    if !person.user.role.may_change(user.role, None) {
        refused(person, TeamChange::NotAllowed)?;
    }
    Ok(user)
}

async fn page(app: &App, person: &Person, user: &User, typed: &str, problem: &str) -> Result<Response, Trouble> {
    let others = app.store.users(person.org()).await?;
    let own = user.id == person.user.id;
    let open = app.store.invitations(person.org()).await?;
    let page = EndPage {
        own,
        name: asked_for(person, user),
        person: user.shown(),
        org: &user.org_name,
        hears: user.role >= Role::Admin,
        heard: others.iter().any(|other| other.id != user.id && other.role >= Role::Admin),
        operator: user.operator,
        invitations: open.into_iter().filter(|one| one.by_id == user.id).map(|one| one.email).collect(),
        typed,
        problem,
    };
    let title = if own { "Leave the organisation" } else { "Remove somebody" };
    let status = if problem.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
    Ok(View::of(person, Here::Settings, "pages/settings/team_end.html", title, &page).status(status).show(app))
}

/// What has to be typed.
fn asked_for<'a>(person: &'a Person, user: &'a User) -> &'a str {
    if user.id == person.user.id { &user.org_name } else { user.shown() }
}

/// POST /settings/team/{id}/remove
async fn remove(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
    Posted(form): Posted<Sure>,
) -> Result<Response, Trouble> {
    let user = of(&app, &person, &id).await?;
    if form.name.trim() != asked_for(&person, &user).trim() {
        return page(&app, &person, &user, &form.name, "That is not their name.").await;
    }
    let by = Some(person.user.id.as_str());
    refused(&person, app.store.remove_user(person.org(), &id, by, app.seams.clock.now()).await?)?;
    info!(user.id = person.user.id, "{} took {id} out of the team", person.user.id);
    Ok(Redirect::to(&format!("{HERE}?done=removed")).into_response())
}

/// POST /settings/team/leave
async fn leave(
    State(app): State<Arc<App>>,
    person: Person,
    jar: CookieJar,
    Posted(form): Posted<Sure>,
) -> Result<Response, Trouble> {
    if form.name.trim() != person.user.org_name.trim() {
        return page(&app, &person, &person.user, &form.name, "That is not its name.").await;
    }
    let own = person.user.id.as_str();
    refused(&person, app.store.remove_user(person.org(), own, Some(own), app.seams.clock.now()).await?)?;
    info!(user.id = own, "{own} left the team");
    Ok((jar.add(Kind::Session.end(&app)), Redirect::to("/sign-in?done=left")).into_response())
}
