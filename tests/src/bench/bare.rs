//! What `GET token` is compared with: axum and nothing else. It checks an API key as Holdfast does, by its SHA-256 in a
//! map, and answers the same JSON, without a database, without layers, without a refresh engine.
//!
//! The same server stands for a provider's API where the proxy is compared with a direct call: to every other path it
//! answers bytes that are ready, if the bearer is the right one.

use std::{
    collections::HashMap,
    io::{Seek, Write},
    net::SocketAddr,
    path::PathBuf,
    process::Stdio,
};

use anyhow::Context;
use axum::{
    Json, Router,
    body::Bytes,
    extract::{FromRequestParts, Path, State},
    http::{HeaderMap, StatusCode, header, request::Parts},
    response::IntoResponse,
    routing::get,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::{net::TcpListener, process::Command};

use super::process::{Running, free_port};

/// Makes the benchmark's program this server.
pub(super) const ARGUMENT: &str = "--bare-server";

struct Bare {
    keys: HashMap<[u8; 32], String>,
    body: Value,
    /// Of a provider's API.
    bearer: String,
    ready: Bytes,
}

/// A request with a good key.
struct Known;

/// Starts it, in a process of its own.
pub(super) async fn start(key: &str, body: &Value) -> anyhow::Result<Running> {
    let address = free_port()?;
    let mut command = Command::new(std::env::current_exe()?);
    let mut file = tempfile::tempfile()?;
    write!(file, "{}", json!({ "address": address, "key": key, "body": body }))?;
    file.rewind()?;
    command.arg(ARGUMENT).env_clear().stdin(Stdio::from(file)).stderr(Stdio::null());
    Running::start(&mut command, address, "/readyz", PathBuf::new()).await
}

/// Is it.
pub(super) async fn serve() -> anyhow::Result<()> {
    let told: Value = serde_json::from_reader(std::io::stdin().lock())?;
    let text = |name: &str| told[name].as_str().with_context(|| format!("no {name}"));
    let address: SocketAddr = text("address")?.parse()?;
    let keys = HashMap::from([(Sha256::digest(text("key")?.as_bytes()).into(), "Bench".to_owned())]);
    let body = told["body"].clone();
    let (bearer, ready) = (format!("Bearer {}", text("key")?), Bytes::from(body.to_string()));
    let state: &'static Bare = Box::leak(Box::new(Bare { keys, body, bearer, ready }));
    let router = Router::new()
        .route("/readyz", get(|| async { "ok\n" }))
        .route("/api/v1/connectors/{id}/token", get(token))
        .fallback(api)
        .with_state(state);
    axum::serve(TcpListener::bind(address).await?, router).await?;
    Ok(())
}

async fn token(State(bare): State<&'static Bare>, _known: Known, Path(_id): Path<String>) -> Json<&'static Value> {
    Json(&bare.body)
}

async fn api(State(bare): State<&'static Bare>, headers: HeaderMap) -> Result<impl IntoResponse, StatusCode> {
    let bearer = headers.get(header::AUTHORIZATION).ok_or(StatusCode::UNAUTHORIZED)?;
    if bearer != bare.bearer.as_str() {
        return Err(StatusCode::UNAUTHORIZED);
    }
    Ok(([(header::CONTENT_TYPE, "application/json")], bare.ready.clone()))
}

impl FromRequestParts<&'static Bare> for Known {
    type Rejection = StatusCode;

    async fn from_request_parts(parts: &mut Parts, bare: &&'static Bare) -> Result<Self, StatusCode> {
        let header = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let text = header.and_then(|value| value.strip_prefix("Bearer ")).ok_or(StatusCode::UNAUTHORIZED)?;
        let hash: [u8; 32] = Sha256::digest(text.as_bytes()).into();
        bare.keys.get(&hash).map(|_| Self).ok_or(StatusCode::UNAUTHORIZED)
    }
}
