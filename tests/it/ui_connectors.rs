//! Home and the page of a connector: what they tell, to whom, and what can be done from there.

use std::{sync::Arc, time::Duration};

use holdfast_core::Role;
use holdfast_sandbox::{Canned, GrantRequest};
use holdfast_tests::{
    browser::{Browser, Page},
    database::Database,
    html::{Element, Form},
    on_both,
    service::TestApp,
    smtp::Smtp,
    wait::until,
};
use reqwest::Method;
use serde_json::json;

on_both! {
    home_begins_with_the_catalogue,
    home_tells_first_what_needs_somebody,
    home_is_searched_filtered_and_paged,
    home_stays_small_whatever_things_are_called,
    a_name_that_hides_something_is_none,
    a_failed_connector_says_why_since_when_and_what_to_do,
    who_was_told_stands_beside_the_failure,
    the_agents_of_a_connector_are_named_where_they_matter,
    a_degraded_connector_needs_nobody,
    a_test_answers_on_the_page,
    a_test_of_before_the_reconnect_is_not_shown,
    each_way_of_failing_a_test_has_its_next_step,
    a_connector_is_renamed,
    disconnect_and_delete_say_what_stops_and_ask_for_the_name,
    each_role_sees_and_does_what_it_may,
    another_organisations_connector_is_not_there,
    a_form_without_its_token_does_nothing,
    names_are_shown_as_they_are,
    the_timeline_is_filtered_and_paged,
    refreshes_are_drawn_with_a_table_for_readers,
    what_a_connector_was_used_for_is_counted_and_drawn,
    health_is_drawn_over_time,
}

fn part(page: &Page, id: &str) -> Element {
    page.read().by_id(id).unwrap_or_else(|| panic!("no {id} in {}", page.text)).clone()
}

/// The names in the list, in order.
fn listed(page: &Page) -> Vec<String> {
    page.read().named("tr").into_iter().filter_map(|row| Some(row.named("bdi").first()?.text())).collect()
}

async fn home_begins_with_the_catalogue(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let ada = app.somebody(Role::Admin).await;

    let page = ada.open("/").await.expect(200);
    assert_eq!((page.title(), page.url.as_str()), ("Connectors", app.at("/connectors").as_str()));
    let page = ada.open("/connectors").await;
    assert!(page.says("Nothing is connected yet") && page.says("Helpdesk: search and read tickets"), "{}", page.text);
    assert!(page.text.contains("href=\"/connectors/new/zendesk\""), "{}", page.text);
    assert!(ada.open("/connectors/new?q=TICKETS").await.says("Zendesk"));
    assert!(ada.open("/connectors/new?q=nothing+%3Cb%3E").await.says("Nothing here is called “nothing <b>”"));

    let viewer = app.somebody(Role::Viewer).await;
    let page = viewer.open("/connectors").await.expect(200);
    assert!(
        page.says("An admin of your organisation connects") && !page.text.contains("/connectors/new"),
        "{}",
        page.text
    );
}

async fn home_tells_first_what_needs_somebody(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let fine = app.import_with("acme", json!({ "name": "Fine" })).await;
    let ada = app.somebody(Role::Admin).await;
    let page = ada.open("/connectors").await.expect(200);
    assert!(part(&page, "needs").text().contains("Nothing needs you."), "{}", page.text);
    assert_eq!(part(&page, "needs").get("data-live"), Some("Nothing needs you."));

    let globex = app.sandbox.create_helpdesk("globex").unwrap();
    let failed = app.import_with("globex", json!({ "name": "Failed" })).await;
    let token = app.token(&failed).await.expect(200).text_of("access_token");
    globex.revoke(None);
    let body = json!({ "access_token": token });
    let _told =
        app.post(&format!("/connectors/{failed}/token/rejected"), body).await.problem(409, "connector_auth_failed");
    let ends = json!({
        "provider": "zendesk", "account": "ends", "name": "Ends",
        "credential": { "access_token": "secret", "expires_in": 3600 },
    });
    let ends = app.post("/connectors", ends).await.expect(201).text_of("id");

    let page = ada.open("/connectors").await.expect(200);

    let needs = part(&page, "needs");
    assert!(needs.text().starts_with("Needs you Failed Zendesk · globex.zendesk.com · failed"), "{}", needs.text());
    assert!(needs.text().contains("Zendesk refused the refresh token."), "{}", needs.text());
    let reconnects: Vec<_> = page.forms_of(&needs).iter().map(Form::path).collect();
    assert_eq!(reconnects, [format!("/connectors/{failed}/reconnect")]);
    assert_eq!(needs.named("button")[0].get("class"), Some("primary"), "it is what the page is about");
    assert_eq!(needs.get("data-live"), Some("1 connector needs you."));
    assert!(needs.text().contains("Ends Ends soon ends in 1 hour"), "{}", needs.text());
    assert_eq!(listed(&page), ["Ends", "Failed", "Fine"]);
    for id in [fine, failed, ends] {
        assert!(page.text.contains(&format!("href=\"/connectors/{id}\"")), "{id}");
    }
    assert!(page.text.len() < 60_000, "{} bytes", page.text.len());
}

