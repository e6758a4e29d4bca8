//! Shopify through the whole service: its signed way back, and the one grant that an app has per shop.

use std::{sync::Arc, time::Duration};

use holdfast_sandbox::{CLIENT_SECRET, Shop, callback_hmac};
use holdfast_tests::{
    browser::{Browser, Page},
    database::Database,
    on_both,
    service::{TestApp, oauth_app, proxied},
    wait::until,
};
use reqwest::Method;
use serde_json::{Value, json};
use url::Url;

on_both! {
    a_shop_is_connected_and_its_orders_are_found,
    every_spelling_of_a_shop_is_the_same_connector,
    a_callback_that_is_not_shopifys_is_refused_before_the_exchange,
    a_callback_is_good_with_the_secret_that_is_to_come,
    a_second_connector_of_a_shop_is_refused_before_the_exchange,
    another_organisations_shop_is_refused_without_a_word_of_its_connector,
    a_shop_can_be_connected_elsewhere_once_it_is_disconnected,
    a_reconnect_to_another_shop_is_refused_before_the_exchange,
    the_older_of_two_consents_is_not_exchanged,
    of_two_consents_for_a_shop_at_once_one_is_exchanged,
    an_older_consent_is_not_exchanged_while_a_later_one_is,
    an_import_is_refused_for_a_shop_that_another_connector_has,
    a_mutation_that_makes_or_ends_access_is_not_passed_on,
    a_frozen_shop_is_no_failed_connector,
}

async fn start(db: &Arc<Database>) -> TestApp {
    let builder = TestApp::builder(db).with(|config| {
        config.oauth_apps.insert("shopify".to_owned(), oauth_app());
        // An exchange that a test holds up is not over before whoever waits for it gives up.
        config.refresh.exchange_timeout = Duration::from_mins(3);
        config.refresh.lease = Duration::from_mins(5);
    });
    builder.start().await
}

fn acme(app: &TestApp) -> Shop {
    app.sandbox.shop("acme").unwrap()
}

/// A connect link for a shop, or for one that its person names: its URL and the connector's id.
async fn link(app: &TestApp, key: &str, account: Option<&str>) -> (String, String) {
    let mut body = json!({"provider": "shopify"});
    if let Some(account) = account {
        body["account"] = json!(account);
    }
    let made = app.call(Method::POST, "/connect-sessions", Some(key), Some(body)).await.expect(201);
    (made.text_of("url"), made.text_of("connector_id"))
}

async fn connect(app: &TestApp, account: &str) -> String {
    let (link, id) = link(app, &app.key, Some(account)).await;
    let page = app.consent(&link).await;
    assert_eq!((page.status, page.title()), (200, "Connected"), "{}", page.text);
    id
}

/// Sends the browser back with these parameters in place of Shopify's, signed again where `sign` says so.
async fn back_with(browser: &Browser, back: &str, change: &[(&str, &str)], sign: Option<&str>) -> Page {
    let mut url = Url::parse(back).unwrap();
    let mut pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    for (name, value) in change {
        pairs.retain(|(known, _)| known != name);
        if !value.is_empty() {
            pairs.push(((*name).to_owned(), (*value).to_owned()));
        }
    }
    if let Some(secret) = sign {
        pairs.retain(|(name, _)| name != "hmac");
        let hmac = callback_hmac(secret, &pairs);
        pairs.push(("hmac".to_owned(), hmac));
    }
    url.query_pairs_mut().clear().extend_pairs(pairs);
    browser.get(url.as_str()).await
}

async fn call_tool(app: &TestApp, id: &str, tool: &str, arguments: Value) -> Value {
    let path = format!("/connectors/{id}/tools/{tool}");
    app.post(&path, json!({"arguments": arguments})).await.expect(200).json
}

