//! From what an admin typed to the one label that a host is built from, and the hosts themselves.

use holdfast_core::provider::{Account, Invalid, Labels, Places};

/// Where Zendesk's accounts live.
const SUFFIX: &str = ".zendesk.com";
/// Hosts below zendesk.com that are Zendesk's own, and no customer's account.
const NOT_ACCOUNTS: &[&str] =
    &["api", "apps", "assets", "developer", "developers", "help", "static", "status", "support", "www"];

pub(crate) const RULE: &str = "the part before .zendesk.com in the address of your Zendesk, for example acme or \
                               acme.zendesk.com; not your own help center domain";

/// Where its accounts live.
pub(crate) fn production() -> Places {
    Places::below(SUFFIX)
}

const LABELS: Labels =
    Labels { provider: "Zendesk", called: "subdomain", suffix: SUFFIX, own: NOT_ACCOUNTS, others: &[], rule: RULE };

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
            "acme.zendesk.com",
            "Acme.Zendesk.Com",
            "acme.zendesk.com.",
            "acme.zendesk.com/",
            "acme.zendesk.com//",
            "acme.zendesk.com:443",
            "acme.zendesk.com:443/agent",
            "acme.zendesk.com/agent/tickets/1",
            "https://acme.zendesk.com",
            "https://ACME.zendesk.com/agent/tickets/1",
            "http://acme.zendesk.com/",
            "HTTPS://acme.zendesk.com?brand=1",
            "https://acme.zendesk.com/agent/users/ada@example.com",
            "\thttps://acme.zendesk.com/hc/en-us#top\n",
        ] {
            let account = read(&production(), typed).unwrap();
            assert_eq!(account.id, "acme", "{typed}");
            assert_eq!(account.display, "acme.zendesk.com");
            assert_eq!(account.base_url.as_str(), "https://acme.zendesk.com/");
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
            ".zendesk.com",
            "zendesk.com",
            "https://zendesk.com",
            "acme.zendesk.com.evil.example",
            "evil.example/acme.zendesk.com",
            "https://evil.example/acme.zendesk.com",
            "acme.zendesk.com@evil.example",
            "https://acme.zendesk.com@evil.example/",
            "https://acme.zendesk.com:x@evil.example/",
            "acme.zendesk.com%2eevil.example",
            "acme.zendesk.com%2Fevil.example",
            "acme..zendesk.com",
            "acme.zendesk..com",
            "a.b.zendesk.com",
            "\u{430}cme",
            "\u{430}cme.zendesk.com",
            "acme.zendesk.com\u{3002}evil.example",
            "xn--cme-7cd.zendesk.com",
            "evilzendesk.com",
            "acme.zendesk.com:8443",
            "acme.zendesk.com:80",
            "acme.zendesk.com:443:443",
            "acme:443",
            "help.acme.com",
            "support.acme.example",
            "ada@acme.com",
            "ada@acme.zendesk.com",
            "acme_corp",
            "acme corp",
            "acme.zendesk.com evil.example",
            "acme\\evil",
            "https:\\\\acme.zendesk.com",
            "-acme",
            "acme-",
            "ac/me",
            "acme?x",
            "acme#x",
            "x#.zendesk.com",
            "169.254.169.254#.zendesk.com",
            "169.254.169.254/?.zendesk.com",
            "acme%00",
            "127.0.0.1",
            "[::1]",
            "http://[::1]/",
            "http://127.0.0.1/zendesk/acme",
            "https://acme",
            "ftp://acme.zendesk.com",
            "javascript://acme.zendesk.com",
            "https://https://acme.zendesk.com",
            "//acme.zendesk.com",
            "{account}",
            "www.zendesk.com",
            "support",
            "https://developer.zendesk.com/api-reference/",
            &"a".repeat(64),
        ] {
            let refused = read(&production(), typed).expect_err(typed);
            assert!(refused.message.contains("for example acme or acme.zendesk.com"), "{typed}: {refused}");
        }
    }

    /// Whatever is typed: a host is one label below zendesk.com, reached by https on its own port, or there is none.
    #[test]
    fn no_input_reaches_a_host_that_is_not_one_label_below_zendesk_com() {
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
            "zendesk.com",
            ".zendesk.com",
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
            assert_eq!(url.as_str(), format!("https://{label}.zendesk.com/"), "{typed:?}");
            assert_eq!(account.id, label);
            assert_eq!(read(&production(), &account.id), Ok(account), "{typed:?}");
        }
        assert!(accepted > 1000, "the inputs are too wild to prove anything: {accepted}");
    }

    #[test]
    fn an_operator_may_put_another_address_in_zendesks_place() {
        for (template, base) in [
            ("http://127.0.0.1:9000/zendesk/{account}", "http://127.0.0.1:9000/zendesk/acme"),
            (" http://127.0.0.1:9000/zendesk/{account}/ ", "http://127.0.0.1:9000/zendesk/acme"),
            ("http://sandbox/{account}/zendesk", "http://sandbox/acme/zendesk"),
            ("https://{account}.sandbox.test:8443", "https://acme.sandbox.test:8443/"),
        ] {
            let account = read(&Places::substitute("zendesk", template).unwrap(), "acme.zendesk.com").unwrap();
            assert_eq!(account.base_url.as_str(), base);
            assert_eq!(account.display, "acme.zendesk.com");
        }
        for template in [
            "",
            "http://127.0.0.1:9000/zendesk",
            "{account}",
            "{account}.zendesk.com",
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
            let refused = Places::substitute("zendesk", template).expect_err(template);
            assert!(refused.message.contains("http://127.0.0.1:9000/zendesk/{account}"), "{template}: {refused}");
            assert!(!refused.message.contains("secret"), "it may hold a password");
        }
    }
}
