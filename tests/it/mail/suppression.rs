//! Addresses that are refused, mails to oneself, and how mail stands.

use std::sync::Arc;

use holdfast_app::mail::Round;
use holdfast_core::Role;
use holdfast_store::{MailKind, MailStage};
use holdfast_tests::{database::Database, on_both};

use super::{Post, WINDOW, sent};

on_both! {
    an_address_that_is_refused_gets_no_more_and_the_others_are_told_once,
    refusals_that_may_be_about_us_count_only_in_a_row,
    with_every_address_refused_nothing_is_sent_and_the_operators_hear_of_it,
    a_test_mail_shows_what_the_mail_server_said,
}

const NOBODY: &str = "550 5.1.1 no such user";
const HERE: &str = "/settings/notifications";

async fn an_address_that_is_refused_gets_no_more_and_the_others_are_told_once(db: Arc<Database>) {
    let post = Post::start(&db).await;
    let ada = post.app.somebody(Role::Owner).await;
    let ben = post.person("ben@acme.example", Role::Admin).await;
    post.person("cleo@acme.example", Role::Member).await;
    let (first, second) = (post.connector("acme", "First").await, post.connector("globex", "Second").await);
    post.smtp.answer_rcpt("ben@acme.example", NOBODY).await;
    post.fail(&first, "acme").await;

    let round = post.tell().await;
    assert_eq!((round.sent, round.refused), (2, 1), "ada hears of the failure and of ben: {round:?}");
    let told = post.smtp.messages_to(&ada.email).await;
    let about_ben: Vec<_> = told.iter().filter(|message| message.subject.contains("gets no mail")).collect();
    assert_eq!(about_ben.len(), 1, "{told:?}");
    let base = post.app.app.config.public_url().as_str().trim_end_matches('/').to_owned();
    super::words::anatomy(about_ben[0], &base);
    assert!(about_ben[0].text.contains("550 5.1.1 no such user"), "{}", about_ben[0].text);

    post.app.advance(WINDOW);
    post.fail(&second, "globex").await;
    let attempts = post.smtp.attempts().await;
    assert_eq!(post.tell().await, sent(1), "ben is not tried any more");
    assert_eq!(post.smtp.attempts().await, attempts + 1);
    for page in [HERE, "/settings/team"] {
        let page = ada.open(page).await;
        assert!(page.text.contains("no such user"), "{}", page.text);
    }

    // The address is mended, and tried again.
    post.smtp.calm().await;
    let again = format!("{HERE}/people/{ben}/again");
    let page = ada.submit_and_go_on(HERE, &again, &[]).await;
    assert!(page.text.contains("tried again") && !page.text.contains("no such user"), "{}", page.text);
    post.mend(&second).await;
    post.app.advance(WINDOW);
    post.fail(&second, "globex").await;
    assert_eq!(post.tell().await.sent, 2, "a failure for both");
}

async fn refusals_that_may_be_about_us_count_only_in_a_row(db: Arc<Database>) {
    let post = Post::start(&db).await;
    post.person("ada@acme.example", Role::Owner).await;
    let ben = post.person("ben@acme.example", Role::Admin).await;
    let names = ["acme", "globex", "initech", "hooli"];
    let mut ids = Vec::new();
    for name in names {
        ids.push(post.connector(name, name).await);
    }
    let suppressed = async || post.app.app.store.suppression("ben@acme.example").await.unwrap().is_some();
    post.smtp.answer_rcpt("ben@acme.example", "550 5.7.1 not today").await;
    for number in 0..2 {
        post.fail(&ids[number], names[number]).await;
        assert_eq!(post.tell().await, Round { sent: 1, refused: 1, ..Round::default() });
        post.app.advance(WINDOW);
        assert!(!suppressed().await, "after {number}");
    }
    post.fail(&ids[2], names[2]).await;
    assert_eq!(post.tell().await, Round { sent: 2, refused: 1, ..Round::default() }, "the third one in a row");
    assert!(suppressed().await);

    // What somebody asks for themselves is sent all the same, and lifts it.
    post.smtp.calm().await;
    let user = post.app.app.store.find_user(&ben).await.unwrap().unwrap();
    let form = [("email", user.email.as_str())];
    let browser = holdfast_tests::browser::Browser::new();
    let asked = browser.press(&post.app.at("/forgotten"), "/forgotten", &form).await;
    assert!(asked.status < 400, "{}", asked.text);
    assert_eq!(post.look().await, sent(1));
    assert!(!suppressed().await);
}

/// EM-05: with nobody left.
async fn with_every_address_refused_nothing_is_sent_and_the_operators_hear_of_it(db: Arc<Database>) {
    let post = Post::start(&db).await;
    post.person("ada@acme.example", Role::Owner).await;
    let olga = post.app.operator().await;
    let (first, second) = (post.connector("acme", "First").await, post.connector("globex", "Second").await);
    post.smtp.answer_rcpt("ada@acme.example", NOBODY).await;
    post.fail(&first, "acme").await;
    assert_eq!(post.tell().await, Round { refused: 1, ..Round::default() });
    post.app.advance(WINDOW);
    let attempts = post.smtp.attempts().await;

    post.fail(&second, "globex").await;

    assert_eq!(post.tell().await, sent(1));
    assert_eq!(post.smtp.attempts().await, attempts + 1, "ada is not tried");
    let told = post.smtp.messages_to(&olga.email).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].text.contains("Acme") && told[0].text.contains("Second"), "{}", told[0].text);
    assert_eq!(post.told(&second).await, [(String::new(), MailKind::NeedsYou, MailStage::Nobody)]);
    let page = olga.open("/settings/instance").await;
    assert!(page.text.contains("ada@acme.example") && page.text.contains("Nobody to tell"), "{}", page.text);
}

async fn a_test_mail_shows_what_the_mail_server_said(db: Arc<Database>) {
    let post = Post::start(&db).await;
    let ada = post.app.somebody(Role::Owner).await;
    assert!(ada.open(HERE).await.text.contains("No mail has been sent to you yet"));
    let test = async || ada.submit(HERE, &format!("{HERE}/test"), &[]).await;

    let page = test().await;
    assert!(page.text.contains("The mail server has taken a mail to") && page.text.contains("250"), "{}", page.text);
    assert!(page.text.contains("The last mail to you was taken"), "{}", page.text);
    let base = post.app.app.config.public_url().as_str().trim_end_matches('/').to_owned();
    let messages = post.smtp.messages().await;
    assert_eq!(messages[0].subject, "A test mail from Holdfast");
    assert!(messages[0].links().iter().all(|link| link.starts_with(&base)), "{:?}", messages[0].links());

    post.smtp.answer_rcpt("*", NOBODY).await;
    let page = test().await;
    assert!(page.text.contains("does not take a mail to") && page.text.contains("no such user"), "{}", page.text);
    assert!(page.text.contains("You get no mail"), "{}", page.text);
    post.smtp.calm().await;
    assert!(!test().await.text.contains("You get no mail"), "what is taken lifts it");

    post.smtp.down().await;
    let page = test().await;
    assert!(page.text.contains("The mail server takes nothing at the moment"), "{}", page.text);
    let id = post.connector("acme", "Acme support").await;
    post.fail(&id, "acme").await;
    assert!(post.tell().await.trouble);
    let page = ada.open(HERE).await;
    assert!(page.text.contains("Mail cannot be delivered") && page.text.contains("Since"), "{}", page.text);
    let mut slowed = false;
    for _ in 0..12 {
        slowed |= test().await.status == 429;
    }
    assert!(slowed, "a button is no way to flood a mail server");
}
