//! Event endpoints: listed, made with a secret that is shown once. One of them has its own page.

mod acts;
mod show;

use std::sync::Arc;

use axum::{
    extract::{Query, State},
    http::StatusCode,
    response::Response,
};
use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::{Role, event::EventType, id};
use holdfast_store::{EventEndpoint, MOST_EVENT_ENDPOINTS, MadeEventEndpoint};
use serde::{Deserialize, Serialize};
use tracing::info;

use crate::{
    app::App,
    endpoints::manage::{self, Standing},
    ui::{
        form::Posted,
        moment::{Moment, span},
        parts::Badge,
        person::Person,
        routes::{Needs, Routes},
        trouble::Trouble,
        view::{Here, View},
    },
    words::{BAD, GOOD, IDLE, WARN},
};

const HERE: &str = "/settings/event-endpoints";
const ADMIN: Needs = Needs::Role(Role::Admin);

pub(super) fn routes() -> Routes {
    Routes::new()
        .get(HERE, ADMIN, list)
        .post(HERE, ADMIN, make)
        .get("/settings/event-endpoints/{id}", ADMIN, show::show)
        .post("/settings/event-endpoints/{id}", ADMIN, acts::change)
        .post("/settings/event-endpoints/{id}/test", ADMIN, acts::test)
        .post("/settings/event-endpoints/{id}/rotate", ADMIN, acts::rotate)
        .post("/settings/event-endpoints/{id}/replay", ADMIN, acts::replay)
        .post("/settings/event-endpoints/{id}/enable", ADMIN, acts::enable)
        .post("/settings/event-endpoints/{id}/disable", ADMIN, acts::disable)
        .post("/settings/event-endpoints/{id}/delete", ADMIN, acts::delete)
}

#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    done: String,
}

#[derive(Serialize)]
struct EndpointsPage {
    done: Option<&'static str>,
    rows: Vec<Row>,
    full: bool,
    most: u64,
    /// How long an event is tried.
    tried_for: String,
    form: Form,
}

/// An endpoint in the list, and at the head of its page.
#[derive(Serialize)]
struct Row {
    id: String,
    name: String,
    url: String,
    badge: Badge,
    /// How many types; `None`: all.
    types: Option<usize>,
    delivered: Option<Moment>,
}

impl Row {
    fn of(endpoint: &EventEndpoint, now: DateTime<Utc>) -> Self {
        Self {
            id: endpoint.id.to_string(),
            name: manage::name(endpoint),
            url: endpoint.url.clone(),
            badge: badge(Standing::of(endpoint)),
            types: Some(endpoint.types.len()).filter(|count| *count > 0),
            delivered: Moment::maybe(endpoint.delivered_at, now),
        }
    }
}

/// How long an event is tried, in words.
fn tried_for(app: &App) -> String {
    TimeDelta::from_std(app.config.events.span()).ok().and_then(span).unwrap_or_default()
}

fn badge(standing: Standing) -> Badge {
    match standing {
        Standing::Active => (GOOD, "Active"),
        Standing::Failing => (WARN, "Failing"),
        Standing::Gone => (BAD, "Gone"),
        Standing::GivenUp => (BAD, "Given up"),
        Standing::Disabled => (IDLE, "Disabled"),
    }
    .into()
}

/// The form, as it is shown again with what was typed.
#[derive(Serialize)]
struct Form {
    /// Names the wish: a form that is sent twice makes one endpoint.
    wish: String,
    url: String,
    description: String,
    /// Whether all types are meant.
    all: bool,
    groups: Vec<Group>,
    problems: Problems,
}

/// Types that are about one thing.
#[derive(Serialize)]
struct Group {
    name: &'static str,
    types: Vec<Type>,
}

#[derive(Serialize)]
struct Type {
    name: &'static str,
    words: &'static str,
    /// Ticked in the form.
    chosen: bool,
}

/// By the fields that they stand by.
#[derive(Default, PartialEq, Serialize)]
struct Problems {
    url: String,
    description: String,
    types: String,
}

/// What is posted, to make one or to change one.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Typed {
    wish: String,
    url: String,
    description: String,
    /// `all`, or `some`.
    which: String,
    types: Vec<String>,
}

/// What was typed, where it makes sense.
struct Good {
    url: String,
    description: String,
    types: Vec<EventType>,
}

