//! `[jobs]`

use std::time::Duration;

use holdfast_core::job::{Kind, Policy};
use serde::Deserialize;

use super::values::{optional, parsed};

/// How background work is done.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobsConfig {
    /// How often this replica looks for jobs, beside being told of them.
    #[serde(rename = "loop_interval_secs", deserialize_with = "parsed::secs")]
    pub loop_interval: Duration,
    /// How long a job stays its replica's without a sign of life.
    #[serde(rename = "lease_secs", deserialize_with = "parsed::secs")]
    pub lease: Duration,
    /// An attempt that takes longer is broken off.
    #[serde(rename = "longest_attempt_secs", deserialize_with = "parsed::secs")]
    pub longest_attempt: Duration,
    /// How many jobs of a kind this replica works off at once.
    #[serde(deserialize_with = "parsed::whole")]
    pub at_once: u32,
    /// How many jobs of a kind run at once for one connector, on all replicas together.
    #[serde(deserialize_with = "parsed::whole")]
    pub per_connector: u32,
    /// Attempts at a job.
    #[serde(deserialize_with = "parsed::whole")]
    pub attempts: u32,
    /// The longest pause after the first failure.
    #[serde(rename = "backoff_base_secs", deserialize_with = "parsed::secs")]
    pub backoff_base: Duration,
    /// The longest of all.
    #[serde(rename = "backoff_cap_secs", deserialize_with = "parsed::secs")]
    pub backoff_cap: Duration,
    /// How long jobs wait for their connector to be reconnected.
    #[serde(deserialize_with = "parsed::whole")]
    pub parked_at_most_days: u32,
    /// How long jobs are kept that were done or discarded.
    #[serde(deserialize_with = "parsed::whole")]
    pub keep_done_days: u32,
    /// How long dead ones are kept.
    #[serde(deserialize_with = "parsed::whole")]
    pub keep_dead_days: u32,
    /// `[jobs.event]`
    #[serde(default)]
    pub event: KindConfig,
    /// `[jobs.sync]`
    #[serde(default)]
    pub sync: KindConfig,
    /// `[jobs.mail]`
    #[serde(default)]
    pub mail: KindConfig,
    /// `[jobs.deliver]`
    #[serde(default)]
    pub deliver: KindConfig,
    /// `[jobs.agent_run]`
    #[serde(default)]
    pub agent_run: KindConfig,
    /// `[jobs.subscription]`
    #[serde(default)]
    pub subscription: KindConfig,
}

/// What is different for one kind.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindConfig {
    /// Instead of `jobs.at_once`.
    #[serde(default, deserialize_with = "optional::whole")]
    pub at_once: Option<u32>,
    /// Instead of `jobs.per_connector`.
    #[serde(default, deserialize_with = "optional::whole")]
    pub per_connector: Option<u32>,
    /// Instead of `jobs.attempts`.
    #[serde(default, deserialize_with = "optional::whole")]
    pub attempts: Option<u32>,
}

impl JobsConfig {
    /// What is different for this kind.
    pub fn of(&self, kind: Kind) -> &KindConfig {
        match kind {
            Kind::Event => &self.event,
            Kind::Sync => &self.sync,
            Kind::Mail => &self.mail,
            Kind::Deliver => &self.deliver,
            Kind::AgentRun => &self.agent_run,
            Kind::Subscription => &self.subscription,
        }
    }

    /// How many jobs of this kind this replica works off at once.
    pub fn at_once(&self, kind: Kind) -> usize {
        self.of(kind).at_once.unwrap_or(self.at_once) as usize
    }

    /// How many of them run at once for one connector.
    pub fn per_connector(&self, kind: Kind) -> u32 {
        self.of(kind).per_connector.unwrap_or(self.per_connector)
    }

    /// How hard they are tried.
    pub fn policy(&self, kind: Kind) -> Policy {
        Policy {
            attempts: self.of(kind).attempts.unwrap_or(self.attempts),
            backoff_base: self.backoff_base,
            backoff_cap: self.backoff_cap,
        }
    }
}
