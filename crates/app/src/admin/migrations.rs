//! Migrations of providers: have connectors reconnected by a day, and see who has.

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use holdfast_core::{
    ports::{Changed, StoreError},
    visible,
};
use holdfast_store::{MigrationProgress, MigrationStart, NewMigration};
use serde_json::{Value, json};

use super::Refused;
use crate::{app::App, called};

/// Characters of a reason: it stands in a mail and above a list.
pub(crate) const REASON: usize = 300;

/// Years from now to a deadline. Providers give months; what lies further is a slip of the pen, and nobody acts on it.
pub(crate) const YEARS: i64 = 10;

/// A migration that somebody wants to start.
pub(crate) struct Wanted<'a> {
    /// The provider's id.
    pub(crate) provider: &'a str,
    /// The last day, as it was typed.
    pub(crate) deadline: Option<&'a str>,
    /// Why.
    pub(crate) reason: Option<&'a str>,
    /// Only connectors whose token has no end and is not renewed.
    pub(crate) only_endless: bool,
    /// Look whom it would concern, and change nothing: neither a day nor a reason is asked for.
    pub(crate) dry_run: bool,
}

/// Why it is not started.
pub(crate) enum Wrong {
    /// There is no such provider.
    Provider,
    NoDeadline,
    NotADay,
    /// Today or before; with the first day that is ahead.
    NotAhead(NaiveDate, NaiveDate),
    /// With the last day that can be meant.
    TooFar(NaiveDate, NaiveDate),
    NoReason,
    NotALine,
    /// This one is.
    UnderWay(String),
    /// Nobody has to act.
    Nobody,
}

/// The rules of it, for command line and page.
pub(crate) async fn start_wanted(
    app: &App,
    wanted: &Wanted<'_>,
) -> Result<Result<MigrationProgress, Wrong>, StoreError> {
    let at = app.seams.clock.now();
    let new = match checked(app, wanted, at) {
        Ok(new) => new,
        Err(wrong) => return Ok(Err(wrong)),
    };
    Ok(match app.store.start_migration(&new).await? {
        MigrationStart::Started(progress) => Ok(progress),
        MigrationStart::UnderWay(id) => Err(Wrong::UnderWay(id)),
        MigrationStart::Nobody => Err(Wrong::Nobody),
    })
}

fn checked<'a>(app: &App, wanted: &Wanted<'a>, at: DateTime<Utc>) -> Result<NewMigration<'a>, Wrong> {
    let Wanted { provider, only_endless, dry_run, .. } = *wanted;
    let given = |text: Option<&'a str>| text.map(str::trim).filter(|text| !text.is_empty());
    if app.providers().find(provider).is_none() {
        return Err(Wrong::Provider);
    }
    let deadline: Option<NaiveDate> = given(wanted.deadline).map(str::parse).transpose().map_err(|_| Wrong::NotADay)?;
    let reason = given(wanted.reason);
    let today = at.date_naive();
    let (first, last) = (today + TimeDelta::days(1), today + TimeDelta::days(365 * YEARS));
    match deadline {
        None if !dry_run => return Err(Wrong::NoDeadline),
        Some(day) if day < first => return Err(Wrong::NotAhead(day, first)),
        Some(day) if day > last => return Err(Wrong::TooFar(day, last)),
        _ => {}
    }
    match reason {
        None if !dry_run => return Err(Wrong::NoReason),
        Some(reason) if !visible::is_line(reason, REASON) => return Err(Wrong::NotALine),
        _ => {}
    }
    Ok(NewMigration { provider, reason, deadline, only_endless, at, dry_run })
}

