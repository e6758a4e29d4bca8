//! Shops over HTTP: strict where Shopify is.

#![expect(clippy::unwrap_used, reason = "helpers of tests: clippy only knows functions marked as tests")]

use std::time::Duration;

use holdfast_sandbox::{CLIENT_ID, CLIENT_SECRET, Sandbox, Shop, callback_hmac};
use reqwest::{Client, Response};
use serde_json::{Value, json};
use url::Url;

const REDIRECT_URI: &str = "http://127.0.0.1:8080/oauth/callback";
const SCOPES: &str = "read_orders,write_orders";

struct Fixture {
    sandbox: Sandbox,
    acme: Shop,
    http: Client,
}

impl Fixture {
    async fn start() -> Self {
        rustls::crypto::ring::default_provider().install_default().ok();
        let http = Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        let sandbox = Sandbox::builder().start().await.unwrap();
        let acme = sandbox.shop("acme").unwrap();
        Self { sandbox, acme, http }
    }

    fn authorize_url(&self, change: &[(&str, &str)]) -> String {
        let mut params =
            vec![("client_id", CLIENT_ID), ("redirect_uri", REDIRECT_URI), ("scope", SCOPES), ("state", "a b&c")];
        for (name, value) in change {
            params.retain(|(known, _)| known != name);
            if !value.is_empty() {
                params.push((name, value));
            }
        }
        Url::parse_with_params(&format!("{}/admin/oauth/authorize", self.acme.url()), params).unwrap().into()
    }

    fn back(&self) -> Vec<(String, String)> {
        let back = self.sandbox.consent(&self.authorize_url(&[]), "").unwrap();
        Url::parse(&back).unwrap().query_pairs().into_owned().collect()
    }

    fn code(&self) -> String {
        self.back().into_iter().find(|(name, _)| name == "code").unwrap().1
    }

    async fn token(&self, fields: &[(&str, &str)]) -> Response {
        let mut form = vec![("client_id", CLIENT_ID), ("client_secret", CLIENT_SECRET)];
        for (name, value) in fields {
            form.retain(|(known, _)| known != name);
            form.push((name, value));
        }
        self.http.post(format!("{}/admin/oauth/access_token", self.acme.url())).form(&form).send().await.unwrap()
    }

    async fn graph(&self, header: &str, token: &str, query: &str) -> (u16, Value) {
        let url = format!("{}/admin/api/2026-10/graphql.json", self.acme.url());
        let sent = self.http.post(url).header(header, token).json(&json!({"query": query})).send().await.unwrap();
        (sent.status().as_u16(), sent.json().await.unwrap())
    }
}

async fn json_of(response: Response, status: u16) -> Value {
    assert_eq!(response.status(), status);
    response.json().await.unwrap()
}

#[tokio::test]
async fn the_way_back_is_signed_over_all_that_it_carries() {
    let fixture = Fixture::start().await;

    let back = fixture.back();

    let names: Vec<&str> = back.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["code", "hmac", "host", "shop", "state", "timestamp"]);
    let hmac = &back[1].1;
    assert_eq!(*hmac, callback_hmac(CLIENT_SECRET, &back));
    assert_ne!(*hmac, callback_hmac("another", &back));
    assert_eq!((back[3].1.as_str(), back[4].1.as_str()), ("acme.myshopify.com", "a b&c"));
}

#[tokio::test]
async fn an_authorisation_request_that_shopify_would_refuse_has_no_page() {
    let fixture = Fixture::start().await;
    let page = fixture.http.get(fixture.authorize_url(&[])).send().await.unwrap();
    assert_eq!(page.status(), 200);
    assert!(page.text().await.unwrap().contains("write_orders"));
    for change in [
        [("client_id", "another")],
        [("redirect_uri", "https://evil.example/")],
        [("scope", "read_orders,read_everything")],
        [("scope", "read_orders write_orders")],
        [("state", "")],
    ] {
        let page = fixture.http.get(fixture.authorize_url(&change)).send().await.unwrap();
        assert_eq!(page.status(), 400, "{change:?}");
    }
    let elsewhere = fixture.authorize_url(&[]).replace("/acme/", "/nobody/");
    assert!(fixture.sandbox.consent(&elsewhere, "").is_err());
}

#[tokio::test]
async fn a_code_is_good_once_and_brings_a_pair_only_where_it_is_asked_for() {
    let fixture = Fixture::start().await;
    let code = fixture.code();

    let answer = json_of(fixture.token(&[("code", &code), ("expiring", "1")]).await, 200).await;

    assert_eq!((&answer["expires_in"], &answer["refresh_token_expires_in"]), (&json!(3600), &json!(7_776_000)));
    assert_eq!((&answer["scope"], &answer["token_type"]), (&json!(SCOPES), &Value::Null));
    let again = json_of(fixture.token(&[("code", &code), ("expiring", "1")]).await, 400).await;
    assert_eq!(again["error"], "invalid_request");

    let endless = json_of(fixture.token(&[("code", &fixture.code())]).await, 200).await;
    assert_eq!(endless.as_object().unwrap().len(), 2, "{endless}");
    let late = fixture.code();
    fixture.sandbox.advance(Duration::from_mins(2));
    json_of(fixture.token(&[("code", &late), ("expiring", "1")]).await, 400).await;
    for wrong in [("client_secret", "wrong"), ("client_id", "wrong")] {
        let refused = json_of(fixture.token(&[("code", "x"), wrong]).await, 401).await;
        assert_eq!(refused["error"], "invalid_client");
    }
}

