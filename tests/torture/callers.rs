//! Callers: on tokens, rejected tokens, the proxy, Test and Reconnect. Each is held to what it may hear, and when.

use std::{fmt, panic::AssertUnwindSafe, time::Duration};

use futures::FutureExt as _;
use holdfast_tests::{
    browser::Browser,
    process::Answer,
    wait::{pause, uptime},
};
use reqwest::Method;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::{
    Dice,
    stage::{Connector, Slot, Stage, WAIT_BOUND},
};

/// What a busy machine may add to a caller's bound; the database's patience with a statement is in it.
const SLACK: Duration = Duration::from_secs(8);

/// What the callers met.
#[derive(Default)]
pub(crate) struct Calls {
    made: u64,
    served: u64,
    put_off: u64,
    refused: u64,
    broken: u64,
    failed: u64,
    reconnected: u64,
    pub(crate) wrong: Vec<String>,
}

impl Calls {
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.made += other.made;
        self.served += other.served;
        self.put_off += other.put_off;
        self.refused += other.refused;
        self.broken += other.broken;
        self.failed += other.failed;
        self.reconnected += other.reconnected;
        self.wrong.extend(other.wrong);
        self
    }
}

impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} calls: {} served, {} put off, {} refused, {} told to reconnect, {} cut off with their replica; {} reconnects",
            self.made, self.served, self.put_off, self.refused, self.failed, self.broken, self.reconnected
        )
    }
}

/// One caller, until it is over.
pub(crate) async fn call(stage: &Stage, seed: u64, over: CancellationToken) -> Calls {
    let (mut dice, mut calls) = (Dice::new(seed.wrapping_add(7)), Calls::default());
    while !over.is_cancelled() {
        pause(dice.time(1, 60)).await;
        let slot = &stage.slots[dice.below(stage.slots.len())];
        let connector = &stage.connectors[dice.below(stage.connectors.len())];
        let Some(url) = slot.url() else { continue };
        let began = uptime();
        let (what, answer) = act(stage, &url, connector, &mut dice).await;
        calls.made += 1;
        // What was done to a replica is felt for a while: its memory is not trusted, its lines are made again.
        let calm = slot.calm_since(began.saturating_sub(Duration::from_secs(2))) && stage.is_calm();
        judge(&mut calls, slot, what, connector, &answer, uptime() - began, calm);
        let failed = answer.is_ok_and(|answer| answer.code() == "connector_auth_failed");
        if failed && dice.below(4) == 0 && reconnect(stage, url, connector).await {
            calls.reconnected += 1;
        }
    }
    calls
}

async fn act(
    stage: &Stage,
    url: &str,
    connector: &Connector,
    dice: &mut Dice,
) -> (&'static str, Result<Answer, reqwest::Error>) {
    match dice.below(20) {
        0..11 => ("token", stage.call(url, Method::GET, connector, "/token", None).await),
        11..15 => {
            let token = match stage.call(url, Method::GET, connector, "/token", None).await {
                Ok(answer) if answer.status == 200 => answer.text("access_token").to_owned(),
                other => return ("token", other),
            };
            let body = json!({ "access_token": token });
            ("rejected", stage.call(url, Method::POST, connector, "/token/rejected", Some(body)).await)
        }
        15..19 => ("proxy", stage.call(url, Method::GET, connector, "/proxy/api/v2/users/me.json", None).await),
        _ => ("test", stage.call(url, Method::POST, connector, "/test", Some(json!({}))).await),
    }
}

fn judge(
    calls: &mut Calls,
    slot: &Slot,
    what: &str,
    connector: &Connector,
    answer: &Result<Answer, reqwest::Error>,
    took: Duration,
    calm: bool,
) {
    let bound = WAIT_BOUND * if what == "token" { 1 } else { 2 } + SLACK;
    let mut wrong = |words: String| {
        calls.wrong.push(format!("{what} of {} at replica {} after {took:?}: {words}", connector.id, slot.name));
    };
    match answer {
        Ok(answer) if answer.status == 500 => wrong(format!("an error of ours: {answer:?}")),
        Ok(answer) if calm && took > bound => wrong(format!("longer than {bound:?}: {answer:?}")),
        Ok(answer) if answer.code() == "refresh_unavailable" && answer.retry_after.is_none() => {
            wrong(format!("put off without a time: {answer:?}"));
        }
        Ok(answer) => match (answer.status.as_u16(), answer.code()) {
            (200, _) => calls.served += 1,
            (409, "connector_auth_failed") => calls.failed += 1,
            (503, _) => calls.put_off += 1,
            // The token is good after all, or the provider is in trouble: the caller's next step is another one.
            (401 | 409 | 429 | 502 | 504, _) => calls.refused += 1,
            _ => wrong(format!("an answer that nobody expects: {answer:?}")),
        },
        Err(error) if calm => wrong(format!("no answer although the replica runs: {error:?}")),
        Err(_) => calls.broken += 1,
    }
}

/// Gives the consent again, as its admin would. Nobody minds if that does not get through.
async fn reconnect(stage: &Stage, url: String, connector: &Connector) -> bool {
    let Ok(link) = stage.call(&url, Method::POST, connector, "/reconnect", None).await else { return false };
    let here = move |link: &str| {
        let link = Url::parse(link).ok()?;
        let query = link.query().map(|query| format!("?{query}")).unwrap_or_default();
        Some(format!("{url}{}{query}", link.path()))
    };
    let Some(link) = here(link.text("url")) else { return false };
    // The browser takes a connection that breaks for the end of its test.
    let consent = async {
        let browser = Browser::new();
        let started = browser.post(&link).await;
        let location = (started.status == 303).then(|| started.location())?;
        // The browser goes to the provider itself, not over a line.
        let back = stage.cluster.sandbox.consent(&location, "ada").ok()?;
        let ended = browser.get(&here(&back)?).await;
        (ended.status == 200).then_some(())
    };
    matches!(AssertUnwindSafe(consent).catch_unwind().await, Ok(Some(())))
}
