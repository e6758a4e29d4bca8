//! The tools that write: what arrives, what is refused, and what is not to be sent twice.

use holdfast_core::{ErrorKind, Retry};
use holdfast_sandbox::Canned;
use serde_json::{Value, json};

use crate::rig::Rig;

#[tokio::test]
async fn a_reply_is_mailed_and_a_note_is_not() {
    let rig = Rig::start().await;
    let api = rig.api(&rig.connect("gus"));
    let body = "Hello <b>you</b> & \"all\",\nit's on its way 🙂";
    for public in [true, false] {
        let sent =
            rig.call(&api, "reply_to_ticket", json!({"ticket_id": "5", "body": body, "public": public})).await.unwrap();

        let last = rig.acme.conversations(5).pop().unwrap();
        assert_eq!(sent["message_id"], last["id"].to_string());
        assert_eq!((&sent["public"], &last["private"]), (&json!(public), &json!(!public)));
        assert_eq!(last["to_emails"].as_array().unwrap().is_empty(), !public);
        assert_eq!(last["body_text"], body, "nothing of a text becomes a tag");
        let read = rig.call(&api, "get_ticket", json!({"ticket_id": "5"})).await.unwrap();
        let message = read["messages"].as_array().unwrap().last().unwrap();
        assert_eq!((&message["id"], &message["body"]), (&sent["message_id"], &json!(body)));
    }
}

#[tokio::test]
async fn a_reply_is_refused_where_freshdesk_refuses_it() {
    let rig = Rig::start().await;
    let reply = |public: bool| json!({"ticket_id": "5", "body": "x", "public": public});

    let notes_only = rig.api_as("nora");
    let error = rig.call(&notes_only, "reply_to_ticket", reply(true)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Forbidden);
    assert!(error.message.contains("You are not authorized"), "{error}");
    rig.call(&notes_only, "reply_to_ticket", reply(false)).await.unwrap();

    assert!(rig.acme.hand_over(5, "Phil"));
    let error = rig.call(&rig.api_as("ada"), "reply_to_ticket", reply(true)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.contains("no email address"), "{error}");

    let blank = json!({"ticket_id": "5", "body": " \n", "public": true});
    let error = rig.call(&rig.api_as("ada"), "reply_to_ticket", blank).await.unwrap_err();
    assert!(error.kind == ErrorKind::Invalid && error.message.starts_with("body: "), "{error}");

    let missing = json!({"ticket_id": "424242", "body": "x", "public": true});
    let error = rig.call(&rig.api_as("ada"), "reply_to_ticket", missing).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
}

#[tokio::test]
async fn a_message_whose_fate_is_unknown_is_not_to_be_repeated() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada");
    let reply = json!({"ticket_id": "5", "body": "once", "public": true});
    let lost = |rig: &Rig| rig.acme.trouble(|trouble| trouble.lose_next_answer = 1);
    let page = |rig: &Rig| {
        let html = Canned::new(200, "<html></html>").content_type("text/html").after_processing().times(1);
        rig.acme.trouble(|trouble| trouble.answer = Some(html));
    };
    let broken = |rig: &Rig| rig.acme.trouble(|t| t.answer = Some(Canned::new(502, "").after_processing().times(1)));
    for trouble in [&lost as &dyn Fn(&Rig), &page, &broken] {
        let before = rig.acme.conversations(5).len();
        trouble(&rig);

        let error = rig.call(&api, "reply_to_ticket", reply.clone()).await.unwrap_err();

        assert_eq!(error.retry, Retry::Never, "{error}");
        assert!(error.message.contains("look at the ticket before you repeat it"), "{error}");
        assert_eq!(rig.acme.conversations(5).len(), before + 1, "it had arrived, once");
    }
    // What the provider turned away may come again.
    rig.acme.trouble(|trouble| trouble.answer = Some(Canned::new(503, "").header("Retry-After", "30").times(1)));
    let turned_away = rig.call(&api, "reply_to_ticket", reply).await.unwrap_err();
    assert!(matches!(turned_away.retry, Retry::After(_)), "{turned_away}");
}