async fn home_is_searched_filtered_and_paged(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let (org, at) = (app.org.clone(), app.clock.as_ref());
    let at = holdfast_core::ports::Clock::now(at);
    for number in 0..120 {
        let new = holdfast_store::NewConnector {
            org: org.clone(),
            provider: "zendesk".to_owned(),
            account: format!("desk{number:03}"),
            name: format!("Desk {number:03}"),
            alias: None,
            secret: holdfast_core::Secret::Absent,
            app: None,
            due_at: None,
            extras: Vec::new(),
            at,
        };
        app.app.store.create_connector(&new).await.unwrap();
    }
    let id = app.import_with("acme", json!({ "name": "Ünder & Söhne", "alias": "old-7" })).await;
    let ada = app.somebody(Role::Viewer).await;

    let (mut seen, mut path, mut pages) = (Vec::new(), "/connectors".to_owned(), 0);
    loop {
        let page = ada.open(&path).await.expect(200);
        assert!(page.text.len() < 60_000, "{} bytes", page.text.len());
        seen.extend(listed(&page));
        pages += 1;
        assert_eq!(page.read().link("First page").is_some(), pages > 1);
        match page.read().link("Next page") {
            Some(next) => path = next,
            None => break,
        }
    }
    assert_eq!((pages, seen.len()), (5, 121));
    assert!(seen.is_sorted(), "{seen:?}");

    let find = async |query: &str| listed(&ada.open(&format!("/connectors?{query}")).await.expect(200));
    assert_eq!(find("q=desk+007").await, ["Desk 007"]);
    assert_eq!(find("q=desk119.zendesk.com").await, Vec::<String>::new());
    assert_eq!(find("q=DESK119").await, ["Desk 119"]);
    assert_eq!(find("q=old-7").await, ["Ünder & Söhne"]);
    assert_eq!(find(&format!("q={id}")).await, ["Ünder & Söhne"]);
    assert_eq!(find("health=connected").await, ["Ünder & Söhne"]);
    assert_eq!(find("health=pending&q=11").await.len(), 11);
    assert_eq!(find("provider=front").await, Vec::<String>::new());
    assert_eq!(find("health=nonsense&cursor=nonsense").await.len(), 25);
    let counted = async |query: &str| part(&ada.open(&format!("/connectors?{query}")).await, "all-title").text();
    assert_eq!(counted("").await, "All connectors 121");
    assert_eq!(counted("q=no-such-thing").await, "Found 0 of 121");
    assert_eq!(counted("health=pending").await, "Found more than 25 of 121");
    let slash = ada.browser.get(&app.at("/connectors/?q=desk")).await;
    assert_eq!((slash.status, slash.location().as_str()), (308, "/connectors?q=desk"));
    assert_eq!(ada.browser.get(&app.at("//evil.example/")).await.status, 404, "nobody is led elsewhere");
    let page = ada.open("/connectors?q=%22%3E%3Cscript%3Ex&health=pending").await.expect(200);
    assert!(page.says("No connector is like that") && !page.text.contains("<script>x"), "{}", page.text);
    let kept = page.forms().into_iter().find(|form| form.goes_to("/connectors")).unwrap().fields;
    assert_eq!(kept, [("q", "\"><script>x"), ("health", "pending")].map(|(a, b)| (a.to_owned(), b.to_owned())));
}

/// 50 connectors with the longest names, ten of them failed, each with an agent of a long name.
async fn home_stays_small_whatever_things_are_called(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    for number in 0..50 {
        let name = format!("{number:02} {}", "A name of many letters ".repeat(5).trim().get(..97).unwrap());
        let id = app.import_with(&format!("desk{number:03}"), json!({ "name": name })).await;
        let agent = json!({ "name": name, "sample": "annotate_urgent_tickets", "connectors": [{ "connector": id }] });
        let _made = app.post("/agents", agent).await.expect(201);
    }
    db.execute(
        "UPDATE connectors SET health = 'auth_failed', health_reason = 'refresh_refused' WHERE account < 'desk020'",
    )
    .await;
    let ada = app.somebody(Role::Owner).await;

    let page = ada.open("/connectors").await.expect(200);

    assert!(page.says("20 connectors need you") || page.says("10 more need you"), "{}", page.text);
    assert_eq!(listed(&page).len(), 25);
    assert!(page.text.len() < 60_000, "{} bytes", page.text.len());
}

