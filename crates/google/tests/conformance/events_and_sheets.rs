//! Calendar and Sheets.

use holdfast_core::{ErrorKind, Retry};
use holdfast_sandbox::Canned;
use serde_json::{Value, json};

use crate::rig::{ADA, ALL, Rig};

const LONG_AGO: &str = "2020-01-01T00:00:00Z";

#[tokio::test]
async fn events_come_in_order_through_all_pages() {
    let rig = Rig::start().await;
    rig.there.set(|options| options.page_limit = 5);
    let api = rig.api_as("ada", ADA, &ALL);
    let (mut summaries, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let mut arguments = json!({"time_min": LONG_AGO, "query": "standup"});
        if let Some(cursor) = cursor.as_str() {
            arguments["cursor"] = json!(cursor);
        }
        let page = rig.call(&api, "list_events", arguments).await.unwrap();
        summaries.extend(page["events"].as_array().unwrap().iter().map(|event| event["summary"].clone()));
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    let expected: Vec<String> = (0..12).map(|number| format!("Standup {number}")).collect();
    assert_eq!(summaries, expected);
}

#[tokio::test]
async fn an_event_is_made_and_found_again() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada", ADA, &ALL);
    let arguments = json!({"summary": "Gespräch 日本", "start": "2030-05-01T18:00:00", "end": "2030-05-01T19:00:00",
        "time_zone": "Asia/Tokyo", "description": "One\nTwo", "attendees": ["bob@example.com"], "notify": "all"});

    let made = rig.call(&api, "create_event", arguments).await.unwrap();

    assert_eq!(made["created"], true);
    let event = &made["event"];
    assert_eq!(event["summary"], "Gespräch 日本");
    assert_eq!(event["start"], json!({"date": null, "date_time": "2030-05-01T18:00:00", "time_zone": "Asia/Tokyo"}));
    assert_eq!(event["attendees"][0]["response"], "needsAction");
    let found = rig.call(&api, "list_events", json!({"time_min": "2030-04-30T00:00:00Z"})).await.unwrap();
    assert_eq!(found["events"][0]["id"], event["id"]);
    let days = json!({"summary": "Holidays", "start": "2030-12-24", "end": "2030-12-27"});
    let days = rig.call(&api, "create_event", days).await.unwrap();
    assert_eq!(days["event"]["end"]["date"], "2030-12-27");
}

#[tokio::test]
async fn the_same_key_makes_one_event_also_after_a_lost_answer() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada", ADA, &ALL);
    let count = rig.there.events("ada").len();
    let arguments = json!({"summary": "Once", "start": "2030-05-01T18:00:00Z", "end": "2030-05-01T19:00:00Z"});

    let first = rig.call_with(&api, "create_event", arguments.clone(), Some("key-1")).await.unwrap();
    let again = rig.call_with(&api, "create_event", arguments.clone(), Some("key-1")).await.unwrap();
    let other = rig.call_with(&api, "create_event", arguments.clone(), Some("key-2")).await.unwrap();

    assert_eq!((first["created"].clone(), again["created"].clone()), (json!(true), json!(false)));
    assert_eq!(first["event"]["id"], again["event"]["id"]);
    assert_ne!(first["event"]["id"], other["event"]["id"]);
    assert_eq!(rig.there.events("ada").len(), count + 2);

    rig.there.trouble(|faults| faults.api_answer = Some(Canned::new(500, "{}")));
    let with_key = rig.call_with(&api, "create_event", arguments.clone(), Some("key-3")).await.unwrap_err();
    let without = rig.call(&api, "create_event", arguments).await.unwrap_err();
    assert_eq!((with_key.retry, without.retry), (Retry::Backoff, Retry::Never));
}

#[tokio::test]
async fn what_calendar_refuses_is_told() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada", ADA, &ALL);
    for (tool, arguments, kind) in [
        ("list_events", json!({"time_min": LONG_AGO, "calendar_id": "nobody@example.com"}), ErrorKind::NotFound),
        ("list_events", json!({"time_min": LONG_AGO, "cursor": "bad"}), ErrorKind::Invalid),
        (
            "create_event",
            json!({"summary": "x", "start": "2030-05-01", "end": "2030-05-02", "attendees": ["bob@example.com"]}),
            ErrorKind::Invalid,
        ),
        ("create_event", json!({"summary": "x", "start": "2030-05-02", "end": "2030-05-01"}), ErrorKind::Invalid),
    ] {
        let refused = rig.call(&api, tool, arguments.clone()).await.unwrap_err();
        assert_eq!(refused.kind, kind, "{arguments}: {refused}");
    }
}

