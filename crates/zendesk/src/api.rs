//! One function per endpoint that we use: build, send, decode. `operation` is the tool on whose behalf it is called.

use holdfast_core::{ApiClient, error::Result, helpdesk::Page, wire};
use http::{HeaderName, HeaderValue};
use serde_json::{Value, json};

use crate::model::{
    ArticlePage, CommentPage, ExportPage, SearchPage, TicketAnswer, TokenAnswer, TokenFacts, User, UserAnswer, UserPage,
};

/// What a user is looked for by.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum UserSearch {
    /// In Zendesk's search language.
    Query(String),
    /// Exactly this one.
    ExternalId(String),
}

/// Who calls. Open to anonymous visitors: a 200 alone proves nothing.
/// <https://developer.zendesk.com/api-reference/ticketing/users/users/#show-self>
pub(crate) async fn me(api: &ApiClient) -> Result<User> {
    let answer: UserAnswer = api.get("api/v2/users/me.json").operation("identity").fetch().await?;
    Ok(answer.user)
}

/// The token that is used for this very call.
/// <https://developer.zendesk.com/api-reference/ticketing/oauth/oauth_tokens/>
pub(crate) async fn current_token(api: &ApiClient) -> Result<TokenFacts> {
    let answer: TokenAnswer = api.get("api/v2/oauth/tokens/current.json").operation("identity").fetch().await?;
    Ok(answer.token)
}

/// One page of a search, newest tickets first: a ticket that comes in meanwhile repeats one, and hides none.
/// No page may reach beyond the 1000th ticket.
/// <https://developer.zendesk.com/api-reference/ticketing/ticket-management/search/>
pub(crate) async fn search(api: &ApiClient, operation: &'static str, query: &str, page: Page) -> Result<SearchPage> {
    api.get("api/v2/search.json")
        .operation(operation)
        .query("query", query)
        .query("sort_by", "created_at")
        .query("sort_order", "desc")
        .query("include", "tickets(users)")
        .query("page", page.number)
        .query("per_page", page.size)
        .fetch()
        .await
}

/// Tickets of one page of an export. Most are 1000; an answer is read whole.
const EXPORTED: u32 = 500;

/// One page of the tickets that changed since a moment, or behind a cursor, oldest change first, deleted ones among them. What
/// changed within the last minute is not there yet. Administrators only, and 10 requests a minute.
/// <https://developer.zendesk.com/api-reference/ticketing/ticket-management/incremental_exports/>
pub(crate) async fn changed(api: &ApiClient, operation: &'static str, from: (&str, &str)) -> Result<ExportPage> {
    let (name, place) = from;
    api.get("api/v2/incremental/tickets/cursor.json")
        .operation(operation)
        .query(name, place)
        .query("per_page", EXPORTED)
        .query("include", "users,metric_sets")
        .fetch()
        .await
}

/// One ticket, with its people.
/// <https://developer.zendesk.com/api-reference/ticketing/tickets/tickets/#show-ticket>
pub(crate) async fn ticket(api: &ApiClient, operation: &'static str, id: i64) -> Result<TicketAnswer> {
    let request = api.get(format!("api/v2/tickets/{id}.json")).operation(operation).query("include", "users");
    the_one(api, operation, id, request.fetch().await?)
}

/// Never another one than was asked for.
fn the_one(api: &ApiClient, operation: &'static str, id: i64, answer: TicketAnswer) -> Result<TicketAnswer> {
    if answer.ticket.id == id { Ok(answer) } else { Err(wire::mistaken(api, operation, "ticket")) }
}

/// One page of a ticket's comments with their authors, oldest first, at most 100.
/// <https://developer.zendesk.com/api-reference/ticketing/tickets/ticket_comments/#list-comments>
pub(crate) async fn comments(
    api: &ApiClient,
    operation: &'static str,
    ticket: i64,
    after: Option<&str>,
) -> Result<CommentPage> {
    let request = api
        .get(format!("api/v2/tickets/{ticket}/comments.json"))
        .operation(operation)
        .query("include", "users")
        .query("sort", "created_at")
        .query("page[size]", 100);
    match after {
        Some(cursor) => request.query("page[after]", cursor).fetch().await,
        None => request.fetch().await,
    }
}

/// Changes a ticket, or adds a comment to it. There is no idempotency key for this.
/// <https://developer.zendesk.com/api-reference/ticketing/tickets/tickets/#update-ticket>
pub(crate) async fn update(api: &ApiClient, operation: &'static str, id: i64, change: &Value) -> Result<TicketAnswer> {
    let request = api.put(format!("api/v2/tickets/{id}.json")).operation(operation).json(&json!({"ticket": change}));
    the_one(api, operation, id, request.fetch().await?)
}

/// Makes a ticket. With a key, the same call within two hours answers with the ticket that it made before; with the same
/// key and another body it is refused.
/// <https://developer.zendesk.com/api-reference/ticketing/tickets/tickets/#create-ticket>
pub(crate) async fn create(
    api: &ApiClient,
    operation: &'static str,
    ticket: &Value,
    key: Option<HeaderValue>,
) -> Result<TicketAnswer> {
    let request = api.post("api/v2/tickets.json").operation(operation).json(&json!({"ticket": ticket}));
    match key {
        Some(key) => request.header(HeaderName::from_static("idempotency-key"), key).fetch().await,
        None => request.fetch().await,
    }
}

/// One page of users, agents among them. At most 100 pages.
/// <https://developer.zendesk.com/api-reference/ticketing/users/users/#search-users>
pub(crate) async fn users(
    api: &ApiClient,
    operation: &'static str,
    search: &UserSearch,
    page: Page,
) -> Result<UserPage> {
    let request = api.get("api/v2/users/search.json").operation(operation);
    let request = match search {
        UserSearch::Query(query) => request.query("query", query),
        UserSearch::ExternalId(id) => request.query("external_id", id),
    };
    request.query("page", page.number).query("per_page", page.size).fetch().await
}

/// One page of the help center's articles, the best first. Without a locale in the help center's own.
/// <https://developer.zendesk.com/api-reference/help_center/help-center-api/search/#search-articles>
pub(crate) async fn articles(
    api: &ApiClient,
    operation: &'static str,
    query: &str,
    locale: Option<&str>,
    page: Page,
) -> Result<ArticlePage> {
    let request = api.get("api/v2/help_center/articles/search.json").operation(operation).query("query", query);
    let request = match locale {
        Some(locale) => request.query("locale", locale),
        None => request,
    };
    request.query("page", page.number).query("per_page", page.size).fetch().await
}
