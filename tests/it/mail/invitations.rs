//! Invitations: from the team's page to the mail, and from its link into the organisation.

use std::{sync::Arc, time::Duration};

use holdfast_core::Role;
use holdfast_tests::{
    browser::{Browser, Page},
    database::Database,
    on_both,
    people::{PASSWORD, Person},
    smtp::Message,
};
use reqwest::Method;

use super::{Post, sent, words::anatomy};

on_both! {
    somebody_new_joins_with_a_name_and_a_password_once,
    somebody_with_an_account_signs_in_and_joins,
    a_link_that_is_over_says_why_and_what_now,
    an_address_is_invited_once_and_to_no_role_above_ones_own,
    invitations_of_who_leaves_or_steps_down_are_withdrawn,
    a_mail_that_is_not_delivered_is_seen_on_the_page,
    whoever_invites_too_many_has_to_wait,
}

const TEAM: &str = "/settings/team";
const INVITE: &str = "/settings/team/invitations";
const NEW: &str = "new@else.example";

async fn invite(by: &Person, email: &str, role: &str) -> Page {
    by.submit(TEAM, INVITE, &[("email", email), ("role", role)]).await
}

/// Invites somebody, and the mail that they get.
async fn invited(post: &Post, by: &Person, email: &str, role: &str) -> Message {
    let page = invite(by, email, role).await.expect(303);
    assert!(page.location().starts_with("/settings/team?done="), "{}", page.location());
    assert_eq!(post.look().await, sent(1));
    post.smtp.messages_to(&email.to_lowercase()).await.pop().unwrap()
}

async fn role_of(post: &Post, email: &str) -> Vec<(String, Role)> {
    let users = post.app.app.store.find_users_by_email(email).await.unwrap();
    users.into_iter().map(|user| (user.org_name, user.role)).collect()
}

async fn join(browser: &Browser, link: &str, name: &str, password: &str) -> Page {
    let path = url::Url::parse(link).unwrap().path().to_owned();
    browser.press(link, &path, &[("name", name), ("password", password)]).await
}

async fn somebody_new_joins_with_a_name_and_a_password_once(db: Arc<Database>) {
    let post = Post::start(&db).await;
    let ada = post.app.somebody(Role::Admin).await;

    let answer = invite(&ada, " New@Else.example ", "member").await;
    let page = ada.browser.go_on(answer).await;
    assert!(page.says("new@else.example is invited as a member."), "{}", page.text);
    assert!(page.says("Mail on its way") && page.says("Invited"), "{}", page.text);
    assert_eq!(post.look().await, sent(1));

    let message = post.smtp.messages_to(NEW).await.remove(0);
    anatomy(&message, &post.app.base);
    assert_eq!(message.subject, format!("{} invites you to Acme in Holdfast", ada.email));
    for words in ["as a member", "daily work", "works until"] {
        assert!(message.text.contains(words) && message.html.contains(words), "{words}: {}", message.text);
    }
    assert!(ada.open(TEAM).await.says("Mailed"));
    let link = message.link_to("/invitation/");
    assert!(!db.content().await.values().flatten().any(|row| row.contains(link.rsplit('/').next().unwrap())));

    // Programs that look at mails open every link.
    for _ in 0..2 {
        let page = Browser::new().get(&link).await.expect(200);
        assert!(page.says("Join Acme") && page.says(NEW), "{}", page.text);
        assert_eq!(page.headers["referrer-policy"], "no-referrer");
        Browser::new().send_with(Method::HEAD, &link, &[]).await;
    }
    let browser = Browser::new();
    for (name, password, problem) in [
        ("", PASSWORD, "Your name has 1 to 100 characters"),
        ("Nora New", "short", "at least 8 characters"),
        ("Nora New", NEW, "one of the first that anybody would try"),
    ] {
        let page = join(&browser, &link, name, password).await.expect(422);
        assert!(page.says(problem), "{}", page.text);
        assert!(!page.text.contains(PASSWORD), "a password is never shown");
    }

    let joined = join(&browser, &link, "Nora New", PASSWORD).await.expect(303);

    assert_eq!(joined.location(), "/");
    assert_eq!(post.app.settings_of(&browser).await, 200, "and is signed in");
    assert_eq!(role_of(&post, NEW).await, [("Acme".to_owned(), Role::Member)]);
    post.app.signed_in(NEW).await;
    let team = ada.open(TEAM).await;
    assert!(team.says("Nora New") && !team.says("Mailed"), "{}", team.text);
    let again = Browser::new().get(&link).await.expect(410);
    assert!(again.says("You belong to it already"), "{}", again.text);
    let removal = format!("{TEAM}/{}/remove", post.app.app.store.find_users_by_email(NEW).await.unwrap()[0].id);
    let _page = ada.submit(&removal, &removal, &[("name", "Nora New")]).await.expect(303);
    let used = Browser::new().get(&link).await.expect(410);
    assert!(used.says("This invitation was used"), "who is out does not come back by the old link: {}", used.text);
}

