//! What was issued and what was presented: the provider's side of the story, for audits.

use base64::Engine as _;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Every token set that a helpdesk issued, and every refresh token that was presented to it, oldest first.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Ledger {
    /// The sets.
    pub sets: Vec<IssuedSet>,
    /// The presentations.
    pub presentations: Vec<Presentation>,
}

/// One token set and what became of it. Moments are milliseconds of the sandbox's clock.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct IssuedSet {
    /// The grant that it came from; a rotation stays in its grant, a new consent makes a new one.
    pub grant: u64,
    /// Subdomain of the helpdesk.
    pub helpdesk: String,
    /// The user who gave the grant.
    pub user_id: i64,
    /// Space separated.
    pub scope: String,
    /// Fingerprint of the refresh token that bought this set; none at the start of a grant.
    pub parent: Option<String>,
    /// [`fingerprint`] of the access token.
    pub access_fingerprint: String,
    /// [`fingerprint`] of the refresh token; none where the client did not ask for an expiry.
    pub refresh_fingerprint: Option<String>,
    /// The access token itself; over HTTP only when asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_token: Option<String>,
    /// The refresh token itself; over HTTP only when asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<String>,
    /// When it was issued.
    pub issued_at_ms: i64,
    /// When the access token stops working; none means never.
    pub access_expires_at_ms: Option<i64>,
    /// When the refresh token stops working.
    pub refresh_expires_at_ms: Option<i64>,
    /// When its refresh token bought the next set. Both of its tokens died then.
    pub spent_at_ms: Option<i64>,
    /// When it was revoked: by its owner, by the control API, or with its family.
    pub revoked_at_ms: Option<i64>,
    /// The answer that carried it was cut off, so that the caller never saw it.
    pub answer_lost: bool,
}

impl IssuedSet {
    /// Neither spent nor revoked; it may still have expired.
    pub fn is_live(&self) -> bool {
        self.spent_at_ms.is_none() && self.revoked_at_ms.is_none()
    }
}

/// One refresh token that was presented to the token endpoint.
///
/// `started_seq` and `answered_seq` come from one counter: two presentations overlapped when each started before
/// the other was answered, also within one millisecond.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Presentation {
    /// [`fingerprint`] of what was presented.
    pub fingerprint: String,
    /// The grant that the token belongs to, if it was ever issued here.
    pub grant: Option<u64>,
    /// When the request arrived.
    pub started_at_ms: i64,
    /// When its answer, or the end of its connection, left.
    pub answered_at_ms: Option<i64>,
    /// Order of its arrival among all arrivals and answers of the sandbox.
    pub started_seq: u64,
    /// Order of its answer among the same.
    pub answered_seq: Option<u64>,
    /// What it came to.
    pub outcome: PresentationOutcome,
}

/// What became of a presented refresh token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PresentationOutcome {
    /// Not answered yet.
    Open,
    /// Spent; a new pair was answered.
    Rotated,
    /// Spent; the connection was closed without the answer, or within it.
    RotatedAnswerLost,
    /// Spent; another answer than the true one was given.
    RotatedAnswerReplaced,
    /// It had been spent before, and got the same pair again inside the grace.
    Replayed,
    /// It had been spent before.
    Reused,
    /// Unknown, expired or revoked.
    Refused,
    /// A faultless token was told `invalid_grant` on the control API's order; nothing was spent.
    RefusedOnOrder,
    /// The client's own id or secret was wrong; nothing was spent.
    ClientRefused,
    /// The request was malformed; nothing was spent.
    Malformed,
    /// Another answer was given on the control API's order; nothing was spent.
    Failed,
    /// The connection was closed before any processing; nothing was spent.
    Dropped,
}

/// What a token is called where its value must not be shown: the first 16 hex digits of its SHA-256.
pub fn fingerprint(token: &str) -> String {
    let digest = Sha256::digest(token.as_bytes());
    digest.iter().take(8).fold(String::new(), |mut hex, byte| {
        for nibble in [byte >> 4, byte & 15] {
            hex.push(char::from_digit(u32::from(nibble), 16).unwrap_or('0'));
        }
        hex
    })
}

/// The S256 challenge of a PKCE verifier (RFC 7636, 4.2).
pub fn pkce_challenge(verifier: &str) -> String {
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()))
}
