//! The home page: what needs somebody, then all connectors.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use axum::{
    extract::{Query, State},
    response::Response,
};
use chrono::{DateTime, Utc};
use holdfast_core::{ConnectorId, Health, Role, refresh::timing};
use holdfast_store::{AgentBrief, ConnectorLine, LineCount, LineFilter, LineState};
use serde::{Deserialize, Serialize};

use super::{AgentLine, Mark, catalogue::Tiles, connect_word, migrations::MigrationCard, query};
use crate::{
    app::App,
    called, connect,
    mail::MailStatus,
    ui::{
        live,
        moment::Moment,
        parts::{Badge, Choice},
        person::Person,
        trouble::Trouble,
        view::{Here, View},
    },
    words::{self, Said},
};

/// Rows of a page, so that it stays below 60 kB whatever they are called.
const PAGE: u64 = 25;
/// So many that need somebody are told one by one.
const TOLD: u64 = 10;
/// So many agents are named in a row.
const NAMED: usize = 2;

/// What stands in the address bar; all of it made by a form that works without script.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    q: String,
    provider: String,
    health: String,
    cursor: String,
    did: String,
}

#[derive(Serialize)]
struct HomePage {
    /// Where it follows what happens.
    events: String,
    total: u64,
    /// How many of them the list shows.
    shown: String,
    /// `12 connectors`.
    total_words: String,
    working: u64,
    needs: Vec<Need>,
    more_failed: u64,
    migrations: Vec<MigrationCard>,
    /// Whose access ends soon.
    ending: Vec<Need>,
    /// In trouble that mends itself: the first of them, and how many there are.
    beside: Vec<Need>,
    troubled: u64,
    summary: String,
    search: String,
    filtered: bool,
    providers: Vec<Choice>,
    states: Vec<Choice>,
    rows: Vec<Line>,
    next: Option<String>,
    first: Option<String>,
    tiles: Tiles,
    did: Option<&'static str>,
    no_mail: Option<NoMail>,
}

/// That nobody can be mailed, so that one looks here instead of waiting for a mail (EM-02).
#[derive(Serialize)]
struct NoMail {
    /// `None`: no mail server is set up.
    since: Option<Moment>,
    /// For operators.
    error: Option<String>,
}

/// A connector that needs somebody, or soon will.
#[derive(Serialize)]
struct Need {
    id: String,
    mark: Mark,
    name: String,
    account: String,
    badge: Badge,
    what: String,
    todo: String,
    /// Since when it is so; when it ends, of one that does.
    since: Moment,
    connect: &'static str,
    primary: bool,
    /// The agents that stand still for it.
    stopped: Vec<AgentLine>,
}

/// A row of the list.
#[derive(Serialize)]
struct Line {
    id: String,
    mark: Mark,
    name: String,
    account: String,
    badge: Badge,
    /// The first agents that work with it, and how many more do.
    agents: Vec<AgentLine>,
    more_agents: usize,
    used: Option<Moment>,
    expires: Option<Moment>,
    renewed: bool,
}

type Agents = HashMap<ConnectorId, Vec<AgentBrief>>;

/// The states that people filter by: value, word, and what they mean.
const STATES: [(&str, &str, LineState); 6] = [
    ("must_reconnect", "Provider’s migration", LineState::MustReconnect),
    ("auth_failed", "Needs Reconnect", LineState::Health(Health::AuthFailed)),
    ("degraded", "Degraded", LineState::Degraded),
    ("connected", "Connected", LineState::Health(Health::Connected)),
    ("pending", "Not connected yet", LineState::Health(Health::Pending)),
    ("disconnected", "Disconnected", LineState::Health(Health::Disconnected)),
];

