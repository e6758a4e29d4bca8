//! Calls to token endpoints: one exchange, a code's redemption, a revocation.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use http::{HeaderMap, header};
use secrecy::SecretString;
use tracing::warn;

use super::Engine;
use crate::{
    exchange::{self, Grant, Outcome, Refusal},
    oauth_app::AppId,
    ports::{HttpFailure, OAuthApp},
    provider::{OAuth2, Provider},
};

/// A token endpoint's answer longer than this is not one.
const LONGEST_ANSWER_BYTES: usize = 256 * 1024;
/// An answer takes a while, and a `Date` has whole seconds; a clock that is kept right is closer.
const FAR_OFF: TimeDelta = TimeDelta::seconds(30);
/// Somebody waits for the page.
const CLIENT_CHECK: Duration = Duration::from_secs(5);

/// Whether a provider takes a client secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientTaken {
    /// It does.
    Yes,
    /// It refuses the client.
    No(Refusal),
    /// It did not say, for this reason.
    Unknown(String),
}

impl Engine {
    /// Sends one token request and reads its answer.
    pub(crate) async fn call(
        &self,
        provider: &dyn Provider,
        facts: &OAuth2,
        app: &OAuthApp,
        secret: Option<&SecretString>,
        grant: &Grant<'_>,
        timeout: Duration,
    ) -> Outcome {
        let request = exchange::token_request(facts, app, secret, grant, timeout);
        let sent = exchange::secrets_of(&request, secret, grant);
        let answer = async {
            let response = self.ports.http.send(request).await?;
            let (status, headers) = (response.status, response.headers.clone());
            let body = response.bytes(LONGEST_ANSWER_BYTES).await?;
            Ok((status, headers, body))
        };
        let answered = tokio::select! {
            answered = answer => answered,
            () = self.ports.clock.sleep(timeout) => {
                Err(HttpFailure::after_send("the token endpoint did not answer in time"))
            }
        };
        match answered {
            Ok((status, headers, body)) => {
                let now = self.ports.clock.now();
                self.look_at_clock(provider.about().id, &headers, now);
                exchange::read(facts, Some(provider), &sent, status, &headers, &body, now)
            }
            Err(failure) => exchange::failed(&failure),
        }
    }

    /// A clock that is far off harms no credential (lives are counted from our receipt), but what people read, and what
    /// the provider signs and dates.
    fn look_at_clock(&self, provider: &'static str, headers: &HeaderMap, now: DateTime<Utc>) {
        let date = headers.get(header::DATE).and_then(|date| DateTime::parse_from_rfc2822(date.to_str().ok()?).ok());
        let Some(date) = date else { return };
        let ahead = date.with_timezone(&Utc) - now;
        self.ports.meter.clock_ahead(provider, ahead);
        if ahead.abs() > FAR_OFF && self.is_news(AppId::instance(provider), "clock") {
            let (secs, how) =
                (ahead.num_seconds().abs(), if ahead > TimeDelta::zero() { "behind" } else { "ahead of" });
            warn!(provider, "our clock is {secs} s {how} the provider's: run NTP on this machine");
        }
    }

    /// Exchanges the code of a consent, with both of the app's secrets if the first one is refused.
    pub async fn redeem(&self, provider: &dyn Provider, facts: &OAuth2, app: &OAuthApp, grant: &Grant<'_>) -> Outcome {
        let timeout = self.settings.exchange_timeout;
        let started = self.ports.clock.uptime();
        let first = self.call(provider, facts, app, app.client_secret.as_ref(), grant, timeout).await;
        let outcome = match (&first, &app.next_client_secret) {
            (Outcome::AppBroken(_), Some(next)) => self.call(provider, facts, app, Some(next), grant, timeout).await,
            _ => first,
        };
        let took = self.ports.clock.uptime().saturating_sub(started);
        self.ports.meter.exchange(provider.about().id, outcome.kind(), took);
        outcome
    }

    /// Asks a token endpoint whether it takes this client secret, with a code that nobody was given: a client is looked at
    /// before its grant (RFC 6749 section 5.2), and no grant can be harmed.
    pub async fn try_client(
        &self,
        provider: &dyn Provider,
        facts: &OAuth2,
        app: &OAuthApp,
        secret: Option<&SecretString>,
        grant: &Grant<'_>,
    ) -> ClientTaken {
        match self.call(provider, facts, app, secret, grant, CLIENT_CHECK).await {
            Outcome::Rotated(_) | Outcome::Rejected(_) => ClientTaken::Yes,
            Outcome::AppBroken(refusal) => match refusal.code.as_deref() {
                Some("invalid_client" | "unauthorized_client") => ClientTaken::No(refusal),
                _ => ClientTaken::Unknown(refusal.words()),
            },
            Outcome::Busy(refusal) | Outcome::Transient(refusal) | Outcome::Ambiguous(refusal) => {
                ClientTaken::Unknown(refusal.words())
            }
        }
    }

    /// Gives a token back, as far as the provider lets us; a failure is only logged.
    pub async fn revoke(&self, facts: &OAuth2, app: &OAuthApp, token: &SecretString) -> bool {
        let Some(request) = exchange::revoke(facts, app, token, Duration::from_secs(5)) else {
            return false;
        };
        match self.ports.http.send(request).await {
            Ok(response) if response.status.is_success() => true,
            Ok(response) => {
                warn!(status = response.status.as_u16(), "the provider did not revoke a token");
                false
            }
            Err(failure) => {
                warn!(error = %failure, "could not revoke a token");
                false
            }
        }
    }
}
