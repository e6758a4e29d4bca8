//! HMACs over a text that holds the raw body: how one provider signs, as data, and the one function that tells a signature
//! from a forgery.

use std::{borrow::Cow, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use chrono::DateTime;
use hmac::{Hmac, KeyInit, Mac};
use http::HeaderName;
use sha1::Sha1;
use sha2::Sha256;

use super::{Delivery, NotProven, Proofs};

/// How deliveries are signed.
#[derive(Clone, Debug)]
pub struct Signature {
    /// What carries it.
    pub header: HeaderName,
    /// Of the HMAC.
    pub algorithm: Algorithm,
    /// How it is written.
    pub encoding: Encoding,
    /// Before the signature: `sha256=`.
    pub prefix: Cow<'static, str>,
    /// What stands before the body in what is signed; `{timestamp}` and `{id}` stand for what those headers say.
    pub before: Cow<'static, str>,
    /// When it was signed; it has to stand in `before`.
    pub stamp: Option<Stamp>,
    /// What `{id}` stands for: an id that is signed too.
    pub id: Option<HeaderName>,
    /// What is signed in the place of an empty body.
    pub no_body: Cow<'static, str>,
}

/// When a delivery was signed.
#[derive(Clone, Debug)]
pub struct Stamp {
    /// What carries it.
    pub header: HeaderName,
    /// How it is written.
    pub unit: StampUnit,
    /// How far it may be from our clock, either way.
    pub tolerance: Duration,
}

/// How a moment is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampUnit {
    /// Since 1970.
    Seconds,
    /// Since 1970.
    Millis,
    /// RFC 3339.
    Text,
}

/// Of an HMAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// HMAC-SHA256.
    Sha256,
    /// HMAC-SHA1, of old.
    Sha1,
}

/// How a signature is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Small or large.
    Hex,
    /// The standard alphabet, with padding.
    Base64,
}

impl Signature {
    /// HMAC-SHA256 over the body alone.
    pub const fn of_body(header: HeaderName, encoding: Encoding) -> Self {
        Self {
            header,
            algorithm: Algorithm::Sha256,
            encoding,
            prefix: Cow::Borrowed(""),
            before: Cow::Borrowed(""),
            stamp: None,
            id: None,
            no_body: Cow::Borrowed(""),
        }
    }

    /// Whether one of the secrets signed these bytes, in constant time.
    pub fn verify(&self, proofs: &Proofs<'_>, delivery: &Delivery<'_>) -> Result<(), NotProven> {
        let secrets = proofs.secrets()?;
        let told = delivery.header(&self.header).and_then(|text| text.strip_prefix(self.prefix.as_ref()));
        let told = told.and_then(|text| self.encoding.read(text)).ok_or(NotProven::Missing)?;
        let mut before = self.before.clone();
        if let Some(stamp) = &self.stamp {
            let text = delivery.header(&stamp.header).ok_or(NotProven::Missing)?;
            let at = stamp.unit.read(text).ok_or(NotProven::Missing)?;
            if at.abs_diff(delivery.now.timestamp_millis()) > stamp.tolerance.as_millis().try_into().unwrap_or(u64::MAX)
            {
                return Err(NotProven::Stale);
            }
            before = before.replace("{timestamp}", text).into();
        }
        if let Some(id) = &self.id {
            before = before.replace("{id}", delivery.header(id).ok_or(NotProven::Missing)?).into();
        }
        let body = if delivery.body.is_empty() { self.no_body.as_bytes() } else { delivery.body };
        let signed = [before.as_bytes(), body];
        // Each of them is tried, so that time tells nothing.
        let proven = secrets.iter().fold(false, |proven, secret| proven | self.algorithm.is(secret, signed, &told));
        if proven { Ok(()) } else { Err(NotProven::Wrong) }
    }
}

impl Algorithm {
    fn is(self, secret: &[u8], signed: [&[u8]; 2], told: &[u8]) -> bool {
        match self {
            Self::Sha256 => is::<Hmac<Sha256>>(secret, signed, told),
            Self::Sha1 => is::<Hmac<Sha1>>(secret, signed, told),
        }
    }
}

fn is<M: Mac + KeyInit>(secret: &[u8], signed: [&[u8]; 2], told: &[u8]) -> bool {
    let mut mac = <M as KeyInit>::new_from_slice(secret).expect("HMAC takes a key of any length");
    for part in signed {
        mac.update(part);
    }
    mac.verify_slice(told).is_ok()
}

