//! Mail servers that are down, put off, refuse, or do not answer; and none at all.

use std::{sync::Arc, time::Duration};

use holdfast_app::mail::{MailStatus, Round};
use holdfast_core::{Role, ports::Clock as _};
use holdfast_store::{MailKind, MailStage};
use holdfast_tests::{
    database::Database,
    on_both,
    service::{LIFE, TestApp},
    smtp::Smtp,
};

use super::{COMPANY, Post, WINDOW, sent};

on_both! {
    admins_are_told_on_the_page_while_mail_cannot_be_delivered,
    a_mail_server_that_is_down_for_two_hours_delays_nothing_and_sends_nothing_stale,
    a_recipient_who_is_refused_is_shown_and_keeps_nobody_else_waiting,
    a_recipient_who_is_put_off_is_tried_again_with_the_same_message,
    what_is_put_off_for_days_is_given_up,
    a_server_that_refuses_the_sender_costs_no_mail,
    an_answer_that_never_comes_repeats_the_same_message,
    without_a_mail_server_what_was_due_is_kept_and_never_sent_later,
}

/// EM-02
async fn a_mail_server_that_is_down_for_two_hours_delays_nothing_and_sends_nothing_stale(db: Arc<Database>) {
    let post = Post::start(&db).await;
    post.person("ada@acme.example", Role::Owner).await;
    post.person("ben@acme.example", Role::Admin).await;
    let mut ids = Vec::new();
    for number in 0..5 {
        ids.push(post.connector(&format!("desk{number}"), &format!("Desk {number}")).await);
    }
    let healthy = post.connector("acme", "Healthy").await;
    assert_eq!(post.app.app.mail_status().await.unwrap(), MailStatus::Works);
    post.smtp.down().await;
    let began = post.app.clock.now();

    for (number, id) in ids.iter().enumerate() {
        post.fail(id, &format!("desk{number}")).await;
        post.tell().await;
        post.app.advance(Duration::from_mins(24));
        post.app.advance(LIFE);
        let started = post.app.clock.uptime();
        let _alive = post.app.token(&healthy).await.expect(200);
        assert!(post.app.clock.uptime() - started < Duration::from_secs(2), "tokens do not wait for the mail server");
        assert!(post.look().await.trouble, "it is still down");
    }
    post.mend(&ids[1]).await;
    post.mend(&ids[3]).await;
    post.person("new@acme.example", Role::Admin).await;

    let status = post.app.app.mail_status().await.unwrap();
    let MailStatus::Trouble { since, error, .. } = status else { panic!("{status:?}") };
    assert!(since - began < chrono::TimeDelta::minutes(1), "{since}");
    assert!(error.contains(&post.smtp.address) && error.contains("cannot be reached"), "{error}");
    assert!(post.number("holdfast_mail_trouble_seconds").await >= 7200.0);
    let state = post.state(&ids[0]).await;
    assert!(state.gathering_since.is_some() && state.told.is_empty(), "{state:?}");

    post.smtp.up().await;
    assert!(post.look().await.trouble, "the next attempt has its time");
    post.app.advance(Duration::from_mins(16));
    assert_eq!(post.look().await, sent(3), "to who is an admin now");

    for address in ["ada@acme.example", "ben@acme.example", "new@acme.example"] {
        let messages = post.smtp.messages_to(address).await;
        let subjects: Vec<_> = messages.iter().map(|message| message.subject.as_str()).collect();
        assert_eq!(subjects, ["3 connectors of Acme need you: Desk 0, Desk 2 and Desk 4"]);
    }
    assert_eq!(post.app.app.mail_status().await.unwrap(), MailStatus::Works);
    assert!(post.number("holdfast_mail_trouble_seconds").await.abs() < 1.0);
    post.app.advance(WINDOW);
    assert_eq!(
        post.look().await,
        Round::default(),
        "nobody heard that they failed, so nobody hears that they are back"
    );
}

