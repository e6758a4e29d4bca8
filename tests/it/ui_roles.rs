//! Who may use which page: one table of role and route. It has to name every route that exists, so that none is forgotten.

mod audit;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::TimeDelta;
use holdfast_app::{serve, ui};
use holdfast_core::{
    Role,
    agent::{RunState, StepOutcome, Trigger},
    job::Kind,
    ports::Random as _,
};
use holdfast_sandbox::{CLIENT_ID, CLIENT_SECRET};
use holdfast_store::{
    AppSecret, End, Invited, Made, MigrationStart, NewAgent, NewBrowserSession, NewInvitation, NewJob, NewMigration,
    NewUser, RunStep, StoredApp, Tell,
};
use holdfast_tests::{
    browser::{Browser, Page},
    database::Database,
    on_both,
    service::TestApp,
};
use serde_json::json;
use sha2::{Digest as _, Sha256};

on_both! {
    each_role_opens_what_it_may_and_nothing_else,
    a_form_without_its_token_or_from_elsewhere_changes_nothing,
    looking_changes_nothing,
}

/// What a route takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    /// Nothing: the page has its own matter with whoever comes.
    Nothing,
    /// A link: nobody's role matters, and the tests of links say what does.
    Link,
    /// Any role.
    SignedIn,
    /// This role, or more.
    Role(Role),
    /// The operator's flag, whatever the role.
    Operator,
}

const ADMIN: Takes = Takes::Role(Role::Admin);

