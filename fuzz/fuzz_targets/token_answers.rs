//! Whatever a token endpoint answers: a class, no panic, no lost token, no secret in the words.
//!
//! The same checks run over the corpus, and over mutations of it, as an ordinary test: `tests/it/answers.rs`.

#![no_main]

use holdfast_core::{
    Provider,
    provider::Auth,
    testkit::{
        FakeProvider,
        answers::{Heard, check},
    },
};
use holdfast_zendesk::Zendesk;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let heard = Heard::from_bytes(data);
    check(&FakeProvider::new().facts, None, &heard);
    let zendesk = Zendesk::new();
    let account = zendesk.account("acme").expect("it is a subdomain");
    let Auth::OAuth2(facts) = zendesk.auth(&account) else { panic!("it is OAuth") };
    check(&facts, Some(&zendesk), &heard);
});
