//! Signing in at an identity provider: who gets in, whom it makes, and what proves nothing.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Form, Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use chrono::TimeDelta;
use holdfast_app::{
    admin::{self, Ask},
    config::{Config, SecondFactorBy},
};
use holdfast_core::{Role, ports::Clock as _};
use holdfast_store::{NewInvitation, Tell};
use holdfast_tests::{
    browser::{Browser, Page},
    database::Database,
    on_both,
    people::PASSWORD,
    service::TestApp,
    smtp::Smtp,
};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use url::Url;

on_both! {
    who_has_an_account_gets_in_and_is_told_of_the_link,
    nobody_gets_in_by_an_address_alone,
    whose_account_there_was_made_anew_is_unlinked_and_gets_in,
    somebody_new_is_invited_or_becomes_what_the_operator_has_said,
    a_token_that_proves_nothing_signs_nobody_in,
    keys_that_were_changed_are_asked_for_anew,
    an_answer_is_taken_once_in_its_time_and_in_its_browser,
    a_provider_that_is_away_or_says_no_is_told_plainly,
    passwords_can_be_for_operators_alone,
    the_second_factor_is_the_providers_business_unless_the_operator_says_otherwise,
}

const ADA: &str = "ada@acme.example";
const CALLBACK: &str = "/sign-in/callback";
const SECRET: &str = "s3cret of the client";

/// An OpenID provider: what a test says of somebody, it signs.
struct Id {
    issuer: String,
    now: Arc<dyn Fn() -> i64 + Send + Sync>,
    state: Mutex<Says>,
}

struct Says {
    key: EcdsaKeyPair,
    kid: &'static str,
    /// Codes with the nonce and the challenge that they were asked for with.
    codes: BTreeMap<String, (String, String)>,
    /// What stands in a token in place of what belongs there.
    claims: Value,
    head: Value,
    userinfo: Value,
    away: bool,
    /// How often its keys were asked for.
    asked: usize,
}

fn key() -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.as_ref(), &random).unwrap()
}

