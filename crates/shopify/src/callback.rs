//! What Shopify's way back proves: it is signed with the OAuth app's secret, and names the shop.
//!
//! <https://shopify.dev/docs/apps/build/authentication-authorization/access-tokens/authorization-code-grant>

use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;
use url::form_urlencoded;

/// Never signed: the signature itself, and the one of before 2015.
const UNSIGNED: [&str; 2] = ["hmac", "signature"];
/// Each of these comes once.
const ONCE: [&str; 5] = ["code", "hmac", "shop", "state", "timestamp"];

/// The shop's domain that a callback names, if the callback is signed with one of these secrets. Any of two secrets is
/// right while the app's is changed: Shopify may take an hour to sign with the new one.
///
/// `timestamp` has to be there, and is not held against a clock: the state is single-use and over in minutes, so that
/// a callback of before buys nothing, and a clock that is off by two minutes breaks nothing.
pub(crate) fn signed_shop<'a>(
    query: &'a [(String, String)],
    secrets: &[SecretString],
) -> Result<&'a str, &'static str> {
    let of = |name: &'static str| query.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str());
    for name in ONCE {
        let mut values = of(name);
        if values.next().is_none_or(str::is_empty) {
            return Err("a parameter that Shopify always sends is missing");
        }
        if values.next().is_some() {
            return Err("a parameter that comes once came twice");
        }
    }
    let claimed = of("hmac").next().and_then(bytes).ok_or("its hmac is no SHA-256 digest in hexadecimal")?;
    let message = message(query);
    // All secrets are tried, so that the time does not tell which one it was.
    let mut good = false;
    for secret in secrets {
        let mac = Hmac::<Sha256>::new_from_slice(secret.expose_secret().as_bytes());
        let mac = mac.expect("a key of any length is taken").chain_update(message.as_bytes());
        // Constant time.
        good |= mac.verify_slice(&claimed).is_ok();
    }
    let timestamp = of("timestamp").next().unwrap_or_default();
    if !good {
        Err("its hmac does not fit the client secret")
    } else if !timestamp.bytes().all(|byte| byte.is_ascii_digit()) {
        Err("its timestamp is no number")
    } else {
        of("shop").next().ok_or("there is no shop in it")
    }
}

/// What is signed: every parameter that came but the signature, sorted by name, percent-encoded with `%20` for a space.
fn message(query: &[(String, String)]) -> String {
    let mut signed: Vec<&(String, String)> =
        query.iter().filter(|(name, _)| !UNSIGNED.contains(&name.as_str())).collect();
    signed.sort_by(|(one, _), (other, _)| one.cmp(other));
    form_urlencoded::Serializer::new(String::new())
        .extend_pairs(signed.into_iter().map(|(name, value)| (name, value)))
        .finish()
        .replace('+', "%20")
}

/// 32 bytes in hexadecimal.
fn bytes(hex: &str) -> Option<[u8; 32]> {
    if hex.len() != 64 || !hex.is_ascii() {
        return None;
    }
    let mut out = [0; 32];
    for (byte, pair) in out.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
        let digit = |at: usize| char::from(pair[at]).to_digit(16);
        *byte = u8::try_from(digit(0)? * 16 + digit(1)?).ok()?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of Shopify's own documentation, secret `hush`.
    const EXAMPLE: &str = "code=0907a61c0c8d55e99db179b68161bc00&\
        hmac=700e2dadb827fcc8609e9d5ce208b2e9cdaab9df07390d2cbca10d7c328fc4bf&shop=some-shop.myshopify.com&\
        state=0.6784241404160823&timestamp=1337178173";

    fn pairs(query: &str) -> Vec<(String, String)> {
        form_urlencoded::parse(query.as_bytes()).into_owned().collect()
    }

    fn read(query: &str, secrets: &[&str]) -> Result<String, &'static str> {
        let secrets: Vec<_> = secrets.iter().map(|secret| SecretString::from(*secret)).collect();
        signed_shop(&pairs(query), &secrets).map(str::to_owned)
    }

    /// The same, signed with `hush`.
    fn signed(query: &str) -> String {
        let mac = Hmac::<Sha256>::new_from_slice(b"hush").unwrap().chain_update(message(&pairs(query)));
        let digest = mac.finalize().into_bytes();
        digest.iter().fold(format!("{query}&hmac="), |hex, byte| format!("{hex}{byte:02x}"))
    }

    #[test]
    fn the_example_of_the_documentation_is_good_with_either_secret() {
        for secrets in [&["hush"][..], &["other", "hush"], &["hush", "other"]] {
            assert_eq!(read(EXAMPLE, secrets).as_deref(), Ok("some-shop.myshopify.com"));
        }
        assert_eq!(read(&EXAMPLE.replace("700e2d", "700E2D"), &["hush"]).as_deref(), Ok("some-shop.myshopify.com"));
        for secrets in [&[][..], &[""], &["Hush"], &["other", "hush "]] {
            assert!(read(EXAMPLE, secrets).unwrap_err().contains("does not fit"), "{secrets:?}");
        }
    }

    #[test]
    fn every_parameter_that_came_is_signed_whatever_its_name_and_order() {
        let base = "timestamp=1&code=c&state=s&shop=acme.myshopify.com";
        assert!(read(&signed(&format!("host=YWRtaW4&{base}&new=a%20b%2Bc%26d&b=%C3%A9")), &["hush"]).is_ok());
        // A space comes as either, and is signed as %20.
        let spaced = signed(&format!("{base}&x=a%20b"));
        assert!(read(&spaced.replace("a%20b", "a+b"), &["hush"]).is_ok());
        // The old signature is not signed.
        assert!(read(&format!("{}&signature=abc", signed(base)), &["hush"]).is_ok());
        for tampered in [
            signed(base).replace("acme", "evil"),
            signed(base).replace("code=c", "code=d"),
            signed(base).replace("timestamp=1", "timestamp=2"),
            format!("{}&more=1", signed(base)),
            signed(&format!("{base}&more=1")).replace("&more=1", ""),
            // One parameter's value cannot pose as two parameters.
            signed(&format!("a=1%26b%3D2&{base}")).replace("a=1%26b%3D2", "a=1&b=2"),
        ] {
            assert!(read(&tampered, &["hush"]).unwrap_err().contains("does not fit"), "{tampered}");
        }
    }

    #[test]
    fn what_shopify_never_sends_is_refused() {
        let base = "code=c&shop=acme.myshopify.com&state=s&timestamp=1";
        for (query, said) in [
            (String::new(), "missing"),
            (base.to_owned(), "missing"),
            (signed("shop=acme.myshopify.com&state=s&timestamp=1"), "missing"),
            (signed("code=c&state=s&timestamp=1"), "missing"),
            (signed("code=c&shop=&state=s&timestamp=1"), "missing"),
            (signed("code=c&shop=acme.myshopify.com&state=s"), "missing"),
            (signed(&format!("{base}&shop=evil.myshopify.com")), "twice"),
            (format!("{}&hmac=00", signed(base)), "twice"),
            (format!("{base}&hmac=00"), "hexadecimal"),
            (format!("{base}&hmac={}", "g".repeat(64)), "hexadecimal"),
            (format!("{base}&hmac={}", "é".repeat(32)), "hexadecimal"),
            (signed("code=c&shop=acme.myshopify.com&state=s&timestamp=now"), "no number"),
        ] {
            let refused = read(&query, &["hush"]).expect_err(&query);
            assert!(refused.contains(said), "{query}: {refused}");
        }
    }
}
