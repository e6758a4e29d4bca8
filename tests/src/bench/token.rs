//! `GET token`, warm, against a bare handler behind the same server: how much of its speed is left, and that no request
//! costs a statement.

use std::{net::SocketAddr, rc::Rc, time::Duration};

use anyhow::{Context, ensure};
use futures::future::try_join_all;
use serde_json::{Value, json};

use super::{
    bare, median,
    process::{Installation, Running},
    report::{Goal, Report},
    uptime,
    wire::{self, Connection},
};

const CONNECTIONS: usize = 64;
const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_secs(3);
const WARM_UP: Duration = Duration::from_secs(1);
/// Every statement is a line of the log with this target.
const STATEMENT: &str = "sqlx::query";
/// The process's own sign of life, every two seconds, whether it is asked for something or not.
const SIGN_OF_LIFE: &str = "INSERT INTO replicas";

/// Requests answered in a round.
struct Round {
    requests: u32,
    took: Duration,
    cpu_secs: f64,
}

impl Round {
    fn per_sec(&self) -> f64 {
        f64::from(self.requests) / self.took.as_secs_f64()
    }
}

pub(super) async fn run(report: &mut Report) -> anyhow::Result<()> {
    let installation = Installation::new()?
        // Its statements are no request's; it starts with one look and then rests.
        .with("HOLDFAST_REFRESH__LOOP_INTERVAL_SECS", "3600")
        .with("HOLDFAST_LOG__FORMAT", "json")
        .with("HOLDFAST_LOG__FILTER", format!("info,{STATEMENT}=trace"));
    let holdfast = installation.serve().await?;
    let key = installation.key().await?;
    let connector = import(&holdfast, &key).await?;
    let request: Rc<[u8]> = wire::get(&format!("/api/v1/connectors/{connector}/token"), &key).into();

    let before = statements(&holdfast)?.0;
    let body: Value = serde_json::from_slice(Connection::open(holdfast.address).await?.must(&request).await?)?;
    let first = statements(&holdfast)?.0 - before;
    ensure!(first > 0, "the first read has to load the connector, but no statement was seen: the count is blind");

    let bare = bare::start(&key, &body).await?;
    let answered: Value = serde_json::from_slice(Connection::open(bare.address).await?.must(&request).await?)?;
    ensure!(answered == body, "the bare handler answers something else");

    let mut ours = open(holdfast.address).await?;
    let mut theirs = open(bare.address).await?;
    round(&holdfast, &mut ours, &request, WARM_UP).await?;
    round(&bare, &mut theirs, &request, WARM_UP).await?;
    let (before, beats_before) = statements(&holdfast)?;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let our = round(&holdfast, &mut ours, &request, ROUND).await?;
        rounds.push((our, round(&bare, &mut theirs, &request, ROUND).await?));
    }
    let (after, beats_after) = statements(&holdfast)?;

    let shares: Vec<f64> = rounds.iter().map(|(our, their)| 100.0 * our.per_sec() / their.per_sec()).collect();
    let (least, most) = shares.iter().fold((f64::MAX, 0.0), |(least, most), share| (share.min(least), share.max(most)));
    let note = format!(
        "median of {ROUNDS} rounds of {} s each ({least:.0} to {most:.0} %), {CONNECTIONS} connections, callers on \
         the same processors",
        ROUND.as_secs()
    );
    report.add("GET token, share of a bare handler", median(shares), "%", Goal::AtLeast(60.0), note);
    let total: u32 = rounds.iter().map(|(our, _)| our.requests).sum();
    let note = format!(
        "in {total} requests; the first, cold one took {first}; besides, {} signs of life",
        beats_after - beats_before
    );
    let statements = u32::try_from(after - before)?;
    report.add("GET token, SQL statements", f64::from(statements), "", Goal::Exactly(0.0), note);
    let our = rounds.iter().map(|(our, _)| our);
    let their = rounds.iter().map(|(_, their)| their);
    report.add("GET token", median(our.clone().map(Round::per_sec)).round(), "/s", Goal::None, cost(our));
    report.add("the bare handler", median(their.clone().map(Round::per_sec)).round(), "/s", Goal::None, cost(their));
    let resident = holdfast.resident_kib()? / 1024.0;
    report.add("memory after these requests", resident, "MiB", Goal::None, format!("with {CONNECTIONS} connections"));
    drop((ours, theirs));
    holdfast.stop().await
}

/// The server's own share: free of what the callers cost.
fn cost<'a>(rounds: impl Iterator<Item = &'a Round>) -> String {
    let (cpu, requests) =
        rounds.fold((0.0, 0.0), |(cpu, requests), round| (cpu + round.cpu_secs, requests + f64::from(round.requests)));
    format!("{:.1} us of processor time in the server for each", 1e6 * cpu / requests)
}

/// A connector whose token lives for long; its helpdesk is never called.
async fn import(holdfast: &Running, key: &str) -> anyhow::Result<String> {
    let body = json!({
        "provider": "zendesk", "account": "acme",
        "credential": { "access_token": "a".repeat(64), "refresh_token": "r".repeat(64), "expires_in": 86_400 },
    });
    let request = wire::post("/api/v1/connectors", key, &body);
    let made: Value = serde_json::from_slice(Connection::open(holdfast.address).await?.must(&request).await?)?;
    made["id"].as_str().map(str::to_owned).context("no id of the connector")
}

async fn open(address: SocketAddr) -> anyhow::Result<Vec<Connection>> {
    Ok(try_join_all((0..CONNECTIONS).map(|_| Connection::open(address))).await?)
}

/// Asks over all connections at once, one request after the other on each.
async fn round(
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

/// Statements so far: those for somebody, and signs of life.
fn statements(holdfast: &Running) -> anyhow::Result<(usize, usize)> {
    let log = holdfast.log()?;
    let (beats, others): (Vec<&str>, Vec<&str>) =
        log.lines().filter(|line| line.contains(STATEMENT)).partition(|line| line.contains(SIGN_OF_LIFE));
    Ok((others.len(), beats.len()))
}
