//! Table `incidents`: a provider refuses so many at once that its verdicts are held. One row per OAuth app, the last one; column
//! `provider` has the app's name.

use chrono::{DateTime, Utc};
use holdfast_core::{
    AppId, ConnectorId, CredentialId, Version,
    credential::{Reason, Trouble},
    health::Event,
    ports::{Changed, Incident, StoreError},
};
use sea_orm::FromQueryResult;

use crate::{
    credentials::lock,
    events,
    health::{Change, patients},
    sql::{self, Number, failed, micros, values},
    store::Store,
};

#[derive(FromQueryResult)]
struct Row {
    since: DateTime<Utc>,
    passed_at: Option<DateTime<Utc>>,
    recovered: i64,
    held: i64,
}

/// A provider that refuses so many at once that its verdicts are held.
#[derive(Clone, Debug, PartialEq, Eq, FromQueryResult)]
pub struct OpenIncident {
    /// The OAuth app, as [`AppId`] spells it.
    pub app: String,
    /// Since when.
    pub since: DateTime<Utc>,
    /// Credentials whose verdict is held.
    pub held: i64,
}

/// A verdict that nobody was mailed about yet.
#[derive(FromQueryResult)]
struct Untold {
    connector_id: String,
    credential_id: String,
    epoch: i64,
    reason: String,
}

impl Store {
    /// Credentials whose verdict is held.
    pub async fn held_count(&self) -> Result<u64, StoreError> {
        let sql = "SELECT COUNT(*) AS number FROM credentials WHERE degraded_class = 'held'";
        let count: Option<Number> = sql::one(self.db(), "count held verdicts", sql, values![]).await?;
        Ok(count.map_or(0, |count| count.count()))
    }

    /// OAuth apps whose refusals are held at the moment: since when, and of how many credentials.
    pub async fn open_incidents(&self) -> Result<Vec<OpenIncident>, StoreError> {
        let sql = "SELECT i.provider AS app, i.since, (SELECT COUNT(*) FROM credentials k \
                   WHERE k.provider = i.provider AND k.degraded_class = 'held') AS held \
                   FROM incidents i WHERE i.passed_at IS NULL ORDER BY i.since";
        sql::all(self.db(), "list incidents", sql, values![]).await
    }

    pub(crate) async fn find_incident(&self, app: &AppId) -> Result<Option<Incident>, StoreError> {
        let sql = "SELECT i.since, i.passed_at, i.recovered, (SELECT COUNT(DISTINCT k.id) FROM credentials k \
                   JOIN connectors c ON c.credential_id = k.id \
                   WHERE k.degraded_class = 'held' AND c.health = 'connected' AND k.provider = i.provider) AS held \
                   FROM incidents i WHERE i.provider = $1";
        let row: Option<Row> = sql::one(self.db(), "look for an incident", sql, values![app.to_string()]).await?;
        Ok(row.map(|row| Incident {
            since: row.since,
            passed: row.passed_at.is_some(),
            held: row.held.unsigned_abs(),
            recovered: row.recovered.unsigned_abs(),
        }))
    }

    pub(crate) async fn open_incident(
        &self,
        app: &AppId,
        at: DateTime<Utc>,
        over_before: DateTime<Utc>,
    ) -> Result<Changed, StoreError> {
        let sql = "INSERT INTO incidents (provider, since) VALUES ($1, $2) \
                   ON CONFLICT (provider) DO UPDATE SET since = excluded.since, passed_at = NULL, recovered = 0 \
                   WHERE incidents.passed_at IS NOT NULL OR incidents.since < $3";
        let values = values![app.to_string(), micros(at), micros(over_before)];
        Ok(sql::changed(sql::run(self.db(), "note an incident", sql, values).await?))
    }

    pub(crate) async fn close_incident(&self, app: &AppId, at: DateTime<Utc>) -> Result<Changed, StoreError> {
        let sql = "UPDATE incidents SET passed_at = $2 WHERE provider = $1 AND passed_at IS NULL";
        Ok(sql::changed(sql::run(self.db(), "end an incident", sql, values![app.to_string(), micros(at)]).await?))
    }

    pub(crate) async fn count_recovered(&self, app: &AppId) -> Result<(), StoreError> {
        let sql = "UPDATE incidents SET recovered = recovered + 1 WHERE provider = $1 AND passed_at IS NULL";
        sql::run(self.db(), "note a recovery", sql, values![app.to_string()]).await.map(|_| ())
    }

    /// Each in a transaction of its own. Of one whose mail went out in this very moment the recovery is told, too.
    pub(crate) async fn withdraw_verdicts(
        &self,
        app: &AppId,
        since: DateTime<Utc>,
        retry_at: DateTime<Utc>,
        at: DateTime<Utc>,
    ) -> Result<Vec<ConnectorId>, StoreError> {
        let look = "SELECT c.id AS connector_id, c.credential_id, c.epoch, c.health_reason AS reason \
                    FROM connectors c JOIN credentials k ON k.id = c.credential_id \
                    WHERE k.provider = $1 AND c.health = 'auth_failed' AND c.health_since >= $2 \
                    AND c.health_reason IN ($3, $4) \
                    AND NOT EXISTS (SELECT 1 FROM mail_items i JOIN mails m ON m.id = i.mail_id \
                    WHERE i.connector_id = c.id AND i.epoch = c.epoch AND i.kind = 'needs_you' \
                    AND (m.state IN ('sent', 'sending') OR m.unsure)) ORDER BY c.id";
        let (refused, lost) = (Reason::RefreshRefused.as_str(), Reason::ResponseLost.as_str());
        let values = values![app.to_string(), micros(since), refused, lost];
        let untold: Vec<Untold> = sql::all(self.db(), "look for verdicts to take back", look, values).await?;
        let mut withdrawn = Vec::new();
        for verdict in untold {
            if self.withdraw_verdict(&verdict, retry_at, at).await? == Changed::Yes {
                withdrawn.push(verdict.connector_id.into());
            }
        }
        Ok(withdrawn)
    }

    async fn withdraw_verdict(
        &self,
        verdict: &Untold,
        retry_at: DateTime<Utc>,
        at: DateTime<Utc>,
    ) -> Result<Changed, StoreError> {
        let doing = "take back a verdict";
        let credential = CredentialId::from(verdict.credential_id.as_str());
        let tx = self.transaction(doing).await?;
        let Some(found) = lock(&tx, doing, &credential).await? else { return Ok(Changed::No) };
        let change = Change {
            event: Event::Withdrawn,
            reason: None,
            detail: None,
            at,
            kind: "health",
            actor: None,
            version: Version(found.version),
            always: false,
        };
        let mut changed = Changed::No;
        for patient in patients(&tx, doing, "id = $1", &verdict.connector_id).await? {
            if patient.epoch == verdict.epoch {
                changed = self.change(&tx, &patient, &change).await?;
            }
        }
        if changed == Changed::Yes {
            // What the verdict knew of a lost answer may stand nowhere else.
            let mark = "UPDATE credentials SET degraded_class = $2, degraded_since = $3, retry_at = $4, \
                        answer_lost = (answer_lost OR $5), parked = FALSE WHERE id = $1";
            let lost = verdict.reason == Reason::ResponseLost.as_str();
            let held = Trouble::Held.as_str();
            sql::run(&tx, doing, mark, values![credential.as_str(), held, micros(at), micros(retry_at), lost]).await?;
            events::tell_degraded(self, &tx, &credential, Trouble::Held, at).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        if changed == Changed::Yes {
            self.credential_changed(&credential).await;
            self.health_changed(&verdict.connector_id.as_str().into()).await;
        }
        Ok(changed)
    }
}
