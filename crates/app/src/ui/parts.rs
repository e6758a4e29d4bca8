//! Parts that several pages show.

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use holdfast_core::{
    Health,
    agent::{RunState, Status},
    job,
};
use serde::Serialize;

use super::{person::Visitor, view::View};
use crate::{
    app::App,
    words::{self, Tone},
};

/// A word with its colour.
#[derive(Serialize)]
pub(crate) struct Badge {
    /// See [`words`].
    pub(crate) tone: Tone,
    /// In a word or three.
    pub(crate) word: &'static str,
}

impl Badge {
    /// Of a connector.
    pub(crate) fn of_health(health: Health, degraded: bool) -> Self {
        words::health(health, degraded).into()
    }

    /// Of an agent.
    pub(crate) fn of_agent(status: Status) -> Self {
        words::agent(status).into()
    }

    /// Of a job.
    pub(crate) fn of_job(state: job::State) -> Self {
        words::job(state).into()
    }

    /// Of an agent's run.
    pub(crate) fn of_run(state: RunState) -> Self {
        words::run(state).into()
    }
}

impl From<(Tone, &'static str)> for Badge {
    fn from((tone, word): (Tone, &'static str)) -> Self {
        Self { tone, word }
    }
}

/// One of several, in a form.
#[derive(Serialize)]
pub(crate) struct Choice {
    /// What the form sends.
    pub(crate) value: String,
    /// What people read.
    pub(crate) word: String,
    /// The one that stands there now.
    pub(crate) chosen: bool,
}

/// A page that says one thing to somebody who need not be signed in, and the way on.
#[derive(Serialize)]
pub(crate) struct Told<'a> {
    text: &'a str,
    label: &'a str,
    href: &'a str,
}

impl<'a> Told<'a> {
    /// With its one button.
    pub(crate) fn new(text: &'a str, label: &'a str, href: &'a str) -> Self {
        Self { text, label, href }
    }

    /// As a page.
    pub(crate) fn show(&self, app: &App, visitor: &Visitor, status: StatusCode, title: &str) -> Response {
        let view = View::plain(&visitor.csrf, "pages/account/told.html", title, self);
        (visitor.jar.clone(), view.status(status).show(app)).into_response()
    }
}
