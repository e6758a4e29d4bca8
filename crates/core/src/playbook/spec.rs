//! JSON to a playbook. Everything that can be known without the tools is checked here; errors name the step and say what to
//! write.

use std::cell::OnceCell;

use serde_json::{Map, Value};

use super::{
    Action, OnError, Playbook, Rule, SpecError, Step,
    condition::Condition,
    template::{Shape, Template},
    unknown_name,
};
use crate::schema::found;

/// Steps of a playbook, inner ones included.
const MOST_STEPS: usize = 50;
/// Loops inside of each other.
const MOST_DEPTH: usize = 3;
/// Rules of one step.
const MOST_RULES: usize = 100;
/// Words of one rule.
const MOST_WORDS: usize = 50;
/// Pages of one search.
const MOST_PAGES: u64 = 10;
/// The playbook as text.
const MOST_BYTES: usize = 64 * 1024;

/// Known to every template.
const ALWAYS: [&str; 3] = ["agent", "run", "event"];

struct Reader {
    /// What templates can name at this point.
    names: Vec<String>,
    ids: Vec<String>,
    reads_event: OnceCell<SpecError>,
}

/// The step that is being read.
struct Place<'a> {
    at: &'a str,
    step: &'a str,
}

impl Place<'_> {
    fn wrong(&self, field: &str, message: impl Into<String>) -> SpecError {
        let at = match field {
            "" => self.at.to_owned(),
            field if field.starts_with(['.', '[']) => format!("{}{field}", self.at),
            field => format!("{}.{field}", self.at),
        };
        SpecError { at, step: Some(self.step.to_owned()), message: message.into() }
    }
}

fn wrong(at: &str, message: impl Into<String>) -> SpecError {
    SpecError { at: at.to_owned(), step: None, message: message.into() }
}

impl Playbook {
    /// Reads and checks it, as far as that goes without the tools.
    pub fn parse(spec: &Value) -> Result<Self, SpecError> {
        let Some(fields) = spec.as_object() else {
            return Err(wrong("runner", "a playbook is an object with a list of steps"));
        };
        if spec.to_string().len() > MOST_BYTES {
            return Err(wrong("runner", format!("it is longer than {MOST_BYTES} bytes")));
        }
        if let Some(unknown) = fields.keys().find(|name| !["kind", "data", "steps"].contains(&name.as_str())) {
            return Err(wrong(unknown, format!("there is no {unknown} in a playbook; there are kind, data, steps")));
        }
        if fields.get("kind").is_some_and(|kind| kind != "playbook") {
            return Err(wrong("kind", "the one kind of runner is playbook"));
        }
        let data = data(fields.get("data"))?;
        let names = ALWAYS.iter().map(|&name| name.to_owned()).chain(data.keys().cloned()).collect();
        let mut reader = Reader { names, ids: Vec::new(), reads_event: OnceCell::new() };
        let steps = reader.steps(fields.get("steps"), "steps", 0)?;
        Ok(Self { data, steps, reads_event: reader.reads_event.into_inner() })
    }

    /// The first place that reads `event`, as what is wrong with it where an agent's runs are about no ticket.
    pub fn reads_event(&self) -> Option<&SpecError> {
        self.reads_event.as_ref()
    }
}

fn data(given: Option<&Value>) -> Result<Map<String, Value>, SpecError> {
    let data = match given {
        None => return Ok(Map::new()),
        Some(Value::Object(data)) => data,
        Some(_) => return Err(wrong("data", "it is an object of constants, like {\"marker\": \"seen\"}")),
    };
    for (name, value) in data {
        let at = format!("data.{name}");
        if !is_name(name) || ALWAYS.contains(&name.as_str()) {
            return Err(wrong(&at, format!("{NAME}, and it is none of agent, run and event")));
        }
        if value.to_string().contains("{{") {
            let message = "data is taken as it is: put the template where it is used, in with or give";
            return Err(wrong(&at, message));
        }
    }
    Ok(data.clone())
}

const NAME: &str = "a name is lower-case letters, digits and underscores, and begins with a letter";

fn is_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    (1..=40).contains(&text.len()) && text.as_bytes()[0].is_ascii_lowercase() && text.bytes().all(inner)
}

impl Reader {
    fn steps(&mut self, given: Option<&Value>, at: &str, depth: usize) -> Result<Vec<Step>, SpecError> {
        let Some(list) = given.and_then(Value::as_array).filter(|list| !list.is_empty()) else {
            return Err(wrong(
                at,
                "it is a list of one step or more, each like {\"id\": \"found\", \"tool\": \
                                  \"search_tickets\", \"with\": {}}",
            ));
        };
        list.iter().enumerate().map(|(index, step)| self.step(step, &format!("{at}[{index}]"), depth)).collect()
    }

