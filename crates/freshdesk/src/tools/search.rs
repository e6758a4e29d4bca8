//! `search_tickets`.
//!
//! Freshdesk has two ways, and neither does everything. Its search filters by fields, and shows 300 results in no promised
//! order; its list is in order and whole, knows one requester and no other filter. So filters go to the search; words, a
//! requester, or nothing at all go to the list, which is looked through a few pages at a time.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use holdfast_core::{
    ApiClient,
    error::{ErrorKind, Result},
    helpdesk::{FoundTickets, MOST_PER_PAGE, SearchTickets, USUAL_PER_PAGE, page_size},
    ticket::Status,
    tool::invalid,
};

use super::{filter::Filter, id};
use crate::{
    api::{self, Whose},
    model::WireTicket,
};

pub(super) const NAME: &str = "search_tickets";

/// Pages of the list that one call looks through, 100 tickets on each: few enough for the smallest plan, whose list may be
/// asked for 20 times a minute.
const MOST_LIST_PAGES: u32 = 3;
/// Pages of the search that one call may need for 100 tickets.
const MOST_SEARCH_PAGES: u32 = 4;
/// Before the first ticket of all: the list without it ends after 30 days.
const SINCE: &str = "2010-01-01T00:00:00Z";

/// Which way a search goes; a cursor keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// By Freshdesk's search, an account's own statuses among the open ones.
    Search,
    /// By Freshdesk's search, with its four statuses alone.
    SearchPlain,
    /// Through the list.
    List,
}

/// Where a page begins, and how many tickets are on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    way: Way,
    /// Of Freshdesk's pages.
    page: u32,
    /// Tickets of that page that were shown before.
    offset: usize,
    size: usize,
}

