//! Deliveries for people: a page of them, and one with its body.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use holdfast_core::{ConnectorId, DeliveryId, JobId, OrgId, ports::StoreError};
use sea_orm::FromQueryResult;
use serde_json::Value;

use super::{DeliveryState, PassedOver};
use crate::{
    listing::{Page, page_limit},
    run_tickets::RunTicket,
    seal::Place,
    sql::{self, nonsense, values},
    store::Store,
};

/// Who did what a delivery tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaidBy {
    /// The connector's own user, or a program.
    Us,
    /// Somebody else who works there. Of some providers that may be the connector's user too.
    Staff,
    /// Somebody from outside; or whoever is not the connector's own user, where no more is known of them.
    Customer,
    /// It does not say.
    Unknown,
}

impl SaidBy {
    /// By the word and the id of the author, and the id of the connector's own user.
    pub(crate) fn of(author: Option<&str>, id: Option<&str>, own: Option<&str>) -> Self {
        match (author, id) {
            (Some("program"), _) => Self::Us,
            (_, Some(id)) if own == Some(id) => Self::Us,
            (Some("staff"), _) => Self::Staff,
            (Some("customer"), _) => Self::Customer,
            (_, Some(_)) if own.is_some() => Self::Customer,
            _ => Self::Unknown,
        }
    }
}

/// One that was kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    /// Its id.
    pub id: DeliveryId,
    /// For which connector.
    pub connector: ConnectorId,
    /// What people call that.
    pub connector_name: String,
    /// The provider's id.
    pub provider: String,
    /// The account there.
    pub account: String,
    /// Where it came.
    pub endpoint: String,
    /// The shared word for what happened.
    pub topic: String,
    /// The provider's own.
    pub kind: String,
    /// What it is about there.
    pub subject: Option<String>,
    /// Who did it.
    pub by: SaidBy,
    /// Where it is.
    pub state: DeliveryState,
    /// Why it is there.
    pub detail: Option<String>,
    /// What told of the same change before.
    pub same_as: Option<DeliveryId>,
    /// The connector's agents that it gave no run; `None`: it is not worked off, is not for agents, or was told before.
    pub passed_over: Option<Vec<PassedOver>>,
    /// What works it off.
    pub job: Option<JobId>,
    /// How often the same event came again.
    pub repeats: u64,
    /// Of the body.
    pub size_bytes: u64,
    /// Masked.
    pub headers: Value,
    /// When it came.
    pub received_at: DateTime<Utc>,
    /// When it came to its end.
    pub settled_at: Option<DateTime<Utc>>,
}

/// Which ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryFilter {
    /// Only of this connector.
    pub connector: Option<ConnectorId>,
    /// Only in this state.
    pub state: Option<DeliveryState>,
    /// Only about this: a ticket's id.
    pub subject: Option<String>,
}

#[derive(FromQueryResult)]
struct Row {
    id: String,
    connector_id: String,
    connector_name: String,
    provider: String,
    account: String,
    endpoint_id: String,
    topic: String,
    kind: String,
    subject: Option<String>,
    author: Option<String>,
    author_id: Option<String>,
    own_id: Option<String>,
    state: String,
    detail: Option<String>,
    same_as: Option<String>,
    passed_over: Option<Value>,
    job_id: Option<String>,
    repeats: i64,
    size_bytes: i64,
    headers: Value,
    received_at: DateTime<Utc>,
    settled_at: Option<DateTime<Utc>>,
}

const SELECT: &str = "SELECT d.id, d.connector_id, c.name AS connector_name, c.provider, c.account, d.endpoint_id, d.topic, d.kind, \
     d.subject, d.author, d.author_id, CAST(c.identity ->> 'id' AS TEXT) AS own_id, d.state, d.detail, d.same_as, d.passed_over, d.job_id, d.repeats, d.size_bytes, d.headers, d.received_at, d.settled_at \
     FROM deliveries d JOIN connectors c ON c.id = d.connector_id WHERE d.org_id = $1";

