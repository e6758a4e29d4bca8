//! Tools: the operations that an adapter offers to agents.

use serde::Serialize;
use serde_json::Value;

/// Whether a tool changes something at the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Changes nothing.
    Read,
    /// Changes something; takes an idempotency key.
    Write,
}

impl Access {
    /// The stable word in API and database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }

    /// Reads [`Self::as_str`] back.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Read, Self::Write].into_iter().find(|access| access.as_str() == word)
    }
}

/// One operation, as agents see it.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    /// `search_tickets`.
    pub name: &'static str,
    /// What it does, for a model to read.
    pub description: &'static str,
    /// Read or write.
    pub access: Access,
    /// JSON Schema of the arguments, as text.
    pub input_schema: &'static str,
    /// JSON Schema of the result, as text.
    pub output_schema: &'static str,
}

/// One call of a tool.
#[derive(Clone, Debug)]
pub struct ToolCall {
    /// The tool's name.
    pub tool: String,
    /// The arguments, an object.
    pub arguments: Value,
    /// Same key, same effect; used where the provider has an equivalent.
    pub idempotency_key: Option<String>,
}

/// What a tool answers.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOutput(pub Value);
