//! The tools that write: what arrives, what is refused, and what is not to be sent twice.

use holdfast_core::{ErrorKind, Retry};
use holdfast_sandbox::Canned;
use serde_json::{Value, json};

use crate::rig::Rig;

fn last(rig: &Rig, ticket: i64) -> Value {
    rig.acme.ticket(ticket).unwrap()["messages"].as_array().unwrap().last().unwrap().clone()
}

fn count(rig: &Rig, ticket: i64) -> usize {
    rig.acme.ticket(ticket).unwrap()["messages"].as_array().unwrap().len()
}

/// The first ticket by this channel that an agent has answered, or not.
fn ticket(rig: &Rig, channel: &str, answered: bool) -> i64 {
    let fits = |id: &i64| {
        let ticket = rig.acme.ticket(*id).unwrap();
        let messages = ticket["messages"].as_array().unwrap();
        ticket["channel"] == channel && messages.iter().any(|one| one["from_agent"] == true) == answered
    };
    (1..=60).find(fits).unwrap()
}

#[tokio::test]
async fn a_reply_is_mailed_the_way_the_conversation_came_and_a_note_is_not() {
    let rig = Rig::start().await;
    let api = rig.agent();
    let body = "Hello <b>you</b> & \"all\",\nit's on its way 🙂";
    for answered in [true, false] {
        let id = ticket(&rig, "email", answered);
        for public in [true, false] {
            let arguments = json!({"ticket_id": id.to_string(), "body": body, "public": public});
            let sent = rig.call(&api, "reply_to_ticket", arguments).await.unwrap();

            let last = last(&rig, id);
            assert_eq!((&sent["message_id"], &sent["public"]), (&json!(last["id"].to_string()), &json!(public)));
            assert_eq!((&last["body_text"], &last["public"]), (&json!(body), &json!(public)));
            assert!(last["body_html"].as_str().unwrap().contains("&lt;b&gt;"), "nothing of a text becomes a tag");
            assert_eq!(last["channel"], if public { "email" } else { "internal-note" });
            assert_eq!((&last["failed_datetime"], last["sent_datetime"].is_string()), (&Value::Null, true));
            if public {
                let customer = rig.acme.ticket(id).unwrap()["customer"].clone();
                assert_eq!(last["source"]["to"][0]["address"], customer["email"]);
                assert_eq!(last["receiver"]["id"], customer["id"]);
            }
            let read = rig.call(&api, "get_ticket", json!({"ticket_id": id.to_string()})).await.unwrap();
            let message = read["messages"].as_array().unwrap().last().unwrap();
            assert_eq!((&message["id"], &message["body"]), (&sent["message_id"], &json!(body)));
        }
    }
}

#[tokio::test]
async fn a_reply_that_would_never_arrive_is_not_sent() {
    let rig = Rig::start().await;
    let api = rig.agent();
    let reply = |id: i64, public: bool| json!({"ticket_id": id.to_string(), "body": "x", "public": public});
    let chat = ticket(&rig, "chat", true);
    let before = count(&rig, chat);

    let error = rig.call(&api, "reply_to_ticket", reply(chat, true)).await.unwrap_err();

    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.starts_with("public: this conversation goes by chat"), "{error}");
    assert_eq!(count(&rig, chat), before);
    rig.call(&api, "reply_to_ticket", reply(chat, false)).await.unwrap();

    // One that was opened here has no address of the helpdesk's until somebody answers it there.
    let new = json!({"subject": "s", "body": "b", "requester": "mira.castellan@example.com"});
    let made = rig.call(&api, "create_ticket", new).await.unwrap();
    let id: i64 = made["ticket"]["id"].as_str().unwrap().parse().unwrap();
    let error = rig.call(&api, "reply_to_ticket", reply(id, true)).await.unwrap_err();
    assert!(error.kind == ErrorKind::Invalid && error.message.contains("nothing was sent"), "{error}");
    rig.acme.write(id, "email", 1);
    rig.call(&api, "reply_to_ticket", reply(id, true)).await.unwrap();
    assert_eq!(last(&rig, id)["failed_datetime"], Value::Null);

    let missing = rig.call(&api, "reply_to_ticket", reply(424_242, true)).await.unwrap_err();
    assert_eq!(missing.kind, ErrorKind::NotFound);
    let blank = json!({"ticket_id": "5", "body": " \n", "public": true});
    let error = rig.call(&api, "reply_to_ticket", blank).await.unwrap_err();
    assert!(error.kind == ErrorKind::Invalid && error.message.starts_with("body: "), "{error}");
}

