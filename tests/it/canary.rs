//! Planted secrets appear in no log, error, page, metric or database (ST-03, ST-04).

use std::sync::Arc;

use holdfast_sandbox::{CLIENT_ID, CLIENT_SECRET, GrantRequest};
use holdfast_tests::{
    browser::{Browser, http},
    canary::Canaries,
    command::{Installation, Server},
    database::Database,
    on_both,
    service::sandbox,
    wait::until,
};
use reqwest::Method;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use url::Url;

on_both! {
    planted_secrets_appear_nowhere,
    secrets_of_the_web_ui_appear_nowhere,
}

const PASSWORD: &str = "correct-horse-battery-staple";
const EXTRA: &str = "whsec_planted-extra-value";
const MORE: &str = "planted-second-extra-value";
const MISPLACED: &str = "zd_rt_planted-in-the-wrong-place";
const FOREIGN: &str = "eyJ-planted-token-of-nobody";
const CUSTOMER: &str = "planted-words-of-a-customer";
const CODE: &str = "planted-code-that-was-never-issued";
/// Fields that are meant to carry a secret.
const SHOWN: [&str; 4] = ["access_token", "header_value", "url", "reconnect_url"];

/// Calls the API and keeps what it answered, but for the answers that are meant to carry a secret.
struct Api<'a> {
    server: &'a Server,
    key: &'a str,
    seen: Vec<u8>,
}

impl Api<'_> {
    async fn call(&mut self, method: Method, path: &str, body: Option<String>) -> (u16, Value) {
        let mut request = http().request(method, format!("{}{path}", self.server.base)).bearer_auth(self.key);
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body);
        }
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        for (name, value) in response.headers() {
            self.seen.extend_from_slice(format!("{name}: ").as_bytes());
            self.seen.extend_from_slice(value.as_bytes());
            self.seen.push(b'\n');
        }
        let text = response.text().await.unwrap();
        let json: Value = serde_json::from_str(&text).unwrap_or_default();
        let meant = SHOWN.iter().any(|field| !json[*field].is_null());
        if meant {
            // What is meant to carry it is left out, and the rest is kept.
            let mut rest = json.clone();
            for field in SHOWN {
                rest[field] = Value::Null;
            }
            self.seen.extend_from_slice(rest.to_string().as_bytes());
        } else {
            self.seen.extend_from_slice(text.as_bytes());
        }
        (status, json)
    }

    async fn get(&mut self, path: &str) -> (u16, Value) {
        self.call(Method::GET, path, None).await
    }

    async fn post(&mut self, path: &str, body: Value) -> (u16, Value) {
        self.call(Method::POST, path, Some(body.to_string())).await
    }
}

