//! Configuration: `config/default.toml` (compiled in), a file, the environment, flags; later ones win.
//!
//! This is the one place that reads the environment. The defaults stand in the compiled file alone, never in code.

mod agents;
mod check;
mod error;
mod events;
mod jobs;
mod sections;
mod sign_in;
mod source;
mod sync;
mod values;
mod webhooks;

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf};

use holdfast_core::refresh::{
    Settings,
    schedule::{Allowance, ScheduleSettings},
};
use secrecy::SecretString;
use serde::Deserialize;
use url::{Host, Url};

pub use agents::AgentsConfig;
pub use error::ConfigError;
pub use events::EventsConfig;
pub use jobs::{JobsConfig, KindConfig};
pub use sections::{
    CacheConfig, ConnectConfig, Database, LifeboatConfig, LockBackend, LockConfig, LogConfig, LogFormat, MailConfig,
    NetworkConfig, OAuthAppConfig, OperatorConfig, PrivateHost, ProviderConfig, ProvidersConfig, ProxyConfig,
    RefreshConfig, ShutdownConfig, SmtpConfig,
};
pub use sign_in::{OidcConfig, SecondFactorBy, SignInConfig};
pub use source::Sources;
pub(crate) use source::variable;
pub use sync::SyncConfig;
pub use webhooks::WebhooksConfig;

/// Every key, its default and unit.
pub const DEFAULTS: &str = include_str!("../../../config/default.toml");

/// The configuration, checked.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where to listen.
    #[serde(deserialize_with = "values::parsed::address")]
    pub listen: SocketAddr,
    /// As configured; [`Self::public_url`] is what to use.
    #[serde(default, deserialize_with = "values::optional::url", rename = "public_url")]
    pub public_url_setting: Option<Url>,
    /// Seals everything; already read from `master_key_file` where that is set.
    #[serde(default, deserialize_with = "values::optional::secret")]
    pub master_key: Option<SecretString>,
    /// Where `master_key` was read from.
    #[serde(default)]
    pub master_key_file: Option<PathBuf>,
    /// `[database]`
    pub database: Database,
    /// `[refresh]`
    pub refresh: RefreshConfig,
    /// `[cache]`
    pub cache: CacheConfig,
    /// `[lifeboat]`
    #[serde(default)]
    pub lifeboat: LifeboatConfig,
    /// `[agents]`
    pub agents: AgentsConfig,
    /// `[jobs]`
    pub jobs: JobsConfig,
    /// `[lock]`
    pub lock: LockConfig,
    /// `[oauth_apps.PROVIDER]`
    #[serde(default)]
    pub oauth_apps: BTreeMap<String, OAuthAppConfig>,
    /// `[providers]`
    #[serde(default)]
    pub providers: ProvidersConfig,
    /// `[proxy]`
    pub proxy: ProxyConfig,
    /// `[webhooks]`
    pub webhooks: WebhooksConfig,
    /// `[sync]`
    pub sync: SyncConfig,
    /// `[events]`
    pub events: EventsConfig,
    /// `[connect]`
    pub connect: ConnectConfig,
    /// `[network]`
    pub network: NetworkConfig,
    /// `[smtp]`
    #[serde(default)]
    pub smtp: SmtpConfig,
    /// `[mail]`
    pub mail: MailConfig,
    /// `[sign_in]`
    pub sign_in: SignInConfig,
    /// `[operator]`
    pub operator: OperatorConfig,
    /// `[log]`
    pub log: LogConfig,
    /// `[shutdown]`
    pub shutdown: ShutdownConfig,
}

impl Config {
    /// Reads, merges and checks. The error is one line: where, which key, what is allowed.
    pub fn load(sources: &Sources) -> Result<Self, ConfigError> {
        let figment = source::merge(sources)?;
        let config: Self = figment.extract().map_err(|error| ConfigError::from_figment(&figment, error))?;
        check::check(&config).map_err(|problem| problem.located(&figment))?;
        Ok(config)
    }

    /// Where browsers and providers reach this instance. Follows [`Self::listen`] unless it is set, so put the bound
    /// address there when the port was 0.
    pub fn public_url(&self) -> Url {
        self.public_url_setting.clone().unwrap_or_else(|| {
            Url::parse(&format!("http://{}", self.listen)).expect("a socket address is the authority of a URL")
        })
    }

    /// `[sign_in.oidc]`, where there is an identity provider.
    pub fn oidc(&self) -> Option<&OidcConfig> {
        Some(&self.sign_in.oidc).filter(|oidc| !oidc.issuer.is_empty())
    }

    /// What the engine takes.
    pub fn engine(&self) -> Settings {
        self.refresh.settings(&self.cache)
    }

    /// The scheduler's part of `[refresh]` and `[providers.PROVIDER]`.
    pub fn schedule(&self) -> ScheduleSettings {
        let refresh = &self.refresh;
        let of = |provider: &ProviderConfig| Allowance {
            at_once: provider.refresh_at_once.unwrap_or(refresh.at_once),
            per_second: sections::rate(provider.refresh_per_second.unwrap_or(refresh.per_second)),
        };
        ScheduleSettings {
            interval: refresh.loop_interval,
            batch: refresh.batch,
            claim: refresh.claim,
            catch_up: refresh.catch_up,
            allowance: of(&ProviderConfig::default()),
            providers: self.providers.by_id.iter().map(|(id, provider)| (id.clone(), of(provider))).collect(),
        }
    }

    /// Where token sets go that the database cannot take: beside the SQLite file, or in the working folder.
    pub fn lifeboat_dir(&self) -> PathBuf {
        let beside = || self.database.sqlite_path().unwrap_or_else(|| PathBuf::from("holdfast"));
        self.lifeboat.dir.clone().unwrap_or_else(|| {
            let mut name = beside().into_os_string();
            name.push(".lifeboat");
            name.into()
        })
    }

    /// Whether the instance can only be reached from its own machine.
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.public_url())
    }
}

impl Default for Config {
    /// `config/default.toml` alone.
    fn default() -> Self {
        Self::load(&Sources::default()).expect("a test holds the compiled defaults to be right")
    }
}

/// Whether a URL's host is this machine, by its name alone (RFC 6761 section 6.3 for `.localhost`).
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.to_canonical().is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests;
