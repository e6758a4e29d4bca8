//! Tables `mails` and `mail_items`: what is told to whom, and what became of it.
//!
//! A change of health leaves a notice in the outbox. When its time has come, [`Store::gather_mails`] turns all open
//! notices of an org into one message per recipient, as they are at that moment. A message is claimed, sent and settled
//! by itself; its id is given once, so that a repeated one is seen to be the same.

mod account;
mod agents;
mod app_troubles;
mod channel;
mod endpoints;
mod gather;
mod migrations;
mod reminders;
mod send;
mod server;
mod suppression;
mod told;
mod webhooks;

use chrono::{DateTime, Utc};
use holdfast_core::{ConnectorId, OrgId, health::Effect, notify::Topic, ports::StoreError};
use sea_orm::{ConnectionTrait, FromQueryResult};
use serde_json::{Value, json};

use crate::{
    notifications::{Addressee, addressees, told_of},
    sql::{self, micros, nonsense, values},
    store::Store,
};

pub use app_troubles::{AppTrouble, TellAppTrouble};
pub use channel::ToChannel;
pub use gather::{Gather, Gathered};
pub use migrations::TellMigrations;
pub use send::{ClaimedMail, MailItem, MailOutcome};
pub use server::MailTrouble;
pub use suppression::SuppressedAddress;
pub use told::{MailFailure, MailState, Told};
pub use webhooks::WebhookTrouble;

/// Why a mail is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MailKind {
    /// One or more connectors have failed.
    NeedsYou,
    /// They have waited for some days.
    StillWaiting,
    /// They work again.
    BackAgain,
    /// A provider refuses the OAuth app.
    AppRefused,
    /// Connectors whose access ends within a week, and nothing extends it.
    ExpiresSoon,
    /// The same within a day.
    LastDay,
    /// To the operators: connectors of an org have failed, and it has nobody who could be told.
    NobodyTold,
    /// Connectors have to be reconnected for a provider's migration.
    MustReconnect,
    /// A webhook of a connector has stopped, or is about to be switched off by its provider.
    WebhookStopped,
    /// An event endpoint of the org gets nothing any more.
    EndpointStopped,
    /// Somebody is invited to the org.
    Invitation,
    /// Somebody has forgotten their password.
    PasswordReset,
    /// Somebody's password was changed.
    PasswordChanged,
    /// Somebody has signed in with a browser that they had not used before.
    NewSignIn,
    /// Somebody's second factor was turned on or off, or something was done with it.
    SecondFactor,
    /// An API key of the org was made.
    KeyMade,
    /// The address of one of the org's people is refused, and gets no mail any more.
    AddressSuppressed,
    /// The org's channel in Slack takes nothing any more.
    ChannelStopped,
    /// Somebody wanted to see whether mail arrives.
    Test,
}