/// GET /connectors
pub(super) async fn show(
    State(app): State<Arc<App>>,
    person: Person,
    Query(asked): Query<Asked>,
) -> Result<Response, Trouble> {
    let (org, store, now) = (person.org(), &app.store, app.seams.clock.now());
    let state = STATES.iter().find(|(value, ..)| *value == asked.health).map(|(.., state)| *state);
    let some = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let filter = LineFilter { provider: some(&asked.provider), state, search: some(&asked.q) };
    let counts = store.count_connectors(org).await?;
    let failed = store.failed_lines(org, TOLD).await?;
    let degraded = store.degraded_lines(org, TOLD).await?;
    let ending = store.ending_lines(org, now + timing::WARNINGS[0], TOLD).await?;
    let page = store.connector_lines(org, &filter, some(&asked.cursor).as_deref(), PAGE).await?;

    let told = failed.iter().chain(&degraded).chain(&ending).chain(&page.data);
    let ids: BTreeSet<_> = told.map(|line| line.id.clone()).collect();
    let agents = store.agents_of(&ids.into_iter().collect::<Vec<_>>()).await?;
    let listed: Vec<_> = page.data.iter().map(|line| line.id.clone()).collect();
    let used = store.last_used(&listed).await?;

    let migrations = MigrationCard::all(&app, org, now).await?;
    let to_reconnect = migrations.iter().map(|card| card.open).sum();
    let admin = person.may(Role::Admin);
    let number = |health| counts.iter().filter(|count| count.health == health).map(|count| count.count).sum::<u64>();
    let total = counts.iter().map(|count| count.count).sum();
    let mut needs: Vec<_> = failed.iter().map(|line| failed_need(&app, line, &agents, now)).collect();
    if let Some(first) = needs.first_mut() {
        first.primary = admin;
    }
    let ending: Vec<_> = ending.iter().map(|line| ending_need(&app, line, now)).collect();
    let beside: Vec<_> = degraded.iter().filter_map(|line| degraded_need(&app, line, now)).collect();
    let address = |cursor: &str| {
        let parts =
            [("q", asked.q.trim()), ("provider", &asked.provider), ("health", &asked.health), ("cursor", cursor)];
        format!("/connectors{}", query(&parts))
    };
    let all_failed = number(Health::AuthFailed);
    let home = HomePage {
        events: live::address(None, now),
        total,
        total_words: if total == 1 { "1 connector".to_owned() } else { format!("{total} connectors") },
        working: number(Health::Connected),
        summary: summary(all_failed, beside.len() + ending.len(), to_reconnect),
        more_failed: all_failed.saturating_sub(needs.len() as u64),
        needs,
        migrations,
        ending,
        beside,
        troubled: counts.iter().map(|count| count.degraded).sum(),
        filtered: filter != LineFilter::default(),
        shown: shown(&filter, page.data.len(), page.next_cursor.is_some() || !asked.cursor.is_empty(), total),
        search: asked.q.trim().to_owned(),
        providers: providers(&app, &counts, &asked.provider),
        states: states(&counts, to_reconnect, &asked.health),
        rows: page.data.iter().map(|line| row(&app, line, &agents, used.get(&line.id).copied(), now)).collect(),
        next: page.next_cursor.as_deref().map(address),
        first: (!asked.cursor.is_empty()).then(|| address("")),
        tiles: if total == 0 { Tiles::find(&app, person.org(), "").await? } else { Tiles::default() },
        did: (asked.did == "deleted").then_some("The connector was deleted."),
        no_mail: if admin { no_mail(&app, &person, now).await? } else { None },
    };
    let view = View::of(&person, Here::Connectors, "pages/connectors/home.html", "Connectors", &home);
    // Only who may reconnect gets a form that leads to a provider, perhaps while the page is open.
    let leads_to = admin.then(|| connect::leads_to(&app));
    Ok(view.leads_to(leads_to.as_deref()).show(&app))
}

/// `66`; of a search `3 of 66`, as far as one page can tell.
fn shown(filter: &LineFilter, rows: usize, more: bool, total: u64) -> String {
    match (filter == &LineFilter::default(), more) {
        (true, _) => total.to_string(),
        (false, false) => format!("{rows} of {total}"),
        (false, true) => format!("more than {rows} of {total}"),
    }
}

async fn no_mail(app: &App, person: &Person, now: DateTime<Utc>) -> Result<Option<NoMail>, Trouble> {
    Ok(match app.mail_status().await? {
        MailStatus::Works => None,
        MailStatus::NotConfigured => Some(NoMail { since: None, error: None }),
        MailStatus::Trouble { since, error, .. } => {
            Some(NoMail { since: Some(Moment::new(since, now)), error: person.user.operator.then_some(error) })
        }
    })
}

