//! Table `credentials`: the port [`CredentialStore`], and the conditional write that protects a credential.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use holdfast_core::{
    AppId, ConnectorId, Credential, CredentialId, ExchangeId, OrgId, Secret, Snapshot, TokenSet, Version,
    credential::{Backoff, Trouble},
    health::Event,
    ports::{
        Begun, Changed, Close, CredentialStore, Exchange, Failure, Holder, Incident, Lease, Loss, OpenExchange,
        Rotation, StoreError, Stored,
    },
    provider::Found,
    refresh::{OutcomeKind, timing},
};
use sea_orm::{ConnectionTrait, DatabaseTransaction, FromQueryResult};

use crate::{
    events,
    exchanges::whole_ms,
    patience::Patient,
    row::{self, Columns, Row},
    sql::{self, failed, micros, values},
    store::Store,
};

/// A credential whose row does not move until the transaction ends.
#[derive(FromQueryResult)]
pub(crate) struct Locked {
    pub(crate) id: String,
    pub(crate) org_id: String,
    pub(crate) version: i64,
    pub(crate) kind: String,
}

/// The connector as the closing of its exchange found it, under the credential's lock.
#[derive(FromQueryResult)]
struct Beside {
    app: Option<String>,
    provider: String,
    account: String,
    name: String,
    health: String,
    health_reason: Option<String>,
    health_detail: Option<String>,
    health_since: DateTime<Utc>,
    epoch: i64,
}

/// Why a success was not taken.
#[derive(FromQueryResult)]
struct NotTaken {
    kind: String,
    version: i64,
    outcome: Option<String>,
}

#[async_trait]
impl CredentialStore for Store {
    async fn load(&self, connector: &ConnectorId) -> Result<Option<Snapshot>, StoreError> {
        let sql = format!("{} WHERE c.id = $1", row::SELECT);
        let row: Option<Row> = sql::one(self.db(), "read a connector", sql, values![connector.as_str()]).await?;
        row.map(|row| Ok(row.view(&self.inner.sealer)?.snapshot)).transpose()
    }

    async fn begin(&self, exchange: &Exchange) -> Result<Begun, StoreError> {
        self.begin_exchange(exchange).await
    }

    async fn extend(&self, exchange: &ExchangeId, lease: &Lease) -> Result<(), StoreError> {
        let sql = "UPDATE exchanges SET lease_expires_at_ms = $2 WHERE id = $1 AND closed_at IS NULL";
        let values = values![exchange.as_str(), lease.expires_at_ms];
        sql::run(self.db(), "note a renewed lease", sql, values).await.map(|_| ())
    }

    async fn store_rotation(&self, exchange: &Exchange, rotation: &Rotation) -> Result<Stored, StoreError> {
        let doing = "store a rotated token set";
        let tx = self.transaction(doing).await?;
        let secret = Secret::Tokens(row::as_stored(&rotation.tokens));
        let key = self.data_key(&tx, &exchange.org).await?;
        let columns = Columns::of(&secret, &key, &exchange.org, exchange.credential.as_str())
            .ok_or_else(|| StoreError::new(doing))?;
        let version = exchange.version.next();
        let due_at = rotation.due_at.map(micros);
        let write = WriteSecret { credential: exchange.credential.as_str(), version, columns, due_at, at: rotation.at };
        // A disconnected connector's credential is no token set any more.
        let condition = format!(" AND version = {} AND kind = 'tokens'", exchange.version.0);
        if write.run(&tx, doing, &condition).await? == 0 {
            return self.not_taken(tx, exchange, rotation).await;
        }
        let beside = close_as(&tx, exchange, rotation, OutcomeKind::Rotated).await?;
        tx.commit().await.map_err(failed(doing))?;
        self.credential_changed(&exchange.credential).await;
        let Some(beside) = beside else {
            // The journal row went away with its connector, and another one shares the credential.
            return Ok(self
                .load(&exchange.connector)
                .await?
                .map_or(Stored::Gone, |found| Stored::Yes(Box::new(found))));
        };
        let id = exchange.connector.as_str();
        Ok(Stored::Yes(Box::new(Snapshot {
            health: row::health(&beside.health, id)?,
            health_reason: row::reason(beside.health_reason.as_deref(), id)?,
            connector: exchange.connector.clone(),
            org: exchange.org.clone(),
            account: beside.account,
            name: beside.name,
            health_detail: beside.health_detail,
            health_since: beside.health_since,
            epoch: beside.epoch,
            credential: Credential {
                id: exchange.credential.clone(),
                app: row::app_of(
                    beside.app.as_deref(),
                    &beside.provider,
                    exchange.org.as_str(),
                    exchange.credential.as_str(),
                )?,
                version,
                secret,
                rotated_at: Some(micros(rotation.at)),
                due_at,
                backoff: Backoff::default(),
                degraded: None,
                answer_lost: false,
            },
            provider: beside.provider,
        })))
    }

    async fn close(&self, exchange: &Exchange, close: &Close) -> Result<(), StoreError> {
        self.close_exchange(exchange, close).await
    }

