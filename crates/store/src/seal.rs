//! Sealing.

use holdfast_core::ports::Random;
use secrecy::SecretString;

/// The text is not a master key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a master key is hfmk_ and 32 bytes in base64; `holdfast key generate` makes one")]
pub struct BadMasterKey;

/// Opens the data keys of all orgs.
#[derive(Clone)]
pub struct MasterKey {}

impl MasterKey {
    /// Reads what [`MasterKey::generate`] made.
    pub fn parse(text: &SecretString) -> Result<Self, BadMasterKey> {
        let _ = text;
        todo!()
    }

    /// A new one, as text.
    pub fn generate(random: &dyn Random) -> SecretString {
        let _ = random;
        todo!()
    }
}
