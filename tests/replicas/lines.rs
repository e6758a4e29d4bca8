//! The line between a replica and the database is cut while its exchange is under way.

use std::time::Duration;

use holdfast_sandbox::PresentationOutcome::{Reused, Rotated};
use holdfast_tests::{
    cluster::{Cluster, Expired, storm},
    cut::Line,
    process::Replica,
    wait::{uptime, within},
};
use serde_json::Value;
use sqlx::{Connection as _, Executor as _};

use crate::{BOUND, issued, presented};

/// The lease outlasts a cut of a second or two.
const LONG: [(&str, &str); 6] = [
    ("refresh.lease_secs", "15"),
    ("refresh.exchange_timeout_secs", "10"),
    ("refresh.lease_slack_secs", "1"),
    ("refresh.orphan_wait_secs", "5"),
    ("refresh.confirm_pause_secs", "0.5"),
    ("refresh.wait_bound_secs", "10"),
];

/// A lost owner is relieved 8 s after its last sign of life.
const SHORT: [(&str, &str); 6] = [
    ("refresh.lease_secs", "6"),
    ("refresh.exchange_timeout_secs", "5"),
    ("refresh.lease_slack_secs", "0.5"),
    ("refresh.orphan_wait_secs", "1"),
    ("refresh.confirm_pause_secs", "0.5"),
    ("refresh.wait_bound_secs", "2"),
];

/// Two replicas and an expired connector; `one` reaches the database over a line.
struct Scene {
    cluster: Cluster,
    line: Line,
    one: Replica,
    two: Replica,
    expired: Expired,
}

impl Scene {
    async fn set(settings: &[(&str, &str)]) -> Self {
        let cluster = Cluster::start().await;
        let line = Line::to(cluster.database.address().await).await;
        let by_line = cluster.database.url_by(line.address());
        let setup = cluster.replica("one").with_all(settings).with("database.url", by_line.as_str());
        let (one, two) = tokio::join!(setup.start(), cluster.replica("two").with_all(settings).start());
        let expired = cluster.expired(&one, "acme").await;
        Self { cluster, line, one, two, expired }
    }

    /// Cuts the line while the provider has rotated and not answered yet, lets it answer, and waits until the owner
    /// has the new token and cannot store it.
    async fn cut_with_the_answer_under_way(&self, cut: impl FnOnce(&Line)) {
        self.expired.helpdesk.trouble(|faults| faults.hold_answers = true);
        let call = tokio::spawn(self.one.token_call(&self.expired.id));
        issued(&self.expired.helpdesk, 2).await;
        call.abort();
        cut(&self.line);
        self.expired.helpdesk.calm();
        within("the provider has answered", BOUND, || {
            let open = self.expired.helpdesk.ledger().presentations.iter().any(|shown| shown.answered_seq.is_none());
            async move { if open { Err("not yet") } else { Ok(()) } }
        })
        .await;
    }

    async fn version(&self) -> i64 {
        self.cluster.database.number("SELECT max(version) FROM credentials").await
    }

    async fn is_stored(&self) {
        within("the owner has stored the token", BOUND, || async {
            let version = self.version().await;
            if version == 2 { Ok(()) } else { Err(version) }
        })
        .await;
    }