    fn step(&mut self, given: &Value, at: &str, depth: usize) -> Result<Step, SpecError> {
        let Some(fields) = given.as_object() else {
            return Err(wrong(at, format!("a step is an object, found {}", found(given))));
        };
        let id = fields.get("id").and_then(Value::as_str).unwrap_or_default();
        if !is_name(id) {
            let message = format!("every step has an id, like \"found\": {NAME}");
            return Err(wrong(&format!("{at}.id"), message));
        }
        let place = Place { at, step: id };
        if self.ids.iter().any(|other| other == id) || self.names.iter().any(|name| name == id) {
            return Err(place.wrong("id", format!("{id} is taken: every name is used once")));
        }
        self.ids.push(id.to_owned());
        if self.ids.len() > MOST_STEPS {
            return Err(place.wrong("", format!("a playbook has at most {MOST_STEPS} steps")));
        }
        let title = optional_text(fields, "title", &place)?;
        let condition = self.condition(fields, "if", &place)?;
        let action = match (fields.get("tool"), fields.get("for_each"), fields.get("rules")) {
            (Some(tool), None, None) => self.call(tool, fields, &place)?,
            (None, Some(items), None) => self.each(items, fields, &place, depth)?,
            (None, None, Some(rules)) => self.rules(rules, fields, &place)?,
            _ => return Err(place.wrong("", "a step has one of tool, for_each, rules")),
        };
        if !matches!(action, Action::Each { .. }) {
            self.names.push(id.to_owned());
        }
        Ok(Step { at: at.to_owned(), id: id.to_owned(), title, condition, action })
    }

    fn call(&self, tool: &Value, fields: &Map<String, Value>, place: &Place<'_>) -> Result<Action, SpecError> {
        known(fields, &["id", "title", "if", "tool", "on", "with", "pages"], place)?;
        let Some(tool) = tool.as_str() else { return Err(place.wrong("tool", "it is a tool's name")) };
        let on = optional_text(fields, "on", place)?;
        let written = fields.get("with").cloned().unwrap_or_else(|| Value::Object(Map::new()));
        if !written.is_object() {
            return Err(place.wrong("with", "it is an object of arguments, like {\"ticket_id\": \"{{ ticket.id }}\"}"));
        }
        let with = self.shape(&written, "with", place)?;
        let pages = match fields.get("pages") {
            None => 1,
            Some(pages) => match pages.as_u64() {
                Some(pages @ 1..=MOST_PAGES) => u32::try_from(pages).unwrap_or(1),
                _ => return Err(place.wrong("pages", format!("it is a number from 1 to {MOST_PAGES}"))),
            },
        };
        Ok(Action::Call { tool: tool.to_owned(), on, with, written, pages })
    }

    fn each(
        &mut self,
        items: &Value,
        fields: &Map<String, Value>,
        place: &Place<'_>,
        depth: usize,
    ) -> Result<Action, SpecError> {
        known(fields, &["id", "title", "if", "for_each", "as", "where", "limit", "on_error", "steps"], place)?;
        if depth >= MOST_DEPTH {
            return Err(place.wrong("", format!("at most {MOST_DEPTH} loops stand inside of each other")));
        }
        let items = self.template(items, "for_each", place)?;
        let name = fields.get("as").and_then(Value::as_str).unwrap_or_default();
        if !is_name(name) {
            return Err(place.wrong("as", format!("say what one item is called, like \"ticket\": {NAME}")));
        }
        if self.names.iter().any(|taken| taken == name) || self.ids.iter().any(|taken| taken == name) {
            return Err(place.wrong("as", format!("{name} is taken: every name is used once")));
        }
        let limit = match fields.get("limit") {
            None => None,
            Some(limit) => match limit.as_u64().and_then(|limit| usize::try_from(limit).ok()) {
                Some(limit) if limit > 0 => Some(limit),
                _ => return Err(place.wrong("limit", "it is a number above 0")),
            },
        };
        let on_error = match fields.get("on_error").map(|word| word.as_str().unwrap_or_default()) {
            None | Some("stop") => OnError::Stop,
            Some("next_item") => OnError::NextItem,
            Some(_) => return Err(place.wrong("on_error", "it is stop or next_item")),
        };
        let outside = self.names.len();
        self.names.push(name.to_owned());
        let filter = self.condition(fields, "where", place)?;
        let steps = self.steps(fields.get("steps"), &format!("{}.steps", place.at), depth + 1)?;
        // What the steps inside bring is known inside alone.
        self.names.truncate(outside);
        Ok(Action::Each { items, name: name.to_owned(), filter, limit, on_error, steps })
    }

