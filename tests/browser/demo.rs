//! The demo as a newcomer meets it.

use holdfast_tests::{chromium::Chromium, demo::Demo};

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
            chromium.follow("The lamp smells burnt").await;
            chromium.heading("The lamp smells burnt").await;
            chromium.inspect("demo-sandbox-ticket").await;
        })
        .await;
}
