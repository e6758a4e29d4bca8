//! Plain text to the HTML that Front takes in messages.

/// What was written, as HTML that shows exactly that: nothing in it becomes a tag.
pub(crate) fn to_html(text: &str) -> String {
    let escape = |line: &str| {
        let line = line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        line.replace('"', "&quot;").replace('\'', "&#39;")
    };
    let lines: Vec<String> = text.replace("\r\n", "\n").split(['\n', '\r']).map(escape).collect();
    format!("<p>{}</p>", lines.join("<br>"))
}

#[cfg(test)]
mod tests {
    use holdfast_core::helpdesk::text_of_html;

    use super::*;

    #[test]
    fn what_was_written_is_what_is_shown() {
        for text in ["plain", "a < b && \"c\" > 'd'", "<b>x</b>", "one\ntwo", "Dzień dobry, 陳偉 🙂", "&amp;", "</p>"]
        {
            assert_eq!(text_of_html(&to_html(text)), text);
        }
        assert_eq!(to_html("a\r\n\n<"), "<p>a<br><br>&lt;</p>");
    }
}
