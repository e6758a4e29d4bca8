//! Table `webhook_endpoints`: the addresses that providers send to, and what proves a delivery there.
//!
//! - [`taken`]: what arrived, with its job, in one transaction.
//! - [`work`]: what follows from it for agents.
//! - [`refused`]: what was turned away, and when an address answers "gone".
//! - [`subscriptions`]: what makes the provider send, and when it is looked at.
//! - [`read`]: lists for people.

mod read;
mod refused;
mod subscriptions;
mod taken;
mod work;

use chrono::{DateTime, Utc};
use holdfast_core::{
    AppId, ConnectorId, Health, OrgId,
    credential::hex,
    ports::{Changed, StoreError},
    webhook::subscription::Standing,
};
use sea_orm::{ConnectionTrait, FromQueryResult};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use crate::{
    audit::{CHANGED, Change},
    row,
    seal::Place,
    sql::{self, because, failed, micros, nonsense, values},
    store::Store,
    timeline::{self, Entry},
};

pub use read::{Delivery, DeliveryFilter, SaidBy};
pub use refused::{Rejection, Rejections, Threshold, TurnedAway};
pub use subscriptions::{DueLook, Looked, NewlyConnected, Pace, Subscribed};
pub use taken::{Arrived, Dedupe, DeliveryState, TakenDelivery};
pub use work::{PassedOver, WhyNoRun, WorkedOff};

/// An address that a provider sends to.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Random, and part of the address.
    pub id: String,
    /// Whose; `None`: the instance's.
    pub org: Option<OrgId>,
    /// Whom it serves.
    pub owner: Owner,
    /// The provider's id.
    pub provider: String,
    /// Which of the provider's ways.
    pub kind: String,
    /// What proves a delivery: the current secret, then the one before while it counts.
    pub secrets: Vec<SecretString>,
    /// A secret is stored and cannot be opened.
    pub unreadable: bool,
    /// Until when the one before counts.
    pub previous_until: Option<DateTime<Utc>>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When the first delivery was accepted.
    pub first_at: Option<DateTime<Utc>>,
    /// When one was accepted lately; within some seconds.
    pub accepted_at: Option<DateTime<Utc>>,
    /// Proven deliveries that were turned away since then.
    pub refused: u64,
    /// Since when.
    pub refused_since: Option<DateTime<Utc>>,
    /// Since when it answers that it is gone.
    pub gone_at: Option<DateTime<Utc>>,
    /// All that were turned away since one was accepted, proven or not.
    pub failures: u64,
    /// Since when.
    pub failing_since: Option<DateTime<Utc>>,
    /// What makes the provider send there.
    pub subscribed: Subscribed,
}

/// Whom an address serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// One connector.
    Connector(ConnectorId),
    /// All connectors of an OAuth app.
    App(AppId),
}

/// A connector that deliveries may be for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receiver {
    /// Its id.
    pub connector: ConnectorId,
    /// Whose.
    pub org: OrgId,
    /// The account's canonical id.
    pub account: String,
    /// The id that its identity has at the provider, where it is known.
    pub identity: Option<String>,
    /// Whether it works.
    pub health: Health,
    /// Since when.
    pub since: DateTime<Utc>,
    /// The OAuth app of its credential.
    pub app: AppId,
}

/// What an address stands for.
#[derive(Clone, Debug)]
pub enum Known {
    /// It takes deliveries; with the connector that it belongs to.
    Live(Box<Endpoint>, Option<Box<Receiver>>),
    /// Its connector was deleted.
    Deleted,
}

/// An address to be made.
#[derive(Clone, Debug)]
pub struct NewEndpoint<'a> {
    /// Whose; `None`: the instance's.
    pub org: Option<&'a OrgId>,
    /// Whom it is to serve.
    pub owner: &'a Owner,
    /// The provider's id.
    pub provider: &'a str,
    /// Which of the provider's ways.
    pub kind: &'a str,
    /// What proves a delivery, where it is known already.
    pub secret: Option<&'a SecretString>,
    /// When.
    pub at: DateTime<Utc>,
    /// Who.
    pub actor: &'a str,
}

