//! What is asked for, in words, and what works without which of it.
//! <https://developers.google.com/workspace/gmail/api/auth/scopes>

use holdfast_core::provider::Scope;

use crate::tools::name;

const OPENID: &str = "openid";
const EMAIL: &str = "https://www.googleapis.com/auth/userinfo.email";
const MAIL_READ: &str = "https://www.googleapis.com/auth/gmail.readonly";
const MAIL_SEND: &str = "https://www.googleapis.com/auth/gmail.send";
const EVENTS: &str = "https://www.googleapis.com/auth/calendar.events";
const SHEETS: &str = "https://www.googleapis.com/auth/spreadsheets";

/// As answers spell them. Reading and sending apart, so that a person can allow one of the two.
pub(crate) const ALL: &[Scope] = &[
    Scope { name: OPENID, words: "Know which Google account this is" },
    Scope { name: EMAIL, words: "See the e-mail address of the account" },
    Scope { name: MAIL_READ, words: "Gmail: search and read mail" },
    Scope { name: MAIL_SEND, words: "Gmail: send mail in the person's name" },
    Scope { name: EVENTS, words: "Calendar: see and make events" },
    Scope { name: SHEETS, words: "Sheets: read and change tables" },
];

/// Without these nobody knows whose access it is.
const IDENTITY: [&str; 2] = [OPENID, EMAIL];

/// What a tool cannot do without.
pub(crate) fn of(tool: &str) -> &'static [&'static str] {
    match tool {
        name::SEARCH_MAIL | name::GET_MAIL => &[MAIL_READ],
        name::SEND_MAIL => &[MAIL_SEND],
        // The mail that is answered is read first: whom to answer, and in which thread.
        name::REPLY_MAIL => &[MAIL_READ, MAIL_SEND],
        name::LIST_EVENTS | name::CREATE_EVENT => &[EVENTS],
        name::READ_SHEET | name::APPEND_SHEET => &[SHEETS],
        "identity" => &IDENTITY,
        _ => &[],
    }
}

/// People may untick any of the products, but not all.
pub(crate) fn indispensable(missing: &[String]) -> Vec<String> {
    let lacks = |scope: &str| missing.iter().any(|missing| missing == scope);
    let product = |scope: &&Scope| !IDENTITY.contains(&scope.name);
    if ALL.iter().filter(product).all(|scope| lacks(scope.name)) {
        return missing.to_vec();
    }
    IDENTITY.into_iter().filter(|scope| lacks(scope)).map(str::to_owned).collect()
}

/// What a person has to allow for this tool: `Gmail: send mail in the person's name (gmail.send)`.
pub(crate) fn words(tool: &str) -> Option<String> {
    let needs = of(tool);
    let scopes = ALL.iter().filter(|scope| needs.contains(&scope.name));
    let words = scopes.map(|scope| {
        let short = scope.name.rsplit('/').next().unwrap_or(scope.name);
        format!("\"{}\" ({short})", scope.words)
    });
    let words: Vec<_> = words.collect();
    (!words.is_empty()).then(|| words.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools;

    #[test]
    fn every_tool_says_what_it_needs_and_all_of_that_is_asked_for() {
        for tool in tools::ALL {
            let needs = of(tool.name);
            assert!(!needs.is_empty(), "{}", tool.name);
            assert!(needs.iter().all(|need| ALL.iter().any(|scope| scope.name == *need)), "{}", tool.name);
            assert!(words(tool.name).is_some());
        }
        assert_eq!(words("send_mail").unwrap(), "\"Gmail: send mail in the person's name\" (gmail.send)");
    }

    #[test]
    fn a_product_can_be_left_out_the_identity_and_all_products_cannot() {
        let missing = |scopes: &[&str]| -> Vec<String> { scopes.iter().map(|scope| (*scope).to_owned()).collect() };
        let products = [MAIL_READ, MAIL_SEND, EVENTS, SHEETS];
        for (lacks, blocks) in [
            (vec![], vec![]),
            (vec![MAIL_SEND], vec![]),
            (vec![MAIL_READ, MAIL_SEND, SHEETS], vec![]),
            (vec![EMAIL, SHEETS], vec![EMAIL]),
            (vec![OPENID, EMAIL], vec![OPENID, EMAIL]),
            (products.to_vec(), products.to_vec()),
        ] {
            assert_eq!(indispensable(&missing(&lacks)), missing(&blocks), "{lacks:?}");
        }
    }
}
