//! Services that are much alike, imitated from what is known of each: `/generic/{host}/…` is `https://{host}/…`.
//!
//! What they differ in is one table, [`table`]: where the client's secret goes, how bodies are written, what brings a refresh
//! token and what becomes of it, how refusals look, and who answers the test call. Nothing of it is kept in a file.

mod answers;
mod consent;
mod handle;
mod state;
mod table;
mod token_endpoint;

use std::sync::{Arc, Mutex};

use axum::response::Response;

use crate::desk::{World, locked};
use crate::faults::{Faults, Gate, hang_up};
use crate::http::{Answer, Request};

use state::State;
use table::{Role, find};

pub(crate) use consent::consent;
pub use handle::GenericRig;

/// The key that services by key accept.
pub const GENERIC_KEY: &str = "generic-sandbox-key";

/// All of it, in the world of a sandbox.
#[derive(Debug, Default)]
pub(crate) struct Generic {
    state: Mutex<State>,
    faults: Mutex<Faults>,
    gate: Gate,
}

impl Generic {
    /// Nothing was issued, and there is no trouble.
    pub(crate) fn reset(&self) {
        *locked(&self.state) = State::default();
        *locked(&self.faults) = Faults::default();
        self.gate.set(&Faults::default());
    }
}

/// `request.path` starts with the host.
pub(crate) async fn serve(world: Arc<World>, mut request: Request) -> Response {
    let host = if request.path.is_empty() { String::new() } else { request.path.remove(0) };
    let path = request.path.join("/");
    let Some((service, role)) = find(&host, &path) else {
        return Answer::html(404, "<h1>404 Not Found</h1>".to_owned()).into_response();
    };
    match (role, request.method.as_str()) {
        (Role::Authorize, "GET") => consent::show(&world, service, &host, &request).into_response(),
        (Role::Authorize, "POST") => consent::decide(&world, service, &host, &request).into_response(),
        (Role::Token, "POST") => token_endpoint::serve(world, service, host, request).await,
        (Role::Token | Role::Authorize, _) => Answer::empty(405).into_response(),
        (Role::Api, _) => {
            let now_ms = world.clock.now_ms();
            let (dropped, canned) = {
                let mut faults = locked(&world.generic.faults);
                (faults.drops_api(), faults.plan_api(now_ms).1)
            };
            match canned {
                _ if dropped => hang_up(),
                Some(canned) => canned.respond(&[]),
                None => answers::serve(&world, service, &host, &path, &request).into_response(),
            }
        }
    }
}
