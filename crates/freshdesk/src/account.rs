//! From what an admin typed to the one label that a host is built from, and the hosts themselves.

use holdfast_core::provider::{Account, Invalid, Labels, Places};

/// Where Freshdesk's accounts live.
const SUFFIX: &str = ".freshdesk.com";
/// Hosts below freshdesk.com that are Freshdesk's own, and no customer's account.
const NOT_ACCOUNTS: &[&str] =
    &["api", "apps", "assets", "developer", "developers", "static", "status", "support", "www"];
/// Other products of the same company, whose addresses look much the same.
const OTHER_PRODUCTS: &[(&str, &str)] = &[
    (".freshservice.com", "That is a Freshservice account, which is another product"),
    (".myfreshworks.com", "That is the sign-in page of a Freshworks organisation, not the helpdesk itself"),
    (".freshsales.io", "That is a Freshsales account, which is another product"),
    (".freshchat.com", "That is a Freshchat account, which is another product"),
];

pub(crate) const RULE: &str = "the part before .freshdesk.com in the address of your Freshdesk, for example acme or \
                               acme.freshdesk.com; not an address of your own, like support.acme.com";

/// Where its accounts live.
pub(crate) fn production() -> Places {
    Places::below(SUFFIX)
}

const LABELS: Labels = Labels {
    provider: "Freshdesk",
    called: "domain",
    suffix: SUFFIX,
    own: NOT_ACCOUNTS,
    others: OTHER_PRODUCTS,
    rule: RULE,
};

