//! Metrics for Prometheus.
//!
//! Whoever counts something calls the macros of the `metrics` crate; this module owns the recorder behind them. There is
//! one per process, so several instances in one process (tests) count into the same one.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use chrono::TimeDelta;
use holdfast_core::{ConnectorId, ports::Meter, refresh::OutcomeKind};
use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tracing::warn;

use crate::usage::Usage;

const EXCHANGES: &str = "holdfast_exchanges_total";
const EXCHANGE_SECONDS: &str = "holdfast_exchange_seconds";
const FLIGHTS_JOINED: &str = "holdfast_flights_joined_total";
const LEASE_WAIT_SECONDS: &str = "holdfast_lease_wait_seconds";
const FALSE_ALARMS: &str = "holdfast_false_alarms_avoided_total";
/// Set when the numbers are asked for.
pub(crate) const HELD: &str = "holdfast_held_verdicts";
const REFRESHES_CLAIMED: &str = "holdfast_refreshes_claimed_total";
const REFRESH_LATE_SECONDS: &str = "holdfast_refresh_late_seconds";
/// Set when the numbers are asked for.
pub(crate) const REFRESHES_DUE: &str = "holdfast_refreshes_due";
/// Set when the numbers are asked for.
pub(crate) const REFRESHES_OVERDUE: &str = "holdfast_refreshes_overdue";
/// Of a provider at each of its answers, of the database when the numbers are asked for.
pub(crate) const CLOCK_AHEAD: &str = "holdfast_clock_ahead_seconds";
/// Set when the numbers are asked for.
pub(crate) const EXCHANGES_OPEN: &str = "holdfast_exchanges_open";
/// Runs of agents that ended here.
pub(crate) const AGENT_RUNS: &str = "holdfast_agent_runs_total";
/// Attempts at jobs that ended here.
pub(crate) const JOB_ATTEMPTS: &str = "holdfast_job_attempts_total";
pub(crate) const JOB_SECONDS: &str = "holdfast_job_seconds";
/// Set when the numbers are asked for.
pub(crate) const JOBS: &str = "holdfast_jobs";
/// Set when the numbers are asked for.
pub(crate) const JOBS_OLDEST_SECONDS: &str = "holdfast_jobs_oldest_seconds";
/// Requests to the addresses of webhooks.
pub(crate) const DELIVERIES: &str = "holdfast_deliveries_total";
/// Attempts to bring events to endpoints.
pub(crate) const EVENT_ATTEMPTS: &str = "holdfast_event_attempts_total";
/// What was done at providers to make them send.
pub(crate) const SUBSCRIPTIONS: &str = "holdfast_subscriptions_total";
/// Counted where mail is sent.
pub(crate) const MAILS: &str = "holdfast_mails_total";
/// Set when the numbers are asked for, as all of the lifeboat's.
pub(crate) const LIFEBOAT_SETS: &str = "holdfast_lifeboat_sets";
pub(crate) const LIFEBOAT_UNREADABLE: &str = "holdfast_lifeboat_unreadable_files";
pub(crate) const LIFEBOAT_OK: &str = "holdfast_lifeboat_ok";
pub(crate) const LIFEBOAT_TAKEN: &str = "holdfast_lifeboat_taken_total";
pub(crate) const LIFEBOAT_FAILURES: &str = "holdfast_lifeboat_failures_total";
/// Set when the numbers are asked for.
pub(crate) const MAILS_OPEN: &str = "holdfast_mails_open";
/// Set when the numbers are asked for.
pub(crate) const MAIL_TROUBLE_SECONDS: &str = "holdfast_mail_trouble_seconds";

/// From a provider next door to one at the end of its time-out.
const BUCKETS_SECS: [f64; 11] = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0];

/// The recorder has to be drained about this often, or it keeps every sample of its histograms.
pub const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// What refreshes of this process have waited for leases, since it began.
#[derive(Debug)]
pub(crate) struct Waits {
    count: AtomicU64,
    all_ms: AtomicU64,
    longest_ms: AtomicU64,
}

static WAITS: Waits = Waits { count: AtomicU64::new(0), all_ms: AtomicU64::new(0), longest_ms: AtomicU64::new(0) };

impl Waits {
    fn note(&self, waited: Duration) {
        let ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.all_ms.fetch_add(ms, Ordering::Relaxed);
        self.longest_ms.fetch_max(ms, Ordering::Relaxed);
    }

