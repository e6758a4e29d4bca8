//! Every route that changes something leaves exactly the lines in the audit log that stand here, by whoever used it. A route
//! that is added has to be given its actions, or its reason for leaving none.

use holdfast_app::admin::{self, Ask};
use holdfast_store::{AuditFilter, AuditLine, ByHand, JobFilter};
use holdfast_tests::people::PASSWORD;
use reqwest::Method;
use secrecy::SecretString;

use super::*;

on_both! {
    each_form_leaves_its_lines_in_the_audit_log,
    each_call_leaves_its_lines_in_the_audit_log,
    an_answer_that_names_a_link_leaves_no_line,
    signing_in_and_joining_leave_lines_of_whoever_does_it,
    what_is_connected_by_a_link_is_done_by_whoever_has_it,
    the_audit_log_is_of_one_org_on_pages_in_exports_and_in_the_api,
}

/// What the tests bring, and what is nowhere in the log.
const SECRET: &str = "canary-0f5d2c9b7a31";

/// Routes of the pages with what they leave: path, form, actions. In this order: whoever leaves does so at the end.
const FORMS: &[(&str, &str, &[&str])] = &[
    ("/connectors/new/{provider}", "account=desk-new&name=Desk", &["connector.created"]),
    ("/connectors/new/{provider}/link", "name=By+link", &["connector.created", "connect_link.made"]),
    ("/connectors/{id}/link", "", &["connect_link.made"]),
    ("/connectors/{id}/rename", "name=Another+name", &["connector.renamed"]),
    ("/connectors/{id}/account", "account=desk-other&name=NAMED", &["connector.account_changed"]),
    ("/connectors/{id}/webhook", "kind=events&act=secret&secret=canary-0f5d2c9b7a31", &["webhook.made"]),
    ("/connectors/{id}/disconnect", "name=NAMED", &["connector.disconnected"]),
    ("/connectors/{id}/delete", "name=NAMED", &["connector.deleted"]),
    ("/agents/new", "", &["agent.created"]),
    ("/agents/{id}/edit", "", &["agent.changed"]),
    ("/agents/{id}/pause", "", &["agent.paused"]),
    ("/agents/{id}/resume", "", &["agent.resumed"]),
    ("/agents/{id}/run", "", &["agent.run_by_hand"]),
    ("/agents/{id}/delete", "name=Looker", &["agent.deleted"]),
    ("/jobs/{id}/retry", "", &["job.retried"]),
    ("/jobs/{id}/discard", "", &["job.discarded"]),
    ("/jobs/discard", "kind=sync&state=waiting", &["job.discarded"]),
    ("/jobs/retry", "kind=sync&state=discarded", &["job.retried"]),
    ("/settings/account/name", "name=Ada+Lovelace", &["person.renamed"]),
    ("/settings/account/password", "current=PASSWORD&new=canary-0f5d2c9b7a31", &["password.changed"]),
    ("/settings/account/sessions/{id}/end", "", &["session.ended"]),
    ("/settings/account/sessions/end-others", "", &["session.others_ended"]),
    ("/settings/team/{id}/role", "role=viewer", &["member.role_changed"]),
    ("/settings/team/{id}/remove", "name=NAMED", &["member.removed"]),
    ("/settings/team/invitations", "email=new%40example.com&role=member", &["invitation.sent"]),
    ("/settings/team/invitations/{id}/again", "", &["invitation.sent_again"]),
    ("/settings/team/invitations/{id}/withdraw", "", &["invitation.withdrawn"]),
    ("/settings/notifications", "topics=failures&pace=hourly&hour=8&from=&to=&zone=UTC", &["notifications.changed"]),
    ("/settings/notifications/people", "who=MEMBER", &["notifications.person_changed"]),
    ("/settings/notifications/people/{id}/remove", "", &["notifications.person_changed"]),
    ("/settings/notifications/people/{id}/again", "", &["notifications.address_tried_again"]),
    (
        "/settings/notifications/channel",
        "address=https%3A%2F%2Fhooks.example.com%2Fcanary-0f5d2c9b7a31",
        &["channel.set"],
    ),
    ("/settings/notifications/channel/remove", "", &["channel.removed"]),
    ("/settings/organisation", "name=Acme&colour=%230b6b4f&origins=", &["organisation.changed"]),
    ("/settings/keys", "id=KEY&name=Robot&scope=tools", &["key.created"]),
    ("/settings/keys/{id}/revoke", "", &["key.revoked"]),
    (
        "/settings/event-endpoints",
        "url=https%3A%2F%2Fapp.example.com%2Fcanary-0f5d2c9b7a31&which=all&description=App",
        &["event_endpoint.created"],
    ),
    (
        "/settings/event-endpoints/{id}",
        "url=https%3A%2F%2Fapp.example.com%2Fcanary-0f5d2c9b7a31&which=all&description=Other",
        &["event_endpoint.changed"],
    ),
    ("/settings/event-endpoints/{id}/rotate", "", &["event_endpoint.secret_rotated"]),
    ("/settings/event-endpoints/{id}/replay", "since=2020-01-01T00%3A00", &["event_endpoint.replayed"]),
    ("/settings/event-endpoints/{id}/disable", "", &["event_endpoint.changed"]),
    ("/settings/event-endpoints/{id}/enable", "", &["event_endpoint.changed"]),
    ("/settings/event-endpoints/{id}/delete", "", &["event_endpoint.deleted"]),
    ("/settings/own-apps/{provider}", APP_FORM, &["oauth_app.changed"]),
    ("/settings/own-apps/{provider}/drop-next", "", &["oauth_app.changed"]),
    ("/settings/own-apps/{provider}/promote", "", &["oauth_app.changed"]),
    ("/settings/own-apps/{provider}/remove", "name=Zendesk", &["oauth_app.removed"]),
    ("/settings/oauth-apps/{provider}", APP_FORM, &["oauth_app.changed"]),
    ("/settings/oauth-apps/{provider}/drop-next", "", &["oauth_app.changed"]),
    ("/settings/oauth-apps/{provider}/promote", "", &["oauth_app.changed"]),
    ("/settings/migrations/{id}/end", "", &["migration.ended"]),
    ("/settings/migrations", "provider=zendesk&deadline=DAY&reason=Because&act=start", &["migration.started"]),
    ("/settings/oauth-apps/{provider}/remove", "name=Zendesk", &["oauth_app.removed"]),
    ("/settings/team/leave", "name=Acme", &["member.left"]),
    ("/sign-out", "", &["session.ended"]),
];