impl MailKind {
    /// The stable word in database and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NeedsYou => "needs_you",
            Self::StillWaiting => "still_waiting",
            Self::BackAgain => "back_again",
            Self::AppRefused => "app_refused",
            Self::ExpiresSoon => "expires_soon",
            Self::LastDay => "last_day",
            Self::NobodyTold => "nobody_told",
            Self::MustReconnect => "must_reconnect",
            Self::WebhookStopped => "webhook_stopped",
            Self::EndpointStopped => "endpoint_stopped",
            Self::Invitation => "invitation",
            Self::PasswordReset => "password_reset",
            Self::PasswordChanged => "password_changed",
            Self::NewSignIn => "new_sign_in",
            Self::SecondFactor => "second_factor",
            Self::KeyMade => "key_made",
            Self::AddressSuppressed => "address_suppressed",
            Self::ChannelStopped => "channel_stopped",
            Self::Test => "test",
        }
    }

    const ALL: [Self; 19] = [
        Self::NeedsYou,
        Self::StillWaiting,
        Self::BackAgain,
        Self::AppRefused,
        Self::ExpiresSoon,
        Self::LastDay,
        Self::NobodyTold,
        Self::MustReconnect,
        Self::WebhookStopped,
        Self::EndpointStopped,
        Self::Invitation,
        Self::PasswordReset,
        Self::PasswordChanged,
        Self::NewSignIn,
        Self::SecondFactor,
        Self::KeyMade,
        Self::AddressSuppressed,
        Self::ChannelStopped,
        Self::Test,
    ];

    fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }

    /// The effect in the outbox that it is made from; `None`: it comes another way.
    pub(crate) fn notice(self) -> Option<&'static str> {
        match self {
            Self::NeedsYou => Some(Effect::MailAdmins.as_str()),
            Self::BackAgain => Some(Effect::MailRecovery.as_str()),
            Self::StillWaiting => Some("mail_reminder"),
            Self::ExpiresSoon => Some("mail_expires_soon"),
            Self::LastDay => Some("mail_last_day"),
            Self::AppRefused
            | Self::NobodyTold
            | Self::MustReconnect
            | Self::WebhookStopped
            | Self::EndpointStopped
            | Self::Invitation
            | Self::PasswordReset
            | Self::PasswordChanged
            | Self::NewSignIn
            | Self::SecondFactor
            | Self::KeyMade
            | Self::AddressSuppressed
            | Self::ChannelStopped
            | Self::Test => None,
        }
    }

    /// What people choose by. `None`: it concerns their own account, or the safety of the org, and is told in any case.
    pub fn topic(self) -> Option<Topic> {
        match self {
            Self::NeedsYou | Self::AppRefused => Some(Topic::Failures),
            Self::StillWaiting => Some(Topic::Reminders),
            Self::BackAgain => Some(Topic::Recoveries),
            Self::ExpiresSoon | Self::LastDay | Self::MustReconnect => Some(Topic::Ending),
            Self::WebhookStopped | Self::EndpointStopped => Some(Topic::Webhooks),
            Self::NobodyTold
            | Self::Invitation
            | Self::PasswordReset
            | Self::PasswordChanged
            | Self::NewSignIn
            | Self::SecondFactor
            | Self::KeyMade
            | Self::AddressSuppressed
            | Self::ChannelStopped
            | Self::Test => None,
        }
    }

    fn of_notice(effect: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.notice() == Some(effect))
    }
}

/// Where a mail is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MailStage {
    /// Made, not tried yet.
    Queued,
    /// Kept until its recipient wants to hear of it; more of its kind joins it.
    Held,
    /// On its way to the org's channel, by a job.
    Posted,
    /// On its way at this moment.
    Sending,
    /// Put off by the recipient's server; it is tried again.
    Waiting,
    /// Accepted by the mail server.
    Sent,
    /// Refused for good.
    Refused,
    /// Put off for so long that it is not tried any more.
    GivenUp,
    /// What it was to tell was over before it was sent, or its recipient had left.
    Dropped,
    /// No mail server was configured when its time had come; it is never sent later.
    Unsent,
    /// The org had nobody who could be told.
    Nobody,
}

impl MailStage {
    const ALL: [Self; 11] = [
        Self::Queued,
        Self::Held,
        Self::Posted,
        Self::Sending,
        Self::Waiting,
        Self::Sent,
        Self::Refused,
        Self::GivenUp,
        Self::Dropped,
        Self::Unsent,
        Self::Nobody,
    ];

    /// The stable word in database and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Held => "held",
            Self::Posted => "posted",
            Self::Sending => "sending",
            Self::Waiting => "waiting",
            Self::Sent => "sent",
            Self::Refused => "refused",
            Self::GivenUp => "given_up",
            Self::Dropped => "dropped",
            Self::Unsent => "unsent",
            Self::Nobody => "nobody",
        }
    }

    pub(crate) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.as_str() == word)
    }
}

/// How something is turned into messages.
#[derive(Clone, Debug)]
pub struct Tell {
    /// Now.
    pub at: DateTime<Utc>,
    /// The right side of the messages' ids.
    pub domain: String,
    /// False: there is no mail server; the messages are kept as not sent.
    pub sends: bool,
}

/// A message to be written down.
struct NewMail<'a> {
    org: Option<&'a OrgId>,
    user: Option<&'a str>,
    recipient: &'a str,
    kind: MailKind,
    about: Value,
    /// Ids of earlier messages that it belongs under, oldest first.
    answers: Vec<String>,
    stage: MailStage,
    /// When its recipient wants to hear of it; `None`: now.
    later: Option<DateTime<Utc>>,
    items: Vec<NewItem<'a>>,
}

