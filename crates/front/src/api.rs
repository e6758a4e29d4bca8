//! One function per end point that we use: build, send, decode. `operation` is the tool on whose behalf it is called.

use chrono::{DateTime, Utc};
use holdfast_core::{
    ApiClient,
    api_client::{Answered, ApiRequest, segment},
    error::{ErrorKind, Result, Retry},
    wire,
};
use http::Method;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use url::Url;

use crate::{
    API, error,
    model::{
        Accepted, Comment, Contact, Inbox, Me, Tag, Teammate, TicketStatus, WireChannel, WireConversation, WireMessage,
    },
};

/// Most that a page of a list holds.
pub(crate) const PER_PAGE: u32 = 100;

/// A page of a list.
#[derive(Debug)]
pub(crate) struct Listed<T> {
    pub(crate) items: Vec<T>,
    /// The token of the next page. Front gives a whole address, on another host: it is not followed.
    pub(crate) next: Option<String>,
    /// On all pages, where Front says it.
    pub(crate) total: Option<u64>,
}

#[derive(Deserialize)]
struct WireList<T> {
    #[serde(rename = "_results")]
    results: Vec<T>,
    #[serde(rename = "_pagination")]
    pagination: Option<Pagination>,
    #[serde(rename = "_total")]
    total: Option<u64>,
}

#[derive(Deserialize)]
struct Pagination {
    next: Option<String>,
}

/// The company that the access is for; needs no permission.
/// <https://dev.frontapp.com/reference/api-token-details>
pub(crate) async fn me(api: &ApiClient) -> Result<Me> {
    fetch(api, error::IDENTITY, api.get("me")).await
}

/// One page of what a query of Front's search language finds. It has a rate limit of its own.
/// <https://dev.frontapp.com/docs/search-1>
pub(crate) async fn search(
    api: &ApiClient,
    operation: &'static str,
    query: &str,
    size: u32,
    page: Option<&str>,
) -> Result<Listed<WireConversation>> {
    list(api, operation, api.get(format!("conversations/search/{}", segment(query))), size, page).await
}

/// One page of all conversations in one of these statuses (all, where none is given), latest activity first.
/// <https://dev.frontapp.com/reference/list-conversations>
pub(crate) async fn conversations(
    api: &ApiClient,
    operation: &'static str,
    statuses: &[&str],
    size: u32,
    page: Option<&str>,
) -> Result<Listed<WireConversation>> {
    let request =
        statuses.iter().fold(api.get("conversations"), |request, status| request.query("q[statuses][]", status));
    list(api, operation, request, size, page).await
}

/// One conversation, or the one that it was merged into.
/// <https://dev.frontapp.com/reference/get-conversation-by-id>
pub(crate) async fn conversation(api: &ApiClient, operation: &'static str, id: &str) -> Result<WireConversation> {
    let answered = at(api, operation, id, |id| api.get(format!("conversations/{}", segment(id)))).await?;
    decode(api, operation, &answered)
}

/// One page of a conversation's messages, oldest first.
/// <https://dev.frontapp.com/reference/list-conversation-messages>
pub(crate) async fn messages(
    api: &ApiClient,
    operation: &'static str,
    id: &str,
    page: Option<&str>,
) -> Result<Listed<WireMessage>> {
    let request = api.get(format!("conversations/{}/messages", segment(id))).query("sort_order", "asc");
    list(api, operation, request, PER_PAGE, page).await
}

/// All internal notes of a conversation, newest first: they come at once.
/// <https://dev.frontapp.com/reference/list-conversation-comments>
pub(crate) async fn comments(api: &ApiClient, operation: &'static str, id: &str) -> Result<Vec<Comment>> {
    let request = api.get(format!("conversations/{}/comments", segment(id)));
    fetch::<WireList<Comment>>(api, operation, request).await.map(|list| list.results)
}

/// Sends a message, and leaves the conversation where it is: it would be archived otherwise. Answered before it is sent.
/// <https://dev.frontapp.com/reference/create-message-reply>
pub(crate) async fn reply(api: &ApiClient, operation: &'static str, id: &str, html: &str) -> Result<Accepted> {
    let body = json!({"body": html, "options": {"archive": false}});
    let build = |id: &str| api.post(format!("conversations/{}/messages", segment(id))).json(&body);
    decode(api, operation, &at(api, operation, id, build).await?)
}

/// Adds an internal note.
/// <https://dev.frontapp.com/reference/create-comment>
pub(crate) async fn comment(api: &ApiClient, operation: &'static str, id: &str, text: &str) -> Result<Comment> {
    let body = json!({"body": text});
    let build = |id: &str| api.post(format!("conversations/{}/comments", segment(id))).json(&body);
    decode(api, operation, &at(api, operation, id, build).await?)
}

