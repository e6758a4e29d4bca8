//! Table `tool_calls`: calls that were made under an idempotency key, so that a repeated one has the same answer and no
//! second effect, also where the provider knows no such key.

use chrono::{DateTime, Utc};
use holdfast_core::{
    OrgId,
    ports::{Changed, StoreError},
};
use sea_orm::FromQueryResult;
use serde_json::Value;

use crate::{
    sql::{self, micros, nonsense, values},
    store::Store,
};

/// What is known of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyUse {
    /// It is new, and belongs to this call from now on.
    New,
    /// It was used for something else.
    Another,
    /// The same call is under way, at a replica that lives.
    UnderWay(Attempts),
    /// The same call was under way at a replica that lives no more.
    Lost(Attempts),
    /// The same call ended, and nobody knows whether it had its effect.
    Unknown(Attempts),
    /// The same call was done, with this answer.
    Done(Value),
}

/// When a call was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempts {
    /// For the first time.
    pub first: DateTime<Utc>,
    /// For the last time.
    pub last: DateTime<Utc>,
}

#[derive(FromQueryResult)]
struct Row {
    request_hash: Vec<u8>,
    state: String,
    result: Option<Value>,
    created_at: DateTime<Utc>,
    taken_at: Option<DateTime<Utc>>,
    lost: bool,
}

impl Store {
    /// Takes the key for a call, if it is free. `request_hash` tells one call from another.
    pub async fn use_key(
        &self,
        org: &OrgId,
        key: &str,
        request_hash: &[u8; 32],
        at: DateTime<Utc>,
    ) -> Result<KeyUse, StoreError> {
        let doing = "use an idempotency key";
        let take = "INSERT INTO tool_calls (org_id, key, request_hash, state, created_at, holder) \
                    VALUES ($1, $2, $3, 'open', $4, $5) ON CONFLICT DO NOTHING";
        let values = values![org.as_str(), key, request_hash.to_vec(), micros(at), self.replica()];
        if sql::run(self.db(), doing, take, values).await? == 1 {
            return Ok(KeyUse::New);
        }
        // Of a replica that names none, only time tells.
        let look = format!(
            "SELECT t.request_hash, t.state, t.result, t.created_at, t.taken_at, \
             (t.holder IS NOT NULL AND t.holder <> $3 AND NOT ({} AND {})) AS lost \
             FROM tool_calls t WHERE t.org_id = $1 AND t.key = $2",
            self.is_alive("t.holder", "$4"),
            self.is_connected("t.holder")
        );
        let values = values![org.as_str(), key, self.replica(), self.alive_ms()];
        let row: Option<Row> = sql::one(self.db(), doing, look, values).await?;
        // Freed between the two: whoever had it did nothing; the caller may come again.
        let Some(row) = row else { return Ok(KeyUse::UnderWay(Attempts { first: at, last: at })) };
        let attempts = Attempts { first: row.created_at, last: row.taken_at.unwrap_or(row.created_at) };
        Ok(match row.state.as_str() {
            _ if row.request_hash != request_hash => KeyUse::Another,
            "open" if row.lost => KeyUse::Lost(attempts),
            "open" => KeyUse::UnderWay(attempts),
            "unknown" => KeyUse::Unknown(attempts),
            "done" => KeyUse::Done(row.result.unwrap_or(Value::Null)),
            _ => return Err(nonsense("tool_calls", "state", key)),
        })
    }

    /// Takes the key once more for the same call, whose last attempt was `seen` and has no known outcome. No: somebody else
    /// has, or the outcome has become known.
    pub async fn use_key_again(
        &self,
        org: &OrgId,
        key: &str,
        seen: Attempts,
        at: DateTime<Utc>,
    ) -> Result<Changed, StoreError> {
        let sql = "UPDATE tool_calls SET state = 'open', taken_at = $4, holder = $5 WHERE org_id = $1 AND key = $2 \
                   AND state IN ('open', 'unknown') AND COALESCE(taken_at, created_at) = $3";
        let values = values![org.as_str(), key, micros(seen.last), micros(at), self.replica()];
        Ok(sql::changed(sql::run(self.db(), "use an idempotency key again", sql, values).await?))
    }

    /// The call was done, with this answer.
    pub async fn keep_answer(&self, org: &OrgId, key: &str, answer: &Value) -> Result<(), StoreError> {
        let sql = "UPDATE tool_calls SET state = 'done', result = $3 WHERE org_id = $1 AND key = $2";
        let values = values![org.as_str(), key, answer.clone()];
        sql::run(self.db(), "keep the answer to a call", sql, values).await.map(|_| ())
    }

    /// The attempt of that moment failed: surely without effect, so that the call may be repeated; or nobody knows. What is
    /// sure of an attempt is not sure of the ones before it: their outcome stays unknown. One that was overtaken by another
    /// has no say.
    pub async fn give_key_up(
        &self,
        org: &OrgId,
        key: &str,
        attempt: DateTime<Utc>,
        surely: bool,
    ) -> Result<(), StoreError> {
        let doing = "give an idempotency key up";
        let values = || values![org.as_str(), key, micros(attempt)];
        let own = "WHERE org_id = $1 AND key = $2 AND state = 'open' AND COALESCE(taken_at, created_at) = $3";
        if surely {
            let forget = format!("DELETE FROM tool_calls {own} AND taken_at IS NULL");
            if sql::run(self.db(), doing, forget, values()).await? > 0 {
                return Ok(());
            }
        }
        let unknown = format!("UPDATE tool_calls SET state = 'unknown' {own}");
        sql::run(self.db(), doing, unknown, values()).await.map(|_| ())
    }

    /// Forgets keys that were first used before this moment. Answers how many.
    pub async fn forget_keys(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        // A run that its job may begin anew does nothing twice, whenever that is. Its id begins the keys of its calls.
        let sql = "DELETE FROM tool_calls WHERE created_at < $1 AND NOT EXISTS (SELECT 1 FROM runs r \
                   JOIN jobs j ON j.id = r.job_id WHERE r.id = substr(tool_calls.key, 1, 36) \
                   AND j.state NOT IN ('done', 'discarded'))";
        sql::run(self.db(), "forget idempotency keys", sql, values![micros(before)]).await
    }
}
