//! Making an agent and changing one: the same form.

use std::sync::Arc;

use axum::{
    extract::{Path, Query, State},
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
};
use holdfast_core::{AgentId, Health, calendar::Missed, tool::Access, webhook::Topic};
use holdfast_store::{ConnectorView, Filter};
use serde::{Deserialize, Serialize};

use super::{
    draft::{CALENDAR, Draft, EVENTS, Problems},
    event_words, find,
    home::{SampleTile, tiles},
    show::first_sentence,
    trigger_words,
};
use crate::{
    agents::{
        manage::{self, tools_of},
        samples,
    },
    app::App,
    problem::Problem,
    tools,
    ui::{
        form::Posted,
        parts::Choice,
        person::Person,
        trouble::Trouble,
        view::{Here, View},
    },
    words::capitalised,
};

/// Somebody's own playbook, where samples are chosen.
const OWN: &str = "own";
/// Connectors that can be chosen from.
const MOST_CONNECTORS: u64 = 200;
/// How often an agent can be made to run, in seconds.
const SCHEDULES: [u64; 6] = [60, 300, 900, 3600, 21_600, 86_400];

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    sample: String,
    /// A connector that is chosen already.
    connector: String,
}

#[derive(Serialize)]
struct ChoosePage {
    samples: Vec<SampleTile>,
    /// Passed on: the connector that is chosen already.
    connector: String,
}

#[derive(Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is something that the form shows or not")]
struct FormPage {
    /// `None`: it is a new one.
    agent: Option<String>,
    id: String,
    sample: String,
    heading: String,
    description: Option<&'static str>,
    name: String,
    schedules: Vec<Choice>,
    events: Vec<Choice>,
    cron: String,
    zone: String,
    skip: bool,
    rows: Vec<RowView>,
    runner: String,
    /// The playbook is what the form is about, or what is wrong with it.
    runner_open: bool,
    paused: bool,
    problems: Problems,
    connected: bool,
}

#[derive(Serialize)]
struct RowView {
    number: usize,
    role: String,
    /// The role is the sample's, or bound already.
    fixed: bool,
    /// What it is for.
    words: String,
    connectors: Vec<Choice>,
    tools: Vec<ToolChoice>,
    problem: String,
}

#[derive(Serialize)]
struct ToolChoice {
    name: &'static str,
    words: &'static str,
    write: bool,
    chosen: bool,
}

/// What the form is for.
enum For<'a> {
    New,
    Change(&'a str),
}

/// GET /agents/new
pub(super) async fn new(
    State(app): State<Arc<App>>,
    person: Person,
    Query(asked): Query<Asked>,
) -> Result<Response, Trouble> {
    let id = app.store.new_agent_id().to_string();
    let mut draft = match (asked.sample.as_str(), samples::find(&asked.sample)) {
        (_, Some(sample)) => Draft::of_sample(sample, id),
        (OWN, None) => Draft::own(id),
        _ => {
            let page = ChoosePage { samples: tiles(), connector: asked.connector };
            let view = View::of(&person, Here::Agents, "pages/agents/new.html", "New agent", &page);
            return Ok(view.show(&app));
        }
    };
    let all = connectors(&app, &person).await?;
    // With one helpdesk there is nothing to choose.
    let works = |view: &&ConnectorView| view.snapshot.health == Health::Connected;
    let alone = (all.iter().filter(works).count() == 1).then(|| all.iter().find(works)).flatten();
    for row in &mut draft.rows {
        if all.iter().any(|view| view.snapshot.connector.as_str() == asked.connector) {
            row.connector.clone_from(&asked.connector);
        } else if let Some(alone) = alone {
            row.connector = alone.snapshot.connector.to_string();
        }
    }
    Ok(page(&app, &person, &For::New, &draft, &all, Problems::default()))
}

/// POST /agents/new
pub(super) async fn make(
    State(app): State<Arc<App>>,
    person: Person,
    Posted(pairs): Posted<Vec<(String, String)>>,
) -> Result<Response, Trouble> {
    let draft = Draft::posted(pairs);
    if !is_agent_id(&draft.id) {
        return Err(Trouble::Garbled);
    }
    let body = match draft.new_body() {
        Ok(body) => body,
        Err(problems) => return again(&app, &person, &For::New, &draft, problems).await,
    };
    let id = AgentId::from(draft.id.as_str());
    match manage::create(&app, person.org(), &person.actor(), Some(id), body).await {
        Ok(agent) => Ok(Redirect::to(&format!("/agents/{}?did=made", agent.id)).into_response()),
        Err(problem) => refused(&app, &person, &For::New, &draft, &problem).await,
    }
}