/// Every route of the pages.
const TABLE: &[(&str, &str, Takes)] = &[
    ("GET", "/", Takes::Nothing),
    ("GET", "/static/{file}", Takes::Nothing),
    ("GET", "/brand/{colour}", Takes::Nothing),
    ("GET", "/favicon.ico", Takes::Nothing),
    ("GET", "/robots.txt", Takes::Nothing),
    ("GET", "/setup", Takes::Nothing),
    ("POST", "/setup", Takes::Nothing),
    ("GET", "/sign-in", Takes::Nothing),
    ("POST", "/sign-in", Takes::Nothing),
    ("GET", "/sign-in/code", Takes::Nothing),
    ("POST", "/sign-in/code", Takes::Nothing),
    ("POST", "/sign-in/provider", Takes::Nothing),
    ("GET", "/sign-in/callback", Takes::Nothing),
    ("POST", "/sign-out", Takes::Nothing),
    ("GET", "/forgotten", Takes::Nothing),
    ("POST", "/forgotten", Takes::Nothing),
    ("GET", "/reset/{token}", Takes::Link),
    ("POST", "/reset/{token}", Takes::Link),
    ("GET", "/invitation/{token}", Takes::Link),
    ("POST", "/invitation/{token}", Takes::Link),
    ("GET", "/demo/open/{key}", Takes::Nothing),
    ("GET", "/demo/mailbox", Takes::SignedIn),
    ("GET", "/demo/mailbox/{id}", Takes::SignedIn),
    ("GET", "/demo/mailbox/{id}/html", Takes::SignedIn),
    ("GET", "/events", Takes::SignedIn),
    ("GET", "/connectors", Takes::SignedIn),
    ("GET", "/history", Takes::SignedIn),
    ("GET", "/connectors/new", ADMIN),
    ("GET", "/connectors/new/{provider}", ADMIN),
    ("POST", "/connectors/new/{provider}", ADMIN),
    ("GET", "/connectors/new/{provider}/account", ADMIN),
    ("POST", "/connectors/new/{provider}/link", ADMIN),
    ("GET", "/connectors/{id}", Takes::SignedIn),
    ("POST", "/connectors/{id}/test", Takes::Role(Role::Member)),
    ("POST", "/connectors/{id}/sync", Takes::Role(Role::Member)),
    ("POST", "/connectors/{id}/reconnect", ADMIN),
    ("POST", "/connectors/{id}/link", ADMIN),
    ("POST", "/connectors/{id}/rename", ADMIN),
    ("GET", "/connectors/{id}/account", ADMIN),
    ("POST", "/connectors/{id}/account", ADMIN),
    ("GET", "/connectors/{id}/webhook", ADMIN),
    ("POST", "/connectors/{id}/webhook", ADMIN),
    ("GET", "/deliveries", Takes::SignedIn),
    ("GET", "/deliveries/{id}", Takes::SignedIn),
    ("GET", "/connectors/{id}/disconnect", ADMIN),
    ("POST", "/connectors/{id}/disconnect", ADMIN),
    ("GET", "/connectors/{id}/delete", ADMIN),
    ("POST", "/connectors/{id}/delete", ADMIN),
    ("GET", "/connect/{link}", Takes::Link),
    ("POST", "/connect/{link}", Takes::Link),
    ("GET", "/reconnect/{token}", Takes::Link),
    ("POST", "/reconnect/{token}", Takes::Link),
    ("GET", "/oauth/callback", Takes::Link),
    ("GET", "/connect/key/{state}", Takes::Link),
    ("POST", "/connect/key/{state}", Takes::Link),
    ("GET", "/connect/ended/{session}", Takes::Link),
    ("GET", "/connect/trouble/{word}", Takes::Link),
    ("GET", "/agents", Takes::SignedIn),
    ("GET", "/agents/new", ADMIN),
    ("POST", "/agents/new", ADMIN),
    ("GET", "/agents/{id}", Takes::SignedIn),
    ("GET", "/agents/{id}/edit", ADMIN),
    ("POST", "/agents/{id}/edit", ADMIN),
    ("POST", "/agents/{id}/pause", ADMIN),
    ("POST", "/agents/{id}/resume", ADMIN),
    ("POST", "/agents/{id}/run", Takes::Role(Role::Member)),
    ("GET", "/agents/{id}/delete", ADMIN),
    ("POST", "/agents/{id}/delete", ADMIN),
    ("GET", "/agents/{id}/runs/{run}", Takes::SignedIn),
    ("GET", "/agents/{id}/runs/{run}/steps/{position}", Takes::SignedIn),
    ("GET", "/jobs", Takes::SignedIn),
    ("POST", "/jobs/retry", Takes::Role(Role::Member)),
    ("POST", "/jobs/discard", Takes::Role(Role::Member)),
    ("GET", "/jobs/{id}", Takes::SignedIn),
    ("POST", "/jobs/{id}/retry", Takes::Role(Role::Member)),
    ("POST", "/jobs/{id}/discard", Takes::Role(Role::Member)),
    ("GET", "/settings", Takes::SignedIn),
    ("GET", "/settings/account", Takes::SignedIn),
    ("POST", "/settings/account/name", Takes::SignedIn),
    ("POST", "/settings/account/password", Takes::SignedIn),
    ("POST", "/settings/account/unlink", Takes::SignedIn),
    ("POST", "/settings/account/sessions/{id}/end", Takes::SignedIn),
    ("POST", "/settings/account/sessions/end-others", Takes::SignedIn),
    ("GET", "/settings/account/two-factor", Takes::SignedIn),
    ("POST", "/settings/account/two-factor/begin", Takes::SignedIn),
    ("POST", "/settings/account/two-factor/on", Takes::SignedIn),
    ("POST", "/settings/account/two-factor/codes", Takes::SignedIn),
    ("POST", "/settings/account/two-factor/off", Takes::SignedIn),
    ("GET", "/settings/team", Takes::SignedIn),
    ("POST", "/settings/team/two-factor", Takes::Role(Role::Owner)),
    ("POST", "/settings/team/{id}/role", ADMIN),
    ("GET", "/settings/team/{id}/remove", ADMIN),
    ("POST", "/settings/team/{id}/remove", ADMIN),
    ("GET", "/settings/team/leave", Takes::SignedIn),
    ("POST", "/settings/team/leave", Takes::SignedIn),
    ("POST", "/settings/team/invitations", ADMIN),
    ("POST", "/settings/team/invitations/{id}/again", ADMIN),
    ("POST", "/settings/team/invitations/{id}/withdraw", ADMIN),
    ("GET", "/settings/notifications", Takes::SignedIn),
    ("POST", "/settings/notifications", Takes::SignedIn),
    ("POST", "/settings/notifications/people", ADMIN),
    ("POST", "/settings/notifications/people/{id}/remove", ADMIN),
    ("POST", "/settings/notifications/people/{id}/again", Takes::SignedIn),
    ("POST", "/settings/notifications/test", Takes::SignedIn),
    ("POST", "/settings/notifications/channel", ADMIN),
    ("POST", "/settings/notifications/channel/test", ADMIN),
    ("POST", "/settings/notifications/channel/remove", ADMIN),
    ("GET", "/settings/organisations", Takes::SignedIn),
    ("POST", "/settings/organisations", Takes::SignedIn),
    ("GET", "/settings/organisation", ADMIN),
    ("POST", "/settings/organisation", ADMIN),
    ("GET", "/settings/keys", ADMIN),
    ("POST", "/settings/keys", ADMIN),
    ("POST", "/settings/keys/{id}/revoke", ADMIN),
    ("GET", "/settings/event-endpoints", ADMIN),
    ("POST", "/settings/event-endpoints", ADMIN),
    ("GET", "/settings/event-endpoints/{id}", ADMIN),
    ("POST", "/settings/event-endpoints/{id}", ADMIN),
    ("POST", "/settings/event-endpoints/{id}/test", ADMIN),
    ("POST", "/settings/event-endpoints/{id}/rotate", ADMIN),
    ("POST", "/settings/event-endpoints/{id}/replay", ADMIN),
    ("POST", "/settings/event-endpoints/{id}/enable", ADMIN),
    ("POST", "/settings/event-endpoints/{id}/disable", ADMIN),
    ("POST", "/settings/event-endpoints/{id}/delete", ADMIN),
    ("GET", "/settings/audit", ADMIN),
    ("GET", "/settings/audit/export", ADMIN),
    ("GET", "/settings/own-apps", ADMIN),
    ("GET", "/settings/own-apps/{provider}", ADMIN),
    ("POST", "/settings/own-apps/{provider}", ADMIN),
    ("POST", "/settings/own-apps/{provider}/check", ADMIN),
    ("POST", "/settings/own-apps/{provider}/promote", ADMIN),
    ("POST", "/settings/own-apps/{provider}/drop-next", ADMIN),
    ("POST", "/settings/own-apps/{provider}/remove", ADMIN),
    ("GET", "/settings/oauth-apps", Takes::Operator),
    ("GET", "/settings/oauth-apps/{provider}", Takes::Operator),
    ("POST", "/settings/oauth-apps/{provider}", Takes::Operator),
    ("POST", "/settings/oauth-apps/{provider}/check", Takes::Operator),
    ("POST", "/settings/oauth-apps/{provider}/promote", Takes::Operator),
    ("POST", "/settings/oauth-apps/{provider}/drop-next", Takes::Operator),
    ("POST", "/settings/oauth-apps/{provider}/remove", Takes::Operator),
    ("GET", "/settings/migrations", Takes::Operator),
    ("POST", "/settings/migrations", Takes::Operator),
    ("GET", "/settings/migrations/{id}", Takes::Operator),
    ("POST", "/settings/migrations/{id}/end", Takes::Operator),
    ("GET", "/settings/instance", Takes::Operator),
];

