//! What agents give to the tools, as types. The input schemas know the same fields.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer};

use crate::ticket::{Priority, Status};

/// Longer queries are no searches.
const LONGEST_QUERY_CHARS: usize = 1000;

/// Arguments of `search_tickets`. An empty list filters nothing.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchTickets {
    /// Words, and what the provider's own search language has.
    pub query: Option<String>,
    /// Any of these.
    #[serde(default)]
    pub status: Vec<Status>,
    /// Any of these.
    #[serde(default)]
    pub priority: Vec<Priority>,
    /// Any of these.
    #[serde(default)]
    pub tags: Vec<String>,
    /// An e-mail address, an id or a name.
    pub requester: Option<String>,
    /// Tickets on a page.
    pub limit: Option<u32>,
    /// Of the page before.
    pub cursor: Option<String>,
}

/// Arguments of `get_ticket`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetTicket {
    /// Which.
    pub ticket_id: String,
    /// Of the part of the conversation before.
    pub cursor: Option<String>,
}

/// Arguments of `reply_to_ticket`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplyToTicket {
    /// To which.
    pub ticket_id: String,
    /// The message, as text.
    pub body: String,
    /// Without a default: nobody writes to a customer by leaving something out.
    pub public: bool,
}

/// Arguments of `update_ticket`. What is not given stays.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpdateTicket {
    /// Which.
    pub ticket_id: String,
    /// Never [`Status::New`].
    pub status: Option<Status>,
    /// How urgent it is from now on.
    pub priority: Option<Priority>,
    /// Who answers from now on.
    #[serde(default)]
    pub assignee: Assignee,
    /// Replaces all.
    pub tags: Option<Vec<String>>,
    /// Not together with `tags`.
    #[serde(default)]
    pub add_tags: Vec<String>,
    /// Not together with `tags`.
    #[serde(default)]
    pub remove_tags: Vec<String>,
    /// The ticket's `updated_at` as the caller had seen it.
    pub if_updated_at: Option<DateTime<Utc>>,
}

/// Who is to answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Assignee {
    /// The argument is absent.
    #[default]
    Keep,
    /// It is null.
    Nobody,
    /// An id or an e-mail address.
    Agent(String),
}

/// Arguments of `create_ticket`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateTicket {
    /// Its heading.
    pub subject: String,
    /// Its first message, as text.
    pub body: String,
    /// Who asks: an e-mail address, or the id of a customer.
    pub requester: String,
    /// Their name, where the helpdesk does not know them yet.
    pub requester_name: Option<String>,
    /// Absent: what the helpdesk takes.
    pub priority: Option<Priority>,
    /// An id or an e-mail address. Absent: what the helpdesk decides.
    pub assignee: Option<String>,
    /// Labels.
    #[serde(default)]
    pub tags: Vec<String>,
}

/// Who asks, in a new ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requester<'a> {
    /// By a whole e-mail address, with a name for somebody new.
    Email {
        /// Has an `@` with something on both sides, and no space.
        email: &'a str,
        /// Trimmed, on one line.
        name: Option<&'a str>,
    },
    /// By an id, which the provider has to look at.
    Id(&'a str),
}

/// Arguments of `find_customer`: exactly one of the first three, which [`FindCustomer::lookup`] holds them to.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FindCustomer {
    /// The whole address.
    pub email: Option<String>,
    /// The name, or words of it.
    pub name: Option<String>,
    /// What another system calls them.
    pub external_id: Option<String>,
    /// Customers on a page.
    pub limit: Option<u32>,
    /// Of the page before.
    pub cursor: Option<String>,
}

/// By what a customer is looked for; trimmed, never empty, without control characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup<'a> {
    /// Has an `@` with something on both sides.
    Email(&'a str),
    /// The name, or words of it.
    Name(&'a str),
    /// What another system calls them.
    ExternalId(&'a str),
}

/// Arguments of `search_articles`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchArticles {
    /// Words.
    pub query: String,
    /// A language, as the helpdesk writes it. Absent: the helpdesk's default.
    pub locale: Option<String>,
    /// Articles on a page.
    pub limit: Option<u32>,
    /// Of the page before.
    pub cursor: Option<String>,
}

impl<'de> Deserialize<'de> for Assignee {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(deserializer)?.map_or(Self::Nobody, Self::Agent))
    }
}

impl SearchTickets {
    /// The text to look for, trimmed; `None`: none was given. Up to 1000 characters.
    pub fn text(&self) -> Result<Option<&str>, String> {
        let text = self.query.as_deref().map(str::trim).filter(|text| !text.is_empty());
        text.map(short).transpose()
    }
}

impl SearchArticles {
    /// The text to look for, trimmed. 1 to 1000 characters.
    pub fn text(&self) -> Result<&str, String> {
        short(words("query", &self.query)?.trim())
    }
}

