//! Tickets on the control page: what agents did with them.

use std::cmp::Reverse;

use crate::desk::{Desk, World, locked};
use crate::http::{Answer, each, escape};
use crate::zendesk::data::{Data, Ticket};

use super::page::{ago, shown};

/// How many a helpdesk shows.
const RECENT: usize = 6;

/// Those that changed last, newest first.
pub(super) fn recent(desk: &str, data: &Data, now_ms: i64) -> String {
    let mut tickets: Vec<&Ticket> = data.tickets.values().collect();
    tickets.sort_by_key(|ticket| (Reverse(ticket.updated_ms), Reverse(ticket.id)));
    let rows = each(tickets.into_iter().take(RECENT), |ticket| {
        format!(
            r#"<li><span class="grow"><a href="/control/zendesk/{desk}/tickets/{id}">{subject}</a><br><small>#{id} · {priority} · {status} · {comments} · changed {changed}</small></span><span>{tags}</span></li>"#,
            desk = escape(desk),
            id = ticket.id,
            subject = escape(subject(ticket)),
            priority = escape(ticket.priority.as_deref().unwrap_or("no priority")),
            status = escape(&ticket.status),
            comments = match ticket.comments.len() {
                1 => "1 comment".to_owned(),
                count => format!("{count} comments"),
            },
            changed = ago(ticket.updated_ms, now_ms),
            tags = tags(ticket),
        )
    });
    if rows.is_empty() { "<p class=\"soft\">None.</p>".to_owned() } else { format!("<ul class=\"rows\">{rows}</ul>") }
}

/// One ticket with all that was said.
pub(super) fn show(world: &World, desk: &Desk, id: &str) -> Option<Answer> {
    let data = locked(&desk.data);
    let ticket = data.tickets.get(&id.parse().ok()?)?;
    let now_ms = world.clock.now_ms();
    let name = |id: i64| data.user(id).map_or("Somebody", |user| user.name.as_str());
    let comments = each(&ticket.comments, |comment| {
        format!(
            r#"<section class="card{note}"><p class="soft"><strong>{author}</strong> {kind}, {at}</p><p class="words">{body}</p></section>"#,
            note = if comment.public { "" } else { " note" },
            author = escape(name(comment.author_id)),
            kind = if comment.public { "wrote" } else { "left an internal note" },
            at = ago(comment.created_ms, now_ms),
            body = escape(&comment.body),
        )
    });
    let main = format!(
        r#"<p><a href="/control#{desk}">All of {title}</a></p>
<h1>{subject}</h1>
<p class="soft">#{id} · {priority} · {status} · asked by {requester} {tags}</p>
{comments}"#,
        desk = escape(&desk.name),
        title = escape(&desk.title()),
        subject = escape(subject(ticket)),
        id = ticket.id,
        priority = escape(ticket.priority.as_deref().unwrap_or("no priority")),
        status = escape(&ticket.status),
        requester = escape(name(ticket.requester_id)),
        tags = tags(ticket),
    );
    Some(shown(world, &format!("Ticket #{}", ticket.id), &main))
}

fn subject(ticket: &Ticket) -> &str {
    ticket.subject.as_deref().filter(|subject| !subject.trim().is_empty()).unwrap_or("(no subject)")
}

fn tags(ticket: &Ticket) -> String {
    each(&ticket.tags, |tag| format!(r#"<span class="tag">{}</span> "#, escape(tag)))
}
