//! Zendesk's search language, as far as tickets and users need it.
//!
//! <https://support.zendesk.com/hc/en-us/articles/4408886879258>

use std::cmp::Ordering;
use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDate, Utc};

use crate::zendesk::data::{Data, Role, Ticket, User};

const STATUSES: &[&str] = &["new", "open", "pending", "hold", "solved", "closed"];
const PRIORITIES: &[&str] = &["low", "normal", "high", "urgent"];

/// A parsed query.
#[derive(Debug, Default)]
pub(crate) struct Search {
    /// `ticket` or `user`; none searches both.
    pub(crate) kind: Option<String>,
    terms: Vec<Term>,
    words: Vec<(bool, String)>,
}

#[derive(Debug)]
struct Term {
    key: String,
    op: Op,
    value: String,
    negated: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Is,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Op {
    fn holds(self, ordering: Ordering) -> bool {
        match self {
            Self::Is => ordering.is_eq(),
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterOrEqual => ordering.is_ge(),
        }
    }
}

impl Search {
    /// `Err` says which word makes no sense.
    pub(crate) fn parse(query: &str) -> Result<Self, String> {
        let mut search = Self::default();
        for word in split(query) {
            let (negated, word) = match word.strip_prefix('-') {
                Some(rest) if !rest.is_empty() => (true, rest.to_owned()),
                _ => (false, word),
            };
            match term(&word, negated) {
                Some(term) if term.key == "type" => search.kind = Some(term.value),
                Some(term) => {
                    check(&term)?;
                    search.terms.push(term);
                }
                None => search.words.push((negated, word.to_lowercase())),
            }
        }
        if let Some(kind) = &search.kind
            && !["ticket", "user", "organization", "group"].contains(&kind.as_str())
        {
            return Err(format!("type:{kind}"));
        }
        Ok(search)
    }

    pub(crate) fn matches_ticket(&self, data: &Data, me: i64, ticket: &Ticket) -> bool {
        self.kind.as_deref().is_none_or(|kind| kind == "ticket")
            && self.hold(|term| ticket_fits(data, me, ticket, term))
            && self.words.iter().all(|(negated, word)| {
                let contains = |text: &str| text.to_lowercase().contains(word.as_str());
                let found = ticket.subject.as_deref().is_some_and(contains)
                    || ticket.tags.iter().any(|tag| tag == word)
                    || ticket.comments.iter().any(|comment| contains(&comment.body))
                    || ticket.id.to_string() == *word;
                found != *negated
            })
    }

    pub(crate) fn matches_user(&self, me: i64, user: &User) -> bool {
        self.kind.as_deref().is_none_or(|kind| kind == "user")
            && self.hold(|term| user_fits(me, user, term))
            && self.words.iter().all(|(negated, word)| {
                let found = user.name.to_lowercase().contains(word.as_str()) || user.email.contains(word.as_str());
                found != *negated
            })
    }

