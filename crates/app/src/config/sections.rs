//! One struct per section of the file. What a key means stands in `config/default.toml`.

use std::{collections::BTreeMap, path::PathBuf, str::FromStr, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::{ports::OAuthApp, refresh::Settings};
use secrecy::{ExposeSecret, SecretString};
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor},
};
use url::{Host, Url};

use super::values::{self, Scalar, optional, parsed};

/// `[database]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Database {
    /// `sqlite://` or `postgres://`; a secret, since it may hold a password.
    #[serde(deserialize_with = "parsed::secret")]
    pub url: SecretString,
    /// Where `url` was read from.
    #[serde(default)]
    pub url_file: Option<PathBuf>,
    /// A direct connection for LISTEN.
    #[serde(default, deserialize_with = "optional::secret")]
    pub listen_url: Option<SecretString>,
    /// Where `listen_url` was read from.
    #[serde(default)]
    pub listen_url_file: Option<PathBuf>,
    /// Connections of this process.
    #[serde(deserialize_with = "parsed::whole")]
    pub max_connections: u32,
    /// Whether the service brings the schema up to date.
    #[serde(deserialize_with = "parsed::switch")]
    pub migrate_on_start: bool,
}

impl Database {
    /// One machine, one file.
    pub fn is_sqlite(&self) -> bool {
        self.url.expose_secret().starts_with("sqlite:")
    }

    /// The SQLite file; `None` on PostgreSQL.
    pub fn sqlite_path(&self) -> Option<PathBuf> {
        let rest = self.url.expose_secret().strip_prefix("sqlite:")?;
        let path = rest.strip_prefix("//").unwrap_or(rest);
        Some(PathBuf::from(path.split_once('?').map_or(path, |(path, _)| path)))
    }

    /// The URL for people: without password and query.
    pub fn shown_url(&self) -> String {
        let Ok(mut url) = Url::parse(self.url.expose_secret()) else {
            // `sqlite://data/holdfast.sqlite?mode=rwc` is no URL of RFC 3986, and holds no secret before its query.
            let url = self.url.expose_secret();
            return url.split_once('?').map_or(url, |(path, _)| path).to_owned();
        };
        url.set_query(None);
        if url.password().is_some() && url.set_password(None).is_err() {
            return format!("{}://...", url.scheme());
        }
        url.into()
    }
}

/// `[refresh]`
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "each is a field of the engine's `Settings`, and is explained there")]
pub struct RefreshConfig {
    #[serde(rename = "lease_secs", deserialize_with = "parsed::secs")]
    pub lease: Duration,
    #[serde(rename = "exchange_timeout_secs", deserialize_with = "parsed::secs")]
    pub exchange_timeout: Duration,
    #[serde(rename = "lease_slack_secs", deserialize_with = "parsed::secs")]
    pub lease_slack: Duration,
    #[serde(rename = "wait_bound_secs", deserialize_with = "parsed::secs")]
    pub wait_bound: Duration,
    #[serde(rename = "orphan_wait_secs", deserialize_with = "parsed::secs")]
    pub orphan_wait: Duration,
    #[serde(rename = "confirm_pause_secs", deserialize_with = "parsed::secs")]
    pub confirm_pause: Duration,
    #[serde(rename = "rejection_interval_secs", deserialize_with = "parsed::secs")]
    pub rejection_interval: Duration,
    #[serde(deserialize_with = "parsed::number")]
    pub margin_share: f64,
    #[serde(rename = "margin_floor_secs", deserialize_with = "parsed::secs")]
    pub margin_floor: Duration,
    #[serde(rename = "margin_cap_secs", deserialize_with = "parsed::secs")]
    pub margin_cap: Duration,
    #[serde(rename = "mass_window_secs", deserialize_with = "parsed::secs")]
    pub mass_window: Duration,
    #[serde(deserialize_with = "parsed::whole")]
    pub mass_number: u32,
    #[serde(deserialize_with = "parsed::number")]
    pub mass_share: f64,
    #[serde(rename = "hold_retry_secs", deserialize_with = "parsed::secs")]
    pub hold_retry: Duration,
    #[serde(rename = "hold_at_most_secs", deserialize_with = "parsed::secs")]
    pub hold_at_most: Duration,
    #[serde(deserialize_with = "parsed::whole")]
    pub unstored_limit: u32,
    #[serde(rename = "unstored_rest_secs", deserialize_with = "parsed::secs")]
    pub unstored_rest: Duration,
    #[serde(rename = "backoff_base_secs", deserialize_with = "parsed::secs")]
    pub backoff_base: Duration,
    #[serde(rename = "backoff_cap_secs", deserialize_with = "parsed::secs")]
    pub backoff_cap: Duration,
    /// How often the scheduler looks for what is due.
    #[serde(rename = "loop_interval_secs", deserialize_with = "parsed::secs")]
    pub loop_interval: Duration,
    /// How many credentials the scheduler claims at a time.
    #[serde(deserialize_with = "parsed::whole")]
    pub batch: u32,
    /// How long a claim of the scheduler keeps other replicas away.
    #[serde(rename = "claim_secs", deserialize_with = "parsed::secs")]
    pub claim: Duration,
    /// Over which time access tokens are renewed that ended while nobody refreshed them.
    #[serde(rename = "catch_up_secs", deserialize_with = "parsed::secs")]
    pub catch_up: Duration,
    /// Scheduled refreshes under way for one OAuth app, on all replicas together.
    #[serde(deserialize_with = "parsed::whole")]
    pub at_once: u32,
    /// Scheduled refreshes that are begun in a second for one OAuth app, on all replicas together; 0: no limit.
    #[serde(deserialize_with = "parsed::number")]
    pub per_second: f64,
}

