//! Gmail: searching, reading, sending, answering.

use std::collections::HashSet;

use base64::{Engine as _, engine::general_purpose::URL_SAFE};
use holdfast_core::{ErrorKind, Retry};
use holdfast_sandbox::Canned;
use serde_json::{Value, json};

use crate::rig::{ADA, ALL, Rig};

fn header(mail: &Value, name: &str) -> Option<String> {
    let headers = mail["payload"]["headers"].as_array().unwrap();
    let found = headers.iter().find(|header| header["name"].as_str().unwrap().eq_ignore_ascii_case(name));
    found.map(|header| header["value"].as_str().unwrap().to_owned())
}

fn text(mail: &Value) -> String {
    let data = mail["payload"]["body"]["data"].as_str().unwrap();
    String::from_utf8(URL_SAFE.decode(data).unwrap()).unwrap()
}

#[tokio::test]
async fn a_search_goes_through_all_pages_and_repeats_nothing() {
    let rig = Rig::start().await;
    rig.there.set(|options| options.page_limit = 7);
    let api = rig.api_as("ada", ADA, &ALL);
    let (mut seen, mut cursor, mut pages) = (HashSet::new(), Value::Null, 0);
    loop {
        let mut arguments = json!({"query": "newsletter", "limit": 10});
        if let Some(cursor) = cursor.as_str() {
            arguments["cursor"] = json!(cursor);
        }
        let page = rig.call(&api, "search_mail", arguments).await.unwrap();
        for mail in page["messages"].as_array().unwrap() {
            assert!(seen.insert(mail["message_id"].as_str().unwrap().to_owned()));
        }
        pages += 1;
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!((seen.len(), pages), (30, 5));
}

#[tokio::test]
async fn filters_find_what_they_say_in_any_script() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada", ADA, &ALL);
    for (arguments, subjects) in [
        (json!({"from": "mira@customer.example"}), vec!["Where is my order 1042?"]),
        (json!({"unread": true, "subject": "Grüße aus"}), vec!["Grüße aus Köln"]),
        (json!({"unread": true}), vec!["Grüße aus Köln", "Where is my order 1042?"]),
        (json!({"unread": true, "query": "1042 OR nothing"}), vec!["Where is my order 1042?"]),
        (json!({"query": "from:nobody"}), vec![]),
    ] {
        let found = rig.call(&api, "search_mail", arguments.clone()).await.unwrap();
        let found: Vec<_> = found["messages"].as_array().unwrap().iter().map(|mail| mail["subject"].clone()).collect();
        assert_eq!(found, subjects, "{arguments}");
    }
}

#[tokio::test]
async fn a_mail_is_read_with_its_people_and_its_files() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada", ADA, &ALL);
    let leaf = |kind: &str, name: &str, data: &[u8]| {
        json!({"mimeType": kind, "filename": name, "body": {"size": data.len(), "data": URL_SAFE.encode(data)},
            "headers": [{"name": "Content-Type", "value": format!("{kind}; charset=iso-8859-1")}]})
    };
    let payload = json!({"mimeType": "multipart/mixed", "filename": "", "body": {"size": 0},
    "headers": [
        {"name": "From", "value": "=?utf-8?Q?Zo=C3=AB?= <zoe@example.net>"},
        {"name": "To", "value": "\"Lovelace, Ada\" <ada@example.com>, bob@example.com"},
        {"name": "Reply-To", "value": "desk@example.net"},
        {"name": "subject", "value": "=?utf-8?B?5pel5pys?="},
    ],
    "parts": [
        {"mimeType": "multipart/alternative", "filename": "", "body": {"size": 0}, "parts": [
            leaf("text/plain", "", b"Gr\xFC\xDFe"), leaf("text/html", "", b"<p>no</p>")]},
        leaf("application/pdf", "r.pdf", b"%PDF"),
    ]});
    let id = rig.there.receive("ada", payload).unwrap();

    let read = rig.call(&api, "get_mail", json!({"message_id": id})).await.unwrap();

    assert_eq!(read["text"], "Grüße");
    assert_eq!(read["message"]["from"], "Zoë <zoe@example.net>");
    assert_eq!(read["message"]["to"], json!(["\"Lovelace, Ada\" <ada@example.com>", "bob@example.com"]));
    assert_eq!(read["message"]["subject"], "日本");
    assert_eq!(read["reply_to"], json!(["desk@example.net"]));
    assert_eq!(read["attachments"], json!([{"filename": "r.pdf", "mime_type": "application/pdf", "size": 4}]));
    assert!(read["message"]["date"].is_string() && read["next_cursor"].is_null());
}

