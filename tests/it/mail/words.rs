//! What a mail says, and what it never holds.

use std::sync::Arc;

use holdfast_core::{Role, ports::Clock as _};
use holdfast_sandbox::Canned;
use holdfast_tests::{database::Database, on_both, service::LIFE, smtp::Message};
use serde_json::json;

use super::{Post, sent};

on_both! {
    a_mail_names_everything_that_one_needs_to_act,
    a_mail_names_the_agents_that_stopped_and_those_that_run_again,
    each_reason_has_its_words,
    whose_key_is_refused_is_told_to_bring_another_key,
    names_and_words_of_others_are_shown_and_do_nothing,
}

pub(super) fn anatomy(message: &Message, base: &str) {
    assert_eq!(message.structure, ["multipart/alternative", "text/plain", "text/html"]);
    assert_eq!(message.header("From"), "Holdfast <holdfast@hub.example>");
    assert_eq!((message.from.as_str(), message.header("Auto-Submitted")), ("holdfast@hub.example", "auto-generated"));
    assert_eq!(message.header("X-Auto-Response-Suppress"), "All");
    assert!(!message.header("Date").is_empty() && message.header("Bcc").is_empty());
    let id = message.header("Message-ID");
    assert!(id.starts_with("<mail_") && id.ends_with("@hub.example>"), "{id}");
    for link in message.links() {
        assert!(link == base || link.starts_with(&format!("{base}/")), "{link} leads elsewhere");
    }
    let host = base.split_once("://").unwrap().1;
    for link in message.text.split("://").skip(1) {
        assert!(link.starts_with(host), "{link} leads elsewhere");
    }
    for elsewhere in ["<img", " src=\"", "url(", "<script", "<link", "@import", " background=\""] {
        assert!(!message.html.contains(elsewhere), "{elsewhere} is in {}", message.html);
    }
    assert!(message.html.contains("color-scheme") && message.html.contains("prefers-color-scheme: dark"));
}

/// HTML as it is read.
fn read(html: &str) -> String {
    let body = html.split_once("<body").unwrap().1;
    let mut text = String::new();
    let mut inside = true;
    for c in body.chars() {
        match c {
            '<' => inside = true,
            '>' => inside = false,
            c if !inside => text.push(c),
            _ => {}
        }
    }
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    entities.iter().fold(text, |text, (entity, c)| text.replace(entity, c))
}

/// EM-06
async fn a_mail_names_everything_that_one_needs_to_act(db: Arc<Database>) {
    let post = Post::start(&db).await;
    post.person("ada@acme.example", Role::Owner).await;
    let id = post.connector("acme", "Acme support").await;
    let token = post.app.token(&id).await.expect(200).text_of("access_token");
    let failed_at = post.app.clock.now();
    post.fail(&id, "acme").await;
    post.tell().await;

    let message = post.smtp.messages().await.remove(0);
    anatomy(&message, &post.app.base);
    assert_eq!(message.subject, "Acme support needs you: Zendesk refused the access");
    let [link] = message.reconnect_links().try_into().unwrap();
    assert!(link.starts_with(&format!("{}/reconnect/", post.app.base)));
    assert!(message.text.contains(&link), "the text part has the same link");
    let since = failed_at.format("%-d %B %Y, %H:%M UTC").to_string();
    for part in [&message.text, &read(&message.html)] {
        for words in [
            "Acme support",
            "Zendesk",
            "acme.zendesk.com",
            "Acme",
            &since,
            "Zendesk refused the refresh token. Usually the app was removed or the user was deactivated.",
            "Stopped",
            "an owner of Acme",
        ] {
            assert!(part.contains(words), "{words} is not in {part}");
        }
        assert!(!part.contains(&token), "a token is in a mail");
    }
}

/// EM-06, for the agents.
async fn a_mail_names_the_agents_that_stopped_and_those_that_run_again(db: Arc<Database>) {
    let post = Post::start(&db).await;
    post.person("ada@acme.example", Role::Owner).await;
    let (busy, idle) = (post.connector("acme", "Busy").await, post.connector("globex", "Idle").await);
    let mut agents = Vec::new();
    for name in ["Answerer <b>", "Tagger"] {
        let body = json!({
            "sample": "annotate_urgent_tickets", "name": name,
            "connectors": [{ "connector": busy }], "trigger": { "kind": "manual" },
        });
        agents.push(post.app.post("/agents", body).await.expect(201).text_of("id"));
    }
    post.fail(&idle, "globex").await;
    post.fail(&busy, "acme").await;
    assert_eq!(post.tell().await, sent(1));
    let _paused = post.app.post(&format!("/agents/{}/pause", agents[1]), json!({})).await.expect(200);
    post.mend(&busy).await;
    assert_eq!(post.tell().await, sent(1));

    let messages = post.smtp.messages().await;
    let [failure, recovery] = messages.as_slice() else { panic!("{messages:?}") };
    assert_eq!(failure.subject, "2 connectors of Acme need you: Busy and Idle", "the worst comes first");
    assert!(failure.text.contains("Stopped:  Answerer <b>, Tagger\n"), "{}", failure.text);
    assert!(failure.text.contains("Stopped:  No agent."), "{}", failure.text);
    assert!(read(&failure.html).contains("Answerer <b>, Tagger"), "{}", failure.html);
    assert!(recovery.text.contains("Running:  Answerer <b>\n"), "who was paused stays so: {}", recovery.text);
}

