//! The line to Redis: one connection for all, opened when it is needed, never trusted after an error, never waited for.

use std::{
    error::Error,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use holdfast_core::{
    CredentialId,
    ports::{Clock, Sent, StoreError},
};
use redis::{
    AsyncConnectionConfig, Client, IntoConnectionInfo, RedisError, RedisResult, Script, aio::MultiplexedConnection,
};
use secrecy::{ExposeSecret, SecretString};
use tracing::{info, warn};
use url::Url;

/// After a command that nobody answered, others are refused for so long, so that callers do not wait one after the other
/// for a Redis that is silent. Longer than the engine repeats a failing lease statement.
const SILENT_REST: Duration = Duration::from_secs(1);

/// How to reach Redis.
pub struct Options {
    /// `redis://`, `rediss://` for TLS, or `redis+unix://`; may hold a password.
    pub url: SecretString,
    /// Begins every key.
    pub prefix: String,
    /// No command waits longer, connecting included.
    pub timeout: Duration,
    /// Time.
    pub clock: Arc<dyn Clock>,
}

/// One Redis: a single primary, or a proxy that leads to it.
pub struct Redis {
    client: Client,
    options: Options,
    open: Mutex<Option<Open>>,
    /// One opens for all.
    opening: tokio::sync::Mutex<()>,
    opened: AtomicU64,
    /// By our uptime in milliseconds.
    silent_until: AtomicU64,
    troubled: Mutex<bool>,
}

#[derive(Clone)]
struct Open {
    number: u64,
    connection: MultiplexedConnection,
}

/// A command that brought nothing.
#[derive(Debug)]
pub(crate) struct Failed {
    /// Whether Redis may have carried it out.
    pub(crate) sent: Sent,
    pub(crate) error: StoreError,
}

impl Redis {
    /// Reads the URL; connects to nothing yet, so that a service starts while Redis is away.
    pub fn new(options: Options) -> Result<Self, StoreError> {
        let client =
            Client::open(Self::check_url(&options.url)?).map_err(|error| because("prepare for Redis", error))?;
        Ok(Self {
            client,
            options,
            open: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            opened: AtomicU64::new(0),
            silent_until: AtomicU64::new(0),
            troubled: Mutex::default(),
        })
    }

    /// Whether it is a URL of a Redis. The error does not repeat it.
    pub fn check_url(url: &SecretString) -> Result<redis::ConnectionInfo, StoreError> {
        url.expose_secret().into_connection_info().map_err(|_| {
            StoreError::new("it is no URL of a Redis, such as redis://USER:PASSWORD@HOST:6379/0, or rediss:// for TLS")
        })
    }

    /// The URL for people: without password and query.
    pub fn shown_url(&self) -> String {
        let Ok(mut url) = Url::parse(self.options.url.expose_secret()) else { return "Redis".to_owned() };
        url.set_query(None);
        if url.password().is_some() && url.set_password(None).is_err() {
            return format!("{}://...", url.scheme());
        }
        url.into()
    }

    /// Whether it answers.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let pong = self.with("ask Redis whether it is there", async |connection| {
            redis::cmd("PING").query_async::<String>(connection).await
        });
        pong.await.map(drop).map_err(|failed| failed.error)
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        self.options.clock.as_ref()
    }

    pub(crate) fn key(&self, credential: &CredentialId) -> String {
        format!("{}lease:{credential}", self.options.prefix)
    }

    /// Runs a script on one key. All of ours answer a number.
    pub(crate) async fn run(
        &self,
        doing: &'static str,
        script: &Script,
        key: &str,
        args: &[String],
    ) -> Result<i64, Failed> {
        self.with(doing, async |connection| {
            let mut call = script.key(key);
            for arg in args {
                call.arg(arg);
            }
            call.invoke_async(connection).await
        })
        .await
    }

    /// Within the bound, connecting included.
    async fn with<T>(
        &self,
        doing: &'static str,
        command: impl AsyncFnOnce(&mut MultiplexedConnection) -> RedisResult<T>,
    ) -> Result<T, Failed> {
        let not_sent = |error| Failed { sent: Sent::No, error };
        if ms(self.options.clock.uptime()) < self.silent_until.load(Ordering::Acquire) {
            return Err(not_sent(StoreError::new(format!("{doing}: Redis did not answer a moment ago"))));
        }
        let mut using = None;
        let work = async {
            let open = self.connection().await.map_err(|error| not_sent(because(doing, error)))?;
            let mut connection = open.connection.clone();
            using = Some(open);
            command(&mut connection).await.map_err(|error| Failed { sent: Sent::Maybe, error: because(doing, error) })
        };
        // Real time: this is about sockets, whatever a test's clock says.
        let done = tokio::time::timeout(self.options.timeout, work).await;
        let sent = if using.is_some() { Sent::Maybe } else { Sent::No };
        let done = done.unwrap_or_else(|_| Err(Failed { sent, error: self.silent(doing) }));
        if done.is_err()
            && let Some(used) = using
        {
            self.forget(used.number);
        }
        self.tell(done.as_ref().err());
        done
    }

    fn silent(&self, doing: &'static str) -> StoreError {
        let until = self.options.clock.uptime() + SILENT_REST;
        self.silent_until.store(ms(until), Ordering::Release);
        StoreError::new(format!("{doing}: Redis did not answer within {} s", self.options.timeout.as_secs_f64()))
    }

    async fn connection(&self) -> RedisResult<Open> {
        if let Some(open) = self.current() {
            return Ok(open);
        }
        let _one = self.opening.lock().await;
        if let Some(open) = self.current() {
            return Ok(open);
        }
        // Bounded by the caller.
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let connection = self.client.get_multiplexed_async_connection_with_config(&config).await?;
        let open = Open { number: self.opened.fetch_add(1, Ordering::Relaxed), connection };
        *self.open.lock().expect("no panic happens while it is held") = Some(open.clone());
        Ok(open)
    }

    fn current(&self) -> Option<Open> {
        self.open.lock().expect("no panic happens while it is held").clone()
    }

    /// After any error: it may lead to a host that is gone, or that is no primary any more.
    fn forget(&self, number: u64) {
        let mut open = self.open.lock().expect("no panic happens while it is held");
        if open.as_ref().is_some_and(|open| open.number == number) {
            *open = None;
        }
    }

    /// Tells the log once that Redis is away, and once that it is back.
    fn tell(&self, failed: Option<&Failed>) {
        let mut troubled = self.troubled.lock().expect("no panic happens while it is held");
        match failed {
            Some(Failed { error, .. }) if !*troubled => {
                let cause = error.source.as_ref().map(|cause| format!(": {cause}")).unwrap_or_default();
                warn!("Redis is in trouble, so nothing is refreshed; tokens that live are served: {error}{cause}");
            }
            None if *troubled => info!("Redis answers again"),
            _ => {}
        }
        *troubled = failed.is_some();
    }
}

fn because(doing: &'static str, error: RedisError) -> StoreError {
    StoreError { doing: doing.to_owned(), source: Some(Box::<dyn Error + Send + Sync>::from(error)) }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use holdfast_core::testkit::ManualClock;

    use super::*;

    fn redis(url: &str) -> Result<Redis, StoreError> {
        let clock = Arc::new(ManualClock::new());
        let url = SecretString::from(url);
        Redis::new(Options { url, prefix: "holdfast:".to_owned(), timeout: Duration::from_secs(1), clock })
    }

    #[test]
    fn a_password_is_shown_neither_by_the_url_nor_by_an_error() {
        let good = redis("rediss://ada:Passw0rd@redis.example:6380/3").unwrap();
        assert_eq!(good.shown_url(), "rediss://ada@redis.example:6380/3");
        assert_eq!(redis("redis://:Passw0rd@redis.example").unwrap().shown_url(), "redis://redis.example");

        for wrong in ["http://ada:Passw0rd@redis.example", "Passw0rd", "", "redis://:Passw0rd@"] {
            let Err(error) = redis(wrong) else { panic!("{wrong} was taken") };
            assert!(!error.to_string().contains("Passw0rd"), "{error}");
        }
    }
}
