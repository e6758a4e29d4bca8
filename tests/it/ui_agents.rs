//! Agents in a browser: made from a sample, watched, stopped with their connector, changed, deleted.

use std::sync::Arc;

use holdfast_core::Role;
use holdfast_tests::{
    browser::{Browser, Page},
    database::Database,
    html::Html,
    on_both,
    service::TestApp,
};
use serde_json::json;

on_both! {
    an_empty_list_teaches_how_to_begin,
    an_agent_is_made_from_a_sample_and_runs,
    a_form_that_is_sent_twice_makes_one_agent_and_a_double_click_one_run,
    what_is_wrong_stands_by_its_field_and_nothing_typed_is_lost,
    a_stopped_agent_says_why_and_leads_to_where_it_is_mended,
    an_agent_is_paused_resumed_changed_and_deleted,
    a_dry_run_is_shown_with_what_it_would_have_written,
    an_agent_that_waits_for_events_is_made_and_tried_on_a_ticket,
    an_agent_by_the_calendar_is_made_and_changed,
    who_looks_sees_no_button,
    anything_may_be_in_a_name,
    a_long_run_is_shown_in_pages,
}

const ADA: &str = "ada@example.com";

async fn start(db: &Arc<Database>) -> (TestApp, Browser) {
    let app = TestApp::start(db).await;
    app.person("Acme", ADA, Role::Admin).await;
    let browser = app.signed_in(ADA).await;
    (app, browser)
}

async fn open(app: &TestApp, browser: &Browser, path: &str) -> Html {
    browser.open(&app.at(path)).await
}

/// Made from the sample that annotates; by hand only.
async fn made(app: &TestApp, browser: &Browser) -> String {
    let form = open(app, browser, "/agents/new?sample=annotate_urgent_tickets").await.form("/agents/new");
    let sent = browser.send_form(&form.with("every", "")).await;
    assert_eq!(sent.status, 303, "{}", sent.text);
    sent.location().strip_prefix("/agents/").unwrap().split('?').next().unwrap().to_owned()
}

/// Sends the form of a page that goes there, and goes on.
async fn press(app: &TestApp, browser: &Browser, page: &str, action: &str) -> (String, Page) {
    browser.follow(&open(app, browser, page).await.form(action)).await
}

async fn an_empty_list_teaches_how_to_begin(db: Arc<Database>) {
    let (app, browser) = start(&db).await;

    let bare = open(&app, &browser, "/agents").await;
    assert!(bare.text.contains("No agent yet") && bare.text.contains("Connect a helpdesk first"), "{}", bare.text);
    let form = open(&app, &browser, "/agents/new?sample=annotate_urgent_tickets").await;
    assert!(form.text.contains("Nothing is connected yet"), "{}", form.text);
    let _acme = app.import("acme").await;
    let ready = open(&app, &browser, "/agents").await;

    assert!(ready.text.contains("Begin with a sample"), "{}", ready.text);
    for link in [
        "/agents/new?sample=annotate_urgent_tickets",
        "/agents/new?sample=tag_and_answer_by_rule",
        "/agents/new?sample=own",
    ] {
        assert!(ready.links.contains(&link.to_owned()), "{link}");
        let form = open(&app, &browser, link).await.form("/agents/new");
        assert!(form.value("runner").unwrap().starts_with("{\n  \"kind\": \"playbook\""), "{link}");
    }
    let choose = open(&app, &browser, "/agents/new").await;
    assert!(choose.text.contains("What should the agent do?"), "{}", choose.text);
}

