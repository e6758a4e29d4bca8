//! Agents against the sandbox: the samples, what stops them, what starts them again.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use holdfast_core::ports::{Signal, Signals as _};
use holdfast_sandbox::Helpdesk;
use holdfast_tests::{
    browser::Browser,
    database::{Database, on_postgres},
    on_both,
    service::{Answer, LIFE, TestApp},
    wait::until,
};
use reqwest::Method;
use serde_json::{Value, json};

on_both! {
    urgent_tickets_are_annotated_once,
    a_note_that_is_there_already_is_not_written_again,
    new_tickets_are_tagged_and_answered_by_rule_once,
    a_dry_run_shows_what_it_would_do_and_does_nothing,
    a_failure_stops_exactly_the_agents_that_need_it_and_a_reconnect_starts_them_again,
    nothing_more_happens_once_it_is_off,
    a_run_ends_between_two_steps_when_its_agent_is_paused,
    a_run_ends_between_two_steps_when_the_service_stops,
    an_agent_that_is_due_runs_by_itself,
    an_agent_runs_at_the_times_of_its_calendar,
    what_a_calendar_missed_is_made_up_for_once_or_left_out,
    a_bad_calendar_is_told_by_its_field,
    a_provider_that_is_away_fails_the_run_and_stops_nobody,
    one_bad_ticket_does_not_keep_the_others_from_being_done,
    a_deleted_connector_leaves_its_agent_stopped_until_it_is_bound_anew,
    a_bad_agent_is_told_where_and_what_to_write,
    an_agent_is_made_changed_and_deleted,
    another_organisations_agents_do_not_exist,
    what_looks_like_a_credential_is_masked_in_a_run,
}

/// Above what a double holds: every fortieth ticket has such an id.
const ABOVE_DOUBLE: i64 = 9_007_199_254_740_993;

/// All tickets of a helpdesk, by id.
fn tickets(desk: &Helpdesk) -> BTreeMap<i64, Value> {
    let ids = (1..=320).flat_map(|number| [number, ABOVE_DOUBLE + number]);
    ids.filter_map(|id| Some((id, desk.ticket(id)?))).collect()
}

fn with<'a>(all: &'a BTreeMap<i64, Value>, status: &[&str], priority: Option<&str>) -> Vec<(&'a i64, &'a Value)> {
    let fits = |ticket: &Value| {
        status.contains(&ticket["status"].as_str().unwrap())
            && priority.is_none_or(|priority| ticket["priority"] == priority)
    };
    all.iter().filter(|(_, ticket)| fits(ticket)).collect()
}

fn is_tagged(ticket: &Value, tag: &str) -> bool {
    ticket["tags"].as_array().unwrap().contains(&json!(tag))
}

/// What holds the words in the comments of a ticket.
fn holding(desk: &Helpdesk, id: i64, words: &str) -> Vec<Value> {
    desk.comments(id).into_iter().filter(|comment| comment["body"].as_str().unwrap().contains(words)).collect()
}

async fn make(app: &TestApp, body: Value) -> String {
    app.post("/agents", body).await.expect(201).text_of("id")
}

fn sample(name: &str, connector: &str) -> Value {
    json!({ "sample": name, "connectors": [{ "connector": connector }], "trigger": { "kind": "manual" } })
}

/// An agent that asks for one page of tickets, and reads the first ones.
fn reader(connector: &str, reads: u32) -> Value {
    json!({
        "name": "Reader",
        "runner": { "kind": "playbook", "steps": [
            { "id": "found", "tool": "search_tickets", "with": { "limit": 5 } },
            { "id": "each", "for_each": "{{ found.tickets }}", "as": "ticket", "limit": reads, "steps": [
                { "id": "read", "tool": "get_ticket", "with": { "ticket_id": "{{ ticket.id }}" } }
            ] }
        ] },
        "connectors": [{ "connector": connector }],
    })
}

async fn ask(app: &TestApp, agent: &str, dry: bool) -> String {
    app.post(&format!("/agents/{agent}/run"), json!({ "dry_run": dry })).await.expect(202).text_of("id")
}

/// Asks for a run and goes through it; answers it with its steps.
async fn run(app: &TestApp, agent: &str, dry: bool) -> Value {
    let run = ask(app, agent, dry).await;
    assert_eq!(app.app.run_due_agents().await.unwrap(), 1);
    shown(app, agent, &run).await
}

async fn shown(app: &TestApp, agent: &str, run: &str) -> Value {
    app.get(&format!("/agents/{agent}/runs/{run}")).await.expect(200).json
}

async fn show(app: &TestApp, agent: &str) -> Value {
    app.get(&format!("/agents/{agent}")).await.expect(200).json
}

