//! `reply_mail`. Gmail keeps an answer in its conversation if three things fit: `threadId`, the headers In-Reply-To and
//! References, and the subject. <https://developers.google.com/workspace/gmail/api/guides/threads>

use holdfast_core::{
    ApiClient,
    error::{ErrorKind, Result},
};
use serde::Deserialize;

use super::{
    id, invalid,
    name::REPLY_MAIL as NAME,
    once,
    send_mail::{Answer, LOOK},
};
use crate::{
    account::mailbox,
    api,
    mail::{
        addresses, bare,
        compose::{Draft, message_ids},
        decode_words,
    },
    model::Part,
};

/// What an answer is made from.
const HEADERS: [&str; 8] = ["From", "Reply-To", "To", "Cc", "Subject", "Message-ID", "References", "In-Reply-To"];
/// A conversation that is longer names its first and its last ones (RFC 5322 section 3.6.4 allows leaving some out).
const MOST_REFERENCES: usize = 30;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    message_id: String,
    body: String,
    /// Without a default: nobody writes to many by leaving something out.
    to_all: bool,
}

pub(super) async fn run(api: &ApiClient, arguments: Arguments) -> Result<Answer> {
    let id = id("message_id", &arguments.message_id).map_err(|message| invalid(api, NAME, message))?;
    if arguments.body.trim().is_empty() {
        return Err(invalid(api, NAME, "body: expected a text, not only spaces"));
    }
    let parent = api::message_head(api, NAME, &id, &HEADERS).await?;
    let empty = Part::default();
    let head = parent.payload.as_ref().unwrap_or(&empty);
    let draft = answer(head, &api.account().id, arguments.to_all, arguments.body);
    if draft.to.is_empty() {
        let message = "the mail names nobody who could be answered; send a new one";
        return Err(api.error(NAME, ErrorKind::Invalid, message));
    }
    let raw = draft.raw().map_err(|message| {
        let message = format!("the mail cannot be answered by itself ({message}); send a new one");
        api.error(NAME, ErrorKind::Invalid, message)
    })?;

    let thread = Some(parent.thread_id.as_str()).filter(|thread| !thread.is_empty());
    let sent = api::send(api, NAME, &raw, thread).await.map_err(|error| once(error, LOOK))?;

    Ok(sent.into())
}

/// The answer to a mail with these headers, as `own` (RFC 5322 section 3.6.4).
fn answer(head: &Part, own: &str, to_all: bool, text: String) -> Draft {
    let list = |name: &str| head.header(name).map(addresses).unwrap_or_default();
    let ours = |address: &String| bare(address).is_some_and(|address| mailbox(address) == mailbox(own));
    let known = |address: &String| bare(address).is_some();
    let from = list("from");
    let mut to: Vec<String> = list("reply-to").into_iter().filter(known).collect();
    if to.is_empty() {
        to.clone_from(&from);
    }
    // Our own mail is followed up, to those who got it.
    if from.iter().any(ours) && to.iter().all(ours) {
        to = list("to");
    }
    to.retain(known);
    let mut cc = Vec::new();
    if to_all {
        let there = |people: &[String], one: &String| {
            people.iter().any(|known| bare(known).map(mailbox) == bare(one).map(mailbox))
        };
        for one in list("to").into_iter().chain(list("cc")).filter(known) {
            if !ours(&one) && !there(&to, &one) && !there(&cc, &one) {
                cc.push(one);
            }
        }
    }
    let parent = head.header("message-id").map(message_ids).unwrap_or_default().pop();
    let mut references = head.header("references").map(message_ids).unwrap_or_default();
    if references.is_empty() {
        references = head.header("in-reply-to").map(message_ids).filter(|ids| ids.len() == 1).unwrap_or_default();
    }
    if let Some(parent) = &parent {
        references.retain(|id| id != parent);
        references.push(parent.clone());
    }
    if references.len() > MOST_REFERENCES {
        references.drain(1..=references.len() - MOST_REFERENCES);
    }
    Draft {
        from: Some(own.to_owned()),
        to,
        cc,
        bcc: Vec::new(),
        subject: subject(&decode_words(head.header("subject").unwrap_or_default())),
        text,
        in_reply_to: parent,
        references,
    }
}

