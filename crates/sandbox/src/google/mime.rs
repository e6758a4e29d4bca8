//! A message that is sent (RFC 5322), as the API then shows it: headers, and its body decoded.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

/// What a client sent, read.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) headers: Vec<(String, String)>,
    pub(super) text: Vec<u8>,
    mime_type: String,
}

/// Lines that end as Unix ends them are taken as well: Google's own samples send them so.
fn with_crlf(bytes: Vec<u8>) -> Vec<u8> {
    if bytes.contains(&b'\r') {
        return bytes;
    }
    let lines: Vec<_> = bytes.split(|byte| *byte == b'\n').collect();
    lines.join(&b"\r\n"[..])
}

impl Sent {
    /// From `raw`. The error is what the API would say.
    pub(super) fn read(raw: &str) -> Result<Self, String> {
        let bytes = URL_SAFE_NO_PAD.decode(raw.trim_end_matches('=')).or_else(|_| URL_SAFE.decode(raw));
        let bytes = with_crlf(bytes.map_err(|_| "Invalid value for ByteString".to_owned())?);
        let split =
            bytes.windows(4).position(|window| window == b"\r\n\r\n").ok_or("Invalid message: no header ends")?;
        let (head, body) = (&bytes[..split], &bytes[split + 4..]);
        if !head.is_ascii() {
            return Err("Invalid message: a header is not ASCII".to_owned());
        }
        let head = String::from_utf8_lossy(head);
        let mut headers: Vec<(String, String)> = Vec::new();
        for line in head.split("\r\n") {
            if line.contains(['\r', '\n']) || line.len() > 998 {
                return Err("Invalid message: a line of the header".to_owned());
            }
            if let (true, Some((_, value))) = (line.starts_with([' ', '\t']), headers.last_mut()) {
                value.push(' ');
                value.push_str(line.trim());
                continue;
            }
            let (name, value) = line.split_once(':').ok_or("Invalid message: a line that is no header")?;
            if name.is_empty() || name.contains(' ') {
                return Err("Invalid message: the name of a header".to_owned());
            }
            if headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
                return Err(format!("Invalid message: {name} is there twice"));
            }
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
        let find =
            |name: &str| headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str());
        let encoding = find("content-transfer-encoding").unwrap_or("7bit").to_ascii_lowercase();
        let text = match encoding.as_str() {
            "base64" => {
                let lines: Vec<u8> = body.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
                STANDARD.decode(lines).map_err(|_| "Invalid message: the body is no base64".to_owned())?
            }
            "7bit" if body.is_ascii() => body.to_vec(),
            "8bit" => body.to_vec(),
            other => return Err(format!("Invalid message: Content-Transfer-Encoding {other}")),
        };
        let mime_type =
            find("content-type").unwrap_or("text/plain").split(';').next().unwrap_or_default().trim().to_owned();
        let recipients: Vec<String> =
            ["to", "cc", "bcc"].iter().filter_map(|name| find(name)).flat_map(addresses).collect();
        if recipients.is_empty() {
            return Err("Recipient address required".to_owned());
        }
        if recipients.iter().any(|one| !one.contains('@') || one.contains(' ')) {
            return Err("Invalid To header".to_owned());
        }
        Ok(Self { headers, text, mime_type })
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(super) fn set(&mut self, name: &str, value: String) {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value));
    }

    /// As `payload` of a message.
    pub(super) fn payload(&self) -> Value {
        let headers: Vec<Value> =
            self.headers.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        json!({"partId": "", "mimeType": self.mime_type, "filename": "", "headers": headers,
            "body": {"size": self.text.len(), "data": URL_SAFE.encode(&self.text)}})
    }
}

/// The bare addresses of a header.
pub(super) fn addresses(header: &str) -> Vec<String> {
    let (mut quoted, mut parts, mut part) = (false, Vec::new(), String::new());
    for c in header.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => parts.push(std::mem::take(&mut part)),
            _ => {}
        }
        if c != ',' || quoted {
            part.push(c);
        }
    }
    parts.push(part);
    let bare = |part: &String| {
        let inner = part.rsplit_once('<').map_or(part.as_str(), |(_, rest)| rest.trim_end().trim_end_matches('>'));
        inner.trim().to_ascii_lowercase()
    };
    parts.iter().map(bare).filter(|one| !one.is_empty()).collect()
}

/// Message-IDs in a header.
pub(super) fn ids(header: &str) -> Vec<&str> {
    header.split_whitespace().filter(|word| word.starts_with('<') && word.ends_with('>')).collect()
}

/// A header with its UTF-8 words decoded (RFC 2047).
pub(super) fn decoded(header: &str) -> String {
    let mut out: Vec<u8> = Vec::new();
    let mut after_word = false;
    for token in header.split(' ') {
        let word = token.strip_prefix("=?").and_then(|token| token.strip_suffix("?="));
        let bytes = word.and_then(|word| {
            let mut parts = word.splitn(3, '?');
            let (charset, kind, text) = (parts.next()?, parts.next()?, parts.next()?);
            match (charset.to_ascii_lowercase().as_str(), kind) {
                ("utf-8", "B" | "b") => STANDARD.decode(text).ok(),
                ("utf-8", "Q" | "q") => Some(quoted_printable(text)),
                _ => None,
            }
        });
        if !(out.is_empty() || after_word && bytes.is_some()) {
            out.push(b' ');
        }
        after_word = bytes.is_some();
        out.extend(bytes.unwrap_or_else(|| token.as_bytes().to_vec()));
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn quoted_printable(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let hex = rest.get(1..3).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        rest = match (c, hex) {
            ('=', Some(byte)) => {
                out.push(byte);
                &rest[3..]
            }
            ('_', _) => {
                out.push(b' ');
                &rest[1..]
            }
            _ => {
                out.extend(c.to_string().bytes());
                &rest[c.len_utf8()..]
            }
        };
    }
    out
}

/// A subject without its prefixes of answers.
pub(super) fn bare_subject(subject: &str) -> String {
    let mut subject = decoded(subject).trim().to_lowercase();
    while let Some(rest) = subject.strip_prefix("re:").or_else(|| subject.strip_prefix("fwd:")) {
        subject = rest.trim().to_owned();
    }
    subject
}
