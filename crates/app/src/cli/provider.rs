//! `holdfast provider`: what can be connected, and files that describe more of it, checked and tried out.

use std::{path::Path, process::ExitCode, sync::Arc, time::Duration};

use anyhow::{Context, anyhow, bail};
use holdfast_core::{
    ConnectorId, Health, Need, Provider, Providers, Secret, Snapshot, TokenSet,
    credential::Fingerprint,
    ports::Trigger,
    provider::{Account, Auth, AuthKind, Rotation},
};
use holdfast_declared::Declared;
use holdfast_store::MasterKey;
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{Output, ask::table};
use crate::{
    api::for_link,
    app::App,
    config::{Config, LockBackend},
    connect,
    registry::{self, Source},
    seams::Seams,
    serve,
};

/// How often it is looked whether the consent was given.
const LOOK_EVERY: Duration = Duration::from_millis(200);

pub(super) fn list(config: &Config, output: Output) -> anyhow::Result<ExitCode> {
    let mut rows = Vec::new();
    for (provider, source) in registry::list(config)? {
        let about = provider.about();
        rows.push(json!({
            "id": about.id,
            "name": about.name,
            "auth": auth_word(provider.as_ref()),
            "account": about.account_example,
            "tools": about.tools.len(),
            "source": match source {
                Source::BuiltIn => "built in".to_owned(),
                Source::Shipped => "shipped file".to_owned(),
                Source::File(file) => file.display().to_string(),
            },
        }));
    }
    rows.sort_by(|one, other| one["id"].as_str().cmp(&other["id"].as_str()));
    let rows = Value::Array(rows);
    output.print(&rows, || table(&rows, &["id", "name", "auth", "account", "tools", "source"]))?;
    Ok(ExitCode::SUCCESS)
}

fn auth_word(provider: &dyn Provider) -> &'static str {
    match provider.about().auth_kind {
        AuthKind::OAuth2 => "oauth2",
        AuthKind::ApiKey => "api_key",
    }
}

