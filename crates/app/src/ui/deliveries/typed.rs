//! A ticket as people name it: its number, with or without `#`, or the link that their helpdesk's page has.

use url::Url;

/// No id of a ticket is longer.
const LONGEST: usize = 100;
/// What stands before a ticket's id in the links of helpdesks.
const BEFORE: [&str; 5] = ["ticket", "tickets", "conversation", "conversations", "open"];

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
        let bare = typed.strip_prefix("Ticket").or_else(|| typed.strip_prefix("ticket")).unwrap_or(typed);
        let bare = bare.trim_start().trim_start_matches('#').trim();
        is_id(bare).then(|| Self { ticket: bare.to_owned(), link: None })
    }
}

/// The segment after the word for a ticket, or else the last one with a digit in it.
fn in_link(link: &Url) -> Option<String> {
    let segments: Vec<&str> = link.path_segments()?.filter(|segment| !segment.is_empty()).collect();
    let named = segments.windows(2).rev().find(|two| BEFORE.contains(&two[0]) && is_id(two[1])).map(|two| two[1]);
    let last = || segments.iter().rev().find(|one| is_id(one) && one.bytes().any(|byte| byte.is_ascii_digit()));
    named.or_else(|| last().copied()).map(str::to_owned)
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
            ("https://acme.zendesk.com/agent/tickets/14", "14"),
            ("acme.zendesk.com/agent/tickets/14?brand=2#comment-9", "14"),
            ("https://acme.freshdesk.com/a/tickets/14", "14"),
            ("https://acme.gorgias.com/app/ticket/14", "14"),
            ("https://acme.gorgias.com/app/views/3/14", "14"),
            ("https://app.frontapp.com/open/cnv_55c8c149", "cnv_55c8c149"),
        ] {
            let read = TypedTicket::read(typed).unwrap();
            assert_eq!(read.ticket, ticket, "{typed}");
            assert_eq!(read.link.is_some(), typed.contains('/'), "{typed}");
        }
        for typed in ["", "#", "the printer is on fire", "https://acme.zendesk.com/agent", "javascript://x/tickets/1"] {
            assert_eq!(TypedTicket::read(typed), None, "{typed}");
        }
        assert_eq!(TypedTicket::read(&"4".repeat(LONGEST + 1)), None);
    }
}
