//! The owner is killed with a new token set that the database has not taken: its machine keeps it.

use std::fs;

use holdfast_sandbox::PresentationOutcome::{Reused, Rotated};
use holdfast_tests::{
    browser::Browser,
    cluster::{Cluster, Expired},
    cut::Line,
    process::{Answer, Replica, answer},
    wait::within,
};
use reqwest::Method;
use serde_json::Value;
use sqlx::{Connection as _, Executor as _};

use crate::{BOUND, issued, presented};

/// A lost owner is relieved 8 s after its last sign of life.
const SHORT: [(&str, &str); 6] = [
    ("refresh.lease_secs", "6"),
    ("refresh.exchange_timeout_secs", "5"),
    ("refresh.lease_slack_secs", "0.5"),
    ("refresh.orphan_wait_secs", "1"),
    ("refresh.confirm_pause_secs", "0.5"),
    ("refresh.wait_bound_secs", "2"),
];

struct Wreck {
    cluster: Cluster,
    expired: Expired,
    two: Replica,
}

impl Wreck {
    /// `one` has a new set that it could not store, and is killed once its lifeboat has it.
    async fn happen() -> Self {
        let cluster = Cluster::start().await;
        let line = Line::to(cluster.database.address().await).await;
        let by_line = cluster.database.url_by(line.address());
        let setup = cluster.replica("one").with_all(&SHORT).with("database.url", by_line.as_str());
        let (one, two) = tokio::join!(setup.start(), cluster.replica("two").with_all(&SHORT).start());
        let expired = cluster.expired(&one, "acme").await;
        expired.helpdesk.trouble(|faults| faults.hold_answers = true);
        let call = tokio::spawn(one.token_call(&expired.id));
        issued(&expired.helpdesk, 2).await;
        line.cut();
        expired.helpdesk.calm();
        one.says("is kept in the lifeboat", BOUND).await;
        call.abort();
        one.kill().await;
        assert_eq!(files(&cluster, "one").len(), 1);
        Self { cluster, expired, two }
    }

    /// The machine of `one` starts again.
    async fn again(&self) -> Replica {
        self.cluster.replica("one").with_all(&SHORT).start().await
    }

    async fn stored(&self) -> i64 {
        self.cluster.database.number("SELECT max(version) FROM credentials").await
    }
}

fn files(cluster: &Cluster, name: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(cluster.lifeboat(name)) else { return Vec::new() };
    entries.map(|entry| entry.expect("it can be listed").file_name().display().to_string()).collect()
}

/// LR-05, I5
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_killed_between_lifeboat_and_database_loses_nothing() {
    let wreck = Wreck::happen().await;
    assert_eq!(wreck.stored().await, 1);

    let one = wreck.again().await;

    let token = one.token(&wreck.expired.id).await;
    assert!(wreck.expired.helpdesk.accepts(token.access_token()));
    assert_eq!(one.said("stored the token set that the lifeboat held").len(), 1);
    assert_eq!(presented(&wreck.expired.helpdesk), [Rotated]);
    assert_eq!(wreck.expired.helpdesk.counters().exchanges, 1);
    assert_eq!(wreck.stored().await, 2);
    assert!(files(&wreck.cluster, "one").is_empty());
    let open = "SELECT count(*) FROM exchanges WHERE closed_at IS NULL OR outcome <> 'rotated'";
    assert_eq!(wreck.cluster.database.number(open).await, 0, "the dead owner's row is closed as the success it was");
    assert_eq!(wreck.two.token(&wreck.expired.id).await.access_token(), token.access_token());
}

/// The other replica has taken the owner for dead meanwhile, shown the spent token, and met the refusal: at a provider
/// that kills the family for it, nothing heals; at another one, everything does.
#[tokio::test(flavor = "multi_thread")]
async fn a_set_of_the_lifeboat_that_comes_after_the_verdict_heals_only_if_it_lives() {
    for lives in [false, true] {
        let wreck = Wreck::happen().await;
        let mut options = wreck.cluster.sandbox.options();
        options.family_revocation = !lives;
        wreck.cluster.sandbox.set_options(options);
        let (verdict, _) = wreck.two.token_in_the_end(&wreck.expired.id, BOUND).await;
        assert_eq!(verdict.code(), "connector_auth_failed", "{verdict:?}");

        let one = wreck.again().await;

        one.says("stored the token set that the lifeboat held", BOUND).await;
        assert_eq!(wreck.stored().await, 2);
        if lives {
            within("the connector heals", BOUND, || async {
                let shown = wreck.two.show(&wreck.expired.id).await;
                if shown["health"] == "connected" { Ok(()) } else { Err::<(), Value>(shown) }
            })
            .await;
            assert!(wreck.expired.helpdesk.accepts(one.token(&wreck.expired.id).await.access_token()));
        } else {
            within("the provider has been asked", BOUND, || async {
                let asked = wreck.expired.helpdesk.counters().unauthorized;
                if asked > 0 { Ok(()) } else { Err(asked) }
            })
            .await;
            assert_eq!(wreck.two.show(&wreck.expired.id).await["health"], "auth_failed");
        }
        assert_eq!(presented(&wreck.expired.helpdesk), [Rotated, Reused, Reused]);
    }
}

