//! An agent as it stands in a form: from a sample, from an agent, or as it was posted; and what the checks say of it, by
//! the fields that they are about.

use holdfast_core::{
    agent::Trigger,
    playbook::{Playbook, pretty},
};
use holdfast_store::Agent;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    agents::{
        manage::{AgentChangeBody, BindingBody, NewAgentBody, TriggerBody},
        samples::Sample,
    },
    problem::Problem,
};

/// What stands in `every` for an agent that waits for events.
pub(super) const EVENTS: &str = "events";
/// The same for times of a calendar.
pub(super) const CALENDAR: &str = "cron";
/// A form holds no more connectors.
const MOST_ROWS: usize = 10;

/// What was typed, or would be.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Draft {
    /// Of the agent that is to be made: a form that is sent twice makes one.
    pub(super) id: String,
    /// The sample that it came from; empty: none.
    pub(super) sample: String,
    pub(super) name: String,
    /// Seconds, [`EVENTS`] or [`CALENDAR`]; empty: by hand only.
    pub(super) every: String,
    /// Those that are ticked.
    pub(super) events: Vec<String>,
    pub(super) cron: String,
    pub(super) zone: String,
    pub(super) missed: String,
    /// The playbook as text.
    pub(super) runner: String,
    pub(super) paused: bool,
    pub(super) rows: Vec<Row>,
}

/// A connector of the form.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Row {
    pub(super) role: String,
    pub(super) connector: String,
    pub(super) tools: Vec<String>,
}

/// By the fields that they stand by.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Problems {
    pub(super) name: String,
    pub(super) every: String,
    pub(super) events: String,
    pub(super) cron: String,
    pub(super) zone: String,
    pub(super) runner: String,
    /// Of each row.
    pub(super) rows: Vec<String>,
    /// Of none of them.
    pub(super) other: String,
}

impl Draft {
    /// An agent of a sample, with what its playbook asks for.
    pub(super) fn of_sample(sample: &Sample, id: String) -> Self {
        let rows = sample.connectors.iter().map(|needed| Row {
            role: needed.role.clone(),
            connector: String::new(),
            tools: asked(&sample.runner, &needed.role),
        });
        Self {
            id,
            sample: sample.id.clone(),
            name: sample.name.clone(),
            every: sample.every_secs.map_or_else(|| EVENTS.to_owned(), |secs| secs.to_string()),
            events: sample.events.clone(),
            runner: pretty(&sample.runner),
            paused: false,
            rows: rows.collect(),
            ..Self::default()
        }
    }

    /// Somebody's own: the smallest playbook that does something.
    pub(super) fn own(id: String) -> Self {
        let runner = json!({ "kind": "playbook", "steps": [
            { "id": "found", "title": "Look for new tickets", "tool": "search_tickets", "with": { "status": ["new"] } }
        ] });
        let tools = asked(&runner, "helpdesk");
        let row = Row { role: "helpdesk".to_owned(), connector: String::new(), tools };
        Self { id, runner: pretty(&runner), rows: vec![row], ..Self::default() }
    }

    /// An agent as it is, with room for one more connector.
    pub(super) fn of_agent(agent: &Agent) -> Self {
        let rows = agent.bindings.iter().map(|binding| Row {
            role: binding.role.clone(),
            connector: binding.connector.to_string(),
            tools: binding.tools.clone(),
        });
        let mut rows: Vec<_> = rows.collect();
        if let Ok(playbook) = Playbook::parse(&agent.runner) {
            // A role that the playbook names and nothing is bound to: the connector is gone.
            let named: Vec<_> = playbook.uses().into_iter().filter_map(|(on, _)| on.map(str::to_owned)).collect();
            for role in named {
                if !rows.iter().any(|row| row.role == role) {
                    rows.push(Row { tools: asked(&agent.runner, &role), role, connector: String::new() });
                }
            }
            if rows.is_empty() {
                rows.push(Row {
                    role: "helpdesk".to_owned(),
                    connector: String::new(),
                    tools: asked(&agent.runner, ""),
                });
            }
        }
        if rows.len() < MOST_ROWS {
            rows.push(Row::default());
        }
        let calendar = match &agent.trigger {
            Trigger::Calendar(calendar) => Some(calendar),
            Trigger::Manual | Trigger::Every(_) | Trigger::Events(_) => None,
        };
        Self {
            id: agent.id.to_string(),
            sample: String::new(),
            name: agent.name.clone(),
            every: match &agent.trigger {
                Trigger::Manual => String::new(),
                Trigger::Every(every) => every.as_secs().to_string(),
                Trigger::Calendar(_) => CALENDAR.to_owned(),
                Trigger::Events(_) => EVENTS.to_owned(),
            },
            events: match &agent.trigger {
                Trigger::Events(events) => events.topics().map(|topic| topic.as_str().to_owned()).collect(),
                Trigger::Manual | Trigger::Every(_) | Trigger::Calendar(_) => Vec::new(),
            },
            cron: calendar.map(|calendar| calendar.pattern().to_owned()).unwrap_or_default(),
            zone: calendar.map(|calendar| calendar.zone().to_owned()).unwrap_or_default(),
            missed: calendar.map(|calendar| calendar.missed().as_str().to_owned()).unwrap_or_default(),
            runner: pretty(&agent.runner),
            paused: agent.paused.is_some(),
            rows,
        }
    }

