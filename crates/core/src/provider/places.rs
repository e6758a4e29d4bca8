//! Where a provider's accounts live: hosts that are built from one label of an account.

use url::{Host, Url};

use super::Invalid;

/// What a template holds in place of the account.
const PLACEHOLDER: &str = "{account}";

/// Where accounts live: `https://{account}.zendesk.com`, or the operator's substitute for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places(String);

impl Places {
    /// Each at a host of its own, below a suffix with its leading dot: `.zendesk.com`.
    pub fn below(suffix: &str) -> Self {
        Self(format!("https://{PLACEHOLDER}{suffix}"))
    }

    /// The operator's substitute, for a sandbox of this provider. `{account}` may stand in the path, or be the first label of a longer host: no account may choose the host.
    pub fn substitute(provider: &str, template: &str) -> Result<Self, Invalid> {
        let template = template.trim().trim_end_matches('/');
        let refused = |why: &str| {
            Err(Invalid::new(format!(
                "{why}; expected an http or https address with {PLACEHOLDER} in it, for example \
                 http://127.0.0.1:9000/{provider}/{PLACEHOLDER}"
            )))
        };
        if template.matches(PLACEHOLDER).count() != 1 {
            return refused("there has to be one {account}");
        }
        let Ok(url) = Url::parse(&template.replace(PLACEHOLDER, "acme")) else {
            return refused("there is no address");
        };
        if !matches!(url.scheme(), "http" | "https") {
            return refused("there is another scheme");
        }
        if !url.username().is_empty() || url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
            return refused("there is more than scheme, host and path");
        }
        let in_path = url.path().split('/').any(|segment| segment == "acme")
            && template.contains(&format!("/{PLACEHOLDER}"))
            && !template.contains(&format!("//{PLACEHOLDER}"));
        let first_label = template.contains(&format!("//{PLACEHOLDER}."))
            && matches!(url.host(), Some(Host::Domain(host)) if host.len() > "acme.".len());
        if !in_path && !first_label {
            return refused("{account} is neither one segment of the path nor the first label of the host");
        }
        Ok(Self(template.to_owned()))
    }

    /// Of an account whose label was validated.
    pub fn of(&self, label: &str) -> Result<Url, url::ParseError> {
        Url::parse(&self.0.replace(PLACEHOLDER, label))
    }
}

/// A path below a base.
pub fn below(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}/{path}", base.path().trim_end_matches('/')));
    url
}
