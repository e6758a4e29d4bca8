//! One run: the hands that a playbook is gone through with. Each step is written down before it is done, and begun only
//! while the agent may act.

use std::{collections::HashMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use chrono::SecondsFormat;
use holdfast_core::{
    ConnectorId,
    agent::{RunState, StepOutcome, Trigger},
    credential::hex,
    error::Retry,
    mask,
    playbook::{Call, Fault, Hands, Item, Playbook},
    ports::StoreError,
    tool::Access,
};
use holdfast_store::{Agent, Began, Claimed, End, Paused, RunStep, StepEnd, Stop};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tracing::{info, warn};

use super::manage::tools_of;
use crate::{
    app::App,
    problem::Problem,
    tools::{self, By},
};

/// Lines of one run; notes beyond it are not written.
const MOST_LINES: i64 = 1000;

/// Why a run ends before its end.
pub(super) struct Why {
    state: RunState,
    pub(super) code: &'static str,
    pub(super) detail: String,
    pub(super) connector: Option<ConnectorId>,
    /// Whether it may fare better later.
    pub(super) retry: Retry,
    again: bool,
}

impl Why {
    fn failed(code: &'static str, detail: impl Into<String>) -> Self {
        let retry = Retry::Never;
        Self { state: RunState::Failed, code, detail: detail.into(), connector: None, retry, again: false }
    }

    fn stopped(code: &'static str, detail: impl Into<String>) -> Self {
        Self { state: RunState::Stopped, ..Self::failed(code, detail) }
    }
}

impl From<StoreError> for Why {
    fn from(error: StoreError) -> Self {
        warn!(error = format!("{:#}", anyhow::Error::new(error)), "a run cannot be written down");
        Self { retry: Retry::Backoff, ..Self::failed("storage_unavailable", "Holdfast could not reach its database.") }
    }
}

/// Goes through a run that is ours, to its end. `goes_on`: whether the end is none, since the run is begun anew for this reason.
pub(super) async fn run(app: Arc<App>, claimed: Claimed, goes_on: impl FnOnce(&Why) -> bool + Send) -> Result<(), Why> {
    let (run, agent) = (claimed.run.id.clone(), claimed.run.agent.clone());
    let mut hands = Hand {
        app: Arc::clone(&app),
        claimed,
        done: HashMap::new(),
        agent: None,
        lines: 0,
        calls: 0,
        writes: 0,
        failures: 0,
    };
    let ended = hands.go().await;
    let why = ended.as_ref().err();
    let state = match why {
        None => RunState::Succeeded,
        Some(why) if goes_on(why) => RunState::Queued,
        Some(why) => why.state,
    };
    let end = End {
        state,
        code: why.map(|why| why.code.to_owned()),
        detail: why.map(|why| tools::kept_words(&why.detail)),
        connector: why.and_then(|why| why.connector.clone()),
        calls: hands.calls,
        writes: hands.writes,
        failures: hands.failures,
        again: why.is_some_and(|why| why.again),
        at: app.seams.clock.now(),
    };
    let code = end.code.as_deref().unwrap_or("none");
    info!(run.id = %run, agent.id = %agent, run.state = state.as_str(), run.code = code, "run {run} {}", state.as_str());
    metrics::counter!(crate::metrics::AGENT_RUNS, "outcome" => state.as_str()).increment(1);
    if let Err(error) = app.store.end_run(&hands.claimed, &end, app.config.agents.keep_runs).await {
        // Its lease ends it.
        warn!(error = format!("{:#}", anyhow::Error::new(error)), "the end of run {run} could not be written down");
    }
    ended
}

struct Hand {
    app: Arc<App>,
    claimed: Claimed,
    /// How often each step was done for each item.
    done: HashMap<String, u32>,
    /// As it was when the run began.
    agent: Option<Agent>,
    lines: i64,
    calls: i64,
    writes: i64,
    failures: i64,
}

impl Hand {
    async fn go(&mut self) -> Result<(), Why> {
        let run = &self.claimed.run;
        let (org, id, dry) = (run.org.clone(), run.agent.clone(), run.dry);
        let agent = self.app.store.find_agent(&org, id.as_str()).await?;
        let agent = agent.ok_or_else(|| Why::stopped("deleted", "The agent was deleted."))?;
        let playbook = Playbook::parse(&agent.runner).map_err(|error| Why::failed("playbook", error.to_string()))?;
        let about_agent = json!({ "id": agent.id, "name": agent.name });
        let started = run.started_at.unwrap_or(run.queued_at).to_rfc3339_opts(SecondsFormat::Secs, true);
        let about_run = json!({ "id": run.id, "dry_run": dry, "started_at": started });
        let event = run.event.as_ref().map_or(Value::Null, |event| event.known.clone());
        self.agent = Some(agent);
        playbook.walk([("agent", about_agent), ("run", about_run), ("event", event)], self).await
    }

    fn dry(&self) -> bool {
        self.claimed.run.dry
    }

    fn agent(&self) -> &Agent {
        self.agent.as_ref().expect("it was read before the first step")
    }

    /// The next line of the run.
    fn line(&mut self, step: &str, title: Option<&str>, item: Option<&Item>) -> RunStep {
        self.lines += 1;
        RunStep {
            position: self.lines,
            step: step.to_owned(),
            title: title.map(str::to_owned),
            item: item.map(|item| mask::text(&format!("{} ({} of {})", item.label, item.number, item.of))),
            tool: None,
            access: None,
            connector: None,
            input: None,
            output: None,
            outcome: None,
            code: None,
            detail: None,
            started_at: self.app.seams.clock.now(),
            duration: None,
        }
    }

    /// Writes a line; an error where nothing more is to be done.
    async fn begin(&self, line: &RunStep) -> Result<(), Why> {
        if self.app.draining.is_cancelled() && line.outcome.is_none() {
            let detail = "The service was stopped between two steps.";
            let scheduled = matches!(self.agent().trigger, Trigger::Every(_) | Trigger::Calendar(_)) && !self.dry();
            return Err(Why { again: scheduled, ..Why::stopped("shutdown", detail) });
        }
        match self.app.store.begin_step(&self.claimed, line, self.app.config.agents.run_lease).await? {
            Began::Yes => Ok(()),
            Began::Paused(paused) => Err(was_paused(&paused)),
            Began::Stopped(stops) => Err(was_stopped(&self.app, &stops)),
            Began::Lost => Err(Why::stopped("lost", "Another replica took the run for lost, or it was deleted.")),
        }
    }

    /// The idempotency key of a call: the same for the same step and item whenever the run is begun anew, however many of them
    /// there are then.
    fn key(&mut self, call: &Call<'_>) -> String {
        let item = call.item.map(|item| item.label.as_str()).unwrap_or_default();
        let name = hex(&Sha256::digest(format!("{} {item}", call.step)).as_slice()[..8]);
        let times = self.done.entry(name.clone()).or_default();
        *times += 1;
        format!("{}-{name}-{times}", self.claimed.run.id)
    }

    /// Makes the call, and keeps the lease meanwhile. A run that may be begun anew makes it once for its key.
    async fn make(&self, checked: tools::Checked) -> Result<Value, Problem> {
        let lease = self.app.config.agents.run_lease;
        let begun_anew = self.claimed.run.event.as_ref().is_some_and(|event| event.job.is_some());
        let made = async {
            if begun_anew {
                checked.once(&self.app).await.map(|answered| answered.result)
            } else {
                checked.make(&self.app).await.map_err(|failed| failed.problem)
            }
        };
        let mut made = std::pin::pin!(made);
        loop {
            tokio::select! {
                biased;
                made = &mut made => return made,
                () = self.app.seams.clock.sleep(lease / 3) => {
                    // A claim that is lost is noticed at the next step; what is under way cannot be taken back.
                    if let Err(error) = self.app.store.renew_run(&self.claimed, lease).await {
                        warn!(error = %error, "could not renew the lease of a run");
                    }
                }
            }
        }
    }

    /// Whether another item may fare better, or nothing more is to be done.
    fn fault(problem: &Problem) -> Fault<Why> {
        let why = |state| Why {
            state,
            code: problem.code(),
            detail: problem.detail().to_owned(),
            connector: problem.connector_id().map(ConnectorId::from),
            retry: problem.retry(),
            again: false,
        };
        match problem.code() {
            "provider_not_found"
            | "provider_conflict"
            | "provider_forbidden"
            | "connector_missing_scope"
            | "invalid" => Fault::Step(why(RunState::Failed)),
            "agent_deactivated" | "agent_paused" => Fault::End(why(RunState::Stopped)),
            _ => Fault::End(why(RunState::Failed)),
        }
    }
}

fn was_paused(paused: &Paused) -> Why {
    let by = paused.by.as_deref().map(|by| format!(" by {by}")).unwrap_or_default();
    Why::stopped("agent_paused", format!("The agent was paused{by}."))
}

fn was_stopped(app: &App, stops: &[Stop]) -> Why {
    let connector = stops.first().map(|stop| stop.connector.clone());
    Why { connector, ..Why::stopped("agent_deactivated", format!("Stopped: {}.", tools::causes(app, stops))) }
}

#[async_trait]
impl Hands for Hand {
    type Error = Why;

    async fn call(&mut self, call: Call<'_>) -> Result<Value, Fault<Why>> {
        if self.calls >= i64::from(self.app.config.agents.most_calls) {
            let detail = format!("It made {} calls, which is the most that one run may make.", self.calls);
            return Err(Fault::End(Why::failed("too_many_calls", detail)));
        }
        let agent = self.agent();
        let role = Playbook::role(call.on, agent.bindings.iter().map(|binding| binding.role.as_str()));
        let binding = role.ok().and_then(|role| agent.binding(role)).cloned();
        let tool = binding
            .as_ref()
            .and_then(|binding| tools_of(&self.app, &binding.provider).iter().find(|tool| tool.name == call.tool));
        let mut line = self.line(call.step, call.title, call.item);
        line.tool = Some(call.tool.to_owned());
        line.access = tool.map(|tool| tool.access);
        line.connector = binding.as_ref().map(|binding| binding.connector.clone());
        line.input = Some(mask::record(call.arguments));
        self.begin(&line).await.map_err(Fault::End)?;

        let started = self.app.seams.clock.uptime();
        let key = self.key(&call);
        let done = match &binding {
            Some(binding) => self.ask(&binding.connector, call, key).await,
            None => Err(Problem::invalid("on", "The connector that this step needs is not bound any more.")),
        };
        let shown = self.dry() && line.access == Some(Access::Write);
        let duration = self.app.seams.clock.uptime().saturating_sub(started);
        let end = match &done {
            Ok(answer) => StepEnd {
                outcome: if shown { StepOutcome::Shown } else { StepOutcome::Done },
                output: (!shown).then(|| mask::record(answer)),
                code: None,
                detail: shown.then(|| "A dry run: this was not done.".to_owned()),
                duration,
            },
            Err(problem) => StepEnd {
                outcome: StepOutcome::Failed,
                output: None,
                code: Some(problem.code().to_owned()),
                detail: Some(tools::kept_words(problem.detail())),
                duration,
            },
        };
        self.app.store.end_step(&self.claimed, line.position, &end).await.map_err(|error| Fault::End(error.into()))?;
        match done {
            Ok(answer) => {
                self.calls += 1;
                self.writes += i64::from(line.access == Some(Access::Write));
                Ok(answer)
            }
            Err(problem) => {
                self.calls += 1;
                self.failures += 1;
                Err(Self::fault(&problem))
            }
        }
    }

    async fn note(
        &mut self,
        step: &str,
        title: Option<&str>,
        item: Option<&Item>,
        skipped: bool,
        outcome: &str,
    ) -> Result<(), Why> {
        if self.lines >= MOST_LINES {
            return Ok(());
        }
        let mut line = self.line(step, title, item);
        line.outcome = Some(if skipped { StepOutcome::Skipped } else { StepOutcome::Done });
        line.detail = Some(outcome.to_owned());
        line.duration = Some(Duration::ZERO);
        self.begin(&line).await
    }

    async fn place(&mut self, step: &str) -> Result<Vec<String>, Why> {
        Ok(self.app.store.gone_through(&self.agent().id, step).await?)
    }

    async fn keep_place(&mut self, step: &str, seen: &[String]) -> Result<(), Why> {
        // A dry run does nothing, and takes nothing from the next real one.
        if self.dry() {
            return Ok(());
        }
        Ok(self.app.store.keep_gone_through(&self.agent().id, step, seen).await?)
    }

    async fn broken(
        &mut self,
        step: &str,
        title: Option<&str>,
        item: Option<&Item>,
        words: String,
    ) -> Result<Why, Why> {
        let words = tools::kept_words(&words);
        let mut line = self.line(step, title, item);
        line.outcome = Some(StepOutcome::Failed);
        line.code = Some("playbook".to_owned());
        line.detail = Some(words.clone());
        line.duration = Some(Duration::ZERO);
        self.failures += 1;
        self.begin(&line).await?;
        Ok(Why::failed("playbook", format!("Step \"{step}\": {words}")))
    }
}

impl Hand {
    /// Checks and makes a call; in a dry run a write is checked alone.
    async fn ask(&self, connector: &ConnectorId, call: Call<'_>, key: String) -> Result<Value, Problem> {
        let agent = self.agent().id.clone();
        let by = if self.dry() { By::DryRun(agent) } else { By::Agent(agent) };
        let asked = tools::Call {
            org: self.claimed.run.org.clone(),
            by,
            connector: connector.clone(),
            tool: call.tool.to_owned(),
            arguments: call.arguments.clone(),
            idempotency_key: Some(key),
            may_connect: false,
        };
        let checked = tools::check(&self.app, asked).await?;
        if self.dry() && checked.tool.access == Access::Write {
            return Ok(Value::Null);
        }
        self.make(checked).await
    }
}
