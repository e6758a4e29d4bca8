//! One run: how it went, step by step.

use std::sync::Arc;

use axum::{
    extract::{Path, Query, State},
    response::Response,
};
use holdfast_core::{
    Role,
    agent::{RunState, Status, StepOutcome},
    playbook::pretty,
    tool::Access,
};
use holdfast_store::{Agent, Run, RunEvent, RunStep};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Badge, RunLine, find, length};
use crate::{
    app::App,
    ui::{
        moment::Moment,
        person::Person,
        trouble::Trouble,
        view::{Here, View},
    },
};

/// Steps on a page.
const STEPS: usize = 20;
/// Tickets that are named.
const TICKETS: usize = 20;
/// Of an input in the list, which stays light; all of it, and the output, has a page of its own.
const SHOWN_CHARS: usize = 140;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    from: usize,
}

#[derive(Serialize)]
struct RunPage {
    agent: String,
    name: String,
    run: RunLine,
    state: &'static str,
    over: bool,
    queued: Moment,
    about: Option<About>,
    /// Whether the same can be asked for again, and with what.
    again: Option<Again>,
    /// Where the connector in the way is mended; `None` also where it is gone.
    link: Option<String>,
    code: Option<String>,
    steps: Vec<StepLine>,
    /// Steps in all.
    total: usize,
    earlier: Option<String>,
    later: Option<String>,
    news: String,
}

/// The event that the run is about.
#[derive(Serialize)]
struct About {
    /// What happened to it, in the provider's word.
    what: Option<String>,
    /// For who may see those.
    delivery: Option<String>,
    job: Option<String>,
}

/// A run by hand that did not succeed, as the form that asks for it once more.
#[derive(Serialize)]
struct Again {
    ticket: Option<String>,
    role: Option<String>,
}

impl Again {
    fn of(agent: &Agent, run: &Run, person: &Person) -> Option<Self> {
        let works = match agent.status() {
            Status::Active => true,
            Status::Paused => run.dry,
            Status::Deactivated => false,
        };
        let failed = matches!(run.state, RunState::Failed | RunState::Stopped);
        let word = |name: &str| run.event.as_ref()?.known.get(name)?.as_str().map(str::to_owned);
        let by_hand = run.actor.is_some();
        (failed && by_hand && works && person.may(Role::Member))
            .then(|| Self { ticket: word("ticket_id"), role: word("role") })
    }
}

impl About {
    /// With a way to what is not forgotten by now.
    async fn of(app: &App, event: &RunEvent, person: &Person) -> Result<Self, Trouble> {
        let word = |name: &str| event.known.get(name).and_then(Value::as_str).map(str::to_owned);
        let sees = person.may(Role::Member);
        let delivery = match event.delivery.as_ref().filter(|_| sees) {
            Some(id) => app.store.find_delivery(person.org(), id.as_str()).await?.map(|found| found.id.to_string()),
            None => None,
        };
        let job = match event.job.as_ref().filter(|_| sees) {
            Some(id) => app.store.find_job(person.org(), id.as_str()).await?.map(|found| found.id.to_string()),
            None => None,
        };
        Ok(Self { what: word("kind"), delivery, job })
    }
}

/// A step of the run.
#[derive(Serialize)]
struct StepLine {
    position: i64,
    title: String,
    step: String,
    item: Option<String>,
    tool: Option<String>,
    write: bool,
    tone: &'static str,
    word: &'static str,
    detail: Option<String>,
    took: Option<String>,
    /// The input as JSON: its beginning, on one line.
    input: Option<String>,
}

fn beginning(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= SHOWN_CHARS {
        return text;
    }
    text.chars().take(SHOWN_CHARS).chain(['…']).collect()
}

impl From<RunStep> for StepLine {
    fn from(step: RunStep) -> Self {
        let (tone, word) = match step.outcome {
            None => ("idle", "Under way"),
            Some(StepOutcome::Done) => ("good", "Done"),
            Some(StepOutcome::Failed) => ("bad", "Failed"),
            Some(StepOutcome::Shown) => ("warn", "Not done: dry run"),
            Some(StepOutcome::Skipped) => ("idle", "Skipped"),
        };
        Self {
            position: step.position,
            title: step.title.unwrap_or_else(|| step.step.clone()),
            step: step.step,
            item: step.item,
            write: step.access == Some(Access::Write),
            took: step.duration.filter(|_| step.tool.is_some() && step.outcome != Some(StepOutcome::Shown)).map(length),
            tool: step.tool,
            tone,
            word,
            // Of a dry run the word says it already.
            detail: step.detail.filter(|_| step.outcome != Some(StepOutcome::Shown)),
            input: step.input.as_ref().map(beginning),
        }
    }
}