async fn an_agent_is_made_from_a_sample_and_runs(db: Arc<Database>) {
    let (app, browser) = start(&db).await;
    let acme = app.import_with("acme", json!({ "name": "Support" })).await;

    let page = open(&app, &browser, "/agents/new?sample=annotate_urgent_tickets").await;
    let form = page.form("/agents/new");
    assert_eq!(form.value("connector.0"), Some(acme.as_str()), "with one there is nothing to choose");
    assert_eq!(form.fields.iter().filter(|(name, _)| name == "tool.0").count(), 4, "what the playbook asks for");
    assert!(
        page.text.contains("reply_to_ticket writes") && page.text.contains("search_tickets reads"),
        "{}",
        page.text
    );
    let (at, shown) = browser.follow(&form.with("name", "Night watch").with("every", "900")).await;

    let html = shown.html(&at);
    assert!(html.text.contains("The agent is made.") && html.text.contains("Every 15 minutes"), "{}", html.text);
    assert!(html.text.contains("Night watch") && html.text.contains("Active"), "{}", html.text);
    assert!(html.text.contains("Look for urgent tickets search_tickets reads"), "its steps in words: {}", html.text);
    assert_eq!(app.app.run_due_agents().await.unwrap(), 1);
    let id = at.strip_prefix(&app.at("/agents/")).unwrap().split('?').next().unwrap().to_owned();
    let (run, _) = press_run(&app, &browser, &format!("/agents/{id}")).await;
    let run = app.at(&run);
    let page = browser.get(&run).await;
    assert!(page.html(&run).text.contains("Waiting"), "{}", page.text);
    assert!(page.html(&run).text.contains(&format!("asked for by {ADA}")), "{}", page.text);
    assert_eq!(app.app.run_due_agents().await.unwrap(), 1);
    let done = browser.open(&run).await;
    assert!(done.text.contains("Succeeded") && done.text.contains("search_tickets reads"), "{}", done.text);
    let list = open(&app, &browser, "/agents").await;
    assert!(list.text.contains("Night watch Active Support Every 15 minutes next in 1"), "{}", list.text);
    let agent = open(&app, &browser, &format!("/agents/{id}")).await;
    assert!(agent.text.contains(&format!("Asked for by {ADA}").replace("Asked for by ", "")), "{}", agent.text);
    let first = done.links.iter().find(|link| link.ends_with("/steps/1")).unwrap();
    let step = open(&app, &browser, first).await;
    assert!(
        step.text.contains("Step 1: Look for urgent tickets") && step.text.contains("\"priority\""),
        "{}",
        step.text
    );
    let nowhere = browser.get(&app.at(&first.replace("/steps/1", "/steps/99"))).await;
    assert_eq!(nowhere.status, 404);
}

async fn a_form_that_is_sent_twice_makes_one_agent_and_a_double_click_one_run(db: Arc<Database>) {
    let (app, browser) = start(&db).await;
    let _acme = app.import("acme").await;
    let form = open(&app, &browser, "/agents/new?sample=tag_and_answer_by_rule").await.form("/agents/new");

    let (one, two) = tokio::join!(browser.send_form(&form), browser.send_form(&form));

    assert_eq!((one.status, two.status), (303, 303), "{} {}", one.text, two.text);
    assert_eq!(one.location(), two.location());
    assert_eq!(db.number("SELECT COUNT(*) FROM agents").await, 1);
    let agent = one.location().split('?').next().unwrap().to_owned();
    let run = open(&app, &browser, &agent).await;
    let run = run.forms.iter().find(|form| form.action.ends_with("/run") && form.value("dry").is_none()).unwrap();
    let (one, two) = tokio::join!(browser.send_form(run), browser.send_form(run));
    assert_eq!((one.status, &one.location()), (303, &two.location()), "both lead to the same run");
    assert_eq!(db.number("SELECT COUNT(*) FROM runs").await, 1);
}

async fn what_is_wrong_stands_by_its_field_and_nothing_typed_is_lost(db: Arc<Database>) {
    let (app, browser) = start(&db).await;
    let _acme = app.import("acme").await;
    let form = open(&app, &browser, "/agents/new?sample=own").await.form("/agents/new");
    let wrong = "{\"kind\": \"playbook\", \"steps\": [{\"id\": \"a\", \"tool\": \"get_ticket\"}]}";

    for (changed, words) in [
        (form.clone().with("name", " "), "A name has 1 to 100 characters, on one line, and none that is invisible."),
        (form.clone().with("name", "A").with("connector.0", ""), "Choose the connector that the agent works on."),
        (form.clone().with("name", "A").with("connector.0", "con_x"), "There is no such connector"),
        (form.clone().with("name", "A").with("every", "5"), "Choose how often; between 10 seconds and 31 days."),
        (form.clone().with("name", "A").with("runner", "{\n  \"steps\": [}"), "This is no JSON: line 2, column 13."),
        (
            form.clone().with("name", "A").with("runner", wrong).ticked("tool.0", "get_ticket"),
            "Step \"a\", at steps[0].with.ticket_id: it is missing.",
        ),
        (
            form.clone().with("name", "A").unticked("tool.0", "search_tickets"),
            "search_tickets is not granted on helpdesk: grant it",
        ),
    ] {
        let page = browser.send_form(&changed).await;

        assert_eq!(page.status, 422, "{words}");
        let html = page.html(&app.base);
        assert!(html.text.contains(words), "{words}: {}", html.text);
        let again = html.form("/agents/new");
        for field in ["id", "name", "runner", "every"] {
            let typed = changed.value(field);
            // A choice that is not offered cannot be shown again.
            assert!(again.value(field) == typed || (field == "every" && typed == Some("5")), "{field}: {again:?}");
        }
    }
    assert_eq!(db.number("SELECT COUNT(*) FROM agents").await, 0);
    let forged = form.clone().with("id", "agent_x").with("name", "A");
    assert_eq!(browser.send_form(&forged).await.status, 400);
}

