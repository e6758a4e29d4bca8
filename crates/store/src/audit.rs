//! Table `audit_log`: what was changed, by whom, from where, before and after. Each row is written in the transaction of the
//! change, so that neither is there without the other; none is ever changed or deleted.
//!
//! Who acts is not handed from function to function: whoever lets somebody in says so once, around all that follows
//! ([`acting`]), and what is written meanwhile is theirs. Without that it is Holdfast itself that acts.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use holdfast_core::{ConnectorId, OrgId, credential::Fingerprint, ports::StoreError};
use sea_orm::{ConnectionTrait, FromQueryResult};
use serde_json::Value;

use crate::{
    listing::{Page, page_limit},
    sql::{self, anywhere, micros, values},
    store::Store,
};

/// Who acts, and from where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct By {
    /// What they are.
    pub kind: ByKind,
    /// Of a person, a key or a link.
    pub id: Option<String>,
    /// As pages call them.
    pub name: String,
    /// Which way they came.
    pub surface: Surface,
    /// The client's address, where it is known.
    pub address: Option<String>,
}

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident: $($(#[$of:meta])* $variant:ident = $word:literal),*;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum $name { $($(#[$of])* $variant),* }

        impl $name {
            /// The stable word in API and database.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),* }
            }
        }
    )*};
}

words! {
    /// What acts.
    ByKind:
        /// A person of the org.
        Person = "person",
        /// A person who runs the instance, in what concerns all of it.
        Operator = "operator",
        /// An API key.
        Key = "key",
        /// Whoever runs the installation, on the command line.
        Cli = "cli",
        /// Whoever has a connect link.
        Link = "link",
        /// Somebody who is not signed in.
        Visitor = "visitor",
        /// Holdfast itself.
        #[default]
        Holdfast = "holdfast";
    /// Which way somebody came.
    Surface:
        /// The pages.
        Web = "web",
        /// REST.
        Api = "api",
        /// The command line.
        Cli = "cli",
        /// A link that was handed or mailed to somebody.
        Link = "link",
        /// None: Holdfast itself.
        #[default]
        None = "none";
}

tokio::task_local! {
    static BY: By;
}

/// What this does, they do. What it spawns is Holdfast's again.
pub async fn acting<F: Future>(by: By, what: F) -> F::Output {
    BY.scope(by, what).await
}

/// Who acts at the moment.
pub fn by() -> By {
    BY.try_with(By::clone).unwrap_or_default()
}

/// A change, as it is written down. A secret is never in it: of one that changed, [`CHANGED`] is.
#[derive(Debug)]
pub(crate) struct Change<'a> {
    org: Option<&'a OrgId>,
    action: &'static str,
    /// Kind, id, and what people call it.
    target: (&'static str, &'a str, &'a str),
    before: Value,
    after: Value,
    by: Option<(&'a str, &'a str)>,
}

/// In place of a secret's value.
pub(crate) const CHANGED: &str = "changed";