/// A secret would be shown to the provider; those come by `promote`.
const APP_FORM: &str = "client_id=CLIENT&ends_on=DAY";

/// Routes of the pages that leave nothing here, and why.
const NO_LINES: &[(&str, &str)] = &[
    ("/setup", "there is an org by then: see signing_in_and_joining"),
    ("/sign-in", "nobody is signed in before: see signing_in_and_joining"),
    ("/invitation/{token}", "nobody is signed in before: see signing_in_and_joining"),
    ("/reset/{token}", "nobody is signed in before: see signing_in_and_joining"),
    ("/sign-in/code", "nobody is signed in before"),
    ("/sign-in/provider", "goes to the identity provider; who comes back is told as signing in"),
    ("/settings/account/two-factor/begin", "makes a secret that nothing hangs on yet"),
    ("/settings/account/two-factor/on", "takes an app: see ui_two_factor"),
    ("/settings/account/two-factor/codes", "takes an app: see ui_two_factor"),
    ("/settings/account/two-factor/off", "takes an app: see ui_two_factor"),
    ("/settings/account/unlink", "takes an identity provider: see ui_oidc"),
    ("/settings/team/two-factor", "takes an app: see ui_two_factor"),
    ("/settings/notifications/test", "sends a test mail; nothing of the org's changes"),
    ("/settings/notifications/channel/test", "sends a test; nothing of the org's changes"),
    ("/forgotten", "nobody looks whether anybody has the address"),
    ("/connect/{link}", "begins a consent; its end is told when the grant is stored"),
    ("/reconnect/{token}", "begins a consent; its end is told when the grant is stored"),
    ("/connect/key/{state}", "ends a consent; told when the grant is stored"),
    ("/connectors/{id}/reconnect", "begins a consent; its end is told when the grant is stored"),
    ("/connectors/{id}/test", "asks the provider; nothing of the org's changes"),
    ("/connectors/{id}/sync", "reads again; nothing of the org's changes"),
    ("/settings/organisations", "needs two accounts: see signing_in_and_joining"),
    ("/settings/event-endpoints/{id}/test", "sends a test; nothing of the org's changes"),
    ("/settings/own-apps/{provider}/check", "asks the provider; nothing of the org's changes"),
    ("/settings/oauth-apps/{provider}/check", "asks the provider; nothing of the instance's changes"),
];