/// GET /agents/{id}/edit
pub(super) async fn edit(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
) -> Result<Response, Trouble> {
    let agent = find(&app, &person, &id).await?;
    let all = connectors(&app, &person).await?;
    let draft = Draft::of_agent(&agent);
    Ok(page(&app, &person, &For::Change(agent.id.as_str()), &draft, &all, Problems::default()))
}

/// POST /agents/{id}/edit
pub(super) async fn change(
    State(app): State<Arc<App>>,
    person: Person,
    Path(id): Path<String>,
    Posted(pairs): Posted<Vec<(String, String)>>,
) -> Result<Response, Trouble> {
    let agent = find(&app, &person, &id).await?;
    let draft = Draft::posted(pairs);
    let what = For::Change(agent.id.as_str());
    let body = match draft.change_body(&agent) {
        Ok(body) => body,
        Err(problems) => return again(&app, &person, &what, &draft, problems).await,
    };
    match manage::change(&app, person.org(), agent.id.as_str(), body).await {
        Ok(agent) => Ok(Redirect::to(&format!("/agents/{}?did=changed", agent.id)).into_response()),
        Err(problem) => refused(&app, &person, &what, &draft, &problem).await,
    }
}

/// The form with what was typed, and what is wrong by its field.
async fn refused(
    app: &Arc<App>,
    person: &Person,
    what: &For<'_>,
    draft: &Draft,
    problem: &Problem,
) -> Result<Response, Trouble> {
    if problem.status() != StatusCode::UNPROCESSABLE_ENTITY {
        return Err(Trouble::from_problem(person, problem));
    }
    again(app, person, what, draft, draft.problems(problem)).await
}

async fn again(
    app: &Arc<App>,
    person: &Person,
    what: &For<'_>,
    draft: &Draft,
    problems: Problems,
) -> Result<Response, Trouble> {
    let all = connectors(app, person).await?;
    Ok(page(app, person, what, draft, &all, problems))
}

async fn connectors(app: &App, person: &Person) -> Result<Vec<ConnectorView>, Trouble> {
    Ok(app.store.connectors(person.org(), &Filter::default(), None, MOST_CONNECTORS).await?.data)
}

