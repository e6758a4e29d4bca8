//! `holdfast connector import` as a process, with a running server and without.

use std::sync::Arc;

use holdfast_sandbox::Sandbox;
use holdfast_tests::{
    command::{Ended, Installation},
    database::Database,
    on_both,
    service::{import_body, sandbox},
};
use serde_json::{Value, json};

on_both! {
    an_import_says_per_line_what_happened_and_can_be_run_twice,
    an_import_works_through_a_running_server,
    a_file_is_read_as_stdin_is,
}

fn lines(sandbox: &Sandbox) -> String {
    let body = |name: &str| import_body(&sandbox.create_helpdesk(name).unwrap());
    let good = body("acme").to_string();
    let wrong_account = json!({ "provider": "zendesk", "account": "a b" }).to_string();
    let wrong_provider = json!({ "provider": "fax", "account": "acme" }).to_string();
    let secret_in_the_wrong_place =
        json!({ "provider": "zendesk", "account": "x", "credential": "zd_rt_secret-in-the-wrong-place" }).to_string();
    let good_too = body("globex").to_string();
    [&good, "{\"provider\": ", &wrong_account, "", &wrong_provider, &secret_in_the_wrong_place, &good_too, &good]
        .map(|line| format!("{line}\n"))
        .concat()
}

fn statuses(ended: &Ended) -> Vec<(u64, String)> {
    let report = |line: &str| -> Value { serde_json::from_str(line).unwrap() };
    let reports = ended.out.lines().map(report);
    reports.map(|one| (one["line"].as_u64().unwrap(), one["status"].as_str().unwrap().to_owned())).collect()
}

async fn check(here: &Installation, sandbox: &Sandbox) {
    let input = lines(sandbox);
    let expected = |first: &str| {
        [(1, first), (2, "failed"), (3, "failed"), (5, "failed"), (6, "failed"), (7, first), (8, "unchanged")]
            .map(|(line, status)| (line, status.to_owned()))
            .to_vec()
    };

    let first = here.run_with(&["connector", "import", "--json"], &input).await;

    assert_eq!(first.code, Some(1), "{first:?}");
    assert_eq!(statuses(&first), expected("imported"), "{first:?}");
    assert!(first.err.ends_with("2 imported, 1 unchanged, 4 failed\n"), "{first:?}");
    let list = here.run(&["connector", "list", "--json"]).await.done();
    let again = here.run_with(&["connector", "import", "--json"], &input).await;
    assert_eq!((again.code, statuses(&again)), (Some(1), expected("unchanged")), "{again:?}");
    assert_eq!(here.run(&["connector", "list", "--json"]).await.done().out, list.out);
    let said = String::from_utf8(here.said()).unwrap();
    assert!(!said.contains("zd_rt_secret-in-the-wrong-place"), "{said}");

    let words = here.run_with(&["connector", "import"], &input).await;
    for part in [
        "line 1: unchanged: This organisation has acme.zendesk.com already; nothing was changed.",
        "line 2: failed: This is not JSON: see column 1",
        "line 3: failed: ",
        "line 5: failed: There is no such provider. Known are: ",
        "line 6: failed: This is not a connector. credential is a text, and has to be an object.",
    ] {
        assert!(words.out.contains(part), "{part} is not in {}", words.out);
    }
    let connectors = list.json();
    assert_eq!(connectors.as_array().unwrap().len(), 2);
    for connector in connectors.as_array().unwrap() {
        let tested = here.run(&["connector", "test", connector["id"].as_str().unwrap()]).await.done();
        assert!(tested.out.contains("works: ") && tested.out.contains("Ada"), "{tested:?}");
    }
}

async fn an_import_says_per_line_what_happened_and_can_be_run_twice(db: Arc<Database>) {
    let sandbox = sandbox().await;
    let here = Installation::new(&db, &sandbox);
    let none = here.run_with(&["connector", "import"], "{}\n").await;
    assert!(none.one_line(1).contains("there is no organisation yet"), "{none:?}");
    let _made = here.run(&["user", "create", "--org", "Acme", "--email", "ada@example.com"]).await.done();

    check(&here, &sandbox).await;

    let nothing = here.run_with(&["connector", "import"], "\n\n").await.done();
    assert_eq!((nothing.out.as_str(), nothing.err.as_str()), ("", "0 imported, 0 unchanged, 0 failed\n"));
    let missing = here.run(&["connector", "import", "missing.jsonl"]).await;
    assert!(missing.one_line(1).contains("cannot read missing.jsonl"), "{missing:?}");
    let _made = here.run(&["user", "create", "--org", "Globex", "--email", "bo@example.com"]).await.done();
    let which = here.run_with(&["connector", "import"], "{}\n").await;
    assert!(which.one_line(1).contains("say which with --org NAME"), "{which:?}");
}

async fn an_import_works_through_a_running_server(db: Arc<Database>) {
    let sandbox = sandbox().await;
    let here = Installation::new(&db, &sandbox);
    let server = here.serve().await;
    let _made = here.run(&["user", "create", "--org", "Acme", "--email", "ada@example.com"]).await.done();

    check(&here, &sandbox).await;

    let (status, log) = server.terminate().await;
    assert_eq!(status.code(), Some(0), "{log}");
}

async fn a_file_is_read_as_stdin_is(db: Arc<Database>) {
    let sandbox = sandbox().await;
    let here = Installation::new(&db, &sandbox);
    let _made = here.run(&["user", "create", "--org", "Acme", "--email", "ada@example.com"]).await.done();
    let line = import_body(&sandbox.helpdesk("acme").unwrap()).to_string();
    // As Windows writes it, and without an end of the last line.
    here.write("connectors.jsonl", &format!("\u{feff}{line}\r\n  \r\n{line}"));

    let ended = here.run(&["connector", "import", "connectors.jsonl", "--org", "Acme"]).await;

    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.out.contains("line 1: imported") && ended.out.contains("line 3: unchanged"), "{ended:?}");
}
