//! Events to endpoints, over replicas that die.

use holdfast_tests::{
    cluster::{Cluster, ORG},
    process::{answer, client},
    receiver::Receiver,
    wait::within,
};
use reqwest::Method;
use serde_json::{Value, json};

use crate::BOUND;

const SETTINGS: [(&str, &str); 4] = [
    ("jobs.lease_secs", "5"),
    ("jobs.loop_interval_secs", "0.2"),
    ("jobs.backoff_base_secs", "0.1"),
    ("events.allow_private_hosts", "loopback"),
];

/// A replica is killed while an endpoint has its event and has not answered: another one brings it again, and the id tells
/// that it is the same.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_survives_the_replica_that_was_sending_it_and_keeps_its_id() {
    let cluster = Cluster::start().await;
    let made = cluster.run(&["key", "create", "--org", ORG, "--name", "admin", "--scope", "admin"]).await;
    let key = made["key"].as_str().expect("it is shown once").to_owned();
    let call = async |base: &str, method: Method, path: &str, body: Option<Value>| {
        let mut request = client().request(method, format!("{base}/api/v1/event-endpoints{path}")).bearer_auth(&key);
        if let Some(body) = body {
            request = request.json(&body);
        }
        answer(request).await.body
    };
    let receiver = Receiver::start().await;
    receiver.keep_silent_once();
    let one = cluster.replica("one").with_all(&SETTINGS).start().await;
    let endpoint = call(one.url(), Method::POST, "", Some(json!({ "url": receiver.url }))).await;
    let (id, secret) = (endpoint["id"].as_str().expect("an id"), endpoint["secret"].as_str().expect("a secret"));

    let test = call(one.url(), Method::POST, &format!("/{id}/test"), None).await;
    receiver.hears(1).await;
    one.kill().await;
    let two = cluster.replica("two").with_all(&SETTINGS).start().await;

    let told = within("it comes again", BOUND, async || {
        let told = receiver.told();
        if told.len() == 2 { Ok(told) } else { Err(told.len()) }
    })
    .await;
    assert!(told.iter().all(|one| one.id() == test["event_id"] && one.is_verified_by(secret)), "{test}");
    assert_eq!(told[0].body, told[1].body);
    let noted = within("it is noted", BOUND, async || {
        let all = call(two.url(), Method::GET, &format!("/{id}/attempts"), None).await;
        if all["data"].as_array().is_some_and(|all| all.len() == 1) { Ok(all) } else { Err(all) }
    })
    .await;
    assert_eq!((&noted["data"][0]["delivered"], &noted["data"][0]["attempt"]), (&json!(true), &json!(2)), "{noted}");
    let lost = "SELECT count(*) FROM job_attempts WHERE outcome = 'lost'";
    assert_eq!(cluster.database.number(lost).await, 1);
}
