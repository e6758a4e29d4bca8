//! Table `notification_settings`: who of an org is told what, and when. Without a row, owners and admins hear everything at
//! once. Table `refused_addresses`: addresses whose mail server refuses them.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use holdfast_core::{
    OrgId, Role,
    notify::{Habits, Pace, Topic},
    ports::{Changed, StoreError},
};
use sea_orm::{ConnectionTrait, FromQueryResult};
use serde_json::{Value, json};
use tracing::warn;

use crate::{
    sql::{self, failed, micros, nonsense, values},
    store::Store,
};

/// Somebody of an org, as far as it is told of things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addressee {
    /// The user's id.
    pub id: String,
    /// Their name, or their address where they have none.
    pub shown: String,
    /// Their address.
    pub email: String,
    /// What they may do.
    pub role: Role,
    /// An admin wants them told, although they are none.
    pub added: bool,
    /// What they want to hear, and when.
    pub habits: Habits,
    /// Their address gets no mail any more.
    pub suppressed: Option<Suppression>,
}

/// Why an address gets no mail any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suppression {
    /// Since when.
    pub at: DateTime<Utc>,
    /// What the mail server said last, in short.
    pub error: String,
}

impl Addressee {
    /// Whether they are told anything by default: owners and admins are.
    pub fn is_admin(&self) -> bool {
        self.role >= Role::Admin
    }

    fn is_told(&self, topic: Topic) -> bool {
        (self.is_admin() || self.added) && self.suppressed.is_none() && self.habits.wants(topic)
    }
}

/// Who of these is told of a topic. A failure is told to an owner or admin in any case: where none of them wants to hear it
/// any more, all do.
pub fn told_of(all: &[Addressee], topic: Topic) -> Vec<&Addressee> {
    let alone = topic == Topic::Failures && !all.iter().any(|one| one.is_admin() && one.is_told(topic));
    let told = |one: &&Addressee| one.is_told(topic) || (alone && one.is_admin() && one.suppressed.is_none());
    all.iter().filter(told).collect()
}

/// What became of a change to somebody's habits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HabitsChange {
    /// They are as was asked for.
    Done,
    /// Nobody who can do something about it would be told of failures.
    LastOne,
    /// There is nobody like that in the org.
    Nobody,
}

#[derive(FromQueryResult)]
struct Row {
    id: String,
    email: String,
    name: Option<String>,
    role: String,
    added: Option<bool>,
    off: Option<Value>,
    pace: Option<String>,
    hour: Option<i64>,
    zone: Option<String>,
    quiet_from: Option<i64>,
    quiet_to: Option<i64>,
    failures_wait: Option<bool>,
    suppressed_at: Option<DateTime<Utc>>,
    error: Option<String>,
}

fn hour(number: i64) -> Option<u32> {
    u32::try_from(number).ok().filter(|hour| *hour < 24)
}

impl Row {
    fn habits(&self) -> Option<Habits> {
        let Some(pace) = &self.pace else { return Some(Habits::default()) };
        let quiet = match (self.quiet_from, self.quiet_to) {
            (Some(from), Some(to)) => Some((hour(from)?, hour(to)?)),
            _ => None,
        };
        // A topic that a later version knows is none of ours.
        let off = self.off.as_ref()?.as_array()?.iter().filter_map(|word| Topic::parse(word.as_str()?));
        Some(Habits {
            off: off.collect::<BTreeSet<_>>(),
            pace: Pace::parse(pace)?,
            hour: hour(self.hour?)?,
            zone: self.zone.as_ref()?.parse().ok()?,
            quiet,
            failures_wait: self.failures_wait?,
        })
    }
}

impl TryFrom<Row> for Addressee {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        // What a later version has written keeps nobody's mail from being sent.
        let habits = row.habits().unwrap_or_else(|| {
            warn!(user.id = row.id, "what {} wants to hear cannot be read: they hear everything, at once", row.id);
            Habits::default()
        });
        let suppression = |at| Suppression { at, error: row.error.clone().unwrap_or_default() };
        Ok(Self {
            role: Role::parse(&row.role).ok_or_else(|| nonsense("users", "role", &row.id))?,
            shown: row.name.filter(|name| !name.is_empty()).unwrap_or_else(|| row.email.clone()),
            added: row.added.unwrap_or_default(),
            suppressed: row.suppressed_at.map(suppression),
            id: row.id,
            email: row.email,
            habits,
        })
    }
}

/// Everybody of the org, by id.
pub(crate) async fn addressees(db: &impl ConnectionTrait, org: &OrgId) -> Result<Vec<Addressee>, StoreError> {
    let sql = "SELECT u.id, u.email, u.name, u.role, s.added, s.off, s.pace, s.hour, s.zone, s.quiet_from, s.quiet_to, \
               s.failures_wait, r.suppressed_at, r.error FROM users u \
               LEFT JOIN notification_settings s ON s.user_id = u.id \
               LEFT JOIN refused_addresses r ON r.address = u.email AND r.suppressed_at IS NOT NULL \
               WHERE u.org_id = $1 AND u.removed_at IS NULL ORDER BY u.id";
    let rows: Vec<Row> = sql::all(db, "look whom to tell", sql, values![org.as_str()]).await?;
    rows.into_iter().map(Addressee::try_from).collect()
}

