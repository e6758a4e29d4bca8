//! What a request may hold, and how Freshdesk refuses what it may not.
//! <https://developers.freshdesk.com/api/#error>

use serde_json::{Map, Value, json};

use crate::http::{Answer, Request};

/// What a field takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Integer,
    /// An integer, or null for none.
    Id,
    Bool,
    Texts,
    Object,
}

impl Kind {
    fn takes(self, value: &Value) -> bool {
        match self {
            Self::Text => value.is_string(),
            Self::Integer => value.is_i64(),
            Self::Id => value.is_i64() || value.is_null(),
            Self::Bool => value.is_boolean(),
            Self::Texts => value.as_array().is_some_and(|all| all.iter().all(Value::is_string)),
            Self::Object => value.is_object(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Text => "String",
            Self::Integer => "Integer",
            Self::Id => "Positive Integer",
            Self::Bool => "Boolean",
            Self::Texts => "Array",
            Self::Object => "key/value pair",
        }
    }
}

/// A refused field.
#[derive(Debug)]
pub(crate) struct Wrong {
    pub(crate) field: String,
    pub(crate) message: String,
    pub(crate) code: &'static str,
}

impl Wrong {
    pub(crate) fn new(field: &str, code: &'static str, message: impl Into<String>) -> Self {
        Self { field: field.to_owned(), message: message.into(), code }
    }

    pub(crate) fn value(field: &str, message: impl Into<String>) -> Self {
        Self::new(field, "invalid_value", message)
    }

    pub(crate) fn missing(field: &str) -> Self {
        Self::new(field, "missing_field", "It should be a/an String")
    }

    fn unknown(field: &str) -> Self {
        Self::new(field, "invalid_field", "Unexpected/invalid field in request")
    }
}

pub(crate) fn refused(wrong: &[Wrong]) -> Answer {
    let errors: Vec<Value> =
        wrong.iter().map(|wrong| json!({"field": wrong.field, "message": wrong.message, "code": wrong.code})).collect();
    Answer::json(400, json!({"description": "Validation failed", "errors": errors}))
}

pub(crate) fn refuse(wrong: Wrong) -> Answer {
    refused(&[wrong])
}

/// The body as an object whose fields are known and of their kinds.
pub(crate) fn body(request: &Request, known: &[(&str, Kind)]) -> Result<Map<String, Value>, Answer> {
    if !request.is_json() {
        return Err(Answer::json(
            415,
            json!({"code": "invalid_content_type",
                "message": "Content-Type header is set to an unsupported type. It should be set to application/json."}),
        ));
    }
    let not_json =
        || Answer::json(400, json!({"code": "invalid_json", "message": "Request body has invalid json format"}));
    let body: Value = serde_json::from_slice(&request.body).map_err(|_| not_json())?;
    let Value::Object(body) = body else { return Err(not_json()) };
    let wrong: Vec<Wrong> = body
        .iter()
        .filter_map(|(name, value)| match known.iter().find(|(known, _)| known == name) {
            None => Some(Wrong::unknown(name)),
            Some((_, kind)) if !kind.takes(value) => Some(Wrong::new(
                name,
                "datatype_mismatch",
                format!("Value set is of type {}.It should be a/an {}", type_of(value), kind.name()),
            )),
            Some(_) => None,
        })
        .collect();
    if wrong.is_empty() { Ok(body) } else { Err(refused(&wrong)) }
}

/// Refuses parameters that the endpoint does not know.
pub(crate) fn params(request: &Request, known: &[&str]) -> Result<(), Answer> {
    let unknown: Vec<Wrong> = request
        .query
        .iter()
        .filter(|(name, _)| !known.contains(&name.as_str()))
        .map(|(name, _)| Wrong::unknown(name))
        .collect();
    if unknown.is_empty() { Ok(()) } else { Err(refused(&unknown)) }
}

/// What `include` asks for; each costs two credits more.
pub(crate) fn includes<'a>(request: &'a Request, known: &[&str]) -> Result<Vec<&'a str>, Answer> {
    let asked: Vec<&str> = request.param("include").map(|list| list.split(',').collect()).unwrap_or_default();
    if asked.iter().all(|name| known.contains(name)) {
        return Ok(asked);
    }
    Err(refuse(Wrong::value("include", format!("It should be one of these values: '{}'", known.join(",")))))
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "Null",
        Value::Bool(_) => "Boolean",
        Value::Number(_) => "Number",
        Value::String(_) => "String",
        Value::Array(_) => "Array",
        Value::Object(_) => "Object",
    }
}
