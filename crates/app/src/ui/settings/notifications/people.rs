//! Who else is told, addresses that are tried again, and a mail to oneself.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
};
use holdfast_core::{Role, ports::Changed};
use serde::Deserialize;
use tracing::info;

use super::{Answer, HERE, Said, page};
use crate::{
    app::App,
    mail::Trial,
    ui::{
        form::{Nothing, Posted},
        person::Person,
        routes::{Needs, Routes},
        sign_in::too_many,
        throttle::{self, Subject},
        trouble::Trouble,
    },
};

pub(super) fn routes() -> Routes {
    let admin = Needs::Role(Role::Admin);
    Routes::new()
        .post("/settings/notifications/people", admin, add)
        .post("/settings/notifications/people/{id}/remove", admin, remove)
        .post("/settings/notifications/people/{id}/again", Needs::SignedIn, again)
        .post("/settings/notifications/test", Needs::SignedIn, test)
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Whom {
    who: String,
}

/// POST /settings/notifications/people
async fn add(State(app): State<Arc<App>>, person: Person, Posted(form): Posted<Whom>) -> Result<Response, Trouble> {
    match change(&app, &person, &form.who, true).await {
        // Nobody chose that from the list.
        Err(Trouble::NotFound { .. }) => Err(Trouble::Garbled),
        other => other,
    }
}

/// POST /settings/notifications/people/{id}/remove
async fn remove(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
    Posted(Nothing {}): Posted<Nothing>,
) -> Result<Response, Trouble> {
    change(&app, &person, &id, false).await
}

async fn change(app: &App, person: &Person, id: &str, added: bool) -> Result<Response, Trouble> {
    let (by, at) = (&person.user.id, app.seams.clock.now());
    if app.store.add_addressee(person.org(), id, added, by, at).await? == Changed::No {
        return Err(Trouble::not_found(person));
    }
    let (what, did) = if added { ("has", "added") } else { ("no longer has", "removed") };
    info!(user.id = by, "{by} {what} {id} told of connectors");
    Ok(Redirect::to(&format!("{HERE}?did={did}")).into_response())
}

/// POST /settings/notifications/people/{id}/again
async fn again(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
    Posted(Nothing {}): Posted<Nothing>,
) -> Result<Response, Trouble> {
    let all = app.store.addressees(person.org()).await?;
    if all.iter().all(|one| one.id != id) {
        return Err(Trouble::not_found(&person));
    }
    if id != person.user.id && !person.may(Role::Admin) {
        return Err(Trouble::Forbidden { needs: Role::Admin, person: Some(Box::new(person)) });
    }
    // Whoever was faster has done the same.
    if app.store.try_address_again(person.org(), &id).await? == Changed::Yes {
        info!(user.id = person.user.id, "{} has the address of {id} tried again", person.user.id);
    }
    Ok(Redirect::to(&format!("{HERE}?did=again")).into_response())
}

/// Whether the reader may send another test; else what they are told.
pub(super) async fn may_test(app: &App, person: &Person) -> Result<Result<(), String>, Trouble> {
    let subjects = [Subject::tester(&person.user.id)];
    Ok(throttle::attempt(app, &subjects).await?.map_err(too_many))
}

/// POST /settings/notifications/test
async fn test(
    State(app): State<Arc<App>>,
    person: Person,
    Posted(Nothing {}): Posted<Nothing>,
) -> Result<Response, Trouble> {
    if let Err(words) = may_test(&app, &person).await? {
        let said = Said { mail: Some(Answer { good: false, words }), ..Said::default() };
        return page(&app, &person, said, None, StatusCode::TOO_MANY_REQUESTS).await;
    }
    let to = &person.user.email;
    let (good, words) = match app.try_mail(&person.user).await? {
        Trial::Taken(said) => (true, format!("The mail server has taken a mail to {to}. Its words: {said}")),
        Trial::Refused(said) => (false, format!("The mail server does not take a mail to {to}. Its words: {said}")),
        Trial::Trouble(said) if person.user.operator => (false, format!("No mail was sent: {said}")),
        Trial::Trouble(_) => {
            let whom = "Who runs this installation sees why on the instance's page.";
            (false, format!("The mail server takes nothing at the moment. {whom}"))
        }
        Trial::NoServer => (false, "No mail server is set up, so nothing was sent.".to_owned()),
    };
    let said = Said { mail: Some(Answer { good, words }), ..Said::default() };
    page(&app, &person, said, None, StatusCode::OK).await
}
