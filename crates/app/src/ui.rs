//! The web UI: pages from Tera templates, forms that post, redirect and get, and a little script that only makes them
//! nicer. Everything works without it.
//!
//! - [`routes`]: every route with what it takes to use it.
//! - [`view`]: templates, and the frame that every page stands in.
//! - [`person`]: who is signed in, and what they may do.
//! - [`form`]: what a form posted, with its CSRF token checked.
//! - [`trouble`]: what went wrong, as a page with a way on.
//! - [`armour`]: the headers that every answer carries.

mod agents;
pub(crate) mod armour;
mod assets;
mod connectors;
pub(crate) mod cookies;
mod deliveries;
pub(crate) mod forgotten;
pub(crate) mod form;
mod invitation;
mod jobs;
pub(crate) mod live;
pub(crate) mod moment;
pub(crate) mod parts;
pub(crate) mod passwords;
pub(crate) mod person;
mod provider_sign_in;
mod qr;
mod recovery;
pub mod routes;
mod second_step;
mod settings;
mod setup;
mod sign_in;
pub(crate) mod throttle;
pub(crate) mod trouble;
pub mod view;

use std::sync::Arc;

use axum::{
    Router,
    extract::{DefaultBodyLimit, State},
    http::{Method, StatusCode, Uri},
    response::{IntoResponse, Redirect, Response},
};

pub use setup::announce as announce_setup;

use crate::{app::App, brand, connect, demo, hooks, problem::Problem};
use person::Person;
use routes::{Declared, Needs, Routes};
use trouble::Trouble;

/// A form longer than this is none of ours.
const LONGEST_FORM_BYTES: usize = 256 * 1024;

/// All pages, with what each takes.
fn routes() -> Routes {
    Routes::new()
        .get("/", Needs::Nothing, async || Redirect::to("/connectors"))
        .merge(assets::routes())
        .merge(setup::routes())
        .merge(sign_in::routes())
        .merge(second_step::routes())
        .merge(provider_sign_in::routes())
        .merge(invitation::routes())
        .merge(forgotten::routes())
        .merge(connectors::routes())
        .merge(deliveries::routes())
        .merge(connect::routes())
        .merge(brand::routes())
        .merge(live::routes())
        .merge(settings::routes())
        .merge(agents::routes())
        .merge(jobs::routes())
        .merge(demo::routes())
}

/// The same as a list, for whoever wants to hold it against something.
pub fn declared() -> Vec<Declared> {
    routes().declared()
}

/// All pages.
pub fn router(app: Arc<App>) -> Router {
    routes()
        .guarded(&app)
        .method_not_allowed_fallback(other_method)
        .fallback(nothing_here)
        .layer(DefaultBodyLimit::max(LONGEST_FORM_BYTES))
        .with_state(app)
}

/// A path that nobody serves.
async fn nothing_here(
    State(_): State<Arc<App>>,
    person: Result<Option<Person>, Trouble>,
    method: Method,
    uri: Uri,
) -> Response {
    if is_api(uri.path()) {
        let detail = "There is no such route; see /api/v1/openapi.json.";
        return Problem::new(StatusCode::NOT_FOUND, "not_found", detail).into_response();
    }
    if let Some(path) = without_slash(uri.path()).filter(|_| method == Method::GET) {
        let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        return Redirect::permanent(&format!("{path}{query}")).into_response();
    }
    Trouble::NotFound { person: person.ok().flatten().map(Box::new) }.into_response()
}

/// The path as it was meant: people and mail programs add a slash. Never one that leads to another host.
fn without_slash(path: &str) -> Option<&str> {
    let bare = path.strip_suffix('/')?;
    (bare.starts_with('/') && !bare.starts_with("//") && !bare.ends_with('/') && !bare.contains('\\')).then_some(bare)
}

/// A form's address in the address bar, most of the time: after a reload that was not sent again, or from the history.
async fn other_method(person: Result<Option<Person>, Trouble>) -> Trouble {
    Trouble::Told {
        status: StatusCode::METHOD_NOT_ALLOWED,
        title: "This address only takes a form".to_owned(),
        way_on: "Go back to the page with the form, and send it from there.".to_owned(),
        way: None,
        person: person.ok().flatten().map(Box::new),
    }
}

/// What keeps a request from all pages, as a page.
pub(crate) fn refused(problem: &Problem) -> Trouble {
    match problem.status() {
        StatusCode::NOT_FOUND => Trouble::NotFound { person: None },
        status => Trouble::Told {
            status,
            title: "This cannot be answered".to_owned(),
            way_on: problem.detail().to_owned(),
            way: None,
            person: None,
        },
    }
}

/// Whether programs call here, and read problems instead of pages.
pub(crate) fn is_api(path: &str) -> bool {
    path == "/api" || path.starts_with("/api/") || hooks::is_hook(path)
}
