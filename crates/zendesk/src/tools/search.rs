//! `search_tickets`.

use holdfast_core::{
    ApiClient,
    error::Result,
    ticket::{Priority, Status, Ticket},
};
use serde::{Deserialize, Serialize};

use super::invalid;
use crate::{
    api,
    model::{People, priority_word, status_word},
};

pub(super) const NAME: &str = "search_tickets";

/// Zendesk shows no result beyond this one; the page behind it is offered, and answered 422.
/// <https://developer.zendesk.com/api-reference/ticketing/ticket-management/search/#results-limit>
const MOST_RESULTS: u32 = 1000;
/// Most that Zendesk puts on a page.
const MOST_PER_PAGE: u32 = 100;
const USUAL_PER_PAGE: u32 = 25;
/// Longer queries are no searches; Zendesk's own bound is not documented.
const LONGEST_QUERY_CHARS: usize = 1000;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    query: Option<String>,
    #[serde(default)]
    status: Vec<Status>,
    #[serde(default)]
    priority: Vec<Priority>,
    #[serde(default)]
    tags: Vec<String>,
    requester: Option<String>,
    limit: Option<u32>,
    cursor: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Answer {
    tickets: Vec<Ticket>,
    total: u64,
    next_cursor: Option<String>,
    note: Option<String>,
}

pub(super) async fn run(api: &ApiClient, arguments: Arguments) -> Result<Answer> {
    let query = query(&arguments).map_err(|message| invalid(api, NAME, message))?;
    let page = page(&arguments).map_err(|message| invalid(api, NAME, message))?;

    let found = api::search(api, NAME, &query, page.number, page.size).await?;

    let (next, note) = page.after(found.next_page.is_some(), found.count);
    let mut people = People::default();
    people.add(found.users);
    let base = &api.account().base_url;
    Ok(Answer {
        tickets: found.results.iter().map(|ticket| ticket.to_model(base, &people)).collect(),
        total: found.count,
        next_cursor: next.map(|page| format!("{}-{}", page.number, page.size)),
        note,
    })
}

/// The filters first: what the caller's own text leaves open, a quote for instance, cannot reach them.
fn query(arguments: &Arguments) -> Result<String, String> {
    let mut query = "type:ticket".to_owned();
    let mut put = |term: String| {
        query.push(' ');
        query.push_str(&term);
    };
    for status in &arguments.status {
        put(format!("status:{}", status_word(*status)));
    }
    for priority in &arguments.priority {
        put(format!("priority:{}", priority_word(*priority)));
    }
    for tag in &arguments.tags {
        put(format!("tags:{}", super::update::tag("tags", tag)?));
    }
    if let Some(requester) = &arguments.requester {
        let requester = requester.trim();
        if requester.is_empty() || requester.contains(|c: char| c == '"' || c.is_control()) {
            return Err("requester: expected an e-mail address, an id or a name, without quotes".to_owned());
        }
        put(format!("requester:\"{requester}\""));
    }
    if let Some(text) = arguments.query.as_deref().map(str::trim).filter(|text| !text.is_empty()) {
        if text.chars().count() > LONGEST_QUERY_CHARS {
            return Err(format!("query: expected at most {LONGEST_QUERY_CHARS} characters"));
        }
        let types = |word: &str| {
            let word = word.trim_start_matches(['-', '"']);
            word.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("type:"))
        };
        if text.split_whitespace().any(types) {
            return Err("query: only tickets are searched; leave out type:".to_owned());
        }
        put(text.to_owned());
    }
    Ok(query)
}

/// A page by number; a cursor spells both, so that every page of one search has the same size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Page {
    number: u32,
    size: u32,
}

fn page(arguments: &Arguments) -> Result<Page, String> {
    let size = arguments.limit.unwrap_or(USUAL_PER_PAGE);
    if !(1..=MOST_PER_PAGE).contains(&size) {
        return Err(format!("limit: expected 1 to {MOST_PER_PAGE}"));
    }
    let Some(cursor) = &arguments.cursor else { return Ok(Page { number: 1, size }) };
    let read = || {
        let (number, size) = cursor.split_once('-')?;
        let page = Page { number: number.parse().ok()?, size: size.parse().ok()? };
        let inside = page.number >= 1 && (1..=MOST_PER_PAGE).contains(&page.size) && page.end()? <= MOST_RESULTS;
        inside.then_some(page)
    };
    read().ok_or_else(|| "cursor: expected next_cursor of an earlier answer, unchanged".to_owned())
}

