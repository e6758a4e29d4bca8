//! Connectors that are taken over from elsewhere, many in one transaction, each as if alone and after those before it.

use holdfast_core::{ConnectorId, OrgId, ports::StoreError};
use sea_orm::{ConnectionTrait, DatabaseTransaction, FromQueryResult};
use serde_json::json;

use crate::{
    audit::Change,
    connectors::{Created, NewConnector},
    patience::Patient,
    sql::{self, failed, values},
    store::Store,
    timeline::{self, Entry},
};

/// A connector of an import.
#[derive(Clone, Copy, Debug)]
pub struct Import<'a> {
    /// What it would be.
    pub new: &'a NewConnector,
    /// In place of its alias, where another connector has that.
    pub longer_alias: Option<&'a str>,
    /// See [`Store::create_connector_alone`].
    pub alone: bool,
}

/// What became of an [`Import`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Imported {
    /// It was made.
    New(ConnectorId),
    /// The org has this one on the same account; nothing was changed.
    Exists(ConnectorId),
    /// The same, and it had no alias: it has this one now.
    Named(ConnectorId),
    /// The same, and it goes by another alias, this one; nothing was changed.
    OtherAlias(ConnectorId, String),
    /// Another connector of the org, this one, has the alias; nothing was changed.
    AliasTaken(ConnectorId),
    /// It has to be alone, and is not; nothing was changed.
    Held,
}

/// What is there that an import would meet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Met {
    /// The org's connector on the account, with its alias.
    pub account: Option<(ConnectorId, Option<String>)>,
    /// The alias and the longer one, each with whether a connector of the org has it.
    pub aliases: Vec<(String, bool)>,
    /// It has to be alone, and would not be.
    pub held: bool,
}

#[derive(FromQueryResult)]
struct Named {
    id: String,
    alias: Option<String>,
}

impl Import<'_> {
    /// The aliases that it may have, the best first.
    fn aliases(&self) -> Vec<&str> {
        let alias = self.new.alias.as_deref();
        alias.into_iter().chain(self.longer_alias.filter(|_| alias.is_some())).collect()
    }
}

impl Store {
    /// Takes all of them over: what is in the way of one keeps no other from being made.
    pub async fn import_connectors(&self, all: &[Import<'_>]) -> Result<Vec<Imported>, StoreError> {
        let doing = "import connectors";
        let tx = self.transaction(doing).await?;
        let mut done = Vec::with_capacity(all.len());
        for import in all {
            done.push(self.import(&tx, import).await?);
        }
        let count = |wanted: fn(&Imported) -> bool| done.iter().filter(|imported| wanted(imported)).count();
        let made = count(|imported| matches!(imported, Imported::New(_)));
        let named = count(|imported| matches!(imported, Imported::Named(_)));
        if let Some(org) = all.first().map(|import| &import.new.org).filter(|_| made + named > 0) {
            let now = json!({ "made": made, "given_an_alias": named, "left_as_they_were": done.len() - made - named });
            self.audit(&tx, Change::new(org, "connector.imported_many", ("connectors", "", "")).now(now)).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        for (imported, import) in done.iter().zip(all) {
            match imported {
                Imported::New(connector) => {
                    self.connector_changed(connector);
                    self.events_told(std::slice::from_ref(&import.new.org));
                }
                Imported::Named(connector) => self.connector_changed(connector),
                _ => {}
            }
        }
        Ok(done)
    }

    /// What [`Self::import_connectors`] would meet. Writes nothing.
    pub async fn meet_import(&self, import: &Import<'_>) -> Result<Met, StoreError> {
        let doing = "look what an import meets";
        let new = import.new;
        let sql = "SELECT id, alias FROM connectors WHERE org_id = $1 AND provider = $2 AND account = $3";
        let values = values![new.org.as_str(), new.provider.as_str(), new.account.as_str()];
        let account: Option<Named> = sql::one(self.db(), doing, sql, values).await?;
        let mut met = Met { account: account.map(|found| (found.id.into(), found.alias)), ..Met::default() };
        for alias in import.aliases() {
            let taken = with_alias(self.db(), &new.org, alias).await?.is_some();
            met.aliases.push((alias.to_owned(), taken));
        }
        if import.alone && met.account.is_none() {
            // Who else has it is asked of a row that is there for so long.
            let new = NewConnector { alias: None, ..new.clone() };
            let tx = self.transaction(doing).await?;
            met.held = self.make(&tx, &new, true).await?.is_none();
            tx.rollback().await.map_err(failed(doing))?;
        }
        Ok(met)
    }

    async fn import(&self, tx: &Patient<DatabaseTransaction>, import: &Import<'_>) -> Result<Imported, StoreError> {
        let mut made = self.make(tx, import.new, import.alone).await?;
        if let (Some(Created::AliasTaken(_)), Some(longer)) = (&made, import.longer_alias) {
            // Ids of other systems are often those of customers, who connect several services.
            let new = NewConnector { alias: Some(longer.to_owned()), ..import.new.clone() };
            made = self.make(tx, &new, import.alone).await?;
        }
        match made {
            None => Ok(Imported::Held),
            Some(Created::New(id)) => Ok(Imported::New(id)),
            Some(Created::AliasTaken(id)) => Ok(Imported::AliasTaken(id)),
            Some(Created::Exists(id)) => self.name(tx, import, id).await,
        }
    }

    /// Its alias for the connector that is there.
    async fn name(
        &self,
        tx: &Patient<DatabaseTransaction>,
        import: &Import<'_>,
        id: ConnectorId,
    ) -> Result<Imported, StoreError> {
        let doing = "give a connector its alias";
        let (org, wanted) = (&import.new.org, import.aliases());
        let sql = "SELECT id, alias FROM connectors WHERE id = $1";
        let there: Option<Named> = sql::one(tx, doing, sql, values![id.as_str()]).await?;
        match there.and_then(|there| there.alias) {
            _ if wanted.is_empty() => return Ok(Imported::Exists(id)),
            Some(alias) if wanted.contains(&alias.as_str()) => return Ok(Imported::Exists(id)),
            Some(alias) => return Ok(Imported::OtherAlias(id, alias)),
            None => {}
        }
        let mut taken = None;
        for alias in wanted {
            if let Some(other) = with_alias(tx, org, alias).await? {
                taken = taken.or(Some(other));
                continue;
            }
            let sql = "UPDATE connectors SET alias = $3 WHERE org_id = $1 AND id = $2";
            sql::run(tx, doing, sql, values![org.as_str(), id.as_str(), alias]).await?;
            let entry = Entry {
                org: org.clone(),
                connector: id.clone(),
                at: import.new.at,
                kind: "alias".to_owned(),
                outcome: None,
                actor: None,
                detail: Some(alias.to_owned()),
                duration: None,
                version: None,
            };
            timeline::insert(self, tx, &entry).await?;
            return Ok(Imported::Named(id));
        }
        Ok(taken.map_or(Imported::Exists(id), Imported::AliasTaken))
    }
}

async fn with_alias(tx: &impl ConnectionTrait, org: &OrgId, alias: &str) -> Result<Option<ConnectorId>, StoreError> {
    let sql = "SELECT id FROM connectors WHERE org_id = $1 AND alias = $2";
    let found: Option<sql::Id> = sql::one(tx, "look for an alias", sql, values![org.as_str(), alias]).await?;
    Ok(found.map(|found| found.id.into()))
}