/// Long parts do not come with their message.
#[tokio::test]
async fn a_long_text_is_fetched_and_comes_in_pieces() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada", ADA, &ALL);
    let long = "Zeile mit Umlaut ä.\n".repeat(2000);
    let id = rig.there.receive_text("ada", &[("From", "a@example.net")], &long).unwrap();
    rig.http.seen();

    let first = rig.call(&api, "get_mail", json!({"message_id": id})).await.unwrap();
    assert!(rig.http.seen().iter().any(|(target, _)| target.contains("/attachments/")));
    let second = rig.call(&api, "get_mail", json!({"message_id": id, "cursor": first["next_cursor"]})).await.unwrap();

    let all = format!("{}{}", first["text"].as_str().unwrap(), second["text"].as_str().unwrap());
    assert_eq!(all, long);
    assert!(second["next_cursor"].is_null());
}

#[tokio::test]
async fn html_alone_is_read_as_a_person_would() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada", ADA, &ALL);
    let html = "<style>p{}</style><p>Hello &amp; <b>welcome</b></p><p>x</p><img src='https://evil.example/pixel'>";
    let payload = json!({"mimeType": "text/html", "filename": "", "headers": [],
        "body": {"size": html.len(), "data": URL_SAFE.encode(html)}});
    let id = rig.there.receive("ada", payload).unwrap();
    rig.http.seen();

    let read = rig.call(&api, "get_mail", json!({"message_id": id})).await.unwrap();

    assert_eq!(read["text"], "Hello & welcome\n\nx");
    assert_eq!(rig.http.seen().len(), 1, "nothing in a mail is fetched");
}

#[tokio::test]
async fn a_sent_mail_arrives_in_any_script() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada", ADA, &ALL);
    let body = "Привет,\nこんにちは 🙂\n\nשלום";
    let arguments = json!({"to": ["Bob Ökafor <bob@example.com>"], "bcc": ["cleo.larsen@gmail.com"],
        "subject": "Grüße, Тема, 件名", "body": body});

    let sent = rig.call(&api, "send_mail", arguments).await.unwrap();

    let mine = rig.there.mails("ada").into_iter().find(|mail| mail["id"] == sent["message_id"]).unwrap();
    assert_eq!(mine["labelIds"], json!(["SENT"]));
    let bobs = rig.there.mails("bob").pop().unwrap();
    assert_eq!(text(&bobs), body.replace('\n', "\r\n"));
    assert_eq!(header(&bobs, "From").as_deref(), Some(ADA));
    assert_eq!(header(&bobs, "Bcc"), None);
    let bob = rig.api_as("bob", "bob@example.com", &ALL);
    let read = rig.call(&bob, "get_mail", json!({"message_id": bobs["id"]})).await.unwrap();
    assert_eq!(read["message"]["subject"], "Grüße, Тема, 件名");
    assert_eq!(read["text"], body);
    assert_eq!(rig.there.mails("cleo").last().unwrap()["labelIds"], json!(["INBOX", "UNREAD"]));
}