    fn rules(&self, rules: &Value, fields: &Map<String, Value>, place: &Place<'_>) -> Result<Action, SpecError> {
        known(fields, &["id", "title", "if", "rules", "text"], place)?;
        let Some(text) = fields.get("text") else {
            let message = "say where the words are looked for, like \"{{ ticket.subject }} {{ ticket.description }}\"";
            return Err(place.wrong("text", message));
        };
        let text = self.template(text, "text", place)?;
        let Some(list) = rules.as_array().filter(|list| (1..=MOST_RULES).contains(&list.len())) else {
            let message = format!("it is a list of 1 to {MOST_RULES} rules, each like {RULE}");
            return Err(place.wrong("rules", message));
        };
        let rules = list.iter().enumerate().map(|(index, rule)| self.rule(rule, &format!("rules[{index}]"), place));
        Ok(Action::Rules { text, rules: rules.collect::<Result<_, _>>()? })
    }

    fn rule(&self, given: &Value, at: &str, place: &Place<'_>) -> Result<Rule, SpecError> {
        let shape = || place.wrong(at, format!("a rule is like {RULE}"));
        let fields = given.as_object().ok_or_else(shape)?;
        if fields.keys().any(|name| !["words", "give"].contains(&name.as_str())) {
            return Err(shape());
        }
        let words = fields.get("words").and_then(Value::as_array).ok_or_else(shape)?;
        let words: Option<Vec<_>> = words.iter().map(|word| word.as_str().map(str::to_owned)).collect();
        let usable = |words: &Vec<String>| {
            (1..=MOST_WORDS).contains(&words.len()) && words.iter().all(|word| !word.trim().is_empty())
        };
        let words = words.filter(usable).ok_or_else(|| {
            place.wrong(&format!("{at}.words"), format!("it is a list of 1 to {MOST_WORDS} words, none of them empty"))
        })?;
        let give = fields.get("give").ok_or_else(shape)?;
        Ok(Rule { words, give: self.shape(give, &format!("{at}.give"), place)? })
    }

    fn template(&self, given: &Value, field: &str, place: &Place<'_>) -> Result<Template, SpecError> {
        let Some(text) = given.as_str() else {
            return Err(
                place.wrong(field, format!("it is a text like \"{{{{ found.tickets }}}}\", not {}", found(given)))
            );
        };
        let template = Template::parse(text).map_err(|error| place.wrong(field, error))?;
        self.known(template.names(), field, place)?;
        Ok(template)
    }

    fn shape(&self, given: &Value, field: &str, place: &Place<'_>) -> Result<Shape, SpecError> {
        let shape = Shape::parse(given).map_err(|(rest, error)| place.wrong(&format!("{field}{rest}"), error))?;
        self.known(shape.names(), field, place)?;
        Ok(shape)
    }

    fn condition(
        &self,
        fields: &Map<String, Value>,
        field: &str,
        place: &Place<'_>,
    ) -> Result<Option<Condition>, SpecError> {
        let Some(given) = fields.get(field) else { return Ok(None) };
        let condition =
            Condition::parse(given).map_err(|(rest, error)| place.wrong(&format!("{field}{rest}"), error))?;
        self.known(condition.names(), field, place)?;
        Ok(Some(condition))
    }

    /// Whether templates name only what there is.
    fn known<'a>(
        &self,
        named: impl IntoIterator<Item = &'a str>,
        field: &str,
        place: &Place<'_>,
    ) -> Result<(), SpecError> {
        let mut unknown = None;
        for name in named {
            if name == "event" {
                self.reads_event.get_or_init(|| place.wrong(field, NO_EVENT));
            }
            if unknown.is_none() && !self.names.iter().any(|known| known == name) {
                unknown = Some(name);
            }
        }
        match unknown {
            None => Ok(()),
            Some(unknown) => {
                let known: Vec<_> = self.names.iter().map(String::as_str).collect();
                Err(place.wrong(field, unknown_name(unknown, &known)))
            }
        }
    }
}

const NO_EVENT: &str = "it reads event, which the runs of a timetable do not have: choose events as the trigger, or find the \
                        tickets in a step of its own";

const RULE: &str = "{\"words\": [\"refund\"], \"give\": {\"tags\": [\"refund\"]}}";

