//! `search_tickets`: with words, tags or a requester Front's search is asked, which has a rate limit of its own; by status
//! alone, or by nothing, its list.

use holdfast_core::{
    ApiClient,
    error::{ErrorKind, Result},
    helpdesk::{FoundTickets, MOST_PER_PAGE, SearchTickets, USUAL_PER_PAGE, page_size},
    ticket::Status,
    tool::invalid,
};

use super::{app, id, names, same, tag_ids};
use crate::{api, model::WireConversation};

pub(super) const NAME: &str = "search_tickets";

/// Pages that are read in one call until one of them has a ticket that fits.
const MOST_PAGES: u32 = 4;

/// Where a page begins.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    searches: bool,
    size: u32,
    /// `None`: the first one.
    page: Option<String>,
}

/// What has to hold. Front is asked for what it surely understands; all of it is looked at here as well.
struct Filter {
    /// In Front's language; empty: the list.
    query: String,
    status: Vec<Status>,
    tags: Vec<String>,
    /// In small letters.
    requester: Option<Vec<String>>,
}

pub(super) async fn run(api: &ApiClient, asked: SearchTickets) -> Result<FoundTickets> {
    let filter = match filter(api, &asked).await? {
        Ok(filter) => filter,
        Err(why) => {
            return Ok(FoundTickets {
                tickets: Vec::new(),
                total: Some(0),
                next_cursor: None,
                note: Some(why.to_owned()),
            });
        }
    };
    let place = Place::of(&asked, !filter.query.is_empty()).map_err(|message| invalid(api, NAME, message))?;
    find(api, &filter, place).await
}

async fn find(api: &ApiClient, filter: &Filter, mut place: Place) -> Result<FoundTickets> {
    let mut found = Vec::new();
    let (mut total, mut looked_at) = (None, 0);
    for _ in 0..MOST_PAGES {
        let page = place.page.as_deref();
        let listed = if place.searches {
            api::search(api, NAME, &filter.query, place.size, page).await?
        } else {
            api::conversations(api, NAME, &filter.statuses(), place.size, page).await?
        };
        total = listed.total;
        looked_at += listed.items.len();
        found.extend(listed.items.into_iter().filter(|one| filter.keeps(one)));
        if listed.next.is_some() && listed.next == place.page {
            return Err(api.error(NAME, ErrorKind::Unreadable, "the list goes on and stays where it is"));
        }
        place.page = listed.next;
        if !found.is_empty() || place.page.is_none() {
            break;
        }
    }
    let more = place.page.is_some();
    let note = (more && found.is_empty()).then(|| {
        format!("none of the {looked_at} tickets that were looked at fits; next_cursor goes on with older ones")
    });
    Ok(FoundTickets {
        tickets: found.iter().map(|one| one.to_model(&app(api))).collect(),
        // Of what was filtered here nobody knows how many there are.
        total: total.filter(|_| filter.is_fronts_alone()),
        next_cursor: more.then(|| place.cursor()),
        note,
    })
}

/// The outer error is the call's; the inner one says why nothing can fit.
async fn filter(api: &ApiClient, asked: &SearchTickets) -> Result<Result<Filter, &'static str>> {
    let refused = |message: String| invalid(api, NAME, message);
    if !asked.priority.is_empty() {
        return Err(refused("priority: Front has no priorities; leave it out".to_owned()));
    }
    let words = asked.text().map_err(refused)?.map(plain).transpose().map_err(refused)?;
    let tags = names("tags", &asked.tags).map_err(refused)?;
    if !asked.status.is_empty() && asked.status.iter().all(|one| matches!(one, Status::New | Status::OnHold)) {
        return Ok(Err("Front has no tickets that are new or on_hold: who waits for somebody is open or pending."));
    }
    let mut terms: Vec<String> = words.into_iter().collect();
    // Whether several of one kind have to hold together is not documented, so only one is sent.
    if let [tag] = tags.as_slice() {
        let ids = tag_ids(api, NAME, "tags", std::slice::from_ref(tag)).await?;
        terms.extend(ids.iter().map(|id| format!("tag:{id}")));
    }
    let mut requester = None;
    if let Some(who) = &asked.requester {
        let handles = handles(api, who.trim()).await?;
        match handles.as_slice() {
            [] => return Ok(Err("Front knows no address of this contact.")),
            [one] => terms.push(format!("recipient:{one}")),
            _ => {}
        }
        requester = Some(handles);
    }
    if !terms.is_empty() {
        terms.extend(word(&asked.status).map(|word| format!("is:{word}")));
    }
    Ok(Ok(Filter { query: terms.join(" "), status: asked.status.clone(), tags, requester }))
}

/// The addresses and numbers of who asks.
async fn handles(api: &ApiClient, who: &str) -> Result<Vec<String>> {
    let expected = "requester: expected an e-mail address or the id of a contact; Front cannot look for names";
    if who.contains('@') && !who.contains(|c: char| c.is_whitespace() || c.is_control() || UNSENT.contains(&c)) {
        return Ok(vec![who.to_lowercase()]);
    }
    let id = id("requester", who).ok().filter(|id| id.contains('_'));
    let id = id.ok_or_else(|| invalid(api, NAME, expected))?;
    let contact = api::contact(api, NAME, id).await.map_err(|error| match error.kind {
        ErrorKind::NotFound => invalid(api, NAME, "requester: Front has no contact of this id"),
        _ => error,
    })?;
    Ok(contact.handles.into_iter().flatten().map(|handle| handle.handle.to_lowercase()).collect())
}

