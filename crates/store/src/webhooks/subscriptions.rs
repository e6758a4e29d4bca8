//! What makes providers send, as it is kept with an address: whether it is wanted, how it was found, when to look again.

use chrono::{DateTime, Utc};
use holdfast_core::{
    ConnectorId, Health, OrgId,
    credential::Reason,
    job::Kind,
    ports::{Changed, StoreError},
    webhook::{Subscription, subscription::Standing},
};
use sea_orm::{ConnectionTrait, FromQueryResult};
use secrecy::SecretString;
use serde_json::{Value, json};

use super::{Endpoint, Owner, json as plain, taken::ACCEPTED_EVERY};
use crate::{
    jobs::{self, NewJob},
    sql::{self, failed, micros, values},
    store::Store,
};

/// Of an address, at its provider.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Subscribed {
    /// Events are wanted, and the provider's side is kept here.
    pub receive: bool,
    /// How it was found; `None`: nobody has looked yet.
    pub standing: Option<Standing>,
    /// Why it stands so; for people.
    pub words: Option<String>,
    /// Since when it stands so.
    pub since: Option<DateTime<Utc>>,
    /// As they were seen there.
    pub known: Vec<Subscription>,
    /// When the provider was asked last, and answered.
    pub looked_at: Option<DateTime<Utc>>,
    /// When the first of them ends by itself.
    pub lapses_at: Option<DateTime<Utc>>,
    /// When somebody looks again.
    pub look_at: Option<DateTime<Utc>>,
    /// Since when events do not come, and nothing of ours helps.
    pub alarm_at: Option<DateTime<Utc>>,
}

/// An address whose provider is to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueLook {
    /// The address.
    pub endpoint: String,
    /// Whose.
    pub org: OrgId,
    /// Of which connector.
    pub connector: ConnectorId,
    /// When it was due; what is claimed.
    pub look_at: DateTime<Utc>,
}

/// What a look came to.
#[derive(Clone, Debug)]
pub struct Looked<'a> {
    /// How it stands.
    pub standing: Standing,
    /// Why, for people.
    pub words: Option<&'a str>,
    /// Since when it stands so.
    pub since: DateTime<Utc>,
    /// What is there; `None`: nobody could see, and what was known stays.
    pub known: Option<&'a [Subscription]>,
    /// Another secret, which the provider has made, and until when the one before counts.
    pub secret: Option<(&'a SecretString, Option<DateTime<Utc>>)>,
    /// When to look again; counts unless somebody has asked for another look meanwhile.
    pub look_at: Option<DateTime<Utc>>,
    /// What the row said when the job was claimed.
    pub claimed: Option<DateTime<Utc>>,
    /// Whether people have to be told.
    pub alarming: bool,
    /// Lines for the timeline: outcome and detail.
    pub lines: Vec<(&'static str, Option<String>)>,
    /// When.
    pub at: DateTime<Utc>,
}

/// A connector that was connected, and whose webhook nobody has thought of yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewlyConnected {
    /// Of the outbox.
    pub row: String,
    /// Whose.
    pub org: OrgId,
    /// Which.
    pub connector: ConnectorId,
    /// Its provider's id.
    pub provider: String,
    /// A person has consented; else the access was imported.
    pub consented: bool,
}

/// How many came, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Deliveries that were kept, up to the number that was asked for.
    pub count: u64,
    /// The first of them.
    pub first_at: Option<DateTime<Utc>>,
}