fn steps(run: &Value) -> Vec<(&str, &str)> {
    run["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| (step["step"].as_str().unwrap(), step["outcome"].as_str().unwrap_or("under way")))
        .collect()
}

async fn tool(app: &TestApp, connector: &str, tool: &str, body: Value) -> Answer {
    app.post(&format!("/connectors/{connector}/tools/{tool}"), body).await
}

async fn urgent_tickets_are_annotated_once(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let before = tickets(&app.acme);
    let urgent: Vec<i64> = with(&before, &["new", "open"], Some("urgent")).iter().map(|(id, _)| **id).collect();
    assert!((10..25).contains(&urgent.len()), "one run does them all: {urgent:?}");
    let agent = make(&app, sample("annotate_urgent_tickets", &id)).await;

    let first = run(&app, &agent, false).await;
    let last = run(&app, &agent, false).await;

    assert_eq!(first["state"], "succeeded", "{first}");
    assert_eq!(first["steps"][0]["tool"], "search_tickets");
    assert_eq!(first["steps"][0]["access"], "read");
    let note = first["steps"].as_array().unwrap().iter().find(|step| step["step"] == "note").unwrap();
    assert_eq!(
        (&note["outcome"], &note["access"], &note["input"]["public"]),
        (&json!("done"), &json!("write"), &json!(false))
    );
    assert!(note["item"].as_str().unwrap().starts_with("ticket "), "{note}");
    for (id, old) in &before {
        let new = app.acme.ticket(*id).unwrap();
        let notes = holding(&app.acme, *id, "(holdfast_annotated)");
        if urgent.contains(id) {
            assert_eq!(notes.len(), 1, "{id}");
            assert_eq!(notes[0]["public"], false);
            assert!(
                notes[0]["body"].as_str().unwrap().starts_with("Urgent: ")
                    && !notes[0]["body"].as_str().unwrap().contains("a customer"),
                "{}",
                notes[0]["body"]
            );
            assert!(is_tagged(&new, "holdfast_annotated"));
        } else {
            assert_eq!((&new["tags"], notes.len()), (&old["tags"], 0), "{id}");
        }
    }
    assert_eq!(last["writes"], 0, "a further run does nothing more: {last}");
    assert_eq!(steps(&last).last(), Some(&("each", "skipped")));
}

/// The search may lag behind, and a run may break off between note and tag: the conversation itself has the last word.
async fn a_note_that_is_there_already_is_not_written_again(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let agent = make(&app, sample("annotate_urgent_tickets", &id)).await;
    let done = run(&app, &agent, false).await;
    let note = done["steps"].as_array().unwrap().iter().find(|step| step["step"] == "note").unwrap();
    let ticket = note["input"]["ticket_id"].as_str().unwrap().to_owned();
    let body = json!({ "arguments": { "ticket_id": ticket, "remove_tags": ["holdfast_annotated"] } });
    let _untagged = tool(&app, &id, "update_ticket", body).await.expect(200);

    let again = run(&app, &agent, false).await;

    let about =
        |step: &&Value| step["item"].as_str().is_some_and(|item| item.starts_with(&format!("ticket {ticket} ")));
    let steps: Vec<_> = again["steps"].as_array().unwrap().iter().filter(about).collect();
    let outcomes: Vec<_> =
        steps.iter().map(|step| (step["step"].as_str().unwrap(), step["outcome"].as_str().unwrap())).collect();
    assert_eq!(outcomes, [("read", "done"), ("note", "skipped"), ("mark", "done")]);
    assert_eq!(holding(&app.acme, ticket.parse().unwrap(), "(holdfast_annotated)").len(), 1);
}

async fn new_tickets_are_tagged_and_answered_by_rule_once(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let before = tickets(&app.acme);
    let agent = make(&app, sample("tag_and_answer_by_rule", &id)).await;

    let first = run(&app, &agent, false).await;
    let second = run(&app, &agent, false).await;

    assert_eq!((&first["state"], &first["failures"]), (&json!("succeeded"), &json!(0)), "{first}");
    assert_eq!(second["writes"], 0, "nobody is answered twice: {second}");
    let mut answered = 0;
    for (id, old) in with(&before, &["new"], None) {
        let new = app.acme.ticket(*id).unwrap();
        let subject = old["subject"].as_str().unwrap().to_lowercase();
        let replies = holding(&app.acme, *id, "Hello ");
        let added: Vec<_> = replies.iter().filter(|reply| reply["body"].as_str().unwrap().contains(",\n\n")).collect();
        if subject.contains("refund") || subject.contains("charged twice") {
            answered += 1;
            assert!(is_tagged(&new, "refund") && is_tagged(&new, "holdfast_answered"), "{new}");
            assert_eq!((added.len(), &added[0]["public"]), (1, &json!(true)), "{id}");
            let body = added[0]["body"].as_str().unwrap();
            assert!(!body.contains("{{") && !body.contains("Hello there"), "by name: {body}");
        } else if subject.contains("dark mode") {
            assert_eq!((&new["tags"], added.len()), (&old["tags"], 0), "no rule fits");
        }
    }
    assert!(answered > 0);
    let untouched = |status: &str| {
        with(&before, &[status], None).iter().all(|(id, old)| app.acme.ticket(**id).unwrap()["tags"] == old["tags"])
    };
    assert!(untouched("open") && untouched("solved"), "only new tickets");
    let rule = first["steps"].as_array().unwrap().iter().find(|step| step["step"] == "rule").unwrap();
    assert!(rule["detail"].as_str().unwrap().contains("rule"), "{rule}");
}

async fn a_dry_run_shows_what_it_would_do_and_does_nothing(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let before = tickets(&app.acme);
    let mut body = sample("annotate_urgent_tickets", &id);
    body["paused"] = json!(true);
    let agent = make(&app, body).await;
    assert_eq!(show(&app, &agent).await["status"], "paused");
    let _real = app.post(&format!("/agents/{agent}/run"), json!({})).await.problem(409, "agent_paused");

    let dry = run(&app, &agent, true).await;

    assert_eq!((&dry["state"], &dry["dry_run"]), (&json!("succeeded"), &json!(true)), "{dry}");
    let writes: Vec<_> = dry["steps"].as_array().unwrap().iter().filter(|step| step["access"] == "write").collect();
    assert!(writes.len() > 10 && writes.iter().all(|step| step["outcome"] == "shown"), "{writes:?}");
    assert!(writes[0]["input"]["body"].as_str().unwrap().contains("Urgent"), "{}", writes[0]);
    assert_eq!(dry["writes"].as_u64().unwrap(), writes.len() as u64);
    assert_eq!(tickets(&app.acme), before, "nothing was changed");
}

/// HL-01: in the same moment in which the refusal is known, everything says so.
async fn a_failure_stops_exactly_the_agents_that_need_it_and_a_reconnect_starts_them_again(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let acme = app.import_with("acme", json!({ "name": "Support" })).await;
    let globex = app.import("globex").await;
    let mut scheduled = sample("annotate_urgent_tickets", &acme);
    scheduled["trigger"] = json!({ "kind": "schedule", "every_secs": 3600 });
    let one = make(&app, scheduled).await;
    let other = make(&app, sample("annotate_urgent_tickets", &globex)).await;
    let copy = json!({ "kind": "playbook", "steps": [
        { "id": "from", "tool": "search_tickets", "on": "source" },
        { "id": "to", "tool": "search_tickets", "on": "target" }
    ] });
    let both = make(
        &app,
        json!({ "name": "Both", "runner": copy, "connectors": [
        { "connector": acme, "role": "source" }, { "connector": globex, "role": "target" }
    ] }),
    )
    .await;
    assert_eq!(app.app.run_due_agents().await.unwrap(), 1, "the first run is due at once");
    let agents = app.show(&acme).await["agents"].clone();
    let names: Vec<_> = agents.as_array().unwrap().iter().map(|agent| agent["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["Annotate urgent tickets", "Both"]);
    let mut signals = app.app.store.subscribe();

    app.acme.revoke(None);
    app.advance(LIFE);
    let failed = run(&app, &both, false).await;

    assert_eq!(
        (&failed["state"], &failed["error"]["code"]),
        (&json!("failed"), &json!("connector_auth_failed")),
        "{failed}"
    );
    assert_eq!(failed["error"]["connector_id"], json!(acme));
    assert_eq!(failed["error"]["reconnect_url"], json!(format!("{}/connectors/{acme}", app.base)));
    assert!(failed["error"]["detail"].as_str().unwrap().contains("refused the refresh token"), "{failed}");
    assert_eq!(steps(&failed), [("from", "failed")], "the next step is not begun");
    for (agent, status) in [(&one, "deactivated"), (&both, "deactivated"), (&other, "active")] {
        assert_eq!(show(&app, agent).await["status"], status);
    }
    let stopped = show(&app, &one).await;
    assert_eq!(stopped["status_words"], "Stopped: Zendesk acme needs Reconnect");
    assert_eq!(stopped["next_run_at"], json!(null));
    let [cause] = stopped["stopped_by"].as_array().unwrap().as_slice() else { panic!("{stopped}") };
    let health = app.show(&acme).await;
    assert_eq!((&cause["reason"], &cause["epoch"]), (&json!("auth_failed"), &health["epoch"]));
    assert!(health["agents"].as_array().unwrap().iter().all(|agent| agent["status"] == "deactivated"), "{health}");
    let _token = app.token(&acme).await.problem(409, "connector_auth_failed");
    let told = tool(&app, &acme, "search_tickets", json!({})).await.problem(409, "connector_auth_failed");
    assert!(told.text_of("reconnect_url").contains("/connect/"), "{}", told.text);
    // An agent that is stopped is told so for any of its connectors.
    for connector in [&acme, &globex] {
        let told = tool(&app, connector, "search_tickets", json!({ "agent": both })).await;
        let told = told.problem(409, "agent_deactivated");
        assert_eq!((&told.json["connector_id"], &told.json["reason"]), (&json!(acme), &json!("auth_failed")));
        assert!(told.text_of("detail").contains("Zendesk acme needs Reconnect"), "{}", told.text);
        assert!(told.text_of("reconnect_url").contains("/connect/"), "{}", told.text);
    }
    let weak = app.key_with(&["tools"]).await;
    let path = format!("/connectors/{globex}/tools/search_tickets");
    let told = app.call(Method::POST, &path, Some(&weak), Some(json!({ "agent": both }))).await;
    assert_eq!(
        told.problem(409, "agent_deactivated").text_of("reconnect_url"),
        format!("{}/connectors/{acme}", app.base)
    );
    let _refused =
        app.post(&format!("/agents/{one}/run"), json!({ "dry_run": true })).await.problem(409, "agent_deactivated");
    let heard = std::iter::from_fn(|| signals.try_recv().ok()).collect::<Vec<_>>();
    if db.is_sqlite() {
        assert!(heard.contains(&Signal::Agent(one.as_str().into())), "pages are told: {heard:?}");
    }

    let page = app.consent(&app.reconnect_link(&acme).await).await;

    assert_eq!(page.status, 200, "{}", page.text);
    for agent in [&one, &both, &other] {
        let running = show(&app, agent).await;
        assert_eq!((&running["status"], &running["stopped_by"]), (&json!("active"), &json!([])));
    }
    assert_eq!(app.app.run_due_agents().await.unwrap(), 1, "what runs by itself is due at once");
    assert_eq!(show(&app, &one).await["last_run"]["state"], "succeeded");
    assert_eq!(run(&app, &both, false).await["state"], "succeeded");
}

/// HL-05
async fn nothing_more_happens_once_it_is_off(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let acme = app.import("acme").await;
    let mut agents = Vec::new();
    for _ in 0..25 {
        agents.push(make(&app, reader(&acme, 5)).await);
    }
    for agent in &agents {
        ask(&app, agent, false).await;
    }
    app.acme.revoke(None);
    app.advance(LIFE);

    // All of them at once: some meet the refusal themselves, the others find the agent stopped.
    assert_eq!(app.app.run_due_agents().await.unwrap(), 25);

    let failed = app.show(&acme).await;
    assert_eq!(failed["health"], "auth_failed");
    let outbox = async || app.app.store.outbox_rows(&acme.as_str().into()).await.unwrap();
    let mails = |rows: &[holdfast_store::OutboxRow]| rows.iter().filter(|row| row.effect == "mail_admins").count();
    let (before, exchanges) = (outbox().await, app.acme.counters().exchanges);
    assert_eq!(mails(&before), 1);
    for agent in &agents {
        let shown = show(&app, agent).await;
        let last = &shown["last_run"];
        assert_eq!(shown["status"], "deactivated");
        let code = last["error"]["code"].as_str().unwrap();
        assert!(["connector_auth_failed", "agent_deactivated"].contains(&code), "{last}");
        assert_eq!(last["error"]["connector_id"], json!(acme), "{last}");
    }
    // Later ends, further calls, and the passing of time: nothing flips, nothing is sent, nothing is counted.
    for _ in 0..3 {
        for agent in agents.iter().take(5) {
            let _told = app.post(&format!("/agents/{agent}/run"), json!({})).await.problem(409, "agent_deactivated");
            let _told =
                tool(&app, &acme, "search_tickets", json!({ "agent": agent })).await.problem(409, "agent_deactivated");
        }
        app.advance(Duration::from_hours(2));
        assert_eq!(app.app.run_due_agents().await.unwrap(), 0, "no run is begun");
    }
    assert_eq!(app.show(&acme).await, failed);
    assert_eq!(outbox().await, before);
    assert_eq!(app.acme.counters().exchanges, exchanges);
}

async fn a_run_ends_between_two_steps_when_its_agent_is_paused(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let acme = app.import("acme").await;
    let agent = make(&app, reader(&acme, 5)).await;
    let id = ask(&app, &agent, false).await;
    app.acme.trouble(|faults| faults.api_delay_ms = 1500);

    let (ran, ()) = tokio::join!(app.app.run_due_agents(), async {
        until(
            "its first step is under way",
            async || shown(&app, &agent, &id).await,
            |run| run["steps"].as_array().unwrap().len() == 1,
        )
        .await;
        let paused = app.post(&format!("/agents/{agent}/pause"), json!({})).await.expect(200);
        assert_eq!((&paused.json["status"], &paused.json["paused"]["by"]), (&json!("paused"), &json!("key test")));
    });

    assert_eq!(ran.unwrap(), 1);
    let ended = shown(&app, &agent, &id).await;
    assert_eq!((&ended["state"], &ended["error"]["code"]), (&json!("stopped"), &json!("agent_paused")), "{ended}");
    assert_eq!(ended["error"]["detail"], "The agent was paused by key test.");
    assert_eq!(steps(&ended), [("found", "done")], "what was under way is seen to its end, and nothing more");
    app.acme.calm();
    let _told = tool(&app, &acme, "search_tickets", json!({ "agent": agent })).await.problem(409, "agent_paused");
    let _again = app.post(&format!("/agents/{agent}/pause"), json!({})).await.expect(200);
    assert_eq!(app.post(&format!("/agents/{agent}/resume"), json!({})).await.expect(200).json["status"], "active");
    let _answered = tool(&app, &acme, "search_tickets", json!({ "agent": agent })).await.expect(200);
    assert_eq!(run(&app, &agent, false).await["state"], "succeeded");
}

async fn a_run_ends_between_two_steps_when_the_service_stops(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let acme = app.import("acme").await;
    let mut body = reader(&acme, 5);
    body["trigger"] = json!({ "kind": "schedule", "every_secs": 3600 });
    let agent = make(&app, body).await;

    app.app.draining.cancel();
    assert_eq!(app.app.run_due_agents().await.unwrap(), 1);

    let found = app.app.store.find_agent(&app.org, &agent).await.unwrap().unwrap();
    let last = found.last_run.unwrap();
    assert_eq!((last.state.as_str(), last.code.as_deref(), last.calls), ("stopped", Some("shutdown"), 0));
    let due = found.due_at.unwrap();
    assert!(due <= last.ended_at.unwrap(), "another replica begins it at once: {due}");
}

async fn an_agent_that_is_due_runs_by_itself(db: Arc<Database>) {
    let every = Duration::from_secs(5);
    let app = TestApp::builder(&db)
        .with(|config| {
            config.agents.loop_interval = every;
            config.agents.at_once = 2;
        })
        .start()
        .await;
    let acme = app.import("acme").await;
    let mut body = reader(&acme, 1);
    body["trigger"] = json!({ "kind": "schedule", "every_secs": 60 });
    let agent = make(&app, body).await;
    let runs = async || {
        let runs = app.get(&format!("/agents/{agent}/runs")).await.expect(200).json;
        runs["data"].as_array().unwrap().iter().filter(|run| run["state"] == "succeeded").count()
    };

    until("it ran when it was made", runs, |count| *count == 1).await;
    app.advance(Duration::from_secs(70));
    until("it ran after its time", runs, |count| *count == 2).await;
    let by_hand = ask(&app, &agent, false).await;

    until(
        "it ran when somebody said so",
        async || shown(&app, &agent, &by_hand).await,
        |run| run["state"] == "succeeded",
    )
    .await;
    let runs = app.get(&format!("/agents/{agent}/runs?limit=2")).await.expect(200).json;
    assert_eq!((&runs["data"][0]["trigger"], &runs["data"][0]["actor"]), (&json!("manual"), &json!("key test")));
    assert_eq!((&runs["data"][1]["trigger"], &runs["data"][1]["actor"]), (&json!("schedule"), &json!(null)));
    let next = runs["next_cursor"].as_str().unwrap();
    let rest = app.get(&format!("/agents/{agent}/runs?limit=2&cursor={next}")).await.expect(200).json;
    assert_eq!((rest["data"].as_array().unwrap().len(), &rest["next_cursor"]), (1, &json!(null)));
}

/// An agent that runs every hour, at its beginning.
async fn hourly(app: &TestApp, connector: &str, missed: &str) -> String {
    let mut body = reader(connector, 1);
    body["trigger"] = json!({ "kind": "cron", "cron": "0 * * * *", "time_zone": "Europe/Berlin", "missed": missed });
    make(app, body).await
}

async fn run_due(app: &TestApp) -> usize {
    app.app.run_due_agents().await.unwrap()
}

async fn an_agent_runs_at_the_times_of_its_calendar(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let agent = hourly(&app, &id, "skip").await;
    let made = show(&app, &agent).await;
    let wanted = json!({ "kind": "cron", "cron": "0 * * * *", "time_zone": "Europe/Berlin", "missed": "skip",
        "every_secs": null, "events": null });
    assert_eq!(made["trigger"], wanted);
    let next = made["next_run_at"].as_str().unwrap();
    assert!(next.contains(":00:00") && run_due(&app).await == 0, "{made}");

    let mut runs = 0;
    for _ in 0..36 {
        app.advance(Duration::from_mins(5));
        runs += run_due(&app).await;
    }

    assert_eq!(runs, 3, "three hours, three runs");
}

async fn what_a_calendar_missed_is_made_up_for_once_or_left_out(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let (once, skips) = (hourly(&app, &id, "run_once").await, hourly(&app, &id, "skip").await);
    let runs = async |agent: &str| {
        app.get(&format!("/agents/{agent}/runs")).await.expect(200).json["data"].as_array().unwrap().len()
    };
    // Nobody looked for hours, and it is none of the times.
    app.advance(Duration::from_mins(60 * 5 + 30));
    app.advance(until_minute(&app, 30));
    run_due(&app).await;
    assert_eq!((runs(&once).await, runs(&skips).await), (1, 0));

    for agent in [&once, &skips] {
        let _paused = app.post(&format!("/agents/{agent}/pause"), json!({})).await.expect(200);
    }
    app.advance(Duration::from_hours(5));
    for agent in [&once, &skips] {
        let _resumed = app.post(&format!("/agents/{agent}/resume"), json!({})).await.expect(200);
    }
    run_due(&app).await;
    assert_eq!((runs(&once).await, runs(&skips).await), (2, 0), "paused, it missed them too");
    let next = show(&app, &skips).await["next_run_at"].as_str().unwrap().to_owned();
    assert!(next.contains(":00:00"), "{next}");
}

/// The time until the clock shows this minute.
fn until_minute(app: &TestApp, minute: u32) -> Duration {
    let now = app.app.seams.clock.now();
    let seconds = i64::from(minute) * 60 - now.timestamp().rem_euclid(3600);
    Duration::from_secs(seconds.rem_euclid(3600).unsigned_abs())
}

async fn a_bad_calendar_is_told_by_its_field(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    for (trigger, field, words) in [
        (json!({ "kind": "cron" }), "trigger.cron", "five fields"),
        (json!({ "kind": "cron", "cron": "0 9 * *" }), "trigger.cron", "five fields"),
        (json!({ "kind": "cron", "cron": "0 0 30 2 *" }), "trigger.cron", "never run"),
        (json!({ "kind": "cron", "cron": "0 9 * * *", "time_zone": "Berlin" }), "trigger.time_zone", "Europe/Berlin"),
        (json!({ "kind": "cron", "cron": "0 9 * * *", "missed": "twice" }), "trigger.missed", "run_once or skip"),
        (json!({ "kind": "manual", "cron": "0 9 * * *" }), "trigger.cron", "kind cron"),
    ] {
        let mut body = reader(&id, 1);
        body["trigger"] = trigger.clone();
        let told = app.post("/agents", body).await.problem(422, "invalid");
        assert_eq!(told.json["field"], field, "{trigger}: {}", told.text);
        assert!(told.text_of("detail").contains(words), "{trigger}: {}", told.text);
    }
}

async fn a_provider_that_is_away_fails_the_run_and_stops_nobody(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let acme = app.import("acme").await;
    let agent = make(&app, reader(&acme, 5)).await;
    app.acme.trouble(|faults| faults.api_answer = Some(holdfast_sandbox::Canned::new(503, "{}")));

    let failed = run(&app, &agent, false).await;

    assert_eq!(
        (&failed["state"], &failed["error"]["code"]),
        (&json!("failed"), &json!("provider_unavailable")),
        "{failed}"
    );
    assert_eq!(show(&app, &agent).await["status"], "active");
    assert_eq!(app.show(&acme).await["health"], "connected");
    app.acme.calm();
    assert_eq!(run(&app, &agent, false).await["state"], "succeeded");
}

async fn one_bad_ticket_does_not_keep_the_others_from_being_done(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let acme = app.import("acme").await;
    let high = (ABOVE_DOUBLE + 40).to_string();
    let body = |on_error: &str| {
        json!({
            "name": "Reader",
            "runner": { "kind": "playbook", "data": { "ids": ["1", "999999999", high] }, "steps": [
                { "id": "each", "for_each": "{{ ids }}", "as": "number", "on_error": on_error, "steps": [
                    { "id": "read", "tool": "get_ticket", "with": { "ticket_id": "{{ number }}" } },
                    { "id": "bad", "tool": "get_ticket", "with": { "ticket_id": "{{ read.ticket.nothing }}" },
                      "if": { "value": "{{ number }}", "is": high } }
                ] }
            ] },
            "connectors": [{ "connector": acme }],
        })
    };
    let patient = make(&app, body("next_item")).await;
    let strict = make(&app, body("stop")).await;

    let (went_on, stopped) = (run(&app, &patient, false).await, run(&app, &strict, false).await);

    assert_eq!(
        steps(&went_on),
        [("read", "done"), ("bad", "skipped"), ("read", "failed"), ("read", "done"), ("bad", "failed")]
    );
    assert_eq!((&went_on["state"], &went_on["failures"]), (&json!("succeeded"), &json!(2)));
    assert_eq!(steps(&stopped), [("read", "done"), ("bad", "skipped"), ("read", "failed")]);
    assert_eq!((&stopped["state"], &stopped["error"]["code"]), (&json!("failed"), &json!("provider_not_found")));
    let broken = &went_on["steps"][4];
    assert!(broken["detail"].as_str().unwrap().contains("read.ticket has no nothing; it has assignee"), "{broken}");
}

async fn a_deleted_connector_leaves_its_agent_stopped_until_it_is_bound_anew(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let (acme, globex) = (app.import("acme").await, app.import("globex").await);
    let agent = make(&app, sample("annotate_urgent_tickets", &acme)).await;

    let gone = app.call(Method::DELETE, &format!("/connectors/{acme}"), Some(&app.key), None).await;

    assert_eq!(gone.status, 204, "{}", gone.text);
    let stopped = show(&app, &agent).await;
    assert_eq!(stopped["status"], "deactivated");
    assert_eq!(stopped["status_words"], "Stopped: Zendesk acme was deleted; bind another connector");
    assert_eq!((&stopped["connectors"], &stopped["stopped_by"][0]["reconnect_url"]), (&json!([]), &json!(null)));
    let told = tool(&app, &acme, "search_tickets", json!({ "agent": agent })).await.problem(409, "agent_deactivated");
    assert_eq!(told.json["reason"], "deleted");
    let path = format!("/agents/{agent}");
    let change = json!({ "connectors": [{ "connector": globex, "role": "helpdesk" }] });
    let bound = app.call(Method::PATCH, &path, Some(&app.key), Some(change)).await.expect(200).json;
    assert_eq!((&bound["status"], &bound["connectors"][0]["connector_id"]), (&json!("active"), &json!(globex)));
    assert_eq!(run(&app, &agent, false).await["state"], "succeeded");
}

async fn a_bad_agent_is_told_where_and_what_to_write(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let acme = app.import("acme").await;
    let runner = |step: Value| json!({ "kind": "playbook", "steps": [step] });
    let made = |runner: Value, connectors: Value| json!({ "name": "A", "runner": runner, "connectors": connectors });
    let fine = json!({ "id": "a", "tool": "search_tickets" });
    let one = json!([{ "connector": acme }]);

    for (body, field, words) in [
        (json!({ "connectors": one }), "name", "1 to 100 characters"),
        (json!({ "name": "A", "connectors": one }), "runner", "Give a runner, or the sample"),
        (
            json!({ "sample": "x", "connectors": one }),
            "sample",
            "there are annotate_urgent_tickets, order_status, tag_and_answer_by_rule",
        ),
        (made(json!({ "kind": "llm" }), one.clone()), "runner.kind", "the one kind of runner is playbook"),
        (
            made(runner(json!({ "id": "a", "tool": "x" })), one.clone()),
            "runner.steps[0].tool",
            "main has no tool x; it has search_tickets",
        ),
        (
            made(runner(json!({ "id": "a", "tool": "get_ticket", "with": { "ticket_id": 7 } })), one.clone()),
            "runner.steps[0].with.ticket_id",
            "Step \"a\", at steps[0].with.ticket_id: expected text, found a number.",
        ),
        (
            made(
                runner(json!({ "id": "a", "tool": "get_ticket", "with": { "ticket_id": "{{ ticket.id }}" } })),
                one.clone(),
            ),
            "runner.steps[0].with",
            "nothing is called ticket here",
        ),
        (made(runner(fine.clone()), json!([])), "connectors", "Bind 1 to 10"),
        (made(runner(fine.clone()), json!([{ "connector": "con_x" }])), "connectors[0].connector", "no such connector"),
        (
            made(runner(fine.clone()), json!([{ "connector": acme, "role": "A b" }])),
            "connectors[0].role",
            "lower-case letters",
        ),
        (
            made(runner(fine.clone()), json!([{ "connector": acme }, { "connector": acme }])),
            "connectors[1].role",
            "give each a role of its own",
        ),
        (
            made(runner(fine.clone()), json!([{ "connector": acme, "tools": ["x"] }])),
            "connectors[0].tools[0]",
            "There is no such tool on this connector of Zendesk; there are: search_tickets",
        ),
        (
            made(runner(fine.clone()), json!([{ "connector": acme, "tools": ["find_order"] }])),
            "connectors[0].tools[0]",
            "There is no find_order on this connector of Zendesk",
        ),
        (
            made(runner(fine.clone()), json!([{ "connector": acme, "tools": [] }])),
            "runner.steps[0].tool",
            "not granted on main: grant it",
        ),
        (
            json!({ "sample": "tag_and_answer_by_rule", "connectors": one, "trigger": { "kind": "schedule", "every_secs": 5 } }),
            "trigger.every_secs",
            "allowed is 10 to 2678400",
        ),
        (
            json!({ "sample": "tag_and_answer_by_rule", "connectors": one, "trigger": { "kind": "monthly" } }),
            "trigger.kind",
            "manual, schedule, cron or events",
        ),
    ] {
        let told = app.post("/agents", body.clone()).await.problem(422, "invalid");
        assert_eq!(told.json["field"], field, "{body}: {}", told.text);
        assert!(told.text_of("detail").contains(words), "{body}: {}", told.text);
    }
    assert_eq!(app.get("/agents").await.expect(200).json["data"], json!([]), "nothing is half-made");
}

async fn an_agent_is_made_changed_and_deleted(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let acme = app.import_with("acme", json!({ "alias": "old-7" })).await;
    let samples = app.get("/agent-samples").await.expect(200).json;
    assert_eq!(samples["data"].as_array().unwrap().len(), 4);

    let made = app
        .post("/agents", json!({ "sample": "annotate_urgent_tickets", "connectors": [{ "connector": "old-7" }] }))
        .await
        .expect(201);

    let id = made.text_of("id");
    assert_eq!(made.header("location"), format!("/api/v1/agents/{id}"));
    assert_eq!((&made.json["name"], &made.json["status"]), (&json!("Annotate urgent tickets"), &json!("active")));
    assert_eq!(
        made.json["trigger"],
        json!({ "kind": "schedule", "every_secs": 300,
        "events": null, "cron": null, "time_zone": null, "missed": null })
    );
    let granted = |agent: &Value| -> Vec<(String, bool)> {
        let tools = agent["connectors"][0]["tools"].as_array().unwrap();
        tools
            .iter()
            .map(|tool| (tool["name"].as_str().unwrap().to_owned(), tool["granted"].as_bool().unwrap()))
            .collect()
    };
    let asked_for = granted(&made.json).into_iter().filter(|(_, granted)| *granted).map(|(name, _)| name);
    let asked_for: Vec<_> = asked_for.collect();
    assert_eq!(asked_for, ["search_tickets", "get_ticket", "reply_to_ticket", "update_ticket"], "{}", made.text);
    assert_eq!(made.json["connectors"][0]["role"], "helpdesk");
    let path = format!("/agents/{id}");
    let alter = async |body: Value| app.call(Method::PATCH, &path, Some(&app.key), Some(body)).await;
    let changed = alter(json!({ "name": "Renamed", "trigger": { "kind": "manual" } })).await.expect(200).json;
    assert_eq!(
        (&changed["name"], &changed["trigger"]["kind"], &changed["next_run_at"]),
        (&json!("Renamed"), &json!("manual"), &json!(null))
    );
    // Grants and playbook have to go together, whichever of them changes.
    let fewer =
        json!({ "connectors": [{ "connector": acme, "role": "helpdesk", "tools": ["search_tickets", "get_ticket"] }] });
    let told = alter(fewer.clone()).await.problem(422, "invalid");
    assert!(told.text_of("detail").contains("reply_to_ticket is not granted"), "{}", told.text);
    let reads = json!({ "kind": "playbook", "steps": [{ "id": "a", "tool": "search_tickets" }] });
    let both = json!({ "runner": reads, "connectors": fewer["connectors"] });
    let less = alter(both).await.expect(200).json;
    assert_eq!(granted(&less).iter().filter(|(_, granted)| *granted).count(), 2);
    let told = alter(json!({ "runner": { "kind": "playbook", "steps": [
        { "id": "a", "tool": "update_ticket", "with": { "ticket_id": "1" } }
    ] } }))
    .await
    .problem(422, "invalid");
    assert!(told.text_of("detail").contains("update_ticket is not granted"), "{}", told.text);
    // A granted tool works in the agent's name, and no other.
    let _read =
        tool(&app, &acme, "get_ticket", json!({ "agent": id, "arguments": { "ticket_id": "1" } })).await.expect(200);
    let write = json!({ "agent": id, "arguments": { "ticket_id": "1", "add_tags": ["x"] } });
    let told = tool(&app, &acme, "update_ticket", write).await.problem(403, "tool_not_granted");
    assert!(told.text_of("detail").contains("it may use search_tickets, get_ticket"), "{}", told.text);
    let globex = app.import("globex").await;
    let _foreign = tool(&app, &globex, "search_tickets", json!({ "agent": id })).await.problem(403, "agent_not_bound");
    let _unknown = tool(&app, &acme, "search_tickets", json!({ "agent": "agent_x" })).await.problem(404, "not_found");

    let asked = ask(&app, &id, false).await;
    let told = app.post(&format!("{path}/run"), json!({})).await.problem(409, "run_under_way");
    assert!(told.text_of("detail").contains(&asked), "{}", told.text);
    let gone = app.call(Method::DELETE, &path, Some(&app.key), None).await;
    assert_eq!(gone.status, 204, "{}", gone.text);
    let _gone = app.get(&path).await.problem(404, "not_found");
    assert_eq!(app.app.run_due_agents().await.unwrap(), 0);
    assert_eq!(app.show(&acme).await["agents"], json!([]));
}

/// ST-04, for agents.
async fn another_organisations_agents_do_not_exist(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let acme = app.import("acme").await;
    let agent = make(&app, sample("annotate_urgent_tickets", &acme)).await;
    let run = run(&app, &agent, true).await["id"].as_str().unwrap().to_owned();
    let stranger = app.key_of("Globex").await;
    for (method, end, body) in [
        (Method::GET, String::new(), None),
        (Method::PATCH, String::new(), Some(json!({ "name": "Mine" }))),
        (Method::DELETE, String::new(), None),
        (Method::POST, "/pause".to_owned(), None),
        (Method::POST, "/resume".to_owned(), None),
        (Method::POST, "/run".to_owned(), None),
        (Method::GET, "/runs".to_owned(), None),
        (Method::GET, format!("/runs/{run}"), None),
    ] {
        let told = app.call(method.clone(), &format!("/agents/{agent}{end}"), Some(&stranger), body).await;
        let _told = told.problem(404, "not_found");
    }
    let list = app.call(Method::GET, "/agents", Some(&stranger), None).await.expect(200);
    assert_eq!(list.json["data"], json!([]));
    let told = app.call(Method::POST, "/agents", Some(&stranger), Some(sample("annotate_urgent_tickets", &acme))).await;
    assert_eq!(told.problem(422, "invalid").json["field"], "connectors[0].connector");
    let mut theirs = app.import_body("acme");
    theirs["alias"] = json!("theirs");
    let theirs = app.call(Method::POST, "/connectors", Some(&stranger), Some(theirs)).await.expect(201).text_of("id");
    let path = format!("/connectors/{theirs}/tools/search_tickets");
    let _ours =
        app.call(Method::POST, &path, Some(&stranger), Some(json!({ "agent": agent }))).await.problem(404, "not_found");
    assert_eq!(show(&app, &agent).await["status"], "active");
}

async fn what_looks_like_a_credential_is_masked_in_a_run(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let acme = app.import("acme").await;
    let secret = "hf_Xk29fjQz81LmNw47PtRv60Ys";
    let note = json!({ "arguments": { "ticket_id": "1", "public": false, "body": format!("my password: hunter2 and my key {secret}") } });
    let _said = tool(&app, &acme, "reply_to_ticket", note).await.expect(200);
    let runner = json!({ "kind": "playbook", "steps": [
        { "id": "read", "tool": "get_ticket", "with": { "ticket_id": "1" } },
        { "id": "say", "tool": "reply_to_ticket", "with": { "ticket_id": "2", "public": false, "body": "Key: hf_Aa11Bb22Cc33Dd44Ee55Ff66" } }
    ] });
    let agent = make(&app, json!({ "name": "Reader", "runner": runner, "connectors": [{ "connector": acme }] })).await;

    let done = run(&app, &agent, false).await;

    assert_eq!(done["state"], "succeeded", "{done}");
    let text = done.to_string();
    assert!(text.contains("my password: [masked] and my key [masked]"), "{text}");
    assert_eq!(done["steps"][1]["input"]["body"], "Key: [masked]");
    assert_eq!(holding(&app.acme, 2, "hf_Aa11Bb22Cc33Dd44Ee55Ff66").len(), 1, "the helpdesk has what was written");
    assert!(!text.contains(secret) && !text.contains("hunter2"), "{text}");
    let kept = String::from_utf8_lossy(&db.dump().await).into_owned();
    assert!(!kept.contains(secret) && !kept.contains("hunter2"), "neither is in the database");
}

async fn share(db: Arc<Database>) {
    let one = TestApp::start(&db).await;
    let two = TestApp::builder(&db).beside(&one).start().await;
    let acme = one.import("acme").await;
    let mut agents = Vec::new();
    for _ in 0..6 {
        let mut body = reader(&acme, 1);
        body["trigger"] = json!({ "kind": "schedule", "every_secs": 3600 });
        agents.push(make(&one, body).await);
    }
    let mut signals = two.app.store.subscribe();

    let (first, second) = tokio::join!(one.app.run_due_agents(), two.app.run_due_agents());

    let mut count = first.unwrap() + second.unwrap();
    // Whoever looked while the other one held everything finds the rest now.
    count += two.app.run_due_agents().await.unwrap() + one.app.run_due_agents().await.unwrap();
    assert_eq!(count, 6);
    for agent in &agents {
        let runs = two.get(&format!("/agents/{agent}/runs")).await;
        let key = one.get(&format!("/agents/{agent}/runs")).await.expect(200).json;
        assert_eq!(key["data"].as_array().unwrap().len(), 1, "once: {key} {}", runs.status);
        assert_eq!(key["data"][0]["state"], "succeeded");
    }
    let told = Signal::Agent(agents[0].as_str().into());
    let signals = tokio::sync::Mutex::new(&mut signals);
    until(
        "the other replica's pages are told",
        async || signals.lock().await.try_recv().ok(),
        |heard| heard.as_ref() == Some(&told),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_replicas_share_what_is_due_and_run_each_agent_once() {
    on_postgres(share).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connect_page_of_a_stopped_agents_connector_leads_back_to_work() {
    let db = Arc::new(Database::sqlite());
    let app = TestApp::start(&db).await;
    let acme = app.import("acme").await;
    let agent = make(&app, sample("annotate_urgent_tickets", &acme)).await;
    app.fail(&acme).await;
    let told = tool(&app, &acme, "search_tickets", json!({ "agent": agent })).await.problem(409, "agent_deactivated");

    // The link of the error itself, in somebody's browser.
    let page = app.consent_as(&Browser::new(), &told.text_of("reconnect_url"), "ada").await;

    assert_eq!(page.status, 200, "{}", page.text);
    assert_eq!(show(&app, &agent).await["status"], "active");
}
