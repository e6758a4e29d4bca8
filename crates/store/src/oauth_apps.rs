//! Table `oauth_apps`: the instance's own OAuth apps, as operators set them in the web UI. Secrets are sealed for the
//! instance.

use chrono::{DateTime, Utc};
use holdfast_core::{
    credential::Trouble,
    ports::{Changed, Signal, StoreError},
};
use sea_orm::FromQueryResult;
use secrecy::{ExposeSecret, SecretString};

use crate::{
    sql::{self, micros, nonsense, values},
    store::Store,
};

/// A client secret of an app.
#[derive(Clone, Debug)]
pub struct AppSecret {
    /// `None`: what is stored cannot be opened.
    pub secret: Option<SecretString>,
    /// When it was entered.
    pub set_at: DateTime<Utc>,
    /// When the provider last took it; `None`: it was not asked, or did not say.
    pub checked_at: Option<DateTime<Utc>>,
}

/// An OAuth app of the instance.
#[derive(Clone, Debug)]
pub struct StoredApp {
    /// Of which provider; one each.
    pub provider: String,
    /// Public.
    pub client_id: String,
    /// `None`: a public client.
    pub secret: Option<AppSecret>,
    /// Tried when the current one is refused.
    pub next_secret: Option<AppSecret>,
    /// When the provider lets the current secret end.
    pub secret_expires_at: Option<DateTime<Utc>>,
    /// Counts changes.
    pub revision: i64,
    /// Who changed it last.
    pub changed_by: Option<String>,
    /// When.
    pub changed_at: DateTime<Utc>,
}

#[derive(FromQueryResult)]
struct Row {
    provider: String,
    client_id: String,
    sealed_secret: Option<Vec<u8>>,
    secret_set_at: Option<DateTime<Utc>>,
    secret_checked_at: Option<DateTime<Utc>>,
    secret_expires_at: Option<DateTime<Utc>>,
    sealed_next_secret: Option<Vec<u8>>,
    next_set_at: Option<DateTime<Utc>>,
    next_checked_at: Option<DateTime<Utc>>,
    revision: i64,
    changed_by: Option<String>,
    changed_at: DateTime<Utc>,
}

/// Which of the two.
#[derive(Clone, Copy)]
enum Which {
    Current,
    Next,
}

impl Which {
    /// What it is sealed for: moved to the other place or another provider, it does not open.
    fn field(self, provider: &str) -> String {
        match self {
            Self::Current => format!("oauth-app|{provider}|client-secret"),
            Self::Next => format!("oauth-app|{provider}|next-client-secret"),
        }
    }
}

const SELECT: &str = "SELECT provider, client_id, sealed_secret, secret_set_at, secret_checked_at, secret_expires_at, \
                      sealed_next_secret, next_set_at, next_checked_at, revision, changed_by, changed_at \
                      FROM oauth_apps";

impl Store {
    /// The app of this provider.
    pub async fn find_oauth_app(&self, provider: &str) -> Result<Option<StoredApp>, StoreError> {
        let sql = format!("{SELECT} WHERE provider = $1");
        let row: Option<Row> = sql::one(self.db(), "look for an OAuth app", sql, values![provider]).await?;
        row.map(|row| self.app_of(row)).transpose()
    }