impl Page {
    /// Number of the last result that it can hold.
    fn end(self) -> Option<u32> {
        self.number.checked_mul(self.size)
    }

    /// The page behind it, if Zendesk shows it; else what is missing, in words.
    fn after(self, offered: bool, total: u64) -> (Option<Self>, Option<String>) {
        if !offered {
            return (None, None);
        }
        let next = Self { number: self.number + 1, ..self };
        if next.end().is_some_and(|end| end <= MOST_RESULTS) {
            return (Some(next), None);
        }
        let shown = self.end().unwrap_or(MOST_RESULTS);
        let note = format!(
            "{total} tickets match, and Zendesk shows the first {MOST_RESULTS} only; this was the last page, up to \
             ticket {shown}. For the others narrow the search, for example with created<2026-01-01 in the query."
        );
        (None, Some(note))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_become_terms_of_zendesks_search() {
        let arguments = Arguments {
            query: Some(" refund \"not received ".to_owned()),
            status: vec![Status::Open, Status::OnHold],
            priority: vec![Priority::Urgent],
            tags: vec!["billing".to_owned()],
            requester: Some("Mira Castellan".to_owned()),
            ..Arguments::default()
        };
        assert_eq!(
            query(&arguments).unwrap(),
            "type:ticket status:open status:hold priority:urgent tags:billing requester:\"Mira Castellan\" \
             refund \"not received"
        );
        assert_eq!(query(&Arguments::default()).unwrap(), "type:ticket");
    }

    #[test]
    fn no_argument_turns_the_search_to_something_else() {
        let text = |query: &str| Arguments { query: Some(query.to_owned()), ..Arguments::default() };
        let tag = |tag: &str| Arguments { tags: vec![tag.to_owned()], ..Arguments::default() };
        let requester = |name: &str| Arguments { requester: Some(name.to_owned()), ..Arguments::default() };
        for (arguments, field) in [
            (text("type:user ada"), "query: "),
            (text("x -TYPE:ticket"), "query: "),
            (text(&"x".repeat(1001)), "query: "),
            (tag("a status:closed"), "tags: "),
            (tag("a\"b"), "tags: "),
            (tag(""), "tags: "),
            (requester("x\" status:closed \""), "requester: "),
            (requester("  "), "requester: "),
        ] {
            assert!(query(&arguments).unwrap_err().starts_with(field), "{arguments:?}");
        }
        assert!(query(&text("prototype:x")).is_ok());
    }

    #[test]
    fn a_cursor_is_taken_only_as_it_was_given() {
        let with = |limit, cursor: Option<&str>| Arguments {
            limit,
            cursor: cursor.map(str::to_owned),
            ..Arguments::default()
        };
        assert_eq!(page(&with(None, None)), Ok(Page { number: 1, size: 25 }));
        assert_eq!(page(&with(Some(100), None)), Ok(Page { number: 1, size: 100 }));
        assert_eq!(page(&with(Some(50), Some("3-20"))), Ok(Page { number: 3, size: 20 }));
        for limit in [0, 101] {
            assert!(page(&with(Some(limit), None)).unwrap_err().starts_with("limit: expected 1 to 100"));
        }
        for cursor in ["", "2", "0-25", "2-0", "2-101", "11-100", "-1-25", "4294967295-2", "a-b", "2-25-"] {
            assert!(page(&with(None, Some(cursor))).unwrap_err().starts_with("cursor: expected"), "{cursor}");
        }
    }

    #[test]
    fn the_end_that_zendesk_sets_to_a_search_is_told() {
        let page = |number, size| Page { number, size };
        assert_eq!(page(1, 100).after(false, 80), (None, None));
        assert_eq!(page(1, 100).after(true, 320), (Some(page(2, 100)), None));
        assert_eq!(page(9, 100).after(true, 5000), (Some(page(10, 100)), None));
        let (next, note) = page(10, 100).after(true, 5000);
        assert_eq!(next, None);
        assert!(note.unwrap().starts_with("5000 tickets match, and Zendesk shows the first 1000 only"));
        // The last pages of an odd size would cross the bound, so the search ends before it.
        let (next, note) = page(33, 30).after(true, 5000);
        assert_eq!(next, None);
        assert!(note.unwrap().contains("up to ticket 990"));
    }
}
