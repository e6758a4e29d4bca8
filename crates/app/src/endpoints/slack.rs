//! An org's channel in Slack, or in what takes the same messages
//! (<https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks/>): the words of a mail, shorter, with links to
//! pages that ask who opens them.

use std::fmt::Write as _;

use bytes::Bytes;
use holdfast_core::{
    OrgId,
    exchange::retry_after,
    job::Outcome,
    ports::{Body, HttpRequest, HttpResponse, StoreError},
};
use holdfast_store::{Channel, ClaimedMail, Job, MailStage};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use tracing::{error, info, warn};
use url::Url;

use super::{
    deliver::{Failed, never, unreachable},
    manage,
};
use crate::{
    app::App,
    mail::{ForChannel, for_channel},
};

/// Connectors that one message names.
const NAMED: usize = 10;
/// Of an answer's word.
const LONGEST_WORD: usize = 60;
/// Paths of this length hide a secret, of which the last characters may be shown.
const LONG_PATH: usize = 24;

/// One attempt at a message. Inside: it came to nothing.
pub(super) async fn tell(
    app: &App,
    job: &Job,
    mail: &str,
    is_last: impl Fn(u32) -> bool,
) -> Result<Result<Outcome, Failed>, StoreError> {
    let now = app.seams.clock.now();
    let Some(mail) = app.store.find_posted(&job.org, mail).await? else { return Ok(Ok(Outcome::Done)) };
    let channel = app.store.find_channel(&job.org).await?;
    let Some(channel) = channel.filter(|channel| channel.id == job.subject && channel.stopped_at.is_none()) else {
        app.store.settle_posted(&mail, MailStage::Dropped, Some("the channel was taken away"), now).await?;
        return Ok(Ok(never("channel_gone", "The channel was removed or replaced, or is gone.")));
    };
    let text = match for_channel(app, &mail).await {
        Ok(Some(said)) => text(&said),
        Ok(None) => {
            app.store.settle_posted(&mail, MailStage::Dropped, Some("it was over before it was sent"), now).await?;
            return Ok(Ok(Outcome::Done));
        }
        Err(trouble) => {
            error!(mail.id = mail.id, error = format!("{trouble:#}"), "message {} could not be put together", mail.id);
            let detail = "Something of ours is in trouble.".to_owned();
            let failed = Err(Failed { code: "ours", detail, status: None, not_before: None });
            settle(app, &mail, &failed, is_last(job.attempts)).await?;
            return Ok(failed.map(|_| Outcome::Done));
        }
    };
    let sent = attempt(app, &job.org, &channel, &text).await?;
    let settled = settle(app, &mail, &sent, is_last(job.attempts)).await;
    match (&sent, settled) {
        // What was taken is not sent again for the want of a note.
        (Ok(_), Err(trouble)) => {
            warn!(mail.id = mail.id, error = format!("{trouble:#}"), "could not note that a message was taken");
        }
        (_, settled) => settled?,
    }
    Ok(sent.map(|_| Outcome::Done))
}

async fn settle(app: &App, mail: &ClaimedMail, sent: &Result<u16, Failed>, last: bool) -> Result<(), StoreError> {
    let now = app.seams.clock.now();
    match sent {
        Ok(_) => app.store.settle_posted(mail, MailStage::Sent, None, now).await,
        Err(failed) if last || failed.code == "gone" => {
            app.store.settle_posted(mail, MailStage::Refused, Some(&failed.detail), now).await
        }
        Err(_) => Ok(()),
    }
}

/// A message to see whether it arrives; answers its status, or why it came to nothing.
pub(crate) async fn test(
    app: &App,
    (org, org_name): (&OrgId, &str),
    channel: &Channel,
) -> Result<Result<u16, String>, StoreError> {
    let page = link(&app.url("settings/notifications"), "Settings");
    let text = format!("A test from Holdfast: {} is told here of its connectors. {page}", escaped(org_name));
    Ok(attempt(app, org, channel, &text).await?.map_err(|failed| failed.detail))
}

/// Sends a text once, and notes what became of it.
async fn attempt(app: &App, org: &OrgId, channel: &Channel, text: &str) -> Result<Result<u16, Failed>, StoreError> {
    let sent = send(app, &channel.url, text).await;
    let failed = sent.as_ref().err();
    let (fault, gone) =
        (failed.map(|failed| failed.detail.as_str()), failed.is_some_and(|failed| failed.code == "gone"));
    let tell = app.telling();
    let noted = app.store.note_channel_attempt(&tell, org, &channel.id, fault, gone).await;
    match noted {
        Ok(holdfast_core::ports::Changed::Yes) => info!(org.id = %org, "the channel of org {org} is gone"),
        Ok(holdfast_core::ports::Changed::No) => {}
        // What was taken is not sent again for the want of a note.
        Err(trouble) => {
            warn!(error = format!("{:#}", anyhow::Error::new(trouble)), "could not note an attempt at a channel");
        }
    }
    Ok(sent)
}

