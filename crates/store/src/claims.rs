//! Table `grant_claims`: who is between the exchange of a code and the storing of what it brought, and who is giving a
//! grant back. The one may end the other at a provider, and no database shows yet what was only exchanged. A claim is
//! made before the exchange and ends in the transaction that stores the grant, or that notes another end of the consent;
//! what a crash leaves ends by itself.

use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::{AppId, ConnectorId, OrgId, ports::StoreError};
use sea_orm::{ConnectionTrait, FromQueryResult};

use crate::{
    row,
    sql::{self, failed, micros, values},
    store::Store,
};

/// A consent takes seconds from here to its end, and the lifeboat's are gone on with when a process starts again.
const LIFE: TimeDelta = TimeDelta::minutes(15);
/// A later consent of the same connector waits this long for an earlier one: more than an exchange takes, and the person
/// whose first try was cut off waits for it.
const OWN_LIFE: TimeDelta = TimeDelta::seconds(10);
/// No revocation takes longer.
const GIVING_BACK: TimeDelta = TimeDelta::seconds(20);

/// A consent whose code is about to be exchanged.
#[derive(Clone, Debug)]
pub struct GrantClaim {
    /// Names the consent among all: [`Session::consent`](crate::Session::consent).
    pub consent: String,
    /// Its sequence.
    pub sequence: i64,
    /// Of which connector.
    pub connector: ConnectorId,
    /// The provider's id.
    pub provider: String,
    /// The account that is asked for.
    pub account: String,
    /// The OAuth app that is asked for it.
    pub app: AppId,
    /// Another grant for the account would end this one, and the other way round.
    pub alone: bool,
}

/// What became of a [`GrantClaim`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantClaimed {
    /// It holds.
    Yes,
    /// Another connector has what the new grant would end.
    Held(Rival),
    /// The connector's own grant, of a consent that was started later.
    Later,
    /// Another consent is at it, or something is being given back. It may be asked again.
    UnderWay,
}

/// Another connector's grant: it works, or has the account in the same org.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rival {
    /// Which.
    pub connector: ConnectorId,
    /// Whose.
    pub org: OrgId,
    /// What people call it.
    pub name: String,
}

#[derive(FromQueryResult)]
struct Other {
    id: String,
    org_id: String,
    name: String,
    app: Option<String>,
    credential_id: String,
    same_org: bool,
}

#[derive(FromQueryResult)]
struct Row {
    connector_id: Option<String>,
    account: String,
    sequence: i64,
    taken_at: DateTime<Utc>,
}

impl Row {
    /// Whether it keeps this consent from its exchange.
    fn bars(&self, claim: &GrantClaim, at: DateTime<Utc>) -> bool {
        let age = at - self.taken_at;
        match self.connector_id.as_deref() {
            None => age < GIVING_BACK,
            Some(_) if !claim.alone || self.account != claim.account => false,
            Some(own) if own == claim.connector.as_str() && self.sequence < claim.sequence => age < OWN_LIFE,
            Some(_) => age < LIFE,
        }
    }
}

impl Store {
    /// Claims what this consent is about to bring, unless something is in its way. May be called again.
    pub async fn claim_grant(&self, claim: &GrantClaim, at: DateTime<Utc>) -> Result<GrantClaimed, StoreError> {
        let doing = "claim a grant";
        let tx = self.transaction(doing).await?;
        let claimed = take(&tx, claim, at).await?;
        tx.commit().await.map_err(failed(doing))?;
        Ok(claimed)
    }