#[tokio::test]
async fn used_up_messages_and_a_missing_scope_are_no_dead_connection() {
    let rig = Rig::start().await;
    rig.acme.set_rules(|rules| rules.quota_used_up = true);
    let id = ticket(&rig, "email", true).to_string();
    let reply = |public: bool| json!({"ticket_id": id, "body": "x", "public": public});

    let quota = rig.call(&rig.agent(), "reply_to_ticket", reply(true)).await.unwrap_err();
    let scope = rig.call(&rig.api_as("gus", "tickets:read"), "reply_to_ticket", reply(false)).await.unwrap_err();

    assert_eq!((quota.kind, scope.kind), (ErrorKind::Forbidden, ErrorKind::Forbidden));
    assert!(quota.message.contains("Messaging quota exceeded."), "{quota}");
    rig.call(&rig.agent(), "reply_to_ticket", reply(false)).await.unwrap();
}

#[tokio::test]
async fn a_message_whose_fate_is_unknown_is_not_to_be_repeated() {
    let rig = Rig::start().await;
    let api = rig.agent();
    let note = json!({"ticket_id": "5", "body": "once", "public": false});
    for canned in
        [Canned::new(200, "<html></html>").content_type("text/html"), Canned::new(502, ""), Canned::new(201, "{}")]
    {
        let before = count(&rig, 5);
        rig.acme.trouble(|faults| faults.api_answer = Some(canned.after_processing().times(1)));

        let error = rig.call(&api, "reply_to_ticket", note.clone()).await.unwrap_err();

        assert_eq!(error.retry, Retry::Never, "{error}");
        assert!(error.message.contains("look at the ticket before you repeat it"), "{error}");
        assert_eq!(count(&rig, 5), before + 1, "it had arrived, once");
    }
    // What the provider turned away may come again.
    let away = Canned::new(503, "").header("Retry-After", "30").times(1);
    rig.acme.trouble(|faults| faults.api_answer = Some(away));
    let turned_away = rig.call(&api, "reply_to_ticket", note).await.unwrap_err();
    assert!(matches!(turned_away.retry, Retry::After(_)), "{turned_away}");

    let new = json!({"subject": "s", "body": "b", "requester": "mira.castellan@example.com"});
    let before = rig.acme.ticket_ids().len();
    let lost = Canned::new(504, "").after_processing().times(1);
    rig.acme.trouble(|faults| faults.api_answer = Some(lost));
    let error = rig.call(&api, "create_ticket", new).await.unwrap_err();
    assert!(error.retry == Retry::Never && error.message.contains("search for it before you repeat it"), "{error}");
    assert_eq!(rig.acme.ticket_ids().len(), before + 1);
}

