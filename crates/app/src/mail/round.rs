//! The worker: looks for what is to be told, and tells it. Any number of replicas may run it; each message is one
//! replica's at a time.

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};
use futures::future::join_all;
use holdfast_core::ports::{Changed, StoreError};
use holdfast_store::{
    ClaimedMail, Gather, Gathered, MailKind, MailOutcome, Tell, TellAppTrouble, TellMigrations, ToChannel,
};
use metrics::counter;
use tracing::{error, info, warn};

use super::{
    Failure, FailureKind, Transport,
    compose::{Composed, compose},
};
use crate::{app::App, metrics::MAILS};

/// Connections at the same time.
const AT_ONCE: usize = 4;
/// Orgs whose notices are taken in one round.
const ORGS: u64 = 200;
/// A claim lasts for the two steps of a send, and what surrounds them.
const CLAIM_SLACK: Duration = Duration::from_secs(10);

/// What one look came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Accepted by the server.
    pub sent: usize,
    /// To be tried again.
    pub put_off: usize,
    /// Refused for good, or given up.
    pub refused: usize,
    /// Over before they were sent.
    pub dropped: usize,
    /// Kept as not sent: there is no mail server.
    pub unsent: usize,
    /// The server takes nothing.
    pub trouble: bool,
}

/// Tells what is due until the service stops, looking every so often. What is on its way then has as long as the drain
/// may take; another replica, or the next start, sees to the rest.
pub async fn run(app: Arc<App>) {
    let cut_off = async {
        app.draining.cancelled().await;
        app.seams.clock.sleep(app.config.shutdown.drain).await;
    };
    let rounds = async {
        while !app.draining.is_cancelled() {
            if let Err(error) = app.mail_due().await {
                warn!(error = format!("{error:#}"), "could not look for mail that is due");
            }
            tokio::select! {
                () = app.seams.clock.sleep(app.config.mail.loop_interval) => {}
                () = app.draining.cancelled() => {}
            }
        }
    };
    tokio::select! {
        () = rounds => {}
        () = cut_off => warn!("a mail that is on its way is left; it is sent again"),
    }
}

impl App {
    /// Tells everything that is due now. Takes no input and may run anywhere, any number of times.
    pub async fn mail_due(&self) -> anyhow::Result<Round> {
        let now = self.seams.clock.now();
        self.store.note_app_troubles(now).await?;
        while self.store.remind_of_a_failure(now).await? == Changed::Yes {}
        self.tell_channels(now).await?;
        let Some(transport) = self.seams.mail.clone() else { return self.keep_unsent(now).await };
        let waiting = self.something_to_tell(now).await?;
        let trouble = self.store.mail_trouble().await?;
        if !waiting || !self.may_try(now, trouble.as_ref().map(|trouble| trouble.retry_at)).await? {
            return Ok(Round { trouble: trouble.is_some(), ..Round::default() });
        }
        let failures = trouble.as_ref().map_or(0, |trouble| trouble.failures);
        if let Err(failure) = transport.ready().await {
            self.note_trouble(&failure, failures).await?;
            return Ok(Round { trouble: true, ..Round::default() });
        }
        self.make_mails(now, true).await?;
        // The first one after trouble goes alone: a server that can be reached need not take mail.
        let at_once = if trouble.is_some() { 1 } else { AT_ONCE };
        let rounds = join_all((0..at_once).map(|_| self.send_all(transport.as_ref(), failures))).await;
        transport.rest().await;
        let mut all = Round::default();
        for round in rounds {
            all.add(round?);
        }
        if trouble.is_some() && !all.trouble && self.store.end_mail_trouble().await? == Changed::Yes {
            info!("the mail server takes mail again");
        }
        Ok(all)
    }

    /// Channels are told whatever the mail server does.
    async fn tell_channels(&self, now: DateTime<Utc>) -> Result<(), StoreError> {
        let (before, domain) = (now - delta(self.config.mail.gather), super::domain(&self.config));
        for (org, kind) in self.store.due_for_channel(now, before, ORGS).await? {
            let window = delta(self.config.mail.digest_window);
            self.store.gather_for_channel(&ToChannel { org: &org, kind, at: now, window, domain: &domain }).await?;
        }
        Ok(())
    }

    async fn something_to_tell(&self, now: DateTime<Utc>) -> Result<bool, StoreError> {
        let before = now - delta(self.config.mail.gather);
        Ok(self.store.mail_is_due(now).await?
            || !self.store.due_notices(now, before, 1).await?.is_empty()
            || self.store.app_trouble_is_untold(before).await?
            || self.store.migration_is_untold(now).await?
            || self.store.webhook_is_untold(now).await?
            || self.store.event_endpoint_is_untold().await?
            || self.store.reset_is_untold().await?)
    }