    /// Several values for one key are alternatives, everything else has to hold together.
    fn hold(&self, fits: impl Fn(&Term) -> bool) -> bool {
        let mut alternatives: BTreeMap<&str, bool> = BTreeMap::new();
        for term in &self.terms {
            if term.negated {
                if fits(term) {
                    return false;
                }
            } else if term.op == Op::Is {
                *alternatives.entry(&term.key).or_default() |= fits(term);
            } else if !fits(term) {
                return false;
            }
        }
        alternatives.into_values().all(|any| any)
    }
}

fn ticket_fits(data: &Data, me: i64, ticket: &Ticket, term: &Term) -> bool {
    let value = term.value.as_str();
    let person = |id: Option<i64>| match (value, id) {
        ("none", id) => id.is_none(),
        (_, None) => false,
        ("me", Some(id)) => id == me,
        (_, Some(id)) => data.user(id).is_some_and(|user| is_person(user, value)),
    };
    match term.key.as_str() {
        "status" => term.op.holds(rank(STATUSES, &ticket.status).cmp(&rank(STATUSES, value))),
        "priority" => match &ticket.priority {
            None => value == "none" && term.op == Op::Is,
            Some(priority) => term.op.holds(rank(PRIORITIES, priority).cmp(&rank(PRIORITIES, value))),
        },
        "ticket_type" => ticket.kind.as_deref().unwrap_or("none") == value,
        "tags" => match value {
            "none" => ticket.tags.is_empty(),
            _ => ticket.tags.iter().any(|tag| tag == value),
        },
        "requester" => person(Some(ticket.requester_id)),
        "submitter" => person(Some(ticket.submitter_id)),
        "assignee" => person(ticket.assignee_id),
        "subject" => {
            ticket.subject.as_deref().is_some_and(|subject| subject.to_lowercase().contains(&value.to_lowercase()))
        }
        "external_id" => ticket.external_id.as_deref() == Some(value),
        "created" => moment_fits(term, ticket.created_ms),
        "updated" => moment_fits(term, ticket.updated_ms),
        _ => false,
    }
}

fn user_fits(me: i64, user: &User, term: &Term) -> bool {
    let value = term.value.to_lowercase();
    match term.key.as_str() {
        "email" => user.email == value,
        "name" => user.name.to_lowercase().contains(&value),
        "external_id" => user.external_id.as_deref() == Some(term.value.as_str()),
        "phone" => user.phone.as_deref() == Some(term.value.as_str()),
        "role" => match value.as_str() {
            "end-user" => user.role == Role::EndUser,
            "admin" => user.role == Role::Admin,
            "agent" => user.role.is_staff() && user.role != Role::Admin,
            _ => false,
        },
        "user" if value == "me" => user.id == me,
        "created" => moment_fits(term, user.created_ms),
        _ => false,
    }
}

fn is_person(user: &User, text: &str) -> bool {
    let text = text.to_lowercase();
    user.email == text || user.id.to_string() == text || user.name.to_lowercase().contains(&text)
}

/// A day is a whole day: `created:2026-11-01` is any moment in it.
fn moment_fits(term: &Term, at_ms: i64) -> bool {
    let Some((from_ms, to_ms)) = moment(&term.value) else {
        return false;
    };
    match term.op {
        Op::Is => (from_ms..to_ms).contains(&at_ms),
        Op::Less => at_ms < from_ms,
        Op::LessOrEqual => at_ms < to_ms,
        Op::Greater => at_ms >= to_ms,
        Op::GreaterOrEqual => at_ms >= from_ms,
    }
}

fn moment(text: &str) -> Option<(i64, i64)> {
    if let Ok(day) = text.parse::<NaiveDate>() {
        let from_ms = day.and_hms_opt(0, 0, 0)?.and_utc().timestamp_millis();
        return Some((from_ms, from_ms + 86_400_000));
    }
    let at: DateTime<Utc> = text.parse().ok()?;
    Some((at.timestamp_millis(), at.timestamp_millis() + 1000))
}

pub(crate) fn rank_status(status: &str) -> usize {
    rank(STATUSES, status).unwrap_or(0)
}

pub(crate) fn rank_priority(priority: Option<&str>) -> usize {
    priority.and_then(|priority| rank(PRIORITIES, priority)).map_or(0, |rank| rank + 1)
}

fn rank(list: &[&str], value: &str) -> Option<usize> {
    list.iter().position(|known| *known == value)
}

fn check(term: &Term) -> Result<(), String> {
    let known = match term.key.as_str() {
        "status" => STATUSES.contains(&term.value.as_str()),
        "priority" => term.value == "none" || PRIORITIES.contains(&term.value.as_str()),
        "created" | "updated" => moment(&term.value).is_some(),
        _ => true,
    };
    if known { Ok(()) } else { Err(format!("{}:{}", term.key, term.value)) }
}

/// A key that is known, an operator and a value; anything else is a word to look for.
fn term(word: &str, negated: bool) -> Option<Term> {
    let at = word.find([':', '<', '>'])?;
    let key = match &word[..at] {
        key @ ("type" | "status" | "priority" | "ticket_type" | "requester" | "submitter" | "assignee" | "subject"
        | "external_id" | "created" | "updated" | "email" | "name" | "phone" | "role" | "user") => key.to_owned(),
        "tags" | "tag" => "tags".to_owned(),
        _ => return None,
    };
    let rest = &word[at..];
    let (op, value) =
        [("<=", Op::LessOrEqual), (">=", Op::GreaterOrEqual), ("<", Op::Less), (">", Op::Greater), (":", Op::Is)]
            .into_iter()
            .find_map(|(sign, op)| rest.strip_prefix(sign).map(|value| (op, value)))?;
    Some(Term { key, op, value: value.to_owned(), negated })
}

/// At spaces, but not inside quotes; the quotes go.
fn split(query: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quoted = false;
    for c in query.chars() {
        match c {
            '"' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            c => word.push(c),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Scene;

    fn count(query: &str) -> usize {
        let data = Data::seeded(Scene::Tests, "acme", 20_000_001, 0);
        let search = Search::parse(query).unwrap();
        let me = data.users[0].id;
        data.tickets.values().filter(|ticket| search.matches_ticket(&data, me, ticket)).count()
    }

    #[test]
    fn statuses_have_an_order_and_alternatives_add_up() {
        assert_eq!(count("type:ticket"), 320);
        assert_eq!(count("status:open status:pending"), count("status:open") + count("status:pending"));
        assert_eq!(count("status<solved") + count("status>=solved"), count("type:ticket"));
        assert_eq!(count("-status:open"), count("type:ticket") - count("status:open"));
    }

    #[test]
    fn a_quoted_name_is_one_word_and_an_unknown_status_an_error() {
        assert!(count(r#"requester:"Mira Castellan" type:ticket"#) > 0);
        assert!(count("refund") > 0);
        assert!(Search::parse("status:opened").is_err());
    }
}
