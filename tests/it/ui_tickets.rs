//! What happened to one ticket, for somebody with only a browser: the story, and the one line on top of it.

use std::sync::Arc;

use holdfast_core::Role;
use holdfast_tests::{browser::Page, database::Database, on_both, people::Person, service::TestApp};
use reqwest::Method;
use serde_json::json;

use crate::agents_events::{ended, make, patch, runs, said};

on_both! {
    a_ticket_that_was_answered_says_by_whom_and_every_page_leads_there,
    a_ticket_without_an_answer_says_why_and_what_to_do,
    a_run_that_goes_through_tickets_says_which,
    a_number_that_several_helpdesks_have_is_asked_for,
}

fn has(page: &Page, words: &[&str]) {
    for words in words {
        assert!(page.text.contains(words), "{words}: {}", page.text);
    }
}

async fn asked(person: &Person, typed: &str) -> Page {
    let query = url::form_urlencoded::Serializer::new(String::new()).append_pair("ticket", typed).finish();
    person.open(&format!("/deliveries?{query}")).await
}

async fn a_ticket_that_was_answered_says_by_whom_and_every_page_leads_there(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let hook = app.zendesk_hook("acme").await;
    let agent = make(&app, &hook.connector, &["ticket.created"]).await;
    assert_eq!(app.sent(&said(&hook, "evt-1", "created", None)).await, 200);
    let run = ended(&app, &agent, 1).await.remove(0);
    let viewer = app.somebody(Role::Viewer).await;
    let link = format!("/deliveries?connector={}&amp;ticket=42", hook.connector);

    for typed in ["42", "#42", "https://acme.zendesk.com/agent/tickets/42", "acme.zendesk.com/agent/tickets/42"] {
        let page = asked(&viewer, typed).await;
        has(
            &page,
            &[
                "Ticket <bdi>#42</bdi>",
                "Noting went through it",
                "wrote no answer to the customer",
                "The ticket was created",
                "Noting ran",
            ],
        );
        has(&page, &["Wrote: note", "Noting saw ticket.created of 42"]);
    }

    let answer = json!({ "ticket_id": "{{ event.ticket_id }}", "public": true, "body": "We are on it." });
    let answering = json!({
        "name": "Answering", "connectors": [{ "connector": hook.connector }],
        "runner": { "kind": "playbook", "steps": [{ "id": "reply", "tool": "reply_to_ticket", "with": answer }] },
        "trigger": { "kind": "events", "events": ["ticket.replied"] },
    });
    let answering = app.post("/agents", answering).await.expect(201).text_of("id");
    assert_eq!(app.sent(&said(&hook, "evt-2", "comment_added", Some("7"))).await, 200);
    let _answered = ended(&app, &answering, 1).await;
    has(&asked(&viewer, "42").await, &["Answering answered it", "A reply or a note came in", "We are on it."]);
    // The answer's echo, and what follows from it at the helpdesk: that is nobody's to mend.
    let me = app.proxy(Method::GET, &hook.connector, "api/v2/users/me.json", "").await.expect(200);
    for (id, kind, author) in
        [("evt-3", "comment_added", Some(me.json["user"]["id"].to_string())), ("evt-4", "status_changed", None)]
    {
        assert_eq!(app.sent(&said(&hook, id, kind, author.as_deref())).await, 200);
        let _worked_off = app.deliveries(&hook.connector).await;
    }
    let story = asked(&viewer, "42").await;
    has(&story, &["Answering answered it", "Noting is not set off by what its own connector wrote."]);
    assert!(!story.text.contains("No agent was set off"), "{}", story.text);

    let delivery = run["event"]["id"].as_str().unwrap();
    let run = format!("/agents/{agent}/runs/{}", run["id"].as_str().unwrap());
    for page in [&format!("/agents/{agent}"), &run, &format!("/deliveries/{delivery}")] {
        has(&viewer.open(page).await, &[&link, "#42"]);
    }
    let jobs = viewer.open("/jobs").await;
    has(
        &jobs,
        &[
            "Run agent Noting for ticket #42 of acme.zendesk.com",
            "Work off ticket.created of ticket #42 of acme.zendesk.com",
        ],
    );
    let found = app.get("/deliveries?subject=42").await.expect(200).json["data"].as_array().unwrap().len();
    let others = app.get("/deliveries?subject=43").await.expect(200).json["data"].as_array().unwrap().len();
    assert_eq!((found, others), (4, 0));
    app.key_of("Globex").await;
    let stranger = app.somebody_of("Globex", Role::Owner).await;
    has(&asked(&stranger, "42").await, &["Nothing has come in about <bdi>#42</bdi>"]);
    assert_eq!(stranger.open(&link.replace("&amp;", "&")).await.status, 404);
}

