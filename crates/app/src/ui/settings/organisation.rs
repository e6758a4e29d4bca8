//! The organisation: what it is called, what its customers see behind connect links, and where those lead back to.

use std::sync::Arc;

use axum::{
    extract::{Query, State},
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
};
use holdfast_core::{Role, ports::Changed};
use holdfast_store::OrgFace;
use serde::{Deserialize, Serialize};
use tracing::info;
use url::{Host, Url};

use crate::{
    app::App,
    brand::Colour,
    care,
    ui::{
        form::Posted,
        person::Person,
        routes::{Needs, Routes},
        trouble::Trouble,
        view::{Here, View},
    },
};

const HERE: &str = "/settings/organisation";
const MOST_ORIGINS: usize = 20;

pub(super) fn routes() -> Routes {
    let admin = Needs::Role(Role::Admin);
    Routes::new().get(HERE, admin, show).post(HERE, admin, change)
}

/// As it was typed.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct Typed {
    name: String,
    colour: String,
    origins: String,
}

#[derive(Default, Serialize)]
struct Problems {
    name: String,
    colour: String,
    origins: String,
}

#[derive(Serialize)]
struct OrganisationPage {
    typed: Typed,
    problems: Problems,
    changed: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Asked {
    did: String,
}

/// GET /settings/organisation
async fn show(State(app): State<Arc<App>>, person: Person, Query(asked): Query<Asked>) -> Result<Response, Trouble> {
    let face = app.store.org_face(person.org()).await?.unwrap_or_default();
    let typed =
        Typed { name: face.name, colour: face.colour.unwrap_or_default(), origins: face.return_origins.join("\n") };
    Ok(page(&app, &person, typed, Problems::default(), asked.did == "changed"))
}

/// POST /settings/organisation
async fn change(
    State(app): State<Arc<App>>,
    person: Person,
    Posted(typed): Posted<Typed>,
) -> Result<Response, Trouble> {
    let face = match read(&typed) {
        Ok(face) => face,
        Err(problems) => return Ok(page(&app, &person, typed, problems, false)),
    };
    if app.store.change_org(person.org(), &face).await? == Changed::No {
        let name =
            "Another organisation of this installation is called so, or nearly. Choose a name that tells them apart."
                .to_owned();
        return Ok(page(&app, &person, typed, Problems { name, ..Problems::default() }, false));
    }
    info!(org.id = %person.org(), "changed an organisation");
    Ok(Redirect::to("/settings/organisation?did=changed").into_response())
}

fn page(app: &App, person: &Person, typed: Typed, problems: Problems, changed: bool) -> Response {
    let wrong = [&problems.name, &problems.colour, &problems.origins].into_iter().any(|problem| !problem.is_empty());
    let status = if wrong { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    let page = OrganisationPage { typed, problems, changed };
    View::of(person, Here::Settings, "pages/settings/organisation.html", "Organisation", &page).status(status).show(app)
}

fn read(typed: &Typed) -> Result<OrgFace, Problems> {
    let mut problems = Problems::default();
    let name = typed.name.trim();
    if !care::is_name(name) {
        problems.name = format!("A name {}.", care::NAME_RULE);
    }
    let colour = match typed.colour.trim() {
        "" => None,
        text => {
            let colour = Colour::parse(text);
            if colour.is_none() {
                "A colour is six hex digits, like #0b6b4f.".clone_into(&mut problems.colour);
            }
            colour.map(|colour| colour.to_string())
        }
    };
    let mut return_origins = Vec::new();
    for text in typed.origins.lines().map(str::trim).filter(|text| !text.is_empty()) {
        match origin(text) {
            Ok(origin) if return_origins.contains(&origin) => {}
            Ok(origin) => return_origins.push(origin),
            Err(why) => problems.origins = why,
        }
    }
    if return_origins.len() > MOST_ORIGINS {
        problems.origins = format!("There can be {MOST_ORIGINS} of them.");
    }
    let right = problems.name.is_empty() && problems.colour.is_empty() && problems.origins.is_empty();
    if right { Ok(OrgFace { name: name.to_owned(), colour, return_origins }) } else { Err(problems) }
}

/// An origin as browsers spell it. Only one's own machine may be called without encryption.
fn origin(text: &str) -> Result<String, String> {
    let shown: String = text.chars().take(100).collect();
    let wrong = |why: &str| Err(format!("“{shown}” {why}"));
    let Ok(url) = Url::parse(text) else { return wrong("is no address. Write it like https://app.example.com") };
    // Whatever else a host may have in it means something to a content security policy.
    let plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.');
    let loopback = match url.host() {
        Some(Host::Domain(name)) if !plain(name) => {
            return wrong("has a host that is none. Name each host in full: a * stands for nothing here.");
        }
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => return wrong("is no address. Write it like https://app.example.com"),
    };
    match url.scheme() {
        "https" => {}
        "http" if loopback => {}
        _ => return wrong("has to begin with https://, so that nobody on the way sees where people come from."),
    }
    let alone = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    if !alone || !url.username().is_empty() || url.password().is_some() {
        return wrong("has more than scheme, host and port. Leave out what follows the host: any page there will do.");
    }
    Ok(url.origin().ascii_serialization())
}

#[cfg(test)]
mod tests {
    use super::origin;

    #[test]
    fn an_origin_is_a_scheme_a_host_and_a_port() {
        for (text, is) in [
            ("https://app.example.com", "https://app.example.com"),
            ("https://APP.example.com:443/", "https://app.example.com"),
            ("https://app.example.com:8443", "https://app.example.com:8443"),
            ("http://localhost:3000", "http://localhost:3000"),
            ("http://127.0.0.1:3000/", "http://127.0.0.1:3000"),
        ] {
            assert_eq!(origin(text).as_deref(), Ok(is));
        }
        for (text, why) in [
            ("app.example.com", "is no address"),
            ("https://", "is no address"),
            ("http://app.example.com", "has to begin with https://"),
            ("ftp://app.example.com", "has to begin with https://"),
            ("javascript:alert(1)", "is no address"),
            ("https://app.example.com/back", "has more than"),
            ("https://app.example.com/?x=1", "has more than"),
            ("https://user:pass@app.example.com", "has more than"),
            ("https://*", "has a host that is none"),
            ("https://*.example.com", "has a host that is none"),
            ("https://a;sandbox", "has a host that is none"),
            ("https://a,b", "has a host that is none"),
            ("https://'self'", "has a host that is none"),
        ] {
            let error = origin(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
