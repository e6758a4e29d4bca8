//! Errors as the API writes them: `{"error": {"msg": "…", "data": {field: ["…"]}}}`.
//! <https://developers.gorgias.com/reference/errors>

use serde_json::{Map, Value, json};

use crate::http::Answer;

pub(super) fn error(status: u16, msg: &str) -> Answer {
    Answer::json(status, json!({"error": {"msg": msg}}))
}

pub(super) fn unauthorized() -> Answer {
    error(401, "Authorization required.")
}

pub(super) fn forbidden() -> Answer {
    error(403, "You do not have enough permissions to perform this action.")
}

pub(super) fn not_found(what: &str) -> Answer {
    error(404, &format!("{what} not found."))
}

/// Fields that were refused, each with why.
#[derive(Debug, Default)]
pub(super) struct Wrong(Map<String, Value>);

impl Wrong {
    pub(super) fn field(field: &str, why: &str) -> Self {
        let mut wrong = Self::default();
        wrong.add(field, why);
        wrong
    }

    pub(super) fn add(&mut self, field: &str, why: &str) {
        self.0.insert(field.to_owned(), json!([why]));
    }

    /// 400, unless there is nothing wrong.
    pub(super) fn refuse(self) -> Result<(), Answer> {
        if self.0.is_empty() {
            return Ok(());
        }
        let body = json!({"error": {"msg": "Failed to validate your request.", "data": self.0}});
        Err(Answer::json(400, body))
    }
}

/// 400 for one field.
pub(super) fn refused(field: &str, why: &str) -> Answer {
    Wrong::field(field, why).refuse().expect_err("a field is wrong")
}