#[tokio::test]
async fn an_update_changes_what_is_given_and_nothing_else_whether_it_is_answered_or_not() {
    for answers in [false, true] {
        let rig = Rig::start().await;
        rig.acme.set_rules(|rules| rules.answers_changes = answers);
        let api = rig.agent();
        let update = async |mut arguments: Value| {
            arguments["ticket_id"] = json!("5");
            rig.call(&api, "update_ticket", arguments).await.unwrap()["ticket"].clone()
        };
        let before = rig.acme.ticket(5).unwrap();

        let changed = update(json!({"status": "solved", "priority": "urgent"})).await;
        assert_eq!(changed["status"], json!({"value": "solved", "original": "closed"}));
        assert_eq!(changed["priority"], json!({"value": "urgent", "original": "critical"}));
        let after = rig.acme.ticket(5).unwrap();
        for same in ["tags", "subject", "customer", "assignee_user", "messages", "channel", "spam"] {
            assert_eq!(after[same], before[same], "{same}");
        }
        assert_eq!(update(json!({"status": "open"})).await["status"]["value"], "open");

        assert_eq!(update(json!({"tags": ["One", "two"]})).await["tags"], json!(["One", "two"]));
        let edited = update(json!({"add_tags": ["three", "two", "one"], "remove_tags": ["One", "absent"]})).await;
        assert_eq!(edited["tags"], json!(["two", "three", "one"]), "capitals count");
        assert_eq!(update(json!({"tags": []})).await["tags"], json!([]));

        let gus = rig.acme.user_id("gus").unwrap().to_string();
        assert_eq!(update(json!({"assignee": "Gus.Agent@acme.example"})).await["assignee"]["id"], gus);
        assert_eq!(update(json!({"assignee": null})).await["assignee"], Value::Null);
        assert_eq!(update(json!({"assignee": gus})).await["assignee"]["name"], "Gus Agent");
    }
}

#[tokio::test]
async fn tags_of_somebody_else_stay_and_a_half_done_change_says_so() {
    let rig = Rig::start().await;
    let api = rig.agent();
    rig.acme.change_ticket(5, |ticket| ticket["tags"] = json!([{"id": 1, "name": "theirs"}]));
    let added = json!({"ticket_id": "5", "add_tags": ["mine"]});
    let added = rig.call(&api, "update_ticket", added).await.unwrap();
    assert_eq!(added["ticket"]["tags"], json!(["theirs", "mine"]));

    rig.acme.answer_at("tags", Canned::new(500, ""));
    let both = json!({"ticket_id": "5", "status": "closed", "add_tags": ["more"]});
    let error = rig.call(&api, "update_ticket", both).await.unwrap_err();

    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.message.ends_with("of this call, everything but single tags is changed"), "{error}");
    assert_eq!(rig.acme.ticket(5).unwrap()["status"], "closed");
}

#[tokio::test]
async fn a_caller_who_said_what_it_saw_hears_of_a_change_since() {
    let rig = Rig::start().await;
    let api = rig.agent();
    let seen =
        async || rig.call(&api, "get_ticket", json!({"ticket_id": "5"})).await.unwrap()["ticket"]["updated_at"].clone();
    let update = json!({"ticket_id": "5", "priority": "low", "if_updated_at": seen().await});
    rig.acme.change_ticket(5, |ticket| ticket["priority"] = json!("critical"));

    let error = rig.call(&api, "update_ticket", update).await.unwrap_err();

    assert_eq!((error.kind, error.retry), (ErrorKind::Conflict, Retry::Never));
    assert_eq!(rig.acme.ticket(5).unwrap()["priority"], "critical");
    let update = json!({"ticket_id": "5", "priority": "low", "if_updated_at": seen().await});
    let done = rig.call(&api, "update_ticket", update).await.unwrap();
    assert_eq!(done["ticket"]["priority"]["value"], "low");
}