/// LR-05: killed in the middle of the transaction that stores the set, after its first statement.
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_killed_while_it_stores_leaves_the_whole_old_set_and_then_the_whole_new_one() {
    let cluster = Cluster::start().await;
    let one = cluster.replica("one").with_all(&SHORT).start().await;
    let expired = cluster.expired(&one, "acme").await;
    expired.helpdesk.trouble(|faults| faults.hold_answers = true);
    let call = tokio::spawn(one.token_call(&expired.id));
    issued(&expired.helpdesk, 2).await;
    // The transaction writes the credential first, then closes the journal row, and is stopped there.
    let mut session = cluster.database.session().await;
    let mut lock = session.begin().await.unwrap();
    lock.execute("SELECT 1 FROM exchanges FOR UPDATE").await.unwrap();
    expired.helpdesk.calm();
    one.says("is kept in the lifeboat", BOUND).await;
    call.abort();
    one.kill().await;
    let ended = "SELECT count(*) FROM (SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                 WHERE datname = current_database() AND wait_event_type = 'Lock') ended";
    assert!(cluster.database.number(ended).await > 0);
    lock.rollback().await.unwrap();
    let old = "SELECT count(*) FROM credentials WHERE version = 1 AND expires_at = obtained_at";
    assert_eq!(cluster.database.number(old).await, 1, "not a field of the new set is there");

    let one = cluster.replica("one").with_all(&SHORT).start().await;

    let token: Answer = one.token(&expired.id).await;
    assert!(expired.helpdesk.accepts(token.access_token()));
    assert_eq!(presented(&expired.helpdesk), [Rotated]);
    let new = "SELECT count(*) FROM credentials WHERE version = 2 AND expires_at > obtained_at";
    assert_eq!(cluster.database.number(new).await, 1);
}

/// The database is still read-only when the machine comes back: no lease is taken with the spent token.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_still_refuses_writes_keeps_the_set_in_the_lifeboat() {
    let wreck = Wreck::happen().await;
    let refuse = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \
                  $$ BEGIN RAISE EXCEPTION 'writes are refused'; END $$; \
                  CREATE TRIGGER refuse BEFORE UPDATE ON credentials FOR EACH STATEMENT EXECUTE FUNCTION refuse()";
    let mut session = wreck.cluster.database.session().await;
    session.execute(sqlx::raw_sql(refuse)).await.unwrap();
    let one = wreck.again().await;

    let answer = one.token(&wreck.expired.id).await;

    assert_eq!((answer.status.as_u16(), answer.code()), (503, "refresh_unavailable"), "{answer:?}");
    assert_eq!(presented(&wreck.expired.helpdesk), [Rotated]);
    assert_eq!(files(&wreck.cluster, "one").len(), 1);
    session.execute("DROP FUNCTION refuse CASCADE").await.unwrap();
    within("the lifeboat is emptied without a caller", BOUND, || async {
        let version = wreck.stored().await;
        if version == 2 { Ok(()) } else { Err(version) }
    })
    .await;
    assert!(wreck.expired.helpdesk.accepts(one.token(&wreck.expired.id).await.access_token()));
    assert_eq!(presented(&wreck.expired.helpdesk), [Rotated]);
}

/// The process is killed with a consent's tokens at hand: it goes on with it when it is started again.
#[tokio::test(flavor = "multi_thread")]
async fn a_consent_that_was_cut_off_by_a_kill_ends_as_it_should() {
    let cluster = Cluster::start().await;
    let helpdesk = cluster.sandbox.create_helpdesk("acme").unwrap();
    let setup = || cluster.replica("one").with("public_url", "");
    let one = setup().start().await;
    let body = serde_json::json!({ "provider": "zendesk", "account": "acme" });
    let made = answer(one.request(Method::POST, "/api/v1/connect-sessions").json(&body)).await;
    assert_eq!(made.status, 201, "{made:?}");
    let (browser, id) = (Browser::new(), made.text("connector_id").to_owned());
    let authorize = browser.post(made.text("url")).await.location();
    let back = cluster.sandbox.consent(&authorize, "ada").unwrap();
    // The grant's transaction waits for the credential; the checks of the consent do not.
    let mut session = cluster.database.session().await;
    let mut lock = session.begin().await.unwrap();
    lock.execute("SELECT 1 FROM credentials FOR UPDATE").await.unwrap();
    let callback = tokio::spawn(async move { browser.get(&back).await });
    let stopped = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                   AND wait_event_type = 'Lock'";
    within("the grant is about to be stored", BOUND, || async {
        let stopped = cluster.database.number(stopped).await;
        if stopped > 0 { Ok(()) } else { Err(stopped) }
    })
    .await;

    one.kill().await;
    callback.abort();
    let ended = "SELECT count(*) FROM (SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                 WHERE datname = current_database() AND wait_event_type = 'Lock') ended";
    assert!(cluster.database.number(ended).await > 0);
    lock.rollback().await.unwrap();
    assert_eq!(files(&cluster, "one").len(), 1);
    // What the consent brought is over by now: it was checked before, and needs no check again.
    helpdesk.expire_access_tokens();
    let one = setup().start().await;

    within("the connector is connected", BOUND, || async {
        let shown = one.show(&id).await;
        if shown["health"] == "connected" { Ok(()) } else { Err::<(), Value>(shown) }
    })
    .await;
    within("the consent has ended", BOUND, || async {
        let ended = "SELECT count(*) FROM connect_sessions WHERE result ->> 'ended' = 'connected'";
        let ended = cluster.database.number(ended).await;
        if ended == 1 && files(&cluster, "one").is_empty() { Ok(()) } else { Err(ended) }
    })
    .await;
    assert_eq!(helpdesk.counters().code_exchanges, 1, "the code was exchanged once");
}
