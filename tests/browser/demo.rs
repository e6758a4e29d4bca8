//! The demo as a newcomer meets it.

use holdfast_tests::{
    chromium::{Chromium, Scheme, Width},
    demo::Demo,
    wait::until,
};
use thirtyfour::By;

/// Presses one of the sandbox's buttons for this helpdesk; each helpdesk has the same ones.
async fn happens(chromium: &Chromium, desk: &str, action: &str) {
    let button = By::Css(format!("#{desk} button[value={action}]"));
    chromium.driver().find(button).await.unwrap().click().await.unwrap();
    chromium.shows("See what Holdfast makes of it").await;
}

/// What has happened stands in the part that was pressed in, has the focus, and is in view.
async fn is_told_at_hand(chromium: &Chromium, part: &str) {
    let script = "const told = document.activeElement, place = told.getBoundingClientRect(); \
                  return told.id === 'done' && told.closest(arguments[0]) !== null && place.top >= 0 \
                  && place.bottom <= innerHeight;";
    let look = async || chromium.driver().execute(script, vec![part.into()]).await.unwrap().json().as_bool();
    until("what has happened is told at hand", look, |told| *told == Some(true)).await;
}

/// Presses the button of the mail that is shown; the mail stands in a frame, as in a mail program.
async fn press_in_mail(chromium: &Chromium) {
    let driver = chromium.driver();
    driver.enter_frame(0).await.unwrap();
    chromium.shows("Reconnect").await;
    driver.find(By::Css("a[href*='/reconnect/']")).await.unwrap().click().await.unwrap();
    driver.enter_default_frame().await.unwrap();
}

/// How much of the mail its frame does not show, once it has its height.
async fn hidden_of_the_mail(chromium: &Chromium) -> i64 {
    let script = "const frame = document.querySelector('iframe.letter'); \
                  const letter = frame.contentDocument.documentElement; \
                  return Math.max(letter.scrollHeight - frame.clientHeight, letter.scrollWidth - frame.clientWidth, 0);";
    let look = async || chromium.driver().execute(script, Vec::new()).await.unwrap().json().as_i64().unwrap();
    until("the mail has its height", look, |hidden| *hidden == 0).await
}

/// Every step by what the bar and the pages offer, from the printed address to the connector that works again.
#[tokio::test(flavor = "multi_thread")]
async fn the_whole_story_is_told_by_its_bar() {
    let folder = tempfile::tempdir().unwrap();
    let demo = Demo::start(folder.path(), &[]).await;
    Chromium::visitor(&[&demo.base, &demo.control])
        .run(async |chromium| {
            chromium.open(&demo.open).await;
            chromium.press("Sign in").await;
            chromium.heading("Connectors").await;
            chromium.shows("Step 1 of 5: Connect a helpdesk").await;
            chromium.picture("demo-story-1-begins").await;

            chromium.follow("Connect Zendesk").await;
            chromium.heading("Connect Zendesk").await;
            chromium.fill("Zendesk subdomain", "globex").await;
            chromium.press("Continue to Zendesk").await;
            chromium.heading("Allow Holdfast to access Globex?").await;
            chromium.press("Allow").await;
            chromium.heading("globex.zendesk.com").await;
            chromium.shows("globex.zendesk.com is connected").await;
            chromium.shows("Step 2 of 5: Watch a token rotate").await;
            let page = chromium.url().await;

            // What a minute would bring by itself.
            chromium.open(&demo.control).await;
            happens(chromium, "globex", "expire").await;
            chromium.open(page.as_str()).await;
            chromium.press("Test").await;
            chromium.focus_is_on("Test passed").await;
            chromium.shows("Step 3 of 5: Break it").await;

            chromium.follow("Open the sandbox").await;
            chromium.heading("The providers, imitated").await;
            happens(chromium, "acme", "revoke").await;
            // List and bar follow by themselves.
            chromium.open(&format!("{}/demo/mailbox", demo.base)).await;
            chromium.heading("Mailbox").await;
            chromium.shows("Step 4 of 5: Read the mail").await;
            chromium.shows("Everybody who can mend").await;
            chromium.shows("Acme support needs you").await;
            chromium.picture("demo-story-4-mail").await;

            let first = By::Css("main .rows a");
            chromium.driver().find(first).await.unwrap().click().await.unwrap();
            chromium.shows("Step 5 of 5: Reconnect").await;
            chromium.picture("demo-story-5-letter").await;
            for width in [Width::Phone, Width::Desk] {
                chromium.look(width, Scheme::Light).await;
                assert_eq!(hidden_of_the_mail(chromium).await, 0, "pixels of the mail are cut off at {width:?}");
            }
            press_in_mail(chromium).await;
            chromium.press("Continue to Zendesk").await;
            chromium.heading("Allow Holdfast to access Acme?").await;
            chromium.press("Allow").await;
            chromium.shows("Connected").await;

            chromium.open(&format!("{}/connectors", demo.base)).await;
            chromium.shows("That was the story.").await;
            chromium.shows("Nothing needs you.").await;
            chromium.picture("demo-story-6-ends").await;
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_printed_address_opens_a_form_that_is_filled_in() {
    let folder = tempfile::tempdir().unwrap();
    let demo = Demo::start(folder.path(), &[]).await;
    let visitor = Chromium::visitor(&[&demo.base, &demo.control]);
    visitor
        .run(async |chromium| {
            chromium.open(&demo.open).await;
            chromium.heading("Sign in").await;
            assert_eq!(chromium.value("E-mail address").await, demo.sign_in.0);
            assert_eq!(chromium.value("Password").await, demo.sign_in.1);
            chromium.inspect("demo-sign-in").await;
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_other_side_of_the_demo_can_be_used_by_everybody() {
    let folder = tempfile::tempdir().unwrap();
    let demo = Demo::start(folder.path(), &[]).await;
    let visitor = Chromium::visitor(&[&demo.base, &demo.control]);
    visitor
        .run(async |chromium| {
            chromium.open(&format!("{}#acme", demo.control)).await;
            chromium.heading("The providers, imitated").await;
            chromium.shows("Ada Lindholm allowed Holdfast").await;
            chromium.inspect("demo-sandbox").await;
            happens(chromium, "globex", "expire").await;
            is_told_at_hand(chromium, "#globex .acts > li").await;
            chromium.press("Make a new client secret: Zendesk").await;
            is_told_at_hand(chromium, "#client-zendesk").await;
            chromium.inspect("demo-sandbox-client").await;
            let secret = chromium.value("New client secret of Zendesk, to copy").await;
            chromium.open(&demo.open).await;
            chromium.press("Sign in").await;
            chromium.heading("Connectors").await;
            chromium.open(&format!("{}/settings/oauth-apps/zendesk", demo.base)).await;
            chromium.fill("Next client secret (optional)", &secret).await;
            chromium.press("Save").await;
            chromium.shows("Saved.").await;
            chromium.inspect("demo-oauth-app").await;
            chromium.follow("in the sandbox").await;
            chromium.press("Retire the old secret: Zendesk").await;
            is_told_at_hand(chromium, "#client-zendesk").await;
            chromium.open(&demo.control).await;
            chromium.follow("The lamp smells burnt").await;
            chromium.heading("The lamp smells burnt").await;
            chromium.inspect("demo-sandbox-ticket").await;
        })
        .await;
}
