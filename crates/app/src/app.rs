//! The service, put together: everything a surface or a command needs.

use std::sync::{Arc, OnceLock};

use anyhow::Context;
use chrono::{DateTime, Utc};
use holdfast_core::{
    ConnectorId, Engine, Providers, id,
    ports::{Changed, LeaseStore, Signal, Signals, StoreError},
    refresh::{Ports, schedule::Scheduler},
};
use holdfast_redis_leases::{Redis, RedisLeases};
use holdfast_store::{MasterKey, Options, ServingLock, Spool, Store};
use secrecy::ExposeSecret;
use tokio::sync::{Notify, broadcast::error::RecvError};
use tokio_util::sync::CancellationToken;
use tracing::warn;
use url::Url;

use crate::{
    agents::Agents,
    api::{Aliases, Clients},
    config::{Config, LockBackend},
    connect::{Consents, Links},
    demo::Demo,
    hooks::Hooks,
    jobs::Jobs,
    keys::Keys,
    mail::Mail,
    metrics::Metrics,
    oauth_apps::Apps,
    oidc::Oidc,
    registry,
    seams::Seams,
    ui::{
        live::{self, Live},
        view::Views,
    },
};

/// Another process serves this SQLite file.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct AlreadyServed(StoreError);

/// One replica.
pub struct App {
    /// As read and checked.
    pub config: Config,
    /// Time, randomness, HTTP.
    pub seams: Seams,
    /// What is stored.
    pub store: Store,
    /// Where leases are kept, if not in the database.
    pub redis: Option<Arc<Redis>>,
    /// Where token sets go that the database cannot take.
    pub lifeboat: Spool,
    /// The only way to a token.
    pub engine: Arc<Engine>,
    /// API keys.
    pub keys: Keys,
    /// OAuth apps, the instance's and those of orgs.
    pub apps: Arc<Apps>,
    /// Wakes the scheduler: something became due just now.
    pub due: Notify,
    /// Pages that follow what happens.
    pub live: Live,
    /// When this replica began to hear of changes.
    pub started_at: DateTime<Utc>,
    /// Reconnect links that were handed out lately.
    pub links: Links,
    /// Consents that are being worked off.
    pub consents: Consents,
    /// Templates of pages and mails.
    pub views: Views,
    /// What the agents of this replica share.
    pub agents: Agents,
    /// What the jobs of this replica share.
    pub jobs: Jobs,
    /// Set before anything is served, where this is a demo.
    pub demo: OnceLock<Demo>,
    /// What aliases meant lately.
    pub aliases: Aliases,
    /// API clients of connectors that were called lately.
    pub clients: Clients,
    /// What is known of the identity provider.
    pub(crate) oidc: Oidc,
    /// What is remembered about webhooks.
    pub hooks: Hooks,
    /// What is remembered about mail.
    pub mail: Mail,
    /// Numbers for Prometheus.
    pub metrics: Metrics,
    /// The service was asked to stop: nothing new is begun.
    pub draining: CancellationToken,
    /// Ends everything that runs beside requests.
    pub stop: CancellationToken,
}

impl App {
    /// Opens the database, brings it up to date and starts the engine. Serves nothing yet. On SQLite the lock is the right
    /// to do so; it is taken before anything is changed.
    pub async fn build(config: Config, seams: Seams) -> anyhow::Result<(Arc<Self>, ServingLock)> {
        // First what can be wrong with the settings alone: a bad one must not have migrated a database.
        let providers = registry::providers(&config)?;
        Self::build_with(config, seams, providers).await
    }

    /// How far the database's clock is ahead of ours, to the time that it takes to answer.
    pub(crate) async fn clock_ahead(&self) -> Result<chrono::TimeDelta, StoreError> {
        let asked = self.seams.clock.now();
        Ok(self.store.database_clock().await? - asked)
    }

