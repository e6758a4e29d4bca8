//! The tools that read: every page, every filter, and answers that are not what was asked for.

use std::collections::HashSet;

use holdfast_core::ErrorKind;
use holdfast_sandbox::Canned;
use serde_json::{Value, json};

use crate::rig::Rig;

fn ids(found: &Value) -> Vec<i64> {
    let id = |ticket: &Value| ticket["id"].as_str().unwrap().parse().unwrap();
    found["tickets"].as_array().unwrap().iter().map(id).collect()
}

/// All pages of a search.
async fn all(rig: &Rig, arguments: Value) -> Vec<i64> {
    let api = rig.agent();
    let (mut found, mut arguments) = (Vec::new(), arguments);
    for _ in 0..60 {
        let page = rig.call(&api, "search_tickets", arguments.clone()).await.unwrap();
        found.extend(ids(&page));
        if page["next_cursor"].is_null() {
            return found;
        }
        arguments["cursor"] = page["next_cursor"].clone();
        rig.sandbox.advance(std::time::Duration::from_secs(5));
    }
    panic!("the search has no end");
}

fn are(rig: &Rig, keep: impl Fn(&Value) -> bool) -> Vec<i64> {
    rig.acme.ticket_ids().into_iter().filter(|id| keep(&rig.acme.ticket(*id).unwrap())).collect()
}

#[tokio::test]
async fn every_ticket_that_was_not_thrown_away_is_found_once_the_last_changed_first() {
    let rig = Rig::start().await;
    for limit in [30, 100] {
        assert_eq!(all(&rig, json!({"limit": limit})).await, rig.acme.ticket_ids(), "{limit}");
    }
    assert_eq!(rig.acme.ticket_ids().len(), 225);
}

#[tokio::test]
async fn filters_that_gorgias_does_not_have_are_held_to_over_all_pages() {
    let rig = Rig::start().await;
    let tagged = |ticket: &Value, tag: &str| ticket["tags"].as_array().unwrap().iter().any(|own| own["name"] == tag);
    for (arguments, expected) in [
        (json!({"status": ["open"], "limit": 7}), are(&rig, |ticket| ticket["status"] == "open")),
        (json!({"status": ["solved"]}), are(&rig, |ticket| ticket["status"] == "closed")),
        (
            json!({"priority": ["urgent", "low"]}),
            are(&rig, |ticket| ticket["priority"] == "critical" || ticket["priority"] == "low"),
        ),
        (
            json!({"tags": ["vip", "exchange"], "limit": 9}),
            are(&rig, |ticket| tagged(ticket, "VIP") || tagged(ticket, "exchange")),
        ),
        (
            json!({"query": "REFUND chair", "status": ["open"]}),
            are(&rig, |ticket| {
                ticket["status"] == "open" && ticket["subject"].as_str().unwrap().contains("Refund for a chair")
            }),
        ),
    ] {
        assert!(!expected.is_empty(), "{arguments}");
        assert_eq!(all(&rig, arguments.clone()).await, expected, "{arguments}");
    }
}

#[tokio::test]
async fn a_search_that_has_to_look_at_many_says_how_far_it_came_and_goes_on() {
    let rig = Rig::start().await;
    let api = rig.agent();
    for _ in 0..4 {
        // The newest 400 hold nothing; what is looked for lies behind them.
        rig.acme.add_tickets(100);
    }
    let last = *rig.acme.ticket_ids().last().unwrap();
    rig.acme.change_quietly(last, |ticket| ticket["subject"] = json!("A needle"));
    let before = rig.calls();

    let first = rig.call(&api, "search_tickets", json!({"query": "needle"})).await.unwrap();

    assert_eq!((ids(&first), rig.calls() - before), (Vec::new(), 5));
    let note = first["note"].as_str().unwrap();
    assert!(note.contains("500 of them here, back to 20") && note.contains("whole conversations are not"), "{note}");
    let rest = json!({"query": "needle", "cursor": first["next_cursor"]});
    let rest = rig.call(&api, "search_tickets", rest).await.unwrap();
    assert_eq!((ids(&rest), &rest["next_cursor"]), (vec![last], &Value::Null));
}

