//! What people are told of their own accounts, and admins of keys.

use std::sync::Arc;

use holdfast_app::{
    admin::{self, Ask},
    mail::Round,
};
use holdfast_core::Role;
use holdfast_tests::{browser::Browser, database::Database, on_both, people::PASSWORD};

use super::{Post, sent, words::anatomy};

on_both! {
    a_browser_that_was_not_seen_before_is_told_and_a_known_one_is_not,
    a_changed_password_is_told_once_however_many_organisations_it_is_for,
    a_new_key_is_told_to_owners_and_admins,
}

const ADA: &str = "ada@acme.example";

async fn sign_in(post: &Post, browser: &Browser, agent: &str) {
    let form = browser.open(&post.app.at("/sign-in")).await.form("/sign-in");
    let form = form.with("email", ADA).with("password", PASSWORD);
    assert_eq!(browser.send_body(&form.action, &form.encoded(), &[("user-agent", agent)]).await.status, 303);
}

async fn a_browser_that_was_not_seen_before_is_told_and_a_known_one_is_not(db: Arc<Database>) {
    let post = Post::start(&db).await;
    post.app.person("Acme", ADA, Role::Member).await;
    post.app.person("Globex", ADA, Role::Member).await;
    let (first, second) = (Browser::new(), Browser::new());

    sign_in(&post, &first, "Firefox/145.0").await;
    assert_eq!(post.look().await, Round::default(), "there is none that the first one could be told from");
    sign_in(&post, &second, "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0").await;
    assert_eq!(post.look().await, sent(1), "once, for both organisations");
    let message = post.smtp.messages_to(ADA).await.remove(0);
    anatomy(&message, &post.app.base);
    assert_eq!(message.subject, "New sign-in to Holdfast: Firefox on Linux");
    assert!(message.text.contains("/settings/account"), "{}", message.text);

    for browser in [&first, &second] {
        let _page = browser.press(&post.app.at("/settings"), "/sign-out", &[]).await.expect(303);
        sign_in(&post, browser, "Firefox/146.0").await;
    }
    let wrong = post.app.try_to_sign_in(&Browser::new(), ADA, "guessed").await;
    assert_eq!((wrong.status, post.look().await), (422, Round::default()));
}

async fn a_changed_password_is_told_once_however_many_organisations_it_is_for(db: Arc<Database>) {
    let post = Post::start(&db).await;
    for org in ["Acme", "Globex"] {
        post.app.person(org, ADA, Role::Member).await;
    }
    let browser = post.app.signed_in(ADA).await;

    let fields = [("current", PASSWORD), ("new", "another good password")];
    let _page =
        browser.press(&post.app.at("/settings/account"), "/settings/account/password", &fields).await.expect(303);

    assert_eq!(post.look().await, sent(1));
    let message = post.smtp.messages_to(ADA).await.remove(0);
    assert!(message.text.contains("on the page of your account"), "{}", message.text);
}

async fn a_new_key_is_told_to_owners_and_admins(db: Arc<Database>) {
    let post = Post::start(&db).await;
    let (ada, ben) = (post.app.somebody(Role::Owner).await, post.app.somebody(Role::Admin).await);
    post.app.somebody(Role::Member).await;

    let fields = [("name", "Ticket <assistant>"), ("scope", "tokens:read")];
    let _page = ben.submit("/settings/keys", "/settings/keys", &fields).await.expect(200);

    assert_eq!(post.look().await, sent(2));
    for to in [&ada.email, &ben.email] {
        let message = post.smtp.messages_to(to).await.remove(0);
        anatomy(&message, &post.app.base);
        assert_eq!(message.subject, "API key made: Ticket <assistant>");
        assert!(message.text.contains(&ben.email) && message.text.contains("Read access tokens"), "{}", message.text);
        assert!(!message.raw.contains("hf_"), "never the key");
    }
    let ask = Ask::KeyCreate { org: "Acme".to_owned(), name: "CI".to_owned(), scopes: vec!["tools".to_owned()] };
    admin::run(&post.app.app, ask).await.unwrap();
    assert_eq!(post.look().await, sent(2));
    let message = post.smtp.messages_to(&ada.email).await.pop().unwrap();
    assert!(message.text.contains("whoever runs this installation"), "{}", message.text);
}
