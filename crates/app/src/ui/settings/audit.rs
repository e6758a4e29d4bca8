//! The audit log: who changed what, to be filtered, read and taken away.

mod export;
mod said;

use std::sync::Arc;

use axum::{
    extract::{Query, State},
    http::StatusCode,
    response::Response,
};
use chrono::{DateTime, Days, NaiveDate, NaiveTime, Utc};
use holdfast_core::Role;
use holdfast_store::{AuditFilter, AuditLine};
use serde::{Deserialize, Serialize};

use crate::{
    app::App,
    ui::{
        connectors::query,
        moment::Moment,
        parts::Choice,
        person::Person,
        routes::{Needs, Routes},
        trouble::Trouble,
        view::{Here, View},
    },
};

const HERE: &str = "/settings/audit";
const ADMIN: Needs = Needs::Role(Role::Admin);
/// Of a page.
const ROWS: u64 = 25;

pub(super) fn routes() -> Routes {
    Routes::new().get(HERE, ADMIN, show).get("/settings/audit/export", ADMIN, export::export)
}

/// What a form or an address asks for.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Asked {
    who: String,
    action: String,
    what: String,
    since: String,
    until: String,
    after: String,
    /// Of an export: `csv` or `jsonl`.
    format: String,
}

/// By the fields that they stand by.
#[derive(Default, PartialEq, Serialize)]
struct Problems {
    since: String,
    until: String,
}

impl Asked {
    /// Days are whole ones, in UTC.
    fn filter(&self, person: &Person) -> (AuditFilter, Problems) {
        let text = |typed: &str| Some(typed.trim().to_owned()).filter(|text| !text.is_empty());
        let mut problems = Problems::default();
        let day = |typed: &str, problem: &mut String| {
            let day: Option<NaiveDate> = text(typed)?.parse().ok();
            if day.is_none() {
                "This is no day; enter one such as 2026-11-30.".clone_into(problem);
            }
            day
        };
        let since = day(&self.since, &mut problems.since);
        let last = day(&self.until, &mut problems.until);
        if since.zip(last).is_some_and(|(since, last)| last < since) {
            "This day is before the first one; the two may be the wrong way round.".clone_into(&mut problems.until);
        }
        let until = last.and_then(|day| day.checked_add_days(Days::new(1)));
        let begin = |day: NaiveDate| day.and_time(NaiveTime::MIN).and_utc();
        let filter = AuditFilter {
            instance: person.user.operator,
            actor: text(&self.who),
            action: text(&self.action),
            target: text(&self.what),
            since: since.map(begin),
            until: until.map(begin),
        };
        (filter, problems)
    }

    fn address(&self, path: &str, more: &[(&str, &str)]) -> String {
        let own = [
            ("who", self.who.as_str()),
            ("action", &self.action),
            ("what", &self.what),
            ("since", &self.since),
            ("until", &self.until),
        ];
        format!("{path}{}", query(&[&own, more].concat()))
    }
}

#[derive(Serialize)]
struct AuditPage<'a> {
    who: &'a str,
    what: &'a str,
    since: &'a str,
    until: &'a str,
    problems: Problems,
    actions: Vec<Choice>,
    filtered: bool,
    rows: Vec<Row>,
    first: Option<String>,
    next: Option<String>,
    csv: String,
    jsonl: String,
    /// Whether lines of the whole instance are among them.
    operator: bool,
}

#[derive(Serialize)]
struct Row {
    id: String,
    at: Moment,
    said: said::Said,
    from: String,
    /// It concerns the whole instance.
    instance: bool,
    action: String,
    actor: String,
    target: String,
    fields: Vec<said::Field>,
}

impl Row {
    fn new(line: &AuditLine, now: DateTime<Utc>) -> Self {
        let (actor_kind, actor_id, _) = &line.actor;
        let (target_kind, target_id, _) = &line.target;
        let called = |kind: &str, id: &str| format!("{kind} {id}").trim_end().to_owned();
        Self {
            id: line.id.clone(),
            at: Moment::new(line.at, now),
            said: said::Said::of(line),
            from: said::from(line),
            instance: line.org.is_none(),
            action: line.action.clone(),
            actor: called(actor_kind, actor_id.as_deref().unwrap_or_default()),
            target: called(target_kind, target_id),
            fields: said::fields(line),
        }
    }
}

/// GET /settings/audit
async fn show(State(app): State<Arc<App>>, person: Person, Query(asked): Query<Asked>) -> Result<Response, Trouble> {
    let now = app.seams.clock.now();
    let (filter, problems) = asked.filter(&person);
    let after = Some(asked.after.as_str()).filter(|after| after.starts_with("aud_"));
    let found = app.store.audit_lines(person.org(), &filter, after, ROWS).await?;
    let choice = |(value, word): &(&str, &str)| Choice {
        value: (*value).to_owned(),
        word: (*word).to_owned(),
        chosen: *value == asked.action,
    };
    let status = if problems == Problems::default() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
    let page = AuditPage {
        who: &asked.who,
        what: &asked.what,
        since: &asked.since,
        until: &asked.until,
        problems,
        actions: said::GROUPS.iter().map(choice).collect(),
        filtered: filter != AuditFilter { instance: filter.instance, ..AuditFilter::default() },
        rows: found.data.iter().map(|line| Row::new(line, now)).collect(),
        first: after.map(|_| asked.address(HERE, &[])),
        next: found.next_cursor.map(|cursor| asked.address(HERE, &[("after", &cursor)])),
        csv: asked.address("/settings/audit/export", &[("format", "csv")]),
        jsonl: asked.address("/settings/audit/export", &[("format", "jsonl")]),
        operator: person.user.operator,
    };
    let view = View::of(&person, Here::Settings, "pages/settings/audit.html", "Audit log", &page);
    Ok(view.status(status).show(&app))
}
