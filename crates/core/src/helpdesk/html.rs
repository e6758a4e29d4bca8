//! HTML to text, for providers that have no text of their own: articles of a help center, messages of some helpdesks; and
//! text to HTML, for providers that take nothing else.
//!
//! Good enough to read, and never more than text: what comes out holds no markup that went in as markup.

/// What begins on a line of its own.
const BLOCKS: &[&str] = &[
    "address",
    "article",
    "aside",
    "blockquote",
    "br",
    "dd",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "li",
    "main",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "table",
    "tbody",
    "td",
    "tfoot",
    "th",
    "thead",
    "tr",
    "ul",
];
/// What is not for reading, with everything in it.
const UNREAD: &[&str] = &["head", "iframe", "noscript", "script", "style", "svg", "template", "title"];
/// An entity's name or number is not longer.
const LONGEST_ENTITY: usize = 10;

/// The text of a piece of HTML: one line for each block, `- ` before the entries of lists, entities decoded, spaces as
/// one. Broken markup is read as far as it goes.
pub fn text_of_html(html: &str) -> String {
    let mut out = Out::default();
    let mut rest = html;
    while let Some(at) = rest.find(['<', '&']) {
        out.words(&rest[..at]);
        rest = &rest[at..];
        rest = if rest.starts_with('&') { entity(rest, &mut out) } else { tag(rest, &mut out) };
    }
    out.words(rest);
    out.text.trim_end().to_owned()
}

/// What a person typed, as HTML that shows exactly that: nothing in it becomes a tag.
pub fn html_of_text(text: &str) -> String {
    let mut html = String::with_capacity(text.len() + 16);
    html.push_str("<div>");
    for c in text.replace("\r\n", "\n").chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            '\n' | '\r' => html.push_str("<br>"),
            c => html.push(c),
        }
    }
    html.push_str("</div>");
    html
}

#[derive(Default)]
struct Out {
    text: String,
    /// Between the words before and those that come.
    gap: Gap,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Gap {
    #[default]
    None,
    Space,
    Line,
    Entry,
}

impl Out {
    fn words(&mut self, text: &str) {
        for c in text.chars() {
            self.letter(c);
        }
    }

    fn letter(&mut self, c: char) {
        if c.is_whitespace() || c.is_control() {
            self.gap = self.gap.max(Gap::Space);
            return;
        }
        let first = self.text.is_empty();
        match std::mem::take(&mut self.gap) {
            Gap::Entry if first => self.text.push_str("- "),
            Gap::Entry => self.text.push_str("\n- "),
            Gap::Line if !first => self.text.push('\n'),
            Gap::Space if !first => self.text.push(' '),
            _ => {}
        }
        self.text.push(c);
    }
}

/// Reads a tag, or takes the sign as it is; answers what is behind it.
fn tag<'a>(at: &'a str, out: &mut Out) -> &'a str {
    if let Some(comment) = at.strip_prefix("<!--") {
        return comment.find("-->").map_or("", |end| &comment[end + 3..]);
    }
    let inner = &at[1..];
    let (closing, named) = inner.strip_prefix('/').map_or((false, inner), |named| (true, named));
    if !named.starts_with(|c: char| c.is_ascii_alphabetic() || c == '!' || c == '?') {
        out.letter('<');
        return inner;
    }
    let length = named.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(named.len());
    let name = named[..length].to_ascii_lowercase();
    let behind = end_of_tag(&named[length..]);
    if !closing && UNREAD.contains(&name.as_str()) {
        return end_of_unread(behind, &name);
    }
    if name == "li" && !closing {
        out.gap = Gap::Entry;
    } else if BLOCKS.contains(&name.as_str()) {
        out.gap = out.gap.max(Gap::Line);
    }
    behind
}

/// Behind the `>` that is in no quotes; nothing, where there is none.
fn end_of_tag(attributes: &str) -> &str {
    let mut quote = None;
    for (at, c) in attributes.char_indices() {
        match (quote, c) {
            (None, '>') => return &attributes[at + 1..],
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
    }
    ""
}

/// Behind the closing tag of what is not for reading.
fn end_of_unread<'a>(mut rest: &'a str, name: &str) -> &'a str {
    while let Some(at) = rest.find("</") {
        rest = &rest[at + 2..];
        let named = rest.get(..name.len()).is_some_and(|here| here.eq_ignore_ascii_case(name));
        if named && !rest[name.len()..].starts_with(|c: char| c.is_ascii_alphanumeric()) {
            return end_of_tag(&rest[name.len()..]);
        }
    }
    ""
}

