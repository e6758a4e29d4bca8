//! Token answers of every kind: whatever comes, there is a class, no promise is broken, and no token is lost.

use std::time::Duration;

use holdfast_core::{
    Health, Version,
    exchange::{Outcome, merge},
    provider::{HostField, Hosts},
    testkit::{
        FakeProvider, Script,
        answers::{self, Heard, made},
    },
};
use proptest::{
    prelude::*,
    sample::select,
    test_runner::{Config, RngSeed},
};
use secrecy::ExposeSecret;
use serde_json::{Map, Value, json};

use crate::{Rig, ask, token};

fn seeded(cases: u32) -> Config {
    Config { cases, rng_seed: RngSeed::Fixed(4), failure_persistence: None, ..Config::default() }
}

fn provider() -> FakeProvider {
    let mut provider = FakeProvider::new();
    let suffixes = vec![".fake.test".to_owned()];
    provider.facts.base_url_field =
        Some(HostField { field: "instance_url".to_owned(), suffixes, hosts: Hosts::production() });
    provider
}

/// Fields that make no refusal of a success.
fn harmless(mut fields: Map<String, Value>) -> Map<String, Value> {
    fields.remove("error");
    fields.remove("ok");
    fields
}

proptest! {
    #![proptest_config(seeded(2000))]

    #[test]
    fn every_answer_has_a_class_and_keeps_every_promise(heard in made::heard()) {
        let provider = provider();
        answers::check(&provider.facts, None, &heard);
        answers::check(&provider.facts, Some(&provider), &heard);
    }
}

proptest! {
    #![proptest_config(seeded(300))]

    /// TE-01, TE-03, EX-01: in every encoding, and however odd the other fields are.
    #[test]
    fn a_token_set_that_arrived_is_never_lost(
        fields in made::odd_fields(),
        access in made::access_token(),
        refresh in prop_oneof![Just(None), "[ -~]{0,40}".prop_map(Some), "\\PC{1,40}".prop_map(Some)],
        life in made::odd_life(),
    ) {
        let facts = provider().facts;
        let mut fields = harmless(fields);
        fields.insert("access_token".to_owned(), json!(access));
        fields.insert("expires_in".to_owned(), life);
        fields.remove("refresh_token");
        if let Some(refresh) = &refresh {
            fields.insert("refresh_token".to_owned(), json!(refresh));
        }
        let form = |content_type| (content_type, made::form(&fields));
        let forms = ["application/x-www-form-urlencoded", "text/html", ""].map(form);
        for (content_type, body) in made::readable(&fields).into_iter().chain(forms) {
            if content_type.contains("8859") && !Value::Object(fields.clone()).to_string().is_ascii() {
                // Two encodings in one body.
                continue;
            }
            let heard = Heard::new(200, &[("content-type", content_type.as_bytes())], body);
            let Outcome::Rotated(answer) = answers::check(&facts, None, &heard) else {
                return Err(TestCaseError::fail(format!("{content_type}: the token set is lost: {heard:?}")));
            };
            let merged = merge(&facts, Some(&answers::old_set()), &answer, answers::received_at());
            prop_assert_eq!(merged.access_token.expose_secret(), &access);
            let kept = refresh.as_deref().map(str::trim).filter(|token| !token.is_empty()).unwrap_or(answers::SENT_TOKEN);
            prop_assert_eq!(merged.refresh_token.as_ref().unwrap().expose_secret(), kept);
        }
    }

    /// TE-02
    #[test]
    fn an_answer_without_a_usable_access_token_is_no_success(
        fields in made::odd_fields(),
        access in prop_oneof![
            Just(None),
            made::odd_life().prop_filter("a text may be a token", |value| !value.is_string()).prop_map(Some),
            select(vec!["", "  ", "two words", "a\u{0}b", "a\nb", "t\u{f6}ken", "\u{feff}"]).prop_map(|text| Some(json!(text))),
        ],
    ) {
        let facts = provider().facts;
        let mut fields = fields;
        fields.remove("access_token");
        if let Some(access) = access {
            fields.insert("access_token".to_owned(), access);
        }
        for (content_type, body) in made::readable(&fields) {
            let heard = Heard::new(200, &[("content-type", content_type.as_bytes())], body);
            prop_assert!(!matches!(answers::check(&facts, None, &heard), Outcome::Rotated(_)), "{heard:?}");
        }
    }

    #[test]
    fn no_token_or_secret_is_repeated_by_errors_or_debug(
        status in select(vec![200_u16, 302, 400, 401, 403, 429, 500, 503]),
        access in made::access_token(),
        refresh in "RT[A-Za-z0-9]{8,300}",
        padding in "[a-z ]{0,320}",
        place in select(vec!["error", "error_description", "description", "message", "nested"]),
        sent in any::<bool>(),
    ) {
        let said = |secret: &str| format!("{padding}the token '{secret}' is over");
        let echo = if sent { said(answers::SENT_TOKEN) + answers::SENT_SECRET } else { said(&access) + &refresh };
        let mut fields = json!({"access_token": access, "refresh_token": refresh, "error": "invalid_grant"});
        match place {
            "nested" => fields["error"] = json!({"code": "invalid_grant", "message": echo}),
            place => fields[place] = json!(echo),
        }
        let provider = provider();
        for (content_type, body) in made::readable(fields.as_object().unwrap()) {
            let heard = Heard::new(status, &[("content-type", content_type.as_bytes())], body);
            let outcome = answers::check(&provider.facts, Some(&provider), &heard);
            let seen = format!("{outcome:?}");
            // Not even the beginning of one, where words are cut.
            for secret in [&access[..10], &refresh[..10], &answers::SENT_TOKEN[..10], &answers::SENT_SECRET[..10]] {
                prop_assert!(!seen.contains(secret), "{secret} in {seen}");
            }
        }
    }
}

proptest! {
    #![proptest_config(seeded(400))]

    /// TE-02, TE-05, TE-06: through the whole engine, with the strict endpoint behind it.
    #[test]
    fn an_odd_answer_costs_neither_the_old_token_nor_the_next_exchange(heard in made::heard()) {
        let provider = FakeProvider::new();
        let outcome = answers::read(&provider.facts, Some(&provider), &heard);
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
            let (rig, engine, connector) = Rig::expired();
            rig.endpoint.script([Script::Heard(heard.clone())]);

            let first = ask(&engine, &connector).await;

            let row = rig.store.row(&connector);
            let tokens = row.credential.secret.tokens().unwrap();
            assert_eq!(row.health, Health::Connected, "one refusal is not confirmed: {first:?}");
            match (&outcome, first) {
                (Outcome::Rotated(answer), Ok(snapshot)) => {
                    assert_eq!(token(&snapshot), answer.access_token.expose_secret());
                    assert_eq!(row.credential.version, Version(2));
                    return;
                }
                // Too short to be handed out: replaced in the same call.
                (Outcome::Rotated(_), Err(_)) => return,
                // The confirming attempt met the endpoint itself.
                (Outcome::Rejected(_), first) => assert_eq!(token(&first.unwrap()), "AT2"),
                (_, first) => {
                    first.unwrap_err();
                    assert_eq!((row.credential.version, tokens.access_token.expose_secret()), (Version(1), "AT1"));
                    assert!(row.credential.degraded.is_some());
                    rig.pass(Duration::from_hours(25)).await;
                    assert_eq!(token(&ask(&engine, &connector).await.unwrap()), "AT2");
                }
            }
            assert!(rig.spent().iter().all(|spent| spent == "RT1"), "{:?}", rig.spent());
            assert!(rig.store.effects().is_empty());
        });
    }
}