    /// How many, their mean, and the longest; `None`: nobody has waited.
    pub(crate) fn read() -> Option<(u64, Duration, Duration)> {
        let count = WAITS.count.load(Ordering::Relaxed);
        let mean = WAITS.all_ms.load(Ordering::Relaxed).checked_div(count)?;
        Some((count, Duration::from_millis(mean), Duration::from_millis(WAITS.longest_ms.load(Ordering::Relaxed))))
    }
}

/// The process's metrics, and the core's [`Meter`].
#[derive(Clone)]
pub struct Metrics {
    handle: PrometheusHandle,
    /// What connectors were used for: of this instance alone, and written to its database.
    pub(crate) usage: Arc<Usage>,
}

impl Metrics {
    /// Installs the recorder, once per process.
    pub fn install() -> Self {
        static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
        let handle = HANDLE.get_or_init(|| {
            let recorder = PrometheusBuilder::new()
                .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &BUCKETS_SECS)
                .expect("there are buckets")
                .build_recorder();
            let handle = recorder.handle();
            if metrics::set_global_recorder(recorder).is_err() {
                warn!("another metrics recorder is installed: /metrics stays empty");
            }
            describe();
            handle
        });
        Self { handle: handle.clone(), usage: Arc::default() }
    }

    /// All metrics in the Prometheus text format.
    pub fn render(&self) -> String {
        self.handle.render()
    }

    /// To be called every [`UPKEEP_INTERVAL`].
    pub fn upkeep(&self) {
        self.handle.run_upkeep();
    }
}

fn describe() {
    describe_counter!(
        DELIVERIES,
        Unit::Count,
        "Requests to the addresses of webhooks, by provider and what became of them"
    );
    describe_counter!(
        SUBSCRIPTIONS,
        Unit::Count,
        "What was done with subscriptions at providers, by provider and outcome"
    );
    describe_counter!(EXCHANGES, Unit::Count, "Exchanges with a token endpoint, by provider and outcome");
    describe_histogram!(EXCHANGE_SECONDS, Unit::Seconds, "Duration of an exchange, by provider and outcome");
    describe_counter!(FLIGHTS_JOINED, Unit::Count, "Callers that joined a refresh which was under way");
    let avoided = "Refusals that were held, and whose credential the provider took later: nobody had to reconnect";
    describe_counter!(FALSE_ALARMS, Unit::Count, avoided);
    describe_gauge!(HELD, Unit::Count, "Connectors whose refusal is held since their provider refuses so many");
    describe_counter!(AGENT_RUNS, Unit::Count, "Runs of agents that ended, by outcome");
    describe_counter!(JOB_ATTEMPTS, Unit::Count, "Attempts at jobs that ended, by kind and outcome");
    describe_histogram!(JOB_SECONDS, Unit::Seconds, "Duration of an attempt at a job, by kind");
    describe_gauge!(JOBS, Unit::Count, "Jobs that are not done, in the whole instance, by kind and state");
    describe_gauge!(
        JOBS_OLDEST_SECONDS,
        Unit::Seconds,
        "For how long the oldest job that is ready has been due, by kind"
    );
    describe_gauge!(LIFEBOAT_SETS, Unit::Count, "Token sets that wait in the lifeboat for the database");
    describe_gauge!(
        LIFEBOAT_UNREADABLE,
        Unit::Count,
        "Files that were set aside in the lifeboat: they cannot be opened"
    );
    describe_gauge!(LIFEBOAT_OK, Unit::Count, "1: the lifeboat can take a token set; 0: it is in trouble");
    describe_counter!(LIFEBOAT_TAKEN, Unit::Count, "Token sets that the lifeboat took");
    describe_counter!(LIFEBOAT_FAILURES, Unit::Count, "Attempts to put a token set into the lifeboat that failed");
    describe_counter!(EVENT_ATTEMPTS, Unit::Count, "Attempts to bring an event to an endpoint of an org, by outcome");
    describe_counter!(MAILS, Unit::Count, "Mails by kind and by what became of them");
    describe_gauge!(MAILS_OPEN, Unit::Count, "Mails that are made and neither sent nor given up");
    describe_gauge!(MAIL_TROUBLE_SECONDS, Unit::Seconds, "For how long e-mail cannot be delivered; 0: it can");
    describe_counter!(REFRESHES_CLAIMED, Unit::Count, "Due refreshes that the scheduler took here, by provider");
    describe_histogram!(REFRESH_LATE_SECONDS, Unit::Seconds, "From due to begun, of scheduled refreshes, by provider");
    describe_gauge!(REFRESHES_DUE, Unit::Count, "Refreshes whose time has come, in the whole instance, by provider");
    describe_gauge!(REFRESHES_OVERDUE, Unit::Count, "Those of them that have been due for more than a minute");
    describe_gauge!(EXCHANGES_OPEN, Unit::Count, "Exchanges that are journalled and not closed, in the whole instance");
    describe_gauge!(CLOCK_AHEAD, Unit::Seconds, "How far the clock of the database or of a provider is ahead of ours");
    describe_histogram!(LEASE_WAIT_SECONDS, Unit::Seconds, "How long a refresh waited for its lease");
}