impl TryFrom<Row> for Delivery {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        Ok(Self {
            state: DeliveryState::parse(&row.state).ok_or_else(|| nonsense("deliveries", "state", &row.id))?,
            // Words of a newer release that are not known here are no reason to show nothing.
            passed_over: row.passed_over.and_then(|all| serde_json::from_value(all).ok()),
            by: SaidBy::of(row.author.as_deref(), row.author_id.as_deref(), row.own_id.as_deref()),
            id: row.id.into(),
            connector: row.connector_id.into(),
            connector_name: row.connector_name,
            provider: row.provider,
            account: row.account,
            endpoint: row.endpoint_id,
            topic: row.topic,
            kind: row.kind,
            subject: row.subject,
            detail: row.detail,
            same_as: row.same_as.map(DeliveryId::from),
            job: row.job_id.map(JobId::from),
            repeats: row.repeats.unsigned_abs(),
            size_bytes: row.size_bytes.unsigned_abs(),
            headers: row.headers,
            received_at: row.received_at,
            settled_at: row.settled_at,
        })
    }
}

impl Store {
    /// The org's deliveries, newest first.
    pub async fn deliveries(
        &self,
        org: &OrgId,
        filter: &DeliveryFilter,
        cursor: Option<&str>,
        limit: u64,
    ) -> Result<Page<Delivery>, StoreError> {
        let mut sql = SELECT.to_owned();
        let mut values = values![org.as_str(), page_limit(limit)];
        let mut also = |condition: &str, value: sea_orm::Value| {
            values.push(value);
            write!(sql, " AND {condition} ${}", values.len()).expect("writing to a String cannot fail");
        };
        if let Some(cursor) = cursor {
            also("d.id <", cursor.into());
        }
        if let Some(connector) = &filter.connector {
            also("d.connector_id =", connector.as_str().into());
        }
        if let Some(state) = filter.state {
            also("d.state =", state.as_str().into());
        }
        if let Some(subject) = &filter.subject {
            also("d.subject =", subject.as_str().into());
        }
        sql.push_str(" ORDER BY d.id DESC LIMIT $2");
        let rows: Vec<Row> = sql::all(self.db(), "list deliveries", sql, values).await?;
        let deliveries = rows.into_iter().map(Delivery::try_from).collect::<Result<_, _>>()?;
        Ok(Page::cut(deliveries, limit, |last: &Delivery| last.id.to_string()))
    }

    /// What people said on a ticket, as far as is known: that it was created, and replies; newest first, at most so many. What
    /// the connector itself wrote is none of it, nor what was told before.
    pub async fn said_on_ticket(&self, org: &OrgId, on: &RunTicket, most: u32) -> Result<Vec<Delivery>, StoreError> {
        let sql = format!(
            "{SELECT} AND d.subject = $2 AND d.connector_id = $3 AND d.topic IN ('ticket.created', 'ticket.replied') \
             AND (d.same_as IS NULL OR d.passed_over IS NOT NULL) AND COALESCE(d.author, '') <> 'program' \
             AND (d.author_id IS NULL OR d.author_id <> COALESCE(CAST(c.identity ->> 'id' AS TEXT), '')) \
             ORDER BY d.id DESC LIMIT $4"
        );
        let values = values![org.as_str(), on.ticket.as_str(), on.connector.as_str(), i64::from(most)];
        let rows: Vec<Row> = sql::all(self.db(), "read what was said on a ticket", sql, values).await?;
        rows.into_iter().map(Delivery::try_from).collect()
    }

    /// One of the org's deliveries.
    pub async fn find_delivery(&self, org: &OrgId, id: &str) -> Result<Option<Delivery>, StoreError> {
        let sql = format!("{SELECT} AND d.id = $2");
        let row: Option<Row> = sql::one(self.db(), "read a delivery", sql, values![org.as_str(), id]).await?;
        row.map(Delivery::try_from).transpose()
    }

    /// What it said, byte for byte; `None`: that is forgotten, or cannot be opened.
    pub async fn delivery_body(&self, org: &OrgId, id: &DeliveryId) -> Result<Option<Vec<u8>>, StoreError> {
        #[derive(FromQueryResult)]
        struct Body {
            sealed_body: Option<Vec<u8>>,
        }
        let doing = "read a delivery's body";
        let sql = "SELECT sealed_body FROM deliveries WHERE org_id = $1 AND id = $2";
        let row: Option<Body> = sql::one(self.db(), doing, sql, values![org.as_str(), id.as_str()]).await?;
        let Some(sealed) = row.and_then(|row| row.sealed_body) else { return Ok(None) };
        let key = self.data_key(self.db(), org).await?;
        let place = Place { org, owner: id.as_str(), field: "delivery.body" };
        Ok(key.open(place, &sealed).ok().map(|body| body.to_vec()))
    }
}
