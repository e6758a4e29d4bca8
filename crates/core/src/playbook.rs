//! The runner `playbook`: declared steps with templates and conditions. No AI, no code.
//!
//! ```json
//! {
//!   "kind": "playbook",
//!   "data": {"marker": "seen"},
//!   "steps": [
//!     {"id": "found", "tool": "search_tickets", "with": {"priority": ["urgent"]}, "pages": 3},
//!     {"id": "each", "for_each": "{{ found.tickets }}", "as": "ticket",
//!      "where": {"not": {"value": "{{ ticket.tags }}", "contains": "{{ marker }}"}},
//!      "steps": [
//!        {"id": "mark", "tool": "update_ticket", "with": {"ticket_id": "{{ ticket.id }}", "add_tags": ["{{ marker }}"]}}
//!      ]}
//!   ]
//! }
//! ```
//!
//! A step with `tool` calls one tool on one connector: the one that the agent has bound under the name in `on`, which may be
//! absent where there is one alone. A step with `for_each` goes through a list. A step with `rules` looks for words in a text
//! and brings what the first rule that fits gives. What a step brings is known by its `id` to the ones after it. `data` holds
//! constants; `agent`, `run` and `event` are always known, the last being null in a run that no event asked for.

mod check;
mod condition;
mod outline;
mod pretty;
mod scope;
mod spec;
mod template;
mod walk;
mod words;

use std::fmt;

use serde_json::{Map, Value};

pub use check::Role;
pub use outline::Line;
pub use pretty::pretty;
pub use walk::{Call, Fault, Hands, Item};

use condition::Condition;
use template::{Shape, Template};

/// A playbook that was read and makes sense in itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Playbook {
    data: Map<String, Value>,
    steps: Vec<Step>,
    reads_event: Option<SpecError>,
}

#[derive(Clone, Debug, PartialEq)]
struct Step {
    /// Where it stands: `steps[1].steps[0]`.
    at: String,
    id: String,
    title: Option<String>,
    condition: Option<Condition>,
    action: Action,
}

#[derive(Clone, Debug, PartialEq)]
enum Action {
    Call {
        tool: String,
        on: Option<String>,
        with: Shape,
        /// As written, for the check against the tool's schema.
        written: Value,
        pages: u32,
    },
    Each {
        items: Template,
        name: String,
        filter: Option<Condition>,
        limit: Option<usize>,
        on_error: OnError,
        steps: Vec<Step>,
    },
    Rules {
        text: Template,
        rules: Vec<Rule>,
    },
}

/// What the failure of one item's step means for the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnError {
    Stop,
    NextItem,
}

#[derive(Clone, Debug, PartialEq)]
struct Rule {
    words: Vec<String>,
    give: Shape,
}

/// What is wrong with a playbook, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct SpecError {
    /// The place, `steps[1].with.ticket_id`.
    pub at: String,
    /// The step's id, or its place while it has none.
    pub step: Option<String>,
    /// For people.
    pub message: String,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.step {
            Some(step) => write!(f, "Step \"{step}\", at {}: {}.", self.at, self.message),
            None => write!(f, "At {}: {}.", self.at, self.message),
        }
    }
}

impl Playbook {
    /// The tools that it calls, each with the name of the connector that it says; in order, each once.
    pub fn uses(&self) -> Vec<(Option<&str>, &str)> {
        let mut uses = Vec::new();
        each_call(&self.steps, &mut |_, tool, on| {
            if !uses.contains(&(on, tool)) {
                uses.push((on, tool));
            }
        });
        uses
    }
}

/// Visits every step that calls a tool.
fn each_call<'a>(steps: &'a [Step], visit: &mut impl FnMut(&'a Step, &'a str, Option<&'a str>)) {
    for step in steps {
        match &step.action {
            Action::Call { tool, on, .. } => visit(step, tool, on.as_deref()),
            Action::Each { steps, .. } => each_call(steps, visit),
            Action::Rules { .. } => {}
        }
    }
}

/// That nothing has this name, with those that there are.
fn unknown_name(name: &str, known: &[&str]) -> String {
    let verb = if known.len() == 1 { "is" } else { "are" };
    format!("nothing is called {name} here; there {verb} {}", known.join(", "))
}