pub(super) async fn run(api: &ApiClient, asked: SearchTickets) -> Result<FoundTickets> {
    let refused = |message| invalid(api, NAME, message);
    let filter = Filter::of(&asked).map_err(refused)?;
    let place = Place::of(&asked, &filter).map_err(refused)?;
    let mut notes = Vec::new();
    if !filter.without_status.is_empty() {
        let names: Vec<&str> = filter.without_status.iter().map(|status| word(*status)).collect();
        notes.push(format!("Freshdesk has no status {}; nothing is found under it.", names.join(" and no ")));
    }
    if filter.finds_nothing() {
        return Ok(found(api, &Gathered::default(), None, &notes));
    }
    if place.way != Way::List {
        return search(api, &filter, place, notes).await;
    }
    match whose(api, asked.requester.as_deref()).await? {
        Requester::Anybody => list(api, &filter, None, place, notes).await,
        Requester::One(whose) => list(api, &filter, Some(&whose), place, notes).await,
        Requester::Nobody(note) => {
            notes.push(note);
            Ok(found(api, &Gathered::default(), None, &notes))
        }
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
    fn take(&mut self, page: Vec<WireTicket>, place: Place, keeps: impl Fn(&WireTicket) -> bool) -> Option<usize> {
        let length = page.len();
        for (index, ticket) in page.into_iter().enumerate().skip(place.offset) {
            self.looked_at += 1;
            self.oldest = Some(ticket.created_at);
            // Tickets move on to the next page when new ones come in.
            if self.seen.insert(ticket.id) && keeps(&ticket) {
                self.tickets.push(ticket);
            }
            if self.tickets.len() >= place.size && index + 1 < length {
                return Some(index + 1);
            }
        }
        None
    }
}

async fn search(api: &ApiClient, filter: &Filter, place: Place, mut notes: Vec<String>) -> Result<FoundTickets> {
    let mut place = place;
    let mut gathered = Gathered::default();
    let (mut total, mut next_cursor) = (0, None);
    for read in 1..=MOST_SEARCH_PAGES {
        let asked = api::search(api, NAME, &filter.query(place.way == Way::Search), place.page).await;
        let page = match asked {
            // A comparison is documented for numbers in general, and not for statuses by name.
            Err(error) if error.kind == ErrorKind::Invalid && place.is_first() && filter.asks_for_own_statuses() => {
                place.way = Way::SearchPlain;
                api::search(api, NAME, &filter.query(false), place.page).await?
            }
            asked => asked?,
        };
        total = page.total;
        let shown_to = u64::from(place.page) * api::SEARCH_PER_PAGE as u64;
        let more = shown_to < total && !page.results.is_empty();
        // Freshdesk has filtered.
        let next = match gathered.take(page.results, place, |_| true) {
            Some(offset) => Some(Place { offset, ..place }),
            None => more.then_some(Place { page: place.page + 1, offset: 0, ..place }),
        };
        let Some(next) = next else { break };
        if next.page > api::LAST_SEARCH_PAGE {
            notes.push(format!(
                "{total} tickets match, and Freshdesk shows the first 300 only; these were the last of them. For the others \
                 narrow the search, for example with created_at:<'2026-01-31' in query."
            ));
            break;
        }
        place = next;
        if gathered.tickets.len() >= place.size || read == MOST_SEARCH_PAGES {
            next_cursor = Some(place.cursor());
            break;
        }
    }
    if place.way == Way::SearchPlain {
        notes.push("Statuses that the account made itself are not searched.".to_owned());
    }
    let mut answer = found(api, &gathered, Some(total), &notes);
    answer.next_cursor = next_cursor;
    Ok(answer)
}

async fn list(
    api: &ApiClient,
    filter: &Filter,
    whose: Option<&Whose>,
    place: Place,
    mut notes: Vec<String>,
) -> Result<FoundTickets> {
    let since = SINCE.parse().expect("it is a moment");
    let mut place = place;
    let mut gathered = Gathered::default();
    let mut next_cursor = None;
    for read in 1..=MOST_LIST_PAGES {
        let page = match api::list(api, NAME, whose, since, !filter.words.is_empty(), place.page).await {
            // Some accounts refuse an address that they do not know.
            Err(error) if error.kind == ErrorKind::Invalid && whose.is_some() && place.page == 1 => {
                notes.push(format!("Nothing is found under this requester: {}", error.message));
                break;
            }
            page => page?,
        };
        let more = page.more && !page.items.is_empty();
        let theirs = |ticket: &WireTicket| match whose {
            Some(Whose::Id(id)) => ticket.requester_id == Some(*id),
            _ => true,
        };
        let next = match gathered.take(page.items, place, |ticket| theirs(ticket) && filter.keeps(ticket)) {
            Some(offset) => Some(Place { offset, ..place }),
            None => more.then_some(Place { page: place.page + 1, offset: 0, ..place }),
        };
        let Some(next) = next else { break };
        if next.page > api::LAST_LIST_PAGE {
            notes.push("There are more tickets, and Freshdesk lists the newest 30000 only.".to_owned());
            break;
        }
        place = next;
        if gathered.tickets.len() >= place.size {
            next_cursor = Some(place.cursor());
            break;
        }
        if read == MOST_LIST_PAGES {
            next_cursor = Some(place.cursor());
            let back = gathered.oldest.map(|at| format!(", back to {}", at.format("%Y-%m-%d"))).unwrap_or_default();
            notes.push(format!(
                "Freshdesk cannot search by this, so its tickets are looked through, newest first: {} of them here{back}. \
                 next_cursor goes on with older ones.",
                gathered.looked_at
            ));
        }
    }
    if !filter.words.is_empty() {
        notes.push(
            "Words were looked for in subject, first message and tags; later messages are not searched.".to_owned(),
        );
    }
    let mut answer = found(api, &gathered, None, &notes);
    answer.next_cursor = next_cursor;
    Ok(answer)
}

fn found(api: &ApiClient, gathered: &Gathered, total: Option<u64>, notes: &[String]) -> FoundTickets {
    let base = &api.account().base_url;
    FoundTickets {
        tickets: gathered.tickets.iter().map(|ticket| ticket.to_model(base)).collect(),
        total,
        next_cursor: None,
        note: (!notes.is_empty()).then(|| notes.join(" ")),
    }
}

/// Whose tickets are asked for.
enum Requester {
    Anybody,
    One(Whose),
    /// In words.
    Nobody(String),
}

async fn whose(api: &ApiClient, asked: Option<&str>) -> Result<Requester> {
    let Some(asked) = asked.map(str::trim) else { return Ok(Requester::Anybody) };
    if asked.is_empty() || asked.contains(char::is_control) {
        return Err(invalid(api, NAME, "requester: expected an e-mail address, an id or a name"));
    }
    if asked.contains('@') {
        return Ok(Requester::One(Whose::Email(asked.to_owned())));
    }
    if asked.bytes().all(|byte| byte.is_ascii_digit()) {
        let id = id("requester", asked).map_err(|message| invalid(api, NAME, message))?;
        return Ok(Requester::One(Whose::Id(id)));
    }
    let named = api::autocomplete(api, NAME, asked).await?;
    match named.as_slice() {
        [] => Ok(Requester::Nobody("Freshdesk knows no contact whose name begins so.".to_owned())),
        [one] => Ok(Requester::One(Whose::Id(one.id))),
        several => {
            let ids: Vec<String> = several.iter().take(10).map(|one| one.id.to_string()).collect();
            let message =
                format!("requester: several contacts are called so; expected one of the ids {}", ids.join(", "));
            Err(invalid(api, NAME, message))
        }
    }
}

impl Place {
    fn of(asked: &SearchTickets, filter: &Filter) -> Result<Self, String> {
        let size = page_size(asked.limit, USUAL_PER_PAGE, MOST_PER_PAGE)?;
        let searches = filter.has_query() && asked.requester.is_none();
        let way = if searches { Way::Search } else { Way::List };
        let Some(cursor) = &asked.cursor else { return Ok(Self { way, page: 1, offset: 0, size: size as usize }) };
        let place = Self::read(cursor).filter(|place| (place.way == Way::List) != searches);
        place.ok_or_else(|| {
            "cursor: expected next_cursor of an earlier answer to the same arguments, unchanged".to_owned()
        })
    }

    fn is_first(self) -> bool {
        self.way == Way::Search && self.page == 1
    }

    fn cursor(self) -> String {
        let way = match self.way {
            Way::Search => 's',
            Way::SearchPlain => 'p',
            Way::List => 'l',
        };
        format!("{way}-{}-{}-{}", self.page, self.offset, self.size)
    }

    fn read(cursor: &str) -> Option<Self> {
        let mut parts = cursor.split('-');
        let way = match parts.next()? {
            "s" => Way::Search,
            "p" => Way::SearchPlain,
            "l" => Way::List,
            _ => return None,
        };
        let place = Self {
            way,
            page: parts.next()?.parse().ok()?,
            offset: parts.next()?.parse().ok()?,
            size: parts.next()?.parse().ok()?,
        };
        let (last, on_page) = match way {
            Way::List => (api::LAST_LIST_PAGE, api::PER_PAGE),
            _ => (api::LAST_SEARCH_PAGE, api::SEARCH_PER_PAGE),
        };
        let inside = (1..=last).contains(&place.page)
            && place.offset < on_page
            && (1..=MOST_PER_PAGE as usize).contains(&place.size);
        // Exactly as it was written: a parser takes "+2" as well.
        (inside && place.cursor() == cursor).then_some(place)
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn place(given: serde_json::Value) -> Result<Place, String> {
        let asked: SearchTickets = serde_json::from_value(given).unwrap();
        Place::of(&asked, &Filter::of(&asked)?)
    }

    #[test]
    fn filters_go_to_the_search_and_all_else_to_the_list() {
        for (given, way) in [
            (json!({"status": ["open"]}), Way::Search),
            (json!({"query": "created_at:>'2026-01-31'"}), Way::Search),
            (json!({}), Way::List),
            (json!({"query": "refund", "status": ["open"]}), Way::List),
            (json!({"requester": "a@b.c", "status": ["open"]}), Way::List),
        ] {
            assert_eq!(place(given.clone()).unwrap(), Place { way, page: 1, offset: 0, size: 25 }, "{given}");
        }
    }

    #[test]
    fn a_cursor_is_taken_only_as_it_was_given_and_for_the_same_way() {
        let with = |cursor: &str| place(json!({"cursor": cursor, "limit": 50}));
        assert_eq!(with("l-3-20-10"), Ok(Place { way: Way::List, page: 3, offset: 20, size: 10 }));
        for cursor in [
            "",
            "l",
            "l-0-0-25",
            "l-301-0-25",
            "l-1-100-25",
            "l-1-0-0",
            "l-1-0-101",
            "l-1-0-25-",
            "l-+1-0-25",
            "l-01-0-25",
            "x-1-0-25",
            "s-1-0-25",
            "p-1-0-25",
        ] {
            assert!(with(cursor).unwrap_err().starts_with("cursor: expected"), "{cursor}");
        }
        let search = |cursor: &str| place(json!({"cursor": cursor, "status": ["open"]}));
        assert_eq!(search("p-10-29-100").unwrap().way, Way::SearchPlain);
        for cursor in ["s-11-0-25", "s-1-30-25", "l-1-0-25"] {
            assert!(search(cursor).unwrap_err().starts_with("cursor: expected"), "{cursor}");
        }
        assert!(place(json!({"limit": 101})).unwrap_err().starts_with("limit: expected 1 to 100"));
    }
}