/// Calls of the API with what they leave.
const CALLS: &[(&str, &str, &[&str])] = &[
    ("POST", "/connectors", &["connector.created"]),
    ("PATCH", "/connectors/{id}", &["connector.renamed", "connector.extra_changed"]),
    ("DELETE", "/connectors/{id}", &["connector.deleted"]),
    ("POST", "/connectors/{id}/disconnect", &["connector.disconnected"]),
    ("POST", "/connectors/{id}/reconnect", &["connect_link.made"]),
    ("POST", "/connectors/{id}/webhook", &["webhook.made"]),
    ("POST", "/connect-sessions", &["connector.created", "connect_link.made"]),
    ("POST", "/agents", &["agent.created"]),
    ("PATCH", "/agents/{id}", &["agent.changed"]),
    ("POST", "/agents/{id}/pause", &["agent.paused"]),
    ("POST", "/agents/{id}/resume", &["agent.resumed"]),
    ("POST", "/agents/{id}/run", &["agent.run_by_hand"]),
    ("DELETE", "/agents/{id}", &["agent.deleted"]),
    ("POST", "/jobs/{id}/retry", &["job.retried"]),
    ("POST", "/jobs/{id}/discard", &["job.discarded"]),
    ("POST", "/jobs/discard", &["job.discarded"]),
    ("POST", "/jobs/retry", &["job.retried"]),
    ("POST", "/event-endpoints", &["event_endpoint.created"]),
    ("PATCH", "/event-endpoints/{id}", &["event_endpoint.changed"]),
    ("POST", "/event-endpoints/{id}/rotate-secret", &["event_endpoint.secret_rotated"]),
    ("POST", "/event-endpoints/{id}/replay", &["event_endpoint.replayed"]),
    ("DELETE", "/event-endpoints/{id}", &["event_endpoint.deleted"]),
];

/// Calls of the API that leave nothing, and why.
const QUIET_CALLS: &[(&str, &str)] = &[
    ("/connectors/{id}/test", "asks the provider; nothing of the org's changes"),
    ("/connectors/{id}/sync", "reads again; nothing of the org's changes"),
    ("/connectors/{id}/token/rejected", "fetches a token"),
    ("/connectors/{id}/tools/{tool}", "what is changed is the provider's, and its log's to tell"),
    ("/connectors/{id}/proxy/{path}", "what is changed is the provider's, and its log's to tell"),
    ("/event-endpoints/{id}/test", "sends a test; nothing of the org's changes"),
];

/// All lines of the org and of the instance, newest first.
async fn lines(house: &House) -> Vec<AuditLine> {
    let filter = AuditFilter { instance: true, ..AuditFilter::default() };
    house.app.app.store.audit_lines(&house.app.org, &filter, None, 10_000).await.unwrap().data
}