async fn a_shop_is_connected_and_its_orders_are_found(db: Arc<Database>) {
    let app = start(&db).await;

    let id = connect(&app, "acme").await;

    let shown = app.show(&id).await;
    assert_eq!((&shown["account"], &shown["name"]), (&json!("acme"), &json!("acme.myshopify.com")));
    assert_eq!(shown["health"], "connected");
    let answer = app.token(&id).await.expect(200);
    assert_eq!(answer.text_of("header"), "X-Shopify-Access-Token");
    let token = answer.text_of("access_token");
    assert!(acme(&app).accepts(&token));
    let found = call_tool(&app, &id, "find_order", json!({"order_name": "1001"})).await;
    assert!(found.to_string().contains("#1001"), "{found}");
    app.advance(Duration::from_mins(61));
    let next = app.token(&id).await.expect(200).text_of("access_token");
    assert_ne!(token, next);
    assert!(acme(&app).accepts(&next));
}

/// CO-09
async fn every_spelling_of_a_shop_is_the_same_connector(db: Arc<Database>) {
    let app = start(&db).await;
    app.sandbox.create_shop("acme-store").unwrap();
    let id = connect(&app, "Acme-Store.MyShopify.com").await;
    assert_eq!(app.show(&id).await["account"], "acme-store");
    for typed in ["acme-store", "https://admin.shopify.com/store/ACME-store/orders"] {
        let (_, again) = link(&app, &app.key, Some(typed)).await;
        assert_eq!(again, id, "{typed}");
    }
}

/// CO-10
async fn a_callback_that_is_not_shopifys_is_refused_before_the_exchange(db: Arc<Database>) {
    let app = start(&db).await;
    let zeros = "0".repeat(64);
    for (change, sign) in [
        (("hmac", zeros.as_str()), None),
        (("hmac", ""), None),
        (("timestamp", "1"), None),
        (("shop", "globex.myshopify.com"), None),
        (("code", "another"), None),
        (("host", "x"), Some("not-the-secret")),
        (("shop", ""), Some(CLIENT_SECRET)),
        (("shop", "acme.myshopify.com.evil.example"), Some(CLIENT_SECRET)),
        (("shop", "evil.example/acme.myshopify.com"), Some(CLIENT_SECRET)),
        (("shop", "acme.myshopify.com@evil.example"), Some(CLIENT_SECRET)),
        (("shop", "acme.myshopify.com%2eevil.example"), Some(CLIENT_SECRET)),
        (("shop", "acme..myshopify.com"), Some(CLIENT_SECRET)),
        (("shop", "\u{430}cme.myshopify.com"), Some(CLIENT_SECRET)),
    ] {
        let (link, id) = link(&app, &app.key, Some("acme")).await;
        let browser = Browser::new();
        let authorize = browser.post(&link).await.location();
        let back = app.sandbox.consent(&authorize, "merchant").unwrap();

        let page = back_with(&browser, &back, &[change], sign).await;

        assert_eq!((page.status, page.title()), (409, "That did not come from Shopify"), "{change:?}: {}", page.text);
        assert_eq!(app.show(&id).await["health"], "pending");
    }
    assert_eq!(acme(&app).counters().code_exchanges, 0);
    assert!(acme(&app).ledger().sets.is_empty(), "the client secret was sent nowhere");
    connect(&app, "acme").await;
}

async fn a_callback_is_good_with_the_secret_that_is_to_come(db: Arc<Database>) {
    let builder = TestApp::builder(&db).with(|config| {
        let mut client = oauth_app();
        client.next_client_secret = Some("the-next-one".to_owned().into());
        config.oauth_apps.insert("shopify".to_owned(), client);
    });
    let app = builder.start().await;
    // Shopify signs with the new one already, and takes either at the token endpoint.
    app.sandbox.set_client_secret("the-next-one", Some(CLIENT_SECRET));
    connect(&app, "acme").await;
}

