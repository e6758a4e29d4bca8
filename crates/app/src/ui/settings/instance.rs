//! The instance, for its operators: what is in trouble first, then replicas, refreshes, the queue, the lifeboat and mail.

use std::{sync::Arc, time::Duration};

use axum::{extract::State, response::Response};
use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::{
    AppId,
    job::{Kind as JobKind, State as JobState},
    ports::StoreError,
};
use holdfast_store::{
    DueCount, ExchangeOutcomes, JobCount, Kind, LifeboatState, MailFailure, MailKind, MailStage, MailTrouble,
    OpenIncident, Replica, SuppressedAddress,
};
use serde::Serialize;

use crate::{
    app::{App, CLOCK_TOLERANCE_SECS},
    mail::text::line,
    metrics::Waits,
    ops::OVERDUE,
    ui::{
        agents::length,
        connectors::Mark,
        jobs::kind_words,
        moment::{Moment, span},
        parts::Badge,
        person::Person,
        routes::{Needs, Routes},
        trouble::Trouble,
        view::{Here, View},
    },
    words::{BAD, GOOD, IDLE, WARN, counted},
};

const HERE: &str = "/settings/instance";
/// Exchanges of this long are counted.
const LATELY: TimeDelta = TimeDelta::hours(1);
/// Mails that reached nobody are shown for this long, and so many of them.
const FAILED_LATELY: TimeDelta = TimeDelta::days(7);
const MAILS: u64 = 10;
/// Of what a mail server has said.
const LONGEST_WHY: usize = 200;

pub(super) fn routes() -> Routes {
    Routes::new().get(HERE, Needs::Operator, show)
}

/// What is known at one moment of all that can be in trouble. The overview asks for it each time, so it is cheap.
struct Known {
    now: DateTime<Utc>,
    replicas: Vec<Replica>,
    due: Vec<DueCount>,
    incidents: Vec<OpenIncident>,
    lifeboat: LifeboatState,
    mail_trouble: Option<MailTrouble>,
    ahead: TimeDelta,
}

impl Known {
    async fn read(app: &App) -> Result<Self, StoreError> {
        let (store, now) = (&app.store, app.seams.clock.now());
        let ids: Vec<_> = app.providers().iter().map(|provider| provider.about().id).collect();
        Ok(Self {
            now,
            replicas: store.replicas().await?,
            due: store.due_counts(&ids, now, now - OVERDUE).await?,
            incidents: store.open_incidents().await?,
            lifeboat: app.lifeboat.state().await,
            mail_trouble: store.mail_trouble().await?,
            ahead: app.clock_ahead().await?,
        })
    }

    /// What a person has to look at, in sentences, the worst first.
    fn troubles(&self, app: &App) -> Vec<String> {
        let mut all = Vec::new();
        if let Some(why) = &self.lifeboat.trouble {
            all.push(format!("The lifeboat of this replica cannot take a token set: {why}"));
        }
        if self.lifeboat.sets > 0 {
            let sets = counted(self.lifeboat.sets as u64, "token set");
            all.push(format!("{sets} in the lifeboat of this replica: the database does not take what was rotated."));
        }
        if self.lifeboat.unreadable > 0 {
            let files = counted(self.lifeboat.unreadable as u64, "file");
            all.push(format!("{files} in the lifeboat cannot be opened. Is the master key another one?"));
        }
        for incident in &self.incidents {
            let (app_id, held) = (AppId::parse(&incident.app), counted(incident.held.unsigned_abs(), "verdict"));
            let name = app_id.as_ref().map_or(incident.app.as_str(), |app_id| app.provider_name(app_id.provider()));
            let since = span(self.now - incident.since).unwrap_or_else(|| "some seconds".to_owned());
            all.push(format!("{name} has refused so many at once for {since} that it is not believed: {held} held."));
        }
        let overdue: u64 = self.due.iter().map(|count| count.overdue).sum();
        if overdue > 0 {
            let are = if overdue == 1 { "refresh is" } else { "refreshes are" };
            all.push(format!("{overdue} {are} late by more than a minute."));
        }
        if let Some(trouble) = &self.mail_trouble {
            let since = span(self.now - trouble.since).unwrap_or_else(|| "some seconds".to_owned());
            let said = line(&trouble.error, LONGEST_WHY);
            all.push(format!("E-mail cannot be delivered for {since}: {said}"));
        }
        let secs = self.ahead.num_seconds();
        if secs.abs() > CLOCK_TOLERANCE_SECS {
            let off = if secs < 0 { "behind" } else { "ahead of" };
            let secs = secs.abs();
            all.push(format!("The database's clock is {secs} s {off} this replica's. Run NTP on both machines."));
        }
        let mut versions: Vec<_> = self.living().filter_map(|replica| replica.version.as_deref()).collect();
        versions.sort_unstable();
        versions.dedup();
        if versions.len() > 1 {
            all.push(format!("Replicas run different versions: {}.", versions.join(", ")));
        }
        all
    }

