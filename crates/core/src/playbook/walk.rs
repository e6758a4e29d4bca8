//! Going through a playbook. What is done, and what may be done, is decided by whoever lends the hands.

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{Action, OnError, Playbook, Rule, Step, scope::Scope, words::has_word};
use crate::schema::found;

/// One call that a playbook wants to have made.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The step's id.
    pub step: &'a str,
    /// What people call the step.
    pub title: Option<&'a str>,
    /// The item of the innermost loop.
    pub item: Option<&'a Item>,
    /// The tool.
    pub tool: &'a str,
    /// The name of the connector, where the step says it.
    pub on: Option<&'a str>,
    /// The arguments, without templates.
    pub arguments: &'a Value,
}

/// One item of a loop, for people: `ticket 35436`, 3 of 12.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// What it is, and its id where it has one.
    pub label: String,
    /// Counted from 1.
    pub number: usize,
    /// How many there are.
    pub of: usize,
}

/// Why a step was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault<E> {
    /// It is about this step alone: another item may fare better.
    Step(E),
    /// Nothing more is to be done.
    End(E),
}

/// Does what a playbook says, keeps a record of it, and may end it at each step.
#[async_trait]
pub trait Hands: Send {
    /// Why something failed.
    type Error: Send;

    /// Makes the call. What it answers is what the step brings.
    async fn call(&mut self, call: Call<'_>) -> Result<Value, Fault<Self::Error>>;

    /// A step needed no call: its condition did not hold, or rules were looked through. `outcome` is in words.
    async fn note(
        &mut self,
        step: &str,
        title: Option<&str>,
        item: Option<&Item>,
        skipped: bool,
        outcome: &str,
    ) -> Result<(), Self::Error>;

    /// What the loop of this step went through since it last came to its end, in this run or in earlier ones.
    async fn place(&mut self, step: &str) -> Result<Vec<String>, Self::Error>;

    /// Remembers that for the runs to come.
    async fn keep_place(&mut self, step: &str, seen: &[String]) -> Result<(), Self::Error>;

    /// A step could not even be begun, for a reason in words.
    async fn broken(
        &mut self,
        step: &str,
        title: Option<&str>,
        item: Option<&Item>,
        words: String,
    ) -> Result<Self::Error, Self::Error>;
}

impl Playbook {
    /// Goes through it. `known`: what templates know by these names beside its data, [`super::ALWAYS`].
    pub async fn walk<H: Hands>(&self, known: [(&str, Value); 3], hands: &mut H) -> Result<(), H::Error> {
        let mut scope = Scope::default();
        for (name, value) in known {
            scope.set(name, value);
        }
        for (name, value) in &self.data {
            scope.set(name, value.clone());
        }
        match steps(&self.steps, &mut scope, None, hands).await {
            Ok(()) => Ok(()),
            Err(Fault::Step(error) | Fault::End(error)) => Err(error),
        }
    }
}

async fn steps<H: Hands>(
    list: &[Step],
    scope: &mut Scope,
    item: Option<&Item>,
    hands: &mut H,
) -> Result<(), Fault<H::Error>> {
    for step in list {
        let title = step.title.as_deref();
        if let Some(condition) = &step.condition {
            let holds = condition.holds(scope);
            if !read(holds, "if", step, item, hands).await? {
                hands.note(&step.id, title, item, true, "its condition did not hold").await.map_err(Fault::End)?;
                scope.set(&step.id, Value::Null);
                continue;
            }
        }
        match &step.action {
            Action::Call { tool, on, with, pages, .. } => {
                let arguments = read(with.value(scope), "with", step, item, hands).await?;
                let call = Call { step: &step.id, title, item, tool, on: on.as_deref(), arguments: &arguments };
                let brought = pages_of(call, *pages, hands).await?;
                if *pages > 1 && brought["next_cursor"].is_string() {
                    let words = format!("there are more than {pages} pages; what is on the others was not looked at");
                    hands.note(&step.id, title, item, false, &words).await.map_err(Fault::End)?;
                }
                scope.set(&step.id, brought);
            }
            Action::Rules { text, rules } => {
                let text = read(text.value(scope), "text", step, item, hands).await?;
                let fitting = first(rules, text.as_str().unwrap_or_default());
                let (brought, words) = match fitting {
                    None => (Value::Null, "no rule fits".to_owned()),
                    Some((number, rule, word)) => {
                        let give = read(rule.give.value(scope), "rules", step, item, hands).await?;
                        (give, format!("rule {number} fits, by the word \"{word}\""))
                    }
                };
                hands.note(&step.id, title, item, false, &words).await.map_err(Fault::End)?;
                scope.set(&step.id, brought);
            }
            Action::Each { .. } => Box::pin(each(step, scope, item, hands)).await?,
        }
    }
    Ok(())
}

async fn each<H: Hands>(
    step: &Step,
    scope: &mut Scope,
    outer: Option<&Item>,
    hands: &mut H,
) -> Result<(), Fault<H::Error>> {
    let Action::Each { items, name, filter, limit, .. } = &step.action else { return Ok(()) };
    let list = match read(items.value(scope), "for_each", step, outer, hands).await? {
        Value::Array(list) => list,
        Value::Null => Vec::new(),
        other => {
            let words = format!("for_each: it goes through a list, not {}", found(&other));
            let broken = hands.broken(&step.id, step.title.as_deref(), outer, words).await;
            return Err(broken.map_or_else(Fault::End, Fault::Step));
        }
    };
    let depth = scope.depth();
    let mut chosen = Vec::new();
    for value in list {
        if let Some(filter) = filter {
            scope.set(name, value.clone());
            let holds = filter.holds(scope);
            scope.leave(depth);
            if !read(holds, "where", step, outer, hands).await? {
                continue;
            }
        }
        chosen.push(value);
    }
    // Inner loops begin anew with each item of the outer one.
    let mut round = match limit {
        Some(limit) if outer.is_none() => {
            let round = Round::new(&mut chosen, *limit, hands.place(&step.id).await.map_err(Fault::End)?);
            if round.left > 0 {
                let words = format!(
                    "{} of {} are gone through in this run; left for the next ones: {}",
                    chosen.len(),
                    chosen.len() + round.left + round.before,
                    round.left
                );
                hands.note(&step.id, step.title.as_deref(), None, false, &words).await.map_err(Fault::End)?;
            }
            Some(round)
        }
        Some(limit) => {
            chosen.truncate(*limit);
            None
        }
        None => None,
    };
    let done = go_through(step, chosen, scope, outer, round.as_mut(), hands).await;
    if let Some(round) = round {
        // As far as it came, also where it broke off.
        let kept = hands.keep_place(&step.id, &round.seen).await;
        done?;
        kept.map_err(Fault::End)
    } else {
        done
    }
}

/// The items of a loop with a limit, over as many runs as they need: those that were not gone through yet in this round come
/// next, and once none is left a new round begins.
struct Round {
    /// Gone through in this round, and still there.
    seen: Vec<String>,
    /// How many of these were before this run.
    before: usize,
    /// For the next runs.
    left: usize,
}

impl Round {
    /// Takes out of `items` what this run is for.
    fn new(items: &mut Vec<Value>, limit: usize, seen: Vec<String>) -> Self {
        let all: Vec<String> = items.iter().map(key).collect();
        let mut seen: Vec<String> = seen.into_iter().filter(|seen| all.contains(seen)).collect();
        if all.iter().all(|key| seen.contains(key)) {
            seen.clear();
        }
        items.retain(|item| !seen.contains(&key(item)));
        let left = items.len().saturating_sub(limit);
        items.truncate(limit);
        Self { before: seen.len(), seen, left }
    }
}

/// What tells an item from others: its id, or all of it.
fn key(item: &Value) -> String {
    match &item["id"] {
        Value::String(id) => id.clone(),
        Value::Number(id) => id.to_string(),
        _ => item.to_string().chars().take(200).collect(),
    }
}

async fn go_through<H: Hands>(
    step: &Step,
    chosen: Vec<Value>,
    scope: &mut Scope,
    outer: Option<&Item>,
    mut round: Option<&mut Round>,
    hands: &mut H,
) -> Result<(), Fault<H::Error>> {
    let Action::Each { name, on_error, steps: inner, .. } = &step.action else { return Ok(()) };
    let depth = scope.depth();
    let of = chosen.len();
    if of == 0 {
        hands
            .note(&step.id, step.title.as_deref(), outer, true, "there is nothing to go through")
            .await
            .map_err(Fault::End)?;
    }
    for (index, value) in chosen.into_iter().enumerate() {
        let item = Item { label: label(name, &value), number: index + 1, of };
        let key = key(&value);
        scope.set(name, value);
        let done = steps(inner, scope, Some(&item), hands).await;
        scope.leave(depth);
        match done {
            Ok(()) => {}
            Err(Fault::Step(_)) if *on_error == OnError::NextItem => {}
            Err(fault) => return Err(fault),
        }
        if let Some(round) = round.as_deref_mut() {
            round.seen.push(key);
        }
    }
    Ok(())
}

/// The call, and the pages after the first: their lists are put together.
async fn pages_of<H: Hands>(call: Call<'_>, pages: u32, hands: &mut H) -> Result<Value, Fault<H::Error>> {
    let mut all = hands.call(call).await?;
    for _ in 1..pages {
        let Some(cursor) = all["next_cursor"].as_str() else { break };
        let mut arguments = call.arguments.clone();
        arguments["cursor"] = json!(cursor);
        let next = hands.call(Call { arguments: &arguments, ..call }).await?;
        let (Some(all), Value::Object(next)) = (all.as_object_mut(), next) else { break };
        for (name, value) in next {
            match (all.get_mut(&name), value) {
                (Some(Value::Array(so_far)), Value::Array(more)) => so_far.extend(more),
                (_, value) => drop(all.insert(name, value)),
            }
        }
    }
    Ok(all)
}

/// A value, or the step that could not be begun.
async fn read<T, H: Hands>(
    value: Result<T, String>,
    field: &str,
    step: &Step,
    item: Option<&Item>,
    hands: &mut H,
) -> Result<T, Fault<H::Error>> {
    match value {
        Ok(value) => Ok(value),
        Err(words) => {
            let broken = hands.broken(&step.id, step.title.as_deref(), item, format!("{field}: {words}")).await;
            Err(broken.map_or_else(Fault::End, Fault::Step))
        }
    }
}

/// The first rule that fits, counted from 1, and the word that made it.
fn first<'a>(rules: &'a [Rule], text: &str) -> Option<(usize, &'a Rule, &'a str)> {
    rules.iter().zip(1..).find_map(|(rule, number)| {
        let word = rule.words.iter().find(|word| has_word(text, word))?;
        Some((number, rule, word.as_str()))
    })
}

