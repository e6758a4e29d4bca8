//! Gmail's search language, as far as its help page goes: terms, quotes, brackets, OR and minus.
//!
//! <https://support.google.com/mail/answer/7190>

use chrono::{NaiveDate, TimeZone as _, Utc};

use super::gmail::{header_of, text_of};
use super::mime::decoded;
use super::state::Mail;

#[derive(Debug)]
enum Node {
    All(Vec<Node>),
    Any(Vec<Node>),
    Not(Box<Node>),
    Term(String, String),
}

/// What is searched for.
#[derive(Debug)]
pub(super) struct Query(Node);

impl Query {
    pub(super) fn read(text: &str) -> Self {
        let tokens = tokens(text);
        let mut rest = tokens.as_slice();
        Self(all(&mut rest))
    }

    pub(super) fn fits(&self, mail: &Mail, now_ms: i64) -> bool {
        fits(&self.0, mail, now_ms)
    }
}

/// Words with their quotes taken off; brackets are tokens of their own.
fn tokens(text: &str) -> Vec<String> {
    let (mut out, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            '(' | ')' if !quoted => {
                out.push(std::mem::take(&mut word));
                out.push(c.to_string());
            }
            c if c.is_whitespace() && !quoted => out.push(std::mem::take(&mut word)),
            c => word.push(c),
        }
    }
    out.push(word);
    out.retain(|token| !token.is_empty());
    out
}

fn all(rest: &mut &[String]) -> Node {
    let mut nodes: Vec<Node> = Vec::new();
    while let Some((token, tail)) = rest.split_first() {
        match token.as_str() {
            ")" => break,
            "OR" => {
                *rest = tail;
                let right = one(rest);
                match (nodes.pop(), right) {
                    (Some(Node::Any(mut any)), Some(right)) => {
                        any.push(right);
                        nodes.push(Node::Any(any));
                    }
                    (Some(left), Some(right)) => nodes.push(Node::Any(vec![left, right])),
                    (left, right) => nodes.extend(left.into_iter().chain(right)),
                }
            }
            _ => nodes.extend(one(rest)),
        }
    }
    Node::All(nodes)
}

fn one(rest: &mut &[String]) -> Option<Node> {
    let (token, tail) = rest.split_first()?;
    *rest = tail;
    if token == "(" {
        let inner = all(rest);
        if rest.first().is_some_and(|token| token == ")") {
            *rest = &rest[1..];
        }
        return Some(inner);
    }
    let (minus, token) = match token.strip_prefix('-') {
        Some(token) => (true, token),
        None => (false, token.as_str()),
    };
    let (operator, value) = token.split_once(':').unwrap_or(("", token));
    let term = Node::Term(operator.to_lowercase(), value.to_lowercase());
    Some(if minus { Node::Not(Box::new(term)) } else { term })
}

fn fits(node: &Node, mail: &Mail, now_ms: i64) -> bool {
    match node {
        Node::All(nodes) => nodes.iter().all(|node| fits(node, mail, now_ms)),
        Node::Any(nodes) => nodes.iter().any(|node| fits(node, mail, now_ms)),
        Node::Not(node) => !fits(node, mail, now_ms),
        Node::Term(operator, value) => term(operator, value, mail, now_ms),
    }
}

fn term(operator: &str, value: &str, mail: &Mail, now_ms: i64) -> bool {
    let label = |name: &str| mail.labels.iter().any(|label| label.eq_ignore_ascii_case(name));
    let header =
        |name: &str| header_of(&mail.payload, name).map(|text| decoded(&text).to_lowercase()).unwrap_or_default();
    let day = |text: &str| {
        let day = NaiveDate::parse_from_str(text, "%Y/%m/%d").ok()?;
        Some(Utc.from_utc_datetime(&day.and_hms_opt(0, 0, 0)?).timestamp_millis())
    };
    match operator {
        "from" | "to" | "cc" | "subject" => header(operator).contains(value),
        "is" => match value {
            "unread" => label("UNREAD"),
            "read" => !label("UNREAD"),
            other => label(other),
        },
        "in" => value == "anywhere" || label(value),
        "label" => label(value),
        "after" => day(value).is_some_and(|at| mail.internal_ms >= at),
        "before" => day(value).is_some_and(|at| mail.internal_ms < at),
        "newer_than" => {
            let days = value.strip_suffix('d').and_then(|days| days.parse::<i64>().ok());
            days.is_some_and(|days| mail.internal_ms >= now_ms - days * 86_400_000)
        }
        "rfc822msgid" => header("message-id").trim_matches(['<', '>']) == value.trim_matches(['<', '>']),
        "has" => {
            value == "attachment" && mail.payload.to_string().contains("\"filename\":\"") && has_file(&mail.payload)
        }
        "" => {
            header("subject").contains(value)
                || header("from").contains(value)
                || text_of(&mail.payload).contains(value)
        }
        // An operator that Gmail does not know is a word.
        _ => text_of(&mail.payload).contains(&format!("{operator}:{value}")),
    }
}

fn has_file(part: &serde_json::Value) -> bool {
    part["filename"].as_str().is_some_and(|name| !name.is_empty())
        || part["parts"].as_array().is_some_and(|parts| parts.iter().any(has_file))
}
