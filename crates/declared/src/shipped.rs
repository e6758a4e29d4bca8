//! The files that come with Holdfast, compiled in.

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