async fn a_ticket_without_an_answer_says_why_and_what_to_do(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let hook = app.zendesk_hook("acme").await;
    let admin = app.somebody(Role::Admin).await;
    let send = async |id: &str| {
        assert_eq!(app.sent(&said(&hook, id, "created", None)).await, 200);
        let _worked_off = app.deliveries(&hook.connector).await;
        asked(&admin, "42").await
    };

    has(&asked(&admin, "the printer").await, &["That names no ticket"]);
    // Shops have no tickets, and come before it by name.
    for shop in 0..21 {
        let _shop = app.import_of("shopify", &format!("aa-{shop}")).await;
    }
    let nothing = asked(&admin, "42").await;
    has(&nothing, &["Nothing has come in about <bdi>#42</bdi>", &format!("/connectors/{}/webhook", hook.connector)]);
    has(&asked(&admin, "https://other.zendesk.com/agent/tickets/42").await, &["No connector of yours is for", "other"]);

    has(&send("evt-1").await, &["No agent was set off: none works with acme.zendesk.com.", "Make an agent"]);

    let agent = make(&app, &hook.connector, &["ticket.replied"]).await;
    let page = send("evt-2").await;
    has(&page, &["No agent was set off: Noting waits for other events.", &format!("/agents/{agent}/edit")]);

    let agent = make(&app, &hook.connector, &["ticket.created"]).await;
    let _paused = app.post(&format!("/agents/{agent}/pause"), json!({})).await.expect(200);
    has(&send("evt-3").await, &["No agent was set off: Noting was paused when it came in.", "Resume Noting"]);
    let resume = format!("/agents/{agent}/resume");
    let _resumed = admin.submit_and_go_on("/deliveries?ticket=42", &resume, &[]).await;
    has(&asked(&admin, "42").await, &["Run Noting for it", &format!("/agents/{agent}?ticket=42")]);
    let page = admin.open(&format!("/agents/{agent}?ticket=42")).await;
    has(&page, &["value=\"42\""]);

    app.fail(&hook.connector).await;
    let page = send("evt-4").await;
    has(&page, &["What came in last waits, since acme.zendesk.com needs Reconnect.", "Reconnect acme.zendesk.com"]);
}

