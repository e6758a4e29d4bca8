//! One account: its people, its tokens, and how it behaves where the documentation does not say.

use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use super::data::Data;
use super::limits::Buckets;
use super::seed;
use super::tokens::Tokens;
use crate::counters::{Counters, Counts};
use crate::desk::locked;
use crate::faults::{Canned, Faults, Gate};

/// What a refresh does to the refresh token. No page of Gorgias says it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rotation {
    /// A new one comes, and both tokens of before are dead; the old one shown again ends the whole grant.
    #[default]
    SingleUse,
    /// None comes, and the old one goes on working.
    Stays,
    /// The same one comes again, and goes on working.
    SameAgain,
}

/// How one account behaves. The defaults are the strictest reading of the documentation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, each with a name")]
pub struct Rules {
    /// Life of new access tokens. Gorgias: a day.
    pub access_secs: i64,
    /// What a refresh does to the refresh token.
    pub rotation: Rotation,
    /// `GET users/0` is forbidden to everybody.
    pub hides_current_user: bool,
    /// A change of a ticket is answered 200 with the ticket, and not 202 with nothing.
    pub answers_changes: bool,
    /// A new ticket may say what its new customer is called.
    pub takes_names: bool,
    /// `GET customers?name=` finds parts of names too.
    pub finds_parts_of_names: bool,
    /// `GET customers` and `GET messages` look at no filter.
    pub ignores_filters: bool,
    /// `POST search` answers `{"data": […]}`, and not the list itself.
    pub wraps_search: bool,
    /// The plan's messages are used up: sending one is forbidden.
    pub quota_used_up: bool,
    /// Requests that the bucket of an OAuth app holds.
    pub oauth_bucket: u32,
    /// Requests that the bucket of an API key holds.
    pub key_bucket: u32,
    /// In so many seconds a full bucket has emptied itself.
    pub window_secs: u32,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            access_secs: 86_400,
            rotation: Rotation::SingleUse,
            hides_current_user: false,
            answers_changes: false,
            takes_names: true,
            finds_parts_of_names: false,
            ignores_filters: false,
            wraps_search: false,
            quota_used_up: false,
            oauth_bucket: 80,
            key_bucket: 40,
            window_secs: 20,
        }
    }
}

/// One account.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) name: String,
    pub(crate) tokens: Mutex<Tokens>,
    pub(crate) data: Mutex<Data>,
    pub(crate) rules: Mutex<Rules>,
    pub(crate) faults: Mutex<Faults>,
    /// What parts of the API answer instead, by a part of their path.
    pub(crate) odd_answers: Mutex<Vec<(String, Canned)>>,
    pub(crate) gate: Gate,
    pub(crate) buckets: Mutex<Buckets>,
    pub(crate) counts: Counts,
}

/// What is kept of an account in a file. Trouble and what is in its buckets are not.
#[derive(Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) name: String,
    tokens: Tokens,
    data: Data,
    rules: Rules,
    counters: Counters,
}

impl Place {
    pub(crate) fn new(name: &str, now_ms: i64) -> Self {
        Self::restored(Kept {
            name: name.to_owned(),
            tokens: Tokens::default(),
            data: seed::fill(name, now_ms),
            rules: Rules::default(),
            counters: Counters::default(),
        })
    }

    pub(crate) fn restored(kept: Kept) -> Self {
        Self {
            name: kept.name,
            tokens: Mutex::new(kept.tokens),
            data: Mutex::new(kept.data),
            rules: Mutex::new(kept.rules),
            faults: Mutex::default(),
            odd_answers: Mutex::default(),
            gate: Gate::default(),
            buckets: Mutex::default(),
            counts: kept.counters.into(),
        }
    }

    pub(crate) fn to_keep(&self) -> Kept {
        Kept {
            name: self.name.clone(),
            tokens: locked(&self.tokens).clone(),
            data: locked(&self.data).clone(),
            rules: self.rules(),
            counters: self.counts.read(),
        }
    }

    pub(crate) fn rules(&self) -> Rules {
        locked(&self.rules).clone()
    }

    pub(crate) fn domain(&self) -> String {
        format!("{}.gorgias.com", self.name)
    }
}
