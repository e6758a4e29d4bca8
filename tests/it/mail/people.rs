//! Who hears of a failure and of its end, and how often.

use std::{sync::Arc, time::Duration};

use holdfast_app::mail::Round;
use holdfast_core::{Role, ports::Clock as _};
use holdfast_sandbox::CLIENT_SECRET;
use holdfast_store::{MailKind, MailStage};
use holdfast_tests::{database::Database, on_both, service::LIFE};
use reqwest::Method;
use serde_json::json;

use super::{Post, WINDOW, sent};

on_both! {
    every_owner_and_admin_is_told_once,
    a_failure_that_is_noticed_in_several_ways_is_one_message,
    failures_in_company_are_one_digest_and_later_ones_wait_for_the_next,
    as_long_as_nobody_was_told_nothing_waits_for_a_digest,
    a_page_says_with_which_digest_a_failure_is_told,
    what_mends_before_it_is_told_is_never_told,
    a_recovery_stands_under_the_failure_and_goes_to_those_who_heard_of_it,
    several_recoveries_are_one_message,
    who_leaves_or_loses_the_role_gets_nothing,
    with_nobody_left_the_operators_hear_of_it,
    a_refused_oauth_app_is_told_once_to_each_org_and_to_the_operators,
    orgs_hear_of_their_own_connectors_alone,
}

/// HL-01 and HL-05, for the mails.
async fn every_owner_and_admin_is_told_once(db: Arc<Database>) {
    let post = Post::start(&db).await;
    for (email, role) in [
        ("ada@acme.example", Role::Owner),
        ("ben@acme.example", Role::Admin),
        ("cleo@acme.example", Role::Member),
        ("dan@acme.example", Role::Viewer),
    ] {
        post.person(email, role).await;
    }
    let id = post.connector("acme", "Acme support").await;
    post.fail(&id, "acme").await;

    assert_eq!(post.look().await, Round::default(), "it waits for company");
    assert!(post.state(&id).await.gathering_since.is_some());
    assert_eq!(post.tell().await, sent(2));

    let mut to: Vec<_> = post.smtp.messages().await.into_iter().flat_map(|message| message.to).collect();
    to.sort();
    assert_eq!(to, ["ada@acme.example", "ben@acme.example"]);
    let expected = |email: &str| (email.to_owned(), MailKind::NeedsYou, MailStage::Sent);
    assert_eq!(post.told(&id).await, [expected("ada@acme.example"), expected("ben@acme.example")]);
    assert_eq!(post.state(&id).await.gathering_since, None);

    for _ in 0..5 {
        let _told = post.app.token(&id).await.problem(409, "connector_auth_failed");
        let _tested = post.app.post(&format!("/connectors/{id}/test"), json!({})).await.expect(200);
        post.app.advance(WINDOW);
        assert_eq!(post.look().await, Round::default());
    }
    assert_eq!(post.smtp.attempts().await, 2, "nothing more is offered to the mail server");
}

/// EM-01
async fn a_failure_that_is_noticed_in_several_ways_is_one_message(db: Arc<Database>) {
    let post = Post::start(&db).await;
    post.person("ada@acme.example", Role::Owner).await;
    let id = post.connector("acme", "Acme support").await;
    let token = post.app.token(&id).await.expect(200).text_of("access_token");
    post.app.acme.revoke(None);
    post.app.advance(LIFE);

    let rejected = async || {
        let body = json!({ "access_token": token });
        post.app.post(&format!("/connectors/{id}/token/rejected"), body).await
    };
    let tested = async || post.app.post(&format!("/connectors/{id}/test"), json!({})).await;
    let (a, b, c, d, _tested) =
        tokio::join!(rejected(), rejected(), post.app.token(&id), post.app.token(&id), tested());
    for answer in [a, b, c, d] {
        let _told = answer.problem(409, "connector_auth_failed");
    }
    post.tell().await;
    post.app.advance(WINDOW);
    post.look().await;

    let messages = post.smtp.messages().await;
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert!(messages[0].text.contains("Zendesk refused the refresh token"), "{}", messages[0].text);
}

