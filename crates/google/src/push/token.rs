//! The token of a Pub/Sub delivery: signed by Google with RS256 (RFC 7518 section 3.3), for our address, in the name of the
//! service account that the subscription was made with.
//! <https://cloud.google.com/pubsub/docs/authenticate-push-subscriptions>

use holdfast_core::{
    jws::{self, NotSigned},
    webhook::{Delivery, NotProven, Proofs},
};
use http::header;
use serde::Deserialize;

/// How far Google's clock may be from ours.
const SKEW_SECS: i64 = 60;

#[derive(Deserialize)]
struct Claims {
    iss: String,
    aud: String,
    email: String,
    email_verified: bool,
    exp: i64,
    iat: i64,
}

pub(super) fn verify(proofs: &Proofs<'_>, delivery: &Delivery<'_>) -> Result<(), NotProven> {
    let told = delivery.header(header::AUTHORIZATION).and_then(|text| text.split_once(' '));
    let told = told.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let (_, token) = told.ok_or(NotProven::Missing)?;
    proofs.secrets()?;
    // Whatever else a token says about how it is signed: this is how Google signs.
    let claims = jws::signed(token.trim(), proofs.keys, &["RS256"]).map_err(|why| match why {
        NotSigned::Garbled => NotProven::Missing,
        NotSigned::Algorithm | NotSigned::Wrong => NotProven::Wrong,
        NotSigned::NoKey => NotProven::NoKey,
    })?;
    // What is not even a claim set of theirs was signed by them for something else.
    let claims: Claims = serde_json::from_slice(&claims).map_err(|_| NotProven::Stranger)?;
    let now = delivery.now.timestamp();
    if claims.exp < now - SKEW_SECS || claims.iat > now + SKEW_SECS {
        return Err(NotProven::Stale);
    }
    let google = matches!(claims.iss.as_str(), "https://accounts.google.com" | "accounts.google.com");
    let sender = claims.email_verified && proofs.is_secret(Some(&claims.email)).is_ok();
    if google && sender && claims.aud == proofs.url { Ok(()) } else { Err(NotProven::Stranger) }
}
