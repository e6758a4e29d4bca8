//! Table `connect_sessions`: a link, a consent that was started, its state.

use chrono::{DateTime, Utc};
use holdfast_core::{AppId, ConnectorId, Health, OrgId, ports::StoreError};
use sea_orm::FromQueryResult;
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::{
    claims,
    seal::Place,
    sql::{self, failed, micros, nonsense, values},
    store::Store,
};

/// What a session is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The first grant.
    Connect,
    /// Another one, in place.
    Reconnect,
}

/// How a consent is begun, and so where its end is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From a connect link, by whoever has it.
    Link,
    /// From the personal link of a mail, without signing in.
    Mail,
    /// In the web UI.
    SignedIn,
}

/// A session to be made.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// Whose.
    pub org: OrgId,
    /// Of which connector.
    pub connector: ConnectorId,
    /// SHA-256 of the link's secret.
    pub link_hash: [u8; 32],
    /// What for.
    pub purpose: Purpose,
    /// Where the browser goes in the end.
    pub return_url: Option<String>,
    /// How it is begun.
    pub way: Way,
    /// Who begins it; `None`: whoever has the link.
    pub user: Option<String>,
    /// When.
    pub at: DateTime<Utc>,
    /// End of the link.
    pub expires_at: DateTime<Utc>,
    /// Somebody wanted this link; else it only stands in an answer, and the audit log says nothing of it.
    pub asked_for: bool,
}

/// The start of a consent.
#[derive(Clone, Debug)]
pub struct StartSession {
    /// SHA-256 of the link's secret.
    pub link_hash: [u8; 32],
    /// SHA-256 of `state`.
    pub state_hash: [u8; 32],
    /// SHA-256 of the browser's cookie.
    pub browser_hash: [u8; 32],
    /// The OAuth app that the person is asked for; `None`: a key is asked for.
    pub app: Option<AppId>,
    /// The PKCE verifier; sealed at rest.
    pub verifier: Option<SecretString>,
    /// The account that the person is asked about: the connector's, or the one that they named.
    pub account: Option<String>,
    /// A key is asked for, on a page of ours.
    pub by_key: bool,
    /// When.
    pub at: DateTime<Utc>,
    /// End of the state.
    pub state_expires_at: DateTime<Utc>,
}

/// A session as stored.
#[derive(Clone, Debug)]
pub struct Session {
    /// Its id.
    pub id: String,
    /// Whose.
    pub org: OrgId,
    /// Of which connector.
    pub connector: ConnectorId,
    /// What for.
    pub purpose: Purpose,
    /// Where the browser goes in the end.
    pub return_url: Option<String>,
    /// How it was begun.
    pub way: Way,
    /// See [`NewSession::user`].
    pub user: Option<String>,
    /// See [`StartSession::account`]; of the consent that was started last.
    pub account: Option<String>,
    /// Whether a key was asked for then; `None`: the provider's first way.
    pub by_key: Option<bool>,
    /// See [`StartSession::app`]; `None` also where no consent was started.
    pub app: Option<AppId>,
    /// Of the consent that was started last in it; 0 before the first.
    pub sequence: i64,
    /// SHA-256 of the browser's cookie.
    pub browser_hash: Option<Vec<u8>>,
    /// The PKCE verifier; `None` also when it cannot be opened.
    pub verifier: Option<SecretString>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// End of the link.
    pub expires_at: DateTime<Utc>,
    /// End of the state.
    pub state_expires_at: Option<DateTime<Utc>>,
    /// When the state came back.
    pub state_used_at: Option<DateTime<Utc>>,
    /// Whether the replica that took the state is alive; `None`: none has, or it is not known which.
    pub worker_alive: Option<bool>,
    /// How far it is, since the state came back.
    pub progress: Option<Value>,
    /// How it ended.
    pub result: Option<Value>,
}

/// What a `state` that came back was worth. It is spent by the first look.
#[derive(Clone, Debug)]
pub enum Taken {
    /// Good, once.
    Yes(Box<Session>),
    /// Used before; how that ended, if it has.
    Used(Option<Value>),
    /// Too late.
    Expired,
    /// Not ours, or of a consent that was started again since.
    Unknown,
}

impl Session {
    /// Names the consent that was started last in it, among all.
    pub fn consent(&self) -> String {
        format!("{}-{}", self.id, self.sequence)
    }
}

impl Purpose {
    fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Reconnect => "reconnect",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::Connect, Self::Reconnect].into_iter().find(|purpose| purpose.as_str() == word)
    }
}

impl Way {
    fn as_str(self) -> &'static str {
        match self {
            Self::Link => "link",
            Self::Mail => "mail",
            Self::SignedIn => "signed_in",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::Link, Self::Mail, Self::SignedIn].into_iter().find(|way| way.as_str() == word)
    }
}

