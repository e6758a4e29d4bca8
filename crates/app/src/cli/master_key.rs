//! `holdfast master-key`.

use std::process::ExitCode;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use holdfast_core::ports::Random;
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;

use super::Output;
use crate::seams::OsRandom;

pub(super) fn new(output: Output) -> anyhow::Result<ExitCode> {
    let key = generate(&OsRandom);
    let key = key.expose_secret();
    output.print(&json!({ "master_key": key }), || key.to_owned())?;
    Ok(ExitCode::SUCCESS)
}

/// `hfmk_` and 32 random bytes: base64url without padding, fit for files, variables and shells without quoting.
fn generate(random: &dyn Random) -> SecretString {
    let mut bytes = [0; 32];
    random.fill(&mut bytes);
    format!("hfmk_{}", URL_SAFE_NO_PAD.encode(bytes)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_key_is_a_prefix_and_32_bytes_and_never_the_same() {
        let keys = [generate(&OsRandom), generate(&OsRandom)];

        let bytes = keys.each_ref().map(|key| {
            let text = key.expose_secret().strip_prefix("hfmk_").expect("the prefix");
            URL_SAFE_NO_PAD.decode(text).unwrap()
        });
        assert_eq!(bytes.each_ref().map(Vec::len), [32, 32]);
        assert_ne!(bytes[0], bytes[1]);
    }
}
