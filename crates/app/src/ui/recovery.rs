//! Recovery codes: for whoever has lost their authenticator app. Shown once, kept as hashes; 80 random bits each, so a plain
//! hash cannot be turned back.

use holdfast_core::{ports::Random, totp};

use crate::keys;

/// As many as are made at once.
pub(super) const COUNT: usize = 10;
const BYTES: usize = 10;
const GROUP: usize = 4;

/// New ones, as people copy them: `abcd-efgh-2345-6723`.
pub(super) fn codes(random: &dyn Random) -> Vec<String> {
    let code = |_| {
        let mut bytes = [0; BYTES];
        random.fill(&mut bytes);
        grouped(&totp::base32(&bytes).to_lowercase(), '-')
    };
    (0..COUNT).map(code).collect()
}

/// What is stored of one, however it was copied. No code has a `0` or a `1`: they stand for the letters that they look like.
pub(super) fn hash(typed: &str) -> [u8; 32] {
    let plain = |c: char| match c.to_ascii_lowercase() {
        '0' => Some('o'),
        '1' => Some('l'),
        c if c.is_ascii_alphanumeric() => Some(c),
        _ => None,
    };
    let code: String = typed.chars().filter_map(plain).take(2 * BYTES * 8 / 5).collect();
    keys::hash(&format!("recovery|{code}"))
}

/// In groups of four.
pub(super) fn grouped(text: &str, between: char) -> String {
    let mut grouped = String::with_capacity(text.len() * 5 / 4);
    for (at, c) in text.chars().enumerate() {
        if at > 0 && at % GROUP == 0 {
            grouped.push(between);
        }
        grouped.push(c);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{COUNT, codes, grouped, hash};
    use crate::seams::OsRandom;

    #[test]
    fn codes_differ_and_are_known_again_however_they_are_typed() {
        let all = codes(&OsRandom);
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), COUNT);
        for code in &all {
            assert_eq!(code.len(), 19, "{code}");
            assert!(!code.contains(['0', '1', '8', '9']), "{code}");
            for typed in [code.to_uppercase(), code.replace('-', " "), code.replace('-', ""), format!(" {code}\n")] {
                assert_eq!(hash(&typed), hash(code), "{typed}");
            }
            assert_eq!(hash(&code.replace('o', "0").replace('l', "1")), hash(code));
            assert_ne!(hash(&code[1..]), hash(code));
        }
        assert_eq!(grouped("abcdefghi", ' '), "abcd efgh i");
    }
}