#[tokio::test]
async fn tickets_of_one_customer_or_view_are_gorgiass_to_filter() {
    let rig = Rig::start().await;
    let mira = rig.acme.customer("Mira").unwrap();
    let theirs = are(&rig, |ticket| ticket["customer"]["id"] == mira["id"]);
    assert!(theirs.len() > 3);
    for requester in ["Mira.Castellan@example.com", "mira.work@example.com", &mira["id"].to_string()] {
        assert_eq!(all(&rig, json!({"requester": requester, "limit": 5})).await, theirs, "{requester}");
    }
    let jonas = rig.acme.customer("Jonas").unwrap();
    let by_name = all(&rig, json!({"requester": "jonas web"})).await;
    assert_eq!(by_name, are(&rig, |ticket| ticket["customer"]["id"] == jonas["id"]));
    let open = are(&rig, |ticket| ticket["status"] == "open");
    assert_eq!(all(&rig, json!({"query": "view_id:901", "limit": 50})).await, open);

    let api = rig.agent();
    let nobody = rig.call(&api, "search_tickets", json!({"requester": "nobody@example.com"})).await.unwrap();
    assert_eq!((ids(&nobody), &nobody["note"]), (Vec::new(), &json!("Gorgias knows no such customer.")));
    let two = rig.call(&api, "search_tickets", json!({"requester": "Mira Castellan"})).await.unwrap_err();
    assert!(two.kind == ErrorKind::Invalid && two.message.contains(&mira["id"].to_string()), "{two}");
    let view = rig.call(&api, "search_tickets", json!({"query": "view_id:7"})).await.unwrap_err();
    assert_eq!(view.kind, ErrorKind::NotFound);
}

#[tokio::test]
async fn a_search_that_makes_no_sense_is_refused_and_a_status_that_is_not_there_is_told() {
    let rig = Rig::start().await;
    let api = rig.agent();
    for (arguments, said) in [
        (json!({"limit": 0}), "limit: expected 1 to 100"),
        (json!({"cursor": "2"}), "cursor: expected"),
        (json!({"cursor": "l.25.0.a"}), "cursor: expected"),
        (json!({"query": "x", "cursor": "p.25.0.a"}), "cursor: expected"),
        (json!({"query": "view_id:x"}), "query: expected"),
        (json!({"requester": " "}), "requester: expected"),
        (json!({"tags": [" "]}), "tags: expected"),
    ] {
        let error = rig.call(&api, "search_tickets", arguments).await.unwrap_err();
        assert!(error.kind == ErrorKind::Invalid && error.message.starts_with(said), "{error}");
    }
    let none = rig.call(&api, "search_tickets", json!({"status": ["pending"]})).await.unwrap();
    assert!(none["note"].as_str().unwrap().contains("no status pending"), "{none}");
    assert_eq!(rig.calls(), 0, "nothing was sent");
    let forged = rig.call(&api, "search_tickets", json!({"cursor": "p.25.0.nonsense"})).await.unwrap_err();
    assert!(forged.kind == ErrorKind::Invalid && forged.message.contains("Invalid cursor"), "{forged}");
}

#[tokio::test]
async fn a_list_that_goes_round_in_circles_is_not_followed() {
    let rig = Rig::start().await;
    let api = rig.agent();
    let page = json!({"data": [], "meta": {"next_cursor": "same"}}).to_string();
    rig.acme.trouble(|faults| faults.api_answer = Some(Canned::new(200, page)));
    for (tool, arguments) in [("search_tickets", json!({"query": "x"})), ("search_tickets", json!({"tags": ["x"]}))] {
        let error = rig.call(&api, tool, arguments).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unreadable, "{error}");
    }
    rig.acme.calm();
    let page = json!({"data": [], "meta": {"next_cursor": "same"}}).to_string();
    rig.acme.answer_at("messages", Canned::new(200, page));
    let error = rig.call(&api, "get_ticket", json!({"ticket_id": "7"})).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unreadable, "{error}");
}

#[tokio::test]
async fn a_filter_that_is_ignored_shows_nobody_elses_record() {
    let rig = Rig::start().await;
    let api = rig.agent();
    let mira = rig.acme.customer("Mira").unwrap();
    rig.acme.set_rules(|rules| rules.ignores_filters = true);

    let read = rig.call(&api, "get_ticket", json!({"ticket_id": "9"})).await.unwrap();
    let own = rig.acme.ticket(9).unwrap();
    let own: HashSet<String> = own["messages"].as_array().unwrap().iter().map(|one| one["id"].to_string()).collect();
    for message in read["messages"].as_array().unwrap() {
        assert!(own.contains(message["id"].as_str().unwrap()), "{message}");
    }
    let found = rig.call(&api, "find_customer", json!({"external_id": "crm-1", "limit": 100})).await.unwrap();
    assert_eq!(found["customers"].as_array().unwrap().len(), 1);
    assert_eq!(found["customers"][0]["id"], mira["id"].to_string());
    assert!(found["note"].as_str().unwrap().contains("left out"), "{found}");
    let tickets = json!({"requester": mira["id"].to_string(), "limit": 100});
    let tickets = rig.call(&api, "search_tickets", tickets).await.unwrap();
    for ticket in tickets["tickets"].as_array().unwrap() {
        assert_eq!(ticket["requester"]["id"], mira["id"].to_string());
    }
}

