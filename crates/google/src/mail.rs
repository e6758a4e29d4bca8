//! From Gmail's tree of MIME parts to text, and from header lines to words.
//!
//! Gmail decodes the transfer encoding. Whether it turns text into UTF-8 as well and decodes header words is not
//! documented: both are read.

pub(crate) mod compose;
mod html;

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose::STANDARD},
};
use encoding_rs::{Encoding, UTF_8};
use serde::Serialize;

use crate::model::{Part, PartBody};

/// base64url, padded or not.
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);
/// Mails nest some levels deep; who nests deeper wants to be in the way.
const DEEPEST: usize = 30;

/// A file that came with a mail.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Attachment {
    filename: Option<String>,
    mime_type: String,
    size: u64,
}

/// What a message is read from.
#[derive(Debug, Default)]
pub(crate) struct Content<'a> {
    /// The text, best form first; a mail may have several pieces of it.
    pub(crate) texts: Vec<&'a Part>,
    pub(crate) attachments: Vec<Attachment>,
}

impl<'a> Content<'a> {
    pub(crate) fn of(root: &'a Part) -> Self {
        let mut content = Self::default();
        content.look(root, 0);
        content
    }

    fn look(&mut self, part: &'a Part, depth: usize) {
        if depth > DEEPEST {
            return;
        }
        let kind = part.mime_type.to_ascii_lowercase();
        if kind == "multipart/alternative" {
            // RFC 2046 section 5.1.4: the same thing several times; plain text is the one that loses nothing here.
            let holds = |part: &&Part, kind: &str| holds_text(part, kind, 0);
            let best =
                ["text/plain", "text/html"].iter().find_map(|kind| part.parts.iter().find(|part| holds(part, kind)));
            for one in &part.parts {
                if best.is_none_or(|best| std::ptr::eq(best, one)) {
                    self.look(one, depth + 1);
                } else {
                    self.look_for_files(one, depth + 1);
                }
            }
        } else if kind.starts_with("multipart/") || (kind.is_empty() && !part.parts.is_empty()) {
            part.parts.iter().for_each(|part| self.look(part, depth + 1));
        } else if is_text(part, "text/plain") || is_text(part, "text/html") {
            self.texts.push(part);
        } else {
            self.attach(part);
        }
    }

    /// An alternative that is not shown may still hold pictures and invitations.
    fn look_for_files(&mut self, part: &'a Part, depth: usize) {
        if depth > DEEPEST {
            return;
        }
        part.parts.iter().for_each(|part| self.look_for_files(part, depth + 1));
        let text = is_text(part, "text/plain") || is_text(part, "text/html");
        if part.parts.is_empty() && !text && !part.mime_type.to_ascii_lowercase().starts_with("multipart/") {
            self.attach(part);
        }
    }

    fn attach(&mut self, part: &Part) {
        let name = decode_words(part.filename.trim());
        self.attachments.push(Attachment {
            filename: Some(name).filter(|name| !name.is_empty()),
            mime_type: part.mime_type.clone(),
            size: part.body.size,
        });
    }
}

fn holds_text(part: &Part, kind: &str, depth: usize) -> bool {
    depth <= DEEPEST && (is_text(part, kind) || part.parts.iter().any(|part| holds_text(part, kind, depth + 1)))
}

/// Text that is shown, and no file.
fn is_text(part: &Part, kind: &str) -> bool {
    let attached = part.header("content-disposition").is_some_and(|value| {
        value.trim_start().get(..10).is_some_and(|start| start.eq_ignore_ascii_case("attachment"))
    });
    part.mime_type.eq_ignore_ascii_case(kind) && part.filename.is_empty() && !attached
}

/// A part as text. `None`: its data is no base64.
pub(crate) fn text_of(part: &Part, body: &PartBody) -> Option<String> {
    let data = body.data.as_deref().unwrap_or_default();
    let bytes = URL_SAFE.decode(data.trim().as_bytes()).or_else(|_| STANDARD.decode(data.trim())).ok()?;
    let text = decode(&bytes, charset(part.header("content-type").unwrap_or_default()));
    let text = text.replace("\r\n", "\n");
    Some(if part.mime_type.eq_ignore_ascii_case("text/html") { html::to_text(&text) } else { text })
}

/// The charset of a Content-Type (RFC 2045 section 5.1).
fn charset(content_type: &str) -> Option<&'static Encoding> {
    let parameter = content_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then_some(value)
    })?;
    Encoding::for_label(parameter.trim().trim_matches('"').as_bytes())
}

