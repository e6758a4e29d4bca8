//! The people of an org: who is there, what they may do, and who leaves. One owner always stays.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use holdfast_core::{OrgId, Role, ports::StoreError};
use sea_orm::{ConnectionTrait, FromQueryResult};
use serde_json::{Value, json};

use crate::{
    browsers, half_sign_ins, second_factors,
    sql::{self, failed, micros, nonsense, values},
    store::Store,
    users::User,
};

/// Somebody of an org, as its people see them.
#[derive(Clone, Debug)]
pub struct Member {
    /// Who.
    pub user: User,
    /// When they last did something in the UI, to five minutes or so; `None`: never.
    pub seen_at: Option<DateTime<Utc>>,
    /// Whether their address is linked to an account at the identity provider that was named.
    pub linked: bool,
}

/// What became of a change to the team.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TeamChange {
    /// It is as was asked for.
    Done,
    /// It would leave the org without an owner.
    LastOwner,
    /// It would leave the instance without an operator.
    LastOperator,
    /// Whoever asks may not do this, or not any more.
    NotAllowed,
    /// There is nobody like that in the org.
    Nobody,
}

#[derive(FromQueryResult)]
struct MemberRow {
    id: String,
    seen_at: Option<DateTime<Utc>>,
    linked: bool,
}

/// What somebody may do, or is invited to.
#[derive(FromQueryResult)]
pub(crate) struct RoleRow {
    pub(crate) id: String,
    role: String,
}

impl RoleRow {
    pub(crate) fn role(&self) -> Result<Role, StoreError> {
        Role::parse(&self.role).ok_or_else(|| nonsense("people and invitations", "role", &self.id))
    }
}

impl Store {
    /// The org's people: owners first, then by address. `issuer`: the identity provider, where there is one.
    pub async fn members(&self, org: &OrgId, issuer: Option<&str>) -> Result<Vec<Member>, StoreError> {
        let sql = "SELECT id, seen_at, \
                   EXISTS (SELECT 1 FROM identities i WHERE i.issuer = $2 AND i.email = users.email) AS linked \
                   FROM users WHERE org_id = $1 AND removed_at IS NULL";
        let values = values![org.as_str(), issuer.unwrap_or_default()];
        let seen: Vec<MemberRow> = sql::all(self.db(), "look when people were here", sql, values).await?;
        let seen: HashMap<_, _> = seen.into_iter().map(|row| (row.id, (row.seen_at, row.linked))).collect();
        let member = |user: User| {
            let (seen_at, linked) = seen.get(&user.id).copied().unwrap_or_default();
            Member { user, seen_at, linked }
        };
        let mut members: Vec<Member> = self.users(org).await?.into_iter().map(member).collect();
        members.sort_by_key(|member| std::cmp::Reverse(member.user.role));
        Ok(members)
    }

    /// Changes what a person may do. `by`: who asks for it, by their id; `None`: the command line, which may. What they had
    /// invited others to that is now above them is withdrawn.
    pub async fn set_role(
        &self,
        org: &OrgId,
        id: &str,
        role: Role,
        by: Option<&str>,
        at: DateTime<Utc>,
    ) -> Result<TeamChange, StoreError> {
        let doing = "change a role";
        let tx = self.transaction(doing).await?;
        let before = match may_change(&tx, doing, (org, id), Some(role), by).await? {
            Ok(role) => role,
            Err(why) => {
                tx.rollback().await.map_err(failed(doing))?;
                return Ok(why);
            }
        };
        let sql = "UPDATE users SET role = $3 WHERE id = $1 AND org_id = $2";
        sql::run(&tx, doing, sql, values![id, org.as_str(), role.as_str()]).await?;
        withdraw_those_of(&tx, doing, id, |invited| role.may_change(invited, None), at).await?;
        let both = (json!({ "role": before.as_str() }), json!({ "role": role.as_str() }));
        self.audit_person(&tx, id, "member.role_changed", false, both).await?;
        tx.commit().await.map_err(failed(doing))?;
        Ok(TeamChange::Done)
    }