#[derive(FromQueryResult)]
struct Row {
    id: String,
    org_id: Option<String>,
    connector_id: Option<String>,
    app: Option<String>,
    provider: String,
    kind: String,
    sealed_secret: Option<Vec<u8>>,
    sealed_previous: Option<Vec<u8>>,
    previous_until: Option<DateTime<Utc>>,
    created_at: DateTime<Utc>,
    first_at: Option<DateTime<Utc>>,
    accepted_at: Option<DateTime<Utc>>,
    refused: i64,
    refused_since: Option<DateTime<Utc>>,
    gone_at: Option<DateTime<Utc>>,
    failures: i64,
    failing_since: Option<DateTime<Utc>>,
    receive: bool,
    standing: Option<String>,
    standing_words: Option<String>,
    standing_since: Option<DateTime<Utc>>,
    known: Option<Value>,
    looked_at: Option<DateTime<Utc>>,
    lapses_at: Option<DateTime<Utc>>,
    look_at: Option<DateTime<Utc>>,
    alarm_at: Option<DateTime<Utc>>,
    deleted_at: Option<DateTime<Utc>>,
    sealed_data_key: Option<Vec<u8>>,
}

#[derive(FromQueryResult)]
struct ReceiverRow {
    connector_id: String,
    org_id: String,
    provider: String,
    credential_id: String,
    app: Option<String>,
    account: String,
    identity: Option<Value>,
    health: String,
    health_since: DateTime<Utc>,
}

const SELECT: &str = "SELECT e.id, e.org_id, e.connector_id, e.app, e.provider, e.kind, e.sealed_secret, \
     e.sealed_previous, e.previous_until, e.created_at, e.first_at, e.accepted_at, e.refused, e.refused_since, e.gone_at, \
     e.failures, e.failing_since, e.receive, e.standing, e.standing_words, e.standing_since, e.known, e.looked_at, \
     e.lapses_at, e.look_at, e.alarm_at, e.deleted_at, o.sealed_data_key FROM webhook_endpoints e \
     LEFT JOIN orgs o ON o.id = e.org_id WHERE ";
const RECEIVER: &str = "SELECT c.id AS connector_id, c.org_id, c.provider, c.credential_id, k.provider AS app, c.account, \
     c.identity, c.health, c.health_since FROM connectors c JOIN credentials k ON k.id = c.credential_id WHERE ";
const SECRET: &str = "webhook.secret";

impl Store {
    /// What stands at this address. `None`: nothing ever did.
    pub async fn find_endpoint(&self, id: &str, now: DateTime<Utc>) -> Result<Option<Known>, StoreError> {
        let doing = "look for a webhook's address";
        let row: Option<Row> = sql::one(self.db(), doing, format!("{SELECT} e.id = $1"), values![id]).await?;
        let Some(row) = row else { return Ok(None) };
        if row.deleted_at.is_some() {
            return Ok(Some(Known::Deleted));
        }
        let endpoint = self.endpoint(row, now)?;
        let Owner::Connector(connector) = &endpoint.owner else {
            return Ok(Some(Known::Live(Box::new(endpoint), None)));
        };
        let sql = format!("{RECEIVER} c.id = $1");
        let receiver: Option<ReceiverRow> = sql::one(self.db(), doing, sql, values![connector.as_str()]).await?;
        let Some(receiver) = receiver else { return Ok(Some(Known::Deleted)) };
        Ok(Some(Known::Live(Box::new(endpoint), Some(Box::new(Receiver::try_from(receiver)?)))))
    }

    /// The connectors of an OAuth app whose account, or whose identity, has this name; in all orgs where it is the
    /// instance's. The adapter has the last word on them.
    pub async fn receivers(&self, app: &AppId, told: &str) -> Result<Vec<Receiver>, StoreError> {
        let sql = format!(
            "{RECEIVER} c.provider = $1 AND COALESCE(k.provider, c.provider) = $2 \
             AND (c.account = $3 OR c.account = $4 OR c.identity ->> 'id' = $3) ORDER BY c.id"
        );
        let values = values![app.provider(), app.to_string(), told, told.to_lowercase()];
        let rows: Vec<ReceiverRow> = sql::all(self.db(), "look whom a delivery is for", sql, values).await?;
        rows.into_iter().map(Receiver::try_from).collect()
    }

    /// The addresses of a connector, oldest first.
    pub async fn endpoints_of(
        &self,
        org: &OrgId,
        connector: &ConnectorId,
        now: DateTime<Utc>,
    ) -> Result<Vec<Endpoint>, StoreError> {
        let sql = format!(
            "{SELECT} e.org_id = $1 AND e.connector_id = $2 AND e.deleted_at IS NULL ORDER BY e.created_at, e.id"
        );
        let rows: Vec<Row> =
            sql::all(self.db(), "list webhooks", sql, values![org.as_str(), connector.as_str()]).await?;
        rows.into_iter().map(|row| self.endpoint(row, now)).collect()
    }

