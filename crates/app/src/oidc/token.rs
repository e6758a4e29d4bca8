//! ID tokens (OpenID Connect Core 1.0, section 3.1.3.7): pure.

use holdfast_core::jws::{self, NotSigned, PublicKey};
use serde::Deserialize;
use serde_json::Value;
use subtle::ConstantTimeEq;

/// How far the provider's clock may be from ours.
const SKEW_SECS: i64 = 60;

/// What a token has to say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected<'a> {
    pub(super) issuer: &'a str,
    pub(super) client_id: &'a str,
    pub(super) nonce: &'a str,
    /// Now, in seconds since 1970.
    pub(super) now: i64,
}

/// Why a token says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bad {
    NotSigned(NotSigned),
    /// It is signed, and its claims make no sense.
    Garbled,
    Issuer,
    Audience,
    Nonce,
    /// It is over, or begins later: the clocks differ, or it lay somewhere.
    Time,
}

/// What a token says of somebody.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Claims {
    iss: String,
    pub(super) sub: String,
    aud: Audience,
    azp: Option<String>,
    exp: f64,
    iat: f64,
    nonce: Option<String>,
    #[serde(flatten)]
    pub(super) about: About,
}

/// What a token or the userinfo endpoint says of their address and name.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct About {
    pub(super) email: Option<String>,
    /// Some providers send a text.
    #[serde(default)]
    email_verified: Value,
    pub(super) name: Option<String>,
}

impl About {
    /// Else the userinfo endpoint may.
    pub(super) fn says_whether_verified(&self) -> bool {
        !self.email_verified.is_null()
    }