#[derive(FromQueryResult)]
struct Row {
    id: String,
    org_id: String,
    connector_id: String,
    browser_hash: Option<Vec<u8>>,
    sealed_verifier: Option<Vec<u8>>,
    purpose: String,
    return_url: Option<String>,
    way: Option<String>,
    user_id: Option<String>,
    account: Option<String>,
    by_key: Option<bool>,
    app: Option<String>,
    sequence: i64,
    created_at: DateTime<Utc>,
    expires_at: DateTime<Utc>,
    state_expires_at: Option<DateTime<Utc>>,
    state_used_at: Option<DateTime<Utc>>,
    worker: Option<String>,
    progress: Option<Value>,
    result: Option<Value>,
}

#[derive(FromQueryResult)]
struct Asked {
    by_key: Option<bool>,
}

/// A connector that a consent is started for.
#[derive(FromQueryResult)]
struct Counted {
    number: i64,
    account: String,
    health: String,
}

const COLUMNS: &str = "id, org_id, connector_id, browser_hash, sealed_verifier, purpose, return_url, way, user_id, account, \
                       by_key, app, sequence, created_at, expires_at, state_expires_at, state_used_at, worker, progress, \
                       result";
const VERIFIER: &str = "verifier";

impl Store {
    /// Makes a session; answers its id.
    pub async fn create_session(&self, new: &NewSession) -> Result<String, StoreError> {
        let id = self.id("sess");
        let sql = "INSERT INTO connect_sessions (id, org_id, connector_id, link_hash, purpose, return_url, way, user_id, \
                   created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
        let values = values![
            id.as_str(),
            new.org.as_str(),
            new.connector.as_str(),
            new.link_hash.to_vec(),
            new.purpose.as_str(),
            new.return_url.clone(),
            new.way.as_str(),
            new.user.clone(),
            micros(new.at),
            micros(new.expires_at),
        ];
        let doing = "make a connect session";
        let tx = self.transaction(doing).await?;
        sql::run(&tx, doing, sql, values).await?;
        // What somebody begins for themselves is told of when it ends.
        if new.way == Way::Link && new.asked_for {
            let now = json!({ "until": new.expires_at });
            self.audit_connector(&tx, &new.org, &new.connector, "connect_link.made", (Value::Null, now)).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        Ok(id)
    }

    /// The session of this link, whatever became of it.
    pub async fn find_session_by_link(&self, link_hash: &[u8; 32]) -> Result<Option<Session>, StoreError> {
        self.find_session("link_hash", link_hash.to_vec()).await
    }

    /// The session whose consent carries this `state`, spent or not; spends nothing.
    pub async fn find_session_by_state(&self, state_hash: &[u8; 32]) -> Result<Option<Session>, StoreError> {
        self.find_session("state_hash", state_hash.to_vec()).await
    }

    /// The session of this id.
    pub async fn find_session_by_id(&self, id: &str) -> Result<Option<Session>, StoreError> {
        self.find_session("id", id).await
    }

    async fn find_session(&self, column: &str, is: impl Into<sea_orm::Value>) -> Result<Option<Session>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM connect_sessions WHERE {column} = $1");
        let row = sql::one(self.db(), "look for a connect session", sql, vec![is.into()]).await?;
        match row {
            Some(row) => self.session(row).await.map(Some),
            None => Ok(None),
        }
    }

    /// Starts a consent; answers its sequence, which grows over all sessions of the connector. A start before it in the
    /// same session is void, and how that ended is forgotten. `None`: the link is unknown or over, or the connector was given
    /// another account meanwhile.
    pub async fn start_session(&self, start: &StartSession) -> Result<Option<i64>, StoreError> {
        let doing = "start a consent";
        let tx = self.transaction(doing).await?;
        let look = format!("SELECT {COLUMNS} FROM connect_sessions WHERE link_hash = $1");
        let found: Option<Row> = sql::one(&tx, doing, look, values![start.link_hash.to_vec()]).await?;
        let Some(session) = found.filter(|row| row.expires_at > start.at) else {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(None);
        };
        let count = "UPDATE connectors SET consent_sequence = consent_sequence + 1 WHERE id = $1 \
                     RETURNING consent_sequence AS number, account, health";
        let counted: Option<Counted> = sql::one(&tx, doing, count, values![session.connector_id.as_str()]).await?;
        let moved = |counted: &Counted| {
            let unfinished = counted.health == Health::Pending.as_str() && !counted.account.is_empty();
            unfinished && start.account.as_ref().is_some_and(|account| *account != counted.account)
        };
        if counted.as_ref().is_some_and(moved) {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(None);
        }
        let sealed = match &start.verifier {
            Some(verifier) => {
                let org = OrgId::from(session.org_id.as_str());
                let place = Place { org: &org, owner: &session.id, field: VERIFIER };
                Some(self.data_key(&tx, &org).await?.seal_text(place, verifier))
            }
            None => None,
        };
        let update = "UPDATE connect_sessions SET state_hash = $2, browser_hash = $3, sealed_verifier = $4, \
                      sequence = $5, state_expires_at = $6, state_used_at = NULL, worker = NULL, progress = NULL, \
                      result = NULL, account = $7, by_key = $8, app = $9 WHERE id = $1";
        let sequence = counted.map_or(0, |counted| counted.number);
        let values = values![
            session.id.as_str(),
            start.state_hash.to_vec(),
            start.browser_hash.to_vec(),
            sealed,
            sequence,
            micros(start.state_expires_at),
            start.account.clone(),
            start.by_key,
            start.app.as_ref().map(AppId::to_string),
        ];
        if sql::run(&tx, doing, update, values).await? == 0 {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(None);
        }
        tx.commit().await.map_err(failed(doing))?;
        Ok(Some(sequence))
    }

