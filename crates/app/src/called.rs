//! What connectors and their accounts are called, on pages and in mails.

use holdfast_core::{Health, Snapshot, credential::Reason, ports::StoreError};

use crate::{app::App, tools};

/// An account as people know it; empty while nobody has named it.
pub(crate) fn account(app: &App, provider: &str, account: &str) -> String {
    let known = app.providers().find(provider).and_then(|adapter| adapter.account(account).ok());
    known.map_or_else(|| account.to_owned(), |account| account.display)
}

/// What people call it, or else its account; never empty.
pub(crate) fn connector(app: &App, snapshot: &Snapshot) -> String {
    parts(app, &snapshot.provider, &snapshot.account, &snapshot.name)
}

/// The same from its parts.
pub(crate) fn parts(app: &App, provider: &str, account: &str, name: &str) -> String {
    if !name.is_empty() {
        return name.to_owned();
    }
    let account = self::account(app, provider, account);
    if account.is_empty() { format!("{}, not named yet", app.provider_name(provider)) } else { account }
}

/// What people call it, or else its provider with its account: `Zendesk acme`.
pub(crate) fn named(app: &App, provider: &str, account: &str, name: &str) -> String {
    if name.is_empty() { tools::connector_name(app, provider, account) } else { name.to_owned() }
}

/// A ticket by its id at the provider: `#14`, where that is a number.
pub(crate) fn ticket(id: &str) -> String {
    let number = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    if number { format!("#{id}") } else { id.to_owned() }
}

/// Scopes in the words of who consents; those that the provider's adapter does not ask for stay as they are.
pub(crate) fn scopes(app: &App, provider: &str, scopes: &[String]) -> Vec<String> {
    let about = app.providers().find(provider).map(|adapter| adapter.about());
    let words = |name: &str| about.and_then(|about| about.scope_words(name)).unwrap_or(name).to_owned();
    scopes.iter().map(|name| words(name)).collect()
}

/// What the grant of a connector that has failed most likely died of, and what to do about it, where its provider knows
/// such a thing: whole sentences.
pub(crate) async fn likely_end(app: &App, snapshot: &Snapshot) -> Result<Option<&'static str>, StoreError> {
    let refused = snapshot.health == Health::AuthFailed && snapshot.health_reason == Some(Reason::RefreshRefused);
    let Some(provider) = app.providers().find(&snapshot.provider).filter(|_| refused) else { return Ok(None) };
    let given = app.store.granted_at(&snapshot.org, &snapshot.connector).await?;
    let lived = given.and_then(|given| (snapshot.health_since - given).to_std().ok());
    Ok(lived.and_then(|lived| provider.likely_end(lived)))
}
