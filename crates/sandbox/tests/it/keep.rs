//! A sandbox that ends and starts again: what it issued is still good, what was spent stays spent.

#![expect(clippy::unwrap_used, reason = "helpers of tests: clippy only knows functions marked as tests")]

use std::path::PathBuf;

use holdfast_sandbox::{Builder, Canned, GrantRequest, Options, Sandbox, Scene};
use serde_json::json;

use crate::support::{Fixture, error_of};

/// A file of its own, which goes with it.
struct File(PathBuf);

impl File {
    fn new(name: &str) -> Self {
        let file = std::env::temp_dir().join(format!("holdfast-sandbox-{}-{name}.json", std::process::id()));
        std::fs::remove_file(&file).ok();
        Self(file)
    }

    fn sandbox(&self) -> Builder {
        Sandbox::builder().scene(Scene::Demo).file(&self.0)
    }

    /// As the file is at this moment, which is what a killed process leaves.
    async fn as_killed_now(&self, name: &str) -> (Self, Fixture) {
        let copy = Self::new(name);
        std::fs::copy(&self.0, &copy.0).unwrap();
        let next = Fixture::with(copy.sandbox()).await;
        (copy, next)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).ok();
    }
}

async fn refreshed(it: &Fixture, refresh_token: &str) -> (String, String) {
    let answer = it.refresh(refresh_token).await.unwrap();
    assert_eq!(answer.status(), 200);
    let answer: serde_json::Value = answer.json().await.unwrap();
    (answer["access_token"].as_str().unwrap().to_owned(), answer["refresh_token"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_token_that_was_answered_outlives_a_kill_in_the_next_moment() {
    let file = File::new("answered");
    let it = Fixture::with(file.sandbox()).await;
    let granted = it.control("zendesk/acme/grant", json!({})).await;
    let first = granted["refresh_token"].as_str().unwrap();
    let (access, second) = refreshed(&it, first).await;

    let (_copy, next) = file.as_killed_now("answered-next").await;

    assert!(next.acme.accepts(&access));
    let (_, third) = refreshed(&next, &second).await;
    assert_eq!(next.acme.counters().rotations, 2, "its numbers go on");
    // A spent one that comes back is known, and takes its family with it.
    assert_eq!(error_of(next.refresh(first).await.unwrap(), 400).await, "invalid_grant");
    assert_eq!(next.acme.counters().reuses, 1);
    assert_eq!(next.refresh(&third).await.unwrap().status(), 400);
}

#[tokio::test]
async fn a_code_can_be_spent_once_also_across_a_kill() {
    let file = File::new("code");
    let it = Fixture::with(file.sandbox()).await;
    let location = it.control("consent", json!({"authorize_url": it.authorize_url(&[])})).await;
    let code = crate::support::param(location["location"].as_str().unwrap(), "code").unwrap();

    let (copy, next) = file.as_killed_now("code-next").await;
    assert_eq!(next.exchange(&code).await.status(), 200);
    let (_copy, last) = copy.as_killed_now("code-last").await;

    assert_eq!(last.exchange(&code).await.status(), 400);
    assert_eq!(last.acme.ledger().sets.len(), 1);
}

#[tokio::test]
async fn revocations_tickets_trouble_clock_and_options_are_kept() {
    let file = File::new("all");
    let it = Fixture::with(file.sandbox().with(|options| options.min_expires_in = 1)).await;
    let gone = it.acme.grant(&GrantRequest::default()).unwrap();
    let kept = it.acme.grant(&GrantRequest::default()).unwrap();
    it.control("zendesk/acme/revoke", json!({"grant": gone.grant})).await;
    let closed = Canned::new(503, "closed").for_secs(60);
    it.control("zendesk/globex/faults", json!({"api_answer": closed, "delay_ms": 3})).await;
    it.control("clock", json!({"advance_secs": 100})).await;
    let body = json!({"ticket": {"subject": "Naïve", "comment": {"body": "Ünïcode 陳"}}});
    let create = |it: &Fixture| {
        let url = format!("{}/api/v2/tickets", it.acme.url());
        it.http.post(url).bearer_auth(&kept.access_token).header("idempotency-key", "once").json(&body).send()
    };
    assert_eq!(create(&it).await.unwrap().status(), 201);
    let made = it.acme.ticket(13).unwrap();
    assert_eq!(made["subject"], "Naïve");

    let (_copy, next) = file.as_killed_now("all-next").await;

    assert_eq!((next.acme.accepts(&gone.access_token), next.acme.accepts(&kept.access_token)), (false, true));
    let again = create(&next).await.unwrap();
    assert_eq!(again.headers()["x-idempotency-lookup"], "hit", "the key of before is known");
    let mut same = next.acme.ticket(13).unwrap();
    same["url"] = made["url"].clone();
    assert_eq!(same, made);
    assert!(next.acme.ticket(14).is_none());
    let globex = next.sandbox.helpdesk("globex").unwrap();
    assert_eq!((globex.faults().delay_ms, globex.faults().api_answer.unwrap().status), (3, 503));
    next.sandbox.advance(std::time::Duration::from_secs(61));
    let calm = next.http.get(format!("{}/api/v2/users/me", globex.url())).send().await.unwrap();
    assert_eq!(calm.status(), 200, "the trouble ends when it was to end");
    assert_eq!(next.sandbox.options(), Options { min_expires_in: 1, ..Options::default() });
    assert!((next.sandbox.now() - it.sandbox.now()).num_seconds() >= 60);
}

#[tokio::test]
async fn what_methods_change_is_kept_when_asked_and_at_the_end() {
    let file = File::new("methods");
    let it = Fixture::with(file.sandbox()).await;
    let asked = it.acme.grant(&GrantRequest::default()).unwrap();
    it.sandbox.keep().await;
    let (_copy, next) = file.as_killed_now("methods-next").await;
    assert!(next.acme.accepts(&asked.access_token));

    let ended = it.acme.grant(&GrantRequest::default()).unwrap();
    it.sandbox.stop().await;
    let last = Fixture::with(file.sandbox()).await;

    assert!(last.acme.accepts(&ended.access_token));
}

#[tokio::test]
async fn many_at_once_are_all_kept() {
    let file = File::new("many");
    let it = Fixture::with(file.sandbox()).await;
    let grants: Vec<_> = (0..40).map(|_| it.acme.grant(&GrantRequest::default()).unwrap()).collect();
    let all = grants.iter().map(|grant| refreshed(&it, &grant.refresh_token));
    let all = futures::future::join_all(all).await;

    let (_copy, next) = file.as_killed_now("many-next").await;

    assert!(all.iter().all(|(access, _)| next.acme.accepts(access)));
}

#[tokio::test]
async fn a_file_that_holds_something_else_is_left_as_it_is() {
    let file = File::new("else");
    std::fs::write(&file.0, "precious").unwrap();

    let refused = file.sandbox().start().await.unwrap_err();

    assert!(refused.to_string().contains("does not hold a sandbox's state"), "{refused}");
    assert_eq!(std::fs::read(&file.0).unwrap(), b"precious");
}

#[cfg(unix)]
#[tokio::test]
async fn only_its_owner_may_read_the_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let file = File::new("mode");
    let it = Fixture::with(file.sandbox()).await;
    it.sandbox.keep().await;

    assert_eq!(std::fs::metadata(&file.0).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn a_freshdesk_key_and_what_was_written_with_it_outlive_a_kill() {
    let file = File::new("freshdesk");
    let it = Fixture::with(file.sandbox()).await;
    let acme = it.sandbox.freshdesk("acme").unwrap();
    let key = acme.reset_key("gus").unwrap();
    let url = format!("{}/api/v2/tickets/5/notes", acme.url());
    let noted = it.http.post(url).basic_auth(&key, Some("X")).json(&json!({"body": "kept"})).send().await.unwrap();
    assert_eq!(noted.status(), 201);

    let (_copy, next) = file.as_killed_now("freshdesk-next").await;

    let acme = next.sandbox.freshdesk("acme").unwrap();
    assert!(acme.accepts(&key));
    assert_eq!(acme.conversations(5).last().unwrap()["body_text"], "kept");
    assert_eq!(acme.counters().api_calls, 1, "its numbers go on");
}
