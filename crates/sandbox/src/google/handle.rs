//! Google from the side that no caller of it sees.

use std::sync::Arc;

use serde_json::{Value, json};

use super::consent::consent;
use super::push::{CalendarChannel, GmailWatch};
use super::state::{AUTH, CodeFacts, GoogleOptions, State};
use super::{Google, gmail, seed};
use crate::counters::Counters;
use crate::desk::{World, locked};
use crate::faults::Faults;
use crate::zendesk::consent::ConsentRefused;

/// The tokens of a grant that came without a consent page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoogleGrant {
    /// Lives an hour.
    pub access_token: String,
    /// Lives until it is revoked, or the project's Testing ends it.
    pub refresh_token: String,
}

/// The Google of a sandbox. People are named by id, by address or by the start of a name: `ada`, `bob` and `cleo` are there
/// from the start. After a reset it is the old one, which nobody reaches any more: ask for it again.
#[derive(Debug, Clone)]
pub struct GoogleRig {
    world: Arc<World>,
    google: Arc<Google>,
}

impl GoogleRig {
    pub(crate) fn new(world: Arc<World>) -> Self {
        Self { google: world.google(), world }
    }

    fn now_ms(&self) -> i64 {
        self.world.clock.now_ms()
    }

    fn with<T>(&self, who: &str, act: impl FnOnce(&mut State, &str) -> T) -> Option<T> {
        let mut state = locked(&self.google.state);
        let sub = state.find(who)?.sub.clone();
        Some(act(&mut state, &sub))
    }

