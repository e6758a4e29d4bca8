//! Google, imitated from its documentation: `/google/{host}/…` is `https://{host}/…`, for the hosts that Holdfast may call.
//!
//! One Cloud project with one OAuth client, and people with a mailbox, a calendar and spreadsheets.

mod a1;
mod api;
mod calendar;
pub(crate) mod consent;
mod error;
mod gmail;
mod handle;
mod mime;
mod push;
mod query;
mod seed;
mod sheets;
mod state;
mod token_endpoint;
mod userinfo;

use std::sync::Arc;
use std::sync::Mutex;

use axum::response::Response;
use serde::{Deserialize, Serialize};

use crate::counters::{Counters, Counts};
use crate::desk::{World, locked};
use crate::events;
use crate::faults::{Faults, Gate};
use crate::http::{Answer, Request};

pub use handle::{GoogleGrant, GoogleRig};
pub use push::{CalendarChannel, GmailWatch};
pub use state::GoogleOptions;
pub(crate) use state::State;

/// All of it, in the world of a sandbox.
#[derive(Debug, Default)]
pub(crate) struct Google {
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

impl Google {
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

    /// As it was kept; a file of before there was a Google keeps what is new here.
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
    let google = world.google();
    match (host.as_str(), request.method.as_str(), path.as_slice()) {
        ("accounts.google.com", "GET", ["o", "oauth2", "v2", "auth"]) => {
            consent::show(&world, &google, &request).into_response()
        }
        ("accounts.google.com", "POST", ["o", "oauth2", "v2", "auth"]) => {
            let answer = consent::decide(&world, &google, &request);
            world.keep().await;
            answer.into_response()
        }
        // These keep what they did by themselves.
        ("oauth2.googleapis.com", "POST", ["token"]) => {
            token_endpoint::serve(Arc::clone(&world), google, request).await
        }
        ("oauth2.googleapis.com", "POST", ["revoke"]) => {
            let answer = token_endpoint::revoke(&world, &google, &request);
            world.keep().await;
            answer.into_response()
        }
        ("www.googleapis.com", "GET", ["oauth2", "v3", "certs"]) => {
            Answer::json(200, events::google_keys()).header("cache-control", "public, max-age=20000").into_response()
        }
        ("oauth2.googleapis.com", "GET", ["tokeninfo"]) => {
            userinfo::tokeninfo(&world, &google, &request).into_response()
        }
        (
            "openidconnect.googleapis.com" | "gmail.googleapis.com" | "www.googleapis.com" | "sheets.googleapis.com",
            _,
            _,
        ) => {
            let reads = request.method == "GET";
            let response = api::serve(&world, &google, &host, &request).await;
            if !reads {
                world.keep().await;
            }
            response
        }
        _ => Answer::html(404, "<!DOCTYPE html><title>Error 404 (Not Found)!!1</title>".to_owned()).into_response(),
    }
}
