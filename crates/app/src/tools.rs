//! Calls of tools: the one way, for agents, their runs and API keys. Here it is checked who may do what; a call that goes
//! through is made with the connector's always-fresh token.

use std::{sync::Arc, time::Duration};

use chrono::TimeDelta;
use holdfast_core::{
    AgentId, ApiClient, AuthError, ConnectorId, OrgId, Provider, Snapshot,
    error::{Error, ErrorKind, MissingScopes},
    mask,
    ports::Changed,
    schema,
    tool::{Access, Tool, ToolCall, ToolOutput},
    webhook::Topic,
};
use holdfast_store::{Gate, KeyUse, Stop};
use http::StatusCode;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tracing::{error, warn};

use crate::{
    app::App,
    connect,
    problem::{LackedScope, Problem},
    sync,
};

/// A call that has been under way for longer was broken off, though its replica lives.
const LONGEST_CALL: TimeDelta = TimeDelta::minutes(5);
/// A key is remembered for so long.
pub const KEY_LIFE: TimeDelta = TimeDelta::hours(24);

/// One call of one tool on one connector.
#[derive(Clone, Debug)]
pub struct Call {
    /// Whose.
    pub org: OrgId,
    /// In whose name.
    pub by: By,
    /// Where.
    pub connector: ConnectorId,
    /// The tool.
    pub tool: String,
    /// The arguments, an object.
    pub arguments: Value,
    /// Same key, same effect.
    pub idempotency_key: Option<String>,
    /// Whether an error may hold a link that connects.
    pub may_connect: bool,
}

/// In whose name a tool is called.
#[derive(Clone, Debug)]
pub enum By {
    /// An API key's, which may use every tool of the org's connectors.
    Key,
    /// An agent's: what it is bound to and was granted, while it is active.
    Agent(AgentId),
    /// The same for a dry run: also while a person has paused it, and null may stand for what a write would have brought.
    DryRun(AgentId),
}

impl By {
    fn agent(&self) -> Option<&AgentId> {
        match self {
            Self::Key => None,
            Self::Agent(agent) | Self::DryRun(agent) => Some(agent),
        }
    }
}

/// What a call came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered {
    /// As the tool's output schema says.
    pub result: Value,
    /// It is what the same call was answered before; nothing was done now.
    pub replayed: bool,
}

/// Calls a tool; answers its result. A write with an idempotency key is done once, however often it is asked for; and one
/// that has begun is done, whether the caller waits for it or not.
pub async fn call_tool(app: &Arc<App>, call: Call) -> Result<Answered, Problem> {
    let checked = check(app, call).await?;
    let app_for_call = Arc::clone(app);
    let made = app.engine.spawn(async move { checked.once(&app_for_call).await }).await;
    made.unwrap_or_else(|failed| {
        error!(error = %failed, "a call of a tool ended badly");
        let detail = "Something went wrong on our side; the request id finds it in the log.";
        Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail))
    })
}

/// A call that may be made.
pub(crate) struct Checked {
    call: Call,
    known: Arc<Snapshot>,
    provider: Arc<dyn Provider>,
    /// The tool.
    pub(crate) tool: &'static Tool,
}

/// Whether a call may be made: status, binding and grant of the agent, the tool, its arguments.
pub(crate) async fn check(app: &Arc<App>, call: Call) -> Result<Checked, Problem> {
    let known = app.engine.snapshot(&call.connector).await?.filter(|known| known.org == call.org);
    let gate = match call.by.agent() {
        None => None,
        Some(agent) => {
            let gate = app.store.gate(&call.org, agent, &call.connector).await?;
            let gate = gate.ok_or_else(|| Problem::not_found("agent"))?;
            // Before anything else: to an agent whose connector was deleted this says more than that it is not there.
            may_act(app, &call, &gate).await?;
            Some(gate)
        }
    };
    let known = known.ok_or_else(|| Problem::not_found("connector"))?;
    let provider = app.providers().find(&known.provider).cloned().ok_or_else(|| no_adapter(&known))?;
    let tools = provider.about().tools;
    if let Some(gate) = &gate
        && gate.tools.is_none()
    {
        let detail = format!("{} is not bound to this connector: bind it, with the tools that it may use.", gate.name);
        return Err(Problem::new(StatusCode::FORBIDDEN, "agent_not_bound", detail));
    }
    let Some(tool) = tools.iter().find(|tool| tool.name == call.tool) else {
        let names: Vec<_> = tools.iter().map(|tool| tool.name).collect();
        let detail = format!("{} has no such tool; it has {}.", provider.about().name, names.join(", "));
        return Err(Problem::new(StatusCode::NOT_FOUND, "unknown_tool", detail));
    };
    if let Some(Gate { name, tools: Some(granted), .. }) = &gate
        && !granted.iter().any(|granted| granted == tool.name)
    {
        let may = if granted.is_empty() { "nothing".to_owned() } else { granted.join(", ") };
        let detail = format!("{name} was not granted {} on this connector; it may use {may}.", tool.name);
        return Err(Problem::new(StatusCode::FORBIDDEN, "tool_not_granted", detail));
    }
    let input: Value = serde_json::from_str(tool.input_schema).expect("a test holds the schemas of tools to be JSON");
    let dry = matches!(call.by, By::DryRun(_));
    schema::check(&input, &call.arguments, &|value| dry && value.is_null()).map_err(|mismatch| {
        let field = match mismatch.at.as_str() {
            "" => "arguments".to_owned(),
            at => format!("arguments.{at}"),
        };
        Problem::invalid(&field, format!("{} of {}: {}.", field, tool.name, mismatch.message))
    })?;
    Ok(Checked { call, known, provider, tool })
}

