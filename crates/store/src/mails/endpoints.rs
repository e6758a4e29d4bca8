//! Event endpoints that get nothing any more, without a person having said so: one message per admin for each, once.

use holdfast_core::{OrgId, ports::StoreError};
use sea_orm::FromQueryResult;
use serde_json::json;

use super::{MailKind, Tell};
use crate::{
    sql::{self, failed, micros, values},
    store::Store,
};

#[derive(FromQueryResult)]
struct Untold {
    id: String,
    org_id: String,
}

const UNTOLD: &str = "SELECT id, org_id FROM event_endpoints WHERE stopped IS NOT NULL AND told_at IS NULL \
                      ORDER BY disabled_at LIMIT $1";

impl Store {
    /// Whether people have to be told of an endpoint.
    pub async fn event_endpoint_is_untold(&self) -> Result<bool, StoreError> {
        Ok(!self.untold_event_endpoints(1).await?.is_empty())
    }

    /// Makes the messages of one endpoint after the other, each in a transaction of its own; answers of how many.
    pub async fn tell_event_endpoints(&self, tell: &Tell) -> Result<usize, StoreError> {
        let doing = "tell of an event endpoint";
        let mut told = 0;
        for untold in self.untold_event_endpoints(100).await? {
            let org = OrgId::from(untold.org_id.as_str());
            let tx = self.transaction(doing).await?;
            let take =
                "UPDATE event_endpoints SET told_at = $2 WHERE id = $1 AND stopped IS NOT NULL AND told_at IS NULL";
            if sql::run(&tx, doing, take, values![untold.id.as_str(), micros(tell.at)]).await? == 0 {
                tx.rollback().await.map_err(failed(doing))?;
                continue;
            }
            let about = json!({ "endpoint": untold.id });
            self.tell_admins(&tx, tell, &org, MailKind::EndpointStopped, &about).await?;
            tx.commit().await.map_err(failed(doing))?;
            told += 1;
        }
        Ok(told)
    }

    async fn untold_event_endpoints(&self, most: i64) -> Result<Vec<Untold>, StoreError> {
        sql::all(self.db(), "look for event endpoints in trouble", UNTOLD, values![most]).await
    }
}
