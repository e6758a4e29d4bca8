//! The Reconnect link of a mail: signed, for one recipient, connector, account and epoch, for a time. It is no secret of
//! the database's: whoever has the mail has the link, and all that it can do is to begin a consent.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::{DateTime, TimeDelta, Utc};
use hmac::{Hmac, KeyInit, Mac};
use holdfast_core::{ConnectorId, Snapshot};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

/// How long a link can be used: a fortnight, which holidays may last.
pub(crate) const LINK_LIFE: TimeDelta = TimeDelta::days(14);
/// The name of the instance's secret that signs.
pub(crate) const SECRET: &str = "reconnect-links";
/// The form of the payload; another one is another number.
const FORM: u8 = 1;
/// 128 bits cannot be guessed, and keep the link short.
const MAC_BYTES: usize = 16;
const ACCOUNT_BYTES: usize = 8;

/// What a link says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReconnectLink {
    /// Which connector.
    pub(crate) connector: ConnectorId,
    /// Of which failure.
    pub(crate) epoch: i64,
    /// For whom.
    pub(crate) user: String,
    /// When it ends.
    pub(crate) expires_at: DateTime<Utc>,
    account: [u8; ACCOUNT_BYTES],
}

impl ReconnectLink {
    /// For this person, of this failure of the connector.
    pub(crate) fn new(connector: &Snapshot, epoch: i64, user: &str, expires_at: DateTime<Utc>) -> Self {
        Self {
            connector: connector.connector.clone(),
            epoch,
            user: user.to_owned(),
            expires_at,
            account: account(connector),
        }
    }

    /// Whether the connector is still on the account that the link was made for.
    pub(crate) fn is_of_account(&self, connector: &Snapshot) -> bool {
        self.account == account(connector)
    }

    /// As the end of the URL.
    pub(crate) fn sign(&self, secret: &[u8; 32]) -> SecretString {
        let mut bytes = self.payload();
        let mac = mac(secret, &bytes).finalize().into_bytes();
        bytes.extend_from_slice(&mac[..MAC_BYTES]);
        URL_SAFE_NO_PAD.encode(bytes).into()
    }

    /// Reads what [`Self::sign`] wrote with the same secret; anything else is `None`.
    pub(crate) fn verify(token: &SecretString, secret: &[u8; 32]) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(token.expose_secret()).ok()?;
        let (payload, given) = bytes.split_at_checked(bytes.len().checked_sub(MAC_BYTES)?)?;
        mac(secret, payload).verify_truncated_left(given).ok()?;
        Self::read(payload)
    }

    fn payload(&self) -> Vec<u8> {
        let mut bytes = vec![FORM];
        bytes.extend_from_slice(&self.expires_at.timestamp().to_be_bytes());
        bytes.extend_from_slice(&self.epoch.to_be_bytes());
        bytes.extend_from_slice(&self.account);
        bytes.extend_from_slice(self.connector.as_str().as_bytes());
        bytes.push(0);
        bytes.extend_from_slice(self.user.as_bytes());
        bytes
    }

    fn read(payload: &[u8]) -> Option<Self> {
        let rest = payload.strip_prefix(&[FORM])?;
        let (expires_at, rest) = rest.split_first_chunk()?;
        let (epoch, rest) = rest.split_first_chunk()?;
        let (account, rest) = rest.split_first_chunk()?;
        let (connector, user) = std::str::from_utf8(rest).ok()?.split_once('\0')?;
        Some(Self {
            connector: connector.into(),
            epoch: i64::from_be_bytes(*epoch),
            user: user.to_owned(),
            expires_at: DateTime::from_timestamp(i64::from_be_bytes(*expires_at), 0)?,
            account: *account,
        })
    }
}

fn account(connector: &Snapshot) -> [u8; ACCOUNT_BYTES] {
    let digest = Sha256::digest(format!("{}\0{}", connector.provider, connector.account));
    digest.first_chunk().copied().expect("a digest has 32 bytes")
}

fn mac(secret: &[u8; 32], payload: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("a key of any length will do");
    mac.update(payload);
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: [u8; 32] = [7; 32];

    fn link() -> ReconnectLink {
        ReconnectLink {
            connector: "con_019ab2".into(),
            epoch: 3,
            user: "user_019ab3".to_owned(),
            expires_at: "2026-12-13T10:00:00Z".parse().unwrap(),
            account: [1; ACCOUNT_BYTES],
        }
    }

    #[test]
    fn a_link_reads_back_with_the_secret_that_signed_it_and_no_other() {
        let token = link().sign(&SECRET);

        assert_eq!(ReconnectLink::verify(&token, &SECRET), Some(link()));
        assert_eq!(ReconnectLink::verify(&token, &[8; 32]), None);
        assert!(token.expose_secret().chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)));
    }

    #[test]
    fn a_link_that_was_touched_anywhere_is_none() {
        let token = link().sign(&SECRET);
        let bytes = URL_SAFE_NO_PAD.decode(token.expose_secret()).unwrap();

        for place in 0..bytes.len() {
            let mut touched = bytes.clone();
            touched[place] ^= 1;
            assert_eq!(ReconnectLink::verify(&URL_SAFE_NO_PAD.encode(touched).into(), &SECRET), None, "byte {place}");
        }
        for cut in ["", "AAAA", &token.expose_secret()[1..], &token.expose_secret()[..20], "ä", "a b"] {
            assert_eq!(ReconnectLink::verify(&SecretString::from(cut), &SECRET), None, "{cut}");
        }
    }
}