#[tokio::test]
async fn a_retired_refresh_token_is_refused_in_the_words_that_were_seen() {
    let fixture = Fixture::start().await;
    let first = fixture.acme.grant(SCOPES).refresh_token.unwrap();
    let refresh = async |token: &str| fixture.token(&[("grant_type", "refresh_token"), ("refresh_token", token)]).await;
    let next = json_of(refresh(&first).await, 200).await;
    let access = next["access_token"].as_str().unwrap();
    // Again, while nobody used what it brought.
    let next = json_of(refresh(&first).await, 200).await;
    assert_ne!(next["access_token"], access);
    let (status, _) =
        fixture.graph("x-shopify-access-token", next["access_token"].as_str().unwrap(), "{ shop { id } }").await;
    assert_eq!(status, 200);

    let refused = json_of(refresh(&first).await, 401).await;

    let words =
        json!({"error": "invalid_request", "error_description": "This request requires an active refresh_token"});
    assert_eq!(refused, words);
    assert_eq!((fixture.acme.counters().replays, fixture.acme.counters().reuses), (1, 1));
    let outcomes: Vec<_> =
        fixture.acme.ledger().presentations.iter().map(|shown| format!("{:?}", shown.outcome)).collect();
    assert_eq!(outcomes, ["Rotated", "Replayed", "Reused"]);
}

#[tokio::test]
async fn a_token_is_taken_from_its_own_header_alone() {
    let fixture = Fixture::start().await;
    let token = fixture.acme.grant(SCOPES).access_token;
    let query = "{ shop { myshopifyDomain } }";

    let (status, answer) = fixture.graph("x-shopify-access-token", &token, query).await;
    assert_eq!((status, &answer["data"]["shop"]["myshopifyDomain"]), (200, &json!("acme.myshopify.com")));
    assert_eq!(answer["extensions"]["cost"]["requestedQueryCost"], 1);

    let (status, answer) = fixture.graph("authorization", &format!("Bearer {token}"), query).await;
    assert_eq!(status, 401);
    assert!(answer["errors"].as_str().unwrap().starts_with("[API] Invalid API key or access token"));
    fixture.acme.uninstall();
    assert_eq!(fixture.graph("x-shopify-access-token", &token, query).await.0, 401);
}

#[tokio::test]
async fn a_refund_without_a_key_is_an_error_and_moves_no_money() {
    let fixture = Fixture::start().await;
    let token = fixture.acme.grant(SCOPES).access_token;
    let order = fixture.acme.order("#1001").unwrap();
    let mutation = format!(
        "mutation {{ refundCreate(input: {{orderId: {}, shipping: {{fullRefund: true}}}}) {{ refund {{ id }} \
         userErrors {{ message }} }} }}",
        order["id"]
    );

    let (status, answer) = fixture.graph("x-shopify-access-token", &token, &mutation).await;

    assert_eq!((status, &answer["data"]["refundCreate"]), (200, &Value::Null));
    assert!(answer["errors"][0]["message"].as_str().unwrap().contains("@idempotent"));
    // With a key and without transactions: noted, and no money moves.
    let keyed = mutation.replacen(" { refund { id }", " @idempotent(key: \"k\") { refund { id }", 1);
    let (_, answer) = fixture.graph("x-shopify-access-token", &token, &keyed).await;
    assert!(answer["data"]["refundCreate"]["refund"]["id"].is_string(), "{answer}");
    let order = fixture.acme.order("#1001").unwrap();
    assert_eq!(order["totalRefundedSet"]["shopMoney"]["amount"], "0.0");
    assert_eq!(order["transactions"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_shop_goes_on_from_its_file() {
    let file = std::env::temp_dir().join(format!("holdfast-sandbox-shops-{}.json", std::process::id()));
    let sandbox = Sandbox::builder().file(&file).start().await.unwrap();
    let shop = sandbox.create_shop("kept").unwrap();
    shop.set_rules(|rules| rules.access_secs = 77);
    let token = shop.grant(SCOPES);
    sandbox.stop().await;

    let sandbox = Sandbox::builder().file(&file).start().await.unwrap();
    std::fs::remove_file(&file).ok();

    let shop = sandbox.shop("kept").unwrap();
    assert!(shop.accepts(&token.access_token));
    assert_eq!((token.expires_in, shop.rules().access_secs), (Some(77), 77));
    assert_eq!(shop.order("#1001").unwrap()["name"], "#1001");
    sandbox.reset();
    assert!(sandbox.shop("kept").is_none());
}