async fn write(
    tx: &impl ConnectionTrait,
    one: &Addressee,
    habits: &Habits,
    added: bool,
    by: &str,
    at: DateTime<Utc>,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO notification_settings (user_id, added, off, pace, hour, zone, quiet_from, quiet_to, \
               failures_wait, changed_by, changed_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) \
               ON CONFLICT (user_id) DO UPDATE SET added = EXCLUDED.added, off = EXCLUDED.off, pace = EXCLUDED.pace, \
               hour = EXCLUDED.hour, zone = EXCLUDED.zone, quiet_from = EXCLUDED.quiet_from, \
               quiet_to = EXCLUDED.quiet_to, failures_wait = EXCLUDED.failures_wait, \
               changed_by = EXCLUDED.changed_by, changed_at = EXCLUDED.changed_at";
    let off: Value = habits.off.iter().map(|topic| topic.as_str()).collect::<Vec<_>>().into();
    let values = values![
        one.id.as_str(),
        added,
        off,
        habits.pace.as_str(),
        i64::from(habits.hour),
        habits.zone.name(),
        habits.quiet.map(|(from, _)| i64::from(from)),
        habits.quiet.map(|(_, to)| i64::from(to)),
        habits.failures_wait,
        by,
        micros(at),
    ];
    sql::run(tx, "write who is told what", sql, values).await.map(|_| ())
}

/// As the audit log has them.
fn fields(habits: &Habits) -> Value {
    json!({
        "off": habits.off.iter().map(|topic| topic.as_str()).collect::<Vec<_>>(),
        "pace": habits.pace.as_str(),
        "hour": habits.hour,
        "zone": habits.zone.name(),
        "quiet": habits.quiet.map(|(from, to)| format!("{from} to {to}")),
        "failures_wait": habits.failures_wait,
    })
}

impl Store {
    /// Everybody of the org, with what they are told.
    pub async fn addressees(&self, org: &OrgId) -> Result<Vec<Addressee>, StoreError> {
        addressees(self.db(), org).await
    }

    /// Changes what somebody wants to hear, by themselves or by an admin. Of several who do so at once, the last one to be
    /// told of failures is found.
    pub async fn set_habits(
        &self,
        org: &OrgId,
        user: &str,
        habits: &Habits,
        by: &str,
        at: DateTime<Utc>,
    ) -> Result<HabitsChange, StoreError> {
        let doing = "change what somebody is told";
        let tx = self.transaction(doing).await?;
        sql::alone(&tx, doing, &format!("notifications {org}")).await?;
        let all = addressees(&tx, org).await?;
        let Some(one) = all.iter().find(|one| one.id == user) else {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(HabitsChange::Nobody);
        };
        let another = |other: &Addressee| other.id != user && other.is_admin() && other.is_told(Topic::Failures);
        if !habits.wants(Topic::Failures) && one.is_admin() && !all.iter().any(another) {
            tx.rollback().await.map_err(failed(doing))?;
            return Ok(HabitsChange::LastOne);
        }
        write(&tx, one, habits, one.added, by, at).await?;
        let both = (fields(&one.habits), fields(habits));
        self.audit_person(&tx, user, "notifications.changed", false, both).await?;
        tx.commit().await.map_err(failed(doing))?;
        Ok(HabitsChange::Done)
    }

    /// Has somebody told who is no admin, or not any more. `No`: there is nobody like that.
    pub async fn add_addressee(
        &self,
        org: &OrgId,
        user: &str,
        added: bool,
        by: &str,
        at: DateTime<Utc>,
    ) -> Result<Changed, StoreError> {
        let doing = "change who is told";
        let tx = self.transaction(doing).await?;
        sql::alone(&tx, doing, &format!("notifications {org}")).await?;
        let all = addressees(&tx, org).await?;
        let found = all.iter().find(|one| one.id == user && !one.is_admin());
        if let Some(one) = found {
            write(&tx, one, &one.habits, added, by, at).await?;
            let both = (json!({ "told": one.added }), json!({ "told": added }));
            self.audit_person(&tx, user, "notifications.person_changed", false, both).await?;
        }
        tx.commit().await.map_err(failed(doing))?;
        Ok(if found.is_some() { Changed::Yes } else { Changed::No })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(id: &str, role: Role, added: bool, off: &[Topic]) -> Addressee {
        let habits = Habits { off: off.iter().copied().collect(), ..Habits::default() };
        let email = format!("{id}@acme.example");
        Addressee { id: id.to_owned(), shown: email.clone(), email, role, added, habits, suppressed: None }
    }

    fn ids(all: &[Addressee], topic: Topic) -> Vec<&str> {
        told_of(all, topic).into_iter().map(|one| one.id.as_str()).collect()
    }

    #[test]
    fn a_failure_is_told_to_somebody_who_can_do_something_about_it() {
        let off = &[Topic::Failures, Topic::Reminders];
        let mut all = vec![
            one("ada", Role::Owner, false, off),
            one("ben", Role::Admin, false, &[]),
            one("cleo", Role::Member, true, &[]),
            one("dan", Role::Viewer, false, &[]),
        ];
        assert_eq!(ids(&all, Topic::Failures), ["ben", "cleo"]);

        let suppressed = Suppression { at: DateTime::UNIX_EPOCH, error: "550".to_owned() };
        all[1].suppressed = Some(suppressed.clone());
        assert_eq!(ids(&all, Topic::Failures), ["ada", "cleo"], "a member alone cannot reconnect");
        assert_eq!(ids(&all, Topic::Reminders), ["cleo"], "the rest is as they want it");

        all[0].suppressed = Some(suppressed);
        assert_eq!(ids(&all, Topic::Failures), ["cleo"]);
    }
}
