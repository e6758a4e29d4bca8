//! Passwords: Argon2id, on threads of their own and a few at a time, so that guessing costs the guesser more than us.

use std::sync::LazyLock;

use argon2::{Argon2, PasswordHash, PasswordHasher, PasswordVerifier};
use secrecy::{ExposeSecret, SecretString};
use tokio::{sync::Semaphore, task::spawn_blocking};

/// A shorter password is guessed too soon (OWASP ASVS 5.0, 6.2.1).
pub(crate) const SHORTEST: usize = 8;
/// A longer one would only keep us busy.
pub(crate) const LONGEST: usize = 200;

/// Each takes 19 MiB.
static AT_A_TIME: Semaphore = Semaphore::const_new(4);

/// A hash of nobody's password: an address that nobody has takes as long as one that somebody has.
static NOBODY: LazyLock<SecretString> =
    LazyLock::new(|| hash_now(&SecretString::from("nobody")).unwrap_or_else(|_| SecretString::from(String::new())));

/// What is guessed first, of those that are long enough; in lower case.
const GUESSED_FIRST: &[&str] = &[
    "00000000",
    "11111111",
    "11223344",
    "12341234",
    "12344321",
    "12345678",
    "123456789",
    "1234567890",
    "123123123",
    "1q2w3e4r",
    "1q2w3e4r5t",
    "1qaz2wsx",
    "87654321",
    "88888888",
    "987654321",
    "aa123456",
    "abc12345",
    "abcd1234",
    "admin123",
    "admin1234",
    "administrator",
    "asdfasdf",
    "asdfghjk",
    "asdfghjkl",
    "baseball",
    "changeme",
    "charlie1",
    "computer",
    "default1",
    "dragon12",
    "football",
    "holdfast",
    "iloveyou",
    "internet",
    "jennifer",
    "letmein1",
    "letmein123",
    "liverpool",
    "michelle",
    "mustang1",
    "p@ssw0rd",
    "pa55word",
    "passw0rd",
    "password",
    "password!",
    "password1",
    "password12",
    "password123",
    "password1234",
    "princess",
    "q1w2e3r4",
    "qazwsxedc",
    "qwerty12",
    "qwerty123",
    "qwertyui",
    "qwertyuiop",
    "secret123",
    "starwars",
    "sunshine",
    "superman",
    "trustno1",
    "welcome1",
    "welcome123",
    "whatever",
    "zaq12wsx",
    "zxcvbnm1",
];

/// It cannot be hashed.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the password cannot be hashed")]
pub(crate) struct Unhashable;

/// What is wrong with a new password, in words. `known`: what anybody would try first, since it is about this very person.
pub(crate) fn complaint(password: &str, known: &[&str]) -> Option<String> {
    let length = password.chars().count();
    if length < SHORTEST {
        return Some(format!("A password has at least {SHORTEST} characters; a few words make a good one."));
    }
    if length > LONGEST {
        return Some(format!("A password has at most {LONGEST} characters."));
    }
    let lower = password.to_lowercase();
    let one_letter = lower.chars().skip(1).all(|c| lower.starts_with(c));
    if one_letter || GUESSED_FIRST.contains(&lower.as_str()) || known.iter().any(|known| known.to_lowercase() == lower)
    {
        return Some("That is one of the first that anybody would try; a few words make a good one.".to_owned());
    }
    None
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
        if let Some(stand_in) = stand_in(&hashes) {
            matches(&password, stand_in);
        }
        hashes.iter().map(|hash| hash.as_ref().is_some_and(|hash| matches(&password, hash))).collect()
    });
    work.await.unwrap_or_else(|_| vec![false; count])
}

/// What is verified beside the hashes, so that no fewer than one is.
fn stand_in(hashes: &[Option<SecretString>]) -> Option<&'static SecretString> {
    // Made before it is needed: the first address that nobody has must not take longer than the next.
    let nobody = LazyLock::force(&NOBODY);
    hashes.iter().all(Option::is_none).then_some(nobody)
}

fn matches(password: &SecretString, hash: &SecretString) -> bool {
    let Ok(hash) = PasswordHash::new(hash.expose_secret()) else { return false };
    Argon2::default().verify_password(password.expose_secret().as_bytes(), &hash).is_ok()
}

#[cfg(test)]
mod tests {
    use secrecy::{ExposeSecret, SecretString};

    use super::{complaint, hash_now, stand_in, verify};

    fn text(text: &str) -> SecretString {
        SecretString::from(text)
    }

    #[tokio::test]
    async fn the_right_password_is_told_from_others_in_any_script() {
        for (right, wrong) in [
            ("correct horse battery staple", "Correct horse battery staple"),
            ("пароль из слов", "пароль из слов "),
            ("密码密码密码密码", "密码密码密码密马"),
            ("🐙🐙🐙🐙🐙🐙🐙🪸", "🐙🐙🐙🐙🐙🐙🐙🐙"),
        ] {
            let hash = hash_now(&text(right)).unwrap();
            assert!(hash.expose_secret().starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{right}");
            let hashes = vec![Some(hash.clone()), None, Some(text("not a hash"))];
            assert_eq!(verify(text(right), hashes).await, [true, false, false], "{right}");
            assert_eq!(verify(text(wrong), vec![Some(hash)]).await, [false], "{right}");
        }
        assert_eq!(verify(text("nobody"), Vec::new()).await, Vec::<bool>::new());
        assert_eq!(verify(text("nobody"), vec![None]).await, [false], "the stand-in is nobody's way in");
    }

    #[test]
    fn an_address_that_nobody_has_costs_one_verification_as_one_that_somebody_has() {
        let some = || Some(hash_now(&text("correct horse")).unwrap());
        for (hashes, verified) in
            [(vec![], 1), (vec![None], 1), (vec![None, None], 1), (vec![some()], 1), (vec![None, some()], 1)]
        {
            let count = stand_in(&hashes).iter().count() + hashes.iter().flatten().count();
            assert_eq!(count, verified, "of {} rows", hashes.len());
            assert!(stand_in(&hashes).is_none_or(|hash| hash.expose_secret().starts_with("$argon2id$")));
        }
    }

    #[test]
    fn a_new_password_is_long_enough_and_not_the_first_that_anybody_would_try() {
        let known = ["ada@example.com", "Ada Lovelace"];
        for bad in
            ["", "seven77", "密码密码密码密", "12345678", "PassWord1", "xxxxxxxxxx", "ADA@example.com", "ada lovelace"]
        {
            assert!(complaint(bad, &known).is_some(), "{bad}");
        }
        assert!(complaint(&"long ".repeat(41), &known).is_some());
        for good in ["eight88!", "密码密码密码密码", "correct horse battery staple", &"long ".repeat(40)] {
            assert_eq!(complaint(good, &known), None, "{good}");
        }
    }
}