#[tokio::test]
async fn an_update_is_refused_where_it_cannot_be_made() {
    let rig = Rig::start().await;
    let api = rig.agent();
    let update = async |mut arguments: Value| {
        arguments["ticket_id"] = json!("5");
        rig.call(&api, "update_ticket", arguments).await.unwrap_err()
    };
    let error = update(json!({"assignee": "9007199254740993"})).await;
    assert!(
        error.kind == ErrorKind::Invalid && error.message.contains("assignee_user: User does not exist"),
        "{error}"
    );
    let error = update(json!({"assignee": "mira.castellan@example.com"})).await;
    assert!(error.kind == ErrorKind::Invalid && error.message.starts_with("assignee: Gorgias has no user"), "{error}");
    for (arguments, said) in [
        (json!({"status": "on_hold"}), "status: Gorgias has no pending and no on_hold"),
        (json!({"status": "pending"}), "status: Gorgias has no pending and no on_hold"),
        (json!({"status": "new"}), "status: a ticket never becomes new"),
        (json!({"assignee": "Gus"}), "assignee: expected the digits of an id"),
        (json!({"add_tags": [" "]}), "add_tags: expected tags"),
        (json!({}), "nothing to change"),
    ] {
        let before = rig.calls();
        let error = update(arguments).await;
        assert!(error.kind == ErrorKind::Invalid && error.message.starts_with(said), "{error}");
        assert_eq!(rig.calls(), before, "nothing was sent");
    }
    let blind = rig.api_as("gus", "tickets:read tickets:write");
    let arguments = json!({"ticket_id": "5", "assignee": "gus.agent@acme.example"});
    let error = rig.call(&blind, "update_ticket", arguments).await.unwrap_err();
    assert!(error.kind == ErrorKind::Forbidden && error.message.contains("give the user's id"), "{error}");
    let missing = json!({"ticket_id": "424242", "add_tags": ["x"]});
    assert_eq!(rig.call(&api, "update_ticket", missing).await.unwrap_err().kind, ErrorKind::NotFound);
}

#[tokio::test]
async fn a_ticket_is_made_in_the_name_of_a_customer_and_nothing_is_mailed() {
    let rig = Rig::start().await;
    let api = rig.agent();
    let mira = rig.acme.customer("Mira").unwrap();
    let arguments = json!({"subject": " Broken lamp ", "body": "It <flickers>.\nSince today.", "priority": "high",
        "requester": "mira.castellan@example.com", "tags": ["defect"], "assignee": "gus.agent@acme.example"});

    let made = rig.call(&api, "create_ticket", arguments).await.unwrap()["ticket"].clone();

    let there = rig.acme.ticket(made["id"].as_str().unwrap().parse().unwrap()).unwrap();
    assert_eq!((&there["subject"], &there["customer"]["id"]), (&json!("Broken lamp"), &mira["id"]));
    assert_eq!((&there["priority"], &there["status"]), (&json!("high"), &json!("open")));
    assert_eq!((&there["tags"][0]["name"], &there["assignee_user"]["name"]), (&json!("defect"), &json!("Gus Agent")));
    let message = &there["messages"][0];
    assert_eq!((&message["from_agent"], &message["sender"]["id"]), (&json!(false), &mira["id"]));
    assert_eq!(message["body_text"], "It <flickers>.\nSince today.");
    assert_eq!((&made["description"], &made["tags"]), (&message["body_text"], &json!(["defect"])));

    let new = json!({"subject": "s", "body": "b", "requester": "new@example.com", "requester_name": "Łucja Nowa"});
    let made = rig.call(&api, "create_ticket", new.clone()).await.unwrap()["ticket"].clone();
    let customer = rig.acme.customer("Łucja Nowa").unwrap();
    assert_eq!(made["requester"]["id"], customer["id"].to_string());
    let by_id = json!({"subject": "s", "body": "b", "requester": mira["id"].to_string()});
    let made = rig.call(&api, "create_ticket", by_id).await.unwrap()["ticket"].clone();
    assert_eq!(made["requester"]["id"], mira["id"].to_string());

    // In the other reading Gorgias says what is wrong, and it works without.
    rig.acme.set_rules(|rules| rules.takes_names = false);
    let refused = rig.call(&api, "create_ticket", new).await.unwrap_err();
    assert!(
        refused.kind == ErrorKind::Invalid && refused.message.contains("customer.name: Unknown field."),
        "{refused}"
    );
    let without = json!({"subject": "s", "body": "b", "requester": "newer@example.com"});
    rig.call(&api, "create_ticket", without).await.unwrap();
    for requester in ["a@b", "9007199254740999999", "424242"] {
        let new = json!({"subject": "s", "body": "b", "requester": requester});
        let error = rig.call(&api, "create_ticket", new).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
    }
}
