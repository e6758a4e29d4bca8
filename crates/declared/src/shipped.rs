//! The files that come with Holdfast, compiled in.

use std::sync::LazyLock;

use crate::Declared;

static READ: LazyLock<Vec<Declared>> = LazyLock::new(|| {
    let read = |(name, text): &(&str, &str)| Declared::read(name, text).expect("a test holds each file to be right");
    SHIPPED.iter().map(read).collect()
});

/// The providers that they describe.
pub fn shipped() -> &'static [Declared] {
    &READ
}

macro_rules! shipped {
    ($($id:literal),* $(,)?) => {
        &[$((concat!("config/providers/", $id, ".toml"), include_str!(concat!("../../../config/providers/", $id, ".toml")))),*]
    };
}

/// Name and text of each, by id.
pub const SHIPPED: &[(&str, &str)] = shipped![
    "auth0",
    "dropbox",
    "github",
    "helpscout",
    "hubspot",
    "intercom",
    "jira-service-management",
    "microsoft-graph",
    "notion",
    "okta",
    "openai",
    "quickbooks",
    "salesforce",
    "slack",
    "stripe",
    "xero",
    "zoho",
];
