//! One function per endpoint that we use: build, send, decode. `operation` is the tool on whose behalf it is called.

use chrono::{DateTime, SecondsFormat, Utc};
use holdfast_core::{ApiClient, api_client::ApiRequest, error::Result, wire};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    error,
    model::{Agent, Contact, Conversation, Me, SearchPage, Suggestion, WireArticle, WireTicket},
};

/// Most that a page of a list holds.
pub(crate) const PER_PAGE: usize = 100;
/// The last page of the ticket list; the next one is answered 400.
pub(crate) const LAST_LIST_PAGE: u32 = 300;
/// What a page of a search holds; nobody chooses.
pub(crate) const SEARCH_PER_PAGE: usize = 30;
/// The last page of a search.
pub(crate) const LAST_SEARCH_PAGE: u32 = 10;
/// A search's query may have so many characters, without its quotes.
pub(crate) const LONGEST_QUERY_CHARS: usize = 512;

/// A page of a plain array.
#[derive(Debug)]
pub(crate) struct Listed<T> {
    pub(crate) items: Vec<T>,
    /// Whether a link to a next page came along. It is not followed: pages are asked for by number.
    pub(crate) more: bool,
}

/// Whose tickets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    Id(i64),
    Email(String),
}

/// Who calls: for every key of a living agent.
/// <https://developers.freshdesk.com/api/#me>
pub(crate) async fn me(api: &ApiClient) -> Result<Me> {
    fetch(api, error::IDENTITY, api.get("api/v2/agents/me")).await.map(|(me, _)| me)
}

/// One page of what fits a query of fields; it knows no words. 300 results at most, all in all.
/// <https://developers.freshdesk.com/api/#filter_tickets>
pub(crate) async fn search(api: &ApiClient, operation: &'static str, query: &str, page: u32) -> Result<SearchPage> {
    // The double quotes are part of the value.
    let request = api.get("api/v2/search/tickets").query("query", format!("\"{query}\"")).query("page", page);
    fetch(api, operation, request).await.map(|(found, _)| found)
}

/// One page of all tickets, newest first, with their requesters. Without `updated_since` there would be none that is older
/// than 30 days. `words` brings descriptions along.
/// <https://developers.freshdesk.com/api/#list_all_tickets>
pub(crate) async fn list(
    api: &ApiClient,
    operation: &'static str,
    whose: Option<&Whose>,
    since: DateTime<Utc>,
    words: bool,
    page: u32,
) -> Result<Listed<WireTicket>> {
    let request = api
        .get("api/v2/tickets")
        .query("updated_since", since.to_rfc3339_opts(SecondsFormat::Secs, true))
        .query("order_by", "created_at")
        .query("order_type", "desc")
        .query("include", if words { "requester,description" } else { "requester" })
        .query("per_page", PER_PAGE)
        .query("page", page);
    let request = match whose {
        Some(Whose::Id(id)) => request.query("requester_id", id),
        Some(Whose::Email(email)) => request.query("email", email),
        None => request,
    };
    listed(api, operation, request).await
}

/// One page of what changed since then, oldest change first: of the usual tickets, with all that is known of them, or of those
/// of a filter, `deleted` or `spam`.
/// <https://developers.freshdesk.com/api/#list_all_tickets>
pub(crate) async fn changed(
    api: &ApiClient,
    operation: &'static str,
    filter: Option<&str>,
    since: DateTime<Utc>,
    page: u32,
) -> Result<Listed<WireTicket>> {
    let request = api
        .get("api/v2/tickets")
        .query("updated_since", since.to_rfc3339_opts(SecondsFormat::Secs, true))
        .query("order_by", "updated_at")
        .query("order_type", "asc")
        .query("per_page", PER_PAGE)
        .query("page", page);
    let request = match filter {
        Some(filter) => request.query("filter", filter),
        None => request.query("include", "requester,description,stats"),
    };
    listed(api, operation, request).await
}

/// One ticket, with its requester.
/// <https://developers.freshdesk.com/api/#view_a_ticket>
pub(crate) async fn ticket(api: &ApiClient, operation: &'static str, id: i64) -> Result<WireTicket> {
    let request = api.get(format!("api/v2/tickets/{id}")).query("include", "requester");
    the_one(api, operation, id, fetch(api, operation, request).await?.0)
}

/// One page of a ticket's conversations, oldest first, without its first message.
/// <https://developers.freshdesk.com/api/#list_all_ticket_notes>
pub(crate) async fn conversations(
    api: &ApiClient,
    operation: &'static str,
    ticket: i64,
    page: u32,
) -> Result<Listed<Conversation>> {
    let path = format!("api/v2/tickets/{ticket}/conversations");
    listed(api, operation, api.get(path).query("per_page", PER_PAGE).query("page", page)).await
}

