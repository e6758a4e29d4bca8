//! What people do to a credential: a new grant, and taking it off.

use chrono::{DateTime, Utc};
use holdfast_core::{
    AppId, ConnectorId, Health, OrgId, Secret, Snapshot, Version,
    health::Event,
    ports::{Changed, CredentialStore as _, StoreError},
};
use sea_orm::FromQueryResult;
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::{
    claims::{self, GrantClaim, GrantClaimed, Rival},
    credentials::{WriteSecret, lock_of},
    extras,
    health::{Change, patients},
    row::{self, Columns, Row},
    sql::{self, failed, values},
    store::Store,
};

/// A grant, exchanged and checked, to be stored.
#[derive(Clone, Debug)]
pub struct Grant {
    /// Of which connector.
    pub connector: ConnectorId,
    /// Of the consent, from [`Store::start_session`].
    pub sequence: i64,
    /// The OAuth app that the consent was given to; for a key the instance's.
    pub app: AppId,
    /// What the consent brought, or the key that a person gave.
    pub secret: Secret,
    /// What the provider's who-am-I call said; `None` keeps what is stored.
    pub identity: Option<Value>,
    /// Merged by name; others survive.
    pub extras: Vec<(String, SecretString)>,
    /// Next time for the scheduler.
    pub due_at: Option<DateTime<Utc>>,
    /// When.
    pub at: DateTime<Utc>,
    /// Who gave it, for the timeline.
    pub actor: Option<String>,
}

/// What became of a [`Grant`].
#[derive(Clone, Debug)]
pub enum Granted {
    /// It is stored; the snapshot as committed.
    Yes(Box<Snapshot>),
    /// A consent that was started later is stored already; nothing was written.
    Older,
    /// Its claim was over, and another connector has been given what the two cannot both have; nothing was written.
    Held(Rival),
    /// The same, and another consent is at it.
    UnderWay,
    /// The connector was deleted meanwhile.
    Gone,
}

/// A connector that works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connected {
    /// Which.
    pub connector: ConnectorId,
    /// What it was connected with.
    pub app: AppId,
    /// Its account's id.
    pub account: String,
    /// The user's id at the provider.
    pub user: Option<String>,
}

#[derive(FromQueryResult)]
struct Consent {
    grant_sequence: i64,
    health: String,
}

impl Store {
    /// Stores a grant: version and epoch grow by one, marks are cleared, extras are merged. Of concurrent ones the one
    /// whose consent was started last wins. Other connectors on the same credential that had failed recover with it.
    pub async fn store_grant(&self, grant: &Grant) -> Result<Granted, StoreError> {
        self.store_claimed(grant, None).await
    }