    /// As it was posted: `role.0`, `connector.0`, `tool.0` several times, and so on.
    pub(super) fn posted(pairs: Vec<(String, String)>) -> Self {
        let mut draft = Self::default();
        for (name, value) in pairs {
            match name.as_str() {
                "id" => draft.id = value,
                "sample" => draft.sample = value,
                "name" => draft.name = value,
                "every" => draft.every = value,
                "event" => draft.events.push(value),
                "cron" => draft.cron = value,
                "zone" => draft.zone = value,
                "missed" => draft.missed = value,
                // Browsers send line ends in the manner of CRLF.
                "runner" => draft.runner = value.replace("\r\n", "\n"),
                "paused" => draft.paused = value == "yes",
                other => {
                    let Some((field, number)) = other.split_once('.') else { continue };
                    let Some(number) = number.parse::<usize>().ok().filter(|number| *number < MOST_ROWS) else {
                        continue;
                    };
                    if draft.rows.len() <= number {
                        draft.rows.resize_with(number + 1, Row::default);
                    }
                    let row = &mut draft.rows[number];
                    match field {
                        "role" => value.trim().clone_into(&mut row.role),
                        "connector" => row.connector = value,
                        "tool" => row.tools.push(value),
                        _ => {}
                    }
                }
            }
        }
        draft
    }

    /// For the checks: the rows in which a connector was chosen, with where each stands in the form.
    fn bindings(&self) -> (Vec<BindingBody>, Vec<usize>) {
        let chosen = self.rows.iter().enumerate().filter(|(_, row)| !row.connector.is_empty());
        let body = |row: &Row| BindingBody {
            connector: row.connector.clone(),
            role: Some(row.role.clone()).filter(|role| !role.is_empty()),
            tools: Some(row.tools.clone()),
        };
        chosen.map(|(at, row)| (body(row), at)).unzip()
    }

    fn trigger(&self) -> TriggerBody {
        if self.every.is_empty() {
            return TriggerBody { kind: "manual".to_owned(), ..TriggerBody::default() };
        }
        if self.every == EVENTS {
            return TriggerBody {
                kind: "events".to_owned(),
                events: Some(self.events.clone()),
                ..TriggerBody::default()
            };
        }
        if self.every == CALENDAR {
            return TriggerBody {
                kind: "cron".to_owned(),
                cron: Some(self.cron.clone()),
                time_zone: Some(self.zone.clone()),
                missed: Some(self.missed.clone()).filter(|missed| !missed.is_empty()),
                ..TriggerBody::default()
            };
        }
        // What is no number is out of bounds as well.
        let secs = self.every.trim().parse().unwrap_or(0);
        TriggerBody { kind: "schedule".to_owned(), every_secs: Some(secs), ..TriggerBody::default() }
    }

    /// The playbook, or what is wrong with it as JSON.
    fn spec(&self) -> Result<Value, Problems> {
        serde_json::from_str(&self.runner).map_err(|error| Problems {
            runner: format!(
                "This is no JSON: line {}, column {}. Look for a missing comma, quote or bracket there.",
                error.line(),
                error.column()
            ),
            ..Problems::default()
        })
    }

    /// What was typed, for making an agent.
    pub(super) fn new_body(&self) -> Result<NewAgentBody, Problems> {
        Ok(NewAgentBody {
            name: Some(self.name.clone()),
            sample: None,
            runner: Some(self.spec()?),
            connectors: self.bindings().0,
            trigger: Some(self.trigger()),
            paused: self.paused,
        })
    }

    /// What was typed, for changing this agent. A schedule that is the same is left alone: a new one begins at once.
    pub(super) fn change_body(&self, agent: &Agent) -> Result<AgentChangeBody, Problems> {
        let trigger = self.trigger();
        let before = Self::of_agent(agent);
        let times = |draft: &Self| match draft.every.as_str() {
            EVENTS => (draft.every.clone(), draft.events.clone()),
            CALENDAR => (draft.every.clone(), vec![draft.cron.clone(), draft.zone.clone(), draft.missed.clone()]),
            _ => (draft.every.clone(), Vec::new()),
        };
        let same = times(self) == times(&before);
        Ok(AgentChangeBody {
            name: Some(self.name.clone()),
            runner: Some(self.spec()?),
            connectors: Some(self.bindings().0),
            trigger: (!same).then_some(trigger),
        })
    }

