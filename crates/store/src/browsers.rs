//! Table `browser_sessions`: who is signed in where. The cookie itself is nowhere.

use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::ports::{Changed, StoreError};
use sea_orm::{ConnectionTrait, FromQueryResult};
use serde_json::{Value, json};

use crate::{
    mails::{MailKind, Tell},
    sql::{self, failed, micros, nonsense, values},
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
    /// Whether it rests on what the identity provider says, and on no password.
    pub by_provider: bool,
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
    /// See [`NewBrowserSession::by_provider`].
    pub by_provider: bool,
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
    by_provider: bool,
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
            by_provider: row.by_provider,
            browser: row.browser,
            created_at: row.created_at,
            seen_at: row.seen_at,
            expires_at: row.expires_at,
        })
    }
}

const SELECT: &str =
    "SELECT id, user_id, also, by_provider, browser, created_at, seen_at, expires_at FROM browser_sessions WHERE";
/// A browser that was not signed in with for so long is a new one: as long as browsers keep a cookie.
const REMEMBERED: TimeDelta = TimeDelta::days(400);
/// Sessions that can act as the person `$1`; `$2` is [`within`].
const OF: &str = "(user_id = $1 OR CAST(also AS TEXT) LIKE $2)";

impl Store {
    /// Makes a session; answers its id. Sessions that are over go.
    pub async fn create_browser_session(&self, new: &NewBrowserSession) -> Result<String, StoreError> {
        let doing = "sign a browser in";
        let over = "DELETE FROM browser_sessions WHERE expires_at <= $1";
        let tx = self.transaction(doing).await?;
        sql::run(&tx, doing, over, values![micros(new.at)]).await?;
        let id = self.id("bs");
        let sql = "INSERT INTO browser_sessions (id, user_id, also, token_hash, browser, created_at, seen_at, expires_at, \
                   by_provider) VALUES ($1, $2, $3, $4, $5, $6, $6, $7, $8)";
        let values = values![
            id.as_str(),
            new.user.as_str(),
            json!(new.also),
            new.token_hash.to_vec(),
            new.browser.clone(),
            micros(new.at),
            micros(new.expires_at),
            new.by_provider,
        ];
        sql::run(&tx, doing, sql, values).await?;
        let here = "UPDATE users SET seen_at = $2 WHERE id = $1";
        sql::run(&tx, doing, here, values![new.user.as_str(), micros(new.at)]).await?;
        let now = json!({ "browser": new.browser });
        self.audit_person(&tx, &new.user, "person.signed_in", true, (Value::Null, now)).await?;
        tx.commit().await.map_err(failed(doing))?;
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

    /// Notes that it was used, and that its person was here.
    pub async fn touch_browser_session(&self, id: &str, at: DateTime<Utc>) -> Result<(), StoreError> {
        let doing = "note a browser's visit";
        let sql = "UPDATE browser_sessions SET seen_at = $2 WHERE id = $1";
        sql::run(self.db(), doing, sql, values![id, micros(at)]).await?;
        let sql = "UPDATE users SET seen_at = $2 WHERE id = (SELECT user_id FROM browser_sessions WHERE id = $1)";
        sql::run(self.db(), doing, sql, values![id, micros(at)]).await.map(|_| ())
    }

    /// Notes the browser that somebody signs in with, for each of their rows. Of one that the first of them had not used
    /// before they are told in `news`; of their very first one, there is nothing to tell it from, they are not.
    pub async fn note_browser(
        &self,
        users: &[&str],
        hash: &[u8; 32],
        news: Option<(&Tell, &Value)>,
        at: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let doing = "note somebody's browser";
        let tx = self.transaction(doing).await?;
        for (place, user) in users.iter().enumerate() {
            let old = "DELETE FROM known_browsers WHERE user_id = $1 AND seen_at < $2";
            sql::run(&tx, doing, old, values![*user, micros(at - REMEMBERED)]).await?;
            let known = "SELECT user_id AS id FROM known_browsers WHERE user_id = $1 LIMIT 1";
            let others = sql::one::<sql::Id>(&tx, doing, known, values![*user]).await?.is_some();
            let seen = "UPDATE known_browsers SET seen_at = $3 WHERE user_id = $1 AND hash = $2";
            let values = || values![*user, hash.to_vec(), micros(at)];
            if sql::run(&tx, doing, seen, values()).await? > 0 {
                continue;
            }
            let new = "INSERT INTO known_browsers (user_id, hash, seen_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
            let new = sql::run(&tx, doing, new, values()).await? > 0;
            if let Some((tell, about)) = news.filter(|_| new && others && place == 0) {
                self.tell_person(&tx, tell, user, MailKind::NewSignIn, about).await?;
            }
        }
        tx.commit().await.map_err(failed(doing))
    }

    /// The same browser acts as another of its proven persons from now on, with another cookie. Not if it acts as somebody
    /// else by now, or the other one is not proven any more.
    pub async fn switch_browser_session(
        &self,
        id: &str,
        from: &str,
        to: &str,
        token_hash: &[u8; 32],
    ) -> Result<Changed, StoreError> {
        let doing = "switch a browser's session";
        let tx = self.transaction(doing).await?;
        let sql = format!("{SELECT} id = $1 AND user_id = $2{}", sql::for_update(self.backend()));
        let row: Option<Row> = sql::one(&tx, doing, sql, values![id, from]).await?;
        let session = row.map(BrowserSession::try_from).transpose()?;
        let Some(session) = session.filter(|session| session.also.iter().any(|proven| proven == to)) else {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(Changed::No);
        };
        let others = session.also.iter().map(String::as_str).filter(|proven| *proven != to);
        let also: Vec<_> = others.chain([from]).collect();
        let sql = "UPDATE browser_sessions SET user_id = $2, also = $3, token_hash = $4 WHERE id = $1";
        sql::run(&tx, doing, sql, values![id, to, json!(also), token_hash.to_vec()]).await?;
        self.audit_person(&tx, to, "person.came_over", true, (Value::Null, Value::Null)).await?;
        tx.commit().await.map_err(failed(doing))?;
        Ok(Changed::Yes)
    }

    /// The same session goes on under another cookie: whoever has a copy of the old one has nothing.
    pub async fn renew_browser_session(&self, id: &str, token_hash: &[u8; 32]) -> Result<(), StoreError> {
        let sql = "UPDATE browser_sessions SET token_hash = $2 WHERE id = $1";
        sql::run(self.db(), "renew a browser's session", sql, values![id, token_hash.to_vec()]).await.map(|_| ())
    }

    /// The sessions that can act as this person, also those that act as another row of theirs at the moment; the one used
    /// last first. Without those that were not used since `unused_since`: they are over.
    pub async fn browser_sessions(
        &self,
        user: &str,
        unused_since: DateTime<Utc>,
    ) -> Result<Vec<BrowserSession>, StoreError> {
        let sql = format!("{SELECT} {OF} AND expires_at > $3 AND seen_at > $4 ORDER BY seen_at DESC, id");
        let values = values![user, within(user), micros(self.clock().now()), micros(unused_since)];
        let rows: Vec<Row> = sql::all(self.db(), "list a person's sessions", sql, values).await?;
        rows.into_iter().map(BrowserSession::try_from).collect()
    }

    /// Ends one session that can act as this person.
    pub async fn end_browser_session(&self, user: &str, id: &str) -> Result<Changed, StoreError> {
        let sql = format!("DELETE FROM browser_sessions WHERE {OF} AND id = $3");
        let ended = self.end_sessions(&sql, "session.ended", user, id).await?;
        Ok(sql::changed(ended))
    }

    /// Ends all sessions that can act as this person but this one; answers how many.
    pub async fn end_other_browser_sessions(&self, user: &str, but: &str) -> Result<u64, StoreError> {
        let sql = format!("DELETE FROM browser_sessions WHERE {OF} AND id <> $3");
        self.end_sessions(&sql, "session.others_ended", user, but).await
    }

    async fn end_sessions(&self, sql: &str, action: &'static str, user: &str, id: &str) -> Result<u64, StoreError> {
        let doing = "end a session";
        let tx = self.transaction(doing).await?;
        let ended = sql::run(&tx, doing, sql, values![user, within(user), id]).await?;
        if ended > 0 {
            self.audit_person(&tx, user, action, true, (Value::Null, json!({ "sessions": ended }))).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        Ok(ended)
    }

    /// Ends the session of this cookie, whosever it is.
    pub async fn end_session_of_cookie(&self, token_hash: &[u8; 32]) -> Result<(), StoreError> {
        let sql = "DELETE FROM browser_sessions WHERE token_hash = $1";
        sql::run(self.db(), "end a browser's session", sql, values![token_hash.to_vec()]).await.map(|_| ())
    }
}

/// After a person's password has changed: sessions that prove the old one end, and those of another row of theirs no longer
/// prove this one. All but one.
pub(crate) async fn unprove(
    db: &impl ConnectionTrait,
    doing: &'static str,
    user: &str,
    but: Option<&str>,
) -> Result<(), StoreError> {
    let but = but.unwrap_or_default();
    let lock = sql::for_update(db.get_database_backend());
    // In this order: a session that switches to this person meanwhile has either done so, and is deleted, or waits for the
    // lock and finds no proof.
    let others = format!("{SELECT} CAST(also AS TEXT) LIKE $1 AND id <> $2 ORDER BY id{lock}");
    let others: Vec<Row> = sql::all(db, doing, others, values![within(user), but]).await?;
    for row in others {
        let session = BrowserSession::try_from(row)?;
        let also: Vec<_> = session.also.iter().filter(|proven| *proven != user).collect();
        let strip = "UPDATE browser_sessions SET also = $2 WHERE id = $1";
        sql::run(db, doing, strip, values![session.id.as_str(), json!(also)]).await?;
    }
    let own = "DELETE FROM browser_sessions WHERE user_id = $1 AND id <> $2";
    sql::run(db, doing, own, values![user, but]).await.map(|_| ())
}

/// What `also` looks like where it holds this id. Ids are letters, digits and underscores.
fn within(user: &str) -> String {
    format!("%\"{user}\"%")
}
