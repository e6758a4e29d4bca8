//! `holdfast demo`: the service with a sandbox Zendesk, an organisation, a key and a connector, all made up, and the
//! lines that tell its story. It starts over each time: what the sandbox issued before, it has forgotten.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, bail};
use holdfast_core::OrgId;
use holdfast_sandbox::{CLIENT_ID, CLIENT_SECRET, GrantRequest, Sandbox};
use holdfast_store::MasterKey;
use rustix::fs::FlockOperation;
use secrecy::ExposeSecret;
use serde_json::json;

use super::DemoArgs;
use crate::{
    admin::{self, Ask},
    api::import_line,
    app::App,
    config::{Config, OAuthAppConfig, PrivateHost, ProviderConfig},
    logging,
    seams::Seams,
    serve,
};

/// Short enough to see a rotation while reading the story.
const TOKEN_LIFE: Duration = Duration::from_mins(1);
/// Says that a folder is the demo's, so that nothing else is ever cleared away.
const MARKER: &str = "holdfast-demo.txt";
const DATABASE: &str = "holdfast.sqlite";
const ORG: &str = "Demo";

/// Runs until Ctrl-C.
pub(super) async fn run(args: &DemoArgs) -> anyhow::Result<ExitCode> {
    let dir = args.dir.clone().unwrap_or_else(|| PathBuf::from("holdfast-demo"));
    let address = ([127, 0, 0, 1], args.port).into();
    let listener = serve::listen(address).await.context("try `holdfast demo --port 0`")?;
    let _ours = clear(&dir)?;
    let sandbox = Sandbox::builder()
        .with(|options| options.min_expires_in = 1)
        .start()
        .await
        .context("the sandbox could not be started")?;
    let mut config = config(&dir, &sandbox)?;
    config.listen = listener.local_addr()?;
    logging::init(&config.log, "warn");
    let seams = Seams::system(&config)?;
    let (app, lock) = App::build(config, seams).await?;
    let (key, connector) = seed(&app, &sandbox).await?;
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{}", story(&app, &sandbox, &dir.canonicalize()?, &key, &connector))?;
    stdout.flush()?;
    drop(stdout);
    serve::serve(app, lock, listener, serve::asked_to_stop()).await?;
    sandbox.stop().await;
    Ok(ExitCode::SUCCESS)
}

