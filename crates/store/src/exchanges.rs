//! Table `exchanges`: the journal. At most one row per credential is open; an index of the schema sees to it.

use std::time::Duration;

use chrono::{DateTime, Utc};
use holdfast_core::{
    ConnectorId, Health, OrgId, Version,
    ports::{Begun, Changed, Close, Exchange, Holder, Lease, Loss, OpenExchange, StoreError, Trigger},
    refresh::OutcomeKind,
};
use sea_orm::{ConnectionTrait, FromQueryResult};

use crate::{
    events,
    sql::{self, Number, micros, values},
    store::Store,
};

/// A row that closes while we look is met again as an open one or as none; twice in a row is somebody's bad luck.
const BEGIN_TRIES: u32 = 3;

/// The credential at the moment when a row could not be opened, and the open row, if there is one.
#[derive(FromQueryResult)]
struct Why {
    version: i64,
    health: String,
    id: Option<String>,
    holder: Option<String>,
    holder_alive: bool,
    holder_connected: bool,
    lease_over_for_ms: Option<i64>,
}

/// An open row of somebody who seems lost.
#[derive(FromQueryResult)]
struct LostRow {
    id: String,
    connector_id: String,
    holder: String,
    holder_alive: bool,
    holder_connected: bool,
    lease_over_for_ms: i64,
}

#[derive(FromQueryResult)]
struct HolderRow {
    alive: bool,
    connected: bool,
    exchanging: bool,
}

impl Store {
    /// Exchanges that are journalled open.
    pub async fn open_exchange_count(&self) -> Result<u64, StoreError> {
        let sql = "SELECT COUNT(*) AS number FROM exchanges WHERE closed_at IS NULL";
        let count: Option<Number> = sql::one(self.db(), "count open exchanges", sql, values![]).await?;
        Ok(count.map_or(0, |count| count.count()))
    }

    pub(crate) async fn begin_exchange(&self, exchange: &Exchange) -> Result<Begun, StoreError> {
        let doing = "journal an exchange";
        // The lock makes the statement wait for a write of the credential that is under way, and look again after it:
        // else it could pass the unique index behind the closing row and start from a version that is spent. Rows are
        // locked in the order of FROM, the credential first as everywhere.
        let open = format!(
            "INSERT INTO exchanges (id, org_id, connector_id, credential_id, version, holder, fencing_token, \
             lease_expires_at_ms, \"trigger\", started_at) \
             SELECT $1, c.org_id, c.id, k.id, k.version, $5, $6, $7, $8, $9 \
             FROM credentials k JOIN connectors c ON c.credential_id = k.id \
             WHERE c.id = $2 AND k.id = $3 AND k.version = $4 AND k.kind = 'tokens' \
             AND (c.health = 'connected' OR (c.health = 'auth_failed' AND $8 = 'test')){} \
             ON CONFLICT DO NOTHING",
            sql::for_share(self.backend())
        );
        let values = opening(exchange);
        for _ in 0..BEGIN_TRIES {
            if sql::run(self.db(), doing, open.clone(), values.clone()).await? == 1 {
                return Ok(Begun::Yes);
            }
            let Some(why) = self.why_not(exchange).await? else {
                return Ok(Begun::Moved);
            };
            let usable = match Health::parse(&why.health) {
                Some(Health::Connected) => true,
                Some(Health::AuthFailed) => exchange.trigger == Trigger::Test,
                _ => false,
            };
            if Version(why.version) != exchange.version || !usable {
                return Ok(Begun::Moved);
            }
            if let (Some(id), Some(holder), Some(over)) = (why.id, why.holder, why.lease_over_for_ms) {
                return Ok(Begun::Other(OpenExchange {
                    id: id.into(),
                    holder,
                    holder_alive: why.holder_alive,
                    holder_connected: why.holder_connected,
                    lease_over_for: Duration::from_millis(over.max(0).unsigned_abs()),
                }));
            }
        }
        Ok(Begun::Moved)
    }

    async fn why_not(&self, exchange: &Exchange) -> Result<Option<Why>, StoreError> {
        let (alive, connected) = (self.is_alive("e.holder", "$3"), self.is_connected("e.holder"));
        let now = sql::now_ms(self.backend());
        let look = format!(
            "SELECT k.version, c.health, e.id, e.holder, {now} - e.lease_expires_at_ms AS lease_over_for_ms, \
             {alive} AS holder_alive, {connected} AS holder_connected \
             FROM connectors c JOIN credentials k ON k.id = c.credential_id \
             LEFT JOIN exchanges e ON e.credential_id = k.id AND e.closed_at IS NULL \
             WHERE c.id = $1 AND k.id = $2"
        );
        let values = values![exchange.connector.as_str(), exchange.credential.as_str(), self.alive_ms()];
        sql::one(self.db(), "look at the open exchange", look, values).await
    }

