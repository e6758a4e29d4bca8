//! Each tool against tickets that have ids above 2^53, more than one page, and other people who change them.

use std::collections::HashSet;

use futures::StreamExt;
use holdfast_core::{ErrorKind, Retry};
use holdfast_sandbox::{Canned, Sandbox};
use serde_json::{Value, json};

use crate::rig::Rig;

/// A search to its end: the ids in order, and the last page.
async fn search_all(rig: &Rig, arguments: Value) -> (Vec<String>, Value, usize) {
    let api = rig.api_as("ada", "read write");
    let mut ids = Vec::new();
    let mut arguments = arguments;
    for pages in 1.. {
        let page = rig.call(&api, "search_tickets", arguments.clone()).await.unwrap();
        let found = page["tickets"].as_array().unwrap();
        ids.extend(found.iter().map(|ticket| ticket["id"].as_str().unwrap().to_owned()));
        if page["next_cursor"].is_null() {
            return (ids, page, pages);
        }
        arguments["cursor"] = page["next_cursor"].clone();
    }
    unreachable!("a search ends");
}

#[tokio::test]
async fn a_search_pages_to_its_end_and_finds_each_ticket_once() {
    let rig = Rig::start().await;

    let (ids, last, pages) = search_all(&rig, json!({"limit": 100})).await;

    assert_eq!((ids.len(), pages), (320, 4));
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 320);
    assert_eq!(last["total"], 320);
    assert_eq!(last["note"], Value::Null);
    assert!(ids.contains(&"9007199254741033".to_owned()), "an id above 2^53 keeps its digits");
}

#[tokio::test]
async fn a_search_says_where_zendesk_ends_it() {
    let rig = Rig::start().await;
    rig.acme.add_tickets(800);

    let (ids, last, pages) = search_all(&rig, json!({"limit": 100})).await;

    assert_eq!((ids.len(), pages), (1000, 10));
    let note = last["note"].as_str().unwrap();
    assert!(note.starts_with("1120 tickets match, and Zendesk shows the first 1000 only"), "{note}");

    let (ids, last, _) = search_all(&rig, json!({"limit": 30})).await;
    assert_eq!(ids.len(), 990);
    assert!(last["note"].is_string());
}

#[tokio::test]
async fn filters_of_a_search_hold_together() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada", "read write");
    let find = async |arguments: Value| rig.call(&api, "search_tickets", arguments).await.unwrap();

    let page = find(json!({"status": ["on_hold", "pending"], "priority": ["high", "urgent"], "limit": 100})).await;
    assert!(page["total"].as_u64().unwrap() > 0);
    for ticket in page["tickets"].as_array().unwrap() {
        assert!(["on_hold", "pending"].contains(&ticket["status"]["value"].as_str().unwrap()));
        assert!(["hold", "pending"].contains(&ticket["status"]["original"].as_str().unwrap()));
        assert!(["high", "urgent"].contains(&ticket["priority"]["value"].as_str().unwrap()));
    }

    let page = find(json!({"tags": ["refund"], "query": "return warehouse", "limit": 100})).await;
    assert!(page["total"].as_u64().unwrap() > 0);
    for ticket in page["tickets"].as_array().unwrap() {
        assert!(ticket["tags"].as_array().unwrap().contains(&json!("refund")));
    }

    let by_mail = find(json!({"requester": "mira.castellan@example.com"})).await;
    let by_name = find(json!({"requester": "Mira Castellan"})).await;
    assert!(by_mail["total"].as_u64().unwrap() > 0);
    assert_eq!(by_mail["total"], by_name["total"]);

    let nothing = find(json!({"query": "no such words anywhere"})).await;
    assert_eq!(nothing, json!({"tickets": [], "total": 0, "next_cursor": null, "note": null}));
}

#[tokio::test]
async fn a_search_that_zendesk_does_not_understand_is_the_agents_to_change() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada", "read write");
    for (arguments, said) in [
        (json!({"query": "status:opened"}), "status:opened"),
        (json!({"query": "type:user"}), "query: "),
        (json!({"status": ["hold"]}), "status[0]: unknown variant `hold`"),
        (json!({"limit": 500}), "limit: expected 1 to 100"),
        (json!({"cursor": "11-100"}), "cursor: expected next_cursor"),
        (json!({"page": 2}), "unknown field `page`"),
        (json!([]), "expected an object"),
    ] {
        let error = rig.call(&api, "search_tickets", arguments).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
        assert!(error.message.contains(said), "{error}");
    }
}

