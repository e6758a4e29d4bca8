//! What others have written, made fit for a mail: one line, no longer than needed, nothing invisible in it (EM-04).

use std::fmt::Write as _;

use holdfast_core::visible::is_invisible;
use tera::{Filter, Kwargs, State};

/// Text of people or providers on one line of at most `longest` characters, with an ellipsis where it was cut. Line
/// breaks and controls become spaces; what is not seen but acts (direction overrides, invisible characters) goes. The
/// joiners stay, which scripts need.
pub(crate) fn line(text: &str, longest: usize) -> String {
    let mut clean = String::with_capacity(text.len().min(longest * 4));
    for c in text.chars() {
        if c.is_whitespace() || c.is_control() {
            if !clean.ends_with(' ') {
                clean.push(' ');
            }
        } else if !is_invisible(c) {
            clean.push(c);
        }
    }
    let clean = clean.trim();
    if clean.chars().count() <= longest {
        return clean.to_owned();
    }
    let cut: String = clean.chars().take(longest.saturating_sub(1)).collect();
    format!("{}…", cut.trim_end())
}

/// For the text part: an address in it is not taken for a link.
pub(super) fn unlinked(text: &str) -> String {
    text.replace("://", ": //")
}

/// `{{ text | literal }}` in HTML: escaped, its direction kept to itself, and nothing in it that a mail program takes for
/// a link: those go by dots, colons and at signs in running text.
pub(super) struct Literal;

impl<'a> Filter<&'a str, String> for Literal {
    fn call(&self, text: &'a str, _: Kwargs, _: &State) -> String {
        literal(text)
    }

    fn is_safe(&self) -> bool {
        true
    }
}

fn literal(text: &str) -> String {
    let mut html = String::with_capacity(text.len() + 16);
    html.push_str("<bdi>");
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            '.' | ':' | '@' => write!(html, "<span>{c}</span>").expect("writing to a String cannot fail"),
            c => html.push(c),
        }
    }
    html.push_str("</bdi>");
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_unseen_is_gone_and_the_rest_stays() {
        for (given, shown) in [
            ("Acme", "Acme"),
            ("  Acme\r\nBcc: x@evil.example  ", "Acme Bcc: x@evil.example"),
            ("a\u{202E}gpj.exe", "agpj.exe"),
            ("a\u{2028}b\u{0}c\u{7F}", "a b c"),
            ("zero\u{200B}width\u{FEFF}", "zerowidth"),
            ("नमस्\u{200D}ते שלום 東京 👩\u{200D}💻", "नमस्\u{200D}ते שלום 東京 👩\u{200D}💻"),
            ("=?utf-8?Q?a=0D=0ABcc:x@evil.example?=", "=?utf-8?Q?a=0D=0ABcc:x@evil.example?="),
            ("\u{202E}\u{200B}", ""),
        ] {
            assert_eq!(line(given, 80), shown);
        }
    }

    #[test]
    fn a_long_text_is_cut_by_characters() {
        assert_eq!(line(&"é".repeat(5000), 80).chars().count(), 80);
        assert_eq!(line("four", 4), "four");
        assert_eq!(line("fives", 4), "fiv…");
    }

    #[test]
    fn markup_is_shown_and_no_address_is_a_link() {
        let html = literal("<img src=//evil.example/x> 'a' \"b\" & http://evil.example");

        assert!(!html.contains("<img") && !html.contains("evil.example") && !html.contains("://"), "{html}");
        let shown = html.replace("<span>", "").replace("</span>", "");
        let shown = shown.trim_start_matches("<bdi>").trim_end_matches("</bdi>");
        assert_eq!(shown, "&lt;img src=//evil.example/x&gt; &#39;a&#39; &quot;b&quot; &amp; http://evil.example");
        assert_eq!(unlinked("see http://evil.example"), "see http: //evil.example");
    }
}