async fn failures_in_company_are_one_digest_and_later_ones_wait_for_the_next(db: Arc<Database>) {
    let post = Post::start(&db).await;
    post.person("ada@acme.example", Role::Owner).await;
    let mut ids = Vec::new();
    for account in ["acme", "globex", "initech", "hooli", "umbrella"] {
        ids.push(post.connector(account, &format!("Desk {account}")).await);
    }

    post.fail(&ids[0], "acme").await;
    post.app.advance(Duration::from_secs(2));
    post.fail(&ids[1], "globex").await;
    post.app.advance(Duration::from_secs(2));
    assert_eq!(post.look().await, sent(1), "the second one came in time to be company");
    post.fail(&ids[2], "initech").await;
    post.app.advance(Duration::from_mins(2));
    post.fail(&ids[3], "hooli").await;
    assert_eq!(post.tell().await, Round::default(), "they are kept for the next one");
    assert!(post.state(&ids[3]).await.gathering_since.is_some());
    post.app.advance(Duration::from_mins(3));
    assert_eq!(post.look().await, sent(1));
    post.app.advance(WINDOW);
    post.fail(&ids[4], "umbrella").await;
    assert_eq!(post.tell().await, sent(1));

    let messages = post.smtp.messages().await;
    let subjects: Vec<_> = messages.iter().map(|message| message.subject.as_str()).collect();
    assert_eq!(
        subjects,
        [
            "2 connectors of Acme need you: Desk acme and Desk globex",
            "2 connectors of Acme need you: Desk initech and Desk hooli",
            "Desk umbrella needs you: Zendesk refused the access",
        ]
    );
    assert_eq!(messages[0].reconnect_links().len(), 2, "each has a link of its own");
    assert_eq!(messages[2].reconnect_links().len(), 1);
}

/// EM-02: nothing stale.
/// EM-02
async fn as_long_as_nobody_was_told_nothing_waits_for_a_digest(db: Arc<Database>) {
    let post = Post::start(&db).await;
    post.person("ada@acme.example", Role::Owner).await;
    post.person("ben@acme.example", Role::Admin).await;
    let (first, second, third) = (
        post.connector("acme", "First").await,
        post.connector("globex", "Second").await,
        post.connector("initech", "Third").await,
    );
    post.smtp.answer_rcpt("*", "451 4.7.1 try again later").await;
    post.fail(&first, "acme").await;
    assert_eq!(post.tell().await, Round { put_off: 2, ..Round::default() });
    post.fail(&second, "globex").await;
    assert_eq!(post.tell().await, Round::default(), "they may be told in a moment");
    let kept_until = post.state(&second).await.kept_until.unwrap();
    assert!(kept_until < post.app.clock.now() + chrono::TimeDelta::seconds(60), "{kept_until}");

    post.smtp.answer_rcpt("*", "550 5.7.1 not today").await;
    post.app.advance(Duration::from_mins(1));
    assert_eq!(post.look().await, Round { refused: 4, ..Round::default() });
    post.smtp.calm().await;
    post.fail(&third, "initech").await;

    assert_eq!(post.tell().await, sent(2), "nobody had been told of anything: it does not wait");
    let kept_until = post.state(&third).await.kept_until.unwrap();
    assert!(kept_until > post.app.clock.now() + chrono::TimeDelta::minutes(4), "and now more of it does: {kept_until}");
}

async fn a_page_says_with_which_digest_a_failure_is_told(db: Arc<Database>) {
    let post = Post::start(&db).await;
    let ada = post.app.somebody(Role::Owner).await;
    let (first, second) = (post.connector("acme", "First").await, post.connector("globex", "Second").await);
    let told = async |id: &str| ada.open(&format!("/connectors/{id}")).await.read().by_id("told").unwrap().text();
    post.fail(&first, "acme").await;
    assert!(told(&first).await.contains("are told by mail within seconds"), "{}", told(&first).await);
    assert_eq!(post.tell().await, sent(1));

    post.fail(&second, "globex").await;

    let said = told(&second).await;
    assert!(said.contains("they are told of this one with the next, in 5 minutes"), "{said}");
    post.app.advance(WINDOW);
    assert_eq!(post.look().await, sent(1));
    assert!(!told(&second).await.contains("with the next"), "{}", told(&second).await);
}