    /// A spreadsheet that Ada and Bob may see and change, with one tab, `Orders`.
    pub fn spreadsheet(&self) -> &'static str {
        seed::ORDERS
    }

    /// One more person, with an empty mailbox.
    pub fn add_person(&self, sub: &str, email: &str, name: &str) {
        locked(&self.google.state).add_person(sub, email, name);
    }

    /// Another address and name for the same account. False: there is nobody like that.
    pub fn rename(&self, who: &str, email: &str, name: &str) -> bool {
        self.with(who, |state, sub| {
            if let Some(person) = state.people.get_mut(sub) {
                person.email = email.to_lowercase();
                name.clone_into(&mut person.name);
            }
        })
        .is_some()
    }

    /// Whether the address counts as proven.
    pub fn set_verified(&self, who: &str, verified: bool) {
        self.with(who, |state, sub| {
            if let Some(person) = state.people.get_mut(sub) {
                person.verified = verified;
            }
        });
    }

    /// Allows the authorisation request as that person, with the boxes of these scopes unticked (full names, or what
    /// stands behind `https://www.googleapis.com/auth/`).
    pub fn consent(&self, authorize_url: &str, who: &str, unticked: &[&str]) -> Result<String, ConsentRefused> {
        let off = |scope: &str| unticked.iter().any(|off| scope == *off || scope == format!("{AUTH}{off}"));
        consent(&self.world, authorize_url, Some(who), |scope| !off(scope))
    }

    /// Mints tokens with these scopes, named as in [`Self::consent`]. `None`: there is nobody like that.
    pub fn grant(&self, who: &str, scopes: &[&str]) -> Option<GoogleGrant> {
        let now_ms = self.now_ms();
        let long = |scope: &&str| {
            let whole = *scope == "openid" || scope.starts_with("https://");
            if whole { (*scope).to_owned() } else { format!("{AUTH}{scope}") }
        };
        let scopes: Vec<String> = scopes.iter().map(long).collect();
        let brought = self.with(who, |state, sub| {
            let facts =
                CodeFacts { sub: sub.to_owned(), scopes, redirect_uri: String::new(), challenge: None, offline: true };
            state.grant(&facts, None, now_ms)
        })?;
        Some(GoogleGrant { access_token: brought.access_token, refresh_token: brought.refresh_token? })
    }

    /// Whether an access token works at this moment.
    pub fn accepts(&self, access_token: &str) -> bool {
        locked(&self.google.state).bearer(access_token, self.now_ms()).is_some()
    }

    /// Whether a refresh token works at this moment.
    pub fn is_alive(&self, refresh_token: &str) -> bool {
        locked(&self.google.state).is_alive(refresh_token, self.now_ms())
    }

    /// How many refresh tokens of that person work.
    pub fn living(&self, who: &str) -> usize {
        let now_ms = self.now_ms();
        self.with(who, |state, sub| state.living(sub, now_ms)).unwrap_or_default()
    }

    /// The person removes the app: everything of theirs ends. Answers how many refresh tokens died.
    pub fn revoke(&self, who: &str) -> usize {
        let now_ms = self.now_ms();
        self.with(who, |state, sub| state.revoke_all(sub, now_ms)).unwrap_or_default()
    }

    /// The person changes the password: refresh tokens with a scope of Gmail die.
    pub fn change_password(&self, who: &str) {
        self.with(who, |state, sub| state.kill(sub, |scopes| scopes.iter().any(|scope| scope.contains("mail"))));
    }

    /// Ends all access tokens now; refresh tokens stay good.
    pub fn expire_access_tokens(&self) {
        locked(&self.google.state).end_access();
    }

    /// Changes how strict it is.
    pub fn set(&self, change: impl FnOnce(&mut GoogleOptions)) {
        change(&mut locked(&self.google.state).options);
    }

    /// Its numbers. `rotations` are refreshes that brought a token.
    pub fn counters(&self) -> Counters {
        self.google.counts.read()
    }

    /// Makes or changes trouble.
    pub fn trouble(&self, change: impl FnOnce(&mut Faults)) {
        let mut faults = locked(&self.google.faults);
        change(&mut faults);
        *faults = std::mem::take(&mut *faults).set_at(self.now_ms());
        self.google.gate.set(&faults);
    }

    /// Ends all trouble and releases what is held.
    pub fn calm(&self) {
        self.trouble(|faults| *faults = Faults::default());
    }

    /// The mails of a person, oldest first, as the API holds them, all data in their parts: `id`, `threadId`, `labelIds`,
    /// `payload`.
    pub fn mails(&self, who: &str) -> Vec<Value> {
        let all = self.with(who, |state, sub| {
            let mails = state.people.get(sub).map_or(&[][..], |person| person.mails.as_slice()).iter();
            let shown = mails.map(|mail| {
                json!({"id": mail.id, "threadId": mail.thread_id, "labelIds": mail.labels, "payload": mail.payload})
            });
            shown.collect()
        });
        all.unwrap_or_default()
    }

    /// A mail comes in; `payload` is its MIME tree as the API shows it, with all data in it. Answers its id.
    pub fn receive(&self, who: &str, payload: Value) -> Option<String> {
        let now_ms = self.now_ms();
        self.with(who, |state, sub| gmail::add(state, sub, None, payload, now_ms, &["INBOX", "UNREAD"]).0)
    }

    /// A mail of one text comes in. Answers its id.
    pub fn receive_text(&self, who: &str, headers: &[(&str, &str)], text: &str) -> Option<String> {
        self.receive(who, seed::plain(headers, text))
    }

    /// The watch of a mailbox, as it was asked for last; also one that is over.
    pub fn watch(&self, who: &str) -> Option<GmailWatch> {
        self.with(who, |state, sub| state.people.get(sub).and_then(|person| person.watch.clone())).flatten()
    }

    /// The channels of a calendar, oldest first.
    pub fn channels(&self, who: &str) -> Vec<CalendarChannel> {
        let of = |state: &mut State, sub: &str| state.people.get(sub).map(|person| person.channels.clone());
        self.with(who, of).flatten().unwrap_or_default()
    }

    /// Forgets history and sync tokens of before now.
    pub fn forget_history(&self, who: &str) {
        self.with(who, |state, sub| {
            if let Some(person) = state.people.get_mut(sub) {
                person.oldest_history = person.history_id;
                person.oldest_sync = person.calendar_seq + 1;
                person.calendar_seq += 1;
            }
        });
    }

    /// The events of a person's calendar, as the API shows them.
    pub fn events(&self, who: &str) -> Vec<Value> {
        let all = self.with(who, |state, sub| {
            state.people.get(sub).map(|person| person.events.iter().map(|event| event.body.clone()).collect())
        });
        all.flatten().unwrap_or_default()
    }

    /// The cells of a tab; a formula is `{"formula": "=…"}`.
    pub fn cells(&self, spreadsheet: &str, tab: &str) -> Vec<Vec<Value>> {
        let state = locked(&self.google.state);
        let sheet = state.spreadsheets.get(spreadsheet);
        let found = sheet.and_then(|sheet| sheet.tabs.iter().find(|(name, _)| name == tab));
        found.map(|(_, cells)| cells.clone()).unwrap_or_default()
    }
}
