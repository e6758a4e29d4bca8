//! From the call that learns of a failure to the moment when a mail server has accepted the mail about it.

use std::time::Duration;

use anyhow::{Context, ensure};
use holdfast_sandbox::{CLIENT_ID, CLIENT_SECRET, GrantRequest, Sandbox};
use holdfast_tests::smtp::Smtp;
use serde_json::{Value, json};

use super::{
    median, pause,
    process::{Installation, random_word},
    report::{Goal, Report},
    uptime,
    wire::{self, Connection},
};

const ROUNDS: usize = 5;
const LOOK: Duration = Duration::from_millis(10);
const BOUND: Duration = Duration::from_secs(30);

/// With the settings as they ship, but for the window in which more failures are kept for a digest: each round is a first
/// failure.
pub(super) async fn run(report: &mut Report) -> anyhow::Result<()> {
    let (sandbox, smtp) = (Sandbox::builder().start().await?, Smtp::start().await);
    let mut installation = Installation::new()?
        .with("HOLDFAST_MAIL__DIGEST_WINDOW_SECS", "0")
        .with("HOLDFAST_NETWORK__ALLOW_PRIVATE_HOSTS", "loopback")
        .with("HOLDFAST_OAUTH_APPS__ZENDESK__CLIENT_ID", CLIENT_ID)
        .with("HOLDFAST_OAUTH_APPS__ZENDESK__CLIENT_SECRET", CLIENT_SECRET)
        .with("HOLDFAST_PROVIDERS__ZENDESK__BASE_URL_OVERRIDE", sandbox.zendesk_override());
    for (key, value) in smtp.settings() {
        installation = installation.with(&format!("HOLDFAST_{}", key.to_uppercase().replace('.', "__")), value);
    }
    let holdfast = installation.serve().await?;
    let key = installation.key().await?;
    let mut caller = Connection::open(holdfast.address).await?;
    let mut times = Vec::new();
    for round in 1..=ROUNDS {
        times.push(failure(&sandbox, &smtp, &key, &mut caller, round).await?.as_secs_f64());
    }
    let longest = times.iter().copied().fold(0.0, f64::max);
    let note = format!("median of {ROUNDS}; the longest {longest:.1} s; it waits for company in between");
    report.add("failure to mail accepted", median(times), "s", Goal::Under(8.0), note);
    drop(caller);
    holdfast.stop().await?;
    sandbox.stop().await;
    Ok(())
}

async fn failure(
    sandbox: &Sandbox,
    smtp: &Smtp,
    key: &str,
    caller: &mut Connection,
    round: usize,
) -> anyhow::Result<Duration> {
    let name = format!("bench-{}", random_word());
    let helpdesk = sandbox.create_helpdesk(&name).context("the sandbox takes no other helpdesk")?;
    let grant = helpdesk.grant(&GrantRequest::default()).context("the sandbox grants no access")?;
    let body = json!({
        "provider": "zendesk", "account": name,
        "credential": {
            "access_token": grant.access_token, "refresh_token": grant.refresh_token,
            "expires_in": grant.expires_in, "scope": grant.scope,
        },
    });
    let made: Value = serde_json::from_slice(caller.must(&wire::post("/api/v1/connectors", key, &body)).await?)?;
    let id = made["id"].as_str().context("no id of the connector")?.to_owned();
    helpdesk.revoke(None);

    let started = uptime();
    let tested = caller.must(&wire::post(&format!("/api/v1/connectors/{id}/test"), key, &json!({}))).await?;
    let report: Value = serde_json::from_slice(tested)?;
    ensure!(report["health"] == "auth_failed", "the failure was not noticed: {report}");
    while smtp.messages().await.len() < round {
        ensure!(uptime() - started < BOUND, "no mail came");
        pause(LOOK).await;
    }
    Ok(uptime() - started)
}