    /// The same with these adapters.
    pub async fn build_with(
        config: Config,
        seams: Seams,
        providers: Providers,
    ) -> anyhow::Result<(Arc<Self>, ServingLock)> {
        let views = Views::load()?;
        let metrics = Metrics::install();
        let replica = id::new("rep", seams.clock.as_ref(), seams.random.as_ref());
        let store = open(&config, &seams, replica.clone()).await?;
        let lock = store.lock_for_serving().map_err(AlreadyServed)?;
        if config.database.migrate_on_start {
            store.migrate().await?;
        }
        store.unlock().await?;
        let lost = store.void_previous(&lock).await?;
        if lost > 0 {
            warn!("{lost} exchanges of the process before were not finished; their answers may be lost");
        }
        if store.loses_commits().await? {
            warn!(LOSES_COMMITS);
        }
        let redis = redis(&config, &seams)?;
        let leases: Arc<dyn LeaseStore> = match &redis {
            Some(redis) => Arc::new(RedisLeases::new(Arc::clone(redis), Arc::new(store.clone()))),
            None => Arc::new(store.clone()),
        };
        let apps = Arc::new(Apps::new(&config, store.clone()));
        let lifeboat = store.lifeboat(config.lifeboat_dir());
        let ports = Ports {
            clock: seams.clock.clone(),
            random: seams.random.clone(),
            http: seams.http.clone(),
            store: Arc::new(store.clone()),
            leases,
            lifeboat: Arc::new(lifeboat.clone()),
            signals: Arc::new(store.clone()),
            apps: Arc::clone(&apps) as _,
            meter: Arc::new(metrics.clone()),
        };
        let engine = Engine::new(ports, config.engine(), providers, replica);
        let started_at = seams.clock.now();
        let jobs = Jobs::new(&config);
        let app = Arc::new(Self {
            config,
            seams,
            store,
            redis,
            lifeboat,
            engine,
            keys: Keys::default(),
            oidc: Oidc::default(),
            apps,
            due: Notify::new(),
            live: Live::default(),
            started_at,
            links: Links::default(),
            consents: Consents::default(),
            views,
            agents: Agents::default(),
            jobs,
            demo: OnceLock::new(),
            aliases: Aliases::default(),
            clients: Clients::default(),
            hooks: Hooks::default(),
            mail: Mail::default(),
            metrics,
            draining: CancellationToken::new(),
            stop: CancellationToken::new(),
        });
        tokio::spawn(Arc::clone(&app).forget_what_changed());
        tokio::spawn(live::follow(Arc::clone(&app)));
        Ok((app, lock))
    }

    /// The same for a command that comes and goes: it makes a schema where there is none, and changes none that replicas
    /// of another version may be using. On SQLite nobody does.
    pub async fn build_for_command(mut config: Config, seams: Seams) -> anyhow::Result<(Arc<Self>, ServingLock)> {
        if !config.database.is_sqlite() {
            let steps = open(&config, &seams, "command".to_owned()).await?.migration_status().await?;
            let applied = steps.iter().filter(|(_, applied)| *applied).count();
            config.database.migrate_on_start &= applied == 0;
            anyhow::ensure!(
                applied == steps.len() || config.database.migrate_on_start,
                "the database's schema is not up to date: run `holdfast migrate`, or start the service"
            );
        }
        Self::build(config, seams).await
    }

    /// The adapters.
    pub fn providers(&self) -> &Providers {
        self.engine.providers()
    }

    /// A scheduler over this replica's engine. One that serves runs one.
    pub fn scheduler(&self) -> Scheduler {
        Scheduler::new(Arc::clone(&self.engine), Arc::new(self.store.clone()), self.config.schedule())
    }

    /// Gives every warning of an access that ends whose time has come; answers how many credentials that were.
    pub async fn warn_of_ends(&self) -> Result<usize, StoreError> {
        let mut count = 0;
        while self.store.warn_of_an_end(self.seams.clock.now()).await? == Changed::Yes {
            count += 1;
        }
        Ok(count)
    }

