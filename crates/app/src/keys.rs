//! API keys: made here, stored as a hash, remembered while signals are known to arrive.

use std::{
    collections::HashMap,
    sync::{Arc, RwLock},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use holdfast_core::ports::{Random, Signals, StoreError};
use holdfast_store::{ApiKey, Store};
use secrecy::SecretString;
use sha2::{Digest, Sha256};

/// What a key may be allowed to do.
pub const SCOPES: [&str; 9] =
    ["connectors:read", "connectors:write", "tokens:read", "proxy", "tools", "agents", "jobs", "audit:read", "admin"];

/// What a scope allows, in plain words.
pub fn scope_in_words(scope: &str) -> &'static str {
    match scope {
        "connectors:read" => "See connectors, their health and what happened to them",
        "connectors:write" => "Add, change, reconnect, disconnect and remove connectors",
        "tokens:read" => "Read access tokens of connectors",
        "proxy" => "Call the providers' own APIs through Holdfast",
        "tools" => "Run tools, such as reading and answering tickets",
        "agents" => "See, change and run agents",
        "jobs" => "See, retry and discard work that waits",
        "audit:read" => "Read the audit log: who changed what",
        "admin" => "Everything that any other scope allows",
        _ => "",
    }
}

/// A new secret text: the prefix and 256 random bits.
pub fn secret_text(prefix: &str, random: &dyn Random) -> SecretString {
    let mut bytes = [0; 32];
    random.fill(&mut bytes);
    SecretString::from(format!("{prefix}{}", URL_SAFE_NO_PAD.encode(bytes)))
}

/// What is stored of a secret text. It has 256 random bits, so a plain hash cannot be turned back.
pub fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// Keys that were seen lately; only good ones, so that guessing fills no memory.
#[derive(Default)]
pub struct Keys(RwLock<Kept>);

#[derive(Default)]
struct Kept {
    /// With the era of the signals in which each was looked up.
    keys: HashMap<[u8; 32], (u64, Arc<ApiKey>)>,
    /// Moves with each change, so that a look-up under way at that moment is not kept.
    generation: u64,
}

impl Keys {
    /// The key of this text, if it is good.
    pub async fn find(&self, store: &Store, text: &str) -> Result<Option<Arc<ApiKey>>, StoreError> {
        let hash = hash(text);
        let era = store.era();
        let generation = {
            let kept = self.0.read().expect("no panic happens while it is held");
            if let Some((_, key)) = kept.keys.get(&hash).filter(|(looked_up_in, _)| Some(*looked_up_in) == era) {
                return Ok(Some(Arc::clone(key)));
            }
            kept.generation
        };
        let found = store.find_key(&hash).await?.filter(|key| key.revoked_at.is_none()).map(Arc::new);
        if let (Some(era), Some(key)) = (era, &found) {
            let mut kept = self.0.write().expect("no panic happens while it is held");
            if kept.generation == generation {
                kept.keys.insert(hash, (era, Arc::clone(key)));
            }
        }
        Ok(found)
    }

    /// Keys changed: nothing that is remembered counts.
    pub fn forget(&self) {
        let mut kept = self.0.write().expect("no panic happens while it is held");
        kept.keys.clear();
        kept.generation += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::{SCOPES, scope_in_words};

    #[test]
    fn every_scope_has_its_own_words() {
        let words: std::collections::HashSet<_> = SCOPES.iter().map(|scope| scope_in_words(scope)).collect();
        assert_eq!(words.len(), SCOPES.len());
        assert!(!words.contains(""));
    }
}