    /// What the checks say, by the field of the form.
    pub(super) fn problems(&self, problem: &Problem) -> Problems {
        let words = problem.detail().to_owned();
        let mut problems = Problems { rows: vec![String::new(); self.rows.len()], ..Problems::default() };
        let field = problem.field().unwrap_or_default();
        let row = field.strip_prefix("connectors[").and_then(|rest| rest.split_once(']')?.0.parse::<usize>().ok());
        match (field, row) {
            ("name", _) => problems.name = words,
            ("connectors", _) if !problems.rows.is_empty() => {
                "Choose the connector that the agent works on.".clone_into(&mut problems.rows[0]);
            }
            ("trigger.cron", _) => problems.cron = words,
            ("trigger.time_zone", _) => problems.zone = words,
            ("trigger.events", _) => "Choose at least one event.".clone_into(&mut problems.events),
            (field, _) if field.starts_with("trigger") => {
                problems.every = format!(
                    "Choose how often; between {} seconds and {} days.",
                    Trigger::SHORTEST.as_secs(),
                    Trigger::LONGEST.as_secs() / 86_400
                );
            }
            (field, _) if field.starts_with("runner") => problems.runner = words,
            (_, Some(row)) => match self.bindings().1.get(row) {
                Some(at) => problems.rows[*at] = words,
                None => problems.other = words,
            },
            _ => problems.other = words,
        }
        problems
    }
}

/// The tools that a playbook asks for on this role.
fn asked(runner: &Value, role: &str) -> Vec<String> {
    let Ok(playbook) = Playbook::parse(runner) else { return Vec::new() };
    let uses = playbook.uses();
    let mut tools: Vec<_> =
        uses.into_iter().filter(|(on, _)| on.is_none_or(|on| on == role)).map(|(_, tool)| tool.to_owned()).collect();
    tools.sort_unstable();
    tools.dedup();
    tools
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::samples;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_form_is_read_as_it_was_filled_in() {
        let draft = Draft::posted(pairs(&[
            ("csrf", "x"),
            ("id", "agent_1"),
            ("name", "Mine"),
            ("every", "300"),
            ("runner", "{\r\n}"),
            ("paused", "yes"),
            ("role.0", " desk "),
            ("connector.0", "con_1"),
            ("tool.0", "get_ticket"),
            ("tool.0", "search_tickets"),
            ("role.2", "other"),
            ("connector.99", "con_x"),
        ]));

        assert_eq!(draft.runner, "{\n}");
        let row = Row {
            role: "desk".to_owned(),
            connector: "con_1".to_owned(),
            tools: vec!["get_ticket".to_owned(), "search_tickets".to_owned()],
        };
        assert_eq!(draft.rows, [row, Row::default(), Row { role: "other".to_owned(), ..Row::default() }]);
        let body = draft.new_body().unwrap();
        assert_eq!((body.connectors.len(), body.trigger.unwrap().every_secs, body.paused), (1, Some(300), true));
    }

    #[test]
    fn what_is_wrong_stands_by_its_field() {
        let mut draft = Draft::posted(pairs(&[("role.0", ""), ("role.1", "b"), ("connector.1", "con_1")]));
        let at = |field: &str| draft.problems(&Problem::invalid(field, "words"));
        assert_eq!(at("name").name, "words");
        assert_eq!(at("runner.steps[0].tool").runner, "words");
        assert!(at("trigger.every_secs").every.contains("between 10 seconds and 31 days"));
        // The first connector that was chosen stands in the second row.
        assert_eq!(at("connectors[0].tools[1]").rows, ["", "words"]);
        assert_eq!(at("connectors[7].role").other, "words");
        assert!(at("connectors").rows[0].contains("Choose the connector"));
        assert_eq!(at("").other, "words");
        draft.runner = "{\n  \"steps\": [}\n".to_owned();
        assert!(draft.new_body().unwrap_err().runner.contains("line 2, column 13"));
    }

    #[test]
    fn a_sample_is_filled_in_with_what_it_asks_for() {
        let draft = Draft::of_sample(samples::find("annotate_urgent_tickets").unwrap(), "agent_1".to_owned());

        assert_eq!((draft.every.as_str(), draft.rows.len(), draft.rows[0].role.as_str()), ("300", 1, "helpdesk"));
        assert_eq!(draft.rows[0].tools, ["get_ticket", "reply_to_ticket", "search_tickets", "update_ticket"]);
        let read: Value = serde_json::from_str(&draft.runner).unwrap();
        assert_eq!(read, samples::find("annotate_urgent_tickets").unwrap().runner);
        assert!(Playbook::parse(&serde_json::from_str(&Draft::own(String::new()).runner).unwrap()).is_ok());
    }
}