/// What came since, the oldest first.
async fn since(house: &House, before: &[AuditLine]) -> Vec<AuditLine> {
    let mut all = lines(house).await;
    all.truncate(all.len() - before.len());
    all.reverse();
    all
}

async fn holds_no_secret(db: &Database, secrets: &[&str]) {
    let rows = db.content().await.remove("audit_log").unwrap().join("\n");
    assert!(rows.contains("holdfast"), "the table is read");
    for secret in secrets.iter().chain(&[SECRET, CLIENT_SECRET, PASSWORD, "argon2"]) {
        assert!(!rows.contains(secret), "{secret} is in the audit log");
    }
}

/// What has to be there before a route can change something.
async fn prepare(house: &House, path: &str, filled: &str) {
    let (store, at) = (&house.app.app.store, house.app.app.seams.clock.now());
    let org = &house.app.org;
    let id = filled.split('/').find(|part| part.contains('_')).unwrap_or_default();
    match path {
        "/agents/{id}/resume" => {
            store.pause_agent(org, &id.into(), "somebody", at).await.unwrap();
        }
        "/jobs/{id}/retry" => {
            store.handle_job(org, id, ByHand::Discard, "somebody", at).await.unwrap();
        }
        "/jobs/discard" | "/jobs/retry" => {
            let job = house.job().await;
            if path == "/jobs/retry" {
                store.handle_job(org, &job, ByHand::Discard, "somebody", at).await.unwrap();
                house.app.advance(std::time::Duration::from_secs(1));
            }
        }
        "/settings/notifications/people/{id}/remove" => {
            let by = house.id(Who::Of(Role::Owner)).unwrap();
            store.add_addressee(org, id, true, by, at).await.unwrap();
        }
        "/settings/notifications/people/{id}/again" => {
            let tell = Tell { at, domain: "hub.example".to_owned(), sends: false };
            let email = store.find_user(id).await.unwrap().unwrap().email;
            store.note_refused_address(&tell, &email, "550", true).await.unwrap();
        }
        "/settings/account/sessions/end-others" => {
            house.session(house.id(Who::Of(Role::Owner)).unwrap()).await;
        }
        _ if path.ends_with("/replay") => {
            // An event that the endpoint was to be told of.
            house.app.import(&format!("desk-{}", id_word())).await;
            let filter = JobFilter { kind: Some(Kind::Deliver), ..JobFilter::default() };
            store.handle_jobs(org, &filter, ByHand::Discard, "somebody", at).await.unwrap();
        }
        _ if path.ends_with("/drop-next") || path.ends_with("/promote") => {
            let of = if path.contains("own-apps") { Some(org) } else { None };
            let mut stored = store.find_oauth_app(of, "zendesk").await.unwrap().unwrap();
            let secret = SecretString::from(format!("{SECRET}-next"));
            stored.next_secret = Some(AppSecret { secret: Some(secret), set_at: at, checked_at: None });
            store.save_oauth_app(&stored).await.unwrap();
        }
        _ => {}
    }
}

/// What a form that asks whether somebody is sure wants to be typed.
async fn named(house: &House, filled: &str) -> String {
    let (store, mut parts) = (&house.app.app.store, filled.split('/').filter(|part| part.contains('_')));
    let id = parts.next().unwrap_or_default();
    if let Some(user) = store.find_user(id).await.unwrap() {
        return user.shown().to_owned();
    }
    let connector = store.find_connector(&house.app.org, id).await.unwrap();
    connector.map(|view| view.snapshot.name).unwrap_or_default()
}

/// The form of the page itself, where what is typed is not all of it.
async fn form_of(house: &House, browser: &Browser, path: &str, filled: &str) -> Option<String> {
    let page = match path {
        "/agents/new" => "/agents/new?sample=own",
        "/agents/{id}/edit" => filled,
        _ => return None,
    };
    let form = browser.open(&house.app.at(page)).await.form(filled);
    Some(form.with("name", &format!("Agent {}", id_word())).encoded())
}

