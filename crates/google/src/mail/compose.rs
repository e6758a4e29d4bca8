//! A message as Gmail takes it: RFC 5322, in any script.

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use lettre::{
    Address,
    message::{
        Mailbox, Mailboxes,
        header::{Bcc, Cc, HeaderName, HeaderValue, Headers, InReplyTo, References, Subject, To},
    },
};
use url::Host;

/// Most people of one message. <https://developers.google.com/workspace/gmail/api/reference/quota>
pub(crate) const MOST_RECIPIENTS: usize = 500;
/// A line of base64 (RFC 2045 section 6.8).
const LINE: usize = 76;

/// A message to be sent.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) from: Option<String>,
    pub(crate) to: Vec<String>,
    pub(crate) cc: Vec<String>,
    pub(crate) bcc: Vec<String>,
    pub(crate) subject: String,
    pub(crate) text: String,
    /// Message-ID of what is answered.
    pub(crate) in_reply_to: Option<String>,
    /// Message-IDs of the conversation, oldest first.
    pub(crate) references: Vec<String>,
}

impl Draft {
    /// base64url of the message. Gmail writes Date and Message-ID. `Err` says what is wrong, and where.
    pub(crate) fn raw(&self) -> Result<String, String> {
        let mut headers = Headers::new();
        if let Some(from) = &self.from {
            headers.set(lettre::message::header::From::from(mailboxes("from", std::slice::from_ref(from))?));
        }
        let count = self.to.len() + self.cc.len() + self.bcc.len();
        if count == 0 {
            return Err("to: expected at least one address".to_owned());
        }
        if count > MOST_RECIPIENTS {
            return Err(format!("to: expected at most {MOST_RECIPIENTS} people in to, cc and bcc together"));
        }
        if !self.to.is_empty() {
            headers.set(To::from(mailboxes("to", &self.to)?));
        }
        if !self.cc.is_empty() {
            headers.set(Cc::from(mailboxes("cc", &self.cc)?));
        }
        if !self.bcc.is_empty() {
            headers.set(Bcc::from(mailboxes("bcc", &self.bcc)?));
        }
        if self.subject.chars().any(char::is_control) {
            return Err("subject: expected one line".to_owned());
        }
        headers.set(Subject::from(self.subject.clone()));
        if let Some(id) = &self.in_reply_to {
            headers.set(InReplyTo::from(id.clone()));
        }
        if !self.references.is_empty() {
            headers.set(References::from(self.references.join(" ")));
        }
        for (name, value) in [
            ("MIME-Version", "1.0"),
            ("Content-Type", "text/plain; charset=utf-8"),
            ("Content-Transfer-Encoding", "base64"),
        ] {
            headers.insert_raw(HeaderValue::new(HeaderName::new_from_ascii_str(name), value.to_owned()));
        }
        let text = self.text.replace("\r\n", "\n").replace('\n', "\r\n");
        let mut message = format!("{headers}\r\n");
        let body = STANDARD.encode(text);
        for line in body.as_bytes().chunks(LINE) {
            message.push_str(str::from_utf8(line).expect("base64 is ASCII"));
            message.push_str("\r\n");
        }
        Ok(URL_SAFE_NO_PAD.encode(message))
    }
}

fn mailboxes(field: &str, addresses: &[String]) -> Result<Mailboxes, String> {
    let read = addresses.iter().map(|address| mailbox(field, address));
    read.collect::<Result<Vec<_>, _>>().map(|all| all.into_iter().fold(Mailboxes::new(), Mailboxes::with))
}

/// `ada@example.com` or `Ada Lovelace <ada@example.com>`, the name in any script.
fn mailbox(field: &str, text: &str) -> Result<Mailbox, String> {
    let wrong = || {
        format!("{field}: expected addresses like \"ada@example.com\" or \"Ada Lovelace <ada@example.com>\", one each")
    };
    let text = text.trim();
    if text.chars().any(char::is_control) {
        return Err(wrong());
    }
    let (name, address) = match text.strip_suffix('>').and_then(|text| text.rsplit_once('<')) {
        Some((name, address)) => (name.trim(), address.trim()),
        None => ("", text),
    };
    let name = match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        Some(inner) => inner.replace("\\\"", "\"").replace("\\\\", "\\"),
        None => name.to_owned(),
    };
    let (local, domain) = address.rsplit_once('@').ok_or_else(wrong)?;
    if !local.is_ascii() {
        return Err(format!("{field}: what stands before the @ has to be in Latin letters without accents"));
    }
    // A domain in another script goes over the wire in its ASCII form (RFC 5891).
    let Ok(Host::Domain(domain)) = Host::parse(domain) else { return Err(wrong()) };
    if !domain.contains('.') {
        return Err(wrong());
    }
    let address = Address::new(local, domain).map_err(|_| wrong())?;
    Ok(Mailbox::new(Some(name).filter(|name| !name.is_empty()), address))
}