/// Routes that hold something of an org, which is not there for another one.
const OF_AN_ORG: &[&str] = &[
    "/settings/keys/{id}/revoke",
    "/settings/team/{id}/role",
    "/settings/team/{id}/remove",
    "/settings/team/invitations/{id}/again",
    "/settings/team/invitations/{id}/withdraw",
    "/settings/notifications/people/{id}/remove",
    "/settings/notifications/people/{id}/again",
    "/settings/event-endpoints/{id}",
    "/settings/event-endpoints/{id}/test",
    "/settings/event-endpoints/{id}/rotate",
    "/settings/event-endpoints/{id}/replay",
    "/settings/event-endpoints/{id}/enable",
    "/settings/event-endpoints/{id}/disable",
    "/settings/event-endpoints/{id}/delete",
    "/settings/own-apps/{provider}/check",
    "/settings/own-apps/{provider}/promote",
    "/settings/own-apps/{provider}/drop-next",
    "/settings/own-apps/{provider}/remove",
    "/connectors/{id}",
    "/connectors/{id}/test",
    "/connectors/{id}/sync",
    "/connectors/{id}/reconnect",
    "/connectors/{id}/link",
    "/connectors/{id}/rename",
    "/connectors/{id}/account",
    "/connectors/{id}/disconnect",
    "/connectors/{id}/delete",
    "/jobs/{id}",
    "/jobs/{id}/retry",
    "/jobs/{id}/discard",
    "/connectors/{id}/webhook",
    "/deliveries/{id}",
];