    /// The providers that connectors of any organisation are of.
    pub async fn providers_in_use(&self) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT DISTINCT provider AS id FROM connectors ORDER BY id";
        let found: Vec<sql::Id> = sql::all(self.db(), "look which providers are in use", sql, values![]).await?;
        Ok(found.into_iter().map(|row| row.id).collect())
    }

    /// All of them, by provider.
    pub async fn oauth_apps(&self) -> Result<Vec<StoredApp>, StoreError> {
        let sql = format!("{SELECT} ORDER BY provider");
        let rows: Vec<Row> = sql::all(self.db(), "list the OAuth apps", sql, values![]).await?;
        rows.into_iter().map(|row| self.app_of(row)).collect()
    }

    /// Writes an app over the revision that it carries, or as a new one where that is 0. Not over one that has changed
    /// since, and not over a secret that could not be opened: that has to be replaced or taken out.
    pub async fn save_oauth_app(&self, app: &StoredApp) -> Result<Changed, StoreError> {
        let doing = "save an OAuth app";
        let sql = if app.revision == 0 {
            "INSERT INTO oauth_apps (provider, revision, client_id, sealed_secret, secret_set_at, secret_checked_at, \
             secret_expires_at, sealed_next_secret, next_set_at, next_checked_at, changed_by, changed_at) \
             VALUES ($1, $2 + 1, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT (provider) DO NOTHING"
        } else {
            "UPDATE oauth_apps SET client_id = $3, sealed_secret = $4, secret_set_at = $5, secret_checked_at = $6, \
             secret_expires_at = $7, sealed_next_secret = $8, next_set_at = $9, next_checked_at = $10, \
             changed_by = $11, changed_at = $12, revision = revision + 1 WHERE provider = $1 AND revision = $2"
        };
        let (secret, next) = (app.secret.as_ref(), app.next_secret.as_ref());
        let values = values![
            app.provider.as_str(),
            app.revision,
            app.client_id.as_str(),
            self.seal_app_secret(app, Which::Current, secret)?,
            secret.map(|secret| micros(secret.set_at)),
            secret.and_then(|secret| secret.checked_at).map(micros),
            app.secret_expires_at.map(micros),
            self.seal_app_secret(app, Which::Next, next)?,
            next.map(|next| micros(next.set_at)),
            next.and_then(|next| next.checked_at).map(micros),
            app.changed_by.clone(),
            micros(app.changed_at),
        ];
        if sql::run(self.db(), doing, sql, values).await? == 0 {
            return Ok(Changed::No);
        }
        self.tell(Signal::OAuthApp(app.provider.clone()));
        Ok(Changed::Yes)
    }

    /// Takes an app out, unless it has changed since it was read.
    pub async fn remove_oauth_app(&self, provider: &str, revision: i64) -> Result<Changed, StoreError> {
        let sql = "DELETE FROM oauth_apps WHERE provider = $1 AND revision = $2";
        if sql::run(self.db(), "take an OAuth app out", sql, values![provider, revision]).await? == 0 {
            return Ok(Changed::No);
        }
        self.tell(Signal::OAuthApp(provider.to_owned()));
        Ok(Changed::Yes)
    }

    /// Connectors of this provider that rest because their OAuth app was refused or missing are due now: a right one is
    /// there. Answers how many credentials that are.
    pub async fn retry_refused_app(&self, provider: &str, now: DateTime<Utc>) -> Result<u64, StoreError> {
        let doing = "let refused connectors try again";
        let sql = "UPDATE credentials SET retry_at = NULL, due_at = CASE WHEN due_at > $3 THEN $3 ELSE due_at END \
                   WHERE degraded_class = $2 AND id IN (SELECT credential_id FROM connectors WHERE provider = $1)";
        let values = values![provider, Trouble::AppBroken.as_str(), micros(now)];
        let count = sql::run(self.db(), doing, sql, values).await?;
        let sql = "SELECT c.id FROM connectors c JOIN credentials k ON k.id = c.credential_id \
                   WHERE c.provider = $1 AND k.degraded_class = $2";
        let changed: Vec<sql::Id> =
            sql::all(self.db(), doing, sql, values![provider, Trouble::AppBroken.as_str()]).await?;
        for row in changed {
            self.connector_changed(&row.id.into());
        }
        Ok(count)
    }

    /// Accounts of this provider that connectors hold a credential for, those that work first; for a question to the
    /// provider that is not about one of them.
    pub async fn some_accounts(&self, provider: &str, limit: u32) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT c.account AS id FROM connectors c JOIN credentials k ON k.id = c.credential_id \
                   WHERE c.provider = $1 AND c.account <> '' ORDER BY CASE c.health WHEN 'connected' THEN 0 ELSE 1 END, \
                   CASE WHEN k.kind = 'tokens' THEN 0 ELSE 1 END, c.id LIMIT $2";
        let rows: Vec<sql::Id> =
            sql::all(self.db(), "look for accounts of a provider", sql, values![provider, i64::from(limit)]).await?;
        Ok(rows.into_iter().map(|row| row.id).collect())
    }

    /// How many connectors of all orgs rest on this provider's app, and how many of them are waiting for a better one.
    pub async fn count_of_app(&self, provider: &str) -> Result<(u64, u64), StoreError> {
        let sql = "SELECT COUNT(*) AS held, COUNT(CASE WHEN k.degraded_class = $2 THEN 1 END) AS waiting \
                   FROM connectors c JOIN credentials k ON k.id = c.credential_id \
                   WHERE c.provider = $1 AND k.kind = 'tokens'";
        let values = values![provider, Trouble::AppBroken.as_str()];
        let counted: Option<Counted> = sql::one(self.db(), "count an app's connectors", sql, values).await?;
        Ok(counted.map_or((0, 0), |row| (row.held.unsigned_abs(), row.waiting.unsigned_abs())))
    }

    fn app_of(&self, row: Row) -> Result<StoredApp, StoreError> {
        let secret =
            |which: Which, sealed: Option<Vec<u8>>, set_at: Option<DateTime<Utc>>, checked_at| match (sealed, set_at) {
                (None, _) => Ok(None),
                (Some(_), None) => Err(nonsense("oauth_apps", "set_at", &row.provider)),
                (Some(sealed), Some(set_at)) => {
                    let opened = self.inner.sealer.open_for_instance(&which.field(&row.provider), &sealed).ok();
                    let secret = opened.and_then(|plain| std::str::from_utf8(&plain).ok().map(SecretString::from));
                    Ok(Some(AppSecret { secret, set_at, checked_at }))
                }
            };
        Ok(StoredApp {
            secret: secret(Which::Current, row.sealed_secret, row.secret_set_at, row.secret_checked_at)?,
            next_secret: secret(Which::Next, row.sealed_next_secret, row.next_set_at, row.next_checked_at)?,
            client_id: row.client_id,
            secret_expires_at: row.secret_expires_at,
            revision: row.revision,
            changed_by: row.changed_by,
            changed_at: row.changed_at,
            provider: row.provider,
        })
    }

    fn seal_app_secret(
        &self,
        app: &StoredApp,
        which: Which,
        secret: Option<&AppSecret>,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(secret) = secret else { return Ok(None) };
        let Some(plain) = &secret.secret else {
            return Err(StoreError::new("a secret that cannot be opened cannot be saved again"));
        };
        let field = which.field(&app.provider);
        Ok(Some(self.inner.sealer.seal_for_instance(&field, plain.expose_secret().as_bytes())))
    }
}

#[derive(FromQueryResult)]
struct Counted {
    held: i64,
    waiting: i64,
}
