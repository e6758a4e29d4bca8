//! What people are told of their own accounts, and who is invited.

use holdfast_core::{OrgId, ports::StoreError};
use sea_orm::{ConnectionTrait, FromQueryResult};
use serde_json::{Value, json};

use super::{MailKind, Tell, To};
use crate::{
    sql::{self, failed, micros, values},
    store::Store,
};

#[derive(FromQueryResult)]
struct Untold {
    id: String,
    email: String,
}

const UNTOLD: &str = "SELECT id, email FROM password_resets WHERE told_at IS NULL ORDER BY created_at LIMIT $1";

impl Store {
    /// Whether somebody waits for the mail to a forgotten password.
    pub async fn reset_is_untold(&self) -> Result<bool, StoreError> {
        Ok(!self.untold_resets(1).await?.is_empty())
    }

    /// Makes the mails to forgotten passwords; answers of how many. Where nobody has the address, there is none, and whoever
    /// asked waits no longer or shorter for their answer.
    pub async fn tell_resets(&self, tell: &Tell) -> Result<usize, StoreError> {
        let doing = "tell of a forgotten password";
        let mut told = 0;
        for untold in self.untold_resets(100).await? {
            let tx = self.transaction(doing).await?;
            let take = "UPDATE password_resets SET told_at = $2 WHERE id = $1 AND told_at IS NULL";
            let taken = sql::run(&tx, doing, take, values![untold.id.as_str(), micros(tell.at)]).await?;
            let somebody =
                "SELECT id FROM users WHERE email = $1 AND removed_at IS NULL ORDER BY created_at, id LIMIT 1";
            let user: Option<sql::Id> = sql::one(&tx, doing, somebody, values![untold.email.as_str()]).await?;
            if let Some(user) = user.filter(|_| taken > 0) {
                let about = json!({ "reset": untold.id });
                self.tell_person(&tx, tell, &user.id, MailKind::PasswordReset, &about).await?;
                told += 1;
            }
            tx.commit().await.map_err(failed(doing))?;
        }
        Ok(told)
    }

    /// A message to somebody about their own account, in the transaction that changes it.
    pub(crate) async fn tell_person(
        &self,
        tx: &impl ConnectionTrait,
        tell: &Tell,
        user: &str,
        kind: MailKind,
        about: &Value,
    ) -> Result<(), StoreError> {
        let to = To::now(user);
        self.tell_one(tx, tell, None, &to, kind, about).await.map(|_| ())
    }

    /// A message to somebody who need not have an account; answers its id.
    pub(crate) async fn tell_address(
        &self,
        tx: &impl ConnectionTrait,
        tell: &Tell,
        org: &OrgId,
        address: &str,
        kind: MailKind,
        about: &Value,
    ) -> Result<String, StoreError> {
        let to = To { user_id: None, recipient: address.to_owned(), later: None };
        self.tell_one(tx, tell, Some(org), &to, kind, about).await
    }

    async fn untold_resets(&self, most: i64) -> Result<Vec<Untold>, StoreError> {
        sql::all(self.db(), "look for forgotten passwords", UNTOLD, values![most]).await
    }
}
