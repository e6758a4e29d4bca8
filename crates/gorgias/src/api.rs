//! One function per endpoint that we use: build, send, decode. `operation` is the tool on whose behalf it is called.

use holdfast_core::{
    ApiClient,
    api_client::{Answered, ApiRequest, segment},
    error::{ErrorKind, Result},
    wire,
};
use http::Method;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    error::{self, IDENTITY},
    model::{Id, Listed, User, WireAccount, WireCustomer, WireMessage, WireTicket},
};

/// Most that a page of a list holds.
pub(crate) const PER_PAGE: u32 = 100;

/// Which tickets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Narrowed {
    pub(crate) customer: Option<i64>,
    pub(crate) view: Option<i64>,
}

/// Which end of a conversation comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First {
    Oldest,
    Newest,
}

/// What happens to labels of a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Labels {
    Add,
    Remove,
}

/// Whose account it is. For whoever has the scope `account:read`.
/// <https://developers.gorgias.com/reference/get-account>
pub(crate) async fn account(api: &ApiClient) -> Result<WireAccount> {
    fetch(api, IDENTITY, api.get("api/account")).await
}

/// Who calls. Used by public clients; the reference does not say that 0 stands for them.
pub(crate) async fn me(api: &ApiClient) -> Result<User> {
    fetch(api, IDENTITY, api.get("api/users/0")).await
}

/// One page of tickets, the last changed first. Those that were thrown away would be among them.
/// <https://developers.gorgias.com/reference/list-tickets>
pub(crate) async fn tickets(
    api: &ApiClient,
    operation: &'static str,
    which: Narrowed,
    limit: u32,
    cursor: Option<&str>,
) -> Result<Listed<WireTicket>> {
    let mut request = api.get("api/tickets").query("trashed", false).query("order_by", "updated_datetime:desc");
    if let Some(id) = which.customer {
        request = request.query("customer_id", id);
    }
    if let Some(id) = which.view {
        request = request.query("view_id", id);
    }
    fetch(api, operation, page(request, limit, cursor)).await
}

/// One page of all tickets, the last changed first, those that were thrown away among them.
/// <https://developers.gorgias.com/reference/list-tickets>
pub(crate) async fn changed(
    api: &ApiClient,
    operation: &'static str,
    cursor: Option<&str>,
) -> Result<Listed<WireTicket>> {
    let request = api.get("api/tickets").query("trashed", true).query("order_by", "updated_datetime:desc");
    fetch(api, operation, page(request, PER_PAGE, cursor)).await
}

/// One ticket, with messages.
/// <https://developers.gorgias.com/reference/get-ticket>
pub(crate) async fn ticket(api: &ApiClient, operation: &'static str, id: i64) -> Result<WireTicket> {
    let ticket: WireTicket = fetch(api, operation, api.get(format!("api/tickets/{id}"))).await?;
    if ticket.id == Id(id) { Ok(ticket) } else { Err(wire::mistaken(api, operation, "ticket")) }
}

/// One page of a ticket's messages, notes among them.
/// <https://developers.gorgias.com/reference/list-messages>
pub(crate) async fn messages(
    api: &ApiClient,
    operation: &'static str,
    ticket: i64,
    first: First,
    limit: u32,
    cursor: Option<&str>,
) -> Result<Listed<WireMessage>> {
    let order = match first {
        First::Oldest => "created_datetime:asc",
        First::Newest => "created_datetime:desc",
    };
    let request = api.get("api/messages").query("ticket_id", ticket).query("order_by", order);
    let mut listed: Listed<WireMessage> = fetch(api, operation, page(request, limit, cursor)).await?;
    // Were the filter ever ignored, nobody else's words may come along.
    listed.data.retain(|message| message.ticket_id.is_none_or(|id| id == Id(ticket)));
    Ok(listed)
}

/// Adds a message, and sends it later where it is public. There is no idempotency key for this.
/// <https://developers.gorgias.com/reference/create-ticket-message>
pub(crate) async fn send(api: &ApiClient, operation: &'static str, ticket: i64, body: &Value) -> Result<WireMessage> {
    fetch(api, operation, api.post(format!("api/tickets/{ticket}/messages")).json(body)).await
}

/// Changes a ticket: the last writer wins, no condition can be set. `None`: it was accepted without a word, as 202 is.
/// <https://developers.gorgias.com/reference/update-ticket>
pub(crate) async fn update(
    api: &ApiClient,
    operation: &'static str,
    ticket: i64,
    change: &Value,
) -> Result<Option<WireTicket>> {
    let answered = done(operation, api.put(format!("api/tickets/{ticket}")).json(change)).await?;
    Ok(serde_json::from_slice(&answered.body).ok())
}

/// Adds or removes labels, those of others untouched.
/// <https://developers.gorgias.com/reference/create-ticket-tags>
pub(crate) async fn label(
    api: &ApiClient,
    operation: &'static str,
    ticket: i64,
    what: Labels,
    names: &[String],
) -> Result<()> {
    let method = match what {
        Labels::Add => Method::POST,
        Labels::Remove => Method::DELETE,
    };
    let request = api.request(method, format!("api/tickets/{ticket}/tags")).json(&json!({"names": names}));
    done(operation, request).await.map(drop)
}

