//! The team's page: who is there, what they may do, and how they leave.

use std::sync::Arc;

use holdfast_core::Role;
use holdfast_tests::{
    browser::{Browser, Page},
    database::Database,
    on_both,
    people::Person,
    service::TestApp,
    smtp::Smtp,
};

on_both! {
    everybody_sees_the_team_and_admins_change_it,
    only_owners_make_and_unmake_owners,
    who_is_removed_is_out_at_once_and_what_stops_is_said_before,
    the_last_owner_stays_until_somebody_else_is_one,
    whoever_leaves_is_out_there_and_nowhere_else,
    without_mail_the_link_of_an_invitation_is_shown_once,
    who_is_invited_again_with_another_role_is_told_which_link_counts,
}

const TEAM: &str = "/settings/team";

async fn id_of(app: &TestApp, person: &Person) -> String {
    let users = app.app.store.users(&app.org).await.unwrap();
    users.into_iter().find(|user| user.email == person.email).unwrap().id
}

async fn role_of(app: &TestApp, person: &Person) -> Role {
    let users = app.app.store.users(&app.org).await.unwrap();
    users.into_iter().find(|user| user.email == person.email).unwrap().role
}

/// Asks for a role, whether the page offers it or not.
async fn make(app: &TestApp, by: &Person, of: &Person, role: &str) -> Page {
    let csrf = by.open("/settings").await.form("/sign-out").unwrap().value("csrf").unwrap().to_owned();
    let address = app.at(&format!("{TEAM}/{}/role", id_of(app, of).await));
    by.browser.send_body(&address, &format!("csrf={csrf}&role={role}"), &[]).await
}

async fn everybody_sees_the_team_and_admins_change_it(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let (ada, ben) = (app.somebody(Role::Owner).await, app.somebody(Role::Admin).await);
    let (cleo, dan) = (app.somebody(Role::Member).await, app.somebody(Role::Viewer).await);
    app.person("Acme", "never@acme.example", Role::Viewer).await;
    app.somebody_of("Globex", Role::Owner).await;

    for reader in [&ada, &ben, &cleo, &dan] {
        let page = reader.open(TEAM).await.expect(200);
        for one in [&ada, &ben, &cleo, &dan] {
            assert!(page.says(&one.email), "{}: {}", one.email, page.text);
        }
        assert!(page.says("Not yet") && page.says("You") && !page.says("globex"), "{}", page.text);
    }
    assert!(cleo.open(TEAM).await.forms().iter().all(|form| form.path() == "/sign-out"), "members look");

    let form = format!("{TEAM}/{}/role", id_of(&app, &dan).await);
    let page = ben.submit_and_go_on(TEAM, &form, &[("role", "member")]).await;
    assert!(page.says(&format!("{} is a member now.", dan.email)), "{}", page.text);
    assert_eq!(role_of(&app, &dan).await, Role::Member);
    assert_eq!(make(&app, &ben, &dan, "king").await.status, 400);
    assert_eq!(make(&app, &cleo, &dan, "viewer").await.status, 403);
}

async fn only_owners_make_and_unmake_owners(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let (ada, ben, cleo) =
        (app.somebody(Role::Owner).await, app.somebody(Role::Admin).await, app.somebody(Role::Member).await);

    for (of, role) in [(&ben, "owner"), (&cleo, "owner"), (&ada, "admin")] {
        let page = make(&app, &ben, of, role).await.expect(403);
        assert!(page.says("It takes the role owner."), "{}", page.text);
    }
    let removal = format!("{TEAM}/{}/remove", id_of(&app, &ada).await);
    assert_eq!(ben.open(&removal).await.status, 403);
    assert!(!ben.open(TEAM).await.text.contains(&removal));

    let _page = make(&app, &ada, &ben, "owner").await.expect(303);
    let _page = make(&app, &ben, &ada, "admin").await.expect(303);
    assert_eq!((role_of(&app, &ada).await, role_of(&app, &ben).await), (Role::Admin, Role::Owner));
    // Anybody may step down by themselves.
    let _page = make(&app, &ada, &ada, "viewer").await.expect(303);
    assert_eq!(make(&app, &ada, &ada, "admin").await.status, 403);
}

