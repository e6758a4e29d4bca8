//! What a person would read of an HTML mail, as text. No page is rendered and nothing is fetched.

/// Elements behind which a new line begins.
const BLOCKS: [&str; 18] = [
    "address",
    "article",
    "blockquote",
    "br",
    "div",
    "footer",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "li",
    "p",
    "table",
    "tr",
];
/// Elements whose content nobody reads.
const HIDDEN: [&str; 4] = ["head", "script", "style", "title"];

pub(super) fn to_text(html: &str) -> String {
    let mut out = String::with_capacity(html.len() / 2);
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        put(&mut out, &rest[..at]);
        rest = &rest[at..];
        if let Some(comment) = rest.strip_prefix("<!--") {
            rest = comment.find("-->").map_or("", |end| &comment[end + 3..]);
            continue;
        }
        let name = rest[1..].trim_start_matches('/');
        let length = name.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(name.len());
        let name = name[..length].to_ascii_lowercase();
        if name.is_empty() && !rest.starts_with("<!") {
            out.push('<');
            rest = &rest[1..];
            continue;
        }
        let closes = rest.starts_with("</");
        let Some(end) = rest.find('>') else { break };
        rest = &rest[end + 1..];
        if HIDDEN.contains(&name.as_str()) && !closes {
            rest = after_element(rest, &name);
        } else if BLOCKS.contains(&name.as_str()) && !(out.is_empty() || out.ends_with('\n')) {
            out.truncate(out.trim_end_matches(' ').len());
            out.push('\n');
        } else if matches!(name.as_str(), "td" | "th") && !out.ends_with([' ', '\n']) && !out.is_empty() {
            out.push(' ');
        }
        if name == "li" && !closes {
            out.push_str("- ");
        }
        if name == "p" && closes && !out.ends_with("\n\n") {
            out.push('\n');
        }
    }
    if !rest.starts_with('<') {
        put(&mut out, rest);
    }
    out.trim().to_owned()
}

/// What stands behind the end of an element.
fn after_element<'a>(rest: &'a str, name: &str) -> &'a str {
    let mut from = 0;
    while let Some(at) = rest[from..].find("</").map(|at| at + from) {
        let found = rest.get(at + 2..at + 2 + name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name));
        if found {
            return rest[at..].find('>').map_or("", |end| &rest[at + end + 1..]);
        }
        from = at + 2;
    }
    ""
}

/// Text between tags: white space is one space, entities are letters.
fn put(out: &mut String, text: &str) {
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let mut length = c.len_utf8();
        match c {
            ' ' | '\t' | '\n' | '\r' => {
                if !(out.is_empty() || out.ends_with([' ', '\n'])) {
                    out.push(' ');
                }
            }
            '&' => match entity(rest) {
                Some((letter, taken)) => {
                    out.push(letter);
                    length = taken;
                }
                None => out.push('&'),
            },
            c => out.push(c),
        }
        rest = &rest[length..];
    }
}

/// A character reference at the start, and its length. The named ones are those that mails are full of.
fn entity(text: &str) -> Option<(char, usize)> {
    let end = text.get(1..)?.find(';').filter(|end| *end <= 10)? + 1;
    let name = &text[1..end];
    let letter = match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        "ndash" => '\u{2013}',
        "mdash" => '\u{2014}',
        "hellip" => '\u{2026}',
        "lsquo" => '\u{2018}',
        "rsquo" => '\u{2019}',
        "ldquo" => '\u{201C}',
        "rdquo" => '\u{201D}',
        "euro" => '€',
        "copy" => '©',
        "auml" => 'ä',
        "ouml" => 'ö',
        "uuml" => 'ü',
        "Auml" => 'Ä',
        "Ouml" => 'Ö',
        "Uuml" => 'Ü',
        "szlig" => 'ß',
        "eacute" => 'é',
        "egrave" => 'è',
        "agrave" => 'à',
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code).filter(|c| !c.is_control() || *c == '\n')?
        }
    };
    Some((letter, end + 1))
}

#[cfg(test)]
mod tests {
    use super::to_text;

    #[test]
    fn what_a_person_reads_is_left() {
        for (html, text) in [
            ("<p>Hello <b>Ada</b>,</p><p>how are you?</p>", "Hello Ada,\n\nhow are you?"),
            ("a<br>b<br/>c", "a\nb\nc"),
            ("<ul><li>one</li><li>two</li></ul>", "- one\n- two"),
            ("<head><title>x</title><style>p{}</style></head><body>hi</body>", "hi"),
            ("<script>if (a </b) {}</script>after", "after"),
            ("x <!-- <b>no</b> --> y", "x y"),
            ("<table><tr><td>1</td><td>2</td></tr><tr><td>3</td></tr></table>", "1 2\n3"),
            ("Gr&uuml;&szlig;e &amp; &#x4E00;&#20108; &unknown; &", "Grüße & 一二 &unknown; &"),
            ("1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
            ("a\n   b\t c", "a b c"),
            ("<!DOCTYPE html>hi", "hi"),
            ("cut <b", "cut"),
            ("<", "<"),
            ("<style>", ""),
            ("&#0;&#xD800;", "&#0;&#xD800;"),
            ("שלום <i>עולם</i>", "שלום עולם"),
        ] {
            assert_eq!(to_text(html), text, "{html}");
        }
    }
}