/// A connector that it is about.
#[derive(Clone)]
struct NewItem<'a> {
    org: &'a OrgId,
    connector: ConnectorId,
    epoch: i64,
    since: DateTime<Utc>,
    at: DateTime<Utc>,
    /// Of a reminder: after how many days.
    days: Option<i64>,
}

/// Who is told.
#[derive(Clone)]
struct To {
    user_id: Option<String>,
    recipient: String,
    /// When they want to hear of it; `None`: now.
    later: Option<DateTime<Utc>>,
}

impl To {
    fn now(user: &str) -> Self {
        Self { user_id: Some(user.to_owned()), recipient: user.to_owned(), later: None }
    }
}

#[derive(FromQueryResult)]
struct Held {
    id: String,
    answers: Value,
}

/// Rows of one statement: far from what the databases take in placeholders.
const ROWS: usize = 200;
/// Who hears of an org's connectors.
pub(crate) const ADMINS: &str = "u.removed_at IS NULL AND u.role IN ('owner', 'admin')";

impl Store {
    /// Writes a message to one recipient; answers its id.
    async fn tell_one(
        &self,
        tx: &impl ConnectionTrait,
        tell: &Tell,
        org: Option<&OrgId>,
        to: &To,
        kind: MailKind,
        about: &Value,
    ) -> Result<String, StoreError> {
        let mail = NewMail {
            org,
            user: to.user_id.as_deref(),
            recipient: &to.recipient,
            kind,
            about: about.clone(),
            answers: Vec::new(),
            stage: if tell.sends { MailStage::Queued } else { MailStage::Unsent },
            later: to.later,
            items: Vec::new(),
        };
        self.insert_mail(tx, &tell.domain, tell.at, &mail).await
    }

    /// Writes a message with what it is about; answers its id. What its recipient has been told before is left out.
    async fn insert_mail(
        &self,
        tx: &impl ConnectionTrait,
        domain: &str,
        at: DateTime<Utc>,
        mail: &NewMail<'_>,
    ) -> Result<String, StoreError> {
        let doing = "write a mail down";
        let later = mail.later.filter(|later| *later > at && mail.stage == MailStage::Queued);
        if later.is_some()
            && let Some(id) = self.join_held(tx, at, mail).await?
        {
            self.insert_items(tx, &id, mail).await?;
            return Ok(id);
        }
        let id = self.id("mail");
        let open = matches!(mail.stage, MailStage::Queued);
        let stage = if later.is_some() { MailStage::Held } else { mail.stage };
        let sql = "INSERT INTO mails (id, org_id, user_id, recipient, kind, about, message_id, answers, state, \
                   next_at, created_at, settled_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
        let values = values![
            id.as_str(),
            mail.org.map(|org| org.as_str().to_owned()),
            mail.user.map(str::to_owned),
            mail.recipient,
            mail.kind.as_str(),
            mail.about.clone(),
            format!("<{id}@{domain}>"),
            json!(mail.answers),
            stage.as_str(),
            micros(later.unwrap_or(at)),
            micros(at),
            (!open).then(|| micros(at)),
        ];
        sql::run(tx, doing, sql, values).await?;
        self.insert_items(tx, &id, mail).await?;
        Ok(id)
    }

    /// The message that is kept for the same person and about the same thing, with what this one answers. `None`: there is
    /// none, or it is no list of connectors that could grow.
    async fn join_held(
        &self,
        tx: &impl ConnectionTrait,
        at: DateTime<Utc>,
        mail: &NewMail<'_>,
    ) -> Result<Option<String>, StoreError> {
        let doing = "add to a mail that is kept";
        let Some(org) = mail.org.filter(|_| !mail.items.is_empty()) else { return Ok(None) };
        let sql = format!(
            "SELECT id, answers FROM mails WHERE org_id = $1 AND recipient = $2 AND kind = $3 AND state = 'held' \
             AND next_at > $4 ORDER BY next_at LIMIT 1{}",
            sql::for_update(self.backend())
        );
        let values = values![org.as_str(), mail.recipient, mail.kind.as_str(), micros(at)];
        let Some(held) = sql::one::<Held>(tx, doing, sql, values).await? else { return Ok(None) };
        let mut answers: Vec<String> =
            serde_json::from_value(held.answers).map_err(|_| nonsense("mails", "answers", &held.id))?;
        answers.extend(mail.answers.iter().filter(|id| !answers.contains(id)).cloned().collect::<Vec<_>>());
        let note = "UPDATE mails SET answers = $2 WHERE id = $1";
        sql::run(tx, doing, note, values![held.id.as_str(), json!(answers)]).await?;
        Ok(Some(held.id))
    }

