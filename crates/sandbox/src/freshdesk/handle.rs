//! One Freshdesk account from the side that no caller of the API sees.

use std::sync::Arc;

use serde_json::Value;

use crate::counters::Counters;
use crate::desk::{World, locked};
use crate::freshdesk::account::Account;
use crate::freshdesk::data::{FreshdeskPlan, TicketScope};
use crate::freshdesk::seed;
use crate::freshdesk::trouble::FreshdeskTrouble;

/// An account of the sandbox. Agents are named by id, address or the start of a name: `ada` is an administrator, `gus` an
/// agent, `nora` may write notes alone, `lia` sees her own tickets alone, `oz` has no day pass.
///
/// After a reset it is the old one, which nobody reaches any more: ask for it again.
#[derive(Debug, Clone)]
pub struct Freshdesk {
    world: Arc<World>,
    account: Arc<Account>,
}

impl Freshdesk {
    pub(crate) fn new(world: Arc<World>, account: Arc<Account>) -> Self {
        Self { world, account }
    }

    /// The domain, without `.freshdesk.com`.
    pub fn name(&self) -> &str {
        &self.account.name
    }

    /// What stands for `https://{name}.freshdesk.com`, without a slash at the end.
    pub fn url(&self) -> &str {
        &self.account.url
    }

    /// The key that this agent's profile shows. `None` when there is no such agent.
    pub fn api_key(&self, agent: &str) -> Option<String> {
        locked(&self.account.data).agent_named(agent).map(|agent| agent.api_key.clone())
    }

    /// The agent's number. `None` when there is no such agent.
    pub fn agent_id(&self, agent: &str) -> Option<i64> {
        locked(&self.account.data).agent_named(agent).map(|agent| agent.id)
    }

    /// The agent resets the key: the old one is over at once. Answers the new one.
    pub fn reset_key(&self, agent: &str) -> Option<String> {
        let mut data = locked(&self.account.data);
        let agent = data.agent_named(agent)?;
        agent.api_key = seed::new_key();
        Some(agent.api_key.clone())
    }

    /// The agent is gone, or comes back: the key answers 401 meanwhile. False when there is no such agent.
    pub fn set_active(&self, agent: &str, active: bool) -> bool {
        locked(&self.account.data).agent_named(agent).map(|agent| agent.active = active).is_some()
    }

    /// Which tickets the agent sees from now on. False when there is no such agent.
    pub fn restrict(&self, agent: &str, scope: TicketScope) -> bool {
        locked(&self.account.data).agent_named(agent).map(|agent| agent.scope = scope).is_some()
    }

    /// Whether a key works at this moment.
    pub fn accepts(&self, key: &str) -> bool {
        locked(&self.account.data).agents.iter().any(|agent| agent.active && agent.api_key == key)
    }

    /// What the account pays for from now on.
    pub fn set_plan(&self, plan: FreshdeskPlan) {
        locked(&self.account.data).plan = plan;
    }

    /// Suspends the account, or lets it go on.
    pub fn set_suspended(&self, suspended: bool) {
        locked(&self.account.data).suspended = suspended;
    }

    /// A custom field that has to be filled before a ticket is resolved or closed: `cf_resolution`.
    pub fn require_to_close(&self, field: Option<&str>) {
        locked(&self.account.data).required_to_close = field.map(str::to_owned);
    }

    /// Its numbers, as far as they are about an API.
    pub fn counters(&self) -> Counters {
        self.account.counts.read()
    }

    /// Makes or changes trouble.
    pub fn trouble(&self, change: impl FnOnce(&mut FreshdeskTrouble)) {
        let mut trouble = locked(&self.account.trouble);
        change(&mut trouble);
        if let Some(canned) = &mut trouble.answer {
            canned.begin(self.world.clock.now_ms());
        }
    }

    /// Ends all trouble.
    pub fn calm(&self) {
        self.trouble(|trouble| *trouble = FreshdeskTrouble::default());
    }

    /// Adds seeded tickets, made at this moment.
    pub fn add_tickets(&self, count: u32) {
        let now_ms = self.world.clock.now_ms();
        let mut data = locked(&self.account.data);
        for _ in 0..count {
            seed::add(&mut data, now_ms);
        }
    }

    /// A ticket as the API shows it by itself.
    pub fn ticket(&self, id: i64) -> Option<Value> {
        locked(&self.account.data).tickets.get(&id).map(crate::freshdesk::data::Ticket::to_whole_json)
    }

    /// Every ticket that is no spam, newest first, as lists show it.
    pub fn tickets(&self) -> Vec<Value> {
        let data = locked(&self.account.data);
        data.tickets
            .values()
            .rev()
            .filter(|ticket| ticket.is_usual())
            .map(crate::freshdesk::data::Ticket::to_json)
            .collect()
    }

    /// The conversations of a ticket as the API shows them, oldest first.
    pub fn conversations(&self, id: i64) -> Vec<Value> {
        let data = locked(&self.account.data);
        let ticket = data.tickets.get(&id);
        ticket.map_or_else(Vec::new, |ticket| ticket.conversations.iter().map(|one| one.to_json(id)).collect())
    }

    /// The customer writes so many times more.
    pub fn write(&self, id: i64, times: usize) {
        let now_ms = self.world.clock.now_ms();
        seed::write(&mut locked(&self.account.data), id, times, now_ms);
    }

    /// A contact as the API shows it, by the start of its name.
    pub fn contact(&self, name: &str) -> Option<Value> {
        let data = locked(&self.account.data);
        data.contacts
            .iter()
            .find(|contact| contact.name.starts_with(name))
            .map(crate::freshdesk::data::Contact::to_json)
    }

    /// Somebody else changes a ticket's tags, without the API.
    pub fn tag(&self, id: i64, tags: &[&str]) {
        let now_ms = self.world.clock.now_ms();
        if let Some(ticket) = locked(&self.account.data).tickets.get_mut(&id) {
            ticket.tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
            ticket.touch(now_ms);
        }
    }

    /// Somebody puts a ticket into the trash, or calls it spam.
    pub fn put_away(&self, id: i64, as_spam: bool) {
        let now_ms = self.world.clock.now_ms();
        if let Some(ticket) = locked(&self.account.data).tickets.get_mut(&id) {
            (ticket.spam, ticket.deleted) = (as_spam, !as_spam);
            ticket.touch(now_ms);
        }
    }

    /// Gives a ticket to another contact, by the start of its name. False when either is not there.
    pub fn hand_over(&self, id: i64, contact: &str) -> bool {
        let mut data = locked(&self.account.data);
        let to = data.contacts.iter().find(|known| known.name.starts_with(contact)).map(|known| known.id);
        match (data.tickets.get_mut(&id), to) {
            (Some(ticket), Some(to)) => {
                ticket.requester_id = to;
                true
            }
            _ => false,
        }
    }
}
