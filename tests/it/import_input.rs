//! `holdfast connector import`: what a file says twice, what is there by another name, and input that is none.

use std::sync::Arc;

use holdfast_tests::{
    command::{Ended, Installation},
    database::Database,
    on_both,
    service::sandbox,
};
use serde_json::{Value, json};

on_both! {
    a_dry_run_says_of_each_line_what_the_import_then_does,
    an_alias_is_given_to_what_is_there_or_refused,
    a_wrong_line_is_told_with_its_field_and_what_to_do,
    what_is_wrong_with_all_of_it_is_said_once,
}

async fn installation(db: &Database) -> Installation {
    let sandbox = sandbox().await;
    let here = Installation::new(db, &sandbox);
    let _made = here.run(&["user", "create", "--org", "Acme", "--email", "ada@example.com"]).await.done();
    here
}

fn line(account: &str, alias: Option<&str>) -> Value {
    let mut line = json!({
        "provider": "zendesk", "account": account, "credential": { "refresh_token": format!("zd_rt_{account}") },
    });
    if let Some(alias) = alias {
        line["alias"] = alias.into();
    }
    line
}

fn text(lines: &[Value]) -> String {
    lines.iter().map(|line| line.to_string() + "\n").collect()
}

fn reports(ended: &Ended) -> Vec<(String, String)> {
    let lines = ended.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let text = |line: &Value, field: &str| line[field].as_str().unwrap().to_owned();
    lines.map(|line| (text(&line, "status"), text(&line, "detail"))).collect()
}

async fn aliases(here: &Installation) -> Vec<(String, Option<String>)> {
    let list = here.run(&["connector", "list", "--json"]).await.done().json();
    let of = |one: &Value| (one["name"].as_str().unwrap().to_owned(), one["alias"].as_str().map(str::to_owned));
    let mut all: Vec<_> = list.as_array().unwrap().iter().map(of).collect();
    all.sort();
    all
}

async fn a_dry_run_says_of_each_line_what_the_import_then_does(db: Arc<Database>) {
    let here = installation(&db).await;
    let old = [line("old", None), line("older", Some("o"))];
    let _there = here.run_with(&["connector", "import"], &text(&old)).await.done();
    let mut lines = vec![
        line("acme", Some("one")),
        // In another spelling.
        line("https://ACME.zendesk.com/agent", Some("one")),
        line("acme", None),
        line("acme", Some("two")),
        line("globex", Some("one")),
        line("bare", None),
        line("bare", Some("three")),
        line("umbrella", Some("three")),
        line("old", Some("four")),
        line("initech", Some("four")),
        line("older", Some("o")),
        line("older", Some("p")),
    ];
    // So far apart that they are asked for separately.
    lines.extend((0..200).map(|number| line(&format!("desk{number}"), None)));
    lines.extend([line("desk7", None), line("acme", Some("one")), line("last", Some("one"))]);
    let input = text(&lines);

    let dry = here.run_with(&["connector", "import", "--dry-run", "--json"], &input).await;
    assert_eq!(aliases(&here).await.len(), 2, "nothing is written");
    let done = here.run_with(&["connector", "import", "--json"], &input).await;

    let expected = |status: &str| match status {
        "imported" | "aliased" => "right",
        "unchanged" => "unchanged",
        _ => "failed",
    };
    let (dry_reports, reports) = (reports(&dry), reports(&done));
    assert_eq!((dry_reports.len(), reports.len()), (lines.len(), lines.len()), "{dry:?} {done:?}");
    for (number, ((said, words), (status, detail))) in dry_reports.iter().zip(&reports).enumerate() {
        assert_eq!(said, expected(status), "line {}: {words} and then {detail}", number + 1);
    }
    let statuses: Vec<_> = reports.iter().map(|(status, _)| status.as_str()).collect();
    let (first, last) = (&statuses[..12], &statuses[212..]);
    assert_eq!(
        first,
        [
            "imported",
            "unchanged",
            "unchanged",
            "failed",
            "failed",
            "imported",
            "aliased",
            "failed",
            "aliased",
            "failed",
            "unchanged",
            "failed"
        ]
    );
    assert_eq!(last, ["unchanged", "unchanged", "failed"]);
    for (number, words) in [
        (2, "Line 1 has acme.zendesk.com too"),
        (4, "by the alias one"),
        (5, "Line 1 has this alias too"),
        (7, "would be given this one"),
        (8, "Line 7 has this alias too"),
        (9, "old.zendesk.com is here without an alias by then, and would be given this one"),
        (11, "This organisation has older.zendesk.com already"),
        (213, "Line 20 has desk7.zendesk.com too"),
    ] {
        let (_, said) = &dry_reports[number - 1];
        assert!(said.contains(words), "line {number}: {said}");
    }
    assert!(dry.err.ends_with("204 right, 5 unchanged, 6 failed; nothing was written\n"), "{}", dry.err);
    assert!(done.err.ends_with("202 imported, 2 aliased, 5 unchanged, 6 failed\n"), "{}", done.err);
    assert_eq!((dry.code, done.code), (Some(1), Some(1)));
}

