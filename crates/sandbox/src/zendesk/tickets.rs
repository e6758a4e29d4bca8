//! Reading tickets and comments.

use std::cmp::Reverse;

use serde_json::{Value, json};

use crate::desk::locked;
use crate::http::{Answer, Request};
use crate::zendesk::api::{Call, not_found};
use crate::zendesk::data::{Comment, Data, Ticket, User};
use crate::zendesk::paging::{Cursor, Offset, SEARCH_LIMIT};
use crate::zendesk::people::invalid_query;
use crate::zendesk::search::{Search, rank_priority, rank_status};

enum Found<'a> {
    Ticket(&'a Ticket),
    User(&'a User),
}

/// <https://developer.zendesk.com/api-reference/ticketing/ticket-management/search/>
pub(crate) fn search(call: &Call<'_>) -> Result<Answer, Answer> {
    let query = call.request.param("query").unwrap_or_default();
    let search = Search::parse(query).map_err(|word| invalid_query(&word))?;
    if call.world.options().search_needs_read {
        call.needs_broad("read")?;
    } else if search.kind.as_deref() == Some("user") {
        call.needs("users", "read")?;
    } else {
        call.needs("tickets", "read")?;
    }
    let offset = Offset::of(call.request)?;
    if query.trim().is_empty() {
        return Err(invalid_query("the query is empty"));
    }
    if offset.exceeds(SEARCH_LIMIT) {
        return Err(Answer::json(
            422,
            json!({
                "error": "invalid",
                "description": "Invalid search: Requested response size was greater than Search Response Limits",
            }),
        ));
    }

    let data = locked(&call.desk.data);
    let me = call.caller.user_id;
    let mut tickets: Vec<&Ticket> =
        data.tickets.values().filter(|ticket| search.matches_ticket(&data, me, ticket)).collect();
    sort(call.request, &mut tickets)?;
    let users = data.users.iter().filter(|user| search.kind.is_some() && search.matches_user(me, user));
    let found: Vec<Found<'_>> = tickets.into_iter().map(Found::Ticket).chain(users.map(Found::User)).collect();

    let base = call.desk.url.as_str();
    let mut body = offset.answer(call.request, base, "results", &found, |entry| {
        let (mut json, kind) = match entry {
            Found::Ticket(ticket) => (ticket.to_json(base), "ticket"),
            Found::User(user) => (user.to_json(base), "user"),
        };
        json["result_type"] = kind.into();
        json
    });
    body.insert("facets".to_owned(), Value::Null);
    Ok(Answer::json(200, Value::Object(body)))
}

/// Newest first, where nothing else is asked for: the sandbox's notion of relevance.
fn sort(request: &Request, tickets: &mut [&Ticket]) -> Result<(), Answer> {
    let ascending = match request.param("sort_order") {
        None | Some("desc") => false,
        Some("asc") => true,
        Some(other) => return Err(invalid_query(&format!("sort_order {other}"))),
    };
    let rank = |ticket: &Ticket| -> Result<i64, Answer> {
        Ok(match request.param("sort_by") {
            None | Some("relevance" | "created_at") => ticket.created_ms,
            Some("updated_at") => ticket.updated_ms,
            Some("status") => i64::try_from(rank_status(&ticket.status)).unwrap_or(0),
            Some("priority") => i64::try_from(rank_priority(ticket.priority.as_deref())).unwrap_or(0),
            Some("ticket_type") => ticket.kind.as_deref().map_or(0, |kind| kind.bytes().next().map_or(0, i64::from)),
            Some(other) => return Err(invalid_query(&format!("sort_by {other}"))),
        })
    };
    let mut ranked = Vec::with_capacity(tickets.len());
    for ticket in tickets.iter() {
        ranked.push((rank(ticket)?, ticket.id, *ticket));
    }
    ranked.sort_by_key(|(rank, id, _)| (*rank, *id));
    if !ascending {
        ranked.reverse();
    }
    for (slot, (_, _, ticket)) in tickets.iter_mut().zip(ranked) {
        *slot = ticket;
    }
    Ok(())
}

/// By cursor when `page[size]` or `page[after]` is there, else by offset.
pub(crate) fn list(call: &Call<'_>) -> Result<Answer, Answer> {
    call.needs("tickets", "read")?;
    let (key, descending) = match call.request.param("sort") {
        None | Some("id") => ("id", false),
        Some("-id") => ("id", true),
        Some("updated_at") => ("updated_at", false),
        Some("-updated_at") => ("updated_at", true),
        Some(other) => {
            return Err(Answer::json(
                400,
                json!({"error": "InvalidParameter", "description": format!("sort {other} is not supported")}),
            ));
        }
    };
    let data = locked(&call.desk.data);
    let place = |ticket: &&Ticket| match key {
        "id" => (0, ticket.id),
        _ => (ticket.updated_ms, ticket.id),
    };
    let mut tickets: Vec<&Ticket> = data.tickets.values().collect();
    if descending {
        tickets.sort_by_key(|ticket| Reverse(place(ticket)));
    } else {
        tickets.sort_by_key(place);
    }

    let base = call.desk.url.as_str();
    let to_json = |ticket: &&Ticket| ticket.to_json(base);
    let mut body = match Cursor::of(call.request)? {
        Some(cursor) => {
            let (body, _) = cursor.answer(call.request, base, "tickets", &tickets, descending, place, to_json);
            body
        }
        None => Offset::of(call.request)?.answer(call.request, base, "tickets", &tickets, to_json),
    };
    if includes(call.request, "users") {
        body.insert("users".to_owned(), side_load(&data, tickets.into_iter(), base));
    }
    Ok(Answer::json(200, Value::Object(body)))
}

pub(crate) fn show(call: &Call<'_>, id: &str) -> Result<Answer, Answer> {
    call.needs("tickets", "read")?;
    let data = locked(&call.desk.data);
    let ticket = find(&data, id)?;
    let base = call.desk.url.as_str();
    let mut body = json!({"ticket": ticket.to_json(base)});
    if includes(call.request, "users") {
        body["users"] = side_load(&data, std::iter::once(ticket), base);
    }
    if includes(call.request, "groups") {
        body["groups"] = ticket
            .group_id
            .map(|id| json!({"id": id, "name": "Support", "default": true, "deleted": false}))
            .into_iter()
            .collect();
    }
    Ok(Answer::json(200, body))
}

/// Oldest first; a hundred at most on a page, in both ways of paging.
pub(crate) fn comments(call: &Call<'_>, id: &str) -> Result<Answer, Answer> {
    call.needs("tickets", "read")?;
    let data = locked(&call.desk.data);
    let ticket = find(&data, id)?;
    let descending = match call.request.param("sort").or(call.request.param("sort_order")) {
        None | Some("created_at" | "asc") => false,
        Some("-created_at" | "desc") => true,
        Some(other) => {
            return Err(Answer::json(
                400,
                json!({"error": "InvalidParameter", "description": format!("sort {other} is not supported")}),
            ));
        }
    };
    let mut comments: Vec<&Comment> = ticket.comments.iter().collect();
    if descending {
        comments.reverse();
    }
    let base = call.desk.url.as_str();
    let to_json = |comment: &&Comment| comment.to_json();
    let (mut body, shown) = if let Some(cursor) = Cursor::of(call.request)? {
        cursor.answer(
            call.request,
            base,
            "comments",
            &comments,
            descending,
            |comment| (comment.created_ms, comment.id),
            to_json,
        )
    } else {
        let body = Offset::of(call.request)?.answer(call.request, base, "comments", &comments, to_json);
        (body, 0..comments.len())
    };
    if includes(call.request, "users") {
        let authors = comments[shown].iter().map(|comment| comment.author_id);
        body.insert("users".to_owned(), people(&data, authors, base));
    }
    Ok(Answer::json(200, Value::Object(body)))
}

pub(crate) fn tags(call: &Call<'_>, id: &str) -> Result<Answer, Answer> {
    call.needs("tickets", "read")?;
    let data = locked(&call.desk.data);
    Ok(Answer::json(200, json!({"tags": find(&data, id)?.tags})))
}

pub(crate) fn find<'a>(data: &'a Data, id: &str) -> Result<&'a Ticket, Answer> {
    let id: i64 = id.parse().map_err(|_| not_found())?;
    data.tickets.get(&id).ok_or_else(not_found)
}

pub(crate) fn includes(request: &Request, what: &str) -> bool {
    request.param("include").is_some_and(|list| list.split(',').any(|name| name.trim() == what))
}

pub(crate) fn side_load<'a>(data: &Data, tickets: impl Iterator<Item = &'a Ticket>, base: &str) -> Value {
    people(data, tickets.flat_map(Ticket::people), base)
}

fn people(data: &Data, ids: impl Iterator<Item = i64>, base: &str) -> Value {
    let ids: std::collections::BTreeSet<i64> = ids.collect();
    ids.into_iter().filter_map(|id| data.user(id)).map(|user| user.to_json(base)).collect()
}
