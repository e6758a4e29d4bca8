//! One function per endpoint that we use: build, send, decode. `operation` is the tool on whose behalf it is called.

use holdfast_core::{ApiClient, error::Result, helpdesk::Page};
use serde_json::{Value, json};

use crate::model::{CommentPage, SearchPage, TicketAnswer, TokenAnswer, TokenFacts, User, UserAnswer};

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

/// One ticket, with its people.
/// <https://developer.zendesk.com/api-reference/ticketing/tickets/tickets/#show-ticket>
pub(crate) async fn ticket(api: &ApiClient, operation: &'static str, id: i64) -> Result<TicketAnswer> {
    api.get(format!("api/v2/tickets/{id}.json")).operation(operation).query("include", "users").fetch().await
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
    api.put(format!("api/v2/tickets/{id}.json")).operation(operation).json(&json!({"ticket": change})).fetch().await
}
