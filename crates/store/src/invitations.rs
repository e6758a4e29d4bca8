//! Tables `invitations` and `account_links`: who is asked to join an org, and the links that mails carry. The text of a
//! link is in the mail alone.

use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::{
    OrgId, Role,
    ports::{Changed, StoreError},
};
use sea_orm::{ConnectionTrait, FromQueryResult};
use secrecy::SecretString;
use serde_json::json;

use crate::{
    audit::Change,
    mails::{MailKind, MailStage, Tell},
    sql::{self, failed, micros, nonsense, values},
    store::Store,
    team::{RoleRow, role_of},
    users::NewUser,
};

/// What a link leads to is told for so long, also when it is over.
const LINKS_KEPT: TimeDelta = TimeDelta::days(60);
/// Before the subject of a link that a later one has replaced: it leads nowhere, on replicas of an older release too.
const REPLACED: &str = "replaced:";

/// Somebody to be invited.
#[derive(Clone, Debug)]
pub struct NewInvitation<'a> {
    /// To which org.
    pub org: &'a OrgId,
    /// Stored in lower case.
    pub email: &'a str,
    /// What they may do there.
    pub role: Role,
    /// Who invites them, by their id.
    pub by: &'a str,
    /// Until when.
    pub expires_at: DateTime<Utc>,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invited {
    /// They are invited, with a mail; an invitation that was there is renewed.
    Yes {
        /// Of the invitation.
        id: String,
        /// What the one that was there was to.
        before: Option<Role>,
    },
    /// They are in the org.
    Member,
    /// Whoever asks may not give this role, or not any more.
    NotAllowed,
}

/// What became of an invitation that somebody sends again or withdraws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touched {
    /// It is done.
    Yes,
    /// It was accepted or withdrawn meanwhile, or was never there.
    Gone,
    /// Whoever asks may not give its role.
    NotAllowed,
}

/// Where an invitation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvitationNow {
    /// It can be accepted.
    Open,
    /// Nobody has accepted it in time.
    Expired,
    /// Somebody of the org has taken it back.
    Withdrawn,
    /// By this link no more: a later one of the same invitation is in its place.
    Replaced,
    /// It was accepted.
    Used,
}

/// An invitation.
#[derive(Clone, Debug)]
pub struct Invitation {
    /// Its id.
    pub id: String,
    /// To which org.
    pub org: OrgId,
    /// What that org is called.
    pub org_name: String,
    /// Whom it is for, in lower case.
    pub email: String,
    /// What they may do there.
    pub role: Role,
    /// Who invited them, as pages call them, and by their id.
    pub by: String,
    /// See [`Invitation::by`].
    pub by_id: String,
    /// When it was sent last.
    pub sent_at: DateTime<Utc>,
    /// Until when it can be accepted.
    pub expires_at: DateTime<Utc>,
    /// Where its last mail is, and why there, in short.
    pub mail: Option<(MailStage, Option<String>)>,
    accepted_at: Option<DateTime<Utc>>,
    withdrawn_at: Option<DateTime<Utc>>,
    /// Whether it was found by a link that a later one has replaced.
    replaced: bool,
}

impl Invitation {
    /// Where it is at this moment.
    pub fn now(&self, at: DateTime<Utc>) -> InvitationNow {
        if self.accepted_at.is_some() {
            InvitationNow::Used
        } else if self.withdrawn_at.is_some() {
            InvitationNow::Withdrawn
        } else if self.replaced {
            InvitationNow::Replaced
        } else if self.expires_at <= at {
            InvitationNow::Expired
        } else {
            InvitationNow::Open
        }
    }
}

/// Who accepts an invitation.
#[derive(Clone, Debug)]
pub enum Accept {
    /// Somebody whose address nobody signs in with.
    New {
        /// As mails and pages call them.
        name: String,
        /// PHC string.
        password_hash: SecretString,
    },
    /// Somebody whom the identity provider vouches for: they have no password.
    Vouched {
        /// As mails and pages call them.
        name: Option<String>,
    },
    /// Somebody who is signed in, by the id of their row in another org: they go on with the same name and password.
    Known(String),
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// They have joined, and this is their id in the org.
    Joined(String),
    /// They were in the org already; the invitation is used up.
    Member,
    /// It cannot be accepted, or not like that: look again.
    No,
}

