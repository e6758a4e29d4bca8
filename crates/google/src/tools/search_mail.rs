//! `search_mail`.

use chrono::NaiveDate;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use holdfast_core::{
    ApiClient,
    error::{ErrorKind, Result},
};
use serde::{Deserialize, Serialize};

use super::{cursor, invalid, name::SEARCH_MAIL as NAME, view::MailHead, within};
use crate::api;

/// Each mail of a page is a call of its own (20 of 6,000 units a minute).
const MOST_PER_PAGE: u32 = 50;
const USUAL_PER_PAGE: u32 = 10;
/// So many of these calls at once.
const AT_ONCE: usize = 5;
/// Longer queries are no searches.
const LONGEST_QUERY_CHARS: usize = 1000;
/// What is shown of each.
const HEADERS: [&str; 4] = ["From", "To", "Cc", "Subject"];

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    query: Option<String>,
    from: Option<String>,
    to: Option<String>,
    subject: Option<String>,
    unread: Option<bool>,
    after: Option<String>,
    before: Option<String>,
    #[serde(default)]
    spam_and_trash: bool,
    limit: Option<u32>,
    cursor: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Answer {
    messages: Vec<MailHead>,
    next_cursor: Option<String>,
}

pub(super) async fn run(api: &ApiClient, arguments: Arguments) -> Result<Answer> {
    let query = query(&arguments).map_err(|message| invalid(api, NAME, message))?;
    let size = within("limit", arguments.limit, USUAL_PER_PAGE, MOST_PER_PAGE);
    let size = size.map_err(|message| invalid(api, NAME, message))?;
    let page = arguments.cursor.as_deref().map(cursor).transpose().map_err(|message| invalid(api, NAME, message))?;

    let found = api::messages(api, NAME, &query, size, page, arguments.spam_and_trash).await?;

    // An empty token is none, and one that repeats would never end.
    let next = found.next_page_token.filter(|next| !next.is_empty() && Some(next.as_str()) != page);
    let heads = found.messages.into_iter().map(|message| async move {
        match api::message_head(api, NAME, &message.id, &HEADERS).await {
            Ok(message) => Ok(Some(MailHead::of(&message))),
            // Deleted since it was listed.
            Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    });
    let heads: Vec<Option<MailHead>> = stream::iter(heads).buffered(AT_ONCE).try_collect().await?;
    Ok(Answer { messages: heads.into_iter().flatten().collect(), next_cursor: next })
}

/// In Gmail's search language; the caller's own text stands in brackets, so that an OR of it cannot reach the filters.
/// <https://support.google.com/mail/answer/7190>
fn query(arguments: &Arguments) -> Result<String, String> {
    let mut terms = Vec::new();
    let mut words = |operator: &str, field: &str, text: &Option<String>| -> Result<(), String> {
        let Some(text) = text.as_deref().map(str::trim).filter(|text| !text.is_empty()) else { return Ok(()) };
        if text.contains(|c: char| c == '"' || c.is_control()) || text.chars().count() > LONGEST_QUERY_CHARS {
            return Err(format!("{field}: expected words on one line, without quotes"));
        }
        terms.push(format!("{operator}:\"{text}\""));
        Ok(())
    };
    words("from", "from", &arguments.from)?;
    words("to", "to", &arguments.to)?;
    words("subject", "subject", &arguments.subject)?;
    match arguments.unread {
        Some(true) => terms.push("is:unread".to_owned()),
        Some(false) => terms.push("is:read".to_owned()),
        None => {}
    }
    for (operator, day) in [("after", &arguments.after), ("before", &arguments.before)] {
        if let Some(day) = day {
            let read = NaiveDate::parse_from_str(day.trim(), "%Y-%m-%d");
            let day = read.map_err(|_| format!("{operator}: expected a day like \"2026-01-31\""))?;
            terms.push(format!("{operator}:{}", day.format("%Y/%m/%d")));
        }
    }
    if let Some(text) = arguments.query.as_deref().map(str::trim).filter(|text| !text.is_empty()) {
        if text.chars().count() > LONGEST_QUERY_CHARS || text.contains(char::is_control) {
            return Err(format!("query: expected at most {LONGEST_QUERY_CHARS} characters on one line"));
        }
        if !closed(text) {
            return Err("query: a quote or a bracket is not closed".to_owned());
        }
        terms.push(if terms.is_empty() { text.to_owned() } else { format!("({text})") });
    }
    Ok(terms.join(" "))
}

/// Whether all quotes and brackets are closed.
fn closed(text: &str) -> bool {
    let (mut quoted, mut open) = (false, Vec::new());
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            '(' if !quoted => open.push(')'),
            '{' if !quoted => open.push('}'),
            ')' | '}' if !quoted && open.pop() != Some(c) => return false,
            _ => {}
        }
    }
    !quoted && open.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_become_terms_of_gmails_search() {
        let text = |text: &str| Some(text.to_owned());
        let arguments = Arguments {
            query: text(" invoice OR receipt "),
            from: text("Ada Lovelace"),
            subject: text("Grüße -OR"),
            unread: Some(true),
            after: text("2026-01-31"),
            ..Arguments::default()
        };
        let expected = "from:\"Ada Lovelace\" subject:\"Grüße -OR\" is:unread after:2026/01/31 (invoice OR receipt)";
        assert_eq!(query(&arguments).unwrap(), expected);
        assert_eq!(query(&Arguments { query: text("a OR b"), ..Arguments::default() }).unwrap(), "a OR b");
        assert_eq!(query(&Arguments::default()).unwrap(), "");
    }

    #[test]
    fn no_argument_turns_the_search_to_something_else() {
        let text = |text: &str| Some(text.to_owned());
        for (arguments, field) in [
            (Arguments { query: text("a) OR (b"), ..Arguments::default() }, "query: "),
            (Arguments { query: text("\"a"), ..Arguments::default() }, "query: "),
            (Arguments { query: text("{a)"), ..Arguments::default() }, "query: "),
            (Arguments { query: Some("x".repeat(1001)), ..Arguments::default() }, "query: "),
            (Arguments { from: text("x\" OR \""), ..Arguments::default() }, "from: "),
            (Arguments { subject: text("a\nb"), ..Arguments::default() }, "subject: "),
            (Arguments { after: text("31.1.2026"), ..Arguments::default() }, "after: "),
            (Arguments { before: text("2026-02-30"), ..Arguments::default() }, "before: "),
        ] {
            assert!(query(&arguments).unwrap_err().starts_with(field), "{arguments:?}");
        }
        assert!(closed("(a \")\" {b c}) \"d\""));
    }
}