/// CO-10, EM-04
async fn a_name_that_hides_something_is_none(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let agents = json!([{ "connector": id }]);

    for bad in ["\u{200B}", "a\u{202E}b", "a\u{2066}b", "\u{3164}"] {
        let path = format!("/connectors/{id}");
        let renamed = app.call(Method::PATCH, &path, Some(&app.key), Some(json!({ "name": bad }))).await;
        let agent = json!({ "name": bad, "sample": "annotate_urgent_tickets", "connectors": agents });
        let account = format!("desk{}", bad.chars().count());
        let new = json!({ "provider": "zendesk", "account": account, "name": bad });
        for answer in [renamed, app.post("/agents", agent).await, app.post("/connectors", new).await] {
            let told = answer.problem(422, "invalid");
            assert_eq!(told.json["field"], "name", "{}", told.text);
            assert!(told.text.contains("none that is invisible"), "{}", told.text);
        }
    }
}

/// HL-01, EM-06
async fn a_failed_connector_says_why_since_when_and_what_to_do(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import_with("acme", json!({ "name": "Support" })).await;
    app.fail(&id).await;
    app.advance(Duration::from_mins(3));
    let ada = app.somebody(Role::Admin).await;

    let page = ada.open(&format!("/connectors/{id}")).await.expect(200);

    let state = part(&page, "state");
    assert!(
        state.text().starts_with("It stopped working 3 minutes ago Zendesk refused the refresh token."),
        "{}",
        state.text()
    );
    assert!(state.text().contains("Reconnect it with an admin or agent of the same account."), "{}", state.text());
    let primary: Vec<_> = page.read().all().into_iter().filter(|part| part.is("primary")).map(Element::text).collect();
    assert_eq!(primary, ["Reconnect"], "one primary button");
    let said = part(&page, "failed-detail");
    assert!(said.get("open").is_none() && said.text().contains("refresh_refused"), "{}", said.text());
    assert!(said.text().contains("invalid_grant"), "the provider's own words are one click away: {}", said.text());
    assert!(part(&page, "head").text().contains("Needs Reconnect for 3 minutes"), "{}", page.text);
    assert_eq!(part(&page, "head").get("data-live"), Some("Support: Needs Reconnect"));
    let time = part(&page, "head").named("time")[0].clone();
    assert!(time.get("datetime").is_some_and(|at| at.ends_with('Z')) && time.get("title").is_some());

    // The address that an error of the API names is this page, over signing in.
    let key = app.key_with(&["tokens:read"]).await;
    let told = app.call(Method::GET, &format!("/connectors/{id}/token"), Some(&key), None).await;
    let told = told.problem(409, "connector_auth_failed").text_of("reconnect_url");
    let stranger = Browser::new().visit(&told).await.expect(200);
    assert_eq!(stranger.title(), "Sign in");
    assert_eq!(stranger.url, format!("{}/sign-in?next=%2Fconnectors%2F{id}", app.base));
}

/// EM-02: that mail cannot be delivered is said where it is missed.
async fn who_was_told_stands_beside_the_failure(db: Arc<Database>) {
    let smtp = Smtp::start().await;
    let app = TestApp::builder(&db).with(|config| smtp.configure(config)).start().await;
    let id = app.import_with("acme", json!({ "name": "Support" })).await;
    let (ada, other) = (app.somebody(Role::Admin).await, app.somebody(Role::Owner).await);
    let path = format!("/connectors/{id}");
    smtp.answer_rcpt(&ada.email, "550 5.1.1 no such person").await;
    let token = app.token(&id).await.expect(200).text_of("access_token");
    app.acme.revoke(None);
    let rejected = app.post(&format!("{path}/token/rejected"), json!({ "access_token": token })).await;
    let _told = rejected.problem(409, "connector_auth_failed");
    let told = async || part(&ada.open(&path).await, "told").text();

    assert_eq!(told().await, "The admins of your organisation are told by mail within seconds.");
    app.advance(Duration::from_secs(4));
    app.app.mail_due().await.unwrap();
    let seen = told().await;
    assert!(seen.contains(&format!("{}: told just now", other.email)), "{seen}");
    assert!(seen.contains(&format!("{}: mail refused (", ada.email)), "{seen}");

    // It is reconnected, and fails again while the mail server is down.
    assert_eq!(app.consent(&app.reconnect_link(&id).await).await.title(), "Connected");
    assert!(ada.open(&path).await.read().by_id("told").is_none(), "of a failure that is over nothing is said");
    smtp.down().await;
    let token = app.token(&id).await.expect(200).text_of("access_token");
    app.acme.revoke(None);
    let rejected = app.post(&format!("{path}/token/rejected"), json!({ "access_token": token })).await;
    let _told = rejected.problem(409, "connector_auth_failed");
    app.advance(Duration::from_secs(310));
    app.app.mail_due().await.unwrap();
    assert!(told().await.starts_with("E-mail cannot be delivered since"), "{}", told().await);
}

