//! The Reconnect link of a mail: from the mail to a connector that works again, and each way in which it is dead.

use std::{sync::Arc, time::Duration};

use holdfast_core::{Role, ports::Clock as _};
use holdfast_tests::{
    browser::{Browser, Page},
    database::Database,
    on_both,
};
use reqwest::Method;
use serde_json::json;

use super::{Post, WINDOW, sent};

on_both! {
    the_mail_alone_leads_to_a_connector_that_works_again,
    looking_at_a_link_changes_nothing,
    only_the_page_itself_in_the_same_browser_begins_a_consent,
    a_consent_that_was_sent_to_somebody_else_is_refused,
    a_link_is_dead_once_it_was_reconnected_and_says_by_whom,
    a_link_of_who_has_left_or_lost_the_role_is_dead,
    a_link_of_a_removed_or_disconnected_connector_says_so,
    a_link_ends_after_a_fortnight,
    a_link_that_was_changed_is_not_known,
    a_consent_that_comes_to_nothing_leaves_the_link_alive,
    a_personal_link_names_who_came_and_as_whom,
}

/// A failed connector and Ada's link to it.
struct Mailed {
    post: Post,
    id: String,
    ada: String,
    link: String,
}

async fn mailed(db: &Arc<Database>) -> Mailed {
    let post = Post::start(db).await;
    let ada = post.person("ada@acme.example", Role::Admin).await;
    let id = post.connector("acme", "Acme support").await;
    post.fail(&id, "acme").await;
    assert_eq!(post.tell().await, sent(1));
    let [link] = post.smtp.messages().await.remove(0).reconnect_links().try_into().unwrap();
    Mailed { post, id, ada, link }
}

impl Mailed {
    /// Opens the link and presses its button.
    async fn press(&self, browser: &Browser) -> Page {
        let page = browser.get(&self.link).await;
        assert_eq!((page.status, page.title()), (200, "Reconnect Acme support"), "{}", page.text);
        browser.post(&self.link).await
    }

    async fn dead(&self, status: u16, title: &str) -> Page {
        let browser = Browser::new();
        let page = browser.get(&self.link).await;
        assert_eq!((page.status, page.title()), (status, title), "{}", page.text);
        assert!(!page.text.contains("<form"), "{}", page.text);
        let pressed = browser.submit(&self.link, &[("csrf", "x")]).await;
        assert_eq!((pressed.status, pressed.title()), (status, title), "{}", pressed.text);
        page
    }
}

/// What the page's form carries.
fn form(page: &Page) -> String {
    let (_, after) = page.text.split_once("name=\"csrf\" value=\"").unwrap_or_else(|| panic!("{}", page.text));
    after.split_once('"').unwrap().0.to_owned()
}

async fn the_mail_alone_leads_to_a_connector_that_works_again(db: Arc<Database>) {
    let mailed = mailed(&db).await;
    let (post, browser) = (&mailed.post, Browser::new());
    let before = post.app.show(&mailed.id).await;

    let authorize = mailed.press(&browser).await.location();
    let back = post.app.sandbox.consent(&authorize, "ada").unwrap();
    let page = browser.get(&back).await;

    assert_eq!((page.status, page.title()), (200, "Acme support is reconnected"), "{}", page.text);
    assert!(page.says("everything that uses it goes on by itself") || page.says("Everything that uses it goes on"));
    let open = page.read().link("Open Acme support").expect("a way on");
    assert_eq!(open, format!("/connectors/{}", mailed.id));
    assert!(browser.get(&post.app.at(&open)).await.location().starts_with("/sign-in"), "nobody is signed in by it");
    let after = post.app.show(&mailed.id).await;
    assert_eq!((&after["id"], &after["health"]), (&before["id"], &json!("connected")));
    assert_eq!(after["epoch"].as_i64(), before["epoch"].as_i64().map(|epoch| epoch + 1));
    let _alive = post.app.token(&mailed.id).await.expect(200);
    // Nobody is signed in: the only cookie is the one that binds a consent to a browser.
    assert_eq!(browser.cookies().into_keys().collect::<Vec<_>>(), ["holdfast_browser"]);
    assert_eq!(post.tell().await, sent(1), "and the mail that it is back");
}