#[tokio::test]
async fn an_update_changes_what_is_given_and_nothing_else() {
    let rig = Rig::start().await;
    let api = rig.api(&rig.connect("ada"));
    let update = async |arguments: Value| {
        let mut arguments = arguments;
        arguments["ticket_id"] = json!("5");
        rig.call(&api, "update_ticket", arguments).await.unwrap()["ticket"].clone()
    };
    let before = rig.acme.ticket(5).unwrap();

    let changed = update(json!({"status": "solved", "priority": "urgent"})).await;
    assert_eq!(changed["status"], json!({"value": "solved", "original": "4"}));
    assert_eq!(changed["priority"], json!({"value": "urgent", "original": "4"}));
    let after = rig.acme.ticket(5).unwrap();
    for same in ["tags", "subject", "requester_id", "responder_id", "group_id", "custom_fields", "type", "source"] {
        assert_eq!(after[same], before[same], "{same}");
    }

    assert_eq!(update(json!({"tags": ["One", "two"]})).await["tags"], json!(["One", "two"]));
    let edited = update(json!({"add_tags": ["three", "two"], "remove_tags": ["One", "absent"]})).await;
    assert_eq!(edited["tags"], json!(["two", "three"]));
    assert!(edited["requester"]["name"].is_string());
    assert_eq!(update(json!({"tags": []})).await["tags"], json!([]));

    let gus = rig.acme.agent_id("gus").unwrap().to_string();
    assert_eq!(update(json!({"assignee": "Gus.Agent@acme.example"})).await["assignee"]["id"], gus);
    assert_eq!(update(json!({"assignee": null})).await["assignee"], Value::Null);
    assert_eq!(update(json!({"assignee": gus})).await["assignee"]["id"], gus);
}

#[tokio::test]
async fn an_update_that_changes_nothing_writes_nothing() {
    let rig = Rig::start().await;
    let api = rig.api_as("gus");
    rig.acme.tag(5, &["vip"]);
    let before = rig.acme.ticket(5).unwrap();

    let arguments = json!({"ticket_id": "5", "add_tags": ["vip"], "remove_tags": ["absent"]});
    let same = rig.call(&api, "update_ticket", arguments).await.unwrap();

    assert_eq!(same["ticket"]["tags"], json!(["vip"]));
    assert_eq!(rig.acme.ticket(5).unwrap(), before);
    assert_eq!(rig.calls(), 1);
}

#[tokio::test]
async fn a_caller_who_said_what_it_saw_hears_of_a_change_since() {
    let rig = Rig::start().await;
    let api = rig.api_as("gus");
    let seen =
        async || rig.call(&api, "get_ticket", json!({"ticket_id": "5"})).await.unwrap()["ticket"]["updated_at"].clone();
    let update = json!({"ticket_id": "5", "status": "solved", "if_updated_at": seen().await});
    rig.acme.tag(5, &["theirs"]);

    let error = rig.call(&api, "update_ticket", update).await.unwrap_err();

    assert_eq!((error.kind, error.retry), (ErrorKind::Conflict, Retry::Never));
    assert_ne!(rig.acme.ticket(5).unwrap()["status"], 4);
    let update = json!({"ticket_id": "5", "status": "solved", "if_updated_at": seen().await});
    let done = rig.call(&api, "update_ticket", update).await.unwrap();
    assert_eq!(done["ticket"]["status"]["value"], "solved");
    assert_eq!(done["ticket"]["tags"], json!(["theirs"]));
}