async fn each_form_leaves_its_lines_in_the_audit_log(db: Arc<Database>) {
    let known: BTreeSet<_> =
        FORMS.iter().map(|(path, ..)| *path).chain(NO_LINES.iter().map(|(path, _)| *path)).collect();
    let posts: BTreeSet<_> = TABLE.iter().filter(|(method, ..)| *method == "POST").map(|(_, path, _)| *path).collect();
    assert_eq!(known, posts, "left: the lists here; right: the forms that there are");
    let house = House::new(&db).await;
    let owner = house.id(Who::Of(Role::Owner)).unwrap();
    let email = house.app.app.store.find_user(owner).await.unwrap().unwrap().email;
    let ask = Ask::UserSetPassword { email, org: None, password: Some(PASSWORD.to_owned()) };
    admin::run(&house.app.app, ask).await.unwrap();
    house.app.import("desk-of-an-agent").await;
    let key = house.app.key_with(&["admin"]).await;
    let mut wrong = Vec::new();

    for (path, form, actions) in FORMS {
        let takes = TABLE.iter().find(|(method, own, _)| *method == "POST" && own == path).unwrap().2;
        let who = match takes {
            Takes::Operator => Who::Operator,
            _ if *path == "/settings/team/leave" => Who::Of(Role::Viewer),
            _ => Who::Of(Role::Owner),
        };
        let browser = house.browser(who).await;
        let filled = match *path {
            // One that has all it needs.
            "/agents/{id}/edit" => {
                let connector = house.app.import(&format!("desk-{}", id_word())).await;
                let body = json!({ "sample": "annotate_urgent_tickets", "connectors": [{ "connector": connector }] });
                let made = house.app.call(Method::POST, "/agents", Some(&key), Some(body)).await.expect(201);
                path.replace("{id}", &made.text_of("id"))
            }
            _ => house.path(path, who).await,
        };
        let csrf = house.csrf(&browser, who).await;
        prepare(&house, path, &filled).await;
        let own_form = form_of(&house, &browser, path, &filled).await;
        let of = if path.contains("own-apps") { Some(&house.app.org) } else { None };
        let named = named(&house, &filled).await;
        let stored = house.app.app.store.find_oauth_app(of, "zendesk").await.unwrap();
        let member = if form.contains("MEMBER") { house.member().await } else { String::new() };
        let form = form
            .replace("MEMBER", &member)
            .replace("PASSWORD", &PASSWORD.replace(' ', "+"))
            .replace("NAMED", &named)
            .replace("CLIENT", stored.as_ref().map(|stored| stored.client_id.as_str()).unwrap_or_default())
            .replace("KEY", &house.app.app.store.new_key_id())
            .replace("DAY", &holdfast_tests::days::deadline());
        let form = own_form.unwrap_or_else(|| {
            format!("csrf={csrf}&revision={}&{form}", stored.map(|stored| stored.revision).unwrap_or_default())
        });
        let before = lines(&house).await;

        let page = browser.send_body(&house.app.at(&filled), &form, &[]).await;

        let new = since(&house, &before).await;
        let is: Vec<_> = new.iter().map(|line| line.action.as_str()).collect();
        let by = |line: &AuditLine| {
            let kind = if takes == Takes::Operator { "operator" } else { "person" };
            (line.actor.0.as_str(), line.actor.1.as_deref(), line.from.0.as_str()) == (kind, house.id(who), "web")
        };
        if is != *actions || !new.iter().all(by) {
            wrong.push(format!("{path} ({}): {new:?} instead of {actions:?}: {}", page.status, page.title()));
        }
    }

    assert_eq!(wrong, Vec::<String>::new());
    holds_no_secret(&db, &[]).await;
}

