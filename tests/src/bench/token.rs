//! `GET token`, warm, against a bare handler behind the same server: how much of its speed is left, and that no request
//! costs a statement.

use std::rc::Rc;

use anyhow::ensure;
use serde_json::Value;

use super::{
    bare,
    load::{CONNECTIONS, ROUND, ROUNDS, Round, WARM_UP, cost, import, open, round, shares, statements},
    median,
    process::Installation,
    report::{Goal, Report},
    wire::{self, Connection},
};

pub(super) async fn run(report: &mut Report) -> anyhow::Result<()> {
    let installation = Installation::new()?.counting_statements();
    let holdfast = installation.serve().await?;
    let key = installation.key().await?;
    let connector = import(&holdfast, &key, &"a".repeat(64)).await?;
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

    let (shares, least, most) = shares(&rounds);
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
