//! Calls of tools under a key: on several replicas at once, and where the one that makes it is killed.

use std::time::Duration;

use futures::future::join_all;
use holdfast_sandbox::{GrantRequest, Helpdesk};
use holdfast_tests::{
    cluster::Cluster,
    cut::Line,
    process::{Answer, Replica, answer},
    wait::{uptime, within},
};
use reqwest::Method;
use serde_json::{Value, json};

use crate::BOUND;

/// From the owner's death to an answer that is no `call_under_way`: the server ends its line at once.
const SOON: Duration = Duration::from_secs(15);

async fn connected(cluster: &Cluster, replica: &Replica) -> (String, Helpdesk) {
    let desk = cluster.sandbox.helpdesk("acme").expect("it exists from the start");
    let grant = desk.grant(&GrantRequest::default()).expect("Ada works there");
    let body = json!({
        "provider": "zendesk", "account": "acme", "credential": {
            "access_token": grant.access_token, "refresh_token": grant.refresh_token,
            "expires_in": grant.expires_in, "scope": grant.scope,
        },
    });
    let made = answer(replica.request(Method::POST, "/api/v1/connectors").json(&body)).await;
    (made.text("id").to_owned(), desk)
}

fn call(
    replica: &Replica,
    id: &str,
    tool: &str,
    key: &str,
    arguments: &Value,
) -> impl Future<Output = Answer> + Send + use<> {
    let body = json!({ "arguments": arguments, "idempotency_key": key });
    answer(replica.request(Method::POST, &format!("/api/v1/connectors/{id}/tools/{tool}")).json(&body))
}

/// QJ-04 (1), (3).
#[tokio::test(flavor = "multi_thread")]
async fn one_key_has_one_effect_on_all_replicas() {
    let cluster = Cluster::start().await;
    let (one, two) = cluster.two(&[]).await;
    let (id, desk) = connected(&cluster, &one).await;
    let before = desk.comments(1).len();
    let note = json!({ "ticket_id": "1", "body": "Once", "public": false });

    let calls = (0..8).map(|caller| {
        let replica = if caller % 2 == 0 { &one } else { &two };
        tokio::spawn(call(replica, &id, "reply_to_ticket", "k-1", &note))
    });
    let answers = join_all(calls).await;
    let (here, there) = tokio::join!(
        call(&one, &id, "reply_to_ticket", "k-1", &note),
        call(&two, &id, "reply_to_ticket", "k-1", &note)
    );

    assert_eq!(desk.comments(1).len(), before + 1);
    assert!(here.status == 200 && here.body == there.body, "{here:?} {there:?}");
    for given in answers {
        let given = given.unwrap();
        let same = given.status == 200 && given.body == here.body;
        assert!(same || (given.code() == "call_under_way" && given.retry_after.is_some()), "{given:?}");
    }
}

/// Kills the replica that makes a keyed call while its request is under way, and answers what the other one says to the
/// same call in the end.
async fn killed_in_the_middle(tool: &str, key: &str, arguments: Value) -> (Answer, Helpdesk) {
    let cluster = Cluster::start().await;
    let line = Line::to(cluster.sandbox.addr()).await;
    let by_line = format!("http://{}/zendesk/{{account}}", line.address());
    let setup = cluster.replica("one").with("providers.zendesk.base_url_override", &by_line);
    let (one, two) = tokio::join!(setup.start(), cluster.replica("two").start());
    let (id, desk) = connected(&cluster, &two).await;
    line.silence();
    let under_way = tokio::spawn(call(&one, &id, tool, key, &arguments));
    within("the request is under way", BOUND, || async {
        if line.open() == 1 { Ok(()) } else { Err(line.ever_open()) }
    })
    .await;
    let busy = call(&two, &id, tool, key, &arguments).await;
    assert_eq!((busy.status.as_u16(), busy.code()), (409, "call_under_way"), "its owner lives: {busy:?}");

    under_way.abort();
    one.kill().await;
    line.cut();

    let killed = uptime();
    let ended = within("the key is not held by the dead", SOON, || async {
        let given = call(&two, &id, tool, key, &arguments).await;
        if given.code() == "call_under_way" { Err(given) } else { Ok(given) }
    })
    .await;
    println!("{tool}: {} {:?} after the kill", ended.status, uptime() - killed);
    (ended, desk)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_must_not_come_twice_is_maybe_done_soon_after_its_owner_was_killed() {
    let note = json!({ "ticket_id": "1", "body": "Perhaps", "public": false });

    let (ended, desk) = killed_in_the_middle("reply_to_ticket", "k-1", note).await;

    assert_eq!((ended.status.as_u16(), ended.code()), (409, "call_outcome_unknown"), "{ended:?}");
    assert_eq!(ended.body["maybe_done"], true, "{ended:?}");
    assert!(desk.comments(1).iter().all(|said| !said.to_string().contains("Perhaps")), "it is not repeated by itself");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_may_come_twice_is_made_again_soon_after_its_owner_was_killed() {
    let change = json!({ "ticket_id": "1", "add_tags": ["seen-by-two"] });
    let (ended, _) = killed_in_the_middle("update_ticket", "k-1", change).await;
    assert_eq!(ended.status, 200, "{ended:?}");
    assert!(ended.body["result"]["ticket"]["tags"].to_string().contains("seen-by-two"), "{ended:?}");

    let new = json!({ "subject": "Kettle", "body": "It leaks.", "requester": "mira@example.com" });
    let (ended, _) = killed_in_the_middle("create_ticket", "k-2", new).await;
    assert_eq!(ended.status, 200, "Zendesk knows the key again: {ended:?}");
}
