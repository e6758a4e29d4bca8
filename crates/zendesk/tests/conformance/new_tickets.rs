//! `create_ticket`: in whose name, once for a key, and what an answer that was lost leaves behind.

use holdfast_core::{ErrorKind, Retry, tool::Repeat};
use holdfast_sandbox::Canned;
use serde_json::{Value, json};

use crate::rig::Rig;

fn damaged() -> Value {
    json!({
        "subject": "Parcel arrived damaged", "body": "The box was torn open.\nLamp broken.",
        "requester": "mira.castellan@example.com",
    })
}

async fn tickets(rig: &Rig) -> u64 {
    let api = rig.api_as("ada", "read write");
    let found = rig.call(&api, "search_tickets", json!({"limit": 1})).await.unwrap();
    found["total"].as_u64().unwrap()
}

#[tokio::test]
async fn a_new_ticket_has_what_was_given_in_the_name_of_who_asks() {
    let rig = Rig::start().await;
    let api = rig.api().await;
    let mut given = damaged();
    given["priority"] = json!("urgent");
    given["assignee"] = json!("gus.agent@example.com");
    given["tags"] = json!(["Damaged", "vip"]);

    let made = rig.call(&api, "create_ticket", given).await.unwrap()["ticket"].clone();

    let id = made["id"].as_str().unwrap();
    let read = rig.call(&api, "get_ticket", json!({"ticket_id": id})).await.unwrap();
    let ticket = &read["ticket"];
    assert_eq!(ticket["subject"], "Parcel arrived damaged");
    assert_eq!(ticket["description"], "The box was torn open.\nLamp broken.");
    assert_eq!(ticket["priority"], json!({"value": "urgent", "original": "urgent"}));
    assert_eq!(ticket["channel"], json!({"value": "api", "original": "api"}));
    assert_eq!(ticket["tags"], json!(["damaged", "vip"]));
    assert_eq!(ticket["requester"]["email"], "mira.castellan@example.com");
    assert_eq!(ticket["assignee"]["email"], "gus.agent@example.com");
    assert_eq!(read["messages"].as_array().unwrap().len(), 1);
    for field in ["id", "subject", "status", "tags", "created_at", "updated_at"] {
        assert_eq!(made[field], ticket[field], "{field}");
    }
}

#[tokio::test]
async fn a_customer_is_named_by_id_or_by_an_address_that_nobody_knew() {
    let rig = Rig::start().await;
    let api = rig.api().await;
    let find = async |by: Value| rig.call(&api, "find_customer", by).await.unwrap()["customers"].clone();
    let mira = find(json!({"email": "mira.castellan@example.com"})).await[0]["id"].clone();

    let mut by_id = damaged();
    by_id["requester"] = mira.clone();
    let made = rig.call(&api, "create_ticket", by_id).await.unwrap();
    assert_eq!(made["ticket"]["requester"]["id"], mira);

    let mut by_address = damaged();
    by_address["requester"] = json!("zoë@example.org");
    by_address["requester_name"] = json!("Zoë 山田");
    let made = rig.call(&api, "create_ticket", by_address).await.unwrap();
    let zoe = &find(json!({"email": "zoë@example.org"})).await[0];
    assert_eq!(zoe["id"], made["ticket"]["requester"]["id"]);
    assert_eq!(zoe["name"], "Zoë 山田");
}

#[tokio::test]
async fn the_same_key_makes_one_ticket_and_another_a_second() {
    let rig = Rig::start().await;
    let api = rig.api().await;
    let before = tickets(&rig).await;
    let long = "schlüssel ".repeat(40);

    for key in ["run_1/step_2", long.as_str()] {
        let first = rig.call_with(&api, "create_ticket", damaged(), Some(key)).await.unwrap();
        let again = rig.call_with(&api, "create_ticket", damaged(), Some(key)).await.unwrap();
        assert_eq!(first, again);
    }
    assert_eq!(tickets(&rig).await, before + 2);

    rig.call(&api, "create_ticket", damaged()).await.unwrap();
    assert_eq!(tickets(&rig).await, before + 3, "without a key each call makes one");

    let mut other = damaged();
    other["subject"] = json!("Another");
    let error = rig.call_with(&api, "create_ticket", other, Some("run_1/step_2")).await.unwrap_err();
    assert_eq!((error.kind, error.retry), (ErrorKind::Invalid, Retry::Never));
    assert!(error.message.contains("the idempotency key was used for another ticket"), "{error}");
    assert_eq!(tickets(&rig).await, before + 3);
}