/// What the page says when it changes while somebody has it open.
fn summary(failed: u64, beside: usize, to_reconnect: u64) -> String {
    let now = match (failed, beside) {
        (0, 0) if to_reconnect > 0 => String::new(),
        (0, 0) => "Nothing needs you.".to_owned(),
        (0, 1) => "Nothing needs you; 1 connector has trouble that mends itself, or ends soon.".to_owned(),
        (0, beside) => format!("Nothing needs you; {beside} connectors have trouble that mends itself, or end soon."),
        (1, _) => "1 connector needs you.".to_owned(),
        (failed, _) => format!("{failed} connectors need you."),
    };
    let later = match to_reconnect {
        0 => return now,
        1 => "1 connector has to be reconnected.".to_owned(),
        several => format!("{several} connectors have to be reconnected."),
    };
    format!("{now} {later}").trim_start().to_owned()
}

fn need(app: &App, line: &ConnectorLine, said: Said, badge: Badge, since: Moment) -> Need {
    Need {
        id: line.id.to_string(),
        mark: Mark::of(app, &line.provider),
        name: called::parts(app, &line.provider, &line.account, &line.name),
        account: called::account(app, &line.provider, &line.account),
        badge,
        what: said.what,
        todo: said.todo,
        since,
        connect: connect_word(line.health),
        primary: false,
        stopped: Vec::new(),
    }
}

fn failed_need(app: &App, line: &ConnectorLine, agents: &Agents, now: DateTime<Utc>) -> Need {
    let said = words::failure(line.reason, app.provider_name(&line.provider));
    let stopped = agents.get(&line.id).map(|agents| AgentLine::stopped(agents)).unwrap_or_default();
    Need { stopped, ..need(app, line, said, Badge::of_health(line.health, false), Moment::new(line.since, now)) }
}

fn degraded_need(app: &App, line: &ConnectorLine, now: DateTime<Utc>) -> Option<Need> {
    let degraded = line.degraded?;
    let said = words::degraded(degraded.class, app.provider_name(&line.provider));
    Some(need(app, line, said, Badge::of_health(line.health, true), Moment::new(degraded.since, now)))
}

fn ending_need(app: &App, line: &ConnectorLine, now: DateTime<Utc>) -> Need {
    let said = words::ending(app.provider_name(&line.provider), line.renewed);
    let badge = Badge { tone: words::WARN, word: "Ends soon" };
    let ends = Moment::new(line.ends_at.unwrap_or(now), now);
    need(app, line, said, badge, ends)
}

fn row(app: &App, line: &ConnectorLine, agents: &Agents, used: Option<DateTime<Utc>>, now: DateTime<Utc>) -> Line {
    let works = line.health == Health::Connected;
    let agents = agents.get(&line.id).map(Vec::as_slice).unwrap_or_default();
    Line {
        id: line.id.to_string(),
        mark: Mark::of(app, &line.provider),
        name: called::parts(app, &line.provider, &line.account, &line.name),
        account: called::account(app, &line.provider, &line.account),
        badge: Badge::of_health(line.health, line.degraded.is_some()),
        agents: agents.iter().take(NAMED).map(AgentLine::of).collect(),
        more_agents: agents.len().saturating_sub(NAMED),
        used: Moment::maybe(used, now),
        expires: if works { Moment::maybe(line.expires_at, now) } else { None },
        renewed: line.renewed,
    }
}

fn providers(app: &App, counts: &[LineCount], chosen: &str) -> Vec<Choice> {
    let mut ids: Vec<_> = counts.iter().map(|count| count.provider.as_str()).collect();
    ids.dedup();
    let choice =
        |id: &str| Choice { value: id.to_owned(), word: app.provider_name(id).to_owned(), chosen: id == chosen };
    ids.into_iter().map(choice).collect()
}

fn states(counts: &[LineCount], to_reconnect: u64, chosen: &str) -> Vec<Choice> {
    let number = |state| match state {
        LineState::MustReconnect => to_reconnect,
        LineState::Degraded => counts.iter().map(|count| count.degraded).sum::<u64>(),
        LineState::Health(health) => {
            counts.iter().filter(|count| count.health == health).map(|count| count.count).sum()
        }
    };
    let choice = |(value, word, state): &(&str, &str, LineState)| Choice {
        value: (*value).to_owned(),
        word: format!("{word} ({})", number(*state)),
        chosen: *value == chosen,
    };
    // Hardly ever is there a migration.
    let worth = |(value, _, state): &&(&str, &str, LineState)| {
        *state != LineState::MustReconnect || to_reconnect > 0 || *value == chosen
    };
    STATES.iter().filter(worth).map(choice).collect()
}