async fn somebody_with_an_account_signs_in_and_joins(db: Arc<Database>) {
    let post = Post::start(&db).await;
    let ada = post.app.somebody(Role::Owner).await;
    let eve = post.app.somebody_of("Globex", Role::Viewer).await;
    let link = invited(&post, &ada, &eve.email, "admin").await.link_to("/invitation/");

    let eve_at_home = eve.at(Browser::new());
    let page = eve_at_home.open(&link).await.expect(200);
    assert!(page.says("You have an account here") && page.forms().is_empty(), "{}", page.text);
    let path = link.strip_prefix(&post.app.base).unwrap();
    let back = eve_at_home.sign_in_again(path).await.expect(200);
    assert!(back.says("You go on with the name and the password that you have"), "{}", back.text);
    let joined = eve_at_home.submit(path, path, &[]).await.expect(303);

    assert_eq!(joined.location(), "/");
    let both = [("Globex".to_owned(), Role::Viewer), ("Acme".to_owned(), Role::Admin)];
    assert_eq!(role_of(&post, &eve_at_home.email).await, both);
    let page = eve_at_home.open("/settings/organisations").await;
    assert!(page.says("Globex") && page.says("You are its admin"), "{}", page.text);
    let elsewhere = post.app.signed_in(&eve_at_home.email).await;
    assert!(elsewhere.get(&post.app.at("/settings/organisations")).await.says("Acme"), "one password opens both");
}

async fn a_link_that_is_over_says_why_and_what_now(db: Arc<Database>) {
    let post = Post::start(&db).await;
    let ada = post.app.somebody(Role::Owner).await;
    let link = invited(&post, &ada, NEW, "member").await.link_to("/invitation/");
    let says = async |browser: &Browser, link: &str, status: u16, words: &str| {
        let page = browser.get(link).await.expect(status);
        assert!(page.says(words), "{words}: {}", page.text);
    };

    says(&Browser::new(), &link[..link.len() - 1], 410, "This invitation is not known").await;
    says(&ada.browser, &link, 409, "You are signed in as").await;
    let other = ada.browser.press(&link, "/sign-out", &[]).await.expect(303);
    assert_eq!(post.app.at(&other.location()), link, "signed out, they go on where they were");
    let ada = ada.at(Browser::new());
    let ada_again = ada.sign_in_again(TEAM).await.expect(200);
    assert!(ada_again.says(NEW), "{}", ada_again.text);
    assert_eq!(post.look().await, sent(1), "of the browser that was not seen before");

    post.app.advance(Duration::from_hours(7 * 24 + 1));
    says(&Browser::new(), &link, 410, "This invitation is over").await;
    assert!(ada.open(TEAM).await.says("Expired"));
    let id = post.app.app.store.invitations(&post.app.org).await.unwrap().remove(0).id;
    let again = ada.submit_and_go_on(TEAM, &format!("{INVITE}/{id}/again"), &[]).await;
    assert!(
        again.says(&format!("{NEW} was invited already: the invitation, as a member, is sent again.")),
        "{}",
        again.text
    );
    assert_eq!(post.look().await, sent(1));
    let newer = post.smtp.messages_to(NEW).await.pop().unwrap().link_to("/invitation/");
    assert_ne!(newer, link);
    for link in [&link, &newer] {
        says(&Browser::new(), link, 200, "Join Acme").await;
    }
    let withdrawn = ada.submit_and_go_on(TEAM, &format!("{INVITE}/{id}/withdraw"), &[]).await;
    assert!(withdrawn.says("The invitation is withdrawn") && !withdrawn.says(NEW), "{}", withdrawn.text);
    for link in [&link, &newer] {
        says(&Browser::new(), link, 410, "This invitation was withdrawn").await;
    }
    // A mail that was not sent in time is not sent.
    let _page = invite(&ada, "late@else.example", "viewer").await.expect(303);
    let late = post.app.app.store.invitations(&post.app.org).await.unwrap().remove(0).id;
    let _page = ada.submit(TEAM, &format!("{INVITE}/{late}/withdraw"), &[]).await.expect(303);
    assert_eq!(post.look().await.dropped, 1);
}

