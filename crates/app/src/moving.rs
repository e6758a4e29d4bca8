//! Moving in: what other systems export, read as what `POST /connectors` takes.
//!
//! Only the words differ. Whether a line is right is decided where ours are: a foreign export is held to the same
//! checks. No error repeats a value of the export.

mod n8n;
mod nango;
mod plan;
mod values;

pub(crate) use plan::{Meeting, Plan, There};

use clap::ValueEnum;
use holdfast_core::{Providers, provider::ApiKeyAuth};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Whose export it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// JSON lines, each as for POST /api/v1/connectors
    #[default]
    Holdfast,
    /// Nango: its connections with their credentials, as GET /connections/{id} answers
    Nango,
    /// n8n: `n8n export:credentials --all --decrypted`
    N8n,
}

/// One exported connection, as one of ours.
#[derive(Debug)]
pub(crate) struct Moved {
    /// The body of `POST /connectors`.
    pub(crate) body: Value,
    /// A longer alias, for where another connector has the one in the body.
    pub(crate) longer_alias: Option<String>,
}

impl Format {
    /// Reads one exported connection. An error says what is missing, and what to do about it.
    pub(crate) fn read(self, providers: &Providers, item: &str) -> Result<Moved, String> {
        let parsed = || -> Result<Value, String> {
            serde_json::from_str(item).map_err(|_| "This is not JSON that can be read.".to_owned())
        };
        match self {
            Self::Holdfast => unreachable!("ours are read where they are checked"),
            Self::Nango => nango::read(providers, &parsed()?),
            Self::N8n => n8n::read(providers, &parsed()?),
        }
    }

    /// What it has to be, for people.
    pub(crate) fn is(self) -> &'static str {
        match self {
            Self::Holdfast => "JSON lines, each as for POST /api/v1/connectors",
            Self::Nango => {
                "Nango's connections with their credentials, as GET /connections/{connectionId} answers each"
            }
            Self::N8n => "n8n's credentials, as `n8n export:credentials --all --decrypted` writes them",
        }
    }

    /// Fields that such an export has, and no connector of ours.
    pub(crate) fn marks(self) -> &'static [&'static str] {
        match self {
            Self::Holdfast => &[],
            Self::Nango => &["connection_id", "connections", "provider_config_key"],
            Self::N8n => &["data", "nodesAccess"],
        }
    }

    /// The connections of an export: of an array, of an object that lists them, or one after the other.
    pub(crate) fn items(value: Value) -> Vec<Value> {
        match value {
            Value::Array(items) => items,
            Value::Object(mut object) => match object.remove("connections") {
                Some(Value::Array(items)) => items,
                _ => vec![Value::Object(object)],
            },
            other => vec![other],
        }
    }
}

/// A user name and a password, as the provider's key: at some the key is the user name, and the password means nothing.
fn pair(providers: &Providers, provider: &str, account: &str, user: &str, password: &str) -> String {
    let found = providers.find(provider);
    let key_auth = found.and_then(|found| found.key_auth(&found.account(account).ok()?));
    match key_auth {
        Some(ApiKeyAuth::Basic { .. }) => user.to_owned(),
        Some(ApiKeyAuth::Pair { .. }) => format!("{user}:{password}"),
        _ => password.to_owned(),
    }
}

/// The body of a connector, without what is not known of it.
fn body(
    provider: &str,
    account: &str,
    name: Option<&str>,
    alias: Option<&str>,
    credential: Map<String, Value>,
) -> Value {
    let mut body = json!({ "provider": provider, "account": account });
    body["credential"] = credential.into();
    for (field, value) in [("name", name), ("alias", alias)] {
        if let Some(value) = value {
            body[field] = json!(value);
        }
    }
    body
}

/// What is said of an account that the export does not hold.
fn no_account(provider: &str, places: &str) -> String {
    format!(
        "The export does not say which account at {provider} this is. Write it into the field \"account\" of the \
         connection (in {places} it was not found), or connect it anew by a connect link."
    )
}