    /// The addresses of these connectors of the org, for lists.
    pub async fn endpoints_of_all(
        &self,
        org: &OrgId,
        connectors: &[&ConnectorId],
        now: DateTime<Utc>,
    ) -> Result<Vec<Endpoint>, StoreError> {
        if connectors.is_empty() {
            return Ok(Vec::new());
        }
        let places = sql::list(connectors.len());
        let org_at = connectors.len() + 1;
        let sql = format!(
            "{SELECT} e.connector_id IN ({places}) AND e.org_id = ${org_at} AND e.deleted_at IS NULL \
             ORDER BY e.created_at, e.id"
        );
        let mut values: Vec<_> = connectors.iter().map(|id| sea_orm::Value::from(id.as_str())).collect();
        values.push(org.as_str().into());
        let rows: Vec<Row> = sql::all(self.db(), "list webhooks", sql, values).await?;
        rows.into_iter().map(|row| self.endpoint(row, now)).collect()
    }

    /// The address of an OAuth app; `None`: it has none of this kind.
    pub async fn endpoint_of_app(
        &self,
        app: &AppId,
        kind: &str,
        now: DateTime<Utc>,
    ) -> Result<Option<Endpoint>, StoreError> {
        let sql = format!("{SELECT} e.app = $1 AND e.kind = $2");
        let row: Option<Row> =
            sql::one(self.db(), "look for an app's webhook", sql, values![app.to_string(), kind]).await?;
        row.map(|row| self.endpoint(row, now)).transpose()
    }

    /// Makes an address, unless its owner has one of this kind already: that one stays as it is. Answers it, and whether it
    /// is new.
    pub async fn make_endpoint(&self, new: &NewEndpoint<'_>) -> Result<(Endpoint, Changed), StoreError> {
        let doing = "make a webhook's address";
        let mut random = [0; 16];
        self.inner.options.random.fill(&mut random);
        // No moment in it, as other ids have: who sends here should be able to guess nothing.
        let id = format!("hook_{}", hex(&random));
        let tx = self.transaction(doing).await?;
        let sealed = match new.secret {
            Some(secret) => Some(self.seal_secret(&tx, new.org, &id, secret).await?),
            None => None,
        };
        let (connector, app) = match new.owner {
            Owner::Connector(connector) => (Some(connector.as_str().to_owned()), None),
            Owner::App(app) => (None, Some(app.to_string())),
        };
        let insert = "INSERT INTO webhook_endpoints (id, org_id, connector_id, app, provider, kind, sealed_secret, \
                      created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING";
        let values = values![
            id.as_str(),
            new.org.map(|org| org.as_str().to_owned()),
            connector.clone(),
            app.clone(),
            new.provider,
            new.kind,
            sealed,
            micros(new.at),
        ];
        let made = sql::changed(sql::run(&tx, doing, insert, values).await?);
        if let (Changed::Yes, Owner::Connector(connector), Some(org)) = (made, new.owner, new.org) {
            self.webhook_line(&tx, org, connector, "made", Some(new.actor), None, new.at).await?;
        }
        if made == Changed::Yes {
            let both = (Value::Null, json!({ "kind": new.kind }));
            self.audit_webhook(&tx, new.org, new.owner, "webhook.made", both).await?;
        }
        let find = format!("{SELECT} (e.connector_id = $1 OR e.app = $2) AND e.kind = $3 AND e.deleted_at IS NULL");
        let row: Option<Row> = sql::one(&tx, doing, find, values![connector, app, new.kind]).await?;
        tx.commit().await.map_err(failed(doing))?;
        let endpoint = self.endpoint(row.ok_or_else(|| StoreError::new(doing))?, new.at)?;
        if let (Changed::Yes, Owner::Connector(connector)) = (made, new.owner) {
            self.connector_changed(connector);
        }
        Ok((endpoint, made))
    }

