use holdfast_store::{RunEvent, SaidBy};
use serde_json::{Value, json};

use super::*;

fn came(order: u32, topic: &str, by: SaidBy) -> Delivery {
    Delivery {
        id: format!("dlv_{order:04}").as_str().into(),
        connector: "con_1".into(),
        connector_name: String::new(),
        provider: "zendesk".to_owned(),
        account: "acme".to_owned(),
        endpoint: "whk".to_owned(),
        topic: format!("ticket.{topic}"),
        kind: topic.to_owned(),
        subject: Some("42".to_owned()),
        by,
        state: DeliveryState::Processed,
        detail: None,
        same_as: None,
        passed_over: Some(Vec::new()),
        job: Some("job_1".into()),
        repeats: 0,
        size_bytes: 1,
        headers: Value::Null,
        received_at: DateTime::UNIX_EPOCH,
        settled_at: None,
    }
}

fn passing(order: u32, why: WhyNoRun) -> Delivery {
    let passed = PassedOver { agent: "agt_1".into(), name: "Noting".to_owned(), why };
    Delivery { passed_over: Some(vec![passed]), ..came(order, "created", SaidBy::Customer) }
}

fn run(order: u32, agent: &str, state: RunState) -> (Run, String) {
    let run = Run {
        id: format!("run_{order:04}").as_str().into(),
        org: "org_1".into(),
        agent: format!("agt_{agent}").as_str().into(),
        state,
        actor: None,
        dry: false,
        queued_at: DateTime::UNIX_EPOCH,
        started_at: None,
        ended_at: None,
        code: None,
        detail: None,
        connector: None,
        calls: 0,
        writes: 0,
        failures: 0,
        event: Some(RunEvent { known: json!({}), delivery: None, job: Some("job_2".into()) }),
    };
    (run, agent.to_owned())
}

#[derive(Default)]
struct Known {
    said: Vec<Delivery>,
    came: Vec<Delivery>,
    runs: Vec<(Run, String)>,
    answer: Option<(Run, String)>,
}

impl Known {
    /// What is told of it, and what its buttons say.
    fn told(&self, case: &Case<'_>) -> (String, Vec<String>) {
        let Self { said, came, runs, answer } = self;
        let standing = Standing::of(Facts { said, came, runs, answer: answer.as_ref(), lines: &[] });
        let why = case.why(standing.expect("something is known"));
        (why.words, why.acts.into_iter().map(|act| act.label).collect())
    }
}

fn on() -> RunTicket {
    RunTicket { connector: "con_1".into(), ticket: "42".to_owned() }
}

fn case(on: &RunTicket) -> Case<'_> {
    Case {
        name: "acme.zendesk.com".to_owned(),
        health: Health::Connected,
        on,
        lines: &[],
        reader: Role::Admin,
        paused: None,
        broken: None,
        now: DateTime::UNIX_EPOCH,
    }
}

#[test]
fn an_answer_after_the_customers_last_word_is_an_answer_whatever_came_after() {
    let created = || came(1, "created", SaidBy::Unknown);
    let answer = || Some(run(2, "Answering", RunState::Succeeded));
    let of = |said: Vec<Delivery>| Known { said, runs: answer().into_iter().collect(), answer: answer(), came: vec![] };
    let told = |known: &Known| known.told(&case(&on())).0;

    // The echo of a helpdesk that says who wrote it is nothing that was said; an update is not either.
    let mut updated = of(vec![created()]);
    updated.came = vec![came(4, "changed", SaidBy::Unknown), came(3, "replied", SaidBy::Us), created()];
    assert!(told(&updated).starts_with("Answering answered it"), "{}", told(&updated));
    assert!(!told(&updated).contains("What came in since"));
    // Where it says nothing, or staff, it is one all the same.
    let echo = of(vec![came(3, "replied", SaidBy::Unknown), created()]);
    assert!(told(&echo).contains("answered it") && told(&echo).contains("perhaps that answer itself"));
    let staff = of(vec![came(3, "replied", SaidBy::Staff), created()]);
    assert!(told(&staff).contains("answered it") && !told(&staff).contains("perhaps"));
    // The first word is forgotten by now.
    assert!(told(&of(vec![came(3, "replied", SaidBy::Unknown)])).contains("answered it"));

    let mut again = of(vec![came(3, "replied", SaidBy::Customer), created()]);
    again.said[0].passed_over = passing(3, WhyNoRun::OtherEvents).passed_over;
    assert_eq!(told(&again), "No agent was set off: Noting waits for other events.");
    let waits = Delivery { state: DeliveryState::Received, ..came(3, "replied", SaidBy::Unknown) };
    assert!(told(&of(vec![waits, created()])).contains("has not been worked off yet"));
    let mut failed = of(vec![came(3, "replied", SaidBy::Unknown), created()]);
    failed.runs.insert(0, run(4, "Answering", RunState::Failed));
    assert!(told(&failed).contains("its run failed"), "{}", told(&failed));
}

