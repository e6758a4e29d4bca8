//! `[events]`

use std::time::Duration;

use serde::Deserialize;

use super::{
    sections::{PrivateHost, private_hosts},
    values::{self, parsed},
};

/// How orgs are told of events at their own endpoints.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventsConfig {
    /// The pause after each attempt that failed; after the last of them the event is given up.
    #[serde(rename = "retry_secs", deserialize_with = "values::list_of_secs")]
    pub retries: Vec<Duration>,
    /// How long an endpoint may take for its answer.
    #[serde(rename = "timeout_secs", deserialize_with = "parsed::secs")]
    pub timeout: Duration,
    /// How long the secret of before signs too.
    #[serde(rename = "secret_overlap_secs", deserialize_with = "parsed::secs")]
    pub secret_overlap: Duration,
    /// An endpoint where every attempt has failed for so long is disabled.
    #[serde(rename = "disable_after_secs", deserialize_with = "parsed::secs")]
    pub disable_after: Duration,
    /// How long events and attempts are kept.
    #[serde(deserialize_with = "parsed::whole")]
    pub keep_days: u32,
    /// Private addresses that endpoints may have.
    #[serde(deserialize_with = "private_hosts")]
    pub allow_private_hosts: Vec<PrivateHost>,
}

impl EventsConfig {
    /// From an event to its last attempt, if nobody tells us to wait for longer.
    pub fn span(&self) -> Duration {
        self.retries.iter().sum()
    }
}
