//! What a job does, in plain words with the names that people know: `Run agent Answerer for ticket #14 of acme.zendesk.com`.

use holdfast_core::job::Kind;
use holdfast_store::{Job, JobNames};
use serde::Serialize;
use url::Url;

use crate::{app::App, called, ui::deliveries::story_of};

/// Something that a job is about, with its page.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct About {
    what: &'static str,
    words: String,
    /// `None`: there is no such page any more.
    link: Option<String>,
}

/// What it does.
pub(super) fn of(app: &App, names: &JobNames, job: &Job) -> String {
    let of = match &job.connector {
        None => String::new(),
        Some(id) => names.connectors.get(id).map_or_else(
            || " of a connector that is gone".to_owned(),
            |one| format!(" of {}", called::named(app, &one.provider, &one.account, &one.name)),
        ),
    };
    let word = |name: &str| job.payload[name].as_str();
    let ticket = |field: &str| word(field).map(|id| format!("ticket {}", called::ticket(id)));
    match job.kind {
        Kind::Event => {
            let what = word("topic").filter(|topic| *topic != "other").unwrap_or("an event");
            let about = if what.starts_with("ticket.") { ticket("subject") } else { None };
            format!("Work off {what}{}{of}", about.map(|about| format!(" of {about}")).unwrap_or_default())
        }
        Kind::AgentRun => {
            let agent = word("agent").and_then(|id| names.agents.get(id));
            let agent = agent.map_or_else(|| "an agent that is gone".to_owned(), |name| format!("agent {name}"));
            format!("Run {agent}{}{of}", ticket("ticket").map(|about| format!(" for {about}")).unwrap_or_default())
        }
        Kind::Sync => format!("Sync the tickets{of}"),
        Kind::Mail => "Send mail".to_owned(),
        Kind::Deliver if word("mail").is_some() => "Tell the channel in Slack".to_owned(),
        Kind::Deliver => deliver(names, job),
        Kind::Subscription if word("removed").is_some() => format!("Look whether the access{of} still holds"),
        Kind::Subscription => format!("Look after the webhook{of}"),
    }
}

fn deliver(names: &JobNames, job: &Job) -> String {
    let what = job.payload["event"].as_str().and_then(|id| names.events.get(id)).map_or("an event", String::as_str);
    let to = names.endpoints.get(&job.subject).and_then(|url| Url::parse(url).ok());
    // No more of the address: what follows may be a secret, and not everybody may see endpoints.
    let to = to.map_or_else(|| "an endpoint that is gone".to_owned(), |url| url.origin().ascii_serialization());
    format!("Deliver {what} to {to}")
}

/// What it is about.
pub(super) fn about(names: &JobNames, job: &Job) -> Vec<About> {
    let word = |name: &str| job.payload[name].as_str();
    let about = |what, words: String, link| About { what, words, link };
    let mut all = Vec::new();
    let is_of_ticket = word("topic").is_some_and(|topic| topic.starts_with("ticket."));
    let ticket = word("ticket").or_else(|| word("subject").filter(|_| is_of_ticket));
    if let (Some(ticket), Some(connector)) = (ticket, &job.connector) {
        let is_there = names.connectors.contains_key(connector);
        let link = is_there.then(|| story_of(connector.as_str(), ticket));
        all.push(about("Ticket", called::ticket(ticket), link));
    }
    let delivery = |id: &str, words: &str| match names.deliveries.get(id) {
        Some(_) => about("Delivery", words.to_owned(), Some(format!("/deliveries/{id}"))),
        None => about("Delivery", format!("{words}; forgotten by now"), None),
    };
    match job.kind {
        Kind::Event => all.push(delivery(&job.subject, "what came in")),
        Kind::AgentRun => {
            if let Some(agent) = word("agent").filter(|agent| names.agents.contains_key(*agent)) {
                let link = format!("/agents/{agent}/runs/{}", job.subject);
                all.push(about("Run", "how it went".to_owned(), Some(link)));
            }
            all.extend(word("delivery").map(|id| delivery(id, "what set it off")));
        }
        _ => {}
    }
    all
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use holdfast_core::job::State;
    use holdfast_store::NamedConnector;
    use serde_json::{Value, json};

    use super::*;

    fn job(kind: Kind, subject: &str, payload: Value) -> Job {
        Job {
            id: "job_1".into(),
            org: "org_1".into(),
            kind,
            key: "key".to_owned(),
            connector: Some("con_1".into()),
            subject: subject.to_owned(),
            payload,
            state: State::Done,
            due_at: DateTime::UNIX_EPOCH,
            attempts: 1,
            holder: None,
            created_at: DateTime::UNIX_EPOCH,
            started_at: None,
            parked_at: None,
            ended_at: None,
            fault: None,
            actor: None,
        }
    }

    #[test]
    fn of_an_endpoint_no_more_than_its_origin_is_shown() {
        let job = job(Kind::Deliver, "evp_1", json!({ "event": "evt_1" }));
        let mut names = JobNames::default();
        assert_eq!(deliver(&names, &job), "Deliver an event to an endpoint that is gone");
        names.events.insert("evt_1".to_owned(), "ticket.created".to_owned());
        for (url, shown) in [
            ("https://hooks.acme.test/T0/s3cret?key=s3cret#s3cret", "https://hooks.acme.test"),
            ("https://me:s3cret@hooks.acme.test:8443/x", "https://hooks.acme.test:8443"),
        ] {
            names.endpoints.insert("evp_1".to_owned(), url.to_owned());
            assert_eq!(deliver(&names, &job), format!("Deliver ticket.created to {shown}"));
        }
    }

    #[test]
    fn what_is_gone_is_named_without_a_link() {
        let payload = json!({ "agent": "agt_1", "delivery": "dlv_1", "ticket": "42" });
        let job = job(Kind::AgentRun, "run_1", payload);
        let links = |names: &JobNames| -> Vec<_> {
            about(names, &job).into_iter().map(|about| (about.what, about.link.is_some())).collect()
        };
        let mut names = JobNames::default();
        assert_eq!(links(&names), [("Ticket", false), ("Delivery", false)]);
        let shop = NamedConnector { provider: "zendesk".to_owned(), account: "acme".to_owned(), name: String::new() };
        names.connectors.insert("con_1".into(), shop);
        names.agents.insert("agt_1".to_owned(), "Noting".to_owned());
        names.deliveries.insert("dlv_1".to_owned(), "ticket.created".to_owned());
        assert_eq!(links(&names), [("Ticket", true), ("Run", true), ("Delivery", true)]);
    }
}
