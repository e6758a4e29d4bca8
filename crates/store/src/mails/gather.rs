//! Notices in the outbox become messages, once their time has come.

use std::collections::{BTreeMap, HashSet};

use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::{ConnectorId, Health, OrgId, notify::Topic, ports::StoreError};
use sea_orm::{ConnectionTrait, DatabaseTransaction, FromQueryResult};
use serde_json::{Value, json};

use super::{MailKind, MailStage, NewItem, NewMail, ROWS};
use crate::{
    patience::Patient,
    sql::{self, failed, micros, values},
    store::{Kind, Store},
};

/// What is to be turned into messages, and how.
#[derive(Clone, Debug)]
pub struct Gather<'a> {
    /// Of which org.
    pub org: &'a OrgId,
    /// One that is made from notices.
    pub kind: MailKind,
    /// Now.
    pub at: DateTime<Utc>,
    /// Until then more of the same org is kept for the next message.
    pub window: TimeDelta,
    /// News of a recovery that is older than this is none.
    pub recovery_is_news_for: TimeDelta,
    /// The right side of the messages' ids.
    pub domain: &'a str,
    /// Addresses of operators beside those who are users.
    pub operators: &'a [String],
    /// False: there is no mail server; the messages are kept as not sent.
    pub sends: bool,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gathered {
    /// Messages for so many people were made.
    Made(usize),
    /// Nothing stood any more, or nobody had been told of the failure.
    Nothing,
    /// There was something to tell, and nobody in the org to tell it to.
    Nobody,
    /// Another replica is at it, or was a moment ago.
    Busy,
}

#[derive(FromQueryResult)]
pub(super) struct Notice {
    pub(super) id: String,
    pub(super) org_id: String,
    pub(super) connector_id: String,
    pub(super) epoch: i64,
    pub(super) payload: Value,
    created_at: DateTime<Utc>,
    health: Option<String>,
    epoch_now: Option<i64>,
}

impl Notice {
    fn health(&self) -> Option<Health> {
        Health::parse(self.health.as_deref()?)
    }

    /// Whether what it is to tell still stands.
    pub(super) fn stands(&self, kind: MailKind) -> bool {
        let (health, epoch) = (self.health(), self.epoch_now == Some(self.epoch));
        match kind {
            MailKind::NeedsYou | MailKind::StillWaiting => health == Some(Health::AuthFailed) && epoch,
            MailKind::BackAgain => health == Some(Health::Connected),
            _ => health == Some(Health::Connected) && epoch,
        }
    }

    /// As it stands in a message of the org's. `since`: of the failure that it is about.
    pub(super) fn item<'a>(&self, org: &'a OrgId, since: DateTime<Utc>) -> NewItem<'a> {
        NewItem {
            org,
            connector: self.connector_id.as_str().into(),
            epoch: self.epoch,
            since,
            at: self.at(),
            days: self.payload["days"].as_i64(),
        }
    }

    /// The moment of the change.
    pub(super) fn at(&self) -> DateTime<Utc> {
        self.payload["at"].as_str().and_then(|at| at.parse().ok()).unwrap_or(self.created_at)
    }
}

/// Until then what comes is kept for the next message.
pub(super) async fn close_window(
    tx: &impl ConnectionTrait,
    doing: &'static str,
    org: &OrgId,
    name: &str,
    until: DateTime<Utc>,
) -> Result<(), StoreError> {
    let close = "UPDATE mail_windows SET until_at = $3 WHERE org_id = $1 AND kind = $2";
    sql::run(tx, doing, close, values![org.as_str(), name, micros(until)]).await.map(|_| ())
}

/// Marks notices in this column: they have been turned into messages.
pub(super) async fn done_in(
    tx: &impl ConnectionTrait,
    column: &str,
    at: DateTime<Utc>,
    notices: &[Notice],
) -> Result<(), StoreError> {
    for some in notices.chunks(ROWS) {
        let places: Vec<String> = (2..2 + some.len()).map(|place| format!("${place}")).collect();
        let done = format!("UPDATE outbox SET {column} = $1 WHERE id IN ({})", places.join(", "));
        let mut values = values![micros(at)];
        values.extend(some.iter().map(|notice| sea_orm::Value::from(notice.id.as_str())));
        sql::run(tx, "mark notices", done, values).await?;
    }
    Ok(())
}

