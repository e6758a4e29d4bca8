//! `get_mail`.

use holdfast_core::{
    ApiClient,
    error::{ErrorKind, Result},
};
use serde::{Deserialize, Serialize};

use super::{id, invalid, name::GET_MAIL as NAME, view::MailHead};
use crate::{
    api,
    mail::{Attachment, Content, addresses, text_of},
    model::Part,
};

/// So much text in one answer.
const PIECE_CHARS: usize = 20_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    message_id: String,
    cursor: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Answer {
    message: MailHead,
    reply_to: Vec<String>,
    text: String,
    attachments: Vec<Attachment>,
    next_cursor: Option<String>,
    note: Option<String>,
}

pub(super) async fn run(api: &ApiClient, arguments: Arguments) -> Result<Answer> {
    let id = id("message_id", &arguments.message_id).map_err(|message| invalid(api, NAME, message))?;
    let from = arguments.cursor.as_deref().map_or(Ok(0), |cursor| {
        let digits = cursor.bytes().all(|byte| byte.is_ascii_digit());
        cursor.parse().ok().filter(|_| digits).ok_or("cursor: expected next_cursor of an earlier answer, unchanged")
    });
    let from: usize = from.map_err(|message| invalid(api, NAME, message))?;

    let message = api::message(api, NAME, &id).await?;

    let empty = Part::default();
    let root = message.payload.as_ref().unwrap_or(&empty);
    let content = Content::of(root);
    let (mut text, mut unread) = (String::new(), 0);
    for part in &content.texts {
        let piece = match &part.body.attachment_id {
            // Long parts do not come with their message.
            Some(attachment) if part.body.data.is_none() => {
                text_of(part, &api::part(api, NAME, &id, attachment).await?)
            }
            _ => text_of(part, &part.body),
        };
        match piece {
            Some(piece) if text.is_empty() => text = piece,
            Some(piece) => {
                text.push_str("\n\n");
                text.push_str(&piece);
            }
            None => unread += 1,
        }
    }
    if unread > 0 && unread == content.texts.len() {
        return Err(api.error(
            NAME,
            ErrorKind::Unreadable,
            "the text of the mail is not what Google's documentation says",
        ));
    }
    let (text, next) = piece(&text, from);
    Ok(Answer {
        message: MailHead::of(&message),
        reply_to: root.header("reply-to").map(addresses).unwrap_or_default(),
        text: text.to_owned(),
        attachments: content.attachments,
        next_cursor: next.map(|next| next.to_string()),
        note: (unread > 0).then(|| format!("{unread} of the parts of its text could not be read")),
    })
}

/// The characters from there on, and where the next piece begins.
fn piece(text: &str, from: usize) -> (&str, Option<usize>) {
    let place = |count: usize| text.char_indices().nth(count).map(|(at, _)| at);
    let Some(start) = place(from) else { return ("", None) };
    match text[start..].char_indices().nth(PIECE_CHARS) {
        Some((length, _)) => (&text[start..start + length], Some(from + PIECE_CHARS)),
        None => (&text[start..], None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_comes_in_pieces_that_lose_nothing() {
        let text = "äx日".repeat(PIECE_CHARS / 2);
        let (mut all, mut from) = (String::new(), Some(0));
        while let Some(at) = from {
            let (now, next) = piece(&text, at);
            assert!(now.chars().count() <= PIECE_CHARS);
            all.push_str(now);
            from = next;
        }
        assert_eq!(all, text);
        assert_eq!(piece("", 0), ("", None));
        assert_eq!(piece("abc", 9), ("", None));
    }
}
