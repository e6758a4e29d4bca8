//! `holdfast connector import --from`: what Nango and n8n export, as a process.

use std::sync::Arc;

use holdfast_sandbox::{CLIENT_ID, GrantRequest, Sandbox};
use holdfast_tests::{
    command::{Ended, Installation},
    database::Database,
    on_both,
    service::sandbox,
};
use serde_json::{Value, json};

on_both! {
    an_export_of_nango_is_taken_over_with_its_ids_as_aliases,
    an_export_of_n8n_is_taken_over_and_renews_what_it_needs,
    a_dry_run_says_what_an_import_would_do_and_writes_nothing,
    what_is_no_export_is_refused_with_what_to_do_and_without_its_values,
}

fn reports(ended: &Ended) -> Vec<(String, String)> {
    let lines = ended.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let text = |line: &Value, field: &str| line[field].as_str().unwrap().to_owned();
    lines.map(|line| (text(&line, "status"), text(&line, "detail"))).collect()
}

async fn installation(db: &Database, sandbox: &Sandbox) -> Installation {
    let freshdesk = sandbox.freshdesk_override();
    let here = Installation::new(db, sandbox).with("HOLDFAST_PROVIDERS__FRESHDESK__BASE_URL_OVERRIDE", &freshdesk);
    let _made = here.run(&["user", "create", "--org", "Acme", "--email", "ada@example.com"]).await.done();
    here
}

async fn connectors(here: &Installation) -> Vec<Value> {
    here.run(&["connector", "list", "--json"]).await.done().json().as_array().unwrap().clone()
}

async fn all_work(here: &Installation) {
    for connector in connectors(here).await {
        let id = connector["id"].as_str().unwrap();
        let tested = here.run(&["connector", "test", id]).await.done();
        assert!(tested.out.contains("works: "), "{tested:?}");
    }
}

/// A connection as Nango answers it.
fn nango(sandbox: &Sandbox, name: &str) -> Value {
    let grant = sandbox.create_helpdesk(name).unwrap().grant(&GrantRequest::default()).unwrap();
    json!({
        "id": 18393, "connection_id": "customer-7", "provider_config_key": "zendesk-prod", "provider": "zendesk",
        "connection_config": { "subdomain": name }, "metadata": null, "errors": [],
        "created_at": "2026-01-01T00:00:00.000Z", "updated_at": "2026-11-01T00:00:00.000Z",
        "credentials": {
            "type": "OAUTH2", "access_token": grant.access_token, "refresh_token": grant.refresh_token,
            // Long over: the refresh token brings a new one.
            "expires_at": "2024-01-01T00:00:00.000Z",
            "raw": { "scope": grant.scope, "token_type": "bearer", "access_token": grant.access_token },
        },
    })
}

async fn an_export_of_nango_is_taken_over_with_its_ids_as_aliases(db: Arc<Database>) {
    let sandbox = sandbox().await;
    let here = installation(&db, &sandbox).await;
    let key = sandbox.freshdesk("acme").unwrap().api_key("ada").unwrap();
    let without = |field: &str| {
        let mut connection = nango(&sandbox, "globex");
        connection.as_object_mut().unwrap().remove(field);
        connection
    };
    let other_kind = json!({ "type": "TBA", "token_id": "s3cret" });
    let connections = [
        nango(&sandbox, "acme"),
        // One customer's id at two services; a key as the user name of Basic.
        json!({
            "connection_id": "customer-7", "provider_config_key": "fd", "provider": "freshdesk",
            "connection_config": { "subdomain": "acme" },
            "credentials": { "type": "BASIC", "username": key, "password": "X" },
        }),
        without("credentials"),
        without("connection_config"),
        without("connection_id"),
        json!({ "connection_id": "c", "provider": "fax", "connection_config": { "subdomain": "a" },
            "credentials": { "type": "API_KEY", "apiKey": "s3cret" } }),
        json!({ "connection_id": "c", "provider": "zendesk", "connection_config": { "subdomain": "evil.com#" },
            "credentials": { "type": "OAUTH2", "refresh_token": "s3cret" } }),
        json!({ "connection_id": "c", "provider": "zendesk", "connection_config": { "subdomain": "a" },
            "credentials": other_kind }),
    ];
    // As its list has it, as an array, and one after the other.
    let list = json!({ "connections": connections }).to_string();
    let array = json!(connections).to_string();
    let lines = connections.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");

    let first = here.run_with(&["connector", "import", "--from", "nango", "--json"], &list).await;

    let said = reports(&first);
    let expected = [
        ("imported", "con_"),
        ("imported", "con_"),
        ("failed", "ask GET /connections/{connectionId}"),
        ("failed", "does not say which account"),
        ("failed", "no connection of Nango"),
        ("failed", "no provider for \"fax\""),
        ("failed", "acme.zendesk.com"),
        ("failed", "OAUTH2, API_KEY and BASIC"),
    ];
    assert_eq!(said.len(), expected.len(), "{first:?}");
    for ((status, detail), (expected, part)) in said.iter().zip(expected) {
        assert_eq!(status, expected, "{detail}");
        assert!(detail.contains(part), "{part} is not in {detail}");
    }
    assert!(!String::from_utf8(here.said()).unwrap().contains("s3cret"));
    let there = connectors(&here).await;
    let mut aliases: Vec<_> = there.iter().map(|one| one["alias"].as_str().unwrap()).collect();
    aliases.sort_unstable();
    assert_eq!(aliases, ["customer-7", "fd:customer-7"]);
    all_work(&here).await;
    for again in [list, array, lines] {
        let again = here.run_with(&["connector", "import", "--from", "nango", "--json"], &again).await;
        let statuses: Vec<_> = reports(&again).into_iter().map(|(status, _)| status).collect();
        assert_eq!(statuses[..3], ["unchanged", "unchanged", "failed"], "{again:?}");
    }
}