/// The one word of Front's search for these statuses, where there is one.
fn word(status: &[Status]) -> Option<&'static str> {
    let all = |fits: fn(&Status) -> bool| !status.is_empty() && status.iter().all(fits);
    if all(|one| matches!(one, Status::Open | Status::Pending)) {
        Some("open")
    } else if all(|one| *one == Status::Solved) {
        Some("archived")
    } else if all(|one| *one == Status::Closed) {
        Some("trashed")
    } else {
        None
    }
}

/// What a path cannot carry, however it is encoded, or what servers may cut it at.
const UNSENT: [char; 6] = ['?', '#', '\\', '/', '%', ';'];

/// Words and terms as a path can carry them.
fn plain(text: &str) -> Result<String, String> {
    let text = text.replace(UNSENT, " ").replace(char::is_control, " ");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.chars().all(|c| c == '.' || c == ' ') {
        return Err("query: expected words to look for".to_owned());
    }
    Ok(text)
}

impl Filter {
    /// For the list.
    fn statuses(&self) -> Vec<&'static str> {
        let mut all = Vec::new();
        for status in &self.status {
            let own: &[&str] = match status {
                Status::Open | Status::Pending => &["assigned", "unassigned"],
                Status::Solved => &["archived"],
                Status::Closed => &["trashed"],
                Status::New | Status::OnHold => &[],
            };
            all.extend(own.iter().filter(|one| !all.contains(*one)).copied().collect::<Vec<_>>());
        }
        all
    }

    fn keeps(&self, one: &WireConversation) -> bool {
        let handle = || one.recipient.as_ref().and_then(|recipient| recipient.handle.as_deref()).map(str::to_lowercase);
        let tagged =
            |name: &String| one.tags.iter().flatten().any(|tag| tag.name.as_deref().is_some_and(|own| same(own, name)));
        (self.status.is_empty() || self.status.contains(&one.status().value))
            && (self.tags.is_empty() || self.tags.iter().any(tagged))
            && self.requester.as_ref().is_none_or(|handles| handle().is_some_and(|own| handles.contains(&own)))
    }

    /// Whether nothing that Front has found is dropped here.
    fn is_fronts_alone(&self) -> bool {
        self.status.is_empty() && self.tags.is_empty() && self.requester.is_none()
    }
}

impl Place {
    fn of(asked: &SearchTickets, searches: bool) -> Result<Self, String> {
        let size = page_size(asked.limit, USUAL_PER_PAGE, MOST_PER_PAGE)?;
        let Some(cursor) = &asked.cursor else { return Ok(Self { searches, size, page: None }) };
        let place = Self::read(cursor).filter(|place| place.searches == searches);
        place.ok_or_else(|| {
            "cursor: expected next_cursor of an earlier answer to the same arguments, unchanged".to_owned()
        })
    }

    fn cursor(&self) -> String {
        let way = if self.searches { 's' } else { 'l' };
        format!("{way}-{}-{}", self.size, self.page.as_deref().unwrap_or_default())
    }

    fn read(cursor: &str) -> Option<Self> {
        let mut parts = cursor.splitn(3, '-');
        let searches = match parts.next()? {
            "s" => true,
            "l" => false,
            _ => return None,
        };
        let place = Self { searches, size: parts.next()?.parse().ok()?, page: parts.next().map(str::to_owned) };
        let page = place.page.as_deref()?;
        let fits = (1..=MOST_PER_PAGE).contains(&place.size)
            && !page.is_empty()
            && page.len() <= 2000
            && page.bytes().all(|byte| byte.is_ascii_graphic());
        // Exactly as it was written: a parser takes "+2" as well.
        (fits && place.cursor() == cursor).then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_word_is_sent_for_statuses_where_front_surely_has_one() {
        use Status::{Closed, OnHold, Open, Pending, Solved};
        for (status, expected, list) in [
            (&[][..], None, &[][..]),
            (&[Open], Some("open"), &["assigned", "unassigned"]),
            (&[Open, Pending], Some("open"), &["assigned", "unassigned"]),
            (&[Solved], Some("archived"), &["archived"]),
            (&[Closed], Some("trashed"), &["trashed"]),
            (&[Open, Solved], None, &["assigned", "unassigned", "archived"]),
            (&[Open, OnHold], None, &["assigned", "unassigned"]),
        ] {
            assert_eq!(word(status), expected, "{status:?}");
            let filter = Filter { query: String::new(), status: status.to_vec(), tags: Vec::new(), requester: None };
            assert_eq!(filter.statuses(), list, "{status:?}");
        }
    }

    #[test]
    fn a_query_is_what_a_path_can_carry() {
        assert_eq!(plain(" refund?  inbox:inb_1 ").unwrap(), "refund inbox:inb_1");
        assert_eq!(plain("50% off/../x #1; Größe").unwrap(), "50 off .. x 1 Größe");
        for text in ["??", "..", ". .", "#"] {
            assert!(plain(text).unwrap_err().starts_with("query: expected"), "{text}");
        }
    }

    #[test]
    fn a_cursor_is_taken_only_as_it_was_given_and_for_the_same_way() {
        let place = |cursor: &str, searches| {
            let asked: SearchTickets = serde_json::from_value(json!({"cursor": cursor, "limit": 50})).unwrap();
            Place::of(&asked, searches)
        };
        let expected = Place { searches: true, size: 10, page: Some("a-b=".to_owned()) };
        assert_eq!(place("s-10-a-b=", true), Ok(expected.clone()));
        assert_eq!(expected.cursor(), "s-10-a-b=");
        for cursor in ["", "s", "s-10", "s-10-", "s-0-a", "s-101-a", "s-+5-a", "s-05-a", "x-5-a", "s-5-a b", "s-5-ä"] {
            assert!(place(cursor, true).unwrap_err().starts_with("cursor: expected"), "{cursor}");
        }
        assert!(place("l-10-a", true).is_err() && place("s-10-a", false).is_err());
    }
}