async fn a_second_connector_of_a_shop_is_refused_before_the_exchange(db: Arc<Database>) {
    let app = start(&db).await;
    let first = connect(&app, "acme").await;
    let rename = json!({"name": "The lamp shop"});
    let _renamed =
        app.call(Method::PATCH, &format!("/connectors/{first}"), Some(&app.key), Some(rename)).await.expect(200);
    let (link, second) = link(&app, &app.key, None).await;
    let browser = Browser::new();
    let authorize = browser.fill(&link, "account", "ACME.myshopify.com").await.location();

    let page = browser.get(&app.sandbox.consent(&authorize, "merchant").unwrap()).await;

    assert_eq!((page.status, page.title()), (409, "acme.myshopify.com is connected already"), "{}", page.text);
    assert!(page.text.contains("The lamp shop"), "{}", page.text);
    assert_eq!(acme(&app).counters().code_exchanges, 1);
    assert_eq!(app.show(&second).await["health"], "pending");
    // The first one goes on.
    app.advance(Duration::from_mins(61));
    let token = app.token(&first).await.expect(200).text_of("access_token");
    assert!(acme(&app).accepts(&token));
}

async fn another_organisations_shop_is_refused_without_a_word_of_its_connector(db: Arc<Database>) {
    let app = start(&db).await;
    let first = connect(&app, "acme").await;
    let key = app.key_of("Globex").await;
    let (link, _) = link(&app, &key, Some("acme")).await;

    let page = app.consent(&link).await;

    assert_eq!((page.status, page.title()), (409, "acme.myshopify.com is connected already"), "{}", page.text);
    assert!(page.text.contains("Another organisation") && !page.text.contains(&first), "{}", page.text);
    assert_eq!(acme(&app).counters().code_exchanges, 1);
    app.advance(Duration::from_mins(61));
    let _served = app.token(&first).await.expect(200);
}

async fn a_shop_can_be_connected_elsewhere_once_it_is_disconnected(db: Arc<Database>) {
    let app = start(&db).await;
    let first = connect(&app, "acme").await;
    let _gone = app.post(&format!("/connectors/{first}/disconnect"), json!({})).await.expect(200);
    let key = app.key_of("Globex").await;
    let (link, second) = link(&app, &key, Some("acme")).await;

    let page = app.consent(&link).await;

    assert_eq!((page.status, page.title()), (200, "Connected"), "{}", page.text);
    let token = app.call(Method::GET, &format!("/connectors/{second}/token"), Some(&key), None).await.expect(200);
    assert!(acme(&app).accepts(&token.text_of("access_token")));
}

/// RC-01
async fn a_reconnect_to_another_shop_is_refused_before_the_exchange(db: Arc<Database>) {
    let app = start(&db).await;
    let id = connect(&app, "acme").await;
    let before = app.show(&id).await;
    let browser = Browser::new();
    let authorize = browser.post(&app.reconnect_link(&id).await).await.location();
    let elsewhere = authorize.replace("/shopify/acme/", "/shopify/globex/");

    let page = browser.get(&app.sandbox.consent(&elsewhere, "merchant").unwrap()).await;

    assert_eq!((page.status, page.title()), (409, "That was another account"), "{}", page.text);
    assert!(page.text.contains("acme.myshopify.com") && page.text.contains("globex.myshopify.com"), "{}", page.text);
    assert_eq!(app.show(&id).await, before);
    assert_eq!(app.sandbox.shop("globex").unwrap().counters().code_exchanges, 0);
    assert_eq!(acme(&app).counters().code_exchanges, 1);
}

async fn the_older_of_two_consents_is_not_exchanged(db: Arc<Database>) {
    let app = start(&db).await;
    let id = connect(&app, "acme").await;
    let (early, late) = (Browser::new(), Browser::new());
    let (early_link, late_link) = (app.reconnect_link(&id).await, app.reconnect_link(&id).await);
    let early_authorize = early.post(&early_link).await.location();
    let late_authorize = late.post(&late_link).await.location();
    let won = late.get(&app.sandbox.consent(&late_authorize, "merchant").unwrap()).await;

    let lost = early.get(&app.sandbox.consent(&early_authorize, "merchant").unwrap()).await;

    assert_eq!(won.title(), "Connected", "{}", won.text);
    assert!(lost.text.contains("another window that was started after this one"), "{}", lost.text);
    assert_eq!(acme(&app).counters().code_exchanges, 2, "another exchange would have ended the newer grant");
    app.advance(Duration::from_mins(61));
    let token = app.token(&id).await.expect(200).text_of("access_token");
    assert!(acme(&app).accepts(&token));
}

