//! Changes of health: the connector, the effects and the line in the timeline, in one transaction.

use chrono::{DateTime, Utc};
use holdfast_core::{
    ConnectorId, CredentialId, Health, OrgId, Version,
    agent::StopReason,
    credential::Reason,
    event::{About, EventType},
    health::{Effect, Event},
    job::{self, Admission},
    ports::{Changed, Close, Exchange, Failure, StoreError},
};
use sea_orm::{ConnectionTrait, FromQueryResult};
use serde_json::json;

use crate::{
    agent_stops,
    credentials::{lock, lock_of},
    events,
    exchanges::close_with_marks,
    jobs::{end_lane, park_lane, release_lane},
    mirrors, outbox, row,
    sql::{self, failed, micros, values},
    store::Store,
    timeline::{self, Entry},
    webhooks,
};

/// A connector under its credential's lock.
#[derive(FromQueryResult)]
pub(crate) struct Patient {
    pub(crate) id: String,
    org_id: String,
    pub(crate) health: String,
    pub(crate) epoch: i64,
}

/// What happens to it.
pub(crate) struct Change<'a> {
    pub(crate) event: Event,
    pub(crate) reason: Option<Reason>,
    pub(crate) detail: Option<&'a str>,
    pub(crate) at: DateTime<Utc>,
    /// Of the line in the timeline.
    pub(crate) kind: &'a str,
    pub(crate) actor: Option<&'a str>,
    pub(crate) version: Version,
    /// The epoch grows and the line is written even when health stays: a new grant.
    pub(crate) always: bool,
}

/// Reads the connectors under the credential's lock: `condition` is on `connectors`, with `$1`.
pub(crate) async fn patients(
    tx: &impl ConnectionTrait,
    doing: &'static str,
    condition: &str,
    value: &str,
) -> Result<Vec<Patient>, StoreError> {
    let sql = format!("SELECT id, org_id, health, epoch FROM connectors WHERE {condition} ORDER BY id");
    sql::all(tx, doing, sql, values![value]).await
}

/// While only a person helps, the scheduler has nothing to do with a credential: it must not be met at every look.
async fn park(
    tx: &impl ConnectionTrait,
    doing: &'static str,
    credential: &str,
    parked: bool,
) -> Result<(), StoreError> {
    let sql = "UPDATE credentials SET parked = $2 WHERE id = $1";
    sql::run(tx, doing, sql, values![credential, parked]).await.map(|_| ())
}

impl Store {
    pub(crate) async fn declare_failed(
        &self,
        credential: &CredentialId,
        failure: &Failure,
        exchange: Option<(&Exchange, &Close)>,
    ) -> Result<Changed, StoreError> {
        let doing = "declare a connector failed";
        let tx = self.transaction(doing).await?;
        let current = lock(&tx, doing, credential).await?;
        let mut changed = Changed::No;
        let mut sick = Vec::new();
        if current.is_some_and(|found| Version(found.version) == failure.version && found.kind != row::NONE) {
            let change = Change {
                event: Event::Refused,
                reason: Some(failure.reason),
                detail: failure.detail.as_deref(),
                at: failure.at,
                kind: "health",
                actor: None,
                version: failure.version,
                always: false,
            };
            sick = patients(&tx, doing, "credential_id = $1", credential.as_str()).await?;
            for patient in &sick {
                if self.change(&tx, patient, &change).await? == Changed::Yes {
                    changed = Changed::Yes;
                }
            }
            park(&tx, doing, credential.as_str(), true).await?;
        }
        let told = match exchange {
            Some((exchange, close)) => close_with_marks(self, &tx, exchange, close).await?,
            None => Vec::new(),
        };
        tx.commit().await.map_err(failed(doing))?;
        self.credential_changed(credential).await;
        self.events_told(&told);
        if changed == Changed::Yes {
            for patient in &sick {
                self.health_changed(&patient.id.as_str().into()).await;
            }
        }
        Ok(changed)
    }

