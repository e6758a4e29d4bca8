//! The token of a Pub/Sub delivery: signed by Google with RS256 (RFC 7518 section 3.3), for our address, in the name of the
//! service account that the subscription was made with.
//! <https://cloud.google.com/pubsub/docs/authenticate-push-subscriptions>

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use holdfast_core::webhook::{Delivery, NotProven, Proofs, PublicKey};
use http::header;
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents};
use serde::Deserialize;

/// How far Google's clock may be from ours.
const SKEW_SECS: i64 = 60;
/// No token of theirs is longer.
const LONGEST_BYTES: usize = 8 * 1024;

#[derive(Deserialize)]
struct Head {
    alg: String,
    #[serde(default)]
    kid: Option<String>,
}

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
    let told = told.filter(|(scheme, token)| scheme.eq_ignore_ascii_case("bearer") && token.len() <= LONGEST_BYTES);
    let (_, token) = told.ok_or(NotProven::Missing)?;
    proofs.secrets()?;
    let claims = signed(token.trim(), proofs.keys)?;
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

/// The claims of a token that one of the keys has signed.
fn signed(token: &str, keys: &[PublicKey]) -> Result<Vec<u8>, NotProven> {
    let (message, signature) = token.rsplit_once('.').ok_or(NotProven::Missing)?;
    let (head, claims) = message.split_once('.').ok_or(NotProven::Missing)?;
    let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| NotProven::Missing);
    let head: Head = serde_json::from_slice(&decode(head)?).map_err(|_| NotProven::Missing)?;
    let (claims, signature) = (decode(claims)?, decode(signature)?);
    // Whatever else a token says about how it is signed: this is how Google signs.
    if head.alg != "RS256" {
        return Err(NotProven::Wrong);
    }
    let kid = head.kid.as_deref().unwrap_or_default();
    let key = keys.iter().find(|key| key.kid == kid).ok_or(NotProven::NoKey)?;
    let public = RsaPublicKeyComponents { n: &key.n, e: &key.e };
    let good = public.verify(&RSA_PKCS1_2048_8192_SHA256, message.as_bytes(), &signature);
    good.map_err(|_| NotProven::Wrong)?;
    Ok(claims)
}

#[cfg(test)]
mod tests {
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
        vec![PublicKey { kid: kid.to_owned(), n: URL_SAFE_NO_PAD.decode(N).unwrap(), e: vec![1, 0, 1] }]
    }

    #[test]
    fn the_standards_own_example_is_verified_and_nothing_near_it() {
        let claims = signed(TOKEN, &keys("")).unwrap();
        assert!(claims.starts_with(br#"{"iss":"joe""#));
        assert_eq!(signed(TOKEN, &keys("other")), Err(NotProven::NoKey));
        let mut changed = TOKEN.to_owned();
        changed.replace_range(30..31, "X");
        assert_eq!(signed(&changed, &keys("")), Err(NotProven::Wrong));
        // {"alg":"none"} and {"alg":"HS256"}
        for head in ["eyJhbGciOiJub25lIn0", "eyJhbGciOiJIUzI1NiJ9"] {
            let other = TOKEN.replace("eyJhbGciOiJSUzI1NiJ9", head);
            assert_eq!(signed(&other, &keys("")), Err(NotProven::Wrong));
        }
        for text in ["", ".", "..", "a.b.c", &TOKEN[..40]] {
            assert_eq!(signed(text, &keys("")), Err(NotProven::Missing), "{text}");
        }
    }
}