impl RefreshConfig {
    /// The engine's part. The cache has a section of its own.
    pub(super) fn settings(&self, cache: &CacheConfig) -> Settings {
        Settings {
            cache_connectors: cache.max_connectors as usize,
            lease: self.lease,
            exchange_timeout: self.exchange_timeout,
            lease_slack: self.lease_slack,
            wait_bound: self.wait_bound,
            orphan_wait: self.orphan_wait,
            confirm_pause: self.confirm_pause,
            rejection_interval: self.rejection_interval,
            margin_share: self.margin_share,
            margin_floor: self.margin_floor,
            margin_cap: self.margin_cap,
            mass_window: self.mass_window,
            mass_number: u64::from(self.mass_number),
            mass_share: self.mass_share,
            hold_retry: self.hold_retry,
            hold_at_most: self.hold_at_most,
            unstored_limit: self.unstored_limit,
            unstored_rest: self.unstored_rest,
            backoff_base: self.backoff_base,
            backoff_cap: self.backoff_cap,
        }
    }
}

/// `[cache]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheConfig {
    /// Connectors that are kept in memory at most.
    #[serde(deserialize_with = "parsed::whole")]
    pub max_connectors: u32,
}

/// 0 stands for no limit.
pub(super) fn rate(per_second: f64) -> Option<f64> {
    (per_second > 0.0).then_some(per_second)
}

/// `[lifeboat]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LifeboatConfig {
    /// As configured; [`Config::lifeboat_dir`](super::Config::lifeboat_dir) is what to use.
    #[serde(default)]
    pub dir: Option<PathBuf>,
}

/// `[lock]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockConfig {
    /// Where leases are kept.
    pub backend: LockBackend,
    /// `redis://` or `rediss://`; a secret, since it may hold a password.
    #[serde(default, deserialize_with = "optional::secret")]
    pub redis_url: Option<SecretString>,
    /// Where `redis_url` was read from.
    #[serde(default)]
    pub redis_url_file: Option<PathBuf>,
    /// Begins every key of ours.
    #[serde(deserialize_with = "parsed::text")]
    pub redis_prefix: String,
    /// How long Redis may take for one command.
    #[serde(rename = "redis_timeout_secs", deserialize_with = "parsed::secs")]
    pub redis_timeout: Duration,
}

/// Where leases are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockBackend {
    /// As rows, by the database's clock.
    Database,
    /// As keys, by Redis' clock.
    Redis,
}

impl<'de> Deserialize<'de> for LockBackend {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match parsed::text(deserializer)?.as_str() {
            "database" => Ok(Self::Database),
            "redis" => Ok(Self::Redis),
            other => Err(D::Error::unknown_variant(other, &["database", "redis"])),
        }
    }
}