/// The ids in a header, each with its brackets.
pub(crate) fn message_ids(header: &str) -> Vec<String> {
    let mut ids = Vec::new();
    let mut rest = header;
    while let Some(open) = rest.find('<') {
        rest = &rest[open..];
        let Some(close) = rest.find('>') else { break };
        let id = &rest[..=close];
        if id.len() > 2 && !id.contains(char::is_whitespace) && id.is_ascii() && !ids.iter().any(|known| known == id) {
            ids.push(id.to_owned());
        }
        rest = &rest[close + 1..];
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mail::{addresses, decode_words};

    fn sent(draft: &Draft) -> String {
        String::from_utf8(URL_SAFE_NO_PAD.decode(draft.raw().unwrap()).unwrap()).unwrap()
    }

    /// The header of this name, its folds undone.
    fn header(message: &str, name: &str) -> Option<String> {
        let (head, _) = message.split_once("\r\n\r\n").unwrap();
        let head = head.replace("\r\n ", " ");
        head.split("\r\n").find_map(|line| line.strip_prefix(&format!("{name}: ")).map(str::to_owned))
    }

    fn text(message: &str) -> String {
        let (_, body) = message.split_once("\r\n\r\n").unwrap();
        String::from_utf8(STANDARD.decode(body.replace("\r\n", "")).unwrap()).unwrap()
    }

    #[test]
    fn a_message_in_any_script_is_ascii_in_short_lines_and_reads_back() {
        for (subject, name, body) in [
            ("Hello", "Ada Lovelace", "Hi\n"),
            ("Grüße aus Köln", "Jörg Müller", "Zeile eins\nZeile zwei\r\n"),
            ("Тема письма, довольно длинная, чтобы её пришлось перенести на следующую строку", "Анна", "Привет"),
            ("会議の件について", "山田 太郎", "こんにちは"),
            ("שלום", "דנה", "טקסט"),
            ("🙂 done", "Zoë 🙂", "👩‍💻"),
            ("", "", ""),
            ("=?utf-8?B?", "Lovelace, Ada", "a"),
        ] {
            let to = if name.is_empty() { "ada@example.com".to_owned() } else { format!("{name} <ada@example.com>") };
            let draft = Draft { to: vec![to], subject: subject.to_owned(), text: body.to_owned(), ..Draft::default() };

            let message = sent(&draft);

            assert!(message.is_ascii(), "{message}");
            assert!(message.split("\r\n").all(|line| line.len() <= 78), "{message}");
            assert!(!message.replace("\r\n", "").contains(['\r', '\n']), "{message:?}");
            let read = header(&message, "Subject").map(|header| decode_words(header.trim()));
            assert_eq!(read.unwrap_or_default(), subject);
            let all = addresses(&header(&message, "To").unwrap());
            assert_eq!(all.len(), 1, "{all:?}");
            assert!(all[0].contains("ada@example.com") && all[0].contains(name), "{all:?}");
            assert_eq!(text(&message), body.replace("\r\n", "\n").replace('\n', "\r\n"));
        }
    }

    #[test]
    fn no_argument_writes_a_header_of_its_own() {
        let good = || Draft { to: vec!["ada@example.com".to_owned()], ..Draft::default() };
        for (draft, field) in [
            (Draft { subject: "a\r\nBcc: eve@example.com".to_owned(), ..good() }, "subject: "),
            (Draft { subject: "a\nb".to_owned(), ..good() }, "subject: "),
            (Draft { to: vec!["ada@example.com\r\nBcc: eve@example.com".to_owned()], ..good() }, "to: "),
            (Draft { to: vec!["ada@example.com, eve@example.com".to_owned()], ..good() }, "to: "),
            (Draft { to: vec!["ada".to_owned()], ..good() }, "to: "),
            (Draft { to: vec!["ada@localhost".to_owned()], ..good() }, "to: "),
            (Draft { to: vec!["<>".to_owned()], ..good() }, "to: "),
            (Draft { to: vec!["ädä@example.com".to_owned()], ..good() }, "to: "),
            (Draft { cc: vec![String::new()], ..good() }, "cc: "),
            (Draft { bcc: vec!["a b@example.com".to_owned()], ..good() }, "bcc: "),
            (Draft { to: Vec::new(), ..good() }, "to: "),
            (Draft { to: vec!["ada@example.com".to_owned(); 501], ..good() }, "to: "),
        ] {
            let refused = draft.raw().unwrap_err();
            assert!(refused.starts_with(field), "{draft:?}: {refused}");
        }
    }

    #[test]
    fn a_domain_in_another_script_goes_out_in_its_ascii_form() {
        let draft = Draft { to: vec!["Jo <jo@bücher.example>".to_owned()], ..Draft::default() };
        assert_eq!(header(&sent(&draft), "To").unwrap(), "Jo <jo@xn--bcher-kva.example>");
    }

    #[test]
    fn an_answer_names_what_it_answers() {
        let draft = Draft {
            from: Some("bob@example.com".to_owned()),
            to: vec!["ada@example.com".to_owned()],
            subject: "Re: Hello".to_owned(),
            in_reply_to: Some("<2@example.com>".to_owned()),
            references: vec!["<1@example.com>".to_owned(), "<2@example.com>".to_owned()],
            ..Draft::default()
        };
        let message = sent(&draft);
        assert_eq!(header(&message, "In-Reply-To").unwrap(), "<2@example.com>");
        assert_eq!(header(&message, "References").unwrap(), "<1@example.com> <2@example.com>");
        assert_eq!(header(&message, "From").unwrap(), "bob@example.com");
    }

    #[test]
    fn ids_are_taken_out_of_whatever_stands_around_them() {
        assert_eq!(message_ids("<a@x> <b@x>\r\n <a@x> (note) <> <c d@x> <cut"), ["<a@x>", "<b@x>"]);
        assert!(message_ids("none").is_empty());
    }
}