    /// Removes connectors that nobody has connected for as long as the configuration says; answers how many those were.
    pub async fn forget_unfinished(&self) -> Result<usize, StoreError> {
        let Some(after) = self.config.connect.forget_unfinished_after() else { return Ok(0) };
        let mut count = 0;
        loop {
            let gone = self.store.forget_unfinished(self.seams.clock.now() - after).await?;
            if gone.is_empty() {
                return Ok(count);
            }
            count += gone.len();
        }
    }

    /// What people call this provider; its id where this instance has no adapter for it.
    pub(crate) fn provider_name<'a>(&'a self, provider: &'a str) -> &'a str {
        self.providers().find(provider).map_or(provider, |adapter| adapter.about().name)
    }

    /// An absolute URL of ours.
    pub fn url(&self, path: &str) -> String {
        join(&self.config.public_url(), path)
    }

    /// What is sent to providers as `redirect_uri`: from configuration, never from a request (CO-01).
    pub fn redirect_uri(&self) -> String {
        self.url("oauth/callback")
    }

    /// The connector changed here: the next read sees it.
    pub fn changed(&self, connector: &ConnectorId) {
        self.engine.forget(connector);
    }

    async fn forget_what_changed(self: Arc<Self>) {
        let mut signals = self.store.subscribe();
        loop {
            let signal = tokio::select! {
                signal = signals.recv() => signal,
                () = self.stop.cancelled() => return,
            };
            match signal {
                Ok(Signal::Connector(_) | Signal::Agent(_)) => {}
                Ok(Signal::ApiKey(_)) => self.keys.forget(),
                Ok(Signal::OAuthApp(_)) => self.apps.forget(),
                Ok(Signal::All) | Err(RecvError::Lagged(_)) => {
                    self.keys.forget();
                    self.apps.forget();
                }
                Err(RecvError::Closed) => return,
            }
        }
    }
}

/// What a database of [`Store::loses_commits`] means.
pub(crate) const LOSES_COMMITS: &str = "the database is set to synchronous_commit = off: a crash of its server would lose \
    what it said it had stored, rotated tokens among them";
/// A clock that is further off the database's than this spoils what people read, and hints at worse.
pub(crate) const CLOCK_TOLERANCE_SECS: i64 = 5;

/// Opens the database with the configured master key; does not look into it.
pub async fn open(config: &Config, seams: &Seams, replica: String) -> anyhow::Result<Store> {
    let Some(master_key) = &config.master_key else {
        anyhow::bail!(
            "no master key is set: make one with `holdfast master-key new`, keep it safe, and set master_key_file \
             (or HOLDFAST_MASTER_KEY)"
        );
    };
    let options = Options {
        url: config.database.url.expose_secret().to_owned(),
        listen_url: config.database.listen_url.as_ref().map(|url| url.expose_secret().to_owned()),
        max_connections: config.database.max_connections,
        master_key: MasterKey::parse(master_key)?,
        replica,
        clock: seams.clock.clone(),
        random: seams.random.clone(),
        heartbeat: Options::HEARTBEAT,
    };
    let shown = config.database.shown_url();
    Store::connect(options).await.with_context(|| {
        format!(
            "cannot open the database {shown}: check database.url, and that it is running or its folder can be written"
        )
    })
}

/// The configured Redis; connects to nothing yet. `None`: leases are kept in the database.
pub fn redis(config: &Config, seams: &Seams) -> anyhow::Result<Option<Arc<Redis>>> {
    let Some(url) = config.lock.redis_url.clone().filter(|_| config.lock.backend == LockBackend::Redis) else {
        return Ok(None);
    };
    let options = holdfast_redis_leases::Options {
        url,
        prefix: config.lock.redis_prefix.clone(),
        timeout: config.lock.redis_timeout,
        clock: seams.clock.clone(),
    };
    Ok(Some(Arc::new(Redis::new(options).context("lock.redis_url")?)))
}

fn join(base: &Url, path: &str) -> String {
    format!("{}/{path}", base.as_str().trim_end_matches('/'))
}