/// EM-02
async fn admins_are_told_on_the_page_while_mail_cannot_be_delivered(db: Arc<Database>) {
    let post = Post::start(&db).await;
    let (admin, viewer) = (post.app.somebody(Role::Admin).await, post.app.somebody(Role::Viewer).await);
    let id = post.connector("acme", "Acme support").await;
    let words = "E-mail cannot be delivered";
    assert!(!admin.open("/connectors").await.text.contains(words));
    post.smtp.down().await;
    post.fail(&id, "acme").await;
    assert!(post.tell().await.trouble);

    let shown = admin.open("/connectors").await.text;
    assert!(shown.contains(words), "{shown}");
    assert!(!shown.contains(&post.smtp.address), "the server's address is for operators alone");
    assert!(!viewer.open("/connectors").await.text.contains(words), "nobody mails viewers");
    post.smtp.up().await;
    post.app.advance(Duration::from_mins(16));
    assert_eq!(post.look().await, sent(1));
    assert!(!admin.open("/connectors").await.text.contains(words));
}

async fn a_recipient_who_is_refused_is_shown_and_keeps_nobody_else_waiting(db: Arc<Database>) {
    let post = Post::start(&db).await;
    post.person("ada@acme.example", Role::Owner).await;
    post.person("ben@acme.example", Role::Admin).await;
    let id = post.connector("acme", "Acme support").await;
    post.smtp.answer_rcpt("ben@acme.example", "550 5.7.1 not from here").await;
    post.fail(&id, "acme").await;

    assert_eq!(post.tell().await, Round { sent: 1, refused: 1, ..Round::default() });
    post.app.advance(Duration::from_hours(1));
    assert_eq!(post.look().await, Round::default(), "a refusal for good is not tried again");

    let told = post.state(&id).await.told;
    let ben = told.iter().find(|told| told.address.as_deref() == Some("ben@acme.example")).unwrap();
    assert_eq!((ben.stage, ben.next_at), (MailStage::Refused, None));
    assert!(ben.why.as_deref().unwrap().contains("550 5.7.1 not from here"), "{ben:?}");
    let failures = post.app.app.store.mail_failures(10).await.unwrap();
    assert_eq!(failures.len(), 1);
    assert_eq!((failures[0].org.as_deref(), failures[0].kind), (Some("Acme"), MailKind::NeedsYou));
    assert_eq!(post.app.app.mail_status().await.unwrap(), MailStatus::Works, "the server is not at fault");
}

async fn a_recipient_who_is_put_off_is_tried_again_with_the_same_message(db: Arc<Database>) {
    let post = Post::start(&db).await;
    post.person("ada@acme.example", Role::Owner).await;
    let id = post.connector("acme", "Acme support").await;
    post.smtp.answer_rcpt("*", "451 4.7.1 come back later").await;
    post.fail(&id, "acme").await;

    assert_eq!(post.tell().await, Round { put_off: 1, ..Round::default() });
    let first = post.state(&id).await.told.remove(0);
    assert_eq!(first.stage, MailStage::Waiting);
    assert!(first.why.unwrap().contains("451 4.7.1 come back later"));
    let pause = first.next_at.unwrap() - post.app.clock.now();
    assert!(pause.num_seconds() <= 15, "{pause}");
    assert_eq!(post.look().await, Round::default(), "not before its time");
    post.app.advance(Duration::from_secs(16));
    assert_eq!(post.look().await, Round { put_off: 1, ..Round::default() });
    let pause = post.state(&id).await.told.remove(0).next_at.unwrap() - post.app.clock.now();
    assert!((14..=30).contains(&pause.num_seconds()), "it doubles: {pause}");
    post.smtp.calm().await;
    post.smtp.answer_data("452 4.3.1 no room").await;
    post.app.advance(Duration::from_secs(31));
    assert_eq!(post.look().await, Round { put_off: 1, ..Round::default() });
    post.smtp.calm().await;
    post.app.advance(Duration::from_mins(2));
    assert_eq!(post.look().await, sent(1));

    assert_eq!(post.smtp.messages().await.len(), 1);
    assert_eq!(post.told(&id).await[0].2, MailStage::Sent);
    assert_eq!(post.state(&id).await.told[0].why, None);
}

async fn what_is_put_off_for_days_is_given_up(db: Arc<Database>) {
    let post = Post::start(&db).await;
    post.person("ada@acme.example", Role::Owner).await;
    let id = post.connector("acme", "Acme support").await;
    post.smtp.answer_rcpt("*", "451 4.2.2 mailbox full").await;
    post.fail(&id, "acme").await;

    assert_eq!(post.tell().await, Round { put_off: 1, ..Round::default() });
    post.app.advance(Duration::from_hours(48));
    assert_eq!(post.look().await, Round { refused: 1, ..Round::default() });

    let told = post.state(&id).await.told.remove(0);
    assert_eq!(told.stage, MailStage::GivenUp);
    assert!(told.why.unwrap().contains("mailbox full"));
    post.smtp.calm().await;
    post.app.advance(Duration::from_hours(1));
    assert_eq!(post.look().await, sent(1), "the reminder alone");
    assert!(post.smtp.messages().await[0].subject.starts_with("Acme support still needs you"));
}