    /// Another secret. The one before counts until then; `None`: it counts no more.
    pub async fn put_endpoint_secret(
        &self,
        endpoint: &Endpoint,
        secret: &SecretString,
        previous_until: Option<DateTime<Utc>>,
        actor: &str,
        at: DateTime<Utc>,
    ) -> Result<Changed, StoreError> {
        let doing = "change a webhook's secret";
        let tx = self.transaction(doing).await?;
        let sealed = self.seal_secret(&tx, endpoint.org.as_ref(), &endpoint.id, secret).await?;
        let sql = "UPDATE webhook_endpoints SET \
                   sealed_previous = CASE WHEN $3 IS NULL THEN NULL ELSE sealed_secret END, previous_until = $3, \
                   sealed_secret = $2 WHERE id = $1 AND deleted_at IS NULL";
        let until = previous_until.map(micros);
        let changed = sql::changed(sql::run(&tx, doing, sql, values![endpoint.id.as_str(), sealed, until]).await?);
        if let (Changed::Yes, Owner::Connector(connector), Some(org)) = (changed, &endpoint.owner, &endpoint.org) {
            self.webhook_line(&tx, org, connector, "secret_changed", Some(actor), None, at).await?;
        }
        if changed == Changed::Yes {
            let both = (Value::Null, json!({ "secret": CHANGED, "previous_until": until }));
            self.audit_webhook(&tx, endpoint.org.as_ref(), &endpoint.owner, "webhook.secret_rotated", both).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        if let Owner::Connector(connector) = &endpoint.owner {
            self.connector_changed(connector);
        }
        Ok(changed)
    }

    /// It takes deliveries again, and what was turned away is forgotten.
    pub async fn enable_endpoint(
        &self,
        endpoint: &Endpoint,
        actor: &str,
        at: DateTime<Utc>,
    ) -> Result<Changed, StoreError> {
        let doing = "let a webhook take deliveries again";
        let tx = self.transaction(doing).await?;
        let sql = format!("UPDATE webhook_endpoints SET {RESET} WHERE id = $1 AND gone_at IS NOT NULL");
        let changed = sql::changed(sql::run(&tx, doing, sql, values![endpoint.id.as_str()]).await?);
        if let (Changed::Yes, Owner::Connector(connector), Some(org)) = (changed, &endpoint.owner, &endpoint.org) {
            self.webhook_line(&tx, org, connector, "enabled", Some(actor), None, at).await?;
        }
        if changed == Changed::Yes {
            let nothing = (Value::Null, Value::Null);
            self.audit_webhook(&tx, endpoint.org.as_ref(), &endpoint.owner, "webhook.enabled", nothing).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        if let Owner::Connector(connector) = &endpoint.owner {
            self.connector_changed(connector);
        }
        Ok(changed)
    }

    /// By what it serves: its address is for those who send there alone.
    async fn audit_webhook(
        &self,
        tx: &impl ConnectionTrait,
        org: Option<&OrgId>,
        owner: &Owner,
        action: &'static str,
        both: (Value, Value),
    ) -> Result<(), StoreError> {
        match (owner, org) {
            (Owner::Connector(connector), Some(org)) => self.audit_connector(tx, org, connector, action, both).await,
            (Owner::App(app), org) => {
                let change = Change::new(org, action, ("oauth_app", app.provider(), app.provider()));
                self.audit(tx, change.was(both.0).now(both.1)).await
            }
            (Owner::Connector(_), None) => Ok(()),
        }
    }

    async fn seal_secret(
        &self,
        db: &impl ConnectionTrait,
        org: Option<&OrgId>,
        endpoint: &str,
        secret: &SecretString,
    ) -> Result<Vec<u8>, StoreError> {
        let Some(org) = org else {
            let field = format!("{SECRET}.{endpoint}");
            return Ok(self.inner.sealer.seal_for_instance(&field, secret.expose_secret().as_bytes()));
        };
        let key = self.data_key(db, org).await?;
        Ok(key.seal_text(Place { org, owner: endpoint, field: SECRET }, secret))
    }

    fn endpoint(&self, row: Row, now: DateTime<Utc>) -> Result<Endpoint, StoreError> {
        let owner = match (&row.connector_id, row.app.as_deref().map(AppId::parse)) {
            (Some(connector), None) => Owner::Connector(connector.as_str().into()),
            (None, Some(Some(app))) => Owner::App(app),
            _ => return Err(nonsense("webhook_endpoints", "app", &row.id)),
        };
        let org = row.org_id.as_deref().map(OrgId::from);
        let open = |sealed: &[u8]| match (&org, &row.sealed_data_key) {
            (None, _) => {
                let plain = self.inner.sealer.open_for_instance(&format!("{SECRET}.{}", row.id), sealed).ok()?;
                std::str::from_utf8(&plain).ok().map(SecretString::from)
            }
            (Some(org), Some(data_key)) => {
                let key = self.inner.sealer.data_key(org, data_key).ok()?;
                key.open_text(Place { org, owner: &row.id, field: SECRET }, sealed).ok()
            }
            (Some(_), None) => None,
        };
        let current = row.sealed_secret.as_deref().map(open);
        let previous = row.sealed_previous.as_deref().filter(|_| row.previous_until.is_some_and(|until| now < until));
        let unreadable = matches!(current, Some(None));
        let standing = match &row.standing {
            None => None,
            Some(word) => {
                Some(Standing::parse(word).ok_or_else(|| nonsense("webhook_endpoints", "standing", &row.id))?)
            }
        };
        let subscribed = Subscribed {
            receive: row.receive,
            standing,
            words: row.standing_words,
            since: row.standing_since,
            known: subscriptions::known(row.known),
            looked_at: row.looked_at,
            lapses_at: row.lapses_at,
            look_at: row.look_at,
            alarm_at: row.alarm_at,
        };
        let secrets = current.flatten().into_iter().chain(previous.and_then(open)).collect();
        Ok(Endpoint {
            org,
            owner,
            provider: row.provider,
            kind: row.kind,
            secrets,
            unreadable,
            previous_until: row.previous_until.filter(|until| now < *until),
            created_at: row.created_at,
            first_at: row.first_at,
            accepted_at: row.accepted_at,
            refused: row.refused.unsigned_abs(),
            refused_since: row.refused_since,
            gone_at: row.gone_at,
            failures: row.failures.unsigned_abs(),
            failing_since: row.failing_since,
            subscribed,
            id: row.id,
        })
    }

    #[expect(clippy::too_many_arguments, reason = "the columns of the line")]
    pub(crate) async fn webhook_line(
        &self,
        tx: &impl ConnectionTrait,
        org: &OrgId,
        connector: &ConnectorId,
        outcome: &str,
        actor: Option<&str>,
        detail: Option<String>,
        at: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let entry = Entry {
            org: org.clone(),
            connector: connector.clone(),
            at,
            kind: "webhook".to_owned(),
            outcome: Some(outcome.to_owned()),
            actor: actor.map(str::to_owned),
            detail,
            duration: None,
            version: None,
        };
        timeline::insert(self, tx, &entry).await
    }
}

impl TryFrom<ReceiverRow> for Receiver {
    type Error = StoreError;

    fn try_from(row: ReceiverRow) -> Result<Self, StoreError> {
        Ok(Self {
            app: row::app_of(row.app.as_deref(), &row.provider, &row.org_id, &row.credential_id)?,
            health: row::health(&row.health, &row.connector_id)?,
            identity: row.identity.as_ref().and_then(|identity| identity["id"].as_str()).map(str::to_owned),
            connector: row.connector_id.into(),
            org: row.org_id.into(),
            account: row.account,
            since: row.health_since,
        })
    }
}

/// What an accepted delivery or a reconnect takes away.
const RESET: &str = "refused = 0, refused_since = NULL, gone_at = NULL, gone_told_at = NULL, failures = 0, \
     failing_since = NULL, warned_at = NULL";

/// The connector works again: its addresses take deliveries, whatever was turned away, and their providers are asked
/// whether they still send.
pub(crate) async fn recovered(tx: &impl ConnectionTrait, connector: &str, at: DateTime<Utc>) -> Result<(), StoreError> {
    subscriptions::verify(tx, connector, at).await?;
    let sql = format!(
        "UPDATE webhook_endpoints SET {RESET} WHERE connector_id = $1 AND (refused > 0 OR failures > 0 OR gone_at IS NOT NULL)"
    );
    sql::run(tx, "let webhooks take deliveries again", sql, values![connector]).await.map(|_| ())
}

pub(crate) use subscriptions::rest;

/// The connector is deleted: its addresses stay known, so that senders are told, and their secrets go.
pub(crate) async fn deleted(tx: &impl ConnectionTrait, connector: &str, at: DateTime<Utc>) -> Result<(), StoreError> {
    let sql = "UPDATE webhook_endpoints SET deleted_at = $2, sealed_secret = NULL, sealed_previous = NULL \
               WHERE connector_id = $1 AND deleted_at IS NULL";
    sql::run(tx, "end a webhook's address", sql, values![connector, micros(at)]).await?;
    let rejections = "DELETE FROM webhook_rejections WHERE endpoint_id IN (SELECT id FROM webhook_endpoints WHERE connector_id = $1)";
    sql::run(tx, "forget what was turned away", rejections, values![connector]).await.map(|_| ())
}

fn json(doing: &'static str, value: &impl serde::Serialize) -> Result<Value, StoreError> {
    serde_json::to_value(value).map_err(|error| because(doing, error))
}