/// UTF-8 where it is UTF-8, else as declared. An encoding that looks like ASCII and is not (ISO-2022-JP) shows by its
/// escapes.
fn decode(bytes: &[u8], declared: Option<&'static Encoding>) -> String {
    let escaped = declared.is_some_and(|declared| !declared.is_ascii_compatible()) && bytes.contains(&0x1B);
    match str::from_utf8(bytes) {
        Ok(text) if !escaped => text.trim_start_matches('\u{FEFF}').to_owned(),
        _ => declared.unwrap_or(encoding_rs::WINDOWS_1252).decode(bytes).0.into_owned(),
    }
}

/// A header with its encoded words decoded (RFC 2047), on one line.
pub(crate) fn decode_words(header: &str) -> String {
    let header: String = header.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let mut out = String::with_capacity(header.len());
    let mut rest = header.as_str();
    // Bytes of neighbouring words in one charset: some senders cut in the middle of a letter.
    let mut pending: Option<(&'static Encoding, Vec<u8>)> = None;
    let flush = |pending: &mut Option<(&'static Encoding, Vec<u8>)>, out: &mut String| {
        if let Some((encoding, bytes)) = pending.take() {
            out.push_str(&encoding.decode_without_bom_handling(&bytes).0);
        }
    };
    while let Some(start) = rest.find("=?") {
        let (before, word) = rest.split_at(start);
        let Some((encoding, bytes, length)) = encoded_word(word) else {
            flush(&mut pending, &mut out);
            out.push_str(&rest[..start + 2]);
            rest = &rest[start + 2..];
            continue;
        };
        // White space between two words is no part of either (section 6.2).
        if pending.is_none() || !before.trim().is_empty() {
            flush(&mut pending, &mut out);
            out.push_str(before);
        }
        match &mut pending {
            Some((open, all)) if *open == encoding => all.extend(bytes),
            _ => {
                flush(&mut pending, &mut out);
                pending = Some((encoding, bytes));
            }
        }
        rest = &word[length..];
    }
    flush(&mut pending, &mut out);
    out.push_str(rest);
    out
}

/// `=?charset?B|Q?text?=` at the start: its charset, its bytes, its length.
fn encoded_word(text: &str) -> Option<(&'static Encoding, Vec<u8>, usize)> {
    let mut parts = text.strip_prefix("=?")?.splitn(3, '?');
    let (charset, kind, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let end = rest.find("?=")?;
    let payload = &rest[..end];
    if payload.contains(char::is_whitespace) {
        return None;
    }
    // RFC 2231 section 5: a language may stand behind a star.
    let charset = charset.split('*').next().unwrap_or_default();
    let encoding = Encoding::for_label(charset.as_bytes()).unwrap_or(UTF_8);
    let bytes = match kind {
        "B" | "b" => STANDARD.decode(payload).or_else(|_| URL_SAFE.decode(payload)).ok()?,
        "Q" | "q" => quoted(payload),
        _ => return None,
    };
    let length = 2 + charset_length(text)? + kind.len() + 1 + end + 2;
    Some((encoding, bytes, length))
}

/// Up to and with the question mark behind the charset.
fn charset_length(text: &str) -> Option<usize> {
    text.get(2..)?.find('?').map(|at| at + 1)
}

fn quoted(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = text.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (bytes[at], hex) {
            (b'=', Some(byte)) => {
                out.push(byte);
                at += 2;
            }
            (b'_', _) => out.push(b' '),
            (byte, _) => out.push(byte),
        }
        at += 1;
    }
    out
}

/// The addresses of a header, each as it stands there: `Ada <ada@example.com>`. Commas in quotes and brackets part nothing.
pub(crate) fn addresses(header: &str) -> Vec<String> {
    let header: String = header.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let (mut quoted, mut escaped, mut depth) = (false, false, 0_usize);
    let parts = header.split(|c| {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            '<' | '(' if !quoted => depth += 1,
            '>' | ')' if !quoted => depth = depth.saturating_sub(1),
            ',' | ';' if !quoted && depth == 0 => return true,
            _ => {}
        }
        false
    });
    let shown = parts.map(|part| decode_words(part.trim()));
    shown.filter(|part| !part.is_empty()).collect()
}

