//! Webhooks on several replicas: one event is one event, and the count that leads to "gone" is right.

use futures::future::join_all;
use holdfast_sandbox::EventOrder;
use holdfast_tests::{
    cluster::Cluster,
    process::{Replica, answer},
};
use reqwest::Method;
use serde_json::{Value, json};

const FEW: [(&str, &str); 4] = [
    ("webhooks.gone_after", "100"),
    ("webhooks.gone_after_secs", "60"),
    ("webhooks.warn_after", "99"),
    ("webhooks.park_events", "0"),
];
const SECRET: &str = "zendesk-signing-secret";

async fn post(replica: &Replica, path: &str, body: Value) -> Value {
    let answer = answer(replica.request(Method::POST, path).json(&body)).await;
    assert!(answer.status.is_success(), "{answer:?}");
    answer.body
}

/// A connector with its webhook: their ids.
async fn hook(replica: &Replica) -> (String, String) {
    let credential = json!({ "access_token": "a", "refresh_token": "r", "expires_in": 86_400 });
    let body = json!({ "provider": "zendesk", "account": "acme", "credential": credential });
    let id = post(replica, "/api/v1/connectors", body).await["id"].as_str().expect("it has an id").to_owned();
    let made = post(replica, &format!("/api/v1/connectors/{id}/webhook"), json!({ "secret": SECRET })).await;
    let url = made["url"].as_str().expect("it has an address");
    (id, url.rsplit('/').next().expect("it has a path").to_owned())
}

fn event(replica: &Replica, endpoint: &str, id: &str) -> EventOrder {
    EventOrder {
        provider: "zendesk".to_owned(),
        url: format!("{}/hooks/{endpoint}", replica.url()),
        secret: SECRET.to_owned(),
        id: id.to_owned(),
        once: true,
        ..EventOrder::default()
    }
}

async fn send_all(cluster: &Cluster, orders: Vec<EventOrder>) -> Vec<u16> {
    let send = async |order: EventOrder| {
        let attempts = cluster.sandbox.send_event(&order).await.expect("the order makes sense");
        attempts[0].status
    };
    join_all(orders.into_iter().map(send)).await
}

/// WD-01 on four replicas, then WR-04: the threshold trips at its number, once, and all of them say so.
#[tokio::test(flavor = "multi_thread")]
async fn four_replicas_take_an_event_once_and_are_gone_at_the_same_number() {
    let cluster = Cluster::start().await;
    let names = ["one", "two", "three", "four"];
    let replicas = join_all(names.map(|name| cluster.replica(name).with_all(&FEW).start())).await;
    let (id, endpoint) = hook(&replicas[0]).await;

    let same = replicas.iter().cycle().take(40).map(|replica| event(replica, &endpoint, "evt-1")).collect();
    assert!(send_all(&cluster, same).await.iter().all(|status| *status == 200));
    assert_eq!(cluster.database.number("SELECT COUNT(*) FROM deliveries").await, 1);
    assert_eq!(cluster.database.number("SELECT COUNT(*) FROM jobs WHERE kind = 'event'").await, 1);

    post(&replicas[1], &format!("/api/v1/connectors/{id}/disconnect"), json!({})).await;
    let several = |count: usize, from: usize| {
        let orders = replicas.iter().cycle().take(count).enumerate();
        orders.map(|(number, replica)| event(replica, &endpoint, &format!("evt-{}", from + number))).collect::<Vec<_>>()
    };
    assert!(send_all(&cluster, several(60, 10)).await.iter().all(|status| *status == 503));
    // As if the first of them had come two minutes ago.
    let mut session = cluster.database.session().await;
    let earlier = "UPDATE webhook_endpoints SET refused_since = refused_since - interval '2 minutes'";
    sqlx::query(earlier).execute(&mut session).await.expect("the statement is right");
    assert!(send_all(&cluster, several(39, 100)).await.iter().all(|status| *status == 503));
    let last = send_all(&cluster, several(40, 200)).await;

    assert!(last.iter().all(|status| *status == 410), "{last:?}");
    assert_eq!(cluster.database.number("SELECT refused FROM webhook_endpoints").await, 100);
    let lines = "SELECT COUNT(*) FROM timeline WHERE kind = 'webhook' AND outcome = 'gone'";
    assert_eq!(cluster.database.number(lines).await, 1);
    // Unsigned ones are told the same by each of them, and change nothing.
    let unsigned = several(4, 300).into_iter().map(|order| EventOrder { secret: String::new(), ..order }).collect();
    assert_eq!(send_all(&cluster, unsigned).await, [410; 4]);
}
