//! A forgotten password: asked for, mailed, set, and told.

use std::{sync::Arc, time::Duration};

use holdfast_app::admin::{self, Ask};
use holdfast_core::Role;
use holdfast_tests::{
    browser::{Browser, Page},
    database::Database,
    on_both,
    people::PASSWORD,
    service::TestApp,
};
use reqwest::Method;

use super::{Post, sent, words::anatomy};

on_both! {
    a_forgotten_password_is_set_by_the_link_once,
    nobody_learns_whether_an_address_is_known,
    a_link_is_over_after_an_hour_and_by_another_password,
    asking_again_and_again_has_to_wait,
    without_mail_the_page_says_whom_to_ask_and_the_command_line_prints_a_link,
}

const ADA: &str = "ada@acme.example";
const NEW: &str = "another good password";

async fn ask(app: &TestApp, email: &str) -> Page {
    Browser::new().press(&app.at("/forgotten"), "/forgotten", &[("email", email)]).await
}

/// The link of the mail that comes of it.
async fn link(post: &Post) -> String {
    let _page = ask(&post.app, ADA).await.expect(303);
    assert_eq!(post.look().await, sent(1));
    post.smtp.messages_to(ADA).await.pop().unwrap().link_to("/reset/")
}

async fn set(app: &TestApp, link: &str, password: &str) -> Page {
    let path = link.strip_prefix(&app.base).unwrap();
    Browser::new().press(link, path, &[("password", password)]).await
}

async fn a_forgotten_password_is_set_by_the_link_once(db: Arc<Database>) {
    let post = Post::start(&db).await;
    post.app.person("Acme", ADA, Role::Admin).await;
    post.app.person_with("Globex", ADA, Role::Viewer, false, "of Globex alone").await;
    let before = post.app.signed_in(ADA).await;
    assert!(Browser::new().get(&post.app.at("/sign-in")).await.text.contains("href=\"/forgotten\""));

    let other = link(&post).await;
    let link = link(&post).await;
    let message = post.smtp.messages_to(ADA).await.pop().unwrap();
    anatomy(&message, &post.app.base);
    assert_eq!(message.subject, "Set a new password for Holdfast");
    assert!(message.text.contains("Acme and Globex"), "{}", message.text);
    assert!(!db.content().await.values().flatten().any(|row| row.contains(link.rsplit('/').next().unwrap())));
    for _ in 0..2 {
        let page = Browser::new().get(&link).await.expect(200);
        assert!(page.says(ADA) && page.says("Acme and Globex"), "{}", page.text);
        Browser::new().send_with(Method::HEAD, &link, &[]).await;
    }
    for (bad, problem) in [("short", "at least 8 characters"), (ADA, "one of the first that anybody would try")] {
        let page = set(&post.app, &link, bad).await.expect(422);
        assert!(page.says(problem), "{}", page.text);
    }
    assert_eq!(post.app.settings_of(&before).await, 200, "so far nothing has changed");
    for _ in 0..6 {
        post.app.try_to_sign_in(&Browser::new(), ADA, "guessed").await;
    }

    let page = set(&post.app, &link, NEW).await.expect(303);

    assert_eq!(page.location(), "/sign-in?done=reset");
    assert!(Browser::new().get(&post.app.at(&page.location())).await.says("Your password is changed"));
    assert_eq!(post.look().await, sent(1), "they are told once");
    let told = post.smtp.messages_to(ADA).await.pop().unwrap();
    anatomy(&told, &post.app.base);
    assert_eq!(told.subject, "Your password for Holdfast was changed");
    assert!(told.text.contains("by a link for a forgotten password"), "{}", told.text);
    assert_eq!(post.app.settings_of(&before).await, 303, "every browser is out");
    assert_eq!(
        post.app.try_to_sign_in(&Browser::new(), ADA, NEW).await.status,
        303,
        "guesses of before hold up nobody"
    );
    for old in [PASSWORD, "of Globex alone"] {
        assert_eq!(post.app.try_to_sign_in(&Browser::new(), ADA, old).await.status, 422, "{old}");
    }
    for over in [&link, &other] {
        let page = Browser::new().get(over).await.expect(410);
        assert!(page.says("This link is over") && page.text.contains("href=\"/forgotten\""), "{}", page.text);
    }
}