/// The bare address of one of [`addresses`], if it has one.
pub(crate) fn bare(address: &str) -> Option<&str> {
    let inner = match (address.rfind('<'), address.rfind('>')) {
        (Some(open), Some(close)) if open < close => &address[open + 1..close],
        _ => address,
    };
    let inner = inner.trim();
    (inner.contains('@') && !inner.contains(char::is_whitespace)).then_some(inner)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn part(value: Value) -> Part {
        serde_json::from_value(value).unwrap()
    }

    fn url_safe(bytes: &[u8]) -> String {
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes)
    }

    #[test]
    fn words_of_any_script_and_charset_are_read() {
        for (header, words) in [
            ("Plain subject", "Plain subject"),
            ("Тема, as it is", "Тема, as it is"),
            ("=?utf-8?B?0KLQtdC80LA=?=", "Тема"),
            ("=?UTF-8?q?Gr=C3=BC=C3=9Fe_aus_K=C3=B6ln?=", "Grüße aus Köln"),
            ("=?iso-8859-1?Q?Andr=E9?= <andre@example.com>", "André <andre@example.com>"),
            ("=?ISO-2022-JP?B?GyRCRnxLXBsoQg==?=", "日本"),
            ("=?utf-8*en?Q?Hi?=", "Hi"),
            // A letter that is cut between two words.
            ("=?utf-8?B?w6TD?= =?utf-8?B?pA==?=", "ää"),
            ("=?utf-8?Q?a?= =?utf-8?Q?b?= c =?utf-8?Q?d?=", "ab c d"),
            ("=?utf-8?Q?a?=\r\n =?utf-8?Q?b?=", "ab"),
            ("=?utf-8?B?***?= =? x", "=?utf-8?B?***?= =? x"),
            ("a=?b", "a=?b"),
            ("=?", "=?"),
            ("=?x?y?z?=", "=?x?y?z?="),
        ] {
            assert_eq!(decode_words(header), words, "{header}");
        }
    }

    #[test]
    fn text_is_read_whether_gmail_made_utf8_of_it_or_not() {
        for (bytes, charset, text) in [
            ("Grüße".as_bytes().to_vec(), "utf-8", "Grüße"),
            ("Grüße".as_bytes().to_vec(), "iso-8859-1", "Grüße"),
            (b"Gr\xFC\xDFe".to_vec(), "iso-8859-1", "Grüße"),
            (b"\x1B$BF|K\\\x1B(B".to_vec(), "iso-2022-jp", "日本"),
            ("日本".as_bytes().to_vec(), "iso-2022-jp", "日本"),
            (b"\xFF\xE4".to_vec(), "nobody-knows", "ÿä"),
            ("\u{FEFF}a\r\nb".as_bytes().to_vec(), "utf-8", "a\nb"),
        ] {
            let part = part(json!({"mimeType": "text/plain", "body": {"data": url_safe(&bytes), "size": bytes.len()},
                "headers": [{"name": "content-type", "value": format!("text/plain; charset=\"{charset}\"")}]}));
            assert_eq!(text_of(&part, &part.body).as_deref(), Some(text), "{charset}");
        }
        let broken = part(json!({"mimeType": "text/plain", "body": {"data": "%%%"}}));
        assert_eq!(text_of(&broken, &broken.body), None);
    }

    #[test]
    fn the_plain_alternative_is_the_text_and_everything_else_is_listed() {
        let leaf =
            |kind: &str, name: &str| json!({"mimeType": kind, "filename": name, "body": {"size": 3, "data": "YWJj"}});
        let root = part(json!({"mimeType": "multipart/mixed", "parts": [
            {"mimeType": "multipart/alternative", "parts": [
                leaf("text/plain", ""),
                {"mimeType": "multipart/related", "parts": [leaf("text/html", ""), leaf("image/png", "logo.png")]},
            ]},
            leaf("text/plain", "notes.txt"),
            {"mimeType": "message/rfc822", "filename": "", "body": {"size": 9}},
            leaf("application/pdf", "=?utf-8?Q?Gr=C3=BC=C3=9Fe.pdf?="),
        ]}));

        let content = Content::of(&root);

        assert_eq!(content.texts.len(), 1);
        assert_eq!(content.texts[0].mime_type, "text/plain");
        let names: Vec<_> = content.attachments.iter().map(|file| file.filename.as_deref().unwrap_or("?")).collect();
        assert_eq!(names, ["logo.png", "notes.txt", "?", "Grüße.pdf"]);
    }

    #[test]
    fn a_tree_without_end_is_given_up() {
        let mut tree = Part { mime_type: "text/plain".to_owned(), ..Part::default() };
        for _ in 0..60 {
            tree = Part { mime_type: "multipart/mixed".to_owned(), parts: vec![tree], ..Part::default() };
        }
        assert!(Content::of(&tree).texts.is_empty());
    }

    #[test]
    fn addresses_are_parted_where_addresses_end() {
        let header = "\"Lovelace, Ada\" <ada@example.com>, bob@example.com,\r\n =?utf-8?Q?Zo=C3=AB?= <zoe@example.com>";
        let all = addresses(header);
        assert_eq!(all, ["\"Lovelace, Ada\" <ada@example.com>", "bob@example.com", "Zoë <zoe@example.com>"]);
        let bare: Vec<_> = all.iter().map(|address| bare(address).unwrap()).collect();
        assert_eq!(bare, ["ada@example.com", "bob@example.com", "zoe@example.com"]);
        assert_eq!(super::bare("undisclosed-recipients:"), None);
        assert!(addresses("").is_empty());
    }
}
