//! What is kept of a tool's inputs and outputs for people to read: without anything that looks like a credential, and no
//! longer than a page shows.

use serde_json::{Map, Value, json};

/// Stands where something was taken out.
pub const MASKED: &str = "[masked]";

/// Most of a record, as JSON text.
const MOST_BYTES: usize = 8 * 1024;
/// Most of one text in a record that is too long as a whole.
const MOST_CHARS: usize = 400;
/// Most items of one list in such a record.
const MOST_ITEMS: usize = 10;
/// Deeper than any tool answers.
const MOST_DEPTH: usize = 24;
/// Shorter pieces are names, words and ids.
const SHORTEST_SECRET: usize = 24;
/// Fields whose value is a secret, whatever it looks like.
const SECRET_FIELDS: [&str; 9] =
    ["password", "passwd", "secret", "token", "authorization", "cookie", "apikey", "privatekey", "credential"];
/// Fields that are called like one and are not: they point to pages of a list.
const PLAIN_FIELDS: [&str; 3] = ["nextpagetoken", "pagetoken", "cursor"];
/// Beginnings of well-known keys.
const SECRET_STARTS: [&str; 14] = [
    "hf_",
    "sk-",
    "sk_live_",
    "rk_live_",
    "ghp_",
    "gho_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "shpat_",
    "AKIA",
    "ya29.",
    "eyJ",
];

/// The value as it may be kept and shown. Text that no database takes (NUL) is left out.
pub fn record(value: &Value) -> Value {
    let masked = mask(value, 0);
    if masked.to_string().len() <= MOST_BYTES {
        return masked;
    }
    let shorter = shorten(&masked);
    let text = shorter.to_string();
    if text.len() <= MOST_BYTES {
        return shorter;
    }
    let start: String = text.chars().take(MOST_BYTES / 4).collect();
    json!({ "shortened": format!("{start}…") })
}

/// One text as it may be kept and shown.
pub fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut piece = String::new();
    let mut before = String::new();
    for c in text.chars().filter(|c| *c != '\0') {
        if is_inner(c) {
            piece.push(c);
        } else {
            flush(&mut out, &mut piece, &mut before);
            out.push(c);
        }
    }
    flush(&mut out, &mut piece, &mut before);
    out
}

