//! The language of `search/tickets`: fields, comparisons, AND, OR, parentheses; no free text.
//! <https://developers.freshdesk.com/api/#filter_tickets>

use crate::clock::iso;
use crate::freshdesk::data::Ticket;
use crate::freshdesk::fields::{Wrong, refuse};
use crate::http::Answer;

const LONGEST: usize = 512;
const NUMBERS: &[&str] = &["agent_id", "group_id", "priority", "status"];
const TEXTS: &[&str] = &["tag", "type"];
const DATES: &[&str] = &["due_by", "fr_due_by", "created_at", "updated_at"];

#[derive(Debug, PartialEq)]
pub(crate) enum Query {
    All(Vec<Query>),
    Any(Vec<Query>),
    Is { field: String, operator: Operator, value: Value },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Equal,
    /// `:>`, which includes the value itself.
    AtLeast,
    /// `:<`, likewise.
    AtMost,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    Number(i64),
    Text(String),
}

impl Query {
    /// The double quotes around it are part of the value.
    pub(crate) fn parse(param: Option<&str>, custom: &[String]) -> Result<Self, Answer> {
        let text = param.ok_or_else(|| refuse(Wrong::missing("query")))?;
        let invalid = || refuse(Wrong::value("query", "Given query is invalid"));
        let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).ok_or_else(invalid)?;
        if text.chars().count() > LONGEST {
            return Err(refuse(Wrong::new("query", "too_long", "It can have a maximum length of 512 characters")));
        }
        let mut parser = Parser { rest: text.trim_start(), custom };
        let query = parser.any()?;
        if parser.rest.is_empty() { Ok(query) } else { Err(invalid()) }
    }

    pub(crate) fn matches(&self, ticket: &Ticket) -> bool {
        match self {
            Self::All(parts) => parts.iter().all(|part| part.matches(ticket)),
            Self::Any(parts) => parts.iter().any(|part| part.matches(ticket)),
            Self::Is { field, operator, value } => is(ticket, field, *operator, value),
        }
    }
}

fn is(ticket: &Ticket, field: &str, operator: Operator, value: &Value) -> bool {
    let number = |own: Option<i64>| match (own, value) {
        (None, Value::Null) => true,
        (Some(own), Value::Number(value)) => match operator {
            Operator::Equal => own == *value,
            Operator::AtLeast => own >= *value,
            Operator::AtMost => own <= *value,
        },
        _ => false,
    };
    let text = |own: Option<&str>| match (own, value) {
        (None, Value::Null) => true,
        (Some(own), Value::Text(value)) => own.eq_ignore_ascii_case(value),
        _ => false,
    };
    let day = |at_ms: i64| {
        let (own, Value::Text(value)) = (iso(at_ms), value) else { return false };
        let own = &own[..value.len().min(own.len())];
        match operator {
            Operator::Equal => own == value,
            Operator::AtLeast => own >= value.as_str(),
            Operator::AtMost => own <= value.as_str(),
        }
    };
    match field {
        "agent_id" => number(ticket.responder_id),
        "group_id" => number(ticket.group_id),
        "priority" => number(Some(ticket.priority)),
        "status" => number(Some(ticket.status)),
        "tag" if *value == Value::Null => ticket.tags.is_empty(),
        "tag" => ticket.tags.iter().any(|tag| text(Some(tag))),
        "type" => text(ticket.kind.as_deref()),
        "created_at" => day(ticket.created_ms),
        "updated_at" => day(ticket.updated_ms),
        "due_by" | "fr_due_by" => *value == Value::Null,
        custom => text(ticket.custom_fields.get(custom).and_then(serde_json::Value::as_str)),
    }
}

struct Parser<'a> {
    rest: &'a str,
    custom: &'a [String],
}

