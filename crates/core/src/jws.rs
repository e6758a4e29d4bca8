//! Signed tokens (RFC 7515) and the public keys that prove them (RFC 7517, 7518): pure.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};
use serde::Deserialize;
use serde_json::Value;

/// No token is longer.
const LONGEST_BYTES: usize = 32 * 1024;

/// A public key, by which signatures are verified.
#[derive(Clone, Debug)]
pub struct PublicKey {
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

/// Why a token is signed by nobody whom we know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSigned {
    /// It is no token.
    Garbled,
    /// Signed in a way that proves nothing to us, or not at all.
    Algorithm,
    /// By a key that is not in the set, which may be older than the key.
    NoKey,
    /// The signature is another's, or of something else.
    Wrong,
}

#[derive(Deserialize)]
struct Head {
    alg: String,
    kid: Option<String>,
    /// Extensions that have to be understood (RFC 7515 section 4.1.11): we know none.
    crit: Option<Value>,
}

impl PublicKey {
    /// The keys of a set that signatures are verified with; others are left out. `None`: it is no set.
    pub fn set(document: &Value) -> Option<Vec<Self>> {
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

/// The payload of a token that one of the keys has signed, with one of `algorithms` where any are named.
pub fn signed(token: &str, keys: &[PublicKey], algorithms: &[&str]) -> Result<Vec<u8>, NotSigned> {
    if token.len() > LONGEST_BYTES {
        return Err(NotSigned::Garbled);
    }
    let (message, told) = token.rsplit_once('.').ok_or(NotSigned::Garbled)?;
    let (head, claims) = message.split_once('.').ok_or(NotSigned::Garbled)?;
    let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| NotSigned::Garbled);
    let head: Head = serde_json::from_slice(&decode(head)?).map_err(|_| NotSigned::Garbled)?;
    let (claims, told) = (decode(claims)?, decode(told)?);
    let wanted = algorithms.is_empty() || algorithms.contains(&head.alg.as_str());
    if !wanted || head.crit.is_some() || rsa(&head.alg).is_none() && ec(&head.alg).is_none() {
        return Err(NotSigned::Algorithm);
    }
    let named = |key: &&PublicKey| head.kid.is_none() || key.kid.is_none() || key.kid == head.kid;
    let mut fitting = keys.iter().filter(named).filter(|key| key.fits(&head.alg)).peekable();
    if fitting.peek().is_none() {
        return Err(NotSigned::NoKey);
    }
    if fitting.any(|key| key.has_signed(&head.alg, message.as_bytes(), &told)) {
        Ok(claims)
    } else {
        Err(NotSigned::Wrong)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The example of RFC 7515, appendix A.2.
    const TOKEN: &str = "eyJhbGciOiJSUzI1NiJ9.\
        eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.\
        cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZ\
        cAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-e\
        OkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
    const N: &str = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SF\
        d2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2Ca\
        pHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRW\
        yuXpoQ";

    fn keys(kid: &str) -> Vec<PublicKey> {
        let set =
            json!({ "keys": [{ "kty": "RSA", "kid": kid, "n": N, "e": "AQAB" }, { "kty": "oct", "k": "c2VjcmV0" }] });
        PublicKey::set(&set).unwrap()
    }

    #[test]
    fn the_standards_own_example_is_verified_and_nothing_near_it() {
        let claims = signed(TOKEN, &keys("any"), &[]).unwrap();
        assert!(claims.starts_with(br#"{"iss":"joe""#));
        assert_eq!(signed(TOKEN, &keys("any"), &["ES256"]), Err(NotSigned::Algorithm));
        assert_eq!(signed(TOKEN, &[], &[]), Err(NotSigned::NoKey));
        let mut changed = TOKEN.to_owned();
        changed.replace_range(30..31, "X");
        assert_eq!(signed(&changed, &keys("any"), &[]), Err(NotSigned::Wrong));
        // {"alg":"none"} and {"alg":"HS256"}
        for head in ["eyJhbGciOiJub25lIn0", "eyJhbGciOiJIUzI1NiJ9"] {
            let other = TOKEN.replace("eyJhbGciOiJSUzI1NiJ9", head);
            assert_eq!(signed(&other, &keys("any"), &[]), Err(NotSigned::Algorithm));
        }
        for text in ["", ".", "..", "a.b.c", &TOKEN[..40]] {
            assert_eq!(signed(text, &keys("any"), &[]), Err(NotSigned::Garbled), "{text}");
        }
    }

    #[test]
    fn a_key_that_a_token_names_is_the_only_one_that_proves_it() {
        // {"alg":"RS256","kid":"k1"}
        let named = TOKEN.replace("eyJhbGciOiJSUzI1NiJ9", "eyJhbGciOiJSUzI1NiIsImtpZCI6ImsxIn0");
        assert_eq!(signed(&named, &keys("k2"), &[]), Err(NotSigned::NoKey));
        assert_eq!(signed(&named, &keys("k1"), &[]), Err(NotSigned::Wrong), "it was signed without the name");
    }
}