async fn looking_at_a_link_changes_nothing(db: Arc<Database>) {
    let mailed = mailed(&db).await;
    let post = &mailed.post;
    let rows = async || {
        let mut counts = Vec::new();
        for table in ["connect_sessions", "timeline", "outbox", "exchanges", "browser_sessions"] {
            counts.push(db.number(&format!("SELECT COUNT(*) FROM {table}")).await);
        }
        counts
    };
    let (before, shown) = (rows().await, post.app.show(&mailed.id).await);

    let scanner = Browser::new();
    for method in [Method::GET, Method::HEAD, Method::GET, Method::HEAD, Method::OPTIONS] {
        let page = scanner.send_with(method, &mailed.link, &[("user-agent", "scanner")]).await;
        assert!(page.status == 200 || page.status == 405, "{page:?}");
    }
    let page = Browser::new().get(&mailed.link).await;

    assert_eq!(rows().await, before);
    assert_eq!(post.app.show(&mailed.id).await, shown);
    let header = |name: &str| page.headers.get(name).unwrap().to_str().unwrap().to_owned();
    assert_eq!((header("referrer-policy"), header("cache-control")), ("no-referrer".to_owned(), "no-store".to_owned()));
    assert!(header("content-security-policy").contains("default-src 'none'"));
    for words in ["Acme", "acme.zendesk.com", "Zendesk refused the refresh token", "Nothing happens before you press"] {
        assert!(page.text.contains(words), "{words} is not in {}", page.text);
    }
    let authorize = mailed.press(&Browser::new()).await.location();
    assert!(
        authorize.contains("/oauth/authorizations/new"),
        "however often it was looked at, it still works: {authorize}"
    );
}

async fn only_the_page_itself_in_the_same_browser_begins_a_consent(db: Arc<Database>) {
    let mailed = mailed(&db).await;
    let (browser, other) = (Browser::new(), Browser::new());
    let own = form(&browser.get(&mailed.link).await);
    let foreign = form(&other.get(&mailed.link).await);
    assert_ne!(own, foreign);
    let sessions = db.number("SELECT COUNT(*) FROM connect_sessions").await;
    let cookie = browser.cookies().into_iter().map(|(name, value)| format!("{name}={value}")).next().unwrap();
    let body = |token: &str| format!("csrf={token}");
    let post = async |headers: &[(&str, &str)], body: String| {
        let headers: Vec<_> =
            [("content-type", "application/x-www-form-urlencoded")].iter().chain(headers).copied().collect();
        let path = mailed.link.strip_prefix(&mailed.post.app.base).unwrap();
        mailed.post.app.raw(Method::POST, path, None, &headers, body.into_bytes()).await
    };

    for (what, headers, sent) in [
        ("no cookie", &[][..], body(&own)),
        ("no form", &[("cookie", cookie.as_str())][..], String::new()),
        ("another browser's form", &[("cookie", cookie.as_str())][..], body(&foreign)),
        ("another site's button", &[("cookie", cookie.as_str()), ("sec-fetch-site", "cross-site")][..], body(&own)),
        ("a sibling's button", &[("cookie", cookie.as_str()), ("sec-fetch-site", "same-site")][..], body(&own)),
    ] {
        let refused = post(headers, sent).await;
        assert_eq!(refused.status, 403, "{what}: {}", refused.text);
        assert!(refused.text.contains("Open the link of the mail again"), "{what}: {}", refused.text);
    }
    assert_eq!(db.number("SELECT COUNT(*) FROM connect_sessions").await, sessions);
    for headers in [
        &[("cookie", cookie.as_str())][..],
        &[("cookie", cookie.as_str()), ("sec-fetch-site", "same-origin"), ("origin", "null")][..],
        &[("cookie", cookie.as_str()), ("origin", mailed.post.app.base.as_str())][..],
    ] {
        assert_eq!(post(headers, body(&own)).await.status, 303);
    }
}