    /// Without trouble, always. With it, one replica at a time, once its time has come.
    async fn may_try(&self, now: DateTime<Utc>, retry_at: Option<DateTime<Utc>>) -> Result<bool, StoreError> {
        match retry_at {
            None => Ok(true),
            Some(retry_at) if retry_at > now => Ok(false),
            Some(_) => {
                let turn = now + delta(self.claim_lasts());
                Ok(self.store.take_mail_retry(now, turn).await? == Changed::Yes)
            }
        }
    }

    /// Without a mail server: what is due is kept as not sent, and is not sent later either.
    async fn keep_unsent(&self, now: DateTime<Utc>) -> anyhow::Result<Round> {
        if !self.something_to_tell(now).await? {
            return Ok(Round::default());
        }
        if self.mail.warn_once() {
            warn!("no mail server is configured (smtp.url, mail.from): nobody is mailed when a connector fails");
        }
        self.make_mails(now, false).await?;
        let mut round = Round::default();
        // Made while there was one.
        while let Some(mail) = self.store.claim_mail(now, self.claim_lasts()).await? {
            self.settle(&mail, &MailOutcome::Unsent).await?;
            round.unsent += 1;
        }
        Ok(round)
    }

    /// Notices and troubles whose time has come become messages.
    async fn make_mails(&self, now: DateTime<Utc>, sends: bool) -> anyhow::Result<()> {
        let settings = &self.config.mail;
        let (before, domain) = (now - delta(settings.gather), super::domain(&self.config));
        let operators = self.config.operator.emails.as_slice();
        let tell = TellAppTrouble { at: now, gathered_before: before, domain: &domain, operators, sends };
        self.store.tell_app_troubles(&tell).await?;
        let tell = Tell { at: now, domain: domain.clone(), sends };
        self.store.tell_webhooks(&tell).await?;
        self.store.tell_event_endpoints(&tell).await?;
        self.store.tell_resets(&tell).await?;
        for org in self.store.tell_migrations(&TellMigrations { at: now, domain: &domain, sends, orgs: ORGS }).await? {
            counter!(MAILS, "kind" => MailKind::MustReconnect.as_str(), "outcome" => "nobody").increment(1);
            error!(org.id = %org, "org {org} has nobody who could be told that its connectors have to be reconnected");
        }
        for (org, kind) in self.store.due_notices(now, before, ORGS).await? {
            let gather = Gather {
                org: &org,
                kind,
                at: now,
                window: delta(settings.digest_window),
                recovery_is_news_for: delta(settings.give_up_after),
                domain: &domain,
                operators,
                sends,
            };
            if self.store.gather_mails(&gather).await? == Gathered::Nobody {
                counter!(MAILS, "kind" => kind.as_str(), "outcome" => "nobody").increment(1);
                error!(org.id = %org, "org {org} has nobody who could be told that its connectors need a person");
            }
        }
        Ok(())
    }

    /// One message after the other, until none is due or the server is in trouble.
    async fn send_all(&self, transport: &dyn Transport, failures: u32) -> anyhow::Result<Round> {
        let mut round = Round::default();
        while !self.draining.is_cancelled() {
            let claimed = self.store.claim_mail(self.seams.clock.now(), self.claim_lasts()).await?;
            let Some(mail) = claimed else { break };
            let outcome = self.tell(transport, &mail, failures).await;
            let outcome = match outcome {
                Ok(outcome) => outcome,
                // Something of ours: the message waits, and the next one has its turn.
                Err(error) => {
                    error!(
                        mail.id = mail.id,
                        error = format!("{error:#}"),
                        "mail {} could not be put together",
                        mail.id
                    );
                    self.put_off(&mail, String::new(), "something of ours is in trouble".to_owned(), false)
                }
            };
            let trouble = matches!(outcome, MailOutcome::Released);
            round.count(&outcome);
            self.settle(&mail, &outcome).await?;
            if trouble {
                break;
            }
        }
        Ok(round)
    }