async fn an_export_of_n8n_is_taken_over_and_renews_what_it_needs(db: Arc<Database>) {
    let sandbox = sandbox().await;
    let here = installation(&db, &sandbox).await;
    let desk = sandbox.create_helpdesk("acme").unwrap();
    let grant = desk.grant(&GrantRequest::default()).unwrap();
    let key = sandbox.freshdesk("acme").unwrap().api_key("ada").unwrap();
    let tokens = |client: &str| {
        json!({
            "id": "nX4uQ2", "name": "Support desk", "type": "zendeskOAuth2Api",
            "data": {
                "subdomain": "acme", "clientId": client, "clientSecret": "s3cret",
                "oauthTokenData": {
                    "token_type": "bearer", "access_token": grant.access_token, "refresh_token": grant.refresh_token,
                    "scope": grant.scope, "expires_in": 1800,
                },
            },
        })
    };
    let export = json!([
        tokens("another-app"),
        tokens(CLIENT_ID),
        { "id": 7, "name": "Freshdesk", "type": "freshdeskApi", "data": { "apiKey": key, "domain": "acme" } },
        { "id": "a", "name": "x", "type": "zendeskApi",
            "data": { "subdomain": "b", "email": "ada@example.com", "apiToken": "s3cret" } },
        { "id": "b", "name": "x", "type": "zendeskOAuth2Api", "data": "U2FsdGVkX1+s3cret" },
        { "id": "c", "name": "x", "type": "zendeskOAuth2Api", "data": { "subdomain": "c", "clientSecret": "s3cret" } },
        { "id": "d", "name": "x", "type": "gmailOAuth2", "data": { "oauthTokenData": { "refresh_token": "s3cret" } } },
        { "id": "e", "name": "x", "type": "httpBasicAuth", "data": { "user": "u", "password": "s3cret" } },
    ]);

    let first = here.run_with(&["connector", "import", "--from", "n8n", "--json"], &export.to_string()).await;

    let said = reports(&first);
    let expected = [
        ("failed", "given to an OAuth app of Zendesk, and there is another one here"),
        ("imported", "con_"),
        ("imported", "con_"),
        ("failed", "connects zendesk by OAuth alone"),
        ("failed", "--decrypted"),
        ("failed", "neither a token nor a key"),
        ("failed", "does not say which account"),
        ("failed", "no provider for"),
    ];
    assert_eq!(said.len(), expected.len(), "{first:?}");
    for ((status, detail), (expected, part)) in said.iter().zip(expected) {
        assert_eq!(status, expected, "{detail}");
        assert!(detail.contains(part), "{part} is not in {detail}");
    }
    assert!(!String::from_utf8(here.said()).unwrap().contains("s3cret"));
    let there = connectors(&here).await;
    let mut names: Vec<_> =
        there.iter().map(|one| (one["name"].as_str().unwrap(), one["alias"].as_str().unwrap())).collect();
    names.sort_unstable();
    assert_eq!(names, [("Freshdesk", "n8n-7"), ("Support desk", "nX4uQ2")]);
    all_work(&here).await;
    assert_eq!(desk.counters().exchanges, 1, "the age of the access token is not known");
}

async fn a_dry_run_says_what_an_import_would_do_and_writes_nothing(db: Arc<Database>) {
    let sandbox = sandbox().await;
    let here = installation(&db, &sandbox).await;
    let export = json!([nango(&sandbox, "acme"), { "connection_id": "c", "provider": "fax" }]).to_string();
    let import = ["connector", "import", "--from", "nango"];

    let dry = here.run_with(&[&import[..], &["--dry-run"]].concat(), &export).await;

    assert_eq!(dry.code, Some(1), "{dry:?}");
    assert!(dry.out.starts_with("connection 1: right: It would be imported.\nconnection 2: failed: "), "{dry:?}");
    assert!(dry.err.ends_with("1 right, 0 unchanged, 1 failed; nothing was written\n"), "{dry:?}");
    assert!(connectors(&here).await.is_empty());
    let _done = here.run_with(&import, &export).await;
    let dry = here.run_with(&[&import[..], &["--dry-run"]].concat(), &export).await;
    assert!(dry.out.starts_with("connection 1: unchanged: "), "{dry:?}");
    // Another account with an alias that is taken gets the longer one, so it would be right as well.
    let mut other = nango(&sandbox, "globex");
    other["provider_config_key"] = json!("zendesk-eu");
    let dry = here.run_with(&[&import[..], &["--dry-run"]].concat(), &other.to_string()).await.done();
    assert!(dry.out.starts_with("connection 1: right: "), "{dry:?}");
}

async fn what_is_no_export_is_refused_with_what_to_do_and_without_its_values(db: Arc<Database>) {
    let sandbox = sandbox().await;
    let here = installation(&db, &sandbox).await;

    let broken = here.run_with(&["connector", "import", "--from", "n8n"], "[{\"data\": \"s3cret\", }]").await;
    let text = here.run_with(&["connector", "import", "--from", "nango"], "\"s3cret\" 4711 null").await;
    let unknown = here.run_with(&["connector", "import", "--from", "zapier"], "").await;

    assert!(broken.one_line(1).contains("not JSON: line 1, column 21; nothing was imported"), "{broken:?}");
    assert_eq!(text.out.matches("failed: There is no connection_id in it").count(), 3, "{text:?}");
    assert!(unknown.err.contains("nango") && unknown.err.contains("n8n"), "{unknown:?}");
    assert!(!String::from_utf8(here.said()).unwrap().contains("s3cret"));
}
