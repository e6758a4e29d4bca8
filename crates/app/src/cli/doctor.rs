//! `holdfast doctor`: one line for each thing that has to be right, with a remedy where it is not.

use std::{fmt::Write as _, process::ExitCode, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::{
    ports::{Body, HttpRequest},
    provider::AuthKind,
};
use holdfast_store::{LifeboatState, Store, StoredApp};
use http::{HeaderMap, Method};
use serde::Serialize;

use super::Output;
use crate::{
    app::{self, CLOCK_TOLERANCE_SECS, LOSES_COMMITS},
    config::{Config, ConfigError},
    mail::{Smtp, Transport as _},
    oauth_apps::{self, SECRET_WARNING_DAYS},
    registry,
    seams::Seams,
};

#[derive(Serialize)]
struct Finding {
    check: &'static str,
    ok: bool,
    detail: String,
    remedy: Option<String>,
}

fn good(check: &'static str, detail: impl Into<String>) -> Finding {
    Finding { check, ok: true, detail: detail.into(), remedy: None }
}

fn bad(check: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { check, ok: false, detail: detail.into(), remedy: Some(remedy.into()) }
}

/// Checks everything that can be checked; exit 1 when anything is wrong.
pub(super) async fn run(loaded: Result<Config, ConfigError>, output: Output) -> anyhow::Result<ExitCode> {
    let mut findings = Vec::new();
    match loaded {
        Err(error) => findings.push(bad("configuration", error.to_string(), "correct that key and run this again")),
        Ok(config) => {
            findings.push(good("configuration", "every key is understood, and the numbers fit each other"));
            findings.extend(examine(config).await?);
        }
    }
    let wrong = findings.iter().filter(|finding| !finding.ok).count();
    output.print(&findings, || {
        let line = |finding: &Finding| {
            let mark = if finding.ok { "ok   " } else { "WRONG" };
            let remedy = finding.remedy.as_ref().map(|remedy| format!("\n      -> {remedy}")).unwrap_or_default();
            format!("{mark} {}: {}{remedy}", finding.check, finding.detail)
        };
        findings.iter().map(line).collect::<Vec<_>>().join("\n")
    })?;
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn examine(config: Config) -> anyhow::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let seams = Seams::system(&config)?;
    let (mut stored, mut own, mut used) = (Vec::new(), Vec::new(), Vec::new());
    if config.master_key.is_none() {
        let remedy = "holdfast master-key new > master.key && chmod 600 master.key, then set master_key_file";
        findings.push(bad("master key", "none is set", remedy));
    } else {
        let (database, store) = examine_database(&config, &seams).await;
        findings.extend(database);
        if let Some(store) = store {
            findings.push(examine_lifeboat(store.lifeboat(config.lifeboat_dir()).check().await, &config));
            stored = store.oauth_apps().await?;
            own = store.own_oauth_apps().await?;
            used = store.providers_in_use().await?;
            if !store.has_users().await? {
                let detail = "nobody can sign in yet; `holdfast serve` logs a link that makes the first owner";
                findings.push(good("people", detail));
            }
        }
    }
    findings.extend(examine_redis(&config, &seams).await?);
    findings.push(examine_mail_server(&config).await);
    findings.extend(examine_providers(&config, &seams, &stored, &used));
    findings.extend(examine_own_apps(&own, seams.clock.now()));
    findings.push(examine_public_url(&config, &seams).await);
    Ok(findings)
}

/// Also the store, if it can be read: its schema is up to date and its master key is right.
async fn examine_database(config: &Config, seams: &Seams) -> (Vec<Finding>, Option<Store>) {
    let shown = config.database.shown_url();
    let exists = config.database.sqlite_path().is_none_or(|path| path.exists());
    let folder = config.database.sqlite_path().and_then(|path| path.parent().map(std::path::Path::to_owned));
    if let Some(folder) = folder.filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()) {
        let detail = format!("the folder {} does not exist", folder.display());
        return (vec![bad("database", detail, "make it, or correct database.url")], None);
    }
    if !exists {
        return (vec![good("database", format!("{shown} does not exist yet; `holdfast serve` makes it"))], None);
    }
    let store = match app::open(config, seams, "doctor".to_owned()).await {
        Ok(store) => store,
        Err(error) => {
            let remedy = "check database.url, and that it is running";
            return (vec![bad("database", format!("{shown}: {error:#}"), remedy)], None);
        }
    };
    let mut findings = vec![good("database", format!("{shown} answers"))];
    let pending = match store.migration_status().await {
        Ok(steps) => steps.iter().filter(|(_, applied)| !applied).count(),
        Err(error) => {
            findings.push(bad("schema", format!("{:#}", anyhow::Error::new(error)), "holdfast migrate"));
            return (findings, None);
        }
    };
    if pending > 0 {
        findings.push(bad("schema", format!("{pending} steps are pending"), "holdfast migrate, or start the service"));
        return (findings, None);
    }
    findings.push(good("schema", "up to date"));
    let unlocked = store.unlock().await;
    let readable = unlocked.is_ok();
    match unlocked {
        Ok(()) => findings.push(good("master key", "it is the one that sealed this database")),
        Err(error) => findings.push(bad(
            "master key",
            format!("{:#}", anyhow::Error::new(error)),
            "bring back the key that this database was sealed with",
        )),
    }
    if let Ok(true) = store.loses_commits().await {
        let remedy = "set synchronous_commit = on, for the server or with ALTER DATABASE … SET";
        findings.push(bad("durability", LOSES_COMMITS, remedy));
    }
    if let Ok(theirs) = store.database_clock().await {
        let off = (theirs - seams.clock.now()).num_seconds();
        findings.push(if off.abs() <= CLOCK_TOLERANCE_SECS {
            good("clock", format!("{off} s off the database's"))
        } else {
            bad("clock", format!("{off} s off the database's"), "run NTP on both machines")
        });
    }
    (findings, readable.then_some(store))
}

