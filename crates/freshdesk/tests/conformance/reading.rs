//! The tools that read, against half a year of tickets, ids above 2^53, and more than one page of everything.

use std::collections::HashSet;

use holdfast_core::ErrorKind;
use holdfast_sandbox::Canned;
use serde_json::{Value, json};

use crate::rig::Rig;

/// A search to its end: the ids in order, the notes, and the last page.
async fn search_all(rig: &Rig, arguments: Value) -> (Vec<String>, Vec<String>, Value) {
    let api = rig.api_as("ada");
    let (mut ids, mut notes, mut arguments) = (Vec::new(), Vec::new(), arguments);
    for _ in 0..100 {
        let page = rig.call(&api, "search_tickets", arguments.clone()).await.unwrap();
        ids.extend(ids_of(&page));
        notes.extend(page["note"].as_str().map(str::to_owned));
        if page["next_cursor"].is_null() {
            return (ids, notes, page);
        }
        arguments["cursor"] = page["next_cursor"].clone();
    }
    panic!("a search ends");
}

fn ids_of(page: &Value) -> Vec<String> {
    page["tickets"].as_array().unwrap().iter().map(|ticket| ticket["id"].as_str().unwrap().to_owned()).collect()
}

/// The ids of all tickets that are so, newest first.
fn there(rig: &Rig, is: impl Fn(&Value) -> bool) -> Vec<String> {
    rig.acme.tickets().iter().filter(|ticket| is(ticket)).map(|ticket| ticket["id"].to_string()).collect()
}

#[tokio::test]
async fn a_search_for_everything_finds_what_is_older_than_thirty_days_too() {
    let rig = Rig::start().await;

    for limit in [100, 30, 7] {
        let (ids, notes, last) = search_all(&rig, json!({"limit": limit})).await;

        assert_eq!(ids, there(&rig, |_| true), "{limit}: newest first, each once");
        assert_eq!(ids.len(), 324);
        assert_eq!((notes.len(), &last["total"]), (0, &Value::Null));
    }
}

#[tokio::test]
async fn filters_are_freshdesks_own_and_hold_together() {
    let rig = Rig::start().await;
    let (before, all) = (rig.calls(), json!({"status": ["pending"], "priority": ["high", "urgent"], "limit": 100}));

    let (ids, _, last) = search_all(&rig, all).await;

    let high = |ticket: &Value| ticket["status"] == 3 && ticket["priority"].as_i64().unwrap() >= 3;
    assert_eq!(ids, there(&rig, high));
    assert!(!ids.is_empty());
    assert_eq!(last["total"], ids.len());
    for ticket in last["tickets"].as_array().unwrap() {
        assert_eq!(ticket["status"], json!({"value": "pending", "original": "3"}));
    }
    assert!(rig.calls() - before <= 2);

    let (ids, ..) = search_all(&rig, json!({"tags": ["vip", "refund"], "limit": 11})).await;
    let tagged =
        |ticket: &Value| ["vip", "refund"].iter().any(|tag| ticket["tags"].as_array().unwrap().contains(&json!(tag)));
    assert_eq!(ids, there(&rig, tagged), "pages of 11 from pages of 30");

    let terms = json!({"query": "type:'Incident' AND agent_id:null", "status": ["open"]});
    let (ids, ..) = search_all(&rig, terms).await;
    assert_eq!(ids, there(&rig, |t| t["type"] == "Incident" && t["responder_id"].is_null() && t["status"] == 2));
}

#[tokio::test]
async fn an_accounts_own_statuses_count_as_open_and_freshdesk_lacks_two_of_ours() {
    let rig = Rig::start().await;

    let (ids, notes, last) = search_all(&rig, json!({"status": ["new", "open"], "limit": 100})).await;

    assert_eq!(ids, there(&rig, |ticket| [2, 6, 7].contains(&ticket["status"].as_i64().unwrap())));
    assert!(notes[0].contains("no status new"), "{notes:?}");
    let own = last["tickets"].as_array().unwrap().iter().find(|ticket| ticket["status"]["original"] == "7");
    assert_eq!(own.unwrap()["status"]["value"], "open");

    let api = rig.api_as("ada");
    let before = rig.calls();
    let none = rig.call(&api, "search_tickets", json!({"status": ["on_hold", "new"]})).await.unwrap();
    assert_eq!(none["tickets"], json!([]));
    assert!(none["note"].as_str().unwrap().contains("no status on_hold and no new"), "{none}");
    assert_eq!(rig.calls(), before);
}

