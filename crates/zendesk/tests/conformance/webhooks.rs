//! The webhook that is kept at Zendesk.

use chrono::Utc;
use holdfast_core::{
    ErrorKind, Provider,
    webhook::{Subscriptions, Wanted},
};
use holdfast_sandbox::ZendeskWebhook;
use secrecy::ExposeSecret;

use crate::rig::Rig;

const ENDPOINT: &str = "hook_0123456789abcdef";
const URL: &str = "https://hub.example/hooks/hook_0123456789abcdef";

fn wanted() -> Wanted<'static> {
    Wanted { endpoint: ENDPOINT, url: URL, secret: None, remembered: &[], now: chrono::DateTime::<Utc>::UNIX_EPOCH }
}

fn kept(rig: &Rig) -> &dyn Subscriptions {
    rig.zendesk.webhooks().remove(0).subscriptions().unwrap()
}

#[tokio::test]
async fn a_webhook_is_made_found_mended_and_taken_away() {
    let rig = Rig::start().await;
    let (api, kept) = (rig.api().await, kept(&rig));
    assert_eq!(kept.look(&api, &wanted()).await.unwrap(), []);

    let made = kept.make(&api, &wanted(), kept.parts()[0]).await.unwrap();

    assert!(made.enabled && made.current && made.url == URL);
    assert_eq!(kept.look(&api, &wanted()).await.unwrap(), std::slice::from_ref(&made));
    let secret = kept.secret(&api, &made).await.unwrap().unwrap();
    assert_eq!(secret.expose_secret(), rig.acme.webhooks()[0].secret);

    rig.acme.change_webhooks(|all| {
        "inactive".clone_into(&mut all[0].status);
        all[0].subscriptions.truncate(1);
        "https://old.example/hooks/hook_0123456789abcdef".clone_into(&mut all[0].endpoint);
    });
    let seen = kept.look(&api, &wanted()).await.unwrap().remove(0);
    assert!(!seen.enabled && !seen.current && seen.url != URL);
    kept.mend(&api, &wanted(), &seen).await.unwrap();
    assert_eq!(kept.look(&api, &wanted()).await.unwrap(), std::slice::from_ref(&made));

    kept.remove(&api, &made).await.unwrap();
    kept.remove(&api, &made).await.expect("what is gone is gone");
    assert_eq!(rig.acme.webhooks().len(), 0);
}

#[tokio::test]
async fn ours_is_found_behind_any_number_of_others_and_those_of_people_are_left_alone() {
    let rig = Rig::start().await;
    let (api, kept) = (rig.api().await, kept(&rig));
    let made = kept.make(&api, &wanted(), kept.parts()[0]).await.unwrap();
    rig.acme.change_webhooks(|all| {
        let mut ours = all.remove(0);
        for number in 1..=250 {
            let endpoint = format!("https://elsewhere.example/hooks/{number}");
            all.push(ZendeskWebhook { id: format!("01OTHER{number}"), endpoint, number, ..ours.clone() });
        }
        ours.number = 251;
        let by_trigger = ZendeskWebhook {
            id: "01TRIGGER".to_owned(),
            subscriptions: vec!["conditional_ticket_events".to_owned()],
            number: 252,
            ..ours.clone()
        };
        all.extend([ours, by_trigger]);
    });

    assert_eq!(kept.look(&api, &wanted()).await.unwrap(), [made]);
}

#[tokio::test]
async fn who_is_no_administrator_is_told_that_a_person_has_to_act() {
    let rig = Rig::start().await;
    let kept = kept(&rig);

    for (user, scope) in [("gus", "read write"), ("ada", "tickets:read tickets:write")] {
        let refused = kept.look(&rig.api_as(user, scope), &wanted()).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Forbidden, "{user} {refused}");
    }
}
