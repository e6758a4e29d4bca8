//! `search_tickets`.

use holdfast_core::{
    ApiClient,
    error::Result,
    helpdesk::{Bounds, FoundTickets, Page, SEARCH_TICKETS, SearchTickets, Words},
};

use super::{invalid, tag};
use crate::{
    api,
    model::{People, priority_word, status_word},
};

pub(super) const NAME: &str = SEARCH_TICKETS.name;

/// Zendesk shows no result beyond this one; the page behind it is offered, and answered 422. Most on a page are 100.
/// <https://developer.zendesk.com/api-reference/ticketing/ticket-management/search/#results-limit>
const BOUNDS: Bounds = Bounds::ending_at(1000);

pub(super) async fn run(api: &ApiClient, arguments: SearchTickets) -> Result<FoundTickets> {
    let query = query(&arguments).map_err(invalid(api, NAME))?;
    let page = Page::of(arguments.limit, arguments.cursor.as_deref(), BOUNDS).map_err(invalid(api, NAME))?;

    let found = api::search(api, NAME, &query, page).await?;

    let words = Words {
        whose: "Zendesk",
        what: "ticket",
        total: Some(found.count),
        narrow: ", for example with created<2026-01-01 in the query",
    };
    let (next_cursor, note) = page.after(found.next_page.is_some(), BOUNDS, &words);
    let mut people = People::default();
    people.add(found.users);
    let base = &api.account().base_url;
    Ok(FoundTickets {
        tickets: found.results.iter().map(|ticket| ticket.to_model(base, &people)).collect(),
        total: Some(found.count),
        next_cursor,
        note,
    })
}

/// The filters first: what the caller's own text leaves open, a quote for instance, cannot reach them.
fn query(arguments: &SearchTickets) -> Result<String, String> {
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
    for text in &arguments.tags {
        put(format!("tags:{}", tag("tags", text)?));
    }
    if let Some(requester) = &arguments.requester {
        let requester = requester.trim();
        if requester.is_empty() || requester.contains(|c: char| c == '"' || c.is_control()) {
            return Err("requester: expected an e-mail address, an id or a name, without quotes".to_owned());
        }
        put(format!("requester:\"{requester}\""));
    }
    if let Some(text) = arguments.text()? {
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

#[cfg(test)]
mod tests {
    use holdfast_core::ticket::{Priority, Status};

    use super::*;

    #[test]
    fn filters_become_terms_of_zendesks_search() {
        let arguments = SearchTickets {
            query: Some(" refund \"not received ".to_owned()),
            status: vec![Status::Open, Status::OnHold],
            priority: vec![Priority::Urgent],
            tags: vec!["billing".to_owned()],
            requester: Some("Mira Castellan".to_owned()),
            ..SearchTickets::default()
        };
        assert_eq!(
            query(&arguments).unwrap(),
            "type:ticket status:open status:hold priority:urgent tags:billing requester:\"Mira Castellan\" \
             refund \"not received"
        );
        assert_eq!(query(&SearchTickets::default()).unwrap(), "type:ticket");
    }

    #[test]
    fn no_argument_turns_the_search_to_something_else() {
        let text = |query: &str| SearchTickets { query: Some(query.to_owned()), ..SearchTickets::default() };
        let tag = |tag: &str| SearchTickets { tags: vec![tag.to_owned()], ..SearchTickets::default() };
        let requester = |name: &str| SearchTickets { requester: Some(name.to_owned()), ..SearchTickets::default() };
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
}
