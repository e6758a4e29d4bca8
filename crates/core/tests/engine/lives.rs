//! EX: how long tokens live, and what is believed of it.

use std::{sync::Arc, time::Duration};

use chrono::TimeDelta;
use holdfast_core::{
    ApiClient, AppId, ConnectorId, Engine, Health, Secret, TokenSet,
    exchange::{Grant, Outcome, merge},
    ports::{Clock, OAuthApps},
    testkit::{
        FakeProvider, Script,
        answers::{self, Heard},
    },
};
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::{HOUR, Rig, ask, ask_token, refresh_due, token};

/// Tokens of [`calls`] really live for so long, whatever the answers say.
const TRUE_LIFE: Duration = HOUR;

/// One call to the API each minute, and the scheduler beside it; what the provider issued dies after an hour. Answers how
/// many calls met a 401 on the way; none of them may show it to its caller.
async fn calls(rig: &Rig, engine: &Arc<Engine>, connector: &ConnectorId, minutes: u32) -> usize {
    let snapshot = engine.snapshot(connector).await.unwrap().unwrap();
    let api = ApiClient::new(engine, &snapshot).unwrap();
    let start = rig.clock.uptime();
    for minute in 0..minutes {
        let issued = rig.endpoint.posts().last().map_or(start, |post| post.at);
        if rig.clock.uptime() - issued >= TRUE_LIFE {
            rig.endpoint.expire_access();
        }
        refresh_due(rig, engine).await;
        let called: Result<Value, _> = api.get("me").operation("me").fetch().await;
        called.unwrap_or_else(|error| panic!("minute {minute}: {error}"));
        rig.pass(Duration::from_mins(1)).await;
    }
    rig.endpoint.calls().len() - minutes as usize
}

fn live() -> (Rig, Arc<Engine>, ConnectorId) {
    let rig = Rig::new();
    let engine = rig.replica("a").0;
    let connector = rig.store.connect("con", &rig.endpoint.grant(), TRUE_LIFE);
    (rig, engine, connector)
}

/// Redeems a code for an answer with these fields changed, as a first grant is made.
async fn connected(changes: Value) -> TokenSet {
    let (rig, engine, _) = live();
    let mut answer = json!({"access_token": "AT-first", "refresh_token": "RT-first", "expires_in": 1800});
    for (name, value) in changes.as_object().unwrap() {
        answer[name] = value.clone();
    }
    rig.endpoint.script([Script::json(200, &answer)]);
    let app = rig.app.find(&AppId::instance("fake")).await.unwrap().unwrap();
    let code = SecretString::from("code-1");
    let grant = Grant::Code { code: &code, redirect_uri: "https://holdfast.test/cb", verifier: None };
    match engine.redeem(rig.provider.as_ref(), &rig.provider.facts, &app, &grant).await {
        Outcome::Rotated(answer) => merge(&rig.provider.facts, None, &answer, rig.clock.now()),
        other => panic!("{changes}: {other:?}"),
    }
}

/// EX-01
#[tokio::test(start_paused = true)]
async fn odd_lifetimes_never_spoil_a_connect() {
    for (expires_in, life) in [
        (json!("3600"), Some(3600)),
        (json!(3600.0), Some(3600)),
        (json!("3600.0"), Some(3600)),
        (json!(" 3600 "), Some(3600)),
        (json!(null), None),
        (json!(""), None),
        (json!("soon"), None),
        (json!(true), None),
        (json!([3600]), None),
    ] {
        let tokens = connected(json!({"expires_in": expires_in})).await;
        assert_eq!(tokens.expires_assumed, life.is_none(), "{expires_in}");
        // Unknown: the provider's default.
        assert_eq!(tokens.life(), Some(TimeDelta::seconds(life.unwrap_or(3600))), "{expires_in}");
    }
    for (refresh_life, days) in [
        (json!("2592000"), Some(30)),
        (json!(2_592_000.0), Some(30)),
        (json!(""), None),
        (json!(94_608_000), Some(1095)),
    ] {
        let tokens = connected(json!({"refresh_token_expires_in": refresh_life})).await;
        let life = tokens.refresh_expires_at.map(|end| (end - tokens.obtained_at).num_days());
        assert_eq!(life, days, "{refresh_life}");
    }
}

/// EX-02
#[tokio::test(start_paused = true)]
async fn one_answer_without_a_life_does_not_switch_refresh_off() {
    let (rig, engine, connector) = live();
    rig.endpoint.script([
        Script::Changed(json!({"expires_in": 3600})),
        Script::Changed(json!({"expires_in": null})),
        Script::Changed(json!({"expires_in": 3600})),
    ]);

    let unauthorised = calls(&rig, &engine, &connector, 180).await;

    assert_eq!(unauthorised, 0, "each token was renewed ahead of its end");
    let posts = rig.endpoint.posts().len();
    assert!((3..=5).contains(&posts), "{posts} exchanges in three hours");
    assert_eq!(rig.store.row(&connector).health, Health::Connected);
}

