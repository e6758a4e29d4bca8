//! Sealing: XChaCha20-Poly1305 under a random data key per org, which the master key seals.
//!
//! A sealed value is a version byte, a nonce of 24 bytes and the ciphertext. What it belongs to (org, owner, field) is
//! associated data, so that a value moved to another row does not open. Nonces of this length may be random.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, RwLock},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use chacha20poly1305::{
    Key, KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};
use holdfast_core::{OrgId, ports::Random};
use secrecy::{ExposeSecret, SecretBox, SecretString, zeroize::Zeroizing};

const PREFIX: &str = "hfmk_";
const FORMAT: u8 = 1;
const NONCE_BYTES: usize = 24;
const CANARY_AAD: &str = "holdfast/1|canary";

/// The text is not a master key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a master key is {PREFIX} followed by 32 bytes in base64")]
pub struct BadMasterKey;

/// Opens the data keys of all orgs.
#[derive(Clone)]
pub struct MasterKey(Arc<SecretBox<[u8; 32]>>);

impl MasterKey {
    /// Reads what [`MasterKey::generate`] made; white space around it does not matter.
    pub fn parse(text: &SecretString) -> Result<Self, BadMasterKey> {
        let encoded = text.expose_secret().trim().strip_prefix(PREFIX).ok_or(BadMasterKey)?;
        let bytes = Zeroizing::new(BASE64_STANDARD.decode(encoded).map_err(|_| BadMasterKey)?);
        let mut key = Box::new([0; 32]);
        if bytes.len() != key.len() {
            return Err(BadMasterKey);
        }
        key.copy_from_slice(&bytes);
        Ok(Self(Arc::new(SecretBox::new(key))))
    }

    /// A new one, as text.
    pub fn generate(random: &dyn Random) -> SecretString {
        let mut key = Zeroizing::new([0; 32]);
        random.fill(key.as_mut());
        let encoded = Zeroizing::new(BASE64_STANDARD.encode(key.as_ref()));
        SecretString::from(format!("{PREFIX}{}", encoded.as_str()))
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterKey")
    }
}

/// A sealed value does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a sealed value is damaged, was moved, or was sealed with another key")]
pub(crate) struct Unopenable;

/// Where a sealed value belongs: the row that owns it, and the field there.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) org: &'a OrgId,
    pub(crate) owner: &'a str,
    pub(crate) field: &'a str,
}

impl Place<'_> {
    /// Only the field may hold the separator, and it comes last: no two places spell the same.
    fn aad(self) -> String {
        format!("holdfast/1|{}|{}|{}", self.org, self.owner, self.field)
    }
}

/// Seals and opens the secrets of one org.
#[derive(Clone)]
pub(crate) struct DataKey {
    cipher: Arc<XChaCha20Poly1305>,
    random: Arc<dyn Random>,
}

impl DataKey {
    pub(crate) fn seal(&self, place: Place<'_>, plain: &[u8]) -> Vec<u8> {
        seal(&self.cipher, self.random.as_ref(), &place.aad(), plain)
    }

    pub(crate) fn seal_text(&self, place: Place<'_>, plain: &SecretString) -> Vec<u8> {
        self.seal(place, plain.expose_secret().as_bytes())
    }

    pub(crate) fn open(&self, place: Place<'_>, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, Unopenable> {
        open(&self.cipher, &place.aad(), sealed)
    }

    pub(crate) fn open_text(&self, place: Place<'_>, sealed: &[u8]) -> Result<SecretString, Unopenable> {
        let plain = self.open(place, sealed)?;
        std::str::from_utf8(&plain).map(SecretString::from).map_err(|_| Unopenable)
    }
}

/// The master key at work, and the data keys that it has opened.
pub(crate) struct Sealer {
    master: XChaCha20Poly1305,
    random: Arc<dyn Random>,
    keys: RwLock<HashMap<OrgId, DataKey>>,
}

impl Sealer {
    pub(crate) fn new(master: &MasterKey, random: Arc<dyn Random>) -> Self {
        let master = XChaCha20Poly1305::new(&Key::from(*master.0.expose_secret()));
        Self { master, random, keys: RwLock::default() }
    }

    /// A data key for a new org, sealed.
    pub(crate) fn new_data_key(&self, org: &OrgId) -> Vec<u8> {
        let mut key = Zeroizing::new([0; 32]);
        self.random.fill(key.as_mut());
        seal(&self.master, self.random.as_ref(), &data_key_aad(org), key.as_ref())
    }

    /// The org's data key, if it was opened before.
    pub(crate) fn known(&self, org: &OrgId) -> Option<DataKey> {
        self.keys.read().expect("no panic happens while it is held").get(org).cloned()
    }

    /// The org's data key; from memory when it was opened before.
    pub(crate) fn data_key(&self, org: &OrgId, sealed: &[u8]) -> Result<DataKey, Unopenable> {
        if let Some(key) = self.known(org) {
            return Ok(key);
        }
        let plain = open(&self.master, &data_key_aad(org), sealed)?;
        let mut key = Key::default();
        if plain.len() != key.len() {
            return Err(Unopenable);
        }
        key.copy_from_slice(&plain);
        let key = DataKey { cipher: Arc::new(XChaCha20Poly1305::new(&key)), random: Arc::clone(&self.random) };
        self.keys.write().expect("no panic happens while it is held").insert(org.clone(), key.clone());
        Ok(key)
    }