    pub(crate) async fn holder_of(&self, lease: &Lease) -> Result<Holder, StoreError> {
        let look = format!(
            "SELECT {} AS alive, {} AS connected, \
             EXISTS (SELECT 1 FROM exchanges e WHERE e.credential_id = $2 AND e.closed_at IS NULL) AS exchanging",
            self.is_alive("$1", "$3"),
            self.is_connected("$1")
        );
        let values = values![lease.holder.as_str(), lease.credential.as_str(), self.alive_ms()];
        let doing = "look at the holder of a lease";
        let found: Option<HolderRow> = sql::one(self.db(), doing, look, values).await?;
        let found = found.ok_or_else(|| StoreError::new(doing))?;
        Ok(Holder { alive: found.alive, connected: found.connected, exchanging: found.exchanging })
    }

    pub(crate) async fn lost_exchanges(&self, limit: u64) -> Result<Vec<(ConnectorId, OpenExchange)>, StoreError> {
        let look = format!(
            "SELECT id, connector_id, holder, holder_alive, holder_connected, lease_over_for_ms FROM ( \
             SELECT e.id, e.connector_id, e.holder, {} AS holder_alive, {} AS holder_connected, \
             {} - e.lease_expires_at_ms AS lease_over_for_ms \
             FROM exchanges e WHERE e.closed_at IS NULL) open \
             WHERE (holder = $2 AND lease_over_for_ms > 0) \
             OR (holder <> $2 AND NOT (holder_alive AND holder_connected)) ORDER BY id LIMIT $3",
            self.is_alive("e.holder", "$1"),
            self.is_connected("e.holder"),
            sql::now_ms(self.backend())
        );
        let values = values![self.alive_ms(), self.replica(), i64::try_from(limit).unwrap_or(i64::MAX)];
        let lost: Vec<LostRow> = sql::all(self.db(), "look for exchanges of lost owners", look, values).await?;
        let open = |row: LostRow| OpenExchange {
            id: row.id.into(),
            holder: row.holder,
            holder_alive: row.holder_alive,
            holder_connected: row.holder_connected,
            lease_over_for: Duration::from_millis(row.lease_over_for_ms.max(0).unsigned_abs()),
        };
        Ok(lost.into_iter().map(|row| (row.connector_id.as_str().into(), open(row))).collect())
    }

    pub(crate) async fn close_exchange(&self, exchange: &Exchange, close: &Close) -> Result<(), StoreError> {
        let doing = "close an exchange";
        let tx = self.transaction(doing).await?;
        let told = close_with_marks(self, &tx, exchange, close).await?;
        tx.commit().await.map_err(sql::failed(doing))?;
        self.events_told(&told);
        if close.marks.is_some() {
            self.credential_changed(&exchange.credential).await;
        }
        Ok(())
    }

    pub(crate) async fn close_lost_exchange(
        &self,
        id: &str,
        loss: Loss,
        at: DateTime<Utc>,
    ) -> Result<Changed, StoreError> {
        let doing = "close the exchange of a lost owner";
        let tx = self.transaction(doing).await?;
        let mark = "UPDATE credentials SET answer_lost = TRUE \
                    WHERE id = (SELECT credential_id FROM exchanges WHERE id = $1 AND closed_at IS NULL) \
                    AND version = (SELECT version FROM exchanges WHERE id = $1) RETURNING id";
        let marked: Option<sql::Id> = sql::one(&tx, doing, mark, values![id]).await?;
        let mut values = values![id, micros(at), OutcomeKind::OwnerLost.as_str()];
        // Its owner may have come back since it was looked at: it will settle the row itself, and may hold the new set.
        let so_still = match loss {
            Loss::Forgotten => {
                values.extend(values![self.replica()]);
                "holder = $4".to_owned()
            }
            Loss::Silent | Loss::CutOff => {
                values.extend(values![self.alive_ms()]);
                let alive = self.is_alive("exchanges.holder", "$4");
                let connected = self.is_connected("exchanges.holder");
                if loss == Loss::Silent { format!("NOT {alive}") } else { format!("NOT ({alive} AND {connected})") }
            }
        };
        let close = format!(
            "UPDATE exchanges SET closed_at = $2, outcome = $3 WHERE id = $1 AND closed_at IS NULL AND {so_still}"
        );
        if sql::run(&tx, doing, close, values).await? == 0 {
            tx.rollback().await.map_err(sql::failed(doing))?;
            return Ok(Changed::No);
        }
        tx.commit().await.map_err(sql::failed(doing))?;
        if let Some(credential) = marked {
            self.credential_changed(&credential.id.into()).await;
        }
        Ok(Changed::Yes)
    }
}

