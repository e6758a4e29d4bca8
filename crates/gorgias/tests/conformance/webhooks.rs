//! The HTTP integration that is kept at Gorgias.

use holdfast_core::{
    ErrorKind, Provider,
    webhook::{Subscriptions, Wanted},
};
use secrecy::SecretString;
use serde_json::json;

use crate::rig::Rig;

const URL: &str = "https://hub.example/hooks/hook_0123456789abcdef";
const SCOPES: &str = "offline integrations:read integrations:write";

fn wanted(secret: &SecretString) -> Wanted<'_> {
    let now = chrono::DateTime::UNIX_EPOCH;
    Wanted { endpoint: "hook_0123456789abcdef", url: URL, secret: Some(secret), remembered: &[], now }
}

fn kept(rig: &Rig) -> &dyn Subscriptions {
    rig.gorgias.webhooks().remove(0).subscriptions().unwrap()
}

#[tokio::test]
async fn an_integration_is_made_found_behind_others_mended_and_taken_away() {
    let rig = Rig::start().await;
    let (api, kept) = (rig.api_as("ada", SCOPES), kept(&rig));
    let (one, other) = (SecretString::from("our-first-secret"), SecretString::from("our-other-secret"));

    let made = kept.make(&api, &wanted(&one), kept.parts()[0]).await.unwrap();

    assert!(made.enabled && made.current && made.url == URL);
    rig.acme.change_integrations(|all| {
        for number in 0..150 {
            all.push(json!({
                "id": number + 1, "created_datetime": "2027-01-01T00:00:00", "deactivated_datetime": null,
                "http": null, "type": "email",
            }));
        }
    });
    assert_eq!(kept.look(&api, &wanted(&one)).await.unwrap(), std::slice::from_ref(&made));
    let seen = kept.look(&api, &wanted(&other)).await.unwrap().remove(0);
    assert!(!seen.current, "it carries another secret");
    kept.mend(&api, &wanted(&other), &seen).await.unwrap();
    assert!(kept.look(&api, &wanted(&other)).await.unwrap()[0].current);
    rig.acme.change_integrations(|all| all[0]["deactivated_datetime"] = json!("2026-11-30T10:00:00"));
    assert!(!kept.look(&api, &wanted(&other)).await.unwrap()[0].enabled);

    kept.remove(&api, &made).await.unwrap();
    kept.remove(&api, &made).await.expect("what is gone is gone");
    assert_eq!(kept.look(&api, &wanted(&other)).await.unwrap(), []);
}

#[tokio::test]
async fn a_grant_without_integrations_is_a_persons_matter() {
    let rig = Rig::start().await;
    let secret = SecretString::from("our-first-secret");

    for api in [rig.api_as("ada", "offline tickets:read"), rig.api_as("gus", SCOPES)] {
        let refused = kept(&rig).look(&api, &wanted(&secret)).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Forbidden, "{refused}");
    }
}
