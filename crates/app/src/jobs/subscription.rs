//! Looks at what makes a provider send, and sets it right: the work of a job of kind `subscription`.
//!
//! A job may run again after a crash at any place: what is there is found by our address first, so that nothing is made
//! twice, and what is there twice all the same goes at the next look.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::{
    ApiClient, ConnectorId, Health,
    credential::Reason,
    error::{Error, ErrorKind, Retry},
    job::{Fault, Outcome},
    ports::StoreError,
    refresh::AuthError,
    webhook::{
        SecretFrom, Subscription, Subscriptions as Kept, Wanted, Webhook,
        subscription::{Flaw, Standing, Step, is_alarming, next_look, plan, silent_at, usual_pause},
    },
};
use holdfast_store::{ClaimedJob, Endpoint, Entry, Job, Known, Looked, Owner};
use secrecy::{ExposeSecret as _, SecretString};

use super::Handler;
use crate::{
    app::App,
    hooks::{
        manage::{adapter, address},
        subscriptions::{count, missed},
    },
    sync, words,
};

/// What is usual is known from so long.
const LATELY: TimeDelta = TimeDelta::days(7);
/// More deliveries than this say nothing new about it.
const PACE_OF: u32 = 1000;

/// What the timeline says where the provider had not sent for a while.
const GAPS: [&str; 4] = ["history_lost", "subscribed_again", "switched_on_again", "address_set_right"];

/// Keeps subscriptions.
pub(crate) struct Subscriptions;

#[async_trait]
impl Handler for Subscriptions {
    async fn run(&self, app: &Arc<App>, claimed: &ClaimedJob) -> Outcome {
        let job = &claimed.job;
        let done = match (&job.connector, job.payload["removed"].is_null()) {
            (Some(connector), false) => removal(app, job, connector).await,
            _ => look(app, job).await,
        };
        done.unwrap_or_else(|error| Outcome::Failed(Fault::new("ours", error.to_string()), Retry::Backoff))
    }
}

async fn look(app: &Arc<App>, job: &Job) -> Result<Outcome, StoreError> {
    let found = app.store.find_endpoint(&job.subject, app.seams.clock.now()).await?;
    let Some(Known::Live(endpoint, Some(receiver))) = found else { return Ok(Outcome::Done) };
    let Some(way) = adapter(app, &endpoint) else { return Ok(Outcome::Done) };
    let Some(kept) = way.subscriptions() else { return Ok(Outcome::Done) };
    let Some(snapshot) = app.engine.snapshot(&receiver.connector).await? else { return Ok(Outcome::Done) };
    let Some(api) = ApiClient::new(&app.engine, &snapshot) else { return Ok(Outcome::Done) };
    let ours = matches!(way.facts().secret, SecretFrom::Us | SecretFrom::Either);
    if ours && endpoint.secrets.is_empty() && endpoint.subscribed.receive {
        let detail = "The webhook's secret cannot be opened; make another one on the connector's page.";
        return Ok(Outcome::Failed(Fault::new("no_secret", detail), Retry::Never));
    }
    let claimed = job.payload["look_at"].as_str().and_then(|text| text.parse().ok());
    let url = address(app, &endpoint);
    let visit = Visit { app, endpoint: &endpoint, way, kept, api: &api, url: &url, claimed };
    visit.run().await
}

/// The app was said to be taken off: whether that is so, and not only of an earlier grant, the provider knows (RC-08).
async fn removal(app: &Arc<App>, job: &Job, connector: &ConnectorId) -> Result<Outcome, StoreError> {
    let report = match app.engine.test(connector).await {
        Ok(report) => report,
        Err(AuthError::NotFound | AuthError::Pending | AuthError::Disconnected) => return Ok(Outcome::Done),
        Err(error) => return Ok(Outcome::Failed(Fault::new("ours", error.to_string()), Retry::Backoff)),
    };
    let Err(error) = report.identity else {
        app.store.add_timeline(&still_there(app, job, connector)).await?;
        return Ok(Outcome::Done);
    };
    if report.snapshot.health == Health::AuthFailed {
        app.store.name_failure(connector, report.snapshot.epoch, Reason::Uninstalled).await?;
        app.changed(connector);
        return Ok(Outcome::Done);
    }
    let retry = if error.retry == Retry::Never { Retry::Backoff } else { error.retry };
    Ok(Outcome::Failed(Fault::new(words::kind(error.kind), words::sentence(&error.message)), retry))
}

fn still_there(app: &App, job: &Job, connector: &ConnectorId) -> Entry {
    Entry {
        org: job.org.clone(),
        connector: connector.clone(),
        at: app.seams.clock.now(),
        kind: "webhook".to_owned(),
        outcome: Some("not_removed".to_owned()),
        actor: None,
        detail: Some("The message was about an earlier access".to_owned()),
        duration: None,
        version: None,
    }
}

