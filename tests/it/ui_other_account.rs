//! Reconnect by another account, as providers with accounts behind one address show it: an adapter whose who-am-I call
//! says what the test wants.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use holdfast_core::{
    ApiClient, Identity, Provider, Role,
    error::{Error, Result},
    exchange::{Refusal, Verdict},
    provider::{About, Account, ApiAnswer, Auth, Invalid},
    tool::{ToolCall, ToolOutput},
};
use holdfast_tests::{browser::Page, database::Database, on_both, people::Person, service::TestApp, wait::until};
use serde_json::json;

on_both! {
    a_reconnect_by_another_account_is_refused_with_both_names,
    the_account_is_told_by_its_id_and_by_nothing_else,
    what_a_consent_lacks_is_what_the_access_itself_lacks,
}

/// What the provider says when it is asked who calls.
type Says = Arc<Mutex<Option<fn(&mut Identity)>>>;

/// Zendesk, but for who it says it is.
struct TwoFaced {
    zendesk: Arc<dyn Provider>,
    says: Says,
}

#[async_trait]
impl Provider for TwoFaced {
    fn about(&self) -> &'static About {
        self.zendesk.about()
    }

    fn account(&self, typed: &str) -> std::result::Result<Account, Invalid> {
        self.zendesk.account(typed)
    }

    fn auth(&self, account: &Account) -> Auth {
        self.zendesk.auth(account)
    }

    fn verdict(&self, refusal: &Refusal) -> Option<Verdict> {
        self.zendesk.verdict(refusal)
    }

    fn api_error(&self, operation: &'static str, answer: &ApiAnswer) -> Error {
        self.zendesk.api_error(operation, answer)
    }

    async fn identity(&self, api: &ApiClient) -> Result<Identity> {
        let mut identity = self.zendesk.identity(api).await?;
        let says = *self.says.lock().unwrap();
        if let Some(says) = says {
            says(&mut identity);
        }
        Ok(identity)
    }

    /// Everything is of some use.
    fn indispensable(&self, _missing: &[String]) -> Vec<String> {
        Vec::new()
    }

    async fn call(&self, api: &ApiClient, call: &ToolCall) -> Result<ToolOutput> {
        self.zendesk.call(api, call).await
    }
}

async fn start(db: &Arc<Database>) -> (TestApp, Says) {
    let says = Says::default();
    let kept = Arc::clone(&says);
    let adapt = move |zendesk| Arc::new(TwoFaced { zendesk, says: kept }) as Arc<dyn Provider>;
    (TestApp::builder(db).adapted(adapt).start().await, says)
}

/// Reconnects from the connector's page, up to the page at its end.
async fn reconnect(app: &TestApp, person: &Person, id: &str) -> Page {
    let path = format!("/connectors/{id}");
    let started = person.submit(&path, &format!("{path}/reconnect"), &[]).await.expect(303);
    let page = person.browser.visit(&app.sandbox.consent(&started.location(), "ada").unwrap()).await;
    let look = async || person.browser.visit(&page.url).await.expect(200);
    until("the consent has ended", look, |page| !page.text.contains("under way")).await
}

/// RC-01
async fn a_reconnect_by_another_account_is_refused_with_both_names(db: Arc<Database>) {
    let (app, says) = start(&db).await;
    let id = app.import_with("acme", json!({ "name": "Support" })).await;
    app.fail(&id).await;
    let before = app.show(&id).await;
    let ada = app.somebody(Role::Admin).await;
    *says.lock().unwrap() = Some(|identity| {
        "globex".clone_into(&mut identity.account_id);
        "globex <b>.zendesk.com".clone_into(&mut identity.account_name);
    });

    let page = reconnect(&app, &ada, &id).await;

    assert!(page.says("That was another account"), "{}", page.text);
    let told = "This connector belongs to acme.zendesk.com, and you signed in to globex <b>.zendesk.com.";
    assert!(page.says(told) && page.says("Nothing was changed."), "{}", page.text);
    assert_eq!(app.show(&id).await, before, "still failed, and nothing of it moved");
    assert!(app.acme.ledger().sets.iter().all(|set| !set.is_live()), "the mistaken grant is given back");
    let line = app.timeline(&id).await.remove(0);
    assert!(line["detail"].as_str().unwrap().contains("globex <b>.zendesk.com instead of acme.zendesk.com"), "{line}");

    // The ways on: back, try again, or the other one as a new connector.
    assert_eq!(page.read().link("Go back"), Some(format!("/connectors/{id}")));
    assert_eq!(page.form(&format!("/connectors/{id}/reconnect")).unwrap().buttons, ["Try again"]);
    let as_new = page.form("/connectors/new/zendesk").unwrap();
    assert_eq!(as_new.buttons, ["Connect globex <b>.zendesk.com as a new connector"]);
    let started =
        ada.browser.send_fields(&ada.url("/connectors/new/zendesk"), &as_new.fields, &[], &[]).await.expect(303);
    assert!(started.location().contains("/zendesk/globex/oauth/authorizations/new?"), "{started:?}");
    assert_eq!(app.show(&id).await["health"], "auth_failed");
    let page = ada.open("/connectors").await;
    assert!(page.form(&format!("/connectors/{id}/reconnect")).is_some(), "Reconnect is still offered: {}", page.text);

    *says.lock().unwrap() = None;
    let page = reconnect(&app, &ada, &id).await;
    assert!(page.says("acme.zendesk.com is connected"), "{}", page.text);
}

/// RC-02
async fn the_account_is_told_by_its_id_and_by_nothing_else(db: Arc<Database>) {
    let (app, says) = start(&db).await;
    let id = app.import("acme").await;
    let ada = app.somebody(Role::Admin).await;
    assert!(reconnect(&app, &ada, &id).await.says("acme.zendesk.com is connected"));

    // The same address and name, another id.
    *says.lock().unwrap() = Some(|identity| "other".clone_into(&mut identity.account_id));
    let version = app.show(&id).await["credential"]["version"].clone();
    assert!(reconnect(&app, &ada, &id).await.says("That was another account"));
    assert_eq!(app.show(&id).await["credential"]["version"], version);

    // The same id; all else has changed.
    *says.lock().unwrap() = Some(|identity| {
        identity.email = Some("new@acme.example".to_owned());
        identity.name = Some("Ada Newname".to_owned());
    });
    let page = reconnect(&app, &ada, &id).await;
    assert!(page.says("acme.zendesk.com is connected") && page.says("Ada Newname"), "{}", page.text);
    let identity = app.show(&id).await["identity"].clone();
    assert_eq!((&identity["email"], &identity["name"]), (&json!("new@acme.example"), &json!("Ada Newname")));
}

/// CO-08: the token answer of the sandbox says that all was granted.
async fn what_a_consent_lacks_is_what_the_access_itself_lacks(db: Arc<Database>) {
    let (app, says) = start(&db).await;
    let id = app.import("acme").await;
    let ada = app.somebody(Role::Admin).await;
    *says.lock().unwrap() = Some(|identity| identity.scopes = Some(vec!["read".to_owned()]));

    let page = reconnect(&app, &ada, &id).await;

    assert!(page.says("acme.zendesk.com is connected"), "{}", page.text);
    assert!(page.says("Not allowed, so that it does not work: Answer and change the tickets"), "{}", page.text);
    assert!(!page.says("does not work: See tickets"), "{}", page.text);
}
