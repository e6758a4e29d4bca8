//! Conditions: `{"value": "{{ ticket.tags }}", "contains": "vip"}`, and `all`, `any`, `not` of them.

use serde_json::{Map, Value};

use super::{scope::Scope, template::Shape, words::has_word};
use crate::schema::found;

/// More of them inside of each other is nothing that people write.
const MOST_DEPTH: usize = 8;

/// Holds or does not.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Condition {
    All(Vec<Condition>),
    Any(Vec<Condition>),
    Not(Box<Condition>),
    Test { value: Shape, test: Test, operand: Shape },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Test {
    /// Equal; texts without regard to case.
    Is,
    /// A text holds the other one; a list holds the item. Of several, any.
    Contains,
    /// A text holds the word as a whole, in any case. Of several, any.
    HasWord,
    /// Absent, null, or nothing in it.
    IsEmpty,
    /// Numbers, or moments as text.
    MoreThan,
    LessThan,
}

const TESTS: [(&str, Test); 6] = [
    ("is", Test::Is),
    ("contains", Test::Contains),
    ("has_word", Test::HasWord),
    ("is_empty", Test::IsEmpty),
    ("more_than", Test::MoreThan),
    ("less_than", Test::LessThan),
];

/// A place inside of the condition, and what is wrong there.
type Wrong = (String, String);

impl Condition {
    pub(super) fn parse(value: &Value) -> Result<Self, Wrong> {
        Self::read(value, 0)
    }

    fn read(value: &Value, depth: usize) -> Result<Self, Wrong> {
        let here = |message: String| (String::new(), message);
        let Some(fields) = value.as_object() else {
            let example = "{\"value\": \"{{ ticket.tags }}\", \"contains\": \"vip\"}";
            return Err(here(format!("a condition is an object like {example}, found {}", found(value))));
        };
        if depth > MOST_DEPTH {
            return Err(here("there are too many conditions inside of each other".to_owned()));
        }
        let inner = |name: &str, value: &Value| {
            Self::read(value, depth + 1).map_err(|(rest, message)| (format!(".{name}{rest}"), message))
        };
        let list = |name: &str, value: &Value| {
            let items = value.as_array().filter(|items| !items.is_empty());
            let items = items.ok_or_else(|| (format!(".{name}"), "it is a list of conditions".to_owned()))?;
            let read = |(at, item)| inner(&format!("{name}[{at}]"), item);
            items.iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()
        };
        match fields.iter().collect::<Vec<_>>().as_slice() {
            [(name, value)] if *name == "all" => Ok(Self::All(list(name, value)?)),
            [(name, value)] if *name == "any" => Ok(Self::Any(list(name, value)?)),
            [(name, value)] if *name == "not" => Ok(Self::Not(Box::new(inner(name, value)?))),
            _ => Self::test(fields),
        }
    }

    fn test(fields: &Map<String, Value>) -> Result<Self, Wrong> {
        let known = || {
            let tests: Vec<_> = TESTS.iter().map(|(name, _)| *name).collect();
            format!("write \"value\" and one of {}; or one of all, any, not alone", tests.join(", "))
        };
        let value = fields.get("value").ok_or_else(|| (String::new(), known()))?;
        let mut others = fields.iter().filter(|(name, _)| *name != "value");
        let (Some((name, operand)), None) = (others.next(), others.next()) else {
            return Err((String::new(), known()));
        };
        let test = TESTS.iter().find(|(known, _)| known == name);
        let (_, test) = test.ok_or_else(|| (format!(".{name}"), format!("there is no such test: {}", known())))?;
        if *test == Test::IsEmpty && !operand.is_boolean() {
            return Err((format!(".{name}"), "it is true or false".to_owned()));
        }
        let shape = |name: &str, value: &Value| {
            Shape::parse(value).map_err(|(rest, message)| (format!(".{name}{rest}"), message))
        };
        Ok(Self::Test { value: shape("value", value)?, test: *test, operand: shape(name, operand)? })
    }

