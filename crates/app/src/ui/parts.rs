//! Parts that several pages show.

use holdfast_core::{
    Health,
    agent::{RunState, Status},
    job,
};
use serde::Serialize;

use crate::words::{self, Tone};

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
