//! Tables `oauth_apps` and `own_oauth_apps`: the instance's OAuth apps, as operators set them in the web UI, and those of
//! single orgs, as their admins did. Secrets are sealed for the instance, or for the org.

use chrono::{DateTime, Utc};
use holdfast_core::{
    AppId, OrgId,
    credential::Trouble,
    ports::{Changed, Signal, StoreError},
};
use sea_orm::FromQueryResult;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use crate::{
    audit::{CHANGED, Change},
    seal::Place,
    sql::{self, failed, micros, nonsense, values},
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

/// An OAuth app of the instance, or of an org.
#[derive(Clone, Debug)]
pub struct StoredApp {
    /// Whose own it is; `None`: the instance's.
    pub org: Option<OrgId>,
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

impl StoredApp {
    /// Its name among all.
    pub fn id(&self) -> AppId {
        match &self.org {
            None => AppId::instance(self.provider.as_str()),
            Some(org) => AppId::own(self.provider.as_str(), org.clone(), self.client_id.as_str()),
        }
    }

    /// For the audit log: of each secret whether there is one, and whether it is another one than before.
    fn fields(&self, before: Option<&Self>) -> Value {
        let text = |secret: &AppSecret| secret.secret.as_ref().map(|secret| secret.expose_secret().to_owned());
        let mark = |own: Option<&AppSecret>, other: Option<&AppSecret>| match (own, other) {
            (None, _) => "none",
            (Some(own), Some(other)) if text(own) != text(other) => CHANGED,
            (Some(_), _) => "set",
        };
        json!({
            "client_id": self.client_id, "secret_expires_at": self.secret_expires_at,
            "secret": mark(self.secret.as_ref(), before.and_then(|before| before.secret.as_ref())),
            "next_secret": mark(self.next_secret.as_ref(), before.and_then(|before| before.next_secret.as_ref())),
        })
    }
}

/// Connectors that were connected with an app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppUse {
    /// Which.
    pub app: AppId,
    /// Those that hold a grant of it.
    pub held: u64,
    /// Those of them that wait for a better client.
    pub waiting: u64,
}

#[derive(FromQueryResult)]
struct Row {
    org_id: Option<String>,
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

const COLUMNS: &str = "provider, client_id, sealed_secret, secret_set_at, secret_checked_at, secret_expires_at, \
                       sealed_next_secret, next_set_at, next_checked_at, revision, changed_by, changed_at";
const OF_INSTANCE: &str = "CAST(NULL AS TEXT) AS org_id";

impl Store {
    /// The app of this provider: of this org, or the instance's.
    pub async fn find_oauth_app(&self, org: Option<&OrgId>, provider: &str) -> Result<Option<StoredApp>, StoreError> {
        let doing = "look for an OAuth app";
        let row: Option<Row> = match org {
            None => {
                let sql = format!("SELECT {OF_INSTANCE}, {COLUMNS} FROM oauth_apps WHERE provider = $1");
                sql::one(self.db(), doing, sql, values![provider]).await?
            }
            Some(org) => {
                let sql = format!("SELECT org_id, {COLUMNS} FROM own_oauth_apps WHERE provider = $1 AND org_id = $2");
                sql::one(self.db(), doing, sql, values![provider, org.as_str()]).await?
            }
        };
        match row {
            Some(row) => self.app_of(row).await.map(Some),
            None => Ok(None),
        }
    }

    /// The providers that connectors of any organisation are of.
    pub async fn providers_in_use(&self) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT DISTINCT provider AS id FROM connectors ORDER BY id";
        let found: Vec<sql::Id> = sql::all(self.db(), "look which providers are in use", sql, values![]).await?;
        Ok(found.into_iter().map(|row| row.id).collect())
    }

    /// All of the instance, by provider.
    pub async fn oauth_apps(&self) -> Result<Vec<StoredApp>, StoreError> {
        self.apps(format!("SELECT {OF_INSTANCE}, {COLUMNS} FROM oauth_apps ORDER BY provider")).await
    }

    /// Those of all orgs.
    pub async fn own_oauth_apps(&self) -> Result<Vec<StoredApp>, StoreError> {
        self.apps(format!("SELECT org_id, {COLUMNS} FROM own_oauth_apps ORDER BY org_id, provider")).await
    }

    async fn apps(&self, sql: String) -> Result<Vec<StoredApp>, StoreError> {
        let rows: Vec<Row> = sql::all(self.db(), "list the OAuth apps", sql, values![]).await?;
        let mut apps = Vec::with_capacity(rows.len());
        for row in rows {
            apps.push(self.app_of(row).await?);
        }
        Ok(apps)
    }

    /// Writes an app over the revision that it carries, or as a new one where that is 0. Not over one that has changed
    /// since, and not over a secret that could not be opened: that has to be replaced or taken out.
    pub async fn save_oauth_app(&self, app: &StoredApp) -> Result<Changed, StoreError> {
        let doing = "save an OAuth app";
        // Over another revision than the one that was seen nothing is written.
        let before = self.find_oauth_app(app.org.as_ref(), &app.provider).await?;
        let (table, of_org, org_value, key) = match app.org {
            None => ("oauth_apps", "", "", "provider"),
            Some(_) => ("own_oauth_apps", " AND org_id = $13", ", $13", "org_id, provider"),
        };
        let sql = if app.revision == 0 {
            let org = if app.org.is_some() { ", org_id" } else { "" };
            format!(
                "INSERT INTO {table} (provider, revision, client_id, sealed_secret, secret_set_at, secret_checked_at, \
                 secret_expires_at, sealed_next_secret, next_set_at, next_checked_at, changed_by, changed_at{org}) \
                 VALUES ($1, $2 + 1, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12{org_value}) \
                 ON CONFLICT ({key}) DO NOTHING"
            )
        } else {
            format!(
                "UPDATE {table} SET client_id = $3, sealed_secret = $4, secret_set_at = $5, secret_checked_at = $6, \
                 secret_expires_at = $7, sealed_next_secret = $8, next_set_at = $9, next_checked_at = $10, \
                 changed_by = $11, changed_at = $12, revision = revision + 1 \
                 WHERE provider = $1 AND revision = $2{of_org}"
            )
        };
        let (secret, next) = (app.secret.as_ref(), app.next_secret.as_ref());
        let mut values = values![
            app.provider.as_str(),
            app.revision,
            app.client_id.as_str(),
            self.seal_app_secret(app, Which::Current, secret).await?,
            secret.map(|secret| micros(secret.set_at)),
            secret.and_then(|secret| secret.checked_at).map(micros),
            app.secret_expires_at.map(micros),
            self.seal_app_secret(app, Which::Next, next).await?,
            next.map(|next| micros(next.set_at)),
            next.and_then(|next| next.checked_at).map(micros),
            app.changed_by.clone(),
            micros(app.changed_at),
        ];
        values.extend(app.org.as_ref().map(|org| sea_orm::Value::from(org.as_str())));
        let tx = self.transaction(doing).await?;
        if sql::run(&tx, doing, sql, values).await? == 0 {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(Changed::No);
        }
        let before = before.filter(|_| app.revision > 0);
        let action = if before.is_some() { "oauth_app.changed" } else { "oauth_app.created" };
        let line = Change::new(app.org.as_ref(), action, ("oauth_app", &app.provider, &app.provider));
        let was = before.as_ref().map_or(Value::Null, |before| before.fields(None));
        self.audit(&tx, line.was(was).now(app.fields(before.as_ref()))).await?;
        tx.commit().await.map_err(failed(doing))?;
        self.tell(Signal::OAuthApp(app.provider.clone()));
        Ok(Changed::Yes)
    }

    /// Takes an app out, unless it has changed since it was read.
    pub async fn remove_oauth_app(
        &self,
        org: Option<&OrgId>,
        provider: &str,
        revision: i64,
    ) -> Result<Changed, StoreError> {
        let doing = "take an OAuth app out";
        let mut values = values![provider, revision];
        let sql = match org {
            None => "DELETE FROM oauth_apps WHERE provider = $1 AND revision = $2",
            Some(org) => {
                values.push(org.as_str().into());
                "DELETE FROM own_oauth_apps WHERE provider = $1 AND revision = $2 AND org_id = $3"
            }
        };
        let before = self.find_oauth_app(org, provider).await?;
        let tx = self.transaction(doing).await?;
        if sql::run(&tx, doing, sql, values).await? == 0 {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(Changed::No);
        }
        let was = before.map_or(Value::Null, |before| before.fields(None));
        let line = Change::new(org, "oauth_app.removed", ("oauth_app", provider, provider)).was(was);
        self.audit(&tx, line).await?;
        tx.commit().await.map_err(failed(doing))?;
        self.tell(Signal::OAuthApp(provider.to_owned()));
        Ok(Changed::Yes)
    }

    /// Connectors that were connected with this app and rest because it was refused or missing are due now: a right one is
    /// there. Answers how many credentials that are.
    pub async fn retry_refused_app(&self, app: &AppId, now: DateTime<Utc>) -> Result<u64, StoreError> {
        let doing = "let refused connectors try again";
        let sql = "UPDATE credentials SET retry_at = NULL, due_at = CASE WHEN due_at > $3 THEN $3 ELSE due_at END \
                   WHERE degraded_class = $2 AND provider = $1";
        let (app, refused) = (app.to_string(), Trouble::AppBroken.as_str());
        let count = sql::run(self.db(), doing, sql, values![app.as_str(), refused, micros(now)]).await?;
        let sql = "SELECT c.id FROM connectors c JOIN credentials k ON k.id = c.credential_id \
                   WHERE k.provider = $1 AND k.degraded_class = $2";
        let changed: Vec<sql::Id> = sql::all(self.db(), doing, sql, values![app, refused]).await?;
        for row in changed {
            self.connector_changed(&row.id.into());
        }
        Ok(count)
    }

    /// Accounts of this provider that connectors hold a credential for, of this org or of all, those that work first; for a
    /// question to the provider that is not about one of them.
    pub async fn some_accounts(
        &self,
        org: Option<&OrgId>,
        provider: &str,
        limit: u32,
    ) -> Result<Vec<String>, StoreError> {
        let mut values = values![provider, i64::from(limit)];
        values.extend(org.map(|org| sea_orm::Value::from(org.as_str())));
        let of_org = if org.is_some() { " AND c.org_id = $3" } else { "" };
        let sql = format!(
            "SELECT c.account AS id FROM connectors c JOIN credentials k ON k.id = c.credential_id \
             WHERE c.provider = $1 AND c.account <> ''{of_org} ORDER BY CASE c.health WHEN 'connected' THEN 0 ELSE 1 END, \
             CASE WHEN k.kind = 'tokens' THEN 0 ELSE 1 END, c.id LIMIT $2"
        );
        let rows: Vec<sql::Id> = sql::all(self.db(), "look for accounts of a provider", sql, values).await?;
        Ok(rows.into_iter().map(|row| row.id).collect())
    }

    /// Which apps of this provider connectors hold grants of: those of this org, or of all; by the apps' names.
    pub async fn apps_in_use(&self, org: Option<&OrgId>, provider: &str) -> Result<Vec<AppUse>, StoreError> {
        let mut values = values![provider, Trouble::AppBroken.as_str()];
        values.extend(org.map(|org| sea_orm::Value::from(org.as_str())));
        let of_org = if org.is_some() { " AND c.org_id = $3" } else { "" };
        let sql = format!(
            "SELECT k.provider AS app, COUNT(*) AS held, COUNT(CASE WHEN k.degraded_class = $2 THEN 1 END) AS waiting \
             FROM connectors c JOIN credentials k ON k.id = c.credential_id \
             WHERE c.provider = $1 AND k.kind = 'tokens'{of_org} GROUP BY k.provider ORDER BY k.provider"
        );
        let counted: Vec<Counted> = sql::all(self.db(), "count the connectors of apps", sql, values).await?;
        let read = |row: Counted| {
            let app = row.app.as_deref().map_or_else(|| Some(AppId::instance(provider)), AppId::parse);
            Ok(AppUse {
                app: app.ok_or_else(|| nonsense("credentials", "provider", &row.app.unwrap_or_default()))?,
                held: row.held.unsigned_abs(),
                waiting: row.waiting.unsigned_abs(),
            })
        };
        counted.into_iter().map(read).collect()
    }

    async fn app_of(&self, row: Row) -> Result<StoredApp, StoreError> {
        let org = row.org_id.map(OrgId::from);
        let key = match &org {
            Some(org) => Some((org, self.data_key(self.db(), org).await?)),
            None => None,
        };
        let provider = row.provider;
        let open = |which: Which, sealed: &[u8]| {
            let field = which.field(&provider);
            match &key {
                None => self.inner.sealer.open_for_instance(&field, sealed),
                Some((org, key)) => key.open(Place { org, owner: &provider, field: &field }, sealed),
            }
        };
        let secret =
            |which: Which, sealed: Option<Vec<u8>>, set_at: Option<DateTime<Utc>>, checked_at| match (sealed, set_at) {
                (None, _) => Ok(None),
                (Some(_), None) => Err(nonsense("oauth_apps", "set_at", &provider)),
                (Some(sealed), Some(set_at)) => {
                    let opened = open(which, &sealed).ok();
                    let secret = opened.and_then(|plain| std::str::from_utf8(&plain).ok().map(SecretString::from));
                    Ok(Some(AppSecret { secret, set_at, checked_at }))
                }
            };
        let current = secret(Which::Current, row.sealed_secret, row.secret_set_at, row.secret_checked_at)?;
        let next = secret(Which::Next, row.sealed_next_secret, row.next_set_at, row.next_checked_at)?;
        Ok(StoredApp {
            secret: current,
            next_secret: next,
            client_id: row.client_id,
            secret_expires_at: row.secret_expires_at,
            revision: row.revision,
            changed_by: row.changed_by,
            changed_at: row.changed_at,
            provider,
            org,
        })
    }

    async fn seal_app_secret(
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
        Ok(Some(match &app.org {
            None => self.inner.sealer.seal_for_instance(&field, plain.expose_secret().as_bytes()),
            Some(org) => {
                let place = Place { org, owner: &app.provider, field: &field };
                self.data_key(self.db(), org).await?.seal_text(place, plain)
            }
        }))
    }
}

#[derive(FromQueryResult)]
struct Counted {
    app: Option<String>,
    held: i64,
    waiting: i64,
}
