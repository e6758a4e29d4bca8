//! A playbook in words, step by step, for people who do not read JSON.

use super::{Action, OnError, Playbook, Step};

/// One step in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// How many loops it stands in.
    pub depth: usize,
    /// What people call it, or its id.
    pub title: String,
    /// The tool that it calls.
    pub tool: Option<String>,
    /// On which connector, where it says so.
    pub on: Option<String>,
    /// What else is to be known: that it has a condition, how many items a loop takes.
    pub more: String,
}

impl Playbook {
    /// Its steps in order, inner ones after the loop that they stand in.
    pub fn outline(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        outline(&self.steps, 0, &mut lines);
        lines
    }
}

fn outline(steps: &[Step], depth: usize, lines: &mut Vec<Line>) {
    for step in steps {
        let mut more = Vec::new();
        if step.condition.is_some() {
            more.push("under a condition".to_owned());
        }
        let mut line = Line { depth, title: String::new(), tool: None, on: None, more: String::new() };
        line.title = step.title.clone().unwrap_or_else(|| step.id.clone());
        match &step.action {
            Action::Call { tool, on, pages, .. } => {
                line.tool = Some(tool.clone());
                line.on.clone_from(on);
                if *pages > 1 {
                    more.push(format!("up to {pages} pages"));
                }
            }
            Action::Rules { rules, .. } => {
                more.push(if rules.len() == 1 { "1 rule".to_owned() } else { format!("{} rules", rules.len()) });
            }
            Action::Each { name, filter, limit, on_error, .. } => {
                more.push(format!("for each {name}"));
                if filter.is_some() {
                    more.push("that fits".to_owned());
                }
                if let Some(limit) = limit {
                    more.push(format!("at most {limit}"));
                }
                if *on_error == OnError::NextItem {
                    more.push("goes on after an error".to_owned());
                }
            }
        }
        line.more = more.join(", ");
        lines.push(line);
        if let Action::Each { steps, .. } = &step.action {
            outline(steps, depth + 1, lines);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_playbook_is_told_in_words() {
        let playbook = Playbook::parse(&json!({"steps": [
            {"id": "found", "title": "Look", "tool": "search_tickets", "on": "desk", "pages": 3},
            {"id": "each", "for_each": "{{ found.tickets }}", "as": "ticket", "limit": 5, "on_error": "next_item",
             "where": {"value": "{{ ticket.tags }}", "is_empty": true},
             "steps": [{"id": "rule", "text": "x", "rules": [{"words": ["a"], "give": 1}]},
                       {"id": "tag", "tool": "update_ticket", "if": {"value": "x", "is": "x"}}]}
        ]}))
        .unwrap();

        let told: Vec<_> = playbook
            .outline()
            .into_iter()
            .map(|line| {
                format!("{}{} [{}] {}", "-".repeat(line.depth), line.title, line.tool.unwrap_or_default(), line.more)
            })
            .collect();

        assert_eq!(
            told,
            [
                "Look [search_tickets] up to 3 pages",
                "each [] for each ticket, that fits, at most 5, goes on after an error",
                "-rule [] 1 rule",
                "-tag [update_ticket] under a condition",
            ]
        );
    }
}
