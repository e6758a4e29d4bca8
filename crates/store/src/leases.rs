//! Table `leases`: the ports [`LeaseStore`] and [`Fences`]. One row per credential that was ever leased; only the
//! database's clock counts.

use std::time::Duration;

use async_trait::async_trait;
use holdfast_core::{
    CredentialId,
    ports::{Acquired, Fences, Lease, LeaseStore, StoreError},
};
use sea_orm::FromQueryResult;

use crate::{
    sql::{self, Number, values},
    store::Store,
};

#[derive(FromQueryResult)]
struct Won {
    fencing_token: i64,
    expires_at_ms: i64,
}

#[derive(FromQueryResult)]
struct Held {
    holder: String,
    fencing_token: i64,
    expires_at_ms: i64,
}

#[async_trait]
impl LeaseStore for Store {
    async fn acquire(&self, credential: &CredentialId, holder: &str, ttl: Duration) -> Result<Acquired, StoreError> {
        let doing = "acquire a lease";
        let now = sql::now_ms(self.backend());
        let take = format!(
            "INSERT INTO leases (credential_id, holder, fencing_token, expires_at_ms) VALUES ($1, $2, 1, {now} + $3) \
             ON CONFLICT (credential_id) DO UPDATE SET holder = excluded.holder, \
             fencing_token = leases.fencing_token + 1, expires_at_ms = excluded.expires_at_ms \
             WHERE leases.expires_at_ms <= {now} RETURNING fencing_token, expires_at_ms"
        );
        let won: Option<Won> = sql::one(self.db(), doing, take, values![credential.as_str(), holder, ms(ttl)]).await?;
        if let Some(Won { fencing_token, expires_at_ms }) = won {
            let holder = holder.to_owned();
            return Ok(Acquired::Yes(Lease { credential: credential.clone(), holder, fencing_token, expires_at_ms }));
        }
        self.held(credential).await
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Option<Lease>, StoreError> {
        let now = sql::now_ms(self.backend());
        let renew = format!(
            "UPDATE leases SET expires_at_ms = {now} + $4 WHERE credential_id = $1 AND holder = $2 \
             AND fencing_token = $3 AND expires_at_ms > {now} RETURNING expires_at_ms AS number"
        );
        let values = values![lease.credential.as_str(), lease.holder.as_str(), lease.fencing_token, ms(ttl)];
        let end: Option<Number> = sql::one(self.db(), "renew a lease", renew, values).await?;
        Ok(end.map(|end| Lease { expires_at_ms: end.number, ..lease.clone() }))
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        // The row stays: the fencing token has to go on growing.
        let release =
            "UPDATE leases SET expires_at_ms = 0 WHERE credential_id = $1 AND holder = $2 AND fencing_token = $3";
        let values = values![lease.credential.as_str(), lease.holder.as_str(), lease.fencing_token];
        sql::run(self.db(), "release a lease", release, values).await.map(|_| ())
    }

    async fn current(&self, credential: &CredentialId) -> Result<Option<Lease>, StoreError> {
        self.row(credential, &format!(" AND expires_at_ms > {}", sql::now_ms(self.backend()))).await
    }
}

#[async_trait]
impl Fences for Store {
    async fn draw(&self, credential: &CredentialId, holder: &str, ttl: Duration) -> Result<Acquired, StoreError> {
        let now = sql::now_ms(self.backend());
        // The row holds nothing: the lease is elsewhere, and its end with it.
        let draw = format!(
            "INSERT INTO leases (credential_id, holder, fencing_token, expires_at_ms) VALUES ($1, $2, 1, 0) \
             ON CONFLICT (credential_id) DO UPDATE SET holder = excluded.holder, \
             fencing_token = leases.fencing_token + 1, expires_at_ms = 0 \
             WHERE leases.expires_at_ms <= {now} RETURNING fencing_token, {now} + $3 AS expires_at_ms"
        );
        let values = values![credential.as_str(), holder, ms(ttl)];
        let drawn: Option<Won> = sql::one(self.db(), "number a lease", draw, values).await?;
        let Some(Won { fencing_token, expires_at_ms }) = drawn else {
            return self.held(credential).await;
        };
        let holder = holder.to_owned();
        Ok(Acquired::Yes(Lease { credential: credential.clone(), holder, fencing_token, expires_at_ms }))
    }

    async fn drawn(&self, credential: &CredentialId) -> Result<Option<Lease>, StoreError> {
        self.row(credential, "").await
    }

    async fn end_of(&self, ttl: Duration) -> Result<i64, StoreError> {
        Ok(self.database_clock().await?.timestamp_millis().saturating_add(ms(ttl)))
    }
}

impl Store {
    async fn row(&self, credential: &CredentialId, condition: &str) -> Result<Option<Lease>, StoreError> {
        let look =
            format!("SELECT holder, fencing_token, expires_at_ms FROM leases WHERE credential_id = $1{condition}");
        let row: Option<Held> = sql::one(self.db(), "look at a lease", look, values![credential.as_str()]).await?;
        Ok(row.map(|Held { holder, fencing_token, expires_at_ms }| Lease {
            credential: credential.clone(),
            holder,
            fencing_token,
            expires_at_ms,
        }))
    }

    async fn held(&self, credential: &CredentialId) -> Result<Acquired, StoreError> {
        let now = sql::now_ms(self.backend());
        let left = format!("SELECT expires_at_ms - {now} AS number FROM leases WHERE credential_id = $1");
        let left: Option<Number> = sql::one(self.db(), "look at a lease", left, values![credential.as_str()]).await?;
        let left = left.map_or(0, |left| left.number.max(0).unsigned_abs());
        Ok(Acquired::Held { remaining: Duration::from_millis(left) })
    }
}

fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 4)
}
