//! Plain text to the HTML that Freshdesk takes.

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

#[cfg(test)]
mod tests {
    use holdfast_core::helpdesk::text_of_html;

    use super::*;

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
            assert_eq!(text_of_html(&to_html(text)), text);
        }
        assert_eq!(to_html("<b>\r\n\n&"), "<div>&lt;b&gt;<br><br>&amp;</div>");
    }
}