/// EM-06, where there is no consent.
async fn whose_key_is_refused_is_told_to_bring_another_key(db: Arc<Database>) {
    let post = Post::start(&db).await;
    post.person("ada@acme.example", Role::Owner).await;
    let desk = post.app.sandbox.freshdesk("acme").unwrap();
    let key = desk.api_key("ada").unwrap();
    let body = json!({ "provider": "freshdesk", "account": "acme", "name": "Fresh", "credential": { "api_key": key } });
    let id = post.app.post("/connectors", body).await.expect(201).text_of("id");
    let _new = desk.reset_key("ada").unwrap();
    let tested = post.app.post(&format!("/connectors/{id}/test"), json!({})).await.expect(200);
    assert_eq!(tested.json["health"], "auth_failed", "{}", tested.text);
    assert_eq!(post.tell().await, sent(1));

    let message = post.smtp.messages().await.remove(0);
    for part in [&message.text, &read(&message.html)] {
        let part = part.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(part.contains("copy the API key at Freshdesk once more"), "{part}");
        assert!(!part.contains("allow the access") && !part.contains("own words") && !part.contains(&key), "{part}");
    }
}

/// EM-06, by reason.
async fn each_reason_has_its_words(db: Arc<Database>) {
    let post = Post::start(&db).await;
    post.person("ada@acme.example", Role::Owner).await;
    let lost = post.connector("acme", "Lost").await;
    post.app.advance(LIFE);
    post.app.acme.trouble(|faults| faults.lose_next_answer = 1);
    let _trouble = post.app.token(&lost).await.problem(503, "refresh_unavailable");
    post.app.advance(std::time::Duration::from_mins(6));
    assert_eq!(post.look().await, super::Round::default(), "trouble of the provider is no reason to mail");
    let _told = post.app.token(&lost).await.problem(409, "connector_auth_failed");
    assert_eq!(post.tell().await, sent(1));
    // Without a refresh token.
    post.app.advance(super::WINDOW);
    let mut body = post.app.import_body("globex");
    body["credential"].as_object_mut().unwrap().remove("refresh_token");
    body["name"] = json!("Short");
    let short = post.app.post("/connectors", body).await.expect(201).text_of("id");
    post.app.advance(LIFE);
    let _told = post.app.token(&short).await.problem(409, "connector_auth_failed");
    assert_eq!(post.tell().await, sent(1));

    let messages = post.smtp.messages().await;
    assert!(messages[0].text.contains("lost on the way"), "{}", messages[0].text);
    assert_eq!(messages[1].subject, "Short needs you: the access to Zendesk is over");
    assert!(messages[1].text.contains("gave nothing to renew it with"), "{}", messages[1].text);
    for message in &messages {
        anatomy(message, &post.app.base);
        assert_eq!(message.reconnect_links().len(), 1, "reconnecting helps");
    }
}

/// EM-04
async fn names_and_words_of_others_are_shown_and_do_nothing(db: Arc<Database>) {
    const WORD: &str = "=?utf-8?Q?a=0D=0ABcc:x@evil.example?=";
    const MARKUP: &str = "<img src=//evil.example/x> http://evil.example/y";
    let post = Post::start(&db).await;
    post.person("ada@acme.example", Role::Owner).await;
    let named = post.connector("acme", WORD).await;
    let marked = post.connector("globex", "<b>Globex</b> https://evil.example").await;
    let store = &post.app.app.store;
    let long = format!("{}\u{202E}\u{2028}{}", "é".repeat(2500), "x".repeat(2500));
    let said = json!({});
    store.set_test(&named.as_str().into(), &said, Some(&json!({ "account": long }))).await.unwrap();
    store
        .set_test(&marked.as_str().into(), &said, Some(&json!({ "account": format!("{WORD}\r\nBcc: y@evil.example") })))
        .await
        .unwrap();
    post.app.advance(LIFE);
    for (id, account) in [(&named, "acme"), (&marked, "globex")] {
        let refusal = json!({ "error": "invalid_grant", "error_description": MARKUP }).to_string();
        let desk = post.app.sandbox.helpdesk(account).unwrap();
        desk.trouble(|faults| faults.token_answer = Some(Canned::new(400, refusal)));
        let _told = post.app.token(id).await.problem(409, "connector_auth_failed");
        assert_eq!(post.tell().await, sent(1));
        post.app.advance(super::WINDOW);
    }

    let messages = post.smtp.messages().await;
    let base = post.app.base.as_str();
    assert_eq!(messages[0].subject, format!("{WORD} needs you: Zendesk refused the access"));
    assert_eq!(messages[1].subject, "<b>Globex</b> https://evil.example needs you: Zendesk refused the access");
    for message in &messages {
        anatomy(message, base);
        assert_eq!(message.to, ["ada@acme.example"]);
        let headers = message.header_names();
        assert!(headers.iter().all(|name| !name.eq_ignore_ascii_case("bcc")), "{headers:?}");
        let (text, html) = (&message.text, read(&message.html));
        for part in [text, &html] {
            assert!(!part.contains(['\u{202E}', '\u{2028}']), "{part}");
            assert!(part.contains("<img src=//evil.example/x>"), "it is shown as it stands: {part}");
        }
        let body = message.html.split_once("<body").unwrap().1;
        assert!(!body.contains("evil.example"), "a mail program would make a link of it: {}", message.html);
        assert!(
            message.html.len() < 12_000 && message.text.len() < 4000,
            "{} {}",
            message.html.len(),
            message.text.len()
        );
    }
    assert!(messages[0].text.contains(WORD) && read(&messages[0].html).contains(WORD));
    assert!(messages[0].text.contains(&format!("{}…", "é".repeat(79))), "{}", messages[0].text);
    assert!(messages[1].text.contains(&format!("({WORD} Bcc: y@evil.example)")), "{}", messages[1].text);
}
