//! Replies, notes, changes, new tickets.

use std::time::Duration;

use holdfast_core::{ErrorKind, Provider, Retry, tool::Repeat};
use holdfast_sandbox::Canned;
use serde_json::{Value, json};

use crate::rig::Rig;

#[tokio::test]
async fn a_reply_leaves_the_ticket_open_and_shows_what_was_written() {
    let rig = Rig::start().await;
    let api = rig.api_as("acme");
    let id = rig.id(4);

    let sent =
        rig.call(&api, "reply_to_ticket", json!({"ticket_id": id, "body": "a < b\nGrüße", "public": true})).await;

    let sent = sent.unwrap();
    assert_eq!((&sent["ticket_id"], &sent["message_id"], &sent["public"]), (&json!(id), &Value::Null, &json!(true)));
    assert_eq!(rig.there.messages("acme", &id).last().unwrap()["text"], "a < b\nGrüße");
    assert_eq!(rig.there.conversation("acme", &id).unwrap()["status"], "unassigned", "not archived");

    let note =
        rig.call(&api, "reply_to_ticket", json!({"ticket_id": id, "body": "*Look*", "public": false})).await.unwrap();
    let there = rig.there.comments("acme", &id).pop().unwrap();
    assert_eq!((&there["body"], &there["id"]), (&json!("*Look*"), &note["message_id"]));
    let read = rig.call(&api, "get_ticket", json!({"ticket_id": id})).await.unwrap();
    let bodies: Vec<&Value> = read["messages"].as_array().unwrap().iter().map(|message| &message["body"]).collect();
    assert_eq!(bodies[1..], [&json!("a < b\nGrüße"), &json!("*Look*")]);
}

#[tokio::test]
async fn a_reply_to_a_merged_ticket_goes_to_the_other_one_and_one_without_a_channel_says_so() {
    let rig = Rig::start().await;
    let api = rig.api_as("acme");
    let reply = |number: usize| json!({"ticket_id": rig.id(number), "body": "Hi", "public": true});

    rig.call(&api, "reply_to_ticket", reply(2)).await.unwrap();

    assert_eq!(rig.there.messages("acme", &rig.id(3)).last().unwrap()["text"], "Hi");
    assert_eq!(rig.there.messages("acme", &rig.id(2)).len(), 1);
    let refused = rig.call(&api, "reply_to_ticket", reply(5)).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Invalid);
    assert!(refused.message.contains("channel_id"), "{refused}");
}

#[tokio::test]
async fn a_lost_answer_to_a_message_is_not_repeated_and_says_to_look() {
    let rig = Rig::start().await;
    let api = rig.api_as("acme");
    for public in [true, false] {
        for canned in [Canned::new(502, ""), Canned::new(202, "accepted")] {
            rig.there.trouble(|faults| faults.api_answer = Some(canned.after_processing().times(1)));
            let arguments = json!({"ticket_id": rig.id(4), "body": "Hi", "public": public});
            let lost = rig.call(&api, "reply_to_ticket", arguments).await.unwrap_err();
            assert_eq!(lost.retry, Retry::Never, "{lost}");
            assert!(lost.message.contains("look at the ticket"), "{lost}");
        }
    }
    assert_eq!(rig.there.messages("acme", &rig.id(4)).len(), 3);
}

async fn updated(rig: &Rig, arguments: Value) -> Value {
    let api = rig.api_as("acme");
    let mut all = json!({"ticket_id": rig.id(4)});
    all.as_object_mut().unwrap().extend(arguments.as_object().unwrap().clone());
    rig.call(&api, "update_ticket", all).await.unwrap()["ticket"].clone()
}