async fn a_server_that_refuses_the_sender_costs_no_mail(db: Arc<Database>) {
    let post = Post::start(&db).await;
    post.person("ada@acme.example", Role::Owner).await;
    post.person("ben@acme.example", Role::Admin).await;
    let id = post.connector("acme", "Acme support").await;
    post.smtp.answer_mail("550 5.7.1 this sender is not allowed").await;
    post.fail(&id, "acme").await;

    assert!(post.tell().await.trouble);
    let MailStatus::Trouble { since, error, .. } = post.app.app.mail_status().await.unwrap() else { panic!() };
    assert!(error.contains("holdfast@hub.example") && error.contains("not allowed"), "{error}");
    post.app.advance(Duration::from_mins(16));
    assert!(post.look().await.trouble);
    let MailStatus::Trouble { since: still, .. } = post.app.app.mail_status().await.unwrap() else { panic!() };
    assert_eq!(still, since, "that the server can be reached does not end it");
    for (_, _, stage) in post.told(&id).await {
        assert!(matches!(stage, MailStage::Queued | MailStage::Waiting), "{stage:?}");
    }
    post.smtp.calm().await;
    post.app.advance(Duration::from_mins(16));

    assert_eq!(post.look().await, sent(2));
    assert_eq!(post.app.app.mail_status().await.unwrap(), MailStatus::Works);
}

async fn an_answer_that_never_comes_repeats_the_same_message(db: Arc<Database>) {
    let post = Post::with(&db, Smtp::start().await, |builder| {
        builder.with(|config| config.mail.send_timeout = Duration::from_millis(500))
    })
    .await;
    post.person("ada@acme.example", Role::Owner).await;
    let id = post.connector("acme", "Acme support").await;
    post.smtp.hold_answers().await;
    post.fail(&id, "acme").await;

    assert_eq!(post.tell().await, Round { put_off: 1, ..Round::default() });
    post.smtp.calm().await;
    // It may have arrived: its end is told, whatever comes of the repetition.
    post.app.advance(Duration::from_mins(1));
    assert_eq!(post.look().await, sent(1));
    post.mend(&id).await;
    assert_eq!(post.tell().await, sent(1));

    let messages = post.smtp.messages().await;
    assert_eq!(messages.len(), 3);
    assert_eq!(messages[0].header("Message-ID"), messages[1].header("Message-ID"), "mail programs show it once");
    assert_eq!(messages[0].subject, messages[1].subject);
    assert_eq!(messages[2].subject, "Back again: Acme support");
}

async fn without_a_mail_server_what_was_due_is_kept_and_never_sent_later(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let smtp = Smtp::start().await;
    let post = Post { app, smtp };
    post.person("ada@acme.example", Role::Owner).await;
    let id = post.connector("acme", "Acme support").await;
    assert_eq!(post.app.app.mail_status().await.unwrap(), MailStatus::NotConfigured);
    post.fail(&id, "acme").await;

    assert_eq!(post.tell().await, Round::default());

    assert_eq!(post.told(&id).await, [("ada@acme.example".to_owned(), MailKind::NeedsYou, MailStage::Unsent)]);
    assert_eq!(post.app.app.store.mail_failures(10).await.unwrap()[0].stage, MailStage::Unsent);
    post.app.advance(COMPANY);
    assert_eq!(post.look().await, Round::default());
    if db.is_sqlite() {
        return;
    }
    // Another replica has one.
    let other = TestApp::builder(&db).beside(&post.app).with(|config| post.smtp.configure(config)).start().await;
    assert_eq!(other.app.mail_due().await.unwrap(), Round::default());
    post.mend(&id).await;
    post.app.advance(WINDOW);
    assert_eq!(other.app.mail_due().await.unwrap(), Round::default(), "who was not told hears of no end");
    post.fail(&id, "acme").await;
    post.app.advance(COMPANY);
    assert_eq!(other.app.mail_due().await.unwrap(), sent(1), "what fails from now on is sent");
}
