//! Table `orgs`: who owns everything else, and the sealed data key of each.

use holdfast_core::{
    OrgId,
    ports::{Changed, StoreError},
    visible::told_apart_by,
};
use sea_orm::{ConnectionTrait, FromQueryResult};
use serde_json::{Value, json};

use crate::{
    audit::Change,
    sql::{self, failed, micros, values},
    store::Store,
};

#[derive(FromQueryResult)]
struct Named {
    name: String,
    id: String,
}

#[derive(FromQueryResult)]
struct FaceRow {
    name: String,
    colour: Option<String>,
    return_origins: Option<String>,
}

/// What an org shows of itself to its customers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrgFace {
    /// What people call it; no other org has the same name.
    pub name: String,
    /// `#0b6b4f`.
    pub colour: Option<String>,
    /// Where connect links may lead back to, and whose pages may frame them: `https://app.example.com`.
    pub return_origins: Vec<String>,
}

const BY_NAME: &str = "SELECT id FROM orgs WHERE name = $1";

impl Store {
    /// The org of this name; makes it, with a data key of its own, when there is none.
    pub async fn ensure_org(&self, name: &str) -> Result<OrgId, StoreError> {
        if let Some(org) = self.find_org(name).await? {
            return Ok(org);
        }
        let doing = "make an org";
        let tx = self.transaction(doing).await?;
        let (org, made) = self.org_within(&tx, name).await?;
        if made == Changed::Yes {
            self.audit(&tx, Change::new(&org, "organisation.created", ("organisation", org.as_str(), name))).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        Ok(org)
    }

    /// The same within a transaction; and whether it was made.
    pub(crate) async fn org_within(
        &self,
        db: &impl ConnectionTrait,
        name: &str,
    ) -> Result<(OrgId, Changed), StoreError> {
        let doing = "make an org";
        let org = OrgId::from(self.id("org"));
        let sql = "INSERT INTO orgs (id, name, sealed_data_key, created_at) VALUES ($1, $2, $3, $4) \
                   ON CONFLICT (name) DO NOTHING";
        let key = self.inner.sealer.new_data_key(&org);
        let values = values![org.as_str(), name, key, micros(self.clock().now())];
        let made = sql::changed(sql::run(db, doing, sql, values).await?);
        let found: Option<sql::Id> = sql::one(db, doing, BY_NAME, values![name]).await?;
        found.map(|row| (row.id.into(), made)).ok_or_else(|| StoreError::new(doing))
    }

    /// Every org with its name, oldest first.
    pub async fn orgs(&self) -> Result<Vec<(String, OrgId)>, StoreError> {
        let sql = "SELECT name, id FROM orgs ORDER BY created_at, id";
        let rows: Vec<Named> = sql::all(self.db(), "list the orgs", sql, values![]).await?;
        Ok(rows.into_iter().map(|row| (row.name, row.id.into())).collect())
    }

    /// The name of this org.
    pub async fn org_name(&self, org: &OrgId) -> Result<Option<String>, StoreError> {
        let sql = "SELECT name, id FROM orgs WHERE id = $1";
        let row: Option<Named> = sql::one(self.db(), "look for an org", sql, values![org.as_str()]).await?;
        Ok(row.map(|row| row.name))
    }

    /// What the org shows of itself.
    pub async fn org_face(&self, org: &OrgId) -> Result<Option<OrgFace>, StoreError> {
        face(self.db(), org).await
    }

    /// Changes what the org shows of itself. `No`: another one has this name, or one that people cannot tell from it.
    pub async fn change_org(&self, org: &OrgId, face: &OrgFace) -> Result<Changed, StoreError> {
        let looks = told_apart_by(&face.name);
        if self.orgs().await?.iter().any(|(name, other)| other != org && told_apart_by(name) == looks) {
            return Ok(Changed::No);
        }
        let doing = "change an org";
        let tx = self.transaction(doing).await?;
        let before = self::face(&tx, org).await?.unwrap_or_default();
        let sql = "UPDATE orgs SET name = $2, colour = $3, return_origins = $4 WHERE id = $1 \
                   AND NOT EXISTS (SELECT 1 FROM orgs o WHERE o.name = $2 AND o.id <> $1)";
        let values = values![org.as_str(), face.name.as_str(), face.colour.clone(), face.return_origins.join("\n")];
        let changed = sql::changed(sql::run(&tx, doing, sql, values).await?);
        if changed == Changed::Yes {
            let line = Change::new(org, "organisation.changed", ("organisation", org.as_str(), &face.name));
            self.audit(&tx, line.was(before.fields()).now(face.fields())).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        Ok(changed)
    }

    /// The org of this name.
    pub async fn find_org(&self, name: &str) -> Result<Option<OrgId>, StoreError> {
        let row: Option<sql::Id> = sql::one(self.db(), "look for an org", BY_NAME, values![name]).await?;
        Ok(row.map(|row| row.id.into()))
    }
}

impl OrgFace {
    fn fields(&self) -> Value {
        json!({ "name": self.name, "colour": self.colour, "return_origins": self.return_origins })
    }
}

async fn face(db: &impl ConnectionTrait, org: &OrgId) -> Result<Option<OrgFace>, StoreError> {
    let sql = "SELECT name, colour, return_origins FROM orgs WHERE id = $1";
    let row: Option<FaceRow> = sql::one(db, "look how an org shows itself", sql, values![org.as_str()]).await?;
    Ok(row.map(|row| OrgFace {
        name: row.name,
        colour: row.colour,
        return_origins: row.return_origins.unwrap_or_default().lines().map(str::to_owned).collect(),
    }))
}