    /// Both replicas give out one token, which the provider takes.
    async fn both_serve(&self) {
        let (first, second) = tokio::join!(self.one.token(&self.expired.id), self.two.token(&self.expired.id));
        assert_eq!(first.access_token(), second.access_token());
        assert!(self.expired.helpdesk.accepts(first.access_token()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_line_to_the_database_loses_no_rotated_token() {
    let scene = Scene::set(&LONG).await;
    scene.cut_with_the_answer_under_way(Line::cut).await;
    scene.one.says("could not store the rotated token", BOUND).await;
    let waiting = tokio::spawn(scene.two.token_call(&scene.expired.id));
    let early = scene.one.token(&scene.expired.id).await;

    scene.line.heal();

    assert_eq!(early.status, 503, "{early:?}");
    assert!(early.retry_after.is_some(), "{early:?}");
    scene.is_stored().await;
    let waited = waiting.await.unwrap();
    assert!(scene.expired.helpdesk.accepts(waited.access_token()));
    println!("the caller on the other replica waited {:?} for the owner's token", waited.took);
    scene.both_serve().await;
    assert_eq!(presented(&scene.expired.helpdesk), [Rotated]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_line_to_the_database_loses_no_rotated_token() {
    let scene = Scene::set(&LONG).await;
    scene.cut_with_the_answer_under_way(Line::silence).await;
    let waiting = tokio::spawn(scene.two.token_call(&scene.expired.id));

    scene.line.heal();

    scene.is_stored().await;
    assert!(scene.expired.helpdesk.accepts(waiting.await.unwrap().access_token()));
    scene.both_serve().await;
    assert_eq!(presented(&scene.expired.helpdesk), [Rotated]);
}

/// The old connections lead nowhere, as after a database that moved to another host: the owner does not wait for the
/// kernel to give them up.
#[tokio::test(flavor = "multi_thread")]
async fn stranded_connections_to_the_database_lose_no_rotated_token() {
    let scene = Scene::set(&LONG).await;
    // Several, as a busy replica has them.
    storm(&[&scene.one], "con_none", 50).await;
    scene.cut_with_the_answer_under_way(Line::strand).await;
    let answered = uptime();

    scene.is_stored().await;

    println!("stored over a new connection after {:?}", uptime() - answered);
    scene.both_serve().await;
    assert_eq!(presented(&scene.expired.helpdesk), [Rotated]);
}

/// The connection leads nowhere from the middle of the transaction that stores the token: the server knows nothing of
/// it, and keeps the credential's lock, for the owner as for everybody else.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_was_left_behind_loses_no_rotated_token() {
    let scene = Scene::set(&LONG).await;
    scene.expired.helpdesk.trouble(|faults| faults.hold_answers = true);
    let call = tokio::spawn(scene.one.token_call(&scene.expired.id));
    issued(&scene.expired.helpdesk, 2).await;
    call.abort();
    // The transaction writes the credential first, then closes the journal row, and is stopped there.
    let mut session = scene.cluster.database.session().await;
    let mut lock = session.begin().await.expect("the database is there");
    lock.execute("SELECT 1 FROM exchanges FOR UPDATE").await.expect("the statement is right");
    scene.expired.helpdesk.calm();
    let blocked = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                   AND wait_event_type = 'Lock'";
    within("the owner's transaction is stopped", BOUND, || async {
        let blocked = scene.cluster.database.number(blocked).await;
        if blocked > 0 { Ok(()) } else { Err(blocked) }
    })
    .await;

    scene.line.strand();
    lock.rollback().await.expect("the database is there");
    let stranded = uptime();

    scene.is_stored().await;
    println!("stored {:?} after its transaction was left behind", uptime() - stranded);
    scene.both_serve().await;
    assert_eq!(presented(&scene.expired.helpdesk), [Rotated]);
}

/// The other replica takes the owner for dead and shows the spent token, which kills the family: what the owner
/// brings in the end is stored, and no token of it is given out.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_success_whose_token_is_dead_is_not_shown_as_connected() {
    let scene = Scene::set(&SHORT).await;
    scene.cut_with_the_answer_under_way(Line::cut).await;
    let (verdict, _) = scene.two.token_in_the_end(&scene.expired.id, BOUND).await;
    assert_eq!(verdict.code(), "connector_auth_failed", "{verdict:?}");
    assert_eq!(scene.two.show(&scene.expired.id).await["health_reason"], "response_lost");
    assert_eq!(scene.version().await, 1);

    scene.line.heal();

    scene.is_stored().await;
    within("the owner has asked the provider about its token", BOUND, || async {
        let asked = scene.expired.helpdesk.counters().unauthorized;
        if asked > 0 { Ok(()) } else { Err(asked) }
    })
    .await;
    // The flight is over when its replica takes a caller's call again; it does not heal.
    for replica in [&scene.one, &scene.two] {
        let answer = replica.token(&scene.expired.id).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (409, "connector_auth_failed"), "{answer:?}");
        assert_eq!(replica.show(&scene.expired.id).await["health"], "auth_failed");
    }
    assert_eq!(presented(&scene.expired.helpdesk), [Rotated, Reused, Reused]);
}

/// At a provider that does not kill the family, the owner's token lives: the connector heals by itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_success_whose_token_lives_heals_the_connector() {
    let scene = Scene::set(&SHORT).await;
    let mut options = scene.cluster.sandbox.options();
    options.family_revocation = false;
    scene.cluster.sandbox.set_options(options);
    scene.cut_with_the_answer_under_way(Line::cut).await;
    let (verdict, _) = scene.two.token_in_the_end(&scene.expired.id, BOUND).await;
    assert_eq!(verdict.code(), "connector_auth_failed", "{verdict:?}");

    scene.line.heal();

    within("the connector heals", BOUND, || async {
        let shown = scene.two.show(&scene.expired.id).await;
        if shown["health"] == "connected" { Ok(()) } else { Err::<(), Value>(shown) }
    })
    .await;
    scene.both_serve().await;
    assert_eq!(presented(&scene.expired.helpdesk), [Rotated, Reused, Reused]);
}

/// Nobody waits longer than the bound, although the database neither answers nor hangs up.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_database_makes_no_caller_wait_past_its_bound() {
    let scene = Scene::set(&SHORT).await;
    scene.both_serve().await;
    scene.line.silence();
    let expired = scene.cluster.expired(&scene.two, "globex").await;

    for _ in 0..3 {
        let answer = scene.one.token(&expired.id).await;
        println!("a silent database: {} {} after {:?}", answer.status, answer.code(), answer.took);
        assert_eq!(answer.status, 503, "{answer:?}");
        assert!(answer.retry_after.is_some(), "{answer:?}");
        assert!(answer.took < Duration::from_secs(15), "{answer:?}");
    }
    scene.line.heal();

    within("it works again", BOUND, || async {
        let answer = scene.one.token(&expired.id).await;
        if answer.status == 200 { Ok(()) } else { Err(answer) }
    })
    .await;
}
