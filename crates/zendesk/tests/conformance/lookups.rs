//! `find_customer` and `search_articles`: to their last pages, and against answers that are not what they should be.

use std::collections::HashSet;

use holdfast_core::{ErrorKind, Retry};
use holdfast_sandbox::Canned;
use serde_json::{Value, json};

use crate::rig::Rig;

/// A list to its end: the things in order, and the number of pages.
async fn all(rig: &Rig, tool: &str, list: &str, mut arguments: Value) -> (Vec<Value>, usize) {
    let api = rig.api_as("ada", "read");
    let mut things = Vec::new();
    for pages in 1.. {
        let page = rig.call(&api, tool, arguments.clone()).await.unwrap();
        things.extend(page[list].as_array().unwrap().iter().cloned());
        assert_eq!(page["note"], Value::Null);
        if page["next_cursor"].is_null() {
            assert_eq!(page["total"], things.len());
            return (things, pages);
        }
        arguments["cursor"] = page["next_cursor"].clone();
    }
    unreachable!("a list ends");
}

fn ids(things: &[Value]) -> HashSet<&str> {
    things.iter().map(|thing| thing["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_customer_is_found_by_address_name_or_the_id_of_another_system() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada", "read");
    let find = async |by: Value| rig.call(&api, "find_customer", by).await.unwrap();

    let by_mail = find(json!({"email": "Mira.Castellan@example.com"})).await;

    assert_eq!((&by_mail["total"], &by_mail["next_cursor"]), (&json!(1), &Value::Null));
    let mira = &by_mail["customers"][0];
    assert_eq!((&mira["name"], &mira["email"]), (&json!("Mira Castellan"), &json!("mira.castellan@example.com")));
    let id = mira["id"].as_str().unwrap();
    assert_eq!(mira["url"], format!("{}/agent/users/{id}", rig.acme.url()));
    assert_eq!((&mira["language"], &mira["time_zone"]), (&json!("en-GB"), &json!("Europe/London")));
    assert!(mira["created_at"].is_string());

    assert_eq!(find(json!({"name": "mira castellan"})).await["customers"][0], *mira);
    assert_eq!(find(json!({"external_id": mira["external_id"]})).await["customers"], json!([mira]));
    let nobody = json!({"customers": [], "total": 0, "next_cursor": null, "note": null});
    for by in [json!({"email": "nobody@example.com"}), json!({"external_id": "crm"}), json!({"name": "山田"})] {
        assert_eq!(find(by).await, nobody);
    }
}

#[tokio::test]
async fn customers_come_a_page_at_a_time_each_once() {
    let rig = Rig::start().await;

    let (customers, pages) = all(&rig, "find_customer", "customers", json!({"name": "a", "limit": 5})).await;

    assert!(pages > 2, "{pages}");
    assert_eq!(ids(&customers).len(), customers.len());
    let (at_once, one) = all(&rig, "find_customer", "customers", json!({"name": "a", "limit": 100})).await;
    assert_eq!((one, at_once), (1, customers));
}

#[tokio::test]
async fn a_customer_is_looked_for_by_one_thing_that_is_no_search_of_its_own() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada", "read");
    for (by, said) in [
        (json!({}), "email: expected one of email, name and external_id"),
        (json!({"name": "a", "external_id": "b"}), "external_id: expected only one"),
        (json!({"email": "*@example.com"}), "email: expected it without quotes and stars"),
        (json!({"name": "x\" role:\"admin"}), "name: expected it without quotes"),
        (json!({"phone": "1"}), "unknown field `phone`"),
        (json!({"name": "a", "limit": 101}), "limit: expected 1 to 100"),
        (json!({"name": "a", "cursor": "101-5"}), "cursor: expected next_cursor"),
    ] {
        let error = rig.call(&api, "find_customer", by).await.unwrap_err();
        assert_eq!((error.kind, error.retry), (ErrorKind::Invalid, Retry::Never), "{error}");
        assert!(error.message.contains(said), "{error}");
    }
    assert_eq!(rig.acme.counters().api_calls, 0, "nothing of it was sent");

    let staff = rig.call(&api, "find_customer", json!({"name": "x role:admin"})).await.unwrap();
    assert_eq!(staff["total"], 0, "a name is one value, whatever it holds");
}

#[tokio::test]
async fn articles_come_whole_as_text_the_best_first() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada", "read");

    let found = rig.call(&api, "search_articles", json!({"query": "print the label: austria"})).await.unwrap();

    let best = &found["articles"][0];
    assert_eq!(best["title"], "Returns: Austria");
    assert_eq!(
        best["body"],
        "Returns: Austria\nSend an item back within 30 days. Print the label in your account & pack it well.\n\
         - Free of charge\n- Questions ? Write to us."
    );
    assert_eq!(
        (&best["published"], &best["locale"], &best["labels"]),
        (&json!(true), &json!("en-us"), &json!(["returns"]))
    );
    let id = best["id"].as_str().unwrap();
    assert!(id.parse::<i64>().unwrap() > 1 << 53, "an id above 2^53 keeps its digits");
    assert_eq!(best["url"], format!("{}/hc/en-us/articles/{id}", rig.acme.url()));
    assert_eq!(found["articles"].as_array().unwrap().len(), 5);
}