/// What is served beside the pages, and has tests of its own.
const ELSEWHERE: &[&str] = &["/api/v1", "/hooks", "/healthz", "/readyz", "/metrics"];

/// Somebody, or nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Nobody,
    Of(Role),
    /// Somebody who only looks, but runs the instance.
    Operator,
    /// An owner, of another org.
    Stranger,
}

const EVERYBODY: [Who; 7] = [
    Who::Nobody,
    Who::Of(Role::Viewer),
    Who::Of(Role::Member),
    Who::Of(Role::Admin),
    Who::Of(Role::Owner),
    Who::Operator,
    Who::Stranger,
];

/// What comes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// They are let in. What becomes of it is the page's matter.
    Opens,
    /// They are sent to sign in.
    SignIn,
    /// They are told that their role does not allow it.
    Forbidden,
    /// They are told that there is nothing.
    NotFound,
}

fn expected(who: Who, path: &str, takes: Takes) -> Ending {
    let role = match who {
        Who::Nobody => None,
        Who::Of(role) => Some(role),
        Who::Operator => Some(Role::Viewer),
        Who::Stranger => Some(Role::Owner),
    };
    match (takes, role) {
        (Takes::Nothing | Takes::Link, _) => Ending::Opens,
        (_, None) => Ending::SignIn,
        // This is no demo.
        (Takes::SignedIn, _) if path.starts_with("/demo/") => Ending::NotFound,
        (Takes::Operator, _) if who != Who::Operator => Ending::NotFound,
        (Takes::Role(needed), Some(role)) if role < needed => Ending::Forbidden,
        _ if who == Who::Stranger && (OF_AN_ORG.contains(&path) || path.starts_with("/agents/{id}")) => {
            Ending::NotFound
        }
        _ => Ending::Opens,
    }
}

fn takes_a_link(path: &str) -> bool {
    TABLE.iter().any(|(_, own, takes)| *own == path && *takes == Takes::Link)
}

fn ending(page: &Page) -> Ending {
    let to_sign_in = page.status == 303 && page.location().starts_with("/sign-in?next=");
    match page.status {
        _ if to_sign_in => Ending::SignIn,
        401 => Ending::SignIn,
        403 => Ending::Forbidden,
        404 => Ending::NotFound,
        _ => Ending::Opens,
    }
}

/// The service with its people, and sessions for them.
struct House {
    app: TestApp,
    ids: Vec<(Who, String)>,
}

