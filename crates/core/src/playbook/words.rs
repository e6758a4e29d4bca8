//! Words in a text.

/// Whether a text holds a word, or several in a row, as a whole and in any case. In scripts that put no space between
/// words every place is good.
pub(super) fn has_word(text: &str, word: &str) -> bool {
    let (text, word) = (text.to_lowercase(), word.trim().to_lowercase());
    let (Some(first), Some(last)) = (word.chars().next(), word.chars().next_back()) else { return false };
    text.match_indices(&word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        apart(before, first) && apart(after, last)
    })
}

/// Whether a word may end between these two.
fn apart(outside: Option<char>, inside: char) -> bool {
    let Some(outside) = outside else { return true };
    !(outside.is_alphanumeric() && inside.is_alphanumeric()) || without_spaces(outside) || without_spaces(inside)
}

/// Thai, Lao, Burmese, Khmer, Kana, and the ideographs.
fn without_spaces(c: char) -> bool {
    matches!(c, '\u{0E00}'..='\u{0EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}'
        | '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{20000}'..='\u{2FFFF}')
}

#[cfg(test)]
mod tests {
    use super::has_word;

    #[test]
    fn a_word_is_found_as_a_whole() {
        for (text, word, found) in [
            ("I want a refund.", "refund", true),
            ("REFUND!", "refund", true),
            ("refundable", "refund", false),
            ("prerefund", "refund", false),
            ("my money back, please", "money back", true),
            ("money-back", "money back", false),
            ("c++ question", "c++", true),
            ("Rückerstattung über 5", "über", true),
            ("Gegenüber", "über", false),
            ("返金をお願いします", "返金", true),
            ("ขอเงินคืนหน่อย", "คืน", true),
            ("order 123", "123", true),
            ("order 1234", "123", false),
            ("x refundable refund", "refund", true),
            ("anything", "", false),
            ("anything", "  ", false),
        ] {
            assert_eq!(has_word(text, word), found, "{word} in {text}");
        }
    }
}
