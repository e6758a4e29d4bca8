//! The mirror of tickets: read once a connector works, caught up after a gap, and a change told once, whoever finds it.

use std::{sync::Arc, time::Duration};

use holdfast_core::Role;
use holdfast_sandbox::{Canned, EventOrder, GrantRequest};
use holdfast_tests::{
    browser::http,
    database::Database,
    hooks::Hook,
    on_both,
    service::{Builder, TestApp},
    wait::until,
};
use serde_json::{Value, json};

on_both! {
    a_connector_is_read_once_it_works_and_shows_how_far_that_is,
    what_happened_while_a_connector_was_dead_is_caught_up_after_a_reconnect,
    a_change_by_webhook_and_by_sync_sets_an_agent_off_once_in_either_order,
    what_an_agent_writes_itself_is_no_news_to_it,
    a_sync_that_is_not_allowed_says_what_to_do_and_a_person_has_it_tried_again,
    a_search_is_answered_from_a_mirror_that_is_fresh_and_says_so,
    each_helpdesk_is_mirrored,
}

/// With a mirror, of everything that the sandbox has.
fn builder(db: &Arc<Database>) -> Builder {
    TestApp::builder(db).with(|config| {
        config.sync.enabled = true;
        config.sync.first_days = 3650;
    })
}

async fn mirror(app: &TestApp, id: &str) -> Value {
    app.show(id).await["sync"].clone()
}

/// Its mirror once it shows a moment after this one.
async fn caught_up(app: &TestApp, id: &str, since: &Value) -> Value {
    let later = |seen: &Value| seen["as_of"].as_str() > since.as_str();
    until("it is caught up", async || mirror(app, id).await, later).await
}

/// Lets what happened so far become old enough to be told, and has it synced.
async fn sync(app: &TestApp, id: &str) -> Value {
    let before = mirror(app, id).await["as_of"].clone();
    app.advance(Duration::from_secs(70));
    let _begun = app.post(&format!("/connectors/{id}/sync"), json!({})).await.expect(202);
    caught_up(app, id, &before).await
}

/// An agent that writes down what set it off.
async fn noting(app: &TestApp, connector: &str, events: &[&str]) -> String {
    let body = json!({
        "name": "Noting",
        "runner": { "kind": "playbook", "steps": [
            { "id": "note", "tool": "reply_to_ticket", "on": "main", "with": {
                "ticket_id": "{{ event.ticket_id }}", "public": false, "body": "Noting saw {{ event.topic }}"
            } },
        ] },
        "connectors": [{ "connector": connector }],
        "trigger": { "kind": "events", "events": events },
    });
    app.post("/agents", body).await.expect(201).text_of("id")
}

/// Its runs once there are so many and no event waits: topic and ticket, oldest first.
async fn runs(app: &TestApp, connector: &str, agent: &str, number: usize) -> Vec<(String, String)> {
    let look = async || app.get(&format!("/agents/{agent}/runs")).await.expect(200).json["data"].clone();
    let over = |runs: &Value| {
        let runs = runs.as_array().unwrap();
        runs.len() >= number && runs.iter().all(|run| !run["ended_at"].is_null())
    };
    let _over = until("the runs are over", look, over).await;
    let _settled = app.deliveries(connector).await;
    let runs = until("the runs are over", look, over).await;
    let told = |run: &Value| {
        let text = |name: &str| run["event"][name].as_str().unwrap().to_owned();
        (text("topic"), text("ticket_id"))
    };
    runs.as_array().unwrap().iter().rev().map(told).collect()
}

/// Somebody there changes the tags of a ticket.
async fn tag(app: &TestApp, ticket: i64, tag: &str) {
    let granted = app.acme.grant(&GrantRequest { user: Some("gus".to_owned()), ..GrantRequest::default() }).unwrap();
    let url = format!("{}/api/v2/tickets/{ticket}.json", app.acme.url());
    let change = json!({ "ticket": { "tags": [tag] } });
    let done = http().put(url).bearer_auth(granted.access_token).json(&change).send().await.unwrap();
    assert!(done.status().is_success());
}

fn told(hook: &Hook, id: &str, ticket: i64, kind: &str) -> EventOrder {
    let body = json!({
        "id": id, "type": format!("zen:event-type:ticket.{kind}"), "subject": format!("zen:ticket:{ticket}"),
        "event": {}, "detail": { "id": ticket.to_string() },
    });
    EventOrder { body: Some(body.to_string()), ..hook.event(id) }
}

