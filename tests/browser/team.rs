//! A colleague from the invitation to the farewell, and a forgotten password, in both widths and schemes.

use std::sync::Arc;

use holdfast_core::Role;
use holdfast_store::NewUser;
use holdfast_tests::{
    chromium::Chromium,
    database::Database,
    people::PASSWORD,
    service::TestApp,
    smtp::{Message, Smtp},
};

use crate::{mail::can_be_read, sign_in};

const TEAM: &str = "/settings/team";
const ADA: &str = "ada@acme.example";
const NORA: &str = "nora@acme.example";

/// A service with a mail server, and an owner.
struct Post {
    _db: Arc<Database>,
    app: TestApp,
    smtp: Smtp,
}

impl Post {
    async fn start() -> Self {
        let (db, smtp) = (Arc::new(Database::sqlite()), Smtp::start().await);
        let app = TestApp::builder(&db).at_localhost().with(|config| smtp.configure(config)).start().await;
        app.person("Acme", ADA, Role::Owner).await;
        let id = app.app.store.find_users_by_email(ADA).await.unwrap().remove(0).id;
        app.app.store.rename_user(&id, "Ada Lindholm").await.unwrap();
        for (email, name, role) in [
            ("ben@acme.example", Some("Ben Osei"), Role::Admin),
            ("cleo.with.a.long.address@support.acme.example", None, Role::Viewer),
        ] {
            let user = NewUser {
                org: app.org.clone(),
                email: email.to_owned(),
                name: name.map(str::to_owned),
                role,
                operator: false,
                password_hash: None,
                at: app.app.seams.clock.now(),
            };
            app.app.store.create_user(&user).await.unwrap().unwrap();
        }
        Self { _db: db, app, smtp }
    }

    /// The mail that is due.
    async fn mail(&self) -> Message {
        assert_eq!(self.app.app.mail_due().await.unwrap().sent, 1);
        self.smtp.messages().await.pop().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_colleague_is_invited_joins_gets_another_role_and_is_removed() {
    let post = Post::start().await;
    let mut link = String::new();
    Chromium::visitor_of(&post.app)
        .run(async |chromium| {
            sign_in(&post.app, chromium, ADA, TEAM).await;
            chromium.shows("You are the only owner").await;
            chromium.inspect("team").await;
            chromium.fill("E-mail address", "ben@acme.example").await;
            chromium.press("Send the invitation").await;
            chromium.shows("Somebody with this address is in the team already.").await;
            chromium.inspect("team-wrong").await;
            chromium.fill("E-mail address", NORA).await;
            chromium.press("Send the invitation").await;
            chromium.shows("nora@acme.example is invited as a member.").await;
            chromium.shows("Mail on its way").await;
            chromium.inspect("team-invited").await;
            let message = post.mail().await;
            can_be_read("invitation", &message).await;
            link = message.link_to("/invitation/");
            chromium.open(&link).await;
            chromium.shows("You are signed in as").await;
            chromium.inspect("invitation-somebody-else").await;
        })
        .await;
    Chromium::visitor_of(&post.app)
        .run(async |chromium| {
            chromium.open(&link).await;
            chromium.heading("Join Acme").await;
            chromium.inspect("invitation").await;
            chromium.fill("Your name", "Nora New").await;
            chromium.fill("Password", "short").await;
            chromium.press("Join").await;
            chromium.shows("8 characters").await;
            assert_eq!(chromium.value("Your name").await, "Nora New", "it is kept");
            chromium.inspect("invitation-wrong").await;
            chromium.fill("Password", PASSWORD).await;
            chromium.press("Join").await;
            chromium.heading("Connectors").await;
            chromium.open(&link).await;
            chromium.heading("You belong to it already").await;
            chromium.inspect("invitation-over").await;
        })
        .await;
    Chromium::visitor_of(&post.app)
        .without_scripts()
        .run(async |chromium| {
            sign_in(&post.app, chromium, ADA, TEAM).await;
            chromium.shows("Nora New").await;
            chromium.press("Change Nora New").await;
            chromium.picture("team-change").await;
            chromium.press("Save the role").await;
            chromium.shows("Nora New is a member now.").await;
        })
        .await;
    Chromium::visitor_of(&post.app)
        .run(async |chromium| {
            sign_in(&post.app, chromium, ADA, TEAM).await;
            chromium.press("Change Nora New").await;
            chromium.inspect("team-change-open").await;
            let viewer = "document.querySelector('details[open] select').value = 'viewer'";
            chromium.driver().execute(viewer, vec![]).await.unwrap();
            chromium.press("Save the role").await;
            chromium.shows("Nora New is a viewer now.").await;
            chromium.press("Change Nora New").await;
            chromium.follow("Remove Nora New").await;
            chromium.heading("Remove Nora New?").await;
            chromium.fill("Type their name to be sure: Nora New", "Nora").await;
            chromium.press("Remove them").await;
            chromium.shows("That is not their name.").await;
            chromium.inspect("team-remove-wrong").await;
            chromium.fill("Type their name to be sure: Nora New", "Nora New").await;
            chromium.press("Remove them").await;
            chromium.shows("They are out of the team").await;
            chromium.inspect("team-removed").await;
        })
        .await;
    assert!(post.app.app.store.find_users_by_email(NORA).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_password_is_set_anew() {
    let post = Post::start().await;
    Chromium::visitor_of(&post.app)
        .run(async |chromium| {
            chromium.open(&post.app.at("/sign-in")).await;
            chromium.follow("Forgotten your password?").await;
            chromium.heading("Forgotten password").await;
            chromium.inspect("forgotten").await;
            chromium.fill("E-mail address", ADA).await;
            chromium.press("Send the link").await;
            chromium.shows("If the address has an account here").await;
            chromium.inspect("forgotten-asked").await;
            let message = post.mail().await;
            can_be_read("password-reset", &message).await;
            let link = message.link_to("/reset/");
            chromium.open(&link).await;
            chromium.heading("Set a new password").await;
            chromium.inspect("reset").await;
            chromium.fill("New password", "short").await;
            chromium.press("Set it").await;
            chromium.shows("8 characters").await;
            chromium.inspect("reset-wrong").await;
            chromium.fill("New password", "another good password").await;
            chromium.press("Set it").await;
            chromium.shows("Your password is changed").await;
            chromium.inspect("reset-done").await;
            chromium.fill("E-mail address", ADA).await;
            chromium.fill("Password", "another good password").await;
            chromium.press("Sign in").await;
            chromium.heading("Connectors").await;
            chromium.open(&link).await;
            chromium.heading("This link is over").await;
            chromium.inspect("reset-over").await;
        })
        .await;
}