impl Meter for Metrics {
    fn exchange(&self, provider: &str, outcome: OutcomeKind, duration: Duration) {
        let labels = [("provider", provider.to_owned()), ("outcome", outcome.as_str().to_owned())];
        counter!(EXCHANGES, &labels).increment(1);
        histogram!(EXCHANGE_SECONDS, &labels).record(duration);
    }

    fn joined(&self) {
        counter!(FLIGHTS_JOINED).increment(1);
    }

    fn lease_wait(&self, waited: Duration) {
        WAITS.note(waited);
        histogram!(LEASE_WAIT_SECONDS).record(waited);
    }

    fn false_alarm(&self, provider: &str) {
        counter!(FALSE_ALARMS, "provider" => provider.to_owned()).increment(1);
    }

    fn clock_ahead(&self, provider: &str, by: TimeDelta) {
        clock_ahead(provider, by);
    }

    fn claimed(&self, provider: &str, count: usize) {
        counter!(REFRESHES_CLAIMED, "provider" => provider.to_owned()).increment(count as u64);
    }

    fn late(&self, provider: &str, by: Duration) {
        histogram!(REFRESH_LATE_SECONDS, "provider" => provider.to_owned()).record(by);
    }

    fn called(&self, connector: &ConnectorId, fine: bool) {
        self.usage.called(connector, fine);
    }
}

/// `of`: a provider's id, or `database`.
pub(crate) fn clock_ahead(of: &str, by: TimeDelta) {
    gauge!(CLOCK_AHEAD, "of" => of.to_owned()).set(by.as_seconds_f64());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_stands_in_the_documents() {
        let documents = include_str!("../../../docs/METRICS.md");
        for name in [
            EXCHANGES,
            EXCHANGE_SECONDS,
            EXCHANGES_OPEN,
            CLOCK_AHEAD,
            FLIGHTS_JOINED,
            LEASE_WAIT_SECONDS,
            HELD,
            FALSE_ALARMS,
            REFRESHES_DUE,
            REFRESHES_OVERDUE,
            REFRESHES_CLAIMED,
            REFRESH_LATE_SECONDS,
            AGENT_RUNS,
            JOB_ATTEMPTS,
            JOB_SECONDS,
            JOBS,
            JOBS_OLDEST_SECONDS,
            LIFEBOAT_SETS,
            LIFEBOAT_UNREADABLE,
            LIFEBOAT_OK,
            LIFEBOAT_TAKEN,
            LIFEBOAT_FAILURES,
            MAILS,
            MAILS_OPEN,
            MAIL_TROUBLE_SECONDS,
        ] {
            assert!(documents.contains(&format!("| `{name}` |")), "{name}");
        }
    }

    #[test]
    fn what_is_counted_is_rendered_with_its_description() {
        let metrics = Metrics::install();

        metrics.exchange("zendesk", OutcomeKind::Rotated, Duration::from_millis(120));
        metrics.joined();
        metrics.lease_wait(Duration::from_millis(5));
        metrics.claimed("zendesk", 3);
        metrics.late("zendesk", Duration::from_millis(40));
        metrics.upkeep();

        let text = Metrics::install().render();
        for line in [
            "# HELP holdfast_exchanges_total Exchanges with a token endpoint, by provider and outcome",
            "# TYPE holdfast_exchanges_total counter",
            "holdfast_exchanges_total{provider=\"zendesk\",outcome=\"rotated\"} 1",
            "holdfast_exchange_seconds_bucket{provider=\"zendesk\",outcome=\"rotated\",le=\"0.25\"} 1",
            "holdfast_exchange_seconds_count{provider=\"zendesk\",outcome=\"rotated\"} 1",
            "holdfast_flights_joined_total 1",
            "holdfast_lease_wait_seconds_count 1",
            "holdfast_refreshes_claimed_total{provider=\"zendesk\"} 3",
            "holdfast_refresh_late_seconds_bucket{provider=\"zendesk\",le=\"0.05\"} 1",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
