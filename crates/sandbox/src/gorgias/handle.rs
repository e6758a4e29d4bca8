//! One Gorgias account from the side that no caller of the provider sees.

use std::sync::Arc;

use serde_json::Value;

use super::account::{Place, Rules};
use super::seed;
use super::tokens::CodeFacts;
use crate::counters::Counters;
use crate::desk::{World, locked};
use crate::faults::{Canned, Faults};
use crate::ledger::Ledger;

/// A token answer, and which grant it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GorgiasGrant {
    /// The grant's number in this account.
    pub grant: u64,
    /// The access token.
    pub access_token: String,
    /// Only with the scope `offline`.
    pub refresh_token: Option<String>,
}

/// An account of the sandbox. People are named by id, address or the start of a name: `ada` is an administrator, `gus` an
/// agent, `lia` a lead. After a reset it is the old one, which nobody reaches any more: ask for it again.
///
/// Of [`Faults`], those that concern large bodies (`api_refuses_after`, `api_echo`, `api_download`) do nothing here.
#[derive(Debug, Clone)]
pub struct Gorgias {
    world: Arc<World>,
    place: Arc<Place>,
}

impl Gorgias {
    pub(crate) fn new(world: Arc<World>, place: Arc<Place>) -> Self {
        Self { world, place }
    }

    /// The subdomain.
    pub fn name(&self) -> &str {
        &self.place.name
    }

    /// What stands for `https://{name}.gorgias.com`, without a slash at the end.
    pub fn url(&self) -> String {
        format!("{}/gorgias/{}", self.world.start.url, self.place.name)
    }

    /// Mints a token set for this person with these scopes, space separated. `None` when there is no such person.
    pub fn grant(&self, user: &str, scope: &str) -> Option<GorgiasGrant> {
        let user_id = locked(&self.place.data).user_named(user)?.id;
        let facts = CodeFacts { user_id, scope: scope.to_owned(), redirect_uri: String::new(), nonce: None };
        let (now_ms, access_secs) = (self.world.clock.now_ms(), self.place.rules().access_secs);
        let issued = locked(&self.place.tokens).new_grant(&self.place.name, &facts, None, access_secs, now_ms);
        let (grant, access_token, refresh_token) = (issued.grant, issued.access_token, issued.refresh_token);
        Some(GorgiasGrant { grant, access_token, refresh_token })
    }

    /// Address and key of a person, as the page of the REST API shows them. `None` when there is no such person.
    pub fn api_key(&self, user: &str) -> Option<(String, String)> {
        locked(&self.place.data).user_named(user).map(|user| (user.email.clone(), user.api_key.clone()))
    }

    /// The key is made anew: the old one is over at once. Answers the new one.
    pub fn reset_key(&self, user: &str) -> Option<String> {
        let mut data = locked(&self.place.data);
        let user = data.user_named(user)?;
        user.api_key = seed::new_key();
        Some(user.api_key.clone())
    }

    /// The person is gone, or comes back; keys and tokens answer 401 meanwhile. False when there is no such person.
    pub fn set_active(&self, user: &str, active: bool) -> bool {
        locked(&self.place.data).user_named(user).map(|user| user.active = active).is_some()
    }

    /// The person's number. `None` when there is no such person.
    pub fn user_id(&self, user: &str) -> Option<i64> {
        locked(&self.place.data).user_named(user).map(|user| user.id)
    }

    /// Revokes one grant, or all. Answers how many token sets died.
    pub fn revoke(&self, grant: Option<u64>) -> u64 {
        let died = locked(&self.place.tokens).revoke(grant, self.world.clock.now_ms());
        self.place.counts.revocations.by(died);
        died
    }

    /// Ends all access tokens now; their refresh tokens stay good.
    pub fn expire_access_tokens(&self) {
        locked(&self.place.tokens).expire_access(self.world.clock.now_ms());
    }

    /// Whether an access token works at this moment.
    pub fn accepts(&self, access_token: &str) -> bool {
        locked(&self.place.tokens).bearer(access_token, self.world.clock.now_ms()).is_some()
    }

    /// How it behaves.
    pub fn rules(&self) -> Rules {
        self.place.rules()
    }

    /// Changes how it behaves.
    pub fn set_rules(&self, change: impl FnOnce(&mut Rules)) {
        change(&mut locked(&self.place.rules));
    }

