//! Table `users`: people. A person of two orgs has two rows, each with its own password.

use chrono::{DateTime, Utc};
use holdfast_core::{
    OrgId, Role,
    ports::{Changed, StoreError},
};
use sea_orm::{ConnectionTrait, FromQueryResult};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use crate::{
    instance,
    sql::{self, failed, micros, nonsense, values},
    store::Store,
};

/// A person to be added.
#[derive(Clone, Debug)]
pub struct NewUser {
    /// Whose.
    pub org: OrgId,
    /// Stored in lower case; unique in the org.
    pub email: String,
    /// As mails and pages call them.
    pub name: Option<String>,
    /// What they may do.
    pub role: Role,
    /// Whether they run the instance.
    pub operator: bool,
    /// PHC string; `None`: cannot sign in with a password yet.
    pub password_hash: Option<SecretString>,
    /// When.
    pub at: DateTime<Utc>,
}

/// The very first person of the instance.
#[derive(Clone, Debug)]
pub struct FirstUser {
    /// The name of the secret of the instance that is spent on it.
    pub secret: String,
    /// What their org is called.
    pub org: String,
    /// Stored in lower case.
    pub email: String,
    /// As mails and pages call them.
    pub name: String,
    /// PHC string.
    pub password_hash: SecretString,
    /// When.
    pub at: DateTime<Utc>,
}

/// A person.
#[derive(Clone, Debug)]
pub struct User {
    /// Their id.
    pub id: String,
    /// Whose.
    pub org: OrgId,
    /// What that org is called.
    pub org_name: String,
    /// In lower case.
    pub email: String,
    /// As mails and pages call them.
    pub name: Option<String>,
    /// What they may do.
    pub role: Role,
    /// Whether they run the instance.
    pub operator: bool,
    /// PHC string; `None`: cannot sign in with a password.
    pub password_hash: Option<SecretString>,
    /// When they were added.
    pub created_at: DateTime<Utc>,
    /// Whether their address has a second factor.
    pub second_factor: bool,
    /// Whether their org wants them to have one.
    pub second_factor_required: bool,
}

impl User {
    /// Their name, or their address where they have none.
    pub fn shown(&self) -> &str {
        self.name.as_deref().filter(|name| !name.is_empty()).unwrap_or(&self.email)
    }
}

/// The org has a person with this address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the org has a person with this address already")]
pub struct EmailTaken;

#[derive(FromQueryResult)]
pub(crate) struct UserRow {
    id: String,
    org_id: String,
    org_name: String,
    email: String,
    name: Option<String>,
    role: String,
    operator: bool,
    password_hash: Option<String>,
    created_at: DateTime<Utc>,
    second_factor: bool,
    second_factor_required: bool,
}

impl TryFrom<UserRow> for User {
    type Error = StoreError;

    fn try_from(row: UserRow) -> Result<Self, StoreError> {
        Ok(Self {
            role: Role::parse(&row.role).ok_or_else(|| nonsense("users", "role", &row.id))?,
            id: row.id,
            org: row.org_id.into(),
            org_name: row.org_name,
            email: row.email,
            name: row.name,
            operator: row.operator,
            password_hash: row.password_hash.map(SecretString::from),
            created_at: row.created_at,
            second_factor: row.second_factor,
            second_factor_required: row.second_factor_required,
        })
    }
}

/// Only people who have not left.
const SELECT: &str = "SELECT u.id, u.org_id, o.name AS org_name, u.email, u.name, u.role, u.operator, u.password_hash, \
                      u.created_at, o.second_factor_required, \
                      EXISTS (SELECT 1 FROM second_factors f WHERE f.email = u.email) AS second_factor FROM users u JOIN orgs o ON o.id = u.org_id WHERE u.removed_at IS NULL";

