//! Refusals en masse. When a large share of a provider's answers turns to refusals within minutes, they say something
//! about the provider, and nothing about single grants: verdicts are held, connectors are tried again slowly, and what is
//! still refused when it has passed is failed then (HL-06).

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    sync::Mutex,
    time::Duration,
};

use chrono::{DateTime, Utc};
use tracing::{error, info, warn};

use super::{Engine, Settings, engine::chain, timing};
use crate::{
    credential::{Snapshot, Trouble},
    id::{CredentialId, OrgId},
    oauth_app::AppId,
    ports::{Changed, Incident, Marks},
};

/// An incident that has lasted for so many pauses may be over although what is held does not recover.
const PAUSES_OF_AN_INCIDENT: u32 = 3;

/// What a provider has said lately to one OAuth app: of how many credentials it refused the refresh token, of how many it took it. Those
/// whose verdict is held are counted by the [`Incident`] alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Refused.
    pub refused: u64,
    /// Taken.
    pub granted: u64,
}

impl Tally {
    fn share(self) -> f64 {
        share(self.refused, self.granted)
    }
}

/// What becomes of a confirmed refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It stands.
    Declare,
    /// It is held, since so many are refused.
    Hold,
    /// It stands, and the incident is over for all.
    Passed,
}

/// Decides on a confirmed refusal. `held`: an earlier one of this credential was held; `lately`: what this replica has
/// heard, this refusal included; `incident`: what all replicas know.
pub fn verdict(
    held: bool,
    lately: Tally,
    incident: Option<&Incident>,
    now: DateTime<Utc>,
    settings: &Settings,
) -> Verdict {
    match incident.filter(|incident| runs(incident, now, settings)) {
        None if held => Verdict::Declare,
        None if lately.refused >= settings.mass_number && lately.share() >= settings.mass_share => Verdict::Hold,
        None => Verdict::Declare,
        Some(incident) if has_passed(incident, lately, now, settings) => Verdict::Passed,
        Some(_) => Verdict::Hold,
    }
}

/// Whether it is still on. At some time admins have to hear that they must reconnect, whatever the reason.
fn runs(incident: &Incident, now: DateTime<Utc>, settings: &Settings) -> bool {
    !incident.passed && now - incident.since < timing::delta(settings.hold_at_most)
}

/// Most of what was held has recovered; or, after a while, all others are well and what is held alone is not.
fn has_passed(incident: &Incident, lately: Tally, now: DateTime<Utc>, settings: &Settings) -> bool {
    let recovers = incident.recovered > 0 && share(incident.held, incident.recovered) < settings.mass_share;
    let old = now - incident.since >= timing::delta(settings.hold_retry * PAUSES_OF_AN_INCIDENT);
    recovers || (old && lately.granted >= settings.mass_number && lately.share() < settings.mass_share)
}

#[expect(clippy::cast_precision_loss, reason = "a share needs no more")]
fn share(refused: u64, granted: u64) -> f64 {
    refused as f64 / (refused + granted).max(1) as f64
}

/// What this replica has heard for each OAuth app. Due work falls to replicas at random, so that a share here is the share
/// of all.
#[derive(Default)]
pub(super) struct Heard {
    apps: Mutex<HashMap<AppId, Window>>,
    /// Credentials are counted once; their hashes are enough for that.
    hasher: RandomState,
}

/// The last word on each credential, of one to two windows.
#[derive(Default)]
struct Window {
    begun: Duration,
    current: HashMap<u64, bool>,
    previous: HashMap<u64, bool>,
}

impl Window {
    fn turn(&mut self, now: Duration, window: Duration) {
        let age = now.saturating_sub(self.begun);
        if age >= window {
            self.previous = if age >= window * 2 { HashMap::new() } else { std::mem::take(&mut self.current) };
            self.current.clear();
            self.begun = now;
        }
    }
}

impl Heard {
    fn note(&self, app: &AppId, credential: &CredentialId, granted: bool, now: Duration, window: Duration) {
        let credential = self.hasher.hash_one(credential.as_str());
        let mut apps = self.apps.lock().expect("no panic happens while it is held");
        let heard = apps.entry(app.clone()).or_default();
        heard.turn(now, window);
        heard.current.insert(credential, granted);
    }

