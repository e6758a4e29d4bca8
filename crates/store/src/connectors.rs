//! Table `connectors`: making, naming and deleting them.

use chrono::{DateTime, Utc};
use holdfast_core::{
    AppId, ConnectorId, CredentialId, OrgId, Secret, Version,
    agent::StopReason,
    event::{About, EventType},
    health::Event,
    ports::{Changed, StoreError},
};
use sea_orm::{ConnectionTrait, DatabaseTransaction, FromQueryResult};
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::{
    agent_stops,
    claims::{self, GrantClaim},
    credentials::{WriteSecret, lock_of},
    events, extras,
    health::{Change, patients},
    jobs::end_lane,
    patience::Patient,
    row::{self, Columns, Row},
    seal::DataKey,
    sql::{self, failed, micros, values},
    store::Store,
    webhooks,
};

/// A connector to be made.
#[derive(Clone, Debug)]
pub struct NewConnector {
    /// Whose.
    pub org: OrgId,
    /// The provider's id.
    pub provider: String,
    /// The account's canonical id; empty while nobody has named it.
    pub account: String,
    /// What people call it.
    pub name: String,
    /// A foreign id that the API accepts too; unique in the org.
    pub alias: Option<String>,
    /// What it authenticates with; [`Secret::Absent`] makes it `pending`.
    pub secret: Secret,
    /// The OAuth app that its tokens were given to; `None`: the instance's.
    pub app: Option<AppId>,
    /// Next time for the scheduler.
    pub due_at: Option<DateTime<Utc>>,
    /// What rides along.
    pub extras: Vec<(String, SecretString)>,
    /// When.
    pub at: DateTime<Utc>,
}

impl NewConnector {
    fn app(&self) -> AppId {
        self.app.clone().unwrap_or_else(|| AppId::instance(&self.provider))
    }

    /// For the audit log.
    fn fields(&self) -> Value {
        fields(&self.provider, &self.account, &self.name, self.alias.as_deref())
    }
}

fn fields(provider: &str, account: &str, name: &str, alias: Option<&str>) -> Value {
    json!({ "provider": provider, "account": account, "name": name, "alias": alias })
}

/// What became of a [`NewConnector`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    /// It was made.
    New(ConnectorId),
    /// The org has this one on the same account; nothing was changed.
    Exists(ConnectorId),
    /// Another connector of the org, this one, has the alias; nothing was changed.
    AliasTaken(ConnectorId),
}

#[derive(FromQueryResult)]
struct Was {
    provider: String,
    account: String,
    name: String,
    alias: Option<String>,
}

#[derive(FromQueryResult)]
struct Kept {
    value: Option<Value>,
}

impl Store {
    /// Makes a connector. With a credential it starts `connected`, at version and epoch 1, with the effects in the
    /// outbox.
    pub async fn create_connector(&self, new: &NewConnector) -> Result<Created, StoreError> {
        let made = self.make_connector(new, false).await?;
        Ok(made.expect("only one that has to be alone is held off"))
    }

    /// The same with a secret that can be had by one connector alone, of all orgs: see [`GrantClaim::alone`]. `None`:
    /// another one has that, or is about to; nothing was changed.
    pub async fn create_connector_alone(&self, new: &NewConnector) -> Result<Option<Created>, StoreError> {
        self.make_connector(new, true).await
    }

