//! The instance, as its operators see it.

use std::{fs, sync::Arc};

use holdfast_app::{App, jobs::Handler};
use holdfast_core::{
    Role,
    error::Retry,
    job::{Fault, Kind, Outcome},
};
use holdfast_store::ClaimedJob;
use holdfast_tests::{
    database::Database,
    on_both,
    service::{LIFE, TestApp},
    wait::until,
};

on_both! {
    an_operator_sees_what_the_instance_does,
    what_is_in_trouble_comes_first,
}

const HERE: &str = "/settings/instance";

async fn an_operator_sees_what_the_instance_does(db: Arc<Database>) {
    let app = TestApp::start(&db).await;
    let operator = app.operator().await;
    let empty = operator.open(HERE).await;
    assert!(empty.says("Nothing is in trouble."), "{}", empty.text);
    assert!(empty.says("None is due, and none was made within the last hour."), "{}", empty.text);
    let overview = operator.open("/settings").await;
    assert!(overview.says("Instance Replicas, refreshes"), "{}", overview.text);
    let id = app.import("acme").await;
    app.advance(LIFE);

    let _fresh = app.token(&id).await.expect(200);

    let look = async || operator.open(HERE).await;
    let version = env!("CARGO_PKG_VERSION");
    let shown =
        until("the replica has given a sign of life", look, |page| page.says(&format!("Alive {version}"))).await;
    for words in
        ["Zendesk 0 0 1 0", "Lifeboat Ready", "None within a week.", "None is on its way.", "s behind this replica's"]
    {
        assert!(shown.says(words), "{words}: {}", shown.text);
    }
}

struct Refusing;

#[async_trait::async_trait]
impl Handler for Refusing {
    async fn run(&self, _: &Arc<App>, _: &ClaimedJob) -> Outcome {
        Outcome::Failed(Fault::new("refused", "It does not want it."), Retry::Never)
    }
}

async fn what_is_in_trouble_comes_first(db: Arc<Database>) {
    fs::write(db.path("lifeboat"), "this is no folder").unwrap();
    let app = TestApp::start(&db).await;
    app.app.jobs.handle(Kind::Event, Arc::new(Refusing));
    let hook = app.zendesk_hook("acme").await;
    assert_eq!(app.sent(&hook.event("1")).await, 200);
    let operator = app.operator().await;

    let look = async || operator.open(HERE).await;
    let told = ["The lifeboat of this replica cannot take a token set", "Event 0 0 0 0 1 –", "Lifeboat In trouble"];
    let shown = until("all is told", look, |page| told.iter().all(|words| page.says(words))).await;

    assert!(!shown.says("Nothing is in trouble"), "{}", shown.text);
    let overview = operator.open("/settings").await;
    assert!(overview.says("Instance Needs you"), "{}", overview.text);
    let admin = app.somebody(Role::Owner).await;
    assert!(!admin.open("/settings").await.says("Instance"), "it is the operators' matter");
}