async fn an_alias_is_given_to_what_is_there_or_refused(db: Arc<Database>) {
    let here = installation(&db).await;
    let there = text(&[line("acme", None), line("globex", Some("taken"))]);
    let _there = here.run_with(&["connector", "import"], &there).await.done();
    let import = async |line: Value| here.run_with(&["connector", "import"], &text(&[line])).await;

    let taken = import(line("acme", Some("taken"))).await;
    let given = import(line("acme", Some("customer-7"))).await.done();
    let again = import(line("acme", Some("customer-7"))).await.done();
    let other = import(line("acme", Some("customer-8"))).await;

    assert!(taken.out.contains("failed: Another connector has this alias; nothing was changed. Give it"), "{taken:?}");
    assert!(given.out.contains("aliased: This organisation has the account already; it had no alias"), "{given:?}");
    assert!(given.err.ends_with("0 imported, 1 aliased, 0 unchanged, 0 failed\n"), "{given:?}");
    assert!(again.out.contains("unchanged: "), "{again:?}");
    assert!(other.out.contains("by the alias customer-7, and a connector has one"), "{other:?}");
    assert_eq!(other.code, Some(1));
    let expected = [("acme.zendesk.com", "customer-7"), ("globex.zendesk.com", "taken")];
    assert_eq!(aliases(&here).await, expected.map(|(name, alias)| (name.to_owned(), Some(alias.to_owned()))));
    let shown = here.run(&["connector", "show", "customer-7"]).await.done();
    assert!(shown.out.contains("acme"), "it is known by it: {shown:?}");
}

async fn a_wrong_line_is_told_with_its_field_and_what_to_do(db: Arc<Database>) {
    let here = installation(&db).await;
    let with = |field: &str, value: Value| {
        let mut line = line("acme", None);
        line["credential"][field] = value;
        line
    };
    let alias = |alias: Value| {
        let mut line = line("acme", None);
        line["alias"] = alias;
        line
    };
    let ours = [
        (with("expires_at", json!("tomorrow")), "credential.expires_at is no moment: write one such as 2026-"),
        (with("expires_at", json!("2026-11-29")), "credential.expires_at is no moment: write one such as 2026-"),
        (with("expires_at", json!(1_790_000_000)), "credential.expires_at is a number, and has to be a moment such as"),
        (with("expires_in", json!("s3cret")), "credential.expires_in is a text, and has to be a whole number"),
        (with("expires_in", json!(-1)), "credential.expires_in is a number, and has to be a whole number"),
        (with("access_token", json!(4711)), "credential.access_token is a number, and has to be a text"),
        (with("access_token", json!(["s3cret"])), "credential.access_token is a list, and has to be a text"),
        (
            with("refresh_token", json!("s3cret\nmore")),
            "credential.refresh_token: It is empty, or holds a space, a line",
        ),
        (with("refresh_token", json!("")), "credential.refresh_token: It is empty, or holds a space, a line break"),
        (with("tokn", json!("s3cret")), "There is no field credential.tokn. There are: "),
        (alias(json!(7)), "alias is a number, and has to be a text"),
        (alias(json!("a b")), "An alias has 1 to 200 visible ASCII characters"),
        (json!({ "provider": "zendesk" }), "account is missing"),
        (json!({ "account": "acme" }), "provider is missing"),
        (json!([line("acme", None)]), "This is not a connector."),
    ];
    // What is looked at first has to look like a file of ours.
    let lines: Vec<_> = [line("first", None)].into_iter().chain(ours.iter().map(|(line, _)| line.clone())).collect();

    let two = format!("{} {}\n", line("a", None), line("b", None));

    let said = here.run_with(&["connector", "import", "--json"], &(text(&lines) + two.as_str())).await;

    for ((number, (line, words)), (status, detail)) in (2..).zip(&ours).zip(&reports(&said)[1..]) {
        assert!(status == "failed" && detail.contains(words), "line {number}: {line}: {detail}");
    }
    let (status, detail) = reports(&said).pop().unwrap();
    assert!(status == "failed" && detail.contains("This is not JSON: see column"), "what is behind one: {detail}");

    let nango = |path: &[&str], value: Value| {
        let mut item = json!({
            "connection_id": "c", "provider": "zendesk", "connection_config": { "subdomain": "acme" },
            "credentials": { "type": "OAUTH2", "refresh_token": "s3cret" },
        });
        let field = path.iter().fold(&mut item, |at, field| &mut at[*field]);
        *field = value;
        item
    };
    let theirs = [
        (nango(&["connection_id"], json!(7)), "connection_id is a number, and has to be a text: write it in quotes"),
        (
            nango(&["connection_config", "subdomain"], json!(["a"])),
            "connection_config.subdomain is a list, and has to be",
        ),
        (
            nango(&["credentials", "refresh_token"], json!(4711)),
            "credentials.refresh_token is a number, and has to be a",
        ),
        (nango(&["credentials", "access_token"], json!({ "a": "s3cret" })), "credentials.access_token is an object"),
        (nango(&["credentials", "expires_at"], json!("tomorrow")), "credential.expires_at is no moment"),
        (
            nango(&["credentials", "refresh_token"], json!("s3\ncret")),
            "credential.refresh_token: It is empty, or holds",
        ),
    ];
    let export = theirs.iter().map(|(item, _)| item.clone()).collect::<Value>().to_string();

    let said = here.run_with(&["connector", "import", "--from", "nango", "--json"], &export).await;

    for ((item, words), (status, detail)) in theirs.iter().zip(reports(&said)) {
        assert!(status == "failed" && detail.contains(words), "{item}: {detail}");
    }

    let n8n = json!([
        { "id": "a", "type": "zendeskOAuth2Api", "data": {
            "subdomain": "acme", "oauthTokenData": { "refresh_token": 4711 } } },
        { "id": "b", "type": "zendeskOAuth2Api", "data": { "subdomain": true } },
    ]);
    let said = here.run_with(&["connector", "import", "--from", "n8n"], &n8n.to_string()).await;
    for words in ["data.oauthTokenData.refresh_token is a number, and has", "data.subdomain is true or false, and has"]
    {
        assert!(said.out.contains(words), "{words} is not in {said:?}");
    }
    assert!(!String::from_utf8(here.said()).unwrap().contains("s3cret"));
}