#[tokio::test]
async fn a_ticket_comes_with_its_whole_conversation() {
    let rig = Rig::start().await;
    let api = rig.agent();

    let read = rig.call(&api, "get_ticket", json!({"ticket_id": "7"})).await.unwrap();

    let there = rig.acme.ticket(7).unwrap();
    let ticket = &read["ticket"];
    assert_eq!(ticket["url"], format!("{}/app/ticket/7", rig.acme.url()));
    assert_eq!(ticket["requester"]["email"], there["customer"]["email"]);
    let messages = read["messages"].as_array().unwrap();
    let own = there["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 137);
    for (message, own) in messages.iter().zip(own) {
        assert_eq!(message["id"], own["id"].to_string());
        assert_eq!((&message["public"], &message["body"]), (&own["public"], &own["body_text"]));
        assert_eq!(message["author"]["email"], own["sender"]["email"]);
    }
    assert_eq!(ticket["description"], messages[0]["body"]);
    assert!(messages.iter().any(|message| message["public"] == false));
    assert_eq!((&read["next_cursor"], &read["note"]), (&Value::Null, &Value::Null));
    // The ticket, and two pages of messages.
    assert_eq!(rig.calls(), 3);
}

#[tokio::test]
async fn a_conversation_without_end_comes_in_parts() {
    let rig = Rig::start().await;
    let api = rig.agent();
    let before = rig.acme.ticket(5).unwrap()["messages"].as_array().unwrap().len();
    rig.acme.write(5, "email", 1050);

    let first = rig.call(&api, "get_ticket", json!({"ticket_id": "5"})).await.unwrap();
    let rest = json!({"ticket_id": "5", "cursor": first["next_cursor"]});
    let rest = rig.call(&api, "get_ticket", rest).await.unwrap();

    assert_eq!(first["messages"].as_array().unwrap().len(), 1000);
    assert!(first["note"].as_str().unwrap().contains("next_cursor gets the later ones"));
    assert_eq!(rest["messages"].as_array().unwrap().len(), before + 50);
    assert_eq!(rest["next_cursor"], Value::Null);
    let of =
        |part: &Value| part["messages"].as_array().unwrap().iter().map(|m| m["id"].to_string()).collect::<Vec<_>>();
    let ids: HashSet<String> = of(&first).into_iter().chain(of(&rest)).collect();
    assert_eq!(ids.len(), before + 1050);
}

#[tokio::test]
async fn messages_that_could_not_be_delivered_are_named() {
    let rig = Rig::start().await;
    let failed = rig.acme.ticket(5).unwrap()["messages"][0]["id"].as_i64().unwrap();
    assert!(rig.acme.change_message(failed, |message| message["failed_datetime"] = json!("2026-11-01T10:00:00+00:00")));

    let read = rig.call(&rig.agent(), "get_ticket", json!({"ticket_id": "5"})).await.unwrap();

    assert_eq!(read["note"], format!("Gorgias could not deliver these messages: {failed}."));
}

#[tokio::test]
async fn a_ticket_that_is_not_there_is_no_missing_helpdesk() {
    let rig = Rig::start().await;
    let api = rig.agent();
    let missing = rig.call(&api, "get_ticket", json!({"ticket_id": "9007199254740993"})).await.unwrap_err();
    assert_eq!(missing.kind, ErrorKind::NotFound);
    for id in ["../users/0", "7/messages", "", "7?x=1"] {
        let refused = rig.call(&api, "get_ticket", json!({"ticket_id": id})).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Invalid);
    }
    let error = rig.call(&api, "search_articles", json!({"query": "refund"})).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert!(error.message.contains("search_tickets, get_ticket, reply_to_ticket"), "{error}");
}