async fn the_agents_of_a_connector_are_named_where_they_matter(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import_with("acme", json!({ "name": "Support" })).await;
    let other = app.import_with("globex", json!({ "name": "Other" })).await;
    let make = async |name: &str, connector: &str| {
        let body = json!({
            "name": name, "sample": "annotate_urgent_tickets", "trigger": { "kind": "manual" },
            "connectors": [{ "connector": connector }],
        });
        app.post("/agents", body).await.expect(201).text_of("id")
    };
    let (one, two) = (make("Triage <1>", &id).await, make("Tagger", &id).await);
    let _third = make("Writer", &id).await;
    make("Elsewhere", &other).await;
    let _paused = app.post(&format!("/agents/{two}/pause"), json!({})).await.expect(200);
    let ada = app.somebody(Role::Admin).await;
    let path = format!("/connectors/{id}");
    let row =
        |page: &Page| page.read().named("tr").into_iter().find(|row| row.text().contains("Support")).unwrap().text();

    let home = ada.open("/connectors").await.expect(200);
    assert!(row(&home).contains("Tagger (Paused), Triage <1> and 1 more"), "{}", row(&home));
    let agents = part(&ada.open(&path).await, "agents");
    assert_eq!(agents.text(), "Agents Tagger Paused Triage <1> Active Writer Active");
    assert_eq!(agents.link("Triage <1>"), Some(format!("/agents/{one}")));
    let before = ada.open(&format!("{path}/disconnect")).await;
    assert!(before.says("These agents stop: Triage <1>, Writer."), "those that work now: {}", before.text);

    app.fail(&id).await;
    let page = ada.open(&path).await;
    let told = "Stopped for it: Tagger, Triage <1>, Writer. They run again by themselves once it is reconnected.";
    assert!(part(&page, "state").text().contains(told), "{}", part(&page, "state").text());
    assert_eq!(part(&page, "agents").text(), "Agents Tagger Stopped Triage <1> Stopped Writer Stopped");
    let home = ada.open("/connectors").await;
    assert!(part(&home, "needs").text().contains("Stopped for it: Tagger, Triage <1>, Writer"), "{}", home.text);
    assert!(!part(&home, "needs").text().contains("Elsewhere"), "{}", home.text);

    let started = ada.submit(&path, &format!("{path}/reconnect"), &[]).await;
    ada.browser.visit(&app.sandbox.consent(&started.location(), "ada").unwrap()).await;
    let working = async || part(&ada.open(&path).await, "agents").text();
    until("the agents run again", working, |agents| agents == "Agents Tagger Paused Triage <1> Active Writer Active")
        .await;
}

async fn a_degraded_connector_needs_nobody(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import_with("acme", json!({ "name": "Support" })).await;
    app.advance(holdfast_tests::service::LIFE);
    app.sandbox.set_client_secret("another", None);
    let _told = app.token(&id).await.problem(502, "oauth_app_rejected");
    let ada = app.somebody(Role::Admin).await;

    let page = ada.open(&format!("/connectors/{id}")).await.expect(200);

    let state = part(&page, "state");
    assert!(state.text().starts_with("Degraded "), "{}", state.text());
    assert!(state.text().contains("refuses the OAuth app of this installation, not your account"), "{}", state.text());
    assert!(state.text().contains("Nobody has to reconnect."), "{}", state.text());
    assert!(page.forms_of(&state).is_empty(), "no Reconnect where it does not help");
    let home = ada.open("/connectors").await;
    let needs = part(&home, "needs");
    assert!(
        needs.text().contains("Nothing needs you") && needs.text().contains("Support Degraded"),
        "{}",
        needs.text()
    );
    assert_eq!(listed(&ada.open("/connectors?health=degraded").await), ["Support"]);
}

async fn a_test_answers_on_the_page(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let bea = app.somebody(Role::Member).await;
    let (path, test) = (format!("/connectors/{id}"), format!("/connectors/{id}/test"));
    assert!(part(&bea.open(&path).await, "test-result").text().starts_with("Not tested yet"));

    let page = bea.submit_and_go_on(&path, &test, &[]).await.expect(200);

    let result = part(&page, "test-result").text();
    assert!(result.starts_with("Test passed Signed in as Ada Admin, admin Account acme.zendesk.com"), "{result}");
    assert!(result.contains("Permissions All that are needed Latency"), "{result}");
    assert!(result.contains("of 700 calls") && result.contains(&format!("by {}", bea.email)), "{result}");
    assert!(part(&page, "test-title").get("tabindex").is_some(), "the script moves the focus there");
    assert_eq!(app.timeline(&id).await[0]["actor"], bea.email);

    // Not all was granted.
    let desk = app.sandbox.create_helpdesk("smaller").unwrap();
    let grant = desk.grant(&GrantRequest { scope: Some("read".to_owned()), ..GrantRequest::default() }).unwrap();
    let body = json!({
        "provider": "zendesk", "account": "smaller",
        "credential": { "access_token": grant.access_token, "refresh_token": grant.refresh_token, "expires_in": 1800 },
    });
    let less = app.post("/connectors", body).await.expect(201).text_of("id");
    let page = bea.submit_and_go_on(&format!("/connectors/{less}"), &format!("/connectors/{less}/test"), &[]).await;
    let result = part(&page, "test-result").text();
    assert!(
        result.contains("Permissions Not allowed: Answer and change the tickets")
            && result.contains("allow all that is asked for"),
        "{result}"
    );
}