    async fn close_lost(&self, open: &ExchangeId, loss: Loss, at: DateTime<Utc>) -> Result<Changed, StoreError> {
        self.close_lost_exchange(open.as_str(), loss, at).await
    }

    async fn holder(&self, lease: &Lease) -> Result<Holder, StoreError> {
        self.holder_of(lease).await
    }

    async fn lost(&self, limit: u64) -> Result<Vec<(ConnectorId, OpenExchange)>, StoreError> {
        self.lost_exchanges(limit).await
    }

    async fn keep_spare(&self, exchange: &Exchange, tokens: &TokenSet) -> Result<Changed, StoreError> {
        self.write_spare(exchange, tokens).await
    }

    async fn spare(
        &self,
        org: &OrgId,
        credential: &CredentialId,
        version: Version,
    ) -> Result<Option<TokenSet>, StoreError> {
        self.find_spare(org, credential, version).await
    }

    async fn fail(
        &self,
        credential: &CredentialId,
        failure: &Failure,
        exchange: Option<(&Exchange, &Close)>,
    ) -> Result<Changed, StoreError> {
        self.declare_failed(credential, failure, exchange).await
    }

    async fn heal(
        &self,
        connector: &ConnectorId,
        version: Version,
        event: Event,
        at: DateTime<Utc>,
    ) -> Result<Changed, StoreError> {
        self.declare_healed(connector, version, event, at).await
    }

    async fn keep_found(
        &self,
        connector: &ConnectorId,
        version: Version,
        found: &Found,
    ) -> Result<Changed, StoreError> {
        let sql = "UPDATE credentials SET base_url = COALESCE($3, base_url), found = $4 WHERE version = $2 \
                   AND id = (SELECT credential_id FROM connectors WHERE id = $1) AND kind = 'tokens'";
        let base_url = found.base_url.as_ref().map(ToString::to_string);
        let values = values![connector.as_str(), version.0, base_url, row::write_found(&found.values)];
        if sql::run(self.db(), "keep what was found", sql, values).await? == 0 {
            return Ok(Changed::No);
        }
        self.connector_changed(connector);
        Ok(Changed::Yes)
    }

    async fn postpone(
        &self,
        connector: &ConnectorId,
        trouble: Trouble,
        now: DateTime<Utc>,
        until: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let doing = "let a connector rest";
        let tx = self.transaction(doing).await?;
        let Some(locked) = lock_of(&tx, doing, connector).await? else {
            return tx.rollback().await.map_err(failed(doing));
        };
        let unmarked = "SELECT id FROM credentials WHERE id = $1 AND degraded_class IS NULL";
        let unmarked: Option<sql::Id> = sql::one(&tx, doing, unmarked, values![locked.id.as_str()]).await?;
        let sql = "UPDATE credentials SET retry_at = $4, degraded_class = $2, \
                   degraded_since = CASE WHEN degraded_class = $2 THEN degraded_since ELSE $3 END \
                   WHERE id = $1 AND due_at <= $3 AND (retry_at IS NULL OR retry_at <= $3)";
        let values = values![locked.id.as_str(), trouble.as_str(), micros(now), micros(until)];
        let rests = sql::run(&tx, doing, sql, values).await? > 0;
        let mut told = Vec::new();
        if rests && unmarked.is_some() {
            told = events::tell_degraded(self, &tx, &locked.id.into(), trouble, now).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        self.events_told(&told);
        if rests {
            self.connector_changed(connector);
        }
        Ok(())
    }

    async fn incident(&self, app: &AppId) -> Result<Option<Incident>, StoreError> {
        self.find_incident(app).await
    }

    async fn begin_incident(
        &self,
        app: &AppId,
        at: DateTime<Utc>,
        over_before: DateTime<Utc>,
    ) -> Result<Changed, StoreError> {
        self.open_incident(app, at, over_before).await
    }

    async fn end_incident(&self, app: &AppId, at: DateTime<Utc>) -> Result<Changed, StoreError> {
        self.close_incident(app, at).await
    }

    async fn note_recovered(&self, app: &AppId) -> Result<(), StoreError> {
        self.count_recovered(app).await
    }

    async fn withdraw(
        &self,
        app: &AppId,
        since: DateTime<Utc>,
        retry_at: DateTime<Utc>,
        at: DateTime<Utc>,
    ) -> Result<Vec<ConnectorId>, StoreError> {
        self.withdraw_verdicts(app, since, retry_at, at).await
    }
}

impl Store {
    /// Ours was not the successor of what is stored: closes the row and says why.
    async fn not_taken(
        &self,
        tx: Patient<DatabaseTransaction>,
        exchange: &Exchange,
        rotation: &Rotation,
    ) -> Result<Stored, StoreError> {
        let doing = "drop a token set that came too late";
        let look = "SELECT k.kind, k.version, e.outcome FROM credentials k LEFT JOIN exchanges e ON e.id = $2 \
                    WHERE k.id = $1";
        let values = values![exchange.credential.as_str(), exchange.id.as_str()];
        let Some(found) = sql::one::<NotTaken>(&tx, doing, look, values).await? else {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(Stored::Gone);
        };
        if found.outcome.as_deref() == Some(OutcomeKind::Rotated.as_str()) {
            // Ours is stored already: the answer to that commit did not reach us, and we were called again.
            tx.rollback().await.map_err(failed(doing))?;
            if found.version == exchange.version.next().0 && found.kind == row::TOKENS {
                let stored = self.load(&exchange.connector).await?;
                return Ok(stored.map_or(Stored::Gone, |stored| Stored::Yes(Box::new(stored))));
            }
            return Ok(if found.kind == row::NONE { Stored::Gone } else { Stored::Superseded });
        }
        let (outcome, stored) = if found.kind == row::NONE {
            (OutcomeKind::Discarded, Stored::Gone)
        } else {
            (OutcomeKind::Superseded, Stored::Superseded)
        };
        close_as(&tx, exchange, rotation, outcome).await?;
        tx.commit().await.map_err(failed(doing))?;
        Ok(stored)
    }
}

/// Closes the row of a success, whoever closed it before; answers the connector beside it.
async fn close_as(
    tx: &impl ConnectionTrait,
    exchange: &Exchange,
    rotation: &Rotation,
    outcome: OutcomeKind,
) -> Result<Option<Beside>, StoreError> {
    // RETURNING may name no other table on SQLite, but ask others.
    let beside = ["provider", "account", "name", "health", "health_reason", "health_detail", "health_since", "epoch"]
        .map(|column| format!("(SELECT c.{column} FROM connectors c WHERE c.id = exchanges.connector_id) AS {column}"))
        .join(", ");
    let close = format!(
        "UPDATE exchanges SET closed_at = $2, outcome = $3, detail = NULL, sends = $4, duration_ms = $5 \
         WHERE id = $1 RETURNING {beside}, \
         (SELECT k.provider FROM credentials k WHERE k.id = exchanges.credential_id) AS app"
    );
    let values = values![
        exchange.id.as_str(),
        micros(rotation.at),
        outcome.as_str(),
        i64::from(rotation.sends),
        whole_ms(rotation.duration),
    ];
    sql::one(tx, "close a successful exchange", close, values).await
}

/// A new secret for a credential; clears back-off, the mark beside health and `answer_lost`.
pub(crate) struct WriteSecret<'a> {
    pub(crate) credential: &'a str,
    pub(crate) version: Version,
    pub(crate) columns: Columns,
    pub(crate) due_at: Option<DateTime<Utc>>,
    pub(crate) at: DateTime<Utc>,
}