#[tokio::test]
async fn articles_come_a_page_at_a_time_each_once() {
    let rig = Rig::start().await;
    let query = json!({"query": "parcel return account refund code battery VAT", "limit": 25});

    let (articles, pages) = all(&rig, "search_articles", "articles", query.clone()).await;

    assert_eq!((articles.len(), pages), (42, 2));
    assert_eq!(ids(&articles).len(), 42);
    let mut small = query;
    small["limit"] = json!(7);
    assert_eq!(all(&rig, "search_articles", "articles", small).await, (articles, 6));
}

#[tokio::test]
async fn a_locale_is_searched_alone() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada", "read");
    let find = async |given: Value| rig.call(&api, "search_articles", given).await.unwrap();

    let german = find(json!({"query": "Rücksendungen", "locale": "DE"})).await;

    assert_eq!(german["articles"][0]["locale"], "de");
    assert_eq!(german["articles"][0]["title"], "Rücksendungen");
    assert_eq!(find(json!({"query": "Rücksendungen"})).await["total"], 0);
    for (given, said) in [
        (json!({"query": "a", "locale": "../de"}), "locale: expected a language"),
        (json!({"query": " "}), "query: expected a text"),
        (json!({"query": "a", "limit": 26}), "limit: expected 1 to 25"),
        (json!({"locale": "de"}), "missing field `query`"),
    ] {
        let error = rig.call(&api, "search_articles", given).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(error.message.contains(said), "{error}");
    }
}

#[tokio::test]
async fn an_account_without_a_help_center_says_so() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada", "read");
    let json = "{\"error\": \"RecordNotFound\", \"description\": \"Not found\"}";
    for answer in [Canned::new(404, json), Canned::new(404, "<html>no page</html>").content_type("text/html")] {
        rig.acme.trouble(|faults| faults.api_answer = Some(answer.times(1)));

        let error = rig.call(&api, "search_articles", json!({"query": "a"})).await.unwrap_err();

        assert_eq!((error.kind, error.retry), (ErrorKind::NotFound, Retry::Never));
        assert!(error.message.contains("no help center"), "{error}");
    }
}

#[tokio::test]
async fn answers_that_are_not_what_they_should_be_are_no_results() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada", "read");
    for (tool, given) in [("find_customer", json!({"name": "a"})), ("search_articles", json!({"query": "a"}))] {
        for body in [
            "",
            "<html>maintenance</html>",
            "[]",
            "null",
            "{}",
            "{\"results\": null, \"users\": null, \"count\": 0}",
            "{\"results\": [{\"id\": \"x7\"}], \"users\": [{\"id\": \"x7\"}], \"count\": 1}",
            "{\"results\": [], \"users\": [], \"count\": -1}",
        ] {
            rig.acme.trouble(|faults| faults.api_answer = Some(Canned::new(200, body).times(1)));

            let error = rig.call(&api, tool, given.clone()).await.unwrap_err();

            assert_eq!((error.kind, error.retry), (ErrorKind::Unreadable, Retry::Never), "{tool}: {body}");
        }
        for (status, kind) in
            [(500, ErrorKind::Unavailable), (403, ErrorKind::Unreadable), (302, ErrorKind::Unreadable)]
        {
            rig.acme.trouble(|faults| faults.api_answer = Some(Canned::new(status, "<html>").times(1)));
            let error = rig.call(&api, tool, given.clone()).await.unwrap_err();
            assert_eq!(error.kind, kind, "{tool}: {status}");
        }
        let error = rig.call(&rig.api_as("ada", "tickets:read"), tool, given).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Forbidden);
        assert!(error.message.contains("lacks the scope read"), "{error}");
    }
}

#[tokio::test]
async fn what_zendesk_leaves_out_is_told_as_unknown() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada", "read");
    let bare = json!({
        "users": [{"id": 7}, {"id": null, "name": "Anonymous user"}],
        "results": [{"id": 9, "title": null, "html_url": "javascript:alert(1)"}],
    });
    rig.acme.trouble(|faults| faults.api_answer = Some(Canned::new(200, bare.to_string())));

    let people = rig.call(&api, "find_customer", json!({"name": "a"})).await.unwrap();
    let articles = rig.call(&api, "search_articles", json!({"query": "a"})).await.unwrap();

    assert_eq!(people["customers"].as_array().unwrap().len(), 1, "a visitor is no customer");
    assert_eq!((&people["customers"][0]["id"], &people["total"]), (&json!("7"), &Value::Null));
    assert_eq!((&articles["articles"][0]["url"], &articles["articles"][0]["body"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn a_list_that_never_ends_ends_where_zendesk_ends_it() {
    let rig = Rig::start().await;
    let api = rig.api_as("ada", "read");
    let endless = json!({"users": [{"id": 7}], "results": [{"id": 9}], "count": 100_000,
        "next_page": "https://evil.example.com/api/v2/users/search.json?page=2"});
    rig.acme.trouble(|faults| faults.api_answer = Some(Canned::new(200, endless.to_string())));

    for (tool, mut given) in [("find_customer", json!({"name": "a"})), ("search_articles", json!({"query": "a"}))] {
        given["cursor"] = json!("99-10");
        let page = rig.call(&api, tool, given.clone()).await.unwrap();
        assert_eq!(page["next_cursor"], "100-10");
        given["cursor"] = json!("100-10");
        let last = rig.call(&api, tool, given).await.unwrap();
        assert_eq!(last["next_cursor"], Value::Null);
        assert!(last["note"].as_str().unwrap().contains("Zendesk shows the first 1000 only"), "{last}");
    }
}