impl House {
    async fn new(db: &Arc<Database>) -> Self {
        // What an endpoint is sent beside would be taken for what the next form has changed.
        let quiet = |config: &mut holdfast_app::Config| {
            config.oauth_apps.clear();
            config.jobs.deliver.at_once = Some(0);
        };
        let app = TestApp::builder(db).with(quiet).start().await;
        let mut ids = Vec::new();
        for who in EVERYBODY {
            let (org, role, operator) = match who {
                Who::Nobody => continue,
                Who::Of(role) => ("Acme", role, false),
                Who::Operator => ("Acme", Role::Viewer, true),
                Who::Stranger => ("Globex", Role::Owner, false),
            };
            let email = format!("{}@example.com", ids.len());
            // Nobody signs in with a password here: that costs time and is tested elsewhere.
            let user = NewUser {
                org: app.app.store.ensure_org(org).await.unwrap(),
                email,
                name: None,
                role,
                operator,
                password_hash: None,
                at: app.app.seams.clock.now(),
            };
            ids.push((who, app.app.store.create_user(&user).await.unwrap().unwrap()));
        }
        let at = app.app.seams.clock.now();
        let secret = AppSecret { secret: Some(CLIENT_SECRET.to_owned().into()), set_at: at, checked_at: None };
        let oauth_app = StoredApp {
            org: None,
            provider: "zendesk".to_owned(),
            client_id: CLIENT_ID.to_owned(),
            secret: Some(secret),
            next_secret: None,
            secret_expires_at: None,
            revision: 0,
            changed_by: None,
            changed_at: at,
        };
        app.app.store.save_oauth_app(&oauth_app).await.unwrap();
        let own = StoredApp { org: Some(app.org.clone()), client_id: "own-client".to_owned(), ..oauth_app };
        app.app.store.save_oauth_app(&own).await.unwrap();
        Self { app, ids }
    }

    fn id(&self, who: Who) -> Option<&str> {
        self.ids.iter().find(|(own, _)| *own == who).map(|(_, id)| id.as_str())
    }

    /// A session of theirs: its id and its cookie.
    async fn session(&self, user: &str) -> (String, String) {
        let mut random = [0; 32];
        holdfast_app::seams::OsRandom.fill(&mut random);
        let cookie = URL_SAFE_NO_PAD.encode(random);
        let at = self.app.app.seams.clock.now();
        let session = NewBrowserSession {
            user: user.to_owned(),
            also: Vec::new(),
            by_provider: false,
            token_hash: Sha256::digest(cookie.as_bytes()).into(),
            browser: None,
            at,
            expires_at: at + TimeDelta::days(1),
        };
        (self.app.app.store.create_browser_session(&session).await.unwrap(), cookie)
    }

    /// A browser of theirs.
    async fn browser(&self, who: Who) -> Browser {
        let browser = Browser::new();
        if let Some(id) = self.id(who) {
            browser.keep("holdfast_session", &self.session(id).await.1);
        }
        browser
    }

    /// The path with real things in it: the org Acme's, or their own.
    async fn path(&self, path: &str, who: Who) -> String {
        let store = &self.app.app.store;
        let filled = match path {
            "/static/{file}" => path.replace("{file}", "style.css"),
            "/brand/{colour}" => path.replace("{colour}", "0b6b4f"),
            "/demo/open/{key}" => path.replace("{key}", "x"),
            link if takes_a_link(link) => link.replace(['{', '}'], ""),
            of_mail if of_mail.starts_with("/demo/mailbox/") => path.replace("{id}", "x"),
            "/settings/keys/{id}/revoke" => {
                let at = self.app.app.seams.clock.now();
                let key = store.create_key(&self.app.org, "to revoke", &[], &rand32(), at).await.unwrap();
                path.replace("{id}", &key)
            }
            of_team if of_team.starts_with("/settings/team/invitations/{id}") => {
                path.replace("{id}", &self.invitation().await)
            }
            of_team if of_team.starts_with("/settings/team/{id}") => path.replace("{id}", &self.member().await),
            // One's own, or one of another org.
            "/settings/notifications/people/{id}/again" if who != Who::Stranger && self.id(who).is_some() => {
                path.replace("{id}", self.id(who).unwrap())
            }
            told if told.starts_with("/settings/notifications/people/{id}") => {
                path.replace("{id}", &self.member().await)
            }
            of_endpoint if of_endpoint.starts_with("/settings/event-endpoints/{id}") => {
                path.replace("{id}", &self.endpoint().await)
            }
            path if path.starts_with("/settings/migrations/{id}") => path.replace("{id}", &self.migration().await),
            of_connector if of_connector.starts_with("/connectors/{id}") => {
                let account = format!("desk-{}", id_word());
                let made = self.app.post("/connectors", json!({ "provider": "zendesk", "account": account })).await;
                path.replace("{id}", &made.expect(201).text_of("id"))
            }
            path if path.starts_with("/jobs/{id}") => path.replace("{id}", &self.job().await),
            "/deliveries/{id}" => {
                let hook = self.app.zendesk_hook(&format!("desk-{}", id_word())).await;
                assert_eq!(self.app.sent(&hook.event("evt-1")).await, 200);
                let kept = self.app.deliveries(&hook.connector).await;
                path.replace("{id}", kept[0]["id"].as_str().unwrap())
            }
            path if path.starts_with("/agents/{id}") => {
                let (agent, run) = self.agent_with_a_run().await;
                path.replace("{id}", &agent).replace("{run}", &run).replace("{position}", "1")
            }
            "/settings/account/sessions/{id}/end" => {
                let id = self.id(who).or(self.id(Who::Of(Role::Owner))).unwrap();
                path.replace("{id}", &self.session(id).await.0)
            }
            _ => path.replace("{provider}", "zendesk"),
        };
        assert!(!filled.contains('{'), "say here what stands for the parts of {path}");
        filled
    }