impl Checked {
    /// Makes the call, once for each idempotency key.
    pub(crate) async fn once(self, app: &Arc<App>) -> Result<Answered, Problem> {
        let now_done = |result| Answered { result, replayed: false };
        let Some(key) = self.call.idempotency_key.clone().filter(|_| self.tool.access == Access::Write) else {
            return self.make(app).await.map(now_done).map_err(|failed| failed.problem);
        };
        let org = self.call.org.clone();
        let now = app.seams.clock.now();
        let mut repeated = false;
        match app.store.use_key(&org, &key, &self.hash(), now).await? {
            KeyUse::New => {}
            KeyUse::Done(result) => return Ok(Answered { result, replayed: true }),
            KeyUse::Another => {
                let detail = "This key was used for another call; take a new one for each.";
                return Err(Problem::invalid("idempotency_key", detail));
            }
            KeyUse::UnderWay(attempts) if now - attempts.last < LONGEST_CALL => return Err(under_way()),
            KeyUse::UnderWay(attempts) | KeyUse::Lost(attempts) | KeyUse::Unknown(attempts) => {
                let since = (now - attempts.first).to_std().unwrap_or_default();
                if !self.tool.repeat.allows(since, true) {
                    let detail = "The same call broke off before, and whether it had its effect is not known. Look there, \
                                  and take a new key if it has to be done.";
                    return Err(Problem::new(StatusCode::CONFLICT, "call_outcome_unknown", detail).maybe_done());
                }
                if app.store.use_key_again(&org, &key, attempts, now).await? == Changed::No {
                    return Err(under_way());
                }
                repeated = true;
            }
        }
        let made = self.make(app).await;
        let noted = match &made {
            Ok(answer) => app.store.keep_answer(&org, &key, &without_nul(answer)).await,
            Err(failed) => app.store.give_key_up(&org, &key, now, failed.without_effect).await,
        };
        if let Err(error) = noted {
            // The row stays as it was taken: a repeated call is not made again.
            warn!(error = %error, "could not note how a call under an idempotency key ended");
        }
        // Whatever this attempt was refused for, an earlier one may have had its effect.
        made.map(now_done).map_err(|failed| if repeated { failed.problem.maybe_done() } else { failed.problem })
    }

    /// Makes the call.
    pub(crate) async fn make(&self, app: &Arc<App>) -> Result<Value, Failed> {
        if let Some(found) = sync::from_mirror(app, &self.known, &self.call.tool, &self.call.arguments).await {
            return Ok(found);
        }
        let api = ApiClient::new(&app.engine, &self.known);
        let api = api.ok_or_else(|| Failed { problem: no_adapter(&self.known), without_effect: true })?;
        let call = ToolCall {
            tool: self.call.tool.clone(),
            arguments: self.call.arguments.clone(),
            idempotency_key: self.call.idempotency_key.as_deref().map(|key| provider_key(&self.call.org, key)),
        };
        let made = self.provider.call(&api, &call).await;
        if self.tool.access == Access::Write && api.may_have_changed() {
            self.note_write(app, made.as_ref().ok()).await;
        }
        match made {
            Ok(output) => Ok(output.0),
            Err(error) => {
                let without_effect = !api.may_have_changed();
                let problem = self.problem(app, error).await;
                let maybe_done = self.tool.access == Access::Write && !without_effect;
                Err(Failed { problem: if maybe_done { problem.maybe_done() } else { problem }, without_effect })
            }
        }
    }

