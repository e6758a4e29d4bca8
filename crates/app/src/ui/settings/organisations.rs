//! The organisations that somebody belongs to, and going over to another one.

use std::sync::Arc;

use axum::{
    extract::State,
    response::{IntoResponse, Redirect, Response},
};
use axum_extra::extract::cookie::CookieJar;
use holdfast_core::ports::Changed;
use holdfast_store::User;
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};

use super::account::others;
use crate::{
    app::App,
    keys,
    ui::{
        cookies::Kind,
        form::Posted,
        person::Person,
        routes::{Needs, Routes},
        trouble::Trouble,
        view::{Here, View},
    },
};

const HERE: &str = "/settings/organisations";

pub(super) fn routes() -> Routes {
    Routes::new().get(HERE, Needs::Account, show).post(HERE, Needs::Account, switch)
}

#[derive(Serialize)]
struct OrganisationsPage {
    organisations: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    user: String,
    name: String,
    role: &'static str,
    /// Whether it is the one that is looked at.
    here: bool,
}

impl Row {
    fn new(user: &User, here: bool) -> Self {
        Self { user: user.id.clone(), name: user.org_name.clone(), role: user.role.as_str(), here }
    }
}

/// GET /settings/organisations
async fn show(State(app): State<Arc<App>>, person: Person) -> Result<Response, Trouble> {
    let mut organisations = vec![Row::new(&person.user, true)];
    organisations.extend(others(&app, &person).await?.iter().map(|user| Row::new(user, false)));
    organisations.sort_by(|a, b| a.name.cmp(&b.name));
    let page = OrganisationsPage { organisations };
    Ok(View::of(&person, Here::Settings, "pages/settings/organisations.html", "Organisations", &page).show(&app))
}

#[derive(Deserialize)]
struct Switch {
    #[serde(default)]
    user: String,
}

/// POST /settings/organisations
async fn switch(
    State(app): State<Arc<App>>,
    person: Person,
    jar: CookieJar,
    Posted(form): Posted<Switch>,
) -> Result<Response, Trouble> {
    // Pressed twice, or in two tabs: they are there already.
    if form.user == person.user.id {
        return Ok(Redirect::to("/").into_response());
    }
    // Somebody who was taken out meanwhile is as good as one who was never there.
    if app.store.find_user(&form.user).await?.is_none() {
        return Err(Trouble::not_found(&person));
    }
    let token = keys::secret_text("", app.seams.random.as_ref());
    let hash = keys::hash(token.expose_secret());
    match app.store.switch_browser_session(&person.session.id, &person.user.id, &form.user, &hash).await? {
        Changed::Yes => {
            let jar = jar.add(Kind::Session.set(&app, token.expose_secret().to_owned()));
            Ok((jar, Redirect::to("/")).into_response())
        }
        Changed::No => Err(Trouble::not_found(&person)),
    }
}
