//! What an account's requests need beside a token, for a grant that came without it: one that was imported never went
//! through the consent that would have found it.

use std::sync::Arc;

use super::{ApiClient, Source};
use crate::{
    credential::{Secret, Snapshot, TokenSet},
    error::{Error, ErrorKind, Result, Retry},
    ports::Trigger,
    refresh::Need,
};

/// The operation that its errors name.
const FIND: &str = "find";

impl ApiClient {
    /// The snapshot with what its account's requests need: asked for where it is not there, and kept for the next one.
    /// The provider is asked with all that a request has: a token that it refuses is renewed first.
    pub async fn complete(&self, snapshot: Arc<Snapshot>) -> Result<Arc<Snapshot>> {
        let lacks = |tokens: &TokenSet| self.0.provider.lacks(&tokens.found);
        let Source::Engine(connector) = &self.0.source else { return Ok(snapshot) };
        if self.0.asking || !snapshot.credential.secret.tokens().is_some_and(lacks) {
            return Ok(snapshot);
        }
        let (engine, provider) = (&self.0.engine, &self.0.provider);
        let asking = Self::build_as(engine, &snapshot.provider, &snapshot.account, self.0.source.clone(), true);
        let asking = asking.expect("this client was built from the same");
        let found = provider.find(&asking).await?;
        // It may have been renewed meanwhile.
        let fresh = engine.fresh(connector, &Need::ValidFor(super::LEAST_LIFE), Trigger::Caller).await;
        let fresh = fresh.map_err(|error| self.auth_error(FIND, error))?;
        let mut snapshot = Snapshot::clone(&fresh);
        let version = snapshot.credential.version;
        let kept = engine.store().keep_found(connector, version, &found).await;
        kept.map_err(|error| Error {
            retry: Retry::Backoff,
            source: Some(Box::new(error)),
            ..self.error(FIND, ErrorKind::Unavailable, "what was found could not be kept")
        })?;
        engine.forget(connector);
        if let Secret::Tokens(tokens) = &mut snapshot.credential.secret {
            tokens.base_url = found.base_url.or_else(|| tokens.base_url.take());
            tokens.found = found.values;
        }
        Ok(Arc::new(snapshot))
    }
}