/// What stands in a call.
async fn call_of(house: &House, path: &str) -> (String, serde_json::Value) {
    let id = match path {
        "/connectors/{id}/disconnect" | "/connectors/{id}/webhook" => {
            house.app.import(&format!("desk-{}", id_word())).await
        }
        "/agents" => house.app.import(&format!("desk-{}", id_word())).await,
        _ if path.starts_with("/connectors/{id}") => {
            let body = json!({ "provider": "zendesk", "account": format!("desk-{}", id_word()) });
            house.app.post("/connectors", body).await.expect(201).text_of("id")
        }
        _ if path.starts_with("/agents/{id}") => house.agent_with_a_run().await.0,
        _ if path.starts_with("/jobs/{id}") => house.job().await,
        _ if path.starts_with("/event-endpoints/{id}") => house.endpoint().await,
        _ => String::new(),
    };
    let body = match path {
        "/connectors" => json!({ "provider": "zendesk", "account": format!("desk-{}", id_word()) }),
        "/connectors/{id}" => json!({ "name": "Another name", "extras": { "note": SECRET } }),
        "/connectors/{id}/webhook" => json!({ "secret": SECRET }),
        "/connect-sessions" => json!({ "provider": "zendesk" }),
        "/agents" => json!({ "sample": "annotate_urgent_tickets", "connectors": [{ "connector": id }] }),
        "/agents/{id}" => json!({ "name": "Another name" }),
        "/jobs/retry" => json!({ "kind": "sync", "state": "discarded" }),
        "/jobs/discard" => json!({ "kind": "sync", "state": "waiting" }),
        "/event-endpoints" => json!({ "url": format!("https://app.example.com/{SECRET}") }),
        "/event-endpoints/{id}" => json!({ "description": "Another one" }),
        "/event-endpoints/{id}/replay" => json!({ "since": "2020-01-01T00:00:00Z" }),
        _ => json!({}),
    };
    (path.replace("{id}", &id), body)
}

async fn each_call_leaves_its_lines_in_the_audit_log(db: Arc<Database>) {
    let house = House::new(&db).await;
    let document = house.app.call(Method::GET, "/openapi.json", None, None).await;
    let mut known: BTreeSet<_> = CALLS.iter().map(|(method, path, _)| format!("{method} {path}")).collect();
    let mut declared = BTreeSet::new();
    for (path, item) in document.json["paths"].as_object().unwrap() {
        let path = path.strip_prefix("/api/v1").unwrap_or(path);
        let quiet = QUIET_CALLS.iter().any(|(own, _)| *own == path);
        let changing = ["post", "put", "patch", "delete"].into_iter().filter(|method| item.get(*method).is_some());
        declared.extend(changing.filter(|_| !quiet).map(|method| format!("{} {path}", method.to_uppercase())));
    }
    known.retain(|one| !QUIET_CALLS.iter().any(|(path, _)| one.ends_with(path)));
    assert_eq!(known, declared, "left: the lists here; right: the calls that there are");
    let key = house.app.key_with(&["admin"]).await;
    let own = house.app.app.store.keys(&house.app.org).await.unwrap().pop().unwrap().id;
    let mut wrong = Vec::new();

    for (method, path, actions) in CALLS {
        let (filled, body) = call_of(&house, path).await;
        prepare(&house, path, &filled).await;
        let before = lines(&house).await;

        let answer = house.app.call(method.parse().unwrap(), &filled, Some(&key), Some(body)).await;

        let new = since(&house, &before).await;
        let is: Vec<_> = new.iter().map(|line| line.action.as_str()).collect();
        let by = |line: &AuditLine| {
            (line.actor.0.as_str(), line.actor.1.as_deref(), line.from.0.as_str()) == ("key", Some(own.as_str()), "api")
        };
        if is != *actions || !new.iter().all(by) {
            wrong.push(format!("{method} {path} ({}): {new:?} instead of {actions:?}: {}", answer.status, answer.text));
        }
    }

    assert_eq!(wrong, Vec::<String>::new());
    holds_no_secret(&db, &[&key]).await;
}