impl<'a> Change<'a> {
    /// `action` is a stable dotted word, `target` kind, id and name.
    pub(crate) fn new(
        org: impl Into<Option<&'a OrgId>>,
        action: &'static str,
        target: (&'static str, &'a str, &'a str),
    ) -> Self {
        Self { org: org.into(), action, target, before: Value::Null, after: Value::Null, by: None }
    }

    /// The fields as they were. Of those before and after, only what differs is kept; where nothing does, nothing changed.
    pub(crate) fn was(self, before: Value) -> Self {
        Self { before, ..self }
    }

    /// The fields as they are.
    pub(crate) fn now(self, after: Value) -> Self {
        Self { after, ..self }
    }

    /// By this person, with id and name, whom the change itself makes known: they sign in, or join.
    pub(crate) fn by(self, id: &'a str, name: &'a str) -> Self {
        Self { by: Some((id, name)), ..self }
    }
}

impl Store {
    /// Writes a change down, by who acts at the moment.
    pub(crate) async fn audit(&self, tx: &impl ConnectionTrait, change: Change<'_>) -> Result<(), StoreError> {
        let (mut before, mut after) = (change.before, change.after);
        if let (Value::Object(before), Value::Object(after)) = (&mut before, &mut after) {
            let same: Vec<String> = before.keys().filter(|key| before.get(*key) == after.get(*key)).cloned().collect();
            for key in same {
                before.remove(&key);
                after.remove(&key);
            }
            if before.is_empty() && after.is_empty() {
                return Ok(());
            }
        }
        let mut by = by();
        if let Some((id, name)) = change.by {
            by = By { kind: ByKind::Person, id: Some(id.to_owned()), name: name.to_owned(), ..by };
        }
        let sql = "INSERT INTO audit_log (id, org_id, \"at\", action, actor_kind, actor_id, actor_name, surface, address, \
                   target_kind, target_id, target_name, before, after) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";
        let (kind, id, name) = change.target;
        let values = values![
            self.id("aud"),
            change.org.map(|org| org.as_str().to_owned()),
            micros(self.clock().now()),
            change.action,
            by.kind.as_str(),
            by.id,
            by.name,
            by.surface.as_str(),
            by.address,
            kind,
            id,
            name,
            Some(before).filter(|value| !value.is_null()),
            Some(after).filter(|value| !value.is_null()),
        ];
        sql::run(tx, "write the audit log", sql, values).await.map(|_| ())
    }

    /// The same of a connector, by the name that it has at this moment.
    pub(crate) async fn audit_connector(
        &self,
        tx: &impl ConnectionTrait,
        org: &OrgId,
        connector: &ConnectorId,
        action: &'static str,
        (before, after): (Value, Value),
    ) -> Result<(), StoreError> {
        let sql =
            "SELECT COALESCE(NULLIF(name, ''), NULLIF(account, ''), provider) AS id FROM connectors WHERE id = $1";
        let name: Option<sql::Id> = sql::one(tx, "write the audit log", sql, values![connector.as_str()]).await?;
        let name = name.map(|row| row.id).unwrap_or_default();
        let change = Change::new(org, action, ("connector", connector.as_str(), &name));
        self.audit(tx, change.was(before).now(after)).await
    }

    /// The same of a person, in their org. `themselves`: it is they who act.
    pub(crate) async fn audit_person(
        &self,
        tx: &impl ConnectionTrait,
        id: &str,
        action: &'static str,
        themselves: bool,
        (before, after): (Value, Value),
    ) -> Result<(), StoreError> {
        #[derive(FromQueryResult)]
        struct Person {
            org_id: String,
            name: String,
        }
        let sql = "SELECT org_id, COALESCE(NULLIF(name, ''), email) AS name FROM users WHERE id = $1";
        let person: Option<Person> = sql::one(tx, "write the audit log", sql, values![id]).await?;
        let Some(Person { org_id, name }) = person else { return Ok(()) };
        let org = OrgId::from(org_id);
        let change = Change::new(&org, action, ("person", id, &name)).was(before).now(after);
        self.audit(tx, if themselves { change.by(id, &name) } else { change }).await
    }

    /// The same of each account that this address has, in all of their orgs.
    pub(crate) async fn audit_address(
        &self,
        tx: &impl ConnectionTrait,
        email: &str,
        action: &'static str,
        themselves: bool,
    ) -> Result<(), StoreError> {
        let sql = "SELECT id FROM users WHERE email = $1 AND removed_at IS NULL";
        for row in sql::all::<sql::Id>(tx, "write the audit log", sql, values![email]).await? {
            self.audit_person(tx, &row.id, action, themselves, (Value::Null, Value::Null)).await?;
        }
        Ok(())
    }

    /// Somebody gave a wrong code for this address, after the right password.
    pub async fn audit_wrong_second_factor(&self, email: &str) -> Result<(), StoreError> {
        self.audit_address(self.db(), email, "second_factor.failed", false).await
    }

