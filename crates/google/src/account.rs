//! From what a person typed to the address of a Google account.

use holdfast_core::provider::{Account, Hosts, Invalid};

pub(crate) const RULE: &str = "the e-mail address of the Google account, for example ada@example.com";

/// An account from what was typed. No part of it goes into a host.
pub(crate) fn read(hosts: &Hosts, typed: &str) -> Result<Account, Invalid> {
    let address = address(typed)?;
    Ok(Account { display: address.clone(), id: address, base_url: hosts.at("www.googleapis.com") })
}

/// The mailbox behind an address: Gmail ignores dots and what follows a plus, and has two names.
/// <https://support.google.com/mail/answer/7436150>
pub(crate) fn mailbox(address: &str) -> String {
    let address = address.to_lowercase();
    match address.split_once('@') {
        Some((local, "gmail.com" | "googlemail.com")) => {
            let local = local.split('+').next().unwrap_or_default();
            format!("{}@gmail.com", local.replace('.', ""))
        }
        _ => address,
    }
}

fn expected(what: &str) -> Invalid {
    Invalid::new(format!("{what}. Expected {RULE}."))
}

/// The address in small letters, as Google compares it.
fn address(typed: &str) -> Result<String, Invalid> {
    let typed = typed.trim();
    let typed = typed.get(..7).filter(|start| start.eq_ignore_ascii_case("mailto:")).map_or(typed, |_| &typed[7..]);
    if typed.is_empty() {
        return Err(expected("Nothing was typed"));
    }
    if !typed.is_ascii() {
        return Err(expected(
            "That holds letters that the address of a Google account never has, or that only look plain",
        ));
    }
    let typed = typed.to_ascii_lowercase();
    let Some((local, domain)) = typed.split_once('@') else {
        return Err(expected("That is no e-mail address"));
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".!#$&'*+-/=?^_`{|}~".contains(&byte);
    let dots = |text: &str| text.starts_with('.') || text.ends_with('.') || text.contains("..");
    if local.is_empty() || local.len() > 64 || !local.bytes().all(plain) || dots(local) {
        return Err(expected("What stands before the @ is no name of a mailbox"));
    }
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = domain.rsplit('.').next().unwrap_or_default();
    let named = domain.contains('.') && domain.len() <= 253 && domain.split('.').all(label);
    if !named || !last.bytes().any(|byte| byte.is_ascii_alphabetic()) {
        return Err(expected("What stands after the @ is no domain"));
    }
    if domain.split('.').any(|label| label.starts_with("xn--")) {
        return Err(expected("An encoded domain may look like another one"));
    }
    Ok(typed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_that_people_type_is_the_same_account() {
        for typed in [
            "ada@example.com",
            " Ada@Example.COM ",
            "mailto:ada@example.com",
            "MAILTO:Ada@example.com",
            "\tada@example.com\n",
        ] {
            let account = read(&Hosts::production(), typed).unwrap();
            assert_eq!(
                (account.id.as_str(), account.display.as_str()),
                ("ada@example.com", "ada@example.com"),
                "{typed}"
            );
            assert_eq!(account.base_url.as_str(), "https://www.googleapis.com/");
            assert_eq!(read(&Hosts::production(), &account.id), Ok(account), "its own id");
        }
        for typed in ["a.b+c@sub.example.co.uk", "o'brien@example.com", "1@2.example"] {
            assert_eq!(read(&Hosts::production(), typed).unwrap().id, typed);
        }
    }

    /// CO-10 among them.
    #[test]
    fn whatever_is_no_address_is_refused_with_an_example() {
        let long = format!("{}@example.com", "a".repeat(65));
        for typed in [
            "",
            "  ",
            "ada",
            "@example.com",
            "ada@",
            "ada@example",
            "ada@localhost",
            "ada@@example.com",
            "ada@bob@example.com",
            "ada@example..com",
            "ada@.example.com",
            "ada@example.com.",
            "ada@127.0.0.1",
            "ada@[127.0.0.1]",
            "ada@[::1]",
            "ada@169.254.169.254#.example.com",
            "ada@evil.example/@example.com",
            "https://example.com",
            "https://ada@example.com/",
            "Ada <ada@example.com>",
            "ada@example.com, bob@example.com",
            "ada lovelace@example.com",
            "ada\n@example.com",
            "ada@exa\u{0}mple.com",
            ".ada@example.com",
            "ada.@example.com",
            "a..da@example.com",
            "\"ada\"@example.com",
            "\u{430}da@example.com",
            "ada@ex\u{430}mple.com",
            "ada@example\u{3002}com",
            "ada@xn--exmple-cua.com",
            "ada@-example.com",
            "ada%40example.com",
            &long,
        ] {
            let refused = read(&Hosts::production(), typed).expect_err(typed);
            assert!(refused.message.contains("for example ada@example.com"), "{typed}: {refused}");
        }
    }

    #[test]
    fn one_mailbox_of_gmail_has_many_spellings_and_others_have_one() {
        for same in ["Ada.Lovelace@gmail.com", "adalovelace@googlemail.com", "a.d.a.lovelace+news@gmail.com"] {
            assert_eq!(mailbox(same), "adalovelace@gmail.com");
        }
        assert_eq!(mailbox("a.da+x@Example.com"), "a.da+x@example.com");
    }
}