    /// The same of a grant that was claimed before it was made. The claim ends with it, and where somebody else has come
    /// in after the claim was over, nothing is stored.
    pub async fn store_claimed(&self, grant: &Grant, claim: Option<&GrantClaim>) -> Result<Granted, StoreError> {
        let doing = "store a grant";
        let id = &grant.connector;
        let tx = self.transaction(doing).await?;
        if let Some(claim) = claim.filter(|claim| claim.alone) {
            claims::gate(&tx, &claim.provider).await?;
        }
        let Some(locked) = lock_of(&tx, doing, id).await? else {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(Granted::Gone);
        };
        let consent = "SELECT grant_sequence, health FROM connectors WHERE id = $1";
        let Some(before) = sql::one::<Consent>(&tx, doing, consent, values![id.as_str()]).await? else {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(Granted::Gone);
        };
        if before.grant_sequence == grant.sequence {
            // Ours is stored already: the answer to that commit did not reach us, and we were called again.
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(self.load(id).await?.map_or(Granted::Gone, |stored| Granted::Yes(Box::new(stored))));
        }
        if before.grant_sequence > grant.sequence {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(Granted::Older);
        }
        if let Some(claim) = claim {
            let claimed = if claim.alone { claims::take(&tx, claim, grant.at).await? } else { GrantClaimed::Yes };
            let lost = match claimed {
                GrantClaimed::Yes => None,
                GrantClaimed::Held(rival) => Some(Granted::Held(rival)),
                GrantClaimed::Later => Some(Granted::Older),
                GrantClaimed::UnderWay => Some(Granted::UnderWay),
            };
            if let Some(lost) = lost {
                tx.rollback().await.map_err(failed(doing))?;
                return Ok(lost);
            }
            claims::end(&tx, &claim.consent).await?;
        }
        let org = OrgId::from(locked.org_id);
        let version = Version(locked.version).next();
        let key = self.data_key(&tx, &org).await?;
        let columns = Columns::of(&grant.secret, &key, &org, &locked.id).ok_or_else(|| StoreError::new(doing))?;
        let write = WriteSecret { credential: &locked.id, version, columns, due_at: grant.due_at, at: grant.at };
        write.run(&tx, doing, "").await?;
        let app = "UPDATE credentials SET provider = $2 WHERE id = $1";
        sql::run(&tx, doing, app, values![locked.id.as_str(), grant.app.to_string()]).await?;
        let note = "UPDATE connectors SET grant_sequence = $2, identity = COALESCE($3, identity) WHERE id = $1";
        sql::run(&tx, doing, note, values![id.as_str(), grant.sequence, grant.identity.clone()]).await?;
        for (name, value) in &grant.extras {
            extras::insert(&tx, &key, &org, id, name, value).await?;
        }
        let again = matches!(row::health(&before.health, id.as_str())?, Health::Connected | Health::AuthFailed);
        let change = Change {
            event: Event::Authorized,
            reason: None,
            detail: None,
            at: grant.at,
            kind: if again { "reconnected" } else { "connected" },
            actor: grant.actor.as_deref(),
            version,
            always: true,
        };
        let sharing = patients(&tx, doing, "credential_id = $1", &locked.id).await?;
        for patient in &sharing {
            if patient.id == id.as_str() {
                self.change(&tx, patient, &change).await?;
            } else if patient.health == Health::AuthFailed.as_str() {
                self.change(&tx, patient, &Change { kind: "health", ..change }).await?;
            }
        }
        let action = if again { "connector.reconnected" } else { "connector.connected" };
        let now =
            json!({ "consent_of": grant.identity.as_ref().map(|who| &who["name"]), "app": grant.app.to_string() });
        self.audit_connector(&tx, &org, id, action, (Value::Null, now)).await?;
        let sql = format!("{} WHERE c.id = $1", row::SELECT);
        let row: Option<Row> = sql::one(&tx, doing, sql, values![id.as_str()]).await?;
        let snapshot = row.ok_or_else(|| StoreError::new(doing))?.view(&self.inner.sealer)?.snapshot;
        tx.commit().await.map_err(failed(doing))?;
        self.credential_changed(&snapshot.credential.id).await;
        for patient in sharing {
            self.health_changed(&patient.id.into()).await;
        }
        Ok(Granted::Yes(Box::new(snapshot)))
    }

    /// The connected connectors of a provider, in all orgs: which, with what account, and the id of the user whose access
    /// they work with, where it is known.
    pub async fn connected(&self, provider: &str) -> Result<Vec<Connected>, StoreError> {
        #[derive(FromQueryResult)]
        struct Line {
            id: String,
            org_id: String,
            credential_id: String,
            app: Option<String>,
            account: String,
            identity: Option<Value>,
        }
        let sql = "SELECT c.id, c.org_id, c.credential_id, k.provider AS app, c.account, c.identity FROM connectors c \
                   JOIN credentials k ON k.id = c.credential_id WHERE c.provider = $1 AND c.health = $2 ORDER BY c.id";
        let values = values![provider, Health::Connected.as_str()];
        let lines: Vec<Line> = sql::all(self.db(), "list who is connected", sql, values).await?;
        let read = |line: Line| {
            Ok(Connected {
                user: line.identity.as_ref().and_then(|identity| identity["id"].as_str()).map(str::to_owned),
                app: row::app_of(line.app.as_deref(), provider, &line.org_id, &line.credential_id)?,
                connector: line.id.into(),
                account: line.account,
            })
        };
        lines.into_iter().map(read).collect()
    }