/// Notices, each with its connector as it is now.
pub(super) const NOTICES: &str = "SELECT o.id, o.org_id, o.connector_id, o.epoch, o.payload, o.created_at, c.health, c.epoch AS epoch_now \
     FROM outbox o LEFT JOIN connectors c ON c.id = o.connector_id AND c.org_id = o.org_id";
/// Of an item: it told of a failure.
const FAILURE: &str = "(i.kind = 'needs_you' OR i.kind LIKE 'still_waiting:%')";
/// A reminder stands under the messages of so many connectors; a header is no list of all.
const ANSWERED: usize = 10;

/// A message that has told somebody of a failure.
#[derive(FromQueryResult)]
struct ToldBefore {
    user_id: String,
    message_id: String,
    since: DateTime<Utc>,
}

impl Store {
    /// Orgs with notices that have waited for company since before `gathered_before`, and whose last message of the
    /// kind is a window ago; oldest first.
    pub async fn due_notices(
        &self,
        at: DateTime<Utc>,
        gathered_before: DateTime<Utc>,
        limit: u64,
    ) -> Result<Vec<(OrgId, MailKind)>, StoreError> {
        let notices = MailKind::ALL.iter().filter_map(|kind| kind.notice());
        let notices = notices.map(|effect| format!("'{effect}'")).collect::<Vec<_>>().join(", ");
        let sql = format!(
            "SELECT o.org_id, o.effect FROM outbox o \
             LEFT JOIN mail_windows w ON w.org_id = o.org_id AND w.kind = o.effect \
             WHERE o.done_at IS NULL AND o.effect IN ({notices}) AND o.created_at <= $1 \
             AND (w.until_at IS NULL OR w.until_at <= $2) \
             GROUP BY o.org_id, o.effect ORDER BY MIN(o.created_at) LIMIT $3"
        );
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let values = values![micros(gathered_before), micros(at), limit];
        self.due_kinds(sql, values).await
    }

    /// Orgs and effects that a statement finds, as kinds.
    pub(super) async fn due_kinds(
        &self,
        sql: impl Into<String>,
        values: Vec<sea_orm::Value>,
    ) -> Result<Vec<(OrgId, MailKind)>, StoreError> {
        #[derive(FromQueryResult)]
        struct Row {
            org_id: String,
            effect: String,
        }
        let rows: Vec<Row> = sql::all(self.db(), "look for what is to be told", sql, values).await?;
        Ok(rows.into_iter().filter_map(|row| Some((row.org_id.into(), MailKind::of_notice(&row.effect)?))).collect())
    }

    /// Takes the org's window of this name, for as long as the transaction lasts. `None`: another one has it, or it is closed.
    pub(super) async fn take_window(
        &self,
        doing: &'static str,
        org: &OrgId,
        name: &str,
        at: DateTime<Utc>,
    ) -> Result<Option<Patient<DatabaseTransaction>>, StoreError> {
        let window = values![org.as_str(), name, micros(at)];
        let open = "INSERT INTO mail_windows (org_id, kind, until_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
        sql::run(self.db(), doing, open, window.clone()).await?;
        let tx = self.transaction(doing).await?;
        let skip = if self.kind() == Kind::Postgres { " FOR UPDATE SKIP LOCKED" } else { "" };
        let lock =
            format!("SELECT org_id AS id FROM mail_windows WHERE org_id = $1 AND kind = $2 AND until_at <= $3{skip}");
        if sql::one::<sql::Id>(&tx, doing, lock, window).await?.is_none() {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(None);
        }
        Ok(Some(tx))
    }