/// CO-06
async fn a_consent_that_was_sent_to_somebody_else_is_refused(db: Arc<Database>) {
    let mailed = mailed(&db).await;
    let post = &mailed.post;
    let authorize = mailed.press(&Browser::new()).await.location();
    let exchanges = post.app.acme.counters().exchanges;

    let back = post.app.sandbox.consent(&authorize, "ada").unwrap();
    let page = Browser::new().get(&back).await;

    assert_eq!((page.status, page.title()), (403, "This was started in another browser"), "{}", page.text);
    assert_eq!(post.app.show(&mailed.id).await["health"], "auth_failed");
    assert_eq!(post.app.acme.counters().exchanges, exchanges, "the code is not even exchanged");
}

async fn a_link_is_dead_once_it_was_reconnected_and_says_by_whom(db: Arc<Database>) {
    let mailed = mailed(&db).await;
    let post = &mailed.post;
    post.mend(&mailed.id).await;
    let at = post.app.clock.now().format("%-d %B %Y").to_string();

    let page = mailed.dead(410, "Already reconnected").await;

    assert!(page.text.contains("Ada Admin reconnected it on ") && page.text.contains(&at), "{}", page.text);
    assert!(page.text.contains(&format!("{}/connectors/{}", post.app.base, mailed.id)), "{}", page.text);
    // It fails again: the old link does not come back to life.
    post.app.advance(WINDOW);
    post.tell().await;
    post.fail(&mailed.id, "acme").await;
    assert_eq!(post.tell().await, sent(1));
    mailed.dead(410, "There is a newer link").await;
    let newest = post.smtp.messages().await.pop().unwrap().reconnect_links().remove(0);
    assert_eq!(Browser::new().get(&newest).await.title(), "Reconnect Acme support");
}

async fn a_link_of_who_has_left_or_lost_the_role_is_dead(db: Arc<Database>) {
    let mailed = mailed(&db).await;
    let post = &mailed.post;
    let (store, org) = (&post.app.app.store, &post.app.org);

    store.set_role(org, &mailed.ada, Role::Member, None, post.app.clock.now()).await.unwrap();
    let page = mailed.dead(403, "You are no longer an admin").await;
    assert!(!page.text.contains("acme.zendesk.com") && !page.text.contains("Acme support"), "{}", page.text);
    store.set_role(org, &mailed.ada, Role::Admin, None, post.app.clock.now()).await.unwrap();
    assert_eq!(Browser::new().get(&mailed.link).await.status, 200);
    store.remove_user(org, &mailed.ada, None, post.app.clock.now()).await.unwrap();
    mailed.dead(403, "You are no longer an admin").await;
}

async fn a_link_of_a_removed_or_disconnected_connector_says_so(db: Arc<Database>) {
    let mailed = mailed(&db).await;
    let app = &mailed.post.app;

    let _off = app.post(&format!("/connectors/{}/disconnect", mailed.id), json!({})).await.expect(200);
    mailed.dead(410, "This connector was disconnected").await;
    let path = format!("/connectors/{}", mailed.id);
    assert_eq!(app.call(Method::DELETE, &path, Some(&app.key), None).await.status, 204);
    mailed.dead(410, "This connector was removed").await;
}

async fn a_link_ends_after_a_fortnight(db: Arc<Database>) {
    let mailed = mailed(&db).await;
    let app = &mailed.post.app;
    let day = Duration::from_hours(24);

    app.advance(day * 14 - Duration::from_mins(1));
    assert_eq!(Browser::new().get(&mailed.link).await.status, 200);
    app.advance(Duration::from_mins(2));

    let page = mailed.dead(410, "This link is over").await;
    assert!(page.text.contains(&format!("{}/connectors/{}", app.base, mailed.id)), "{}", page.text);
}

