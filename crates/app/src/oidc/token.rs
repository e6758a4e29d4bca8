//! ID tokens (OpenID Connect Core 1.0, section 3.1.3.7; RFC 7515, 7517, 7518): pure.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};
use serde::Deserialize;
use serde_json::Value;
use subtle::ConstantTimeEq;

/// How far the provider's clock may be from ours.
const SKEW_SECS: i64 = 60;
/// No token of theirs is longer.
const LONGEST_BYTES: usize = 32 * 1024;

/// A public key of the provider's.
#[derive(Clone, Debug)]
pub(super) struct Key {
    kid: Option<String>,
    /// The one algorithm that it is for, where it says so.
    alg: Option<String>,
    material: Material,
}

#[derive(Clone, Debug)]
enum Material {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// The curve's name, and the point uncompressed.
    Ec {
        curve: String,
        point: Vec<u8>,
    },
}

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
    /// It is none.
    Garbled,
    /// Signed in a way that proves nothing to us, or not at all.
    Algorithm,
    /// By a key that is not in the set, which may be older than the key.
    NoKey,
    Signature,
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

#[derive(Deserialize)]
struct Head {
    alg: String,
    kid: Option<String>,
    /// Extensions that have to be understood (RFC 7515 section 4.1.11): we know none.
    crit: Option<Value>,
}

impl Key {
    /// The keys of a set that signatures are verified with; others are left out. `None`: it is no set.
    pub(super) fn set(document: &Value) -> Option<Vec<Self>> {
        Some(document.get("keys")?.as_array()?.iter().filter_map(Self::read).collect())
    }

    fn read(key: &Value) -> Option<Self> {
        let text = |name: &str| key.get(name).and_then(Value::as_str);
        let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?).ok();
        if text("use").is_some_and(|used| used != "sig") {
            return None;
        }
        let material = match text("kty")? {
            "RSA" => {
                let n = bytes("n")?.into_iter().skip_while(|byte| *byte == 0).collect();
                Material::Rsa { n, e: bytes("e")? }
            }
            "EC" => {
                let point = [vec![4], bytes("x")?, bytes("y")?].concat();
                Material::Ec { curve: text("crv")?.to_owned(), point }
            }
            _ => return None,
        };
        Some(Self { kid: text("kid").map(str::to_owned), alg: text("alg").map(str::to_owned), material })
    }

    /// Whether it is meant for this algorithm.
    fn fits(&self, alg: &str) -> bool {
        let kind = match &self.material {
            Material::Rsa { .. } => rsa(alg).is_some(),
            Material::Ec { curve, .. } => ec(alg).is_some_and(|(of, _)| of == curve),
        };
        kind && self.alg.as_deref().is_none_or(|own| own == alg)
    }

    fn has_signed(&self, alg: &str, message: &[u8], told: &[u8]) -> bool {
        match &self.material {
            Material::Rsa { n, e } => rsa(alg)
                .is_some_and(|parameters| RsaPublicKeyComponents { n, e }.verify(parameters, message, told).is_ok()),
            Material::Ec { point, .. } => ec(alg)
                .is_some_and(|(_, algorithm)| UnparsedPublicKey::new(algorithm, point).verify(message, told).is_ok()),
        }
    }
}

/// Asymmetric ones alone: a secret that two know proves nothing, and `none` even less.
fn rsa(alg: &str) -> Option<&'static RsaParameters> {
    Some(match alg {
        "RS256" => &signature::RSA_PKCS1_2048_8192_SHA256,
        "RS384" => &signature::RSA_PKCS1_2048_8192_SHA384,
        "RS512" => &signature::RSA_PKCS1_2048_8192_SHA512,
        "PS256" => &signature::RSA_PSS_2048_8192_SHA256,
        "PS384" => &signature::RSA_PSS_2048_8192_SHA384,
        "PS512" => &signature::RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

fn ec(alg: &str) -> Option<(&'static str, &'static dyn VerificationAlgorithm)> {
    match alg {
        "ES256" => Some(("P-256", &signature::ECDSA_P256_SHA256_FIXED)),
        "ES384" => Some(("P-384", &signature::ECDSA_P384_SHA384_FIXED)),
        _ => None,
    }
}

/// What a token says, if one of these keys has signed it, for us, now, and for this very sign-in.
pub(super) fn verify(token: &str, keys: &[Key], expected: &Expected<'_>) -> Result<Claims, Bad> {
    let claims = signed(token, keys)?;
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

/// The claims of a token that one of the keys has signed.
fn signed(token: &str, keys: &[Key]) -> Result<Vec<u8>, Bad> {
    if token.len() > LONGEST_BYTES {
        return Err(Bad::Garbled);
    }
    let (message, told) = token.rsplit_once('.').ok_or(Bad::Garbled)?;
    let (head, claims) = message.split_once('.').ok_or(Bad::Garbled)?;
    let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| Bad::Garbled);
    let head: Head = serde_json::from_slice(&decode(head)?).map_err(|_| Bad::Garbled)?;
    let (claims, told) = (decode(claims)?, decode(told)?);
    if head.crit.is_some() || rsa(&head.alg).is_none() && ec(&head.alg).is_none() {
        return Err(Bad::Algorithm);
    }
    let named = |key: &&Key| head.kid.is_none() || key.kid.is_none() || key.kid == head.kid;
    let mut fitting = keys.iter().filter(named).filter(|key| key.fits(&head.alg)).peekable();
    if fitting.peek().is_none() {
        return Err(Bad::NoKey);
    }
    if fitting.any(|key| key.has_signed(&head.alg, message.as_bytes(), &told)) {
        Ok(claims)
    } else {
        Err(Bad::Signature)
    }
}

#[cfg(test)]
mod tests {
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

        fn keys(&self, kid: &str) -> Vec<Key> {
            let point = self.0.public_key().as_ref();
            let part = |from: usize| URL_SAFE_NO_PAD.encode(&point[from..from + 32]);
            let key = json!({ "kty": "EC", "crv": "P-256", "kid": kid, "x": part(1), "y": part(33) });
            Key::set(&json!({ "keys": [key, { "kty": "oct", "k": "c2VjcmV0" }] })).unwrap()
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
            (&stranger, head("ES256", "k1"), Bad::Signature),
            (&signer, head("ES256", "k2"), Bad::NoKey),
            (&signer, head("RS256", "k1"), Bad::NoKey),
            (&signer, head("ES384", "k1"), Bad::NoKey),
            (&signer, head("HS256", "k1"), Bad::Algorithm),
            (&signer, head("none", "k1"), Bad::Algorithm),
            (&signer, json!({ "alg": "ES256", "kid": "k1", "crit": ["x"] }), Bad::Algorithm),
        ] {
            assert_eq!(verify(&by.token(&head, &claims()), &keys, &EXPECTED).unwrap_err(), bad, "{head}");
        }
        let none = format!("{}..", URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#));
        for text in ["", ".", "..", "a.b.c", none.as_str()] {
            let told = verify(text, &keys, &EXPECTED).unwrap_err();
            assert!(matches!(told, Bad::Garbled | Bad::Algorithm), "{text}: {told:?}");
        }
        // Without a name, the one that fits has to have signed it.
        assert!(verify(&signer.token(&json!({ "alg": "ES256" }), &claims()), &keys, &EXPECTED).is_ok());
    }
}
