//! What templates can name: a stack of values, the newest first.

use serde_json::Value;

use crate::schema::found;

/// Names with their values. An inner one hides an outer one of the same name.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope(Vec<(String, Value)>);

impl Scope {
    pub(super) fn set(&mut self, name: &str, value: Value) {
        self.0.push((name.to_owned(), value));
    }

    /// How many there are, for [`Self::leave`].
    pub(super) fn depth(&self) -> usize {
        self.0.len()
    }

    /// Forgets what came after.
    pub(super) fn leave(&mut self, depth: usize) {
        self.0.truncate(depth);
    }

    /// What a path leads to. Through null it leads to null; a name on a list is that field of each item, null where an
    /// item lacks it.
    pub(super) fn find(&self, path: &[String]) -> Result<Value, String> {
        let Some((first, rest)) = path.split_first() else { return Err("it names nothing".to_owned()) };
        let Some((_, mut value)) = self.0.iter().rev().find(|(name, _)| name == first).map(|(n, v)| (n, v)) else {
            return Err(self.unknown(first));
        };
        for (at, name) in rest.iter().enumerate() {
            let so_far = || path[..=at].join(".");
            value = match value {
                Value::Null => return Ok(Value::Null),
                Value::Object(fields) => fields.get(name).ok_or_else(|| {
                    let mut known: Vec<_> = fields.keys().map(String::as_str).collect();
                    known.sort_unstable();
                    format!("{} has no {name}; it has {}", so_far(), known.join(", "))
                })?,
                Value::Array(items) => match name.parse::<usize>() {
                    Ok(index) => items
                        .get(index)
                        .ok_or_else(|| format!("{} has {} items, and no number {index}", so_far(), items.len()))?,
                    Err(_) => return Ok(items.iter().map(|item| each(item, &rest[at..])).collect()),
                },
                other => return Err(format!("{} is {} and has no {name}", so_far(), found(other))),
            };
        }
        Ok(value.clone())
    }

    /// That a name is not there, with those that are.
    pub(super) fn unknown(&self, name: &str) -> String {
        let mut known: Vec<_> = self.0.iter().map(|(name, _)| name.as_str()).collect();
        known.sort_unstable();
        known.dedup();
        super::unknown_name(name, &known)
    }
}

/// The rest of a path on one item of a list.
fn each(item: &Value, path: &[String]) -> Value {
    let mut value = item;
    for name in path {
        value = match value {
            Value::Object(fields) => fields.get(name).unwrap_or(&Value::Null),
            Value::Array(items) => match name.parse::<usize>() {
                Ok(index) => items.get(index).unwrap_or(&Value::Null),
                Err(_) => &Value::Null,
            },
            _ => &Value::Null,
        };
    }
    value.clone()
}