/// Shopify has exchanged the code of a first consent and has not answered: what a second one comes to meanwhile.
async fn while_exchanged(
    app: &TestApp,
    db: &Database,
    first: (&Browser, String),
    second: (&Browser, String),
) -> [Page; 2] {
    let exchanges = acme(app).counters().code_exchanges;
    acme(app).trouble(|faults| faults.hold_answers = true);
    let used = "SELECT COUNT(*) FROM connect_sessions WHERE state_used_at IS NOT NULL";
    let (one, two) = tokio::join!(first.0.get(&first.1), async {
        until("it is exchanged", async || acme(app).counters().code_exchanges, |count| *count > exchanges).await;
        let before = db.number(used).await;
        let (two, ()) = tokio::join!(second.0.get(&second.1), async {
            until("the second has come back", async || db.number(used).await, |count| *count > before).await;
            // It begins to wait a little after it has come back; so the clock goes on.
            app.advance(Duration::from_secs(13));
            let mut looks = 0;
            let look = async || {
                looks += 1;
                if looks % 50 == 0 {
                    app.advance(Duration::from_secs(1));
                }
                db.number(ENDED).await
            };
            until("the second has ended or waits", look, |count| *count > 0).await;
            assert_eq!(acme(app).counters().code_exchanges, exchanges + 1, "the second is not exchanged");
        });
        acme(app).calm();
        two
    });
    [one, two]
}

const ENDED: &str = "SELECT COUNT(*) FROM connect_sessions WHERE CAST(result AS TEXT) LIKE '%under_way%'";

async fn of_two_consents_for_a_shop_at_once_one_is_exchanged(db: Arc<Database>) {
    let app = start(&db).await;
    let globex = app.key_of("Globex").await;
    let (first, second) = (Browser::new(), Browser::new());
    let ((first_link, id), (second_link, _)) =
        (link(&app, &app.key, Some("acme")).await, link(&app, &globex, Some("acme")).await);
    let way_back = async |browser: &Browser, link: &str| {
        app.sandbox.consent(&browser.post(link).await.location(), "merchant").unwrap()
    };
    let (first_back, second_back) = (way_back(&first, &first_link).await, way_back(&second, &second_link).await);

    let [won, lost] = while_exchanged(&app, &db, (&first, first_back), (&second, second_back)).await;

    assert_eq!((lost.status, lost.title()), (409, "Shopify is being connected already"), "{}", lost.text);
    assert!(!lost.text.contains(&id) && lost.text.contains("in a minute"), "{}", lost.text);
    assert_eq!((won.status, won.title()), (200, "Connected"), "{}", won.text);
    let again =
        second.get(&app.sandbox.consent(&second.post(&second_link).await.location(), "merchant").unwrap()).await;
    assert_eq!(again.title(), "acme.myshopify.com is connected already", "{}", again.text);
    app.advance(Duration::from_mins(61));
    let token = app.token(&id).await.expect(200).text_of("access_token");
    assert!(acme(&app).accepts(&token));
}

async fn an_older_consent_is_not_exchanged_while_a_later_one_is(db: Arc<Database>) {
    let app = start(&db).await;
    let id = connect(&app, "acme").await;
    let (early, late) = (Browser::new(), Browser::new());
    let early_authorize = early.post(&app.reconnect_link(&id).await).await.location();
    let late_authorize = late.post(&app.reconnect_link(&id).await).await.location();
    let back = |authorize: &str| app.sandbox.consent(authorize, "merchant").unwrap();

    let [won, lost] =
        while_exchanged(&app, &db, (&late, back(&late_authorize)), (&early, back(&early_authorize))).await;

    assert_eq!((won.title(), lost.title()), ("Connected", "Shopify is being connected already"), "{}", lost.text);
    app.advance(Duration::from_mins(61));
    let token = app.token(&id).await.expect(200).text_of("access_token");
    assert!(acme(&app).accepts(&token));
}