#[tokio::test]
async fn a_ticket_comes_with_its_people_and_its_whole_conversation() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada", "read write");

    let read = rig.call(&api, "get_ticket", json!({"ticket_id": "7"})).await.unwrap();

    let ticket = &read["ticket"];
    assert_eq!(ticket["url"], format!("{}/agent/tickets/7", rig.acme.url()));
    for person in ["requester", "assignee"] {
        assert!(ticket[person]["name"].is_string() && ticket[person]["email"].is_string(), "{ticket}");
    }
    let messages = read["messages"].as_array().unwrap();
    let there: Vec<String> = rig.acme.comments(7).iter().map(|comment| comment["id"].to_string()).collect();
    assert_eq!(there.len(), 137);
    let ids: Vec<&str> = messages.iter().map(|message| message["id"].as_str().unwrap()).collect();
    assert_eq!(ids, there);
    assert!(messages.iter().all(|message| message["author"]["name"].is_string()));
    assert!(messages.iter().any(|message| message["public"] == false));
    assert_eq!(messages[0]["body"], ticket["description"]);
    assert_eq!((&read["next_cursor"], &read["note"]), (&Value::Null, &Value::Null));
    // The ticket, and two pages of comments.
    assert_eq!(rig.acme.counters().api_calls, 3);
}

#[tokio::test]
async fn a_ticket_with_a_large_id_is_read_by_exactly_that_id() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada", "read write");
    let read = rig.call(&api, "get_ticket", json!({"ticket_id": "9007199254741033"})).await.unwrap();
    assert_eq!(read["ticket"]["id"], "9007199254741033");

    let missing = rig.call(&api, "get_ticket", json!({"ticket_id": "9007199254741032"})).await.unwrap_err();
    assert_eq!(missing.kind, ErrorKind::NotFound);
    for id in ["../users/me", "7/comments", "", "7.json"] {
        let refused = rig.call(&api, "get_ticket", json!({"ticket_id": id})).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Invalid);
    }
}

#[tokio::test]
async fn a_conversation_without_end_comes_in_parts_and_says_so() {
    let rig = Rig::with(Sandbox::builder().with(|options| options.rate_limit = 0), |zendesk| zendesk).await;
    let api = rig.api_as("ada", "read write");
    let before = rig.acme.comments(5).len();
    let note = json!({"ticket_id": "5", "body": "again", "public": false});
    let notes = futures::stream::iter(0..1000).map(|_| rig.call(&api, "reply_to_ticket", note.clone()));
    assert!(notes.buffered(16).all(|sent| std::future::ready(sent.is_ok())).await);

    let read = rig.call(&api, "get_ticket", json!({"ticket_id": "5"})).await.unwrap();

    let there: Vec<String> = rig.acme.comments(5).iter().map(|comment| comment["id"].to_string()).collect();
    assert_eq!(there.len(), before + 1000);
    let ids = |read: &Value| -> Vec<String> {
        let messages = read["messages"].as_array().unwrap();
        messages.iter().map(|message| message["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&read), there[..1000]);
    let note = read["note"].as_str().unwrap();
    assert!(note.contains("these are 1000 of its messages"), "{note}");

    let arguments = json!({"ticket_id": "5", "cursor": read["next_cursor"]});
    let rest = rig.call(&api, "get_ticket", arguments).await.unwrap();
    assert_eq!(ids(&rest), there[1000..]);
    assert_eq!((&rest["next_cursor"], &rest["note"]), (&Value::Null, &Value::Null));
    assert_eq!(rest["ticket"]["id"], "5");

    for cursor in ["", "???"] {
        let error = rig.call(&api, "get_ticket", json!({"ticket_id": "5", "cursor": cursor})).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
    }
}

#[tokio::test]
async fn a_list_that_repeats_its_page_is_not_followed_for_ever() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada", "read write");
    let mut body = json!({"comments": [], "meta": {"has_more": true, "after_cursor": "same"}});
    body["ticket"] = rig.acme.ticket(5).unwrap();
    rig.acme.trouble(|faults| faults.api_answer = Some(Canned::new(200, body.to_string())));

    let error = rig.call(&api, "get_ticket", json!({"ticket_id": "5"})).await.unwrap_err();

    assert_eq!(error.kind, ErrorKind::Unreadable);
    assert_eq!(rig.acme.counters().api_calls, 3);
}

#[tokio::test]
async fn a_reply_answers_with_the_comments_own_id() {
    let rig = Rig::start().await;
    let api = rig.api().await;
    for public in [true, false] {
        let arguments = json!({"ticket_id": "5", "body": "On its way.", "public": public});

        let sent = rig.call(&api, "reply_to_ticket", arguments).await.unwrap();

        let last = rig.acme.comments(5).pop().unwrap();
        assert_eq!(sent["message_id"], last["id"].to_string());
        assert_eq!(sent["public"], public);
        assert_eq!((&last["public"], &last["body"]), (&json!(public), &json!("On its way.")));
        let read = rig.call(&api, "get_ticket", json!({"ticket_id": "5"})).await.unwrap();
        assert_eq!(read["ticket"]["updated_at"], sent["updated_at"]);
        assert_eq!(read["messages"].as_array().unwrap().last().unwrap()["id"], sent["message_id"]);
    }
}

#[tokio::test]
async fn a_reply_is_refused_where_zendesk_refuses_it() {
    let rig = Rig::start().await;
    let reply = json!({"ticket_id": "5", "body": "x", "public": true});

    let closed = json!({"ticket_id": "17", "body": "x", "public": true});
    let error = rig.call(&rig.api_as("ada", "read write"), "reply_to_ticket", closed).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.contains("status: Status: closed prevents ticket update"), "{error}");

    let error = rig.call(&rig.api_as("ada", "read"), "reply_to_ticket", reply.clone()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Forbidden);
    assert!(error.message.contains("lacks the scope write"), "{error}");

    let error = rig.call(&rig.api_as("lia", "read write"), "reply_to_ticket", reply).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Forbidden);
    assert!(error.message.contains("You do not have access"), "{error}");

    let blank = json!({"ticket_id": "5", "body": " \n", "public": true});
    let error = rig.call(&rig.api_as("ada", "read write"), "reply_to_ticket", blank).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.starts_with("body: "), "{error}");
}