/// `[oauth_apps.PROVIDER]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OAuthAppConfig {
    /// Public.
    #[serde(deserialize_with = "parsed::text")]
    pub client_id: String,
    /// `None`: a public client.
    #[serde(default, deserialize_with = "optional::secret")]
    pub client_secret: Option<SecretString>,
    /// Where `client_secret` was read from.
    #[serde(default)]
    pub client_secret_file: Option<PathBuf>,
    /// Tried when the current one is refused.
    #[serde(default, deserialize_with = "optional::secret")]
    pub next_client_secret: Option<SecretString>,
    /// Where `next_client_secret` was read from.
    #[serde(default)]
    pub next_client_secret_file: Option<PathBuf>,
    /// When the provider lets the secret expire.
    #[serde(default, deserialize_with = "optional::moment")]
    pub client_secret_expires_at: Option<DateTime<Utc>>,
}

impl OAuthAppConfig {
    /// As the engine takes it.
    pub fn app(&self) -> OAuthApp {
        OAuthApp {
            client_id: self.client_id.clone(),
            client_secret: self.client_secret.clone(),
            next_client_secret: self.next_client_secret.clone(),
        }
    }
}

/// `[providers]`: a folder, and a section for each provider.
#[derive(Clone, Debug, Default)]
pub struct ProvidersConfig {
    /// Folder of files that describe further providers.
    pub dir: Option<PathBuf>,
    /// `[providers.PROVIDER]`
    pub by_id: BTreeMap<String, ProviderConfig>,
}

impl<'de> Deserialize<'de> for ProvidersConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ProvidersVisitor)
    }
}

/// By hand, since `#[serde(flatten)]` forgets where a bad value stood.
struct ProvidersVisitor;

impl<'de> Visitor<'de> for ProvidersVisitor {
    type Value = ProvidersConfig;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("dir, and a section for each provider")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ProvidersConfig, A::Error> {
        let mut providers = ProvidersConfig::default();
        while let Some(key) = map.next_key::<String>()? {
            if key == "dir" {
                providers.dir = Some(map.next_value::<PathBuf>()?);
            } else {
                providers.by_id.insert(key, map.next_value()?);
            }
        }
        Ok(providers)
    }
}

/// `[providers.PROVIDER]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderConfig {
    /// Instead of the provider's own address.
    #[serde(default, deserialize_with = "optional::url_template")]
    pub base_url_override: Option<String>,
    /// What to ask the provider for.
    #[serde(default, rename = "access_token_life_secs", deserialize_with = "optional::secs")]
    pub access_token_life: Option<Duration>,
    /// Instead of `refresh.at_once`.
    #[serde(default, deserialize_with = "optional::whole")]
    pub refresh_at_once: Option<u32>,
    /// Instead of `refresh.per_second`.
    #[serde(default, deserialize_with = "optional::number")]
    pub refresh_per_second: Option<f64>,
    /// How long it takes a used refresh token again.
    #[serde(default, rename = "reuse_grace_secs", deserialize_with = "optional::secs")]
    pub reuse_grace: Option<Duration>,
    /// Where Gmail publishes changes.
    #[serde(default)]
    pub push_topic: Option<String>,
}

/// `[network]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkConfig {
    /// Exceptions of the guard against private addresses, for provider endpoints alone.
    #[serde(deserialize_with = "private_hosts")]
    pub allow_private_hosts: Vec<PrivateHost>,
}

/// A private address that may be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrivateHost {
    /// Every loopback address, every port.
    Loopback,
    /// This host and port, whatever its address.
    Exactly(Host<String>, u16),
}

impl FromStr for PrivateHost {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text == "loopback" {
            return Ok(Self::Loopback);
        }
        let (host, port) = text.rsplit_once(':').ok_or(())?;
        Ok(Self::Exactly(Host::parse(host).map_err(drop)?, port.parse().map_err(drop)?))
    }
}

pub(super) fn private_hosts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PrivateHost>, D::Error> {
    let read = |text: String| {
        text.parse().map_err(|()| D::Error::custom(format!("\"{text}\" is neither HOST:PORT nor \"loopback\"")))
    };
    values::list(deserializer)?.into_iter().map(read).collect()
}

/// `[operator]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorConfig {
    /// Who is told of trouble with the instance itself.
    #[serde(deserialize_with = "values::list")]
    pub emails: Vec<String>,
}

