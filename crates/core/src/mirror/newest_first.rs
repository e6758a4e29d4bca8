//! Where a provider lists the last change first and knows no other order: each sync walks from the newest one back to where the
//! one before began.

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use super::{Change, FeedPage};

/// So far back, what was seen before is looked at again: a list may be behind by a moment.
const OVERLAP: TimeDelta = TimeDelta::seconds(60);

/// The cursor of such a feed. A ticket that changes meanwhile moves to the front, which the next walk begins with, so none is
/// missed; one that is seen twice does no harm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewestFirst {
    /// Back to here.
    until: DateTime<Utc>,
    /// The newest change of this walk.
    newest: Option<DateTime<Utc>>,
    /// The provider's own cursor; `None`: the front.
    pub page: Option<String>,
}

impl NewestFirst {
    /// Everything that changed from then on.
    pub fn begin(since: DateTime<Utc>) -> Self {
        Self { until: since, newest: None, page: None }
    }

    /// From a feed's cursor; `None`: it is none of these.
    pub fn read(cursor: &str) -> Option<Self> {
        serde_json::from_str(cursor).ok()
    }

    /// As a feed's cursor.
    pub fn written(&self) -> String {
        serde_json::to_string(self).expect("moments and text become JSON")
    }

    /// The feed's page, from the provider's: its changes, each with its moment, and the provider's cursor of the next one.
    pub fn page(self, listed: Vec<(DateTime<Utc>, Change)>, next: Option<String>) -> FeedPage {
        let newest = listed.iter().map(|(at, _)| *at).chain(self.newest).max();
        let reached = listed.iter().any(|(at, _)| *at < self.until);
        let until = self.until;
        let changes = listed.into_iter().filter(|(at, _)| *at >= until).map(|(_, change)| change).collect();
        if let Some(page) = next.filter(|_| !reached) {
            let cursor = Self { newest, page: Some(page), ..self };
            return FeedPage { changes, cursor: cursor.written(), caught_up: false };
        }
        let until = newest.map_or(until, |newest| until.max(newest - OVERLAP));
        FeedPage { changes, cursor: Self::begin(until).written(), caught_up: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(secs, 0).unwrap()
    }

    fn listed(moments: &[i64]) -> Vec<(DateTime<Utc>, Change)> {
        moments.iter().map(|secs| (at(*secs), Change::Gone(secs.to_string()))).collect()
    }

    #[test]
    fn a_walk_ends_where_the_one_before_began() {
        let first = NewestFirst::begin(at(1000)).page(listed(&[5000, 4000]), Some("two".to_owned()));
        assert!(!first.caught_up);
        let cursor = NewestFirst::read(&first.cursor).unwrap();
        assert_eq!(cursor.page.as_deref(), Some("two"));

        let second = cursor.page(listed(&[3000, 900]), Some("three".to_owned()));
        assert_eq!(second.changes, [Change::Gone("3000".to_owned())], "what is older is known");
        assert!(second.caught_up);

        let again = NewestFirst::read(&second.cursor).unwrap();
        assert_eq!(again, NewestFirst::begin(at(4940)));
        let nothing = again.clone().page(listed(&[4000]), Some("two".to_owned()));
        assert_eq!((nothing.changes.len(), nothing.caught_up, nothing.cursor), (0, true, again.written()));
        assert_eq!(NewestFirst::read("since:5"), None);
    }
}
