//! A message as it leaves, and its form on the wire.

use std::time::SystemTime;

use anyhow::Context;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use chrono::{DateTime, Utc};
use lettre::message::{
    Mailbox, Message, MultiPart,
    header::{Header, HeaderName, HeaderValue},
};
use serde::{Deserialize, Serialize};

/// A whole message to one recipient.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outgoing {
    /// An address alone.
    pub to: String,
    /// An address, or a name with one.
    pub from: String,
    /// Where answers go, if not to `from`.
    pub reply_to: Option<String>,
    /// One line.
    pub subject: String,
    /// The text part.
    pub text: String,
    /// The HTML part.
    pub html: String,
    /// Others, such as `Auto-Submitted` and `In-Reply-To`; ASCII.
    pub headers: Vec<(String, String)>,
    /// With its angle brackets.
    pub message_id: String,
    /// For the header of that name.
    pub date: DateTime<Utc>,
}

/// The header of that name.
struct Subject;

impl Outgoing {
    /// As RFC 5322 and MIME spell it, text and HTML as alternatives.
    pub fn message(&self) -> anyhow::Result<Message> {
        let mailbox = |text: &str| text.parse::<Mailbox>().context("it is no e-mail address");
        let mut builder = Message::builder()
            .from(mailbox(&self.from)?)
            .to(mailbox(&self.to)?)
            .date(SystemTime::from(self.date))
            .message_id(Some(self.message_id.clone()))
            .raw_header(Subject::header(&self.subject));
        if let Some(reply_to) = &self.reply_to {
            builder = builder.reply_to(mailbox(reply_to)?);
        }
        for (name, value) in &self.headers {
            let name = HeaderName::new_from_ascii(name.clone()).context("a header has a name of ASCII letters")?;
            builder = builder.raw_header(HeaderValue::new(name, value.clone()));
        }
        let parts = MultiPart::alternative_plain_html(self.text.clone(), self.html.clone());
        builder.multipart(parts).context("the message cannot be put together")
    }

    /// The header of this name, if it is among [`Self::headers`].
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

impl Subject {
    /// Plain where it is plain. A text that looks like an encoded word would be decoded by whoever shows it, into a line
    /// break for instance; encoded itself, it is shown as it stands (EM-04).
    fn header(text: &str) -> HeaderValue {
        let name = lettre::message::header::Subject::name();
        let plain = text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) && !text.contains("=?");
        if plain {
            return HeaderValue::new(name, text.to_owned());
        }
        HeaderValue::dangerous_new_pre_encoded(name, text.to_owned(), encoded_words(text))
    }
}

/// RFC 2047: lines of at most 76 characters with a word each, none of which splits a character.
fn encoded_words(text: &str) -> String {
    // 52 characters in base64, 12 around them, and the header's name before the first one.
    const MOST_BYTES: usize = 39;
    let mut words = vec![String::new()];
    for c in text.chars().map(|c| if c.is_control() { ' ' } else { c }) {
        if words.last().is_some_and(|word| word.len() + c.len_utf8() > MOST_BYTES) {
            words.push(String::new());
        }
        words.last_mut().expect("there is one").push(c);
    }
    let encoded = words.iter().map(|word| format!("=?utf-8?B?{}?=", STANDARD.encode(word)));
    encoded.collect::<Vec<_>>().join("\r\n ")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::mail) fn sample() -> Outgoing {
        Outgoing {
            to: "ada@acme.example".to_owned(),
            from: "Holdfast <holdfast@hub.example>".to_owned(),
            reply_to: Some("help@hub.example".to_owned()),
            subject: "Acme support needs you".to_owned(),
            text: "Text.\n".to_owned(),
            html: "<p>HTML.</p>\n".to_owned(),
            headers: vec![("Auto-Submitted".to_owned(), "auto-generated".to_owned())],
            message_id: "<mail_1@hub.example>".to_owned(),
            date: "2026-11-29T10:00:00Z".parse().unwrap(),
        }
    }

    fn wire(mail: &Outgoing) -> String {
        String::from_utf8(mail.message().unwrap().formatted()).unwrap()
    }

    #[test]
    fn a_message_has_both_parts_and_its_own_id_and_date() {
        let wire = wire(&sample());

        for line in [
            "From: Holdfast <holdfast@hub.example>\r\n",
            "To: ada@acme.example\r\n",
            "Reply-To: help@hub.example\r\n",
            "Subject: Acme support needs you\r\n",
            "Message-ID: <mail_1@hub.example>\r\n",
            "Date: Sun, 29 Nov 2026 10:00:00 +0000\r\n",
            "Auto-Submitted: auto-generated\r\n",
            "Content-Type: multipart/alternative;",
            "Content-Type: text/plain; charset=utf-8\r\n",
            "Content-Type: text/html; charset=utf-8\r\n",
        ] {
            assert!(wire.contains(line), "{line} is not in\n{wire}");
        }
    }

    /// EM-04
    #[test]
    fn a_subject_adds_no_header_and_is_not_decoded_twice() {
        for subject in [
            "=?utf-8?Q?a=0D=0ABcc:x@evil.example?= needs you",
            "Acme\r\nBcc: x@evil.example",
            &"Ünïcödé 東京 ".repeat(30),
        ] {
            let mail = Outgoing { subject: subject.to_owned(), ..sample() };
            let wire = wire(&mail);
            let head = wire.split("\r\n\r\n").next().unwrap();

            assert!(!head.lines().any(|line| line.to_ascii_lowercase().starts_with("bcc:")), "{head}");
            assert!(head.lines().all(|line| line.len() <= 76 && line.is_ascii()), "{head}");
            assert!(!head.split("Subject: ").nth(1).unwrap().contains("evil.example"), "{head}");
        }
    }

    #[test]
    fn an_address_that_is_none_makes_no_message() {
        for to in ["", "nobody", "a@b\r\nBcc: x@evil.example", "a@b, c@d"] {
            assert!(Outgoing { to: to.to_owned(), ..sample() }.message().is_err(), "{to}");
        }
    }
}