async fn who_is_removed_is_out_at_once_and_what_stops_is_said_before(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let (ada, ben) = (app.somebody(Role::Owner).await, app.somebody(Role::Admin).await);
    app.person("Globex", &ben.email, Role::Viewer).await;
    let removal = format!("{TEAM}/{}/remove", id_of(&app, &ben).await);

    let page = ada.open(&removal).await.expect(200);
    for words in ["signed out of Acme at once", "Links in mails", "told to the other owners and admins", "API keys"] {
        assert!(page.says(words), "{words}: {}", page.text);
    }
    let wrong = ada.submit(&removal, &removal, &[("name", "somebody")]).await.expect(422);
    assert!(wrong.says("That is not their name."), "{}", wrong.text);
    assert_eq!(app.settings_of(&ben.browser).await, 200);

    let done = ada.submit_and_go_on(&removal, &removal, &[("name", &ben.email)]).await;

    assert!(done.says("They are out of the team") && !done.says(&ben.email), "{}", done.text);
    assert_eq!(app.settings_of(&ben.browser).await, 303);
    let there = app.signed_in(&ben.email).await;
    assert!(there.get(&app.at("/settings")).await.says("Globex"), "elsewhere nothing has changed");
    assert_eq!(ada.open(&removal).await.status, 404);
}

async fn the_last_owner_stays_until_somebody_else_is_one(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let (ada, ben) = (app.somebody(Role::Owner).await, app.somebody(Role::Admin).await);
    let leave = format!("{TEAM}/leave");

    assert!(ada.open(TEAM).await.says("You are the only owner, and stay until somebody else is one."));
    for page in [make(&app, &ada, &ada, "admin").await, ada.submit(&leave, &leave, &[("name", "Acme")]).await] {
        assert!(page.status == 409 && page.says("The last owner stays"), "{}", page.text);
    }
    assert_eq!(role_of(&app, &ada).await, Role::Owner);
    let _page = make(&app, &ada, &ben, "owner").await.expect(303);
    let _page = ada.submit(&leave, &leave, &[("name", "Acme")]).await.expect(303);
    assert_eq!(app.settings_of(&ada.browser).await, 303);
}

async fn whoever_leaves_is_out_there_and_nowhere_else(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    app.somebody(Role::Owner).await;
    let eve = app.somebody(Role::Viewer).await;
    app.person("Globex", &eve.email, Role::Viewer).await;
    let leave = format!("{TEAM}/leave");

    let page = eve.open(&leave).await.expect(200);
    assert!(page.says("Only an invitation brings you back"), "{}", page.text);
    let _page = eve.submit(&leave, &leave, &[("name", "Globex")]).await.expect(422);
    let left = eve.submit_and_go_on(&leave, &leave, &[("name", "Acme")]).await;

    assert!(left.says("You have left the organisation."), "{}", left.text);
    let there = app.signed_in(&eve.email).await;
    assert!(there.get(&app.at("/settings")).await.says("Globex"));
}

async fn without_mail_the_link_of_an_invitation_is_shown_once(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let ada = app.somebody(Role::Owner).await;
    let to = "/settings/team/invitations";

    let page = ada.submit(TEAM, to, &[("email", "new@else.example"), ("role", "member")]).await.expect(200);

    let link = page.html(&app.at(TEAM)).codes.into_iter().find(|code| code.contains("/invitation/")).unwrap();
    assert!(page.says("hand this link over yourself"), "{}", page.text);
    assert!(!ada.open(TEAM).await.text.contains(&link) && ada.open(TEAM).await.says("By a link"));
    let path = link.strip_prefix(&app.base).unwrap();
    let fields = [("name", "Nora"), ("password", "a good long password")];
    let _page = Browser::new().press(&link, path, &fields).await.expect(303);
    assert!(ada.open(TEAM).await.says("Nora"));
}

async fn who_is_invited_again_with_another_role_is_told_which_link_counts(db: Arc<Database>) {
    let smtp = Smtp::start().await;
    let app = TestApp::builder(&db).with(|config| smtp.configure(config)).start().await;
    let ada = app.somebody(Role::Owner).await;
    let mut links = Vec::new();
    for (role, told) in [
        ("member", "new@else.example is invited as a member."),
        ("member", "was invited already: the invitation, as a member, is sent again"),
        ("admin", "was invited already, with another role. The invitation is changed to an admin"),
    ] {
        let fields = [("email", "new@else.example"), ("role", role)];
        let page = ada.submit_and_go_on(TEAM, "/settings/team/invitations", &fields).await.expect(200);
        assert!(page.says(told), "{told}: {}", page.text);
        app.app.mail_due().await.unwrap();
        links.push(smtp.messages_to("new@else.example").await.pop().unwrap().link_to("/invitation/"));
    }

    for old in &links[..2] {
        let page = Browser::new().get(old).await;
        assert!(page.status == 410 && page.says("A newer invitation is in its place"), "{}", page.text);
    }
    let path = links[2].strip_prefix(&app.base).unwrap();
    let fields = [("name", "Nora"), ("password", "a good long password")];
    let _joined = Browser::new().press(&links[2], path, &fields).await.expect(303);
    let users = app.app.store.find_users_by_email("new@else.example").await.unwrap();
    assert_eq!(users[0].role, Role::Admin);
}