    /// Keeps the provider's codes from being exchanged while a grant is given back, which ends others of the same person.
    /// `None`: a consent other than `own` has exchanged its code and is not stored, and whose grant it has is not known.
    /// Who works with what is stored is to be asked after this.
    pub async fn begin_giving_back(
        &self,
        provider: &str,
        own: Option<&str>,
        at: DateTime<Utc>,
    ) -> Result<Option<String>, StoreError> {
        let doing = "begin to give a grant back";
        let tx = self.transaction(doing).await?;
        gate(&tx, provider).await?;
        let look = "SELECT id FROM grant_claims WHERE provider = $1 AND connector_id IS NOT NULL AND taken_at > $2 \
                    AND id <> $3 LIMIT 1";
        let values = values![provider, micros(at - LIFE), own.unwrap_or_default()];
        let under_way: Option<sql::Id> = sql::one(&tx, doing, look, values).await?;
        let id = under_way.is_none().then(|| self.id("back"));
        if let Some(id) = &id {
            let insert =
                "INSERT INTO grant_claims (id, provider, account, sequence, taken_at) VALUES ($1, $2, '', 0, $3)";
            sql::run(&tx, doing, insert, values![id.as_str(), provider, micros(at)]).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        Ok(id)
    }

    /// It is given back, or not.
    pub async fn end_giving_back(&self, id: &str) -> Result<(), StoreError> {
        end(self.db(), id).await
    }
}

/// Claims it in this transaction, which has to be committed for whatever comes out.
pub(crate) async fn take(
    tx: &impl ConnectionTrait,
    claim: &GrantClaim,
    at: DateTime<Utc>,
) -> Result<GrantClaimed, StoreError> {
    let doing = "claim a grant";
    if let Some(in_the_way) = in_the_way(tx, claim, at).await? {
        return Ok(in_the_way);
    }
    // What is over, and what an earlier consent of the connector has not ended in time: it finds its claim gone.
    let over = "DELETE FROM grant_claims WHERE provider = $1 AND id <> $2 AND (taken_at <= $3 \
                OR (connector_id = $4 AND account = $5 AND sequence < $6 AND taken_at <= $7))";
    let values = values![
        claim.provider.as_str(),
        claim.consent.as_str(),
        micros(at - LIFE),
        claim.connector.as_str(),
        claim.account.as_str(),
        claim.sequence,
        micros(at - OWN_LIFE),
    ];
    sql::run(tx, doing, over, values).await?;
    let insert = "INSERT INTO grant_claims (id, provider, account, connector_id, sequence, taken_at) \
                  VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (id) DO NOTHING";
    let values = values![
        claim.consent.as_str(),
        claim.provider.as_str(),
        claim.account.as_str(),
        claim.connector.as_str(),
        claim.sequence,
        micros(at),
    ];
    sql::run(tx, doing, insert, values).await?;
    Ok(GrantClaimed::Yes)
}

/// What a claim would meet, until the transaction ends: others wait for that.
pub(crate) async fn in_the_way(
    tx: &impl ConnectionTrait,
    claim: &GrantClaim,
    at: DateTime<Utc>,
) -> Result<Option<GrantClaimed>, StoreError> {
    gate(tx, &claim.provider).await?;
    if claim.alone
        && let Some(found) = stored(tx, claim).await?
    {
        return Ok(Some(found));
    }
    let sql = "SELECT connector_id, account, sequence, taken_at FROM grant_claims WHERE provider = $1 AND id <> $2";
    let values = values![claim.provider.as_str(), claim.consent.as_str()];
    let others: Vec<Row> = sql::all(tx, "look who is at a consent", sql, values).await?;
    Ok(others.iter().any(|other| other.bars(claim, at)).then_some(GrantClaimed::UnderWay))
}

/// What a grant of this connector for this account would end, of all orgs; the org's own is named first. Connectors that
/// share the credential are no rivals, nor are those of other orgs that were connected with another app: the provider tells
/// apps apart.
async fn stored(tx: &impl ConnectionTrait, claim: &GrantClaim) -> Result<Option<GrantClaimed>, StoreError> {
    let doing = "look for another connector of an account";
    let id = claim.connector.as_str();
    let later = "SELECT id FROM connectors WHERE id = $1 AND grant_sequence > $2";
    let later: Option<sql::Id> = sql::one(tx, doing, later, values![id, claim.sequence]).await?;
    if later.is_some() {
        return Ok(Some(GrantClaimed::Later));
    }
    let other = "SELECT other.id, other.org_id, other.name, k.provider AS app, other.credential_id, \
                 other.org_id = own.org_id AS same_org FROM connectors other JOIN connectors own \
                 ON own.provider = other.provider JOIN credentials k ON k.id = other.credential_id \
                 WHERE own.id = $1 AND other.account = $2 AND other.credential_id <> own.credential_id \
                 AND (other.org_id = own.org_id OR other.health = 'connected') \
                 ORDER BY CASE WHEN other.org_id = own.org_id THEN 0 ELSE 1 END, other.id";
    let found: Vec<Other> = sql::all(tx, doing, other, values![id, claim.account.as_str()]).await?;
    for other in found {
        let of = row::app_of(other.app.as_deref(), &claim.provider, &other.org_id, &other.credential_id)?;
        if other.same_org || of.is_same_client(&claim.app) {
            let rival = Rival { connector: other.id.into(), org: other.org_id.into(), name: other.name };
            return Ok(Some(GrantClaimed::Held(rival)));
        }
    }
    Ok(None)
}

/// The consent of this name has no claim any more.
pub(crate) async fn end(db: &impl ConnectionTrait, consent: &str) -> Result<(), StoreError> {
    let sql = "DELETE FROM grant_claims WHERE id = $1";
    sql::run(db, "end a claim of a grant", sql, values![consent]).await.map(|_| ())
}

/// One at a time per provider. What is read of claims after it, nobody changes before the transaction ends. Before locks
/// of rows, since others ask for those behind it.
pub(crate) async fn gate(tx: &impl ConnectionTrait, provider: &str) -> Result<(), StoreError> {
    sql::alone(tx, "wait for others that claim a grant", &format!("grants {provider}")).await
}