    async fn make_connector(&self, new: &NewConnector, alone: bool) -> Result<Option<Created>, StoreError> {
        let doing = "make a connector";
        let tx = self.transaction(doing).await?;
        let made = self.make(&tx, new, alone).await?;
        if let Some(Created::New(connector)) = &made {
            let action = if matches!(new.secret, Secret::Absent) { "connector.created" } else { "connector.imported" };
            self.audit_connector(&tx, &new.org, connector, action, (Value::Null, new.fields())).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        if let Some(Created::New(connector)) = &made {
            self.connector_changed(connector);
            self.events_told(std::slice::from_ref(&new.org));
        }
        Ok(made)
    }

    /// In this transaction; what is not made leaves nothing in it.
    pub(crate) async fn make(
        &self,
        tx: &Patient<DatabaseTransaction>,
        new: &NewConnector,
        alone: bool,
    ) -> Result<Option<Created>, StoreError> {
        let doing = "make a connector";
        let connector = ConnectorId::from(self.id("con"));
        let credential = CredentialId::from(self.id("cred"));
        let key = self.data_key(tx, &new.org).await?;
        insert_credential(tx, &key, &credential, new).await?;
        if insert_connector(tx, &connector, &credential, new).await? == 0 {
            delete_credential(tx, &credential).await?;
            let found = in_the_way(tx, new).await?;
            // Between the two statements it may have been deleted; the caller may try again.
            return found.map(Some).ok_or_else(|| StoreError::new(doing));
        }
        if alone {
            let claim = GrantClaim {
                consent: String::new(),
                sequence: 0,
                connector: connector.clone(),
                provider: new.provider.clone(),
                account: new.account.clone(),
                app: new.app(),
                alone,
            };
            if claims::in_the_way(tx, &claim, new.at).await?.is_some() {
                let sql = "DELETE FROM connectors WHERE id = $1";
                sql::run(tx, doing, sql, values![connector.as_str()]).await?;
                delete_credential(tx, &credential).await?;
                return Ok(None);
            }
        }
        for (name, value) in &new.extras {
            extras::insert(tx, &key, &new.org, &connector, name, value).await?;
        }
        if !matches!(new.secret, Secret::Absent) {
            let change = Change {
                event: Event::Authorized,
                reason: None,
                detail: None,
                at: new.at,
                kind: "connected",
                actor: None,
                version: Version::NONE.next(),
                always: false,
            };
            for patient in patients(tx, doing, "id = $1", connector.as_str()).await? {
                self.change(tx, &patient, &change).await?;
            }
        }
        Ok(Some(Created::New(connector)))
    }

    /// Another name for people. Moves neither version nor epoch.
    pub async fn rename_connector(&self, org: &OrgId, id: &ConnectorId, name: &str) -> Result<Changed, StoreError> {
        let doing = "rename a connector";
        let tx = self.transaction(doing).await?;
        let before = "SELECT name AS id FROM connectors WHERE id = $1";
        let before: Option<sql::Id> = sql::one(&tx, doing, before, values![id.as_str()]).await?;
        let sql = "UPDATE connectors SET name = $3 WHERE org_id = $1 AND id = $2";
        if sql::run(&tx, doing, sql, values![org.as_str(), id.as_str(), name]).await? == 0 {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(Changed::No);
        }
        let both = (json!({ "name": before.map(|row| row.id) }), json!({ "name": name }));
        self.audit_connector(&tx, org, id, "connector.renamed", both).await?;
        tx.commit().await.map_err(failed(doing))?;
        self.connector_changed(id);
        Ok(Changed::Yes)
    }

    /// Deletes it with its extras, sessions, exchanges and timeline, and the credential when no other connector shares
    /// it. Answers the secret that went with it, for a revocation; [`Secret::Absent`] when none did. `None`: there is no
    /// such connector. The agents that needed it are stopped until a person binds them to another one. Its endpoints are told. Effects
    /// in the outbox stay, and none are added: disconnect first where they are wished for.
    pub async fn delete_connector(&self, org: &OrgId, id: &ConnectorId) -> Result<Option<Secret>, StoreError> {
        let doing = "delete a connector";
        let tx = self.transaction(doing).await?;
        let Some(locked) = lock_of(&tx, doing, id).await?.filter(|found| found.org_id == org.as_str()) else {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(None);
        };
        let sql = format!("{} WHERE c.id = $1", row::SELECT);
        let held: Option<Row> = sql::one(&tx, doing, sql, values![id.as_str()]).await?;
        let mut held = held.map_or(Secret::Absent, |row| row.secret(&self.inner.sealer));
        let was = "SELECT provider, account, name, alias FROM connectors WHERE id = $1";
        let was: Option<Was> = sql::one(&tx, doing, was, values![id.as_str()]).await?;
        let was = was.map_or(Value::Null, |was| fields(&was.provider, &was.account, &was.name, was.alias.as_deref()));
        self.audit_connector(&tx, org, id, "connector.deleted", (was, Value::Null)).await?;
        // No recovery comes after this: the cause stays until a person binds another connector.
        let now = self.clock().now();
        let told = |about: &About| about.deleted();
        events::tell_of(self, &tx, org, id, EventType::ConnectorDeleted, None, now, told).await?;
        let agents = agent_stops::stop(self, &tx, id, StopReason::Deleted, now).await?;
        let jobs = end_lane(&tx, id.as_str(), StopReason::Deleted, now).await?;
        webhooks::deleted(&tx, id.as_str(), now).await?;
        sql::run(&tx, doing, "DELETE FROM connectors WHERE id = $1", values![id.as_str()]).await?;
        let others = patients(&tx, doing, "credential_id = $1", &locked.id).await?;
        if others.is_empty() {
            sql::run(&tx, doing, "DELETE FROM credentials WHERE id = $1", values![locked.id.as_str()]).await?;
            sql::run(&tx, doing, "DELETE FROM leases WHERE credential_id = $1", values![locked.id.as_str()]).await?;
        } else {
            held = Secret::Absent;
        }
        tx.commit().await.map_err(failed(doing))?;
        self.connector_changed(id);
        self.jobs_moved(&jobs);
        self.events_told(std::slice::from_ref(org));
        for agent in &agents {
            self.agent_changed(agent);
        }
        Ok(Some(held))
    }

    /// Names the account of a connector that has none yet. `Exists`: the org has that account on another connector, and
    /// nothing was changed; `New`: it is this connector's now, or was already; `Exists` with its own id: it was given another
    /// account meanwhile. Two at once: one gets an error, and finds out at the next try.
    pub async fn name_account(&self, id: &ConnectorId, account: &str, name: &str) -> Result<Created, StoreError> {
        let doing = "name the account of a connector";
        let tx = self.transaction(doing).await?;
        let other = "SELECT other.id FROM connectors other JOIN connectors own ON own.org_id = other.org_id \
                     AND own.provider = other.provider WHERE own.id = $1 AND other.account = $2";
        let found: Option<sql::Id> = sql::one(&tx, doing, other, values![id.as_str(), account]).await?;
        let created = match found.map(|found| ConnectorId::from(found.id)) {
            Some(other) if other != *id => Created::Exists(other),
            _ => {
                let sql = "UPDATE connectors SET account = $2, name = CASE WHEN name = '' THEN $3 ELSE name END \
                           WHERE id = $1 AND account = ''";
                let named = sql::run(&tx, doing, sql, values![id.as_str(), account, name]).await? > 0;
                let look = "SELECT account AS id FROM connectors WHERE id = $1";
                let now: Option<sql::Id> = sql::one(&tx, doing, look, values![id.as_str()]).await?;
                // One that is gone is found to be when its grant is stored.
                if named || now.is_none_or(|now| now.id == account) {
                    Created::New(id.clone())
                } else {
                    Created::Exists(id.clone())
                }
            }
        };
        tx.commit().await.map_err(sql::failed(doing))?;
        self.connector_changed(id);
        Ok(created)
    }

    /// Keeps what a test said, and who the provider says it is; `None` keeps the identity that is known.
    pub async fn set_test(
        &self,
        id: &ConnectorId,
        test: &Value,
        identity: Option<&Value>,
    ) -> Result<Changed, StoreError> {
        let sql = "UPDATE connectors SET last_test = $2, identity = COALESCE($3, identity) WHERE id = $1";
        let values = values![id.as_str(), test.clone(), identity.cloned()];
        if sql::run(self.db(), "note a test", sql, values).await? == 0 {
            return Ok(Changed::No);
        }
        self.connector_changed(id);
        Ok(Changed::Yes)
    }

    /// What the last test said.
    pub async fn last_test(&self, org: &OrgId, id: &ConnectorId) -> Result<Option<Value>, StoreError> {
        let sql = "SELECT last_test AS value FROM connectors WHERE org_id = $1 AND id = $2";
        let row: Option<Kept> = sql::one(self.db(), "read a test", sql, values![org.as_str(), id.as_str()]).await?;
        Ok(row.and_then(|row| row.value))
    }
}

async fn insert_credential(
    tx: &impl ConnectionTrait,
    key: &DataKey,
    credential: &CredentialId,
    new: &NewConnector,
) -> Result<(), StoreError> {
    let doing = "make a credential";
    let sql = "INSERT INTO credentials (id, org_id, provider, kind, scopes) VALUES ($1, $2, $3, 'none', $4)";
    let no_scopes = Value::Array(Vec::new());
    let values = values![credential.as_str(), new.org.as_str(), new.app().to_string(), no_scopes];
    sql::run(tx, doing, sql, values).await?;
    if matches!(new.secret, Secret::Absent) {
        return Ok(());
    }
    let columns = Columns::of(&new.secret, key, &new.org, credential.as_str())
        .ok_or_else(|| StoreError::new("seal a secret that could not be opened"))?;
    let version = Version::NONE.next();
    let write = WriteSecret { credential: credential.as_str(), version, columns, due_at: new.due_at, at: new.at };
    write.run(tx, doing, "").await.map(|_| ())
}

async fn delete_credential(tx: &impl ConnectionTrait, credential: &CredentialId) -> Result<(), StoreError> {
    let sql = "DELETE FROM credentials WHERE id = $1";
    sql::run(tx, "make no credential", sql, values![credential.as_str()]).await.map(|_| ())
}

async fn insert_connector(
    tx: &impl ConnectionTrait,
    connector: &ConnectorId,
    credential: &CredentialId,
    new: &NewConnector,
) -> Result<u64, StoreError> {
    let sql = "INSERT INTO connectors (id, org_id, credential_id, provider, account, name, alias, health, \
               health_since, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, 'pending', $8, $8) ON CONFLICT DO NOTHING";
    let values = values![
        connector.as_str(),
        new.org.as_str(),
        credential.as_str(),
        new.provider.as_str(),
        new.account.as_str(),
        new.name.as_str(),
        new.alias.clone(),
        micros(new.at),
    ];
    sql::run(tx, "make a connector", sql, values).await
}

/// Which connector of the org has the account, or else the alias.
async fn in_the_way(tx: &impl ConnectionTrait, new: &NewConnector) -> Result<Option<Created>, StoreError> {
    let doing = "look for a connector";
    let account = "SELECT id FROM connectors WHERE org_id = $1 AND provider = $2 AND account = $3";
    let values = values![new.org.as_str(), new.provider.as_str(), new.account.as_str()];
    if !new.account.is_empty()
        && let Some(found) = sql::one::<sql::Id>(tx, doing, account, values).await?
    {
        return Ok(Some(Created::Exists(found.id.into())));
    }
    let alias = "SELECT id FROM connectors WHERE org_id = $1 AND alias = $2";
    let found: Option<sql::Id> = sql::one(tx, doing, alias, values![new.org.as_str(), new.alias.clone()]).await?;
    Ok(found.map(|found| Created::AliasTaken(found.id.into())))
}
