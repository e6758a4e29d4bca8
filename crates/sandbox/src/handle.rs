//! One helpdesk from the side that no caller of the provider sees.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::counters::Counters;
use crate::desk::{Desk, World, locked};
use crate::events::{self, EventOrder};
use crate::faults::Faults;
use crate::ledger::Ledger;
use crate::zendesk::data::ADMIN;
use crate::zendesk::token_endpoint::{DEFAULT_ACCESS_SECS, DEFAULT_REFRESH_SECS};
use crate::zendesk::tokens::Lives;
use crate::zendesk::webhooks::ZendeskWebhook;
use crate::zendesk::{scene, seed};

/// A grant without a consent page. What is absent gets the usual value.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GrantRequest {
    /// An id, an address or the start of a name; the first administrator when absent.
    pub user: Option<String>,
    /// Space separated; `read write` when absent.
    pub scope: Option<String>,
    /// Life of the access token in seconds, free of Zendesk's bounds; 1800 when absent.
    pub expires_in: Option<u32>,
    /// Life of the refresh token in seconds; 30 days when absent.
    pub refresh_expires_in: Option<u32>,
}

/// A token answer, and which grant it belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TokenAnswer {
    /// The grant's number in this helpdesk.
    pub grant: u64,
    /// The access token.
    pub access_token: String,
    /// Always `bearer`.
    pub token_type: &'static str,
    /// Space separated.
    pub scope: String,
    /// Seconds.
    pub expires_in: i64,
    /// The refresh token.
    pub refresh_token: String,
    /// Seconds.
    pub refresh_token_expires_in: i64,
}

/// A helpdesk of the sandbox. After a reset it is the old one, which nobody reaches any more: ask for it again.
#[derive(Debug, Clone)]
pub struct Helpdesk {
    world: Arc<World>,
    desk: Arc<Desk>,
}

impl Helpdesk {
    pub(crate) fn new(world: Arc<World>, desk: Arc<Desk>) -> Self {
        Self { world, desk }
    }

    /// The subdomain.
    pub fn name(&self) -> &str {
        &self.desk.name
    }

    /// What stands for `https://{name}.zendesk.com`, without a slash at the end.
    pub fn url(&self) -> &str {
        &self.desk.url
    }

    /// Zendesk's immutable number of the account.
    pub fn account_id(&self) -> i64 {
        self.desk.account_id
    }

    /// Mints a token set. `None` when there is no such user.
    pub fn grant(&self, request: &GrantRequest) -> Option<TokenAnswer> {
        let user = request.user.as_deref().unwrap_or(ADMIN);
        let user_id = locked(&self.desk.data).find_user(user)?;
        let scope = request.scope.clone().unwrap_or_else(|| "read write".to_owned());
        let expires_in = request.expires_in.map_or(DEFAULT_ACCESS_SECS, i64::from);
        let refresh_token_expires_in = request.refresh_expires_in.map_or(DEFAULT_REFRESH_SECS, i64::from);
        let lives = Lives { access_secs: Some(expires_in), refresh_secs: Some(refresh_token_expires_in) };
        let now_ms = self.world.clock.now_ms();
        let pair = locked(&self.desk.tokens).new_grant(&self.desk.name, user_id, scope, lives, None, now_ms);
        Some(TokenAnswer {
            grant: pair.grant,
            access_token: pair.access_token,
            token_type: "bearer",
            scope: pair.scope,
            expires_in,
            refresh_token: pair.refresh_token?,
            refresh_token_expires_in,
        })
    }

    /// Its webhooks, oldest first.
    pub fn webhooks(&self) -> Vec<ZendeskWebhook> {
        locked(&self.desk.data).webhooks.clone()
    }

    /// Changes them, as an administrator there may do at any time.
    pub fn change_webhooks(&self, change: impl FnOnce(&mut Vec<ZendeskWebhook>)) {
        change(&mut locked(&self.desk.data).webhooks);
    }

    /// Its numbers.
    pub fn counters(&self) -> Counters {
        self.desk.counts.read()
    }

    /// Everything it issued and was shown, with the tokens themselves.
    pub fn ledger(&self) -> Ledger {
        locked(&self.desk.tokens).ledger()
    }

    /// Whether an access token works at this moment.
    pub fn accepts(&self, access_token: &str) -> bool {
        let now_ms = self.world.clock.now_ms();
        locked(&self.desk.tokens).bearer(access_token, now_ms).is_some()
    }

    /// Revokes one grant, or all, as the customer may do at any time. Answers how many token sets died.
    pub fn revoke(&self, grant: Option<u64>) -> u64 {
        let died = locked(&self.desk.tokens).revoke(grant, self.world.clock.now_ms());
        self.desk.counts.revocations.by(died);
        died
    }

    /// Ends all access tokens now; their refresh tokens stay good. Answers how many.
    pub fn expire_access_tokens(&self) -> u64 {
        locked(&self.desk.tokens).expire_access(self.world.clock.now_ms())
    }

    /// The trouble that is set, with what is left of its counts.
    pub fn faults(&self) -> Faults {
        locked(&self.desk.faults).clone()
    }

    /// Makes or changes trouble.
    pub fn trouble(&self, change: impl FnOnce(&mut Faults)) {
        let mut faults = locked(&self.desk.faults);
        change(&mut faults);
        *faults = std::mem::take(&mut *faults).set_at(self.world.clock.now_ms());
        self.desk.gate.set(&faults);
    }

    /// Ends all trouble and releases what is held. Delays that have begun run out.
    pub fn calm(&self) {
        self.trouble(|faults| *faults = Faults::default());
    }

    /// Adds seeded tickets: more than 1,000 of them show where search ends.
    pub fn add_tickets(&self, count: u32) {
        seed::add_tickets(&mut locked(&self.desk.data), i64::from(count));
    }

    /// A customer writes: one more urgent ticket. Answers its number. No webhook hears of it, see [`Self::tell`].
    pub fn write_ticket(&self) -> i64 {
        scene::write(&self.desk.name, &mut locked(&self.desk.data), self.world.clock.now_ms())
    }

    /// Sends an event of a ticket (`ticket.created`) to the active webhooks that have subscribed to it, each as often as Zendesk
    /// would. Answers how many there are.
    pub async fn tell(&self, kind: &str, ticket: i64) -> usize {
        let event = format!("zen:event-type:{kind}");
        let mut subscribed = self.webhooks();
        subscribed.retain(|webhook| webhook.status == "active" && webhook.subscriptions.contains(&event));
        for webhook in &subscribed {
            let order = EventOrder {
                provider: "zendesk".to_owned(),
                url: webhook.endpoint.clone(),
                secret: webhook.secret.clone(),
                kind: kind.to_owned(),
                subject: ticket.to_string(),
                ..EventOrder::default()
            };
            // Whether it was taken is between the two.
            let _attempts = events::send(&self.world, &order).await;
        }
        subscribed.len()
    }

    /// A ticket as the API would show it.
    pub fn ticket(&self, id: i64) -> Option<Value> {
        let data = locked(&self.desk.data);
        data.tickets.get(&id).map(|ticket| ticket.to_json(&self.desk.url))
    }

    /// The comments of a ticket as the API would show them, oldest first.
    pub fn comments(&self, id: i64) -> Vec<Value> {
        let data = locked(&self.desk.data);
        let ticket = data.tickets.get(&id);
        ticket.map_or_else(Vec::new, |ticket| {
            ticket.comments.iter().map(crate::zendesk::data::Comment::to_json).collect()
        })
    }
}
