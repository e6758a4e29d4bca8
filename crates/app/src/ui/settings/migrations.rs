//! Migrations of providers, for the instance's operators: whom one concerns, start, how far everybody is, end.

use std::sync::Arc;

use axum::{
    extract::{Path, Query, State},
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
};
use chrono::{DateTime, NaiveDate, Utc};
use holdfast_core::ports::Changed;
use holdfast_store::{MigrationProgress, OrgProgress};
use serde::{Deserialize, Serialize};
use tracing::info;

use crate::{
    admin::{REASON, Wanted, Wrong, YEARS, start_wanted},
    app::App,
    called,
    ui::{
        connectors::Mark,
        form::{Nothing, Posted},
        moment::Moment,
        parts::{Badge, Choice},
        person::Person,
        routes::{Needs, Routes},
        trouble::Trouble,
        view::{Here, View},
    },
    words::{self, Tone, counted},
};

const HERE: &str = "/settings/migrations";
/// So many connectors are listed; the command line lists all.
const SHOWN: u64 = 100;

pub(super) fn routes() -> Routes {
    Routes::new()
        .get(HERE, Needs::Operator, list)
        .post(HERE, Needs::Operator, start)
        .get("/settings/migrations/{id}", Needs::Operator, show)
        .post("/settings/migrations/{id}/end", Needs::Operator, end)
}

#[derive(Serialize)]
struct ListPage {
    migrations: Vec<Row>,
    /// Whom it would concern, where somebody has asked.
    would: Option<String>,
    form: Form,
}

#[derive(Serialize)]
struct Row {
    id: String,
    mark: Mark,
    provider: String,
    by: Option<String>,
    badge: Badge,
    progress: String,
}

/// The form, as it was typed.
#[derive(Serialize)]
struct Form {
    providers: Vec<Choice>,
    deadline: String,
    reason: String,
    only_endless: bool,
    problems: Problems,
}

/// By the fields that they stand by.
#[derive(Default, Serialize)]
struct Problems {
    provider: String,
    deadline: String,
    reason: String,
    /// Where it is a migration that is in the way.
    under_way: Option<String>,
}

#[derive(Serialize)]
struct ShowPage {
    id: String,
    provider: String,
    done: Option<&'static str>,
    badge: Badge,
    under_way: bool,
    by: Option<String>,
    why: String,
    only_endless: bool,
    started: Moment,
    ended: Option<Moment>,
    progress: String,
    open: u64,
    mails: bool,
    orgs: Vec<Org>,
    connectors: Vec<Connector>,
    more: u64,
}

#[derive(Serialize)]
struct Org {
    name: String,
    progress: String,
    badge: Badge,
    admins: u64,
    told: Option<Moment>,
}

#[derive(Serialize)]
struct Connector {
    name: String,
    account: String,
    org: String,
    badge: Badge,
    /// Its page, for one of the organisation's admins.
    page: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Typed {
    provider: String,
    deadline: String,
    reason: String,
    only_endless: Option<String>,
    /// `look`: whom it would concern.
    act: String,
}

#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    done: String,
}

/// GET /settings/migrations
async fn list(State(app): State<Arc<App>>, person: Person) -> Result<Response, Trouble> {
    let form = Form::new(&app, &Typed::default(), Problems::default());
    page(&app, &person, None, form, StatusCode::OK).await
}

async fn page(
    app: &App,
    person: &Person,
    would: Option<String>,
    form: Form,
    status: StatusCode,
) -> Result<Response, Trouble> {
    let row = |progress: &MigrationProgress| Row {
        id: progress.migration.id.clone(),
        mark: Mark::of(app, &progress.migration.provider),
        provider: app.provider_name(&progress.migration.provider).to_owned(),
        by: progress.migration.deadline.map(in_words),
        badge: state(progress, app.seams.clock.now()).into(),
        progress: of_all(progress.connectors - progress.open, progress.connectors),
    };
    let migrations = app.store.migrations().await?.iter().map(row).collect();
    let page = ListPage { migrations, would, form };
    let view = View::of(person, Here::Settings, "pages/settings/migrations.html", "Migrations", &page);
    Ok(view.status(status).show(app))
}

impl Form {
    fn new(app: &App, typed: &Typed, problems: Problems) -> Self {
        let choice =
            |id: &str, name: &str| Choice { value: id.to_owned(), word: name.to_owned(), chosen: id == typed.provider };
        let mut providers: Vec<_> =
            app.providers().iter().map(|provider| choice(provider.about().id, provider.about().name)).collect();
        providers.sort_by(|one, other| one.word.cmp(&other.word));
        Self {
            providers,
            deadline: typed.deadline.clone(),
            reason: typed.reason.clone(),
            only_endless: typed.only_endless.is_some(),
            problems,
        }
    }
}

/// POST /settings/migrations: starts one, or says whom it would concern.
async fn start(State(app): State<Arc<App>>, person: Person, Posted(typed): Posted<Typed>) -> Result<Response, Trouble> {
    let dry_run = typed.act == "look";
    let wanted = Wanted {
        provider: &typed.provider,
        deadline: Some(&typed.deadline),
        reason: Some(&typed.reason),
        only_endless: typed.only_endless.is_some(),
        dry_run,
    };
    let (would, problems) = match start_wanted(&app, &wanted).await? {
        Ok(progress) if dry_run => {
            let (connectors, orgs) =
                (counted(progress.connectors, "connector"), counted(progress.orgs, "organisation"));
            (Some(format!("It would ask for {connectors} of {orgs}. Nothing was changed.")), Problems::default())
        }
        Ok(progress) => {
            let id = progress.migration.id;
            info!(user.id = person.user.id, migration.id = id, "{} started the migration {id}", person.user.id);
            return Ok(Redirect::to(&format!("{HERE}/{id}?done=started")).into_response());
        }
        Err(wrong) => (None, Problems::new(wrong, wanted.only_endless)),
    };
    let status = if would.is_some() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
    page(&app, &person, would, Form::new(&app, &typed, problems), status).await
}