async fn send(app: &App, url: &SecretString, text: &str) -> Result<u16, Failed> {
    let broken = || {
        let detail = "Its address cannot be read; enter it anew.".to_owned();
        Failed { code: "ours", detail, status: None, not_before: None }
    };
    let url = Url::parse(url.expose_secret()).map_err(|_| broken())?;
    let host = url.host_str().unwrap_or_default().to_owned();
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let body = json!({ "text": text, "unfurl_links": false, "unfurl_media": false });
    let request = HttpRequest {
        method: Method::POST,
        url,
        exact: None,
        headers,
        body: Body::Bytes(Bytes::from(body.to_string())),
        timeout: app.config.events.timeout,
    };
    match app.seams.endpoints.send(request).await {
        Ok(answer) if answer.status.is_success() => Ok(answer.status.as_u16()),
        Ok(answer) => Err(refused(app, answer).await),
        Err(failure) => Err(unreachable(&failure, &host)),
    }
}

/// 404 and 410 are what Slack says of a webhook, or a channel, that is no more.
async fn refused(app: &App, answer: HttpResponse) -> Failed {
    let status = answer.status;
    let not_before = retry_after(&answer.headers, app.seams.clock.now());
    let body = answer.bytes(LONGEST_WORD).await.unwrap_or_default();
    let gone = matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE);
    Failed {
        code: if gone { "gone" } else { "refused" },
        detail: match word(&body) {
            Some(word) => format!("It answered {}: {word}.", status.as_u16()),
            None => format!("It answered {}.", status.as_u16()),
        },
        status: Some(status),
        not_before,
    }
}

/// Slack answers with a word such as `invalid_token`. Whatever else stands there is for nobody to read.
fn word(body: &[u8]) -> Option<&str> {
    let word = std::str::from_utf8(body).ok()?.trim();
    let plain = !word.is_empty() && word.len() <= LONGEST_WORD;
    (plain && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')).then_some(word)
}

fn text(said: &ForChannel) -> String {
    let mut text = format!("*{}*", escaped(&said.subject));
    for one in said.lines.iter().take(NAMED) {
        let name = one.url.as_deref().map_or_else(|| escaped(&one.name), |url| link(url, &one.name));
        text.push_str("\n• ");
        text.push_str(&name);
        if !one.words.is_empty() {
            text.push_str(": ");
            text.push_str(&escaped(&one.words));
        }
    }
    if said.count > said.lines.len().min(NAMED) {
        let _always = write!(text, "\n… and {} more", said.count - said.lines.len().min(NAMED));
    }
    if !said.words.is_empty() {
        text.push('\n');
        text.push_str(&escaped(&said.words));
    }
    if let Some((url, label)) = &said.button {
        text.push('\n');
        text.push_str(&link(url, label));
    }
    text
}

fn link(url: &str, label: &str) -> String {
    format!("<{}|{}>", escaped(url), escaped(label))
}

/// As Slack asks for it: these three mean something.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// An address that was typed, with what is shown of it; the error says what is allowed.
pub(crate) fn address(app: &App, typed: &str) -> Result<(SecretString, String), String> {
    let example = "such as https://hooks.slack.com/services/T0000/B0000/secret";
    let url = manage::url(app, typed).map_err(|why| match why {
        why if why.starts_with("Enter") => format!("Paste the whole address that Slack shows, {example}."),
        why if why.starts_with("Leave") => "Leave user, password and # out of the address.".to_owned(),
        why => why,
    })?;
    let parsed = Url::parse(&url).map_err(|_| format!("Paste the whole address, {example}."))?;
    let host = parsed.host_str().unwrap_or_default();
    let end: String = parsed.path().chars().rev().take(4).collect::<Vec<_>>().into_iter().rev().collect();
    let hint = if parsed.path().len() < LONG_PATH { host.to_owned() } else { format!("{host} … {end}") };
    Ok((SecretString::from(url), hint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mail::ChannelLine;

    #[test]
    fn what_others_wrote_means_nothing_in_a_message() {
        let line = ChannelLine {
            name: "<!channel> & co".to_owned(),
            url: Some("https://hub.example/connectors/con_1".to_owned()),
            words: "Zendesk said <https://evil.example|click>".to_owned(),
        };
        let said = ForChannel {
            subject: "2 connectors of <Acme> need you".to_owned(),
            lines: vec![line],
            count: 2,
            words: String::new(),
            button: Some(("https://hub.example/?a=1&b=2".to_owned(), "See all of them".to_owned())),
        };

        assert_eq!(
            text(&said),
            "*2 connectors of &lt;Acme&gt; need you*\n• <https://hub.example/connectors/con_1|&lt;!channel&gt; &amp; co>: \
             Zendesk said &lt;https://evil.example|click&gt;\n… and 1 more\n<https://hub.example/?a=1&amp;b=2|See all of them>"
        );
    }

    #[test]
    fn of_an_answer_only_a_word_is_shown() {
        for (body, shown) in [
            ("no_service", Some("no_service")),
            ("invalid_token\n", Some("invalid_token")),
            ("<html>internal", None),
            ("secret=1", None),
            ("", None),
        ] {
            assert_eq!(word(body.as_bytes()), shown, "{body}");
        }
    }
}