    /// What a sync finds of a ticket that was written from here is no news.
    async fn note_write(&self, app: &App, output: Option<&ToolOutput>) {
        if sync::feed(app, &self.known.provider).is_none() {
            return;
        }
        let made = output.and_then(|output| output.0["ticket"]["id"].as_str());
        let Some(ticket) = self.call.arguments["ticket_id"].as_str().or(made) else { return };
        let topic = match self.call.tool.as_str() {
            "create_ticket" => Topic::TicketCreated,
            "reply_to_ticket" => Topic::TicketReplied,
            _ => Topic::TicketChanged,
        };
        let noted = app.store.note_ticket_write(&self.known.connector, ticket, topic, app.seams.clock.now()).await;
        if let Err(error) = noted {
            warn!(error = %error, "could not note that a ticket was written: a sync may tell of it");
        }
    }

    async fn problem(&self, app: &Arc<App>, error: Error) -> Problem {
        let auth = error.source.as_ref().and_then(|source| source.downcast_ref::<AuthError>()).cloned();
        let person = error.kind == ErrorKind::AuthFailed || auth == Some(AuthError::Unreadable);
        let lacks = if error.kind == ErrorKind::Forbidden { self.lacks(&error) } else { Vec::new() };
        if !lacks.is_empty() {
            let url = connect::reconnect_url(app, &self.known, self.call.may_connect).await.ok();
            let problem = Problem::lacks_scopes(error, lacks);
            return problem.because(&self.known.connector, None).reconnect_at(url);
        }
        let field = if error.kind == ErrorKind::Invalid { self.field(&error.message) } else { None };
        let problem = match auth {
            Some(auth) => Problem::of(auth, self.provider.about().name),
            None => Problem::from(error).at(field),
        };
        if !person {
            return problem;
        }
        let known = app.engine.snapshot(&self.known.connector).await.ok().flatten();
        let known = known.unwrap_or_else(|| Arc::clone(&self.known));
        let url = connect::reconnect_url(app, &known, self.call.may_connect).await.ok();
        let reason = known.health_reason.map(holdfast_core::credential::Reason::as_str);
        problem.because(&known.connector, reason).reconnect_at(url)
    }

    /// The argument that an adapter's words begin with: `body: expected a text`.
    fn field(&self, message: &str) -> Option<String> {
        let (place, _) = message.split_once(": ")?;
        let name = place.split(['.', '[']).next().unwrap_or_default();
        let input: Value = serde_json::from_str(self.tool.input_schema).ok()?;
        input["properties"].get(name).map(|_| format!("arguments.{place}"))
    }

    /// The scopes for want of which the provider forbids the call: those that it named, else those that the tool needs and
    /// nobody granted.
    fn lacks(&self, error: &Error) -> Vec<LackedScope> {
        let named = error.source.as_ref().and_then(|source| source.downcast_ref::<MissingScopes>());
        let granted = self.known.credential.secret.tokens().map_or(&[][..], |tokens| tokens.scopes.as_slice());
        let needed = self.provider.scopes_of(&self.call.tool);
        let ungranted = |scope: &&str| !granted.is_empty() && !granted.iter().any(|granted| granted == scope);
        let missing: Vec<&str> = match named {
            Some(MissingScopes(named)) => {
                let named: Vec<&str> = named.iter().map(String::as_str).collect();
                let known: Vec<&str> = named.iter().copied().filter(ungranted).collect();
                if known.is_empty() { named } else { known }
            }
            None => needed.iter().copied().filter(ungranted).collect(),
        };
        let about = self.provider.about();
        let words = |name: &str| about.scope_words(name).map(str::to_owned);
        missing.into_iter().map(|name| LackedScope { name: name.to_owned(), words: words(name) }).collect()
    }

    /// Tells one call from another.
    fn hash(&self) -> [u8; 32] {
        let agent = self.call.by.agent().map(AgentId::as_str);
        let call = serde_json::json!([agent, self.call.connector, self.call.tool, self.call.arguments]);
        Sha256::digest(call.to_string().as_bytes()).into()
    }
}