pub(super) async fn start(app: &App, wanted: &Wanted<'_>) -> Result<Value, Refused> {
    let provider = wanted.provider;
    let progress = start_wanted(app, wanted).await?.map_err(|wrong| {
        Refused::new(match wrong {
            Wrong::Provider => {
                let known: Vec<_> = app.providers().iter().map(|adapter| adapter.about().id).collect();
                format!("there is no provider {provider:?}; there are: {}", known.join(", "))
            }
            Wrong::NoDeadline => "by when? Say the last day to reconnect on, such as --deadline 2027-04-01".to_owned(),
            Wrong::NotADay => {
                let typed = wanted.deadline.unwrap_or_default();
                format!("{typed:?} is not a day; the deadline is one such as 2027-04-01")
            }
            Wrong::NotAhead(day, first) => format!(
                "the deadline {day} is not ahead: it is the last day to reconnect on, and whoever is told today needs \
                 time; the earliest is {first}"
            ),
            Wrong::TooFar(day, last) => format!(
                "the deadline {day} is more than {YEARS} years ahead, and nobody would act by it; the latest is {last}"
            ),
            Wrong::NoReason => {
                "why? People are asked to act: say it to them in a line, --reason 'Zendesk ends old tokens'".to_owned()
            }
            Wrong::NotALine => format!("the reason is one line of at most {REASON} characters, all of them visible"),
            Wrong::UnderWay(id) => format!(
                "a migration of {provider} is under way: `holdfast migration show {id}`; end it first with \
                 `holdfast migration end {id}`"
            ),
            Wrong::Nobody if wanted.only_endless => format!(
                "nobody has to act: no connector of {provider} works with a token that has no end and is not renewed"
            ),
            Wrong::Nobody => format!("nobody has to act: no connector of {provider} is connected"),
        })
    })?;
    let mut body = body(&progress);
    if wanted.dry_run {
        body["id"] = Value::Null;
    }
    body["mails"] = json!(app.seams.mail.is_some());
    Ok(body)
}

pub(super) async fn list(app: &App) -> Result<Value, Refused> {
    Ok(app.store.migrations().await?.iter().map(body).collect())
}

pub(super) async fn show(app: &App, id: &str) -> Result<Value, Refused> {
    let found = app.store.find_migration(id).await?.ok_or_else(|| unknown(id))?;
    let provider = found.migration.provider.as_str();
    let mut body = body(&found);
    let orgs = app.store.migration_orgs(id).await?;
    body["by_org"] = orgs
        .iter()
        .map(|org| {
            json!({
                "org": org.org, "connectors": org.connectors, "done": org.connectors - org.open, "open": org.open,
                "admins": org.admins,
                "told_at": org.told_at,
            })
        })
        .collect();
    let left = app.store.migration_connectors(id, None).await?;
    let left: Value = left
        .iter()
        .map(|one| {
            json!({
                "id": one.id.as_str(), "org": one.org, "account": called::account(app, provider, &one.account),
                "name": one.name, "health": one.health.as_str(), "page": app.url(&format!("connectors/{}", one.id)),
            })
        })
        .collect();
    // Once it has ended, nobody has to do anything.
    let ended = found.migration.ended_at.is_some();
    body["must_reconnect"] = if ended { json!([]) } else { left.clone() };
    body["not_reconnected"] = if ended { left } else { json!([]) };
    Ok(body)
}

pub(super) async fn end(app: &App, id: &str) -> Result<Value, Refused> {
    let found = app.store.find_migration(id).await?.ok_or_else(|| unknown(id))?;
    if app.store.end_migration(id, app.seams.clock.now()).await? == Changed::No {
        return Err(Refused::new(format!("the migration {id} has ended already")));
    }
    Ok(json!({ "id": id, "ended": true, "open": found.open }))
}

fn body(progress: &MigrationProgress) -> Value {
    let migration = &progress.migration;
    json!({
        "id": migration.id, "provider": migration.provider, "deadline": migration.deadline, "reason": migration.reason,
        "only_endless": migration.only_endless, "started_at": migration.started_at, "ended_at": migration.ended_at,
        "orgs": progress.orgs, "connectors": progress.connectors, "done": progress.connectors - progress.open,
        "open": if migration.ended_at.is_none() { progress.open } else { 0 },
    })
}

fn unknown(id: &str) -> Refused {
    Refused::new(format!("there is no migration {id}; `holdfast migration list` shows them"))
}
