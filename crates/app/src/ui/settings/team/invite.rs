//! Inviting somebody, sending it again, taking it back.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
};
use chrono::TimeDelta;
use holdfast_core::Role;
use holdfast_store::{Invited, NewInvitation, TeamChange, Touched};
use secrecy::ExposeSecret;
use serde::Deserialize;
use tracing::info;

use super::{ADMIN, Asked, HERE, Link, page, refused};
use crate::{
    app::App,
    keys, mailbox,
    ui::{
        form::{Nothing, Posted},
        person::Person,
        routes::Routes,
        sign_in::too_many,
        throttle::{self, Subject},
        trouble::Trouble,
    },
};

/// A week: over a holiday it has to be sent again.
const LIFE: TimeDelta = TimeDelta::days(7);

pub(super) fn routes() -> Routes {
    Routes::new()
        .post("/settings/team/invitations", ADMIN, invite)
        .post("/settings/team/invitations/{id}/again", ADMIN, again)
        .post("/settings/team/invitations/{id}/withdraw", ADMIN, withdraw)
}

#[derive(Deserialize)]
struct Form {
    #[serde(default)]
    email: String,
    #[serde(default)]
    role: String,
}

/// POST /settings/team/invitations
async fn invite(State(app): State<Arc<App>>, person: Person, Posted(form): Posted<Form>) -> Result<Response, Trouble> {
    let email = form.email.trim();
    let role = Role::parse(&form.role);
    if !mailbox::is_address(email) {
        let problem = "This is not an e-mail address, such as ada@example.com.".to_owned();
        return again_with(&app, &person, email, role.unwrap_or(Role::Member), problem).await;
    }
    let role = role.ok_or(Trouble::Garbled)?;
    send(&app, &person, email, role).await
}

async fn again_with(app: &App, person: &Person, email: &str, role: Role, problem: String) -> Result<Response, Trouble> {
    page(app, person, &nothing_done(), None, email, role, problem).await
}

fn nothing_done() -> Asked {
    Asked { done: String::new(), who: String::new() }
}

async fn send(app: &App, person: &Person, email: &str, role: Role) -> Result<Response, Trouble> {
    if let Err(wait) = throttle::attempt(app, &[Subject::inviter(&person.user.id)]).await? {
        return again_with(app, person, email, role, too_many(wait)).await;
    }
    let telling = app.telling();
    let expires_at = telling.at + LIFE;
    let new = NewInvitation { org: person.org(), email, role, by: &person.user.id, expires_at };
    let (id, before) = match app.store.invite(&new, &telling).await? {
        Invited::Yes { id, before } => (id, before),
        Invited::Member => {
            let problem = "Somebody with this address is in the team already.".to_owned();
            return again_with(app, person, email, role, problem).await;
        }
        Invited::NotAllowed => return refused(person, TeamChange::NotAllowed).and(Err(Trouble::Garbled)),
    };
    info!(user.id = person.user.id, invitation.id = id, "{} invited somebody: {id}", person.user.id);
    if telling.sends {
        let done = match before {
            None => "invited",
            Some(before) if before == role => "renewed",
            Some(_) => "changed",
        };
        return Ok(Redirect::to(&format!("{HERE}?done={done}&who={id}")).into_response());
    }
    // Nobody is mailed here. The link is shown once, as keys are, and whoever made it hands it over.
    let text = keys::secret_text("", app.seams.random.as_ref());
    app.store.mint_link(&id, &keys::hash(text.expose_secret()), telling.at).await?;
    let url = app.url(&format!("invitation/{}", text.expose_secret()));
    let link = Some(Link { email: email.to_lowercase(), url });
    page(app, person, &nothing_done(), link, "", Role::Member, String::new()).await
}

/// POST /settings/team/invitations/{id}/again
async fn again(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
    Posted(Nothing {}): Posted<Nothing>,
) -> Result<Response, Trouble> {
    let all = app.store.invitations(person.org()).await?;
    let found = all.into_iter().find(|invitation| invitation.id == id);
    let invitation = found.ok_or_else(|| gone(&person))?;
    send(&app, &person, &invitation.email, invitation.role).await
}

/// POST /settings/team/invitations/{id}/withdraw
async fn withdraw(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
    Posted(Nothing {}): Posted<Nothing>,
) -> Result<Response, Trouble> {
    match app.store.withdraw_invitation(person.org(), &id, &person.user.id, app.seams.clock.now()).await? {
        Touched::Yes => {
            info!(user.id = person.user.id, invitation.id = id, "{} withdrew the invitation {id}", person.user.id);
            Ok(Redirect::to(&format!("{HERE}?done=withdrawn")).into_response())
        }
        Touched::Gone => Err(gone(&person)),
        Touched::NotAllowed => refused(&person, TeamChange::NotAllowed).and(Err(Trouble::Garbled)),
    }
}

/// Accepted or withdrawn a moment ago, or another org's.
fn gone(person: &Person) -> Trouble {
    let way_on = "It was accepted or withdrawn meanwhile. The team's page shows how it is now.";
    Trouble::told(person, StatusCode::NOT_FOUND, "There is no such invitation", way_on)
}
