//! Which OAuth app a grant was made with.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::OrgId;

/// Names an OAuth app among all: the instance's of a provider, or an org's own. A grant can be renewed only with the app that
/// it was made with, so that a credential keeps the name of its app.
///
/// An org's own is named by its client id, as its provider does: entered again after it was taken out, it is the same one.
/// The instance's is named by the provider alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AppId {
    provider: String,
    own: Option<(OrgId, String)>,
}

impl AppId {
    /// The instance's.
    pub fn instance(provider: impl Into<String>) -> Self {
        Self { provider: provider.into(), own: None }
    }

    /// An org's own.
    pub fn own(provider: impl Into<String>, org: OrgId, client_id: impl Into<String>) -> Self {
        Self { provider: provider.into(), own: Some((org, client_id.into())) }
    }

    /// Of which provider.
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// Whose own it is; `None`: the instance's.
    pub fn org(&self) -> Option<&OrgId> {
        self.own.as_ref().map(|(org, _)| org)
    }

    /// The client id of an org's own.
    pub fn own_client_id(&self) -> Option<&str> {
        self.own.as_ref().map(|(_, client_id)| client_id.as_str())
    }

    /// Whether the provider takes both for one: two orgs may have entered the same client.
    pub fn is_same_client(&self, other: &Self) -> bool {
        self.provider == other.provider && self.own_client_id() == other.own_client_id()
    }

    /// Reads what is stored: `PROVIDER`, or `PROVIDER:ORG:CLIENT_ID`. Neither of the first two has a colon.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, ':');
        let provider = parts.next().filter(|provider| !provider.is_empty())?;
        match (parts.next(), parts.next()) {
            (None, _) => Some(Self::instance(provider)),
            (Some(org), Some(client_id)) if !org.is_empty() && !client_id.is_empty() => {
                Some(Self::own(provider, org.into(), client_id))
            }
            _ => None,
        }
    }
}

impl fmt::Display for AppId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.own {
            None => f.write_str(&self.provider),
            Some((org, client_id)) => write!(f, "{}:{org}:{client_id}", self.provider),
        }
    }
}

impl From<AppId> for String {
    fn from(app: AppId) -> Self {
        app.to_string()
    }
}

/// The text names no OAuth app.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an OAuth app is named PROVIDER, or PROVIDER:ORG:CLIENT_ID")]
pub struct NoAppId;

impl TryFrom<String> for AppId {
    type Error = NoAppId;

    fn try_from(text: String) -> Result<Self, NoAppId> {
        Self::parse(&text).ok_or(NoAppId)
    }
}

#[cfg(test)]
mod tests {
    use super::AppId;

    #[test]
    fn a_name_is_read_as_it_was_written() {
        for app in [
            AppId::instance("zendesk"),
            AppId::own("zendesk", "org_1".into(), "client"),
            AppId::own("google", "org_2".into(), "urn:client:1"),
        ] {
            assert_eq!(AppId::parse(&app.to_string()), Some(app.clone()));
            assert_eq!(serde_json::from_str::<AppId>(&serde_json::to_string(&app).unwrap()).unwrap(), app);
        }
        for bad in ["", ":org_1:client", "zendesk:", "zendesk:org_1", "zendesk:org_1:", "zendesk::client"] {
            assert_eq!(AppId::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn orgs_that_entered_one_client_have_one_app_at_the_provider() {
        let own = |org: &str, client: &str| AppId::own("shopify", org.into(), client);
        let instance = AppId::instance("shopify");

        assert!(own("org_1", "a").is_same_client(&own("org_2", "a")));
        assert!(instance.is_same_client(&instance));
        for (one, other) in [
            (own("org_1", "a"), own("org_1", "b")),
            (own("org_1", "a"), instance.clone()),
            (instance, AppId::instance("google")),
        ] {
            assert!(!one.is_same_client(&other), "{one} {other}");
        }
    }
}