/// HL-08, as far as Zendesk goes.
async fn each_way_of_failing_a_test_has_its_next_step(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let bea = app.somebody(Role::Member).await;
    let test = async || {
        let (path, test) = (format!("/connectors/{id}"), format!("/connectors/{id}/test"));
        let page = bea.submit_and_go_on(&path, &test, &[]).await.expect(200);
        part(&page, "test-result").text()
    };
    let forbidden = r#"{"error":{"title":"Forbidden","message":"You do not have access to this page."}}"#;
    let mut seen = Vec::new();
    for (answer, words, next) in [
        (Canned::new(403, forbidden), "may not do this", "has to give that user the right"),
        (Canned::new(404, "<html>"), "no help desk at this address", "Test again in a few minutes"),
        (Canned::new(429, "{}").header("Retry-After", "0"), "rate limit", "wait a minute"),
        (Canned::new(500, "{}"), "in trouble", "keeps trying"),
        (Canned::new(200, "<html>"), "", "whoever runs this installation"),
    ] {
        app.acme.trouble(|faults| faults.api_answer = Some(answer));
        let result = test().await;
        assert!(result.starts_with("Test failed") && result.contains(words) && result.contains(next), "{result}");
        assert!(!result.contains("Reconnect it"), "nobody has to: {result}");
        assert_eq!(app.show(&id).await["health"], "connected");
        assert!(!seen.contains(&result));
        seen.push(result);
    }
    app.acme.calm();
    app.acme.revoke(None);
    let result = test().await;
    assert!(
        result.starts_with("Test failed Zendesk refused the refresh token.") && result.contains("Reconnect it."),
        "{result}"
    );
    assert_eq!(app.show(&id).await["health"], "auth_failed");
}

async fn a_test_of_before_the_reconnect_is_not_shown(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.connect("acme").await;
    let ada = app.somebody(Role::Admin).await;
    let (path, test) = (format!("/connectors/{id}"), format!("/connectors/{id}/test"));
    app.acme.revoke(None);
    let _failed = ada.submit(&path, &test, &[]).await.expect(303);
    assert!(part(&ada.open(&path).await, "test-result").text().starts_with("Test failed"));

    assert_eq!(app.consent(&app.reconnect_link(&id).await).await.title(), "Connected");

    let result = part(&ada.open(&path).await, "test-result").text();
    assert!(result.starts_with("Test passed"), "a new grant is tested, by whatever way it came: {result}");
    app.acme.revoke(None);
    app.fail(&id).await;
    let page = ada.open(&path).await;
    assert!(part(&page, "test-result").text().starts_with("Not tested since it stopped"), "{}", page.text);
}

async fn a_connector_is_renamed(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import_with("acme", json!({ "name": "Before" })).await;
    let ada = app.somebody(Role::Admin).await;
    let (path, rename) = (format!("/connectors/{id}"), format!("/connectors/{id}/rename"));
    let epoch = app.show(&id).await["epoch"].clone();

    let page = ada.submit_and_go_on(&path, &rename, &[("name", " After ")]).await.expect(200);

    assert_eq!(page.title(), "After");
    assert!(page.says("It is renamed."), "{}", page.text);
    let line = app.timeline(&id).await.remove(0);
    assert_eq!((&line["kind"], &line["detail"]), (&json!("renamed"), &json!("From Before to After")));
    assert_eq!(app.show(&id).await["epoch"], epoch);
    for bad in ["", "   ", "a\nb", &"x".repeat(101)] {
        assert_eq!(ada.submit(&path, &rename, &[("name", bad)]).await.status, 422, "{bad:?}");
    }
    let again = ada.submit(&path, &rename, &[("name", "a\u{202E}b")]).await.expect(422);
    assert_eq!((again.title(), again.form(&rename).unwrap().value("name")), ("After", Some("a\u{202E}b")));
    assert!(part(&again, "name-problem").text().contains("none that is invisible"), "{}", again.text);
    assert_eq!(app.show(&id).await["name"], "After");
}