#[test]
fn who_was_passed_over_is_told_with_what_to_do() {
    for (why, words, act) in [
        (
            WhyNoRun::OtherEvents,
            "No agent was set off: Noting waits for other events.",
            Some("Change when Noting runs"),
        ),
        (
            WhyNoRun::BySchedule,
            "Noting runs by its schedule, and looks for tickets itself",
            Some("Change when Noting runs"),
        ),
        (WhyNoRun::ByHand, "Noting runs only by hand", Some("Change when Noting runs")),
        (WhyNoRun::ToldBefore, "Noting had a run for this change already", Some("To Noting")),
        (WhyNoRun::OurOwn, "was written by this connector itself", None),
    ] {
        let known = Known { said: vec![passing(1, why)], ..Known::default() };
        let (told, acts) = known.told(&case(&on()));
        assert!(told.contains(words), "{told}");
        assert_eq!(acts, act.into_iter().collect::<Vec<_>>(), "{why:?}");
    }
    let nobody = Known { said: vec![came(1, "created", SaidBy::Customer)], ..Known::default() };
    let (told, acts) = nobody.told(&case(&on()));
    assert!(told.contains("none works with acme.zendesk.com"), "{told}");
    assert_eq!(acts, ["Make an agent"]);
    assert!(nobody.told(&Case { reader: Role::Member, ..case(&on()) }).1.is_empty());
}

#[test]
fn the_newest_run_of_each_agent_counts() {
    let since =
        |runs: Vec<(Run, String)>| Known { said: vec![came(1, "created", SaidBy::Customer)], runs, ..Known::default() };
    for (runs, words) in [
        (vec![run(2, "One", RunState::Failed)], "One was set off, and its run failed."),
        (vec![run(2, "One", RunState::Running)], "One is working on it."),
        (vec![run(2, "One", RunState::Queued)], "One is to run next."),
        (vec![run(3, "One", RunState::Succeeded), run(2, "One", RunState::Failed)], "One went through it"),
        (
            vec![run(3, "One", RunState::Succeeded), run(2, "Two", RunState::Failed)],
            "Two was set off, and its run failed.",
        ),
        (vec![run(3, "One", RunState::Running), run(2, "One", RunState::Failed)], "One is working on it."),
    ] {
        let (told, _) = since(runs).told(&case(&on()));
        assert!(told.starts_with(words), "{told}");
    }
    let failed = since(vec![run(2, "One", RunState::Failed)]);
    for (reader, health, acts) in [
        (Role::Member, Health::AuthFailed, vec!["Reconnect Shop", "Try again", "To the run", "To One"]),
        (Role::Viewer, Health::Pending, vec!["Connect Shop", "To the run", "To One"]),
    ] {
        let broken = Some(Broken { id: "con_2".into(), name: "Shop".to_owned(), health });
        assert_eq!(failed.told(&Case { reader, broken, ..case(&on()) }).1, acts);
    }
}

#[test]
fn after_a_pause_it_is_run_by_who_may_on_the_connector_of_the_ticket() {
    let known = Known { said: vec![passing(1, WhyNoRun::Paused)], ..Known::default() };
    for (reader, is_paused, role, acts, words) in [
        (Role::Admin, true, Some("desk"), vec!["Resume Noting", "To Noting"], "Resume it"),
        (Role::Member, true, Some("desk"), vec!["To Noting"], "An admin can resume it."),
        (Role::Member, false, Some("desk"), vec!["Run Noting for it"], "when you run it"),
        (Role::Viewer, false, Some("desk"), vec!["To Noting"], "when a member runs it"),
        (Role::Admin, false, None, vec!["To Noting"], "does not work with acme.zendesk.com any more"),
    ] {
        let paused = Some(Now { id: "agt_1".into(), paused: is_paused, role: role.map(str::to_owned) });
        let (on, facts) = (on(), Facts { said: &known.said, came: &[], runs: &[], answer: None, lines: &[] });
        let case = Case { reader, paused, ..case(&on) };
        assert_eq!(known.told(&case).1, acts);
        let why = case.why(Standing::of(facts).unwrap());
        assert!(why.words.contains(words), "{}", why.words);
        let page = why.acts.last().map(|act| act.href.as_str());
        let expected = if role.is_some() { "/agents/agt_1?ticket=42&role=desk" } else { "/agents/agt_1?ticket=42" };
        assert_eq!(page, Some(expected));
    }
}
