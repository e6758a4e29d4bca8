//! Who wants to hear what, and when.

use std::{sync::Arc, time::Duration};

use holdfast_app::mail::Round;
use holdfast_core::{
    Role,
    notify::{Habits, Pace, Topic},
    ports::Clock as _,
};
use holdfast_store::{HabitsChange, MailKind, MailStage};
use holdfast_tests::{database::Database, on_both, smtp::Smtp};

use super::{Post, sent};

on_both! {
    who_wants_no_failures_gets_none_as_long_as_somebody_else_does,
    what_falls_into_quiet_hours_is_one_mail_at_their_end,
    a_member_who_was_added_is_told_where_to_look,
    what_still_waits_is_reminded_of_and_stands_under_the_first_mail,
    two_hundred_failures_are_one_mail_and_one_digest_for_each_admin,
}

impl Post {
    async fn habits(&self, user: &str, habits: &Habits) -> HabitsChange {
        self.app.app.store.set_habits(&self.app.org, user, habits, user, self.app.clock.now()).await.unwrap()
    }

    async fn subjects_to(&self, address: &str) -> Vec<String> {
        self.smtp.messages_to(address).await.into_iter().map(|message| message.subject).collect()
    }
}

fn without(topics: &[Topic]) -> Habits {
    Habits { off: topics.iter().copied().collect(), ..Habits::default() }
}

async fn who_wants_no_failures_gets_none_as_long_as_somebody_else_does(db: Arc<Database>) {
    let post = Post::start(&db).await;
    let ada = post.person("ada@acme.example", Role::Owner).await;
    let ben = post.person("ben@acme.example", Role::Admin).await;
    assert_eq!(post.habits(&ada, &without(&[Topic::Failures])).await, HabitsChange::Done);
    assert_eq!(post.habits(&ben, &without(&[Topic::Failures])).await, HabitsChange::LastOne);
    assert_eq!(post.habits(&ben, &without(&[Topic::Recoveries])).await, HabitsChange::Done);
    let (first, second) = (post.connector("acme", "First").await, post.connector("globex", "Second").await);
    post.fail(&first, "acme").await;

    assert_eq!(post.tell().await, sent(1));
    assert_eq!(post.subjects_to("ben@acme.example").await, ["First needs you: Zendesk refused the access"]);
    post.mend(&first).await;
    assert_eq!(post.tell().await, Round::default(), "nobody who was told wants to hear that it works again");

    // The last one who wants them leaves: then all who are left hear of it, whatever they want.
    post.app.app.store.remove_user(&post.app.org, &ben, None, post.app.clock.now()).await.unwrap();
    post.app.advance(super::WINDOW);
    post.fail(&second, "globex").await;
    assert_eq!(post.tell().await, sent(1));
    assert_eq!(post.subjects_to("ada@acme.example").await, ["Second needs you: Zendesk refused the access"]);
}

async fn what_falls_into_quiet_hours_is_one_mail_at_their_end(db: Arc<Database>) {
    let post = Post::start(&db).await;
    let ada = post.person("ada@acme.example", Role::Owner).await;
    let ben = post.person("ben@acme.example", Role::Admin).await;
    let now = post.app.clock.now();
    let hour = chrono::Timelike::hour(&now);
    let quiet = Habits { quiet: Some((hour, (hour + 8) % 24)), failures_wait: true, ..Habits::default() };
    assert_eq!(post.habits(&ada, &quiet).await, HabitsChange::Done);
    assert_eq!(post.habits(&ben, &Habits { failures_wait: false, ..quiet.clone() }).await, HabitsChange::Done);
    let mut ids = Vec::new();
    for account in ["acme", "globex", "initech"] {
        ids.push(post.connector(account, &format!("Desk {account}")).await);
    }

    for (id, account) in ids.iter().zip(["acme", "globex", "initech"]) {
        post.fail(id, account).await;
        assert_eq!(post.tell().await, sent(1), "ben's failures do not wait");
        post.app.advance(super::WINDOW);
    }
    let held = (String::new(), MailKind::NeedsYou, MailStage::Held);
    assert!(post.told(&ids[0]).await.iter().any(|told| (&told.1, &told.2) == (&held.1, &held.2)));
    // What mends meanwhile is left out.
    post.mend(&ids[1]).await;
    assert_eq!(post.tell().await, Round::default(), "that it works again waits until the quiet hours are over");
    assert_eq!(post.subjects_to("ada@acme.example").await, [""; 0]);

    post.app.advance(Duration::from_hours(8));
    assert_eq!(post.look().await, sent(2));
    let expected = ["2 connectors of Acme need you: Desk acme and Desk initech"];
    assert_eq!(post.subjects_to("ada@acme.example").await, expected, "one mail with all that stands");
    assert_eq!(post.subjects_to("ben@acme.example").await.last().unwrap(), "Back again: Desk globex");

    let daily = Habits { pace: Pace::Daily, hour: (hour + 12) % 24, failures_wait: true, ..Habits::default() };
    assert_eq!(post.habits(&ada, &daily).await, HabitsChange::Done);
    post.app.advance(super::WINDOW);
    post.fail(&ids[1], "globex").await;
    assert_eq!(post.tell().await, sent(1));
    // Who changes their mind meanwhile gets nothing that they do not want any more.
    assert_eq!(post.habits(&ada, &without(&[Topic::Failures])).await, HabitsChange::Done);
    post.app.advance(Duration::from_hours(12));
    assert_eq!(post.look().await.dropped, 1);
    assert_eq!(post.subjects_to("ada@acme.example").await, expected);
}

