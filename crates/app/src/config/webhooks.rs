//! `[webhooks]`

use std::time::Duration;

use holdfast_core::webhook::Parking;
use holdfast_store::Threshold;
use serde::Deserialize;

use super::values::parsed;

/// How deliveries are taken, and when they are not.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhooksConfig {
    /// Most of a body.
    #[serde(deserialize_with = "parsed::whole")]
    pub body_kib: u32,
    /// Most time for one request.
    #[serde(rename = "request_secs", deserialize_with = "parsed::secs")]
    pub request: Duration,
    /// When to come again.
    #[serde(deserialize_with = "parsed::whole")]
    pub retry_after_secs: u32,
    /// How long events are kept for a connector that has to be reconnected.
    #[serde(rename = "park_secs", deserialize_with = "parsed::secs")]
    pub park: Duration,
    /// How many of them at a time.
    #[serde(deserialize_with = "parsed::whole")]
    pub park_events: u32,
    /// An address is gone after so many proven deliveries that were turned away ...
    #[serde(deserialize_with = "parsed::whole")]
    pub gone_after: u32,
    /// ... over so long.
    #[serde(rename = "gone_after_secs", deserialize_with = "parsed::secs")]
    pub gone_after_time: Duration,
    /// People are warned after so many, proven or not.
    #[serde(deserialize_with = "parsed::whole")]
    pub warn_after: u32,
    /// How long a secret counts after it was changed.
    #[serde(rename = "secret_overlap_secs", deserialize_with = "parsed::secs")]
    pub secret_overlap: Duration,
    /// Whether a connector that a person connects receives events at once, where its provider can be told so.
    #[serde(deserialize_with = "parsed::switch")]
    pub make_on_connect: bool,
    /// Between two looks at what makes a provider send.
    #[serde(rename = "look_secs", deserialize_with = "parsed::secs")]
    pub look: Duration,
    /// How long bodies are kept.
    #[serde(rename = "keep_bodies_secs", deserialize_with = "parsed::secs")]
    pub keep_bodies: Duration,
    /// How long all else is.
    #[serde(rename = "keep_secs", deserialize_with = "parsed::secs")]
    pub keep: Duration,
}

impl WebhooksConfig {
    /// The same in bytes.
    pub fn body_bytes(&self) -> usize {
        self.body_kib as usize * 1024
    }

    /// How much is kept for a connector that somebody has to reconnect.
    pub fn parking(&self) -> Parking {
        Parking { longest: self.park, most: self.park_events.into() }
    }

    /// When an address is gone.
    pub fn threshold(&self) -> Threshold {
        Threshold { number: self.gone_after.into(), span: self.gone_after_time }
    }

    /// When to come again.
    pub fn retry_after(&self) -> Duration {
        Duration::from_secs(self.retry_after_secs.into())
    }
}
