//! Texts with `{placeholders}`, and the URLs among them: whatever is filled in, a URL keeps its shape, and no account
//! chooses a host that the file does not name.

use std::collections::BTreeMap;

use holdfast_core::api_client::segment;
use url::{Host, Url};

/// What placeholders stand for.
pub(crate) type Values = BTreeMap<String, String>;

/// A text with placeholders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Name(String),
}

/// Reason and remedy.
pub(crate) type Wrong = (String, String);

fn wrong<T>(reason: impl Into<String>, remedy: impl Into<String>) -> Result<T, Wrong> {
    Err((reason.into(), remedy.into()))
}

impl Template {
    pub(crate) fn parse(text: &str) -> Result<Self, Wrong> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once('{') {
            let Some((name, after)) = behind.split_once('}') else {
                return wrong("a { is not closed", "write a placeholder as {name}");
            };
            if !is_name(name) {
                return wrong("a placeholder has no name of small letters", "write a placeholder as {name}");
            }
            parts.push(Part::Text(before.to_owned()));
            parts.push(Part::Name(name.to_owned()));
            rest = after;
        }
        if rest.contains('}') {
            return wrong("a } was not opened", "write a placeholder as {name}");
        }
        parts.push(Part::Text(rest.to_owned()));
        parts.retain(|part| *part != Part::Text(String::new()));
        Ok(Self(parts))
    }

    /// The placeholders.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            Part::Name(name) => Some(name.as_str()),
            Part::Text(_) => None,
        })
    }

    /// `None`: something is not known.
    pub(crate) fn fill(&self, values: &Values) -> Option<String> {
        self.fill_with(values, str::to_owned)
    }

    fn fill_with(&self, values: &Values, written: impl Fn(&str) -> String) -> Option<String> {
        let parts = self.0.iter().map(|part| match part {
            Part::Text(text) => Some(text.clone()),
            Part::Name(name) => values.get(name).map(|value| written(value)),
        });
        parts.collect()
    }

    /// What always stands at its end.
    fn end(&self) -> &str {
        match self.0.last() {
            Some(Part::Text(text)) => text,
            _ => "",
        }
    }
}

/// Names of placeholders, and of named groups of a pattern.
pub(crate) fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// An https URL whose host and path may hold placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UrlTemplate {
    host: Template,
    path: Template,
}