async fn a_run_that_goes_through_tickets_says_which(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let connector = app.import("acme").await;
    let steps = json!([
        { "id": "found", "tool": "search_tickets", "with": { "limit": 5 } },
        { "id": "each", "for_each": "{{ found.tickets }}", "as": "ticket", "steps": [
            { "id": "note", "tool": "reply_to_ticket", "title": "Leave a note", "if": { "value": "{{ ticket.id }}", "is_empty": true },
              "with": { "ticket_id": "{{ ticket.id }}", "public": false, "body": "seen" } },
            { "id": "read", "tool": "get_ticket", "with": { "ticket_id": "{{ ticket.id }}" } },
        ] },
    ]);
    let body = json!({
        "name": "Sweeper", "runner": { "kind": "playbook", "steps": steps }, "trigger": { "kind": "manual" },
        "connectors": [{ "connector": connector }],
    });
    let agent = app.post("/agents", body).await.expect(201).text_of("id");
    let _asked = app.post(&format!("/agents/{agent}/run"), json!({})).await.expect(202);
    assert_eq!(app.app.run_due_agents().await.unwrap(), 1);
    let run = ended(&app, &agent, 1).await.remove(0);
    assert_eq!(run["state"], "succeeded", "{run}");
    let viewer = app.somebody(Role::Viewer).await;

    let page = viewer.open(&format!("/agents/{agent}")).await;
    has(&page, &["and 2 more"]);
    let page = viewer.open(&format!("/agents/{agent}/runs/{}", run["id"].as_str().unwrap())).await;
    let link = page.text.split("&amp;ticket=").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let story = asked(&viewer, link).await;
    has(&story, &["Sweeper went through it", "and wrote nothing. Leave a note: its condition did not hold."]);

    let _gone = app.call(Method::DELETE, &format!("/connectors/{connector}"), Some(&app.key), None).await.expect(204);
    for page in [&format!("/agents/{agent}"), &format!("/agents/{agent}/runs/{}", run["id"].as_str().unwrap())] {
        let page = viewer.open(page).await;
        assert!(!page.text.contains("&amp;ticket="), "{}", page.text);
    }
}

async fn a_number_that_several_helpdesks_have_is_asked_for(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let (acme, globex) = (app.zendesk_hook("acme").await, app.zendesk_hook("globex").await);
    for hook in [&acme, &globex] {
        assert_eq!(app.sent(&said(hook, "evt-1", "created", None)).await, 200);
        let _worked_off = app.deliveries(&hook.connector).await;
    }
    let viewer = app.somebody(Role::Viewer).await;

    let page = asked(&viewer, "42").await;

    has(&page, &["On which connector?", "acme.zendesk.com", "globex.zendesk.com"]);
    for (hook, name) in [(&acme, "acme.zendesk.com"), (&globex, "globex.zendesk.com")] {
        let one = viewer.open(&format!("/deliveries?connector={}&ticket=42", hook.connector)).await;
        has(&one, &[name, "The ticket was created"]);
    }
    let foreign = "https://globex.zendesk.com/agent/tickets/42";
    has(&asked(&viewer, foreign).await, &["globex.zendesk.com", "The ticket was created"]);
    // On the page of another connector as well: what the link says goes first.
    let story = viewer.open(&format!("/deliveries?connector={}&ticket={foreign}", acme.connector)).await;
    has(&story, &[&format!("/connectors/{}\"><bdi>globex.zendesk.com", globex.connector), "The ticket was created"]);

    let member = app.somebody(Role::Member).await;
    let of_acme = make(&app, &acme.connector, &["ticket.created"]).await;
    let page = format!("/agents/{of_acme}");
    let act = format!("{page}/run");
    let refused = member.submit(&page, &act, &[("ticket", foreign)]).await;
    assert_eq!(refused.status, 422, "{}", refused.text);
    has(&refused, &["That link is of globex.zendesk.com, and Noting works on acme.zendesk.com.", "Back to the agent"]);
    assert_eq!(member.submit(&page, &act, &[("ticket", "https://acme.zendesk.com/agent/users/42")]).await.status, 422);
    assert!(runs(&app, &of_acme).await.is_empty());

    let bound =
        json!([{ "connector": acme.connector, "role": "main" }, { "connector": globex.connector, "role": "other" }]);
    let both = patch(&app, &of_acme, json!({ "connectors": bound })).await.expect(200).text_of("id");
    let _asked = member.submit(&page, &act, &[("ticket", foreign), ("role", "main")]).await;
    assert_eq!(runs(&app, &both).await[0]["event"]["role"], "other", "the link says where it is");
    assert_eq!(app.app.run_due_agents().await.unwrap(), 1);
    let _over = ended(&app, &both, 1).await;
    let page = member.open(&format!("/agents/{both}?ticket=42&role=other")).await;
    has(&page, &["<option selected>other</option>"]);
}
