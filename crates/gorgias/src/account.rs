//! From what an admin typed to the one label that a host is built from, and the hosts themselves.

use holdfast_core::provider::{Account, Invalid, Labels, Places};

/// Where Gorgias's accounts live.
pub(crate) const SUFFIX: &str = ".gorgias.com";
/// Hosts below gorgias.com that are Gorgias's own, and no customer's account.
const NOT_ACCOUNTS: &[&str] =
    &["api", "app", "apps", "developers", "docs", "help", "partners", "static", "status", "www"];
/// Other services of the same company, whose addresses look much the same.
const OTHER_SERVICES: &[(&str, &str)] = &[
    (".gorgias.help", "That is a help center, not the helpdesk itself"),
    (".gorgias.work", "That is another service of Gorgias, not the helpdesk itself"),
];

pub(crate) const RULE: &str = "the part before .gorgias.com in the address of your Gorgias, for example acme or \
                               acme.gorgias.com; not the address of your shop";

/// Where its accounts live.
pub(crate) fn production() -> Places {
    Places::below(SUFFIX)
}

const LABELS: Labels = Labels {
    provider: "Gorgias",
    called: "subdomain",
    suffix: SUFFIX,
    own: NOT_ACCOUNTS,
    others: OTHER_SERVICES,
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
            "acme.gorgias.com",
            "Acme.Gorgias.Com",
            "acme.gorgias.com.",
            "acme.gorgias.com/",
            "acme.gorgias.com//",
            "acme.gorgias.com:443",
            "acme.gorgias.com:443/app",
            "acme.gorgias.com/app/ticket/1",
            "https://acme.gorgias.com",
            "https://ACME.gorgias.com/app/ticket/1",
            "http://acme.gorgias.com/",
            "HTTPS://acme.gorgias.com?brand=1",
            "https://acme.gorgias.com/app/customers?q=ada@example.com",
            "\thttps://acme.gorgias.com/app/views#top\n",
        ] {
            let account = read(&production(), typed).unwrap();
            assert_eq!(account.id, "acme", "{typed}");
            assert_eq!(account.display, "acme.gorgias.com");
            assert_eq!(account.base_url.as_str(), "https://acme.gorgias.com/");
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
            ".gorgias.com",
            "gorgias.com",
            "https://gorgias.com",
            "acme.gorgias.com.evil.example",
            "evil.example/acme.gorgias.com",
            "https://evil.example/acme.gorgias.com",
            "acme.gorgias.com@evil.example",
            "https://acme.gorgias.com@evil.example/",
            "https://acme.gorgias.com:x@evil.example/",
            "acme.gorgias.com%2eevil.example",
            "acme.gorgias.com%2Fevil.example",
            "acme..gorgias.com",
            "acme.gorgias..com",
            "a.b.gorgias.com",
            "\u{430}cme",
            "\u{430}cme.gorgias.com",
            "acme.gorgias.com\u{3002}evil.example",
            "xn--cme-7cd.gorgias.com",
            "evilgorgias.com",
            "acme.gorgias.com.au",
            "acme.gorgias.help",
            "https://acme.gorgias.work/",
            "evil.com#.gorgias.com",
            "https://evil.com#.gorgias.com",
            "evil.com?.gorgias.com",
            "evil.com/.gorgias.com",
            "evil.com\\.gorgias.com",
            "gorgias.com.evil.com",
            "acme.gorgias.com:8443",
            "acme.gorgias.com:80",
            "acme.gorgias.com:443:443",
            "acme:443",
            "help.acme.com",
            "support.acme.example",
            "ada@acme.com",
            "ada@acme.gorgias.com",
            "acme_corp",
            "acme corp",
            "acme.gorgias.com evil.example",
            "acme\\evil",
            "https:\\\\acme.gorgias.com",
            "-acme",
            "acme-",
            "ac/me",
            "acme?x",
            "acme#x",
            "x#.gorgias.com",
            "169.254.169.254#.gorgias.com",
            "169.254.169.254/?.gorgias.com",
            "acme%00",
            "127.0.0.1",
            "[::1]",
            "http://[::1]/",
            "http://127.0.0.1/gorgias/acme",
            "https://acme",
            "ftp://acme.gorgias.com",
            "javascript://acme.gorgias.com",
            "https://https://acme.gorgias.com",
            "//acme.gorgias.com",
            "{account}",
            "www.gorgias.com",
            "docs",
            "https://developers.gorgias.com/reference",
            &"a".repeat(64),
        ] {
            let refused = read(&production(), typed).expect_err(typed);
            assert!(refused.message.contains("for example acme or acme.gorgias.com"), "{typed}: {refused}");
        }
    }

    #[test]
    fn another_service_is_named_as_what_it_is() {
        for (typed, said) in [
            ("acme.gorgias.help", "a help center"),
            ("https://acme.gorgias.work/app", "another service of Gorgias"),
            ("docs.gorgias.com", "Gorgias's own, not an account"),
        ] {
            let refused = read(&production(), typed).expect_err(typed);
            assert!(refused.message.contains(said), "{typed}: {refused}");
        }
    }

    /// Whatever is typed: a host is one label below gorgias.com, reached by https on its own port, or there is none.
    #[test]
    fn no_input_reaches_a_host_that_is_not_one_label_below_gorgias_com() {
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
            "gorgias.com",
            ".gorgias.com",
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
            assert_eq!(url.as_str(), format!("https://{label}.gorgias.com/"), "{typed:?}");
            assert_eq!(account.id, label);
            assert_eq!(read(&production(), &account.id), Ok(account), "{typed:?}");
        }
        assert!(accepted > 1000, "the inputs are too wild to prove anything: {accepted}");
    }
}
