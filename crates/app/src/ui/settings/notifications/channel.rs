//! The org's channel in Slack: its address, which is never shown again, and a test.

use std::sync::Arc;

use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
};
use holdfast_core::Role;
use serde::Deserialize;
use tracing::info;

use super::{Answer, HERE, Said, page, people::may_test};
use crate::{
    app::App,
    endpoints::slack,
    ui::{
        form::{Nothing, Posted},
        person::Person,
        routes::{Needs, Routes},
        trouble::Trouble,
    },
};

pub(super) fn routes() -> Routes {
    let admin = Needs::Role(Role::Admin);
    Routes::new()
        .post("/settings/notifications/channel", admin, set)
        .post("/settings/notifications/channel/test", admin, test)
        .post("/settings/notifications/channel/remove", admin, remove)
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Typed {
    address: String,
}

/// POST /settings/notifications/channel
async fn set(State(app): State<Arc<App>>, person: Person, Posted(typed): Posted<Typed>) -> Result<Response, Trouble> {
    let (url, hint) = match slack::address(&app, &typed.address) {
        Ok(good) => good,
        Err(problem) => {
            let said = Said { address: problem, ..Said::default() };
            return page(&app, &person, said, None, StatusCode::UNPROCESSABLE_ENTITY).await;
        }
    };
    app.store.set_channel(person.org(), &url, &hint, &person.user.id, app.seams.clock.now()).await?;
    info!(user.id = person.user.id, org.id = %person.org(), "{} has set a channel", person.user.id);
    Ok(Redirect::to(&format!("{HERE}?did=channel#channel")).into_response())
}

/// POST /settings/notifications/channel/test
async fn test(
    State(app): State<Arc<App>>,
    person: Person,
    Posted(Nothing {}): Posted<Nothing>,
) -> Result<Response, Trouble> {
    let (good, words) = match may_test(&app, &person).await? {
        Err(words) => (false, words),
        Ok(()) => match app.store.find_channel(person.org()).await? {
            None => (false, "There is no channel. Enter its address first.".to_owned()),
            Some(channel) => {
                let org = (person.org(), person.user.org_name.as_str());
                match slack::test(&app, org, &channel).await? {
                    Ok(status) => (true, format!("It answered {status}: look whether the test stands in the channel.")),
                    Err(why) => (false, format!("The test did not arrive. {why}")),
                }
            }
        },
    };
    let said = Said { channel: Some(Answer { good, words }), ..Said::default() };
    page(&app, &person, said, None, StatusCode::OK).await
}

/// POST /settings/notifications/channel/remove
async fn remove(
    State(app): State<Arc<App>>,
    person: Person,
    Posted(Nothing {}): Posted<Nothing>,
) -> Result<Response, Trouble> {
    app.store.remove_channel(person.org()).await?;
    info!(user.id = person.user.id, org.id = %person.org(), "{} has removed the channel", person.user.id);
    Ok(Redirect::to(&format!("{HERE}?did=no_channel#channel")).into_response())
}
