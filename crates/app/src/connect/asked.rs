//! What a consent is about: connector, provider, account, and how that authenticates.

use std::sync::Arc;

use holdfast_core::{
    Snapshot,
    ports::StoreError,
    provider::{Account, Auth, Provider},
};
use holdfast_store::Session;

use crate::app::App;

/// Everything that a consent is about.
pub(super) struct Asked {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) provider: Arc<dyn Provider>,
    pub(super) account: Account,
    pub(super) auth: Auth,
}

/// Why there is nothing to ask.
pub(super) enum NotAsked {
    /// The connector was removed.
    Removed,
    /// No adapter: the provider's id.
    NoAdapter(String),
    /// Nobody has named the account: the provider's name.
    NoAccount(String),
    /// Something of ours.
    Ours(StoreError),
}

impl From<StoreError> for NotAsked {
    fn from(error: StoreError) -> Self {
        Self::Ours(error)
    }
}

/// The connector of a session, and its adapter.
pub(super) async fn connector(app: &App, session: &Session) -> Result<(Arc<Snapshot>, Arc<dyn Provider>), NotAsked> {
    let snapshot = app.engine.snapshot(&session.connector).await?.ok_or(NotAsked::Removed)?;
    match app.providers().find(&snapshot.provider).cloned() {
        Some(provider) => Ok((snapshot, provider)),
        None => Err(NotAsked::NoAdapter(snapshot.provider.clone())),
    }
}

/// All of it.
pub(super) async fn asked(app: &App, session: &Session) -> Result<Asked, NotAsked> {
    let (snapshot, provider) = connector(app, session).await?;
    about(snapshot, provider, session.account.as_deref(), session.by_key)
}

/// The same of a connector that is at hand; `named` is its account where it has none yet. Where a key was chosen, that
/// is how it authenticates.
pub(super) fn about(
    snapshot: Arc<Snapshot>,
    provider: Arc<dyn Provider>,
    named: Option<&str>,
    by_key: Option<bool>,
) -> Result<Asked, NotAsked> {
    let name = provider.about().name;
    let account = if snapshot.account.is_empty() { named.unwrap_or_default() } else { &snapshot.account };
    let account = provider.account(account).map_err(|_| NotAsked::NoAccount(name.to_owned()))?;
    let key = if by_key == Some(true) { provider.key_auth(&account) } else { None };
    let auth = key.map_or_else(|| provider.auth(&account), Auth::ApiKey);
    Ok(Asked { snapshot, provider, account, auth })
}