fn subject(of: &str) -> String {
    let plain: String = of.trim().chars().filter(|c| !c.is_control()).collect();
    let answers = plain.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("re:"));
    if answers { plain } else { format!("Re: {plain}").trim_end().to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn head(headers: &[(&str, &str)]) -> Part {
        let headers: Vec<_> = headers.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        serde_json::from_value(json!({ "headers": headers })).unwrap()
    }

    #[test]
    fn an_answer_goes_to_who_wrote_and_names_the_whole_conversation() {
        let parent = head(&[
            ("From", "=?utf-8?Q?Zo=C3=AB?= <zoe@example.com>"),
            ("To", "Me <ME@example.com>, Bob <bob@example.com>"),
            ("CC", "zoe@example.com, cleo@example.com"),
            ("Subject", "=?utf-8?Q?Gr=C3=BC=C3=9Fe?="),
            ("Message-Id", "<3@example.com>"),
            ("References", "<1@example.com>\r\n <2@example.com>"),
        ]);

        let one = answer(&parent, "me@example.com", false, "Hi".to_owned());
        let all = answer(&parent, "me@example.com", true, "Hi".to_owned());

        assert_eq!(one.to, ["Zoë <zoe@example.com>"]);
        assert!(one.cc.is_empty());
        assert_eq!(one.subject, "Re: Grüße");
        assert_eq!(one.in_reply_to.as_deref(), Some("<3@example.com>"));
        assert_eq!(one.references, ["<1@example.com>", "<2@example.com>", "<3@example.com>"]);
        assert_eq!(all.to, one.to);
        assert_eq!(all.cc, ["Bob <bob@example.com>", "cleo@example.com"]);
    }

    #[test]
    fn reply_to_comes_first_and_own_mail_is_followed_up() {
        let parent = head(&[("From", "a@example.com"), ("Reply-To", "list@example.com"), ("To", "me@example.com")]);
        assert_eq!(answer(&parent, "me@example.com", false, String::new()).to, ["list@example.com"]);

        let own = head(&[("From", "Me <me@gmail.com>"), ("To", "a@example.com, b@example.com")]);
        assert_eq!(answer(&own, "m.e@gmail.com", false, String::new()).to, ["a@example.com", "b@example.com"]);

        let nobody = head(&[("From", "MAILER-DAEMON"), ("Reply-To", "undisclosed-recipients:;")]);
        assert!(answer(&nobody, "me@example.com", true, String::new()).to.is_empty());
    }

    #[test]
    fn odd_headers_break_no_conversation() {
        let many: Vec<String> = (0..100).map(|number| format!("<{number}@x>")).collect();
        let parent = head(&[("From", "a@x.example"), ("Message-ID", "<p@x>"), ("References", &many.join(" "))]);
        let draft = answer(&parent, "me@example.com", false, String::new());
        assert_eq!(draft.references.len(), MOST_REFERENCES);
        assert_eq!((draft.references[0].as_str(), draft.references[29].as_str()), ("<0@x>", "<p@x>"));

        let bare = answer(&head(&[("From", "a@x.example")]), "me@example.com", false, String::new());
        assert_eq!((bare.in_reply_to, bare.references, bare.subject.as_str()), (None, Vec::<String>::new(), "Re:"));
        let chained = head(&[("From", "a@x.example"), ("Message-ID", "<b@x>"), ("In-Reply-To", "<a@x>")]);
        assert_eq!(answer(&chained, "me@example.com", false, String::new()).references, ["<a@x>", "<b@x>"]);
    }

    #[test]
    fn a_subject_is_answered_once() {
        for (of, expected) in
            [("Hello", "Re: Hello"), ("RE: Hello", "RE: Hello"), ("re:x", "re:x"), ("", "Re:"), ("é", "Re: é")]
        {
            assert_eq!(subject(of), expected);
        }
    }
}