async fn a_connector_is_read_once_it_works_and_shows_how_far_that_is(db: Arc<Database>) {
    let app = builder(&db).start().await;
    let id = app.connect("acme").await;

    let seen = caught_up(&app, &id, &Value::Null).await;

    assert_eq!((&seen["tickets"], &seen["error"]), (&json!(320), &Value::Null), "{seen}");
    assert!(seen["next_at"].is_string() && seen["first_caught_up_at"].is_string(), "{seen}");
    assert!(app.deliveries(&id).await.is_empty(), "the first sync tells nobody");
    let jobs = async || app.get("/jobs?kind=sync").await.expect(200).json["data"].clone();
    let jobs = until("the job is done", jobs, |jobs| jobs[0]["state"] == "done").await;
    assert_eq!(jobs.as_array().unwrap().len(), 1, "{jobs}");

    // By itself, in its turn.
    app.advance(Duration::from_secs(310));
    let again = caught_up(&app, &id, &seen["as_of"]).await;
    assert_eq!(again["tickets"], 320);

    let _off = app.post(&format!("/connectors/{id}/disconnect"), json!({})).await.expect(200);
    assert_eq!(mirror(&app, &id).await, Value::Null, "nothing is kept of what was taken off");
    let refused = app.post(&format!("/connectors/{id}/sync"), json!({})).await.expect(409);
    assert_eq!(refused.text_of("code"), "connector_disconnected");
}

async fn what_happened_while_a_connector_was_dead_is_caught_up_after_a_reconnect(db: Arc<Database>) {
    let app = builder(&db).start().await;
    let id = app.connect("acme").await;
    let first = caught_up(&app, &id, &Value::Null).await;
    let agent = noting(&app, &id, &["ticket.created", "ticket.changed"]).await;
    app.fail(&id).await;
    assert_eq!(mirror(&app, &id).await["next_at"], Value::Null, "nobody syncs it meanwhile");
    app.advance(Duration::from_mins(10));

    let new = app.acme.write_ticket();
    tag(&app, 42, "while_it_was_dead").await;
    app.advance(Duration::from_mins(10));
    let link = app.reconnect_link(&id).await;
    let _page = app.consent(&link).await;

    let after = caught_up(&app, &id, &first["as_of"]).await;
    assert_eq!(after["tickets"], 321);
    let mut all = runs(&app, &id, &agent, 2).await;
    all.sort();
    let expected = [("ticket.changed", "42".to_owned()), ("ticket.created", new.to_string())];
    assert_eq!(all, expected.map(|(topic, ticket)| (topic.to_owned(), ticket)));
}

async fn a_change_by_webhook_and_by_sync_sets_an_agent_off_once_in_either_order(db: Arc<Database>) {
    let app = builder(&db).start().await;
    let hook = app.zendesk_hook("acme").await;
    let id = hook.connector.clone();
    let _first = caught_up(&app, &id, &Value::Null).await;
    let agent = noting(&app, &id, &["ticket.changed"]).await;

    // The webhook first.
    tag(&app, 42, "one").await;
    assert_eq!(app.sent(&told(&hook, "evt-1", 42, "tags_changed")).await, 200);
    let _run = runs(&app, &id, &agent, 1).await;
    let _mirror = sync(&app, &id).await;
    assert_eq!(runs(&app, &id, &agent, 1).await.len(), 1);

    // The sync first.
    tag(&app, 43, "two").await;
    let _mirror = sync(&app, &id).await;
    let _run = runs(&app, &id, &agent, 2).await;
    assert_eq!(app.sent(&told(&hook, "evt-2", 43, "tags_changed")).await, 200);
    assert_eq!(runs(&app, &id, &agent, 2).await.len(), 2);

    // The sync alone: its webhook was lost.
    tag(&app, 44, "three").await;
    let _mirror = sync(&app, &id).await;
    let all = runs(&app, &id, &agent, 3).await;
    let tickets: Vec<_> = all.iter().map(|(_, ticket)| ticket.as_str()).collect();
    assert_eq!(tickets, ["42", "43", "44"]);
    let notes =
        |ticket| app.acme.comments(ticket).iter().filter(|one| one["body"].to_string().contains("Noting")).count();
    assert_eq!([42, 43, 44].map(notes), [1, 1, 1], "as the provider counts");
}

async fn what_an_agent_writes_itself_is_no_news_to_it(db: Arc<Database>) {
    let app = builder(&db).start().await;
    let id = app.connect("acme").await;
    let _first = caught_up(&app, &id, &Value::Null).await;
    let agent = noting(&app, &id, &["ticket.changed", "ticket.replied"]).await;

    tag(&app, 42, "somebody_else").await;
    for _ in 0..3 {
        let _mirror = sync(&app, &id).await;
    }

    // The note that this run has left is in the second sync.
    assert_eq!(runs(&app, &id, &agent, 1).await.len(), 1);
}

