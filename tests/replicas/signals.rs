//! What changes on one replica, and what the other one still believes.

use std::time::Duration;

use holdfast_tests::{
    browser::Browser,
    cluster::{Cluster, Expired},
    cut::Line,
    process::{Answer, Replica, answer, client},
    wait::{uptime, within},
};
use reqwest::Method;
use sqlx::{Connection as _, Executor as _};
use url::Url;

use crate::BOUND;

/// A signal takes milliseconds. Memory that is not confirmed is dropped after 3 s: what takes less came by signal.
const BY_SIGNAL: Duration = Duration::from_secs(2);
/// Memory that is not confirmed is not trusted for longer than 3 s.
const WITHOUT_SIGNAL: Duration = Duration::from_secs(6);

async fn disconnect(replica: &Replica, connector: &str) {
    let done = answer(replica.request(Method::POST, &format!("/api/v1/connectors/{connector}/disconnect"))).await;
    assert!(done.status.is_success(), "{done:?}");
}

/// Follows a reconnect link on this replica, as a browser does, and says yes at the provider.
async fn reconnect(cluster: &Cluster, replica: &Replica, connector: &str) {
    let link = answer(replica.request(Method::POST, &format!("/api/v1/connectors/{connector}/reconnect"))).await;
    assert_eq!(link.status, 200, "{link:?}");
    let here = |url: &str| {
        let url = Url::parse(url).expect("a link is a URL");
        let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
        format!("{}{}{query}", replica.url(), url.path())
    };
    let browser = Browser::new();
    let started = browser.post(&here(link.text("url"))).await;
    assert_eq!(started.status, 303, "{started:?}");
    let back = cluster.sandbox.consent(&started.location(), "ada").expect("Ada may say yes");
    let done = browser.get(&here(&back)).await;
    assert_eq!(done.title(), "Connected", "{done:?}");
}

/// Waits until this replica's answer is this one: a problem's code, or nothing for a token. How long it took.
async fn answers(replica: &Replica, connector: &str, code: &str, bound: Duration) -> Duration {
    let started = uptime();
    within(&format!("the answer is {code:?}"), bound, || async {
        let answer = replica.token(connector).await;
        if answer.code() == code { Ok(()) } else { Err::<(), Answer>(answer) }
    })
    .await;
    uptime() - started
}

/// Both replicas have the connector in memory, and trust it.
async fn warm(cluster: &Cluster, one: &Replica, two: &Replica, expired: &Expired) {
    for replica in [one, two] {
        trusts_memory(cluster, replica, expired).await;
    }
}

/// Waits until this replica answers from memory, which it does once it has heard its own signals: nobody can read the
/// tables meanwhile.
async fn trusts_memory(cluster: &Cluster, replica: &Replica, expired: &Expired) {
    let mut session = cluster.database.session().await;
    within("the replica answers from memory", BOUND, async || {
        // What is read before it has heard anything is not kept.
        replica.token(&expired.id).await;
        let mut lock = session.begin().await.expect("the database is there");
        // Never by waiting: whoever holds one of them may want another of them next.
        let tables = "LOCK TABLE api_keys, connectors, credentials IN ACCESS EXCLUSIVE MODE NOWAIT";
        if let Err(taken) = lock.execute(tables).await {
            lock.rollback().await.expect("the database is there");
            return Err(format!("{taken}"));
        }
        let answer = replica.token(&expired.id).await;
        lock.rollback().await.expect("the database is there");
        let taken = answer.status == 200 && expired.helpdesk.accepts(answer.access_token());
        if taken { Ok(()) } else { Err(format!("{answer:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_admin_does_on_one_replica_the_other_sees_at_once() {
    let cluster = Cluster::start().await;
    let (one, two) = cluster.two(&[]).await;
    let expired = cluster.expired(&one, "acme").await;
    warm(&cluster, &one, &two, &expired).await;

    disconnect(&one, &expired.id).await;
    let gone = answers(&two, &expired.id, "connector_disconnected", BY_SIGNAL).await;
    reconnect(&cluster, &one, &expired.id).await;
    let back = answers(&two, &expired.id, "", BY_SIGNAL).await;

    println!("a disconnect was seen after {gone:?}, a reconnect after {back:?}");
    warm(&cluster, &one, &two, &expired).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reconnect_on_one_replica_replaces_what_the_other_has_in_memory() {
    let cluster = Cluster::start().await;
    let (one, two) = cluster.two(&[]).await;
    let expired = cluster.expired(&one, "acme").await;
    warm(&cluster, &one, &two, &expired).await;
    let old = two.token(&expired.id).await.access_token().to_owned();

    reconnect(&cluster, &one, &expired.id).await;

    let new = one.token(&expired.id).await.access_token().to_owned();
    assert_ne!(new, old);
    within("the other replica gives out the new grant's token", BY_SIGNAL, || async {
        let answer = two.token(&expired.id).await;
        if answer.access_token() == new { Ok(()) } else { Err(answer) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_api_key_stops_working_on_every_replica_at_once() {
    let cluster = Cluster::start().await;
    let (one, two) = cluster.two(&[]).await;
    let expired = cluster.expired(&one, "acme").await;
    warm(&cluster, &one, &two, &expired).await;
    let (id, key) = cluster.new_key("short-lived").await;
    let list = |replica: &Replica| {
        let request = client().get(format!("{}/api/v1/connectors", replica.url())).bearer_auth(&key);
        answer(request)
    };
    for replica in [&one, &two, &one, &two] {
        let listed = list(replica).await;
        assert_eq!(listed.status, 200, "{listed:?}");
    }

    cluster.run(&["key", "revoke", &id]).await;

    for replica in [&one, &two] {
        within("the key is refused", BY_SIGNAL, || async {
            let answer = list(replica).await;
            if answer.status == 401 { Ok(()) } else { Err(answer) }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_whose_listener_was_cut_off_reads_again() {
    deaf(Line::cut).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_whose_listener_hears_nothing_reads_again() {
    deaf(Line::silence).await;
}

async fn deaf(cut: impl FnOnce(&Line)) {
    let cluster = Cluster::start().await;
    let line = Line::to(cluster.database.address().await).await;
    let by_line = cluster.database.url_by(line.address());
    let setup = cluster.replica("two").with("database.listen_url", by_line.as_str());
    let (one, two) = tokio::join!(cluster.replica("one").start(), setup.start());
    let expired = cluster.expired(&one, "acme").await;
    warm(&cluster, &one, &two, &expired).await;
    cut(&line);

    disconnect(&one, &expired.id).await;
    let gone = answers(&two, &expired.id, "connector_disconnected", WITHOUT_SIGNAL).await;

    println!("without its listener, a replica saw a disconnect after {gone:?}");
    reconnect(&cluster, &one, &expired.id).await;
    let back = answers(&two, &expired.id, "", WITHOUT_SIGNAL).await;
    println!("and a reconnect after {back:?}");
    line.heal();
    warm(&cluster, &one, &two, &expired).await;
    assert_eq!(answers(&two, &expired.id, "", BY_SIGNAL).await.as_secs(), 0);
}
