//! A playbook against the tools of the connectors that it is to run on.

use serde_json::Value;

use super::{Action, Playbook, SpecError, Step};
use crate::{schema, tool::Tool};

/// A connector that an agent has bound, as a playbook sees it.
#[derive(Clone, Debug)]
pub struct Role<'a> {
    /// What the playbook calls it, in `on`.
    pub name: &'a str,
    /// What its provider offers.
    pub tools: &'a [Tool],
    /// Which of them the agent may use; `None`: whatever the playbook asks for.
    pub granted: Option<&'a [String]>,
}

impl Playbook {
    /// Whether every step can be done with these: connector, tool, grant and arguments.
    pub fn check(&self, roles: &[Role<'_>]) -> Result<(), SpecError> {
        check(&self.steps, roles)
    }

    /// The one of these that a step means by `on`; an error says which there are.
    pub fn role<'a>(on: Option<&str>, roles: impl IntoIterator<Item = &'a str>) -> Result<&'a str, String> {
        let roles: Vec<_> = roles.into_iter().collect();
        let known = roles.join(", ");
        match (on, roles.as_slice()) {
            (_, []) => Err("no connector is bound: bind one".to_owned()),
            (None, [one]) => Ok(one),
            (None, _) => Err(format!("several connectors are bound: say which with \"on\", one of {known}")),
            (Some(name), _) => roles
                .iter()
                .find(|role| **role == name)
                .copied()
                .ok_or_else(|| format!("no connector is bound as {name}; there is {known}")),
        }
    }
}

fn check(steps: &[Step], roles: &[Role<'_>]) -> Result<(), SpecError> {
    for step in steps {
        match &step.action {
            Action::Call { tool, on, written, pages, .. } => {
                call(step, tool, on.as_deref(), written, *pages, roles)?;
            }
            Action::Each { steps, .. } => check(steps, roles)?,
            Action::Rules { .. } => {}
        }
    }
    Ok(())
}

fn call(
    step: &Step,
    name: &str,
    on: Option<&str>,
    written: &Value,
    pages: u32,
    roles: &[Role<'_>],
) -> Result<(), SpecError> {
    let wrong = |field: &str, message: String| SpecError {
        at: format!("{}.{field}", step.at),
        step: Some(step.id.clone()),
        message,
    };
    let found = Playbook::role(on, roles.iter().map(|role| role.name)).map_err(|message| wrong("on", message))?;
    let role = roles.iter().find(|role| role.name == found).expect("it was found among them");
    let Some(tool) = role.tools.iter().find(|tool| tool.name == name) else {
        let known: Vec<_> = role.tools.iter().map(|tool| tool.name).collect();
        return Err(wrong("tool", format!("{found} has no tool {name}; it has {}", known.join(", "))));
    };
    if role.granted.is_some_and(|granted| !granted.iter().any(|granted| granted == name)) {
        return Err(wrong("tool", format!("{name} is not granted on {found}: grant it, or leave the step out")));
    }
    let input: Value =
        serde_json::from_str(tool.input_schema).expect("a test of the adapter holds its schemas to be JSON");
    if pages > 1 && input["properties"]["cursor"].is_null() {
        return Err(wrong("pages", format!("{name} has no pages: leave it out")));
    }
    schema::check(&input, written, &is_template).map_err(|mismatch| {
        let place = if mismatch.at.is_empty() { "with".to_owned() } else { format!("with.{}", mismatch.at) };
        wrong(&place, mismatch.message)
    })
}

/// A text whose value is known only when it runs.
fn is_template(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.contains("{{"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tool::{Access, Repeat};

    const TOOLS: &[Tool] = &[
        Tool {
            name: "search_tickets",
            description: "",
            access: Access::Read,
            repeat: Repeat::Safe,
            input_schema: r#"{"type": "object", "additionalProperties": false,
                "properties": {"query": {"type": "string"}, "cursor": {"type": "string"}}}"#,
            output_schema: "{}",
        },
        Tool {
            name: "update_ticket",
            description: "",
            access: Access::Write,
            repeat: Repeat::Safe,
            input_schema: r#"{"type": "object", "additionalProperties": false, "required": ["ticket_id"],
                "properties": {"ticket_id": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}}}"#,
            output_schema: "{}",
        },
    ];

    fn check(step: &Value, roles: &[Role<'_>]) -> Result<(), String> {
        let loud = |error: SpecError| error.to_string();
        Playbook::parse(&json!({ "steps": [step] })).map_err(loud)?.check(roles).map_err(loud)
    }

    fn role<'a>(name: &'a str, granted: Option<&'a [String]>) -> Role<'a> {
        Role { name, tools: TOOLS, granted }
    }

    #[test]
    fn a_step_that_can_be_done_passes() {
        let both = [role("desk", None), role("other", None)];
        let update = ["update_ticket".to_owned()];
        for (step, roles) in [
            (json!({"id": "a", "tool": "search_tickets", "pages": 3}), &both[..1]),
            (json!({"id": "a", "tool": "search_tickets", "on": "other", "with": {"query": "x"}}), &both),
            (
                json!({"id": "a", "tool": "update_ticket", "with": {"ticket_id": "{{ run.id }}", "tags": "{{ run.x }}"}}),
                &[role("desk", Some(&update))],
            ),
        ] {
            assert_eq!(check(&step, roles), Ok(()), "{step}");
        }
    }

    #[test]
    fn a_step_that_cannot_is_told_with_what_there_is() {
        let both = [role("desk", None), role("other", None)];
        let none: &[String] = &[];
        let search = json!({"id": "a", "tool": "search_tickets"});
        for (step, roles, words) in [
            (search.clone(), &[][..], "steps[0].on: no connector is bound"),
            (search.clone(), &both[..], "say which with \"on\", one of desk, other"),
            (
                json!({"id": "a", "tool": "x", "on": "third"}),
                &both,
                "no connector is bound as third; there is desk, other",
            ),
            (json!({"id": "a", "tool": "x"}), &both[..1], "desk has no tool x; it has search_tickets, update_ticket"),
            (search.clone(), &[role("desk", Some(none))], "search_tickets is not granted on desk"),
            (json!({"id": "a", "tool": "update_ticket"}), &both[..1], "steps[0].with.ticket_id: it is missing"),
            (
                json!({"id": "a", "tool": "update_ticket", "with": {"ticket_id": "1"}, "pages": 2}),
                &both[..1],
                "update_ticket has no pages",
            ),
            (
                json!({"id": "a", "tool": "update_ticket", "with": {"ticket_id": "1", "tags": ["a", 1]}}),
                &both[..1],
                "steps[0].with.tags[1]: expected text, found a number",
            ),
            (
                json!({"id": "a", "tool": "search_tickets", "with": {"text": "x"}}),
                &both[..1],
                "steps[0].with.text: there is no such argument; there are cursor, query",
            ),
        ] {
            let error = check(&step, roles).unwrap_err();
            assert!(error.contains(words), "{step}: {error}");
        }
    }
}