#[derive(FromQueryResult)]
struct Row {
    id: String,
    org_id: String,
    org_name: String,
    email: String,
    role: String,
    inviter: Option<String>,
    invited_by: String,
    sent_at: DateTime<Utc>,
    expires_at: DateTime<Utc>,
    accepted_at: Option<DateTime<Utc>>,
    withdrawn_at: Option<DateTime<Utc>>,
    mail_state: Option<String>,
    mail_error: Option<String>,
}

impl TryFrom<Row> for Invitation {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        let stage = |word: String| MailStage::parse(&word).ok_or_else(|| nonsense("mails", "state", &row.id));
        Ok(Self {
            role: Role::parse(&row.role).ok_or_else(|| nonsense("invitations", "role", &row.id))?,
            mail: row.mail_state.map(stage).transpose()?.map(|stage| (stage, row.mail_error)),
            id: row.id,
            org: row.org_id.into(),
            org_name: row.org_name,
            email: row.email,
            by: row.inviter.unwrap_or_else(|| "Somebody".to_owned()),
            by_id: row.invited_by,
            sent_at: row.sent_at,
            expires_at: row.expires_at,
            accepted_at: row.accepted_at,
            withdrawn_at: row.withdrawn_at,
            replaced: false,
        })
    }
}

#[derive(FromQueryResult)]
struct Link {
    subject: String,
}

impl Link {
    /// What it led to before a later one replaced it.
    fn replaced(&self) -> Option<&str> {
        self.subject.strip_prefix(REPLACED)
    }
}

#[derive(FromQueryResult)]
struct Person {
    email: String,
    name: Option<String>,
    password_hash: Option<String>,
}

const SELECT: &str = "SELECT i.id, i.org_id, o.name AS org_name, i.email, i.role, \
                      COALESCE(NULLIF(u.name, ''), u.email) AS inviter, i.invited_by, i.sent_at, i.expires_at, i.accepted_at, \
                      i.withdrawn_at, m.state AS mail_state, m.error AS mail_error FROM invitations i \
                      JOIN orgs o ON o.id = i.org_id LEFT JOIN users u ON u.id = i.invited_by \
                      LEFT JOIN mails m ON m.id = i.mail_id WHERE";
const OPEN: &str = "accepted_at IS NULL AND withdrawn_at IS NULL";

impl Store {
    /// Invites somebody, or renews their invitation: one address has one. The mail is made with it.
    pub async fn invite(&self, new: &NewInvitation<'_>, tell: &Tell) -> Result<Invited, StoreError> {
        let doing = "invite somebody";
        let (org, email) = (new.org.as_str(), new.email.trim().to_lowercase());
        let tx = self.transaction(doing).await?;
        sql::alone(&tx, doing, &format!("team {org}")).await?;
        let by = role_of(&tx, doing, new.org, new.by).await?;
        // A withdrawal waits until this is written, or is seen here.
        let lock = sql::for_update(self.backend());
        let before = format!("SELECT id, role FROM invitations WHERE org_id = $1 AND email = $2 AND {OPEN}{lock}");
        let before: Option<RoleRow> = sql::one(&tx, doing, before, values![org, email.as_str()]).await?;
        let was = before.as_ref().map(RoleRow::role).transpose()?;
        let from = was.unwrap_or(Role::Viewer);
        if !by.is_some_and(|by| by.may_change(from, Some(new.role))) {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(Invited::NotAllowed);
        }
        if is_member(&tx, doing, new.org, &email).await? {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(Invited::Member);
        }
        if let Some(before) = before.as_ref().filter(|_| from != new.role || !tell.sends) {
            // A link that was made for another role opens nothing, nor one that may have been mislaid on its way by hand.
            let links = format!("UPDATE account_links SET subject = '{REPLACED}' || subject WHERE subject = $1");
            sql::run(&tx, doing, links, values![before.id.as_str()]).await?;
        }
        let id = before.map_or_else(|| self.id("inv"), |row| row.id);
        let sql = "INSERT INTO invitations (id, org_id, email, role, invited_by, created_at, sent_at, expires_at) \
                   VALUES ($1, $2, $3, $4, $5, $6, $6, $7) ON CONFLICT (id) DO UPDATE SET role = EXCLUDED.role, \
                   invited_by = EXCLUDED.invited_by, sent_at = EXCLUDED.sent_at, expires_at = EXCLUDED.expires_at";
        let role = new.role.as_str();
        let values = values![id.as_str(), org, email.as_str(), role, new.by, micros(tell.at), micros(new.expires_at)];
        sql::run(&tx, doing, sql, values).await?;
        let about = json!({ "invitation": id });
        let mail = self.tell_address(&tx, tell, new.org, &email, MailKind::Invitation, &about).await?;
        let sql = "UPDATE invitations SET mail_id = $2 WHERE id = $1";
        sql::run(&tx, doing, sql, values![id.as_str(), mail]).await?;
        let action = if was.is_some() { "invitation.sent_again" } else { "invitation.sent" };
        let line = Change::new(new.org, action, ("invitation", &id, &email)).now(json!({ "role": role }));
        // Sent again as it was, it is an act all the same.
        let line = match was.filter(|was| *was != new.role) {
            Some(was) => line.was(json!({ "role": was.as_str() })),
            None => line,
        };
        self.audit(&tx, line).await?;
        tx.commit().await.map_err(failed(doing))?;
        Ok(Invited::Yes { id, before: was })
    }

