//! Mail by several replicas: once to each admin, however many see a failure, and whoever is killed when.

use std::{collections::BTreeMap, time::Duration};

use futures::{StreamExt as _, future::join_all};
use holdfast_tests::{
    cluster::{Cluster, Expired, ORG},
    pooler::Pooler,
    process::Replica,
    smtp::{Message, Smtp},
    wait::within,
};

use crate::BOUND;

const ADMINS: [&str; 2] = ["ada@acme.example", "ben@acme.example"];
/// Nobody waits for company.
const AT_ONCE: [(&str, &str); 4] = [
    ("mail.gather_secs", "0"),
    ("mail.digest_window_secs", "0"),
    ("mail.loop_interval_secs", "0.02"),
    // A hundred are refused here, and none of that is an incident.
    ("refresh.mass_number", "1000"),
];
/// A claim of a killed owner ends after three times the time-out.
const SHORT: [(&str, &str); 1] = [("mail.send_timeout_secs", "3")];

/// Replicas with a mail server, and two admins beside nobody else.
async fn cluster() -> (Cluster, Smtp) {
    let (cluster, smtp) = (Cluster::start().await, Smtp::start().await);
    cluster.run(&["user", "create", "--org", ORG, "--email", ADMINS[1], "--role", "admin"]).await;
    cluster.run(&["user", "create", "--org", ORG, "--email", "cleo@acme.example", "--role", "member"]).await;
    (cluster, smtp)
}

async fn start(cluster: &Cluster, name: &'static str, smtp: &Smtp, settings: &[(&str, &str)]) -> Replica {
    let server = smtp.settings();
    let server: Vec<(&str, &str)> = server.iter().map(|(key, value)| (*key, value.as_str())).collect();
    cluster.replica(name).with_all(&AT_ONCE).with_all(&server).with_all(settings).start().await
}

/// A connector that every replica is asked about at once, after its consent was taken back.
async fn fails(replicas: &[&Replica], expired: &Expired) {
    expired.helpdesk.revoke(None);
    for answer in join_all(replicas.iter().map(|replica| replica.token(&expired.id))).await {
        assert_eq!((answer.status.as_u16(), answer.code()), (409, "connector_auth_failed"), "{answer:?}");
    }
}

/// Waits until nothing is left to be told.
async fn all_told(cluster: &Cluster) {
    const LEFT: &str = "SELECT (SELECT count(*) FROM mails WHERE settled_at IS NULL) + (SELECT count(*) FROM outbox \
                        WHERE done_at IS NULL AND effect IN ('mail_admins', 'mail_recovery'))";
    within("everything is told", BOUND, async || match cluster.database.number(LEFT).await {
        0 => Ok(()),
        left => Err(left),
    })
    .await;
}

/// Messages by recipient and id.
async fn by_id(smtp: &Smtp) -> BTreeMap<(String, String), Vec<Message>> {
    let mut found: BTreeMap<_, Vec<Message>> = BTreeMap::new();
    for message in smtp.messages().await {
        let key = (message.to[0].clone(), message.header("Message-ID").to_owned());
        found.entry(key).or_default().push(message);
    }
    found
}

/// EM-03
#[tokio::test(flavor = "multi_thread")]
async fn two_replicas_that_see_the_same_failure_mail_it_once_to_each_admin() {
    const ROUNDS: usize = 100;
    let (cluster, smtp) = cluster().await;
    let pooler = Pooler::to(cluster.database.address().await, 4).await;
    let (by_pooler, direct) = (cluster.database.url_by(pooler.address()), cluster.database.url().clone());
    let database = [
        ("database.url", by_pooler.as_str()),
        ("database.listen_url", direct.as_str()),
        ("refresh.confirm_pause_secs", "0.01"),
    ];
    let (one, two) = tokio::join!(start(&cluster, "one", &smtp, &database), start(&cluster, "two", &smtp, &database));

    for round in 0..ROUNDS {
        let expired = cluster.expired(&one, &format!("desk{round}")).await;
        fails(&[&one, &two], &expired).await;
    }
    all_told(&cluster).await;

    let messages = smtp.messages().await;
    for admin in ADMINS {
        let texts: String = messages.iter().filter(|message| message.to == [admin]).map(|m| m.text.as_str()).collect();
        for round in 0..ROUNDS {
            // Rounds that met in one look of a worker stand in one message.
            let told = texts.matches(&format!("Account:  Zendesk, desk{round}.zendesk.com\n")).count();
            assert_eq!(told, 1, "{admin} was told {told} times of desk{round}");
        }
    }
    assert!(messages.iter().all(|message| ADMINS.contains(&message.to[0].as_str())), "nobody else hears of it");
    assert_eq!(by_id(&smtp).await.len(), messages.len(), "no message was repeated");
    println!("{} messages about {ROUNDS} failures; {} transactions", messages.len(), pooler.transactions());
    for replica in [&one, &two] {
        for secret in ["/reconnect/", "acme.example"] {
            assert_eq!(replica.said(secret), [""; 0], "{secret} is in the log");
        }
    }
}