async fn what_mends_before_it_is_told_is_never_told(db: Arc<Database>) {
    let post = Post::start(&db).await;
    post.person("ada@acme.example", Role::Owner).await;
    let (mended, off, gone) = (
        post.connector("acme", "Mended").await,
        post.connector("globex", "Off").await,
        post.connector("initech", "Gone").await,
    );
    for (id, account) in [(&mended, "acme"), (&off, "globex"), (&gone, "initech")] {
        post.fail(id, account).await;
    }

    post.mend(&mended).await;
    let _off = post.app.post(&format!("/connectors/{off}/disconnect"), json!({})).await.expect(200);
    let path = format!("/connectors/{gone}");
    assert_eq!(post.app.call(Method::DELETE, &path, Some(&post.app.key), None).await.status, 204);
    assert_eq!(post.tell().await, Round::default());
    post.app.advance(WINDOW);
    post.look().await;

    assert_eq!(post.smtp.attempts().await, 0, "neither the failures nor the end of one");
    assert_eq!(post.told(&mended).await, []);
    // It fails again: that is news.
    post.fail(&mended, "acme").await;
    assert_eq!(post.tell().await, sent(1));
    assert_eq!(post.smtp.messages().await[0].subject, "Mended needs you: Zendesk refused the access");
}

async fn a_recovery_stands_under_the_failure_and_goes_to_those_who_heard_of_it(db: Arc<Database>) {
    let post = Post::start(&db).await;
    for email in ["ada@acme.example", "ben@acme.example", "cleo@acme.example"] {
        post.person(email, Role::Admin).await;
    }
    let id = post.connector("acme", "Acme support").await;
    post.smtp.answer_rcpt("ben@acme.example", "550 5.7.1 not today").await;
    post.fail(&id, "acme").await;
    assert_eq!(post.tell().await, Round { sent: 2, refused: 1, ..Round::default() });
    post.smtp.calm().await;
    post.person("late@acme.example", Role::Admin).await;
    let cleo = post.app.app.store.find_users_by_email("cleo@acme.example").await.unwrap().remove(0).id;
    post.app.app.store.remove_user(&post.app.org, &cleo, None, post.app.clock.now()).await.unwrap();

    post.app.advance(Duration::from_hours(2));
    post.mend(&id).await;
    assert_eq!(post.look().await, Round::default(), "it waits for company as well");
    assert_eq!(post.tell().await, sent(1));

    let messages = post.smtp.messages_to("ada@acme.example").await;
    let [failure, recovery] = messages.as_slice() else { panic!("{messages:?}") };
    assert_eq!(recovery.subject, "Back again: Acme support");
    for header in ["In-Reply-To", "References"] {
        assert_eq!(recovery.header(header), failure.header("Message-ID"), "{header}");
    }
    assert_ne!(recovery.header("Message-ID"), failure.header("Message-ID"));
    for words in ["after 2 hours", "Ada Admin reconnected it", "nothing left to do"] {
        assert!(recovery.text.contains(words), "{words} is not in {}", recovery.text);
    }
    assert_eq!(recovery.reconnect_links(), [""; 0]);
    let told = post.told(&id).await;
    let back: Vec<_> = told.iter().filter(|(_, kind, _)| *kind == MailKind::BackAgain).collect();
    assert_eq!(back, [&("ada@acme.example".to_owned(), MailKind::BackAgain, MailStage::Sent)]);
}