    /// The org's invitations that nobody has accepted, the newest first.
    pub async fn invitations(&self, org: &OrgId) -> Result<Vec<Invitation>, StoreError> {
        let sql = format!("{SELECT} i.org_id = $1 AND i.{OPEN} ORDER BY i.sent_at DESC, i.id");
        let rows: Vec<Row> = sql::all(self.db(), "list invitations", sql, values![org.as_str()]).await?;
        rows.into_iter().map(Invitation::try_from).collect()
    }

    /// One invitation, wherever it is.
    pub async fn find_invitation(&self, id: &str) -> Result<Option<Invitation>, StoreError> {
        let sql = format!("{SELECT} i.id = $1");
        let row: Option<Row> = sql::one(self.db(), "look for an invitation", sql, values![id]).await?;
        row.map(Invitation::try_from).transpose()
    }

    /// The invitation that this link leads to.
    pub async fn find_invitation_of(&self, link: &[u8; 32]) -> Result<Option<Invitation>, StoreError> {
        let Some(link) = followed(self.db(), "look for a link", link).await? else { return Ok(None) };
        let found = self.find_invitation(link.replaced().unwrap_or(&link.subject)).await?;
        Ok(found.map(|found| Invitation { replaced: link.replaced().is_some(), ..found }))
    }

    /// Takes an invitation back: its links lead nowhere any more.
    pub async fn withdraw_invitation(
        &self,
        org: &OrgId,
        id: &str,
        by: &str,
        at: DateTime<Utc>,
    ) -> Result<Touched, StoreError> {
        let doing = "withdraw an invitation";
        let tx = self.transaction(doing).await?;
        let by = role_of(&tx, doing, org, by).await?;
        let lock = sql::for_update(self.backend());
        let found = format!("SELECT id, role FROM invitations WHERE id = $1 AND org_id = $2 AND {OPEN}{lock}");
        let found: Option<RoleRow> = sql::one(&tx, doing, found, values![id, org.as_str()]).await?;
        let touched = match found.map(|row| row.role()).transpose()? {
            None => Touched::Gone,
            Some(role) if by.is_some_and(|by| by.may_change(role, None)) => {
                let sql = "UPDATE invitations SET withdrawn_at = $2 WHERE id = $1 RETURNING email AS id";
                let email: Option<sql::Id> = sql::one(&tx, doing, sql, values![id, micros(at)]).await?;
                let email = email.map(|row| row.id).unwrap_or_default();
                let line = Change::new(org, "invitation.withdrawn", ("invitation", id, &email));
                self.audit(&tx, line.was(json!({ "role": role.as_str() }))).await?;
                Touched::Yes
            }
            Some(_) => Touched::NotAllowed,
        };
        tx.commit().await.map_err(failed(doing))?;
        Ok(touched)
    }

    /// Somebody accepts, once: who is second finds it used.
    pub async fn accept_invitation(
        &self,
        link: &[u8; 32],
        accept: &Accept,
        at: DateTime<Utc>,
    ) -> Result<Accepted, StoreError> {
        let doing = "accept an invitation";
        let tx = self.transaction(doing).await?;
        let accepted = self.accept_within(&tx, doing, link, accept, at).await?;
        if accepted == Accepted::No {
            tx.rollback().await.map_err(failed(doing))?;
        } else {
            tx.commit().await.map_err(failed(doing))?;
        }
        Ok(accepted)
    }