    /// Somebody of Acme.
    async fn member(&self) -> String {
        let user = NewUser {
            org: self.app.org.clone(),
            email: format!("{}@example.com", id_word()),
            name: None,
            role: Role::Member,
            operator: false,
            password_hash: None,
            at: self.app.app.seams.clock.now(),
        };
        self.app.app.store.create_user(&user).await.unwrap().unwrap()
    }

    /// An invitation to Acme that nobody has accepted.
    async fn invitation(&self) -> String {
        let (at, email) = (self.app.app.seams.clock.now(), format!("{}@example.com", id_word()));
        let by = self.id(Who::Of(Role::Owner)).unwrap();
        let expires_at = at + TimeDelta::days(1);
        let new = NewInvitation { org: &self.app.org, email: &email, role: Role::Member, by, expires_at };
        let tell = Tell { at, domain: "hub.example".to_owned(), sends: false };
        match self.app.app.store.invite(&new, &tell).await.unwrap() {
            Invited::Yes { id, .. } => id,
            other => panic!("{other:?}"),
        }
    }

    /// A migration that is under way.
    async fn migration(&self) -> String {
        self.app.import(&format!("desk-{}", id_word())).await;
        let at = self.app.app.seams.clock.now();
        let new =
            NewMigration { provider: "zendesk", reason: None, deadline: None, only_endless: false, at, dry_run: false };
        match self.app.app.store.start_migration(&new).await.unwrap() {
            MigrationStart::Started(progress) => progress.migration.id,
            MigrationStart::UnderWay(id) => id,
            MigrationStart::Nobody => panic!("there is a connector"),
        }
    }

    /// A job of Acme that rests: it can be tried again, and discarded.
    async fn job(&self) -> String {
        let at = self.app.app.seams.clock.now();
        let job = NewJob {
            org: self.app.org.clone(),
            kind: Kind::Sync,
            key: id_word(),
            connector: None,
            subject: "tickets".to_owned(),
            payload: json!({}),
            due_at: at + TimeDelta::hours(1),
            at,
        };
        self.app.app.store.enqueue(&job).await.unwrap().id().to_string()
    }

    /// An event endpoint of Acme; the one that is there, since an org has few.
    async fn endpoint(&self) -> String {
        let (store, at) = (&self.app.app.store, self.app.app.seams.clock.now());
        if let Some(there) = store.event_endpoints(&self.app.org, at).await.unwrap().first() {
            return there.id.to_string();
        }
        let key = self.app.key_with(&["admin"]).await;
        let body = json!({ "url": "https://app.example.com/", "types": ["ticket.created"] });
        let made = self.app.call(reqwest::Method::POST, "/event-endpoints", Some(&key), Some(body)).await;
        made.expect(201).text_of("id")
    }

