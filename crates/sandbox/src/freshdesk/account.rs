//! One account: who its agents are, and whose key a call carries.

use std::sync::Mutex;

use base64::Engine as _;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::counters::{Counters, Counts};
use crate::desk::locked;
use crate::freshdesk::data::{Agent, Data};
use crate::freshdesk::limits::Limiter;
use crate::freshdesk::seed;
use crate::freshdesk::trouble::FreshdeskTrouble;
use crate::http::Answer;

/// One account.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) data: Mutex<Data>,
    pub(crate) trouble: Mutex<FreshdeskTrouble>,
    pub(crate) limiter: Mutex<Limiter>,
    pub(crate) counts: Counts,
}

/// What is kept of an account. Trouble and the minute of the rate limit are not.
#[derive(Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) name: String,
    data: Data,
    counters: Counters,
}

impl Account {
    /// `url` is the sandbox's own, without a slash at the end.
    pub(crate) fn new(name: &str, url: &str, now_ms: i64) -> Self {
        Self::with(name, url, seed::fill(name, now_ms), Counts::default())
    }

    pub(crate) fn restored(kept: Kept, url: &str) -> Self {
        Self::with(&kept.name, url, kept.data, kept.counters.into())
    }

    fn with(name: &str, url: &str, data: Data, counts: Counts) -> Self {
        Self {
            name: name.to_owned(),
            url: format!("{url}/freshdesk/{name}"),
            data: Mutex::new(data),
            trouble: Mutex::default(),
            limiter: Mutex::default(),
            counts,
        }
    }

    pub(crate) fn to_keep(&self) -> Kept {
        Kept { name: self.name.clone(), data: locked(&self.data).clone(), counters: self.counts.read() }
    }

    /// The agent whose key stands as the user name of Basic; the password is not looked at.
    /// <https://developers.freshdesk.com/api/#authentication>
    pub(crate) fn authenticate(&self, authorization: Option<&str>) -> Result<Agent, Answer> {
        let (scheme, encoded) = authorization.and_then(|header| header.split_once(' ')).ok_or_else(not_logged_in)?;
        if !scheme.eq_ignore_ascii_case("basic") {
            return Err(not_logged_in());
        }
        let decoded = base64::engine::general_purpose::STANDARD.decode(encoded.trim()).map_err(|_| not_logged_in())?;
        let pair = String::from_utf8(decoded).map_err(|_| not_logged_in())?;
        let (key, _) = pair.split_once(':').ok_or_else(not_logged_in)?;
        let data = locked(&self.data);
        // A key that was reset and an agent who is gone are told the same.
        data.agents.iter().find(|agent| agent.active && agent.api_key == key).cloned().ok_or_else(not_logged_in)
    }
}

fn not_logged_in() -> Answer {
    Answer::json(
        401,
        json!({"code": "invalid_credentials", "message": "You have to be logged in to perform this action."}),
    )
}
