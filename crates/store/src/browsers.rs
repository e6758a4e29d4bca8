//! Table `browser_sessions`: who is signed in where. The cookie itself is nowhere.

use chrono::{DateTime, Utc};
use holdfast_core::ports::StoreError;
use sea_orm::FromQueryResult;
use serde_json::{Value, json};

use crate::{
    sql::{self, micros, nonsense, values},
    store::Store,
    users::User,
};

/// A session to be made.
#[derive(Clone, Debug)]
pub struct NewBrowserSession {
    /// Who.
    pub user: String,
    /// The same person's rows in other orgs, whose password was proven too.
    pub also: Vec<String>,
    /// SHA-256 of the cookie.
    pub token_hash: [u8; 32],
    /// What the browser calls itself, shortened.
    pub browser: Option<String>,
    /// When.
    pub at: DateTime<Utc>,
    /// End, whatever happens.
    pub expires_at: DateTime<Utc>,
}

/// A session.
#[derive(Clone, Debug)]
pub struct BrowserSession {
    /// Its id.
    pub id: String,
    /// Whose.
    pub user: String,
    /// See [`NewBrowserSession::also`].
    pub also: Vec<String>,
    /// What the browser calls itself.
    pub browser: Option<String>,
    /// Sign-in.
    pub created_at: DateTime<Utc>,
    /// Last use, to the minute or so.
    pub seen_at: DateTime<Utc>,
    /// End, whatever happens.
    pub expires_at: DateTime<Utc>,
}

#[derive(FromQueryResult)]
struct Row {
    id: String,
    user_id: String,
    also: Value,
    browser: Option<String>,
    created_at: DateTime<Utc>,
    seen_at: DateTime<Utc>,
    expires_at: DateTime<Utc>,
}

impl TryFrom<Row> for BrowserSession {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        Ok(Self {
            also: serde_json::from_value(row.also).map_err(|_| nonsense("browser_sessions", "also", &row.id))?,
            id: row.id,
            user: row.user_id,
            browser: row.browser,
            created_at: row.created_at,
            seen_at: row.seen_at,
            expires_at: row.expires_at,
        })
    }
}

const SELECT: &str = "SELECT id, user_id, also, browser, created_at, seen_at, expires_at FROM browser_sessions WHERE ";

impl Store {
    /// Makes a session; answers its id. Sessions that are over go.
    pub async fn create_browser_session(&self, new: &NewBrowserSession) -> Result<String, StoreError> {
        let doing = "sign a browser in";
        let over = "DELETE FROM browser_sessions WHERE expires_at <= $1";
        sql::run(self.db(), doing, over, values![micros(new.at)]).await?;
        let id = self.id("bs");
        let sql = "INSERT INTO browser_sessions (id, user_id, also, token_hash, browser, created_at, seen_at, expires_at) \
                   VALUES ($1, $2, $3, $4, $5, $6, $6, $7)";
        let values = values![
            id.as_str(),
            new.user.as_str(),
            json!(new.also),
            new.token_hash.to_vec(),
            new.browser.clone(),
            micros(new.at),
            micros(new.expires_at),
        ];
        sql::run(self.db(), doing, sql, values).await?;
        Ok(id)
    }

    /// The session of this cookie with its person, unless it is over, was not used since `unused_since`, or they left.
    pub async fn find_browser_session(
        &self,
        token_hash: &[u8; 32],
        at: DateTime<Utc>,
        unused_since: DateTime<Utc>,
    ) -> Result<Option<(BrowserSession, User)>, StoreError> {
        let sql = format!("{SELECT} token_hash = $1 AND expires_at > $2 AND seen_at > $3");
        let values = values![token_hash.to_vec(), micros(at), micros(unused_since)];
        let row: Option<Row> = sql::one(self.db(), "look for a browser's session", sql, values).await?;
        let Some(session) = row.map(BrowserSession::try_from).transpose()? else { return Ok(None) };
        Ok(self.find_user(&session.user).await?.map(|user| (session, user)))
    }

    /// Notes that it was used.
    pub async fn touch_browser_session(&self, id: &str, at: DateTime<Utc>) -> Result<(), StoreError> {
        let sql = "UPDATE browser_sessions SET seen_at = $2 WHERE id = $1";
        sql::run(self.db(), "note a browser's visit", sql, values![id, micros(at)]).await.map(|_| ())
    }

    /// The same browser acts as another of its proven persons from now on.
    pub async fn switch_browser_session(
        &self,
        id: &str,
        user: &str,
        also: &[String],
        token_hash: &[u8; 32],
    ) -> Result<(), StoreError> {
        let sql = "UPDATE browser_sessions SET user_id = $2, also = $3, token_hash = $4 WHERE id = $1";
        let values = values![id, user, json!(also), token_hash.to_vec()];
        sql::run(self.db(), "switch a browser's session", sql, values).await.map(|_| ())
    }

    /// A person's sessions, the one used last first.
    pub async fn browser_sessions(&self, user: &str) -> Result<Vec<BrowserSession>, StoreError> {
        let sql = format!("{SELECT} user_id = $1 AND expires_at > $2 ORDER BY seen_at DESC, id");
        let rows: Vec<Row> =
            sql::all(self.db(), "list a person's sessions", sql, values![user, micros(self.clock().now())]).await?;
        rows.into_iter().map(BrowserSession::try_from).collect()
    }

    /// Ends one session of a person.
    pub async fn end_browser_session(&self, user: &str, id: &str) -> Result<(), StoreError> {
        let sql = "DELETE FROM browser_sessions WHERE user_id = $1 AND id = $2";
        sql::run(self.db(), "end a session", sql, values![user, id]).await.map(|_| ())
    }

    /// Ends all sessions of a person but this one.
    pub async fn end_other_browser_sessions(&self, user: &str, but: &str) -> Result<u64, StoreError> {
        let sql = "DELETE FROM browser_sessions WHERE user_id = $1 AND id <> $2";
        sql::run(self.db(), "end sessions", sql, values![user, but]).await
    }
}
