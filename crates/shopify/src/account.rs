//! From what an admin typed to the one label that a host is built from, and the hosts themselves.

use holdfast_core::provider::{Account, Invalid, Places, Typed};

/// Where all shops live, whatever their own domains are.
const SUFFIX: &str = ".myshopify.com";
/// The admin's own address, which names the shop in its path.
const ADMIN: &str = "admin.shopify.com";
/// The documented rule names no length; official code and a DNS label allow no more.
const LONGEST_LABEL: usize = 61;

pub(crate) const RULE: &str = "the shop's address at Shopify, for example acme or acme.myshopify.com; not the shop's own \
                               domain";

/// Where its accounts live.
pub(crate) fn production() -> Places {
    Places::below(SUFFIX)
}

/// An account from what was typed.
pub(crate) fn read(base: &Places, typed: &str) -> Result<Account, Invalid> {
    let label = label(typed)?;
    let base_url = base.of(&label).map_err(|_| expected("That is no shop"))?;
    Ok(Account { display: format!("{label}{SUFFIX}"), id: label, base_url })
}

/// The label of a domain exactly as Shopify writes it: `acme` of `acme.myshopify.com`. For what an answer or a callback
/// says, where nothing is to be guessed.
/// <https://shopify.dev/docs/apps/build/authentication-authorization/access-tokens/authorization-code-grant>
pub(crate) fn of_domain(domain: &str) -> Option<&str> {
    domain.strip_suffix(SUFFIX).filter(|label| is_label(label))
}

fn is_label(label: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=LONGEST_LABEL).contains(&label.len())
        && label.bytes().all(|byte| plain(byte) || byte == b'-')
        && plain(label.as_bytes()[0])
        && !label.starts_with("xn--")
}

fn expected(what: &str) -> Invalid {
    Invalid::new(format!("{what}. Expected {RULE}."))
}

/// The label before `.myshopify.com`. Everything else that was typed is only looked at, and never goes into a host.
fn label(typed: &str) -> Result<String, Invalid> {
    let Typed { host, behind, bare } = Typed::read(typed, "a shop's address").map_err(|what| expected(&what))?;
    let label = if host == ADMIN {
        let path = behind.split(['?', '#']).next().unwrap_or_default();
        let name = path.strip_prefix("/store/").and_then(|path| path.split('/').next());
        name.filter(|name| !name.is_empty())
            .ok_or_else(|| expected("That is the Shopify admin without the name of a shop"))?
    } else if let Some(label) = host.strip_suffix(SUFFIX) {
        label
    } else if host.contains('.') {
        return Err(expected("That is not an address below myshopify.com"));
    } else if bare {
        &host
    } else {
        return Err(expected("That is no shop"));
    };
    if !is_label(label) {
        return Err(expected(
            "A shop's name has letters, digits and hyphens only, begins with a letter or digit, and has at most 61 \
             characters",
        ));
    }
    Ok(label.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CO-09
    #[test]
    fn every_form_that_people_type_is_the_same_shop() {
        for typed in [
            "acme",
            " Acme ",
            "ACME",
            "acme/",
            "acme.myshopify.com",
            "Acme.MyShopify.com",
            "acme.myshopify.com.",
            "acme.myshopify.com/",
            "acme.myshopify.com:443/admin",
            "https://acme.myshopify.com",
            "https://acme.myshopify.com/admin/orders?x=1#y",
            "http://ACME.MYSHOPIFY.COM//",
            "admin.shopify.com/store/acme",
            "https://admin.shopify.com/store/Acme/orders/1",
        ] {
            let account = read(&production(), typed).unwrap_or_else(|error| panic!("{typed}: {error}"));
            assert_eq!(account.id, "acme", "{typed}");
            assert_eq!(account.display, "acme.myshopify.com");
            assert_eq!(account.base_url.as_str(), "https://acme.myshopify.com/");
        }
    }

    /// CO-10
    #[test]
    fn what_is_no_shop_is_refused_with_an_example_of_one() {
        let long = "a".repeat(62);
        for typed in [
            "",
            " ",
            "acme.com",
            "shop.acme.com",
            "acme.myshopify.com.evil.example",
            "evil.example/acme.myshopify.com",
            "acme.myshopify.com@evil.example",
            "evil.example#.myshopify.com",
            "evil.example?.myshopify.com",
            "acme.myshopify.com%2eevil.example",
            "acme..myshopify.com",
            "a.b.myshopify.com",
            ".myshopify.com",
            "myshopify.com",
            "-acme.myshopify.com",
            "ac_me.myshopify.com",
            "xn--acme.myshopify.com",
            "\u{430}cme.myshopify.com",
            "acme.myshopify\u{3002}com",
            "acme\u{200b}.myshopify.com",
            "acme.myshopify.io",
            "acme.shop.dev",
            "acme.spin.dev",
            "shopify.com",
            "admin.shopify.com",
            "admin.shopify.com/store/",
            "admin.shopify.com/store/a.b",
            "admin.shopify.com/store/a%2fb",
            "admin.shopify.com.evil.example/store/acme",
            "https://admin.shopify.com@evil.example/store/acme",
            "127.0.0.1",
            "http://[::1]/",
            "http://2130706433/",
            "acme:8080",
            "acme.myshopify.com:8080",
            "ada@acme.com",
            "https://ada:x@acme.myshopify.com/",
            "javascript://acme.myshopify.com/",
            "https:\\\\acme.myshopify.com",
            "ac me",
            "acme\n.myshopify.com",
            "acme/../evil",
            "{account}",
            long.as_str(),
        ] {
            let refused = read(&production(), typed).expect_err(typed);
            assert!(refused.message.contains("for example acme or acme.myshopify.com"), "{typed}: {refused}");
        }
    }

    #[test]
    fn a_domain_in_an_answer_is_taken_to_the_letter() {
        assert_eq!(of_domain("acme-2.myshopify.com"), Some("acme-2"));
        for domain in [
            "acme",
            "Acme.myshopify.com",
            "acme.myshopify.com.",
            " acme.myshopify.com",
            "acme.myshopify.com\n",
            "https://acme.myshopify.com",
            "a.b.myshopify.com",
            ".myshopify.com",
            "acme.myshopify.com.evil.example",
        ] {
            assert_eq!(of_domain(domain), None, "{domain}");
        }
    }

    #[test]
    fn an_operator_may_put_another_address_in_shopifys_place() {
        for (template, base) in [
            ("http://127.0.0.1:9000/shopify/{account}", "http://127.0.0.1:9000/shopify/acme"),
            ("https://{account}.sandbox.test:8443", "https://acme.sandbox.test:8443/"),
        ] {
            let account = read(&Places::substitute("shopify", template).unwrap(), "acme.myshopify.com").unwrap();
            assert_eq!(account.base_url.as_str(), base);
            assert_eq!(account.display, "acme.myshopify.com");
        }
        for template in ["", "http://127.0.0.1:9000/shopify", "http://{account}/", "http://u:secret@x.test/{account}"] {
            let refused = Places::substitute("shopify", template).expect_err(template);
            assert!(refused.message.contains("http://127.0.0.1:9000/shopify/{account}"), "{template}: {refused}");
            assert!(!refused.message.contains("secret"), "it may hold a password");
        }
    }
}