    /// Whether the consent that was started last for this connector asked for a key. `None`: none was started.
    pub async fn last_by_key(&self, connector: &ConnectorId) -> Result<Option<bool>, StoreError> {
        let sql = "SELECT by_key FROM connect_sessions WHERE connector_id = $1 AND sequence > 0 \
                   ORDER BY sequence DESC LIMIT 1";
        let last: Option<Asked> =
            sql::one(self.db(), "look how it was connected", sql, values![connector.as_str()]).await?;
        Ok(last.and_then(|last| last.by_key))
    }

    /// Spends a `state`.
    pub async fn take_state(&self, state_hash: &[u8; 32], at: DateTime<Utc>) -> Result<Taken, StoreError> {
        let doing = "spend a state";
        let take = format!(
            "UPDATE connect_sessions SET state_used_at = $2, worker = $3 \
             WHERE state_hash = $1 AND state_used_at IS NULL AND state_expires_at > $2 RETURNING {COLUMNS}"
        );
        let values = values![state_hash.to_vec(), micros(at), self.replica()];
        let taken: Option<Row> = sql::one(self.db(), doing, take, values).await?;
        if let Some(row) = taken {
            return Ok(Taken::Yes(Box::new(self.session(row).await?)));
        }
        let look = format!("SELECT {COLUMNS} FROM connect_sessions WHERE state_hash = $1");
        let found: Option<Row> = sql::one(self.db(), doing, look, values![state_hash.to_vec()]).await?;
        Ok(match found {
            None => Taken::Unknown,
            Some(row) if row.state_used_at.is_some() => Taken::Used(row.result),
            Some(_) => Taken::Expired,
        })
    }

    /// Notes how far the consent of this session is; nothing, if another one was started since.
    pub async fn note_progress(&self, session: &Session, progress: &Value) -> Result<(), StoreError> {
        let sql = "UPDATE connect_sessions SET progress = $2 WHERE id = $1 AND sequence = $3";
        let values = values![session.id.as_str(), progress.clone(), session.sequence];
        sql::run(self.db(), "note how far a consent is", sql, values).await?;
        self.connector_changed(&session.connector);
        Ok(())
    }

    /// Notes how the consent of this session ended, unless another one was started since, forgets its verifier, and ends
    /// its claim.
    pub async fn finish_session(&self, session: &Session, result: &Value) -> Result<(), StoreError> {
        let doing = "finish a connect session";
        let tx = self.transaction(doing).await?;
        let sql = "UPDATE connect_sessions SET result = $2, sealed_verifier = NULL WHERE id = $1 AND sequence = $3";
        sql::run(&tx, doing, sql, values![session.id.as_str(), result.clone(), session.sequence]).await?;
        claims::end(&tx, &session.consent()).await?;
        tx.commit().await.map_err(failed(doing))?;
        self.connector_changed(&session.connector);
        Ok(())
    }

    async fn session(&self, row: Row) -> Result<Session, StoreError> {
        let org = OrgId::from(row.org_id);
        // Asked for in any case: what its consent brings has to be sealed also while the database is away.
        let key = self.data_key(self.db(), &org).await?;
        let place = Place { org: &org, owner: &row.id, field: VERIFIER };
        let verifier = row.sealed_verifier.as_ref().and_then(|sealed| key.open_text(place, sealed).ok());
        let worker_alive = match row.worker.as_deref() {
            Some(worker) => Some(self.lives(worker).await?),
            None => None,
        };
        let way = match &row.way {
            Some(word) => Way::parse(word).ok_or_else(|| nonsense("connect_sessions", "way", &row.id))?,
            None if row.user_id.is_some() => Way::SignedIn,
            None => Way::Link,
        };
        let app = match row.app.as_deref().map(AppId::parse) {
            None => None,
            Some(Some(app)) if app.org().is_none_or(|of| *of == org) => Some(app),
            Some(_) => return Err(nonsense("connect_sessions", "app", &row.id)),
        };
        Ok(Session {
            way,
            app,
            worker_alive,
            purpose: Purpose::parse(&row.purpose).ok_or_else(|| nonsense("connect_sessions", "purpose", &row.id))?,
            id: row.id,
            org,
            connector: row.connector_id.into(),
            return_url: row.return_url,
            user: row.user_id,
            account: row.account,
            by_key: row.by_key,
            sequence: row.sequence,
            browser_hash: row.browser_hash,
            verifier,
            created_at: row.created_at,
            expires_at: row.expires_at,
            state_expires_at: row.state_expires_at,
            state_used_at: row.state_used_at,
            progress: row.progress,
            result: row.result,
        })
    }
}