async fn a_sync_that_is_not_allowed_says_what_to_do_and_a_person_has_it_tried_again(db: Arc<Database>) {
    let app = builder(&db).start().await;
    let granted = app.acme.grant(&GrantRequest { user: Some("gus".to_owned()), ..GrantRequest::default() }).unwrap();
    let credential = json!({ "access_token": granted.access_token, "expires_in": 1800 });
    let body = json!({ "provider": "zendesk", "account": "acme", "credential": credential });
    let id = app.post("/connectors", body).await.expect(201).text_of("id");

    let seen = until("it is refused", async || mirror(&app, &id).await, |seen| seen["error"].is_object()).await;

    assert_eq!((&seen["error"]["code"], &seen["as_of"]), (&json!("forbidden"), &Value::Null), "{seen}");
    let path = format!("/connectors/{id}");
    let member = app.somebody(Role::Member).await;
    let page = member.open(&path).await.text;
    for words in ["Tickets here", "Failing", "an administrator", "Sync now"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let viewer = app.somebody(Role::Viewer).await.open(&path).await.text;
    assert!(viewer.contains("Tickets here") && !viewer.contains("Sync now"), "{viewer}");

    let before = app.acme.counters().api_calls;
    let _page = member.submit(&path, &format!("{path}/sync"), &[]).await;
    let asked = async || app.acme.counters().api_calls;
    until("it is asked for again", asked, |calls| *calls > before).await;
}

async fn a_search_is_answered_from_a_mirror_that_is_fresh_and_says_so(db: Arc<Database>) {
    let fresh = |config: &mut holdfast_app::Config| config.sync.search_within = Duration::from_mins(10);
    let app = builder(&db).with(fresh).start().await;
    let id = app.connect("acme").await;
    let seen = caught_up(&app, &id, &Value::Null).await;
    let search = async |arguments: Value| {
        let before = app.acme.counters().api_calls;
        let path = format!("/connectors/{id}/tools/search_tickets");
        let answer = app.post(&path, json!({ "arguments": arguments })).await.expect(200).json["result"].clone();
        (answer, app.acme.counters().api_calls - before)
    };
    let ids = |answer: &Value| -> Vec<String> {
        let all = answer["tickets"].as_array().unwrap();
        all.iter().map(|ticket| ticket["id"].as_str().unwrap().to_owned()).collect()
    };

    let filter = json!({ "status": ["open"], "priority": ["high", "urgent"], "limit": 100 });
    let (here, calls) = search(filter.clone()).await;
    assert_eq!(calls, 0);
    let as_of = seen["as_of"].as_str().unwrap();
    let note = here["note"].as_str().unwrap();
    assert!(note.starts_with(&format!("From the mirror, as of {}", &as_of[..19])), "{note}: {as_of}");

    // The same as the provider says, over all pages.
    let words = json!({ "status": ["open"], "priority": ["high", "urgent"], "limit": 100, "query": "the" });
    let (there, calls) = search(words).await;
    assert!(calls > 0, "words are looked for there");
    assert!(ids(&there).iter().all(|id| ids(&here).contains(id)));
    let (mut all, mut next) = (Vec::new(), json!({ "limit": 50 }));
    loop {
        let (page, calls) = search(next.clone()).await;
        assert_eq!(calls, 0);
        all.extend(ids(&page));
        if page["next_cursor"].is_null() {
            break;
        }
        next["cursor"] = page["next_cursor"].clone();
    }
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 320);

    // It cannot be synced any more, and so it is too old after a while.
    app.acme.trouble(|faults| faults.api_answer = Some(Canned::new(503, "down")));
    app.advance(Duration::from_mins(15));
    until("a sync has failed", async || mirror(&app, &id).await, |seen| seen["error"].is_object()).await;
    app.acme.calm();
    let (now, calls) = search(json!({ "status": ["open"], "limit": 1 })).await;
    assert!(calls > 0 && now["note"].is_null(), "{now}");
}

async fn each_helpdesk_is_mirrored(db: Arc<Database>) {
    let app = builder(&db)
        .with(|config| {
            for id in ["freshdesk", "gorgias", "front"] {
                config.providers.by_id.entry(id.to_owned()).or_default();
            }
        })
        .start()
        .await;
    let gorgias = app.sandbox.gorgias("acme").unwrap().grant("ada", "tickets:read users:read account:read").unwrap();
    let front = app.sandbox.front().grant("acme").unwrap();
    let key = app.sandbox.freshdesk("acme").unwrap().api_key("ada").unwrap();
    let of = |token: String| json!({ "access_token": token, "expires_in": 1800 });
    for (provider, account, credential) in [
        ("freshdesk", "acme", json!({ "api_key": key })),
        ("gorgias", "acme", of(gorgias.access_token)),
        ("front", "acme", of(front.access_token)),
    ] {
        let body = json!({ "provider": provider, "account": account, "credential": credential });
        let id = app.post("/connectors", body).await.expect(201).text_of("id");

        let seen = caught_up(&app, &id, &Value::Null).await;

        assert!(seen["tickets"].as_u64().unwrap() > 50 && seen["error"].is_null(), "{provider}: {seen}");
    }
}
