//! What is wrong with a body or a query, in words of people and with the field at fault, instead of a parser's. A value is
//! never repeated: it may be a credential in the wrong place.

use axum::http::StatusCode;

use super::import::without_values;
use crate::problem::Problem;

/// Serde's words as a problem.
pub(super) fn problem(words: &str) -> Problem {
    let words = FRAMES.iter().find_map(|frame| words.strip_prefix(frame)).unwrap_or(words);
    let words = words.rsplit_once(" at line ").map_or(words, |(before, _)| before);
    let (path, words) = at(words);
    if let Some(name) = words.strip_prefix("missing field ").and_then(quoted) {
        let field = joined(path, name);
        return Problem::invalid(&field, format!("{field} is missing."));
    }
    if let Some(rest) = words.strip_prefix("unknown field ") {
        let name = quoted(rest).unwrap_or_default();
        // A field that is not known is a part of the path already, where the parser says one.
        let field = if path.ends_with(name) { path.to_owned() } else { joined(path, name) };
        let known = choices(rest.split_once(", expected ").map_or("", |(_, known)| known));
        return Problem::invalid(&field, format!("There is no field {field}. There are: {known}."));
    }
    if let Some(name) = words.strip_prefix("duplicate field ").and_then(quoted) {
        let field = joined(path, name);
        return Problem::invalid(&field, format!("{field} is given twice."));
    }
    let Some((found, expected)) = words.rsplit_once(", expected ") else {
        if !path.is_empty() && MOMENTS.contains(&words) {
            return said(path, format!("{path} is no moment: write one such as {MOMENT}."));
        }
        return said(path, format!("It cannot be read: {}.", without_values(words)));
    };
    let what = if path.is_empty() { "The body" } else { path };
    if found.starts_with("unknown variant ") {
        return said(path, format!("{what} has to be one of: {}.", choices(expected)));
    }
    said(path, format!("{what} is {}, and has to be {}.", kind(found), wanted(expected)))
}

/// How a moment is written.
const MOMENT: &str = "2026-11-29T19:04:00Z";

/// What chrono says of a text that is none.
const MOMENTS: [&str; 6] = [
    "input contains invalid characters",
    "input is not enough for unique date and time",
    "input is out of range",
    "no possible date and time matching input",
    "premature end of input",
    "trailing input",
];

/// What axum puts before them.
const FRAMES: [&str; 3] = [
    "Failed to deserialize the JSON body into the target type: ",
    "Failed to deserialize query string: ",
    "Failed to deserialize query string",
];

fn said(path: &str, detail: String) -> Problem {
    if path.is_empty() {
        return Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail);
    }
    Problem::invalid(path, detail)
}

/// `credential.expires_in: invalid type: ...` in two: the path, where there is one, and the rest.
fn at(words: &str) -> (&str, &str) {
    let is_path = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.[]-".contains(&byte))
    };
    match words.split_once(": ") {
        Some((path, rest)) if is_path(path) => (path.trim_matches('.'), rest),
        _ => ("", words),
    }
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn quoted(words: &str) -> Option<&str> {
    words.strip_prefix('`')?.split_once('`').map(|(name, _)| name)
}

/// ``one of `a`, `b` `` as `a, b`.
fn choices(words: &str) -> String {
    let names: Vec<_> = words.split('`').skip(1).step_by(2).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn kind(found: &str) -> &'static str {
    let found = found.strip_prefix("invalid type: ").or_else(|| found.strip_prefix("invalid value: ")).unwrap_or(found);
    let kinds = [
        ("string", "a text"),
        ("character", "a text"),
        ("integer", "a number"),
        ("floating point", "a number"),
        ("boolean", "true or false"),
        ("null", "null"),
        ("unit", "null"),
        ("map", "an object"),
        ("sequence", "a list"),
    ];
    kinds.iter().find(|(word, _)| found.starts_with(word)).map_or("something else", |(_, words)| words)
}

fn wanted(expected: &str) -> String {
    let whole = |text: &str| {
        let number = text.strip_prefix(['u', 'i']).is_some_and(|bits| bits.parse::<u8>().is_ok());
        number || text == "usize" || text == "isize"
    };
    match expected {
        text if text.starts_with("struct ") || text.starts_with("internally tagged") => "an object".to_owned(),
        "a map" => "an object".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a string" | "a secret" | "a borrowed string" => "a text".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        text if whole(text) => "a whole number".to_owned(),
        text if text.contains('`') => format!("one of: {}", choices(text)),
        text if text.contains("RFC 3339") || text.contains("date and time") => {
            format!("a moment such as {MOMENT}")
        }
        text => without_values(text),
    }
}

#[cfg(test)]
mod tests {
    use super::problem;

    #[test]
    fn a_parsers_words_become_ours_with_the_field() {
        for (words, field, detail) in [
            (
                "Failed to deserialize the JSON body into the target type: invalid type: string \"s3cret\", expected struct NewConnectorBody at line 1 column 8",
                None,
                "The body is a text, and has to be an object.",
            ),
            (
                "Failed to deserialize the JSON body into the target type: credential.expires_in: invalid type: string \"s3cret\", expected u64 at line 1 column 8",
                Some("credential.expires_in"),
                "credential.expires_in is a text, and has to be a whole number.",
            ),
            (
                "Failed to deserialize the JSON body into the target type: missing field `provider` at line 1 column 2",
                Some("provider"),
                "provider is missing.",
            ),
            (
                "credential: missing field `kind` at line 1 column 2",
                Some("credential.kind"),
                "credential.kind is missing.",
            ),
            (
                "tokn: unknown field `tokn`, expected one of `name`, `alias` at line 1 column 9",
                Some("tokn"),
                "There is no field tokn. There are: name, alias.",
            ),
            ("unknown field `x`, there are no fields", Some("x"), "There is no field x. There are: none."),
            (
                "kind: unknown variant `s3cret`, expected `manual` or `schedule`",
                Some("kind"),
                "kind has to be one of: manual, schedule.",
            ),
            (
                "name: invalid type: integer `4711`, expected a string",
                Some("name"),
                "name is a number, and has to be a text.",
            ),
            ("premature end of input", None, "It cannot be read: premature end of input."),
            (
                "credential.expires_at: input contains invalid characters at line 1 column 9",
                Some("credential.expires_at"),
                "credential.expires_at is no moment: write one such as 2026-11-29T19:04:00Z.",
            ),
            (
                "credential.expires_at: premature end of input",
                Some("credential.expires_at"),
                "credential.expires_at is no moment: write one such as 2026-11-29T19:04:00Z.",
            ),
        ] {
            let problem = problem(words);

            assert_eq!((problem.field(), problem.detail()), (field, detail), "{words}");
            assert!(!problem.detail().contains("s3cret") && !problem.detail().contains("4711"));
        }
    }
}