/// One look at one address's subscriptions.
struct Visit<'a> {
    app: &'a App,
    endpoint: &'a Endpoint,
    way: &'a dyn Webhook,
    kept: &'a dyn Kept,
    api: &'a ApiClient,
    url: &'a str,
    claimed: Option<DateTime<Utc>>,
}

/// What came of it.
#[derive(Default)]
struct Found {
    /// What is there now; `None`: nobody could see.
    there: Option<Vec<Subscription>>,
    /// Another secret than the one that is kept.
    secret: Option<SecretString>,
    lines: Vec<(&'static str, Option<String>)>,
    /// Where it ended before all was done.
    error: Option<Error>,
}

impl Visit<'_> {
    async fn run(&self) -> Result<Outcome, StoreError> {
        let mut found = Found::default();
        found.error = self.set_right(&mut found).await.err();
        self.note(found).await
    }

    /// Each step is kept as soon as it is done, so that an error loses nothing of those before.
    async fn set_right(&self, found: &mut Found) -> Result<(), Error> {
        let subscribed = &self.endpoint.subscribed;
        let wanted = Wanted {
            endpoint: &self.endpoint.id,
            url: self.url,
            secret: self.endpoint.secrets.first(),
            remembered: &subscribed.known,
            now: self.app.seams.clock.now(),
        };
        let seen = self.kept.look(self.api, &wanted).await?;
        let parts = if subscribed.receive { self.kept.parts() } else { &[] };
        let steps = plan(parts, self.url, &seen, self.kept.renew_ahead(), wanted.now);
        let (mut made, mut made_again, mut mended) = (Vec::new(), Vec::new(), None);
        let relied_on =
            |part: &str| subscribed.alarm_at.is_some() || subscribed.known.iter().any(|known| known.part == part);
        found.there = Some(seen.clone());
        let there = found.there.as_mut().expect("it was just put there");
        let mut outcome = Ok(());
        for step in &steps {
            let done = self.step(step, &wanted, there).await;
            if let Err(error) = done {
                outcome = Err(error);
                break;
            }
            if !matches!(step, Step::Remove(_)) && there.last().is_some_and(|one| one.behind) {
                found.lines.push(("history_lost", self.missed(wanted.now)));
            }
            match step {
                Step::Make(part) if relied_on(part) => made_again.push(*part),
                Step::Make(part) => made.push(*part),
                Step::Mend(_, flaw) => mended = mended.or(Some(*flaw)),
                Step::Renew(_) | Step::Remove(_) => {}
            }
        }
        if steps.is_empty() {
            count(&self.endpoint.provider, "fine");
        }
        let parts = |all: &[&str]| (self.kept.parts().len() > 1).then(|| all.join(", "));
        if !made.is_empty() {
            found.lines.push(("subscribed", parts(&made)));
        }
        if !made_again.is_empty() {
            found.lines.push(("subscribed_again", join(parts(&made_again), self.missed(wanted.now))));
        }
        match mended {
            Some(Flaw::Disabled) => found.lines.push(("switched_on_again", self.missed(wanted.now))),
            Some(Flaw::OtherAddress) => found.lines.push(("address_set_right", self.missed(wanted.now))),
            Some(Flaw::OtherSettings) => found.lines.push(("settings_set_right", None)),
            None => {}
        }
        if !subscribed.receive && outcome.is_ok() && subscribed.standing != Some(Standing::Removed) {
            found.lines.push(("unsubscribed", None));
        }
        outcome?;
        found.secret = self.other_secret(found.there.as_deref().unwrap_or_default()).await?;
        Ok(())
    }

    async fn step(&self, step: &Step<'_>, wanted: &Wanted<'_>, there: &mut Vec<Subscription>) -> Result<(), Error> {
        let provider = &self.endpoint.provider;
        let replace = |there: &mut Vec<Subscription>, old: &Subscription, new| {
            there.retain(|one| one != old);
            there.push(new);
        };
        match step {
            Step::Make(part) => {
                there.push(self.kept.make(self.api, wanted, part).await?);
                count(provider, "made");
            }
            Step::Mend(seen, _) => {
                replace(there, seen, self.kept.mend(self.api, wanted, seen).await?);
                count(provider, "mended");
            }
            Step::Renew(seen) => {
                replace(there, seen, self.kept.renew(self.api, wanted, seen).await?);
                count(provider, "renewed");
            }
            Step::Remove(seen) => {
                self.kept.remove(self.api, seen).await?;
                there.retain(|one| one != *seen);
                count(provider, "removed");
            }
        }
        Ok(())
    }

    /// Where the provider makes it: what it signs with now, if that is not the one that is kept.
    async fn other_secret(&self, there: &[Subscription]) -> Result<Option<SecretString>, Error> {
        let theirs = matches!(self.way.facts().secret, SecretFrom::Provider);
        let Some(one) = there.first().filter(|_| theirs && self.endpoint.subscribed.receive) else { return Ok(None) };
        let secret = self.kept.secret(self.api, one).await?;
        let kept = self.endpoint.secrets.first();
        Ok(secret.filter(|secret| kept.is_none_or(|kept| kept.expose_secret() != secret.expose_secret())))
    }