fn part(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

fn with(mut base: Value, change: &Value) -> Value {
    base.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    base
}

impl Id {
    fn token(&self, says: &Says, nonce: &str) -> String {
        let now = (self.now)();
        let claims = json!({
            "iss": self.issuer, "aud": "holdfast", "sub": "user-1", "nonce": nonce, "iat": now, "exp": now + 300,
        });
        let head = with(json!({ "alg": "ES256", "kid": says.kid }), &says.head);
        let message = format!("{}.{}", part(&head), part(&with(claims, &says.claims)));
        let signature = says.key.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
        let signature = if head["alg"] == "none" { String::new() } else { URL_SAFE_NO_PAD.encode(signature) };
        format!("{message}.{signature}")
    }
}

type Shared = State<Arc<Id>>;

async fn discovery(State(id): Shared) -> Response {
    if id.state.lock().unwrap().away {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let issuer = &id.issuer;
    Json(json!({
        "issuer": issuer, "authorization_endpoint": format!("{issuer}/auth"), "token_endpoint": format!("{issuer}/token"),
        "jwks_uri": format!("{issuer}/keys"), "userinfo_endpoint": format!("{issuer}/me"),
    }))
    .into_response()
}

async fn keys(State(id): Shared) -> Json<Value> {
    let mut says = id.state.lock().unwrap();
    says.asked += 1;
    let point = says.key.public_key().as_ref();
    let half = |from: usize| URL_SAFE_NO_PAD.encode(&point[from..from + 32]);
    Json(
        json!({ "keys": [{ "kty": "EC", "crv": "P-256", "use": "sig", "kid": says.kid, "x": half(1), "y": half(33) }] }),
    )
}

async fn tokens(State(id): Shared, headers: HeaderMap, Form(form): Form<BTreeMap<String, String>>) -> Response {
    let refuse = |error: &str| (StatusCode::BAD_REQUEST, Json(json!({ "error": error }))).into_response();
    let basic = format!("Basic {}", STANDARD.encode(format!("holdfast:{}", SECRET.replace(' ', "+"))));
    if headers.get("authorization").is_none_or(|value| value.to_str().unwrap() != basic) {
        return refuse("invalid_client");
    }
    let mut says = id.state.lock().unwrap();
    let Some((nonce, challenge)) = says.codes.remove(&form["code"]) else { return refuse("invalid_grant") };
    let verified = URL_SAFE_NO_PAD.encode(Sha256::digest(form["code_verifier"].as_bytes())) == challenge;
    if !verified || form["grant_type"] != "authorization_code" || !form["redirect_uri"].ends_with(CALLBACK) {
        return refuse("invalid_grant");
    }
    let token = id.token(&says, &nonce);
    Json(json!({ "id_token": token, "access_token": "at-of-somebody", "token_type": "Bearer" })).into_response()
}

async fn me(State(id): Shared, headers: HeaderMap) -> Json<Value> {
    assert_eq!(headers["authorization"], "Bearer at-of-somebody");
    Json(id.state.lock().unwrap().userinfo.clone())
}

struct Scene {
    app: TestApp,
    id: Arc<Id>,
    smtp: Smtp,
}

impl Scene {
    async fn set(db: &Arc<Database>, change: impl FnOnce(&mut Config)) -> Self {
        let smtp = Smtp::start().await;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let app = TestApp::builder(db).with(|config| smtp.configure(config)).with(|config| {
            let oidc = &mut config.sign_in.oidc;
            oidc.issuer.clone_from(&issuer);
            "holdfast".clone_into(&mut oidc.client_id);
            oidc.client_secret = Some(SECRET.into());
            "Tidewater ID".clone_into(&mut oidc.name);
            change(config);
        });
        let app = app.start().await;
        let clock = app.clock.clone();
        let userinfo =
            json!({ "sub": "user-1", "email": "Ada@Acme.example", "email_verified": true, "name": "Ada A." });
        let state = Mutex::new(Says {
            key: key(),
            kid: "k1",
            codes: BTreeMap::new(),
            claims: json!({}),
            head: json!({}),
            userinfo,
            away: false,
            asked: 0,
        });
        let id = Arc::new(Id { issuer, now: Arc::new(move || clock.now().timestamp()), state });
        let routes = Router::new()
            .route("/.well-known/openid-configuration", get(discovery))
            .route("/keys", get(keys))
            .route("/token", post(tokens))
            .route("/me", get(me))
            .with_state(Arc::clone(&id));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Self { app, id, smtp }
    }

    fn say(&self, change: impl FnOnce(&mut Says)) {
        change(&mut self.id.state.lock().unwrap());
    }

    /// Presses the button, and answers where the provider is asked to send them back to, with a code.
    async fn go(&self, browser: &Browser, page: &str) -> Url {
        let sent = browser.press(&self.app.at(page), "/sign-in/provider", &[]).await.expect(303);
        let url = Url::parse(&sent.location()).unwrap();
        let asked: BTreeMap<String, String> = url.query_pairs().into_owned().collect();
        assert!(url.as_str().starts_with(&format!("{}/auth?", self.id.issuer)), "{url}");
        assert_eq!((&*asked["scope"], &*asked["client_id"]), ("openid email profile", "holdfast"));
        assert_eq!((&*asked["response_type"], &*asked["code_challenge_method"]), ("code", "S256"));
        let code = format!("code-{}", asked["nonce"]);
        self.say(|says| {
            says.codes.insert(code.clone(), (asked["nonce"].clone(), asked["code_challenge"].clone()));
        });
        let mut back = Url::parse(&asked["redirect_uri"]).unwrap();
        assert_eq!(back.path(), CALLBACK);
        back.query_pairs_mut().append_pair("code", &code).append_pair("state", &asked["state"]);
        back
    }

    async fn come(&self, browser: &Browser, back: &Url) -> Page {
        let query = back.query().unwrap_or_default();
        browser.get(&self.app.at(&format!("{CALLBACK}?{query}"))).await
    }

    async fn sign_in(&self, browser: &Browser, page: &str) -> Page {
        let back = self.go(browser, page).await;
        self.come(browser, &back).await
    }

    async fn is_refused(&self, status: u16, words: &str) {
        let browser = Browser::new();
        let page = self.sign_in(&browser, "/sign-in").await;
        assert!(page.status == status && page.says(words), "{words}: {} {}", page.status, page.text);
        assert!(!browser.cookies().contains_key("holdfast_session"), "{words}");
    }
}

fn linked(_: &mut Config) {}

async fn who_has_an_account_gets_in_and_is_told_of_the_link(db: Arc<Database>) {
    let scene = Scene::set(&db, linked).await;
    scene.app.person("Acme", ADA, Role::Member).await;
    scene.app.person("Globex", ADA, Role::Viewer).await;
    let browser = Browser::new();

    let page = scene.sign_in(&browser, "/sign-in?next=%2Fagents%3Fq%3Dx").await;

    assert_eq!((page.status, page.location().as_str()), (303, "/agents?q=x"), "{}", page.text);
    assert_eq!(scene.app.settings_of(&browser).await, 200);
    assert!(browser.get(&scene.app.at("/settings/organisations")).await.says("Globex"), "all of their rows are proven");
    scene.app.app.mail_due().await.unwrap();
    let messages = scene.smtp.messages_to(ADA).await;
    let linked = messages.iter().find(|message| message.subject.starts_with("A sign-in was linked")).unwrap();
    assert!(linked.text.contains("Tidewater ID signs you in"), "{}", linked.text);

    // From now on it is the subject that counts, whatever its address is there.
    scene
        .say(|says| says.userinfo = json!({ "sub": "user-1", "email": "other@acme.example", "email_verified": false }));
    assert_eq!(scene.sign_in(&Browser::new(), "/sign-in").await.status, 303);
    assert_eq!(db.number("SELECT COUNT(*) FROM identities").await, 1);
    // Another subject with the same address is somebody else.
    scene.say(|says| {
        says.claims = json!({ "sub": "user-2" });
        says.userinfo = json!({ "sub": "user-2", "email": ADA, "email_verified": true });
    });
    scene.is_refused(403, "Your address belongs to another account").await;
}

/// By themselves, where they can still get in; or by whoever runs the instance.
async fn whose_account_there_was_made_anew_is_unlinked_and_gets_in(db: Arc<Database>) {
    let scene = Scene::set(&db, linked).await;
    scene.app.person("Acme", ADA, Role::Owner).await;
    let (here, elsewhere) = (Browser::new(), Browser::new());
    for browser in [&here, &elsewhere] {
        let _in = scene.sign_in(browser, "/sign-in").await.expect(303);
    }
    let page = here.get(&scene.app.at("/settings/team")).await;
    assert!(page.says("By Tidewater ID"), "{}", page.text);
    let account = "/settings/account";
    assert!(here.get(&scene.app.at(account)).await.says("Linked"));

    let sent = here.press(&scene.app.at(account), "/settings/account/unlink", &[]).await.expect(303);

    let page = here.go_on(sent).await;
    assert!(page.says("The sign-in is unlinked") && page.says("Not linked"), "{}", page.text);
    assert_ne!(scene.app.settings_of(&elsewhere).await, 200, "it came in by the provider");
    scene.app.app.mail_due().await.unwrap();
    let told = scene.smtp.messages_to(ADA).await;
    assert!(told.iter().any(|mail| mail.subject.starts_with("A sign-in was unlinked")), "they are told");
    let new_account = |subject: &'static str| {
        scene.say(|says| {
            says.claims = json!({ "sub": subject });
            says.userinfo = json!({ "sub": subject, "email": ADA, "email_verified": true });
        });
    };
    new_account("user-2");
    assert_eq!(scene.sign_in(&Browser::new(), "/sign-in").await.status, 303);

    new_account("user-3");
    scene.is_refused(403, "Your address belongs to another account").await;
    let unlink = || admin::run(&scene.app.app, Ask::UserUnlinkProvider { email: ADA.to_uppercase() });
    unlink().await.unwrap();
    assert_eq!(scene.sign_in(&Browser::new(), "/sign-in").await.status, 303);
    unlink().await.unwrap();
    let none = unlink().await.unwrap_err();
    assert!(none.message.contains("is linked to no account"), "{}", none.message);
    assert_eq!(db.number("SELECT COUNT(*) FROM audit_log WHERE action = 'person.unlinked'").await, 3);
}

async fn nobody_gets_in_by_an_address_alone(db: Arc<Database>) {
    let scene = Scene::set(&db, |config| config.sign_in.oidc.domains = vec!["acme.example".to_owned()]).await;
    scene.app.person("Acme", ADA, Role::Owner).await;
    scene.app.person("Acme", "ben@other.example", Role::Owner).await;
    for (userinfo, words) in [
        (json!({ "email": ADA, "email_verified": false }), "Your address is not verified"),
        (json!({ "email": ADA }), "Your address is not verified"),
        (json!({ "name": "Ada" }), "Your address is not known"),
        (json!({ "email": "ada", "email_verified": true }), "Your address is not known"),
        (json!({ "email": "ben@other.example", "email_verified": true }), "Your address is not taken here"),
        (json!({ "email": "new@acme.example", "email_verified": true }), "You have no account here"),
    ] {
        scene.say(|says| says.userinfo = with(json!({ "sub": "user-1" }), &userinfo));
        scene.is_refused(403, words).await;
    }
    scene.say(|says| says.userinfo = json!({ "sub": "user-9", "email": ADA, "email_verified": true }));
    scene.is_refused(502, "speaks of somebody else").await;
    assert_eq!(db.number("SELECT COUNT(*) FROM identities").await, 0);
    // The token itself may say it, and the userinfo endpoint is not asked then.
    scene.say(|says| says.claims = json!({ "email": ADA, "email_verified": true }));
    assert_eq!(scene.sign_in(&Browser::new(), "/sign-in").await.status, 303);
}

async fn somebody_new_is_invited_or_becomes_what_the_operator_has_said(db: Arc<Database>) {
    let scene = Scene::set(&db, linked).await;
    let owner = scene.app.somebody(Role::Owner).await;
    let fields = [("email", ADA), ("role", "admin")];
    let _page = owner.submit("/settings/team", "/settings/team/invitations", &fields).await.expect(303);
    scene.app.app.mail_due().await.unwrap();
    let link = scene.smtp.messages_to(ADA).await.pop().unwrap().link_to("/invitation/");
    let path = Url::parse(&link).unwrap().path().to_owned();
    let browser = Browser::new();
    assert!(browser.get(&scene.app.at(&path)).await.says("Continue with Tidewater ID"));

    // Somebody else at the provider does not take it.
    scene.say(|says| says.userinfo["email"] = "eve@acme.example".into());
    let eve = scene.sign_in(&Browser::new(), &path).await;
    assert!(eve.status == 403 && eve.says("You have no account here"), "{}", eve.text);
    scene.say(|says| says.userinfo["email"] = ADA.into());
    let page = scene.sign_in(&browser, &path).await;

    assert_eq!((page.status, page.location().as_str()), (303, "/"), "{}", page.text);
    let ada = scene.app.app.store.find_users_by_email(ADA).await.unwrap().remove(0);
    assert_eq!((ada.role, ada.name.as_deref(), ada.password_hash.is_none()), (Role::Admin, Some("Ada A."), true));
    assert_eq!(scene.sign_in(&Browser::new(), "/sign-in").await.status, 303);
    // Taken out, they are out.
    admin::run(&scene.app.app, Ask::UserRemove { email: ADA.to_owned(), org: None }).await.unwrap();
    scene.is_refused(403, "You have no account here").await;

    let (other, more) = (Arc::new(Database::sqlite()), |config: &mut Config| {
        config.sign_in.oidc.first_time_org = Some("Acme".to_owned());
        config.sign_in.oidc.first_time_role = Some(Role::Viewer);
    });
    let scene = Scene::set(&other, more).await;
    assert_eq!(scene.sign_in(&Browser::new(), "/sign-in").await.status, 303);
    let ada = scene.app.app.store.find_users_by_email(ADA).await.unwrap().remove(0);
    assert_eq!((ada.org_name.as_str(), ada.role, ada.operator), ("Acme", Role::Viewer, false));
    // Nor do they come back by themselves.
    admin::run(&scene.app.app, Ask::UserRemove { email: ADA.to_owned(), org: None }).await.unwrap();
    scene.is_refused(403, "You have no account here").await;
}

async fn a_token_that_proves_nothing_signs_nobody_in(db: Arc<Database>) {
    let scene = Scene::set(&db, linked).await;
    scene.app.person("Acme", ADA, Role::Member).await;
    let now = scene.app.clock.now().timestamp();
    for (head, claims, words) in [
        (json!({ "alg": "none" }), json!({}), "asymmetric"),
        (json!({ "alg": "HS256" }), json!({}), "asymmetric"),
        (json!({ "alg": "RS256" }), json!({}), "does not publish"),
        (json!({ "kid": "k9" }), json!({}), "does not publish"),
        (json!({}), json!({ "iss": "https://evil.example" }), "another issuer"),
        (json!({}), json!({ "aud": "other" }), "another client"),
        (json!({}), json!({ "aud": ["holdfast", "other"] }), "another client"),
        (json!({}), json!({ "azp": "other" }), "another client"),
        (json!({}), json!({ "nonce": "other" }), "another sign-in"),
        (json!({}), json!({ "exp": now - 61 }), "The clocks do not agree"),
        (json!({}), json!({ "iat": now + 120 }), "The clocks do not agree"),
    ] {
        scene.say(|says| (says.head, says.claims) = (head, claims));
        scene.is_refused(502, words).await;
    }
    assert_eq!(db.number("SELECT COUNT(*) FROM browser_sessions").await, 0);
}

async fn keys_that_were_changed_are_asked_for_anew(db: Arc<Database>) {
    let scene = Scene::set(&db, linked).await;
    scene.app.person("Acme", ADA, Role::Member).await;
    assert_eq!(scene.sign_in(&Browser::new(), "/sign-in").await.status, 303);
    assert_eq!(scene.sign_in(&Browser::new(), "/sign-in").await.status, 303);
    assert_eq!(scene.id.state.lock().unwrap().asked, 1, "they are remembered");

    scene.app.clock.advance(Duration::from_secs(30));
    scene.say(|says| (says.key, says.kid) = (key(), "k2"));

    assert_eq!(scene.sign_in(&Browser::new(), "/sign-in").await.status, 303);
    // Whoever signs with what is nowhere does not make us ask for ever.
    scene.say(|says| says.head = json!({ "kid": "k9" }));
    for _ in 0..3 {
        scene.is_refused(502, "does not publish").await;
    }
    assert_eq!(scene.id.state.lock().unwrap().asked, 2);
}

async fn an_answer_is_taken_once_in_its_time_and_in_its_browser(db: Arc<Database>) {
    let scene = Scene::set(&db, linked).await;
    scene.app.person("Acme", ADA, Role::Member).await;
    let browser = Browser::new();
    let back = scene.go(&browser, "/sign-in").await;

    let elsewhere = scene.come(&Browser::new(), &back).await;
    assert!(elsewhere.status == 410 && elsewhere.says("This sign-in is over"), "{}", elsewhere.text);
    let mut forged = back.clone();
    forged.query_pairs_mut().clear().append_pair("code", "x").append_pair("state", "x");
    assert_eq!(scene.come(&browser, &forged).await.status, 410);
    assert_eq!(scene.come(&browser, &back).await.status, 303, "neither has spoiled it");
    assert_eq!(scene.come(&browser, &back).await.status, 410);
    let slow = Browser::new();
    let late = scene.go(&slow, "/sign-in").await;
    scene.app.clock.advance(Duration::from_mins(15));
    assert_eq!(scene.come(&slow, &late).await.status, 410);
    assert_eq!(Browser::new().get(&scene.app.at(CALLBACK)).await.status, 410);
}

async fn a_provider_that_is_away_or_says_no_is_told_plainly(db: Arc<Database>) {
    let scene = Scene::set(&db, linked).await;
    scene.say(|says| says.away = true);
    let browser = Browser::new();
    let page = browser.press(&scene.app.at("/sign-in"), "/sign-in/provider", &[]).await;
    assert!(page.status == 502 && page.says("Tidewater ID cannot be reached"), "{}", page.text);
    scene.say(|says| says.away = false);
    for (error, words) in [("access_denied", "did not allow it"), ("<b>server_error", "without saying who you are")] {
        let mut back = scene.go(&browser, "/sign-in").await;
        let state = back.query_pairs().find(|(name, _)| name == "state").unwrap().1.into_owned();
        back.query_pairs_mut().clear().append_pair("error", error).append_pair("state", &state);
        let page = scene.come(&browser, &back).await;
        assert!(page.status == 403 && page.says(words) && !page.text.contains("<b>"), "{}", page.text);
    }
    let mut back = scene.go(&browser, "/sign-in").await;
    back.query_pairs_mut().append_pair("iss", "https://evil.example");
    let page = scene.come(&browser, &back).await;
    assert!(page.status == 502 && page.says("another provider has answered"), "{}", page.text);
}

async fn passwords_can_be_for_operators_alone(db: Arc<Database>) {
    let scene = Scene::set(&db, |config| config.sign_in.oidc.only = true).await;
    scene.app.person("Acme", ADA, Role::Owner).await;
    scene.app.person_with("Acme", "op@acme.example", Role::Viewer, true, PASSWORD).await;

    let page = scene.app.try_to_sign_in(&Browser::new(), ADA, PASSWORD).await;
    assert!(page.status == 422 && page.says("only operators have passwords. Use Tidewater ID."), "{}", page.text);
    let page = Browser::new().get(&scene.app.at("/forgotten")).await;
    assert!(
        page.says("Only operators have passwords here. Everybody else signs in with Tidewater ID"),
        "{}",
        page.text
    );
    let _in = scene.app.signed_in("op@acme.example").await;
    // An invitation makes no account with a password either, whatever is sent to it.
    let ada = scene.app.app.store.find_users_by_email(ADA).await.unwrap().remove(0);
    let new = NewInvitation {
        org: &ada.org,
        email: "eve@acme.example",
        role: Role::Member,
        by: &ada.id,
        expires_at: scene.app.clock.now() + TimeDelta::days(1),
    };
    let tell = Tell { at: scene.app.clock.now(), domain: "hub.example".to_owned(), sends: true };
    let _invited = scene.app.app.store.invite(&new, &tell).await.unwrap();
    scene.app.app.mail_due().await.unwrap();
    let link = scene.smtp.messages_to("eve@acme.example").await.pop().unwrap().link_to("/invitation/");
    let eve = Browser::new();
    let csrf = eve.open(&scene.app.at("/sign-in")).await.form("/sign-in/provider").value("csrf").unwrap().to_owned();
    let path = scene.app.at(Url::parse(&link).unwrap().path());
    let page = eve.submit(&path, &[("csrf", &*csrf), ("name", "Eve"), ("password", "another good password")]).await;
    assert!(page.says("Continue with Tidewater ID"), "{} {}", page.status, page.text);
    assert!(scene.app.app.store.find_users_by_email("eve@acme.example").await.unwrap().is_empty());
    assert_eq!(scene.sign_in(&Browser::new(), "/sign-in").await.status, 303);
}

async fn the_second_factor_is_the_providers_business_unless_the_operator_says_otherwise(db: Arc<Database>) {
    for by in [SecondFactorBy::Provider, SecondFactorBy::Holdfast] {
        let scene = Scene::set(&db, |config| config.sign_in.oidc.second_factor = by).await;
        let email = format!("{by:?}@acme.example").to_lowercase();
        let id = scene.app.person(&format!("{by:?}"), &email, Role::Owner).await;
        scene.say(|says| says.userinfo = json!({ "sub": "user-1", "email": email, "email_verified": true }));
        let org = scene.app.app.store.find_user(&id).await.unwrap().unwrap().org;
        scene.app.app.store.require_second_factor(&org, true, &id).await.unwrap();
        let browser = Browser::new();

        let page = scene.sign_in(&browser, "/sign-in").await;

        assert_eq!(page.status, 303, "{}", page.text);
        let page = browser.get(&scene.app.at("/connectors")).await;
        let expected = if by == SecondFactorBy::Provider { 200 } else { 303 };
        assert_eq!(page.status, expected, "{by:?}: {}", page.text);
        // A password is no word of the provider's.
        let with_password = scene.app.signed_in(&email).await;
        let page = with_password.get(&scene.app.at("/connectors")).await;
        assert!(page.location().starts_with("/settings/account/two-factor"), "{}", page.text);
    }
}