/// An empty folder of our own, for as long as the answer is held. One that is not the demo's is left alone, and so is one
/// that another demo is using.
fn clear(dir: &Path) -> anyhow::Result<fs::File> {
    fs::create_dir_all(dir).with_context(|| format!("cannot make the folder {}", dir.display()))?;
    let marker = dir.join(MARKER);
    if !marker.exists() && fs::read_dir(dir)?.next().is_some() {
        bail!("{} is not empty and not a demo's folder; choose another with --dir PATH", dir.display());
    }
    let mut marker = fs::OpenOptions::new().create(true).truncate(false).write(true).open(marker)?;
    if rustix::fs::flock(&marker, FlockOperation::NonBlockingLockExclusive).is_err() {
        bail!("another demo is using {}; end it, or choose another folder with --dir PATH", dir.display());
    }
    for file in ["", "-wal", "-shm", ".sock", ".lock"].map(|end| format!("{DATABASE}{end}")) {
        match fs::remove_file(dir.join(file)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    writeln!(
        marker,
        "This folder belongs to `holdfast demo`, which starts over in it each time. Delete it as you like."
    )?;
    Ok(marker)
}

fn config(dir: &Path, sandbox: &Sandbox) -> anyhow::Result<Config> {
    let mut config = Config::default();
    let database = dir.join(DATABASE);
    config.database.url = format!("sqlite://{}", database.display()).into();
    config.master_key = Some(master_key(&dir.join("master.key"))?);
    config.network.allow_private_hosts = vec![PrivateHost::Loopback];
    config.refresh.loop_interval = Duration::from_secs(1);
    config.oauth_apps.insert(
        "zendesk".to_owned(),
        OAuthAppConfig {
            client_id: CLIENT_ID.to_owned(),
            client_secret: Some(CLIENT_SECRET.to_owned().into()),
            client_secret_file: None,
            next_client_secret: None,
            next_client_secret_file: None,
            client_secret_expires_at: None,
        },
    );
    let zendesk =
        ProviderConfig { base_url_override: Some(sandbox.zendesk_override()), access_token_life: Some(TOKEN_LIFE) };
    config.providers.insert("zendesk".to_owned(), zendesk);
    Ok(config)
}

fn master_key(file: &Path) -> anyhow::Result<secrecy::SecretString> {
    let key = MasterKey::generate(&crate::seams::OsRandom);
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(file)?;
    writeln!(file, "{}", key.expose_secret())?;
    Ok(key)
}

/// An organisation with a key and a connected helpdesk; answers the key and the connector's id.
async fn seed(app: &Arc<App>, sandbox: &Sandbox) -> anyhow::Result<(String, String)> {
    let org: OrgId = app.store.ensure_org(ORG).await?;
    let scopes = ["connectors:read", "connectors:write", "tokens:read"].map(str::to_owned).to_vec();
    let ask = Ask::KeyCreate { org: ORG.to_owned(), name: "demo".to_owned(), scopes };
    let made = admin::run(app, ask).await.map_err(|refused| anyhow::anyhow!(refused.message))?;
    let acme = sandbox.helpdesk("acme").context("the sandbox has a helpdesk acme")?;
    let grant = GrantRequest { expires_in: u32::try_from(TOKEN_LIFE.as_secs()).ok(), ..GrantRequest::default() };
    let grant = acme.grant(&grant).context("the sandbox grants access")?;
    let line = json!({
        "provider": "zendesk", "account": "acme", "name": "Acme support",
        "credential": {
            "access_token": grant.access_token, "refresh_token": grant.refresh_token,
            "expires_in": grant.expires_in, "scope": grant.scope,
        },
    });
    let id = import_line(app, &org, &line.to_string()).await;
    let id = id.map_err(|problem| anyhow::anyhow!(problem.detail().to_owned()))?;
    let key = made["key"].as_str().unwrap_or_default().to_owned();
    Ok((key, id.to_string()))
}

fn story(app: &App, sandbox: &Sandbox, dir: &Path, key: &str, connector: &str) -> String {
    let base = app.config.public_url();
    let (base, provider) = (base.as_str().trim_end_matches('/'), sandbox.url());
    let provider = provider.trim_end_matches('/');
    let life = TOKEN_LIFE.as_secs();
    format!(
        r#"
Holdfast is running, with a made-up Zendesk whose access tokens live for {life} seconds.

  API       {base}/api/v1        described in {base}/api/v1/openapi.json
  Zendesk   {provider}/control   what it issued, and buttons for its bad days
  Data      {dir}

The story, to be pasted into another terminal line by line:

  # 0. Where things are.
  H={base}/api/v1/connectors/{connector}; Z={provider}/control/zendesk/acme; A="Authorization: Bearer {key}"

  # 1. Read a token. It is always fresh: ask again in a minute, and it is another one.
  curl -s -H "$A" $H/token

  # 2. Storm it: the token is dead at Zendesk, and 50 callers say so at once. See "exchanges": it grew by one.
  T=$(curl -s -H "$A" $H/token | sed 's/.*"access_token":"\([^"]*\)".*/\1/')
  curl -s $Z/counters; curl -s -X POST $Z/expire
  seq 50 | xargs -P 50 -I{{}} curl -s -o /dev/null -w '%{{http_code}} ' -H "$A" --json "{{\"access_token\":\"$T\"}}" $H/token/rejected
  curl -s $Z/counters

  # 3. Revoke the access at Zendesk, as an admin there might. Test says what it means.
  curl -s -X POST $Z/revoke; curl -s -X POST -H "$A" $H/test

  # 4. Whoever asks for a token is told at once what happened and where a person can mend it.
  curl -s -H "$A" $H/token

  # 5. Open the "reconnect_url" of that answer in a browser, continue, and allow it as Ada Admin.

  # 6. The same connector lives again: same id, next version, and its timeline tells all of it.
  curl -s -H "$A" $H/token; curl -s -H "$A" $H/timeline

Press Ctrl-C to end. The next demo starts over.
"#,
        dir = dir.display(),
    )
}
