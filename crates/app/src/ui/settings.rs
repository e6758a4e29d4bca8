//! Settings: one's own account, notifications, the team, organisations, API keys, event endpoints, OAuth apps of the org, its audit
//! log, and the instance's with its migrations.

mod account;
mod audit;
pub(super) mod browsers;
mod event_endpoints;
mod instance;
mod keys;
mod migrations;
mod notifications;
mod oauth_app_form;
mod oauth_apps;
mod organisation;
mod organisations;
mod team;
mod two_factor;

pub(super) use two_factor::set_up_address;

use std::sync::Arc;

use axum::{extract::State, response::Response};
use holdfast_core::{OrgId, Role, provider::AuthKind};
use serde::Serialize;

use super::{
    person::{LONGEST_PAUSE, Person},
    routes::{Needs, Routes},
    trouble::Trouble,
    view::{Here, View},
};
use crate::app::App;

pub(super) fn routes() -> Routes {
    Routes::new()
        .get("/settings", Needs::SignedIn, show)
        .merge(account::routes())
        .merge(two_factor::routes())
        .merge(organisation::routes())
        .merge(team::routes())
        .merge(organisations::routes())
        .merge(notifications::routes())
        .merge(keys::routes())
        .merge(event_endpoints::routes())
        .merge(oauth_apps::routes())
        .merge(migrations::routes())
        .merge(audit::routes())
        .merge(instance::routes())
}

/// What each of the pages holds, in a few words.
#[derive(Serialize)]
struct Overview {
    sessions: usize,
    people: usize,
    invited: usize,
    organisations: usize,
    /// Whether somebody, or the channel, cannot be told.
    untold: bool,
    /// `None`: not theirs to see.
    keys: Option<usize>,
    endpoints: Option<Endpoints>,
    own_apps: Option<Apps>,
    apps: Option<Apps>,
    /// Migrations that are under way.
    migrations: Option<usize>,
    /// What is wrong with the instance.
    troubles: Option<usize>,
}

#[derive(Serialize)]
struct Endpoints {
    count: usize,
    /// Whether one of them gets nothing, without a person having said so.
    trouble: bool,
}

#[derive(Serialize)]
struct Apps {
    set_up: usize,
    of: usize,
    /// Whether one of them wants attention.
    trouble: bool,
}

/// GET /settings
async fn show(State(app): State<Arc<App>>, person: Person) -> Result<Response, Trouble> {
    let now = app.seams.clock.now();
    let sessions = app.store.browser_sessions(&person.user.id, now - LONGEST_PAUSE).await?.len();
    let keys = if person.may(Role::Admin) {
        let keys = app.store.keys(person.org()).await?;
        Some(keys.iter().filter(|key| key.revoked_at.is_none()).count())
    } else {
        None
    };
    let endpoints = if person.may(Role::Admin) {
        let all = app.store.event_endpoints(person.org(), now).await?;
        let trouble = all.iter().any(|endpoint| endpoint.stopped.is_some());
        Some(Endpoints { count: all.len(), trouble })
    } else {
        None
    };
    let own_apps = if person.may(Role::Admin) { Some(apps(&app, Some(person.org())).await?) } else { None };
    let apps = if person.user.operator { Some(apps(&app, None).await?) } else { None };
    let migrations = if person.user.operator {
        let all = app.store.migrations().await?;
        Some(all.iter().filter(|progress| progress.migration.ended_at.is_none()).count())
    } else {
        None
    };
    let troubles = if person.user.operator { Some(instance::troubles(&app).await?) } else { None };
    let organisations = 1 + person.session.also.len();
    let untold = notifications::trouble(&app, &person).await?;
    let people = app.store.users(person.org()).await?.len();
    let invited = app.store.invitations(person.org()).await?.len();
    let page = Overview {
        sessions,
        people,
        invited,
        organisations,
        untold,
        keys,
        endpoints,
        own_apps,
        apps,
        migrations,
        troubles,
    };
    Ok(View::of(&person, Here::Settings, "pages/settings/overview.html", "Settings", &page).show(&app))
}

async fn apps(app: &App, org: Option<&OrgId>) -> Result<Apps, Trouble> {
    let mut counted = Apps { set_up: 0, of: 0, trouble: false };
    for provider in app.providers().iter().filter(|provider| provider.about().auth_kind == AuthKind::OAuth2) {
        let state = oauth_apps::State::of(app, org, provider.as_ref()).await?;
        counted.of += 1;
        counted.set_up += usize::from(state.is_set_up());
        counted.trouble |= (state.is_set_up() || org.is_some()) && state.trouble();
    }
    Ok(counted)
}