#[tokio::test]
async fn a_reply_whose_fate_is_unknown_is_not_to_be_repeated() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada", "read write");
    rig.acme.trouble(|faults| faults.api_answer = Some(Canned::new(502, "").times(1)));
    let reply = json!({"ticket_id": "5", "body": "x", "public": true});

    let error = rig.call(&api, "reply_to_ticket", reply).await.unwrap_err();

    assert_eq!((error.kind, error.retry), (ErrorKind::Unavailable, Retry::Never));
    assert!(error.message.contains("look at the ticket before you repeat it"), "{error}");
}

#[tokio::test]
async fn an_update_changes_what_is_given_and_nothing_else() {
    let rig = Rig::start().await;
    let api = rig.api().await;
    let update = async |arguments: Value| {
        let mut arguments = arguments;
        arguments["ticket_id"] = json!("5");
        rig.call(&api, "update_ticket", arguments).await.unwrap()["ticket"].clone()
    };
    let before = rig.acme.ticket(5).unwrap();

    let changed = update(json!({"status": "on_hold", "priority": "urgent"})).await;
    assert_eq!(changed["status"], json!({"value": "on_hold", "original": "hold"}));
    assert_eq!(changed["priority"]["value"], "urgent");
    assert_eq!(changed["tags"], before["tags"]);
    assert_eq!(changed["requester"]["id"], before["requester_id"].to_string());
    assert!(changed["requester"]["name"].is_string());

    let replaced = update(json!({"tags": ["One", "two"]})).await;
    assert_eq!(replaced["tags"], json!(["one", "two"]));
    let edited = update(json!({"add_tags": ["three", "two"], "remove_tags": ["one", "absent"]})).await;
    assert_eq!(edited["tags"], json!(["two", "three"]));
    assert_eq!(update(json!({"tags": []})).await["tags"], json!([]));

    let gus = rig.api_as("gus", "read write").identity().await.unwrap();
    assert_eq!(update(json!({"assignee": "gus.agent@example.com"})).await["assignee"]["id"], gus.user_id);
    assert_eq!(update(json!({"assignee": null})).await["assignee"], Value::Null);
    assert_eq!(update(json!({"assignee": gus.user_id})).await["assignee"]["id"], gus.user_id);
}

