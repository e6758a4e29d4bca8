//! A caller that waits on another replica than the one that refreshes: how soon after the commit it has its token.

use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use sqlx::Connection as _;

use super::{
    endpoint::Endpoint,
    millis, pause,
    report::{Goal, Report},
    scan::at,
    schedule::Farm,
    uptime,
    wire::{self, Connection},
};

const ROUNDS: u32 = 200;
const TAKES: Duration = Duration::from_millis(200);
/// Long enough for the first one to hold the lease, short against the exchange.
const LATER: Duration = Duration::from_millis(60);

pub(super) async fn run(report: &mut Report) -> anyhow::Result<()> {
    // Nothing but the callers is to notice the expiry.
    let farm = Farm::start(2, TAKES, |with| with.with("HOLDFAST_REFRESH__LOOP_INTERVAL_SECS", "3600")).await?;
    let mut one = Connection::open(farm.running[0].address).await?;
    let mut two = Connection::open(farm.running[1].address).await?;
    let mut woken = Vec::new();
    for round in 0..ROUNDS {
        let account = format!("desk{round}");
        // Without an access token it counts as over.
        let body = json!({
            "provider": "zendesk", "account": account,
            "credential": { "refresh_token": Endpoint::first(&account) },
        });
        let made: Value = serde_json::from_slice(one.must(&wire::post("/api/v1/connectors", &farm.key, &body)).await?)?;
        let request =
            wire::get(&format!("/api/v1/connectors/{}/token", made["id"].as_str().context("no id")?), &farm.key);
        let owner = async {
            one.must(&request).await?;
            anyhow::Ok(uptime())
        };
        let waiter = async {
            pause(LATER).await;
            two.must(&request).await?;
            anyhow::Ok(uptime())
        };
        let (owner, waiter) = tokio::try_join!(owner, waiter)?;
        woken.push(millis(waiter.saturating_sub(owner)));
    }
    let exchanges = farm.endpoint.seen().exchanges;
    ensure!(exchanges == ROUNDS, "{exchanges} exchanges for {ROUNDS} expiries");
    let mut session = farm.database.session().await?;
    let polled: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM exchanges").fetch_one(&mut session).await?;
    ensure!(polled == i64::from(ROUNDS), "{polled} exchanges were journalled");
    session.close().await?;

    let note = format!(
        "of {ROUNDS} expiries, its answer after that of the replica that refreshed; median {:.1} ms, the longest {:.1} ms",
        at(&woken, 0.5),
        at(&woken, 1.0)
    );
    report.add("waiter on another replica, p99", at(&woken, 0.99), "ms", Goal::Under(20.0), note);
    drop((one, two));
    farm.stop().await
}