impl StampUnit {
    /// In milliseconds since 1970.
    fn read(self, text: &str) -> Option<i64> {
        match self {
            Self::Seconds => text.parse::<i64>().ok()?.checked_mul(1000),
            Self::Millis => text.parse().ok(),
            Self::Text => DateTime::parse_from_rfc3339(text).ok().map(|at| at.timestamp_millis()),
        }
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
    use chrono::Utc;
    use http::{HeaderMap, Method};
    use secrecy::SecretString;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let header = |(name, value): &(&'static str, &str)| {
            let value = http::HeaderValue::from_bytes(value.as_bytes()).unwrap();
            (HeaderName::from_static(name), value)
        };
        pairs.iter().map(header).collect()
    }

    fn check(
        scheme: &Signature,
        secrets: &[&str],
        headers: &HeaderMap,
        body: &[u8],
        now_secs: i64,
    ) -> Result<(), NotProven> {
        let secrets: Vec<SecretString> = secrets.iter().map(|secret| SecretString::from(*secret)).collect();
        let proofs = Proofs { secrets: &secrets, keys: &[], url: "https://holdfast.example.com/hooks/hook_1" };
        let now = DateTime::<Utc>::from_timestamp(now_secs, 0).unwrap();
        scheme.verify(&proofs, &Delivery { method: &Method::POST, query: None, headers, body, now })
    }

    fn github() -> Signature {
        Signature {
            prefix: Cow::Borrowed("sha256="),
            ..Signature::of_body(HeaderName::from_static("x-hub-signature-256"), Encoding::Hex)
        }
    }

    fn slack() -> Signature {
        Signature {
            prefix: Cow::Borrowed("v0="),
            before: Cow::Borrowed("v0:{timestamp}:"),
            stamp: Some(Stamp {
                header: HeaderName::from_static("x-slack-request-timestamp"),
                unit: StampUnit::Seconds,
                tolerance: Duration::from_mins(5),
            }),
            ..Signature::of_body(HeaderName::from_static("x-slack-signature"), Encoding::Hex)
        }
    }

    const BODY: &[u8] = b"Hello, World!";
    /// The example of GitHub's documentation: its secret, its body, its signature.
    /// <https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries>
    const SECRET: &str = "It's a Secret to Everybody";
    const SIGNATURE: &str = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

    #[test]
    fn the_example_of_a_provider_is_verified_with_either_of_two_secrets() {
        let told = headers(&[("x-hub-signature-256", &format!("sha256={SIGNATURE}"))]);
        for secrets in [&[SECRET, "next"][..], &["next", SECRET], &["", SECRET]] {
            assert_eq!(check(&github(), secrets, &told, BODY, 0), Ok(()));
        }
        assert_eq!(check(&github(), &["next"], &told, BODY, 0), Err(NotProven::Wrong));
        assert_eq!(check(&github(), &[SECRET], &told, b"Hello, World?", 0), Err(NotProven::Wrong));
    }

    /// WV-05: neither without a secret nor with an empty one is anything verified, however it is signed.
    #[test]
    fn nothing_is_verified_with_an_empty_secret() {
        let mac = Hmac::<Sha256>::new_from_slice(b"").unwrap().chain_update(BODY).finalize().into_bytes();
        let hex = crate::credential::hex(&mac);
        for told in [HeaderMap::new(), headers(&[("x-hub-signature-256", &format!("sha256={hex}"))])] {
            for secrets in [&[][..], &[""], &["", ""]] {
                assert_eq!(check(&github(), secrets, &told, BODY, 0), Err(NotProven::NoSecret));
            }
        }
    }