/// Decodes an entity, or takes the sign as it is; answers what is behind it.
fn entity<'a>(at: &'a str, out: &mut Out) -> &'a str {
    let inner = &at[1..];
    let end = inner.char_indices().take(LONGEST_ENTITY + 1).find(|(_, c)| *c == ';').map(|(end, _)| end);
    let Some((end, letter)) = end.and_then(|end| Some((end, decoded(&inner[..end])?))) else {
        out.letter('&');
        return inner;
    };
    out.letter(letter);
    &inner[end + 1..]
}

fn decoded(name: &str) -> Option<char> {
    if let Some(number) = name.strip_prefix('#') {
        let hex = number.strip_prefix(['x', 'X']);
        let code = hex.map_or_else(|| number.parse().ok(), |hex| u32::from_str_radix(hex, 16).ok());
        return code.and_then(char::from_u32);
    }
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" | "ensp" | "emsp" | "thinsp" => ' ',
        "ndash" => '–',
        "mdash" => '—',
        "hellip" => '…',
        "lsquo" => '‘',
        "rsquo" => '’',
        "ldquo" => '“',
        "rdquo" => '”',
        "bdquo" => '„',
        "laquo" => '«',
        "raquo" => '»',
        "bull" => '•',
        "middot" => '·',
        "rarr" => '→',
        "times" => '×',
        "deg" => '°',
        "euro" => '€',
        "pound" => '£',
        "copy" => '©',
        "reg" => '®',
        "trade" => '™',
        "auml" => 'ä',
        "ouml" => 'ö',
        "uuml" => 'ü',
        "Auml" => 'Ä',
        "Ouml" => 'Ö',
        "Uuml" => 'Ü',
        "szlig" => 'ß',
        "aacute" => 'á',
        "agrave" => 'à',
        "acirc" => 'â',
        "atilde" => 'ã',
        "eacute" => 'é',
        "egrave" => 'è',
        "ecirc" => 'ê',
        "iacute" => 'í',
        "ntilde" => 'ñ',
        "oacute" => 'ó',
        "ocirc" => 'ô',
        "otilde" => 'õ',
        "uacute" => 'ú',
        "ccedil" => 'ç',
        "aring" => 'å',
        "oslash" => 'ø',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_people_read_is_kept_and_the_markup_is_not() {
        for (html, text) in [
            ("", ""),
            ("plain", "plain"),
            (
                "<h2>Returns</h2>\n<p>Within&nbsp;30 days,\n  at <b>no</b> cost.</p>",
                "Returns\nWithin 30 days, at no cost.",
            ),
            ("<ul><li>Print</li><li><p>Pack</p></li></ul>Done", "- Print\n- Pack\nDone"),
            ("a<br>b<br/>c<BR />d", "a\nb\nc\nd"),
            ("<p>a</p><script>if (a < b) { '</p>' }</script><style>p{}</style><p>b</p>", "a\nb"),
            ("a<script>x</scripty>y</SCRIPT >b", "ab"),
            ("<script>never closed", ""),
            ("a<!-- <p>no</p> -->b", "ab"),
            ("<a href=\"x>y\" title='>'>link</a>", "link"),
            ("5 < 6 & 7 > 2", "5 < 6 & 7 > 2"),
            ("&lt;b&gt; &amp;amp; &#8364; &#x20ac; &uuml;ber", "<b> &amp; € € über"),
            ("&nosuch; &; &#; &#xd800; &#99999999999; AT&T", "&nosuch; &; &#; &#xd800; &#99999999999; AT&T"),
            ("<table><tr><td>a</td><td>b</td></tr></table>", "a\nb"),
            ("日本語<p>العربية</p>", "日本語\nالعربية"),
            ("<p>cut <b", "cut"),
        ] {
            assert_eq!(text_of_html(html), text, "{html}");
        }
    }

    #[test]
    fn what_was_typed_is_what_is_shown() {
        for text in [
            "plain",
            "a < b && \"c\" > 'd'",
            "<script>x</script>",
            "one\ntwo",
            "Dzień dobry, 陳偉 🙂",
            "&amp;",
            "</div>",
        ] {
            assert_eq!(text_of_html(&html_of_text(text)), text);
        }
        assert_eq!(html_of_text("<b>\r\n\n&"), "<div>&lt;b&gt;<br><br>&amp;</div>");
    }

    proptest! {
        #[test]
        fn any_text_is_read_to_its_end(html in "[<>/&;#a-z\"'! é\n-]{0,60}") {
            let text = text_of_html(&html);
            prop_assert!(text.chars().all(|c| c == '\n' || !c.is_control()));
        }

        #[test]
        fn text_without_signs_comes_through_as_it_is(words in "[a-zà-ü0-9]{1,9}( [a-zà-ü0-9]{1,9}){0,5}") {
            prop_assert_eq!(text_of_html(&words), words);
        }
    }
}