async fn an_import_is_refused_for_a_shop_that_another_connector_has(db: Arc<Database>) {
    let app = start(&db).await;
    let first = connect(&app, "acme").await;
    let globex = app.key_of("Globex").await;
    let import = async |key: &str, credential: Value| {
        let body = json!({"provider": "shopify", "account": "acme", "credential": credential});
        app.call(Method::POST, "/connectors", Some(key), Some(body)).await
    };
    let renewed = json!({"access_token": "shpat_x", "refresh_token": "shprt_x", "expires_in": 3600});

    // An endless token is exchanged for one that is renewed.
    for credential in [&renewed, &json!({"refresh_token": "shprt_x"}), &json!({"access_token": "shpat_x"})] {
        let refused = import(&globex, credential.clone()).await.problem(409, "account_held");
        assert!(!refused.text.contains(&first) && refused.text.contains("acme.myshopify.com"), "{}", refused.text);
    }
    let own = import(&app.key, renewed.clone()).await.problem(409, "connector_exists");
    assert_eq!(own.text_of("connector_id"), first);
    // What is never exchanged ends nobody's.
    let _made = import(&globex, json!({"access_token": "shpat_x", "expires_in": 3600})).await.expect(201);

    let _gone = app.post(&format!("/connectors/{first}/disconnect"), json!({})).await.expect(200);
    let initech = app.key_of("Initech").await;
    let _held = import(&initech, renewed).await.problem(409, "account_held");
}

/// AP-03
async fn a_mutation_that_makes_or_ends_access_is_not_passed_on(db: Arc<Database>) {
    let app = start(&db).await;
    let id = connect(&app, "acme").await;
    let path = "admin/api/2026-10/graphql.json";
    let send = async |path: &str, headers: &[(&str, &str)], body: String| {
        app.raw(Method::POST, &proxied(&id, path), Some(&app.key), headers, body.into_bytes()).await
    };
    let json = [("content-type", "application/json")];
    let before = acme(&app).counters().api_calls;

    for document in [
        "mutation { delegateAccessTokenCreate(input: {}) { delegateAccessToken { accessToken } } }",
        "mutation{x:delegateAccessTokenCreate\n(input:{}){userErrors{message}}}",
        "mutation { appUninstall { app { id } } }",
    ] {
        let body = json!({"query": document}).to_string();
        for path in [path, "admin/api/graphql.json", "admin/api/2026-10/%67raphql.json"] {
            let told = send(path, &json, body.clone()).await.problem(403, "path_closed");
            assert!(told.text_of("detail").contains("delegateAccessTokenCreate"), "{path}: {}", told.text);
        }
        let _raw = send(path, &[("content-type", "application/graphql")], document.to_owned())
            .await
            .problem(403, "path_closed");
    }
    let packed = [json[0], ("content-encoding", "gzip")];
    let _unread = send(path, &packed, "x".to_owned()).await.problem(403, "path_closed");
    assert_eq!(acme(&app).counters().api_calls, before, "nothing of these was sent");

    let said = json!({
        "query": "query($q: String) { orders(first: 1, query: $q) { nodes { id } } } # delegateAccessTokenCreate",
        "variables": {"q": "name:delegateAccessTokenCreate"},
    });
    let passed = send(path, &json, said.to_string()).await.expect(200);
    assert_eq!(passed.header("x-holdfast-source"), "provider");
}

/// HL-04
async fn a_frozen_shop_is_no_failed_connector(db: Arc<Database>) {
    let app = start(&db).await;
    let id = connect(&app, "acme").await;
    for (status, said) in [(402, "frozen"), (423, "locked")] {
        let body = json!({"errors": "Unavailable Shop"}).to_string();
        acme(&app).trouble(|faults| faults.api_answer = Some(holdfast_sandbox::Canned::new(status, body)));

        let tested = app.post(&format!("/connectors/{id}/test"), json!({})).await;

        assert!(tested.text.contains(said), "{}", tested.text);
        assert_eq!(app.show(&id).await["health"], "connected");
    }
    assert_eq!(acme(&app).counters().exchanges, 0);
    acme(&app).calm();
    let _good = app.post(&format!("/connectors/{id}/test"), json!({})).await.expect(200);
}