fn mask(value: &Value, depth: usize) -> Value {
    match value {
        _ if depth > MOST_DEPTH => Value::String("…".to_owned()),
        Value::String(found) => Value::String(text(found)),
        Value::Array(items) => items.iter().map(|item| mask(item, depth + 1)).collect(),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| {
                let hidden = is_secret_field(name) && !matches!(value, Value::Null | Value::Bool(_));
                let value = if hidden { Value::String(MASKED.to_owned()) } else { mask(value, depth + 1) };
                (text(name), value)
            };
            Value::Object(fields.iter().map(field).collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

fn is_secret_field(name: &str) -> bool {
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    !PLAIN_FIELDS.contains(&name.as_str()) && SECRET_FIELDS.iter().any(|field| name.ends_with(field))
}

/// What may stand inside of a key or token.
fn is_inner(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '+' | '/' | '=' | '~' | ':' | '@' | '%')
}

/// Writes a piece out, or the mask. `before` is the piece before it.
fn flush(out: &mut String, piece: &mut String, before: &mut String) {
    if piece.is_empty() {
        return;
    }
    // `password:x` and `token=x` are one piece; `Bearer x` and `password: x` are two.
    let split = piece.rfind([':', '=']).filter(|at| {
        let (name, rest) = (&piece[..*at], &piece[at + 1..]);
        !rest.is_empty() && is_secret_field(name)
    });
    if let Some(at) = split {
        out.push_str(&piece[..=at]);
        out.push_str(MASKED);
    } else if (announces(before) && !is_scheme(piece)) || looks_secret(piece) {
        out.push_str(MASKED);
    } else {
        out.push_str(piece);
    }
    *before = std::mem::take(piece);
}

/// Whether what follows this word is a secret: `password:`, `Bearer`.
fn announces(word: &str) -> bool {
    let bare = word.trim_end_matches([':', '=']);
    is_scheme(word) || (bare.len() < word.len() && is_secret_field(bare))
}

/// A scheme of HTTP authentication that a secret follows.
fn is_scheme(word: &str) -> bool {
    word.eq_ignore_ascii_case("bearer")
}

fn looks_secret(piece: &str) -> bool {
    let bare = piece.trim_matches(['.', ':', '-', '=']);
    if bare.contains("://") || bare.contains('@') {
        return has_secret_query(bare);
    }
    let known = SECRET_STARTS.iter().any(|start| bare.starts_with(start)) && bare.len() >= 16;
    known || is_random(bare)
}

/// A link stays readable, unless it carries a key.
fn has_secret_query(link: &str) -> bool {
    link.split(['?', '&', '/', '=', '#']).any(is_random)
}

/// Long, without the shape of words: letters of both cases and digits mixed, or hexadecimal of 32 digits and more that is
/// no UUID (those are ids).
fn is_random(piece: &str) -> bool {
    let core = |c: char| c.is_ascii_alphanumeric();
    if piece.len() < SHORTEST_SECRET || is_uuid(piece) {
        return false;
    }
    let letters = piece.chars().filter(char::is_ascii_alphabetic).count();
    let digits = piece.chars().filter(char::is_ascii_digit).count();
    let others = piece.chars().filter(|c| !core(*c)).count();
    let hex = piece.len() >= 32 && digits >= 4 && letters >= 1 && piece.chars().all(|c| c.is_ascii_hexdigit());
    // Words that are joined by dots and hyphens have long runs of letters, and few digits.
    let runs = piece.split(|c: char| !c.is_ascii_alphanumeric()).map(str::len).max().unwrap_or(0);
    let mixed = piece.chars().any(|c| c.is_ascii_uppercase())
        && piece.chars().any(|c| c.is_ascii_lowercase())
        && digits >= 2
        && letters >= 8;
    hex || (mixed && runs >= 16 && others * 4 <= piece.len())
}

fn is_uuid(piece: &str) -> bool {
    piece.len() == 36
        && piece.char_indices().all(|(at, c)| match at {
            8 | 13 | 18 | 23 => c == '-',
            _ => c.is_ascii_hexdigit(),
        })
}

/// Long texts and lists are cut, with what is missing in words.
fn shorten(value: &Value) -> Value {
    match value {
        Value::String(text) => {
            let count = text.chars().count();
            if count <= MOST_CHARS {
                return value.clone();
            }
            let start: String = text.chars().take(MOST_CHARS).collect();
            Value::String(format!("{start}… ({} more characters)", count - MOST_CHARS))
        }
        Value::Array(items) => {
            let mut kept: Vec<_> = items.iter().take(MOST_ITEMS).map(shorten).collect();
            if items.len() > MOST_ITEMS {
                kept.push(Value::String(format!("… ({} more)", items.len() - MOST_ITEMS)));
            }
            Value::Array(kept)
        }
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), shorten(value))).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_credential_is_masked() {
        for (given, kept) in [
            ("Use hf_abcdefghijklmnop1 now", "Use [masked] now"),
            ("Authorization: Bearer zd_at_1", "Authorization: Bearer [masked]"),
            ("my password: hunter2!", "my password: [masked]!"),
            ("token=abc&x", "token=[masked]&x"),
            ("password:hunter2", "password:[masked]"),
            ("key sk-live0123456789abc.", "key [masked]"),
            ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc", "[masked]"),
            ("a Xk29fjQz81LmNw47PtRv60Ys b", "a [masked] b"),
            ("0123456789abcdef0123456789abcdef", "[masked]"),
            ("https://x.example/reset/Xk29fjQz81LmNw47PtRv60Ys", "[masked]"),
        ] {
            assert_eq!(text(given), kept);
        }
        for (given, kept) in [
            (json!({"access_token": "short", "n": 1}), json!({"access_token": MASKED, "n": 1})),
            (json!({"apiKey": 5, "secret": null}), json!({"apiKey": MASKED, "secret": null})),
            (json!([{"Password": {"a": 1}}]), json!([{"Password": MASKED}])),
        ] {
            assert_eq!(record(&given), kept);
        }
    }

    #[test]
    fn what_people_and_helpdesks_write_stays() {
        for given in [
            "Where is my order? (#48007)",
            "https://acme.zendesk.com/agent/tickets/9007199254740993?tab=conversation",
            "mira.castellan@example.com",
            "2026-11-29T10:00:00Z",
            "123e4567-e89b-12d3-a456-426614174000",
            "holdfast_urgent_ticket_was_annotated",
            "con_019abc5e1f00a1b2c3d4e5f60718",
            "Donaudampfschifffahrtsgesellschaftskapitän",
            "the token has expired: please sign in",
            "返金をお願いします",
            "",
        ] {
            assert_eq!(text(given), given);
        }
        let page = json!({"next_cursor": "2-25", "nextPageToken": "abc", "total": 320});
        assert_eq!(record(&page), page);
    }

    #[test]
    fn a_record_is_bounded_and_holds_no_nul() {
        assert_eq!(record(&json!({"a\0": "b\0c"})), json!({"a": "bc"}));
        let long =
            json!({"body": "x ".repeat(10_000), "tickets": (0..40).map(|n| json!({"id": n})).collect::<Vec<_>>()});
        let kept = record(&long);
        assert!(kept["body"].as_str().unwrap().ends_with("… (19600 more characters)"), "{kept}");
        assert_eq!(kept["tickets"][10], "… (30 more)");
        let wide: Value =
            (0..500).map(|n| (format!("field_{n}"), json!("word ".repeat(60)))).collect::<Map<_, _>>().into();
        assert!(record(&wide).to_string().len() <= MOST_BYTES, "{}", record(&wide));
        let mut deep = json!("x");
        for _ in 0..100 {
            deep = json!([deep]);
        }
        assert!(record(&deep).to_string().contains('…'));
    }
}
