//! What people type where an account is asked for.

use super::{Account, Invalid, Places};

/// An address as it was typed, in small letters and taken apart. It is only looked at: what goes into a host is checked
/// by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Typed {
    /// Without the port of https and without dots at its end.
    pub host: String,
    /// From the first slash, question mark or hash on.
    pub behind: String,
    /// No scheme, no port, and nothing behind it but slashes: it may be a name alone.
    pub bare: bool,
}

impl Typed {
    /// Takes it apart; `address` says whose it would be: `a Zendesk address`. An error says what is wrong with it.
    pub fn read(typed: &str, address: &str) -> Result<Self, String> {
        let typed = typed.trim();
        if typed.is_empty() {
            return Err("Nothing was typed".to_owned());
        }
        if !typed.is_ascii() {
            return Err(format!("That holds letters that {address} never has, or that only look like plain ones"));
        }
        if typed.contains(|c: char| c.is_ascii_whitespace() || c.is_ascii_control() || c == '\\') {
            return Err("That holds a space or a backslash inside".to_owned());
        }
        let typed = typed.to_ascii_lowercase();
        let (scheme, rest) = match typed.split_once("://") {
            Some((scheme, rest)) => (Some(scheme), rest),
            None => (None, typed.as_str()),
        };
        if scheme.is_some_and(|scheme| !matches!(scheme, "https" | "http")) {
            return Err("That is no web address".to_owned());
        }
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let behind = &rest[authority.len()..];
        if authority.contains('@') {
            let mail = scheme.is_none() && behind.is_empty();
            let what =
                if mail { "That looks like an e-mail address" } else { "That is an address with a user name in it" };
            return Err(what.to_owned());
        }
        let bare = scheme.is_none() && !authority.contains(':') && behind.trim_matches('/').is_empty();
        let host = authority.strip_suffix(":443").unwrap_or(authority).trim_end_matches('.');
        Ok(Self { host: host.to_owned(), behind: behind.to_owned(), bare })
    }
}

/// How accounts of a provider are written that live at one label below a host of its own each: `acme.zendesk.com`.
#[derive(Clone, Copy, Debug)]
pub struct Labels {
    /// The provider's name.
    pub provider: &'static str,
    /// What it calls the label: `subdomain`.
    pub called: &'static str,
    /// Where its accounts live, with the leading dot.
    pub suffix: &'static str,
    /// Labels below it that are the provider's own, and no customer's account.
    pub own: &'static [&'static str],
    /// Endings of addresses that look much the same, and what those are.
    pub others: &'static [(&'static str, &'static str)],
    /// What is expected, in words.
    pub rule: &'static str,
}

impl Labels {
    /// An account from what was typed.
    pub fn read(&self, base: &Places, typed: &str) -> Result<Account, Invalid> {
        let expected = |what: String| Invalid::new(format!("{what}. Expected {}.", self.rule));
        let label = self.label(typed).map_err(expected)?;
        let base_url = base.of(&label).map_err(|_| expected(self.none()))?;
        Ok(Account { display: format!("{label}{}", self.suffix), id: label, base_url })
    }

    /// The label below the suffix. Everything else that was typed is only looked at, and never goes into a host.
    fn label(&self, typed: &str) -> Result<String, String> {
        let Self { provider, called, suffix, .. } = self;
        let Typed { host, bare, .. } = Typed::read(typed, &format!("a {provider} address"))?;
        let label = match host.strip_suffix(suffix) {
            Some(label) => label,
            None if bare && !host.contains('.') => &host,
            None => {
                let other = self.others.iter().find(|(end, _)| host.ends_with(end));
                return Err(match other {
                    Some((_, what)) => (*what).to_owned(),
                    None if host.contains('.') => {
                        format!("That is not an address below {}", suffix.trim_start_matches('.'))
                    }
                    None => self.none(),
                });
            }
        };
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if label.is_empty() || !label.bytes().all(plain) {
            return Err(format!("A {provider} {called} has letters, digits and hyphens only"));
        }
        if label.len() > 63 || label.starts_with('-') || label.ends_with('-') || label.starts_with("xn--") {
            return Err(format!(
                "A {provider} {called} has at most 63 characters, neither begins nor ends with a hyphen, and is never \
                 encoded"
            ));
        }
        if self.own.contains(&label) {
            return Err(format!("{label}{suffix} is {provider}'s own, not an account"));
        }
        Ok(label.to_owned())
    }

    fn none(&self) -> String {
        format!("That is no {} {}", self.provider, self.called)
    }
}
