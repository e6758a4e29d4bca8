//! The connections of an import: read, checked, and taken over together, or told what would become of them.

use std::fmt::Display;

use holdfast_core::{ConnectorId, OrgId};
use holdfast_store::{Import, Imported, Met};
use serde::{Deserializer, de::IgnoredAny};
use serde_json::{Value, json};

use super::{NewConnectorBody, Prepared, alias_taken, checked_alias, exists, prepare};
use crate::{
    api::garbled,
    app::App,
    moving::{Format, Meeting, There},
    problem::Problem,
};

/// A line of an import that was read and checked.
struct Line {
    prepared: Prepared,
    /// In place of an alias that another connector has.
    longer_alias: Option<String>,
}

/// What became of a connection.
enum Done {
    Made(ConnectorId),
    /// It is there already, and has its alias from now on.
    Aliased,
    /// What it would meet.
    Meets(Meeting),
}

impl Line {
    fn import(&self) -> Import<'_> {
        let Prepared { new, alone, .. } = &self.prepared;
        Import { new, longer_alias: self.longer_alias.as_deref(), alone: *alone }
    }

    fn done(&self, imported: Imported) -> Result<Done, Problem> {
        let account = &self.prepared.account;
        match imported {
            Imported::New(id) => Ok(Done::Made(id)),
            Imported::Named(_) => Ok(Done::Aliased),
            Imported::Exists(id) => Err(exists(account, &id)),
            Imported::OtherAlias(id, alias) => Err(other_alias(&account.display, &alias, &id)),
            Imported::AliasTaken(id) => Err(alias_taken(&id)),
            Imported::Held => Err(self.prepared.held()),
        }
    }

    fn meeting(&self, met: Met) -> Meeting {
        let Prepared { new, account, .. } = &self.prepared;
        Meeting {
            account: format!("{} {}", new.provider, new.account),
            shown: account.display.clone(),
            there: met.account.map(|(_, alias)| There { alias }),
            aliases: met.aliases,
            held: met.held.then(|| self.prepared.held().detail().to_owned()),
        }
    }

    fn warning(&self) -> Option<String> {
        let name = self.prepared.lacks_app()?;
        Some(format!("There is no OAuth app of {name} here to renew it: set up the one that its tokens were given to."))
    }
}

fn other_alias(account: &str, alias: &str, id: &ConnectorId) -> Problem {
    Problem::conflict("alias_differs", Meeting::other_alias(account, alias), id)
}

/// Connections of an import, taken over together, with a report for each; with `dry_run` they are checked alone, and
/// each report has the [`Meeting`].
pub async fn import_all(app: &App, org: &OrgId, from: Format, items: &[String], dry_run: bool) -> Vec<Value> {
    let mut lines = Vec::with_capacity(items.len());
    for item in items {
        lines.push(read(app, org, from, item).await);
    }
    let imports: Vec<_> = lines.iter().flatten().map(Line::import).collect();
    // Where they cannot be stored together, each finds its own trouble.
    let together = if dry_run { Vec::new() } else { app.store.import_connectors(&imports).await.unwrap_or_default() };
    let mut together = together.into_iter();
    let mut reports = Vec::with_capacity(lines.len());
    for line in &lines {
        let done = match line {
            Ok(line) if dry_run => meet(app, line).await,
            Ok(line) => match together.next() {
                Some(imported) => line.done(imported),
                None => alone(app, line).await,
            },
            Err(problem) => {
                reports.push(failed(problem));
                continue;
            }
        };
        let warning = line.as_ref().ok().and_then(Line::warning);
        reports.push(report(done, warning.as_deref()));
    }
    reports
}

async fn meet(app: &App, line: &Line) -> Result<Done, Problem> {
    Ok(Done::Meets(line.meeting(app.store.meet_import(&line.import()).await?)))
}

async fn alone(app: &App, line: &Line) -> Result<Done, Problem> {
    let mut imported = app.store.import_connectors(&[line.import()]).await?;
    line.done(imported.pop().expect("each has its answer"))
}

fn report(done: Result<Done, Problem>, warning: Option<&str>) -> Value {
    let (status, detail) = match done {
        Ok(Done::Made(id)) => ("imported", id.to_string()),
        Ok(Done::Aliased) => ("aliased", Meeting::ALIASED.to_owned()),
        Ok(Done::Meets(meeting)) => return json!({ "meets": meeting, "warning": warning }),
        Err(problem) => return failed(&problem),
    };
    json!({ "status": status, "detail": detail, "warning": warning })
}

/// With the field that is at fault, where the words do not begin with it.
fn failed(problem: &Problem) -> Value {
    if problem.code() == "connector_exists" {
        return json!({ "status": "unchanged", "detail": problem.detail() });
    }
    let field = problem.field().filter(|field| *field != LINE);
    let said = problem.detail();
    let detail = match field {
        Some(field) if !said.contains(field) => format!("{field}: {said}"),
        _ => said.to_owned(),
    };
    json!({ "status": "failed", "detail": detail, "field": field })
}

/// What is at fault where no single field is.
const LINE: &str = "line";

async fn read(app: &App, org: &OrgId, from: Format, item: &str) -> Result<Line, Problem> {
    let (body, longer_alias) = if from == Format::Holdfast {
        (whole_body(item)?, None)
    } else {
        let moved = from.read(app.providers(), item).map_err(|why| Problem::invalid(LINE, why))?;
        (body(moved.body)?, moved.longer_alias)
    };
    let longer_alias = longer_alias.map(|alias| checked_alias(&alias)).transpose()?;
    Ok(Line { prepared: prepare(app, org, body).await?, longer_alias })
}

/// A line of ours, with nothing behind it.
fn whole_body(line: &str) -> Result<NewConnectorBody, Problem> {
    let body = body(&mut serde_json::Deserializer::from_str(line));
    serde_json::from_str::<IgnoredAny>(line.trim_end()).map_err(|error| {
        let column = error.column();
        Problem::invalid(
            LINE,
            format!("This is not JSON: see column {column}. A line holds one connector, a whole one."),
        )
    })?;
    body
}

/// A connector's body; what is wrong is said with the field that it is wrong in.
fn body<'de, D>(item: D) -> Result<NewConnectorBody, Problem>
where
    D: Deserializer<'de>,
    D::Error: Display,
{
    serde_path_to_error::deserialize(item).map_err(|error| {
        let problem = garbled::problem(&error.to_string());
        Problem::invalid(problem.field().unwrap_or(LINE), format!("This is not a connector. {}", problem.detail()))
    })
}
