//! What people see of a text, and what stands in it unseen.

/// Format characters of Unicode that show nothing, but for the two joiners, which scripts need.
#[must_use]
pub fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{AD}' | '\u{61C}' | '\u{180E}' | '\u{200B}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}' | '\u{FE00}'..='\u{FE0E}' | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}'
        | '\u{E0000}'..='\u{E0FFF}')
}

/// Whether it shows something by itself: neither a space, nor a joiner, nor a letter that is blank.
#[must_use]
pub fn shows(c: char) -> bool {
    let blank = matches!(
        c,
        '\u{34F}'
            | '\u{115F}'
            | '\u{1160}'
            | '\u{17B4}'
            | '\u{17B5}'
            | '\u{200C}'
            | '\u{200D}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{FE0F}'
            | '\u{FFA0}'
    );
    !blank && !c.is_whitespace() && !c.is_control() && !is_invisible(c)
}

/// Whether it is one line of 1 to `most` characters that shows something and hides nothing.
#[must_use]
pub fn is_line(text: &str, most: usize) -> bool {
    (1..=most).contains(&text.chars().count())
        && !text.chars().any(|c| c.is_control() || is_invisible(c) || matches!(c, '\u{2028}' | '\u{2029}'))
        && text.chars().any(shows)
}

/// What people can tell two names apart by: neither capitals, nor spaces, nor what is not seen.
#[must_use]
pub fn told_apart_by(name: &str) -> String {
    name.chars().filter(|c| shows(*c)).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_look_alike_are_told_to_be() {
        for alike in ["Slack", "slack", " Slack ", "Sl\u{200B}ack", "S lack", "Slack\u{FEFF}", "Slac\u{AD}k\u{3164}"] {
            assert_eq!(told_apart_by(alike), "slack", "{alike:?}");
        }
        for other in ["Slack 2", "Slick", "東京"] {
            assert_ne!(told_apart_by(other), "slack", "{other:?}");
        }
    }
}