    fn tally(&self, app: &AppId, now: Duration, window: Duration) -> Tally {
        let mut apps = self.apps.lock().expect("no panic happens while it is held");
        let heard = apps.entry(app.clone()).or_default();
        heard.turn(now, window);
        let before = heard.previous.iter().filter(|(credential, _)| !heard.current.contains_key(credential));
        let mut tally = Tally::default();
        for (_, granted) in heard.current.iter().chain(before) {
            *if *granted { &mut tally.granted } else { &mut tally.refused } += 1;
        }
        tally
    }
}

impl Engine {
    /// The provider took this credential's refresh token. `before`: as it was before the exchange.
    pub(super) async fn granted(&self, before: &Snapshot) {
        let app = &before.credential.app;
        if !is_held(before) {
            let now = self.ports.clock.uptime();
            return self.heard.note(app, &before.credential.id, true, now, self.settings.mass_window);
        }
        self.ports.meter.false_alarm(app.provider());
        if let Err(error) = self.ports.store.note_recovered(app).await {
            warn!(error = %chain(&error), "could not note that a held verdict was none");
        }
    }

    /// What a confirmed refusal leaves behind if it is held; `None`: it stands.
    pub(super) async fn held(&self, snapshot: &Snapshot, answer_lost: bool) -> Option<Marks> {
        let app = &snapshot.credential.app;
        let provider = app.provider();
        let (settings, held) = (&self.settings, is_held(snapshot));
        if !held {
            let uptime = self.ports.clock.uptime();
            self.heard.note(app, &snapshot.credential.id, false, uptime, settings.mass_window);
        }
        let incident = match self.ports.store.incident(app).await {
            Ok(incident) => incident,
            Err(error) => {
                // Trouble of ours says nothing about the provider, and is over soon: it is looked at again then.
                warn!(error = %chain(&error), "could not look for an incident of {provider}; no verdict yet");
                let failures = snapshot.credential.backoff.failures.saturating_add(1);
                let pause =
                    timing::pause(Trouble::Ours, None, None, failures, self.ports.random.unit(), &self.settings);
                let retry_at = self.now() + timing::delta(pause);
                return Some(Marks { trouble: Trouble::Ours, retry_at, failures, answer_lost });
            }
        };
        // After that wait: of many refusals at the same moment, the last one sees all.
        let lately = self.heard.tally(app, self.ports.clock.uptime(), settings.mass_window);
        match verdict(held, lately, incident.as_ref(), self.now(), settings) {
            Verdict::Declare => None,
            Verdict::Passed => {
                if matches!(self.ports.store.end_incident(app, self.now()).await, Ok(Changed::Yes)) {
                    info!(provider, "{provider} takes grants again; what it still refuses is failed now");
                }
                None
            }
            Verdict::Hold => {
                if incident.is_none_or(|incident| !runs(&incident, self.now(), settings)) {
                    self.suspect(app, lately).await;
                }
                Some(self.hold(snapshot, answer_lost))
            }
        }
    }

    /// Begins an incident, for all replicas; takes back the verdicts of the window that nobody was told of yet.
    async fn suspect(&self, app: &AppId, lately: Tally) {
        let provider = app.provider();
        let (now, settings) = (self.now(), &self.settings);
        let store = &self.ports.store;
        match store.begin_incident(app, now, now - timing::delta(settings.hold_at_most)).await {
            Ok(Changed::Yes) => {}
            Ok(Changed::No) => return,
            Err(error) => return warn!(error = %chain(&error), "could not note an incident of {provider}"),
        }
        error!(
            provider,
            org.id = app.org().map(OrgId::as_str),
            "{provider} refuses {} of {} connectors within minutes: no verdict is declared, no agent is stopped, all are \
             tried again every {} minutes or so; look whether {provider} has an incident, or was told to revoke this app",
            lately.refused,
            lately.refused + lately.granted,
            settings.hold_retry.as_secs() / 60
        );
        let (since, retry_at) = (now - timing::delta(settings.mass_window), self.hold_until());
        match store.withdraw(app, since, retry_at, now).await {
            Ok(withdrawn) => {
                for connector in withdrawn {
                    info!("the verdict on connector {connector} is taken back, and held");
                    self.forget(&connector);
                }
            }
            Err(error) => warn!(error = %chain(&error), "could not take back the first verdicts on {provider}"),
        }
    }