async fn disconnect_and_delete_say_what_stops_and_ask_for_the_name(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import_with("acme", json!({ "name": "Support <1>" })).await;
    let ada = app.somebody(Role::Owner).await;
    let path = format!("/connectors/{id}");

    for end in ["disconnect", "delete"] {
        let end = format!("{path}/{end}");
        let page = ada.open(&end).await.expect(200);
        assert!(page.says("Support <1>?") && page.says("The access is given back to Zendesk."), "{}", page.text);
        for wrong in ["", "support <1>", "yes"] {
            let page = ada.submit(&end, &end, &[("name", wrong)]).await.expect(422);
            assert!(page.says("This is not its name."), "{}", page.text);
            assert_eq!(page.form(&end).unwrap().fields[1].1, wrong, "what was typed is kept");
        }
    }
    assert_eq!(app.show(&id).await["health"], "connected");

    let end = format!("{path}/disconnect");
    let page = ada.browser.go_on(ada.submit(&end, &end, &[("name", "Support <1> ")]).await).await.expect(200);
    assert!(
        page.says("It is disconnected") && part(&page, "state").text().starts_with("Disconnected"),
        "{}",
        page.text
    );
    assert_eq!(page.form(&format!("{path}/reconnect")).unwrap().buttons, ["Connect again"]);
    assert!(app.acme.ledger().sets.iter().all(|set| !set.is_live()), "the grant is given back");
    let line = app.timeline(&id).await.into_iter().find(|line| line["kind"] == "disconnected").unwrap();
    assert_eq!((&line["outcome"], &line["actor"]), (&json!("revoked"), &json!(ada.email)));
    assert_eq!(ada.open(&end).await.url, ada.url(&path), "there is nothing to disconnect any more");

    let end = format!("{path}/delete");
    let page = ada.browser.go_on(ada.submit(&end, &end, &[("name", "Support <1>")]).await).await.expect(200);
    assert!(page.says("The connector was deleted.") && page.says("Nothing is connected yet"), "{}", page.text);
    assert_eq!(ada.open(&path).await.status, 404);
    assert_eq!(db.number("SELECT COUNT(*) FROM connectors").await, 0);
}

async fn each_role_sees_and_does_what_it_may(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import_with("acme", json!({ "name": "Support" })).await;
    let path = format!("/connectors/{id}");
    let wrong_name = [("name", "not its name")];
    for (role, tests, manages) in [
        (Role::Viewer, false, false),
        (Role::Member, true, false),
        (Role::Admin, true, true),
        (Role::Owner, true, true),
    ] {
        let person = app.somebody(role).await;
        let page = person.open(&path).await.expect(200);
        assert!(page.says("Timeline") && page.says("Overview"), "everybody sees: {}", page.text);
        let offered: Vec<_> = page.forms().iter().map(Form::path).collect();
        assert_eq!(offered.contains(&format!("{path}/test")), tests, "{role:?}: {offered:?}");
        assert_eq!(offered.contains(&format!("{path}/reconnect")), manages, "{role:?}: {offered:?}");
        assert_eq!(offered.contains(&format!("{path}/rename")), manages, "{role:?}: {offered:?}");
        assert_eq!(page.text.contains(&format!("{path}/delete")), manages, "{role:?}");
        let home = person.open("/connectors").await.expect(200);
        assert_eq!(home.text.contains("/connectors/new"), manages, "{role:?}");

        // The server says so too, whatever is posted; with a token, which each page has for signing out.
        let csrf = page.form("/sign-out").unwrap().fields;
        let post =
            async |to: String| person.browser.send_fields(&person.url(&to), &csrf, &wrong_name, &[]).await.status;
        assert_eq!(post(format!("{path}/test")).await, if tests { 303 } else { 403 }, "{role:?}");
        for (to, done) in [
            (format!("{path}/reconnect"), 303),
            (format!("{path}/disconnect"), 422),
            (format!("{path}/delete"), 422),
            ("/connectors/new/zendesk".to_owned(), 422),
            (format!("{path}/rename"), 303),
        ] {
            assert_eq!(post(to.clone()).await, if manages { done } else { 403 }, "{role:?} {to}");
        }
        for to in [format!("{path}/disconnect"), format!("{path}/delete"), "/connectors/new/zendesk".to_owned()] {
            assert_eq!(person.open(&to).await.status, if manages { 200 } else { 403 }, "{role:?} {to}");
        }
        if manages {
            assert_eq!(app.show(&id).await["name"], "not its name");
            app.app.store.rename_connector(&app.org, &id.as_str().into(), "Support").await.unwrap();
        }
    }
    assert_eq!(app.show(&id).await["health"], "connected");
}

async fn another_organisations_connector_is_not_there(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import_with("acme", json!({ "name": "Support" })).await;
    let stranger = app.somebody_of("Other", Role::Owner).await;
    let (shown, calls) = (app.show(&id).await, app.acme.counters());

    let home = stranger.open("/connectors").await.expect(200);
    assert!(!home.text.contains(&id) && home.says("Nothing is connected yet"), "{}", home.text);
    let csrf = home.form("/sign-out").unwrap().fields;
    for id in [id.as_str(), "con_unknown"] {
        for get in ["", "/disconnect", "/delete"] {
            let page = stranger.open(&format!("/connectors/{id}{get}")).await;
            assert_eq!((page.status, page.title()), (404, "There is nothing here"), "{get}");
        }
        for post in ["/test", "/reconnect", "/rename", "/disconnect", "/delete"] {
            let to = stranger.url(&format!("/connectors/{id}{post}"));
            let page = stranger.browser.send_fields(&to, &csrf, &[("name", "Support")], &[]).await;
            assert_eq!((page.status, page.title()), (404, "There is nothing here"), "{post}");
        }
        let events = stranger.url(&format!("/events?connector={id}"));
        let events = stranger.browser.request(Method::GET, &events).header("accept", "text/event-stream");
        assert_eq!(events.send().await.unwrap().status(), 404);
    }
    // Nor by its alias, nor by somebody else's consent.
    assert_eq!((app.show(&id).await, app.acme.counters()), (shown, calls));
}