async fn what_is_wrong_with_all_of_it_is_said_once(db: Arc<Database>) {
    let here = installation(&db).await;
    let connection =
        json!({ "connection_id": "c", "provider": "zendesk", "credentials": { "refresh_token": "s3cret" } });
    let list = json!({ "connections": [connection] });
    let n8n = json!({ "id": "a", "type": "zendeskApi", "data": { "apiToken": "s3cret" } });
    here.write_bytes("latin.json", b"[\n{\"connection_id\": \"M\xfcller\"}]");
    here.write_bytes("utf16.json", b"\xff\xfe[\0]\0");
    let three = text(&[line("a", None), line("b", None), line("c", None)]);
    let import = ["connector", "import"];
    for (args, input, words) in [
        (
            &["--org", "Nope"][..],
            three.clone(),
            "there is no organisation \"Nope\"; `holdfast user create --org NAME ...` makes",
        ),
        (&["--org", "Nope", "--dry-run"], three, "there is no organisation \"Nope\""),
        (&["--org", "Nope", "--from", "n8n"], String::new(), "there is no organisation \"Nope\""),
        (&[], json!([connection]).to_string(), "line 1: this begins a JSON text of several lines or connections"),
        (&[], "[\n  {\n".to_owned(), "say which: --from nango or --from n8n. Nothing was imported"),
        (&[], "\n{\n  \"connection_id\": 1\n}\n".to_owned(), "this begins a JSON text of several lines"),
        (&[], connection.to_string(), "it looks like Nango's connections"),
        (&[], list.to_string(), "say so with --from nango. Nothing was imported"),
        (&[], n8n.to_string(), "say so with --from n8n. Nothing was imported"),
        (
            &["--from", "nango"],
            String::new(),
            "there is no connection in it, and nothing was imported; what it has to be is",
        ),
        (&["--from", "nango", "--dry-run"], " \n".to_owned(), "there is no connection in it"),
        (&["--from", "nango"], "[]".to_owned(), "there is no connection in it"),
        (&["--from", "nango"], "{\"connections\": []}".to_owned(), "there is no connection in it"),
        (
            &["--from", "n8n"],
            "[]".to_owned(),
            "n8n's credentials, as `n8n export:credentials --all --decrypted` writes",
        ),
        (&["--from", "nango", "latin.json"], String::new(), "line 2: the export is not UTF-8 there: save it as UTF-8"),
        (&["--from", "n8n", "utf16.json"], String::new(), "line 1: the export is not UTF-8 there"),
    ] {
        let ended = here.run_with(&[&import[..], args].concat(), &input).await;
        let said = ended.one_line(1);
        assert!(said.contains(words), "{args:?}: {said}");
    }
    assert_eq!(aliases(&here).await, []);
    assert!(!String::from_utf8(here.said()).unwrap().contains("s3cret"));
}
