//! What jobs are about, by the names that people know it by.

use std::collections::{BTreeSet, HashMap};

use holdfast_core::{ConnectorId, OrgId, job::Kind, ports::StoreError};
use sea_orm::{FromQueryResult, Value};

use super::Job;
use crate::{
    sql::{self, values},
    store::Store,
};

/// A connector by its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedConnector {
    /// The provider's id.
    pub provider: String,
    /// The account there.
    pub account: String,
    /// What people call it; empty while nobody has.
    pub name: String,
}

/// Names of what some jobs are about; what is gone has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobNames {
    /// Connectors.
    pub connectors: HashMap<ConnectorId, NamedConnector>,
    /// Agents, by their ids.
    pub agents: HashMap<String, String>,
    /// The types of events, by their ids.
    pub events: HashMap<String, String>,
    /// The addresses of event endpoints, by their ids.
    pub endpoints: HashMap<String, String>,
    /// The topics of deliveries, by their ids.
    pub deliveries: HashMap<String, String>,
}

#[derive(FromQueryResult)]
struct ConnectorRow {
    id: String,
    provider: String,
    account: String,
    name: String,
}

#[derive(FromQueryResult)]
struct Row {
    id: String,
    name: String,
}

impl Store {
    /// The names of what these jobs of the org are about.
    pub async fn job_names(&self, org: &OrgId, jobs: &[Job]) -> Result<JobNames, StoreError> {
        let word = |job: &Job, name: &str| job.payload[name].as_str().map(str::to_owned);
        let agents = jobs.iter().filter_map(|job| word(job, "agent")).collect();
        let events = jobs.iter().filter_map(|job| word(job, "event")).collect();
        let to = jobs.iter().filter(|job| job.kind == Kind::Deliver).map(|job| job.subject.clone()).collect();
        let came = jobs.iter().filter(|job| job.kind == Kind::Event).map(|job| job.subject.clone());
        let came = came.chain(jobs.iter().filter_map(|job| word(job, "delivery"))).collect();
        Ok(JobNames {
            connectors: self.connectors_by_name(org, jobs.iter().filter_map(|job| job.connector.as_ref())).await?,
            agents: self.names(org, "SELECT id, name FROM agents", agents).await?,
            events: self.names(org, "SELECT id, kind AS name FROM events", events).await?,
            endpoints: self.names(org, "SELECT id, url AS name FROM event_endpoints", to).await?,
            deliveries: self.names(org, "SELECT id, topic AS name FROM deliveries", came).await?,
        })
    }

    /// These connectors of the org by their parts, without opening a secret.
    pub async fn connectors_by_name(
        &self,
        org: &OrgId,
        ids: impl IntoIterator<Item = &ConnectorId>,
    ) -> Result<HashMap<ConnectorId, NamedConnector>, StoreError> {
        let ids: BTreeSet<_> = ids.into_iter().map(ToString::to_string).collect();
        let rows: Vec<ConnectorRow> =
            self.of_ids(org, "SELECT id, provider, account, name FROM connectors", ids).await?;
        let named = |row: ConnectorRow| {
            let named = NamedConnector { provider: row.provider, account: row.account, name: row.name };
            (row.id.into(), named)
        };
        Ok(rows.into_iter().map(named).collect())
    }

    async fn names(
        &self,
        org: &OrgId,
        select: &str,
        ids: BTreeSet<String>,
    ) -> Result<HashMap<String, String>, StoreError> {
        let rows: Vec<Row> = self.of_ids(org, select, ids).await?;
        Ok(rows.into_iter().map(|row| (row.id, row.name)).collect())
    }

    async fn of_ids<R: FromQueryResult>(
        &self,
        org: &OrgId,
        select: &str,
        ids: BTreeSet<String>,
    ) -> Result<Vec<R>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let sql = format!("{select} WHERE id IN ({}) AND org_id = ${}", sql::list(ids.len()), ids.len() + 1);
        let mut values: Vec<Value> = ids.into_iter().map(Value::from).collect();
        values.extend(values![org.as_str()]);
        sql::all(self.db(), "look what jobs are about", sql, values).await
    }
}