async fn a_form_without_its_token_does_nothing(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import_with("acme", json!({ "name": "Support" })).await;
    let (ada, eve) = (app.somebody(Role::Owner).await, app.somebody_of("Other", Role::Owner).await);
    let shown = app.show(&id).await;
    let own = ada.open("/connectors").await.form("/sign-out").unwrap().fields;
    let foreign = eve.open("/connectors").await.form("/sign-out").unwrap().fields;
    let path = format!("/connectors/{id}");

    for to in [
        format!("{path}/test"),
        format!("{path}/reconnect"),
        format!("{path}/rename"),
        format!("{path}/disconnect"),
        format!("{path}/delete"),
        "/connectors/new/zendesk".to_owned(),
    ] {
        let fields = [("name", "Support"), ("account", "globex")];
        for (token, headers) in [(&Vec::new(), &[][..]), (&foreign, &[]), (&own, &[("sec-fetch-site", "cross-site")])] {
            let page = ada.browser.send_fields(&ada.url(&to), token, &fields, headers).await;
            assert_eq!((page.status, page.title()), (403, "This form is out of date"), "{to}: {}", page.text);
        }
    }
    assert_eq!(app.show(&id).await, shown);
    assert_eq!(db.number("SELECT COUNT(*) FROM connect_sessions").await, 0);
}

async fn names_are_shown_as_they_are(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let names = [
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "{{ 7 * 7 }} {% raw %}",
        "דוד & Söhne <דסק>",
        "東京サポート 👩‍🚒",
        "'; DROP TABLE connectors; --",
    ];
    let ada = app.somebody(Role::Owner).await;
    for (number, name) in names.iter().enumerate() {
        let id = app.import_with(&format!("desk{number}"), json!({ "name": name })).await;
        let path = format!("/connectors/{id}");
        let _tested = ada.submit(&path, &format!("{path}/test"), &[]).await.expect(303);
        for to in [path.clone(), format!("{path}/disconnect"), format!("{path}/delete")] {
            let page = ada.open(&to).await.expect(200);
            let heading = page.read().named("h1")[0].text();
            assert!(heading.contains(name), "{to}: {heading}");
            assert!(holdfast_tests::html::decode(page.title()).contains(name), "{to}: {}", page.title());
            let scripts: Vec<_> =
                page.read().named("script").into_iter().map(|script| script.get("src").is_some()).collect();
            assert_eq!((scripts, page.read().named("img").len()), (vec![true], 0), "{to}: {}", page.text);
            let inline =
                |part: &&Element| part.attributes.iter().any(|(name, _)| name.starts_with("on") || name == "style");
            assert!(!page.read().all().iter().any(inline), "{to}: {}", page.text);
        }
    }
    let mut listed = listed(&ada.open("/connectors").await);
    listed.sort_unstable();
    let mut names = names.map(str::to_owned).to_vec();
    names.sort_unstable();
    assert_eq!(listed, names);
}

async fn the_timeline_is_filtered_and_paged(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    for _ in 0..25 {
        app.advance(holdfast_tests::service::LIFE);
        let _fresh = app.token(&id).await.expect(200);
    }
    let _tested = app.post(&format!("/connectors/{id}/test"), json!({})).await.expect(200);
    app.fail(&id).await;
    let ada = app.somebody(Role::Viewer).await;
    let lines = |page: &Page| -> Vec<String> {
        let read = part(page, "timeline");
        let list = read.named("ol").first().map(|list| list.named("li").iter().map(|line| line.text()).collect());
        list.unwrap_or_default()
    };
    let path = format!("/connectors/{id}");

    let page = ada.open(&path).await.expect(200);
    assert_eq!(lines(&page).len(), 20);
    assert!(lines(&page)[0].starts_with("Stopped working: needs Reconnect"), "{:?}", lines(&page));
    assert!(
        lines(&page)[1].starts_with("Zendesk refused the refresh token · somebody needed a token"),
        "{:?}",
        lines(&page)
    );
    assert!(lines(&page)[2].starts_with("Test passed by key test"), "{:?}", lines(&page));
    assert!(lines(&page)[3].starts_with("Token renewed somebody needed a token · version 26"), "{:?}", lines(&page));
    let older = ada.open(&part(&page, "timeline").link("Older").unwrap()).await.expect(200);
    assert_eq!(lines(&older).len(), 29 - 20);
    assert!(lines(&older).last().unwrap().starts_with("Connected"), "{:?}", lines(&older));
    assert!(part(&older, "timeline").link("Older").is_none() && part(&older, "timeline").link("Newest").is_some());

    for (chip, number) in [("Refreshes", 20), ("Tests", 1), ("Health", 2), ("Connects", 1), ("All", 20)] {
        let filtered = ada.open(&part(&page, "timeline").link(chip).unwrap()).await.expect(200);
        assert_eq!(lines(&filtered).len(), number, "{chip}: {:?}", lines(&filtered));
    }
    assert_eq!(lines(&ada.open(&format!("{path}?kind=nonsense&before=nonsense")).await.expect(200)).len(), 20);
}

