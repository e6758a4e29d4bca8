//! Two-factor sign-in from the set-up to the door, in both widths and schemes.

use std::time::Duration;

use holdfast_core::{Role, ports::Clock as _, totp};
use holdfast_tests::{chromium::Chromium, service::TestApp};

use crate::{service, sign_in};

const ADA: &str = "ada@acme.example";
const PAGE: &str = "/settings/account/two-factor";

/// What an app makes of the secret that stands on the page.
fn secret(text: &str) -> Vec<u8> {
    let group =
        |word: &&str| word.len() == 4 && word.bytes().all(|b| b.is_ascii_uppercase() || (b'2'..=b'7').contains(&b));
    let typed: String = text.split_whitespace().filter(group).collect();
    assert_eq!(typed.len(), 32, "{text}");
    let value = |c: u8| u64::from(if c.is_ascii_uppercase() { c - b'A' } else { c - b'2' + 26 });
    let five = |eight: &[u8]| {
        let held = eight.iter().fold(0, |held, c| (held << 5) | value(*c));
        held.to_be_bytes()[3..].to_vec()
    };
    typed.as_bytes().chunks(8).flat_map(five).collect()
}

fn code(app: &TestApp, secret: &[u8]) -> String {
    totp::code(secret, totp::step_at(app.clock.now()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_factor_is_set_up_and_used() {
    let (_db, app) = service().await;
    app.person("Acme", ADA, Role::Owner).await;
    let mut phone = Vec::new();
    Chromium::visitor_of(&app)
        .run(async |chromium| {
            sign_in(&app, chromium, ADA, PAGE).await;
            chromium.shows("It is off").await;
            chromium.press("Set it up").await;
            chromium.shows("type the secret").await;
            chromium.inspect("two-factor-setup").await;
            phone = secret(&chromium.text().await);
            chromium.fill("Code", "000000").await;
            chromium.fill("Password", holdfast_tests::people::PASSWORD).await;
            chromium.press("Turn it on").await;
            chromium.shows("That is not the code.").await;
            chromium.inspect("two-factor-wrong").await;
            chromium.fill("Code", &code(&app, &phone)).await;
            chromium.fill("Password", holdfast_tests::people::PASSWORD).await;
            chromium.press("Turn it on").await;
            chromium.shows("Your recovery codes").await;
            chromium.inspect("two-factor-codes").await;
            chromium.follow("I have kept them").await;
            chromium.heading("Connectors").await;
            chromium.open(&app.at(PAGE)).await;
            chromium.shows("It is on").await;
            chromium.inspect("two-factor-on").await;
            chromium.open(&app.at("/settings/team")).await;
            chromium.press("Require it").await;
            chromium.press("Require it of everybody").await;
            chromium.shows("Required").await;
            chromium.inspect("team-two-factor").await;
        })
        .await;

    app.clock.advance(Duration::from_secs(30));
    Chromium::visitor_of(&app)
        .run(async |chromium| {
            chromium.open(&app.at("/sign-in?next=/agents")).await;
            chromium.fill("E-mail address", ADA).await;
            chromium.fill("Password", holdfast_tests::people::PASSWORD).await;
            chromium.press("Sign in").await;
            chromium.heading("Second step").await;
            chromium.inspect("second-step").await;
            chromium.follow("Use a recovery code").await;
            chromium.shows("Type one of the recovery codes").await;
            chromium.inspect("second-step-recovery").await;
            chromium.follow("Use a code of your app").await;
            chromium.fill("Code", &code(&app, &phone)).await;
            chromium.press("Sign in").await;
            chromium.arrives(&app.at("/agents")).await;
        })
        .await;
}