async fn found(app: &App, person: &Person, id: &str, run: &str) -> Result<(Agent, Run, Vec<RunStep>), Trouble> {
    let agent = find(app, person, id).await?;
    let run = app.store.find_run(person.org(), agent.id.as_str(), run).await?;
    let run = run.ok_or_else(|| Trouble::not_found(person))?;
    let steps = app.store.run_steps(person.org(), &run.id).await?;
    Ok((agent, run, steps))
}

/// GET /agents/{id}/runs/{run}
pub(super) async fn show(
    State(app): State<Arc<App>>,
    person: Person,
    Path((id, run)): Path<(String, String)>,
    Query(asked): Query<Asked>,
) -> Result<Response, Trouble> {
    let (agent, run, steps) = found(&app, &person, &id, &run).await?;
    let now = app.seams.clock.now();
    let tickets = app.store.tickets_of_runs(&[&run.id]).await?;
    let total = steps.len();
    let from = asked.from.min(total.saturating_sub(1));
    let address = |from: usize| format!("/agents/{}/runs/{}?from={from}#steps", agent.id, run.id);
    let about = match run.event.as_ref().filter(|event| event.delivery.is_some()) {
        Some(event) => Some(About::of(&app, event, &person).await?),
        None => None,
    };
    let in_the_way = app.store.connectors_by_name(person.org(), &run.connector).await?.into_keys().next();
    let page = RunPage {
        agent: agent.id.to_string(),
        name: agent.name.clone(),
        state: run.state.as_str(),
        over: run.state.is_over(),
        queued: Moment::new(run.queued_at, now),
        about,
        again: Again::of(&agent, &run, &person),
        link: in_the_way.map(|connector| format!("/connectors/{connector}")),
        code: run.code.clone(),
        earlier: (from > 0).then(|| address(from.saturating_sub(STEPS))),
        later: (from + STEPS < total).then(|| address(from + STEPS)),
        steps: steps.into_iter().skip(from).take(STEPS).map(StepLine::from).collect(),
        total,
        news: match run.state {
            RunState::Queued => "The run waits for its turn.".to_owned(),
            RunState::Running => format!("The run is at step {total}."),
            state => format!("The run {}.", state.as_str()),
        },
        run: RunLine::new(&run, now).about(tickets.get(&run.id), TICKETS),
    };
    let title = format!("Run of {}", agent.name);
    Ok(View::of(&person, Here::Agents, "pages/agents/run.html", &title, &page).show(&app))
}

#[derive(Serialize)]
struct StepPage {
    agent: String,
    name: String,
    run: String,
    badge: Badge,
    step: StepLine,
    input: Option<String>,
    output: Option<String>,
    at: Moment,
    code: Option<String>,
    earlier: Option<i64>,
    later: Option<i64>,
}

/// GET /agents/{id}/runs/{run}/steps/{position}
pub(super) async fn step(
    State(app): State<Arc<App>>,
    person: Person,
    Path((id, run, position)): Path<(String, String, String)>,
) -> Result<Response, Trouble> {
    let (agent, run, steps) = found(&app, &person, &id, &run).await?;
    let last = steps.last().map_or(0, |step| step.position);
    let step = steps.into_iter().find(|step| step.position.to_string() == position);
    let step = step.ok_or_else(|| Trouble::not_found(&person))?;
    let at = step.position;
    let page = StepPage {
        agent: agent.id.to_string(),
        name: agent.name.clone(),
        run: run.id.to_string(),
        badge: Badge::of_run(run.state),
        at: Moment::new(step.started_at, app.seams.clock.now()),
        code: step.code.clone(),
        input: step.input.as_ref().map(pretty),
        output: step.output.as_ref().map(pretty),
        step: step.into(),
        earlier: (at > 1).then(|| at - 1),
        later: (at < last).then(|| at + 1),
    };
    let title = format!("Step {at} of a run of {}", agent.name);
    Ok(View::of(&person, Here::Agents, "pages/agents/step.html", &title, &page).show(&app))
}