    fn living(&self) -> impl Iterator<Item = &Replica> {
        self.replicas.iter().filter(|replica| replica.alive)
    }
}

/// How much is in trouble, for the overview.
pub(super) async fn troubles(app: &App) -> Result<usize, StoreError> {
    Ok(Known::read(app).await?.troubles(app).len())
}

#[derive(Serialize)]
struct InstancePage {
    at: Moment,
    troubles: Vec<String>,
    version: &'static str,
    database: &'static str,
    /// `0.2 s`, with whose clock is ahead.
    clock: String,
    replicas: Vec<ReplicaLine>,
    providers: Vec<ProviderLine>,
    open: u64,
    waits: Option<WaitsLine>,
    kinds: Vec<KindLine>,
    lifeboat: LifeboatLine,
    mails_open: u64,
    mails: Vec<MailLine>,
    refused: Vec<RefusedLine>,
}

/// An address that gets no mail any more.
#[derive(Serialize)]
struct RefusedLine {
    address: String,
    since: Moment,
    why: String,
}

#[derive(Serialize)]
struct ReplicaLine {
    id: String,
    badge: Badge,
    version: String,
    started: Moment,
    seen: Moment,
}

/// A provider with something due, or with exchanges lately.
#[derive(Serialize)]
struct ProviderLine {
    mark: Mark,
    due: u64,
    late: u64,
    good: i64,
    bad: i64,
    /// `3 transient, 1 rejected`.
    outcomes: String,
    took: Option<String>,
}

#[derive(Serialize)]
struct WaitsLine {
    count: String,
    mean: String,
    longest: String,
}

#[derive(Serialize)]
struct KindLine {
    name: &'static str,
    ready: u64,
    running: u64,
    waiting: u64,
    parked: u64,
    dead: u64,
    /// For how long the first one has been ready.
    oldest: Option<String>,
}

#[derive(Serialize)]
struct LifeboatLine {
    badge: Badge,
    sets: usize,
    unreadable: usize,
    taken: u64,
}

#[derive(Serialize)]
struct MailLine {
    what: &'static str,
    org: Option<String>,
    address: Option<String>,
    badge: Badge,
    why: Option<String>,
    at: Moment,
}

/// GET /settings/instance
async fn show(State(app): State<Arc<App>>, person: Person) -> Result<Response, Trouble> {
    let (store, known) = (&app.store, Known::read(&app).await?);
    let now = known.now;
    let jobs = store.count_jobs().await?;
    let mut mails = store.mail_failures(MAILS).await?;
    let refused = store.suppressed_addresses(MAILS).await?;
    mails.retain(|failure| now - failure.at < FAILED_LATELY);
    let ahead = known.ahead.num_milliseconds();
    let off = length(Duration::from_millis(ahead.unsigned_abs()));
    let page = InstancePage {
        at: Moment::new(now, now),
        troubles: known.troubles(&app),
        version: env!("CARGO_PKG_VERSION"),
        database: match store.kind() {
            Kind::Sqlite => "SQLite",
            Kind::Postgres => "PostgreSQL",
        },
        clock: if ahead < 0 { format!("{off} behind ours") } else { format!("{off} ahead of ours, at most") },
        replicas: known.replicas.iter().map(|replica| replica_line(replica, now)).collect(),
        providers: providers(&app, &known.due, &store.exchange_outcomes(now - LATELY).await?),
        open: store.open_exchange_count().await?,
        waits: Waits::read().map(|(count, mean, longest)| WaitsLine {
            count: counted(count, "time"),
            mean: length(mean),
            longest: length(longest),
        }),
        kinds: JobKind::ALL.into_iter().map(|kind| kind_line(&jobs, kind, now)).collect(),
        lifeboat: LifeboatLine {
            badge: match (&known.lifeboat.trouble, known.lifeboat.sets) {
                (Some(_), _) => (BAD, "In trouble"),
                (None, 1..) => (WARN, "Holds token sets"),
                (None, 0) => (GOOD, "Ready"),
            }
            .into(),
            sets: known.lifeboat.sets,
            unreadable: known.lifeboat.unreadable,
            taken: known.lifeboat.taken,
        },
        mails_open: store.open_mail_count().await?,
        mails: mails.iter().map(|failure| mail_line(failure, now)).collect(),
        refused: refused.into_iter().map(|one| refused_line(one, now)).collect(),
    };
    Ok(View::of(&person, Here::Settings, "pages/settings/instance.html", "Instance", &page).show(&app))
}