async fn several_recoveries_are_one_message(db: Arc<Database>) {
    let post = Post::start(&db).await;
    post.person("ada@acme.example", Role::Owner).await;
    let (one, two) = (post.connector("acme", "One").await, post.connector("globex", "Two").await);
    post.fail(&one, "acme").await;
    post.fail(&two, "globex").await;
    assert_eq!(post.tell().await, sent(1));

    post.mend(&one).await;
    post.mend(&two).await;
    assert_eq!(post.tell().await, sent(1));

    let messages = post.smtp.messages().await;
    assert_eq!(messages[1].subject, "Back again: One and Two");
    assert_eq!(messages[1].header("In-Reply-To"), messages[0].header("Message-ID"));
}

/// EM-05
async fn who_leaves_or_loses_the_role_gets_nothing(db: Arc<Database>) {
    let post = Post::start(&db).await;
    let (gone, demoted) =
        (post.person("gone@acme.example", Role::Admin).await, post.person("demoted@acme.example", Role::Admin).await);
    post.person("stays@acme.example", Role::Admin).await;
    let id = post.connector("acme", "Acme support").await;
    post.fail(&id, "acme").await;

    let store = &post.app.app.store;
    store.remove_user(&post.app.org, &gone, None, post.app.clock.now()).await.unwrap();
    store.set_role(&post.app.org, &demoted, Role::Member, None, post.app.clock.now()).await.unwrap();
    assert_eq!(post.tell().await, sent(1));

    assert_eq!(post.smtp.messages().await[0].to, ["stays@acme.example"]);
    // The same for a mail that was put off: the recipient is looked at again before each attempt.
    let late = post.person("late@acme.example", Role::Admin).await;
    let other = post.connector("globex", "Globex").await;
    post.smtp.answer_rcpt("*", "451 4.7.1 greylisted").await;
    post.app.advance(WINDOW);
    post.fail(&other, "globex").await;
    assert_eq!(post.tell().await, Round { put_off: 2, ..Round::default() });
    store.remove_user(&post.app.org, &late, None, post.app.clock.now()).await.unwrap();
    post.smtp.calm().await;
    post.app.advance(Duration::from_mins(1));

    assert_eq!(post.look().await, Round { sent: 1, dropped: 1, ..Round::default() });
    assert_eq!(post.smtp.messages_to("late@acme.example").await.len(), 0);
    assert_eq!(post.smtp.messages_to("stays@acme.example").await.len(), 2);
}

/// EM-05, to its end.
async fn with_nobody_left_the_operators_hear_of_it(db: Arc<Database>) {
    let post = Post::with(&db, holdfast_tests::smtp::Smtp::start().await, |builder| {
        builder
            .with(|config| config.operator.emails = vec!["Ops@hub.example".to_owned(), "root@hub.example".to_owned()])
    })
    .await;
    post.person_of("Hub", "root@hub.example", Role::Member, true).await;
    let last = post.person("last@acme.example", Role::Admin).await;
    let id = post.connector("acme", "Acme support").await;
    post.fail(&id, "acme").await;
    post.app.app.store.remove_user(&post.app.org, &last, None, post.app.clock.now()).await.unwrap();

    assert_eq!(post.tell().await, sent(2), "each operator once");

    let messages = post.smtp.messages().await;
    let mut to: Vec<_> = messages.iter().map(|message| message.to[0].as_str()).collect();
    to.sort_unstable();
    assert_eq!(to, ["ops@hub.example", "root@hub.example"]);
    for message in &messages {
        assert_eq!(message.subject, "Nobody could be told: 1 connector of Acme needs an admin");
        assert!(message.text.contains("Acme support") && message.reconnect_links().is_empty(), "{}", message.text);
    }
    assert_eq!(post.told(&id).await, [(String::new(), MailKind::NeedsYou, MailStage::Nobody)]);
    let failures = post.app.app.store.mail_failures(10).await.unwrap();
    assert_eq!((failures[0].org.as_deref(), failures[0].stage), (Some("Acme"), MailStage::Nobody));
    post.app.advance(WINDOW);
    assert_eq!(post.look().await, Round::default());
}

