//! Whose credential it is.

use holdfast_core::{ApiClient, error::Result, provider::Identity};

use crate::api;

/// Where the person who connected it may not be asked for.
const SOMEBODY: &str = "unknown";

/// Which account answers, and who calls where that may be asked.
pub(crate) async fn identity(api: &ApiClient) -> Result<Identity> {
    let told = api::account(api).await?;
    // Only tells more: the credential has proved itself.
    let me = api::me(api).await.ok();
    let account = api.account();
    let id = told.domain.as_deref().and_then(subdomain).unwrap_or_else(|| account.id.clone());
    Ok(Identity {
        account_name: format!("{id}{}", crate::account::SUFFIX),
        account_id: id,
        user_id: me.as_ref().map_or_else(|| SOMEBODY.to_owned(), |me| me.id.0.to_string()),
        role: me.as_ref().and_then(|me| me.role.as_ref()?.name.clone()),
        email: me.as_ref().and_then(|me| me.email.clone()),
        name: me.and_then(|me| me.name),
        scopes: None,
    })
}

/// `acme`; of `Acme.gorgias.com` too, should it ever come so.
fn subdomain(domain: &str) -> Option<String> {
    let domain = domain.trim().to_ascii_lowercase();
    let label = domain.strip_suffix(crate::account::SUFFIX).unwrap_or(&domain);
    (!label.is_empty()).then(|| label.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_the_same_however_its_domain_is_written() {
        for domain in ["acme", "Acme", " acme ", "acme.gorgias.com", "ACME.Gorgias.Com"] {
            assert_eq!(subdomain(domain).as_deref(), Some("acme"), "{domain}");
        }
        assert_eq!(subdomain(" "), None);
        assert_eq!(subdomain("shop.acme.example").as_deref(), Some("shop.acme.example"));
    }
}