/// EX-02: the last known life goes before the provider's default.
#[tokio::test(start_paused = true)]
async fn a_life_that_is_not_said_is_assumed_to_be_the_last_known_one() {
    let (rig, engine, connector) = live();
    rig.store.change(&connector, |row| {
        let Secret::Tokens(tokens) = &mut row.credential.secret else { panic!("it has tokens") };
        tokens.expires_at = Some(tokens.obtained_at + TimeDelta::minutes(20));
    });
    rig.pass(Duration::from_mins(21)).await;
    rig.endpoint.script([Script::Changed(json!({"expires_in": null}))]);

    let snapshot = ask(&engine, &connector).await.unwrap();

    let tokens = snapshot.credential.secret.tokens().unwrap();
    assert_eq!((tokens.life(), tokens.expires_assumed), (Some(TimeDelta::minutes(20)), true));
}

/// EX-06
#[tokio::test(start_paused = true)]
async fn a_life_of_zero_is_unknown_and_neither_endless_nor_over() {
    for zero in [json!(0), json!("0"), json!(0.0), json!(-1)] {
        let (rig, engine, connector) = Rig::expired();
        rig.endpoint.script([Script::Changed(json!({"expires_in": zero}))]);
        for _ in 0..60 {
            assert_eq!(ask_token(&engine, &connector).await, "AT2", "{zero}");
            refresh_due(&rig, &engine).await;
            rig.pass(Duration::from_secs(10)).await;
        }
        assert_eq!(rig.endpoint.posts().len(), 1, "{zero}: no refresh on every call");
        rig.pass(HOUR).await;
        assert_eq!(ask_token(&engine, &connector).await, "AT3", "{zero}: no endless life");

        // Nothing could renew it, so nothing is gained by taking it for dead.
        let alone = connected(json!({"expires_in": zero, "refresh_token": null})).await;
        assert_eq!((alone.expires_at, alone.expires_assumed), (None, false));
        // A provider whose tokens do not expire says so in its facts.
        let mut facts = rig.provider.facts.clone();
        facts.expires_in_default = None;
        let body = json!({"access_token": "AT-first", "refresh_token": "RT-first", "expires_in": zero});
        let Outcome::Rotated(answer) = answers::read(&facts, None, &Heard::new(200, &[], body.to_string())) else {
            panic!("it is a success")
        };
        assert_eq!(merge(&facts, None, &answer, rig.clock.now()).expires_at, None);
    }
}

/// EX-07
#[tokio::test(start_paused = true)]
async fn a_life_in_milliseconds_costs_one_unseen_refresh_an_hour() {
    let (rig, engine, connector) = Rig::expired();
    rig.endpoint.set_life(3_600_000);
    let first = ask(&engine, &connector).await.unwrap();
    assert_eq!(token(&first), "AT2");

    let unauthorised = calls(&rig, &engine, &connector, 125).await;

    assert_eq!(unauthorised, 2, "one 401 for each token that died, met by the fallback and not by the caller");
    assert_eq!(rig.endpoint.posts().len(), 3);
    assert_eq!(rig.store.row(&connector).health, Health::Connected);
}

/// EX-05, an absolute end in the time of a provider whose clock is ten minutes ahead of ours.
#[test]
fn an_end_in_the_providers_time_is_a_life_in_ours() {
    let facts = FakeProvider::new().facts;
    let now = answers::received_at();
    let there = now + TimeDelta::minutes(10);
    let date = there.format("%a, %d %b %Y %H:%M:%S GMT").to_string();
    let end = there.timestamp() + 900;
    for (fields, life) in [
        (json!({"expires_at": end}), 900),
        (json!({"expires_at": end * 1000}), 900),
        (json!({"expires_at": 900}), 900),
        (json!({"expires": 900}), 900),
        (json!({"expires_in": 1800, "expires_at": end}), 1800),
        (json!({"expires_in": null, "expires_at": end}), 900),
        (json!({"expires_at": now.timestamp()}), 3600),
    ] {
        let mut body = json!({"access_token": "AT2", "refresh_token": "RT2"});
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let heard = Heard::new(200, &[("date", date.as_bytes())], body.to_string());
        let Outcome::Rotated(answer) = answers::check(&facts, None, &heard) else { panic!("it is a success") };
        let tokens = merge(&facts, None, &answer, now);
        assert_eq!(tokens.expires_at, Some(now + TimeDelta::seconds(life)), "{fields}");
    }
}

#[test]
fn a_refresh_token_that_is_only_repeated_keeps_its_known_end() {
    let facts = FakeProvider::new().facts;
    let old = answers::old_set();
    for (refresh_token, end) in [(answers::SENT_TOKEN, old.refresh_expires_at), ("RT-another-token", None)] {
        let body = json!({"access_token": "AT2", "refresh_token": refresh_token, "expires_in": 3600});
        let Outcome::Rotated(answer) = answers::read(&facts, None, &Heard::new(200, &[], body.to_string())) else {
            panic!("it is a success")
        };
        assert_eq!(merge(&facts, Some(&old), &answer, answers::received_at()).refresh_expires_at, end);
    }
}
