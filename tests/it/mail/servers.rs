//! Mail servers of every kind: in the clear, STARTTLS, TLS, with a sign-in; and what the doctor says of them.

use std::sync::Arc;

use holdfast_app::mail::{MailStatus, Round};
use holdfast_core::Role;
use holdfast_tests::{
    command::Installation,
    database::Database,
    on_both,
    service::sandbox,
    smtp::{FROM, PASSWORD, Smtp, USER, certificate},
};

use super::{Post, sent};

on_both! {
    private_lines_and_sign_ins_work,
    a_server_that_cannot_be_trusted_gets_nothing,
    the_doctor_looks_at_the_mail_server,
}

async fn private_lines_and_sign_ins_work(db: Arc<Database>) {
    let smtp = Smtp::starttls().await;
    let post = Post::with(&db, smtp, |builder| builder).await;
    post.person("ada@acme.example", Role::Owner).await;
    post.person("ben@acme.example", Role::Admin).await;
    let id = post.connector("acme", "Acme support").await;
    post.fail(&id, "acme").await;
    assert_eq!(post.tell().await, sent(2));
    let messages = post.smtp.messages().await;
    assert!(messages.iter().all(|message| message.secure && message.user.as_deref() == Some(USER)), "{messages:?}");

    let smtp = Smtp::tls().await;
    let mut config = post.app.app.config.clone();
    smtp.configure(&mut config);
    let transport = holdfast_app::mail::transport(&config).unwrap().unwrap();
    transport.ready().await.unwrap();
    transport.rest().await;
}

async fn a_server_that_cannot_be_trusted_gets_nothing(db: Arc<Database>) {
    // Its certificate is not among the trusted ones.
    let post =
        Post::with(&db, Smtp::starttls().await, |builder| builder.with(|config| config.smtp.ca_file = None)).await;
    post.person("ada@acme.example", Role::Owner).await;
    let id = post.connector("acme", "Acme support").await;
    post.fail(&id, "acme").await;

    assert_eq!(post.tell().await, Round { trouble: true, ..Round::default() });

    let MailStatus::Trouble { error, .. } = post.app.app.mail_status().await.unwrap() else { panic!() };
    assert!(error.contains("in private"), "{error}");
    assert_eq!(post.smtp.attempts().await, 0);
    // STARTTLS is wanted, and not offered.
    let plain = Smtp::start().await;
    let mut config = post.app.app.config.clone();
    config.smtp.url = Some(format!("smtp://{}?tls=required", plain.address).into());
    let failure = holdfast_app::mail::transport(&config).unwrap().unwrap().ready().await.unwrap_err();
    assert!(failure.words.contains("in private"), "{}", failure.words);
}

async fn the_doctor_looks_at_the_mail_server(db: Arc<Database>) {
    let sandbox = sandbox().await;
    let here = Installation::new(&db, &sandbox);
    let _migrated = here.run(&["migrate"]).await.done();
    let (starttls, tls) = (Smtp::starttls().await, Smtp::tls().await);
    let line = async |place: &Installation| {
        let ended = place.run(&["doctor", "--json"]).await;
        let found =
            ended.json().as_array().unwrap().iter().find(|line| line["check"] == "mail server").unwrap().clone();
        (ended, found)
    };
    let with = |url: &str| {
        let ca = certificate().display().to_string();
        here.with("HOLDFAST_SMTP__URL", url).with("HOLDFAST_MAIL__FROM", FROM).with("HOLDFAST_SMTP__CA_FILE", &ca)
    };

    let (ended, none) = line(&here).await;
    assert_eq!((ended.code, none["ok"].as_bool()), (Some(0), Some(true)), "{ended:?}");
    assert!(none["detail"].as_str().unwrap().contains("smtp.url"), "{none}");
    for server in [&starttls, &tls] {
        let (_, good) = line(&with(&server.url)).await;
        assert_eq!(good["ok"], true, "{good}");
        assert!(good["detail"].as_str().unwrap().contains(&server.address), "{good}");
    }
    let wrong = starttls.url.replace("pass%2Fword%3A1", "hunter2");
    starttls.calm().await;
    tls.down().await;
    for (url, says) in [(wrong.as_str(), "refuses the user or password"), (&tls.url, "cannot be reached")] {
        let (ended, ill) = line(&with(url)).await;
        assert_eq!((ended.code, ill["ok"].as_bool()), (Some(1), Some(false)), "{ended:?}");
        assert!(ill["detail"].as_str().unwrap().contains(says), "{ill}");
        assert!(ill["remedy"].as_str().unwrap().contains("smtp.url"), "{ill}");
    }
    let said = String::from_utf8_lossy(&here.said()).into_owned();
    assert!(!said.contains("hunter2") && !said.contains(PASSWORD), "{said}");
}