impl UrlTemplate {
    pub(crate) fn parse(text: &str) -> Result<Self, Wrong> {
        let Some(rest) = text.strip_prefix("https://") else {
            let remedy = "write https://; a sandbox is for providers.ID.base_url_override of the configuration";
            return wrong("it does not begin with https://", remedy);
        };
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.{}_".contains(c);
        if host.is_empty() || !host.chars().all(plain) {
            return wrong("its host is no plain name in small letters", "leave out port, user and the like");
        }
        if path.contains(['?', '#', '%', '\\']) || path.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return wrong("there is more than host and path", "leave out query, fragment and encoded characters");
        }
        let template = Self { host: Template::parse(host)?, path: Template::parse(path)? };
        let sample: Values = template.names().map(|name| (name.to_owned(), "a".to_owned())).collect();
        if template.fill(&sample, &[]).is_none() && template.has_fixed_end() {
            return wrong("it is no URL", "write it as https://host/path");
        }
        Ok(template)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.host.names().chain(self.path.names())
    }

    pub(crate) fn names_of_host(&self) -> impl Iterator<Item = &str> {
        self.host.names()
    }

    /// Whether the file itself says below which domain the host is: nothing in it is open, or what stands behind the last
    /// placeholder holds two labels.
    pub(crate) fn has_fixed_end(&self) -> bool {
        self.host.names().next().is_none()
            || self.host.end().strip_prefix('.').is_some_and(|end| end.contains('.') && !end.starts_with('.'))
    }

    /// `None`: something is not known, or makes a host that is not allowed. A host without a fixed end has to have one of
    /// `suffixes`.
    pub(crate) fn fill(&self, values: &Values, suffixes: &[String]) -> Option<Url> {
        let host = self.host.fill(values)?;
        let label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        let listed = |suffix: &String| host.len() > suffix.len() && host.ends_with(suffix.as_str());
        if host.len() > 253 || !host.split('.').all(label) || !(self.has_fixed_end() || suffixes.iter().any(listed)) {
            return None;
        }
        // A parser takes them for steps, however they are encoded.
        let steps = |name: &str| matches!(values.get(name).map(String::as_str), Some("." | ".."));
        if self.path.names().any(steps) {
            return None;
        }
        let url = Url::parse(&format!("https://{host}/{}", self.path.fill_with(values, segment)?)).ok()?;
        // A name that is read as an address is none.
        matches!(url.host(), Some(Host::Domain(name)) if name == host).then_some(url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(pairs: &[(&str, &str)]) -> Values {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_template_is_filled_with_what_is_known() {
        let template = Template::parse("a{x}-{y_2}b").unwrap();
        assert_eq!(template.names().collect::<Vec<_>>(), ["x", "y_2"]);
        assert_eq!(template.fill(&values(&[("x", "1"), ("y_2", "2")])).as_deref(), Some("a1-2b"));
        assert_eq!(template.fill(&values(&[("x", "1")])), None);
        for bad in ["{", "a}", "{}", "{A}", "{a b}", "{{a}}", "{1a}"] {
            assert!(Template::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_url_is_https_with_a_plain_host() {
        for bad in [
            "http://a.test/",
            "https://",
            "https:///x",
            "https://A.test/",
            "https://a.test:8443/",
            "https://user@a.test/",
            "https://a.test/x?y",
            "https://a.test/x#y",
            "https://a.test/%2e",
            "https://a..test/",
            "https://127.0.0.1/",
            "https://[::1]/",
            "ftp://a.test/",
            "a.test",
        ] {
            assert!(UrlTemplate::parse(bad).is_err(), "{bad}");
        }
        let url = UrlTemplate::parse("https://a.test").unwrap().fill(&Values::new(), &[]);
        assert_eq!(url.unwrap().as_str(), "https://a.test/");
    }

    #[test]
    fn no_value_leaves_its_host_or_its_segment() {
        let template = UrlTemplate::parse("https://{account}.desk.test/v1/{account}/x").unwrap();
        let fill = |value: &str| template.fill(&values(&[("account", value)]), &[]).map(String::from);
        assert_eq!(fill("acme").as_deref(), Some("https://acme.desk.test/v1/acme/x"));
        assert_eq!(fill("acme.eu").as_deref(), Some("https://acme.eu.desk.test/v1/acme.eu/x"));
        for bad in ["", "evil.test/", "evil.test#", "a@b", "a:1", "-a", "a-", "a..b", "a_b", "\u{e4}", "A", "a b", "."]
        {
            assert_eq!(fill(bad), None, "{bad}");
        }
        let path = UrlTemplate::parse("https://a.test/v1/{x}").unwrap();
        let filled = path.fill(&values(&[("x", "../a b/?#")]), &[]).unwrap();
        assert_eq!(filled.as_str(), "https://a.test/v1/..%2Fa%20b%2F%3F%23");
        assert_eq!(path.fill(&values(&[("x", "..")]), &[]), None);
    }

    #[test]
    fn a_host_without_a_fixed_end_needs_one_of_the_list() {
        let template = UrlTemplate::parse("https://accounts.zoho.{dc}/x").unwrap();
        assert!(!template.has_fixed_end());
        let suffixes = [".zoho.com".to_owned(), ".zoho.com.au".to_owned()];
        let fill = |value: &str| template.fill(&values(&[("dc", value)]), &suffixes).map(String::from);
        assert_eq!(fill("com").as_deref(), Some("https://accounts.zoho.com/x"));
        assert_eq!(fill("com.au").as_deref(), Some("https://accounts.zoho.com.au/x"));
        assert_eq!(fill("evil"), None);
        assert_eq!(fill("com.evil.test"), None);
        for (text, fixed) in [
            ("https://{a}/", false),
            ("https://{a}.com/", false),
            ("https://{a}b.com/", false),
            ("https://{a}.b.com/", true),
            ("https://x.{a}.b.com/", true),
            ("https://b.com/{a}", true),
        ] {
            assert_eq!(UrlTemplate::parse(text).unwrap().has_fixed_end(), fixed, "{text}");
        }
    }
}
