//! The name of a company: the first label of its address.

use holdfast_core::provider::{Account, Hosts, Invalid};

use crate::API;

pub(crate) const EXAMPLE: &str = "acme";

pub(crate) const RULE: &str =
    "the name of your company as its address shows it, for example acme of acme.pipedrive.com";

/// A company from what was typed. Its id, read again, is the same account.
pub(crate) fn read(hosts: &Hosts, typed: &str) -> Result<Account, Invalid> {
    let typed = typed.trim().to_lowercase();
    // The address is what people have at hand: where they are when they use it.
    let rest = typed.strip_prefix("https://").unwrap_or(&typed);
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let name = host.strip_suffix(".pipedrive.com").unwrap_or(&typed).to_owned();
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let fits = (1..=63).contains(&name.len()) && name.bytes().all(plain);
    if !fits || name.starts_with('-') || name.ends_with('-') {
        return Err(Invalid::new(format!("Expected {RULE}.")));
    }
    Ok(Account { display: name.clone(), id: name, base_url: hosts.at(API) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_that_people_type_is_the_same_company() {
        for typed in ["acme", " Acme ", "ACME\n", "acme.pipedrive.com", "https://Acme.pipedrive.com/pipeline/1?x#y"] {
            let account = read(&Hosts::production(), typed).unwrap();
            assert_eq!((account.id.as_str(), account.display.as_str()), ("acme", "acme"), "{typed:?}");
            assert_eq!(read(&Hosts::production(), &account.id), Ok(account), "its own id");
        }
    }

    /// CO-10: nothing that is typed leads to another host.
    #[test]
    fn whatever_is_no_name_is_refused_with_an_example() {
        let long = "a".repeat(64);
        for typed in [
            "",
            " ",
            "-a",
            "a-",
            "a.b",
            "a/b",
            "a@b",
            "https://acme.example",
            "a.b.pipedrive.com",
            "acme.pipedrive.com@evil.example",
            "http://acme.pipedrive.com",
            "..",
            "a\u{0}",
            "größe",
            &long,
        ] {
            let refused = read(&Hosts::production(), typed).expect_err(typed);
            assert!(refused.message.contains("for example acme"), "{typed}: {refused}");
        }
    }
}
