//! Callers that ask as fast as they are answered.

use std::{net::SocketAddr, rc::Rc, time::Duration};

use anyhow::Context;
use futures::future::try_join_all;
use serde_json::{Value, json};

use super::{
    process::Running,
    uptime,
    wire::{self, Connection},
};

pub(super) const CONNECTIONS: usize = 64;
pub(super) const ROUNDS: usize = 7;
pub(super) const ROUND: Duration = Duration::from_secs(3);
pub(super) const WARM_UP: Duration = Duration::from_secs(1);
/// Every statement is a line of the log with this target.
pub(super) const STATEMENT: &str = "sqlx::query";
/// The process's own sign of life, every two seconds, whether it is asked for something or not.
const SIGN_OF_LIFE: &str = "INSERT INTO replicas";

/// Requests answered in a round.
pub(super) struct Round {
    pub(super) requests: u32,
    took: Duration,
    cpu_secs: f64,
}

impl Round {
    pub(super) fn per_sec(&self) -> f64 {
        f64::from(self.requests) / self.took.as_secs_f64()
    }
}

/// The server's own share: free of what the callers cost.
pub(super) fn cost<'a>(rounds: impl Iterator<Item = &'a Round>) -> String {
    let (cpu, requests) =
        rounds.fold((0.0, 0.0), |(cpu, requests), round| (cpu + round.cpu_secs, requests + f64::from(round.requests)));
    format!("{:.1} us of processor time in the server for each", 1e6 * cpu / requests)
}

pub(super) async fn open(address: SocketAddr) -> anyhow::Result<Vec<Connection>> {
    Ok(try_join_all((0..CONNECTIONS).map(|_| Connection::open(address))).await?)
}

/// Asks over all connections at once, one request after the other on each.
pub(super) async fn round(
    server: &Running,
    connections: &mut [Connection],
    request: &Rc<[u8]>,
    length: Duration,
) -> anyhow::Result<Round> {
    let (started, cpu) = (uptime(), server.cpu_secs()?);
    let callers = connections.iter_mut().map(|connection| async move {
        let mut requests = 0_u32;
        while uptime() - started < length {
            connection.must(request).await?;
            requests += 1;
        }
        anyhow::Ok(requests)
    });
    let requests = try_join_all(callers).await?.into_iter().sum();
    Ok(Round { requests, took: uptime() - started, cpu_secs: server.cpu_secs()? - cpu })
}

/// Each round's share in percent of the round that was measured right after it, and the least and the most of them.
pub(super) fn shares(rounds: &[(Round, Round)]) -> (Vec<f64>, f64, f64) {
    let shares: Vec<f64> = rounds.iter().map(|(our, their)| 100.0 * our.per_sec() / their.per_sec()).collect();
    let (least, most) = shares.iter().fold((f64::MAX, 0.0), |(least, most), share| (share.min(least), share.max(most)));
    (shares, least, most)
}

/// A connector whose token lives for long.
pub(super) async fn import(holdfast: &Running, key: &str, access_token: &str) -> anyhow::Result<String> {
    let body = json!({
        "provider": "zendesk", "account": "acme",
        "credential": { "access_token": access_token, "refresh_token": "r".repeat(64), "expires_in": 86_400 },
    });
    let request = wire::post("/api/v1/connectors", key, &body);
    let made: Value = serde_json::from_slice(Connection::open(holdfast.address).await?.must(&request).await?)?;
    made["id"].as_str().map(str::to_owned).context("no id of the connector")
}

/// Statements so far: those for somebody, and signs of life.
pub(super) fn statements(holdfast: &Running) -> anyhow::Result<(usize, usize)> {
    let log = holdfast.log()?;
    let (beats, others): (Vec<&str>, Vec<&str>) =
        log.lines().filter(|line| line.contains(STATEMENT)).partition(|line| line.contains(SIGN_OF_LIFE));
    Ok((others.len(), beats.len()))
}