/// Marks the credential, if it is still at the exchange's version, and closes the row. A row that was closed for its
/// owner is closed again: the owner knows better. One that is not there is written as closed. Answers who was told of it.
pub(crate) async fn close_with_marks(
    store: &Store,
    tx: &impl ConnectionTrait,
    exchange: &Exchange,
    close: &Close,
) -> Result<Vec<OrgId>, StoreError> {
    let doing = "close an exchange";
    let mut told = Vec::new();
    if let Some(marks) = &close.marks {
        let unmarked = format!(
            "SELECT id FROM credentials WHERE id = $1 AND version = $2 AND kind = 'tokens' AND degraded_class IS NULL{}",
            sql::for_update(tx.get_database_backend())
        );
        let key = values![exchange.credential.as_str(), exchange.version.0];
        if sql::one::<sql::Id>(tx, doing, unmarked, key).await?.is_some() {
            told = events::tell_degraded(store, tx, &exchange.credential, marks.trouble, close.at).await?;
        }
        // An answer that may be lost stays lost until a success is stored.
        let mark = "UPDATE credentials SET \
                    degraded_since = CASE WHEN degraded_class = $3 THEN degraded_since ELSE $4 END, \
                    degraded_class = $3, retry_at = $5, failures = $6, answer_lost = (answer_lost OR $7) \
                    WHERE id = $1 AND version = $2 AND kind = 'tokens'";
        let values = values![
            exchange.credential.as_str(),
            exchange.version.0,
            marks.trouble.as_str(),
            micros(close.at),
            micros(marks.retry_at),
            i64::from(marks.failures),
            marks.answer_lost,
        ];
        sql::run(tx, doing, mark, values).await?;
    }
    let row = "UPDATE exchanges SET closed_at = $2, outcome = $3, detail = $4, sends = $5, duration_ms = $6 \
               WHERE id = $1 AND (closed_at IS NULL OR outcome = 'owner_lost')";
    let values = values![
        exchange.id.as_str(),
        micros(close.at),
        close.outcome.as_str(),
        close.detail.clone(),
        i64::from(close.sends),
        whole_ms(close.duration),
    ];
    if sql::run(tx, doing, row, values).await? > 0 {
        return Ok(told);
    }
    // No such row, so far. The statement that opens it may have been given up and be on its way still: written now, as
    // closed, it takes that one's place; if it commits in this very moment, it is closed then. An open row of a living
    // replica that nobody works on would stay for ever.
    let instead = "INSERT INTO exchanges (id, org_id, connector_id, credential_id, version, holder, fencing_token, \
                   lease_expires_at_ms, \"trigger\", started_at, closed_at, outcome, sends, duration_ms) \
                   SELECT $1, c.org_id, c.id, c.credential_id, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13 \
                   FROM connectors c WHERE c.id = $2 AND c.credential_id = $3 \
                   ON CONFLICT (id) DO UPDATE SET closed_at = excluded.closed_at, outcome = excluded.outcome, \
                   sends = excluded.sends, duration_ms = excluded.duration_ms WHERE exchanges.closed_at IS NULL";
    let mut values = opening(exchange);
    values.extend(values![micros(close.at), close.outcome.as_str(), i64::from(close.sends), whole_ms(close.duration),]);
    sql::run(tx, doing, instead, values).await?;
    Ok(told)
}

/// `$1` to `$9` of the statements that write the row of an exchange.
fn opening(exchange: &Exchange) -> Vec<sea_orm::Value> {
    values![
        exchange.id.as_str(),
        exchange.connector.as_str(),
        exchange.credential.as_str(),
        exchange.version.0,
        exchange.lease.holder.as_str(),
        exchange.lease.fencing_token,
        exchange.lease.expires_at_ms,
        exchange.trigger.as_str(),
        micros(exchange.started_at),
    ]
}

pub(crate) fn whole_ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
