//! Looks for secrets where none may be: as they are, in base64 and in hex.

use std::fmt::Write as _;

/// Shorter than this, a hit would be chance.
const SHORTEST: usize = 8;

/// Planted secrets, each with a name that a failure can show.
#[derive(Default)]
pub struct Canaries(Vec<(String, Vec<Form>)>);

/// How a secret may be spelled: what that is called, and the bytes to look for.
type Form = (&'static str, Vec<u8>);

impl Canaries {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Plants one.
    ///
    /// # Panics
    /// When it is so short that finding it would prove nothing.
    pub fn plant(&mut self, name: impl Into<String>, secret: &str) {
        assert!(secret.len() >= SHORTEST, "a canary of {} bytes proves nothing", secret.len());
        self.0.push((name.into(), forms(secret)));
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Which ones are in there, and how they are spelled there; never the secret itself.
    pub fn found_in(&self, place: &str, haystack: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        for (name, forms) in &self.0 {
            for (form, needle) in forms {
                if let Some(at) = find(haystack, needle) {
                    let around = String::from_utf8_lossy(&haystack[at.saturating_sub(120)..at]).into_owned();
                    found.push(format!("{name} ({form}) is in {place}, after {around:?}"));
                }
            }
        }
        found
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    let first = *needle.first()?;
    let mut from = 0;
    while let Some(at) = haystack.get(from..)?.iter().position(|byte| *byte == first) {
        if haystack[from + at..].starts_with(needle) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

fn forms(secret: &str) -> Vec<Form> {
    let bytes = secret.as_bytes();
    let mut forms = vec![("plain", bytes.to_vec())];
    // Encoded together with something before it, the secret begins at one of three places of a group.
    for (offset, form) in ["base64", "base64, one byte in", "base64, two bytes in"].into_iter().enumerate() {
        let mut padded = vec![0; offset];
        padded.extend_from_slice(bytes);
        let whole = padded.len() / 3 * 3;
        // Only groups that the secret fills alone.
        let from = if offset == 0 { 0 } else { 3 };
        let encoded = base64(&padded[from..whole]);
        let url_safe: Vec<u8> = encoded
            .iter()
            .map(|byte| match byte {
                b'+' => b'-',
                b'/' => b'_',
                other => *other,
            })
            .collect();
        if url_safe != encoded {
            forms.push((form, url_safe));
        }
        forms.push((form, encoded));
    }
    let hex = bytes.iter().fold(String::new(), |mut hex, byte| {
        let _infallible = write!(hex, "{byte:02x}");
        hex
    });
    forms.push(("hex, capital", hex.to_uppercase().into_bytes()));
    forms.push(("hex", hex.into_bytes()));
    forms
}

/// RFC 4648 section 4, for whole groups.
fn base64(bytes: &[u8]) -> Vec<u8> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = Vec::with_capacity(bytes.len() / 3 * 4);
    for group in bytes.chunks_exact(3) {
        let bits = u32::from(group[0]) << 16 | u32::from(group[1]) << 8 | u32::from(group[2]);
        out.extend([18, 12, 6, 0].map(|shift| LETTERS[(bits >> shift & 63) as usize]));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A check that cannot fail is none.
    #[test]
    fn a_planted_secret_is_found_in_each_of_its_forms() {
        let mut canaries = Canaries::new();
        canaries.plant("the key", "hf_s3cret/key+42");

        for haystack in [
            "a log line with hf_s3cret/key+42 in it",
            "aGZfczNjcmV0L2tleSs0Mg==",
            // "user:" and then the key.
            "dXNlcjpoZl9zM2NyZXQva2V5KzQy",
            "x: 68665f7333637265742f6b65792b3432",
            "x: 68665F7333637265742F6B65792B3432",
        ] {
            let found = canaries.found_in("a place", haystack.as_bytes());

            assert!(!found.is_empty(), "nothing is found in {haystack}");
            assert!(found.iter().all(|line| line.starts_with("the key")), "{found:?}");
        }
        assert_eq!(canaries.found_in("a place", b"hf_s3cret alone is another one"), Vec::<String>::new());
    }
}
