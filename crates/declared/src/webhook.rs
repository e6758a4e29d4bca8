//! How a provider signs what it sends: an HMAC over a text that holds the body, told from a forgery by a pure function.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use chrono::{DateTime, Utc};
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, HeaderName};
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;

use crate::template::{Template, Values};

/// How deliveries are signed: HMAC-SHA256, in one header.
#[derive(Clone, Debug)]
pub struct Scheme {
    pub(crate) signature_header: HeaderName,
    pub(crate) encoding: Encoding,
    /// Before the signature: `sha256=`.
    pub(crate) prefix: String,
    /// What stands before the body in what is signed; with `{timestamp}` where there is one.
    pub(crate) before: Template,
    pub(crate) timestamp_header: Option<HeaderName>,
    pub(crate) tolerance: Duration,
    pub(crate) delivery_id_header: Option<HeaderName>,
}

/// How a signature is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Small or large.
    Hex,
    /// With padding.
    Base64,
}

/// Why a delivery is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSigned {
    /// There is no signature, or none that can be read.
    #[error("it carries no signature that can be read")]
    Missing,
    /// It was signed too long ago, or in the future: a copy of an old one, perhaps.
    #[error("it was signed too long ago, or by a clock that is ahead")]
    Stale,
    /// Signed with none of the secrets, or changed since.
    #[error("the signature is wrong")]
    Wrong,
}

impl Scheme {
    /// Whether one of these secrets signed the delivery, in constant time. Answers the provider's id of it, where it has one.
    pub fn verify(
        &self,
        secrets: &[SecretString],
        headers: &HeaderMap,
        body: &[u8],
        now: DateTime<Utc>,
    ) -> Result<Option<String>, NotSigned> {
        let header = |name: &HeaderName| {
            let mut values = headers.get_all(name).iter();
            // Two of them are no statement.
            let only = values.next().filter(|_| values.next().is_none());
            only.and_then(|value| value.to_str().ok()).map(str::trim)
        };
        let signature = header(&self.signature_header).and_then(|text| text.strip_prefix(self.prefix.as_str()));
        let signature = signature.and_then(|text| self.encoding.read(text)).ok_or(NotSigned::Missing)?;
        let mut values = Values::new();
        if let Some(name) = &self.timestamp_header {
            let told = header(name).ok_or(NotSigned::Missing)?;
            let seconds = told.parse::<i64>().map_err(|_| NotSigned::Missing)?;
            if seconds.abs_diff(now.timestamp()) > self.tolerance.as_secs() {
                return Err(NotSigned::Stale);
            }
            values.insert("timestamp".to_owned(), told.to_owned());
        }
        let before = self.before.fill(&values).ok_or(NotSigned::Missing)?;
        let signed_with = |secret: &SecretString| {
            let mac = Hmac::<Sha256>::new_from_slice(secret.expose_secret().as_bytes());
            let mut mac = mac.expect("HMAC takes a key of any length");
            mac.update(before.as_bytes());
            mac.update(body);
            mac.verify_slice(&signature).is_ok()
        };
        // Each of them is tried, so that time tells nothing.
        let signed = secrets.iter().fold(false, |signed, secret| signed | signed_with(secret));
        if !signed {
            return Err(NotSigned::Wrong);
        }
        Ok(self.delivery_id_header.as_ref().and_then(header).map(str::to_owned))
    }
}

