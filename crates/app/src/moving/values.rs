//! Fields of an export, each with where it stands: what is there and is no text is said, and not taken for missing.

use serde_json::Value;

/// A value, and the path to it.
pub(super) struct At<'a> {
    value: &'a Value,
    path: String,
}

impl<'a> At<'a> {
    /// The whole connection.
    pub(super) fn whole(value: &'a Value) -> Self {
        Self { value, path: String::new() }
    }

    /// A field's value; null where it is not there.
    pub(super) fn at(&self, field: &str) -> Self {
        Self { value: self.value.get(field).unwrap_or(&Value::Null), path: self.path_to(field) }
    }

    pub(super) fn value(&self) -> &'a Value {
        self.value
    }

    pub(super) fn is_object(&self) -> bool {
        self.value.is_object()
    }

    fn path_to(&self, field: &str) -> String {
        if self.path.is_empty() { field.to_owned() } else { format!("{}.{field}", self.path) }
    }

    /// A text that is there and not empty.
    pub(super) fn text(&self, field: &str) -> Result<Option<&'a str>, String> {
        match self.value.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.trim()).filter(|text| !text.is_empty())),
            Some(other) => {
                let kind = match other {
                    Value::Number(_) => "a number",
                    Value::Bool(_) => "true or false",
                    Value::Array(_) => "a list",
                    _ => "an object",
                };
                Err(format!("{} is {kind}, and has to be a text: write it in quotes.", self.path_to(field)))
            }
        }
    }

    /// The first of these texts that is there.
    pub(super) fn first(&self, fields: &[&str]) -> Result<Option<&'a str>, String> {
        for field in fields {
            if let Some(text) = self.text(field)? {
                return Ok(Some(text));
            }
        }
        Ok(None)
    }

    /// A text, or a number as it is written: ids that ride along are either.
    pub(super) fn id(&self, field: &str) -> Result<Option<String>, String> {
        match self.value.get(field) {
            Some(Value::Number(number)) => Ok(Some(number.to_string())),
            _ => Ok(self.text(field)?.map(str::to_owned)),
        }
    }
}