impl UpdateTicket {
    /// What makes no sense on any helpdesk is refused in words.
    pub fn check(&self) -> Result<(), String> {
        if self.status == Some(Status::New) {
            return Err("status: a ticket never becomes new; expected open, pending, on_hold, solved or closed".into());
        }
        if self.tags.is_some() && self.edits_tags() {
            return Err("tags: replaces all tags, so it does not go together with add_tags or remove_tags".into());
        }
        if let Some(both) = self.add_tags.iter().find(|tag| self.remove_tags.contains(tag)) {
            return Err(format!("remove_tags: {both} is in add_tags as well"));
        }
        let kept = self.assignee == Assignee::Keep && self.tags.is_none() && !self.edits_tags();
        if kept && self.status.is_none() && self.priority.is_none() {
            return Err("nothing to change: expected status, priority, assignee, tags, add_tags or remove_tags".into());
        }
        Ok(())
    }

    /// Whether tags are to be added or removed.
    pub fn edits_tags(&self) -> bool {
        !(self.add_tags.is_empty() && self.remove_tags.is_empty())
    }
}

impl CreateTicket {
    /// The heading, trimmed, on one line.
    pub fn heading(&self) -> Result<&str, String> {
        line("subject", &self.subject)
    }

    /// Who asks.
    pub fn requester(&self) -> Result<Requester<'_>, String> {
        let name = self.requester_name.as_deref().map(|name| line("requester_name", name)).transpose()?;
        if self.requester.contains('@') {
            return Ok(Requester::Email { email: address("requester", &self.requester)?, name });
        }
        if name.is_some() {
            return Err("requester_name: goes with an e-mail address; the customer of an id has a name".into());
        }
        Ok(Requester::Id(line("requester", &self.requester)?))
    }
}

impl FindCustomer {
    /// By what to look.
    pub fn lookup(&self) -> Result<Lookup<'_>, String> {
        match (&self.email, &self.name, &self.external_id) {
            (Some(email), None, None) => address("email", email).map(Lookup::Email),
            (None, Some(name), None) => line("name", name).map(Lookup::Name),
            (None, None, Some(id)) => line("external_id", id).map(Lookup::ExternalId),
            (None, None, None) => Err("email: expected one of email, name and external_id".into()),
            (Some(_), Some(_), _) => Err("name: expected only one of email, name and external_id".into()),
            _ => Err("external_id: expected only one of email, name and external_id".into()),
        }
    }
}

/// Tags as they are after an edit, in their order; `None`: they are so already.
pub fn edit_tags(there: &[String], add: &[String], remove: &[String]) -> Option<Vec<String>> {
    let mut tags: Vec<&String> = there.iter().filter(|tag| !remove.contains(tag)).collect();
    for tag in add {
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    let same = tags.len() == there.len() && tags.iter().all(|tag| there.contains(tag));
    (!same).then(|| tags.into_iter().cloned().collect())
}

/// A text that says something, as it was given.
pub fn words<'a>(field: &str, text: &'a str) -> Result<&'a str, String> {
    if text.trim().is_empty() {
        return Err(format!("{field}: expected a text, not only spaces"));
    }
    Ok(text)
}

/// A text on one line, trimmed.
fn line<'a>(field: &str, text: &'a str) -> Result<&'a str, String> {
    let text = text.trim();
    if text.is_empty() || text.contains(char::is_control) {
        return Err(format!("{field}: expected a text on one line, not only spaces"));
    }
    Ok(text)
}

/// A whole e-mail address, trimmed.
fn address<'a>(field: &str, text: &'a str) -> Result<&'a str, String> {
    let text = text.trim();
    let whole = text.split_once('@').is_some_and(|(left, right)| !left.is_empty() && !right.is_empty());
    if !whole || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(format!("{field}: expected a whole e-mail address, like \"mira@example.com\""));
    }
    Ok(text)
}