async fn planted_secrets_appear_nowhere(db: Arc<Database>) {
    let sandbox = sandbox().await;
    let acme = sandbox.helpdesk("acme").unwrap();
    let here = Installation::new(&db, &sandbox).with("HOLDFAST_LOG__FILTER", "trace");
    let mut canaries = Canaries::new();
    canaries.plant("the master key", db.master_key.expose_secret().strip_prefix("hfmk_").unwrap());
    canaries.plant("the client secret", CLIENT_SECRET);
    for (name, secret) in [
        ("the password", PASSWORD),
        ("an extra", EXTRA),
        ("another extra", MORE),
        ("a token in the wrong place", MISPLACED),
        ("a token of nobody", FOREIGN),
        ("a customer's words", CUSTOMER),
        ("a code that was never issued", CODE),
    ] {
        canaries.plant(name, secret);
    }

    let user = ["user", "create", "--org", "Acme", "--email", "ada@example.com", "--password-stdin"];
    let _made = here.run_with(&user, &format!("{PASSWORD}\n")).await.done();
    let server = here.serve().await;
    // Printed once, on purpose: made by an installation whose words are not kept.
    let aside = Installation::new(&db, &sandbox);
    let key = [
        "key",
        "create",
        "--org",
        "Acme",
        "--name",
        "ci",
        "--scope",
        "connectors:read,connectors:write,tokens:read,proxy",
    ];
    let key = aside.run(&key).await.done().out.trim().to_owned();
    canaries.plant("the API key", &key);
    let mut api = Api { server: &server, key: &key, seen: Vec::new() };
    let browser = Browser::new();

    // A connector is imported, with extras; wrong bodies carry secrets too.
    let grant = acme.grant(&GrantRequest::default()).unwrap();
    let imported = json!({
        "provider": "zendesk", "account": "acme",
        "credential": {
            "access_token": grant.access_token, "refresh_token": grant.refresh_token, "expires_in": 1800,
            "extras": { "webhook_secret": EXTRA },
        },
    });
    let (status, made) = api.post("/api/v1/connectors", imported.clone()).await;
    assert_eq!(status, 201, "{made}");
    let path = format!("/api/v1/connectors/{}", made["id"].as_str().unwrap());
    let (status, _) = api.call(Method::PATCH, &path, Some(json!({ "extras": { "more": MORE } }).to_string())).await;
    assert_eq!(status, 200);
    let (status, _) = api.post("/api/v1/connectors", imported).await;
    assert_eq!(status, 409);
    for credential in [json!(MISPLACED), json!({ "expires_in": MISPLACED }), json!({ "extras": [MISPLACED] })] {
        let body = json!({ "provider": "zendesk", "account": "acme", "credential": credential });
        assert_eq!(api.post("/api/v1/connectors", body.clone()).await.0, 422);
        let _failed = here.run_with(&["connector", "import"], &body.to_string()).await;
    }
    let cut_off = format!("{{\"provider\": \"zendesk\", \"account\": {{\"refresh_token\": \"{MISPLACED}\"");
    assert_eq!(api.call(Method::POST, "/api/v1/connectors", Some(cut_off)).await.0, 422);
    assert_eq!(api.get(&format!("{path}/token?min_ttl={MISPLACED}")).await.0, 422);
    assert_eq!(api.get(&format!("/api/v1/connectors?health={MISPLACED}")).await.0, 422);
    assert_eq!(api.get(&format!("/api/v1/{MISPLACED}")).await.0, 404);
    let stranger =
        http().get(format!("{}{path}", server.base)).bearer_auth(format!("hf_{FOREIGN}")).send().await.unwrap();
    api.seen.extend_from_slice(stranger.text().await.unwrap().as_bytes());

    // Tokens are read, rejected, rotated, refused, and taken back.
    let (_, token) = api.get(&format!("{path}/token")).await;
    let (status, _) = api.post(&format!("{path}/token/rejected"), json!({ "access_token": FOREIGN })).await;
    assert_eq!(status, 200);
    let (status, _) =
        api.post(&format!("{path}/token/rejected"), json!({ "access_token": token["access_token"] })).await;
    assert_eq!(status, 200);

    // The provider is called through the proxy: well, with a dead token, where nobody may, and in vain.
    let ticket = json!({ "ticket": { "subject": CUSTOMER } }).to_string();
    let query = format!("query={CUSTOMER}&token={FOREIGN}");
    assert_eq!(api.get(&format!("{path}/proxy/api/v2/users/me.json?{query}")).await.0, 200);
    acme.expire_access_tokens();
    let upload = |end: &str| (Method::POST, format!("{path}/proxy/{end}?{query}"), Some(ticket.clone()));
    let large = (Method::POST, format!("{path}/proxy/api/v2/uploads?{query}"), Some(CUSTOMER.repeat(20_000)));
    for ((method, target, body), status) in [
        (large, 503),
        (upload(&format!("api/v2/{CUSTOMER}")), 404),
        (upload("oauth/tokens"), 403),
        (upload(&format!("%252e%252e/{CUSTOMER}")), 422),
    ] {
        assert_eq!(api.call(method, &target, body).await.0, status, "{target}");
    }
    acme.trouble(|faults| faults.api_drop_before = 1);
    assert_eq!(api.get(&format!("{path}/proxy/api/v2/{CUSTOMER}?{query}")).await.0, 502);

    sandbox.set_client_secret("another-secret", None);
    let (_, token) = api.get(&format!("{path}/token")).await;
    acme.expire_access_tokens();
    let (status, refused) =
        api.post(&format!("{path}/token/rejected"), json!({ "access_token": token["access_token"] })).await;
    assert!([502, 503].contains(&status), "{refused}");
    sandbox.set_client_secret(CLIENT_SECRET, None);
    acme.revoke(None);
    let failed = async || {
        let url = format!("{}{path}/test", server.base);
        let tested: Value = http().post(url).bearer_auth(&key).send().await.unwrap().json().await.unwrap();
        tested["health"].as_str().unwrap_or_default().to_owned()
    };
    until("the revocation is known", failed, |health| health == "auth_failed").await;
    let (status, _) = api.get(&format!("{path}/token")).await;
    assert_eq!(status, 409);

    // It is reconnected: wrongly first, then rightly.
    let (_, link) = api.post(&format!("{path}/reconnect"), json!({})).await;
    let link = link["url"].as_str().unwrap().to_owned();
    canaries.plant("a link", link.rsplit('/').next().unwrap());
    browser.get(&link).await;
    let authorize = browser.post(&link).await.location();
    let state =
        |url: &str| Url::parse(url).unwrap().query_pairs().find(|(name, _)| name == "state").unwrap().1.into_owned();
    canaries.plant("a state", &state(&authorize));
    let callback = format!("{}/oauth/callback", server.base);
    let page = browser.get(&format!("{callback}?code={CODE}&state={}", state(&authorize))).await;
    assert_eq!(page.status, 409, "{}", page.text);
    browser.get(&format!("{callback}?code={CODE}&state={CODE}")).await;
    browser.get(&format!("{callback}?code={CODE}&state=a&state={CODE}")).await;
    let authorize = browser.post(&link).await.location();
    canaries.plant("the next state", &state(&authorize));
    let back = sandbox.consent(&authorize, "ada").unwrap();
    let code = Url::parse(&back).unwrap().query_pairs().find(|(name, _)| name == "code").unwrap().1.into_owned();
    canaries.plant("a code", &code);
    let page = browser.get(&back).await;
    assert_eq!((page.status, page.title()), (200, "Connected"), "{}", page.text);
    canaries.plant("the browser's cookie", &browser.cookies()["holdfast_browser"]);

    // Everything is looked at.
    for end in ["", "/timeline", "/token"] {
        assert_eq!(api.get(&format!("{path}{end}")).await.0, 200);
    }
    for shown in ["/api/v1/connectors", "/api/v1/providers", "/api/v1/openapi.json", "/metrics", "/readyz", "/healthz"]
    {
        assert_eq!(api.get(shown).await.0, 200);
    }
    for line in ["connector list", "connector list --json", "key list", "doctor", "migrate status"] {
        let _done = here.run(&line.split(' ').collect::<Vec<_>>()).await.done();
    }
    let (status, _) = api.post(&format!("{path}/disconnect"), json!({})).await;
    assert_eq!(status, 200);
    let mut seen = std::mem::take(&mut api.seen);
    seen.extend(browser.seen());
    let (ended, log) = server.terminate().await;
    assert_eq!(ended.code(), Some(0));
    assert!(log.contains("TRACE"), "the log is at its most talkative");
    for (number, set) in acme.ledger().sets.into_iter().enumerate() {
        canaries.plant(format!("access token {number}"), &set.access_token.unwrap());
        canaries.plant(format!("refresh token {number}"), &set.refresh_token.unwrap());
    }

    assert!(canaries.count() >= 8 + 1 + 5 + 3 * 2, "{} are planted", canaries.count());
    let dump = db.dump().await;
    assert!(dump.len() > 1000, "there is something to look into");
    let mut found = canaries.found_in("the log or a command's words", &here.said());
    found.extend(canaries.found_in("an answer, a page or a metric", &seen));
    found.extend(canaries.found_in("the database", &dump));
    assert_eq!(found, Vec::<String>::new());
    // A check that cannot fail is none.
    assert!(!canaries.found_in("a place", format!("a {key} in it").as_bytes()).is_empty());
}

