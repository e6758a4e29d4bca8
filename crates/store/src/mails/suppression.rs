//! Addresses whose mail server refuses them: after a plain refusal, or several in a row, they get no mail any more that
//! nobody asked for. The other people of their orgs are told once.

use chrono::{DateTime, Utc};
use holdfast_core::{
    OrgId,
    ports::{Changed, StoreError},
};
use sea_orm::FromQueryResult;
use serde_json::{Value, json};

use super::{MailKind, Tell};
use crate::{
    notifications::Suppression,
    sql::{self, failed, micros, values},
    store::Store,
};

/// Refusals in a row that are as good as a plain one.
const IN_A_ROW: i64 = 3;

/// Somebody whose address is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuppressedAddress {
    /// Which.
    pub address: String,
    /// Since when it gets none, and why.
    pub why: Suppression,
}

#[derive(FromQueryResult)]
struct Row {
    address: String,
    suppressed_at: DateTime<Utc>,
    error: String,
}

impl From<Row> for SuppressedAddress {
    fn from(row: Row) -> Self {
        Self { address: row.address, why: Suppression { at: row.suppressed_at, error: row.error } }
    }
}

#[derive(FromQueryResult)]
struct Counted {
    failures: i64,
    suppressed_at: Option<DateTime<Utc>>,
}

#[derive(FromQueryResult)]
struct Owner {
    id: String,
    org_id: String,
}

const SELECT: &str = "SELECT address, suppressed_at, error FROM refused_addresses WHERE suppressed_at IS NOT NULL";

impl Store {
    /// A mail server has refused this recipient for good. `plainly`: it says that there is nobody. `Yes`: from now on the
    /// address gets no mail any more, and the others are told.
    pub async fn note_refused_address(
        &self,
        tell: &Tell,
        address: &str,
        error: &str,
        plainly: bool,
    ) -> Result<Changed, StoreError> {
        let doing = "note a refused address";
        let tx = self.transaction(doing).await?;
        sql::alone(&tx, doing, &format!("address {address}")).await?;
        let count = "INSERT INTO refused_addresses (address, failures, since, error) VALUES ($1, 1, $2, $3) \
                     ON CONFLICT (address) DO UPDATE SET failures = refused_addresses.failures + 1, \
                     error = EXCLUDED.error RETURNING failures, suppressed_at";
        let values = values![address, micros(tell.at), error];
        let counted: Option<Counted> = sql::one(&tx, doing, count, values).await?;
        let counted = counted.ok_or_else(|| StoreError::new(doing))?;
        let newly = counted.suppressed_at.is_none() && (plainly || counted.failures >= IN_A_ROW);
        if newly {
            let suppress = "UPDATE refused_addresses SET suppressed_at = $2 WHERE address = $1";
            sql::run(&tx, doing, suppress, values![address, micros(tell.at)]).await?;
            let owners = "SELECT id, org_id FROM users WHERE email = $1 AND removed_at IS NULL ORDER BY id";
            for owner in sql::all::<Owner>(&tx, doing, owners, values![address]).await? {
                let about = json!({ "user": owner.id });
                let _told =
                    self.tell_admins(&tx, tell, &owner.org_id.into(), MailKind::AddressSuppressed, &about).await?;
            }
        }
        tx.commit().await.map_err(failed(doing))?;
        Ok(if newly { Changed::Yes } else { Changed::No })
    }

    /// A mail to this address was taken: whatever was refused before counts no more.
    pub async fn note_accepted_address(&self, address: &str) -> Result<(), StoreError> {
        let sql = "DELETE FROM refused_addresses WHERE address = $1";
        sql::run(self.db(), "note a good address", sql, values![address]).await.map(|_| ())
    }

    /// Why this address gets no mail any more. `None`: it does.
    pub async fn suppression(&self, address: &str) -> Result<Option<Suppression>, StoreError> {
        let sql = format!("{SELECT} AND address = $1");
        let row: Option<Row> = sql::one(self.db(), "look at an address", sql, values![address]).await?;
        Ok(row.map(|row| SuppressedAddress::from(row).why))
    }

    /// Addresses that get no mail any more, the newest first.
    pub async fn suppressed_addresses(&self, most: u64) -> Result<Vec<SuppressedAddress>, StoreError> {
        let sql = format!("{SELECT} ORDER BY suppressed_at DESC, address LIMIT $1");
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let rows: Vec<Row> = sql::all(self.db(), "list suppressed addresses", sql, values![most]).await?;
        Ok(rows.into_iter().map(SuppressedAddress::from).collect())
    }

    /// Tries the address of one of the org's people again, with what is sent next. `No`: there is nobody like that, or mail
    /// is sent to them anyway.
    pub async fn try_address_again(&self, org: &OrgId, user: &str) -> Result<Changed, StoreError> {
        let sql = "DELETE FROM refused_addresses WHERE address = (SELECT u.email FROM users u \
                   WHERE u.id = $2 AND u.org_id = $1 AND u.removed_at IS NULL)";
        let doing = "try an address again";
        let tx = self.transaction(doing).await?;
        let gone = sql::run(&tx, doing, sql, values![org.as_str(), user]).await?;
        if gone > 0 {
            let nothing = (Value::Null, Value::Null);
            self.audit_person(&tx, user, "notifications.address_tried_again", false, nothing).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        Ok(sql::changed(gone))
    }

    /// When a mail to this person was taken last.
    pub async fn last_delivery(&self, user: &str) -> Result<Option<DateTime<Utc>>, StoreError> {
        #[derive(FromQueryResult)]
        struct Last {
            settled_at: Option<DateTime<Utc>>,
        }
        let sql = "SELECT settled_at FROM mails WHERE user_id = $1 AND state = 'sent' AND settled_at IS NOT NULL \
                   ORDER BY settled_at DESC LIMIT 1";
        let row: Option<Last> = sql::one(self.db(), "look for the last mail", sql, values![user]).await?;
        Ok(row.and_then(|row| row.settled_at))
    }

    /// Writes down a test mail that the server has taken.
    pub async fn note_test_mail(&self, tell: &Tell, user: &str, address: &str, id: &str) -> Result<(), StoreError> {
        let sql = "INSERT INTO mails (id, user_id, recipient, kind, about, message_id, answers, state, next_at, created_at, \
                   settled_at, address, attempts) VALUES ($1, $2, $2, $3, $4, $5, $6, 'sent', $7, $7, $7, $8, 1)";
        let values = values![
            self.id("mail"),
            user,
            MailKind::Test.as_str(),
            json!({}),
            id,
            json!([]),
            micros(tell.at),
            address,
        ];
        sql::run(self.db(), "note a test mail", sql, values).await.map(|_| ())
    }
}