    /// An agent of Acme, and a run of it that has made a step.
    async fn agent_with_a_run(&self) -> (String, String) {
        let store = &self.app.app.store;
        let (at, lease) = (self.app.app.seams.clock.now(), std::time::Duration::from_hours(1));
        let new = NewAgent {
            id: None,
            org: self.app.org.clone(),
            name: "Looker".to_owned(),
            runner: serde_json::json!({ "kind": "playbook", "steps": [{ "id": "found", "tool": "search_tickets" }] }),
            trigger: Trigger::Manual,
            bindings: Vec::new(),
            paused_by: None,
            at,
        };
        let Made::Yes(agent) = store.create_agent(&new).await.unwrap() else { panic!("it is new") };
        store.queue_run(&self.app.org, &agent, "somebody", false, None, at).await.unwrap();
        // The forms of other rows have left runs that wait, too.
        let claimed = store.claim_runs(at, lease, 100).await.unwrap();
        let claimed = claimed.into_iter().find(|claimed| claimed.run.agent == agent).unwrap();
        let step = RunStep {
            position: 1,
            step: "found".to_owned(),
            title: None,
            item: None,
            tool: None,
            access: None,
            connector: None,
            input: None,
            output: None,
            outcome: Some(StepOutcome::Done),
            code: None,
            detail: None,
            started_at: at,
            duration: None,
        };
        store.begin_step(&claimed, &step, lease).await.unwrap();
        let end = End {
            state: RunState::Succeeded,
            code: None,
            detail: None,
            connector: None,
            calls: 0,
            writes: 0,
            failures: 0,
            again: false,
            at,
        };
        store.end_run(&claimed, &end, 50).await.unwrap();
        (agent.to_string(), claimed.run.id.to_string())
    }

    /// The token that this browser's forms carry.
    async fn csrf(&self, browser: &Browser, who: Who) -> String {
        let (path, form) = if who == Who::Nobody { ("/sign-in", "/sign-in") } else { ("/settings", "/sign-out") };
        browser.open(&self.app.at(path)).await.form(form).value("csrf").unwrap().to_owned()
    }
}

/// A word that nothing else is called by.
fn id_word() -> String {
    let [a, b, c, d, ..] = rand32();
    format!("{:08x}", u32::from_le_bytes([a, b, c, d]))
}

fn rand32() -> [u8; 32] {
    let mut bytes = [0; 32];
    holdfast_app::seams::OsRandom.fill(&mut bytes);
    bytes
}

/// A route that is added without a row here fails this.
#[tokio::test(flavor = "multi_thread")]
async fn the_table_names_every_route_that_exists() {
    let table: BTreeSet<_> = TABLE.iter().map(|(method, path, _)| format!("{method} {path}")).collect();
    let declared: BTreeSet<_> =
        ui::declared().iter().map(|declared| format!("{} {}", declared.method, declared.path)).collect();
    assert_eq!(table, declared, "left: the table here; right: the routes of the pages");
    assert_eq!(table.len(), TABLE.len(), "no row stands there twice");

    // What the server really matches; axum tells it in no other way.
    let app = TestApp::start(&Arc::new(Database::sqlite())).await;
    let server = format!("{:?}", serve::router(&app.app));
    let matched: BTreeSet<_> = server
        .split("RouteId(")
        .filter_map(|rest| rest.split_once("): \"")?.1.split_once('"'))
        .map(|(path, _)| path)
        .filter(|path| path.starts_with('/') && !path.contains("__private"))
        .collect();
    assert!(matched.contains("/settings/keys") && matched.contains("/healthz"), "axum tells it otherwise: {matched:?}");
    let pages: BTreeSet<_> = TABLE.iter().map(|(_, path, _)| *path).collect();
    let elsewhere = |path: &str| ELSEWHERE.iter().any(|own| path == *own || path.starts_with(&format!("{own}/")));
    let unknown: Vec<_> = matched.iter().filter(|path| !pages.contains(**path) && !elsewhere(path)).collect();
    assert_eq!(unknown, Vec::<&&str>::new(), "add them by `Routes`, and here");
}