#[tokio::test]
async fn a_lost_answer_is_found_again_by_its_key_for_as_long_as_the_tool_says() {
    let rig = Rig::start().await;
    let before = tickets(&rig).await;
    let lost = Canned::new(502, "<html>Bad gateway</html>").content_type("text/html").after_processing().times(1);
    rig.acme.trouble(|faults| faults.api_answer = Some(lost));

    let api = rig.api_as("ada", "read write");
    let error = rig.call_with(&api, "create_ticket", damaged(), Some("k")).await.unwrap_err();
    let made = rig.call_with(&api, "create_ticket", damaged(), Some("k")).await.unwrap();

    assert_eq!((error.kind, error.retry), (ErrorKind::Unavailable, Retry::Backoff));
    assert_eq!(made["ticket"]["subject"], "Parcel arrived damaged");
    assert_eq!(tickets(&rig).await, before + 1);

    let Repeat::ProviderKey { kept } = rig.tool("create_ticket").repeat else { panic!("it takes a key") };
    rig.sandbox.advance(kept - std::time::Duration::from_mins(1));
    let api = rig.api_as("ada", "read write");
    rig.call_with(&api, "create_ticket", damaged(), Some("k")).await.unwrap();
    assert_eq!(tickets(&rig).await, before + 1, "within that time the key is known");
    rig.sandbox.advance(std::time::Duration::from_mins(1));
    let api = rig.api_as("ada", "read write");
    rig.call_with(&api, "create_ticket", damaged(), Some("k")).await.unwrap();
    assert_eq!(tickets(&rig).await, before + 2, "and no longer");
}

#[tokio::test]
async fn a_new_ticket_without_a_key_whose_fate_is_unknown_is_not_to_be_repeated() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada", "read write");
    let before = tickets(&rig).await;
    for (status, body, kind) in [
        (502, "", ErrorKind::Unavailable),
        (201, "", ErrorKind::Unreadable),
        (200, "<html>maintenance</html>", ErrorKind::Unreadable),
        (201, "{\"ticket\": {\"id\": \"five\"}}", ErrorKind::Unreadable),
    ] {
        let lost = Canned::new(status, body).after_processing().times(1);
        rig.acme.trouble(|faults| faults.api_answer = Some(lost));

        let error = rig.call(&api, "create_ticket", damaged()).await.unwrap_err();

        assert_eq!((error.kind, error.retry), (kind, Retry::Never), "{status} {body}");
        assert!(error.message.ends_with("search for it before you repeat it"), "{error}");
    }
    rig.acme.calm();
    assert_eq!(tickets(&rig).await, before + 4, "each of them had been made");
}

#[tokio::test]
async fn a_new_ticket_is_refused_where_zendesk_refuses_it() {
    let rig = Rig::start().await;
    let before = tickets(&rig).await;
    let with = |field: &str, value: Value| {
        let mut given = damaged();
        given[field] = value;
        given
    };
    for (user, scope, given, kind, said) in [
        ("ada", "read", damaged(), ErrorKind::Forbidden, "lacks the scope write"),
        ("eve", "read write", damaged(), ErrorKind::Forbidden, "You do not have access"),
        ("ada", "read write", with("requester", json!("404")), ErrorKind::Invalid, "Requester: is invalid"),
        ("ada", "read write", with("assignee", json!("mira.castellan@example.com")), ErrorKind::Invalid, "assignee"),
        ("ada", "read write", with("requester", json!("Mira")), ErrorKind::Invalid, "requester: expected"),
        ("ada", "read write", with("subject", json!("a\nb")), ErrorKind::Invalid, "subject: expected"),
        ("ada", "read write", with("status", json!("open")), ErrorKind::Invalid, "unknown field `status`"),
        ("ada", "read write", with("priority", json!("critical")), ErrorKind::Invalid, "priority: unknown variant"),
    ] {
        let error = rig.call(&rig.api_as(user, scope), "create_ticket", given).await.unwrap_err();
        assert_eq!((error.kind, error.retry), (kind, Retry::Never), "{error}");
        assert!(error.message.contains(said), "{error}");
    }
    assert_eq!(tickets(&rig).await, before);
}