async fn an_address_is_invited_once_and_to_no_role_above_ones_own(db: Arc<Database>) {
    let post = Post::start(&db).await;
    let (ada, ben) = (post.app.somebody(Role::Owner).await, post.app.somebody(Role::Admin).await);

    invited(&post, &ben, NEW, "viewer").await;
    invited(&post, &ben, &NEW.to_uppercase(), "member").await;

    let open = post.app.app.store.invitations(&post.app.org).await.unwrap();
    assert_eq!((open.len(), open[0].role), (1, Role::Member));
    assert_eq!(invite(&ben, "boss@else.example", "owner").await.status, 403);
    assert!(!ben.open(TEAM).await.text.contains("value=\"owner\""), "and it is not offered");
    invited(&post, &ada, NEW, "owner").await;
    assert_eq!(invite(&ben, NEW, "member").await.status, 403, "what an owner gave is not an admin's to change");
    let path = format!("{INVITE}/{}/withdraw", open[0].id);
    assert!(ben.open(TEAM).await.form(&path).is_none());

    let member = invite(&ada, &ben.email, "viewer").await.expect(422);
    assert!(member.says("Somebody with this address is in the team already."), "{}", member.text);
    for bad in ["", "nobody", "a@b", "a@example.com, b@example.com"] {
        let page = invite(&ada, bad, "viewer").await.expect(422);
        assert!(page.says("This is not an e-mail address"), "{}", page.text);
    }
    assert_eq!(invite(&ada, NEW, "king").await.status, 400);
}

async fn invitations_of_who_leaves_or_steps_down_are_withdrawn(db: Arc<Database>) {
    let post = Post::start(&db).await;
    let (ada, ben) = (post.app.somebody(Role::Owner).await, post.app.somebody(Role::Owner).await);
    let link = invited(&post, &ben, "a@else.example", "owner").await.link_to("/invitation/");
    let other = invited(&post, &ben, "b@else.example", "member").await.link_to("/invitation/");
    let id = post.app.app.store.find_users_by_email(&ben.email).await.unwrap().remove(0).id;

    let _page = ada.submit(TEAM, &format!("{TEAM}/{id}/role"), &[("role", "admin")]).await.expect(303);
    let page = Browser::new().get(&link).await.expect(410);
    assert!(page.says("This invitation was withdrawn"), "he may not make owners any more: {}", page.text);
    assert_eq!(Browser::new().get(&other).await.status, 200);

    let removal = format!("{TEAM}/{id}/remove");
    let page = ada.open(&removal).await;
    assert!(page.says("open invitations are withdrawn: b@else.example"), "{}", page.text);
    let _page = ada.submit(&removal, &removal, &[("name", &ben.email)]).await.expect(303);
    assert_eq!(Browser::new().get(&other).await.status, 410);
}

async fn a_mail_that_is_not_delivered_is_seen_on_the_page(db: Arc<Database>) {
    let post = Post::start(&db).await;
    let ada = post.app.somebody(Role::Owner).await;
    post.smtp.answer_rcpt("*", "550 5.1.1 no such user").await;

    let _page = invite(&ada, NEW, "member").await.expect(303);
    assert_eq!(post.look().await.refused, 1);

    let page = ada.open(TEAM).await;
    assert!(page.says("Mail not delivered") && page.says("no such user"), "{}", page.text);
}

async fn whoever_invites_too_many_has_to_wait(db: Arc<Database>) {
    let post = Post::start(&db).await;
    let ada = post.app.somebody(Role::Owner).await;
    for number in 0..40 {
        let _page = invite(&ada, &format!("n{number}@else.example"), "viewer").await.expect(303);
    }

    let page = invite(&ada, NEW, "viewer").await.expect(422);

    assert!(page.says("Too many attempts."), "{}", page.text);
    assert_eq!(post.app.app.store.invitations(&post.app.org).await.unwrap().len(), 40);
}
