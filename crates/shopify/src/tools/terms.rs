//! Shopify's search language, put together from parts that are quoted: what a caller wrote never becomes a term of its
//! own. And the page that is asked for.
//!
//! <https://shopify.dev/docs/api/usage/search-syntax>

use serde_json::{Value, json};

/// A search takes no more.
const LONGEST_CHARS: usize = 250;
const LONGEST_CURSOR: usize = 2000;
pub(super) const DEFAULT_LIMIT: u32 = 25;

/// Terms that have to hold together. A field that Shopify does not know is ignored by it, and everything is found: only
/// names from its documentation are written here.
#[derive(Debug, Default)]
pub(super) struct Terms(Vec<String>);

impl Terms {
    /// `field:"value"`; nothing where there is no value.
    pub(super) fn equal(mut self, field: &str, value: Option<&str>) -> Result<Self, String> {
        if let Some(value) = value {
            self.0.push(format!("{field}:{}", quoted(field, value)?));
        }
        Ok(self)
    }

    /// A word of Shopify's own.
    pub(super) fn word(mut self, field: &str, word: Option<&str>) -> Self {
        if let Some(word) = word {
            self.0.push(format!("{field}:{word}"));
        }
        self
    }

    /// One of these values.
    pub(super) fn any(mut self, field: &str, values: &[String]) -> Result<Self, String> {
        let terms: Vec<String> = values
            .iter()
            .map(|value| Ok(format!("{field}:{}", quoted(field, value)?)))
            .collect::<Result<_, String>>()?;
        match terms.as_slice() {
            [] => {}
            [one] => self.0.push(one.clone()),
            more => self.0.push(format!("({})", more.join(" OR "))),
        }
        Ok(self)
    }

    /// A phrase anywhere.
    pub(super) fn phrase(mut self, field: &str, phrase: Option<&str>) -> Result<Self, String> {
        if let Some(phrase) = phrase {
            self.0.push(quoted(field, phrase)?);
        }
        Ok(self)
    }

    /// A comparison (`created_at:>=…`).
    pub(super) fn compared(mut self, field: &str, comparison: &str, value: Option<String>) -> Self {
        if let Some(value) = value {
            self.0.push(format!("{field}:{comparison}\"{value}\""));
        }
        self
    }

    pub(super) fn text(&self) -> String {
        self.0.join(" ")
    }
}

fn quoted(field: &str, value: &str) -> Result<String, String> {
    let value = value.trim();
    if value.is_empty() || value.chars().count() > LONGEST_CHARS || value.contains(char::is_control) {
        return Err(format!("{field}: expected 1 to {LONGEST_CHARS} characters on one line"));
    }
    Ok(format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")))
}

/// Variables of a page of `query`.
pub(super) fn page(query: &str, limit: Option<u32>, cursor: Option<&str>, most: u32) -> Result<Value, String> {
    let limit = limit.unwrap_or(DEFAULT_LIMIT.min(most));
    if !(1..=most).contains(&limit) {
        return Err(format!("limit: expected 1 to {most}"));
    }
    if cursor.is_some_and(|cursor| cursor.is_empty() || cursor.len() > LONGEST_CURSOR) {
        return Err("cursor: expected next_cursor of an earlier answer, unchanged".to_owned());
    }
    Ok(json!({"q": query, "n": limit, "after": cursor}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_caller_wrote_stays_inside_of_its_quotes() {
        let terms = Terms::default()
            .equal("email", Some("a\" OR email:\"b"))
            .and_then(|terms| terms.equal("sku", Some("x\\")))
            .and_then(|terms| terms.any("name", &["#1".to_owned(), "1".to_owned()]))
            .and_then(|terms| terms.phrase("query", Some(" 陳偉 ")))
            .unwrap()
            .word("status", Some("open"))
            .compared("created_at", ">=", Some("2026-01-01T00:00:00Z".to_owned()));
        assert_eq!(
            terms.text(),
            r##"email:"a\" OR email:\"b" sku:"x\\" (name:"#1" OR name:"1") "陳偉" status:open created_at:>="2026-01-01T00:00:00Z""##
        );
        assert_eq!(Terms::default().text(), "");
        for value in ["", "  ", "a\nb", &"x".repeat(251)] {
            assert!(
                Terms::default().equal("email", Some(value)).unwrap_err().starts_with("email: expected"),
                "{value}"
            );
        }
    }

    #[test]
    fn a_page_has_its_bounds() {
        assert_eq!(page("q", None, None, 50), Ok(json!({"q": "q", "n": 25, "after": null})));
        assert_eq!(page("q", None, None, 10), Ok(json!({"q": "q", "n": 10, "after": null})));
        assert_eq!(page("q", Some(50), Some("c"), 50), Ok(json!({"q": "q", "n": 50, "after": "c"})));
        for limit in [0, 51] {
            assert!(page("q", Some(limit), None, 50).unwrap_err().starts_with("limit: expected 1 to 50"));
        }
        assert!(page("q", None, Some(""), 50).unwrap_err().starts_with("cursor: expected"));
    }
}