/// Sends a mail to the requester. There is no idempotency key for this.
/// <https://developers.freshdesk.com/api/#reply_ticket>
pub(crate) async fn reply(api: &ApiClient, operation: &'static str, ticket: i64, body: &Value) -> Result<Conversation> {
    fetch(api, operation, api.post(format!("api/v2/tickets/{ticket}/reply")).json(body)).await.map(|(said, _)| said)
}

/// Adds a note. There is no idempotency key for this.
/// <https://developers.freshdesk.com/api/#add_note_to_a_ticket>
pub(crate) async fn note(api: &ApiClient, operation: &'static str, ticket: i64, body: &Value) -> Result<Conversation> {
    fetch(api, operation, api.post(format!("api/v2/tickets/{ticket}/notes")).json(body)).await.map(|(said, _)| said)
}

/// Changes a ticket: the last writer wins, no condition can be set.
/// <https://developers.freshdesk.com/api/#update_ticket>
pub(crate) async fn update(
    api: &ApiClient,
    operation: &'static str,
    ticket: i64,
    change: &Value,
) -> Result<WireTicket> {
    let request = api.put(format!("api/v2/tickets/{ticket}")).json(change);
    the_one(api, operation, ticket, fetch(api, operation, request).await?.0)
}

/// Makes a ticket. There is no idempotency key for this.
/// <https://developers.freshdesk.com/api/#create_ticket>
pub(crate) async fn create(api: &ApiClient, operation: &'static str, ticket: &Value) -> Result<WireTicket> {
    fetch(api, operation, api.post("api/v2/tickets").json(ticket)).await.map(|(ticket, _)| ticket)
}

/// Contacts with this very `email` or `unique_external_id`: those who are verified, or those who are not.
/// <https://developers.freshdesk.com/api/#list_all_contacts>
pub(crate) async fn contacts(
    api: &ApiClient,
    operation: &'static str,
    field: &str,
    value: &str,
    unverified: bool,
) -> Result<Listed<Contact>> {
    let request = api.get("api/v2/contacts").query(field, value).query("per_page", PER_PAGE);
    listed(api, operation, if unverified { request.query("state", "unverified") } else { request }).await
}

/// One contact.
/// <https://developers.freshdesk.com/api/#view_contact>
pub(crate) async fn contact(api: &ApiClient, operation: &'static str, id: i64) -> Result<Contact> {
    fetch(api, operation, api.get(format!("api/v2/contacts/{id}"))).await.map(|(contact, _)| contact)
}

/// Contacts whose name begins so: by id and name alone.
/// <https://developers.freshdesk.com/api/#search_contacts>
pub(crate) async fn autocomplete(api: &ApiClient, operation: &'static str, term: &str) -> Result<Vec<Suggestion>> {
    let request = api.get("api/v2/contacts/autocomplete").query("term", term);
    listed(api, operation, request).await.map(|listed| listed.items)
}

/// Agents with this address; many keys may not read agents.
/// <https://developers.freshdesk.com/api/#list_all_agents>
pub(crate) async fn agents(api: &ApiClient, operation: &'static str, email: &str) -> Result<Vec<Agent>> {
    listed(api, operation, api.get("api/v2/agents").query("email", email)).await.map(|listed| listed.items)
}

/// Articles with these words, drafts and agents' own among them. Used by public clients; the reference that we have seen
/// does not list it.
pub(crate) async fn articles(api: &ApiClient, operation: &'static str, term: &str) -> Result<Vec<WireArticle>> {
    listed(api, operation, api.get("api/v2/search/solutions").query("term", term)).await.map(|listed| listed.items)
}

async fn listed<T: DeserializeOwned>(
    api: &ApiClient,
    operation: &'static str,
    request: ApiRequest<'_>,
) -> Result<Listed<T>> {
    fetch(api, operation, request).await.map(|(items, more)| Listed { items, more })
}

/// Never another one than was asked for.
fn the_one(api: &ApiClient, operation: &'static str, id: i64, ticket: WireTicket) -> Result<WireTicket> {
    if ticket.id == id { Ok(ticket) } else { Err(wire::mistaken(api, operation, "ticket")) }
}

/// The answer, and whether it links to a next page.
async fn fetch<T: DeserializeOwned>(
    api: &ApiClient,
    operation: &'static str,
    request: ApiRequest<'_>,
) -> Result<(T, bool)> {
    let answered = request.operation(operation).read().await?;
    if !answered.status.is_success() {
        return Err(error::refused(operation, &answered));
    }
    if answered.is_html() {
        return Err(error::page_for_data(operation));
    }
    Ok((wire::read(api, operation, &answered.body)?, answered.next_link().is_some()))
}