fn known(fields: &Map<String, Value>, allowed: &[&str], place: &Place<'_>) -> Result<(), SpecError> {
    match fields.keys().find(|name| !allowed.contains(&name.as_str())) {
        None => Ok(()),
        Some(unknown) => {
            let message = format!("there is no {unknown} in such a step; there are {}", allowed.join(", "));
            Err(place.wrong(unknown, message))
        }
    }
}

fn optional_text(fields: &Map<String, Value>, field: &str, place: &Place<'_>) -> Result<Option<String>, SpecError> {
    match fields.get(field) {
        None => Ok(None),
        Some(Value::String(text)) if (1..=100).contains(&text.trim().chars().count()) => {
            Ok(Some(text.trim().to_owned()))
        }
        Some(_) => Err(place.wrong(field, "it is a text of 1 to 100 characters")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn search() -> Value {
        json!({"id": "found", "tool": "search_tickets", "with": {"status": ["new"]}, "pages": 2})
    }

    #[test]
    fn a_playbook_is_read() {
        let playbook = Playbook::parse(&json!({
            "kind": "playbook", "data": {"marker": "seen"},
            "steps": [
                search(),
                {"id": "each", "for_each": "{{ found.tickets }}", "as": "ticket", "limit": 5, "on_error": "next_item",
                 "where": {"not": {"value": "{{ ticket.tags }}", "contains": "{{ marker }}"}},
                 "steps": [
                    {"id": "rule", "text": "{{ ticket.subject }}",
                     "rules": [{"words": ["refund"], "give": {"tags": ["refund"], "reply": "Hi {{ ticket.id }}"}}]},
                    {"id": "tag", "on": "desk", "tool": "update_ticket", "title": "Tag it",
                     "if": {"value": "{{ rule }}", "is_empty": false},
                     "with": {"ticket_id": "{{ ticket.id }}", "add_tags": "{{ rule.tags }}"}},
                    {"id": "again", "tool": "update_ticket", "with": {"ticket_id": "{{ run.id }}"}}
                 ]}
            ]
        }))
        .unwrap();

        assert_eq!(
            playbook.uses(),
            [(None, "search_tickets"), (Some("desk"), "update_ticket"), (None, "update_ticket")]
        );
    }

    #[test]
    fn a_bad_playbook_is_told_where_and_what_to_write() {
        let steps = |steps: Value| json!({"steps": steps});
        let inner = |step: Value| json!({"steps": [search(), {"id": "each", "for_each": "{{ found.tickets }}", "as": "ticket", "steps": [step]}]});
        let with = |more: Value| {
            let mut step = search();
            step.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({"steps": [step]})
        };
        for (spec, at, words) in [
            (json!([]), "runner", "a playbook is an object"),
            (json!({}), "steps", "a list of one step or more"),
            (steps(json!([])), "steps", "a list of one step or more"),
            (json!({"kind": "llm", "steps": [search()]}), "kind", "the one kind of runner is playbook"),
            (json!({"steps": [search()], "step": 1}), "step", "there are kind, data, steps"),
            (json!({"steps": [search()], "data": 1}), "data", "an object of constants"),
            (json!({"steps": [search()], "data": {"run": 1}}), "data.run", "none of agent, run and event"),
            (json!({"steps": [search()], "data": {"A": 1}}), "data.A", "a name is lower-case"),
            (json!({"steps": [search()], "data": {"a": ["{{ b }}"]}}), "data.a", "data is taken as it is"),
            (steps(json!(["search"])), "steps[0]", "a step is an object, found text"),
            (steps(json!([{"tool": "x"}])), "steps[0].id", "every step has an id"),
            (steps(json!([{"id": "Found", "tool": "x"}])), "steps[0].id", "every step has an id"),
            (steps(json!([{"id": "run", "tool": "x"}])), "steps[0].id", "run is taken"),
            (steps(json!([search(), search()])), "steps[1].id", "found is taken"),
            (steps(json!([{"id": "a"}])), "steps[0]", "a step has one of tool, for_each, rules"),
            (steps(json!([{"id": "a", "tool": "x", "rules": []}])), "steps[0]", "one of tool, for_each, rules"),
            (with(json!({"args": {}})), "steps[0].args", "there is no args in such a step; there are id, title"),
            (with(json!({"with": []})), "steps[0].with", "an object of arguments"),
            (with(json!({"with": {"tags": ["{{ x"]}})), "steps[0].with.tags[0]", "a {{ has no }}"),
            (
                with(json!({"with": {"a": "{{ ticket.id }}"}})),
                "steps[0].with",
                "nothing is called ticket here; there are",
            ),
            (with(json!({"with": {"a": "{{ found.x }}"}})), "steps[0].with", "nothing is called found here"),
            (with(json!({"pages": 11})), "steps[0].pages", "a number from 1 to 10"),
            (with(json!({"title": ""})), "steps[0].title", "1 to 100 characters"),
            (with(json!({"if": {"value": "x", "is": "{{ y }}"}})), "steps[0].if", "nothing is called y"),
            (with(json!({"if": {"all": [1]}})), "steps[0].if.all[0]", "a condition is an object"),
            (
                steps(json!([{"id": "e", "for_each": ["a"], "as": "x", "steps": [search()]}])),
                "steps[0].for_each",
                "it is a text like",
            ),
            (
                steps(json!([{"id": "e", "for_each": "{{ run.x }}", "steps": [search()]}])),
                "steps[0].as",
                "say what one item is called",
            ),
            (inner(json!({"id": "ticket", "tool": "x"})), "steps[1].steps[0].id", "ticket is taken"),
            (inner(json!({"id": "a", "tool": "x", "with": {"b": "{{ a.b }}"}})), "steps[1].steps[0].with", "called a"),
            (
                inner(json!({"id": "r", "rules": [{"words": ["a"], "give": 1}]})),
                "steps[1].steps[0].text",
                "say where the words are looked for",
            ),
            (
                inner(json!({"id": "r", "text": "x", "rules": [{"words": [" "], "give": 1}]})),
                "steps[1].steps[0].rules[0].words",
                "none of them empty",
            ),
            (
                inner(json!({"id": "r", "text": "x", "rules": [{"words": ["a"], "say": 1}]})),
                "steps[1].steps[0].rules[0]",
                "a rule is like",
            ),
            (
                inner(json!({"id": "r", "text": "x", "rules": [{"words": ["a"], "give": {"reply": "{{ who }}"}}]})),
                "steps[1].steps[0].rules[0].give",
                "nothing is called who here",
            ),
        ] {
            let error = Playbook::parse(&spec).unwrap_err();
            assert_eq!(error.at, at, "{spec}: {error}");
            assert!(error.message.contains(words), "{spec}: {error}");
        }
        let told = Playbook::parse(&with(json!({"pages": 0}))).unwrap_err().to_string();
        assert_eq!(told, "Step \"found\", at steps[0].pages: it is a number from 1 to 10.");
    }

    #[test]
    fn the_first_place_that_reads_the_event_is_known() {
        assert_eq!(Playbook::parse(&json!({"steps": [search()]})).unwrap().reads_event(), None);
        let read = json!({"id": "read", "tool": "get_ticket", "with": {"ticket_id": "{{ event.ticket_id }}"}});
        let asks = json!({"id": "asks", "tool": "search_tickets", "if": {"value": "{{ event }}", "is": null}});
        for (steps, at) in [
            (json!([search(), read]), "steps[1].with"),
            (
                json!([{"id": "each", "for_each": "{{ event.tags }}", "as": "tag", "steps": [search()]}]),
                "steps[0].for_each",
            ),
            (json!([asks, read]), "steps[0].if"),
        ] {
            let playbook = Playbook::parse(&json!({ "steps": steps }));
            let at_first = playbook.as_ref().map(|playbook| playbook.reads_event().map(|error| error.at.as_str()));
            assert_eq!(at_first, Ok(Some(at)), "{steps}");
        }
    }

    #[test]
    fn what_a_loop_brings_is_known_inside_of_it_alone() {
        let spec = json!({"steps": [
            search(),
            {"id": "each", "for_each": "{{ found.tickets }}", "as": "ticket", "steps": [{"id": "read", "tool": "x"}]},
            {"id": "late", "tool": "x", "with": {"a": "{{ read.messages }}"}}
        ]});
        let error = Playbook::parse(&spec).unwrap_err();
        assert_eq!(error.message, "nothing is called read here; there are agent, run, event, found");
    }

    #[test]
    fn a_playbook_has_bounds() {
        let mut deep = json!({"id": "deepest", "tool": "x"});
        for depth in 0..4 {
            deep = json!({"id": format!("e{depth}"), "for_each": "{{ run.list }}", "as": format!("i{depth}"), "steps": [deep]});
        }
        assert!(Playbook::parse(&json!({"steps": [deep]})).unwrap_err().message.contains("at most 3 loops"));
        let many: Vec<_> = (0..51).map(|n| json!({"id": format!("s{n}"), "tool": "x"})).collect();
        assert!(Playbook::parse(&json!({"steps": many})).unwrap_err().message.contains("at most 50 steps"));
        let long = json!({"steps": [search()], "data": {"a": "x".repeat(70_000)}});
        assert!(Playbook::parse(&long).unwrap_err().message.contains("longer than 65536 bytes"));
    }
}