/// An account from what was typed.
pub(crate) fn read(base: &Places, typed: &str) -> Result<Account, Invalid> {
    LABELS.read(base, typed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_that_people_type_is_the_same_account() {
        for typed in [
            "acme",
            " Acme ",
            "ACME",
            "acme.",
            "acme/",
            "acme.freshdesk.com",
            "Acme.Freshdesk.Com",
            "acme.freshdesk.com.",
            "acme.freshdesk.com/",
            "acme.freshdesk.com//",
            "acme.freshdesk.com:443",
            "acme.freshdesk.com:443/a",
            "acme.freshdesk.com/a/tickets/1",
            "https://acme.freshdesk.com",
            "https://ACME.freshdesk.com/a/tickets/1",
            "http://acme.freshdesk.com/",
            "HTTPS://acme.freshdesk.com?brand=1",
            "https://acme.freshdesk.com/a/search/ada@example.com",
            "\thttps://acme.freshdesk.com/support/home#top\n",
        ] {
            let account = read(&production(), typed).unwrap();
            assert_eq!(account.id, "acme", "{typed}");
            assert_eq!(account.display, "acme.freshdesk.com");
            assert_eq!(account.base_url.as_str(), "https://acme.freshdesk.com/");
        }
        for typed in ["d3v-acme", "3m", "a", "a--b", "0x7f", "2130706433", &"a".repeat(63)] {
            let account = read(&production(), typed).unwrap();
            assert_eq!(account.id, *typed);
            assert_eq!(read(&production(), &account.id).unwrap(), account, "its own id");
            assert_eq!(read(&production(), &account.display).unwrap(), account, "as it is shown");
        }
    }

    /// CO-10 among them.
    #[test]
    fn whatever_is_no_account_is_refused_with_what_was_expected() {
        for typed in [
            "",
            "   ",
            ".",
            "/",
            ".freshdesk.com",
            "freshdesk.com",
            "https://freshdesk.com",
            "acme.freshdesk.com.evil.example",
            "evil.example/acme.freshdesk.com",
            "https://evil.example/acme.freshdesk.com",
            "acme.freshdesk.com@evil.example",
            "https://acme.freshdesk.com@evil.example/",
            "https://acme.freshdesk.com:x@evil.example/",
            "acme.freshdesk.com%2eevil.example",
            "acme.freshdesk.com%2Fevil.example",
            "acme..freshdesk.com",
            "acme.freshdesk..com",
            "a.b.freshdesk.com",
            "\u{430}cme",
            "\u{430}cme.freshdesk.com",
            "acme.freshdesk.com\u{3002}evil.example",
            "xn--cme-7cd.freshdesk.com",
            "evilfreshdesk.com",
            "acme.freshdesk.com.au",
            "acme.freshservice.com",
            "https://acme.freshservice.com/a/tickets/1",
            "acme.myfreshworks.com",
            "acme.freshdesk.com:8443",
            "acme.freshdesk.com:80",
            "acme.freshdesk.com:443:443",
            "acme:443",
            "help.acme.com",
            "support.acme.example",
            "ada@acme.com",
            "ada@acme.freshdesk.com",
            "acme_corp",
            "acme corp",
            "acme.freshdesk.com evil.example",
            "acme\\evil",
            "https:\\\\acme.freshdesk.com",
            "-acme",
            "acme-",
            "ac/me",
            "acme?x",
            "acme#x",
            "x#.freshdesk.com",
            "169.254.169.254#.freshdesk.com",
            "169.254.169.254/?.freshdesk.com",
            "acme%00",
            "127.0.0.1",
            "[::1]",
            "http://[::1]/",
            "http://127.0.0.1/freshdesk/acme",
            "https://acme",
            "ftp://acme.freshdesk.com",
            "javascript://acme.freshdesk.com",
            "https://https://acme.freshdesk.com",
            "//acme.freshdesk.com",
            "{account}",
            "www.freshdesk.com",
            "support",
            "https://developer.freshdesk.com/api-reference/",
            &"a".repeat(64),
        ] {
            let refused = read(&production(), typed).expect_err(typed);
            assert!(refused.message.contains("for example acme or acme.freshdesk.com"), "{typed}: {refused}");
        }
    }

    #[test]
    fn another_product_is_named_as_what_it_is() {
        for (typed, said) in [
            ("acme.freshservice.com", "Freshservice"),
            ("https://acme.freshservice.com/a/tickets/1", "Freshservice"),
            ("https://acme.myfreshworks.com/login", "sign-in page"),
        ] {
            let refused = read(&production(), typed).expect_err(typed);
            assert!(refused.message.contains(said), "{typed}: {refused}");
        }
    }

    /// Whatever is typed: a host is one label below freshdesk.com, reached by https on its own port, or there is none.
    #[test]
    fn no_input_reaches_a_host_that_is_not_one_label_below_freshdesk_com() {
        const PARTS: &[&str] = &[
            "acme",
            "ACME",
            "evil",
            ".",
            "..",
            "-",
            "_",
            "/",
            "//",
            "\\",
            "@",
            ":",
            ":443",
            "%2e",
            "%00",
            "#",
            "?",
            " ",
            "\t",
            "\n",
            "\0",
            "[",
            "]",
            "freshdesk.com",
            ".freshdesk.com",
            "https://",
            "http:",
            "{account}",
            "1",
            "127.0.0.1",
            "xn--",
            "é",
            "\u{430}",
            "\u{3002}",
            "\u{ff0e}",
            "\u{200b}",
            "K",
            "ſ",
            ";",
            ",",
            "'",
            "\"",
            "www",
        ];
        let mut state = 0x5eed_u64;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap()
        };
        let mut accepted = 0;
        for _ in 0..200_000 {
            let typed: String = (0..=next() % 6).map(|_| PARTS[next() % PARTS.len()]).collect();
            let Ok(account) = read(&production(), &typed) else { continue };
            accepted += 1;
            let url = &account.base_url;
            let label = url.host_str().unwrap().strip_suffix(SUFFIX).unwrap_or_else(|| panic!("{typed:?}: {url}"));
            assert!(!label.is_empty() && !label.contains('.'), "{typed:?}: {url}");
            assert_eq!(url.as_str(), format!("https://{label}.freshdesk.com/"), "{typed:?}");
            assert_eq!(account.id, label);
            assert_eq!(read(&production(), &account.id), Ok(account), "{typed:?}");
        }
        assert!(accepted > 1000, "the inputs are too wild to prove anything: {accepted}");
    }

    #[test]
    fn an_operator_may_put_another_address_in_freshdesks_place() {
        for (template, base) in [
            ("http://127.0.0.1:9000/freshdesk/{account}", "http://127.0.0.1:9000/freshdesk/acme"),
            (" http://127.0.0.1:9000/freshdesk/{account}/ ", "http://127.0.0.1:9000/freshdesk/acme"),
            ("http://sandbox/{account}/freshdesk", "http://sandbox/acme/freshdesk"),
            ("https://{account}.sandbox.test:8443", "https://acme.sandbox.test:8443/"),
        ] {
            let account = read(&Places::substitute("freshdesk", template).unwrap(), "acme.freshdesk.com").unwrap();
            assert_eq!(account.base_url.as_str(), base);
            assert_eq!(account.display, "acme.freshdesk.com");
        }
        for template in [
            "",
            "http://127.0.0.1:9000/freshdesk",
            "{account}",
            "{account}.freshdesk.com",
            "ftp://x.test/{account}",
            "http://{account}/",
            "http://{account}:9000/",
            "http://{account}.",
            "http://x-{account}.test/",
            "http://x.test/{account}/{account}",
            "http://x.test/?account={account}",
            "http://x.test/a-{account}",
            "http://{account}@x.test/",
            "http://user:secret@x.test/{account}",
        ] {
            let refused = Places::substitute("freshdesk", template).expect_err(template);
            assert!(refused.message.contains("http://127.0.0.1:9000/freshdesk/{account}"), "{template}: {refused}");
            assert!(!refused.message.contains("secret"), "it may hold a password");
        }
    }
}