    /// When this connector was last given a grant by a consent.
    pub async fn granted_at(&self, org: &OrgId, id: &ConnectorId) -> Result<Option<DateTime<Utc>>, StoreError> {
        #[derive(FromQueryResult)]
        struct Line {
            at: DateTime<Utc>,
        }
        let sql = "SELECT \"at\" FROM timeline WHERE org_id = $1 AND connector_id = $2 \
                   AND kind IN ('connected', 'reconnected') ORDER BY \"at\" DESC, id DESC LIMIT 1";
        let values = values![org.as_str(), id.as_str()];
        let line: Option<Line> = sql::one(self.db(), "look when a grant was given", sql, values).await?;
        Ok(line.map(|line| line.at))
    }

    /// Takes a connector off and wipes its secret, unless another connector still works with it; the version does not
    /// move, extras stay. Answers what was held, for a revocation; [`Secret::Absent`] when nothing was, or when it is
    /// shared. `None`: there is no such connector.
    pub async fn disconnect(
        &self,
        org: &OrgId,
        id: &ConnectorId,
        at: DateTime<Utc>,
    ) -> Result<Option<Secret>, StoreError> {
        let doing = "disconnect a connector";
        let tx = self.transaction(doing).await?;
        let Some(locked) = lock_of(&tx, doing, id).await?.filter(|found| found.org_id == org.as_str()) else {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(None);
        };
        let sharing = patients(&tx, doing, "credential_id = $1", &locked.id).await?;
        let disconnected = Health::Disconnected.as_str();
        let shared = sharing.iter().any(|other| other.id != id.as_str() && other.health != disconnected);
        let mut held = Secret::Absent;
        if !shared {
            let sql = format!("{} WHERE c.id = $1", row::SELECT);
            let row: Option<Row> = sql::one(&tx, doing, sql, values![id.as_str()]).await?;
            held = row.map_or(Secret::Absent, |row| row.secret(&self.inner.sealer));
            let wipe = "UPDATE credentials SET kind = 'none', sealed = NULL, fingerprint = NULL, scopes = $2, \
                        obtained_at = NULL, expires_at = NULL, expires_assumed = FALSE, refresh_expires_at = NULL, \
                        base_url = NULL, found = NULL, due_at = NULL, ends_at = NULL, warn_at = NULL, retry_at = NULL, failures = 0, degraded_class = NULL, \
                        degraded_since = NULL, answer_lost = FALSE WHERE id = $1";
            let no_scopes = Value::Array(Vec::new());
            sql::run(&tx, doing, wipe, values![locked.id.as_str(), no_scopes]).await?;
            let spare = "DELETE FROM spares WHERE credential_id = $1";
            sql::run(&tx, doing, spare, values![locked.id.as_str()]).await?;
        }
        let change = Change {
            event: Event::Disconnected,
            reason: None,
            detail: None,
            at,
            kind: "health",
            actor: None,
            version: Version(locked.version),
            always: false,
        };
        for patient in sharing.iter().filter(|patient| patient.id == id.as_str()) {
            if self.change(&tx, patient, &change).await? == Changed::Yes {
                let both = (json!({ "health": patient.health }), json!({ "health": disconnected }));
                self.audit_connector(&tx, org, id, "connector.disconnected", both).await?;
            }
        }
        tx.commit().await.map_err(failed(doing))?;
        self.connector_changed(id);
        self.health_changed(id).await;
        Ok(Some(held))
    }
}
