//! What `search_tickets` is asked for: as a query of Freshdesk's, and as a test of one ticket where Freshdesk has no such
//! query.

use holdfast_core::{
    helpdesk::SearchTickets,
    ticket::{Priority, Status},
};

use crate::{
    api,
    model::{WireTicket, priority, priority_number, status, status_number},
};

/// The names of Freshdesk's filter language; custom fields begin with `cf_`.
const FIELDS: &[&str] =
    &["agent_id", "group_id", "priority", "status", "tag", "type", "due_by", "fr_due_by", "created_at", "updated_at"];
/// An account's own statuses are numbered from here on, and count as open.
const FIRST_OWN_STATUS: i64 = 6;

/// The filters, checked.
#[derive(Debug, Default)]
pub(super) struct Filter {
    pub(super) statuses: Vec<Status>,
    pub(super) priorities: Vec<Priority>,
    pub(super) tags: Vec<String>,
    /// In lower case; all of them.
    pub(super) words: Vec<String>,
    /// In Freshdesk's language.
    pub(super) terms: Option<String>,
    /// Statuses that were asked for and that Freshdesk does not have.
    pub(super) without_status: Vec<Status>,
}

impl Filter {
    pub(super) fn of(asked: &SearchTickets) -> Result<Self, String> {
        let (known, unknown): (Vec<Status>, Vec<Status>) =
            asked.status.iter().partition(|status| status_number(**status).is_some());
        let mut filter =
            Self { statuses: known, priorities: asked.priority.clone(), without_status: unknown, ..Self::default() };
        for tag in &asked.tags {
            let tag = tag.trim();
            if tag.is_empty() || tag.contains(|c: char| matches!(c, '\'' | '"' | ',') || c.is_control()) {
                return Err("tags: expected tags without quotes and commas, like \"needs refund\"".to_owned());
            }
            filter.tags.push(tag.to_owned());
        }
        match asked.text()? {
            Some(text) if has_terms(text) => filter.terms = Some(terms(text)?),
            Some(text) => filter.words = text.to_lowercase().split_whitespace().map(str::to_owned).collect(),
            None => {}
        }
        if filter.terms.is_some() && asked.requester.is_some() {
            return Err(
                "requester: Freshdesk's filter language knows no requester; leave out the terms in query".into()
            );
        }
        if filter.query(true).chars().count() > api::LONGEST_QUERY_CHARS {
            return Err(format!(
                "query: all filters together make a query of more than {} characters; ask for less at once",
                api::LONGEST_QUERY_CHARS
            ));
        }
        Ok(filter)
    }

    /// Asked for nothing but statuses that Freshdesk does not have.
    pub(super) fn finds_nothing(&self) -> bool {
        self.statuses.is_empty() && !self.without_status.is_empty()
    }

    /// Whether Freshdesk itself can filter by all of it, and there is something to filter by.
    pub(super) fn has_query(&self) -> bool {
        self.words.is_empty()
            && !(self.statuses.is_empty() && self.priorities.is_empty() && self.tags.is_empty() && self.terms.is_none())
    }

    /// `own_statuses`: whether open includes the statuses that an account made itself.
    pub(super) fn query(&self, own_statuses: bool) -> String {
        let mut statuses: Vec<String> =
            self.statuses.iter().filter_map(|status| status_number(*status)).map(|n| format!("status:{n}")).collect();
        if own_statuses && self.asks_for_own_statuses() {
            // `:>` includes the number itself.
            statuses.push(format!("status:>{FIRST_OWN_STATUS}"));
        }
        let priorities = self.priorities.iter().map(|priority| format!("priority:{}", priority_number(*priority)));
        let tags = self.tags.iter().map(|tag| format!("tag:'{tag}'"));
        let terms = self.terms.iter().map(|terms| format!("({terms})"));
        let any = [statuses, priorities.collect(), tags.collect()].into_iter().filter(|any: &Vec<_>| !any.is_empty());
        let any = any.map(|any| if any.len() == 1 { any.concat() } else { format!("({})", any.join(" OR ")) });
        any.chain(terms).collect::<Vec<_>>().join(" AND ")
    }

    pub(super) fn asks_for_own_statuses(&self) -> bool {
        self.statuses.contains(&Status::Open)
    }

    /// Whether a ticket is one of those, all but the terms of Freshdesk's own.
    pub(super) fn keeps(&self, ticket: &WireTicket) -> bool {
        let tags = ticket.tags.as_deref().unwrap_or_default();
        (self.statuses.is_empty() || self.statuses.contains(&ticket.status.map_or(Status::Open, status)))
            && (self.priorities.is_empty()
                || ticket.priority.is_some_and(|number| self.priorities.contains(&priority(number))))
            && (self.tags.is_empty() || tags.iter().any(|own| self.tags.iter().any(|tag| same(own, tag))))
            && self.holds_words(ticket, tags)
    }