    /// A secret of the whole instance, sealed.
    pub(crate) fn seal_for_instance(&self, field: &str, plain: &[u8]) -> Vec<u8> {
        seal(&self.master, self.random.as_ref(), &instance_aad(field), plain)
    }

    /// Opens what [`Self::seal_for_instance`] sealed for this field.
    pub(crate) fn open_for_instance(&self, field: &str, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, Unopenable> {
        open(&self.master, &instance_aad(field), sealed)
    }

    /// What only this master key opens.
    pub(crate) fn canary(&self) -> Vec<u8> {
        seal(&self.master, self.random.as_ref(), CANARY_AAD, b"holdfast")
    }

    /// Whether this master key sealed the canary.
    pub(crate) fn knows(&self, canary: &[u8]) -> bool {
        open(&self.master, CANARY_AAD, canary).is_ok()
    }
}

fn instance_aad(field: &str) -> String {
    format!("holdfast/1|instance|{field}")
}

fn data_key_aad(org: &OrgId) -> String {
    format!("holdfast/1|data-key|{org}")
}

fn seal(cipher: &XChaCha20Poly1305, random: &dyn Random, aad: &str, plain: &[u8]) -> Vec<u8> {
    let mut nonce = [0; NONCE_BYTES];
    random.fill(&mut nonce);
    let payload = Payload { msg: plain, aad: aad.as_bytes() };
    let ciphertext = cipher.encrypt(&XNonce::from(nonce), payload).expect("a secret is shorter than 256 GiB");
    let mut sealed = Vec::with_capacity(1 + NONCE_BYTES + ciphertext.len());
    sealed.push(FORMAT);
    sealed.extend_from_slice(&nonce);
    sealed.extend_from_slice(&ciphertext);
    sealed
}

fn open(cipher: &XChaCha20Poly1305, aad: &str, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, Unopenable> {
    let (&format, rest) = sealed.split_first().ok_or(Unopenable)?;
    let (nonce, ciphertext) = rest.split_first_chunk::<NONCE_BYTES>().ok_or(Unopenable)?;
    if format != FORMAT {
        return Err(Unopenable);
    }
    let payload = Payload { msg: ciphertext, aad: aad.as_bytes() };
    cipher.decrypt(&XNonce::from(*nonce), payload).map(Zeroizing::new).map_err(|_| Unopenable)
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    };

    use holdfast_core::{OrgId, ports::Random};
    use secrecy::{ExposeSecret, SecretString};

    use super::{BadMasterKey, MasterKey, Place, Sealer, Unopenable};

    /// Different at each call.
    #[derive(Default)]
    struct Counting(AtomicU8);

    impl Random for Counting {
        fn fill(&self, buffer: &mut [u8]) {
            buffer.fill(self.0.fetch_add(1, Ordering::Relaxed));
        }
    }

    fn sealer(random: &Arc<dyn Random>) -> Sealer {
        let key = MasterKey::parse(&MasterKey::generate(random.as_ref())).unwrap();
        Sealer::new(&key, Arc::clone(random))
    }

    #[test]
    fn a_value_opens_only_in_its_place_and_undamaged() {
        let random: Arc<dyn Random> = Arc::new(Counting::default());
        let master = sealer(&random);
        let (org, other) = (OrgId::from("org_1"), OrgId::from("org_2"));
        let key = master.data_key(&org, &master.new_data_key(&org)).unwrap();
        let place = Place { org: &org, owner: "con_1", field: "extra.secret" };

        let sealed = key.seal_text(place, &SecretString::from("whsec"));

        assert_eq!(key.open_text(place, &sealed).unwrap().expose_secret(), "whsec");
        for moved in
            [Place { org: &other, ..place }, Place { owner: "con_2", ..place }, Place { field: "extra.other", ..place }]
        {
            assert_eq!(key.open(moved, &sealed), Err(Unopenable));
        }
        for at in 0..sealed.len() {
            let mut damaged = sealed.clone();
            damaged[at] ^= 1;
            assert_eq!(key.open(place, &damaged), Err(Unopenable), "byte {at}");
            assert_eq!(key.open(place, &sealed[..at]), Err(Unopenable), "cut at {at}");
        }
    }

    #[test]
    fn another_master_key_opens_neither_data_key_nor_canary() {
        let random: Arc<dyn Random> = Arc::new(Counting::default());
        let (one, two) = (sealer(&random), sealer(&random));
        let org = OrgId::from("org_1");

        assert!(one.knows(&one.canary()));
        assert!(!two.knows(&one.canary()));
        assert!(two.data_key(&org, &one.new_data_key(&org)).is_err());
    }

    #[test]
    fn only_a_whole_master_key_parses() {
        let good = MasterKey::generate(&Counting::default());
        assert!(MasterKey::parse(&SecretString::from(format!(" {}\n", good.expose_secret()))).is_ok());
        for bad in ["", "hfmk_", "hfmk_c2hvcnQ=", "hfmk_!", &good.expose_secret()[5..]] {
            assert_eq!(MasterKey::parse(&SecretString::from(bad)).err(), Some(BadMasterKey), "{bad}");
        }
    }
}
