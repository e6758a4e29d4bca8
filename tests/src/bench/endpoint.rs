//! A token endpoint that costs little, so that what is measured is not the imitation: one refresh token of each account
//! works, once, and the answer takes as long as it is told to.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

use super::pause;

/// Ends with this value.
pub(super) struct Endpoint {
    pub(super) address: SocketAddr,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    takes: Duration,
    seen: Mutex<Inside>,
}

/// What it has seen.
#[derive(Clone, Default)]
pub(super) struct Seen {
    pub(super) exchanges: u32,
    /// At the same time.
    pub(super) most_open: u32,
    /// Refresh tokens that did not work, or not any more.
    pub(super) refused: u32,
}

#[derive(Default)]
struct Inside {
    seen: Seen,
    open: u32,
    /// How often each account was refreshed.
    rotations: HashMap<String, u32>,
}

impl Endpoint {
    /// Each answer takes so long.
    pub(super) async fn start(takes: Duration) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared { takes, ..Shared::default() });
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let router = Router::new().route("/{account}/oauth/tokens", post(refresh)).with_state(Arc::clone(&shared));
        let server = tokio::spawn(async move {
            axum::serve(listener, router).await.ok();
        });
        Ok(Self { address, shared, server })
    }

    /// Where accounts live.
    pub(super) fn base_url(&self) -> String {
        format!("http://{}/{{account}}", self.address)
    }

    /// The refresh token that an account begins with.
    pub(super) fn first(account: &str) -> String {
        refresh_token(account, 0)
    }

    pub(super) fn seen(&self) -> Seen {
        self.shared.lock().seen.clone()
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn refresh(State(shared): State<Arc<Shared>>, Path(account): Path<String>, Json(body): Json<Value>) -> Response {
    let answer = {
        let mut state = shared.lock();
        state.open += 1;
        state.seen.exchanges += 1;
        state.seen.most_open = state.seen.most_open.max(state.open);
        let rotations = state.rotations.entry(account.clone()).or_default();
        if body["refresh_token"] == refresh_token(&account, *rotations).as_str() {
            *rotations += 1;
            Some(*rotations)
        } else {
            state.seen.refused += 1;
            None
        }
    };
    pause(shared.takes).await;
    shared.lock().open -= 1;
    let Some(rotations) = answer else {
        return (StatusCode::BAD_REQUEST, Json(json!({ "error": "invalid_grant" }))).into_response();
    };
    let body = json!({
        "access_token": format!("{:0>64}", format!("at-{account}-{rotations}")),
        "refresh_token": refresh_token(&account, rotations),
        "token_type": "bearer",
        "scope": "read write",
        "expires_in": body["expires_in"],
        "refresh_token_expires_in": body["refresh_token_expires_in"],
    });
    Json(body).into_response()
}

fn refresh_token(account: &str, rotations: u32) -> String {
    format!("{:0>64}", format!("rt-{account}-{rotations}"))
}