fn label(name: &str, value: &Value) -> String {
    match &value["id"] {
        Value::String(id) => format!("{name} {}", id.chars().take(60).collect::<String>()),
        Value::Number(id) => format!("{name} {id}"),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Remembers what it was asked, and answers from a list by tool.
    #[derive(Default)]
    struct Script {
        answers: Vec<(&'static str, Result<Value, Fault<String>>)>,
        log: Vec<String>,
        place: Vec<String>,
    }

    #[async_trait]
    impl Hands for Script {
        type Error = String;

        async fn call(&mut self, call: Call<'_>) -> Result<Value, Fault<String>> {
            let item = call.item.map(|item| format!(" [{} {}/{}]", item.label, item.number, item.of));
            let arguments: std::collections::BTreeMap<_, _> = call.arguments.as_object().unwrap().iter().collect();
            let arguments = serde_json::to_string(&arguments).unwrap();
            self.log.push(format!("{}{}: {} {arguments}", call.step, item.unwrap_or_default(), call.tool));
            match self.answers.iter().position(|(tool, _)| *tool == call.tool) {
                Some(at) => self.answers.remove(at).1,
                None => Ok(Value::Null),
            }
        }

        async fn note(
            &mut self,
            step: &str,
            _title: Option<&str>,
            _item: Option<&Item>,
            _skipped: bool,
            outcome: &str,
        ) -> Result<(), String> {
            self.log.push(format!("{step}: {outcome}"));
            Ok(())
        }

        async fn place(&mut self, _step: &str) -> Result<Vec<String>, String> {
            Ok(self.place.clone())
        }

        async fn keep_place(&mut self, _step: &str, seen: &[String]) -> Result<(), String> {
            self.place = seen.to_vec();
            Ok(())
        }

        async fn broken(
            &mut self,
            step: &str,
            _title: Option<&str>,
            _item: Option<&Item>,
            words: String,
        ) -> Result<String, String> {
            self.log.push(format!("{step}: broken"));
            Ok(words)
        }
    }

    fn known() -> [(&'static str, Value); 3] {
        [("agent", json!({"name": "A"})), ("run", json!({"id": "run_1"})), ("event", json!({"ticket_id": "7"}))]
    }

    async fn walk(
        spec: Value,
        answers: Vec<(&'static str, Result<Value, Fault<String>>)>,
    ) -> (Vec<String>, Result<(), String>) {
        let mut script = Script { answers, ..Script::default() };
        let playbook = Playbook::parse(&spec).unwrap();
        let ended = playbook.walk(known(), &mut script).await;
        (script.log, ended)
    }

    fn loop_over(list: &Value, more: &Value, steps: &Value) -> Value {
        let mut each = json!({"id": "each", "for_each": "{{ list }}", "as": "ticket", "steps": steps});
        each.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"data": {"list": list}, "steps": [each]})
    }

    #[tokio::test]
    async fn steps_are_done_in_order_with_what_came_before() {
        let spec = json!({
            "data": {"marker": "seen"},
            "steps": [
                {"id": "found", "tool": "search", "with": {"tags": ["{{ marker }}"], "who": "{{ agent.name }}"}},
                {"id": "never", "tool": "search", "if": {"value": "{{ found.total }}", "more_than": 5}},
                {"id": "last", "tool": "update", "with": {"id": "{{ found.tickets.0.id }}", "was": "{{ never.x }}"}}
            ]
        });

        let (log, ended) = walk(spec, vec![("search", Ok(json!({"total": 1, "tickets": [{"id": "7"}]})))]).await;

        assert_eq!(ended, Ok(()));
        assert_eq!(
            log,
            [
                r#"found: search {"tags":["seen"],"who":"A"}"#,
                "never: its condition did not hold",
                r#"last: update {"id":"7","was":null}"#,
            ]
        );
    }

    #[tokio::test]
    async fn pages_are_put_together_up_to_the_bound() {
        let page = |id: &str, next: Value| ("search", Ok(json!({"tickets": [{"id": id}], "next_cursor": next})));
        let spec = |pages: u32| {
            json!({"steps": [
                {"id": "found", "tool": "search", "with": {"q": "x"}, "pages": pages},
                {"id": "each", "for_each": "{{ found.tickets }}", "as": "t", "steps": [{"id": "see", "tool": "see"}]}
            ]})
        };
        let answers = || vec![page("1", json!("c2")), page("2", json!("c3")), page("3", json!(null))];

        let (all, _) = walk(spec(5), answers()).await;
        let (two, _) = walk(spec(2), answers()).await;

        assert_eq!(
            all[..3],
            [
                r#"found: search {"q":"x"}"#,
                r#"found: search {"cursor":"c2","q":"x"}"#,
                r#"found: search {"cursor":"c3","q":"x"}"#
            ]
        );
        assert_eq!(all[3..], ["see [t 1 1/3]: see {}", "see [t 2 2/3]: see {}", "see [t 3 3/3]: see {}"]);
        assert_eq!(two.len(), 5, "{two:?}");
        assert_eq!(two[2], "found: there are more than 2 pages; what is on the others was not looked at");
    }

    #[tokio::test]
    async fn a_loop_filters_and_has_a_limit() {
        let list = json!([{"id": "1", "tags": ["seen"]}, {"id": "2", "tags": []}, {"id": "3", "tags": []}, {"id": "4", "tags": []}]);
        let more = json!({"where": {"not": {"value": "{{ ticket.tags }}", "contains": "seen"}}, "limit": 2});
        let steps = json!([{"id": "see", "tool": "see", "with": {"id": "{{ ticket.id }}"}}]);

        let (log, ended) = walk(loop_over(&list, &more, &steps), Vec::new()).await;
        let (none, _) = walk(loop_over(&json!([]), &json!({}), &steps), Vec::new()).await;

        assert_eq!(ended, Ok(()));
        let left = "each: 2 of 3 are gone through in this run; left for the next ones: 1";
        assert_eq!(log, [left, r#"see [ticket 2 1/2]: see {"id":"2"}"#, r#"see [ticket 3 2/2]: see {"id":"3"}"#]);
        assert_eq!(none, ["each: there is nothing to go through"]);
    }

    #[tokio::test]
    async fn a_loop_with_a_limit_goes_on_in_the_next_run_until_it_has_been_through_all() {
        let ids = |ids: &[u32]| -> Value { ids.iter().map(|id| json!({"id": id.to_string()})).collect() };
        let steps = json!([{"id": "see", "tool": "see"}]);
        let mut script = Script::default();
        let mut run = async |list: &Value, fails: bool| {
            script.log.clear();
            if fails {
                script.answers = vec![("see", Ok(Value::Null)), ("see", Err(Fault::End("away".to_owned())))];
            }
            let playbook = Playbook::parse(&loop_over(list, &json!({"limit": 2}), &steps)).unwrap();
            let ended = playbook.walk(known(), &mut script).await;
            assert_eq!(ended.is_err(), fails);
            script.log.iter().map(|line| line.split(": see").next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let said = |two: &str, left: u32, of: u32| -> String {
            format!("each: {two} of {of} are gone through in this run; left for the next ones: {left}")
        };

        let five = ids(&[5, 4, 3, 2, 1]);
        assert_eq!(
            run(&five, false).await,
            [said("2", 3, 5), "see [ticket 5 1/2]".into(), "see [ticket 4 2/2]".into()]
        );
        // One came in, one is gone; and it breaks off at its second item.
        let six = ids(&[6, 5, 3, 2, 1]);
        assert_eq!(run(&six, true).await, [said("2", 2, 5), "see [ticket 6 1/2]".into(), "see [ticket 3 2/2]".into()]);
        assert_eq!(run(&six, false).await, [said("2", 1, 5), "see [ticket 3 1/2]".into(), "see [ticket 2 2/2]".into()]);
        assert_eq!(run(&six, false).await, ["see [ticket 1 1/1]"]);
        assert_eq!(run(&six, false).await, [said("2", 3, 5), "see [ticket 6 1/2]".into(), "see [ticket 5 2/2]".into()]);
        // As many as it may take: all of them each time.
        let two = ids(&[8, 7]);
        for _ in 0..2 {
            assert_eq!(run(&two, false).await, ["see [ticket 8 1/2]", "see [ticket 7 2/2]"]);
        }
    }

    #[tokio::test]
    async fn the_first_rule_that_fits_gives() {
        let list = json!([{"id": "1", "subject": "Refund? Invoice!"}, {"id": "2", "subject": "Hello"}]);
        let steps = json!([
            {"id": "rule", "text": "{{ ticket.subject }}", "rules": [
                {"words": ["money back", "refund"], "give": {"tags": ["refund"], "reply": "About {{ ticket.id }}"}},
                {"words": ["invoice"], "give": {"tags": ["billing"], "reply": "x"}}
            ]},
            {"id": "tag", "tool": "update", "if": {"value": "{{ rule }}", "is_empty": false}, "with": {"tags": "{{ rule.tags }}", "body": "{{ rule.reply }}"}}
        ]);

        let (log, ended) = walk(loop_over(&list, &json!({}), &steps), Vec::new()).await;

        assert_eq!(ended, Ok(()));
        assert_eq!(
            log,
            [
                "rule: rule 1 fits, by the word \"refund\"",
                r#"tag [ticket 1 1/2]: update {"body":"About 1","tags":["refund"]}"#,
                "rule: no rule fits",
                "tag: its condition did not hold",
            ]
        );
    }

    #[tokio::test]
    async fn a_failure_ends_the_run_or_the_item_as_it_says() {
        let list = json!([{"id": "1"}, {"id": "2"}]);
        let steps = json!([{"id": "one", "tool": "one"}, {"id": "two", "tool": "two"}]);
        let gone = || vec![("one", Err(Fault::Step("gone".to_owned())))];
        let next = json!({"on_error": "next_item"});

        let (stopped, why) = walk(loop_over(&list, &json!({}), &steps), gone()).await;
        let (went_on, fine) = walk(loop_over(&list, &next, &steps), gone()).await;
        let (ended, end) =
            walk(loop_over(&list, &next, &steps), vec![("one", Err(Fault::End("off".to_owned())))]).await;

        assert_eq!((stopped.len(), why), (1, Err("gone".to_owned())));
        assert_eq!(went_on, ["one [ticket 1 1/2]: one {}", "one [ticket 2 2/2]: one {}", "two [ticket 2 2/2]: two {}"]);
        assert_eq!(fine, Ok(()));
        assert_eq!((ended.len(), end), (1, Err("off".to_owned())), "an end is an end");
    }

    #[tokio::test]
    async fn a_step_that_cannot_be_begun_says_why() {
        let spec = json!({"steps": [{"id": "bad", "tool": "x", "with": {"id": "{{ run.nothing }}"}}]});
        let (log, ended) = walk(spec, Vec::new()).await;
        assert_eq!(log, ["bad: broken"]);
        assert_eq!(ended, Err("with: {{ run.nothing }}: run has no nothing; it has id".to_owned()));

        let spec =
            json!({"steps": [{"id": "e", "for_each": "{{ run.id }}", "as": "x", "steps": [{"id": "y", "tool": "y"}]}]});
        let (_, ended) = walk(spec, Vec::new()).await;
        assert_eq!(ended, Err("for_each: it goes through a list, not text".to_owned()));
    }
}