async fn each_role_opens_what_it_may_and_nothing_else(db: Arc<Database>) {
    let house = House::new(&db).await;
    let mut wrong = Vec::new();
    let mut cells = 0;
    for (method, path, takes) in TABLE {
        for who in EVERYBODY {
            // Its own tests say what these do with whoever comes.
            let own_matter = *takes == Takes::Link
                || *takes == Takes::Nothing
                    && (*method == "POST" || ["/setup", "/demo/open/{key}", "/sign-in/callback"].contains(path));
            if own_matter {
                continue;
            }
            let browser = house.browser(who).await;
            let address = house.app.at(&house.path(path, who).await);
            let page = if *method == "GET" {
                browser.get(&address).await
            } else {
                let token = house.csrf(&browser, who).await;
                let own = house.id(who).unwrap_or_default();
                browser.send_body(&address, &format!("csrf={token}&revision=1&user={own}"), &[]).await
            };
            cells += 1;
            let (is, should) = (ending(&page), expected(who, path, *takes));
            if is != should || page.status >= 500 {
                wrong.push(format!("{method} {path} for {who:?}: {is:?} ({}) instead of {should:?}", page.status));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(cells > 100, "{cells} cells were looked at");
}

async fn a_form_without_its_token_or_from_elsewhere_changes_nothing(db: Arc<Database>) {
    let house = House::new(&db).await;
    let other = house.csrf(&house.browser(Who::Of(Role::Viewer)).await, Who::Of(Role::Viewer)).await;
    for (_, path, takes) in TABLE.iter().filter(|(method, _, takes)| *method == "POST" && *takes != Takes::Link) {
        let who = match takes {
            Takes::Operator => Who::Operator,
            Takes::Nothing if *path != "/sign-out" => Who::Nobody,
            _ => Who::Of(Role::Owner),
        };
        let browser = house.browser(who).await;
        let right = house.csrf(&browser, who).await;
        let address = house.app.at(&house.path(path, who).await);
        // Who is asked for their own organisation's name keeps it.
        let name = if *path == "/settings/organisation" { "Acme" } else { "Zendesk" };
        let rest =
            format!("revision=1&name={name}&scope=tools&email=a%40example.com&password=x&current=x&new=x&client_id=x");
        let before = db.content().await;

        let mut refused = Vec::new();
        for csrf in ["", "csrf=&", "csrf=x&", &format!("csrf={other}&"), &format!("csrf={right}x&")] {
            refused.push((csrf.to_owned(), browser.send_body(&address, &format!("{csrf}{rest}"), &[]).await));
        }
        for site in ["cross-site", "same-site"] {
            let body = format!("csrf={right}&{rest}");
            refused.push((site.to_owned(), browser.send_body(&address, &body, &[("sec-fetch-site", site)]).await));
        }

        for (how, page) in refused {
            assert_eq!(
                (page.status, page.title()),
                (403, "This form is out of date"),
                "{path}, {how:?}: {}",
                page.text
            );
        }
        assert_eq!(changed(&before, &db.content().await), Vec::<String>::new(), "{path}");
        // A check that cannot fail is none: with its token the form gets through.
        let body = format!("csrf={right}&{rest}");
        let page = browser.send_body(&address, &body, &[("sec-fetch-site", "same-origin")]).await;
        assert_ne!(page.title(), "This form is out of date", "{path}: {}", page.text);
    }
}

async fn looking_changes_nothing(db: Arc<Database>) {
    let house = House::new(&db).await;
    let mut looks = Vec::new();
    for (_, path, _) in TABLE.iter().filter(|(method, _, _)| *method == "GET") {
        for who in EVERYBODY {
            looks.push((house.browser(who).await, house.app.at(&house.path(path, who).await)));
        }
    }
    let before = db.content().await;

    for (browser, address) in &looks {
        for address in [address.clone(), format!("{address}?done=saved&next=/x&token=x")] {
            let page = browser.get(&address).await;
            assert!(page.status < 500, "{address}: {}", page.text);
        }
        browser.send_with(reqwest::Method::HEAD, address, &[]).await;
    }

    assert_eq!(changed(&before, &db.content().await), Vec::<String>::new());
}

/// The tables that differ. Signs of life come by themselves.
fn changed(before: &BTreeMap<String, Vec<String>>, after: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let differ = |table: &&String| before.get(*table) != after.get(*table) && *table != "replicas";
    before.keys().chain(after.keys()).filter(differ).cloned().collect()
}
