//! Migrations of providers: have connectors reconnected by a day, and see who has.

use chrono::NaiveDate;
use holdfast_core::ports::Changed;
use holdfast_store::{MigrationProgress, MigrationStart, NewMigration};
use serde_json::{Value, json};

use super::Refused;
use crate::{app::App, called, care};

/// Characters of a reason: it stands in a mail and above a list.
const REASON: usize = 300;

pub(super) async fn start(
    app: &App,
    provider: &str,
    deadline: Option<&str>,
    reason: Option<&str>,
    only_endless: bool,
    dry_run: bool,
) -> Result<Value, Refused> {
    if app.providers().find(provider).is_none() {
        let known: Vec<_> = app.providers().iter().map(|adapter| adapter.about().id).collect();
        return Err(Refused::new(format!("there is no provider {provider:?}; there are: {}", known.join(", "))));
    }
    let at = app.seams.clock.now();
    let deadline = deadline.map(|typed| day(typed, at.date_naive())).transpose()?;
    let reason = reason.map(str::trim).filter(|reason| !reason.is_empty());
    if reason.is_some_and(|reason| !care::is_line(reason, REASON)) {
        return Err(Refused::new(format!(
            "the reason is one line of at most {REASON} characters, all of them visible"
        )));
    }
    let new = NewMigration { provider, reason, deadline, only_endless, at, dry_run };
    match app.store.start_migration(&new).await? {
        MigrationStart::Started(progress) => {
            let mut body = body(&progress);
            if dry_run {
                body["id"] = Value::Null;
            }
            body["mails"] = json!(app.seams.mail.is_some());
            Ok(body)
        }
        MigrationStart::UnderWay(id) => Err(Refused::new(format!(
            "a migration of {provider} is under way: `holdfast migration show {id}`; end it first with `holdfast migration end {id}`"
        ))),
        MigrationStart::Nobody if only_endless => Err(Refused::new(format!(
            "nobody has to act: no connector of {provider} works with a token that has no end and is not renewed"
        ))),
        MigrationStart::Nobody => {
            Err(Refused::new(format!("nobody has to act: no connector of {provider} is connected")))
        }
    }
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
    let open = app.store.migration_connectors(id).await?;
    body["must_reconnect"] = open
        .iter()
        .map(|one| {
            json!({
                "id": one.id.as_str(), "org": one.org, "account": called::account(app, provider, &one.account),
                "name": one.name, "health": one.health.as_str(), "page": app.url(&format!("connectors/{}", one.id)),
            })
        })
        .collect();
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
        "open": progress.open,
    })
}

fn day(typed: &str, today: NaiveDate) -> Result<NaiveDate, Refused> {
    let day: NaiveDate = typed
        .parse()
        .map_err(|_| Refused::new(format!("{typed:?} is not a day; the deadline is one such as 2027-04-01")))?;
    if day <= today {
        return Err(Refused::new(format!("the deadline {day} is not ahead; it is the last day to reconnect on")));
    }
    Ok(day)
}

fn unknown(id: &str) -> Refused {
    Refused::new(format!("there is no migration {id}; `holdfast migration list` shows them"))
}
