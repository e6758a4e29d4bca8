//! Connectors in the web UI: the home page, connecting, and the page of each.
//!
//! - [`home`]: what needs somebody, then all of them.
//! - [`history`]: how the last fortnight went for all of them.
//! - [`catalogue`]: what can be connected, and the form that starts it; [`correct`]: that form once more, for a slip.
//! - [`show`]: one connector; [`checklist`], [`timeline`], [`chart`] and [`told`] are parts of its page.
//! - [`webhook`]: what its provider sends by itself.
//! - [`link`]: a connect link to hand on; [`acts`]: test, reconnect, rename; [`ends`]: disconnect and delete, with a page before each.

mod acts;
mod catalogue;
mod chart;
mod checklist;
mod correct;
mod ends;
mod history;
mod home;
mod link;
mod migrations;
mod show;
mod sync;
mod timeline;
mod told;
mod webhook;

use std::sync::Arc;

use holdfast_core::{Health, Role, Snapshot, agent::Status};
use holdfast_store::AgentBrief;
use serde::Serialize;

use super::{
    parts::Badge,
    person::Person,
    routes::{Needs, Routes},
    trouble::Trouble,
};
use crate::app::App;

const ADMIN: Needs = Needs::Role(Role::Admin);

/// All pages of connectors.
pub(super) fn routes() -> Routes {
    Routes::new()
        .get("/connectors", Needs::SignedIn, home::show)
        .get("/history", Needs::SignedIn, history::show)
        .get("/connectors/new", ADMIN, catalogue::show)
        .get("/connectors/new/{provider}", ADMIN, catalogue::form)
        .post("/connectors/new/{provider}", ADMIN, catalogue::connect)
        .get("/connectors/new/{provider}/account", ADMIN, catalogue::account)
        .post("/connectors/new/{provider}/link", ADMIN, link::make)
        .get("/connectors/{id}", Needs::SignedIn, show::show)
        .post("/connectors/{id}/test", Needs::Role(Role::Member), acts::test)
        .post("/connectors/{id}/sync", Needs::Role(Role::Member), sync::act)
        .post("/connectors/{id}/reconnect", ADMIN, acts::reconnect)
        .post("/connectors/{id}/link", ADMIN, link::again)
        .post("/connectors/{id}/rename", ADMIN, acts::rename)
        .get("/connectors/{id}/account", ADMIN, correct::show)
        .post("/connectors/{id}/account", ADMIN, correct::save)
        .get("/connectors/{id}/webhook", ADMIN, webhook::show)
        .post("/connectors/{id}/webhook", ADMIN, webhook::act)
        .get("/connectors/{id}/disconnect", ADMIN, ends::ask_disconnect)
        .post("/connectors/{id}/disconnect", ADMIN, ends::disconnect)
        .get("/connectors/{id}/delete", ADMIN, ends::ask_delete)
        .post("/connectors/{id}/delete", ADMIN, ends::delete)
}

/// A provider's letter mark and name.
#[derive(Serialize)]
pub(super) struct Mark {
    id: String,
    letter: String,
    name: String,
}

impl Mark {
    pub(super) fn of(app: &App, provider: &str) -> Self {
        let name = app.provider_name(provider);
        let letter = name.chars().next().map(|first| first.to_uppercase().collect()).unwrap_or_default();
        Self { id: provider.to_owned(), letter, name: name.to_owned() }
    }
}

/// What the button that starts a consent says.
fn connect_word(health: Health) -> &'static str {
    match health {
        Health::Pending => "Connect",
        Health::Connected | Health::AuthFailed => "Reconnect",
        Health::Disconnected => "Connect again",
    }
}

/// An agent that works with a connector.
#[derive(Serialize)]
struct AgentLine {
    id: String,
    name: String,
    badge: Badge,
}

impl AgentLine {
    fn of(agent: &AgentBrief) -> Self {
        Self { id: agent.id.to_string(), name: agent.name.clone(), badge: Badge::of_agent(agent.status) }
    }

    /// Those that a connector's failure has stopped.
    fn stopped(agents: &[AgentBrief]) -> Vec<Self> {
        agents.iter().filter(|agent| agent.status == Status::Deactivated).map(Self::of).collect()
    }

    /// Those that stop when the connector does.
    fn working(agents: &[AgentBrief]) -> Vec<Self> {
        agents.iter().filter(|agent| agent.status == Status::Active).map(Self::of).collect()
    }
}

/// The org's connector of this id.
async fn find(app: &App, person: &Person, id: &str) -> Result<Arc<Snapshot>, Trouble> {
    let found = app.engine.snapshot(&id.into()).await?.filter(|snapshot| snapshot.org == *person.org());
    found.ok_or_else(|| Trouble::not_found(person))
}

/// A query of these parts, with `?` where there is one; empty values are left out.
pub(super) fn query(parts: &[(&str, &str)]) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    let parts: Vec<_> = parts.iter().filter(|(_, value)| !value.is_empty()).collect();
    if parts.is_empty() {
        return String::new();
    }
    format!("?{}", query.extend_pairs(parts).finish())
}