/// What a caller does who keeps up by sync tokens, through the proxy.
#[tokio::test]
async fn a_sync_token_that_is_too_old_asks_to_begin_again() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada", ADA, &ALL);
    let list = || api.get("calendar/v3/calendars/primary/events").operation("test");
    let all: Value = list().fetch().await.unwrap();
    let token = all["nextSyncToken"].as_str().unwrap().to_owned();
    let none: Value = list().query("syncToken", &token).fetch().await.unwrap();
    assert_eq!(none["items"], json!([]));
    rig.there.forget_history("ada");

    let old = list().query("syncToken", &token).fetch::<Value>().await.unwrap_err();

    assert_eq!(old.kind, ErrorKind::Conflict);
    assert!(old.message.contains("begin again"), "{old}");
    assert_eq!(list().query("orderBy", "startTime").fetch::<Value>().await.unwrap_err().kind, ErrorKind::Invalid);
}

#[tokio::test]
async fn rows_are_read_page_by_page_and_appended_below() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada", ADA, &ALL);
    let sheet = rig.there.spreadsheet();
    let page = |cursor: Option<&str>| {
        let mut arguments = json!({"spreadsheet_id": sheet, "range": "Orders!A1:C", "limit": 4});
        if let Some(cursor) = cursor {
            arguments["cursor"] = json!(cursor);
        }
        arguments
    };

    let first = rig.call(&api, "read_sheet", page(None)).await.unwrap();
    let second = rig.call(&api, "read_sheet", page(first["next_cursor"].as_str())).await.unwrap();

    assert_eq!(first["rows"][0], json!(["Day", "Name", "Sum"]));
    assert_eq!((first["rows"].as_array().unwrap().len(), first["row_count"].clone()), (4, json!(6)));
    assert_eq!((second["rows"].as_array().unwrap().len(), second["next_cursor"].clone()), (2, Value::Null));

    let rows = json!([["2026-11-06", "=HYPERLINK(\"https://evil.example\")", 7.5], ["", null, true]]);
    let address = format!("https://docs.google.com/spreadsheets/d/{sheet}/edit#gid=0");
    let added = json!({"spreadsheet_id": address, "range": "Orders!A1:C", "rows": rows});
    let added = rig.call(&api, "append_sheet", added).await.unwrap();

    assert_eq!((added["range"].clone(), added["rows"].clone()), (json!("Orders!A7:C8"), json!(2)));
    let cells = rig.there.cells(sheet, "Orders");
    assert_eq!(cells[6][1], "=HYPERLINK(\"https://evil.example\")", "text stays text");
    let typed = json!({"spreadsheet_id": sheet, "range": "Orders", "rows": [["=1+1", "12"]], "parse": true});
    rig.call(&api, "append_sheet", typed).await.unwrap();
    let cells = rig.there.cells(sheet, "Orders");
    assert_eq!(cells[8][0], json!({"formula": "=1+1"}));
    let bare = json!({"spreadsheet_id": sheet, "range": "Orders!C2:C3", "render": "unformatted"});
    assert_eq!(rig.call(&api, "read_sheet", bare).await.unwrap()["rows"], json!([[10], [20]]));
}

#[tokio::test]
async fn what_sheets_refuses_is_told() {
    let rig = Rig::start().await;
    let ada = rig.api_as("ada", ADA, &ALL);
    let cleo = rig.api_as("cleo", "cleo.larsen@gmail.com", &ALL);
    let sheet = rig.there.spreadsheet();
    for (api, arguments, kind) in [
        (&cleo, json!({"spreadsheet_id": sheet, "range": "Orders"}), ErrorKind::Forbidden),
        (&ada, json!({"spreadsheet_id": "1Nothing", "range": "Orders"}), ErrorKind::NotFound),
        (&ada, json!({"spreadsheet_id": sheet, "range": "Nothing!A1"}), ErrorKind::Invalid),
        (&ada, json!({"spreadsheet_id": "../x", "range": "A1"}), ErrorKind::Invalid),
    ] {
        let refused = rig.call(api, "read_sheet", arguments.clone()).await.unwrap_err();
        assert_eq!(refused.kind, kind, "{arguments}: {refused}");
    }
    rig.there.trouble(|faults| faults.api_drop_before = 1);
    let lost = json!({"spreadsheet_id": sheet, "range": "Orders", "rows": [["x"]]});
    let lost = rig.call(&ada, "append_sheet", lost).await.unwrap_err();
    assert_eq!((lost.kind, lost.retry), (ErrorKind::Unavailable, Retry::Never));
}