impl Parser<'_> {
    fn any(&mut self) -> Result<Query, Answer> {
        let mut parts = vec![self.all()?];
        while self.word("OR") {
            parts.push(self.all()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Query::Any(parts) })
    }

    fn all(&mut self) -> Result<Query, Answer> {
        let mut parts = vec![self.one()?];
        while self.word("AND") {
            parts.push(self.one()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Query::All(parts) })
    }

    fn one(&mut self) -> Result<Query, Answer> {
        if self.word("(") {
            let inner = self.any()?;
            return if self.word(")") { Ok(inner) } else { Err(invalid()) };
        }
        let end = self.rest.find(':').ok_or_else(invalid)?;
        let field = self.rest[..end].to_owned();
        let known = [NUMBERS, TEXTS, DATES].iter().any(|names| names.contains(&field.as_str()));
        if !known && !self.custom.contains(&field) {
            return Err(refuse(Wrong::new(&field, "invalid_field", "Unexpected/invalid field in request")));
        }
        self.rest = &self.rest[end + 1..];
        let operator = match self.rest.chars().next() {
            Some('>') => Operator::AtLeast,
            Some('<') => Operator::AtMost,
            _ => Operator::Equal,
        };
        self.rest = &self.rest[usize::from(operator != Operator::Equal)..];
        let value = self.value()?;
        let fits = match &value {
            Value::Null => operator == Operator::Equal,
            Value::Number(_) => NUMBERS.contains(&field.as_str()),
            Value::Text(_) if DATES.contains(&field.as_str()) => true,
            Value::Text(_) => operator == Operator::Equal && !NUMBERS.contains(&field.as_str()),
        };
        if !fits {
            return Err(refuse(Wrong::value(&field, "It should be a/an value of this field's type")));
        }
        Ok(Query::Is { field, operator, value })
    }

    fn value(&mut self) -> Result<Value, Answer> {
        if let Some(quoted) = self.rest.strip_prefix('\'') {
            let (text, rest) = quoted.split_once('\'').ok_or_else(invalid)?;
            self.rest = rest.trim_start();
            return Ok(Value::Text(text.to_owned()));
        }
        let end = self.rest.find([' ', ')']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        if word == "null" {
            return Ok(Value::Null);
        }
        word.parse().map(Value::Number).map_err(|_| invalid())
    }

    fn word(&mut self, word: &str) -> bool {
        let Some(rest) = self.rest.strip_prefix(word) else { return false };
        self.rest = rest.trim_start();
        true
    }
}

fn invalid() -> Answer {
    refuse(Wrong::value("query", "Given query is invalid"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_as_it_is_documented() {
        let custom = ["cf_order".to_owned()];
        let is = |field: &str, operator, value| Query::Is { field: field.to_owned(), operator, value };
        let (equal, text) = (Operator::Equal, |text: &str| Value::Text(text.to_owned()));
        for (param, expected) in [
            (r#""status:2""#, is("status", equal, Value::Number(2))),
            (r#""agent_id:null""#, is("agent_id", equal, Value::Null)),
            (r#""created_at:>'2026-01-31'""#, is("created_at", Operator::AtLeast, text("2026-01-31"))),
            (
                r#""status:2 AND (tag:'a b' OR cf_order:'x')""#,
                Query::All(vec![
                    is("status", equal, Value::Number(2)),
                    Query::Any(vec![is("tag", equal, text("a b")), is("cf_order", equal, text("x"))]),
                ]),
            ),
        ] {
            assert_eq!(Query::parse(Some(param), &custom).unwrap(), expected, "{param}");
        }
    }

    #[test]
    fn whatever_else_stands_there_is_refused() {
        for param in [
            "status:2",
            "\"\"",
            "\"refund\"",
            "\"subject:'x'\"",
            "\"status:'2'\"",
            "\"status:2 AND\"",
            "\"(status:2\"",
            "\"status:2)\"",
            "\"tag:vip\"",
            "\"tag:>'vip'\"",
            "\"status:2 priority:1\"",
            &format!("\"tag:'{}'\"", "x".repeat(512)),
        ] {
            assert!(Query::parse(Some(param), &[]).is_err(), "{param}");
        }
        assert!(Query::parse(None, &[]).is_err());
    }
}