impl Store {
    /// Adds a person; answers their id. Somebody who left comes back as they are added now.
    pub async fn create_user(&self, user: &NewUser) -> Result<Result<String, EmailTaken>, StoreError> {
        let doing = "add a person";
        let tx = self.transaction(doing).await?;
        let added = self.add_person(&tx, doing, user).await?;
        if let Some(id) = &added {
            let now = json!({ "email": user.email, "role": user.role.as_str(), "operator": user.operator });
            self.audit_person(&tx, id, "member.added", false, (Value::Null, now)).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        Ok(added.ok_or(EmailTaken))
    }

    /// Whether somebody of this address was of the org, and is no more.
    pub async fn has_left(&self, org: &OrgId, email: &str) -> Result<bool, StoreError> {
        let sql = "SELECT id FROM users WHERE org_id = $1 AND email = $2 AND removed_at IS NOT NULL";
        let values = values![org.as_str(), email.trim().to_lowercase()];
        Ok(sql::one::<sql::Id>(self.db(), "look who has left", sql, values).await?.is_some())
    }

    /// The same within a transaction; `None`: the address is taken.
    pub(crate) async fn add_person(
        &self,
        db: &impl ConnectionTrait,
        doing: &'static str,
        user: &NewUser,
    ) -> Result<Option<String>, StoreError> {
        let id = self.id("user");
        let sql = "INSERT INTO users (id, org_id, email, name, role, operator, password_hash, created_at) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (org_id, email) DO UPDATE \
                   SET name = EXCLUDED.name, role = EXCLUDED.role, operator = EXCLUDED.operator, \
                   password_hash = EXCLUDED.password_hash, created_at = EXCLUDED.created_at, seen_at = NULL, removed_at = NULL \
                   WHERE users.removed_at IS NOT NULL RETURNING id";
        let values = values![
            id.as_str(),
            user.org.as_str(),
            user.email.trim().to_lowercase(),
            user.name.clone(),
            user.role.as_str(),
            user.operator,
            user.password_hash.as_ref().map(|hash| hash.expose_secret().to_owned()),
            micros(user.at),
        ];
        Ok(sql::one::<sql::Id>(db, doing, sql, values).await?.map(|row| row.id))
    }

    /// The very first person of the instance, owner of an org of this name and operator. Spends the secret of the
    /// instance that whoever does this has shown, with everything else in one transaction. `None`: somebody was faster.
    pub async fn create_first_user(&self, first: &FirstUser) -> Result<Option<String>, StoreError> {
        let doing = "add the first person";
        let tx = self.transaction(doing).await?;
        // Of two at once, on whatever replicas, the second waits here, and then finds nothing to spend.
        let spent = instance::spend(&tx, doing, &first.secret).await?;
        let somebody = "SELECT id FROM users WHERE removed_at IS NULL LIMIT 1";
        if !spent || sql::one::<sql::Id>(&tx, doing, somebody, values![]).await?.is_some() {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(None);
        }
        let (org, _) = self.org_within(&tx, &first.org).await?;
        let id = self.id("user");
        let sql = "INSERT INTO users (id, org_id, email, name, role, operator, password_hash, created_at) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        let values = values![
            id.as_str(),
            org.as_str(),
            first.email.trim().to_lowercase(),
            first.name.as_str(),
            Role::Owner.as_str(),
            true,
            first.password_hash.expose_secret(),
            micros(first.at),
        ];
        sql::run(&tx, doing, sql, values).await?;
        let now = json!({ "organisation": first.org, "email": first.email });
        self.audit_person(&tx, &id, "instance.set_up", true, (Value::Null, now)).await?;
        tx.commit().await.map_err(failed(doing))?;
        Ok(Some(id))
    }

    /// Whether anybody can be there to sign in.
    pub async fn has_users(&self) -> Result<bool, StoreError> {
        let sql = "SELECT id FROM users WHERE removed_at IS NULL LIMIT 1";
        Ok(sql::one::<sql::Id>(self.db(), "look for people", sql, values![]).await?.is_some())
    }

    /// Everybody with this address, over all orgs, oldest first.
    pub async fn find_users_by_email(&self, email: &str) -> Result<Vec<User>, StoreError> {
        let sql = format!("{SELECT} AND u.email = $1 ORDER BY u.created_at, u.id");
        let rows: Vec<UserRow> =
            sql::all(self.db(), "look for a person", sql, values![email.trim().to_lowercase()]).await?;
        rows.into_iter().map(User::try_from).collect()
    }

    /// This person, unless they left.
    pub async fn find_user(&self, id: &str) -> Result<Option<User>, StoreError> {
        let sql = format!("{SELECT} AND u.id = $1");
        let row: Option<UserRow> = sql::one(self.db(), "look for a person", sql, values![id]).await?;
        row.map(User::try_from).transpose()
    }

    /// The org's people, by address.
    pub async fn users(&self, org: &OrgId) -> Result<Vec<User>, StoreError> {
        let sql = format!("{SELECT} AND u.org_id = $1 ORDER BY u.email");
        let rows: Vec<UserRow> = sql::all(self.db(), "list the people", sql, values![org.as_str()]).await?;
        rows.into_iter().map(User::try_from).collect()
    }

    /// Everybody who runs the instance, by address.
    pub async fn operators(&self) -> Result<Vec<User>, StoreError> {
        let sql = format!("{SELECT} AND u.operator ORDER BY u.email, u.id");
        let rows: Vec<UserRow> = sql::all(self.db(), "list the operators", sql, values![]).await?;
        rows.into_iter().map(User::try_from).collect()
    }

    /// Changes how a person is called.
    pub async fn rename_user(&self, id: &str, name: &str) -> Result<Changed, StoreError> {
        let doing = "rename a person";
        let tx = self.transaction(doing).await?;
        let before = "SELECT COALESCE(name, '') AS id FROM users WHERE id = $1";
        let before = sql::one::<sql::Id>(&tx, doing, before, values![id]).await?.map(|row| row.id);
        let sql = "UPDATE users SET name = $2 WHERE id = $1 AND removed_at IS NULL";
        let changed = sql::changed(sql::run(&tx, doing, sql, values![id, name]).await?);
        if changed == Changed::Yes {
            let both = (json!({ "name": before }), json!({ "name": name }));
            self.audit_person(&tx, id, "person.renamed", false, both).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        Ok(changed)
    }
}
