//! Codes of authenticator apps (TOTP, RFC 6238), as all of them know it: HMAC-SHA-1, six digits, a new code every 30 seconds.

use chrono::{DateTime, Utc};
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

/// As long as what HMAC-SHA-1 makes (RFC 4226 section 4).
pub const SECRET_BYTES: usize = 20;
const STEP_SECS: i64 = 30;
const DIGITS: usize = 6;
/// RFC 4648 section 6. In lower case it has nothing that is taken for something else, with `0` and `1` out of it.
const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// The step that this moment is in: each has a code of its own.
pub fn step_at(at: DateTime<Utc>) -> i64 {
    at.timestamp().div_euclid(STEP_SECS)
}

/// The code of a step, as an app shows it.
pub fn code(secret: &[u8], step: i64) -> String {
    format!("{:06}", truncated(secret, step) % 1_000_000)
}

/// The step whose code was typed: that of now, the one before or the one after, as clocks differ. It takes the same time
/// whichever it is, and when it is none.
pub fn step_of(secret: &[u8], typed: &str, at: DateTime<Utc>) -> Option<i64> {
    let typed = digits(typed)?;
    let now = step_at(at);
    let (mut found, mut any) = (0, Choice::from(0));
    for step in [now - 1, now, now + 1] {
        let same = code(secret, step).as_bytes().ct_eq(typed.as_bytes());
        found.conditional_assign(&step, same);
        any |= same;
    }
    bool::from(any).then_some(found)
}

/// What was typed, if it can be a code: apps show it in two groups, and people copy it so.
pub fn digits(typed: &str) -> Option<String> {
    let typed: String = typed.chars().filter(|c| !c.is_whitespace() && *c != '-').collect();
    (typed.len() == DIGITS && typed.bytes().all(|byte| byte.is_ascii_digit())).then_some(typed)
}

/// Base 32 without padding, as apps take a secret.
pub fn base32(bytes: &[u8]) -> String {
    let (mut text, mut held, mut bits) = (String::with_capacity(bytes.len().div_ceil(5) * 8), 0u32, 0u32);
    for byte in bytes {
        held = (held << 8) | u32::from(*byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            text.push(letter(held >> bits));
        }
    }
    if bits > 0 {
        text.push(letter(held << (5 - bits)));
    }
    text
}

fn letter(value: u32) -> char {
    char::from(ALPHABET[(value & 31) as usize])
}

/// RFC 4226 section 5.3: 31 bits.
fn truncated(secret: &[u8], step: i64) -> u32 {
    let mac = Hmac::<Sha1>::new_from_slice(secret).expect("HMAC takes a key of any length");
    let hash = mac.chain_update(step.to_be_bytes()).finalize().into_bytes();
    let from = usize::from(hash[19] & 0xf);
    u32::from_be_bytes([hash[from] & 0x7f, hash[from + 1], hash[from + 2], hash[from + 3]])
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;

    /// RFC 6238, appendix B.
    const SECRET: &[u8] = b"12345678901234567890";

    #[test]
    fn the_standards_own_codes_come_out() {
        for (at, code8) in [
            (59, 94_287_082),
            (1_111_111_109, 7_081_804),
            (1_111_111_111, 14_050_471),
            (1_234_567_890, 89_005_924),
            (2_000_000_000, 69_279_037),
            (20_000_000_000, 65_353_130),
        ] {
            let step = step_at(DateTime::from_timestamp(at, 0).unwrap());
            assert_eq!(truncated(SECRET, step) % 100_000_000, code8, "at {at}");
            assert_eq!(code(SECRET, step), format!("{:06}", code8 % 1_000_000), "at {at}");
        }
    }

    #[test]
    fn a_code_is_good_in_its_step_and_in_those_beside_it() {
        let at = DateTime::from_timestamp(1_111_111_111, 0).unwrap();
        let now = step_at(at);
        for (off, good) in [(-2, false), (-1, true), (0, true), (1, true), (2, false)] {
            let found = step_of(SECRET, &code(SECRET, now + off), at);
            assert_eq!(found, good.then_some(now + off), "{off} steps off");
        }
    }

    #[test]
    fn a_code_is_six_digits_in_whatever_groups() {
        let at = DateTime::from_timestamp(1_111_111_109, 0).unwrap();
        for typed in ["081804", " 081 804 ", "081-804", "081\u{a0}804"] {
            assert!(step_of(SECRET, typed, at).is_some(), "{typed}");
        }
        for typed in ["", "81804", "0818040", "08180a", "٠٨١٨٠٤", "07081804"] {
            assert_eq!(step_of(SECRET, typed, at), None, "{typed}");
        }
    }

    #[test]
    fn secrets_are_spelled_as_apps_read_them() {
        // RFC 4648, section 10.
        for (plain, spelled) in [
            ("", ""),
            ("f", "MY"),
            ("fo", "MZXQ"),
            ("foo", "MZXW6"),
            ("foob", "MZXW6YQ"),
            ("fooba", "MZXW6YTB"),
            ("foobar", "MZXW6YTBOI"),
        ] {
            assert_eq!(base32(plain.as_bytes()), spelled);
        }
        assert_eq!(base32(SECRET), "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ");
    }
}