async fn refreshes_are_drawn_with_a_table_for_readers(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let ada = app.somebody(Role::Viewer).await;
    let path = format!("/connectors/{id}");
    assert!(part(&ada.open(&path).await, "chart").text().contains("None yet"));
    app.advance(holdfast_tests::service::LIFE);
    let _fresh = app.token(&id).await.expect(200);
    app.fail(&id).await;

    let chart = part(&ada.open(&path).await, "chart");

    assert_eq!(chart.named("svg")[1].get("aria-label"), Some("Refreshes: 1 renewed, 1 failed"));
    let said: Vec<_> = chart.named("svg")[1].named("title").iter().map(|title| title.raw()).collect();
    assert!(
        !said.is_empty() && said.iter().all(|day| day.contains(" renewed, ")),
        "each bar says what it is: {said:?}"
    );
    let rows: Vec<_> = chart.named("tbody")[1].named("tr").iter().map(|row| row.text()).collect();
    assert_eq!(rows.len(), 14);
    let sum = |column: usize| -> u32 {
        rows.iter().map(|row| row.split_whitespace().rev().nth(column).unwrap().parse::<u32>().unwrap()).sum()
    };
    assert_eq!((sum(1), sum(0)), (1, 1), "{rows:?}");
}

async fn what_a_connector_was_used_for_is_counted_and_drawn(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let (ada, path) = (app.somebody(Role::Viewer).await, format!("/connectors/{id}"));
    let home = ada.open("/connectors").await;
    assert!(home.text.contains(r#"data-label="Last used"><span class="soft">–"#), "{}", home.text);

    for (path, status) in [("api/v2/users/me.json", 200), ("api/v2/users/me.json", 200), ("api/v2/nowhere.json", 404)] {
        let _answer = app.proxy(Method::GET, &id, path, "").await.expect(status);
    }
    holdfast_app::usage::round(&app.app).await.unwrap();

    for page in [ada.open(&path).await, ada.open("/history").await] {
        let drawn: Vec<_> =
            page.read().named("svg").iter().filter_map(|svg| svg.get("aria-label").map(str::to_owned)).collect();
        assert!(drawn.contains(&"API calls: 2 answered, 1 refused or not answered".to_owned()), "{drawn:?}");
    }
    assert!(part(&ada.open("/connectors").await, "list").text().contains("just now"));

    // Whoever is given the token uses it, too, though not by a call from here.
    app.advance(Duration::from_hours(24));
    let _fresh = app.token(&id).await.expect(200);
    holdfast_app::usage::round(&app.app).await.unwrap();
    assert!(part(&ada.open("/connectors").await, "list").text().contains("just now"));
    let stranger = app.somebody_of("Globex", Role::Owner).await;
    let theirs = stranger.open("/history").await.expect(200);
    assert!(theirs.says("No connector failed.") && theirs.says("None yet."), "{}", theirs.text);
}

async fn health_is_drawn_over_time(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    let (ada, path) = (app.somebody(Role::Viewer).await, format!("/connectors/{id}"));
    app.advance(Duration::from_hours(30) - holdfast_tests::service::LIFE);
    app.fail(&id).await;
    app.advance(Duration::from_hours(10));

    let chart = part(&ada.open(&path).await, "chart");

    assert_eq!(chart.named("svg")[0].get("aria-label"), Some("Health over 14 days: worked for 75 % of the time"));
    let spells: Vec<_> = chart.named("tbody")[0].named("tr").iter().map(|row| row.text()).collect();
    assert_eq!(spells.len(), 2, "{spells:?}");
    assert!(spells[0].contains("Connected") && spells[0].ends_with("1 day"), "{spells:?}");
    assert!(spells[1].contains("Needs Reconnect") && spells[1].ends_with("10 hours"), "{spells:?}");

    app.advance(Duration::from_hours(24 * 20));
    let later = app.somebody(Role::Viewer).await;
    let chart = part(&later.open(&path).await, "chart");
    assert_eq!(chart.named("svg")[0].get("aria-label"), Some("Health over 14 days: worked for 0 % of the time"));
}
