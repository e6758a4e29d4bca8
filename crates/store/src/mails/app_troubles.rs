//! Table `app_troubles`: a provider refuses an OAuth app. One trouble is told once, to the org's admins and to the
//! operators, however many connectors wait (TE-07). Of an org's own app its admins alone are told. Column `provider` has the
//! app's name.

use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::{AppId, OrgId, ports::StoreError};
use sea_orm::{ConnectionTrait, FromQueryResult};
use serde_json::json;

use super::{MailKind, Tell, To};
use crate::{
    sql::{self, failed, micros, nonsense, values},
    store::Store,
};

/// An OAuth app that a provider refuses, as it stands now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppTrouble {
    /// Which.
    pub app: AppId,
    /// Since when.
    pub since: DateTime<Utc>,
    /// Connectors that wait for it.
    pub connectors: u64,
    /// Orgs that they belong to.
    pub orgs: u64,
    /// The provider's own words to the last refusal.
    pub detail: Option<String>,
}

/// How a trouble is turned into messages.
#[derive(Clone, Debug)]
pub struct TellAppTrouble<'a> {
    /// Now.
    pub at: DateTime<Utc>,
    /// A trouble that is younger waits: it may be over at once.
    pub gathered_before: DateTime<Utc>,
    /// The right side of the messages' ids.
    pub domain: &'a str,
    /// Addresses of operators beside those who are users.
    pub operators: &'a [String],
    /// False: there is no mail server; the messages are kept as not sent.
    pub sends: bool,
}

#[derive(FromQueryResult)]
struct Untold {
    id: String,
    org_id: Option<String>,
    app: String,
}

/// A trouble in which nothing has waited for so long is over. Longer than a connector rests between two exchanges.
const QUIET: TimeDelta = TimeDelta::minutes(15);
/// That it goes on is written down no more often.
const SEEN_EVERY: TimeDelta = TimeDelta::minutes(1);
/// Connectors that wait for their app: `k` and `c` are credential and connector.
const WAITING: &str = "k.degraded_class = 'app_broken' AND c.health = 'connected'";

/// The name of their app.
const APP: &str = "COALESCE(k.provider, c.provider)";

/// Troubles that nobody has heard of, as long as something waits.
const UNTOLD: &str = "t.ended_at IS NULL AND t.told_at IS NULL AND t.since <= $1 AND EXISTS ( \
     SELECT 1 FROM credentials k JOIN connectors c ON c.credential_id = k.id \
     WHERE k.degraded_class = 'app_broken' AND c.health = 'connected' AND COALESCE(k.provider, c.provider) = t.provider \
     AND (t.org_id IS NULL OR c.org_id = t.org_id))";

impl Store {
    /// Opens a trouble where connectors have begun to wait for their app, and ends it when none has waited for a while:
    /// a connector that rests, or meets another mishap in between, is not its end.
    pub async fn note_app_troubles(&self, at: DateTime<Utc>) -> Result<(), StoreError> {
        #[derive(FromQueryResult)]
        struct Found {
            org_id: String,
            app: String,
            since: DateTime<Utc>,
        }
        let doing = "look for refused OAuth apps";
        let look = format!(
            "SELECT c.org_id, {APP} AS app, MIN(k.degraded_since) AS since FROM credentials k \
             JOIN connectors c ON c.credential_id = k.id WHERE {WAITING} AND k.degraded_since IS NOT NULL \
             GROUP BY c.org_id, {APP} ORDER BY since"
        );
        let found: Vec<Found> = sql::all(self.db(), doing, look, values![]).await?;
        for found in &found {
            let own = parsed(&found.app)?.org().is_some();
            for org in [Some(Some(found.org_id.clone())), (!own).then_some(None)].into_iter().flatten() {
                let open = "INSERT INTO app_troubles (id, org_id, provider, since, seen_at) VALUES ($1, $2, $3, $4, $5) \
                            ON CONFLICT DO NOTHING";
                let values = values![self.id("trouble"), org, found.app.as_str(), micros(found.since), micros(at)];
                sql::run(self.db(), doing, open, values).await?;
            }
            let seen = "UPDATE app_troubles SET seen_at = $1 WHERE ended_at IS NULL AND provider = $2 \
                        AND (org_id = $3 OR org_id IS NULL) AND seen_at < $4";
            let values = values![micros(at), found.app.as_str(), found.org_id.as_str(), micros(at - SEEN_EVERY)];
            sql::run(self.db(), doing, seen, values).await?;
        }
        let quiet = "SELECT id FROM app_troubles WHERE ended_at IS NULL AND seen_at < $1 LIMIT 1";
        let quiet: Option<sql::Id> = sql::one(self.db(), doing, quiet, values![micros(at - QUIET)]).await?;
        if quiet.is_some() {
            let end = "UPDATE app_troubles SET ended_at = $1 WHERE ended_at IS NULL AND seen_at < $2";
            sql::run(self.db(), doing, end, values![micros(at), micros(at - QUIET)]).await?;
        }
        Ok(())
    }

