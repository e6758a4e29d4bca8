//! 200 callers at the moment of expiry, with a token endpoint that takes 200 ms: what the slowest of them waits, and that
//! the provider sees one exchange.

use std::{collections::HashSet, time::Duration};

use anyhow::{Context, ensure};
use futures::future::try_join_all;
use holdfast_sandbox::{CLIENT_ID, CLIENT_SECRET, GrantRequest, Sandbox};
use serde_json::{Value, json};

use super::{
    database::Database,
    median, millis, pause,
    process::{Installation, Running, random_word},
    report::{Goal, Report},
    uptime,
    wire::{self, Connection},
};

const CALLERS: usize = 200;
const ROUNDS: usize = 7;
const ENDPOINT: Duration = Duration::from_millis(200);
/// A token is warm for half of it.
const LIFE: Duration = Duration::from_secs(3);

/// One expiry.
struct Round {
    slowest: f64,
    exchanges: u64,
}

pub(super) async fn run(report: &mut Report) -> anyhow::Result<()> {
    let sandbox = Sandbox::builder().with(|options| options.min_expires_in = 1).start().await?;
    let sqlite = installation(&sandbox)?;
    measure(report, &sandbox, &sqlite, 1, "one replica, SQLite", 250.0).await?;

    let database = Database::create().await?;
    let postgres = installation(&sandbox)?.with("HOLDFAST_DATABASE__URL", database.url());
    measure(report, &sandbox, &postgres, 1, "one replica, PostgreSQL", 250.0).await?;
    measure(report, &sandbox, &postgres, 2, "two replicas, PostgreSQL", 350.0).await?;
    measure(report, &sandbox, &postgres, 4, "four replicas, PostgreSQL", 350.0).await?;
    database.drop().await?;
    sandbox.stop().await;
    Ok(())
}

fn installation(sandbox: &Sandbox) -> anyhow::Result<Installation> {
    Ok(Installation::new()?
        // Nothing but the callers is to notice the expiry.
        .with("HOLDFAST_REFRESH__LOOP_INTERVAL_SECS", "3600")
        .with("HOLDFAST_NETWORK__ALLOW_PRIVATE_HOSTS", "loopback")
        .with("HOLDFAST_OAUTH_APPS__ZENDESK__CLIENT_ID", CLIENT_ID)
        .with("HOLDFAST_OAUTH_APPS__ZENDESK__CLIENT_SECRET", CLIENT_SECRET)
        .with("HOLDFAST_PROVIDERS__ZENDESK__BASE_URL_OVERRIDE", sandbox.zendesk_override()))
}

async fn measure(
    report: &mut Report,
    sandbox: &Sandbox,
    installation: &Installation,
    replicas: usize,
    where_: &str,
    goal_ms: f64,
) -> anyhow::Result<()> {
    let mut running = Vec::new();
    for _ in 0..replicas {
        running.push(installation.serve().await?);
    }
    let key = installation.key().await?;
    let addresses = running.iter().map(|replica| replica.address).cycle().take(CALLERS);
    let mut callers = try_join_all(addresses.map(Connection::open)).await?;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        rounds.push(expiry(sandbox, &key, &mut callers).await?);
    }
    drop(callers);
    for replica in running {
        Running::stop(replica).await?;
    }

    let exchanges: Vec<u64> = rounds.iter().map(|round| round.exchanges).collect();
    let longest = rounds.iter().map(|round| round.slowest).fold(0.0, f64::max);
    let slowest = median(rounds.iter().map(|round| round.slowest));
    let note = format!("median of {ROUNDS} expiries, the longest {longest:.1} ms");
    report.add(format!("slowest of {CALLERS} at expiry, {where_}"), slowest, "ms", Goal::Under(goal_ms), note);
    let most = exchanges.iter().copied().max().unwrap_or_default();
    let note = format!("the most of {ROUNDS} expiries; no caller got an error, all got one token");
    report.add(
        format!("exchanges per expiry, {where_}"),
        f64::from(u32::try_from(most)?),
        "",
        Goal::Exactly(1.0),
        note,
    );
    Ok(())
}

/// A connector of its own that is read warm by everybody, expires, and is asked for by everybody at once.
async fn expiry(sandbox: &Sandbox, key: &str, callers: &mut [Connection]) -> anyhow::Result<Round> {
    let name = format!("bench-{}", random_word());
    let helpdesk = sandbox.create_helpdesk(&name).context("the sandbox takes no other helpdesk")?;
    helpdesk.trouble(|faults| faults.delay_ms = u64::try_from(ENDPOINT.as_millis()).unwrap_or_default());
    let life = u32::try_from(LIFE.as_secs())?;
    let grant = helpdesk.grant(&GrantRequest { expires_in: Some(life), ..GrantRequest::default() });
    let grant = grant.context("the sandbox grants no access")?;
    let body = json!({
        "provider": "zendesk", "account": name,
        "credential": {
            "access_token": grant.access_token, "refresh_token": grant.refresh_token,
            "expires_in": life, "scope": grant.scope,
        },
    });
    let first = callers.first_mut().context("there are callers")?;
    let made: Value = serde_json::from_slice(first.must(&wire::post("/api/v1/connectors", key, &body)).await?)?;
    let imported = uptime();
    let id = made["id"].as_str().context("no id of the connector")?;
    let request = wire::get(&format!("/api/v1/connectors/{id}/token"), key);

    for caller in &mut *callers {
        caller.must(&request).await?;
    }
    ensure!(helpdesk.counters().exchanges == 0, "this machine is too busy: the token aged while it was read first");
    pause((LIFE + Duration::from_millis(50)).saturating_sub(uptime() - imported)).await;

    let started = uptime();
    let asked = callers.iter_mut().map(|caller| {
        let request = &request;
        async move {
            let token: Value = serde_json::from_slice(caller.must(request).await?)?;
            let after = uptime() - started;
            let token = token["access_token"].as_str().context("no token")?.to_owned();
            anyhow::Ok((token, millis(after)))
        }
    });
    let answers = try_join_all(asked).await?;
    let tokens: HashSet<&str> = answers.iter().map(|(token, _)| token.as_str()).collect();
    ensure!(tokens.len() == 1, "callers got {} different tokens", tokens.len());
    ensure!(tokens.iter().all(|token| helpdesk.accepts(token)), "the provider does not accept the token");
    let slowest = answers.iter().map(|(_, after)| *after).fold(0.0, f64::max);
    let exchanges = helpdesk.counters().exchanges;
    sandbox.close_helpdesk(&name);
    Ok(Round { slowest, exchanges })
}
