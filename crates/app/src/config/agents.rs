//! `[agents]`

use std::time::Duration;

use serde::Deserialize;

use super::values::parsed;

/// How agents are run.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentsConfig {
    /// How often this replica looks for agents that are due.
    #[serde(rename = "loop_interval_secs", deserialize_with = "parsed::secs")]
    pub loop_interval: Duration,
    /// How many runs this replica goes through at once.
    #[serde(deserialize_with = "parsed::whole")]
    pub at_once: u32,
    /// How long a run stays its replica's without a sign of life.
    #[serde(rename = "run_lease_secs", deserialize_with = "parsed::secs")]
    pub run_lease: Duration,
    /// Calls of tools that one run may make.
    #[serde(deserialize_with = "parsed::whole")]
    pub most_calls: u32,
    /// Runs that are kept for each agent.
    #[serde(deserialize_with = "parsed::whole")]
    pub keep_runs: u32,
    /// Runs that events of one ticket give an agent within an hour.
    #[serde(deserialize_with = "parsed::whole")]
    pub runs_per_ticket: u32,
}
