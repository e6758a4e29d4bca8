//! Token answers of every kind, read as each adapter of the registry has them read; and what the fuzzer knows, without
//! the fuzzer (`fuzz/`).

use std::{fs, path::Path, sync::Arc};

use holdfast_app::{config::Config, registry};
use holdfast_core::{
    OAuth2, Provider,
    ports::Random as _,
    provider::{Auth, HostField, Hosts},
    testkit::{
        FakeProvider, SeededRandom,
        answers::{Heard, check, made},
    },
};
use proptest::test_runner::{Config as Cases, RngSeed, TestRunner};

/// What a mutation puts in.
const SNIPPETS: &[&[u8]] = &[
    b"\0",
    b"\"",
    b"}",
    b"null",
    b"1e400",
    b"-1",
    b"\xEF\xBB\xBF",
    b"\xFF\xFE",
    b"\xC3",
    b"\"access_token\":\"",
    b"\"refresh_token\":\"\"",
    b"\"error\":\"invalid_grant\"",
    b"&error=",
    b"\\u0000",
    b"\\ud800",
    b"RT-sent-0123456789/+=",
    b"RT-sent-0123456789%2F%2B%3D",
];

/// Every adapter that authenticates by OAuth, with its facts; and one with every fact that an adapter may state.
fn adapters() -> Vec<(Arc<dyn Provider>, OAuth2)> {
    let registry = registry::providers(&Config::default()).unwrap();
    let facts = |provider: &Arc<dyn Provider>| {
        let account = provider.account(provider.about().account_example).unwrap();
        match provider.auth(&account) {
            Auth::OAuth2(facts) => Some((Arc::clone(provider), *facts)),
            Auth::ApiKey(_) => None,
        }
    };
    let mut fake = FakeProvider::new();
    fake.facts.rejected_codes = vec!["none".to_owned()];
    fake.facts.scope_separator = ',';
    let suffixes = vec![".fake.test".to_owned()];
    fake.facts.base_url_field =
        Some(HostField { field: "instance_url".to_owned(), suffixes, hosts: Hosts::production() });
    let fake_facts = fake.facts.clone();
    let mut adapters: Vec<_> = registry.iter().filter_map(facts).collect();
    assert!(!adapters.is_empty());
    adapters.push((Arc::new(fake), fake_facts));
    adapters
}

#[test]
fn every_adapter_keeps_every_promise_whatever_is_answered() {
    for (provider, facts) in adapters() {
        let cases = Cases { cases: 1000, rng_seed: RngSeed::Fixed(11), failure_persistence: None, ..Cases::default() };
        let all = TestRunner::new(cases).run(&made::heard(), |heard| {
            check(&facts, Some(provider.as_ref()), &heard);
            Ok(())
        });
        all.unwrap_or_else(|error| panic!("{}: {error}", provider.about().id));
    }
}

#[test]
fn the_fuzzers_corpus_and_mutations_of_it_break_no_promise() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/token_answers");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let corpus: Vec<_> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    assert!(corpus.len() >= 20, "{} inputs", corpus.len());
    let adapters = adapters();
    let random = SeededRandom::new(23);
    for start in &corpus {
        let mut input = start.clone();
        for round in 0..600 {
            for (provider, facts) in &adapters {
                check(facts, Some(provider.as_ref()), &Heard::from_bytes(&input));
            }
            // Small steps away from the start, and back to it now and then.
            if round % 6 == 5 {
                input.clone_from(start);
            }
            mutate(&mut input, &corpus, &random);
        }
    }
}

/// One random change, as a fuzzer makes them.
fn mutate(input: &mut Vec<u8>, corpus: &[Vec<u8>], random: &SeededRandom) {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "below `end`"
    )]
    let below = |end: usize| (random.unit() * end as f64) as usize;
    let at = below(input.len() + 1);
    match below(6) {
        0 => input.truncate(at),
        1 if at < input.len() => input[at] ^= 1 << below(8),
        2 if at < input.len() => drop(input.remove(at)),
        3 => {
            let other = &corpus[below(corpus.len())];
            let tail = &other[below(other.len())..];
            input.truncate(at);
            input.extend_from_slice(tail);
        }
        _ => drop(input.splice(at..at, SNIPPETS[below(SNIPPETS.len())].iter().copied())),
    }
}