#[tokio::test]
async fn an_update_is_refused_where_freshdesk_refuses_it() {
    let rig = Rig::start().await;
    let update = async |agent: &str, arguments: Value| {
        let mut arguments = arguments;
        arguments["ticket_id"] = json!("5");
        rig.call(&rig.api_as(agent), "update_ticket", arguments).await.unwrap_err()
    };

    rig.acme.require_to_close(Some("cf_resolution"));
    let error = update("ada", json!({"status": "closed"})).await;
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.contains("cf_resolution: "), "{error}");

    let error = update("ada", json!({"assignee": "9007199254740993"})).await;
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.contains("responder_id: There is no agent"), "{error}");

    let error = update("ada", json!({"assignee": "mira.castellan@example.com"})).await;
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.starts_with("assignee: Freshdesk has no agent"), "{error}");

    // Only administrators may read agents.
    let error = update("gus", json!({"assignee": "gus.agent@acme.example"})).await;
    assert_eq!(error.kind, ErrorKind::Forbidden);
    assert!(error.message.contains("give the agent's id"), "{error}");

    for (arguments, said) in [
        (json!({"status": "on_hold"}), "status: Freshdesk has no on_hold"),
        (json!({"status": "new"}), "status: a ticket never becomes new"),
        (json!({"assignee": "Gus"}), "assignee: expected the digits of an id"),
        (json!({"add_tags": ["a,b"]}), "add_tags: expected tags"),
        (json!({}), "nothing to change"),
    ] {
        let before = rig.calls();
        let error = update("ada", arguments).await;
        assert!(error.kind == ErrorKind::Invalid && error.message.starts_with(said), "{error}");
        assert_eq!(rig.calls(), before, "nothing was sent");
    }
}

#[tokio::test]
async fn a_ticket_is_made_in_the_name_of_a_customer() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada");
    let mira = rig.acme.contact("Mira").unwrap();
    let arguments = json!({"subject": " Broken lamp ", "body": "It <flickers>.\nSince today.", "priority": "high",
        "requester": "mira.castellan@example.com", "tags": ["defect"], "assignee": "gus.agent@acme.example"});

    let made = rig.call(&api, "create_ticket", arguments).await.unwrap()["ticket"].clone();

    let there = rig.acme.ticket(made["id"].as_str().unwrap().parse().unwrap()).unwrap();
    assert_eq!(there["subject"], "Broken lamp");
    assert_eq!(there["description_text"], "It <flickers>.\nSince today.");
    assert_eq!((&there["requester_id"], &there["priority"], &there["status"]), (&mira["id"], &json!(3), &json!(2)));
    assert_eq!((&there["tags"], &there["responder_id"]), (&json!(["defect"]), &json!(rig.acme.agent_id("gus"))));
    assert_eq!(made["description"], there["description_text"]);

    let new = json!({"subject": "s", "body": "b", "requester": "new@example.com", "requester_name": "Łucja Nowa"});
    let made = rig.call(&api, "create_ticket", new).await.unwrap()["ticket"].clone();
    let contact = rig.acme.contact("Łucja Nowa").unwrap();
    assert_eq!(made["requester"]["id"], contact["id"].to_string());
    assert_eq!(made["priority"], json!({"value": "low", "original": "1"}));

    let by_id = json!({"subject": "s", "body": "b", "requester": mira["id"].to_string()});
    let made = rig.call(&api, "create_ticket", by_id).await.unwrap()["ticket"].clone();
    assert_eq!(made["requester"]["id"], mira["id"].to_string());
}

#[tokio::test]
async fn a_ticket_is_refused_where_freshdesk_refuses_it_and_made_once() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada");
    let ticket = |requester: &str| json!({"subject": "s", "body": "b", "requester": requester});
    for requester in ["a@b", "9007199254740999999"] {
        let error = rig.call(&api, "create_ticket", ticket(requester)).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
    }
    let before = rig.acme.tickets().len();
    rig.acme.trouble(|trouble| trouble.lose_next_answer = 1);

    let error = rig.call(&api, "create_ticket", ticket("mira.castellan@example.com")).await.unwrap_err();

    assert_eq!((error.kind, error.retry), (ErrorKind::Unavailable, Retry::Never));
    assert!(error.message.contains("search for it before you repeat it"), "{error}");
    assert_eq!(rig.acme.tickets().len(), before + 1);
}