    /// Turns every open notice of the org and kind into one message per recipient, in one transaction: those that do
    /// not stand any more make none. Recipients are who they are now: owners and admins for a failure, of those who were
    /// told of the failure for a recovery.
    pub async fn gather_mails(&self, gather: &Gather<'_>) -> Result<Gathered, StoreError> {
        let doing = "turn notices into mails";
        let Some(effect) = gather.kind.notice() else { return Ok(Gathered::Nothing) };
        let Some(tx) = self.take_window(doing, gather.org, effect, gather.at).await? else {
            return Ok(Gathered::Busy);
        };
        let undone = format!(
            "{NOTICES} WHERE o.org_id = $1 AND o.effect = $2 AND o.done_at IS NULL ORDER BY o.created_at, o.id"
        );
        let notices: Vec<Notice> = sql::all(&tx, doing, undone, values![gather.org.as_str(), effect]).await?;
        let gathered = match gather.kind {
            MailKind::BackAgain => self.gather_recoveries(&tx, gather, &notices).await?,
            _ => self.gather_for_admins(&tx, gather, &notices).await?,
        };
        done_in(&tx, "done_at", gather.at, &notices).await?;
        if matches!(gathered, Gathered::Made(_) | Gathered::Nobody) {
            close_window(&tx, doing, gather.org, effect, gather.at + gather.window).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        let connectors: HashSet<&str> = notices.iter().map(|notice| notice.connector_id.as_str()).collect();
        self.mails_changed(&connectors.into_iter().collect::<Vec<_>>()).await;
        Ok(gathered)
    }

    async fn gather_for_admins(
        &self,
        tx: &impl ConnectionTrait,
        gather: &Gather<'_>,
        notices: &[Notice],
    ) -> Result<Gathered, StoreError> {
        let standing = |notice: &&Notice| notice.stands(gather.kind);
        // Of a connector whose reminders came together, the last one says it all.
        let mut seen = HashSet::new();
        let mut items: Vec<NewItem<'_>> = notices
            .iter()
            .rev()
            .filter(standing)
            .filter(|notice| seen.insert(notice.connector_id.as_str()))
            .map(|notice| notice.item(gather.org, notice.at()))
            .collect();
        items.reverse();
        if items.is_empty() {
            return Ok(Gathered::Nothing);
        }
        let admins = self.admins_to_tell(tx, gather.org, gather.kind.topic(), gather.at).await?;
        let mail = |org, kind, stage| NewMail {
            org,
            user: None,
            recipient: "",
            kind,
            about: json!({}),
            answers: Vec::new(),
            stage,
            later: None,
            items: items.clone(),
        };
        let stage = if gather.sends { MailStage::Queued } else { MailStage::Unsent };
        for admin in &admins {
            let mail = NewMail {
                user: admin.user_id.as_deref(),
                recipient: &admin.recipient,
                later: admin.later,
                answers: self.told_before(tx, gather, &admin.recipient, &items).await?,
                ..mail(Some(gather.org), gather.kind, stage)
            };
            self.insert_mail(tx, gather.domain, gather.at, &mail).await?;
        }
        if !admins.is_empty() {
            return Ok(Gathered::Made(admins.len()));
        }
        // Nobody wants to hear it, which is something else than that nobody is there.
        if !self.admins_to_tell(tx, gather.org, Some(Topic::Failures), gather.at).await?.is_empty() {
            return Ok(Gathered::Nothing);
        }
        let nobody = mail(Some(gather.org), gather.kind, MailStage::Nobody);
        self.insert_mail(tx, gather.domain, gather.at, &nobody).await?;
        // The operators hear of it when it fails, and of an end once it has come.
        if gather.kind != MailKind::NeedsYou {
            return Ok(Gathered::Nobody);
        }
        for operator in self.operators_to_tell(tx, gather.operators).await? {
            let mail = NewMail {
                user: operator.user_id.as_deref(),
                recipient: &operator.recipient,
                ..mail(None, MailKind::NobodyTold, stage)
            };
            self.insert_mail(tx, gather.domain, gather.at, &mail).await?;
        }
        Ok(Gathered::Nobody)
    }

    /// Of a reminder: the messages that this person has had about the same failures, under which it stands.
    async fn told_before(
        &self,
        tx: &impl ConnectionTrait,
        gather: &Gather<'_>,
        recipient: &str,
        items: &[NewItem<'_>],
    ) -> Result<Vec<String>, StoreError> {
        let mut answers: Vec<String> = Vec::new();
        if gather.kind != MailKind::StillWaiting {
            return Ok(answers);
        }
        let sql = format!(
            "SELECT m.message_id AS id FROM mail_items i JOIN mails m ON m.id = i.mail_id \
             WHERE i.connector_id = $1 AND i.epoch = $2 AND i.recipient = $3 AND {FAILURE} AND i.dropped IS NULL \
             AND (m.state IN ('sent', 'sending') OR m.unsure) ORDER BY m.created_at"
        );
        for item in items.iter().take(ANSWERED) {
            let values = values![item.connector.as_str(), item.epoch, recipient];
            for before in sql::all::<sql::Id>(tx, "look who was told", sql.as_str(), values).await? {
                if !answers.contains(&before.id) {
                    answers.push(before.id);
                }
            }
        }
        Ok(answers)
    }

    async fn gather_recoveries(
        &self,
        tx: &impl ConnectionTrait,
        gather: &Gather<'_>,
        notices: &[Notice],
    ) -> Result<Gathered, StoreError> {
        let standing = |notice: &&Notice| {
            notice.stands(gather.kind) && notice.created_at > gather.at - gather.recovery_is_news_for
        };
        // `unsure`: it may have arrived. The failure's epoch is the one before: nothing else moves it in between.
        let sql = format!(
            "SELECT m.user_id, m.message_id, i.since FROM mail_items i JOIN mails m ON m.id = i.mail_id \
             WHERE i.connector_id = $1 AND i.org_id = $2 AND i.epoch = $3 AND {FAILURE} AND m.user_id IS NOT NULL \
             AND i.dropped IS NULL AND (m.state IN ('sent', 'sending') OR m.unsure) ORDER BY m.created_at"
        );
        let admins = self.admins_to_tell(tx, gather.org, gather.kind.topic(), gather.at).await?;
        // By person, then by connector: of two recoveries of one connector the newer is told.
        let mut told: BTreeMap<String, BTreeMap<ConnectorId, (&Notice, ToldBefore)>> = BTreeMap::new();
        for notice in notices.iter().filter(standing) {
            let values = values![notice.connector_id.as_str(), gather.org.as_str(), notice.epoch - 1];
            let before: Vec<ToldBefore> = sql::all(tx, "look who was told", sql.as_str(), values).await?;
            for before in before {
                if admins.iter().all(|admin| admin.recipient != before.user_id) {
                    continue;
                }
                let of_person = told.entry(before.user_id.clone()).or_default();
                let newer = of_person
                    .get(&ConnectorId::from(notice.connector_id.as_str()))
                    .is_none_or(|(other, _)| other.epoch < notice.epoch);
                if newer {
                    of_person.insert(notice.connector_id.as_str().into(), (notice, before));
                }
            }
        }
        for (user, connectors) in &told {
            let mut answers: Vec<String> = Vec::new();
            for (_, before) in connectors.values() {
                if !answers.contains(&before.message_id) {
                    answers.push(before.message_id.clone());
                }
            }
            let mail = NewMail {
                org: Some(gather.org),
                user: Some(user),
                recipient: user,
                kind: MailKind::BackAgain,
                about: json!({}),
                answers,
                stage: if gather.sends { MailStage::Queued } else { MailStage::Unsent },
                later: admins.iter().find(|admin| admin.recipient == *user).and_then(|admin| admin.later),
                items: connectors.values().map(|(notice, before)| notice.item(gather.org, before.since)).collect(),
            };
            self.insert_mail(tx, gather.domain, gather.at, &mail).await?;
        }
        Ok(if told.is_empty() { Gathered::Nothing } else { Gathered::Made(told.len()) })
    }
}