impl WriteSecret<'_> {
    /// Writes it where the condition holds; answers how many rows that were.
    pub(crate) async fn run(
        self,
        tx: &impl ConnectionTrait,
        doing: &'static str,
        condition: &str,
    ) -> Result<u64, StoreError> {
        let write = format!(
            "UPDATE credentials SET kind = $2, sealed = $3, version = $4, fingerprint = $5, scopes = $6, \
             obtained_at = $7, expires_at = $8, expires_assumed = $9, refresh_expires_at = $10, base_url = $11, \
             rotated_at = $12, due_at = $13, ends_at = $14, found = $16, \
             warn_at = CASE WHEN ends_at = $14 THEN warn_at ELSE $15 END, retry_at = NULL, failures = 0, degraded_class = NULL, \
             degraded_since = NULL, answer_lost = FALSE, parked = FALSE WHERE id = $1{condition}"
        );
        let columns = self.columns;
        let values = values![
            self.credential,
            columns.kind,
            columns.sealed,
            self.version.0,
            columns.fingerprint,
            columns.scopes,
            columns.obtained_at,
            columns.expires_at,
            columns.expires_assumed,
            columns.refresh_expires_at,
            columns.base_url,
            micros(self.at),
            self.due_at.map(micros),
            columns.ends_at,
            columns.ends_at.and_then(|ends_at| timing::warn_at(ends_at, self.at)).map(micros),
            columns.found,
        ];
        sql::run(tx, doing, write, values).await
    }
}

/// Locks the credential: from here to the transaction's end, nothing of it or of its connectors' health moves.
pub(crate) async fn lock(
    tx: &impl ConnectionTrait,
    doing: &'static str,
    credential: &CredentialId,
) -> Result<Option<Locked>, StoreError> {
    let lock = sql::for_update(tx.get_database_backend());
    let sql = format!("SELECT id, org_id, version, kind FROM credentials WHERE id = $1{lock}");
    sql::one(tx, doing, sql, values![credential.as_str()]).await
}

/// Locks the credential of this connector.
pub(crate) async fn lock_of(
    tx: &impl ConnectionTrait,
    doing: &'static str,
    connector: &ConnectorId,
) -> Result<Option<Locked>, StoreError> {
    let lock = sql::for_update(tx.get_database_backend());
    let sql = format!(
        "SELECT id, org_id, version, kind FROM credentials \
         WHERE id = (SELECT credential_id FROM connectors WHERE id = $1){lock}"
    );
    sql::one(tx, doing, sql, values![connector.as_str()]).await
}
