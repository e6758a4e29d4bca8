//! Playbooks to begin with: files that are compiled in, which pages and API list and make agents from.

use std::sync::LazyLock;

use holdfast_core::agent::{TicketEvents, Trigger};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// A playbook with what belongs to it.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// Names it.
    pub id: String,
    /// What an agent of it is called, unless somebody says otherwise.
    pub name: String,
    /// What it does, for people.
    pub description: String,
    /// Seconds between two runs, unless somebody says otherwise; `None`: it runs when something happens to a ticket.
    pub every_secs: Option<u64>,
    /// What that is.
    #[serde(default)]
    pub events: Vec<String>,
    /// The connectors that it needs.
    pub connectors: Vec<SampleConnector>,
    /// The playbook.
    pub runner: Value,
}

/// A connector that a sample needs.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SampleConnector {
    /// What the playbook calls it.
    pub role: String,
    /// What it is for.
    pub words: String,
}

const FILES: [&str; 4] = [
    include_str!("../../samples/annotate_urgent_tickets.json"),
    include_str!("../../samples/order_status.json"),
    include_str!("../../samples/tag_and_answer_by_rule.json"),
    include_str!("../../samples/triage_new_tickets.json"),
];

static SAMPLES: LazyLock<Vec<Sample>> = LazyLock::new(|| {
    FILES.iter().map(|file| serde_json::from_str(file).expect("a test holds the samples to be right")).collect()
});

impl Sample {
    /// When it runs, unless somebody says otherwise.
    pub fn trigger(&self) -> Result<Trigger, String> {
        match self.every_secs {
            Some(secs) => Trigger::every(secs),
            None => TicketEvents::of(&self.events).map(Trigger::Events),
        }
    }
}

/// All of them.
pub fn all() -> &'static [Sample] {
    &SAMPLES
}

/// By id.
pub fn find(id: &str) -> Option<&'static Sample> {
    all().iter().find(|sample| sample.id == id)
}

#[cfg(test)]
mod tests {
    use holdfast_core::playbook::{Playbook, Role};

    use super::*;
    use crate::{Config, registry};

    #[test]
    fn every_sample_can_be_made_an_agent_of() {
        let providers = registry::providers(&Config::default()).unwrap();
        let tools = |provider: &str| providers.find(provider).unwrap().about().tools;
        for (helpdesk, sample) in
            ["zendesk", "freshdesk", "front", "gorgias"].into_iter().flat_map(|one| all().iter().map(move |s| (one, s)))
        {
            let playbook = Playbook::parse(&sample.runner).unwrap_or_else(|error| panic!("{}: {error}", sample.id));
            let of = |role: &str| if role == "shop" { tools("shopify") } else { tools(helpdesk) };
            let roles =
                sample.connectors.iter().map(|one| Role { name: &one.role, tools: of(&one.role), granted: None });
            let roles: Vec<_> = roles.collect();
            playbook.check(&roles).unwrap_or_else(|error| panic!("{}: {error}", sample.id));
            sample.trigger().unwrap();
            assert!(crate::care::is_name(&sample.name) && !sample.description.is_empty());
        }
    }

    #[test]
    fn samples_are_found_by_their_ids() {
        for sample in all() {
            assert_eq!(find(&sample.id).unwrap().name, sample.name);
        }
        assert!(find("nothing").is_none());
    }
}