    async fn accept_within(
        &self,
        tx: &impl ConnectionTrait,
        doing: &'static str,
        link: &[u8; 32],
        accept: &Accept,
        at: DateTime<Utc>,
    ) -> Result<Accepted, StoreError> {
        let Some(id) = subject(tx, doing, link).await? else { return Ok(Accepted::No) };
        let take = format!("UPDATE invitations SET accepted_at = $2 WHERE id = $1 AND {OPEN} AND expires_at > $2");
        if sql::run(tx, doing, take, values![id.as_str(), micros(at)]).await? == 0 {
            return Ok(Accepted::No);
        }
        let row: Option<Row> = sql::one(tx, doing, format!("{SELECT} i.id = $1"), values![id.as_str()]).await?;
        let Some(invitation) = row.map(Invitation::try_from).transpose()? else { return Ok(Accepted::No) };
        let (name, password_hash) = match accept {
            Accept::New { name, password_hash } => {
                let known = "SELECT id FROM users WHERE email = $1 AND removed_at IS NULL AND password_hash IS NOT NULL \
                             LIMIT 1";
                let email = invitation.email.as_str();
                if sql::one::<sql::Id>(tx, doing, known, values![email]).await?.is_some() {
                    return Ok(Accepted::No);
                }
                (Some(name.clone()), Some(password_hash.clone()))
            }
            Accept::Vouched { name } => (name.clone(), None),
            Accept::Known(user) => {
                let known = "SELECT email, name, password_hash FROM users WHERE id = $1 AND removed_at IS NULL";
                let known: Option<Person> = sql::one(tx, doing, known, values![user.as_str()]).await?;
                match known.filter(|person| person.email == invitation.email) {
                    Some(person) => (person.name, person.password_hash.map(SecretString::from)),
                    None => return Ok(Accepted::No),
                }
            }
        };
        let user = NewUser {
            org: invitation.org,
            email: invitation.email,
            name,
            role: invitation.role,
            operator: false,
            password_hash,
            at,
        };
        let Some(joined) = self.add_person(tx, doing, &user).await? else { return Ok(Accepted::Member) };
        let now = json!({ "role": user.role.as_str(), "invited_by": invitation.by });
        self.audit_person(tx, &joined, "member.joined", true, (serde_json::Value::Null, now)).await?;
        Ok(Accepted::Joined(joined))
    }

    /// Makes a link to an invitation or to a reset, by the SHA-256 of its text. Very old ones go.
    pub async fn mint_link(&self, subject: &str, hash: &[u8; 32], at: DateTime<Utc>) -> Result<Changed, StoreError> {
        mint(self.db(), "make a link", subject, hash, at).await
    }
}

async fn is_member(
    tx: &impl ConnectionTrait,
    doing: &'static str,
    org: &OrgId,
    email: &str,
) -> Result<bool, StoreError> {
    let sql = "SELECT id FROM users WHERE org_id = $1 AND email = $2 AND removed_at IS NULL";
    Ok(sql::one::<sql::Id>(tx, doing, sql, values![org.as_str(), email]).await?.is_some())
}

/// See [`Store::mint_link`].
pub(crate) async fn mint(
    db: &impl ConnectionTrait,
    doing: &'static str,
    subject: &str,
    hash: &[u8; 32],
    at: DateTime<Utc>,
) -> Result<Changed, StoreError> {
    let old = "DELETE FROM account_links WHERE created_at < $1";
    sql::run(db, doing, old, values![micros(at - LINKS_KEPT)]).await?;
    let sql = "INSERT INTO account_links (hash, subject, created_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
    Ok(sql::changed(sql::run(db, doing, sql, values![hash.to_vec(), subject, micros(at)]).await?))
}

/// What this link leads to; nowhere, once it was replaced.
pub(crate) async fn subject(
    db: &impl ConnectionTrait,
    doing: &'static str,
    link: &[u8; 32],
) -> Result<Option<String>, StoreError> {
    let link = followed(db, doing, link).await?;
    Ok(link.filter(|link| link.replaced().is_none()).map(|link| link.subject))
}

async fn followed(db: &impl ConnectionTrait, doing: &'static str, link: &[u8; 32]) -> Result<Option<Link>, StoreError> {
    let sql = "SELECT subject FROM account_links WHERE hash = $1";
    sql::one(db, doing, sql, values![link.to_vec()]).await
}
