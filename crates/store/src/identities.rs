//! Tables `identities` and `provider_sign_ins`: people as the operator's identity provider knows them, and who is on the way
//! there. As everything about signing in, it belongs to an address, whichever orgs that is in.

use chrono::{DateTime, Utc};
use holdfast_core::ports::{Changed, StoreError};
use sea_orm::FromQueryResult;
use serde_json::json;

use crate::{
    mails::{MailKind, Tell},
    sql::{self, failed, micros, values},
    store::Store,
};

/// Somebody as an identity provider knows them.
#[derive(Clone, Copy, Debug)]
pub struct NewIdentity<'a> {
    /// The provider.
    pub issuer: &'a str,
    /// Never given to anybody else there.
    pub subject: &'a str,
    /// Whose it is here, in lower case.
    pub email: &'a str,
    /// What people call the provider.
    pub provider: &'a str,
}

#[derive(FromQueryResult)]
struct Row {
    email: String,
}

/// Whose accounts at identity providers are to be unlinked.
#[derive(Clone, Copy, Debug)]
pub struct Unlink<'a> {
    /// A row of theirs, by its id: who is told.
    pub user: &'a str,
    /// In lower case.
    pub email: &'a str,
    /// What people call the provider.
    pub provider: &'a str,
    /// The session of whoever does it themselves: it stays. `None`: the command line does it.
    pub session: Option<&'a str>,
}

#[derive(FromQueryResult)]
struct LinkedRow {
    created_at: DateTime<Utc>,
}

#[derive(FromQueryResult)]
struct WayRow {
    sealed_next: Vec<u8>,
}

/// Where the sealed path belongs.
const NEXT: &str = "provider-sign-in";

impl Store {
    /// The address that this identity was linked to.
    pub async fn find_identity(&self, issuer: &str, subject: &str) -> Result<Option<String>, StoreError> {
        let sql = "SELECT email FROM identities WHERE issuer = $1 AND subject = $2";
        let row: Option<Row> = sql::one(self.db(), "look for an identity", sql, values![issuer, subject]).await?;
        Ok(row.map(|row| row.email))
    }

    /// Links it to its address; `user`, who is told. `No`: the address is linked to another identity of the provider.
    pub async fn link_identity(
        &self,
        new: &NewIdentity<'_>,
        user: &str,
        told: Option<&Tell>,
        at: DateTime<Utc>,
    ) -> Result<Changed, StoreError> {
        let doing = "link an identity";
        let tx = self.transaction(doing).await?;
        let sql = "INSERT INTO identities (issuer, subject, email, created_at) VALUES ($1, $2, $3, $4) \
                   ON CONFLICT DO NOTHING";
        let linked = sql::run(&tx, doing, sql, values![new.issuer, new.subject, new.email, micros(at)]).await?;
        if linked > 0 {
            self.audit_address(&tx, new.email, "person.linked", true).await?;
        }
        if let Some(tell) = told.filter(|_| linked > 0) {
            let about = json!({ "what": "linked", "provider": new.provider });
            self.tell_person(&tx, tell, user, MailKind::SecondFactor, &about).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        Ok(sql::changed(linked))
    }

    /// Since when this address is linked to an account at the provider.
    pub async fn linked_since(&self, issuer: &str, email: &str) -> Result<Option<DateTime<Utc>>, StoreError> {
        let sql = "SELECT created_at FROM identities WHERE issuer = $1 AND email = $2";
        let row: Option<LinkedRow> = sql::one(self.db(), "look for an identity", sql, values![issuer, email]).await?;
        Ok(row.map(|row| row.created_at))
    }

    /// Unlinks an address from whatever accounts it is linked to, also at providers of before, and signs out browsers that
    /// came in by them. The next sign-in there links it anew. `No`: it was not linked.
    pub async fn unlink_identities(&self, unlink: Unlink<'_>, tell: &Tell) -> Result<Changed, StoreError> {
        let doing = "unlink an identity";
        let tx = self.transaction(doing).await?;
        let gone = sql::run(&tx, doing, "DELETE FROM identities WHERE email = $1", values![unlink.email]).await?;
        if gone > 0 {
            let sessions = "DELETE FROM browser_sessions WHERE by_provider AND id <> $2 \
                            AND user_id IN (SELECT id FROM users WHERE email = $1)";
            sql::run(&tx, doing, sessions, values![unlink.email, unlink.session.unwrap_or_default()]).await?;
            self.audit_address(&tx, unlink.email, "person.unlinked", unlink.session.is_some()).await?;
            let about = json!({ "what": "unlinked", "provider": unlink.provider });
            self.tell_person(&tx, tell, unlink.user, MailKind::SecondFactor, &about).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        Ok(sql::changed(gone))
    }

    /// Somebody goes to the provider, and comes back with this cookie, by its SHA-256. What is over goes.
    pub async fn begin_provider_sign_in(
        &self,
        cookie: &[u8; 32],
        next: &str,
        at: DateTime<Utc>,
        expires_at: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let doing = "send somebody to the identity provider";
        sql::run(self.db(), doing, "DELETE FROM provider_sign_ins WHERE expires_at <= $1", values![micros(at)]).await?;
        let sql = "INSERT INTO provider_sign_ins (cookie_hash, sealed_next, expires_at) VALUES ($1, $2, $3)";
        let sealed = self.inner.sealer.seal_for_instance(NEXT, next.as_bytes());
        sql::run(self.db(), doing, sql, values![cookie.to_vec(), sealed, micros(expires_at)]).await.map(|_| ())
    }

    /// They are back, once; answers where they go on. `None`: it was too long ago, or they came back before.
    pub async fn take_provider_sign_in(
        &self,
        cookie: &[u8; 32],
        at: DateTime<Utc>,
    ) -> Result<Option<String>, StoreError> {
        let doing = "take somebody back from the identity provider";
        let sql = "DELETE FROM provider_sign_ins WHERE cookie_hash = $1 AND expires_at > $2 RETURNING sealed_next";
        let row: Option<WayRow> = sql::one(self.db(), doing, sql, values![cookie.to_vec(), micros(at)]).await?;
        row.map(|row| self.open_path(doing, NEXT, &row.sealed_next)).transpose()
    }
}
