//! Whether everybody of the org has to have a second factor: an owner's switch.

use std::sync::Arc;

use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
};
use holdfast_core::{Role, ports::Changed};
use holdfast_store::TeamChange;
use serde::Deserialize;
use tracing::info;

use super::{HERE, refused};
use crate::{
    app::App,
    ui::{
        form::Posted,
        person::Person,
        routes::{Needs, Routes},
        trouble::Trouble,
    },
};

pub(super) fn routes() -> Routes {
    Routes::new().post("/settings/team/two-factor", Needs::Role(Role::Owner), require)
}

#[derive(Deserialize)]
struct Require {
    /// `yes`, or it is left to everybody.
    #[serde(default)]
    required: String,
}

/// POST /settings/team/two-factor
async fn require(
    State(app): State<Arc<App>>,
    person: Person,
    Posted(form): Posted<Require>,
) -> Result<Response, Trouble> {
    let required = form.required == "yes";
    if required && !person.user.second_factor {
        return Err(Trouble::told(
            &person,
            StatusCode::CONFLICT,
            "You have none yourself",
            "Turn your own two-factor sign-in on first, under Your account: whoever asks it of others has tried it.",
        ));
    }
    if app.store.require_second_factor(person.org(), required, &person.user.id).await? == Changed::No {
        refused(&person, TeamChange::NotAllowed)?;
    }
    info!(user.id = person.user.id, org.id = %person.org(), required, "said who needs a second factor");
    let done = if required { "required" } else { "not-required" };
    Ok(Redirect::to(&format!("{HERE}?done={done}")).into_response())
}
