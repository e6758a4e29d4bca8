//! Whether a change of a ticket was told before. A webhook and a sync tell of the same change, in either order.
//!
//! A sync knows the state of a ticket by the provider's own moment. A webhook's event is of that state, or of a later one,
//! where it happened, or else came, not before that moment. The other way round an event is of a state that a sync has told
//! where it happened no later; where it does not say when, if it came within [`LATE`] after. An event that is left out
//! so is marked: it stands for no later change, and the next sync tells that one.

use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::{mirror::SAME, ports::StoreError, webhook::Topic};
use sea_orm::ConnectionTrait;

use crate::sql::{self, micros, values};

/// In the place of an address, of what no webhook brought.
pub(crate) const BY_SYNC: &str = "sync";

/// An event that does not say when it happened may be so late.
const LATE: TimeDelta = TimeDelta::minutes(10);

/// A change of a ticket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told<'a> {
    pub(crate) connector: &'a str,
    pub(crate) ticket: &'a str,
    pub(crate) topic: Topic,
    /// As the provider says.
    pub(crate) happened_at: Option<DateTime<Utc>>,
    pub(crate) received_at: DateTime<Utc>,
    pub(crate) by_sync: bool,
}

/// What told of a change before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Twin(pub(crate) String);

impl Told<'_> {
    /// The condition on `deliveries d` that one of the other source tells of this change, or of a later one; its value is `$3`.
    fn covers(&self) -> (&'static str, DateTime<Utc>) {
        match (self.by_sync, self.happened_at) {
            (true, at) => (
                "d.endpoint_id <> 'sync' AND COALESCE(d.happened_at, d.received_at) >= $3",
                at.unwrap_or(self.received_at) - SAME,
            ),
            (false, Some(at)) => ("d.endpoint_id = 'sync' AND d.happened_at >= $3", at - SAME),
            (false, None) => ("d.endpoint_id = 'sync' AND d.received_at >= $3", self.received_at - LATE),
        }
    }

    /// What has told all of it. What a webhook brought and nobody has worked off yet counts, since it will be; what a sync found
    /// counts once it is worked off.
    pub(crate) async fn twin(&self, db: &impl ConnectionTrait) -> Result<Option<Twin>, StoreError> {
        let (covers, moment) = self.covers();
        let states = if self.by_sync { "('received', 'parked', 'processed')" } else { "('processed')" };
        let topic =
            if self.topic == Topic::TicketChanged && self.by_sync { "d.topic LIKE 'ticket.%'" } else { "d.topic = $4" };
        let sql = format!(
            "SELECT d.id FROM deliveries d WHERE d.connector_id = $1 AND d.subject = $2 AND {covers} AND {topic} \
             AND d.same_as IS NULL AND d.state IN {states} ORDER BY d.id LIMIT 1"
        );
        let mut values = values![self.connector, self.ticket, micros(moment)];
        if topic.contains("$4") {
            values.push(self.topic.as_str().into());
        }
        let found: Option<sql::Id> = sql::one(db, "look who told of a change", sql, values).await?;
        Ok(found.map(|found| Twin(found.id)))
    }

    /// What has given this agent a run for it, as whatever it was told.
    pub(crate) async fn gave_a_run(&self, db: &impl ConnectionTrait, agent: &str) -> Result<Option<Twin>, StoreError> {
        let (covers, moment) = self.covers();
        let sql = format!(
            "SELECT d.id FROM deliveries d JOIN runs r ON r.delivery_id = d.id AND r.agent_id = $4 \
             WHERE d.connector_id = $1 AND d.subject = $2 AND {covers} ORDER BY d.id LIMIT 1"
        );
        let values = values![self.connector, self.ticket, micros(moment), agent];
        let found: Option<sql::Id> = sql::one(db, "look whether a change gave a run", sql, values).await?;
        Ok(found.map(|found| Twin(found.id)))
    }
}