/// Changes a conversation: what is given replaces what is there.
/// <https://dev.frontapp.com/reference/update-conversation>
pub(crate) async fn update(api: &ApiClient, operation: &'static str, id: &str, change: &Value) -> Result<()> {
    done(operation, api.request(Method::PATCH, format!("conversations/{}", segment(id))).json(change)).await
}

/// Adds tags, or removes them, and leaves the others.
/// <https://dev.frontapp.com/reference/add-conversation-tag>
pub(crate) async fn tag(api: &ApiClient, operation: &'static str, id: &str, adds: bool, tags: &[String]) -> Result<()> {
    let method = if adds { Method::POST } else { Method::DELETE };
    let path = format!("conversations/{}/tags", segment(id));
    done(operation, api.request(method, path).json(&json!({"tag_ids": tags}))).await
}

/// A message by what it was called when it was accepted; not found until it is processed.
pub(crate) async fn message_by_uid(api: &ApiClient, operation: &'static str, uid: &str) -> Result<WireMessage> {
    fetch(api, operation, api.get(format!("messages/{}", segment(&format!("alt:uid:{uid}"))))).await
}

/// A message that came in elsewhere. One `external_id` is imported once.
/// <https://dev.frontapp.com/reference/import-inbox-message>
pub(crate) async fn import(api: &ApiClient, operation: &'static str, inbox: &str, body: &Value) -> Result<Accepted> {
    fetch(api, operation, api.post(format!("inboxes/{}/imported_messages", segment(inbox))).json(body)).await
}

/// A contact by id.
/// <https://dev.frontapp.com/reference/get-contact>
pub(crate) async fn contact(api: &ApiClient, operation: &'static str, id: &str) -> Result<Contact> {
    fetch(api, operation, api.get(format!("contacts/{}", segment(id)))).await
}

/// A contact by a whole address.
pub(crate) async fn contact_by_email(api: &ApiClient, operation: &'static str, email: &str) -> Result<Contact> {
    contact(api, operation, &format!("alt:email:{email}")).await
}

/// A teammate by a whole address.
/// <https://dev.frontapp.com/reference/get-teammate>
pub(crate) async fn teammate_by_email(api: &ApiClient, operation: &'static str, email: &str) -> Result<Teammate> {
    fetch(api, operation, api.get(format!("teammates/{}", segment(&format!("alt:email:{email}"))))).await
}

/// One page of the tags that the app may see.
/// <https://dev.frontapp.com/reference/list-tags>
pub(crate) async fn tags(api: &ApiClient, operation: &'static str, page: Option<&str>) -> Result<Listed<Tag>> {
    list(api, operation, api.get("tags"), PER_PAGE, page).await
}

/// The first inboxes, and what Front's clock said.
/// <https://dev.frontapp.com/reference/list-inboxes>
pub(crate) async fn inboxes(api: &ApiClient, operation: &'static str) -> Result<(Vec<Inbox>, Option<DateTime<Utc>>)> {
    let answered = read(operation, api.get("inboxes").query("limit", PER_PAGE)).await?;
    let date = answered
        .headers
        .get(http::header::DATE)
        .and_then(|date| DateTime::parse_from_rfc2822(date.to_str().ok()?).ok());
    let list: WireList<Inbox> = decode(api, operation, &answered)?;
    Ok((list.results, date.map(|date| date.with_timezone(&Utc))))
}

/// The channels of an inbox.
/// <https://dev.frontapp.com/reference/list-inbox-channels>
pub(crate) async fn channels(api: &ApiClient, operation: &'static str, inbox: &str) -> Result<Vec<WireChannel>> {
    let request = api.get(format!("inboxes/{}/channels", segment(inbox)));
    fetch::<WireList<WireChannel>>(api, operation, request).await.map(|list| list.results)
}

/// The statuses of tickets; not found where ticketing is off.
pub(crate) async fn statuses(api: &ApiClient, operation: &'static str) -> Result<Vec<TicketStatus>> {
    fetch::<WireList<TicketStatus>>(api, operation, api.get("company/statuses")).await.map(|list| list.results)
}

async fn list<T: DeserializeOwned>(
    api: &ApiClient,
    operation: &'static str,
    request: ApiRequest<'_>,
    size: u32,
    page: Option<&str>,
) -> Result<Listed<T>> {
    let request = request.query("limit", size);
    let request = match page {
        Some(token) => request.query("page_token", token),
        None => request,
    };
    let list: WireList<T> = fetch(api, operation, request).await?;
    let next = list.pagination.and_then(|pages| pages.next).filter(|next| !next.is_empty());
    let next = next.map(|next| {
        token_of(&next)
            .ok_or_else(|| api.error(operation, ErrorKind::Unreadable, "the next page's address has no page_token"))
    });
    Ok(Listed { items: list.results, next: next.transpose()?, total: list.total })
}