/// Makes a ticket. There is no idempotency key for this.
/// <https://developers.gorgias.com/reference/create-ticket>
pub(crate) async fn create(api: &ApiClient, operation: &'static str, ticket: &Value) -> Result<WireTicket> {
    fetch(api, operation, api.post("api/tickets").json(ticket)).await
}

/// One page of the customers that a filter lets through.
/// <https://developers.gorgias.com/reference/list-customers>
pub(crate) async fn customers(
    api: &ApiClient,
    operation: &'static str,
    filter: &[(&str, &str)],
    limit: u32,
    cursor: Option<&str>,
) -> Result<Listed<WireCustomer>> {
    let request = filter.iter().fold(api.get("api/customers"), |request, (name, value)| request.query(name, value));
    fetch(api, operation, page(request, limit, cursor)).await
}

/// One customer.
/// <https://developers.gorgias.com/reference/get-customer>
pub(crate) async fn customer(api: &ApiClient, operation: &'static str, id: Id) -> Result<WireCustomer> {
    fetch(api, operation, api.get(format!("api/customers/{}", id.0))).await
}

/// Ids of customers that Gorgias's own search finds, the best first, up to 50. Its answer is a list, bare or as `data`.
/// <https://developers.gorgias.com/reference/search>
pub(crate) async fn search(api: &ApiClient, operation: &'static str, query: &str, size: usize) -> Result<Vec<Id>> {
    let body = json!({"type": "customer", "query": query, "size": size});
    let found: Value = fetch(api, operation, api.post("api/search").json(&body).reading()).await?;
    let list = found.as_array().or_else(|| found["data"].as_array());
    let list = list.ok_or_else(|| api.error(operation, ErrorKind::Unreadable, "the search answered with no list"))?;
    Ok(list.iter().filter_map(|one| serde_json::from_value(one["id"].clone()).ok()).take(size).collect())
}

/// Users with this address.
/// <https://developers.gorgias.com/reference/list-users>
pub(crate) async fn users(api: &ApiClient, operation: &'static str, email: &str) -> Result<Vec<User>> {
    let request = page(api.get("api/users").query("email", email), PER_PAGE, None);
    fetch::<Listed<User>>(api, operation, request).await.map(|listed| listed.data)
}

fn page<'a>(request: ApiRequest<'a>, limit: u32, cursor: Option<&str>) -> ApiRequest<'a> {
    let request = request.query("limit", limit);
    match cursor {
        Some(cursor) => request.query("cursor", cursor),
        None => request,
    }
}

/// An HTTP integration, or one of another kind.
#[derive(Deserialize)]
pub(crate) struct Integration {
    #[serde(deserialize_with = "wire::number")]
    pub(crate) id: i64,
    #[serde(default)]
    pub(crate) deactivated_datetime: Option<String>,
    /// What it sends, and where to; null where it is of another kind.
    #[serde(default)]
    pub(crate) http: Value,
}

/// On whose behalf integrations are called.
const WEBHOOK: &str = "webhook";

/// All of them. <https://developers.gorgias.com/reference/list-integrations>
pub(crate) async fn integrations(api: &ApiClient) -> Result<Vec<Integration>> {
    let mut all = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let request = page(api.get("api/integrations"), PER_PAGE, cursor.as_deref());
        let listed: Listed<Integration> = fetch(api, WEBHOOK, request).await?;
        let next = listed.next();
        all.extend(listed.data);
        match next {
            Some(next) if cursor.as_ref() != Some(&next) => cursor = Some(next),
            _ => return Ok(all),
        }
    }
}

/// Makes one, or changes this one. <https://developers.gorgias.com/reference/update-integration>
pub(crate) async fn save_integration(
    api: &ApiClient,
    method: Method,
    id: Option<&str>,
    body: &Value,
) -> Result<Integration> {
    let path = id.map_or_else(|| "api/integrations".to_owned(), |id| format!("api/integrations/{}", segment(id)));
    fetch(api, WEBHOOK, api.request(method, path).json(body)).await
}

/// Takes one away. <https://developers.gorgias.com/reference/delete-integration>
pub(crate) async fn delete_integration(api: &ApiClient, id: &str) -> Result<()> {
    done(WEBHOOK, api.request(Method::DELETE, format!("api/integrations/{}", segment(id)))).await.map(|_| ())
}

async fn fetch<T: DeserializeOwned>(api: &ApiClient, operation: &'static str, request: ApiRequest<'_>) -> Result<T> {
    let answered = done(operation, request).await?;
    wire::read(api, operation, &answered.body)
}

/// A success of whatever kind, but no page.
async fn done(operation: &'static str, request: ApiRequest<'_>) -> Result<Answered> {
    let answered = request.operation(operation).read().await?;
    if !answered.status.is_success() {
        return Err(error::refused(operation, &answered));
    }
    if answered.is_html() {
        return Err(error::page_for_data(operation));
    }
    Ok(answered)
}
