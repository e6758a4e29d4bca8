//! Passwords: Argon2id, on threads of their own and a few at a time, so that guessing costs the guesser more than us.

use std::sync::LazyLock;

use argon2::{Argon2, PasswordHash, PasswordHasher, PasswordVerifier};
use secrecy::{ExposeSecret, SecretString};
use tokio::{sync::Semaphore, task::spawn_blocking};

/// A password shorter than this is guessed too soon (NIST SP 800-63B section 3.1.1.2).
pub(crate) const SHORTEST: usize = 8;
/// A longer one would only keep us busy.
pub(crate) const LONGEST: usize = 200;

/// Each takes 19 MiB.
static AT_A_TIME: Semaphore = Semaphore::const_new(4);

/// A hash of nobody's password: an address that nobody has takes as long as one that somebody has.
static NOBODY: LazyLock<SecretString> =
    LazyLock::new(|| hash_now(&SecretString::from("nobody")).unwrap_or_else(|_| SecretString::from(String::new())));

/// It cannot be hashed.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the password cannot be hashed")]
pub(crate) struct Unhashable;

/// What is wrong with a new password, in words.
pub(crate) fn complaint(password: &str) -> Option<String> {
    let length = password.chars().count();
    if length < SHORTEST {
        return Some(format!("A password has at least {SHORTEST} characters; a few words make a good one."));
    }
    (length > LONGEST).then(|| format!("A password has at most {LONGEST} characters."))
}

/// Argon2id with the crate's defaults, which are OWASP's (19 MiB, 2 passes). For commands; requests take [`hash`].
pub(crate) fn hash_now(password: &SecretString) -> Result<SecretString, Unhashable> {
    let hash = Argon2::default().hash_password(password.expose_secret().as_bytes());
    hash.map(|hash| SecretString::from(hash.to_string())).map_err(|_| Unhashable)
}

/// The same beside the requests.
pub(crate) async fn hash(password: SecretString) -> Result<SecretString, Unhashable> {
    let _turn = AT_A_TIME.acquire().await.map_err(|_| Unhashable)?;
    spawn_blocking(move || hash_now(&password)).await.map_err(|_| Unhashable)?
}

/// Which of these hashes are of this password; takes its time also when there are none.
pub(crate) async fn verify(password: SecretString, hashes: Vec<Option<SecretString>>) -> Vec<bool> {
    let count = hashes.len();
    let Ok(_turn) = AT_A_TIME.acquire().await else { return vec![false; count] };
    let work = spawn_blocking(move || {
        if hashes.iter().all(Option::is_none) {
            matches(&password, &NOBODY);
        }
        hashes.iter().map(|hash| hash.as_ref().is_some_and(|hash| matches(&password, hash))).collect()
    });
    work.await.unwrap_or_else(|_| vec![false; count])
}

fn matches(password: &SecretString, hash: &SecretString) -> bool {
    let Ok(hash) = PasswordHash::new(hash.expose_secret()) else { return false };
    Argon2::default().verify_password(password.expose_secret().as_bytes(), &hash).is_ok()
}
