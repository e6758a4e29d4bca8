//! What is in the way of a grant where an OAuth app has one per account: asked before a code is exchanged, since the
//! exchange itself would end the other one.

use holdfast_core::{ConnectorId, OrgId, ports::StoreError};
use sea_orm::FromQueryResult;

use crate::{
    sql::{self, values},
    store::Store,
};

/// What a new grant would end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rival {
    /// Another connector's grant: it works, or has the account in the same org.
    Connector {
        /// It.
        id: ConnectorId,
        /// Whose.
        org: OrgId,
        /// What people call it.
        name: String,
    },
    /// This connector's own, of a consent that was started later.
    Later,
}

#[derive(FromQueryResult)]
struct Other {
    id: String,
    org_id: String,
    name: String,
}

impl Store {
    /// What a grant of this connector for this account would end, of all orgs; the org's own is named first. `sequence` is
    /// the consent's. Connectors that share the credential are no rivals.
    pub async fn find_rival(
        &self,
        id: &ConnectorId,
        account: &str,
        sequence: i64,
    ) -> Result<Option<Rival>, StoreError> {
        let doing = "look for another connector of an account";
        let later = "SELECT id FROM connectors WHERE id = $1 AND grant_sequence > $2";
        let later: Option<sql::Id> = sql::one(self.db(), doing, later, values![id.as_str(), sequence]).await?;
        if later.is_some() {
            return Ok(Some(Rival::Later));
        }
        let other = "SELECT other.id, other.org_id, other.name FROM connectors other JOIN connectors own \
                     ON own.provider = other.provider WHERE own.id = $1 AND other.account = $2 \
                     AND other.credential_id <> own.credential_id \
                     AND (other.org_id = own.org_id OR other.health = 'connected') \
                     ORDER BY CASE WHEN other.org_id = own.org_id THEN 0 ELSE 1 END, other.id LIMIT 1";
        let found: Option<Other> = sql::one(self.db(), doing, other, values![id.as_str(), account]).await?;
        Ok(found.map(|other| Rival::Connector { id: other.id.into(), org: other.org_id.into(), name: other.name }))
    }
}