async fn signing_in_and_joining_leave_lines_of_whoever_does_it(db: Arc<Database>) {
    let house = House::new(&db).await;
    let bob = house.app.person("Acme", "bob@example.com", Role::Member).await;
    let again = house.app.person("Globex", "bob@example.com", Role::Member).await;
    let made = lines(&house).await;
    assert_eq!(
        (made[0].action.as_str(), made[0].actor.0.as_str(), made[0].from.0.as_str()),
        ("member.added", "cli", "cli")
    );

    let browser = Browser::new();
    let refused = house.app.try_to_sign_in(&browser, "bob@example.com", SECRET).await;
    assert_eq!(refused.status, 422);
    let browser = house.app.signed_in("bob@example.com").await;
    let csrf = browser.open(&house.app.at("/settings")).await.form("/sign-out").value("csrf").unwrap().to_owned();
    let fields = [("csrf", csrf.as_str()), ("user", again.as_str())];
    assert_eq!(browser.submit(&house.app.at("/settings/organisations"), &fields).await.status, 303);
    let invited = house.app.app.store.find_invitation(&house.invitation().await).await.unwrap().unwrap();
    let link = holdfast_app::keys::hash("a-link");
    let at = house.app.app.seams.clock.now();
    house.app.app.store.mint_link(&invited.id, &link, at).await.unwrap();
    let joiner = Browser::new();
    let form = joiner.open(&house.app.at("/invitation/a-link")).await.form("/invitation/a-link");
    let page = joiner.send_form(&form.with("name", "Eve").with("password", "canary-0f5d2c9b7a31")).await;
    assert_eq!(page.status, 303, "{}", page.text);

    let new = since(&house, &made).await;
    let told: Vec<_> =
        new.iter().map(|line| (line.action.as_str(), line.actor.0.as_str(), line.from.0.as_str())).collect();
    assert_eq!(
        told,
        [
            ("person.sign_in_failed", "visitor", "web"),
            ("person.signed_in", "person", "web"),
            ("invitation.sent", "holdfast", "none"),
            ("member.joined", "person", "link"),
            ("person.signed_in", "person", "link"),
        ]
    );
    assert_eq!(new[1].actor.1.as_deref(), Some(bob.as_str()));
    assert_eq!(new[3].actor.2, "Eve");
    let globex = house.app.app.store.find_org("Globex").await.unwrap().unwrap();
    let theirs = house.app.app.store.audit_lines(&globex, &AuditFilter::default(), None, 10).await.unwrap().data;
    assert_eq!(theirs[0].action, "person.came_over");
    assert_eq!(theirs[0].actor.1.as_deref(), Some(again.as_str()));
    holds_no_secret(&db, &["a-link"]).await;
}

async fn what_is_connected_by_a_link_is_done_by_whoever_has_it(db: Arc<Database>) {
    let app = TestApp::start(&db).await;

    let connector = app.connect("acme").await;

    let lines = app.app.store.audit_lines(&app.org, &AuditFilter::default(), None, 100).await.unwrap().data;
    let line = lines.iter().find(|line| line.action == "connector.connected").unwrap();
    assert_eq!((line.actor.0.as_str(), line.from.0.as_str(), line.target.1.as_str()), ("link", "link", &*connector));
    holds_no_secret(&db, &[]).await;
}