async fn a_stopped_agent_says_why_and_leads_to_where_it_is_mended(db: Arc<Database>) {
    let (app, browser) = start(&db).await;
    let acme = app.import("acme").await;
    let agent = made(&app, &browser).await;
    app.fail(&acme).await;

    let list = open(&app, &browser, "/agents").await;
    let page = open(&app, &browser, &format!("/agents/{agent}")).await;

    assert!(list.text.contains("Stopped: Zendesk acme needs Reconnect"), "{}", list.text);
    assert!(list.links.contains(&format!("/connectors/{acme}")), "{:?}", list.links);
    assert!(
        page.text.contains("This agent is stopped") && page.text.contains("Zendesk acme needs Reconnect"),
        "{}",
        page.text
    );
    assert!(page.text.contains("It goes on by itself as soon as this is mended."), "{}", page.text);
    assert!(page.links.contains(&format!("/connectors/{acme}")));
    assert!(!page.forms.iter().any(|form| form.action.ends_with("/run")), "nothing to run: {:?}", page.forms);
    // Who has an old page open and presses its button is told the same.
    let csrf = page.form("/sign-out").value("csrf").unwrap().to_owned();
    let told = browser.submit(&app.at(&format!("/agents/{agent}/run")), &[("csrf", csrf)]).await;
    assert_eq!(told.status, 409);
    assert!(told.text.contains("is stopped: Zendesk acme needs Reconnect"), "{}", told.text);
    assert!(told.html(&app.base).links.iter().any(|link| link.ends_with(&format!("/agents/{agent}"))), "{}", told.text);
    let page = app.consent(&app.reconnect_link(&acme).await).await;
    assert_eq!(page.status, 200, "{}", page.text);
    let back = open(&app, &browser, &format!("/agents/{agent}")).await;
    assert!(back.text.contains("Active") && !back.text.contains("is stopped"), "{}", back.text);
}

async fn an_agent_is_paused_resumed_changed_and_deleted(db: Arc<Database>) {
    let (app, browser) = start(&db).await;
    let (_acme, globex) = (app.import("acme").await, app.import("globex").await);
    let form = open(&app, &browser, "/agents/new?sample=annotate_urgent_tickets").await.form("/agents/new");
    assert_eq!(form.value("connector.0"), Some(""), "there are two to choose from");
    let (at, _) = browser.follow(&form.with("connector.0", &globex).with("every", "")).await;
    let path = at.strip_prefix(&app.base).unwrap().split('?').next().unwrap().to_owned();

    let (at, page) = press(&app, &browser, &path, &format!("{path}/pause")).await;
    let text = page.html(&at).text;
    assert!(text.contains("The agent is paused.") && text.contains(&format!("Paused by {ADA}")), "{text}");
    let (at, page) = press(&app, &browser, &path, &format!("{path}/resume")).await;
    assert!(page.html(&at).text.contains("The agent goes on."), "{}", page.text);

    let form = open(&app, &browser, &format!("{path}/edit")).await.form(&format!("{path}/edit"));
    assert_eq!(form.value("connector.0"), Some(globex.as_str()));
    let runner = form.value("runner").unwrap().replace("holdfast_annotated", "seen_by_us");
    let change = form.with("name", "Changed").with("every", "3600").with("runner", &runner);
    let (at, page) = browser.follow(&change).await;
    let text = page.html(&at).text;
    assert!(
        text.contains("The agent is changed.") && text.contains("Changed") && text.contains("Every hour"),
        "{text}"
    );
    assert!(page.html(&at).codes.iter().any(|code| code.contains("seen_by_us")), "{}", page.text);
    let fewer = open(&app, &browser, &format!("{path}/edit")).await.form(&format!("{path}/edit"));
    let refused = browser.send_form(&fewer.unticked("tool.0", "update_ticket")).await;
    assert_eq!(refused.status, 422);
    assert!(refused.html(&app.base).text.contains("update_ticket is not granted"), "{}", refused.text);

    let ask = open(&app, &browser, &format!("{path}/delete")).await;
    assert!(ask.text.contains("What happens") && ask.text.contains("globex"), "{}", ask.text);
    let form = ask.form(&format!("{path}/delete"));
    let wrong = browser.send_form(&form.clone().with("name", "changed")).await;
    assert_eq!(wrong.status, 422);
    assert!(wrong.text.contains("That is not its name. Nothing was deleted."), "{}", wrong.text);
    let (at, page) = browser.follow(&form.with("name", " Changed ")).await;
    assert!(page.html(&at).text.contains("The agent is deleted"), "{}", page.text);
    assert_eq!(browser.get(&app.at(&path)).await.status, 404);
}