    /// Makes the messages of every trouble that has not been told, each in a transaction of its own; answers of how many.
    pub async fn tell_app_troubles(&self, tell: &TellAppTrouble<'_>) -> Result<usize, StoreError> {
        let doing = "tell of refused OAuth apps";
        let untold = format!(
            "SELECT t.id, t.org_id, t.provider AS app FROM app_troubles t WHERE {UNTOLD} ORDER BY t.since, t.id"
        );
        let untold: Vec<Untold> = sql::all(self.db(), doing, untold, values![micros(tell.gathered_before)]).await?;
        let mails = Tell { at: tell.at, domain: tell.domain.to_owned(), sends: tell.sends };
        let mut told = 0;
        for trouble in untold {
            let tx = self.transaction(doing).await?;
            let take = "UPDATE app_troubles SET told_at = $2 WHERE id = $1 AND told_at IS NULL AND ended_at IS NULL";
            if sql::run(&tx, doing, take, values![trouble.id.as_str(), micros(tell.at)]).await? == 0 {
                tx.rollback().await.map_err(failed(doing))?;
                continue;
            }
            let org = trouble.org_id.as_deref().map(OrgId::from);
            let app = parsed(&trouble.app)?;
            let recipients = self.app_recipients(&tx, org.as_ref(), &app, tell.operators, tell.at).await?;
            let (kind, about) = (MailKind::AppRefused, json!({ "trouble": trouble.id, "provider": app.provider() }));
            for recipient in &recipients {
                self.tell_one(&tx, &mails, org.as_ref(), recipient, kind, &about).await?;
            }
            if let Some(org) = &org {
                self.tell_channel(&tx, (tell.domain, tell.at), org, kind, &about, Vec::new()).await?;
            }
            tx.commit().await.map_err(failed(doing))?;
            told += 1;
        }
        Ok(told)
    }

    /// Whether there is a trouble that has not been told.
    pub async fn app_trouble_is_untold(&self, gathered_before: DateTime<Utc>) -> Result<bool, StoreError> {
        let sql = format!("SELECT t.id FROM app_troubles t WHERE {UNTOLD} LIMIT 1");
        let found: Option<sql::Id> =
            sql::one(self.db(), "look for refused OAuth apps", sql, values![micros(gathered_before)]).await?;
        Ok(found.is_some())
    }

    /// A trouble as it stands, with the org's connectors or all of them. `None`: it is over.
    pub async fn find_app_trouble(&self, id: &str, org: Option<&OrgId>) -> Result<Option<AppTrouble>, StoreError> {
        #[derive(FromQueryResult)]
        struct Row {
            app: String,
            since: DateTime<Utc>,
        }
        #[derive(FromQueryResult)]
        struct Counts {
            connectors: i64,
            orgs: i64,
        }
        #[derive(FromQueryResult)]
        struct Detail {
            detail: Option<String>,
        }
        let doing = "look at a refused OAuth app";
        let sql = "SELECT provider AS app, since FROM app_troubles WHERE id = $1 AND ended_at IS NULL";
        let Some(row) = sql::one::<Row>(self.db(), doing, sql, values![id]).await? else { return Ok(None) };
        let whose = if org.is_some() { " AND c.org_id = $2" } else { "" };
        let mut values = values![row.app.as_str()];
        values.extend(org.map(|org| sea_orm::Value::from(org.as_str())));
        let count = format!(
            "SELECT COUNT(*) AS connectors, COUNT(DISTINCT c.org_id) AS orgs FROM credentials k \
             JOIN connectors c ON c.credential_id = k.id WHERE {WAITING} AND {APP} = $1{whose}"
        );
        let counts: Option<Counts> = sql::one(self.db(), doing, count, values.clone()).await?;
        let words = format!(
            "SELECT e.detail FROM exchanges e JOIN connectors c ON c.id = e.connector_id \
             JOIN credentials k ON k.id = c.credential_id \
             WHERE {WAITING} AND e.outcome = 'app_broken' AND {APP} = $1{whose} \
             ORDER BY e.started_at DESC LIMIT 1"
        );
        let detail: Option<Detail> = sql::one(self.db(), doing, words, values).await?;
        let app = parsed(&row.app)?;
        Ok(counts.filter(|counts| counts.connectors > 0).map(|counts| AppTrouble {
            app,
            since: row.since,
            connectors: counts.connectors.unsigned_abs(),
            orgs: counts.orgs.unsigned_abs(),
            detail: detail.and_then(|detail| detail.detail),
        }))
    }

    /// Of an org: its admins, but for those who hear of it as operators, who are not told of own apps. Of the instance: the
    /// operators.
    async fn app_recipients(
        &self,
        tx: &impl ConnectionTrait,
        org: Option<&OrgId>,
        app: &AppId,
        operators: &[String],
        at: DateTime<Utc>,
    ) -> Result<Vec<To>, StoreError> {
        let Some(org) = org else { return self.operators_to_tell(tx, operators).await };
        let mut admins = self.admins_to_tell(tx, org, MailKind::AppRefused.topic(), at).await?;
        if app.org().is_none() {
            let both = "SELECT u.id FROM users u WHERE u.org_id = $1 AND EXISTS \
                        (SELECT 1 FROM users o WHERE o.email = u.email AND o.operator AND o.removed_at IS NULL)";
            let both: Vec<sql::Id> = sql::all(tx, "look for the operators", both, values![org.as_str()]).await?;
            admins.retain(|admin| both.iter().all(|row| row.id != admin.recipient));
        }
        Ok(admins)
    }
}

fn parsed(app: &str) -> Result<AppId, StoreError> {
    AppId::parse(app).ok_or_else(|| nonsense("app_troubles", "provider", app))
}
