//! The name of a company. Front has one host for all of them, so nothing that is typed goes into a host: it only says which
//! company's admin has to consent.

use holdfast_core::provider::{Account, Hosts, Invalid};

use crate::API;

/// No company's name is longer.
const LONGEST_CHARS: usize = 100;

pub(crate) const RULE: &str = "the name of your company in Front as its settings show it, for example Acme; its id works \
                               too, which begins with cmp_";

/// A company from what was typed, in small letters and with single spaces.
pub(crate) fn read(hosts: &Hosts, typed: &str) -> Result<Account, Invalid> {
    let name = folded(typed);
    if name.is_empty() {
        return Err(expected("Nothing was typed"));
    }
    if name.contains("://") || name.ends_with("frontapp.com") || name.ends_with("front.com") {
        return Err(expected("That is an address; those of Front are the same for every company, or no name"));
    }
    if typed.trim().contains(char::is_control) {
        return Err(expected("That is more than one line"));
    }
    if name.chars().count() > LONGEST_CHARS {
        return Err(expected("That is too long for a name"));
    }
    Ok(Account { display: name.clone(), id: name, base_url: hosts.at(API) })
}

/// Whether a company of this id and name is the one that was typed.
pub(crate) fn is(account: &str, id: &str, name: &str) -> bool {
    account == folded(id) || account == folded(name)
}

fn folded(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

fn expected(what: &str) -> Invalid {
    Invalid::new(format!("{what}. Expected {RULE}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_that_people_type_is_the_same_company() {
        for typed in ["Acme Inc.", " acme inc. ", "ACME  Inc.", "\tAcme Inc.\n"] {
            let account = read(&Hosts::production(), typed).unwrap();
            assert_eq!((account.id.as_str(), account.display.as_str()), ("acme inc.", "acme inc."), "{typed}");
            assert_eq!(account.base_url.as_str(), "https://api2.frontapp.com/");
            assert_eq!(read(&Hosts::production(), &account.id), Ok(account), "its own id");
        }
        for (typed, id) in
            [("Größe & Söhne", "größe & söhne"), ("acme.com", "acme.com"), ("cmp_55C8", "cmp_55c8"), ("陳", "陳")]
        {
            assert_eq!(read(&Hosts::production(), typed).unwrap().id, id);
        }
    }

    /// CO-10: nothing that is typed is ever part of a host.
    #[test]
    fn whatever_is_no_name_is_refused_with_an_example_and_no_name_changes_the_host() {
        let long = "a".repeat(101);
        for typed in [
            "",
            "  ",
            "https://app.frontapp.com/open/cnv_1",
            "app.frontapp.com",
            "acme.api.frontapp.com",
            "a\nb",
            "a\u{0}b",
            &long,
        ] {
            let refused = read(&Hosts::production(), typed).expect_err(typed);
            assert!(refused.message.contains("for example Acme"), "{typed}: {refused}");
        }
        for typed in ["evil.example", "evil.example/", "@evil.example", "127.0.0.1:1", "../..", "#", "{account}"] {
            let account = read(&Hosts::production(), typed).unwrap();
            assert_eq!(account.base_url.as_str(), "https://api2.frontapp.com/", "{typed}");
        }
    }
}