/// The one thing of the next page's address that is used.
fn token_of(next: &str) -> Option<String> {
    let url = Url::parse(&format!("https://{API}/")).expect("it is a constant").join(next).ok()?;
    let token = url.query_pairs().find(|(name, _)| name == "page_token")?.1.into_owned();
    (!token.is_empty()).then_some(token)
}

/// Calls a conversation; where it was merged into another one, once more that one, on our own host.
async fn at<'a>(
    api: &'a ApiClient,
    operation: &'static str,
    id: &str,
    build: impl Fn(&str) -> ApiRequest<'a>,
) -> Result<Answered> {
    let answered = build(id).operation(operation).read().await?;
    if answered.status.as_u16() != 301 {
        return checked(operation, answered);
    }
    let location = answered.headers.get(http::header::LOCATION).and_then(|location| location.to_str().ok());
    let Some(other) = location.and_then(conversation_of) else {
        let message = "Front says that the conversation was merged, and not in a way that can be followed";
        return Err(api.error(operation, ErrorKind::Unreadable, message));
    };
    read(operation, build(&other)).await
}

/// The id in an address of a conversation, where that is one of Front's API: its own host or a company's.
pub(crate) fn conversation_of(address: &str) -> Option<String> {
    let url = Url::parse(&format!("https://{API}/")).expect("it is a constant").join(address).ok()?;
    let host = url.host_str()?;
    let companys =
        host.strip_suffix(".api.frontapp.com").is_some_and(|label| !label.is_empty() && !label.contains('.'));
    if url.scheme() != "https" || url.port().is_some() || !(host == API || companys) {
        return None;
    }
    let mut path = url.path_segments()?;
    let id = path.find(|part| *part == "conversations").and_then(|_| path.next())?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (!id.is_empty() && id.bytes().all(plain)).then(|| id.to_owned())
}

async fn fetch<T: DeserializeOwned>(api: &ApiClient, operation: &'static str, request: ApiRequest<'_>) -> Result<T> {
    decode(api, operation, &read(operation, request).await?)
}

async fn done(operation: &'static str, request: ApiRequest<'_>) -> Result<()> {
    read(operation, request).await.map(drop)
}

async fn read(operation: &'static str, request: ApiRequest<'_>) -> Result<Answered> {
    checked(operation, request.operation(operation).read().await?)
}

fn checked(operation: &'static str, answered: Answered) -> Result<Answered> {
    if !answered.status.is_success() {
        return Err(error::api_error(operation, &answered.to_api_answer()));
    }
    if answered.is_html() {
        let message = "Front answered with a page instead of data; try again later";
        return Err(error::error(operation, ErrorKind::Unreadable, Retry::Never, message));
    }
    Ok(answered)
}

fn decode<T: DeserializeOwned>(api: &ApiClient, operation: &'static str, answered: &Answered) -> Result<T> {
    wire::read(api, operation, &answered.body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_of_a_next_page_is_used() {
        for (next, token) in [
            ("https://acme.api.frontapp.com/conversations?limit=5&page_token=a%2Bb%3D", Some("a+b=")),
            ("https://evil.example/?page_token=x", Some("x")),
            ("/conversations?page_token=x", Some("x")),
            ("https://acme.api.frontapp.com/conversations?limit=5", None),
            ("https://acme.api.frontapp.com/?page_token=", None),
            ("::", None),
        ] {
            assert_eq!(token_of(next).as_deref(), token, "{next}");
        }
    }

    #[test]
    fn a_merged_conversation_is_followed_on_addresses_of_fronts_api_alone() {
        for (location, id) in [
            ("https://acme.api.frontapp.com/conversations/cnv_1", Some("cnv_1")),
            ("https://api2.frontapp.com/conversations/cnv_1/messages?limit=5", Some("cnv_1")),
            ("/conversations/cnv_1", Some("cnv_1")),
            ("http://api2.frontapp.com/conversations/cnv_1", None),
            ("https://evil.example/conversations/cnv_1", None),
            ("https://a.b.api.frontapp.com/conversations/cnv_1", None),
            (".api.frontapp.com/conversations/cnv_1", Some("cnv_1")),
            ("https://.api.frontapp.com/conversations/cnv_1", None),
            ("https://api2.frontapp.com:8443/conversations/cnv_1", None),
            ("https://api2.frontapp.com/conversations/", None),
            ("https://api2.frontapp.com/conversations/..%2F..%2Fme", None),
            ("https://api2.frontapp.com/me", None),
            ("", None),
        ] {
            assert_eq!(conversation_of(location).as_deref(), id, "{location}");
        }
    }
}
