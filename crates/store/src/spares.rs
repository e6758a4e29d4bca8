//! Table `spares`: the second answer to one refresh token, beside the first one that is stored.

use chrono::{DateTime, Utc};
use holdfast_core::{
    CredentialId, OrgId, TokenSet, Version,
    ports::{Changed, Exchange, StoreError},
    refresh::OutcomeKind,
};
use sea_orm::FromQueryResult;
use serde_json::Value;
use tracing::warn;

use crate::{
    row::{self, open_tokens, seal_tokens},
    seal::Place,
    sql::{self, micros, values},
    store::Store,
};

const FIELD: &str = "spare";

#[derive(FromQueryResult)]
struct Row {
    sealed: Vec<u8>,
    scopes: Value,
    obtained_at: Option<DateTime<Utc>>,
    expires_at: Option<DateTime<Utc>>,
    expires_assumed: bool,
    refresh_expires_at: Option<DateTime<Utc>>,
    refresh_end_fixed: bool,
    base_url: Option<String>,
    found: Option<Value>,
}

impl Store {
    /// Only beside a set that an exchange of the same version brought: a person's grant has nothing to do with this one.
    pub(crate) async fn write_spare(&self, exchange: &Exchange, tokens: &TokenSet) -> Result<Changed, StoreError> {
        let key = self.data_key(self.db(), &exchange.org).await?;
        let tokens = row::as_stored(tokens);
        let place = Place { org: &exchange.org, owner: exchange.credential.as_str(), field: FIELD };
        let sql = "INSERT INTO spares (credential_id, version, sealed, scopes, obtained_at, expires_at, expires_assumed, \
                   refresh_expires_at, refresh_end_fixed, base_url, found) \
                   SELECT k.id, k.version, $3, $4, $5, $6, $7, $8, $9, $10, $13 FROM credentials k \
                   WHERE k.id = $1 AND k.version = $2 + 1 AND k.kind = 'tokens' AND EXISTS (SELECT 1 FROM exchanges e \
                   WHERE e.credential_id = k.id AND e.version = $2 AND e.outcome = $11 AND e.id <> $12) \
                   ON CONFLICT (credential_id) DO UPDATE SET version = excluded.version, sealed = excluded.sealed, \
                   scopes = excluded.scopes, obtained_at = excluded.obtained_at, expires_at = excluded.expires_at, \
                   expires_assumed = excluded.expires_assumed, refresh_expires_at = excluded.refresh_expires_at, \
                   refresh_end_fixed = excluded.refresh_end_fixed, \
                   base_url = excluded.base_url, found = excluded.found";
        let found = row::write_found(&tokens.found);
        let values = values![
            exchange.credential.as_str(),
            exchange.version.0,
            seal_tokens(&key, place, &tokens),
            Value::from(tokens.scopes),
            Some(tokens.obtained_at),
            tokens.expires_at,
            tokens.expires_assumed,
            tokens.refresh_expires_at,
            tokens.refresh_end_fixed,
            tokens.base_url.map(String::from),
            OutcomeKind::Rotated.as_str(),
            exchange.id.as_str(),
            found,
        ];
        let kept = sql::run(self.db(), "keep the second answer to one token", sql, values).await?;
        Ok(sql::changed(kept))
    }

    /// One that does not open is as good as none.
    pub(crate) async fn find_spare(
        &self,
        org: &OrgId,
        credential: &CredentialId,
        version: Version,
    ) -> Result<Option<TokenSet>, StoreError> {
        let sql = "SELECT sealed, scopes, obtained_at, expires_at, expires_assumed, refresh_expires_at, \
                   refresh_end_fixed, base_url, found FROM spares WHERE credential_id = $1 AND version = $2";
        let values = values![credential.as_str(), version.0];
        let row: Option<Row> = sql::one(self.db(), "look for a second answer", sql, values).await?;
        let Some(row) = row else { return Ok(None) };
        let key = self.data_key(self.db(), org).await?;
        let place = Place { org, owner: credential.as_str(), field: FIELD };
        let Ok((access_token, refresh_token)) = open_tokens(&key, place, &row.sealed) else {
            warn!(credential.id = %credential, "the second answer to a token cannot be opened");
            return Ok(None);
        };
        Ok(Some(TokenSet {
            access_token,
            refresh_token,
            obtained_at: row.obtained_at.map_or(DateTime::UNIX_EPOCH, micros),
            expires_at: row.expires_at,
            expires_assumed: row.expires_assumed,
            refresh_expires_at: row.refresh_expires_at,
            refresh_end_fixed: row.refresh_end_fixed,
            scopes: serde_json::from_value(row.scopes).unwrap_or_default(),
            base_url: row.base_url.as_deref().and_then(|url| url.parse().ok()),
            found: row::read_found(row.found).unwrap_or_default(),
        }))
    }
}
