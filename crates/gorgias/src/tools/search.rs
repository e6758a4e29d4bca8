//! `search_tickets`.
//!
//! Gorgias lists tickets by customer or by a saved view, and knows no other filter. So its list is looked through, a few
//! pages in one call, and a cursor goes on behind what was looked at.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use holdfast_core::{
    ApiClient,
    error::{ErrorKind, Result},
    helpdesk::{FoundTickets, Lookup, MOST_PER_PAGE, SearchTickets, USUAL_PER_PAGE, page_size},
    ticket::Status,
    tool::invalid,
};

use super::{customers, filter::Filter, id, place::Place};
use crate::{
    api::{self, Narrowed},
    model::WireTicket,
};

pub(super) const NAME: &str = "search_tickets";

/// Pages that one call looks through, 100 tickets on each: an eighth of what an API key may ask for in 20 seconds.
const MOST_PAGES: u32 = 5;

pub(super) async fn run(api: &ApiClient, asked: SearchTickets) -> Result<FoundTickets> {
    let refused = |message| invalid(api, NAME, message);
    let filter = Filter::of(&asked).map_err(refused)?;
    let place = place(&asked, &filter).map_err(refused)?;
    let mut notes = Vec::new();
    if !filter.without_status.is_empty() {
        let names: Vec<&str> = filter.without_status.iter().map(|status| word(*status)).collect();
        notes.push(format!("Gorgias has no status {}; nothing is found under it.", names.join(" and no ")));
    }
    if filter.finds_nothing() {
        return Ok(found(api, &Gathered::default(), None, &notes));
    }
    let mut which = Narrowed { customer: None, view: filter.view };
    match whose(api, asked.requester.as_deref()).await? {
        Requester::Anybody => {}
        Requester::One(customer) => which.customer = Some(customer),
        Requester::Nobody => {
            notes.push("Gorgias knows no such customer.".to_owned());
            return Ok(found(api, &Gathered::default(), None, &notes));
        }
    }
    list(api, &filter, which, place, notes).await
}

fn place(asked: &SearchTickets, filter: &Filter) -> Result<Place, String> {
    let size = page_size(asked.limit, USUAL_PER_PAGE, MOST_PER_PAGE)?;
    match &asked.cursor {
        Some(cursor) => Place::read(cursor, filter.looks_through(), MOST_PER_PAGE),
        None => Ok(Place::first(filter.looks_through(), size)),
    }
}

/// What was found so far.
#[derive(Default)]
struct Gathered {
    tickets: Vec<WireTicket>,
    seen: HashSet<i64>,
    looked_at: usize,
    oldest: Option<DateTime<Utc>>,
}

impl Gathered {
    /// Takes from a page what is to be kept, up to the size of ours; answers how far it came, if that is full before the
    /// page's end.
    fn take(&mut self, page: Vec<WireTicket>, place: &Place, keeps: impl Fn(&WireTicket) -> bool) -> Option<usize> {
        let length = page.len();
        for (index, ticket) in page.into_iter().enumerate().skip(place.offset) {
            self.looked_at += 1;
            self.oldest = ticket.updated_datetime.or(self.oldest);
            if self.seen.insert(ticket.id.0) && keeps(&ticket) {
                self.tickets.push(ticket);
            }
            if self.is_full(place) && index + 1 < length {
                return Some(index + 1);
            }
        }
        None
    }

    fn is_full(&self, place: &Place) -> bool {
        self.tickets.len() >= place.size as usize
    }
}

async fn list(
    api: &ApiClient,
    filter: &Filter,
    which: Narrowed,
    mut place: Place,
    mut notes: Vec<String>,
) -> Result<FoundTickets> {
    let limit = if place.looks_through { api::PER_PAGE } else { place.size };
    let mut gathered = Gathered::default();
    let mut next_cursor = None;
    for read in 1..=MOST_PAGES {
        let page = api::tickets(api, NAME, which, limit, place.cursor.as_deref()).await?;
        let next_page = page.next();
        if next_page.is_some() && next_page == place.cursor {
            return Err(api.error(NAME, ErrorKind::Unreadable, "the list of tickets goes on where it began"));
        }
        let theirs = |ticket: &WireTicket| {
            // What Gorgias was asked to leave out stays out, whatever it made of that.
            let customer = ticket.customer.as_ref().and_then(|customer| customer.id).map(|id| id.0);
            ticket.trashed_datetime.is_none() && which.customer.is_none_or(|asked| customer == Some(asked))
        };
        let next = match gathered.take(page.data, &place, |ticket| theirs(ticket) && filter.keeps(ticket)) {
            Some(offset) => Some(Place { offset, ..place.clone() }),
            None => next_page.map(|cursor| Place { offset: 0, cursor: Some(cursor), ..place.clone() }),
        };
        let Some(next) = next else { break };
        place = next;
        if gathered.is_full(&place) || !place.looks_through {
            next_cursor = Some(place.written());
            break;
        }
        if read == MOST_PAGES {
            next_cursor = Some(place.written());
            let back = gathered.oldest.map(|at| format!(", back to {}", at.format("%Y-%m-%d"))).unwrap_or_default();
            notes.push(format!(
                "Gorgias cannot search by this, so its tickets are looked through, the last changed first: {} of them \
                 here{back}. next_cursor goes on with older ones.",
                gathered.looked_at
            ));
        }
    }
    if !filter.words.is_empty() {
        notes.push(
            "Words were looked for in subject, tags and the beginning of a message; whole conversations are not searched."
                .to_owned(),
        );
    }
    Ok(found(api, &gathered, next_cursor, &notes))
}

fn found(api: &ApiClient, gathered: &Gathered, next_cursor: Option<String>, notes: &[String]) -> FoundTickets {
    let base = &api.account().base_url;
    FoundTickets {
        tickets: gathered.tickets.iter().map(|ticket| ticket.to_model(base)).collect(),
        total: None,
        next_cursor,
        note: (!notes.is_empty()).then(|| notes.join(" ")),
    }
}

/// Whose tickets are asked for.
enum Requester {
    Anybody,
    One(i64),
    Nobody,
}

async fn whose(api: &ApiClient, asked: Option<&str>) -> Result<Requester> {
    let Some(asked) = asked.map(str::trim) else { return Ok(Requester::Anybody) };
    if asked.is_empty() || asked.contains(char::is_control) {
        return Err(invalid(api, NAME, "requester: expected an e-mail address, an id or a name"));
    }
    if asked.bytes().all(|byte| byte.is_ascii_digit()) {
        return id("requester", asked).map(Requester::One).map_err(|message| invalid(api, NAME, message));
    }
    let lookup = if asked.contains('@') { Lookup::Email(asked) } else { Lookup::Name(asked) };
    let known = customers::find(api, NAME, lookup, &Place::first(false, MOST_PER_PAGE)).await?.customers;
    match known.as_slice() {
        [] => Ok(Requester::Nobody),
        [one] => Ok(Requester::One(one.id.0)),
        several => {
            let ids: Vec<String> = several.iter().take(10).map(|one| one.id.0.to_string()).collect();
            let message =
                format!("requester: several customers are called so; expected one of the ids {}", ids.join(", "));
            Err(invalid(api, NAME, message))
        }
    }
}

fn word(status: Status) -> &'static str {
    match status {
        Status::New => "new",
        Status::Open => "open",
        Status::Pending => "pending",
        Status::OnHold => "on_hold",
        Status::Solved => "solved",
        Status::Closed => "closed",
    }
}