#[tokio::test]
async fn an_update_that_changes_nothing_writes_nothing() {
    let rig = Rig::start().await;
    let api = rig.api().await;
    let before = rig.acme.ticket(5).unwrap();
    let tag = before["tags"][0].clone();

    let same = rig.call(&api, "update_ticket", json!({"ticket_id": "5", "add_tags": [tag]})).await.unwrap();

    assert_eq!(same["ticket"]["tags"], before["tags"]);
    assert_eq!(rig.acme.ticket(5).unwrap(), before);
}

#[tokio::test]
async fn a_faster_change_of_somebody_else_is_kept() {
    let rig = Rig::start().await;
    let api = rig.api().await;
    rig.http.somebody_is_faster(&rig.acme, 5, 1);

    let changed = rig.call(&api, "update_ticket", json!({"ticket_id": "5", "add_tags": ["ours"]})).await.unwrap();

    assert_eq!(changed["ticket"]["tags"], json!(["theirs", "theirs_0", "ours"]));
}

#[tokio::test]
async fn a_ticket_that_keeps_changing_is_a_conflict() {
    let rig = Rig::start().await;
    let api = rig.api().await;
    rig.http.somebody_is_faster(&rig.acme, 5, 2);

    let error = rig.call(&api, "update_ticket", json!({"ticket_id": "5", "add_tags": ["ours"]})).await.unwrap_err();

    assert_eq!((error.kind, error.retry), (ErrorKind::Conflict, Retry::Never));
    assert_eq!(rig.acme.ticket(5).unwrap()["tags"], json!(["theirs", "theirs_1"]));
}

#[tokio::test]
async fn a_caller_who_said_what_it_saw_decides_itself_about_a_conflict() {
    let rig = Rig::start().await;
    let api = rig.api().await;
    let seen = rig.call(&api, "get_ticket", json!({"ticket_id": "5"})).await.unwrap()["ticket"]["updated_at"].clone();
    let update = json!({"ticket_id": "5", "status": "solved", "if_updated_at": seen});

    // Between our read and our write.
    rig.http.somebody_is_faster(&rig.acme, 5, 1);
    let error = rig.call(&api, "update_ticket", update.clone()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict);
    // Before our read.
    let error = rig.call(&api, "update_ticket", update).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict);
    assert_ne!(rig.acme.ticket(5).unwrap()["status"], "solved");

    let seen = rig.call(&api, "get_ticket", json!({"ticket_id": "5"})).await.unwrap()["ticket"]["updated_at"].clone();
    let update = json!({"ticket_id": "5", "status": "solved", "if_updated_at": seen});
    let done = rig.call(&api, "update_ticket", update).await.unwrap();
    assert_eq!(done["ticket"]["status"]["value"], "solved");
}

#[tokio::test]
async fn an_update_is_refused_where_zendesk_refuses_it() {
    let rig = Rig::start().await;
    let ada = rig.api_as("ada", "read write");
    let error = rig.call(&ada, "update_ticket", json!({"ticket_id": "17", "priority": "low"})).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.contains("closed prevents ticket update"), "{error}");

    let customer = json!({"ticket_id": "5", "assignee": "mira.castellan@example.com"});
    let error = rig.call(&ada, "update_ticket", customer).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.contains("assignee: Assignee: is not an agent"), "{error}");

    let read_only = rig.api_as("ada", "read");
    let error = rig.call(&read_only, "update_ticket", json!({"ticket_id": "5", "priority": "low"})).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Forbidden);

    let error = rig.call(&ada, "update_ticket", json!({"ticket_id": "424242", "priority": "low"})).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
}

#[tokio::test]
async fn a_narrow_scope_is_named_where_search_wants_a_broad_one() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada", "tickets:read users:read");
    rig.call(&api, "get_ticket", json!({"ticket_id": "5"})).await.unwrap();

    let error = rig.call(&api, "search_tickets", json!({})).await.unwrap_err();

    assert_eq!(error.kind, ErrorKind::Forbidden);
    assert!(error.message.contains("the scope read"), "{error}");
}

#[tokio::test]
async fn an_unknown_tool_is_not_found() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada", "read");
    let error = rig.call(&api, "delete_ticket", json!({})).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert!(error.message.contains("search_tickets, get_ticket, reply_to_ticket, update_ticket"), "{error}");
}