    async fn tell(&self, transport: &dyn Transport, mail: &ClaimedMail, failures: u32) -> anyhow::Result<MailOutcome> {
        let outgoing = match compose(self, mail).await? {
            Composed::Send(outgoing) => outgoing,
            Composed::Drop(reason) => return Ok(MailOutcome::Dropped { reason: reason.to_owned() }),
        };
        let address = outgoing.to.clone();
        let Err(failure) = transport.send(&outgoing).await else {
            // It is sent: nothing that fails from here on may send it again.
            if let Err(error) = self.store.note_accepted_address(&address).await {
                warn!(mail.id = mail.id, error = format!("{error:#}"), "could not note that an address is good");
            }
            return Ok(MailOutcome::Sent { address });
        };
        Ok(match failure.kind {
            FailureKind::Recipient { plainly } => {
                let tell = self.telling();
                if self.store.note_refused_address(&tell, &address, &failure.words, plainly).await? == Changed::Yes {
                    warn!(mail.id = mail.id, "the recipient of mail {} gets none any more", mail.id);
                }
                MailOutcome::Refused { address, error: failure.words }
            }
            FailureKind::Server => {
                self.note_trouble(&failure, failures).await?;
                MailOutcome::Released
            }
            FailureKind::Refused => MailOutcome::Refused { address, error: failure.words },
            FailureKind::Later => self.put_off(mail, address, failure.words, false),
            FailureKind::Unsure => self.put_off(mail, address, failure.words, true),
        })
    }

    /// Tried again with a growing pause, and given up when it has been put off for too long.
    fn put_off(&self, mail: &ClaimedMail, address: String, error: String, unsure: bool) -> MailOutcome {
        let settings = &self.config.mail;
        let next_at = self.seams.clock.now() + self.pause_after(mail.attempts);
        if next_at - mail.created_at > delta(settings.give_up_after) {
            return MailOutcome::GivenUp { address, error };
        }
        MailOutcome::PutOff { address, error, next_at, unsure }
    }

    /// Doubles with each failure up to the cap; the half of it is jitter.
    fn pause_after(&self, failures: u32) -> TimeDelta {
        let settings = &self.config.mail;
        let step = settings.retry_base.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(settings.retry_cap);
        delta(step.mul_f64(0.5 + self.seams.random.unit() / 2.0))
    }

    async fn note_trouble(&self, failure: &Failure, before: u32) -> Result<(), StoreError> {
        let now = self.seams.clock.now();
        let retry_at = now + self.pause_after(before + 1);
        if before == 0 {
            error!(mail.error = failure.words, "e-mail cannot be delivered: {}", failure.words);
        } else {
            warn!(mail.error = failure.words, "e-mail still cannot be delivered: {}", failure.words);
        }
        self.store.note_mail_trouble(now, retry_at, &failure.words).await
    }

    async fn settle(&self, mail: &ClaimedMail, outcome: &MailOutcome) -> Result<(), StoreError> {
        let (id, kind, stage) = (mail.id.as_str(), mail.kind.as_str(), outcome.stage().as_str());
        if self.store.settle_mail(mail, outcome, self.seams.clock.now()).await? == Changed::No {
            warn!(mail.id = id, "mail {id} took so long that another replica has taken it over");
        }
        if !matches!(outcome, MailOutcome::Released) {
            counter!(MAILS, "kind" => kind, "outcome" => stage).increment(1);
        }
        match outcome {
            MailOutcome::Refused { .. } | MailOutcome::GivenUp { .. } => {
                warn!(mail.id = id, mail.kind = kind, "mail {id} ({kind}) cannot be delivered: {stage}");
            }
            MailOutcome::Sent { .. } => info!(mail.id = id, mail.kind = kind, "sent mail {id} ({kind})"),
            _ => {}
        }
        Ok(())
    }

    fn claim_lasts(&self) -> Duration {
        self.config.mail.send_timeout * 2 + CLAIM_SLACK.min(self.config.mail.send_timeout)
    }
}

impl Round {
    fn count(&mut self, outcome: &MailOutcome) {
        match outcome {
            MailOutcome::Sent { .. } => self.sent += 1,
            MailOutcome::PutOff { .. } => self.put_off += 1,
            MailOutcome::Refused { .. } | MailOutcome::GivenUp { .. } => self.refused += 1,
            MailOutcome::Dropped { .. } => self.dropped += 1,
            MailOutcome::Unsent => self.unsent += 1,
            MailOutcome::Released => self.trouble = true,
        }
    }

    fn add(&mut self, other: Self) {
        self.sent += other.sent;
        self.put_off += other.put_off;
        self.refused += other.refused;
        self.dropped += other.dropped;
        self.unsent += other.unsent;
        self.trouble |= other.trouble;
    }
}

fn delta(duration: Duration) -> TimeDelta {
    TimeDelta::from_std(duration).expect("no setting is longer than a year")
}