    pub(crate) async fn declare_healed(
        &self,
        connector: &ConnectorId,
        version: Version,
        event: Event,
        at: DateTime<Utc>,
    ) -> Result<Changed, StoreError> {
        let doing = "declare a connector healed";
        let tx = self.transaction(doing).await?;
        let mut changed = Changed::No;
        let current = lock_of(&tx, doing, connector).await?;
        if let Some(current) = current.filter(|found| Version(found.version) == version) {
            let change =
                Change { event, reason: None, detail: None, at, kind: "health", actor: None, version, always: false };
            for patient in patients(&tx, doing, "id = $1", connector.as_str()).await? {
                // Only what a proof may do: a grant or an admin's act comes another way.
                if row::health(&patient.health, &patient.id)? == Health::AuthFailed {
                    changed = self.change(&tx, &patient, &change).await?;
                    park(&tx, doing, &current.id, false).await?;
                }
            }
        }
        tx.commit().await.map_err(failed(doing))?;
        if changed == Changed::Yes {
            self.connector_changed(connector);
            self.health_changed(connector).await;
        }
        Ok(changed)
    }

    /// Moves one connector as [`Health::next`] says, with a line in the timeline and its effects: agents are stopped and
    /// reactivated, jobs parked and released, endpoints told here; what is left to be carried out goes to the outbox.
    pub(crate) async fn change(
        &self,
        tx: &impl ConnectionTrait,
        patient: &Patient,
        change: &Change<'_>,
    ) -> Result<Changed, StoreError> {
        let from = row::health(&patient.health, &patient.id)?;
        let (to, effects) = from.next(change.event);
        if from == to && !change.always {
            return Ok(Changed::No);
        }
        let epoch = patient.epoch + 1;
        let since = if from == to { "health_since" } else { "$6" };
        let update = format!(
            "UPDATE connectors SET health = $2, health_reason = $3, health_detail = $4, epoch = $5, \
             health_since = {since} WHERE id = $1"
        );
        let mut values = values![
            patient.id.as_str(),
            to.as_str(),
            change.reason.map(Reason::as_str),
            change.detail.map(str::to_owned),
            epoch,
        ];
        if from != to {
            values.push(micros(change.at).into());
        }
        sql::run(tx, "change a connector's health", update, values).await?;

        let org = OrgId::from(patient.org_id.as_str());
        let connector = ConnectorId::from(patient.id.as_str());
        let payload = json!({
            "from": from.as_str(),
            "to": to.as_str(),
            "reason": change.reason.map(Reason::as_str),
            "detail": change.detail,
            "at": micros(change.at),
        });
        if let Some(kind) = EventType::of_health(from, to) {
            let data = |about: &About| about.health(from, to, change.reason, epoch);
            events::tell_of(self, tx, &org, &connector, kind, None, change.at, data).await?;
        }
        if let Some(reason) = StopReason::of(to).filter(|_| effects.contains(&Effect::StopAgents)) {
            agent_stops::stop(self, tx, &connector, reason, change.at).await?;
        }
        if effects.contains(&Effect::ReactivateAgents) {
            agent_stops::reactivate(self, tx, &connector, change.at).await?;
        }
        // Not all at once: whoever meets the rest moves it (see `jobs::lanes`).
        match job::admission(Some(to)) {
            Admission::Run => release_lane(tx, &patient.id, change.at).await?,
            Admission::Park => park_lane(tx, &patient.id, change.at).await?,
            Admission::End(reason) => end_lane(tx, &patient.id, reason, change.at).await?,
        };
        if to == Health::Connected {
            webhooks::recovered(tx, &patient.id, change.at).await?;
            mirrors::begin(tx, &org, &patient.id, change.at).await?;
        } else {
            webhooks::rest(tx, &patient.id).await?;
            mirrors::rest(tx, &patient.id).await?;
        }
        if to == Health::Disconnected {
            mirrors::forget(tx, &patient.id).await?;
        }
        let left: Vec<_> = effects.iter().copied().filter(|effect| !effect.is_immediate()).collect();
        outbox::insert(self, tx, &org, &connector, epoch, &left, &payload, change.at).await?;
        let line = Entry {
            org,
            connector,
            at: change.at,
            kind: change.kind.to_owned(),
            outcome: Some(to.as_str().to_owned()),
            actor: change.actor.map(str::to_owned),
            detail: change.detail.or(change.reason.map(Reason::as_str)).map(str::to_owned),
            duration: None,
            version: Some(change.version),
        };
        timeline::insert(self, tx, &line).await?;
        Ok(Changed::Yes)
    }
}
