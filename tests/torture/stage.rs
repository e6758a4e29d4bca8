//! The stage: replicas with lines of their own to database and provider, connectors, and what has been done to whom.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future::join_all;
use holdfast_app::seams::SystemClock;
use holdfast_core::ports::Clock as _;
use holdfast_sandbox::{GrantRequest, Helpdesk, Options};
use holdfast_tests::{
    cluster::Cluster,
    cut::Line,
    process::{Answer, Replica},
    smtp::Smtp,
    wait::{uptime, within},
};
use reqwest::Method;
use serde_json::json;

/// Connectors.
pub(crate) const DESKS: usize = 200;
/// The life of their access tokens.
const LIFE_SECS: u32 = 20;
const NAMES: [&str; 4] = ["one", "two", "three", "four"];
/// The longest that a caller waits for a token.
pub(crate) const WAIT_BOUND: Duration = Duration::from_secs(3);
/// How long a lease lasts.
pub(crate) const LEASE: Duration = Duration::from_secs(5);

const SETTINGS: [(&str, &str); 15] = [
    ("refresh.lease_secs", "5"),
    ("refresh.exchange_timeout_secs", "3"),
    ("refresh.lease_slack_secs", "0.5"),
    ("refresh.orphan_wait_secs", "1"),
    ("refresh.confirm_pause_secs", "0.5"),
    ("refresh.wait_bound_secs", "3"),
    ("refresh.rejection_interval_secs", "2"),
    ("refresh.margin_floor_secs", "3"),
    ("refresh.margin_cap_secs", "5"),
    ("refresh.backoff_cap_secs", "5"),
    ("refresh.loop_interval_secs", "0.5"),
    // Grants are revoked on purpose here, and none of it is an incident.
    ("refresh.mass_number", "1000"),
    // What is held all the same is looked at again before the end.
    ("refresh.hold_retry_secs", "10"),
    ("mail.digest_window_secs", "2"),
    ("mail.loop_interval_secs", "0.5"),
];

/// A replica and what it hangs on.
pub(crate) struct Slot {
    pub(crate) name: &'static str,
    pub(crate) replica: tokio::sync::Mutex<Option<Replica>>,
    /// Where it listens; `None` while it does not run.
    pub(crate) url: Mutex<Option<String>>,
    pub(crate) database: Line,
    pub(crate) provider: Line,
    /// Trouble under way.
    pub(crate) troubled: AtomicUsize,
    /// When the last trouble ended, by [`uptime`].
    pub(crate) calm_since: Mutex<Duration>,
    pub(crate) lifeboat: std::path::PathBuf,
}

impl Slot {
    pub(crate) fn url(&self) -> Option<String> {
        self.url.lock().unwrap().clone()
    }

    /// Whether nothing has been done to it since then.
    pub(crate) fn calm_since(&self, then: Duration) -> bool {
        self.troubled.load(Ordering::SeqCst) == 0 && *self.calm_since.lock().unwrap() < then
    }

    /// Trouble begins; it ends with the value.
    pub(crate) fn trouble(&self) -> Trouble<'_> {
        self.troubled.fetch_add(1, Ordering::SeqCst);
        Trouble(self)
    }
}

pub(crate) struct Trouble<'a>(&'a Slot);