#[tokio::test]
async fn a_freshdesk_that_does_not_compare_statuses_is_searched_by_the_four_it_has() {
    let rig = Rig::start().await;
    let refusal = json!({"description": "Validation failed",
        "errors": [{"field": "status", "message": "Given query is invalid", "code": "invalid_value"}]});
    rig.acme.trouble(|trouble| trouble.answer = Some(Canned::new(400, refusal.to_string()).times(1)));

    let (ids, notes, _) = search_all(&rig, json!({"status": ["open"], "limit": 20})).await;

    assert_eq!(ids, there(&rig, |ticket| ticket["status"] == 2));
    assert!(notes.iter().all(|note| note.contains("made itself are not searched")), "{notes:?}");
    assert!(notes.len() > 1, "later pages go on the same way");
}

#[tokio::test]
async fn a_search_says_where_freshdesk_ends_it() {
    let rig = Rig::start().await;

    for limit in [100, 30, 25] {
        let all = json!({"status": ["open", "pending", "solved", "closed"], "limit": limit});
        let (ids, notes, last) = search_all(&rig, all).await;

        assert_eq!(ids.len(), 300, "{limit}");
        assert_eq!(last["total"], 324);
        assert!(notes[0].starts_with("324 tickets match, and Freshdesk shows the first 300 only"), "{notes:?}");
    }
}

#[tokio::test]
async fn words_are_looked_for_in_every_ticket_and_the_answer_says_how_far_it_came() {
    let rig = Rig::start().await;

    let (ids, notes, _) = search_all(&rig, json!({"query": "NIP faktura", "limit": 100})).await;

    let has = |ticket: &Value| ticket["subject"].as_str().unwrap().contains("Faktura");
    assert_eq!(ids, there(&rig, has));
    assert!(ids.len() > 60);
    assert!(notes[0].contains("looked through, newest first: 300 of them here, back to 20"), "{notes:?}");
    assert!(notes.iter().all(|note| note.contains("later messages are not searched")), "{notes:?}");

    let (ids, ..) = search_all(&rig, json!({"query": "dimmer", "status": ["solved"], "limit": 100})).await;
    assert_eq!(ids, there(&rig, |t| t["subject"].as_str().unwrap().contains("Lamp") && t["status"] == 4));

    let (ids, ..) = search_all(&rig, json!({"query": "no such words anywhere"})).await;
    assert_eq!(ids, Vec::<String>::new());
}

#[tokio::test]
async fn a_requester_is_found_by_address_id_and_name() {
    let rig = Rig::start().await;
    let mira = rig.acme.contact("Mira").unwrap();
    let all = there(&rig, |ticket| ticket["requester_id"] == mira["id"]);
    assert!(!all.is_empty());
    for requester in [json!("mira.castellan@example.com"), json!(mira["id"].to_string()), json!("Mira Cast")] {
        let (ids, _, last) = search_all(&rig, json!({"requester": requester, "limit": 10})).await;
        assert_eq!(ids, all, "{requester}");
        assert_eq!(last["tickets"][0]["requester"]["name"], "Mira Castellan");
    }
    let (ids, ..) = search_all(&rig, json!({"requester": "mira.castellan@example.com", "status": ["closed"]})).await;
    assert_eq!(ids, there(&rig, |t| t["requester_id"] == mira["id"] && t["status"] == 5));

    for (nobody, said) in [("nobody@example.com", "no contact matching"), ("Nobody", "no contact whose name")] {
        let (ids, notes, _) = search_all(&rig, json!({"requester": nobody})).await;
        assert_eq!(ids, Vec::<String>::new());
        assert!(notes[0].contains(said), "{notes:?}");
    }
    let api = rig.api_as("ada");
    let several = rig.call(&api, "search_tickets", json!({"requester": "P"})).await.unwrap_err();
    assert_eq!(several.kind, ErrorKind::Invalid);
    assert!(several.message.contains("several contacts"), "{several}");
}

#[tokio::test]
async fn a_search_that_makes_no_sense_is_the_agents_to_change() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada");
    for (arguments, said) in [
        (json!({"query": "status:'open'"}), "status: It should be a/an value"),
        (json!({"query": "tag:'a"}), "query: quotes have to match"),
        (json!({"status": ["hold"]}), "status[0]: unknown variant `hold`"),
        (json!({"limit": 500}), "limit: expected 1 to 100"),
        (json!({"cursor": "2-25"}), "cursor: expected next_cursor"),
        (json!({"page": 2}), "unknown field `page`"),
        (json!({"requester": " "}), "requester: expected"),
    ] {
        let error = rig.call(&api, "search_tickets", arguments).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
        assert!(error.message.contains(said), "{error}");
    }
}

