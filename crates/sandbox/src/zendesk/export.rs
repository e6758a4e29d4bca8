//! The incremental export of tickets, by cursor.
//! <https://developer.zendesk.com/api-reference/ticketing/ticket-management/incremental_exports/>,
//! <https://developer.zendesk.com/documentation/ticketing/managing-tickets/using-the-incremental-export-api/>

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::clock::iso;
use crate::desk::locked;
use crate::http::Answer;
use crate::zendesk::api::{Call, forbidden_to_person};
use crate::zendesk::data::{Data, Role, Ticket};
use crate::zendesk::tickets::{includes, side_load};

/// Most on a page, and as many where nothing is asked for.
const PAGE: usize = 1000;
/// What is younger is told later.
const LAG_MS: i64 = 60_000;

/// `GET /incremental/tickets/cursor`.
pub(crate) fn tickets(call: &Call<'_>) -> Result<Answer, Answer> {
    call.needs("tickets", "read")?;
    if call.caller.role != Role::Admin {
        return Err(forbidden_to_person());
    }
    let room = locked(&call.desk.export_limiter).count(call.world.options().export_limit, call.now_ms);
    if let Some(room) = room.filter(|room| room.exceeded) {
        call.desk.counts.rate_limited.up();
        let body = json!({
            "error": "APIRateLimitExceeded",
            "description": "Number of allowed incremental ticket export API requests per minute exceeded",
        });
        return Err(Answer::json(429, body).header("retry-after", room.resets_secs.to_string()));
    }
    let after = place(call)?;
    let size = match call.request.param("per_page").map(str::parse::<usize>) {
        None => PAGE,
        Some(Ok(size @ 1..=PAGE)) => size,
        Some(_) => return Err(bad("InvalidPaginationParameter", "per_page has to be between 1 and 1000")),
    };
    let data = locked(&call.desk.data);
    let deleted = data.deleted.values().filter(|_| call.request.param("exclude_deleted") != Some("true"));
    let mut all: Vec<&Ticket> = data.tickets.values().chain(deleted).collect();
    let at = |ticket: &Ticket| (ticket.updated_ms / 1000, ticket.id);
    all.retain(|ticket| ticket.updated_ms <= call.now_ms - LAG_MS && at(ticket) > after);
    all.sort_by_key(|ticket| at(ticket));
    let page = &all[..size.min(all.len())];
    let (base, last) = (call.desk.url.as_str(), page.last().map_or(after, |last| at(last)));
    let cursor = STANDARD.encode(format!("{}.0||{}|", last.0, last.1));
    let mut body = json!({
        "tickets": page.iter().map(|ticket| show(&data, ticket, base)).collect::<Vec<_>>(),
        "after_cursor": cursor,
        "after_url": format!("{base}/api/v2/incremental/tickets/cursor.json?cursor={cursor}"),
        "before_cursor": null,
        "before_url": null,
        "end_of_stream": page.len() == all.len(),
    });
    if includes(call.request, "users") {
        body["users"] = side_load(&data, page.iter().copied(), base);
    }
    if includes(call.request, "metric_sets") {
        body["metric_sets"] = page.iter().map(|ticket| metrics(ticket)).collect();
    }
    Ok(Answer::json(200, body))
}

/// Second and id behind which the page begins.
fn place(call: &Call<'_>) -> Result<(i64, i64), Answer> {
    if let Some(cursor) = call.request.param("cursor") {
        let read = || {
            let text = String::from_utf8(STANDARD.decode(cursor).ok()?).ok()?;
            let (at, id) = text.strip_suffix('|')?.split_once(".0||")?;
            Some((at.parse().ok()?, id.parse().ok()?))
        };
        return read().ok_or_else(|| bad("InvalidPaginationParameter", "Invalid cursor"));
    }
    let start = call.request.param("start_time").and_then(|start| start.parse::<i64>().ok());
    let start = start.ok_or_else(|| bad("InvalidValue", "start_time is required"))?;
    if start * 1000 > call.now_ms - LAG_MS {
        let body = json!({
            "error": "StartTimeTooRecent",
            "description": "Too recent start_time. Use a start_time older than 60 seconds",
        });
        return Err(Answer::json(422, body));
    }
    Ok((start, 0))
}

/// A deleted one is scrubbed.
fn show(data: &Data, ticket: &Ticket, base: &str) -> Value {
    let mut shown = ticket.to_json(base);
    if data.deleted.contains_key(&ticket.id) {
        shown["status"] = "deleted".into();
        for text in ["subject", "raw_subject", "description"] {
            shown[text] = "SCRUBBED".into();
        }
    }
    shown
}

fn metrics(ticket: &Ticket) -> Value {
    json!({
        "id": ticket.id,
        "ticket_id": ticket.id,
        "replies": ticket.comments.len().saturating_sub(1),
        "latest_comment_added_at": ticket.comments.last().map(|comment| iso(comment.created_ms)),
    })
}

fn bad(error: &str, description: &str) -> Answer {
    Answer::json(400, json!({"error": error, "description": description}))
}