    fn holds_words(&self, ticket: &WireTicket, tags: &[String]) -> bool {
        if self.words.is_empty() {
            return true;
        }
        let message = ticket.first_message();
        let parts = [ticket.subject.as_deref(), message.as_deref()].into_iter().flatten();
        let text: String = parts.chain(tags.iter().map(String::as_str)).collect::<Vec<_>>().join("\n").to_lowercase();
        self.words.iter().all(|word| text.contains(word))
    }
}

fn same(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}

/// Whether a text names a field of the filter language, like `created_at:<'2026-01-31'`.
fn has_terms(text: &str) -> bool {
    text.split([' ', '(']).any(|word| {
        let Some((name, value)) = word.split_once(':') else { return false };
        let known = FIELDS.contains(&name) || name.strip_prefix("cf_").is_some_and(|rest| !rest.is_empty());
        known && !value.is_empty()
    })
}

/// A text that stays within the parentheses that are put around it.
fn terms(text: &str) -> Result<String, String> {
    let refused =
        |what: &str| Err(format!("query: {what} in Freshdesk's filter language, like \"status:2 AND tag:'vip'\""));
    let (mut depth, mut quoted) = (0_i32, false);
    for c in text.chars() {
        match c {
            '"' => return refused("there are no double quotes"),
            c if c.is_control() => return refused("there are no control characters"),
            '\'' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return refused("parentheses have to match");
        }
    }
    if quoted {
        return refused("quotes have to match");
    }
    if depth != 0 {
        return refused("parentheses have to match");
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn filter(given: serde_json::Value) -> Result<Filter, String> {
        Filter::of(&serde_json::from_value(given).unwrap())
    }

    #[test]
    fn filters_become_a_query_of_freshdesks() {
        for (given, expected) in [
            (json!({"status": ["pending"]}), "status:3"),
            (json!({"status": ["open", "solved"]}), "(status:2 OR status:4 OR status:>6)"),
            (
                json!({"priority": ["high", "urgent"], "tags": ["needs refund"]}),
                "(priority:3 OR priority:4) AND tag:'needs refund'",
            ),
            (json!({"query": "created_at:>'2026-01-31'"}), "(created_at:>'2026-01-31')"),
            (
                json!({"query": "(cf_order:'x' OR group_id:7)", "status": ["new", "closed"]}),
                "status:5 AND ((cf_order:'x' OR group_id:7))",
            ),
        ] {
            let filter = filter(given.clone()).unwrap();
            assert!(filter.has_query(), "{given}");
            assert_eq!(filter.query(true), expected, "{given}");
        }
        assert_eq!(filter(json!({"status": ["open"]})).unwrap().query(false), "status:2");
        for given in [json!({}), json!({"query": "refund: where is it?"}), json!({"query": "x", "status": ["open"]})] {
            assert!(!filter(given.clone()).unwrap().has_query(), "{given}");
        }
    }

    #[test]
    fn no_argument_turns_a_query_to_something_else() {
        for (given, said) in [
            (json!({"tags": ["a' OR status:5 OR tag:'b"]}), "tags: expected"),
            (json!({"tags": ["a\"b"]}), "tags: expected"),
            (json!({"tags": [" "]}), "tags: expected"),
            (json!({"query": "status:2\" OR \"x"}), "query: there are no double quotes"),
            (json!({"query": "status:2) OR (status:5"}), "query: parentheses"),
            (json!({"query": "(status:2"}), "query: parentheses"),
            (json!({"query": "tag:'x"}), "query: quotes"),
            (json!({"query": "status:2", "requester": "a@b.c"}), "requester: "),
            (json!({"query": format!("tag:'{}'", "x".repeat(520))}), "query: all filters together"),
        ] {
            let message = filter(given.clone()).unwrap_err();
            assert!(message.starts_with(said), "{given}: {message}");
        }
    }

    #[test]
    fn a_ticket_is_held_to_every_filter() {
        let ticket: WireTicket = serde_json::from_value(json!({
            "id": 5, "status": 8, "priority": 3, "subject": "Faktura bez NIP", "tags": ["VIP"],
            "description": "<p>Dzień <b>DOBRY</b></p>",
            "created_at": "2026-11-01T10:00:00Z", "updated_at": "2026-11-01T10:00:00Z",
        }))
        .unwrap();
        for (given, kept) in [
            (json!({}), true),
            (json!({"query": "dzień nip"}), true),
            (json!({"query": "vip dobry"}), true),
            (json!({"query": "nip refund"}), false),
            (json!({"query": "<b>"}), false),
            (json!({"status": ["open"]}), true),
            (json!({"status": ["pending"]}), false),
            (json!({"priority": ["high"], "tags": ["x", "vip"]}), true),
            (json!({"priority": ["low"]}), false),
            (json!({"tags": ["vi"]}), false),
        ] {
            assert_eq!(filter(given.clone()).unwrap().keeps(&ticket), kept, "{given}");
        }
    }

    #[test]
    fn statuses_that_freshdesk_does_not_have_are_told() {
        assert!(filter(json!({"status": ["new", "on_hold"]})).unwrap().finds_nothing());
        let mixed = filter(json!({"status": ["new", "open"]})).unwrap();
        assert!(!mixed.finds_nothing());
        assert_eq!(mixed.without_status, [Status::New]);
    }
}