/// TE-07
async fn a_refused_oauth_app_is_told_once_to_each_org_and_to_the_operators(db: Arc<Database>) {
    let post = Post::start(&db).await;
    post.person("ada@acme.example", Role::Owner).await;
    post.person("ben@acme.example", Role::Admin).await;
    let key = post.app.key_of("Globex").await;
    // Hears of it as operator, not as admin of an org too.
    post.person_of("Acme", "root@acme.example", Role::Owner, true).await;
    post.person_of("Globex", "gil@globex.example", Role::Owner, false).await;
    let mut ids = Vec::new();
    for account in ["acme", "one", "two", "three"] {
        ids.push((post.connector(account, account).await, post.app.key.clone()));
    }
    let body = post.app.import_body("globex");
    let made = post.app.call(Method::POST, "/connectors", Some(&key), Some(body)).await.expect(201);
    ids.push((made.text_of("id"), key));
    post.app.advance(LIFE);
    post.app.sandbox.set_client_secret("another", None);

    for (id, key) in &ids {
        let path = format!("/connectors/{id}/token");
        let told = post.app.call(Method::GET, &path, Some(key), None).await;
        let _told = told.problem(502, "oauth_app_rejected");
    }
    assert_eq!(post.look().await, Round::default());
    assert_eq!(post.tell().await, sent(4));
    post.app.advance(Duration::from_mins(6));
    for (id, key) in &ids {
        let _told = post.app.call(Method::GET, &format!("/connectors/{id}/token"), Some(key), None).await;
    }
    assert_eq!(post.look().await, Round::default(), "it is told once");

    let to = async |address: &str| post.smtp.messages_to(address).await.remove(0);
    let ada = to("ada@acme.example").await;
    assert_eq!(ada.subject, "Zendesk is paused: nothing for you to reconnect");
    for words in ["refuses the credentials of this Holdfast itself", "4 connectors", "have been told"] {
        assert!(ada.text.contains(words), "{words} is not in {}", ada.text);
    }
    assert!(ada.reconnect_links().is_empty() && !ada.text.contains("/reconnect/"), "{}", ada.html);
    assert!(to("gil@globex.example").await.text.contains("1 connector"));
    let root = to("root@acme.example").await;
    assert_eq!(root.subject, "Zendesk refuses the OAuth app of this Holdfast: 5 connectors of 2 organisations wait");
    assert!(
        root.text.contains("oauth_apps.zendesk.client_id") && root.text.contains("invalid_client"),
        "{}",
        root.text
    );

    post.app.sandbox.set_client_secret(CLIENT_SECRET, None);
    post.app.advance(Duration::from_mins(6));
    for (id, key) in &ids {
        let path = format!("/connectors/{id}/token");
        let _alive = post.app.call(Method::GET, &path, Some(key), None).await.expect(200);
    }
    post.look().await;
    post.app.advance(Duration::from_mins(16));
    assert_eq!(post.look().await, Round::default(), "nobody had to reconnect, and there is nothing to say");
    assert_eq!(post.smtp.attempts().await, 4);
    // The next time is another one.
    post.app.sandbox.set_client_secret("another", None);
    post.app.advance(LIFE);
    let _told = post.app.token(&ids[0].0).await.problem(502, "oauth_app_rejected");
    post.look().await;
    assert_eq!(post.tell().await, sent(3));
}

async fn orgs_hear_of_their_own_connectors_alone(db: Arc<Database>) {
    let post = Post::start(&db).await;
    post.person("ada@acme.example", Role::Owner).await;
    post.person_of("Globex", "gil@globex.example", Role::Owner, false).await;
    let own = post.connector("acme", "Own").await;

    post.fail(&own, "acme").await;
    assert_eq!(post.tell().await, sent(1));

    assert_eq!(post.smtp.messages().await[0].to, ["ada@acme.example"]);
    let other = post.app.app.store.find_org("Globex").await.unwrap().unwrap();
    let seen = post.app.app.store.mail_state(&other, &own.as_str().into()).await.unwrap();
    assert_eq!(seen, None, "another org's connector is none");
}