    fn hold(&self, snapshot: &Snapshot, answer_lost: bool) -> Marks {
        let failures = snapshot.credential.backoff.failures.saturating_add(1);
        Marks { trouble: Trouble::Held, retry_at: self.hold_until(), failures, answer_lost }
    }

    /// Spread, so that what was refused together does not come back together.
    fn hold_until(&self) -> DateTime<Utc> {
        self.now() + timing::delta(self.settings.hold_retry.mul_f64(0.75 + self.ports.random.unit() / 2.0))
    }
}

fn is_held(snapshot: &Snapshot) -> bool {
    snapshot.credential.degraded.is_some_and(|mark| mark.class == Trouble::Held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_held_while_most_are_refused_and_stands_otherwise() {
        let now = DateTime::UNIX_EPOCH + chrono::TimeDelta::days(1);
        let settings = Settings::default();
        let ago = |minutes: i64| now - chrono::TimeDelta::minutes(minutes);
        let tally = |refused, granted| Tally { refused, granted };
        let incident = |minutes, held, recovered| Incident { since: ago(minutes), passed: false, held, recovered };
        let over = Incident { passed: true, ..incident(20, 5, 100) };
        let table = [
            ("one alone", false, tally(1, 0), None, Verdict::Declare),
            ("a handful, and nothing else", false, tally(9, 0), None, Verdict::Declare),
            ("ten of ten", false, tally(10, 0), None, Verdict::Hold),
            ("ten of a hundred", false, tally(10, 90), None, Verdict::Declare),
            ("half of a hundred", false, tally(50, 50), None, Verdict::Hold),
            ("one more while it is on", false, tally(1, 0), Some(incident(1, 10, 0)), Verdict::Hold),
            ("tried again while it is on", true, tally(0, 0), Some(incident(30, 200, 0)), Verdict::Hold),
            ("a few recover", true, tally(0, 9), Some(incident(31, 191, 9)), Verdict::Hold),
            ("most recover", true, tally(0, 101), Some(incident(31, 99, 101)), Verdict::Passed),
            ("others are well, at once", true, tally(0, 50), Some(incident(5, 12, 0)), Verdict::Hold),
            ("others are well, after a while", true, tally(0, 50), Some(incident(31, 12, 0)), Verdict::Passed),
            ("others are not", true, tally(60, 50), Some(incident(31, 12, 0)), Verdict::Hold),
            ("it has passed", true, tally(0, 0), Some(over), Verdict::Declare),
            ("it has passed, and comes back", false, tally(10, 0), Some(over), Verdict::Hold),
            ("for hours", true, tally(0, 0), Some(incident(361, 200, 0)), Verdict::Declare),
            ("it is gone", true, tally(50, 0), None, Verdict::Declare),
        ];
        for (what, held, lately, incident, expected) in table {
            assert_eq!(verdict(held, lately, incident.as_ref(), now, &settings), expected, "{what}");
        }
    }

    #[test]
    fn the_last_word_on_each_credential_counts_for_a_while() {
        let (heard, window) = (Heard::default(), Duration::from_mins(5));
        let at = Duration::from_mins;
        let say = |credential: &str, granted, minute| {
            heard.note(&AppId::instance("acme"), &credential.into(), granted, at(minute), window);
        };
        for minute in 0..4 {
            say("often", true, minute);
        }
        say("turned", true, 1);
        say("turned", false, 6);
        heard.note(&AppId::own("acme", "org".into(), "own"), &"theirs".into(), false, at(6), window);

        assert_eq!(heard.tally(&AppId::instance("acme"), at(7), window), Tally { refused: 1, granted: 1 });
        assert_eq!(heard.tally(&AppId::instance("acme"), at(12), window), Tally { refused: 1, granted: 0 });
        assert_eq!(heard.tally(&AppId::instance("acme"), at(30), window), Tally::default());
    }
}
