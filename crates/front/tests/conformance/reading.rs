//! Searching, reading, looking up.

use std::collections::BTreeSet;

use holdfast_core::ErrorKind;
use holdfast_sandbox::Canned;
use serde_json::{Value, json};

use crate::rig::Rig;

fn ids(found: &Value) -> Vec<String> {
    let all = found["tickets"].as_array().unwrap().iter();
    all.map(|ticket| ticket["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn all_tickets_come_page_by_page_newest_first() {
    let rig = Rig::start().await;
    let api = rig.api_as("acme");
    let (mut all, mut cursor, mut pages) = (Vec::new(), Value::Null, 0);
    loop {
        let mut arguments = json!({"limit": 25});
        if cursor != Value::Null {
            arguments["cursor"] = cursor;
        }
        let found = rig.call(&api, "search_tickets", arguments).await.unwrap();
        all.extend(ids(&found));
        pages += 1;
        cursor = found["next_cursor"].clone();
        if cursor == Value::Null {
            break;
        }
    }

    assert_eq!((all.len(), pages), (59, 3));
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 59);
    assert_eq!(all.first(), Some(&rig.id(60)));
    let one = rig.call(&api, "search_tickets", json!({"limit": 1})).await.unwrap();
    let ticket = &one["tickets"][0];
    assert_eq!(ticket["status"], json!({"value": "closed", "original": "deleted"}));
    assert_eq!(ticket["requester"]["email"], "mira@customer.example");
    assert!(ticket["url"].as_str().unwrap().ends_with(&format!("/front/app.frontapp.com/open/{}", rig.id(60))));
}

#[tokio::test]
async fn filters_hold_together_and_their_values_are_alternatives() {
    let rig = Rig::start().await;
    let api = rig.api_as("acme");
    let contact = rig.there.conversation("acme", &rig.id(4)).unwrap()["recipient"]["handle"].clone();
    assert_eq!(contact, "mira@customer.example");
    for (arguments, count) in [
        (json!({"query": "refund"}), 1),
        (json!({"query": "Question 4?"}), 16),
        (json!({"query": "question is:archived"}), 8),
        (json!({"status": ["solved"]}), 8),
        (json!({"status": ["closed"]}), 1),
        (json!({"status": ["solved", "closed"]}), 9),
        (json!({"status": ["pending"]}), 0),
        (json!({"tags": ["REFUND"]}), 1),
        (json!({"tags": ["refund", "vip"]}), 1),
        (json!({"query": "question", "tags": ["vip"]}), 0),
        (json!({"requester": "Mira@Customer.example"}), 29),
        (json!({"requester": "mira@customer.example", "status": ["solved"]}), 4),
        (json!({"requester": "nobody@example.org"}), 0),
    ] {
        let mut all = Vec::new();
        let mut asked = arguments.clone();
        asked["limit"] = json!(100);
        let found = rig.call(&api, "search_tickets", asked).await.unwrap();
        all.extend(ids(&found));
        assert_eq!(all.len(), count, "{arguments}: {found}");
        assert_eq!(found["next_cursor"], Value::Null, "{arguments}");
    }
    let counted = rig.call(&api, "search_tickets", json!({"query": "question", "limit": 5})).await.unwrap();
    assert_eq!((ids(&counted).len(), &counted["total"]), (5, &json!(59)));
    let next = json!({"query": "question", "limit": 5, "cursor": counted["next_cursor"]});
    let next = rig.call(&api, "search_tickets", next).await.unwrap();
    assert!(ids(&next).iter().all(|id| !ids(&counted).contains(id)));
}

#[tokio::test]
async fn a_ticket_that_is_far_back_is_come_to_by_the_cursor() {
    let rig = Rig::start().await;
    let api = rig.api_as("acme");
    let (mut asked, mut calls) = (json!({"tags": ["refund", "vip"], "limit": 5}), 0);
    let found = loop {
        let found = rig.call(&api, "search_tickets", asked.clone()).await.unwrap();
        calls += 1;
        if !ids(&found).is_empty() {
            break found;
        }
        assert!(found["note"].as_str().unwrap().contains("next_cursor"), "{found}");
        asked["cursor"] = found["next_cursor"].clone();
    };
    assert_eq!((ids(&found), calls), (vec![rig.id(4)], 3));
}

#[tokio::test]
async fn what_front_cannot_look_for_is_refused_by_name() {
    let rig = Rig::start().await;
    let api = rig.api_as("acme");
    rig.http.seen();
    for (arguments, said) in [
        (json!({"priority": ["high"]}), "priority: Front has no priorities"),
        (json!({"requester": "Mira Castellan"}), "requester: expected"),
        (json!({"query": "??"}), "query: expected"),
        (json!({"limit": 101}), "limit: expected"),
        (json!({"cursor": "x"}), "cursor: expected"),
    ] {
        let refused = rig.call(&api, "search_tickets", arguments).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Invalid);
        assert!(refused.message.starts_with(said), "{refused}");
    }
    assert!(rig.http.seen().is_empty(), "nothing was sent");
    let unknown = rig.call(&api, "search_tickets", json!({"tags": ["no such tag"]})).await.unwrap_err();
    assert!(unknown.message.starts_with("tags: Front has no tag \"no such tag\""), "{unknown}");
    let never = rig.call(&api, "search_tickets", json!({"status": ["on_hold"]})).await.unwrap();
    assert!(never["note"].as_str().unwrap().contains("on_hold"));
}