fn refused_line(one: SuppressedAddress, now: DateTime<Utc>) -> RefusedLine {
    RefusedLine { address: one.address, since: Moment::new(one.why.at, now), why: line(&one.why.error, LONGEST_WHY) }
}

fn replica_line(replica: &Replica, now: DateTime<Utc>) -> ReplicaLine {
    ReplicaLine {
        id: replica.id.clone(),
        badge: if replica.alive { (GOOD, "Alive") } else { (IDLE, "Gone") }.into(),
        version: replica.version.clone().unwrap_or_else(|| "not told".to_owned()),
        started: Moment::new(replica.started_at, now),
        seen: Moment::new(replica.seen_at, now),
    }
}

fn providers(app: &App, due: &[DueCount], outcomes: &[ExchangeOutcomes]) -> Vec<ProviderLine> {
    let line = |due: &DueCount| {
        let of: Vec<_> = outcomes.iter().filter(|one| one.provider == due.provider).collect();
        let is_good = |one: &ExchangeOutcomes| matches!(one.outcome.as_str(), "rotated" | "superseded");
        let count = |good: bool| of.iter().filter(|one| is_good(one) == good).map(|one| one.count).sum();
        let others = of.iter().filter(|one| !is_good(one));
        (due.due > 0 || !of.is_empty()).then(|| ProviderLine {
            mark: Mark::of(app, &due.provider),
            due: due.due,
            late: due.overdue,
            good: count(true),
            bad: count(false),
            outcomes: others.map(|one| format!("{} {}", one.count, one.outcome)).collect::<Vec<_>>().join(", "),
            took: of
                .iter()
                .find(|one| one.outcome == "rotated")
                .map(|one| length(Duration::from_millis(one.mean_ms.unsigned_abs()))),
        })
    };
    due.iter().filter_map(line).collect()
}

fn kind_line(jobs: &[JobCount], kind: JobKind, now: DateTime<Utc>) -> KindLine {
    let of = |state| jobs.iter().find(|count| count.kind == kind && count.state == state);
    let count = |state| of(state).map_or(0, |count| count.count);
    KindLine {
        name: kind_words(kind),
        ready: count(JobState::Ready),
        running: count(JobState::Running),
        waiting: count(JobState::Waiting),
        parked: count(JobState::Parked),
        dead: count(JobState::Dead),
        oldest: of(JobState::Ready).and_then(|ready| span(now - ready.oldest)),
    }
}

fn mail_line(failure: &MailFailure, now: DateTime<Utc>) -> MailLine {
    MailLine {
        what: match failure.kind {
            MailKind::NeedsYou => "Connector needs you",
            MailKind::StillWaiting => "Still waiting",
            MailKind::BackAgain => "Back again",
            MailKind::AppRefused => "OAuth app refused",
            MailKind::ExpiresSoon | MailKind::LastDay => "Access ends",
            MailKind::NobodyTold => "Nobody was told",
            MailKind::MustReconnect => "Migration",
            MailKind::WebhookStopped => "Webhook stopped",
            MailKind::EndpointStopped => "Event endpoint stopped",
            MailKind::Invitation => "Invitation",
            MailKind::PasswordReset => "Password reset",
            MailKind::PasswordChanged => "Password changed",
            MailKind::NewSignIn => "New sign-in",
            MailKind::SecondFactor => "Two-factor sign-in",
            MailKind::KeyMade => "API key made",
            MailKind::AddressSuppressed => "Address refused",
            MailKind::ChannelStopped => "Slack stopped",
            MailKind::Test => "Test",
        },
        org: failure.org.clone(),
        address: failure.address.clone(),
        badge: match failure.stage {
            MailStage::Refused => (BAD, "Refused"),
            MailStage::GivenUp => (BAD, "Given up"),
            MailStage::Nobody => (WARN, "Nobody to tell"),
            _ => (WARN, "Not sent"),
        }
        .into(),
        why: failure.why.as_deref().map(|why| line(why, LONGEST_WHY)),
        at: Moment::new(failure.at, now),
    }
}
