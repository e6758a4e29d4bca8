//! Opaque ids: a prefix that says what it names, a moment so that they sort by age, and randomness.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::credential::hex;
use crate::ports::{Clock, Random};

/// Makes a new id: `prefix_`, 12 hex digits of milliseconds since 1970, 20 hex digits of randomness.
pub fn new(prefix: &str, clock: &dyn Clock, random: &dyn Random) -> String {
    let mut bytes = [0; 10];
    random.fill(&mut bytes);
    format!("{prefix}_{:012x}{}", clock.now().timestamp_millis(), hex(&bytes))
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// A new one; unique by 80 random bits.
            pub fn new(clock: &dyn Clock, random: &dyn Random) -> Self {
                Self(new($prefix, clock, random))
            }

            /// The id as it is stored and shown.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<String> for $name {
            fn from(id: String) -> Self {
                Self(id)
            }
        }

        impl From<&str> for $name {
            fn from(id: &str) -> Self {
                Self(id.to_owned())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

ids! {
    /// An organisation: the owner of connectors, keys and people.
    OrgId = "org";
    /// A connector. Never changes, whatever happens to its credential.
    ConnectorId = "con";
    /// What a connector authenticates with. Flight and lease are keyed by it.
    CredentialId = "cred";
    /// One journal row.
    ExchangeId = "exch";
    /// An agent.
    AgentId = "agent";
    /// One go of an agent.
    RunId = "run";
    /// A job of the queue.
    JobId = "job";
    /// One inbound request that was kept.
    DeliveryId = "dlv";
    /// Where an org wants its events.
    EventEndpointId = "eep";
    /// Something that an org is told of.
    EventId = "evt";
}
