//! A call through the proxy against the same call made directly: what it adds, and how much of the speed is left.
//!
//! The provider is a bare server that answers bytes which are ready: next to a real one, what is added weighs less.

use std::{rc::Rc, time::Duration};

use anyhow::ensure;
use serde_json::{Value, json};

use super::{
    bare,
    load::{CONNECTIONS, ROUND, ROUNDS, WARM_UP, cost, import, open, round, shares, statements},
    median, millis,
    process::Installation,
    report::{Goal, Report},
    uptime,
    wire::{self, Connection},
};

const PATH: &str = "api/v2/tickets/1.json";
/// Of one caller alone.
const TURN: Duration = Duration::from_secs(1);

pub(super) async fn run(report: &mut Report) -> anyhow::Result<()> {
    let token = "a".repeat(64);
    let provider = bare::start(&token, &ticket()).await?;
    let installation = Installation::new()?
        .with("HOLDFAST_NETWORK__ALLOW_PRIVATE_HOSTS", "loopback")
        .with("HOLDFAST_PROVIDERS__ZENDESK__BASE_URL_OVERRIDE", format!("http://{}/{{account}}", provider.address))
        .counting_statements();
    let holdfast = installation.serve().await?;
    let key = installation.key().await?;
    let connector = import(&holdfast, &key, &token).await?;
    let through: Rc<[u8]> = wire::get(&format!("/api/v1/connectors/{connector}/proxy/{PATH}"), &key).into();
    let direct: Rc<[u8]> = wire::get(&format!("/acme/{PATH}"), &token).into();
    let (mut ours, mut theirs) = (Connection::open(holdfast.address).await?, Connection::open(provider.address).await?);
    ensure!(ours.must(&through).await? == theirs.must(&direct).await?, "the proxy answers something else");

    let (before, _) = statements(&holdfast)?;
    let mut added = Vec::new();
    let (mut our_medians, mut their_medians) = (Vec::new(), Vec::new());
    for turn in 0..=ROUNDS {
        let our = alone(&mut ours, &through).await?;
        let their = alone(&mut theirs, &direct).await?;
        // The first turn warms up.
        if turn > 0 {
            added.push(our - their);
            our_medians.push(our);
            their_medians.push(their);
        }
    }
    let note = format!(
        "median of {ROUNDS} turns of one caller alone; through the proxy {:.3} ms, directly {:.3} ms",
        median(our_medians),
        median(their_medians)
    );
    report.add("proxy, added to a direct call (p50)", median(added), "ms", Goal::Under(0.3), note);

    let (mut ours, mut theirs) = (open(holdfast.address).await?, open(provider.address).await?);
    round(&holdfast, &mut ours, &through, WARM_UP).await?;
    round(&provider, &mut theirs, &direct, WARM_UP).await?;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let our = round(&holdfast, &mut ours, &through, ROUND).await?;
        rounds.push((our, round(&provider, &mut theirs, &direct, ROUND).await?));
    }
    let (after, _) = statements(&holdfast)?;
    let (shares, least, most) = shares(&rounds);
    let note = format!(
        "median of {ROUNDS} rounds of {} s each ({least:.0} to {most:.0} %), {CONNECTIONS} connections, callers and \
         provider on the same processors",
        ROUND.as_secs()
    );
    report.add("proxy, share of direct calls", median(shares), "%", Goal::AtLeast(30.0), note);
    let total: u32 = rounds.iter().map(|(our, _)| our.requests).sum();
    let note = format!("in {total} requests and those of the caller alone");
    let statements = u32::try_from(after - before)?;
    report.add("proxy, SQL statements", f64::from(statements), "", Goal::Exactly(0.0), note);
    let our = rounds.iter().map(|(our, _)| our);
    let their = rounds.iter().map(|(_, their)| their);
    report.add("proxy", median(our.clone().map(super::load::Round::per_sec)).round(), "/s", Goal::None, cost(our));
    let per_sec = median(their.clone().map(super::load::Round::per_sec)).round();
    report.add("the provider, directly", per_sec, "/s", Goal::None, cost(their));
    drop((ours, theirs));
    holdfast.stop().await
}

/// The median of one caller's calls, in milliseconds.
async fn alone(connection: &mut Connection, request: &[u8]) -> anyhow::Result<f64> {
    let (started, mut calls) = (uptime(), Vec::new());
    let mut now = started;
    while now - started < TURN {
        connection.must(request).await?;
        let end = uptime();
        calls.push(millis(end - now));
        now = end;
    }
    Ok(median(calls))
}

/// About as long as a real one.
fn ticket() -> Value {
    json!({ "ticket": {
        "id": 1, "url": "https://acme.zendesk.com/api/v2/tickets/1.json", "subject": "Where is my order?",
        "description": "It was due last week. ".repeat(40), "status": "open", "priority": "urgent",
        "tags": ["order", "late", "vip"], "requester_id": 20_978_392, "assignee_id": 235_323,
        "created_at": "2026-11-20T22:55:29Z", "updated_at": "2026-11-29T10:38:52Z",
        "custom_fields": [{ "id": 27_642, "value": "745" }, { "id": 27_648, "value": "yes" }],
    } })
}
