//! Passwords, and table `password_resets`: who has said that theirs is forgotten.

use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::ports::{Changed, StoreError};
use sea_orm::{ConnectionTrait, FromQueryResult};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use crate::{
    audit::CHANGED,
    browsers, half_sign_ins,
    invitations::{mint, subject},
    mails::{MailKind, Tell},
    sql::{self, failed, micros, values},
    store::Store,
};

/// Resets that are over are told as such for so long.
const KEPT: TimeDelta = TimeDelta::days(60);
/// In the audit log: by the link of a mail, and so by whoever reads it.
const RESET: &str = "password.reset";

/// A reset.
#[derive(Clone, Debug)]
pub struct Reset {
    /// Its id.
    pub id: String,
    /// Whose, in lower case.
    pub email: String,
    /// Until when.
    pub expires_at: DateTime<Utc>,
    /// It has set a password.
    pub used: bool,
    /// The password was changed another way since.
    pub voided: bool,
}

impl Reset {
    /// Whether it can set a password at this moment.
    pub fn stands(&self, at: DateTime<Utc>) -> bool {
        !self.used && !self.voided && self.expires_at > at
    }
}

/// What became of a new password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResetDone {
    /// It is set; so many rows of the address have it.
    Yes(usize),
    /// The link is over, or there is nobody any more.
    No,
}

#[derive(FromQueryResult)]
struct Row {
    id: String,
    email: String,
    expires_at: DateTime<Utc>,
    used_at: Option<DateTime<Utc>>,
    voided_at: Option<DateTime<Utc>>,
}

impl From<Row> for Reset {
    fn from(row: Row) -> Self {
        Self {
            id: row.id,
            email: row.email,
            expires_at: row.expires_at,
            used: row.used_at.is_some(),
            voided: row.voided_at.is_some(),
        }
    }
}

const SELECT: &str = "SELECT id, email, expires_at, used_at, voided_at FROM password_resets WHERE id = $1";