/// Where leases are kept there.
async fn examine_redis(config: &Config, seams: &Seams) -> anyhow::Result<Option<Finding>> {
    let Some(redis) = app::redis(config, seams)? else { return Ok(None) };
    let shown = redis.shown_url();
    Ok(Some(match redis.ping().await {
        Ok(()) => good("Redis", format!("{shown} answers")),
        Err(error) => bad(
            "Redis",
            format!("{shown}: {:#}; nothing is refreshed without it", anyhow::Error::new(error)),
            "check lock.redis_url, and that it is running; or keep leases in the database: lock.backend = \"database\"",
        ),
    }))
}

/// Writes a file into it and takes it out again. What waits in it is the service's to store.
fn examine_lifeboat(state: LifeboatState, config: &Config) -> Finding {
    let dir = config.lifeboat_dir();
    let dir = dir.display();
    if let Some(trouble) = state.trouble {
        let remedy = "make it a folder with room, that the service's user may write, or set lifeboat.dir";
        return bad("lifeboat", format!("{dir}: {trouble}"), remedy);
    }
    if state.unreadable > 0 {
        return bad(
            "lifeboat",
            format!("{} files in {dir}/unreadable cannot be opened", state.unreadable),
            "they were sealed with another master key, or are damaged; delete them once nobody misses a connector",
        );
    }
    match state.sets {
        0 => good("lifeboat", format!("{dir} can take what the database cannot")),
        sets => good("lifeboat", format!("{dir} holds {sets} token sets, which the service stores when it can")),
    }
}

/// Reaches it, secures the line and signs in, as the service does; sends nothing.
async fn examine_mail_server(config: &Config) -> Finding {
    let smtp = match Smtp::from_config(config) {
        Ok(Some(smtp)) => smtp,
        Ok(None) => {
            let detail = "none is set (smtp.url and mail.from), so nobody is mailed when a connector fails";
            return good("mail server", detail);
        }
        Err(error) => return bad("mail server", format!("{error:#}"), "correct that key"),
    };
    let found = Box::pin(smtp.ready()).await;
    smtp.rest().await;
    match found {
        Ok(()) => good("mail server", format!("{} takes mail from us", smtp.shown())),
        Err(failure) => bad(
            "mail server",
            failure.words,
            "check smtp.url: host and port, smtps:// or ?tls=required, user and password; for a private CA smtp.ca_file",
        ),
    }
}