/// The server has accepted, and whoever sent dies before it is written down: the same message comes again.
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_killed_after_the_acceptance_repeats_the_same_message() {
    let (cluster, smtp) = cluster().await;
    let one = start(&cluster, "one", &smtp, &SHORT).await;
    let expired = cluster.expired(&one, "acme").await;
    smtp.hold_answers().await;
    fails(&[&one], &expired).await;
    held(&smtp, 2).await;

    one.kill().await;
    smtp.calm().await;
    let _two = start(&cluster, "two", &smtp, &SHORT).await;
    all_told(&cluster).await;

    let found = by_id(&smtp).await;
    assert_eq!(found.keys().map(|(to, _)| to.as_str()).collect::<Vec<_>>(), ADMINS, "one message to each: {found:?}");
    for ((to, _), copies) in &found {
        assert_eq!(copies.len(), 2, "{to}");
        assert_eq!((&copies[0].subject, copies[0].structure.len()), (&copies[1].subject, copies[1].structure.len()));
    }
    assert_eq!(cluster.database.number("SELECT count(*) FROM mails WHERE state = 'sent' AND unsure").await, 2);
}

/// Whoever sends dies while nothing has been accepted: nothing is lost, and nothing comes twice.
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_killed_before_the_acceptance_costs_nobody_a_mail() {
    let (cluster, smtp) = cluster().await;
    let one = start(&cluster, "one", &smtp, &SHORT).await;
    let expired = cluster.expired(&one, "acme").await;
    smtp.hold_recipients().await;
    fails(&[&one], &expired).await;
    held(&smtp, 2).await;

    one.kill().await;
    smtp.calm().await;
    let _two = start(&cluster, "two", &smtp, &SHORT).await;
    all_told(&cluster).await;

    let found = by_id(&smtp).await;
    let to: Vec<_> = found.iter().map(|((to, _), copies)| (to.as_str(), copies.len())).collect();
    assert_eq!(to, ADMINS.map(|admin| (admin, 1)), "{found:?}");
}

/// Whoever saw the failure dies while it still waits for company.
#[tokio::test(flavor = "multi_thread")]
async fn a_failure_outlives_the_replica_that_saw_it() {
    let (cluster, smtp) = cluster().await;
    let waiting = [("mail.gather_secs", "1"), ("mail.loop_interval_secs", "3600")];
    let one = start(&cluster, "one", &smtp, &waiting).await;
    let expired = cluster.expired(&one, "acme").await;
    fails(&[&one], &expired).await;
    one.kill().await;
    assert_eq!(smtp.attempts().await, 0);

    let soon = [("mail.gather_secs", "1")];
    let (_two, _three) = tokio::join!(start(&cluster, "two", &smtp, &soon), start(&cluster, "three", &smtp, &soon));
    all_told(&cluster).await;

    let found = by_id(&smtp).await;
    let to: Vec<_> = found.iter().map(|((to, _), copies)| (to.as_str(), copies.len())).collect();
    assert_eq!(to, ADMINS.map(|admin| (admin, 1)), "{found:?}");
}

async fn held(smtp: &Smtp, count: u64) {
    within("the mail server holds the messages", Duration::from_secs(30), async || match smtp.held().await {
        held if held == count => Ok(()),
        held => Err(held),
    })
    .await;
}

/// 200 fail at once, seen by two replicas of which one is killed in the middle: to each admin a mail and a digest, in which
/// every one of them stands once.
#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_failures_are_a_mail_and_a_digest_across_a_kill() {
    const MANY: i64 = 200;
    const ITEMS: &str = "SELECT count(*) FROM mail_items i JOIN mails m ON m.id = i.mail_id \
                         WHERE i.kind = 'needs_you' AND i.dropped IS NULL AND m.state = 'sent'";
    const CONNECTORS: &str = "SELECT count(DISTINCT i.connector_id) FROM mail_items i JOIN mails m ON m.id = i.mail_id \
                              WHERE i.kind = 'needs_you' AND m.state = 'sent'";
    let (cluster, smtp) = cluster().await;
    let digest = [
        ("mail.gather_secs", "0.2"),
        ("mail.digest_window_secs", "30"),
        ("mail.send_timeout_secs", "3"),
        ("refresh.confirm_pause_secs", "0.01"),
    ];
    let (one, two) = tokio::join!(start(&cluster, "one", &smtp, &digest), start(&cluster, "two", &smtp, &digest));
    let mut all = Vec::new();
    for number in 0..MANY {
        all.push(cluster.expired(&one, &format!("desk{number}")).await);
    }
    for expired in &all {
        expired.helpdesk.revoke(None);
    }

    fails(&[&one, &two], &all[0]).await;
    within("the first one is told", BOUND, async || match smtp.messages().await.len() {
        2 => Ok(()),
        told => Err(told),
    })
    .await;
    let (early, late) = all[1..].split_at(all.len() / 2);
    futures::stream::iter(early).for_each_concurrent(8, async |expired| fails(&[&one, &two], expired).await).await;
    one.kill().await;
    futures::stream::iter(late).for_each_concurrent(8, async |expired| fails(&[&two], expired).await).await;
    all_told(&cluster).await;

    let found = by_id(&smtp).await;
    for admin in ADMINS {
        let count = found.keys().filter(|(to, _)| to == admin).count();
        assert_eq!(count, 2, "{admin}: {:?}", found.keys());
    }
    assert_eq!(cluster.database.number(CONNECTORS).await, MANY);
    assert_eq!(cluster.database.number(ITEMS).await, 2 * MANY, "each once to each of the two");
}