    async fn insert_items(&self, tx: &impl ConnectionTrait, id: &str, mail: &NewMail<'_>) -> Result<(), StoreError> {
        for items in mail.items.chunks(ROWS) {
            let mut values = values![id, mail.recipient];
            let mut rows = Vec::with_capacity(items.len());
            for item in items {
                let next = values.len();
                let places: Vec<String> = (next + 1..=next + 6).map(|place| format!("${place}")).collect();
                rows.push(format!("($1, $2, {})", places.join(", ")));
                let (since, at) = (micros(item.since), micros(item.at));
                // Each reminder is one of its own.
                let kind = mail.kind.as_str();
                let kind = item.days.map_or_else(|| kind.to_owned(), |days| format!("{kind}:{days}"));
                values.extend(values![kind, item.org.as_str(), item.connector.as_str(), item.epoch, since, at]);
            }
            let sql = format!(
                "INSERT INTO mail_items (mail_id, recipient, kind, org_id, connector_id, epoch, since, \"at\") \
                 VALUES {} ON CONFLICT DO NOTHING",
                rows.join(", ")
            );
            sql::run(tx, "write a mail down", sql, values).await?;
        }
        Ok(())
    }

    /// The org's people who are told of this, and when each wants to hear it. Without a topic: its owners and admins, now.
    async fn admins_to_tell(
        &self,
        tx: &impl ConnectionTrait,
        org: &OrgId,
        topic: Option<Topic>,
        at: DateTime<Utc>,
    ) -> Result<Vec<To>, StoreError> {
        let all = addressees(tx, org).await?;
        let Some(topic) = topic else {
            let told = all.iter().filter(|one| one.is_admin() && one.suppressed.is_none());
            return Ok(told.map(|one| To::now(&one.id)).collect());
        };
        let later = |one: &Addressee| Some(one.habits.when(topic, at)).filter(|when| *when > at);
        let told = told_of(&all, topic).into_iter();
        Ok(told.map(|one| To { later: later(one), ..To::now(&one.id) }).collect())
    }

    /// The operators, and the addresses beside them that are none of theirs.
    async fn operators_to_tell(&self, tx: &impl ConnectionTrait, also: &[String]) -> Result<Vec<To>, StoreError> {
        #[derive(FromQueryResult)]
        struct Row {
            id: String,
            email: String,
        }
        // A person of several orgs has a row in each.
        let sql = "SELECT MIN(id) AS id, email FROM users WHERE operator AND removed_at IS NULL GROUP BY email \
                   ORDER BY email";
        let users: Vec<Row> = sql::all(tx, "look for the operators", sql, values![]).await?;
        let suppressed = "SELECT address AS id FROM refused_addresses WHERE suppressed_at IS NOT NULL";
        let suppressed: Vec<sql::Id> = sql::all(tx, "look for the operators", suppressed, values![]).await?;
        let is_suppressed = |address: &str| suppressed.iter().any(|row| row.id == address);
        let mut all: Vec<To> =
            users.iter().filter(|user| !is_suppressed(&user.email)).map(|user| To::now(&user.id)).collect();
        for address in also.iter().map(|address| address.trim().to_lowercase()) {
            let known =
                users.iter().any(|user| user.email == address) || all.iter().any(|one| one.recipient == address);
            if !known && !is_suppressed(&address) {
                all.push(To { user_id: None, recipient: address, later: None });
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::{MailKind, MailStage};

    #[test]
    fn words_read_back() {
        for stage in MailStage::ALL {
            assert_eq!(MailStage::parse(stage.as_str()), Some(stage));
        }
        for kind in MailKind::ALL {
            assert_eq!(MailKind::parse(kind.as_str()), Some(kind));
            assert!(kind.notice().is_none_or(|effect| MailKind::of_notice(effect) == Some(kind)));
        }
        assert_eq!((MailStage::parse("lost"), MailKind::parse("")), (None, None));
    }
}