pub(super) fn check(file: &Path, output: Output) -> anyhow::Result<ExitCode> {
    let known = registry::list(&Config::default())?;
    let ids = |from: Source| -> Vec<_> {
        let of_it = known.iter().filter(|(_, source)| *source == from);
        of_it.map(|(provider, _)| (provider.about().id, provider.about().name)).collect()
    };
    let provider = registry::declared::read(file, &ids(Source::BuiltIn))?;
    let about = provider.about();
    let replaces = ids(Source::Shipped).iter().any(|(id, _)| *id == about.id);
    let account = provider.account(about.account_example)?;
    let mut said = json!({
        "ok": true, "id": about.id, "name": about.name, "auth": auth_word(&provider),
        "example": { "account": account.id, "base_url": account.base_url },
    });
    if let Auth::OAuth2(facts) = provider.auth(&account) {
        said["example"]["authorize_url"] = facts.authorize_url.as_str().into();
        said["example"]["token_url"] = facts.token_url.as_str().into();
        said["refresh_token"] = match facts.rotation {
            Rotation::SingleUse => "works once",
            Rotation::Reusable => "stays",
        }
        .into();
    }
    output.print(&said, || {
        let example = said["example"].as_object().into_iter().flatten();
        let urls = example.fold(String::new(), |urls, (name, value)| {
            urls + &format!("\n  {name}: {}", value.as_str().unwrap_or_default())
        });
        let instead = if replaces { " It takes the place of the one that comes with Holdfast." } else { "" };
        format!("{} is right: {} ({}).{instead} With its own example:{urls}", file.display(), about.name, about.id)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The whole way, with a service of its own that knows this provider alone.
pub(super) async fn attempt(
    config: Config,
    file: &Path,
    account: Option<String>,
    port: u16,
    wait: u64,
    output: Output,
) -> anyhow::Result<ExitCode> {
    let provider = registry::configured(&config, registry::declared::read(file, &[])?)?;
    let id = provider.about().id;
    if provider.about().auth_kind == AuthKind::OAuth2 && !config.oauth_apps.contains_key(id) {
        bail!(
            "oauth_apps.{id}: there is no OAuth app to try it with; write client_id and client_secret under \
             [oauth_apps.{id}] in a file, and name it with --config"
        );
    }
    let folder = tempfile::tempdir().context("there is no folder for temporary files")?;
    let listener = serve::listen(([127, 0, 0, 1], port).into(), "--port PORT").await?;
    let mut config = of_its_own(config, folder.path(), id);
    config.listen = listener.local_addr()?;
    let seams = Seams::system(&config)?;
    config.master_key = Some(MasterKey::generate(seams.random.as_ref()));
    let providers = Providers::new(vec![Arc::new(provider.clone())]);
    let (app, lock) = App::build_with(config, seams, providers).await?;
    let (end, ended) = oneshot::channel::<()>();
    let served = tokio::spawn(serve::serve(Arc::clone(&app), lock, listener, async move {
        // Dropped or sent: it is over.
        ended.await.ok();
    }));
    let report = walk(&app, &provider, account, Duration::from_secs(wait)).await;
    drop(end);
    served.await.context("the page's service ended badly")??;
    let report = report?;
    output.print(&report, || shown(&report))?;
    Ok(if report["ok"] == json!(true) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What concerns this provider and the way to it, and nothing of the installation's data.
fn of_its_own(config: Config, folder: &Path, id: &str) -> Config {
    let mut own = Config { network: config.network, ..Config::default() };
    own.database.url = format!("sqlite://{}", folder.join("try.sqlite").display()).into();
    own.lock.backend = LockBackend::Database;
    own.oauth_apps.extend(config.oauth_apps.into_iter().filter(|(app, _)| app == id));
    own.providers.by_id.extend(config.providers.by_id.into_iter().filter(|(provider, _)| provider == id));
    own
}

async fn walk(app: &Arc<App>, provider: &Declared, account: Option<String>, wait: Duration) -> anyhow::Result<Value> {
    let about = provider.about();
    let org = app.store.ensure_org("try").await?;
    let connector = for_link(app, &org, about.id.to_owned(), account, None).await;
    let connector = connector.map_err(|problem| anyhow!("{}", problem.detail()))?;
    let snapshot = known(app, &connector).await?;
    let link = connect::make_link(app, &snapshot, None).await.map_err(|problem| anyhow!("{}", problem.detail()))?;
    eprintln!("Open this in a browser within {} s and connect an account of {}:", wait.as_secs(), about.name);
    eprintln!("  {}", link.url);
    let snapshot = connected(app, &connector, wait).await?;
    let mut report = json!({
        "ok": true, "provider": about.id, "account": snapshot.account, "connected": told(&snapshot),
    });
    if let Secret::Tokens(tokens) = &snapshot.credential.secret
        && tokens.refresh_token.is_some()
    {
        report["refreshed"] = refreshed(app, &snapshot).await;
    }
    report["test"] = tested(app, &connector).await;
    let base = snapshot.credential.secret.tokens().and_then(|tokens| tokens.base_url.clone());
    let base = base.or_else(|| provider.account(&snapshot.account).ok().map(|Account { base_url, .. }| base_url));
    report["base_url"] = base.map(String::from).into();
    let failed = [&report["refreshed"], &report["test"]].iter().any(|step| step["ok"] == json!(false));
    report["ok"] = (!failed).into();
    Ok(report)
}

async fn known(app: &App, connector: &ConnectorId) -> anyhow::Result<Arc<Snapshot>> {
    app.engine.snapshot(connector).await?.context("the connector is gone")
}

/// Waits for the consent; one that fails can be given again on the same page.
async fn connected(app: &Arc<App>, connector: &ConnectorId, wait: Duration) -> anyhow::Result<Arc<Snapshot>> {
    let until = app.seams.clock.uptime() + wait;
    loop {
        let snapshot = known(app, connector).await?;
        if snapshot.health == Health::Connected {
            return Ok(snapshot);
        }
        if app.seams.clock.uptime() >= until {
            bail!(
                "nobody has connected an account within {} s; the page says what went wrong, if something did",
                wait.as_secs()
            );
        }
        app.seams.clock.sleep(LOOK_EVERY).await;
    }
}

/// What is known of the credential, without anything of it that is secret.
fn told(snapshot: &Snapshot) -> Value {
    match &snapshot.credential.secret {
        Secret::Tokens(tokens) => json!({
            "kind": "tokens",
            "life_secs": tokens.life().map(|life| life.num_seconds()),
            "life_is_assumed": tokens.expires_assumed,
            "refresh_token": tokens.refresh_token.is_some(),
            "refresh_life_secs": tokens.refresh_expires_at.map(|end| (end - tokens.obtained_at).num_seconds()),
            "scopes": tokens.scopes,
            "found": tokens.found,
        }),
        _ => json!({ "kind": "api_key" }),
    }
}

async fn refreshed(app: &Arc<App>, before: &Snapshot) -> Value {
    let token = |snapshot: &Snapshot| {
        let tokens = snapshot.credential.secret.tokens()?;
        tokens.refresh_token.as_ref().map(|token| token.expose_secret().to_owned())
    };
    let Some(access) = before.credential.secret.bearer() else { return Value::Null };
    match app.engine.fresh(&before.connector, &Need::Not(Fingerprint::of(access)), Trigger::Test).await {
        Ok(after) => json!({
            "ok": true,
            "refresh_token_replaced": token(before) != token(&after),
            "life_secs": after.credential.secret.tokens().and_then(TokenSet::life).map(|life| life.num_seconds()),
        }),
        Err(error) => json!({ "ok": false, "error": error.to_string() }),
    }
}

async fn tested(app: &Arc<App>, connector: &ConnectorId) -> Value {
    match app.engine.test(connector).await {
        Ok(report) => match report.identity {
            Ok(identity) => json!({
                "ok": true, "account": identity.account_name, "user_id": identity.user_id, "name": identity.name,
                "email": identity.email, "role": identity.role,
                "latency_ms": u64::try_from(report.latency.as_millis()).unwrap_or(u64::MAX),
            }),
            Err(error) => json!({ "ok": false, "error": error.message }),
        },
        Err(error) => json!({ "ok": false, "error": error.to_string() }),
    }
}

fn shown(report: &Value) -> String {
    let mut lines = vec![format!(
        "{} {}",
        report["provider"].as_str().unwrap_or_default(),
        if report["ok"] == json!(true) { "works" } else { "does not work" }
    )];
    for (step, facts) in report.as_object().into_iter().flatten() {
        if !["ok", "provider"].contains(&step.as_str()) {
            match facts.as_object() {
                Some(facts) => {
                    lines.push(format!("  {step}"));
                    lines.extend(facts.iter().map(|(name, value)| format!("    {name}: {value}")));
                }
                None => lines.push(format!("  {step}: {facts}")),
            }
        }
    }
    lines.join("\n")
}
