//! Test connection: what the provider says about the current credential, and what follows from it.

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, Utc};

use super::{AuthError, Engine, Need};
use crate::{
    api_client::{ApiClient, RateRoom, Refused},
    credential::{Fingerprint, Snapshot},
    error::{Error, ErrorKind},
    health::{Event, Health},
    id::ConnectorId,
    ports::Trigger,
    provider::Identity,
};

/// How often a test call that said nothing is repeated: after 5, 10, 20, ... seconds, ten minutes in all.
const HEAL_TRIES: u32 = 7;

/// What a test found.
#[derive(Debug)]
pub struct TestReport {
    /// The connector after the test.
    pub snapshot: Arc<Snapshot>,
    /// Who the credential speaks for, or why that is not known.
    pub identity: Result<Identity, Error>,
    /// How long the provider's answer took.
    pub latency: Duration,
    /// When it was asked.
    pub checked_at: DateTime<Utc>,
    /// What is left of the rate limit.
    pub rate_room: Option<RateRoom>,
}

impl Engine {
    /// Tests the connector: refreshes first when the token is stale (a stale token is no verdict), makes the
    /// provider's who-am-I call, and feeds the state machine with what it learned: a connector in `auth_failed` that
    /// the provider takes again is `connected` afterwards.
    pub async fn test(self: &Arc<Self>, connector: &ConnectorId) -> Result<TestReport, AuthError> {
        let checked_at = self.now();
        let before = self.known(connector).await?;
        let (identity, latency, rate_room) = match self.fresh(connector, &Need::Revived, Trigger::Test).await {
            Ok(snapshot) => self.who_am_i(&snapshot).await?,
            Err(error @ (AuthError::NotFound | AuthError::Pending | AuthError::Disconnected)) => return Err(error),
            Err(error) => {
                let kind = match &error {
                    AuthError::AuthFailed { .. } => ErrorKind::AuthFailed,
                    _ => ErrorKind::Unavailable,
                };
                (Err(self.failure(&before, kind, error)), Duration::ZERO, None)
            }
        };
        Ok(TestReport { snapshot: self.known(connector).await?, identity, latency, checked_at, rate_room })
    }

    async fn who_am_i(
        self: &Arc<Self>,
        snapshot: &Arc<Snapshot>,
    ) -> Result<(Result<Identity, Error>, Duration, Option<RateRoom>), AuthError> {
        // While it is connected, a 401 goes the usual way: fallback, and the verdict if it is one.
        let api = match snapshot.health {
            Health::AuthFailed => ApiClient::fixed(self, snapshot),
            _ => ApiClient::new(self, snapshot),
        };
        let Some(api) = api else {
            return Err(AuthError::Unavailable {
                class: crate::credential::Trouble::Ours,
                detail: format!("this instance has no adapter for {}", snapshot.provider),
                retry_after: Duration::from_mins(1),
            });
        };
        let started = self.ports.clock.uptime();
        let mut identity = api.identity().await;
        let latency = self.ports.clock.uptime().saturating_sub(started);
        if let Err(error) = &identity
            && error.source.as_ref().and_then(|source| source.downcast_ref()) == Some(&Refused::InASuccess)
            && snapshot.health != Health::AuthFailed
        {
            identity = self.after_refusal(&api, snapshot, identity).await;
        }
        if identity.is_ok() && snapshot.health == Health::AuthFailed {
            self.mark_healed(snapshot, Event::TestPassed).await;
        }
        Ok((identity, latency, api.rate_room()))
    }

    /// What a 401 leads to, for a refusal that no status tells: another token, or the verdict.
    async fn after_refusal(
        self: &Arc<Self>,
        api: &ApiClient,
        snapshot: &Snapshot,
        refused: Result<Identity, Error>,
    ) -> Result<Identity, Error> {
        let Some(rejected) = snapshot.credential.secret.bearer().map(Fingerprint::of) else { return refused };
        match self.fresh(&snapshot.connector, &Need::Not(rejected), Trigger::Rejected).await {
            Ok(_) => api.identity().await,
            Err(AuthError::StillGood) => refused,
            Err(error) => {
                let kind = match &error {
                    AuthError::AuthFailed { .. } => ErrorKind::AuthFailed,
                    _ => ErrorKind::Unavailable,
                };
                Err(self.failure(snapshot, kind, error))
            }
        }
    }

    /// The provider's word on the snapshot's credential as it is.
    pub(super) async fn test_call(self: &Arc<Self>, snapshot: &Snapshot) -> Result<(), Error> {
        match ApiClient::fixed(self, snapshot) {
            Some(api) => api.identity().await.map(|_| ()),
            None => Ok(()),
        }
    }

    /// Heals a connector in `auth_failed` if the test call passes with this snapshot's credential. False: the test call
    /// said nothing, and may say something later.
    pub(super) async fn heal(self: &Arc<Self>, snapshot: &Snapshot, event: Event) -> bool {
        match self.test_call(snapshot).await {
            Ok(()) => {
                self.mark_healed(snapshot, event).await;
                true
            }
            Err(error) => error.kind == ErrorKind::AuthFailed,
        }
    }

    /// After a success that was stored in spite of a failure mark: heals the connector once its test call has passed. One
    /// that said nothing is repeated beside the caller: the provider has taken the grant, nobody should have to give it
    /// again.
    pub(super) async fn heal_in_time(self: &Arc<Self>, snapshot: &Snapshot) {
        if self.heal(snapshot, Event::LateSuccess).await {
            return;
        }
        let (engine, snapshot) = (Arc::clone(self), snapshot.clone());
        tokio::spawn(async move {
            for round in 0..HEAL_TRIES {
                engine.ports.clock.sleep(Duration::from_secs(5 << round)).await;
                if engine.heal(&snapshot, Event::LateSuccess).await {
                    return;
                }
            }
        });
    }

    async fn mark_healed(&self, snapshot: &Snapshot, event: Event) {
        let (store, version) = (&self.ports.store, snapshot.credential.version);
        let at = self.now();
        self.insist("heal a connector", || store.heal(&snapshot.connector, version, event, at)).await;
        self.forget(&snapshot.connector);
    }

    fn failure(&self, snapshot: &Snapshot, kind: ErrorKind, error: AuthError) -> Error {
        let about = self.providers.find(&snapshot.provider).map(|provider| provider.about());
        let message = match &error {
            AuthError::AuthFailed { reason, .. } => reason.sentence(about.map_or("The provider", |about| about.name)),
            other => other.to_string(),
        };
        Error {
            kind,
            retry: crate::error::Retry::Never,
            provider: about.map_or("provider", |about| about.id),
            operation: "test",
            message,
            source: Some(Box::new(error)),
        }
    }
}