#[tokio::test]
async fn an_answer_stays_in_its_conversation_on_both_sides() {
    let rig = Rig::start().await;
    let (ada, bob) = (rig.api_as("ada", ADA, &ALL), rig.api_as("bob", "bob@example.com", &ALL));
    let first = json!({"to": ["bob@example.com"], "cc": ["cleo.larsen@gmail.com"], "subject": "Größe?", "body": "Hi"});
    let first = rig.call(&ada, "send_mail", first).await.unwrap();
    let at_bob = rig.there.mails("bob").pop().unwrap();

    let answered = json!({"message_id": at_bob["id"], "body": "42", "to_all": false});
    let answered = rig.call(&bob, "reply_mail", answered).await.unwrap();
    let at_ada = rig.there.mails("ada").pop().unwrap();
    let again = json!({"message_id": at_ada["id"], "body": "Thanks", "to_all": true});
    let again = rig.call(&ada, "reply_mail", again).await.unwrap();
    let last = rig.there.mails("bob").pop().unwrap();

    assert_eq!(answered["thread_id"], at_bob["threadId"], "Bob's conversation");
    assert_eq!(again["thread_id"], first["thread_id"], "Ada's conversation");
    assert_eq!(last["threadId"], at_bob["threadId"]);
    assert_eq!(header(&at_ada, "To").as_deref(), Some("ada@example.com"));
    let id = |mail: &Value| header(mail, "Message-ID").unwrap();
    assert_eq!(header(&last, "In-Reply-To").unwrap(), id(&at_ada));
    assert_eq!(header(&last, "References").unwrap(), format!("{} {}", id(&at_bob), id(&at_ada)));
    assert_eq!(rig.there.mails("cleo").len(), 31, "an answer to one goes to one, and he was the only one in it");
}

#[tokio::test]
async fn what_gmail_refuses_is_told_before_or_after() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada", ADA, &ALL);
    for (tool, arguments, kind, said) in [
        ("send_mail", json!({"to": ["nobody"], "subject": "x", "body": "x"}), ErrorKind::Invalid, "to: expected"),
        ("send_mail", json!({"to": [], "subject": "x", "body": "x"}), ErrorKind::Invalid, "to: expected"),
        ("send_mail", json!({"to": [ADA], "subject": "a\nBcc: x@y.z", "body": "x"}), ErrorKind::Invalid, "subject: "),
        ("get_mail", json!({"message_id": "19ffffffffffffff"}), ErrorKind::NotFound, "nothing under this id"),
        ("get_mail", json!({"message_id": "../profile"}), ErrorKind::Invalid, "message_id: expected"),
        ("search_mail", json!({"cursor": "bad"}), ErrorKind::Invalid, "Google says: Invalid page token"),
    ] {
        let refused = rig.call(&api, tool, arguments.clone()).await.unwrap_err();
        assert_eq!(refused.kind, kind, "{arguments}: {refused}");
        assert!(refused.message.contains(said), "{arguments}: {refused}");
    }
}

#[tokio::test]
async fn a_mail_whose_answer_was_lost_is_not_sent_again_by_itself() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada", ADA, &ALL);
    rig.there.trouble(|faults| faults.api_answer = Some(Canned::new(502, "<html>").content_type("text/html")));

    let arguments = json!({"to": ["bob@example.com"], "subject": "x", "body": "x"});
    let failed = rig.call(&api, "send_mail", arguments).await.unwrap_err();

    assert_eq!((failed.kind, failed.retry), (ErrorKind::Unavailable, Retry::Never));
    assert!(failed.message.contains("in:sent"), "{failed}");
    assert_eq!(rig.there.counters().api_calls, 1);
}

/// What a caller does who keeps up by history ids, through the proxy.
#[tokio::test]
async fn a_history_id_that_is_too_old_is_not_found() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada", ADA, &ALL);
    let profile: Value = api.get("v1/users/me/profile").at("gmail").operation("test").fetch().await.unwrap();
    let start = profile["historyId"].as_str().unwrap().to_owned();
    let history =
        |start: String| api.get("v1/users/me/history").at("gmail").operation("test").query("startHistoryId", start);
    rig.there.receive_text("ada", &[("From", "a@example.net")], "new").unwrap();

    let news: Value = history(start.clone()).fetch().await.unwrap();
    assert_eq!(news["history"].as_array().unwrap().len(), 1);
    rig.there.forget_history("ada");
    assert_eq!(history(start).fetch::<Value>().await.unwrap_err().kind, ErrorKind::NotFound);
}