    /// Its numbers.
    pub fn counters(&self) -> Counters {
        self.place.counts.read()
    }

    /// Everything it issued and was shown, with the tokens themselves.
    pub fn ledger(&self) -> Ledger {
        locked(&self.place.tokens).ledger()
    }

    /// Makes or changes trouble.
    pub fn trouble(&self, change: impl FnOnce(&mut Faults)) {
        let mut faults = locked(&self.place.faults);
        change(&mut faults);
        *faults = std::mem::take(&mut *faults).set_at(self.world.clock.now_ms());
        self.place.gate.set(&faults);
    }

    /// API calls whose path has this part are answered so.
    pub fn answer_at(&self, part: &str, mut canned: Canned) {
        canned.begin(self.world.clock.now_ms());
        locked(&self.place.odd_answers).push((part.to_owned(), canned));
    }

    /// Ends all trouble and releases what is held.
    pub fn calm(&self) {
        locked(&self.place.odd_answers).clear();
        self.trouble(|faults| *faults = Faults::default());
    }

    /// A ticket by itself, with its messages.
    pub fn ticket(&self, id: i64) -> Option<Value> {
        locked(&self.place.data).whole_ticket(id)
    }

    /// Ids of the tickets that were not thrown away, the last changed first.
    pub fn ticket_ids(&self) -> Vec<i64> {
        let data = locked(&self.place.data);
        let mut all: Vec<&Value> =
            data.tickets.values().filter(|ticket| ticket["trashed_datetime"].is_null()).collect();
        all.sort_by_key(|ticket| {
            let at = ticket["updated_datetime"].as_str().unwrap_or_default().to_owned();
            std::cmp::Reverse((at, ticket["id"].as_i64()))
        });
        all.into_iter().filter_map(|ticket| ticket["id"].as_i64()).collect()
    }

    /// The HTTP integrations, as the API shows them.
    pub fn integrations(&self) -> Vec<Value> {
        locked(&self.place.data).integrations.clone()
    }

    /// Changes them, as people there may do at any time; and Gorgias itself, after too many failures.
    pub fn change_integrations(&self, change: impl FnOnce(&mut Vec<Value>)) {
        change(&mut locked(&self.place.data).integrations);
    }

    /// Changes a ticket, as people there may do at any time. False when there is no such ticket.
    pub fn change_ticket(&self, id: i64, change: impl FnOnce(&mut Value)) -> bool {
        let mut data = locked(&self.place.data);
        let Some(ticket) = data.tickets.get_mut(&id) else { return false };
        change(ticket);
        data.touch(id, self.world.clock.now_ms());
        true
    }

    /// The same, without its being noticed as a change.
    pub fn change_quietly(&self, id: i64, change: impl FnOnce(&mut Value)) {
        if let Some(ticket) = locked(&self.place.data).tickets.get_mut(&id) {
            change(ticket);
        }
    }

    /// Adds seeded tickets, made at this moment.
    pub fn add_tickets(&self, count: u32) {
        let now_ms = self.world.clock.now_ms();
        let mut data = locked(&self.place.data);
        for _ in 0..count {
            seed::add(&mut data, now_ms);
        }
    }

    /// Changes a message. False when there is no such message.
    pub fn change_message(&self, id: i64, change: impl FnOnce(&mut Value)) -> bool {
        let mut data = locked(&self.place.data);
        data.messages.iter_mut().find(|message| message["id"] == id).map(change).is_some()
    }

    /// The customer of a ticket goes on writing, by this channel.
    pub fn write(&self, ticket: i64, channel: &str, times: usize) {
        let now_ms = self.world.clock.now_ms();
        let mut data = locked(&self.place.data);
        let Some(customer) = data.tickets.get(&ticket).map(|ticket| ticket["customer"].clone()) else { return };
        let Some(agent) = data.users.first().cloned() else { return };
        let said = seed::Said { channel, by_agent: false, note: false, text: "And another thing." };
        for _ in 0..times {
            let message = seed::message(&mut data, ticket, &said, &customer, &agent, now_ms);
            data.add_message(ticket, message, now_ms);
        }
    }

    /// The first customer whose name begins so.
    pub fn customer(&self, name: &str) -> Option<Value> {
        let data = locked(&self.place.data);
        let begins = |customer: &&Value| customer["name"].as_str().is_some_and(|own| own.starts_with(name));
        data.customers.iter().find(begins).cloned()
    }
}