async fn the_audit_log_is_of_one_org_on_pages_in_exports_and_in_the_api(db: Arc<Database>) {
    let house = House::new(&db).await;
    let rename = async |who: Who, id: &str, name: &str| {
        let browser = house.browser(who).await;
        let csrf = house.csrf(&browser, who).await;
        let fields = [("csrf", csrf.as_str()), ("name", name)];
        assert_eq!(browser.submit(&house.app.at("/settings/account/name"), &fields).await.status, 303, "{id}");
    };
    rename(Who::Of(Role::Owner), "own", "=1+Mallory").await;
    rename(Who::Stranger, "theirs", "Stranger").await;
    let browser = house.browser(Who::Of(Role::Admin)).await;
    let page = browser.open(&house.app.at("/settings/audit")).await;

    assert!(page.text.contains("changed the name of their own account from"), "{}", page.text);
    assert!(page.text.contains("=1+Mallory") && !page.text.contains("Stranger"), "{}", page.text);
    let export =
        async |format: &str| browser.get(&house.app.at(&format!("/settings/audit/export?format={format}"))).await;
    let (csv, jsonl) = (export("csv").await, export("jsonl").await);
    assert!(csv.text.starts_with("at,actor_kind,") && csv.text.contains("\"'=1+Mallory\""), "{}", csv.text);
    let all = lines(&house).await;
    let own: Vec<_> = all.iter().filter(|line| line.org.is_some()).collect();
    assert_eq!(csv.text.lines().count(), own.len() + 1);
    assert_eq!(jsonl.text.lines().count(), own.len());
    for line in jsonl.text.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(own.iter().any(|own| line["id"] == own.id));
    }
    for text in [&csv.text, &jsonl.text] {
        assert!(!text.contains("Stranger") && !text.contains("oauth_app.created\",\"operator"));
    }
    // Only an operator sees what concerns all.
    let everything = house.browser(Who::Operator).await.get(&house.app.at("/settings/audit")).await;
    assert_eq!(everything.status, 403, "who only looks at their org does not look at its log");

    let none = browser.open(&house.app.at("/settings/audit?who=nobody-like-that")).await;
    assert!(none.text.contains("No such change"), "{}", none.text);
    let bad = browser.get(&house.app.at("/settings/audit?since=yesterday")).await;
    assert_eq!(bad.status, 422);
    let reversed = browser.get(&house.app.at("/settings/audit?since=2026-12-02&until=2026-12-01")).await;
    assert!(reversed.status == 422 && reversed.says("the wrong way round"), "{}", reversed.text);

    let key = house.app.key_with(&["audit:read"]).await;
    let answer = house.app.call(Method::GET, "/audit?action=person.rena&limit=1", Some(&key), None).await.expect(200);
    assert_eq!(answer.json["data"][0]["action"], "person.renamed");
    assert_eq!(answer.json["data"][0]["after"], json!({ "name": "=1+Mallory" }));
    assert_eq!(answer.json["next_cursor"], serde_json::Value::Null);
    let globex = house.app.key_of("Globex").await;
    let theirs = house.app.call(Method::GET, "/audit?limit=200", Some(&globex), None).await.expect(200);
    assert!(theirs.text.contains("Stranger") && !theirs.text.contains("Mallory"), "{}", theirs.text);
    let first = house.app.call(Method::GET, "/audit?limit=1", Some(&key), None).await.expect(200);
    let cursor = first.text_of("next_cursor");
    let stolen = house.app.call(Method::GET, &format!("/audit?cursor={cursor}"), Some(&globex), None).await.expect(200);
    assert!(!stolen.text.contains("Mallory"), "{}", stolen.text);
    let lacks = house.app.key_with(&["connectors:read"]).await;
    let _lacks = house.app.call(Method::GET, "/audit", Some(&lacks), None).await.problem(403, "missing_scope");
    let _bad = house.app.call(Method::GET, "/audit?cursor=x", Some(&key), None).await.problem(422, "invalid");
}

async fn an_answer_that_names_a_link_leaves_no_line(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let id = app.import("acme").await;
    app.fail(&id).await;
    let lines = async || db.number("SELECT COUNT(*) FROM audit_log").await;
    let before = lines().await;

    for _ in 0..3 {
        let told = app.token(&id).await.problem(409, "connector_auth_failed");
        assert!(told.text_of("reconnect_url").contains("/connect/"), "{}", told.text);
        app.advance(std::time::Duration::from_hours(1));
    }

    assert_eq!(lines().await, before);
}
