//! `[sync]`

use std::time::Duration;

use serde::Deserialize;

use super::values::parsed;

/// How the mirror of tickets is kept.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SyncConfig {
    /// Whether there is one.
    #[serde(deserialize_with = "parsed::switch")]
    pub enabled: bool,
    /// From one sync of a connector to the next.
    #[serde(rename = "every_secs", deserialize_with = "parsed::secs")]
    pub every: Duration,
    /// How far back the first one reads.
    #[serde(deserialize_with = "parsed::whole")]
    pub first_days: u32,
    /// After so long a job makes room for others.
    #[serde(rename = "slice_secs", deserialize_with = "parsed::secs")]
    pub slice: Duration,
    /// `search_tickets` is answered from a mirror that is no older; zero: never.
    #[serde(rename = "search_within_secs", deserialize_with = "parsed::secs")]
    pub search_within: Duration,
}