impl Typed {
    /// As it is, for the form that changes it.
    fn of(endpoint: &EventEndpoint) -> Self {
        Self {
            wish: String::new(),
            url: endpoint.url.clone(),
            description: endpoint.description.clone(),
            which: if endpoint.types.is_empty() { "all" } else { "some" }.to_owned(),
            types: endpoint.types.iter().map(|kind| kind.as_str().to_owned()).collect(),
        }
    }

    fn check(&self, app: &App) -> Result<Good, Problems> {
        let url = manage::url(app, &self.url);
        let description = manage::description(&self.description);
        let types = match self.which.as_str() {
            "some" if self.types.is_empty() => Err("Choose at least one, or all events.".to_owned()),
            "some" => manage::types(&self.types),
            _ => Ok(Vec::new()),
        };
        match (url, description, types) {
            (Ok(url), Ok(description), Ok(types)) => Ok(Good { url, description: description.to_owned(), types }),
            (url, description, types) => Err(Problems {
                url: url.err().unwrap_or_default(),
                description: description.err().unwrap_or_default(),
                types: types.err().unwrap_or_default(),
            }),
        }
    }
}

impl Form {
    fn new(app: &App, typed: &Typed, problems: Problems) -> Self {
        let group = |(name, prefix): (&'static str, &str)| {
            let of = manage::chosen().filter(|kind| kind.as_str().starts_with(prefix));
            let one = |kind: EventType| Type {
                name: kind.as_str(),
                words: kind.words(),
                chosen: typed.types.iter().any(|word| word == kind.as_str()),
            };
            Group { name, types: of.map(one).collect() }
        };
        let groups = [("Connectors", "connector."), ("Agents", "agent."), ("Tickets", "ticket.")];
        Self {
            wish: id::new("form", app.seams.clock.as_ref(), app.seams.random.as_ref()),
            url: typed.url.clone(),
            description: typed.description.clone(),
            all: typed.which != "some",
            groups: groups.into_iter().map(group).collect(),
            problems,
        }
    }
}

async fn page(app: &App, person: &Person, done: Option<&'static str>, form: Form) -> Result<Response, Trouble> {
    let now = app.seams.clock.now();
    let all = app.store.event_endpoints(person.org(), now).await?;
    let wrong = form.problems != Problems::default();
    let page = EndpointsPage {
        done,
        rows: all.iter().map(|endpoint| Row::of(endpoint, now)).collect(),
        full: all.len() as u64 >= MOST_EVENT_ENDPOINTS,
        most: MOST_EVENT_ENDPOINTS,
        tried_for: tried_for(app),
        form,
    };
    let status = if wrong { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    let view = View::of(person, Here::Settings, "pages/settings/event_endpoints.html", "Event endpoints", &page);
    Ok(view.status(status).show(app))
}

/// GET /settings/event-endpoints
async fn list(State(app): State<Arc<App>>, person: Person, Query(asked): Query<Asked>) -> Result<Response, Trouble> {
    let done = (asked.done == "deleted").then_some("The endpoint is deleted; nothing is sent there any more.");
    let form = Form::new(&app, &Typed::default(), Problems::default());
    page(&app, &person, done, form).await
}

/// POST /settings/event-endpoints. Answers with the endpoint's page and its secret: after a redirect nobody would see it.
async fn make(State(app): State<Arc<App>>, person: Person, Posted(typed): Posted<Typed>) -> Result<Response, Trouble> {
    let good = match typed.check(&app) {
        Ok(good) => good,
        Err(problems) => {
            let form = Form::new(&app, &typed, problems);
            return page(&app, &person, None, form).await;
        }
    };
    let wish = Some(typed.wish.as_str()).filter(|wish| wish.starts_with("form_") && wish.len() < 64);
    let made = manage::make(&app, person.org(), &good.url, &good.description, &good.types, wish).await?;
    let endpoint = match made {
        MadeEventEndpoint::New(made) => {
            info!(user.id = person.user.id, endpoint.id = %made.id, "{} made event endpoint {}", person.user.id, made.id);
            made
        }
        MadeEventEndpoint::Again(made) => made,
        MadeEventEndpoint::TooMany => {
            let way_on = "Delete one that is not needed any more, then make this one.";
            return Err(Trouble::told(&person, StatusCode::CONFLICT, "There are too many endpoints", way_on));
        }
    };
    show::with_secret(&app, &person, &endpoint, "The endpoint is made").await
}
