//! The OAuth client that Holdfast has at each provider: one id everywhere, and secrets that each provider makes for itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::clock::random_bytes;
use crate::options::{CLIENT_ID, CLIENT_SECRET};

/// Registered at all providers, and shared by all accounts there. Others may be registered at Zendesk beside it.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    /// Where a provider has made none of its own.
    common: Secrets,
    /// Of providers that have, by their prefix.
    own: BTreeMap<String, Secrets>,
    redirect_uris: Vec<String>,
    /// Ids with their secrets, until the sandbox ends.
    others: Vec<(String, String)>,
}

/// What a client may show, as it is kept as well.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Secrets {
    /// The older one: what a provider signs with it signs.
    pub(crate) secret: String,
    /// Accepted beside it.
    pub(crate) next: Option<String>,
}

impl Client {
    pub(crate) fn new(redirect_uris: Vec<String>) -> Self {
        let common = Secrets { secret: CLIENT_SECRET.to_owned(), next: None };
        Self { common, own: BTreeMap::new(), redirect_uris, others: Vec::new() }
    }

    /// The same secrets at all providers, whatever they have made.
    pub(crate) fn set(&mut self, secret: String, next: Option<String>) {
        self.restore(Secrets { secret, next }, BTreeMap::new());
    }

    /// As they were kept: the common ones, and those that providers have made.
    pub(crate) fn restore(&mut self, common: Secrets, own: BTreeMap<String, Secrets>) {
        (self.common, self.own) = (common, own);
    }

    /// As they are kept.
    pub(crate) fn to_keep(&self) -> (Secrets, BTreeMap<String, Secrets>) {
        (self.common.clone(), self.own.clone())
    }

    pub(crate) fn register(&mut self, id: &str, secret: &str) {
        self.others.retain(|(own, _)| own != id);
        self.others.push((id.to_owned(), secret.to_owned()));
    }

    /// What this provider accepts.
    pub(crate) fn secrets(&self, provider: &str) -> &Secrets {
        self.own.get(provider).unwrap_or(&self.common)
    }

    /// The provider makes a second secret, beside the one that stays good. False: it has two already.
    pub(crate) fn make_secret(&mut self, provider: &str) -> bool {
        let mut secrets = self.secrets(provider).clone();
        if secrets.next.is_some() {
            return false;
        }
        let random = random_bytes::<10>().iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        secrets.next = Some(format!("{provider}-{random}"));
        self.own.insert(provider.to_owned(), secrets);
        true
    }

    /// From now on the newer one alone is good. False: there is one only.
    pub(crate) fn retire_secret(&mut self, provider: &str) -> bool {
        let mut secrets = self.secrets(provider).clone();
        let Some(next) = secrets.next.take() else { return false };
        secrets.secret = next;
        self.own.insert(provider.to_owned(), secrets);
        true
    }

    pub(crate) fn accepts(&self, provider: &str, id: Option<&str>, secret: Option<&str>) -> bool {
        let Some(secret) = secret else { return false };
        let known = self.secrets(provider);
        id == Some(CLIENT_ID) && (secret == known.secret || known.next.as_deref() == Some(secret))
    }

    /// The same at Zendesk; answers who it is.
    pub(crate) fn known_as<'a>(&self, id: Option<&'a str>, secret: Option<&str>) -> Option<&'a str> {
        let (id, given) = (id?, secret?);
        let other = self.others.iter().any(|(own, secret)| own == id && secret == given);
        (other || self.accepts("zendesk", Some(id), secret)).then_some(id)
    }

    /// Whether Zendesk knows a client of this id.
    pub(crate) fn is_registered(&self, id: &str) -> bool {
        id == CLIENT_ID || self.others.iter().any(|(own, _)| own == id)
    }

    /// Any loopback address, or an https address that is on the list, character by character.
    pub(crate) fn may_redirect_to(&self, uri: &str) -> bool {
        let Ok(parsed) = url::Url::parse(uri) else {
            return false;
        };
        if parsed.fragment().is_some() {
            return false;
        }
        let loopback = matches!(parsed.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
        (loopback && matches!(parsed.scheme(), "http" | "https"))
            || (parsed.scheme() == "https" && self.redirect_uris.iter().any(|known| known == uri))
    }
}