async fn nobody_learns_whether_an_address_is_known(db: Arc<Database>) {
    let post = Post::start(&db).await;
    post.app.person("Acme", ADA, Role::Admin).await;

    let (known, unknown) = (ask(&post.app, ADA).await, ask(&post.app, "nobody@acme.example").await);

    assert_eq!((known.status, known.location()), (unknown.status, unknown.location()));
    let page = Browser::new().get(&post.app.at(&known.location())).await;
    assert!(page.says("If the address has an account here"), "{}", page.text);
    assert_eq!(post.look().await, sent(1));
    assert_eq!(post.smtp.attempts().await, 1);
    for bad in ["", "nobody"] {
        assert!(ask(&post.app, bad).await.expect(422).says("This is not an e-mail address"));
    }
}

async fn a_link_is_over_after_an_hour_and_by_another_password(db: Arc<Database>) {
    let post = Post::start(&db).await;
    let id = post.app.person("Acme", ADA, Role::Admin).await;

    let late = link(&post).await;
    post.app.advance(Duration::from_mins(61));
    assert_eq!(set_or_look(&late).await, 410);
    let _page = ask(&post.app, ADA).await.expect(303);
    post.app.advance(Duration::from_mins(61));
    assert_eq!(post.look().await.dropped, 1, "a mail with a dead link is not sent");

    let link = link(&post).await;
    let email = ADA.to_owned();
    let ask = Ask::UserSetPassword { email, org: None, password: Some("set by the operator".to_owned()) };
    admin::run(&post.app.app, ask).await.unwrap();
    assert_eq!(set_or_look(&link).await, 410, "{id} has another password since");
    assert_eq!(post.look().await, sent(1));
    let told = post.smtp.messages_to(ADA).await.pop().unwrap();
    assert!(told.text.contains("Whoever runs this installation set it."), "{}", told.text);
}

async fn set_or_look(link: &str) -> u16 {
    Browser::new().get(link).await.status
}

async fn asking_again_and_again_has_to_wait(db: Arc<Database>) {
    let post = Post::start(&db).await;
    for _ in 0..3 {
        let _page = ask(&post.app, "nobody@acme.example").await.expect(303);
    }

    let page = ask(&post.app, "Nobody@acme.example").await.expect(429);

    assert!(page.says("Too many attempts. Wait 5 seconds"), "{}", page.text);
    assert_eq!(page.headers["retry-after"], "5");
    let _page = ask(&post.app, ADA).await.expect(303);
    post.app.person("Acme", "nobody@acme.example", Role::Viewer).await;
    post.app.signed_in("nobody@acme.example").await;
}

async fn without_mail_the_page_says_whom_to_ask_and_the_command_line_prints_a_link(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    app.person("Acme", ADA, Role::Admin).await;

    let page = Browser::new().get(&app.at("/forgotten")).await.expect(200);
    assert!(page.says("holdfast user reset-password --email ADDRESS") && page.form("/forgotten").is_none());
    let made = admin::run(&app.app, Ask::UserResetPassword { email: ADA.to_owned() }).await.unwrap();
    let link = made["url"].as_str().unwrap();
    assert_eq!(set(&app, link, NEW).await.expect(303).location(), "/sign-in?done=reset");
    assert_eq!(app.try_to_sign_in(&Browser::new(), ADA, NEW).await.status, 303);
    assert_eq!(set_or_look(link).await, 410);
    let nobody =
        admin::run(&app.app, Ask::UserResetPassword { email: "eve@acme.example".to_owned() }).await.unwrap_err();
    assert!(nobody.message.contains("nobody has the address eve@acme.example"), "{}", nobody.message);
}