/// A key as the provider sees it: two organisations on one account may use the same word for different things.
fn provider_key(org: &OrgId, key: &str) -> String {
    let digest = Sha256::digest(format!("{org}\n{key}").as_bytes());
    digest.iter().take(16).fold("hf-".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

fn under_way() -> Problem {
    let detail = "The same call is under way; ask again for its result.";
    Problem::new(StatusCode::CONFLICT, "call_under_way", detail).retry_after(Duration::from_secs(2))
}

/// A call that brought nothing.
pub(crate) struct Failed {
    /// Why.
    pub(crate) problem: Problem,
    /// Whether it surely had no effect at the provider.
    without_effect: bool,
}

/// Whether the agent acts at all at this moment.
async fn may_act(app: &Arc<App>, call: &Call, gate: &Gate) -> Result<(), Problem> {
    if !gate.stops.is_empty() {
        return Err(deactivated(app, &gate.name, &gate.stops, call.may_connect).await);
    }
    if gate.paused && !matches!(call.by, By::DryRun(_)) {
        return Err(paused(&gate.name));
    }
    Ok(())
}

/// That a person has to let the agent go on.
pub(crate) fn paused(agent: &str) -> Problem {
    let detail = format!("{agent} is paused. Resume it first.");
    Problem::new(StatusCode::CONFLICT, "agent_paused", detail)
}

/// That connectors stop the agent: which, why, and where to reconnect the first of them.
pub(crate) async fn deactivated(app: &Arc<App>, agent: &str, stops: &[Stop], may_connect: bool) -> Problem {
    let detail = format!("{agent} is stopped: {}.", causes(app, stops));
    let problem = Problem::new(StatusCode::CONFLICT, "agent_deactivated", detail);
    let Some(first) = stops.iter().find(|stop| stop.reason.is_reconnectable()).or(stops.first()) else {
        return problem;
    };
    let url = match app.engine.snapshot(&first.connector).await {
        Ok(Some(known)) => connect::reconnect_url(app, &known, may_connect).await.ok(),
        _ => None,
    };
    problem.because(&first.connector, Some(first.reason.as_str())).reconnect_at(url)
}

/// What stops an agent, for people: `Zendesk acme needs Reconnect`.
pub(crate) fn causes(app: &App, stops: &[Stop]) -> String {
    let words = stops.iter().map(|stop| stop.reason.words(&connector_name(app, &stop.provider, &stop.account)));
    words.collect::<Vec<_>>().join("; ")
}

/// A connector by provider and account: `Zendesk acme`.
pub(crate) fn connector_name(app: &App, provider: &str, account: &str) -> String {
    format!("{} {account}", app.provider_name(provider)).trim_end().to_owned()
}

fn no_adapter(known: &Snapshot) -> Problem {
    let detail = format!("This instance has no adapter for {}, or it does not know the account.", known.provider);
    Problem::new(StatusCode::CONFLICT, "no_adapter", detail)
}

/// PostgreSQL keeps no text with a NUL in it.
fn without_nul(value: &Value) -> Value {
    match value {
        Value::String(text) if text.contains('\0') => Value::String(text.replace('\0', "")),
        Value::Array(items) => items.iter().map(without_nul).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.replace('\0', ""), without_nul(value))).collect()
        }
        other => other.clone(),
    }
}

/// Words of a problem as they may be kept with a run.
pub(crate) fn kept_words(words: &str) -> String {
    let masked = mask::text(words);
    if masked.chars().count() <= 500 {
        return masked;
    }
    masked.chars().take(500).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, registry};

    #[test]
    fn the_schemas_of_all_tools_are_understood() {
        fn unknown(schema: &Value) -> Option<String> {
            let fields = schema.as_object()?;
            let own = fields.keys().find(|name| !schema::KEYWORDS.contains(&name.as_str())).cloned();
            let inner = || {
                let properties = schema["properties"].as_object().into_iter().flatten().map(|(_, inner)| inner);
                properties.chain(schema.get("items")).find_map(unknown)
            };
            own.or_else(inner)
        }
        let providers = registry::providers(&Config::default()).unwrap();
        for tool in providers.iter().flat_map(|provider| provider.about().tools) {
            let schema: Value = serde_json::from_str(tool.input_schema).unwrap();
            assert_eq!(unknown(&schema), None, "{}", tool.name);
            // What a schema offers as an example has to pass.
            let examples = schema["properties"].as_object().unwrap().iter();
            let examples: Value = examples.map(|(name, field)| (name.clone(), field["examples"][0].clone())).collect();
            assert_eq!(schema::check(&schema, &examples, &|_| false), Ok(()), "{}", tool.name);
        }
    }
}