fn page(
    app: &App,
    person: &Person,
    what: &For<'_>,
    draft: &Draft,
    all: &[ConnectorView],
    mut problems: Problems,
) -> Response {
    let wrong = problems != Problems::default();
    problems.rows.resize(draft.rows.len(), String::new());
    let sample = samples::find(&draft.sample);
    let (agent, heading) = match what {
        For::New => (None, sample.map_or_else(|| "Your own playbook".to_owned(), |sample| sample.name.clone())),
        For::Change(id) => (Some((*id).to_owned()), "Change the agent".to_owned()),
    };
    let own = sample.is_none() && agent.is_none();
    let rows = draft.rows.iter().enumerate().map(|(number, row)| RowView {
        number,
        fixed: !row.role.is_empty() && (sample.is_some() || agent.is_some()) && problems.rows[number].is_empty(),
        words: match sample.and_then(|sample| sample.connectors.iter().find(|needed| needed.role == row.role)) {
            Some(needed) => needed.words.clone(),
            None if row.role.is_empty() => "One more connector, if the playbook needs it".to_owned(),
            None if own => "The connector that it works on".to_owned(),
            None => format!("What the playbook calls {}", row.role),
        },
        role: row.role.clone(),
        connectors: choices(app, all, &row.connector, sample.map_or(&[][..], |_| &row.tools)),
        tools: offered(app, all, &row.tools),
        problem: problems.rows[number].clone(),
    });
    let page = FormPage {
        id: draft.id.clone(),
        sample: draft.sample.clone(),
        heading,
        description: sample.map(|sample| sample.description.as_str()),
        name: draft.name.clone(),
        schedules: schedules(&draft.every),
        cron: draft.cron.clone(),
        zone: if draft.zone.is_empty() { "UTC".to_owned() } else { draft.zone.clone() },
        skip: draft.missed == Missed::Skip.as_str(),
        events: Topic::TICKETS
            .iter()
            .map(|topic| Choice {
                value: topic.as_str().to_owned(),
                word: capitalised(event_words(*topic)),
                chosen: draft.events.iter().any(|event| event == topic.as_str()),
            })
            .collect(),
        rows: rows.collect(),
        runner: draft.runner.clone(),
        runner_open: own || !problems.runner.is_empty(),
        paused: draft.paused,
        problems,
        connected: !all.is_empty(),
        agent,
    };
    let title = if page.agent.is_some() { "Change an agent" } else { "New agent" };
    let status = if wrong { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    View::of(person, Here::Agents, "pages/agents/form.html", title, &page).status(status).show(app)
}

/// Those that have all tools that are needed, if there are any; a single one is chosen already.
fn choices(app: &App, all: &[ConnectorView], chosen: &str, needed: &[String]) -> Vec<Choice> {
    let fits = |view: &&ConnectorView| {
        let offered = tools_of(app, &view.snapshot.provider);
        needed.iter().all(|needed| offered.iter().any(|tool| tool.name == needed))
    };
    let fitting: Vec<_> = all.iter().filter(fits).collect();
    let shown = if fitting.is_empty() { all.iter().collect() } else { fitting };
    let alone = shown.len() == 1 && chosen.is_empty() && !needed.is_empty();
    let mut choices: Vec<_> = shown.into_iter().map(|view| choice(app, view, chosen)).collect();
    if alone {
        choices[0].chosen = true;
    }
    choices
}

fn choice(app: &App, view: &ConnectorView, chosen: &str) -> Choice {
    let known = &view.snapshot;
    let what = tools::connector_name(app, &known.provider, &known.account);
    let state = match known.health {
        Health::Connected => "",
        Health::Pending => ", not connected yet",
        Health::AuthFailed => ", needs Reconnect",
        Health::Disconnected => ", disconnected",
    };
    let word = if known.name.is_empty() { format!("{what}{state}") } else { format!("{} ({what}{state})", known.name) };
    let value = known.connector.to_string();
    Choice { chosen: value == chosen, value, word }
}

/// The tools of all providers that something is connected to, reads before writes.
fn offered(app: &App, all: &[ConnectorView], chosen: &[String]) -> Vec<ToolChoice> {
    let mut providers: Vec<&str> = all.iter().map(|view| view.snapshot.provider.as_str()).collect();
    providers.sort_unstable();
    providers.dedup();
    let mut tools: Vec<ToolChoice> = Vec::new();
    for tool in providers.into_iter().flat_map(|provider| tools_of(app, provider)) {
        if tools.iter().any(|known| known.name == tool.name) {
            continue;
        }
        tools.push(ToolChoice {
            name: tool.name,
            words: first_sentence(tool.description),
            write: tool.access == Access::Write,
            chosen: chosen.iter().any(|chosen| chosen == tool.name),
        });
    }
    tools.sort_by_key(|tool| tool.write);
    tools
}

fn schedules(chosen: &str) -> Vec<Choice> {
    let mut secs = SCHEDULES.to_vec();
    if let Ok(own) = chosen.parse()
        && !secs.contains(&own)
        && holdfast_core::agent::Trigger::every(own).is_ok()
    {
        secs.push(own);
        secs.sort_unstable();
    }
    let by_hand = Choice { value: String::new(), word: "By hand only".to_owned(), chosen: chosen.is_empty() };
    let every = secs.into_iter().map(|secs| Choice {
        value: secs.to_string(),
        word: trigger_words(&holdfast_core::agent::Trigger::Every(std::time::Duration::from_secs(secs))),
        chosen: secs.to_string() == chosen,
    });
    let on_events = Choice {
        value: EVENTS.to_owned(),
        word: "When something happens to a ticket".to_owned(),
        chosen: chosen == EVENTS,
    };
    let calendar = Choice {
        value: CALENDAR.to_owned(),
        word: "At times of a calendar, as cron writes them".to_owned(),
        chosen: chosen == CALENDAR,
    };
    [by_hand, on_events, calendar].into_iter().chain(every).collect()
}

/// As [`holdfast_core::id::new`] makes them.
fn is_agent_id(id: &str) -> bool {
    id.strip_prefix("agent_").is_some_and(|rest| rest.len() == 32 && rest.bytes().all(|b| b.is_ascii_hexdigit()))
}
