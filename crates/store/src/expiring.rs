//! Access that ends for good: `ends_at` and `warn_at` of a credential. Each warning is given once per grant, with its
//! event, its notice in the outbox and its line in the timeline.

use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::{
    ConnectorId, OrgId, Version,
    event::{About, EventType},
    ports::{Changed, StoreError},
    refresh::timing,
};
use sea_orm::{ConnectionTrait, FromQueryResult};
use serde_json::json;

use crate::{
    events,
    mails::MailKind,
    sql::{self, failed, micros, values},
    store::Store,
    timeline::{self, Entry},
};

#[derive(FromQueryResult)]
struct Ending {
    id: String,
    version: i64,
    ends_at: Option<DateTime<Utc>>,
}

#[derive(FromQueryResult)]
struct Connector {
    id: String,
    org_id: String,
    epoch: i64,
}

/// Which warning it is time for; `None`: too early for any, or too late.
fn warning(ends_at: DateTime<Utc>, now: DateTime<Utc>) -> Option<(TimeDelta, MailKind)> {
    let [soon, last] = timing::WARNINGS;
    match ends_at - now {
        left if left <= TimeDelta::zero() => None,
        left if left <= last => Some((last, MailKind::LastDay)),
        left if left <= soon => Some((soon, MailKind::ExpiresSoon)),
        _ => None,
    }
}

impl Store {
    /// Gives one warning whose time has come, to all connectors that work with that credential. `No`: there was none.
    pub async fn warn_of_an_end(&self, now: DateTime<Utc>) -> Result<Changed, StoreError> {
        let doing = "warn of an access that ends";
        let tx = self.transaction(doing).await?;
        let free = sql::for_update_of_the_free(self.backend());
        let next = format!(
            "SELECT id, version, ends_at FROM credentials WHERE warn_at <= $1 AND warn_at IS NOT NULL \
             ORDER BY warn_at LIMIT 1{free}"
        );
        let Some(ending) = sql::one::<Ending>(&tx, doing, next, values![micros(now)]).await? else {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(Changed::No);
        };
        let then = ending.ends_at.and_then(|ends_at| timing::warn_at(ends_at, now)).map(micros);
        let note = "UPDATE credentials SET warn_at = $2 WHERE id = $1";
        sql::run(&tx, doing, note, values![ending.id.as_str(), then]).await?;
        let mut told = Vec::new();
        if let Some(ends_at) = ending.ends_at
            && let Some((ahead, mail)) = warning(ends_at, now)
        {
            let working = "SELECT id, org_id, epoch FROM connectors WHERE credential_id = $1 AND health = 'connected' \
                           ORDER BY id";
            told = sql::all::<Connector>(&tx, doing, working, values![ending.id.as_str()]).await?;
            for connector in &told {
                self.warn(&tx, connector, Version(ending.version), (ahead, mail), ends_at, now).await?;
            }
        }
        tx.commit().await.map_err(failed(doing))?;
        for connector in told {
            self.connector_changed(&connector.id.into());
            self.events_told(&[connector.org_id.into()]);
        }
        Ok(Changed::Yes)
    }

    async fn warn(
        &self,
        tx: &impl ConnectionTrait,
        connector: &Connector,
        version: Version,
        (ahead, mail): (TimeDelta, MailKind),
        ends_at: DateTime<Utc>,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let (org, id) = (OrgId::from(connector.org_id.as_str()), ConnectorId::from(connector.id.as_str()));
        let key = format!("{id}:{}:expiring:{}", connector.epoch, ahead.num_days());
        let data = |about: &About| about.expiring(micros(ends_at));
        events::tell_of(self, tx, &org, &id, EventType::ConnectorExpiring, Some(key.clone()), now, data).await?;
        let payload = json!({ "event": "connector.expiring", "ends_at": micros(ends_at), "at": micros(now) });
        let insert = "INSERT INTO outbox (id, org_id, connector_id, epoch, payload, created_at, effect, key) \
                      VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (key) DO NOTHING";
        if let Some(effect) = mail.notice() {
            let values = values![
                self.id("out"),
                connector.org_id.as_str(),
                connector.id.as_str(),
                connector.epoch,
                payload.clone(),
                micros(now),
                effect,
                format!("{key}:{effect}"),
            ];
            sql::run(tx, "write the outbox", insert, values).await?;
        }
        let line = Entry {
            org,
            connector: id,
            at: now,
            kind: "expiring".to_owned(),
            outcome: None,
            actor: None,
            detail: Some(format!("The access ends on {}.", ends_at.format("%-d %B %Y, %H:%M UTC"))),
            duration: None,
            version: Some(version),
        };
        timeline::insert(self, tx, &line).await
    }
}
