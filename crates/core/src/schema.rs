//! Arguments against a tool's JSON Schema, as far as the schemas of tools go. The adapter reads the arguments too, and has
//! the last word; here wrong ones are refused before anything is sent, in words that name the argument.

use chrono::DateTime;
use serde_json::Value;

/// The keywords that are understood or have no say (`pattern` is left to the adapter; `anyOf` is for arguments of which one
/// is `required`). A test holds the tools of every
/// adapter to them.
pub const KEYWORDS: [&str; 16] = [
    "type",
    "properties",
    "required",
    "anyOf",
    "additionalProperties",
    "enum",
    "items",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "format",
    "pattern",
    "description",
    "examples",
    "default",
];

/// Where a value is not what its schema says. Never holds the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The argument, `tags[1]`; empty: the arguments as a whole.
    pub at: String,
    /// What is allowed there.
    pub message: String,
}

/// Checks it. What `free` accepts may be anything: a template that has no value yet.
pub fn check(schema: &Value, value: &Value, free: &dyn Fn(&Value) -> bool) -> Result<(), Mismatch> {
    inspect(schema, value, free, "")
}

/// The names of a schema's properties, sorted.
pub fn properties(schema: &Value) -> Vec<&str> {
    let properties = schema["properties"].as_object().into_iter().flatten();
    let mut names: Vec<_> = properties.map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names
}