async fn a_dry_run_is_shown_with_what_it_would_have_written(db: Arc<Database>) {
    let (app, browser) = start(&db).await;
    let _acme = app.import("acme").await;
    let form = open(&app, &browser, "/agents/new?sample=annotate_urgent_tickets").await.form("/agents/new");
    let (at, page) = browser.follow(&form.ticked("paused", "yes")).await;
    let agent = page.html(&at);
    assert!(agent.text.contains("Paused by") && agent.text.contains("A dry run is possible"), "{}", agent.text);
    let run = agent.forms.iter().find(|form| form.action.ends_with("/run")).unwrap();
    assert_eq!((run.value("dry"), run.buttons.as_slice()), (Some("yes"), &["Dry run".to_owned()][..]));

    let (at, _) = browser.follow(run).await;
    assert_eq!(app.app.run_due_agents().await.unwrap(), 1);
    let done = browser.open(&at).await;

    assert!(done.text.contains("Dry run of") && done.text.contains("Not done: dry run"), "{}", done.text);
    assert!(
        done.text.contains("It read, and changed nothing.") || done.text.contains("it read, and changed nothing"),
        "{}",
        done.text
    );
    assert!(done.codes.iter().any(|code| code.contains("Urgent: ")), "{:?}", done.codes);
    let step = done.links.iter().find(|link| link.ends_with("/steps/3")).unwrap();
    let step = open(&app, &browser, step).await;
    assert!(step.codes.iter().any(|code| code.contains("\"public\": false")), "{:?}", step.codes);
}

async fn an_agent_that_waits_for_events_is_made_and_tried_on_a_ticket(db: Arc<Database>) {
    let (app, browser) = start(&db).await;
    let acme = app.import("acme").await;
    let form = open(&app, &browser, "/agents/new?sample=triage_new_tickets").await.form("/agents/new");
    assert_eq!((form.value("every"), form.value("event")), (Some("events"), Some("ticket.created")));

    let none = browser.send_form(&form.clone().with("event", "")).await;
    assert!(none.text.contains("Choose at least one event."), "{}", none.text);
    let (at, shown) = browser.follow(&form).await;
    let html = shown.html(&at);
    assert!(html.text.contains("When a ticket is created"), "{}", html.text);
    let id = at.strip_prefix(&app.at("/agents/")).unwrap().split('?').next().unwrap().to_owned();
    let page = format!("/agents/{id}");
    let ask = open(&app, &browser, &page).await.form(&format!("{page}/run")).with("ticket", "42");
    let (run, _) = browser.follow(&ask).await;
    assert_eq!(app.app.run_due_agents().await.unwrap(), 1);

    let done = browser.open(&run).await;
    assert!(done.text.contains("About ticket #42") && done.text.contains("Succeeded"), "{}", done.text);
    let edit = open(&app, &browser, &format!("{page}/edit")).await.form(&format!("{page}/edit"));
    assert_eq!((edit.value("every"), edit.value("event")), (Some("events"), Some("ticket.created")));
    let deaf = open(&app, &browser, &page).await;
    assert!(deaf.text.contains("No events come from") && deaf.text.contains("Set up the webhook"), "{}", deaf.text);
    assert!(deaf.links.iter().any(|link| link.ends_with(&format!("/connectors/{acme}/webhook"))), "{:?}", deaf.links);
    let _hook = app.hook(&acme, "zendesk", "acme", json!({ "secret": "zendesk-signing-secret" })).await;
    let hears = open(&app, &browser, &page).await;
    assert!(!hears.text.contains("No events come from"), "{}", hears.text);
}

async fn an_agent_by_the_calendar_is_made_and_changed(db: Arc<Database>) {
    let (app, browser) = start(&db).await;
    let _acme = app.import("acme").await;
    let form = open(&app, &browser, "/agents/new?sample=annotate_urgent_tickets").await.form("/agents/new");
    let form = form.with("every", "cron").with("cron", "0 9 * * MON-FRI").with("zone", "Europe/Berlin");

    let wrong = browser.send_form(&form.clone().with("cron", "0 9 * *")).await;
    assert!(wrong.text.contains("Write five fields") && wrong.text.contains("Europe/Berlin"), "{}", wrong.text);
    let nowhere = browser.send_form(&form.clone().with("zone", "Berlin")).await;
    assert!(nowhere.text.contains("There is no time zone of this name"), "{}", nowhere.text);
    let (at, shown) = browser.follow(&form).await;

    let html = shown.html(&at);
    assert!(html.text.contains("09:00") && html.text.contains("Europe/Berlin"), "{}", html.text);
    let page = at.strip_prefix(&app.at("")).unwrap().split('?').next().unwrap().to_owned();
    let edit = open(&app, &browser, &format!("{page}/edit")).await.form(&format!("{page}/edit"));
    assert_eq!((edit.value("cron"), edit.value("missed")), (Some("0 9 * * MON-FRI"), Some("run_once")));
}