impl Store {
    /// Changes how a person signs in, in these rows of theirs. Every session that rests on the password before ends, but for
    /// `keep`, links for a forgotten one are void, and they are told by mail, once. `how`: in whose words, for that mail.
    pub async fn set_password(
        &self,
        ids: &[&str],
        password_hash: &SecretString,
        keep: Option<&str>,
        told: Option<(&Tell, &str)>,
    ) -> Result<Changed, StoreError> {
        let doing = "change a password";
        let tx = self.transaction(doing).await?;
        let changed = self.set_password_within(&tx, ids, password_hash, keep, "password.changed").await?;
        if let (Some((tell, how)), Some(first)) = (told, ids.first().filter(|_| changed > 0)) {
            self.tell_person(&tx, tell, first, MailKind::PasswordChanged, &json!({ "how": how })).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        Ok(sql::changed(changed))
    }

    async fn set_password_within(
        &self,
        tx: &impl ConnectionTrait,
        ids: &[&str],
        password_hash: &SecretString,
        keep: Option<&str>,
        action: &'static str,
    ) -> Result<u64, StoreError> {
        let doing = "change a password";
        let mut changed = 0;
        for id in ids {
            let whose = "SELECT email AS id FROM users WHERE id = $1";
            if let Some(row) = sql::one::<sql::Id>(tx, doing, whose, values![*id]).await? {
                one_by_one(tx, doing, &row.id).await?;
            }
            let sql = "UPDATE users SET password_hash = $2 WHERE id = $1 AND removed_at IS NULL";
            let one = sql::run(tx, doing, sql, values![*id, password_hash.expose_secret()]).await?;
            if one > 0 {
                browsers::unprove(tx, doing, id, keep).await?;
                half_sign_ins::void(tx, doing, id).await?;
                let now = json!({ "password": CHANGED });
                self.audit_person(tx, id, action, action == RESET, (Value::Null, now)).await?;
            }
            changed += one;
            let void = "UPDATE password_resets SET voided_at = $2 WHERE used_at IS NULL AND voided_at IS NULL \
                        AND email = (SELECT email FROM users WHERE id = $1)";
            sql::run(tx, doing, void, values![*id, micros(self.clock().now())]).await?;
        }
        Ok(changed)
    }

    /// Somebody says that the password of this address is forgotten. Whether anybody has the address is looked at later, by
    /// whoever makes the mail. What is long over goes.
    pub async fn ask_reset(&self, email: &str, at: DateTime<Utc>, expires_at: DateTime<Utc>) -> Result<(), StoreError> {
        let doing = "note a forgotten password";
        let old = "DELETE FROM password_resets WHERE expires_at < $1";
        sql::run(self.db(), doing, old, values![micros(at - KEPT)]).await?;
        self.insert_reset(self.db(), doing, email, at, expires_at, false).await.map(|_| ())
    }

    /// A reset whose link is handed over by hand, by the SHA-256 of its text: no mail is made.
    pub async fn make_reset(
        &self,
        email: &str,
        link: &[u8; 32],
        at: DateTime<Utc>,
        expires_at: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let doing = "make a link for a forgotten password";
        let tx = self.transaction(doing).await?;
        let id = self.insert_reset(&tx, doing, email, at, expires_at, true).await?;
        mint(&tx, doing, &id, link, at).await?;
        self.audit_address(&tx, &email.trim().to_lowercase(), "password.reset_link_made", false).await?;
        tx.commit().await.map_err(failed(doing))
    }

    async fn insert_reset(
        &self,
        db: &impl ConnectionTrait,
        doing: &'static str,
        email: &str,
        at: DateTime<Utc>,
        expires_at: DateTime<Utc>,
        told: bool,
    ) -> Result<String, StoreError> {
        let id = self.id("reset");
        let sql =
            "INSERT INTO password_resets (id, email, created_at, expires_at, told_at) VALUES ($1, $2, $3, $4, $5)";
        let email = email.trim().to_lowercase();
        let values = values![id.as_str(), email, micros(at), micros(expires_at), told.then(|| micros(at))];
        sql::run(db, doing, sql, values).await?;
        Ok(id)
    }

    /// One reset, wherever it is.
    pub async fn find_reset(&self, id: &str) -> Result<Option<Reset>, StoreError> {
        let row: Option<Row> = sql::one(self.db(), "look for a reset", SELECT, values![id]).await?;
        Ok(row.map(Reset::from))
    }

    /// The reset that this link leads to.
    pub async fn find_reset_of(&self, link: &[u8; 32]) -> Result<Option<Reset>, StoreError> {
        match subject(self.db(), "look for a link", link).await? {
            Some(id) => self.find_reset(&id).await,
            None => Ok(None),
        }
    }

    /// Sets the password of everybody with this address, once. Every session of theirs ends, their other links are void, and
    /// they are told.
    pub async fn reset_password(
        &self,
        link: &[u8; 32],
        password_hash: &SecretString,
        tell: &Tell,
    ) -> Result<ResetDone, StoreError> {
        let doing = "reset a password";
        let tx = self.transaction(doing).await?;
        let done = self.reset_within(&tx, doing, link, password_hash, tell).await?;
        if done == ResetDone::No {
            tx.rollback().await.map_err(failed(doing))?;
        } else {
            tx.commit().await.map_err(failed(doing))?;
        }
        Ok(done)
    }

    async fn reset_within(
        &self,
        tx: &impl ConnectionTrait,
        doing: &'static str,
        link: &[u8; 32],
        password_hash: &SecretString,
        tell: &Tell,
    ) -> Result<ResetDone, StoreError> {
        let Some(id) = subject(tx, doing, link).await? else { return Ok(ResetDone::No) };
        let row: Option<Row> = sql::one(tx, doing, SELECT, values![id.as_str()]).await?;
        let Some(reset) = row.map(Reset::from) else { return Ok(ResetDone::No) };
        one_by_one(tx, doing, &reset.email).await?;
        let take = "UPDATE password_resets SET used_at = $2 \
                    WHERE id = $1 AND used_at IS NULL AND voided_at IS NULL AND expires_at > $2";
        if sql::run(tx, doing, take, values![id.as_str(), micros(tell.at)]).await? == 0 {
            return Ok(ResetDone::No);
        }
        let people = "SELECT id FROM users WHERE email = $1 AND removed_at IS NULL ORDER BY created_at, id";
        let people: Vec<sql::Id> = sql::all(tx, doing, people, values![reset.email.as_str()]).await?;
        let ids: Vec<&str> = people.iter().map(|row| row.id.as_str()).collect();
        let Some(first) = ids.first() else { return Ok(ResetDone::No) };
        self.set_password_within(tx, &ids, password_hash, None, RESET).await?;
        self.tell_person(tx, tell, first, MailKind::PasswordChanged, &json!({ "how": "reset" })).await?;
        Ok(ResetDone::Yes(ids.len()))
    }
}

/// Each new password of an address voids its other resets: of two at once, the second waits here, and finds its own void.
async fn one_by_one(tx: &impl ConnectionTrait, doing: &'static str, email: &str) -> Result<(), StoreError> {
    sql::alone(tx, doing, &format!("passwords {email}")).await
}