#[tokio::test]
async fn a_ticket_is_changed_in_fronts_words() {
    let rig = Rig::start().await;
    let ada = rig.there.teammate_id("ada").unwrap();

    assert_eq!(updated(&rig, json!({"status": "solved"})).await["status"]["original"], "archived");
    assert_eq!(updated(&rig, json!({"status": "open"})).await["status"]["original"], "unassigned");
    assert_eq!(updated(&rig, json!({"assignee": "ADA@acme.example"})).await["assignee"]["id"], ada);
    assert_eq!(updated(&rig, json!({"assignee": null})).await["assignee"], Value::Null);
    assert_eq!(updated(&rig, json!({"assignee": ada})).await["assignee"]["name"], "Ada Admin");

    // The second page of tags has "vip".
    assert_eq!(updated(&rig, json!({"add_tags": ["VIP", "größe"]})).await["tags"], json!(["refund", "vip", "Größe"]));
    assert_eq!(updated(&rig, json!({"remove_tags": ["refund", "never there"]})).await["tags"], json!(["vip", "Größe"]));
    assert_eq!(updated(&rig, json!({"tags": ["topic 5"]})).await["tags"], json!(["topic 5"]));
    assert_eq!(updated(&rig, json!({"tags": []})).await["tags"], json!([]));
    rig.http.seen();
    updated(&rig, json!({"remove_tags": ["vip"]})).await;
    assert!(
        rig.http.seen().iter().all(|(target, _)| target.starts_with("GET")),
        "nothing is written where nothing changes"
    );
}

#[tokio::test]
async fn ticketing_has_pending_and_front_without_it_has_not() {
    let rig = Rig::start().await;
    let api = rig.api_as("acme");
    let pending = json!({"ticket_id": rig.id(4), "status": "pending"});
    let refused = rig.call(&api, "update_ticket", pending).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Invalid);
    assert!(refused.message.starts_with("status: this Front has no pending"), "{refused}");

    rig.there.set_ticketing("acme", true);
    for (status, original) in [("pending", "waiting"), ("solved", "resolved"), ("open", "open")] {
        let ticket = updated(&rig, json!({"status": status})).await;
        assert_eq!(ticket["status"], json!({"value": status, "original": original}));
    }
}

#[tokio::test]
async fn a_change_that_front_cannot_make_changes_nothing() {
    let rig = Rig::start().await;
    let api = rig.api_as("acme");
    let before = rig.there.conversation("acme", &rig.id(4)).unwrap();
    for (change, said) in [
        (json!({"priority": "high"}), "priority: Front has no priorities"),
        (json!({"status": "closed"}), "status: Front has"),
        (json!({"status": "solved", "assignee": "nobody@acme.example"}), "assignee: Front has no teammate"),
        (json!({"status": "solved", "assignee": "Ada Admin"}), "assignee: expected"),
        (json!({"status": "solved", "add_tags": ["no such"]}), "add_tags: Front has no tag \"no such\""),
        (json!({"status": "solved", "tags": ["no such"]}), "tags: Front has no tag"),
        (json!({"add_tags": ["VIP"], "remove_tags": ["vip"]}), "remove_tags: "),
        (json!({}), "nothing to change"),
    ] {
        let mut all = json!({"ticket_id": rig.id(4)});
        all.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let refused = rig.call(&api, "update_ticket", all).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Invalid, "{refused}");
        assert!(refused.message.contains(said), "{refused}");
    }
    assert_eq!(rig.there.conversation("acme", &rig.id(4)).unwrap(), before);
}

#[tokio::test]
async fn a_change_is_refused_where_the_ticket_changed_since_it_was_seen() {
    let rig = Rig::start().await;
    let api = rig.api_as("acme");
    let seen = rig.call(&api, "get_ticket", json!({"ticket_id": rig.id(4)})).await.unwrap();
    let seen = seen["ticket"]["updated_at"].clone();
    let change = |status: &str| json!({"ticket_id": rig.id(4), "status": status, "if_updated_at": seen});

    rig.call(&api, "update_ticket", change("solved")).await.unwrap();

    let late = rig.call(&api, "update_ticket", change("open")).await.unwrap_err();
    assert_eq!(late.kind, ErrorKind::Conflict);
    assert!(late.message.contains("read it again"), "{late}");
    rig.there.set(|options| options.tells_updated_at = false);
    let untold = rig.call(&api, "update_ticket", change("open")).await.unwrap_err();
    assert!(untold.message.starts_with("if_updated_at: this Front does not say"), "{untold}");
}

fn ticket() -> Value {
    json!({"subject": "Größe?", "body": "Is <b>L</b> large?", "requester": "zoe@example.org", "requester_name": "Zoë"})
}