async fn a_link_that_was_changed_is_not_known(db: Arc<Database>) {
    let mailed = mailed(&db).await;
    let (start, token) = mailed.link.rsplit_once('/').unwrap();
    let flipped = format!("{}{}", if token.starts_with('B') { 'C' } else { 'B' }, &token[1..]);

    for token in [&token[..token.len() - 1], &flipped, &format!("{token}A"), "x", "%00", "%ff"] {
        let page = Browser::new().get(&format!("{start}/{token}")).await;
        assert_eq!(page.status, 404, "{token}: {}", page.text);
    }
    // What mail programs take for a part of it is none.
    for end in [".", "%3E", ")", "%3E."] {
        let page = Browser::new().get(&format!("{}{end}", mailed.link)).await;
        assert_eq!((page.status, page.title()), (200, "Reconnect Acme support"), "{end}: {}", page.text);
    }
    let slash = Browser::new().get(&format!("{}/", mailed.link)).await;
    assert_eq!(
        (slash.status, slash.location()),
        (308, mailed.link.strip_prefix(&mailed.post.app.base).unwrap().to_owned())
    );
    // Another instance's signature is none of ours.
    db.execute("DELETE FROM instance WHERE key = 'secret.reconnect-links'").await;
    mailed.dead(404, "This link is not known").await;
}

async fn a_consent_that_comes_to_nothing_leaves_the_link_alive(db: Arc<Database>) {
    let mailed = mailed(&db).await;
    let post = &mailed.post;
    let browser = Browser::new();

    let denied = mailed.press(&browser).await.location();
    assert_eq!(browser.get(&post.app.sandbox.deny(&denied).unwrap()).await.title(), "Access was not allowed");
    let _abandoned = mailed.press(&browser).await.location();
    let (first, second) = (mailed.press(&browser).await.location(), mailed.press(&browser).await.location());
    assert_ne!(first, second, "pressed twice");
    let back = post.app.sandbox.consent(&second, "ada").unwrap();

    assert_eq!(browser.get(&back).await.title(), "Acme support is reconnected");
    assert_eq!(post.app.show(&mailed.id).await["credential"]["version"], 2);
    mailed.dead(410, "Already reconnected").await;
}

async fn a_personal_link_names_who_came_and_as_whom(db: Arc<Database>) {
    let post = Post::start(&db).await;
    post.person("ada@acme.example", Role::Owner).await;
    post.person("ben@acme.example", Role::Admin).await;
    let id = post.connector("acme", "Acme support").await;
    let agent = json!({
        "name": "Triage", "sample": "annotate_urgent_tickets", "connectors": [{ "connector": id }],
        "trigger": { "kind": "manual" },
    });
    let _made = post.app.post("/agents", agent).await.expect(201);
    post.fail(&id, "acme").await;
    assert_eq!(post.tell().await, sent(2));
    let mails = post.smtp.messages().await;
    let link_of = |who: &str| {
        let mail = mails.iter().find(|mail| mail.to.iter().any(|to| to.contains(who))).expect("they were told");
        mail.reconnect_links().remove(0)
    };
    let (link, browser) = (link_of("ben@"), Browser::new());
    let press = async |link: &str| {
        assert_eq!(browser.get(link).await.status, 200);
        browser.post(link).await.location()
    };

    let denied = browser.get(&post.app.sandbox.deny(&press(&link).await).unwrap()).await;
    let again = denied.read().link("Try again").expect("a way on");
    let back = post.app.sandbox.consent(&press(&post.app.at(&again)).await, "gus").unwrap();
    let done = browser.get(&back).await;

    assert_eq!(denied.title(), "Access was not allowed");
    assert!(!denied.says("your link") && !denied.says("connect link"), "{}", denied.text);
    assert_eq!((done.status, done.title()), (200, "Acme support is reconnected"), "{}", done.text);
    assert!(!done.says("first test failed") && done.says("Its agents run: Triage."), "{}", done.text);
    let lines = post.app.timeline(&id).await;
    let told =
        |kind: &str| lines.iter().find(|line| line["kind"] == kind).unwrap_or_else(|| panic!("{kind}: {lines:?}"));
    assert_eq!(told("consent")["actor"], "ben@acme.example");
    assert_eq!(told("reconnected")["actor"], "ben@acme.example (at Zendesk as Gus Agent)");
    let test = told("test");
    assert_eq!((&test["outcome"], &test["actor"]), (&json!("passed"), &json!("ben@acme.example")));
    assert_eq!(post.tell().await, sent(2));
    let news = post.smtp.messages().await.pop().unwrap();
    let dead = browser.get(&link_of("ada@")).await;
    for text in [&news.text, &dead.text] {
        assert!(text.contains("ben@acme.example (at Zendesk as Gus Agent) reconnected it"), "{text}");
    }
}