impl Problems {
    fn new(wrong: Wrong, only_endless: bool) -> Self {
        let mut problems = Self::default();
        match wrong {
            Wrong::Provider => "Choose the provider.".clone_into(&mut problems.provider),
            Wrong::Nobody if only_endless => {
                "Nobody has to act: none of its connectors works with a token that has no end and is not renewed."
                    .clone_into(&mut problems.provider);
            }
            Wrong::Nobody => {
                "Nobody has to act: none of its connectors is connected.".clone_into(&mut problems.provider);
            }
            Wrong::UnderWay(id) => {
                "One of this provider is under way. End it first.".clone_into(&mut problems.provider);
                problems.under_way = Some(id);
            }
            Wrong::NoDeadline => "By when? It is the last day to reconnect on.".clone_into(&mut problems.deadline),
            Wrong::NotADay => "This is not a day; one is written as 2027-04-01.".clone_into(&mut problems.deadline),
            Wrong::NotAhead(_, first) => {
                problems.deadline = format!(
                    "This day is not ahead; it is the last one to reconnect on. The earliest is {}.",
                    in_words(first)
                );
            }
            Wrong::TooFar(_, last) => {
                problems.deadline = format!(
                    "This day is more than {YEARS} years ahead, and nobody would act by it. The latest is {}.",
                    in_words(last)
                );
            }
            Wrong::NoReason => "Why? The people who are asked to act read it.".clone_into(&mut problems.reason),
            Wrong::NotALine => {
                problems.reason = format!("It is one line of at most {REASON} characters, all of them visible.");
            }
        }
        problems
    }
}

/// GET /settings/migrations/{id}
async fn show(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
    Query(asked): Query<Asked>,
) -> Result<Response, Trouble> {
    let found = app.store.find_migration(&id).await?.ok_or_else(|| Trouble::not_found(&person))?;
    let now = app.seams.clock.now();
    let left = app.store.migration_connectors(&id, Some(SHOWN)).await?;
    let migration = &found.migration;
    let org = |org: &OrgProgress| Org {
        name: org.org.clone(),
        progress: of_all(org.connectors - org.open, org.connectors),
        badge: if org.open == 0 { ("good", "Done") } else { ("warn", "Not done") }.into(),
        admins: org.admins,
        told: Moment::maybe(org.told_at, now),
    };
    let name = app.provider_name(&migration.provider).to_owned();
    let page = ShowPage {
        badge: state(&found, now).into(),
        done: match asked.done.as_str() {
            "started" => Some("It is started. Admins see it on their first page."),
            "ended" => Some("It is ended. Nobody is asked or told any more."),
            _ => None,
        },
        under_way: migration.ended_at.is_none(),
        by: migration.deadline.map(in_words),
        why: words::migration(&name, migration.reason.as_deref()),
        only_endless: migration.only_endless,
        started: Moment::new(migration.started_at, now),
        ended: Moment::maybe(migration.ended_at, now),
        progress: of_all(found.connectors - found.open, found.connectors),
        open: found.open,
        mails: app.seams.mail.is_some(),
        orgs: app.store.migration_orgs(&id).await?.iter().map(org).collect(),
        more: found.open.saturating_sub(left.len() as u64),
        connectors: left
            .iter()
            .map(|one| Connector {
                name: called::parts(&app, &migration.provider, &one.account, &one.name),
                account: called::account(&app, &migration.provider, &one.account),
                org: one.org.clone(),
                badge: Badge::of_health(one.health, false),
                page: app.url(&format!("connectors/{}", one.id)),
            })
            .collect(),
        provider: name,
        id,
    };
    let title = format!("Migration of {}", page.provider);
    Ok(View::of(&person, Here::Settings, "pages/settings/migration.html", &title, &page).show(&app))
}

/// POST /settings/migrations/{id}/end. Pressed twice, it has ended.
async fn end(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
    Posted(Nothing {}): Posted<Nothing>,
) -> Result<Response, Trouble> {
    app.store.find_migration(&id).await?.ok_or_else(|| Trouble::not_found(&person))?;
    if app.store.end_migration(&id, app.seams.clock.now()).await? == Changed::Yes {
        info!(user.id = person.user.id, migration.id = id, "{} ended the migration {id}", person.user.id);
    }
    Ok(Redirect::to(&format!("{HERE}/{id}?done=ended")).into_response())
}

fn state(progress: &MigrationProgress, now: DateTime<Utc>) -> (Tone, &'static str) {
    let late = progress.migration.deadline.is_some_and(|day| day < now.date_naive());
    match progress.migration.ended_at {
        Some(_) => ("idle", "Ended"),
        None if progress.open == 0 => ("good", "All done"),
        None if late => ("bad", "Past its day"),
        None => ("warn", "Under way"),
    }
}

fn of_all(done: u64, all: u64) -> String {
    format!("{done} of {all} done")
}

fn in_words(day: NaiveDate) -> String {
    day.format("%-d %B %Y").to_string()
}