/// An OAuth app that is missing is wrong where connectors of its provider are, or where there is none at all.
fn examine_providers(config: &Config, seams: &Seams, stored: &[StoredApp], used: &[String]) -> Vec<Finding> {
    let providers = match registry::providers(config) {
        Ok(providers) => providers,
        Err(error) => return vec![bad("providers", format!("{error:#}"), "correct that key")],
    };
    let mut findings = Vec::new();
    let mut unused = Vec::new();
    for provider in providers.iter().filter(|provider| provider.about().auth_kind == AuthKind::OAuth2) {
        let about = provider.about();
        let of_ui = stored.iter().find(|app| app.provider == about.id);
        if config.oauth_apps.contains_key(about.id) {
            findings.push(good("OAuth app", format!("{} has one, in the configuration", about.name)));
        } else if of_ui.is_some_and(|app| !opens(app)) {
            let remedy = "enter it again in the web UI, under Settings, OAuth apps";
            findings.push(bad("OAuth app", format!("a client secret of {} cannot be opened", about.name), remedy));
        } else if of_ui.is_some() {
            findings.push(good("OAuth app", format!("{} has one, set in the web UI", about.name)));
        } else if used.iter().any(|id| id == about.id) {
            let detail = format!("{} has none, so its connectors cannot be renewed", about.name);
            findings.push(bad("OAuth app", detail, app_remedy(about.id)));
        } else {
            unused.push(about.name);
        }
    }
    if config.oauth_apps.is_empty() && stored.is_empty() {
        let detail = "there is none of any provider, so nothing can be connected by a consent";
        findings.push(bad("OAuth app", detail, app_remedy("PROVIDER")));
    } else if !unused.is_empty() {
        let detail = format!("{}: none, and no connector that needs one", unused.join(", "));
        findings.push(good("OAuth app", detail));
    }
    let ends = oauth_apps::ends(&config.oauth_apps, stored);
    for warning in ends.iter().filter_map(|end| end.warning(seams.clock.now())) {
        findings.push(bad("client secret", warning, "see the provider's page of the OAuth app"));
    }
    findings
}

fn app_remedy(provider: &str) -> String {
    format!(
        "register one at the provider, and enter it in the web UI under Settings, OAuth apps, or set \
         oauth_apps.{provider}.client_id and .client_secret"
    )
}

fn opens(app: &StoredApp) -> bool {
    [&app.secret, &app.next_secret].into_iter().flatten().all(|secret| secret.secret.is_some())
}

/// Apps of single organisations are their admins' matter, who see on their pages what is wrong; here they are counted.
fn examine_own_apps(own: &[StoredApp], now: DateTime<Utc>) -> Option<Finding> {
    if own.is_empty() {
        return None;
    }
    let unreadable = own.iter().filter(|app| !opens(app)).count();
    let soon = now + TimeDelta::days(SECRET_WARNING_DAYS);
    let ending = own.iter().filter(|app| app.secret_expires_at.is_some_and(|end| end <= soon)).count();
    let mut detail = format!("{} of organisations", own.len());
    if ending > 0 {
        let _fits =
            write!(detail, "; of {ending} the client secret has ended or ends within {SECRET_WARNING_DAYS} days");
    }
    if unreadable == 0 {
        return Some(good("own OAuth apps", detail));
    }
    let remedy =
        "bring back the key that they were sealed with, or have them entered again under Settings, Your OAuth apps";
    Some(bad("own OAuth apps", format!("{detail}; of {unreadable} a client secret cannot be opened"), remedy))
}

async fn examine_public_url(config: &Config, seams: &Seams) -> Finding {
    let url = config.public_url();
    if config.is_loopback() {
        return good("public URL", format!("{url} is on loopback: providers and browsers elsewhere cannot reach it"));
    }
    let mut target = url.clone();
    target.set_path("/healthz");
    let timeout = Duration::from_secs(5);
    let request = HttpRequest {
        method: Method::GET,
        url: target,
        exact: None,
        headers: HeaderMap::new(),
        body: Body::empty(),
        timeout,
    };
    match seams.http.send(request).await {
        Ok(response) if response.status.is_success() => good("public URL", format!("{url} reaches a service")),
        Ok(response) => bad(
            "public URL",
            format!("{url} answers {}", response.status.as_u16()),
            "check public_url, and that the proxy in front passes requests on",
        ),
        Err(failure) => bad(
            "public URL",
            format!("{url} cannot be reached from here: {failure}"),
            "start the service; check DNS, certificate and proxy (from inside it may be closed on purpose)",
        ),
    }
}
