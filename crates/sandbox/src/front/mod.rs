//! Front, imitated from its documentation: `/front/{host}/…` is `https://{host}/…`, for `app.frontapp.com` (OAuth) and
//! `api2.frontapp.com` (the API). One OAuth app, and companies that know nothing of each other. Links in answers lead to the
//! company's own host, `https://{company}.api.frontapp.com`, which is not served here.

mod api;
pub(crate) mod consent;
mod conversations;
mod data;
mod handle;
mod messages;
mod people;
mod seed;
mod state;
mod token_endpoint;

use std::sync::{Arc, Mutex};

use axum::response::Response;
use serde::{Deserialize, Serialize};

use crate::counters::{Counters, Counts};
use crate::desk::{World, locked};
use crate::faults::{Faults, Gate};
use crate::http::{Answer, Request};

pub use handle::{FrontGrant, FrontRig};
pub(crate) use state::State;
pub use state::{EndForm, FrontOptions, Replaces};

/// All of it, in the world of a sandbox.
#[derive(Debug, Default)]
pub(crate) struct Front {
    pub(crate) state: Mutex<State>,
    pub(crate) faults: Mutex<Faults>,
    pub(crate) gate: Gate,
    pub(crate) counts: Counts,
}

/// What is kept of it in a file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Kept {
    state: Option<State>,
    faults: Faults,
    faults_end: [Option<i64>; 2],
    counters: Counters,
}

impl Front {
    pub(crate) fn new(now_ms: i64) -> Self {
        Self { state: Mutex::new(State::seeded(now_ms)), ..Self::default() }
    }

    pub(crate) fn to_keep(&self) -> Kept {
        let faults = locked(&self.faults).clone();
        Kept {
            state: Some(locked(&self.state).clone()),
            faults_end: faults.ends(),
            faults,
            counters: self.counts.read(),
        }
    }

    /// As it was kept; a file of before there was a Front keeps what is new here.
    pub(crate) fn restored(kept: Kept, now_ms: i64) -> Self {
        let Some(state) = kept.state else { return Self::new(now_ms) };
        let faults = kept.faults.ending(kept.faults_end);
        let gate = Gate::default();
        gate.set(&faults);
        Self { state: Mutex::new(state), faults: Mutex::new(faults), gate, counts: kept.counters.into() }
    }
}

/// `request.path` starts with the host.
pub(crate) async fn serve(world: Arc<World>, mut request: Request) -> Response {
    let host = if request.path.is_empty() { String::new() } else { request.path.remove(0) };
    let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
    let front = world.front();
    match (host.as_str(), request.method.as_str(), path.as_slice()) {
        ("app.frontapp.com", "GET", ["oauth", "authorize"]) => consent::show(&world, &front, &request).into_response(),
        ("app.frontapp.com", "POST", ["oauth", "authorize"]) => {
            let answer = consent::decide(&world, &front, &request);
            world.keep().await;
            answer.into_response()
        }
        // Keeps what it did by itself.
        ("app.frontapp.com", "POST", ["oauth", "token"]) => {
            token_endpoint::serve(Arc::clone(&world), front, request).await
        }
        ("api2.frontapp.com", _, _) => {
            let reads = request.method == "GET";
            let response = api::serve(&world, &front, &request).await;
            if !reads {
                world.keep().await;
            }
            response
        }
        _ => Answer::html(404, "<!DOCTYPE html><title>Front</title><p>Page not found</p>".to_owned()).into_response(),
    }
}
