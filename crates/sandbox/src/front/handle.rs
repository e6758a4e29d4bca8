//! Front from the side that no caller of it sees.

use std::sync::Arc;

use serde_json::Value;

use super::Front;
use super::data::Company;
use super::state::{FrontOptions, State};
use crate::counters::Counters;
use crate::desk::{World, locked};
use crate::faults::Faults;

/// The tokens of a grant that came without a consent page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontGrant {
    /// Lives an hour.
    pub access_token: String,
    /// Lives six months, unless a refresh in its last day replaces it.
    pub refresh_token: String,
}

/// The Front of a sandbox. Companies are named by their labels: `acme` and `globex` are there from the start. After a reset
/// it is the old one, which nobody reaches any more: ask for it again.
#[derive(Debug, Clone)]
pub struct FrontRig {
    world: Arc<World>,
    front: Arc<Front>,
}

impl FrontRig {
    pub(crate) fn new(world: Arc<World>) -> Self {
        Self { front: world.front(), world }
    }

    fn now_ms(&self) -> i64 {
        self.world.clock.now_ms()
    }

    fn with<T>(&self, company: &str, act: impl FnOnce(&mut Company) -> T) -> Option<T> {
        locked(&self.front.state).companies.get_mut(company).map(act)
    }

    /// One more company, with one admin.
    pub fn add_company(&self, label: &str, name: &str, admin: &str) {
        let now_ms = self.now_ms();
        locked(&self.front.state).found(label, name, &[(admin, "Admin", true)], now_ms);
    }

    /// Its immutable id.
    pub fn company_id(&self, company: &str) -> Option<String> {
        self.with(company, |company| company.id.clone())
    }

    /// Another name for the same company.
    pub fn rename(&self, company: &str, name: &str) {
        self.with(company, |company| name.clone_into(&mut company.name));
    }

    /// Switches ticket statuses on.
    pub fn set_ticketing(&self, company: &str, on: bool) {
        self.with(company, |company| company.ticketing = on);
    }

    /// Requests a minute.
    pub fn set_per_minute(&self, company: &str, requests: u32) {
        self.with(company, |company| company.per_minute = requests);
    }

    /// Mints tokens. `None`: there is no such company.
    pub fn grant(&self, company: &str) -> Option<FrontGrant> {
        let now_ms = self.now_ms();
        let mut state = locked(&self.front.state);
        if !state.companies.contains_key(company) {
            return None;
        }
        let brought = state.grant(company, now_ms);
        Some(FrontGrant { access_token: brought.access_token, refresh_token: brought.refresh_token })
    }

    /// Whether an access token works at this moment.
    pub fn accepts(&self, access_token: &str) -> bool {
        locked(&self.front.state).bearer(access_token, self.now_ms()).is_some()
    }

    /// Whether a refresh token works at this moment.
    pub fn is_alive(&self, refresh_token: &str) -> bool {
        locked(&self.front.state).is_alive(refresh_token, self.now_ms())
    }

    /// How many refresh tokens of that company work.
    pub fn living(&self, company: &str) -> usize {
        locked(&self.front.state).living(company, self.now_ms())
    }

    /// The company removes the app. Answers how many refresh tokens died.
    pub fn remove_app(&self, company: &str) -> usize {
        let now_ms = self.now_ms();
        locked(&self.front.state).remove_app(company, now_ms)
    }

    /// Ends all access tokens now; refresh tokens stay good.
    pub fn expire_access_tokens(&self) {
        locked(&self.front.state).end_access();
    }

    /// Changes how strict it is.
    pub fn set(&self, change: impl FnOnce(&mut FrontOptions)) {
        change(&mut locked(&self.front.state).options);
    }

    /// Its numbers. `rotations` are refreshes that brought another refresh token.
    pub fn counters(&self) -> Counters {
        self.front.counts.read()
    }

    /// Makes or changes trouble.
    pub fn trouble(&self, change: impl FnOnce(&mut Faults)) {
        let mut faults = locked(&self.front.faults);
        change(&mut faults);
        *faults = std::mem::take(&mut *faults).set_at(self.now_ms());
        self.front.gate.set(&faults);
    }

    /// Ends all trouble and releases what is held.
    pub fn calm(&self) {
        self.trouble(|faults| *faults = Faults::default());
    }

    /// The id of the conversation with this number, from 1 on: the first is long, the second was merged into the third.
    pub fn conversation_id(&self, company: &str, number: usize) -> Option<String> {
        self.with(company, |company| Some(company.conversations.get(number.checked_sub(1)?)?.id.clone())).flatten()
    }

    /// A conversation as the API would show it.
    pub fn conversation(&self, company: &str, id: &str) -> Option<Value> {
        self.with(company, |company| company.conversation(id).map(|one| company.show(one, true))).flatten()
    }

    /// Its messages as the API would show them, oldest first, with those that are not processed yet.
    pub fn messages(&self, company: &str, id: &str) -> Vec<Value> {
        let all = self.with(company, |company| {
            let one = company.conversation(id)?;
            Some(one.messages.iter().map(|message| company.show_message(id, message)).collect())
        });
        all.flatten().unwrap_or_default()
    }

    /// Its comments as the API would show them, oldest first.
    pub fn comments(&self, company: &str, id: &str) -> Vec<Value> {
        let all = self.with(company, |company| {
            Some(company.conversation(id)?.comments.iter().map(|comment| company.show_comment(comment)).collect())
        });
        all.flatten().unwrap_or_default()
    }

    /// How many conversations a company has.
    pub fn conversations(&self, company: &str) -> usize {
        self.with(company, |company| company.conversations.len()).unwrap_or_default()
    }

    /// So many more, over the last hours.
    pub fn converse(&self, company: &str, count: i64) {
        let now_ms = self.now_ms();
        locked(&self.front.state).converse_more(company, count, now_ms);
    }

    /// A teammate's id.
    pub fn teammate_id(&self, who: &str) -> Option<String> {
        let state: &State = &locked(&self.front.state);
        state.find_teammate(who).map(|(_, one)| one.id.clone())
    }

    /// Processes what was accepted.
    pub fn process(&self) {
        for company in locked(&self.front.state).companies.values_mut() {
            for message in company.conversations.iter_mut().flat_map(|one| &mut one.messages) {
                message.is_waiting = false;
            }
        }
    }
}