/// `[smtp]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SmtpConfig {
    /// `smtp://` or `smtps://`; a secret, since it may hold a password. `None`: nothing is mailed.
    #[serde(default, deserialize_with = "optional::secret")]
    pub url: Option<SecretString>,
    /// Where `url` was read from.
    #[serde(default)]
    pub url_file: Option<PathBuf>,
    /// Certificates that are trusted beside the system's, in PEM.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
}

/// `[mail]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MailConfig {
    /// The sender: an address, or a name with an address.
    #[serde(default, deserialize_with = "optional::text")]
    pub from: Option<String>,
    /// Where answers go.
    #[serde(default, deserialize_with = "optional::text")]
    pub reply_to: Option<String>,
    /// How long a first failure waits for company.
    #[serde(rename = "gather_secs", deserialize_with = "parsed::secs")]
    pub gather: Duration,
    /// Within this after a mail to an org, more of it is kept for one digest.
    #[serde(rename = "digest_window_secs", deserialize_with = "parsed::secs")]
    pub digest_window: Duration,
    /// How often the worker looks for what is due.
    #[serde(rename = "loop_interval_secs", deserialize_with = "parsed::secs")]
    pub loop_interval: Duration,
    /// How long one message may take, from the connection to the server's acceptance.
    #[serde(rename = "send_timeout_secs", deserialize_with = "parsed::secs")]
    pub send_timeout: Duration,
    /// First step of the back-off.
    #[serde(rename = "retry_base_secs", deserialize_with = "parsed::secs")]
    pub retry_base: Duration,
    /// Its longest step.
    #[serde(rename = "retry_cap_secs", deserialize_with = "parsed::secs")]
    pub retry_cap: Duration,
    /// A message that its recipient's server has put off for so long is given up.
    #[serde(rename = "give_up_after_secs", deserialize_with = "parsed::secs")]
    pub give_up_after: Duration,
}

/// `[log]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogConfig {
    /// How a line looks.
    pub format: LogFormat,
    /// In the language of tracing-subscriber's `EnvFilter`.
    #[serde(default, deserialize_with = "optional::text")]
    pub filter: Option<String>,
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Pretty,
    /// For machines.
    Json,
}

impl<'de> Deserialize<'de> for LogFormat {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        values::scalar(deserializer, "\"pretty\" or \"json\"", |value| match value {
            Scalar::Text("pretty") => Some(Self::Pretty),
            Scalar::Text("json") => Some(Self::Json),
            _ => None,
        })
    }
}

/// `[shutdown]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShutdownConfig {
    /// How long a stopping service waits for what is under way.
    #[serde(rename = "drain_secs", deserialize_with = "parsed::secs")]
    pub drain: Duration,
}

/// `[proxy]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProxyConfig {
    /// To the head of the provider's answer, and between two pieces of a body.
    #[serde(rename = "timeout_secs", deserialize_with = "parsed::secs")]
    pub timeout: Duration,
    /// Bodies up to this are kept until the answer is there, so that the request can be repeated.
    #[serde(deserialize_with = "parsed::whole")]
    pub buffer_kib: u32,
}

impl ProxyConfig {
    /// The same in bytes.
    pub fn buffer_bytes(&self) -> u64 {
        u64::from(self.buffer_kib) * 1024
    }
}

/// `[connect]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectConfig {
    /// Where a connect link may send the browser in the end.
    #[serde(deserialize_with = "origins")]
    pub return_origins: Vec<Url>,
    /// Days after which a connector that nobody has connected is removed; 0: never.
    #[serde(deserialize_with = "parsed::whole")]
    pub forget_unfinished_days: u32,
}

impl ConnectConfig {
    /// `None`: never.
    pub fn forget_unfinished_after(&self) -> Option<TimeDelta> {
        (self.forget_unfinished_days > 0).then(|| TimeDelta::days(self.forget_unfinished_days.into()))
    }
}

fn origins<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Url>, D::Error> {
    let read = |text: String| {
        let plain = |url: &Url| {
            matches!(url.scheme(), "http" | "https")
                && url.path() == "/"
                && url.query().is_none()
                && url.fragment().is_none()
        };
        let wrong = || D::Error::custom(format!("\"{text}\" is not an origin, such as https://app.example.com"));
        Url::parse(&text).ok().filter(plain).ok_or_else(wrong)
    };
    values::list(deserializer)?.into_iter().map(read).collect()
}