#[tokio::test]
async fn a_new_ticket_is_a_message_that_came_in() {
    let rig = Rig::start().await;
    let api = rig.api_as("acme");

    let made = rig.call(&api, "create_ticket", ticket()).await.unwrap()["ticket"].clone();

    assert_eq!((&made["subject"], &made["description"]), (&json!("Größe?"), &json!("Is <b>L</b> large?")));
    assert_eq!(made["requester"], json!({"id": "zoe@example.org", "name": "Zoë", "email": "zoe@example.org"}));
    let id = made["id"].as_str().unwrap();
    let message = rig.there.messages("acme", id).pop().unwrap();
    assert_eq!((&message["is_inbound"], &message["text"]), (&json!(true), &json!("Is <b>L</b> large?")));
    assert_eq!(message["recipients"][1]["handle"], "support@acme.example");

    let contact = rig.call(&api, "find_customer", json!({"email": "joerg@customer.example"})).await.unwrap();
    let mut by_id = ticket();
    by_id["requester"] = contact["customers"][0]["id"].clone();
    by_id.as_object_mut().unwrap().remove("requester_name");
    let made = rig.call(&api, "create_ticket", by_id).await.unwrap();
    assert_eq!(made["ticket"]["requester"]["email"], "joerg@customer.example");
}

#[tokio::test]
async fn a_ticket_that_front_still_processes_can_be_worked_with_from_then_on() {
    let rig = Rig::start().await;
    let api = rig.api_as("acme");
    rig.there.set(|options| options.processes_later = true);

    let made = rig.call(&api, "create_ticket", ticket()).await.unwrap()["ticket"].clone();

    let id = made["id"].as_str().unwrap();
    assert!(id.starts_with("message:"), "{made}");
    assert_eq!(made["status"], json!({"value": "open", "original": "accepted"}));
    let early = rig.call(&api, "get_ticket", json!({"ticket_id": id})).await.unwrap_err();
    assert_eq!(early.kind, ErrorKind::NotFound);
    assert!(early.message.contains("try again later"), "{early}");
    rig.there.process();
    let read = rig.call(&api, "get_ticket", json!({"ticket_id": id})).await.unwrap();
    assert_eq!(read["messages"][0]["author"]["name"], "Zoë");
    let changed = rig.call(&api, "update_ticket", json!({"ticket_id": id, "status": "solved"})).await.unwrap();
    assert_eq!(changed["ticket"]["id"], read["ticket"]["id"]);
}

#[tokio::test]
async fn under_a_key_one_ticket_is_opened_however_often_it_is_called() {
    let rig = Rig::start().await;
    let api = rig.api_as("acme");
    let tool = rig.front.about().tools.iter().find(|tool| tool.name == "create_ticket").unwrap();
    assert!(matches!(tool.repeat, Repeat::ProviderKey { kept } if kept >= Duration::from_hours(24)));
    let before = rig.there.conversations("acme");

    let first = rig.call_with(&api, "create_ticket", ticket(), Some("run_7/1")).await.unwrap();
    rig.advance(Duration::from_mins(5));
    let again = rig.call_with(&api, "create_ticket", ticket(), Some("run_7/1")).await;

    assert_eq!(first["ticket"]["id"], again.unwrap()["ticket"]["id"]);
    assert_eq!(rig.there.conversations("acme"), before + 1);
    rig.call_with(&api, "create_ticket", ticket(), Some("run_7/2")).await.unwrap();
    assert_eq!(rig.there.conversations("acme"), before + 2);
}

#[tokio::test]
async fn a_ticket_that_cannot_be_opened_so_is_refused_before_anything_is_sent() {
    let rig = Rig::start().await;
    let api = rig.api_as("acme");
    rig.http.seen();
    for (change, said) in [
        (json!({"subject": " "}), "subject: expected"),
        (json!({"body": "\n"}), "body: expected"),
        (json!({"priority": "high"}), "priority: Front has no priorities"),
        (json!({"assignee": "ada@acme.example"}), "assignee: Front takes none"),
        (json!({"tags": ["vip"]}), "tags: Front takes none"),
        (json!({"requester": "Zoë Ñ", "requester_name": null}), "requester: expected"),
    ] {
        let mut all = ticket();
        all.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let refused = rig.call(&api, "create_ticket", all).await.unwrap_err();
        assert!(refused.message.starts_with(said), "{change}: {refused}");
    }
    assert!(rig.http.seen().is_empty());
    let phone_only =
        rig.call(&api, "create_ticket", json!({"subject": "s", "body": "b", "requester": "crd_none"})).await;
    assert_eq!(phone_only.unwrap_err().kind, ErrorKind::NotFound);
}