    /// Somebody gave a wrong password for this address.
    pub async fn audit_failed_sign_in(&self, email: &str) -> Result<(), StoreError> {
        self.audit_address(self.db(), &email.trim().to_lowercase(), "person.sign_in_failed", false).await
    }
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditLine {
    /// Its id.
    pub id: String,
    /// Whose; `None`: it concerns the whole instance.
    pub org: Option<OrgId>,
    /// When.
    pub at: DateTime<Utc>,
    /// What, as a stable dotted word.
    pub action: String,
    /// Who: kind, id and name.
    pub actor: (String, Option<String>, String),
    /// From where: surface, and the client's address where it is known.
    pub from: (String, Option<String>),
    /// To what: kind, id and name.
    pub target: (String, String, String),
    /// The fields that changed, as they were.
    pub before: Option<Value>,
    /// As they are since.
    pub after: Option<Value>,
}

/// Which lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Those of the whole instance too.
    pub instance: bool,
    /// By whom: id, kind, or a part of the name.
    pub actor: Option<String>,
    /// What: the word, or how it begins.
    pub action: Option<String>,
    /// To what: id, kind, or a part of the name.
    pub target: Option<String>,
    /// Not before.
    pub since: Option<DateTime<Utc>>,
    /// Before.
    pub until: Option<DateTime<Utc>>,
}

#[derive(FromQueryResult)]
struct Row {
    id: String,
    org_id: Option<String>,
    at: DateTime<Utc>,
    action: String,
    actor_kind: String,
    actor_id: Option<String>,
    actor_name: String,
    surface: String,
    address: Option<String>,
    target_kind: String,
    target_id: String,
    target_name: String,
    before: Option<Value>,
    after: Option<Value>,
}

impl From<Row> for AuditLine {
    fn from(row: Row) -> Self {
        Self {
            id: row.id,
            org: row.org_id.map(OrgId::from),
            at: row.at,
            action: row.action,
            actor: (row.actor_kind, row.actor_id, row.actor_name),
            from: (row.surface, row.address),
            target: (row.target_kind, row.target_id, row.target_name),
            before: row.before,
            after: row.after,
        }
    }
}

impl Store {
    /// The org's lines, newest first.
    pub async fn audit_lines(
        &self,
        org: &OrgId,
        filter: &AuditFilter,
        cursor: Option<&str>,
        limit: u64,
    ) -> Result<Page<AuditLine>, StoreError> {
        let whose = if filter.instance { "(org_id = $1 OR org_id IS NULL)" } else { "org_id = $1" };
        let mut sql = format!("SELECT * FROM audit_log WHERE {whose}");
        let mut values = values![org.as_str(), page_limit(limit)];
        let mut add = |condition: &str, value: sea_orm::Value| {
            values.push(value);
            let place = format!("${}", values.len());
            write!(sql, " AND {}", condition.replace('?', &place)).expect("writing to a String cannot fail");
        };
        if let Some(cursor) = cursor {
            add("number < (SELECT number FROM audit_log WHERE id = ?)", cursor.into());
        }
        if let Some(action) = &filter.action {
            add("substr(action, 1, length(?)) = ?", action.as_str().into());
        }
        if let Some(since) = filter.since {
            add("\"at\" >= ?", micros(since).into());
        }
        if let Some(until) = filter.until {
            add("\"at\" < ?", micros(until).into());
        }
        for (column, wanted) in [("actor", &filter.actor), ("target", &filter.target)] {
            if let Some(wanted) = wanted {
                values.extend(values![wanted.as_str(), anywhere(&wanted.to_lowercase())]);
                let (is, like) = (values.len() - 1, values.len());
                let own = format!("{column}_id = ${is} OR {column}_kind = ${is}");
                write!(sql, " AND ({own} OR lower({column}_name) LIKE ${like} ESCAPE '\\')")
                    .expect("writing to a String cannot fail");
            }
        }
        sql.push_str(" ORDER BY number DESC LIMIT $2");
        let rows: Vec<Row> = sql::all(self.db(), "read the audit log", sql, values).await?;
        Ok(Page::cut(rows.into_iter().map(AuditLine::from).collect(), limit, |last: &AuditLine| last.id.clone()))
    }
}

/// Where something is, without what its path may hold, and yet told apart.
pub(crate) fn address(url: &str) -> String {
    let end = url.find("://").map_or(0, |at| at + 3);
    let host = url[end..].find(['/', '?']).map_or(url, |at| &url[..end + at]);
    format!("{host} ({})", &Fingerprint::of(&url.into()).as_str()[..6])
}