fn inspect(schema: &Value, value: &Value, free: &dyn Fn(&Value) -> bool, at: &str) -> Result<(), Mismatch> {
    if free(value) {
        return Ok(());
    }
    let wrong = |message: String| Err(Mismatch { at: at.to_owned(), message });
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        return wrong(format!("expected one of {}", list(allowed.iter().map(plain))));
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !kinds.is_empty() && !kinds.iter().any(|kind| is(value, kind)) {
        return wrong(format!(
            "expected {}, found {}",
            list(kinds.iter().map(|kind| name(kind).to_owned())),
            found(value)
        ));
    }
    match value {
        Value::String(text) => text_fits(schema, text).or_else(wrong),
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or(f64::NAN);
            match (schema["minimum"].as_f64(), schema["maximum"].as_f64()) {
                (Some(least), _) if number < least => wrong(format!("expected at least {}", schema["minimum"])),
                (_, Some(most)) if number > most => wrong(format!("expected at most {}", schema["maximum"])),
                _ => Ok(()),
            }
        }
        Value::Array(items) if schema["items"].is_object() => items
            .iter()
            .enumerate()
            .try_for_each(|(index, item)| inspect(&schema["items"], item, free, &format!("{at}[{index}]"))),
        Value::Object(fields) => {
            let inner = |name: &str| if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
            for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                if !fields.contains_key(name) {
                    return Err(Mismatch { at: inner(name), message: "it is missing".to_owned() });
                }
            }
            let ways: Vec<&str> = ways(schema).collect();
            if let Some(first) = ways.first()
                && !ways.iter().any(|name| fields.contains_key(*name))
            {
                let message = format!("one of {} is needed", list(ways.iter().map(|&name| name.to_owned())));
                return Err(Mismatch { at: inner(first), message });
            }
            for (name, field) in fields {
                match schema["properties"].get(name) {
                    Some(schema) => inspect(schema, field, free, &inner(name))?,
                    None if schema["additionalProperties"] == Value::Bool(false) => {
                        let known = list(properties(schema).into_iter().map(str::to_owned));
                        let message = format!("there is no such argument; there are {known}");
                        return Err(Mismatch { at: inner(name), message });
                    }
                    None => {}
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The arguments of which one has to be there: `"anyOf": [{"required": ["a"]}, {"required": ["b"]}]`.
fn ways(schema: &Value) -> impl Iterator<Item = &str> {
    schema["anyOf"].as_array().into_iter().flatten().filter_map(|way| way["required"][0].as_str())
}

fn text_fits(schema: &Value, text: &str) -> Result<(), String> {
    let length = text.chars().count() as u64;
    if let Some(least) = schema["minLength"].as_u64().filter(|least| length < *least) {
        return Err(if least == 1 {
            "it is empty".to_owned()
        } else {
            format!("expected at least {least} characters")
        });
    }
    if let Some(most) = schema["maxLength"].as_u64().filter(|most| length > *most) {
        return Err(format!("expected at most {most} characters"));
    }
    if schema["format"] == "date-time" && DateTime::parse_from_rfc3339(text).is_err() {
        return Err("expected a moment like 2026-11-29T10:00:00Z".to_owned());
    }
    Ok(())
}

fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "string" => value.is_string(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        _ => false,
    }
}

fn name(kind: &str) -> &str {
    match kind {
        "string" => "text",
        "integer" => "a whole number",
        "number" => "a number",
        "boolean" => "true or false",
        "array" => "a list",
        "object" => "an object",
        other => other,
    }
}

/// What a value is, in a word or two.
pub(crate) fn found(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn list(words: impl Iterator<Item = String>) -> String {
    words.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object", "additionalProperties": false, "required": ["ticket_id"],
            "properties": {
                "ticket_id": {"type": "string", "minLength": 1, "maxLength": 5, "pattern": "^[0-9]+$"},
                "status": {"enum": ["open", "pending", null]},
                "tags": {"type": "array", "items": {"type": "string", "minLength": 2}},
                "assignee": {"type": ["string", "null"]},
                "limit": {"type": "integer", "minimum": 1, "maximum": 100},
                "public": {"type": "boolean"},
                "since": {"type": "string", "format": "date-time"},
                "about": {"type": "object", "additionalProperties": true,
                          "properties": {"share": {"type": "number"}}, "required": ["share"]},
            }
        })
    }

    #[test]
    fn of_some_arguments_one_is_needed() {
        let schema = json!({"type": "object", "properties": {"a": {}, "b": {}, "c": {}},
            "anyOf": [{"required": ["a"]}, {"required": ["b"]}]});
        for arguments in [json!({"a": 1}), json!({"b": 1, "c": 1})] {
            assert_eq!(check(&schema, &arguments, &|_| false), Ok(()));
        }
        let missing = check(&schema, &json!({"c": 1}), &|_| false).unwrap_err();
        assert_eq!((missing.at.as_str(), missing.message.as_str()), ("a", "one of a, b is needed"));
    }

    #[test]
    fn what_fits_is_taken() {
        for arguments in [
            json!({"ticket_id": "5"}),
            json!({"ticket_id": "5", "status": "open", "tags": ["vip", "au"], "assignee": null, "limit": 100}),
            json!({"ticket_id": "5", "status": null, "limit": 1.0, "public": false, "tags": []}),
            json!({"ticket_id": "5", "since": "2026-11-29T10:00:00+01:00", "about": {"share": 0.5, "more": []}}),
        ] {
            assert_eq!(check(&schema(), &arguments, &|_| false), Ok(()), "{arguments}");
        }
    }

    #[test]
    fn what_does_not_fit_is_named_with_what_is_allowed() {
        for (arguments, at, words) in [
            (json!([]), "", "expected an object, found a list"),
            (json!({}), "ticket_id", "it is missing"),
            (json!({"ticket_id": 5}), "ticket_id", "expected text, found a number"),
            (json!({"ticket_id": ""}), "ticket_id", "it is empty"),
            (json!({"ticket_id": "123456"}), "ticket_id", "at most 5 characters"),
            (json!({"ticket_id": "5", "status": "opened"}), "status", "expected one of open, pending, null"),
            (json!({"ticket_id": "5", "tags": "vip"}), "tags", "expected a list, found text"),
            (json!({"ticket_id": "5", "tags": ["vip", "x"]}), "tags[1]", "at least 2 characters"),
            (json!({"ticket_id": "5", "assignee": true}), "assignee", "expected text, null, found true or false"),
            (json!({"ticket_id": "5", "limit": 1.5}), "limit", "expected a whole number"),
            (json!({"ticket_id": "5", "limit": 0}), "limit", "expected at least 1"),
            (json!({"ticket_id": "5", "limit": 101}), "limit", "expected at most 100"),
            (json!({"ticket_id": "5", "public": "yes"}), "public", "expected true or false, found text"),
            (json!({"ticket_id": "5", "since": "today"}), "since", "expected a moment like"),
            (json!({"ticket_id": "5", "about": {}}), "about.share", "it is missing"),
            (json!({"ticket_id": "5", "tag": "x"}), "tag", "there is no such argument; there are about, assignee"),
        ] {
            let mismatch = check(&schema(), &arguments, &|_| false).unwrap_err();
            assert_eq!(mismatch.at, at, "{arguments}");
            assert!(mismatch.message.contains(words), "{arguments}: {}", mismatch.message);
        }
    }

    #[test]
    fn what_has_no_value_yet_may_be_anything() {
        let free = |value: &Value| value.as_str().is_some_and(|text| text.contains("{{"));
        let arguments = json!({"ticket_id": "{{ ticket.id }}", "tags": "{{ rule.tags }}", "limit": "{{ a }}"});
        assert_eq!(check(&schema(), &arguments, &free), Ok(()));
        assert!(check(&schema(), &json!({"tags": "{{ rule.tags }}"}), &free).is_err());
    }
}