#[tokio::test]
async fn a_conversation_is_messages_and_notes_in_the_order_of_time_over_its_pages() {
    let rig = Rig::start().await;
    let api = rig.api_as("acme");
    rig.there.set(|options| options.page_limit = 20);
    let id = rig.id(1);

    let first = rig.call(&api, "get_ticket", json!({"ticket_id": id})).await.unwrap();
    let asked = json!({"ticket_id": id, "cursor": first["next_cursor"]});
    let second = rig.call(&api, "get_ticket", asked).await.unwrap();

    let parts: Vec<&Vec<Value>> = [&first, &second].map(|part| part["messages"].as_array().unwrap()).into();
    assert_eq!((parts[0].len(), parts[1].len()), (101, 31), "130 messages and two notes");
    assert!(first["note"].as_str().unwrap().contains("101"));
    assert_eq!((&second["next_cursor"], &second["note"]), (&Value::Null, &Value::Null));
    let all: Vec<&Value> = parts.into_iter().flatten().collect();
    let times: Vec<&str> = all.iter().map(|message| message["created_at"].as_str().unwrap()).collect();
    assert!(times.is_sorted());
    assert_eq!((&all[0]["body"], &all[0]["public"]), (&json!("Hello, this is question 1."), &json!(true)));
    assert_eq!(all[0]["author"]["name"], "Jörg Müller");
    assert_eq!(
        (&all[1]["body"], &all[1]["public"], &all[1]["author"]["name"]),
        (&json!("Who takes this?"), &json!(false), &json!("Ada Admin"))
    );
    assert_eq!(all.last().unwrap()["body"], "Still open.");
    assert_eq!(first["ticket"]["description"], "Hello, this is question 1.");
    assert_eq!(first["ticket"]["channel"], json!({"value": "email", "original": "email"}));
}

#[tokio::test]
async fn a_merged_conversation_is_read_as_the_one_that_it_became() {
    let rig = Rig::start().await;
    let api = rig.api_as("acme");

    let read = rig.call(&api, "get_ticket", json!({"ticket_id": rig.id(2)})).await.unwrap();

    assert_eq!(read["ticket"]["id"], rig.id(3));
    assert_eq!(read["messages"][0]["body"], "Hello, this is question 3.");
    for id in ["cnv_none", &rig.there.conversation_id("globex", 3).unwrap()] {
        let gone = rig.call(&api, "get_ticket", json!({"ticket_id": id})).await.unwrap_err();
        assert_eq!(gone.kind, ErrorKind::NotFound, "{gone}");
    }
    let moved = Canned::new(301, "").header("Location", format!("/conversations/{}", rig.id(2)));
    rig.there.trouble(|faults| faults.api_answer = Some(moved.times(2)));
    let circle = rig.call(&api, "get_ticket", json!({"ticket_id": rig.id(2)})).await.unwrap_err();
    assert_eq!(circle.kind, ErrorKind::Unreadable, "followed once: {circle}");
    for id in ["", "..", "cnv_1/comments", "a b"] {
        let refused = rig.call(&api, "get_ticket", json!({"ticket_id": id})).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Invalid, "{id}");
    }
}

#[tokio::test]
async fn words_that_nobody_knows_are_read_as_other_or_open() {
    let rig = Rig::start().await;
    let api = rig.api_as("acme");
    let odd = json!({"_results": [{"id": "cnv_x", "status": "teleported", "created_at": 1.5, "status_category": "later",
        "recipient": {"name": "", "handle": null, "role": "seer"}, "tags": [{"id": "tag_1", "name": null}], "new": {}}],
        "_pagination": {"next": null}});
    rig.there.trouble(|faults| faults.api_answer = Some(Canned::new(200, odd.to_string()).times(1)));

    let found = rig.call(&api, "search_tickets", json!({})).await.unwrap();

    let ticket = &found["tickets"][0];
    assert_eq!(ticket["status"], json!({"value": "open", "original": "later"}));
    assert_eq!((&ticket["requester"], &ticket["tags"], &ticket["subject"]), (&Value::Null, &json!([]), &Value::Null));
    assert_eq!(ticket["updated_at"], ticket["created_at"]);
}

#[tokio::test]
async fn ticketing_gives_statuses_their_categories() {
    let rig = Rig::start().await;
    let api = rig.api_as("acme");
    rig.there.set_ticketing("acme", true);
    let found = rig.call(&api, "search_tickets", json!({"status": ["solved"], "limit": 100})).await.unwrap();
    assert_eq!(found["tickets"][0]["status"], json!({"value": "solved", "original": "resolved"}));
}

#[tokio::test]
async fn a_customer_is_found_by_address_alone() {
    let rig = Rig::start().await;
    let api = rig.api_as("acme");
    let found = rig.call(&api, "find_customer", json!({"email": "MIRA@home.example"})).await.unwrap();
    let mira = &found["customers"][0];
    assert_eq!((&mira["name"], &mira["email"]), (&json!("Mira Castellan"), &json!("mira@customer.example")));
    assert_eq!((&mira["other_emails"], &mira["phone"]), (&json!(["mira@home.example"]), &json!("+4312345")));
    assert_eq!(found["total"], 1);
    let nobody = rig.call(&api, "find_customer", json!({"email": "nobody@example.org"})).await.unwrap();
    assert_eq!((&nobody["customers"], &nobody["total"]), (&json!([]), &json!(0)));
    for (arguments, said) in [
        (json!({"name": "Mira"}), "name: Front cannot look for names"),
        (json!({"external_id": "7"}), "external_id: Front keeps no"),
        (json!({"email": "mira"}), "email: expected"),
        (json!({"email": "a@b.c", "cursor": "2-25"}), "cursor: expected"),
    ] {
        let refused = rig.call(&api, "find_customer", arguments).await.unwrap_err();
        assert!(refused.message.starts_with(said), "{refused}");
    }

    // By id, tickets of all of their addresses.
    let asked = json!({"requester": mira["id"], "limit": 100});
    assert_eq!(ids(&rig.call(&api, "search_tickets", asked).await.unwrap()).len(), 29);
}