impl Encoding {
    fn read(self, text: &str) -> Option<Vec<u8>> {
        match self {
            Self::Base64 => STANDARD.decode(text).ok(),
            Self::Hex => {
                let digits: Option<Vec<u8>> =
                    text.chars().map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
                digits
                    .filter(|digits| digits.len() % 2 == 0)
                    .map(|digits| digits.chunks_exact(2).map(|pair| pair[0] * 16 + pair[1]).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scheme(encoding: Encoding, prefix: &str, before: &str, stamped: bool) -> Scheme {
        Scheme {
            signature_header: HeaderName::from_static("x-signature"),
            encoding,
            prefix: prefix.to_owned(),
            before: Template::parse(before).unwrap(),
            timestamp_header: stamped.then(|| HeaderName::from_static("x-timestamp")),
            tolerance: Duration::from_mins(5),
            delivery_id_header: Some(HeaderName::from_static("x-delivery")),
        }
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(seconds, 0).unwrap()
    }

    const BODY: &[u8] = b"Hello, World!";
    /// The example of GitHub's documentation: its secret, its body, its signature.
    const SECRET: &str = "It's a Secret to Everybody";
    const SIGNATURE: &str = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

    #[test]
    fn the_example_of_a_provider_is_verified_with_either_of_two_secrets() {
        let scheme = scheme(Encoding::Hex, "sha256=", "", false);
        let told = headers(&[("x-signature", &format!("sha256={SIGNATURE}")), ("x-delivery", "d-1")]);
        for secrets in [[SECRET, "next"], ["next", SECRET]] {
            let secrets = secrets.map(SecretString::from);
            assert_eq!(scheme.verify(&secrets, &told, BODY, at(0)), Ok(Some("d-1".to_owned())));
        }
        for secrets in [&[][..], &[SecretString::from("next")]] {
            assert_eq!(scheme.verify(secrets, &told, BODY, at(0)), Err(NotSigned::Wrong));
        }
        assert_eq!(scheme.verify(&[SECRET.into()], &told, b"Hello, World?", at(0)), Err(NotSigned::Wrong));
    }

    #[test]
    fn what_is_not_written_as_a_signature_is_none() {
        let scheme = scheme(Encoding::Hex, "sha256=", "", false);
        let secrets = [SecretString::from(SECRET)];
        for value in
            ["", SIGNATURE, "sha256=", "sha256=7", "sha256=zz", "sha1=757107ea", &format!("sha256={SIGNATURE}0")]
        {
            let refused = scheme.verify(&secrets, &headers(&[("x-signature", value)]), BODY, at(0)).unwrap_err();
            assert!(matches!(refused, NotSigned::Missing | NotSigned::Wrong), "{value}: {refused}");
        }
        assert_eq!(scheme.verify(&secrets, &HeaderMap::new(), BODY, at(0)), Err(NotSigned::Missing));
        let mut twice = headers(&[("x-signature", &format!("sha256={SIGNATURE}"))]);
        twice.append("x-signature", "sha256=00".parse().unwrap());
        assert_eq!(scheme.verify(&secrets, &twice, BODY, at(0)), Err(NotSigned::Missing));
    }

    #[test]
    fn a_timestamp_is_signed_too_and_bounds_how_long_a_copy_is_of_use() {
        let scheme = scheme(Encoding::Base64, "", "v0:{timestamp}:", true);
        let secrets = [SecretString::from("s3cret")];
        let mut mac = Hmac::<Sha256>::new_from_slice(b"s3cret").unwrap();
        mac.update(b"v0:1000:");
        mac.update(BODY);
        let signature = STANDARD.encode(mac.finalize().into_bytes());
        let told = |stamp: &str| headers(&[("x-signature", &signature), ("x-timestamp", stamp)]);
        for (stamp, now, expected) in [
            ("1000", 1000, Ok(None)),
            ("1000", 1300, Ok(None)),
            ("1000", 700, Ok(None)),
            ("1000", 1301, Err(NotSigned::Stale)),
            ("1000", 699, Err(NotSigned::Stale)),
            ("1001", 1001, Err(NotSigned::Wrong)),
            ("soon", 1000, Err(NotSigned::Missing)),
            ("", 1000, Err(NotSigned::Missing)),
        ] {
            assert_eq!(scheme.verify(&secrets, &told(stamp), BODY, at(now)), expected, "{stamp} {now}");
        }
        let unstamped = headers(&[("x-signature", &signature)]);
        assert_eq!(scheme.verify(&secrets, &unstamped, BODY, at(1000)), Err(NotSigned::Missing));
    }
}