async fn a_member_who_was_added_is_told_where_to_look(db: Arc<Database>) {
    let post = Post::start(&db).await;
    let ada = post.person("ada@acme.example", Role::Owner).await;
    let cleo = post.person("cleo@acme.example", Role::Member).await;
    let at = post.app.clock.now();
    post.app.app.store.add_addressee(&post.app.org, &cleo, true, &ada, at).await.unwrap();
    let id = post.connector("acme", "Acme support").await;
    post.fail(&id, "acme").await;

    assert_eq!(post.tell().await, sent(2));
    let message = post.smtp.messages_to("cleo@acme.example").await.remove(0);
    assert_eq!(message.reconnect_links(), [""; 0], "a link to reconnect is for who may");
    assert!(message.links().iter().any(|link| link.ends_with(&format!("/connectors/{id}"))), "{:?}", message.links());
    assert!(message.text.contains("because you are a member of Acme"), "{}", message.text);
    assert!(!message.text.contains("works until"), "{}", message.text);
    assert!(message.links().iter().any(|link| link.ends_with("/settings/notifications")), "{:?}", message.links());

    post.app.app.store.add_addressee(&post.app.org, &cleo, false, &ada, at).await.unwrap();
    post.mend(&id).await;
    assert_eq!(post.tell().await, sent(1));
    assert_eq!(post.subjects_to("cleo@acme.example").await.len(), 1);
}

async fn what_still_waits_is_reminded_of_and_stands_under_the_first_mail(db: Arc<Database>) {
    let post = Post::start(&db).await;
    post.person("ada@acme.example", Role::Owner).await;
    let ben = post.person("ben@acme.example", Role::Admin).await;
    assert_eq!(post.habits(&ben, &without(&[Topic::Reminders])).await, HabitsChange::Done);
    let (id, mended) = (post.connector("acme", "Acme support").await, post.connector("globex", "Mended").await);
    post.fail(&id, "acme").await;
    post.fail(&mended, "globex").await;
    assert_eq!(post.tell().await, sent(2));
    post.mend(&mended).await;
    assert_eq!(post.tell().await, sent(2));

    let mut reminded = Vec::new();
    for day in 1..=20 {
        post.app.advance(Duration::from_hours(24));
        let _first = post.look().await;
        // A reminder waits for company like everything else.
        if post.tell().await.sent > 0 {
            reminded.push(day);
        }
    }
    assert_eq!(reminded, [1, 3, 7, 14]);

    let messages = post.smtp.messages_to("ada@acme.example").await;
    let [first, _recovered, one, three, .., last] = messages.as_slice() else { panic!("{messages:?}") };
    assert_eq!(one.subject, "Acme support still needs you, after 1 day");
    assert_eq!(three.subject, "Acme support still needs you, after 3 days");
    assert_eq!(one.header("In-Reply-To"), first.header("Message-ID"));
    assert!(last.header("References").starts_with(first.header("Message-ID")), "{}", last.header("References"));
    super::words::anatomy(one, post.app.app.config.public_url().as_str().trim_end_matches('/'));
    assert_eq!(one.reconnect_links().len(), 1);
    assert_eq!(post.subjects_to("ben@acme.example").await.len(), 2, "the failure and a recovery");
}

/// 200 at once: each admin gets one mail, and the rest of them in one digest.
async fn two_hundred_failures_are_one_mail_and_one_digest_for_each_admin(db: Arc<Database>) {
    const MANY: usize = 200;
    // None of that is an incident of the provider's here.
    let no_incident = |config: &mut holdfast_app::Config| config.refresh.mass_number = 1000;
    let post = Post::with(&db, Smtp::start().await, |builder| builder.with(no_incident)).await;
    post.person("ada@acme.example", Role::Owner).await;
    post.person("ben@acme.example", Role::Admin).await;
    let mut ids = Vec::new();
    for number in 0..MANY {
        ids.push(post.connector(&format!("desk{number}"), &format!("Desk {number}")).await);
    }

    post.fail(&ids[0], "desk0").await;
    assert_eq!(post.tell().await, sent(2), "the first one is told at once");
    for (number, id) in ids.iter().enumerate().skip(1) {
        post.fail(id, &format!("desk{number}")).await;
    }
    assert_eq!(post.tell().await, Round::default(), "the rest waits for the digest");
    post.app.advance(super::WINDOW);
    assert_eq!(post.look().await, sent(2));
    post.app.advance(super::WINDOW);
    assert_eq!(post.tell().await, Round::default());

    for admin in ["ada@acme.example", "ben@acme.example"] {
        let subjects = post.subjects_to(admin).await;
        assert_eq!(subjects.len(), 2, "{subjects:?}");
        assert_eq!(subjects[0], "Desk 0 needs you: Zendesk refused the access");
        assert!(subjects[1].starts_with("199 connectors of Acme need you: Desk "), "{}", subjects[1]);
    }
}
