//! From what a person typed to an account: one anchored pattern, whose named groups fill placeholders.

use holdfast_core::provider::Invalid;
use regex::Regex;
use regex_syntax::hir::Look;

use crate::{
    secrets,
    template::{Values, Wrong, is_name},
};

/// No account of any provider comes near this.
const LONGEST_CHARS: usize = 300;
/// The group that is the account's id; the whole, where there is none.
pub(crate) const ID: &str = "account";

/// How accounts of a provider are written.
#[derive(Clone, Debug)]
pub(crate) struct Accounts {
    pattern: Regex,
    rule: String,
    example: String,
}

impl Accounts {
    pub(crate) fn new(pattern: &str, rule: &str, example: &str) -> Result<Self, Wrong> {
        let wrong = |reason: String, remedy: &str| Err((reason, remedy.to_owned()));
        let hir = match regex_syntax::parse(pattern) {
            Ok(hir) => hir,
            Err(error) => {
                let error = error.to_string();
                let why = error.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
                return wrong(format!("the pattern cannot be read: {why}"), "correct it");
            }
        };
        let looks = hir.properties();
        if !looks.look_set_prefix().contains(Look::Start) || !looks.look_set_suffix().contains(Look::End) {
            return wrong(
                "the pattern is not anchored, so that anything may stand around a match".to_owned(),
                "begin it with ^ and end it with $, outside of any alternative: ^(?:a|b)$",
            );
        }
        let Ok(pattern) = Regex::new(pattern) else {
            return wrong("the pattern is too large".to_owned(), "make it shorter");
        };
        if pattern.capture_names().flatten().any(|name| !is_name(name)) {
            return wrong("a group has a name with other than small letters, digits and _".to_owned(), "rename it");
        }
        Ok(Self { pattern, rule: rule.to_owned(), example: example.to_owned() })
    }

    /// The placeholders that an account fills.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.pattern.capture_names().flatten().filter(|name| *name != ID).chain([ID])
    }

    /// What an account's placeholders stand for. In small letters: no service tells accounts apart by their case.
    pub(crate) fn read(&self, typed: &str) -> Result<Values, Invalid> {
        let typed = typed.trim();
        let refused = || Invalid::new(format!("Expected {}, for example {}.", self.rule, self.example));
        if typed.chars().count() > LONGEST_CHARS || typed.chars().any(char::is_control) {
            return Err(refused());
        }
        // An account stands in lists and addresses.
        if secrets::is_typed_key(typed) {
            let expected = format!("Expected {}, for example {}.", self.rule, self.example);
            return Err(Invalid::new(format!(
                "That looks like a key, which is asked for later, and not here. {expected}"
            )));
        }
        let typed = typed.to_lowercase();
        let found = self.pattern.captures(&typed).ok_or_else(refused)?;
        let named = self.pattern.capture_names().flatten();
        let mut values: Values = named
            .map(|name| (name.to_owned(), found.name(name).map_or("", |group| group.as_str()).to_owned()))
            .collect();
        let id = values.entry(ID.to_owned()).or_insert_with(|| found[0].to_owned());
        if id.is_empty() { Err(refused()) } else { Ok(values) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_the_place_of_an_account_is_refused_and_not_repeated() {
        let accounts = Accounts {
            pattern: Regex::new("^.+$").unwrap(),
            rule: "the project's name".to_owned(),
            example: "Support".to_owned(),
        };

        for key in ["sk-proj-abcdefSECRET1234567890", "sk_live_4eC39HqLyjWDarjtT1zdp7dc", "XOXB-123456789012-abc"] {
            let refused = accounts.read(key).unwrap_err().message;
            assert!(refused.contains("looks like a key") && !refused.contains(&key[8..]), "{refused}");
        }
        for name in ["Skelleftea Support", "SK-Rapid Wien", "Eyjafjallajokull 2", "Basic Attention 4711"] {
            assert!(accounts.read(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn a_pattern_is_anchored_whatever_it_looks_like() {
        for bad in ["acme", "^acme", "acme$", "^a|b$", "(?m)^a$", "^a$|b", "(^a|b)$", "^a\\$", "(", "^(?<A>a)$"] {
            assert!(Accounts::new(bad, "x", "a").is_err(), "{bad}");
        }
        for good in ["^a$", "^(?:a|b)$", "\\Aa\\z", "^a$|^b$", "(?i)^a$"] {
            assert!(Accounts::new(good, "x", "a").is_ok(), "{good}");
        }
    }

    #[test]
    fn groups_are_what_placeholders_stand_for() {
        let pattern = r"^(?:https://)?(?<account>(?<label>[a-z0-9-]+)\.okta\.com)/?$";
        let accounts = Accounts::new(pattern, "the domain", "acme.okta.com").unwrap();
        for typed in [" https://ACME.okta.com/ ", "acme.okta.com"] {
            let values = accounts.read(typed).unwrap();
            assert_eq!((values["account"].as_str(), values["label"].as_str()), ("acme.okta.com", "acme"), "{typed}");
        }
        for typed in ["", "acme", "acme.okta.com.evil.test", "a\ncme.okta.com", &"a".repeat(400)] {
            let refused = accounts.read(typed).unwrap_err();
            assert_eq!(refused.message, "Expected the domain, for example acme.okta.com.", "{typed}");
        }
        let whole = Accounts::new("^[0-9]+$", "x", "1").unwrap();
        assert_eq!(whole.read("12").unwrap()["account"], "12");
    }
}