    /// Somebody relied on it: it was there, and not because a person has just asked for it.
    fn was_there(&self) -> bool {
        let subscribed = &self.endpoint.subscribed;
        !subscribed.known.is_empty() || subscribed.alarm_at.is_some()
    }

    /// The last moment at which it is known to have sent, until now.
    fn missed(&self, now: DateTime<Utc>) -> Option<String> {
        let subscribed = &self.endpoint.subscribed;
        let seen = match subscribed.standing {
            Some(Standing::Made) => subscribed.looked_at,
            _ => subscribed.since,
        };
        Some(missed(self.endpoint.accepted_at.max(seen)?, now))
    }

    async fn note(&self, mut found: Found) -> Result<Outcome, StoreError> {
        let (subscribed, now) = (&self.endpoint.subscribed, self.app.seams.clock.now());
        let error = found.error.take();
        if let Some(Error { kind: ErrorKind::AuthFailed, message, .. }) = &error {
            // Whoever reconnects it has it looked at again. What was done until then is kept.
            if found.there.is_some() {
                self.write(&found, subscribed.standing.unwrap_or(Standing::Failing), None, now).await?;
            }
            count(&self.endpoint.provider, "needs_reconnect");
            return Ok(Outcome::NeedsReconnect(Fault::new("auth_failed", words::sentence(message))));
        }
        let (standing, said) = match &error {
            None if subscribed.receive => (Standing::Made, None),
            None => (Standing::Removed, None),
            Some(error) if error.kind == ErrorKind::Forbidden => {
                count(&self.endpoint.provider, "forbidden");
                let said = format!("{} {}", words::sentence(&error.message), self.kept.remedy());
                (Standing::Forbidden, Some(said))
            }
            Some(error) => {
                count(&self.endpoint.provider, "failed");
                (Standing::Failing, Some(words::sentence(&error.message)))
            }
        };
        if subscribed.standing != Some(standing) {
            match standing {
                Standing::Forbidden => found.lines.push(("not_allowed", said.clone())),
                Standing::Failing => found.lines.push(("out_of_reach", said.clone())),
                Standing::Made | Standing::Removed => {}
            }
        }
        self.write(&found, standing, said.as_deref(), now).await?;
        Ok(match error {
            // A person has to do something first, and is told on the page; the next look finds out.
            None => Outcome::Done,
            Some(error) if error.kind == ErrorKind::Forbidden => Outcome::Done,
            Some(error) => {
                Outcome::Failed(Fault::new(words::kind(error.kind), words::sentence(&error.message)), error.retry)
            }
        })
    }

    async fn write(
        &self,
        found: &Found,
        standing: Standing,
        said: Option<&str>,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let (app, subscribed) = (self.app, &self.endpoint.subscribed);
        let since = subscribed.since.filter(|_| subscribed.standing == Some(standing)).unwrap_or(now);
        let overlap = now + TimeDelta::from_std(app.config.webhooks.secret_overlap).unwrap_or_default();
        let until = (!self.endpoint.secrets.is_empty()).then_some(overlap);
        let mut lines = found.lines.clone();
        if found.secret.is_some() && until.is_some() {
            lines.push(("secret_changed", None));
        }
        let there = found.there.as_deref();
        let lapses_at = match there {
            Some(there) => there.iter().filter_map(|one| one.lapses_at).min(),
            None => subscribed.lapses_at,
        };
        let looked = Looked {
            standing,
            words: said,
            since,
            known: there,
            secret: found.secret.as_ref().map(|secret| (secret, until)),
            look_at: if subscribed.receive { Some(self.next(lapses_at, now).await?) } else { None },
            claimed: self.claimed,
            alarming: is_alarming(standing, since, self.was_there(), lapses_at, now),
            lines,
            at: now,
        };
        app.store.note_look(self.endpoint, &looked).await?;
        if found.lines.iter().any(|(outcome, _)| GAPS.contains(outcome))
            && let Owner::Connector(connector) = &self.endpoint.owner
        {
            sync::catch_up(app, connector).await;
        }
        Ok(())
    }

    async fn next(&self, lapses_at: Option<DateTime<Utc>>, now: DateTime<Utc>) -> Result<DateTime<Utc>, StoreError> {
        let pace = self.app.store.pace(self.endpoint, now - LATELY, PACE_OF).await?;
        let within = pace.first_at.and_then(|first| (now - first).to_std().ok()).unwrap_or(Duration::ZERO);
        let silent = self.endpoint.accepted_at.zip(usual_pause(pace.count, within));
        let silent = silent.map(|(heard, pause)| silent_at(heard, pause));
        Ok(next_look(now, self.app.config.webhooks.look, silent, lapses_at, self.kept.renew_ahead()))
    }
}

fn join(one: Option<String>, other: Option<String>) -> Option<String> {
    match (one, other) {
        (Some(one), Some(other)) => Some(format!("{one}. {other}")),
        (one, other) => one.or(other),
    }
}