    pub(super) fn is_verified(&self) -> bool {
        self.email_verified == Value::Bool(true) || self.email_verified == "true"
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

impl Audience {
    fn all(&self) -> &[String] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

/// What a token says, if one of these keys has signed it, for us, now, and for this very sign-in.
pub(super) fn verify(token: &str, keys: &[PublicKey], expected: &Expected<'_>) -> Result<Claims, Bad> {
    let claims = jws::signed(token, keys, &[]).map_err(Bad::NotSigned)?;
    let claims: Claims = serde_json::from_slice(&claims).map_err(|_| Bad::Garbled)?;
    if claims.iss != expected.issuer {
        return Err(Bad::Issuer);
    }
    let all = claims.aud.all();
    let ours = all.iter().any(|one| one == expected.client_id);
    let party = claims.azp.as_deref();
    let by_us = party.map_or(all.len() == 1, |party| party == expected.client_id);
    if !ours || !by_us || claims.sub.is_empty() {
        return Err(Bad::Audience);
    }
    let nonce = claims.nonce.as_deref().unwrap_or_default();
    if !bool::from(nonce.as_bytes().ct_eq(expected.nonce.as_bytes())) {
        return Err(Bad::Nonce);
    }
    #[expect(clippy::cast_precision_loss, reason = "moments are far from 2^53")]
    let (early, late) = ((expected.now - SKEW_SECS) as f64, (expected.now + SKEW_SECS) as f64);
    if claims.exp <= early || claims.iat > late {
        return Err(Bad::Time);
    }
    Ok(claims)
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    use ring::{
        rand::SystemRandom,
        signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
    };
    use serde_json::json;

    use super::*;

    const NOW: i64 = 1_800_000_000;
    const EXPECTED: Expected<'_> =
        Expected { issuer: "https://id.example", client_id: "holdfast", nonce: "n-1", now: NOW };

    struct Signer(EcdsaKeyPair);

    impl Signer {
        fn new() -> Self {
            let random = SystemRandom::new();
            let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
            Self(EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.as_ref(), &random).unwrap())
        }

        fn keys(&self, kid: &str) -> Vec<PublicKey> {
            let point = self.0.public_key().as_ref();
            let part = |from: usize| URL_SAFE_NO_PAD.encode(&point[from..from + 32]);
            let key = json!({ "kty": "EC", "crv": "P-256", "kid": kid, "x": part(1), "y": part(33) });
            PublicKey::set(&json!({ "keys": [key, { "kty": "oct", "k": "c2VjcmV0" }] })).unwrap()
        }

        fn token(&self, head: &Value, claims: &Value) -> String {
            let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
            let message = format!("{}.{}", part(head), part(claims));
            let told = self.0.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
            format!("{message}.{}", URL_SAFE_NO_PAD.encode(told))
        }
    }

    fn claims() -> Value {
        json!({
            "iss": "https://id.example", "sub": "user-1", "aud": "holdfast", "nonce": "n-1", "exp": NOW + 300,
            "iat": NOW, "email": "ada@example.com", "email_verified": true,
        })
    }

    #[test]
    fn a_token_says_something_only_where_all_of_it_is_right() {
        let signer = Signer::new();
        let (keys, head) = (signer.keys("k1"), json!({ "alg": "ES256", "kid": "k1" }));
        let verified = verify(&signer.token(&head, &claims()), &keys, &EXPECTED).unwrap();
        assert_eq!((verified.sub.as_str(), verified.about.is_verified()), ("user-1", true));
        for (change, bad) in [
            (json!({ "iss": "https://id.example/" }), Bad::Issuer),
            (json!({ "aud": "other" }), Bad::Audience),
            (json!({ "aud": ["holdfast", "other"] }), Bad::Audience),
            (json!({ "aud": ["holdfast", "other"], "azp": "other" }), Bad::Audience),
            (json!({ "azp": "other" }), Bad::Audience),
            (json!({ "sub": "" }), Bad::Audience),
            (json!({ "nonce": "n-2" }), Bad::Nonce),
            (json!({ "nonce": null }), Bad::Nonce),
            (json!({ "exp": NOW - 60 }), Bad::Time),
            (json!({ "iat": NOW + 61 }), Bad::Time),
            (json!({ "exp": null }), Bad::Garbled),
        ] {
            let mut changed = claims();
            changed.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            let told = verify(&signer.token(&head, &changed), &keys, &EXPECTED).unwrap_err();
            assert_eq!(told, bad, "{change}");
        }
        for change in [json!({ "aud": ["holdfast"] }), json!({ "aud": ["x", "holdfast"], "azp": "holdfast" })] {
            let mut changed = claims();
            changed.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            assert!(verify(&signer.token(&head, &changed), &keys, &EXPECTED).is_ok(), "{change}");
        }
    }

    #[test]
    fn only_a_key_of_the_set_signs_and_only_asymmetrically() {
        let (signer, stranger) = (Signer::new(), Signer::new());
        let keys = signer.keys("k1");
        let head = |alg: &str, kid: &str| json!({ "alg": alg, "kid": kid });
        for (by, head, bad) in [
            (&stranger, head("ES256", "k1"), NotSigned::Wrong),
            (&signer, head("ES256", "k2"), NotSigned::NoKey),
            (&signer, head("RS256", "k1"), NotSigned::NoKey),
            (&signer, head("ES384", "k1"), NotSigned::NoKey),
            (&signer, head("HS256", "k1"), NotSigned::Algorithm),
            (&signer, head("none", "k1"), NotSigned::Algorithm),
            (&signer, json!({ "alg": "ES256", "kid": "k1", "crit": ["x"] }), NotSigned::Algorithm),
        ] {
            assert_eq!(
                verify(&by.token(&head, &claims()), &keys, &EXPECTED).unwrap_err(),
                Bad::NotSigned(bad),
                "{head}"
            );
        }
        let none = format!("{}..", URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#));
        for text in ["", ".", "..", "a.b.c", none.as_str()] {
            let told = verify(text, &keys, &EXPECTED).unwrap_err();
            assert!(matches!(told, Bad::NotSigned(NotSigned::Garbled | NotSigned::Algorithm)), "{text}: {told:?}");
        }
        // Without a name, the one that fits has to have signed it.
        assert!(verify(&signer.token(&json!({ "alg": "ES256" }), &claims()), &keys, &EXPECTED).is_ok());
    }
}