impl Drop for Trouble<'_> {
    fn drop(&mut self) {
        *self.0.calm_since.lock().unwrap() = uptime();
        self.0.troubled.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A connector and its helpdesk.
pub(crate) struct Connector {
    pub(crate) id: String,
    pub(crate) desk: Helpdesk,
}

pub(crate) struct Stage {
    pub(crate) cluster: Cluster,
    pub(crate) smtp: Smtp,
    pub(crate) slots: Vec<Slot>,
    pub(crate) connectors: Vec<Connector>,
    pub(crate) client: reqwest::Client,
    /// The key of the callers.
    pub(crate) key: String,
    /// What was done how often.
    pub(crate) done: Mutex<BTreeMap<&'static str, u32>>,
    /// When replicas that had stood still went on, in milliseconds since 1970.
    pub(crate) wakes: Mutex<Vec<i64>>,
    /// Connections of the database server that all share its restart.
    pub(crate) database_troubled: AtomicUsize,
    _lifeboats: tempfile::TempDir,
}

impl Stage {
    pub(crate) async fn set() -> Self {
        let (cluster, smtp) = (Cluster::start().await, Smtp::start().await);
        let lives = Options { min_expires_in: 1, max_expires_in: LIFE_SECS, rate_limit: 0, ..Options::default() };
        cluster.sandbox.set_options(lives);
        let scope = "connectors:read,connectors:write,tokens:read,proxy";
        let made = cluster.run(&["key", "create", "--org", "Acme", "--name", "torture", "--scope", scope]).await;
        let key = made["key"].as_str().unwrap().to_owned();
        let lifeboats = tempfile::tempdir().unwrap();
        let address = cluster.database.address().await;
        let slots = join_all(NAMES.map(async |name| {
            let (database, provider) = (Line::to(address).await, Line::to(cluster.sandbox.addr()).await);
            Slot {
                name,
                replica: tokio::sync::Mutex::default(),
                url: Mutex::default(),
                database,
                provider,
                troubled: AtomicUsize::new(0),
                calm_since: Mutex::default(),
                lifeboat: lifeboats.path().join(name),
            }
        }))
        .await;
        let client = holdfast_tests::process::client();
        let mut stage = Self {
            cluster,
            smtp,
            slots,
            connectors: Vec::new(),
            client,
            key,
            done: Mutex::default(),
            wakes: Mutex::default(),
            database_troubled: AtomicUsize::new(0),
            _lifeboats: lifeboats,
        };
        join_all(stage.slots.iter().map(|slot| stage.start(slot))).await;
        stage.connectors = join_all((0..DESKS).map(|number| stage.connect(number))).await;
        stage
    }

    /// Starts the slot's replica.
    pub(crate) async fn start(&self, slot: &Slot) {
        let provider = self.cluster.sandbox.zendesk_override();
        let direct = self.cluster.sandbox.addr().to_string();
        let by_line = provider.replace(&direct, &slot.provider.address().to_string());
        assert_ne!(provider, by_line, "the provider is reached over the line");
        let mut setup = self
            .cluster
            .replica(slot.name)
            .with_all(&SETTINGS)
            .with("database.url", self.cluster.database.url_by(slot.database.address()).as_str())
            .with("lifeboat.dir", slot.lifeboat.to_str().unwrap())
            .with("providers.zendesk.base_url_override", &by_line);
        for (name, value) in self.smtp.settings() {
            setup = setup.with(name, &value);
        }
        // In the middle of a crash of the database a start fails.
        let replica = setup.start_in_the_end().await;
        *slot.url.lock().unwrap() = Some(replica.url().to_owned());
        *slot.replica.lock().await = Some(replica);
    }

    async fn connect(&self, number: usize) -> Connector {
        let account = format!("desk{number}");
        let desk = self.cluster.sandbox.create_helpdesk(&account).unwrap();
        let grant = GrantRequest { expires_in: Some(LIFE_SECS), ..GrantRequest::default() };
        let grant = desk.grant(&grant).unwrap();
        let body = json!({
            "provider": "zendesk", "account": account, "credential": {
                "access_token": grant.access_token, "refresh_token": grant.refresh_token,
                "expires_in": grant.expires_in, "scope": grant.scope,
            },
        });
        let slot = &self.slots[number % self.slots.len()];
        let url = format!("{}/api/v1/connectors", slot.url().unwrap());
        let made = self.send(self.client.post(url).json(&body)).await.unwrap();
        assert_eq!(made.status, 201, "{made:?}");
        Connector { id: made.text("id").to_owned(), desk }
    }

    /// An answer, or how the connection ended.
    pub(crate) async fn send(&self, request: reqwest::RequestBuilder) -> Result<Answer, reqwest::Error> {
        let started = uptime();
        let response = request.bearer_auth(&self.key).send().await?;
        let status = response.status();
        let retry_after = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
        let body = response.text().await?;
        Ok(Answer {
            status,
            retry_after,
            body: serde_json::from_str(&body).unwrap_or_default(),
            took: uptime() - started,
        })
    }

    /// A call of the connector's API at this replica.
    pub(crate) async fn call(
        &self,
        url: &str,
        method: Method,
        connector: &Connector,
        path: &str,
        body: Option<serde_json::Value>,
    ) -> Result<Answer, reqwest::Error> {
        let request = self.client.request(method, format!("{url}/api/v1/connectors/{}{path}", connector.id));
        self.send(match body {
            Some(body) => request.json(&body),
            None => request,
        })
        .await
    }

    /// Notes what is done.
    pub(crate) fn note(&self, what: &'static str) {
        *self.done.lock().unwrap().entry(what).or_default() += 1;
    }

    /// Notes that a replica that stood still goes on.
    pub(crate) fn woken(&self) {
        self.wakes.lock().unwrap().push(SystemClock.now().timestamp_millis());
    }

    /// Ends all replicas, as an operator does.
    pub(crate) async fn stop(&self) {
        for slot in &self.slots {
            if let Some(replica) = slot.replica.lock().await.as_mut() {
                replica.ask_to_stop();
                replica.end().await;
            }
        }
    }

    /// All trouble is over; waits until nothing is open, nothing lies in a lifeboat, and nothing is due any more.
    pub(crate) async fn settle(&self) {
        for connector in &self.connectors {
            connector.desk.calm();
        }
        for slot in &self.slots {
            slot.database.heal();
            slot.provider.heal();
            if slot.url().is_none() {
                self.start(slot).await;
            }
        }
        within("everything has settled", Duration::from_mins(2), async || {
            let database = &self.cluster.database;
            let open = "SELECT concat_ws(' ', connector_id, holder, version, \"trigger\", started_at) \
                        FROM exchanges WHERE closed_at IS NULL";
            let open = database.rows::<(String,)>(open).await;
            let late = "SELECT concat_ws(' ', c.id, 'due', k.due_at, 'ends', k.expires_at, 'retry', k.retry_at, \
                        k.degraded_class) FROM credentials k JOIN connectors c ON c.credential_id = k.id \
                        WHERE c.health = 'connected' AND (k.expires_at < now() OR k.degraded_class IS NOT NULL)";
            let late = database.rows::<(String,)>(late).await;
            let told =
                "SELECT count(*) FROM outbox WHERE done_at IS NULL AND effect IN ('mail_admins', 'mail_recovery')";
            let told = database.number(told).await;
            let aboard: usize = self.slots.iter().map(|slot| aboard(&slot.lifeboat)).sum();
            if open.is_empty() && late.is_empty() && told == 0 && aboard == 0 {
                Ok(())
            } else {
                Err(format!("open: {open:?}; late: {late:?}; {told} untold, {aboard} in lifeboats"))
            }
        })
        .await;
    }
}

/// Token sets in a lifeboat.
fn aboard(folder: &std::path::Path) -> usize {
    std::fs::read_dir(folder).map_or(0, |files| files.flatten().filter(|file| file.path().is_file()).count())
}