fn short(text: &str) -> Result<&str, String> {
    if text.chars().count() > LONGEST_QUERY_CHARS {
        return Err(format!("query: expected at most {LONGEST_QUERY_CHARS} characters"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn update(mut given: Value) -> Result<(), String> {
        given["ticket_id"] = json!("5");
        serde_json::from_value::<UpdateTicket>(given).unwrap().check()
    }

    #[test]
    fn a_change_that_makes_no_sense_is_refused() {
        for (given, said) in [
            (json!({}), "nothing to change: expected status"),
            (json!({"add_tags": []}), "nothing to change"),
            (json!({"status": "new"}), "status: a ticket never becomes new"),
            (json!({"tags": ["a"], "add_tags": ["b"]}), "tags: replaces all tags"),
            (json!({"add_tags": ["a"], "remove_tags": ["a"]}), "remove_tags: a is in add_tags"),
        ] {
            let message = update(given.clone()).unwrap_err();
            assert!(message.starts_with(said), "{given}: {message}");
        }
        for given in [json!({"assignee": null}), json!({"tags": []}), json!({"priority": "low"})] {
            assert_eq!(update(given), Ok(()));
        }
    }

    #[test]
    fn an_absent_assignee_stays_and_null_is_nobody() {
        let of = |given: Value| serde_json::from_value::<UpdateTicket>(given).unwrap().assignee;
        assert_eq!(of(json!({"ticket_id": "5"})), Assignee::Keep);
        assert_eq!(of(json!({"ticket_id": "5", "assignee": null})), Assignee::Nobody);
        assert_eq!(of(json!({"ticket_id": "5", "assignee": "7"})), Assignee::Agent("7".to_owned()));
    }

    #[test]
    fn edited_tags_keep_their_order_and_know_when_nothing_changes() {
        let list = |tags: &[&str]| tags.iter().map(|tag| (*tag).to_owned()).collect::<Vec<_>>();
        let there = list(&["a", "b"]);
        for (add, remove, expected) in [
            (&["c", "a"][..], &[][..], Some(list(&["a", "b", "c"]))),
            (&["c"], &["a", "z"], Some(list(&["b", "c"]))),
            (&["c", "c"], &[], Some(list(&["a", "b", "c"]))),
            (&[], &["a", "b"], Some(Vec::new())),
            (&["a"], &["z"], None),
        ] {
            assert_eq!(edit_tags(&there, &list(add), &list(remove)), expected, "{add:?} {remove:?}");
        }
    }

    #[test]
    fn a_customer_is_looked_for_by_exactly_one_thing() {
        let of = |given: Value| serde_json::from_value::<FindCustomer>(given).unwrap();
        assert_eq!(of(json!({"email": " Mira@Example.com "})).lookup(), Ok(Lookup::Email("Mira@Example.com")));
        assert_eq!(of(json!({"name": " José  Ñ "})).lookup(), Ok(Lookup::Name("José  Ñ")));
        assert_eq!(of(json!({"external_id": "42"})).lookup(), Ok(Lookup::ExternalId("42")));
        for (given, said) in [
            (json!({}), "email: expected one of"),
            (json!({"email": "a@b.c", "name": "x"}), "name: expected only one"),
            (json!({"email": "a@b.c", "external_id": "x"}), "external_id: expected only one"),
            (json!({"name": "a", "external_id": "x"}), "external_id: expected only one"),
            (json!({"email": "a@b.c", "name": "x", "external_id": "x"}), "name: expected only one"),
            (json!({"email": "mira"}), "email: expected a whole"),
            (json!({"email": "@"}), "email: expected a whole"),
            (json!({"email": "a b@c"}), "email: expected a whole"),
            (json!({"name": " "}), "name: expected a text"),
            (json!({"name": "a\nb"}), "name: expected a text"),
            (json!({"external_id": "\u{0}"}), "external_id: expected a text"),
        ] {
            let customer = of(given.clone());
            let message = customer.lookup().unwrap_err();
            assert!(message.starts_with(said), "{given}: {message}");
        }
    }

    #[test]
    fn a_new_ticket_names_who_asks_by_address_or_id() {
        let of = |requester: &str, name: Option<&str>| CreateTicket {
            requester: requester.to_owned(),
            requester_name: name.map(str::to_owned),
            ..CreateTicket::default()
        };
        let email = "mira@example.com";
        let named = of(" mira@example.com ", Some(" Mira "));
        assert_eq!(named.requester(), Ok(Requester::Email { email, name: Some("Mira") }));
        assert_eq!(of(email, None).requester(), Ok(Requester::Email { email, name: None }));
        assert_eq!(of("crd_123", None).requester(), Ok(Requester::Id("crd_123")));
        for (ticket, said) in [
            (of(" ", None), "requester: expected a text"),
            (of("mira@", None), "requester: expected a whole e-mail address"),
            (of("Mira <mira@example.com>", None), "requester: expected a whole e-mail address"),
            (of("7", Some("Mira")), "requester_name: goes with an e-mail address"),
            (of(email, Some(" ")), "requester_name: expected a text"),
        ] {
            let message = ticket.requester().unwrap_err();
            assert!(message.starts_with(said), "{message}");
        }
    }

    #[test]
    fn a_heading_is_one_line() {
        let of = |subject: &str| CreateTicket { subject: subject.to_owned(), ..CreateTicket::default() };
        assert_eq!(of(" Größe? ").heading(), Ok("Größe?"));
        for subject in ["", " ", "a\nBcc: x@example.com"] {
            assert!(of(subject).heading().unwrap_err().starts_with("subject: expected"), "{subject}");
        }
    }

    #[test]
    fn a_text_to_look_for_is_trimmed_and_has_a_bound() {
        let tickets = |query: &str| SearchTickets { query: Some(query.to_owned()), ..SearchTickets::default() };
        let articles = |query: &str| SearchArticles { query: query.to_owned(), ..SearchArticles::default() };
        let (fits, long) = ("ä".repeat(1000), "x".repeat(1001));

        assert_eq!(tickets(" a b ").text(), Ok(Some("a b")));
        assert_eq!(tickets(" ").text(), Ok(None));
        assert_eq!(tickets(&fits).text(), Ok(Some(fits.as_str())));
        assert!(tickets(&long).text().unwrap_err().starts_with("query: expected at most"));
        assert_eq!(articles(" a b ").text(), Ok("a b"));
        assert!(articles(" ").text().unwrap_err().starts_with("query: expected a text"));
        assert!(articles(&long).text().unwrap_err().starts_with("query: expected at most"));
    }
}
