//! What `search_tickets` is asked for, as a test of one ticket: Gorgias has no such filters.

use holdfast_core::{
    helpdesk::SearchTickets,
    ticket::{Priority, Status},
};

use super::id;
use crate::model::{WireTicket, priority, status, status_word};

/// The filters, checked.
#[derive(Debug, Default)]
pub(super) struct Filter {
    statuses: Vec<Status>,
    priorities: Vec<Priority>,
    tags: Vec<String>,
    /// In lower case; all of them.
    pub(super) words: Vec<String>,
    /// A view that somebody saved in Gorgias, which Gorgias itself looks at.
    pub(super) view: Option<i64>,
    /// Statuses that were asked for and that Gorgias does not have.
    pub(super) without_status: Vec<Status>,
}

impl Filter {
    pub(super) fn of(asked: &SearchTickets) -> Result<Self, String> {
        let (known, unknown): (Vec<Status>, Vec<Status>) =
            asked.status.iter().partition(|status| status_word(**status).is_some());
        let statuses = known.into_iter().filter_map(status_word).map(status).collect();
        let mut filter =
            Self { statuses, priorities: asked.priority.clone(), without_status: unknown, ..Self::default() };
        filter.tags = super::tags("tags", &asked.tags)?;
        for word in asked.text()?.unwrap_or_default().split_whitespace() {
            let Some(view) = word.strip_prefix("view_id:") else {
                filter.words.push(word.to_lowercase());
                continue;
            };
            let view = id("query", view).map_err(|_| "query: expected the number of a view, like view_id:123")?;
            if filter.view.replace(view).is_some() {
                return Err("query: expected one view at most".to_owned());
            }
        }
        Ok(filter)
    }

    /// Asked for nothing but statuses that Gorgias does not have.
    pub(super) fn finds_nothing(&self) -> bool {
        self.statuses.is_empty() && !self.without_status.is_empty()
    }

    /// Whether tickets have to be looked at one by one.
    pub(super) fn looks_through(&self) -> bool {
        !(self.statuses.is_empty() && self.priorities.is_empty() && self.tags.is_empty() && self.words.is_empty())
    }

    /// Whether a ticket is one of those; of its messages, lists hold a beginning alone.
    pub(super) fn keeps(&self, ticket: &WireTicket) -> bool {
        let urgency = ticket.priority.as_deref().map(priority);
        let has = |tag: &String| ticket.tag_names().any(|own| own.to_lowercase() == tag.to_lowercase());
        (self.statuses.is_empty() || self.statuses.contains(&status(&ticket.status)))
            && (self.priorities.is_empty() || urgency.is_some_and(|own| self.priorities.contains(&own)))
            && (self.tags.is_empty() || self.tags.iter().any(has))
            && self.holds_words(ticket)
    }

    fn holds_words(&self, ticket: &WireTicket) -> bool {
        if self.words.is_empty() {
            return true;
        }
        let parts = [ticket.subject.as_deref(), ticket.excerpt.as_deref()].into_iter().flatten();
        let text = parts.chain(ticket.tag_names()).collect::<Vec<_>>().join("\n").to_lowercase();
        self.words.iter().all(|word| text.contains(word))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn filter(given: serde_json::Value) -> Result<Filter, String> {
        Filter::of(&serde_json::from_value(given).unwrap())
    }

    #[test]
    fn a_ticket_is_held_to_every_filter() {
        let ticket: WireTicket = serde_json::from_value(json!({
            "id": 5, "status": "closed", "priority": "critical", "subject": "Faktura bez NIP",
            "excerpt": "Dzień DOBRY", "tags": [{"name": "VIP"}, {"name": null}],
            "created_datetime": "2026-11-01T10:00:00Z",
        }))
        .unwrap();
        for (given, kept) in [
            (json!({}), true),
            (json!({"query": "dzień nip"}), true),
            (json!({"query": "vip dobry view_id:7"}), true),
            (json!({"query": "nip refund"}), false),
            (json!({"status": ["solved"]}), true),
            (json!({"status": ["closed", "pending"]}), true),
            (json!({"status": ["open"]}), false),
            (json!({"priority": ["urgent"], "tags": ["x", "vip"]}), true),
            (json!({"priority": ["low"]}), false),
            (json!({"tags": ["vi"]}), false),
        ] {
            assert_eq!(filter(given.clone()).unwrap().keeps(&ticket), kept, "{given}");
        }
    }

    #[test]
    fn a_view_is_gorgiass_own_filter_and_no_word() {
        let with_view = filter(json!({"query": " view_id:123 "})).unwrap();
        assert_eq!((with_view.view, with_view.looks_through()), (Some(123), false));
        for query in ["view_id:", "view_id:x", "view_id:1/..", "view_id:1 view_id:2"] {
            assert!(filter(json!({"query": query})).unwrap_err().starts_with("query: expected"), "{query}");
        }
    }

    #[test]
    fn statuses_that_gorgias_does_not_have_are_told() {
        assert!(filter(json!({"status": ["new", "on_hold"]})).unwrap().finds_nothing());
        let mixed = filter(json!({"status": ["pending", "open"]})).unwrap();
        assert!(!mixed.finds_nothing());
        assert_eq!(mixed.without_status, [Status::Pending]);
    }
}