#[tokio::test]
async fn a_list_that_repeats_its_page_ends_and_shows_each_ticket_once() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada");
    let page = Value::Array(vec![rig.acme.ticket(5).unwrap(), rig.acme.ticket(6).unwrap()]).to_string();
    let link = format!("<{}/api/v2/tickets?page=2>; rel=\"next\"", rig.acme.url());
    rig.acme.trouble(|trouble| trouble.answer = Some(Canned::new(200, page).header("link", link)));

    let found = rig.call(&api, "search_tickets", json!({})).await.unwrap();

    assert_eq!(ids_of(&found), ["5", "6"]);
    assert_eq!(rig.calls(), 3);
}

#[tokio::test]
async fn a_ticket_comes_with_its_first_message_and_its_whole_conversation() {
    let rig = Rig::start().await;
    let api = rig.api_as("gus");

    let read = rig.call(&api, "get_ticket", json!({"ticket_id": "7"})).await.unwrap();

    let ticket = &read["ticket"];
    assert_eq!(ticket["url"], format!("{}/a/tickets/7", rig.acme.url()));
    assert!(ticket["requester"]["name"].is_string() && ticket["requester"]["email"].is_string(), "{ticket}");
    let messages = read["messages"].as_array().unwrap();
    let conversations = rig.acme.conversations(7);
    let there: Vec<String> = conversations.iter().map(|said| said["id"].to_string()).collect();
    assert_eq!(there.len(), 137);
    let ids: Vec<&str> = messages.iter().map(|message| message["id"].as_str().unwrap()).collect();
    assert_eq!(ids[0], "ticket-7");
    assert_eq!(ids[1..], there);
    assert_eq!(messages[0]["body"], ticket["description"]);
    assert_eq!(messages[0]["author"], ticket["requester"]);
    for (message, said) in messages[1..].iter().zip(&conversations) {
        assert_eq!(message["public"], json!(said["private"] == false));
        assert_eq!(message["author"]["name"].is_string(), said["incoming"] == true, "agents are told by id");
    }
    assert_eq!((&read["next_cursor"], &read["note"]), (&Value::Null, &Value::Null));
    // The ticket, and two pages of conversations.
    assert_eq!(rig.calls(), 3);
}

#[tokio::test]
async fn a_conversation_without_end_comes_in_parts() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada");
    let before = rig.acme.conversations(5).len();
    rig.acme.write(5, 1050);

    let first = rig.call(&api, "get_ticket", json!({"ticket_id": "5"})).await.unwrap();
    let rest = json!({"ticket_id": "5", "cursor": first["next_cursor"]});
    let rest = rig.call(&api, "get_ticket", rest).await.unwrap();

    assert_eq!(first["messages"].as_array().unwrap().len(), 1 + 1000);
    assert!(first["note"].as_str().unwrap().contains("next_cursor gets the later ones"));
    assert_eq!(rest["messages"].as_array().unwrap().len(), before + 50);
    assert_eq!(rest["next_cursor"], Value::Null);
    let of =
        |part: &Value| part["messages"].as_array().unwrap().iter().map(|m| m["id"].to_string()).collect::<Vec<_>>();
    let ids: HashSet<String> = of(&first).into_iter().chain(of(&rest)).collect();
    assert_eq!(ids.len(), 1 + before + 1050);
}

#[tokio::test]
async fn conversations_that_repeat_are_not_followed_for_ever() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada");
    let same = Value::Array(rig.acme.conversations(7).into_iter().take(100).collect()).to_string();
    let link = format!("<{}/api/v2/tickets/7/conversations?page=2>; rel=\"next\"", rig.acme.url());
    rig.acme.trouble(|trouble| {
        trouble.answer = Some(Canned::new(200, same).header("link", link));
        trouble.only_at = Some("/conversations".to_owned());
    });

    let error = rig.call(&api, "get_ticket", json!({"ticket_id": "7"})).await.unwrap_err();

    assert_eq!(error.kind, ErrorKind::Unreadable);
    assert_eq!(rig.calls(), 3);
}

#[tokio::test]
async fn a_ticket_that_is_not_there_is_no_missing_helpdesk() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada");

    let missing = rig.call(&api, "get_ticket", json!({"ticket_id": "9007199254740993"})).await.unwrap_err();
    assert_eq!(missing.kind, ErrorKind::NotFound);
    for id in ["../agents/me", "7/conversations", "", "7?include=stats"] {
        let refused = rig.call(&api, "get_ticket", json!({"ticket_id": id})).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Invalid);
    }
    rig.sandbox.close_freshdesk("acme");
    let gone = rig.call(&api, "get_ticket", json!({"ticket_id": "5"})).await.unwrap_err();
    assert_eq!(gone.kind, ErrorKind::Unavailable);
}

