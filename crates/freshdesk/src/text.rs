//! Plain text to the HTML that Freshdesk takes, and back where it gives no text.

/// What a person typed, as HTML that shows exactly that: nothing in it becomes a tag.
pub(crate) fn to_html(text: &str) -> String {
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

/// HTML without its tags, for reading only. What is shown nowhere (styles, scripts) is left out.
pub(crate) fn from_html(html: &str) -> String {
    let mut text = String::with_capacity(html.len());
    let mut rest = html;
    while let Some((before, behind)) = rest.split_once('<') {
        text.push_str(before);
        let (tag, behind) = behind.split_once('>').unwrap_or((behind, ""));
        let closes = tag.starts_with('/');
        let name: String = tag.trim_start_matches('/').chars().take_while(char::is_ascii_alphanumeric).collect();
        let name = name.to_ascii_lowercase();
        rest = behind;
        match name.as_str() {
            "style" | "script" if !closes => rest = after_close(behind, &name),
            "br" => text.push('\n'),
            "p" | "div" | "li" | "tr" | "blockquote" | "h1" | "h2" | "h3" if closes => text.push('\n'),
            _ => {}
        }
    }
    text.push_str(rest);
    decoded(&text).trim().to_owned()
}

/// Behind `</name>`, or the end.
fn after_close<'a>(html: &'a str, name: &str) -> &'a str {
    let end = format!("</{name}");
    let at = html.to_ascii_lowercase().find(&end);
    at.and_then(|at| html[at..].split_once('>')).map_or("", |(_, behind)| behind)
}

fn decoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('&') {
        out.push_str(before);
        let entity = behind.split_once(';').filter(|(name, _)| name.len() <= 8);
        match entity.and_then(|(name, behind)| Some((character(name)?, behind))) {
            Some((c, behind)) => {
                out.push(c);
                rest = behind;
            }
            None => {
                out.push('&');
                rest = behind;
            }
        }
    }
    out.push_str(rest);
    out
}

fn character(entity: &str) -> Option<char> {
    Some(match entity {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        _ => {
            let number = entity.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)?
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_typed_is_what_is_shown() {
        for text in [
            "plain",
            "a < b && \"c\" > 'd'",
            "<script>x</script>",
            "one\ntwo\n\nthree",
            "Dzień dobry, 陳偉 🙂",
            "&amp;",
        ] {
            assert_eq!(from_html(&to_html(text)), text);
        }
        assert_eq!(to_html("<b>\r\n&"), "<div>&lt;b&gt;<br>&amp;</div>");
    }

    #[test]
    fn html_is_read_without_what_nobody_sees() {
        for (html, text) in [
            ("<p>Hello</p><p>there</p>", "Hello\nthere"),
            ("<style>p { color: red }</style>Hi", "Hi"),
            ("<SCRIPT>alert('<b>')</SCRIPT >Hi", "Hi"),
            ("a<br/>b&nbsp;c", "a\nb c"),
            ("&#x41;&#66;&eacute;&", "AB&eacute;&"),
            ("5 < 6", "5"),
            ("<a href=\"https://x.test/?a=1&amp;b=2\">link</a>", "link"),
            ("<style>never closed", ""),
            ("", ""),
        ] {
            assert_eq!(from_html(html), text, "{html}");
        }
    }
}