    /// A person leaves, or is made to: their sessions here end with it, links that were mailed to them are void, and
    /// invitations of theirs that nobody has accepted are withdrawn. `by` as in [`Store::set_role`].
    pub async fn remove_user(
        &self,
        org: &OrgId,
        id: &str,
        by: Option<&str>,
        at: DateTime<Utc>,
    ) -> Result<TeamChange, StoreError> {
        let doing = "remove a person";
        let tx = self.transaction(doing).await?;
        let before = match may_change(&tx, doing, (org, id), None, by).await? {
            Ok(role) => role,
            Err(why) => {
                tx.rollback().await.map_err(failed(doing))?;
                return Ok(why);
            }
        };
        let leave = "UPDATE users SET removed_at = $3 WHERE id = $1 AND org_id = $2";
        sql::run(&tx, doing, leave, values![id, org.as_str(), micros(at)]).await?;
        let browsers = "DELETE FROM known_browsers WHERE user_id = $1";
        sql::run(&tx, doing, browsers, values![id]).await?;
        browsers::unprove(&tx, doing, id, None).await?;
        half_sign_ins::void(&tx, doing, id).await?;
        second_factors::forget_of_nobody(&tx, doing, id).await?;
        withdraw_those_of(&tx, doing, id, |_| false, at).await?;
        let action = if by == Some(id) { "member.left" } else { "member.removed" };
        self.audit_person(&tx, id, action, false, (json!({ "role": before.as_str() }), Value::Null)).await?;
        tx.commit().await.map_err(failed(doing))?;
        Ok(TeamChange::Done)
    }
}

/// Whether this person may be given this role, or be taken out (`None`), by whoever asks. Of two who ask at once the second
/// waits here until the first has done it, and sees what is left. Answers what they may do now, or why not.
async fn may_change(
    tx: &impl ConnectionTrait,
    doing: &'static str,
    (org, id): (&OrgId, &str),
    to: Option<Role>,
    by: Option<&str>,
) -> Result<Result<Role, TeamChange>, StoreError> {
    sql::alone(tx, doing, &format!("team {org}")).await?;
    let Some(from) = role_of(tx, doing, org, id).await? else { return Ok(Err(TeamChange::Nobody)) };
    if let Some(by) = by {
        // Anybody may leave, and step down.
        let own = by == id && to.is_none_or(|to| to <= from);
        let may = match role_of(tx, doing, org, by).await? {
            Some(role) => own || role.may_change(from, to),
            None => false,
        };
        if !may {
            return Ok(Err(TeamChange::NotAllowed));
        }
        if to.is_none() && is_last_operator(tx, doing, id).await? {
            return Ok(Err(TeamChange::LastOperator));
        }
    }
    if from != Role::Owner || to == Some(Role::Owner) {
        return Ok(Ok(from));
    }
    let other = "SELECT id FROM users WHERE org_id = $1 AND id <> $2 AND role = $3 AND removed_at IS NULL LIMIT 1";
    let other: Option<sql::Id> = sql::one(tx, doing, other, values![org.as_str(), id, Role::Owner.as_str()]).await?;
    Ok(if other.is_some() { Ok(from) } else { Err(TeamChange::LastOwner) })
}

/// Whether nobody would run the instance without this person. Operators of several orgs may leave at once.
async fn is_last_operator(tx: &impl ConnectionTrait, doing: &'static str, id: &str) -> Result<bool, StoreError> {
    let own = "SELECT id FROM users WHERE id = $1 AND operator";
    if sql::one::<sql::Id>(tx, doing, own, values![id]).await?.is_none() {
        return Ok(false);
    }
    sql::alone(tx, doing, "operators").await?;
    let other = "SELECT id FROM users WHERE id <> $1 AND operator AND removed_at IS NULL LIMIT 1";
    Ok(sql::one::<sql::Id>(tx, doing, other, values![id]).await?.is_none())
}

/// What somebody may do in this org at this moment.
pub(crate) async fn role_of(
    tx: &impl ConnectionTrait,
    doing: &'static str,
    org: &OrgId,
    id: &str,
) -> Result<Option<Role>, StoreError> {
    let lock = sql::for_update(tx.get_database_backend());
    let sql = format!("SELECT id, role FROM users WHERE id = $1 AND org_id = $2 AND removed_at IS NULL{lock}");
    let row: Option<RoleRow> = sql::one(tx, doing, sql, values![id, org.as_str()]).await?;
    row.map(|row| row.role()).transpose()
}

/// Somebody's invitations that nobody has accepted, but for those to roles that they may still give.
async fn withdraw_those_of(
    tx: &impl ConnectionTrait,
    doing: &'static str,
    user: &str,
    still: impl Fn(Role) -> bool,
    at: DateTime<Utc>,
) -> Result<(), StoreError> {
    for role in Role::ALL.into_iter().filter(|role| !still(*role)) {
        let sql = "UPDATE invitations SET withdrawn_at = $3 \
                   WHERE invited_by = $1 AND role = $2 AND accepted_at IS NULL AND withdrawn_at IS NULL";
        sql::run(tx, doing, sql, values![user, role.as_str(), micros(at)]).await?;
    }
    Ok(())
}