#[tokio::test]
async fn a_customer_is_found_by_address_name_and_foreign_id() {
    let rig = Rig::start().await;
    let api = rig.api_as("gus");
    let find = async |arguments: Value| rig.call(&api, "find_customer", arguments).await.unwrap();
    let mira = rig.acme.contact("Mira").unwrap();

    for by in
        [json!({"email": "Mira.Castellan@example.com"}), json!({"name": "castel"}), json!({"external_id": "crm-1"})]
    {
        let found = find(by.clone()).await;
        assert_eq!(found["customers"].as_array().unwrap().len(), 1, "{by}");
        let customer = &found["customers"][0];
        assert_eq!(customer["id"], mira["id"].to_string());
        assert_eq!(customer["email"], "mira.castellan@example.com");
        assert_eq!(customer["external_id"], "crm-1");
        assert_eq!(customer["url"], format!("{}/a/contacts/{}", rig.acme.url(), mira["id"]));
    }
    let unverified = find(json!({"email": "uma.unverified@example.com"})).await;
    assert_eq!(unverified["customers"][0]["name"], "Uma Unverified");
    assert_eq!(find(json!({"name": "Phil"})).await["customers"][0]["phone"], "+44 20 7946 0958");
    assert_eq!(find(json!({"name": "陳"})).await["customers"][0]["name"], "陳偉");

    for by in [json!({"email": "nobody@example.com"}), json!({"external_id": "crm"}), json!({"name": "Nobody"})] {
        assert_eq!(find(by).await["customers"], json!([]));
    }
    let first = find(json!({"name": "P", "limit": 2})).await;
    let second = find(json!({"name": "P", "cursor": first["next_cursor"]})).await;
    let names =
        |page: &Value| page["customers"].as_array().unwrap().iter().map(|c| c["name"].clone()).collect::<Vec<_>>();
    assert_eq!(names(&first), ["Priya Raman", "Peter Lindqvist"]);
    assert_eq!((names(&second), &second["next_cursor"]), (vec![json!("Phil Phone")], &Value::Null));
}

/// A freshdesk that does not know a filter answers with everybody.
#[tokio::test]
async fn an_ignored_filter_shows_nobody_elses_record() {
    let rig = Rig::start().await;
    let api = rig.api_as("gus");
    let everybody = json!([rig.acme.contact("Mira"), rig.acme.contact("Jonas")]).to_string();
    rig.acme.trouble(|trouble| trouble.answer = Some(Canned::new(200, everybody)));

    let found = rig.call(&api, "find_customer", json!({"external_id": "crm-2"})).await.unwrap();

    assert_eq!(found["customers"].as_array().unwrap().len(), 1);
    assert_eq!(found["customers"][0]["name"], "Jonas Weber");
}

#[tokio::test]
async fn articles_are_those_that_customers_may_read() {
    let rig = Rig::start().await;
    let api = rig.api_as("gus");
    let search = async |arguments: Value| rig.call(&api, "search_articles", arguments).await;

    let found = search(json!({"query": "refund"})).await.unwrap();

    let titles: Vec<&str> =
        found["articles"].as_array().unwrap().iter().map(|article| article["title"].as_str().unwrap()).collect();
    assert_eq!(titles, ["How refunds work", "Refunds for companies"]);
    assert!(found["articles"][0]["body"].as_str().unwrap().starts_with("A refund takes"));
    assert_eq!(found["articles"][0]["published"], true);
    assert!(found["note"].as_str().unwrap().starts_with("2 more are drafts"), "{found}");

    let first = search(json!({"query": "refund", "limit": 1})).await.unwrap();
    let second = search(json!({"query": "refund", "cursor": first["next_cursor"]})).await.unwrap();
    assert_eq!(second["articles"][0]["title"], "Refunds for companies");
    assert_eq!(second["next_cursor"], Value::Null);

    assert_eq!(search(json!({"query": "zebra"})).await.unwrap()["articles"], json!([]));
    let locale = search(json!({"query": "refund", "locale": "de"})).await.unwrap_err();
    assert!(locale.kind == ErrorKind::Invalid && locale.message.starts_with("locale: "), "{locale}");
    rig.acme.trouble(|trouble| trouble.answer = Some(Canned::new(404, "")));
    let without = search(json!({"query": "refund"})).await.unwrap_err();
    assert!(without.message.contains("no search for articles"), "{without}");
}

#[tokio::test]
async fn an_unknown_tool_is_not_found() {
    let rig = Rig::start().await;
    let error = rig.call(&rig.api_as("ada"), "delete_ticket", json!({})).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert!(error.message.contains("search_tickets, get_ticket, reply_to_ticket"), "{error}");
}