async fn who_looks_sees_no_button(db: Arc<Database>) {
    let (app, browser) = start(&db).await;
    let _acme = app.import("acme").await;
    let agent = made(&app, &browser).await;
    for (email, role, run, manage) in
        [("vi@example.com", Role::Viewer, false, false), ("me@example.com", Role::Member, true, false)]
    {
        app.person("Acme", email, role).await;
        let browser = app.signed_in(email).await;

        let page = open(&app, &browser, &format!("/agents/{agent}")).await;

        let goes = |end: &str| page.forms.iter().any(|form| form.action.ends_with(end));
        assert_eq!((goes("/run"), goes("/pause")), (run, manage), "{role:?}");
        assert!(!page.links.iter().any(|link| link.ends_with("/edit") || link.ends_with("/delete")), "{role:?}");
        assert!(!open(&app, &browser, "/agents").await.links.contains(&"/agents/new".to_owned()));
    }
    app.person("Globex", "gus@example.com", Role::Owner).await;
    let stranger = app.signed_in("gus@example.com").await;
    assert_eq!(stranger.get(&app.at(&format!("/agents/{agent}"))).await.status, 404);
    assert!(open(&app, &stranger, "/agents").await.text.contains("No agent yet"));
}

async fn anything_may_be_in_a_name(db: Arc<Database>) {
    let (app, browser) = start(&db).await;
    let name = "<script>alert(1)</script> \"&'愛";
    let _acme = app.import_with("acme", json!({ "name": "<b>Support</b>" })).await;
    let form = open(&app, &browser, "/agents/new?sample=annotate_urgent_tickets").await.form("/agents/new");

    let (at, _) = browser.follow(&form.with("name", name).with("every", "")).await;
    let path = at.strip_prefix(&app.base).unwrap().split('?').next().unwrap().to_owned();
    let (run, _) = press_run(&app, &browser, &path).await;
    app.app.run_due_agents().await.unwrap();

    // The reader of these pages would stumble over markup that does not belong to them.
    for page in ["/agents", &path, &format!("{path}/edit"), &format!("{path}/delete"), &run, &format!("{run}/steps/1")]
    {
        let shown = browser.get(&app.at(page)).await;
        assert!(!shown.text.contains("<script>alert") && !shown.text.contains("<b>Support"), "{page}");
        assert!(shown.html(&app.base).text.contains("<script>alert(1)</script>"), "{page}: {}", shown.text);
    }
}

async fn press_run(app: &TestApp, browser: &Browser, path: &str) -> (String, Page) {
    let page = open(app, browser, path).await;
    let form = page.forms.iter().find(|form| form.action.ends_with("/run") && form.value("dry").is_none()).unwrap();
    let sent = browser.send_form(form).await;
    (sent.location(), sent)
}

async fn a_long_run_is_shown_in_pages(db: Arc<Database>) {
    let (app, browser) = start(&db).await;
    let _acme = app.import("acme").await;
    let agent = made(&app, &browser).await;
    let (run, _) = press_run(&app, &browser, &format!("/agents/{agent}")).await;
    app.app.run_due_agents().await.unwrap();

    let mut seen = 0;
    let mut next = Some(run);
    while let Some(at) = next {
        let page = browser.get(&app.at(&at)).await;
        assert!(page.text.len() < 25_000, "{} bytes", page.text.len());
        let html = page.html(&app.at(&at));
        seen += html.links.iter().filter(|link| link.contains("/steps/")).count();
        let from = |link: &&String| link.contains("?from=") && html.text.contains("Later");
        let from_of = |at: &str| {
            at.split_once("from=").and_then(|(_, n)| n.split('#').next()?.parse::<usize>().ok()).unwrap_or(0)
        };
        next = html.links.iter().filter(from).find(|link| from_of(link) > from_of(&at)).cloned();
    }

    let steps = db.number("SELECT COUNT(*) FROM run_steps WHERE tool IS NOT NULL").await;
    assert!(steps > 40, "{steps}");
    assert_eq!(i64::try_from(seen).unwrap(), steps, "each call once");
}