async fn secrets_of_the_web_ui_appear_nowhere(db: Arc<Database>) {
    const FORGOTTEN: &str = "forgotten-password-of-bob";
    const MISTYPED: &str = "mistyped-password-of-ada";
    const SHORT: &str = "p4ss-wd";
    const CHANGED: &str = "changed-password-of-ada";
    const REFUSED: &str = "refused-client-secret";
    const NEXT: &str = "planted-next-client-secret";
    let sandbox = sandbox().await;
    let here = Installation::new(&db, &sandbox).without_oauth_app().with("HOLDFAST_LOG__FILTER", "trace");
    let mut canaries = Canaries::new();
    canaries.plant("the master key", db.master_key.expose_secret().strip_prefix("hfmk_").unwrap());
    for (name, secret) in [
        ("a password", PASSWORD),
        ("a forgotten password", FORGOTTEN),
        ("a mistyped password", MISTYPED),
        ("a changed password", CHANGED),
        ("the client secret", CLIENT_SECRET),
        ("a refused client secret", REFUSED),
        ("the next client secret", NEXT),
    ] {
        canaries.plant(name, secret);
    }
    let server = here.serve().await;
    let at = |path: &str| format!("{}{path}", server.base);

    // The link in the log is there on purpose, and opens nothing any more once it was used.
    let logged = async || server.log();
    let log = until("the link is logged", logged, |log| log.contains("/setup?token=")).await;
    let link = log.split("/setup?token=").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
    let browser = Browser::new();
    let form = browser.open(&at(&format!("/setup?token={link}"))).await.form("/setup");
    let form = form.with("org", "Acme").with("name", "Ada").with("email", "ada@example.com");
    assert_eq!(browser.send_form(&form.clone().with("password", SHORT)).await.status, 422);
    assert_eq!(browser.send_form(&form.clone().with("name", "").with("password", MISTYPED)).await.status, 422);
    assert_eq!(browser.send_form(&form.clone().with("password", PASSWORD).without("csrf")).await.status, 403);
    assert_eq!(browser.send_form(&form.with("password", PASSWORD)).await.status, 303);
    canaries.plant("the first cookie", &browser.cookies()["holdfast_session"]);

    // The account.
    let account = browser.open(&at("/settings/account")).await;
    let form = account.form("/settings/account/password").with("new", CHANGED);
    assert_eq!(browser.send_form(&form.clone().with("current", MISTYPED)).await.status, 422);
    assert_eq!(browser.send_form(&form.clone().with("current", PASSWORD).with("new", SHORT)).await.status, 422);
    assert_eq!(browser.send_form(&form.with("current", PASSWORD)).await.status, 303);
    canaries.plant("the cookie after it", &browser.cookies()["holdfast_session"]);
    let stranger = Browser::new();
    for password in [PASSWORD, MISTYPED] {
        let form = stranger.open(&at("/sign-in")).await.form("/sign-in");
        assert_eq!(
            stranger.send_form(&form.with("email", "ada@example.com").with("password", password)).await.status,
            422
        );
    }
    let bob = ["user", "create", "--org", "Acme", "--email", "bob@example.com", "--password-stdin"];
    let _made = here.run_with(&bob, &format!("{FORGOTTEN}\n")).await.done();
    let set = ["user", "set-password", "--email", "bob@example.com", "--password-stdin"];
    let _set = here.run_with(&set, &format!("{FORGOTTEN}\n")).await.done();
    // Printed once, on purpose: by an installation whose words are not kept.
    let aside = Installation::new(&db, &sandbox).without_oauth_app();
    let printed = aside.run(&["user", "set-password", "--email", "bob@example.com"]).await.done();
    canaries.plant("a password that was made", printed.out.trim());

    // A key is shown once, on purpose: in a window that is not looked at.
    let window = Browser::new();
    browser.cookies().iter().for_each(|(name, value)| window.keep(name, value));
    let form = window.open(&at("/settings/keys")).await.form("/settings/keys");
    let shown = window.send_form(&form.with("name", "ci").ticked("scope", "admin")).await.html(&server.base);
    let key = shown.codes.iter().find(|code| code.starts_with("hf_") && code.len() == 46).unwrap();
    canaries.plant("the API key", key);
    assert_eq!(http().get(at("/api/v1/connectors")).bearer_auth(key).send().await.unwrap().status(), 200);

    // The OAuth app: unchecked, refused, right, rotated, and at work.
    let page = "/settings/oauth-apps/zendesk";
    let app = async || browser.open(&at(page)).await.form(page).with("client_id", CLIENT_ID);
    assert_eq!(browser.send_form(&app().await.with("client_secret", CLIENT_SECRET)).await.status, 303);
    let grant = sandbox.helpdesk("acme").unwrap().grant(&GrantRequest::default()).unwrap();
    canaries.plant("an access token", &grant.access_token);
    let body = json!({
        "provider": "zendesk", "account": "acme",
        "credential": { "access_token": grant.access_token, "refresh_token": grant.refresh_token, "expires_in": 1800 },
    });
    let imported = http().post(at("/api/v1/connectors")).bearer_auth(key).json(&body).send().await.unwrap();
    assert_eq!(imported.status(), 201);
    assert_eq!(browser.send_form(&app().await.with("client_secret", REFUSED)).await.status, 422);
    assert_eq!(browser.send_form(&app().await.with("client_secret", REFUSED).without("csrf")).await.status, 403);
    sandbox.set_client_secret(CLIENT_SECRET, Some(NEXT));
    assert_eq!(browser.send_form(&app().await.with("next_client_secret", NEXT)).await.status, 303);
    for action in ["check", "promote", "check"] {
        let form = browser.open(&at(page)).await.form(&format!("{page}/{action}"));
        assert!(browser.send_form(&form).await.status < 400, "{action}");
    }

    // Everything is looked at.
    for path in
        ["/settings", "/settings/account", "/settings/organisations", "/settings/keys", "/settings/oauth-apps", page]
    {
        browser.open(&at(path)).await;
    }
    for path in ["/metrics", "/readyz", "/healthz", "/nothing", "/sign-in"] {
        browser.get(&at(path)).await;
    }
    for line in ["user list", "user list --json", "key list --json", "doctor --json"] {
        let done = here.run(&line.split(' ').collect::<Vec<_>>()).await.done();
        assert!(!line.starts_with("doctor") || done.out.contains("Zendesk has one, set in the web UI"), "{done:?}");
    }
    let out = browser.open(&at("/settings")).await.form("/sign-out");
    assert_eq!(browser.send_form(&out).await.status, 303);
    let (ended, log) = server.terminate().await;
    assert_eq!(ended.code(), Some(0));
    assert!(log.contains("TRACE"), "the log is at its most talkative");

    assert_eq!(canaries.count(), 13);
    let dump = db.dump().await;
    let mut seen = browser.seen();
    seen.extend(stranger.seen());
    assert!(dump.len() > 1000 && seen.len() > 20_000, "there is something to look into");
    let mut found = canaries.found_in("the log or a command's words", &here.said());
    found.extend(canaries.found_in("a page", &seen));
    found.extend(canaries.found_in("the database", &dump));
    assert_eq!(found, Vec::<String>::new());
}
