//! `holdfast demo`: the service with sandbox providers, an organisation, its people, a key and a connector, all made up, in
//! one folder. Started again it goes on: what the sandbox has issued it still honours, on the same ports if they are free.

mod apps;
mod browser;
mod folder;
mod people;
mod ports;

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::Context;
use holdfast_sandbox::{Sandbox, Scene};
use secrecy::ExposeSecret;

use self::folder::{Folder, Kept};
use super::DemoArgs;
use crate::{
    app::App,
    config::{Config, PrivateHost, ProviderConfig},
    demo::{self, Demo},
    logging,
    mail::Mailbox,
    seams::Seams,
    serve,
};

/// Short enough to see a rotation while reading the story.
const TOKEN_LIFE: Duration = Duration::from_mins(1);

/// Who writes the mails.
const FROM: &str = "Holdfast demo <holdfast@tidewater.example>";

/// Runs until Ctrl-C.
pub(super) async fn run(args: &DemoArgs) -> anyhow::Result<ExitCode> {
    let dir = args.dir.clone().unwrap_or_else(|| PathBuf::from("holdfast-demo"));
    let folder = Folder::open(&dir)?;
    let mut news = String::new();
    if args.fresh {
        news.push_str(&removed(&folder, &folder.clear()?));
    }
    let begun = folder.kept()?;
    let goes_on = begun.is_some();
    let mut kept = begun.unwrap_or_else(Kept::new);
    let (listener, moved) = ports::service(args.port, goes_on.then_some(kept.port)).await?;
    news.push_str(&moved);
    kept.port = listener.local_addr()?.port();
    // First of all what cannot be made twice: whoever is signed up by it has to be able to read it.
    folder.keep(&kept)?;

    let home = format!("http://{}/", listener.local_addr()?);
    let sandbox = Sandbox::builder()
        .scene(Scene::Demo)
        .file(folder.sandbox())
        .home(home)
        .with(|options| options.min_expires_in = 1);
    let sandbox = ports::sandbox(sandbox, kept.sandbox_port)
        .await
        .context("the sandbox could not be started; --fresh starts over")?;
    kept.sandbox_port = sandbox.addr().port();
    folder.keep(&kept)?;

    let mut config = config(&folder, &sandbox)?;
    config.listen = listener.local_addr()?;
    logging::init(&config.log, "warn");
    let mailbox = Mailbox::in_folder(folder.mails()).context("the folder of the demo's mails cannot be used")?;
    let seams = Seams { mail: Some(Arc::new(mailbox.clone())), ..Seams::system(&config)? };
    let (app, lock) = App::build(config, seams).await.context("the demo cannot go on; --fresh starts over")?;
    if !kept.seeded {
        kept.connector = Some(people::seed(&app, &sandbox, &kept, TOKEN_LIFE).await?);
        kept.seeded = true;
        folder.keep(&kept)?;
    }
    // After the first connector: it has an account to ask at whether they are taken.
    if !kept.apps {
        apps::set_up(&app).await?;
        kept.apps = true;
        folder.keep(&kept)?;
    }
    let demo = Demo {
        control: format!("{}/control", sandbox.url()),
        email: people::OWNER.email.to_owned(),
        password: kept.password.clone().into(),
        password_hash: people::hash_of(&app, &kept).await?,
        folder: dir.canonicalize()?,
        mailbox,
        read: Mutex::default(),
    };
    folder.write_story(&story(&app, &sandbox, &kept))?;
    let open = demo::address(&app, &demo.password);
    let said = greeting(&demo, &open, goes_on);
    // The first one to ask is the browser, below.
    assert!(app.demo.set(demo).is_ok(), "nobody else sets it");
    // Whoever started it with its words cut short, as in `holdfast demo | head`, wants it to run all the same.
    let mut stdout = io::stdout().lock();
    let _unheard = write!(stdout, "{news}{said}").and_then(|()| stdout.flush());
    drop(stdout);
    if !args.no_browser {
        browser::open(&open);
    }
    serve::serve(app, lock, listener, serve::asked_to_stop()).await?;
    sandbox.stop().await;
    Ok(ExitCode::SUCCESS)
}

fn removed(folder: &Folder, gone: &[String]) -> String {
    match gone {
        [] => format!("\nThere was nothing of a demo in {} to start over.\n", folder.shown()),
        gone => format!("\nStarted over: removed {} from {}.\n", gone.join(", "), folder.shown()),
    }
}

fn config(folder: &Folder, sandbox: &Sandbox) -> anyhow::Result<Config> {
    let mut config = Config::default();
    config.database.url = format!("sqlite://{}", folder.database().display()).into();
    config.master_key = Some(folder.master_key()?);
    config.network.allow_private_hosts = vec![PrivateHost::Loopback];
    config.events.allow_private_hosts = vec![PrivateHost::Loopback];
    config.refresh.loop_interval = Duration::from_secs(1);
    config.mail.from = Some(FROM.to_owned());
    // Whoever breaks one thing after the other wants to read of each.
    config.mail.digest_window = Duration::from_secs(15);
    for (provider, place) in [
        ("freshdesk", sandbox.freshdesk_override()),
        ("front", sandbox.front_override()),
        ("google", sandbox.google_override()),
        ("gorgias", sandbox.gorgias_override()),
        ("pipedrive", sandbox.pipedrive_override()),
        ("shopify", sandbox.shopify_override()),
        ("zendesk", sandbox.zendesk_override()),
    ] {
        let settings = ProviderConfig { base_url_override: Some(place), ..ProviderConfig::default() };
        config.providers.by_id.insert(provider.to_owned(), settings);
    }
    config.providers.by_id.entry("zendesk".to_owned()).or_default().access_token_life = Some(TOKEN_LIFE);
    Ok(config)
}

/// What the story in docs/DEMO.md calls things, for a shell.
fn story(app: &Arc<App>, sandbox: &Sandbox, kept: &Kept) -> String {
    let api = app.url("api/v1");
    let connector = kept.connector.as_deref().unwrap_or_default();
    format!(
        "H={api}/connectors/{connector}\nZ={}/control/zendesk/{}\nA='Authorization: Bearer {}'\n",
        sandbox.url(),
        demo::FIRST,
        kept.key,
    )
}

fn greeting(demo: &Demo, open: &str, goes_on: bool) -> String {
    let begin = if goes_on { "Holdfast goes on where this demo ended" } else { "Holdfast is running" };
    let password = match &demo.password_hash {
        Some(_) => demo.password.expose_secret(),
        None => "with the password that you have set",
    };
    format!(
        "
{begin}, with a made-up Zendesk whose access tokens live for {life} seconds.

  Open      {open}
  Sign in   {email}   {password}
  Sandbox   {control}
  Data      {folder}

Its pages lead through the story. The next `holdfast demo` goes on from here; with --fresh it starts over.
Press Ctrl-C to end.
",
        life = TOKEN_LIFE.as_secs(),
        email = demo.email,
        control = demo.control,
        folder = shown(&demo.folder),
    )
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