#[tokio::test]
async fn answers_of_another_shape_are_read_as_far_as_they_go() {
    let rig = Rig::start().await;
    let api = rig.agent();
    let ticket = json!({"id": "9007199254740995", "status": "parked", "priority": "blocker", "channel": "pigeon",
        "customer": {"id": "3", "name": null}, "tags": null, "created_datetime": "2026-11-01T10:00:00", "new": {}});
    rig.acme.answer_at("tickets", Canned::new(200, json!({"data": [ticket]}).to_string()).times(1));

    let found = rig.call(&api, "search_tickets", json!({})).await.unwrap();

    let read = &found["tickets"][0];
    assert_eq!((&read["id"], &found["next_cursor"]), (&json!("9007199254740995"), &Value::Null));
    assert_eq!(read["status"], json!({"value": "open", "original": "parked"}));
    assert_eq!(read["priority"], json!({"value": "normal", "original": "blocker"}));
    assert_eq!(read["channel"], json!({"value": "other", "original": "pigeon"}));
    for broken in [
        json!({"data": [{"id": {}, "status": "open", "created_datetime": "2026-11-01T10:00:00"}]}),
        json!({"data": [{"id": 1, "status": 2, "created_datetime": "2026-11-01T10:00:00"}]}),
        json!({"data": [{"id": 1, "status": "open", "created_datetime": "yesterday"}]}),
        json!({"data": {}}),
        json!([]),
        json!("x"),
    ] {
        rig.acme.answer_at("tickets", Canned::new(200, broken.to_string()).times(1));
        let error = rig.call(&api, "search_tickets", json!({})).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unreadable, "{broken}: {error}");
    }
}

#[tokio::test]
async fn a_customer_is_found_by_each_address_name_and_foreign_id() {
    let rig = Rig::start().await;
    let api = rig.agent();
    let find = async |arguments: Value| rig.call(&api, "find_customer", arguments).await.unwrap();
    let mira = rig.acme.customer("Mira").unwrap();

    for by in [
        json!({"email": "Mira.Castellan@example.com"}),
        json!({"email": "mira.work@example.com"}),
        json!({"external_id": "crm-1"}),
    ] {
        let found = find(by.clone()).await;
        assert_eq!(found["customers"].as_array().unwrap().len(), 1, "{by}");
        let customer = &found["customers"][0];
        assert_eq!(customer["id"], mira["id"].to_string());
        assert_eq!(
            (&customer["email"], &customer["phone"]),
            (&json!("mira.castellan@example.com"), &json!("+43 1 0000"))
        );
        assert_eq!(customer["other_emails"], json!(["mira.work@example.com"]));
        assert_eq!(customer["url"], format!("{}/app/customer/{}", rig.acme.url(), mira["id"]));
    }
    assert_eq!(find(json!({"name": "Phil Phone"})).await["customers"][0]["email"], Value::Null);
    for by in [json!({"email": "nobody@example.com"}), json!({"external_id": "crm"}), json!({"name": "Nobody"})] {
        assert_eq!(find(by).await["customers"], json!([]));
    }
    let first = find(json!({"name": "mira castellan", "limit": 1})).await;
    let second = find(json!({"name": "mira castellan", "cursor": first["next_cursor"]})).await;
    assert_ne!(first["customers"][0]["id"], second["customers"][0]["id"]);
    assert_eq!(second["customers"].as_array().unwrap().len(), 1);
    assert_eq!(second["next_cursor"], Value::Null);
}

#[tokio::test]
async fn a_part_of_a_name_is_found_in_every_reading_of_gorgiass_filter_and_search() {
    let rig = Rig::start().await;
    let api = rig.agent();
    for (by_filter, wrapped) in [(false, false), (false, true), (true, false)] {
        rig.acme.set_rules(|rules| {
            rules.finds_parts_of_names = by_filter;
            rules.wraps_search = wrapped;
        });
        for (name, found) in [("castel", 2), ("陳", 1), ("wójcik", 1)] {
            let answer = rig.call(&api, "find_customer", json!({"name": name})).await.unwrap();
            assert_eq!(answer["customers"].as_array().unwrap().len(), found, "{name} {by_filter} {wrapped}");
        }
    }
    rig.acme.set_rules(|rules| rules.finds_parts_of_names = false);
    let refusal = json!({"error": {"msg": "Unknown type."}}).to_string();
    rig.acme.answer_at("search", Canned::new(400, refusal).times(1));
    let without = rig.call(&api, "find_customer", json!({"name": "castel"})).await.unwrap();
    assert!(without["note"].as_str().unwrap().contains("Only whole names") && without["customers"] == json!([]));
    rig.acme.answer_at("search", Canned::new(200, json!({"hits": []}).to_string()).times(1));
    let odd = rig.call(&api, "find_customer", json!({"name": "castel"})).await.unwrap_err();
    assert_eq!(odd.kind, ErrorKind::Unreadable);
}
