//! Mail: who is told what, when, once, and in which words. The mail server is a real one.

mod accounts;
mod channel;
mod ends;
mod habits;
mod history;
mod invitations;
mod links;
mod migrations;
mod outages;
mod passwords;
mod people;
mod servers;
mod suppression;
mod webhooks;
mod words;

use std::{sync::Arc, time::Duration};

use holdfast_app::mail::Round;
use holdfast_core::{Role, ports::Clock as _};
use holdfast_store::{MailKind, MailStage, MailState, NewUser};
use holdfast_tests::{
    database::Database,
    service::{Builder, TestApp},
    smtp::Smtp,
};
use serde_json::json;

/// A little more than a first failure waits for company.
const COMPANY: Duration = Duration::from_secs(4);
/// A little more than what is kept for a digest.
const WINDOW: Duration = Duration::from_secs(301);

/// A service with a mail server; the worker's step is called by hand.
struct Post {
    app: TestApp,
    smtp: Smtp,
}

impl Post {
    async fn start(db: &Arc<Database>) -> Self {
        Self::with(db, Smtp::start().await, |builder| builder).await
    }

    async fn with(db: &Arc<Database>, smtp: Smtp, change: impl FnOnce(Builder) -> Builder) -> Self {
        let builder = TestApp::builder(db).with(|config| smtp.configure(config));
        Self { app: change(builder).start().await, smtp }
    }

    /// Somebody of the organisation `Acme`; their id.
    async fn person(&self, email: &str, role: Role) -> String {
        self.person_of("Acme", email, role, false).await
    }

    async fn person_of(&self, org: &str, email: &str, role: Role, operator: bool) -> String {
        let org = self.app.app.store.ensure_org(org).await.unwrap();
        let at = self.app.clock.now();
        let user = NewUser { org, email: email.to_owned(), name: None, role, operator, password_hash: None, at };
        self.app.app.store.create_user(&user).await.unwrap().unwrap()
    }

    /// Connects a helpdesk of this account and name.
    async fn connector(&self, account: &str, name: &str) -> String {
        self.app.import_with(account, json!({ "name": name })).await
    }

    /// The provider takes its consent back, and somebody notices at once. No time passes.
    async fn fail(&self, id: &str, account: &str) {
        let token = self.app.token(id).await.expect(200).text_of("access_token");
        self.app.sandbox.helpdesk(account).unwrap().revoke(None);
        let path = format!("/connectors/{id}/token/rejected");
        let _told = self.app.post(&path, json!({ "access_token": token })).await.problem(409, "connector_auth_failed");
    }

    /// Somebody reconnects it by the API's link.
    async fn mend(&self, id: &str) {
        let page = self.app.consent(&self.app.reconnect_link(id).await).await;
        assert_eq!((page.status, page.title()), (200, "Connected"), "{}", page.text);
    }

    /// One look of the worker.
    async fn look(&self) -> Round {
        self.app.app.mail_due().await.unwrap()
    }

    /// One look, once what has failed by now has waited for company.
    async fn tell(&self) -> Round {
        self.app.advance(COMPANY);
        self.look().await
    }

    async fn state(&self, id: &str) -> MailState {
        self.app.app.store.mail_state(&self.app.org, &id.into()).await.unwrap().expect("it has failed")
    }

    /// Who was told, as the connector's page shows it: address, kind, where it is.
    async fn told(&self, id: &str) -> Vec<(String, MailKind, MailStage)> {
        let told = self.state(id).await.told;
        let mut told: Vec<_> =
            told.into_iter().map(|one| (one.address.unwrap_or_default(), one.kind, one.stage)).collect();
        told.sort_by_key(|(address, kind, _)| (kind.as_str(), address.clone()));
        told
    }

    /// One of the numbers at `/metrics`.
    async fn number(&self, name: &str) -> f64 {
        let (status, text) = self.app.plain("/metrics").await;
        assert_eq!(status, 200);
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        found.unwrap_or_else(|| panic!("{name} is not in\n{text}")).parse().unwrap()
    }
}

fn sent(count: usize) -> Round {
    Round { sent: count, ..Round::default() }
}
