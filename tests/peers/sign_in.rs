//! People sign in at a peer, in a browser.

use holdfast_sandbox::{CLIENT_ID, CLIENT_SECRET};
use holdfast_tests::{
    chromium::Chromium,
    cluster::{Cluster, ORG},
};

use crate::peer::{OIDC, PERSON, Peer};

#[tokio::test(flavor = "multi_thread")]
async fn oidc_provider_signs_people_in() {
    let cluster = Cluster::start().await;
    let port = std::net::TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    let port = port.expect("a port is free").port();
    let public = format!("http://localhost:{port}");
    let peer = Peer::start_by_its_address(&OIDC, &format!("{public}/sign-in/callback")).await;
    let issuer = format!("http://{}", peer.address);
    let mut setup = cluster.replica("one").with("public_url", &public).with("listen", &format!("127.0.0.1:{port}"));
    for (key, value) in
        [("issuer", issuer.as_str()), ("client_id", CLIENT_ID), ("client_secret", CLIENT_SECRET), ("name", OIDC.name)]
    {
        setup = setup.with(&format!("sign_in.oidc.{key}"), value);
    }
    let _one = setup.start().await;
    cluster.run(&["user", "create", "--org", ORG, "--email", PERSON, "--role", "member"]).await;
    let button = format!("Continue with {}", OIDC.name);

    Chromium::visitor(&[&public, &issuer])
        .run(async |chromium| {
            chromium.open(&format!("{public}/settings/account")).await;
            chromium.heading("Sign in").await;
            chromium.press(&button).await;
            peer.sign_in_and_allow(chromium).await;
            chromium.heading("Your account").await;
            chromium.shows(PERSON).await;
        })
        .await;
}
