//! What a job does, in plain words with the names that people know: `Run agent Answerer for ticket #14 of acme.zendesk.com`.

use holdfast_core::job::Kind;
use holdfast_store::{Job, JobNames};
use serde::Serialize;
use url::Url;

use crate::{app::App, called, ui::deliveries::story_of};

/// Something that a job is about, with its page.
#[derive(Serialize)]
pub(super) struct About {
    what: &'static str,
    words: String,
    link: String,
}

/// What it does.
pub(super) fn of(app: &App, names: &JobNames, job: &Job) -> String {
    let of = match &job.connector {
        None => String::new(),
        Some(id) => names.connectors.get(id).map_or_else(
            || " of a connector that is gone".to_owned(),
            |connector| format!(" of {}", called::named(app, connector)),
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
        Kind::Deliver => {
            let what = word("event").and_then(|id| names.events.get(id)).map_or("an event", String::as_str);
            let to = names.endpoints.get(&job.subject).and_then(|url| Url::parse(url).ok());
            // No more of the address: what follows may be a secret, and not everybody may see endpoints.
            let to = to.map_or_else(|| "an endpoint that is gone".to_owned(), |url| url.origin().ascii_serialization());
            format!("Deliver {what} to {to}")
        }
        Kind::Subscription if word("removed").is_some() => format!("Look whether the access{of} still holds"),
        Kind::Subscription => format!("Look after the webhook{of}"),
    }
}

/// What it is about.
pub(super) fn about(names: &JobNames, job: &Job) -> Vec<About> {
    let word = |name: &str| job.payload[name].as_str();
    let about = |what, words: String, link| About { what, words, link };
    let mut all = Vec::new();
    let is_of_ticket = word("topic").is_some_and(|topic| topic.starts_with("ticket."));
    let ticket = word("ticket").or_else(|| word("subject").filter(|_| is_of_ticket));
    if let (Some(ticket), Some(connector)) = (ticket, &job.connector) {
        all.push(about("Ticket", called::ticket(ticket), story_of(connector.as_str(), ticket)));
    }
    match job.kind {
        Kind::Event => all.push(about("Delivery", "what came in".to_owned(), format!("/deliveries/{}", job.subject))),
        Kind::AgentRun => {
            if let Some(agent) = word("agent").filter(|agent| names.agents.contains_key(*agent)) {
                let link = format!("/agents/{agent}/runs/{}", job.subject);
                all.push(about("Run", "how it went".to_owned(), link));
            }
            if let Some(delivery) = word("delivery") {
                all.push(about("Delivery", "what set it off".to_owned(), format!("/deliveries/{delivery}")));
            }
        }
        _ => {}
    }
    all
}