    /// Whether it holds.
    pub(super) fn holds(&self, scope: &Scope) -> Result<bool, String> {
        match self {
            Self::All(conditions) => {
                for condition in conditions {
                    if !condition.holds(scope)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Any(conditions) => {
                for condition in conditions {
                    if condition.holds(scope)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Self::Not(condition) => Ok(!condition.holds(scope)?),
            Self::Test { value, test, operand } => test.holds(&value.value(scope)?, &operand.value(scope)?),
        }
    }

    pub(super) fn names(&self) -> Vec<&str> {
        match self {
            Self::All(conditions) | Self::Any(conditions) => conditions.iter().flat_map(Self::names).collect(),
            Self::Not(condition) => condition.names(),
            Self::Test { value, operand, .. } => value.names().into_iter().chain(operand.names()).collect(),
        }
    }
}

impl Test {
    fn holds(self, value: &Value, operand: &Value) -> Result<bool, String> {
        let any = |fits: &dyn Fn(&Value) -> bool| match operand {
            Value::Array(several) => several.iter().any(fits),
            one => fits(one),
        };
        match (self, value) {
            (Self::Is, _) => Ok(equal(value, operand)),
            (Self::IsEmpty, _) => Ok(is_empty(value) == (*operand == Value::Bool(true))),
            // Nothing is neither in something nor more or less than it.
            (_, Value::Null) => Ok(false),
            (Self::Contains, Value::Array(items)) => Ok(any(&|wanted| items.iter().any(|item| equal(item, wanted)))),
            (Self::Contains, Value::String(text)) => {
                let text = text.to_lowercase();
                Ok(any(&|wanted| wanted.as_str().is_some_and(|part| text.contains(&part.to_lowercase()))))
            }
            (Self::HasWord, Value::String(text)) => {
                Ok(any(&|wanted| wanted.as_str().is_some_and(|word| has_word(text, word))))
            }
            (Self::Contains, other) => Err(format!("contains takes a text or a list, not {}", found(other))),
            (Self::HasWord, other) => Err(format!("has_word takes a text, not {}", found(other))),
            (Self::MoreThan | Self::LessThan, _) => {
                let order = match (value, operand) {
                    (Value::Number(one), Value::Number(other)) => one.as_f64().partial_cmp(&other.as_f64()),
                    (Value::String(one), Value::String(other)) => {
                        moment(one).zip(moment(other)).map(|(one, other)| one.cmp(&other))
                    }
                    _ => None,
                };
                let order = order.ok_or("more_than and less_than take two numbers, or two moments")?;
                Ok(if self == Self::MoreThan { order.is_gt() } else { order.is_lt() })
            }
        }
    }
}

fn moment(text: &str) -> Option<chrono::DateTime<chrono::FixedOffset>> {
    chrono::DateTime::parse_from_rfc3339(text).ok()
}

fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::String(one), Value::String(other)) => one == other || one.to_lowercase() == other.to_lowercase(),
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        _ => one == other,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn holds(condition: &Value) -> Result<bool, String> {
        let mut scope = Scope::default();
        scope.set(
            "ticket",
            json!({"subject": "Refund, please", "tags": ["vip", "EU"], "assignee": null, "count": 3,
                   "priority": {"value": "urgent"}, "created_at": "2026-11-29T10:00:00Z"}),
        );
        Condition::parse(condition).map_err(|(at, message)| format!("{at}: {message}"))?.holds(&scope)
    }

    #[test]
    fn conditions_hold_as_they_read() {
        for (condition, expected) in [
            (json!({"value": "{{ ticket.priority.value }}", "is": "urgent"}), true),
            (json!({"value": "{{ ticket.subject }}", "is": "refund, PLEASE"}), true),
            (json!({"value": "{{ ticket.count }}", "is": 3}), true),
            (json!({"value": "{{ ticket.count }}", "is": 3.0}), true),
            (json!({"value": "{{ ticket.count }}", "is": "3"}), false),
            (json!({"value": "{{ ticket.assignee }}", "is": null}), true),
            (json!({"value": "{{ ticket.tags }}", "contains": "eu"}), true),
            (json!({"value": "{{ ticket.tags }}", "contains": ["x", "vip"]}), true),
            (json!({"value": "{{ ticket.tags }}", "contains": "v"}), false),
            (json!({"value": "{{ ticket.subject }}", "contains": "FUND"}), true),
            (json!({"value": "{{ ticket.subject }}", "has_word": "fund"}), false),
            (json!({"value": "{{ ticket.subject }}", "has_word": ["money", "refund"]}), true),
            (json!({"value": "{{ ticket.assignee }}", "contains": "x"}), false),
            (json!({"value": "{{ ticket.assignee.name }}", "is_empty": true}), true),
            (json!({"value": "{{ ticket.tags }}", "is_empty": false}), true),
            (json!({"value": "{{ ticket.count }}", "more_than": 2}), true),
            (json!({"value": "{{ ticket.count }}", "less_than": 3}), false),
            (json!({"value": "{{ ticket.created_at }}", "less_than": "2026-11-29T12:00:00+01:00"}), true),
            (json!({"value": "{{ ticket.assignee }}", "more_than": 1}), false),
            (json!({"not": {"value": "a", "is": "b"}}), true),
            (json!({"all": [{"value": "a", "is": "a"}, {"value": "a", "is": "b"}]}), false),
            (json!({"any": [{"value": "a", "is": "b"}, {"value": "a", "is": "a"}]}), true),
        ] {
            assert_eq!(holds(&condition), Ok(expected), "{condition}");
        }
    }

    #[test]
    fn bad_conditions_say_what_to_write() {
        for (condition, words) in [
            (json!("ticket.vip"), "a condition is an object like"),
            (json!({}), "write \"value\" and one of is, contains"),
            (json!({"value": "x"}), "write \"value\" and one of"),
            (json!({"value": "x", "is": "x", "contains": "x"}), "write \"value\" and one of"),
            (json!({"value": "x", "equals": "x"}), ".equals: there is no such test"),
            (json!({"value": "x", "is_empty": "yes"}), ".is_empty: it is true or false"),
            (json!({"all": []}), ".all: it is a list of conditions"),
            (json!({"any": [{"value": "x", "is": "x"}, {"not": 1}]}), ".any[1].not: a condition is an object"),
            (json!({"value": "{{ x", "is": "x"}), ".value: a {{ has no }}"),
            (json!({"value": "{{ ticket.count }}", "contains": "x"}), "contains takes a text or a list, not a number"),
            (json!({"value": "{{ ticket.tags }}", "has_word": "x"}), "has_word takes a text, not a list"),
            (json!({"value": "{{ ticket.subject }}", "more_than": 1}), "take two numbers, or two moments"),
        ] {
            let error = holds(&condition).unwrap_err();
            assert!(error.contains(words), "{condition}: {error}");
        }
        let mut deep = json!({"value": "x", "is": "x"});
        for _ in 0..20 {
            deep = json!({"not": deep});
        }
        assert!(holds(&deep).unwrap_err().contains("too many conditions"));
    }
}
