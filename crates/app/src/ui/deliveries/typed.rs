//! A ticket as people name it: its number, with or without `#`, or the link that their helpdesk's page has.

use std::sync::Arc;

use holdfast_core::Provider;
use url::Url;

use crate::{agents::manage::has_tickets, app::App};

/// No id of a ticket is longer.
const LONGEST: usize = 100;
/// What stands before a ticket's id in the links of helpdesks.
const BEFORE: [&str; 6] = ["ticket", "tickets", "requests", "conversation", "conversations", "open"];
/// Hosts that all accounts of a provider share, so that a link says no more than the provider.
const SHARED: [(&str, &str); 2] = [("app.frontapp.com", "front"), ("app.front.com", "front")];
/// What is said of anything else.
pub(crate) const NO_TICKET: &str =
    "That names no ticket. Type its number, such as 14 or #14, or paste the link of its page.";

/// What was meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TypedTicket {
    /// The id at the helpdesk.
    pub(crate) ticket: String,
    /// Where it is, if it was a link.
    pub(crate) link: Option<Url>,
}

impl TypedTicket {
    /// `None`: that names no ticket.
    pub(crate) fn read(typed: &str) -> Option<Self> {
        let typed = typed.trim();
        if typed.contains('/') {
            let typed = if typed.contains("://") { typed.to_owned() } else { format!("https://{typed}") };
            let link = Url::parse(&typed).ok().filter(|link| matches!(link.scheme(), "http" | "https"))?;
            return Some(Self { ticket: in_link(&link)?, link: Some(link) });
        }
        let word = |word: &str| typed.strip_prefix(word).filter(|rest: &&str| rest.starts_with([' ', '#']));
        let bare = word("Ticket").or_else(|| word("ticket")).unwrap_or(typed);
        let bare = bare.trim_start().trim_start_matches('#').trim();
        is_id(bare).then(|| Self { ticket: bare.to_owned(), link: None })
    }
}

/// What a link says of whose helpdesk it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LinkOf {
    /// These accounts, each by its provider's id and its own.
    Accounts(Vec<(&'static str, String)>),
    /// Some account of this provider.
    Provider(&'static str),
    /// Nothing: no provider with tickets has such an address. A helpdesk's own domain, perhaps.
    Nothing,
}

impl LinkOf {
    pub(crate) fn read(app: &App, link: &Url) -> Self {
        if let Some((_, provider)) = SHARED.iter().find(|(host, _)| link.host_str() == Some(*host)) {
            return Self::Provider(provider);
        }
        let with_tickets = app.providers().iter().filter(|one| has_tickets(app, one.about().id));
        let account = |one: &Arc<dyn Provider>| Some((one.about().id, one.account(link.as_str()).ok()?.id));
        let accounts: Vec<_> = with_tickets.filter_map(account).collect();
        if accounts.is_empty() { Self::Nothing } else { Self::Accounts(accounts) }
    }

    /// Whether that is this account.
    pub(crate) fn is(&self, provider: &str, account: &str) -> bool {
        match self {
            Self::Accounts(all) => all.iter().any(|(of, id)| *of == provider && id == account),
            Self::Provider(of) => *of == provider,
            Self::Nothing => false,
        }
    }
}

/// The segment after the word for a ticket, or the one after a view of Gorgias.
fn in_link(link: &Url) -> Option<String> {
    let segments: Vec<&str> = link.path_segments()?.filter(|segment| !segment.is_empty()).collect();
    // `tickets/filters` is a list of them.
    let is_named = |two: &&[&str]| BEFORE.contains(&two[0]) && is_id(two[1]) && has_digit(two[1]);
    let named = segments.windows(2).rev().find(is_named).map(|two| two[1]);
    let is_number = |text: &str| is_id(text) && text.bytes().all(|byte| byte.is_ascii_digit());
    let in_view = |three: &&[&str]| three[0] == "views" && is_number(three[1]) && is_number(three[2]);
    let viewed = || segments.windows(3).rev().find(in_view).map(|three| three[2]);
    named.or_else(viewed).map(str::to_owned)
}

fn has_digit(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
}

fn is_id(text: &str) -> bool {
    (1..=LONGEST).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_the_links_of_helpdesks_name_a_ticket() {
        for (typed, ticket) in [
            ("14", "14"),
            (" #14 ", "14"),
            ("ticket #14", "14"),
            ("Ticket 14", "14"),
            ("cnv_55c8c149", "cnv_55c8c149"),
            ("ticket_12", "ticket_12"),
            ("ticket#14", "14"),
            ("tickets-9", "tickets-9"),
            ("https://acme.zendesk.com/agent/tickets/14", "14"),
            ("acme.zendesk.com/agent/tickets/14?brand=2#comment-9", "14"),
            ("https://acme.zendesk.com/hc/en-us/requests/14", "14"),
            ("https://acme.freshdesk.com/a/tickets/14", "14"),
            ("https://acme.gorgias.com/app/ticket/14", "14"),
            ("https://acme.gorgias.com/app/views/3/14", "14"),
            ("https://app.frontapp.com/open/cnv_55c8c149", "cnv_55c8c149"),
        ] {
            let read = TypedTicket::read(typed).unwrap();
            assert_eq!(read.ticket, ticket, "{typed}");
            assert_eq!(read.link.is_some(), typed.contains('/'), "{typed}");
        }
        for typed in [
            "",
            "#",
            "the printer is on fire",
            "https://acme.zendesk.com/agent",
            "https://acme.zendesk.com/agent/users/123",
            "https://acme.zendesk.com/hc/en-us/articles/36001",
            "https://acme.freshdesk.com/a/tickets/filters/all_tickets",
            "https://acme.gorgias.com/app/views/3",
            "javascript://x/tickets/1",
        ] {
            assert_eq!(TypedTicket::read(typed), None, "{typed}");
        }
        assert_eq!(TypedTicket::read(&"4".repeat(LONGEST + 1)), None);
    }
}