impl Store {
    /// Events are wanted from now on, or no more; the provider's side follows. `No`: it was so before.
    pub async fn set_receive(
        &self,
        endpoint: &Endpoint,
        receive: bool,
        actor: &str,
        at: DateTime<Utc>,
    ) -> Result<Changed, StoreError> {
        let doing = "switch a webhook";
        let (Owner::Connector(connector), Some(org)) = (&endpoint.owner, &endpoint.org) else {
            return Ok(Changed::No);
        };
        let tx = self.transaction(doing).await?;
        let sql = format!(
            "UPDATE webhook_endpoints SET receive = $2, look_at = {} \
             WHERE id = $1 AND receive <> $2 AND deleted_at IS NULL",
            if_connected("$3")
        );
        let values = values![endpoint.id.as_str(), receive, micros(at)];
        let changed = sql::changed(sql::run(&tx, doing, sql, values).await?);
        if changed == Changed::Yes {
            let word = if receive { "receive_on" } else { "receive_off" };
            self.webhook_line(&tx, org, connector, word, Some(actor), None, at).await?;
            let both = (json!({ "receive": !receive }), json!({ "receive": receive }));
            self.audit_connector(&tx, org, connector, "webhook.receive_changed", both).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        self.connector_changed(connector);
        Ok(changed)
    }

    /// The provider is asked at the next chance.
    pub async fn look_soon(&self, endpoint: &Endpoint, at: DateTime<Utc>) -> Result<Changed, StoreError> {
        let sql = format!(
            "UPDATE webhook_endpoints SET look_at = {} WHERE id = $1 AND receive AND deleted_at IS NULL",
            if_connected("$2")
        );
        let values = values![endpoint.id.as_str(), micros(at)];
        Ok(sql::changed(sql::run(self.db(), "ask for a look at a webhook", sql, values).await?))
    }

    /// Addresses whose time has come, of connectors that work; the longest due first.
    pub async fn due_looks(&self, at: DateTime<Utc>, most: u32) -> Result<Vec<DueLook>, StoreError> {
        #[derive(FromQueryResult)]
        struct Row {
            id: String,
            org_id: String,
            connector_id: String,
            look_at: DateTime<Utc>,
        }
        let sql = "SELECT e.id, e.org_id, e.connector_id, e.look_at FROM webhook_endpoints e \
                   JOIN connectors c ON c.id = e.connector_id \
                   WHERE e.look_at <= $1 AND e.deleted_at IS NULL AND c.health = $2 ORDER BY e.look_at LIMIT $3";
        let values = values![micros(at), Health::Connected.as_str(), i64::from(most)];
        let rows: Vec<Row> = sql::all(self.db(), "look for webhooks to look at", sql, values).await?;
        let read = |row: Row| DueLook {
            endpoint: row.id,
            org: row.org_id.into(),
            connector: row.connector_id.into(),
            look_at: row.look_at,
        };
        Ok(rows.into_iter().map(read).collect())
    }

    /// Puts the job for a look into the queue, and the next look to `next`, both or neither. `No`: another replica was
    /// faster.
    pub async fn claim_look(
        &self,
        due: &DueLook,
        next: DateTime<Utc>,
        at: DateTime<Utc>,
    ) -> Result<Changed, StoreError> {
        let doing = "claim a look at a webhook";
        let tx = self.transaction(doing).await?;
        let sql = "UPDATE webhook_endpoints SET look_at = $3 WHERE id = $1 AND look_at = $2";
        let values = values![due.endpoint.as_str(), micros(due.look_at), micros(next)];
        if sql::run(&tx, doing, sql, values).await? == 0 {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(Changed::No);
        }
        let job = NewJob {
            org: due.org.clone(),
            kind: Kind::Subscription,
            key: format!("look:{}:{}", due.endpoint, due.look_at.timestamp_micros()),
            connector: Some(due.connector.clone()),
            subject: due.endpoint.clone(),
            payload: json!({ "look_at": micros(next) }),
            due_at: at,
            at,
        };
        jobs::enqueue(self, &tx, &job).await?;
        tx.commit().await.map_err(failed(doing))?;
        self.jobs_changed(&due.org, Kind::Subscription);
        Ok(Changed::Yes)
    }

    /// Writes down what a look came to, with its lines in the timeline.
    pub async fn note_look(&self, endpoint: &Endpoint, looked: &Looked<'_>) -> Result<Changed, StoreError> {
        let doing = "note a look at a webhook";
        let (Owner::Connector(connector), Some(org)) = (&endpoint.owner, &endpoint.org) else {
            return Ok(Changed::No);
        };
        let tx = self.transaction(doing).await?;
        let sql = format!(
            "UPDATE webhook_endpoints SET standing = $2, standing_words = $3, standing_since = $4, \
                   known = COALESCE($5, known), looked_at = CASE WHEN $6 THEN $7 ELSE looked_at END, \
                   lapses_at = CASE WHEN $6 THEN $8 ELSE lapses_at END, \
                   look_at = CASE WHEN look_at = $9 THEN {} ELSE look_at END, \
                   alarm_at = CASE WHEN $11 THEN COALESCE(alarm_at, $7) ELSE NULL END, \
                   alarm_told_at = CASE WHEN $11 THEN alarm_told_at ELSE NULL END \
                   WHERE id = $1 AND deleted_at IS NULL",
            if_connected("$10")
        );
        let known = looked.known.map(|known| plain(doing, &known)).transpose()?;
        let lapses_at = looked.known.and_then(lapses_at);
        let values = values![
            endpoint.id.as_str(),
            looked.standing.as_str(),
            looked.words.map(str::to_owned),
            micros(looked.since),
            known.clone(),
            known.is_some(),
            micros(looked.at),
            lapses_at.map(micros),
            looked.claimed.map(micros),
            looked.look_at.map(micros),
            looked.alarming,
        ];
        let changed = sql::changed(sql::run(&tx, doing, sql, values).await?);
        if changed == Changed::Yes {
            if let Some((secret, until)) = looked.secret {
                self.replace_secret(&tx, endpoint, secret, until).await?;
            }
            for (outcome, detail) in &looked.lines {
                self.webhook_line(&tx, org, connector, outcome, None, detail.clone(), looked.at).await?;
            }
        }
        tx.commit().await.map_err(failed(doing))?;
        self.connector_changed(connector);
        Ok(changed)
    }

    async fn replace_secret(
        &self,
        tx: &impl ConnectionTrait,
        endpoint: &Endpoint,
        secret: &SecretString,
        until: Option<DateTime<Utc>>,
    ) -> Result<(), StoreError> {
        let sealed = self.seal_secret(tx, endpoint.org.as_ref(), &endpoint.id, secret).await?;
        let sql = "UPDATE webhook_endpoints SET \
                   sealed_previous = CASE WHEN $3 IS NULL THEN NULL ELSE sealed_secret END, previous_until = $3, \
                   sealed_secret = $2 WHERE id = $1";
        let values = values![endpoint.id.as_str(), sealed, until.map(micros)];
        sql::run(tx, "keep the secret that a provider has made", sql, values).await.map(|_| ())
    }

    /// What is at the provider is not: it was taken away there. The timeline is told by who did it.
    pub async fn forget_subscriptions(&self, connector: &ConnectorId) -> Result<(), StoreError> {
        let sql = "UPDATE webhook_endpoints SET known = NULL, lapses_at = NULL, standing = NULL, standing_words = NULL, \
                   standing_since = NULL, alarm_at = NULL, alarm_told_at = NULL WHERE connector_id = $1";
        sql::run(self.db(), "forget subscriptions", sql, values![connector.as_str()]).await.map(|_| ())
    }

    /// A delivery came for this connector to the address of a whole OAuth app. The connector's own one of that kind, where
    /// there is one, says when.
    pub async fn note_heard_for(
        &self,
        connector: &ConnectorId,
        kind: &str,
        at: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let sql = "UPDATE webhook_endpoints SET first_at = COALESCE(first_at, $3), accepted_at = $3 \
                   WHERE connector_id = $1 AND kind = $2 AND deleted_at IS NULL \
                   AND (accepted_at IS NULL OR accepted_at < $4)";
        let values = values![connector.as_str(), kind, micros(at), micros(at - ACCEPTED_EVERY)];
        sql::run(self.db(), "note that a webhook works", sql, values).await.map(|_| ())
    }

    /// The failure of this epoch has this reason: the provider has said so in an event. `No`: the connector stands otherwise.
    pub async fn name_failure(
        &self,
        connector: &ConnectorId,
        epoch: i64,
        reason: Reason,
    ) -> Result<Changed, StoreError> {
        let sql = "UPDATE connectors SET health_reason = $4 WHERE id = $1 AND epoch = $2 AND health = $3";
        let values = values![connector.as_str(), epoch, Health::AuthFailed.as_str(), reason.as_str()];
        let changed = sql::changed(sql::run(self.db(), "name why a connector failed", sql, values).await?);
        self.connector_changed(connector);
        Ok(changed)
    }

    /// Connectors that were connected since then, and whose webhooks nobody has thought of yet.
    pub async fn newly_connected(&self, since: DateTime<Utc>, most: u32) -> Result<Vec<NewlyConnected>, StoreError> {
        #[derive(FromQueryResult)]
        struct Row {
            id: String,
            org_id: String,
            connector_id: String,
            provider: String,
            grant_sequence: i64,
        }
        let sql = "SELECT o.id, o.org_id, o.connector_id, c.provider, c.grant_sequence FROM outbox o \
                   JOIN connectors c ON c.id = o.connector_id WHERE o.effect = 'make_webhooks' AND o.done_at IS NULL \
                   AND o.created_at > $1 ORDER BY o.created_at LIMIT $2";
        let values = values![micros(since), i64::from(most)];
        let rows: Vec<Row> = sql::all(self.db(), "look for new connectors", sql, values).await?;
        let read = |row: Row| NewlyConnected {
            row: row.id,
            org: row.org_id.into(),
            connector: row.connector_id.into(),
            provider: row.provider,
            consented: row.grant_sequence > 0,
        };
        Ok(rows.into_iter().map(read).collect())
    }

    /// Its webhook is thought of.
    pub async fn settle_newly_connected(&self, new: &NewlyConnected, at: DateTime<Utc>) -> Result<(), StoreError> {
        let sql = "UPDATE outbox SET done_at = $2 WHERE id = $1 AND done_at IS NULL";
        sql::run(self.db(), "note that a webhook is thought of", sql, values![new.row.as_str(), micros(at)])
            .await
            .map(|_| ())
    }

    /// How many deliveries its connector has kept since then, counted up to `most`.
    pub async fn pace(&self, endpoint: &Endpoint, since: DateTime<Utc>, most: u32) -> Result<Pace, StoreError> {
        #[derive(FromQueryResult)]
        struct Row {
            number: i64,
            first_at: Option<DateTime<Utc>>,
        }
        let Owner::Connector(connector) = &endpoint.owner else { return Ok(Pace { count: 0, first_at: None }) };
        let sql = "SELECT COUNT(*) AS number, MIN(received_at) AS first_at FROM (SELECT received_at \
                   FROM deliveries WHERE connector_id = $1 ORDER BY id DESC LIMIT $2) lately WHERE received_at > $3";
        let values = values![connector.as_str(), i64::from(most), micros(since)];
        let row: Option<Row> = sql::one(self.db(), "count what came lately", sql, values).await?;
        Ok(row.map_or(Pace { count: 0, first_at: None }, |row| Pace {
            count: row.number.unsigned_abs(),
            first_at: row.first_at,
        }))
    }
}

/// This moment, of a connector that works: of another one nobody asks its provider, and a change of its health says when to.
fn if_connected(moment: &str) -> String {
    let connected = Health::Connected.as_str();
    format!(
        "(SELECT {moment} FROM connectors c WHERE c.id = webhook_endpoints.connector_id AND c.health = '{connected}')"
    )
}

/// When the first of them ends.
fn lapses_at(known: &[Subscription]) -> Option<DateTime<Utc>> {
    known.iter().filter_map(|one| one.lapses_at).min()
}

/// The subscriptions of a row. What this release does not understand is looked at anew.
pub(super) fn known(stored: Option<Value>) -> Vec<Subscription> {
    stored.and_then(|stored| serde_json::from_value(stored).ok()).unwrap_or_default()
}

/// The connector works: what is wanted at its provider is looked at.
pub(crate) async fn verify(tx: &impl ConnectionTrait, connector: &str, at: DateTime<Utc>) -> Result<(), StoreError> {
    let sql = "UPDATE webhook_endpoints SET look_at = $2 \
               WHERE connector_id = $1 AND deleted_at IS NULL AND (receive OR known IS NOT NULL)";
    sql::run(tx, "have webhooks looked at", sql, values![connector, micros(at)]).await.map(|_| ())
}

/// The connector does not work: nobody can look.
pub(crate) async fn rest(tx: &impl ConnectionTrait, connector: &str) -> Result<(), StoreError> {
    let sql = "UPDATE webhook_endpoints SET look_at = NULL WHERE connector_id = $1 AND look_at IS NOT NULL";
    sql::run(tx, "have webhooks rest", sql, values![connector]).await.map(|_| ())
}
