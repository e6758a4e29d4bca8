//! The org's channel in Slack.

use std::{sync::Arc, time::Duration};

use holdfast_core::Role;
use holdfast_store::{MailKind, MailStage};
use holdfast_tests::{database::Database, on_both, people::Person, receiver::Receiver, smtp::Smtp, wait::until};

use super::{Post, WINDOW};

on_both! {
    a_channel_is_told_of_failures_and_of_their_end_whatever_the_mail_server_does,
    a_channel_that_is_gone_is_left_alone_and_the_admins_are_told,
    an_address_that_leads_nowhere_public_is_refused,
}

const HERE: &str = "/settings/notifications";

async fn start(db: &Arc<Database>) -> (Post, Person, Receiver) {
    let post = Post::with(db, Smtp::start().await, |builder| builder).await;
    let ada = post.app.somebody(Role::Owner).await;
    (post, ada, Receiver::start().await)
}

/// Sets the receiver as the channel.
async fn set(ada: &Person, receiver: &Receiver) {
    let address = format!("{}/T000/B000/very-secret-f9Qx", receiver.url);
    let to = format!("{HERE}/channel");
    let page = ada.submit_and_go_on(HERE, &to, &[("address", &address)]).await;
    assert!(page.text.contains("The channel is set") && page.text.contains("f9Qx"), "{}", page.text);
    assert!(!page.text.contains("very-secret"), "{}", page.text);
}

fn text(receiver: &Receiver, at: usize) -> String {
    receiver.told()[at].json()["text"].as_str().unwrap_or_default().to_owned()
}

async fn a_channel_is_told_of_failures_and_of_their_end_whatever_the_mail_server_does(db: Arc<Database>) {
    let (post, ada, receiver) = start(&db).await;
    set(&ada, &receiver).await;
    let id = post.connector("acme", "Acme <support>").await;
    post.smtp.down().await;
    // A failure of before would be told too late; one that the channel's server puts off comes in the end.
    receiver.answer_with(429, "retry-after", "30");
    post.fail(&id, "acme").await;
    post.tell().await;

    receiver.hears(1).await;
    until(
        "it is tried again",
        async || (post.app.advance(Duration::from_mins(1)), receiver.told().len()),
        |((), n)| *n == 2,
    )
    .await;
    let said = text(&receiver, 1);
    assert!(said.starts_with("*Acme &lt;support&gt; needs you: Zendesk refused the access*"), "{said}");
    assert!(said.contains(&format!("/connectors/{id}|Acme &lt;support&gt;>: Zendesk refused")), "{said}");
    assert!(!said.contains("/reconnect/"), "a channel is nobody's own: {said}");
    let settled = async || post.told(&id).await;
    let sent = (String::new(), MailKind::NeedsYou, MailStage::Sent);
    until("it is settled", settled, |told| told.contains(&sent)).await;

    post.app.advance(WINDOW);
    post.mend(&id).await;
    post.tell().await;
    receiver.hears(3).await;
    assert!(text(&receiver, 2).starts_with("*Back again: Acme &lt;support&gt;*"), "{}", text(&receiver, 2));
    post.app.advance(WINDOW);
    post.tell().await;
    assert_eq!(receiver.told().len(), 3, "each once");
}

async fn a_channel_that_is_gone_is_left_alone_and_the_admins_are_told(db: Arc<Database>) {
    let (post, ada, receiver) = start(&db).await;
    set(&ada, &receiver).await;
    let test = format!("{HERE}/channel/test");
    let page = ada.submit(HERE, &test, &[]).await;
    assert!(page.text.contains("It answered 204"), "{}", page.text);
    assert!(text(&receiver, 0).contains("A test from Holdfast: Acme is told here"), "{}", text(&receiver, 0));
    receiver.answer(500);
    let page = ada.submit(HERE, &test, &[]).await;
    assert!(page.text.contains("It answered 500") && page.text.contains("Failing"), "{}", page.text);
    let (first, second) = (post.connector("acme", "First").await, post.connector("globex", "Second").await);

    receiver.answer(410);
    post.fail(&first, "acme").await;
    let first_round = post.tell().await;
    receiver.hears(3).await;
    let stopped = async || ada.open(HERE).await;
    until("the channel is gone", stopped, |page| page.text.contains("Gone: nothing is sent")).await;
    // The channel may have answered within the first round.
    assert_eq!(first_round.sent + post.look().await.sent, 2, "of the failure, and of the channel");
    let messages = post.smtp.messages_to(&ada.email).await;
    let last = messages.iter().find(|message| message.subject == "Nothing is told in Slack any more").unwrap();
    assert!(last.text.contains("It answered 410") && !last.text.contains("very-secret"), "{}", last.text);

    post.app.advance(WINDOW);
    post.fail(&second, "globex").await;
    assert_eq!(post.tell().await.sent, 1);
    assert_eq!(receiver.told().len(), 3, "nothing more is sent there");
    // Entered anew, it is told again.
    set(&ada, &receiver).await;
    let third = post.connector("initech", "Third").await;
    post.app.advance(WINDOW);
    post.fail(&third, "initech").await;
    post.tell().await;
    receiver.hears(4).await;
    assert!(text(&receiver, 3).starts_with("*Third needs you"), "{}", text(&receiver, 3));
    let page = ada.submit_and_go_on(HERE, &format!("{HERE}/channel/remove"), &[]).await;
    assert!(page.text.contains("The channel is removed") && !page.text.contains("f9Qx"), "{}", page.text);
}

async fn an_address_that_leads_nowhere_public_is_refused(db: Arc<Database>) {
    let nothing_private = |config: &mut holdfast_app::Config| config.events.allow_private_hosts = Vec::new();
    let post = Post::with(&db, Smtp::start().await, |builder| builder.with(nothing_private)).await;
    let ada = post.app.somebody(Role::Admin).await;
    for (address, why) in [
        ("", "Paste the whole address"),
        ("hooks.slack.com", "Paste the whole address"),
        ("http://hooks.slack.com/services/x", "has to begin with https://"),
        ("https://127.0.0.1/services/x", "no public address"),
        ("https://[::1]/services/x", "no public address"),
        ("https://user:pass@hooks.slack.com/services/x", "Leave user"),
    ] {
        let page = ada.submit(HERE, &format!("{HERE}/channel"), &[("address", address)]).await;
        assert_eq!(page.status, 422, "{address}");
        assert!(page.text.contains(why), "{address}: {}", page.text);
        assert!(!page.text.contains("user:pass"), "{address}");
    }
}
