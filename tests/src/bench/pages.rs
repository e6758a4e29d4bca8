//! Pages: the list of a thousand connectors, and how soon an open page shows a failure.

use std::time::Duration;

use anyhow::{Context, ensure};
use holdfast_sandbox::{CLIENT_ID, CLIENT_SECRET, GrantRequest, Sandbox};
use holdfast_tests::browser::Browser;
use reqwest::Method;
use serde_json::{Value, json};

use super::{
    median, millis, pause,
    process::{Installation, Running, random_word},
    report::{Goal, Report},
    uptime,
    wire::{self, Connection},
};

const CONNECTORS: usize = 1000;
const WARM_UP: usize = 50;
const PAGES: usize = 1000;
const FAILURES: usize = 7;
/// Nothing that is measured here takes nearly as long.
const BOUND: Duration = Duration::from_secs(30);

pub(super) async fn run(report: &mut Report) -> anyhow::Result<()> {
    let sandbox = Sandbox::builder().start().await?;
    let installation = Installation::new()?
        .with("HOLDFAST_REFRESH__LOOP_INTERVAL_SECS", "3600")
        .with("HOLDFAST_NETWORK__ALLOW_PRIVATE_HOSTS", "loopback")
        .with("HOLDFAST_OAUTH_APPS__ZENDESK__CLIENT_ID", CLIENT_ID)
        .with("HOLDFAST_OAUTH_APPS__ZENDESK__CLIENT_SECRET", CLIENT_SECRET)
        .with("HOLDFAST_PROVIDERS__ZENDESK__BASE_URL_OVERRIDE", sandbox.zendesk_override());
    let running = installation.serve().await?;
    let key = installation.key().await?;
    let browser = signed_in(&installation, &running).await?;
    failures(report, &sandbox, &running, &key, &browser).await?;
    list(report, &running, &key, &browser).await?;
    running.stop().await?;
    sandbox.stop().await;
    Ok(())
}

async fn signed_in(installation: &Installation, running: &Running) -> anyhow::Result<Browser> {
    let (address, password) = installation.person().await?;
    let (browser, page) = (Browser::new(), format!("http://{}/sign-in", running.address));
    let answer = browser.press(&page, "/sign-in", &[("email", &address), ("password", &password)]).await;
    ensure!(answer.status == 303, "nobody was signed in: {}", answer.text);
    Ok(browser)
}

/// The home page of an org with a thousand connectors, one request after the other.
async fn list(report: &mut Report, running: &Running, key: &str, browser: &Browser) -> anyhow::Result<()> {
    let mut connection = Connection::open(running.address).await?;
    for number in 0..CONNECTORS {
        let body = json!({
            "provider": "zendesk", "account": format!("desk{number}"), "name": format!("Helpdesk {number}"),
            "credential": { "access_token": "a".repeat(64), "refresh_token": "r".repeat(64), "expires_in": 86_400 },
        });
        connection.must(&wire::post("/api/v1/connectors", key, &body)).await?;
    }
    let cookies: Vec<_> = browser.cookies().iter().map(|(name, value)| format!("{name}={value}")).collect();
    let request = format!(
        "GET /connectors HTTP/1.1\r\nhost: localhost\r\ncookie: {}\r\naccept: text/html\r\n\r\n",
        cookies.join("; ")
    );
    let mut took = Vec::with_capacity(PAGES);
    let mut bytes = 0;
    for number in 0..WARM_UP + PAGES {
        let started = uptime();
        bytes = connection.must(request.as_bytes()).await?.len();
        if number >= WARM_UP {
            took.push(millis(uptime() - started));
        }
    }
    took.sort_by(f64::total_cmp);
    let note = format!("{PAGES} requests one after the other, {bytes} bytes each, SQLite");
    report.add("connectors page with 1,000 connectors, p50", took[PAGES / 2], "ms", Goal::None, note);
    let note = format!("the longest {:.1} ms", took.last().copied().unwrap_or_default());
    report.add("connectors page with 1,000 connectors, p99", took[PAGES * 99 / 100], "ms", Goal::Under(30.0), note);
    Ok(())
}

async fn failures(
    report: &mut Report,
    sandbox: &Sandbox,
    running: &Running,
    key: &str,
    browser: &Browser,
) -> anyhow::Result<()> {
    let mut took = Vec::new();
    for _ in 0..FAILURES {
        took.push(failure(sandbox, running, key, browser).await?);
    }
    let longest = took.iter().copied().fold(0.0, f64::max);
    let note = format!(
        "median of {FAILURES}, the longest {longest:.0} ms; from the refusal that confirms it to the page that shows it, \
         over the stream of events"
    );
    report.add("failure to page", median(took), "ms", Goal::Under(1000.0), note);
    Ok(())
}

/// A connector whose access is taken away while its page is open.
async fn failure(sandbox: &Sandbox, running: &Running, key: &str, browser: &Browser) -> anyhow::Result<f64> {
    let name = format!("bench-{}", random_word());
    let helpdesk = sandbox.create_helpdesk(&name).context("the sandbox takes no other helpdesk")?;
    let grant = helpdesk.grant(&GrantRequest::default()).context("the sandbox grants no access")?;
    let body = json!({
        "provider": "zendesk", "account": name,
        "credential": {
            "access_token": grant.access_token, "refresh_token": grant.refresh_token,
            "expires_in": grant.expires_in, "scope": grant.scope,
        },
    });
    let mut caller = Connection::open(running.address).await?;
    let made: Value = serde_json::from_slice(caller.must(&wire::post("/api/v1/connectors", key, &body)).await?)?;
    let id = made["id"].as_str().context("no id of the connector")?;
    let page = format!("http://{}/connectors/{id}", running.address);
    let stream = browser.get(&page).await.stream().context("the page follows nothing")?;
    let stream = browser.request(Method::GET, &format!("http://{}{stream}", running.address));
    let mut events = stream.header("accept", "text/event-stream").send().await?;

    helpdesk.revoke(None);
    let rejected = json!({ "access_token": grant.access_token });
    let rejected = wire::post(&format!("/api/v1/connectors/{id}/token/rejected"), key, &rejected);
    let told = caller.ask(&rejected);
    // The first refusal is confirmed by one more attempt.
    let refused = async {
        while helpdesk.counters().exchanges < 2 {
            pause(Duration::from_millis(1)).await;
        }
        uptime()
    };
    let shown = async {
        loop {
            let chunk = events.chunk().await?.context("the stream ended")?;
            if String::from_utf8_lossy(&chunk).contains("event: changed")
                && browser.get(&page).await.text.contains("It stopped working")
            {
                return anyhow::Ok(uptime());
            }
        }
    };
    let all = async { tokio::join!(told, refused, shown) };
    let (told, refused, shown) = tokio::select! {
        all = all => all,
        () = pause(BOUND) => anyhow::bail!("the page did not show the failure in time"),
    };
    ensure!(told?.status == 409, "the failure was not told to its caller");
    sandbox.close_helpdesk(&name);
    Ok(millis(shown?.saturating_sub(refused)))
}