    /// WV-03: what is not written as the definition says is no signature; no text at all is any trouble.
    #[test]
    fn what_is_not_written_as_a_signature_is_none() {
        let upper = format!("sha256={}", SIGNATURE.to_uppercase());
        for value in [&upper, &format!("  sha256={SIGNATURE} ")] {
            assert_eq!(check(&github(), &[SECRET], &headers(&[("x-hub-signature-256", value)]), BODY, 0), Ok(()));
        }
        let accented = format!("sha256={}é", &SIGNATURE[..63]);
        let tail = format!("sha256={SIGNATURE}0");
        for value in ["", SIGNATURE, "sha256=", "sha256=7", "sha256=zz", "sha1=757107ea", &accented, &tail] {
            let refused =
                check(&github(), &[SECRET], &headers(&[("x-hub-signature-256", value)]), BODY, 0).unwrap_err();
            assert!(matches!(refused, NotProven::Missing | NotProven::Wrong), "{value}: {refused}");
        }
        let mut twice = headers(&[("x-hub-signature-256", &format!("sha256={SIGNATURE}"))]);
        twice.append("x-hub-signature-256", "sha256=00".parse().unwrap());
        assert_eq!(check(&github(), &[SECRET], &twice, BODY, 0), Err(NotProven::Missing));

        let base64 = Signature::of_body(HeaderName::from_static("x-signature"), Encoding::Base64);
        let mac = Hmac::<Sha256>::new_from_slice(b"k11").unwrap().chain_update(BODY).finalize().into_bytes();
        let standard = STANDARD.encode(mac);
        let url_safe = standard.replace('+', "-").replace('/', "_");
        assert_ne!(standard, url_safe, "the example has a letter that differs");
        for (value, expected) in [
            (format!(" {standard} "), Ok(())),
            (url_safe, Err(NotProven::Missing)),
            (standard.trim_end_matches('=').to_owned(), Err(NotProven::Missing)),
        ] {
            assert_eq!(check(&base64, &["k11"], &headers(&[("x-signature", &value)]), BODY, 0), expected, "{value}");
        }
    }

    /// WV-01: the bytes as they came are signed, a form like anything else. Timestamp, body and signature are those of
    /// <https://docs.slack.dev/authentication/verifying-requests-from-slack>.
    #[test]
    fn a_form_is_verified_as_it_came_within_the_tolerance_of_its_timestamp() {
        let body = b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V\
            &channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=\
            &response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN\
            &trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
        let signature = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";
        let secret = &["8f742231b10e8888abcd99yyyzzz85a5"];
        let told = |stamp: &str| headers(&[("x-slack-signature", signature), ("x-slack-request-timestamp", stamp)]);
        let at = 1_531_420_618;
        for (stamp, now, expected) in [
            ("1531420618", at, Ok(())),
            ("1531420618", at + 300, Ok(())),
            ("1531420618", at - 300, Ok(())),
            ("1531420618", at + 301, Err(NotProven::Stale)),
            ("1531420618", at - 301, Err(NotProven::Stale)),
            ("1531420619", at, Err(NotProven::Wrong)),
            ("soon", at, Err(NotProven::Missing)),
            ("9223372036854775807", at, Err(NotProven::Missing)),
            ("", at, Err(NotProven::Missing)),
        ] {
            assert_eq!(check(&slack(), secret, &told(stamp), body, now), expected, "{stamp} {now}");
        }
        let unstamped = headers(&[("x-slack-signature", signature)]);
        assert_eq!(check(&slack(), secret, &unstamped, body, at), Err(NotProven::Missing));
        let decoded = String::from_utf8_lossy(body).replace("%2F", "/");
        assert_eq!(check(&slack(), secret, &told("1531420618"), decoded.as_bytes(), at), Err(NotProven::Wrong));
    }

    /// WV-04: where the id is signed it may be trusted, and where it is not it is not looked at here.
    #[test]
    fn an_id_that_is_signed_cannot_be_changed() {
        let scheme = Signature {
            before: Cow::Borrowed("{id}.{timestamp}."),
            stamp: Some(Stamp {
                header: HeaderName::from_static("webhook-timestamp"),
                unit: StampUnit::Seconds,
                tolerance: Duration::from_mins(5),
            }),
            id: Some(HeaderName::from_static("webhook-id")),
            ..Signature::of_body(HeaderName::from_static("webhook-signature"), Encoding::Base64)
        };
        let mut mac = Hmac::<Sha256>::new_from_slice(b"s3cret").unwrap();
        mac.update(b"msg_1.1000.Hello, World!");
        let signature = STANDARD.encode(mac.finalize().into_bytes());
        let told = |id| {
            headers(&[("webhook-signature", signature.as_str()), ("webhook-timestamp", "1000"), ("webhook-id", id)])
        };
        assert_eq!(check(&scheme, &["s3cret"], &told("msg_1"), BODY, 1000), Ok(()));
        assert_eq!(check(&scheme, &["s3cret"], &told("msg_2"), BODY, 1000), Err(NotProven::Wrong));
    }
}
