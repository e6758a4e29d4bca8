//! What replicas share: a PostgreSQL database of their own, a sandbox, an org with an API key.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use futures::future::join_all;
use holdfast_app::seams::OsRandom;
use holdfast_core::ports::Random as _;
use holdfast_sandbox::{CLIENT_ID, CLIENT_SECRET, GrantRequest, Helpdesk, Sandbox, TokenAnswer};
use holdfast_store::MasterKey;
use reqwest::Method;
use secrecy::ExposeSecret;
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, FromRow, PgConnection, postgres::PgRow};
use tempfile::TempDir;
use url::Url;

use crate::{
    process::{Answer, Replica, START_BOUND, answer, command},
    wait::within,
};

/// The organisation of the API key.
pub const ORG: &str = "Acme";

/// Where databases may be made; `cargo xtask test` sets it.
#[expect(clippy::disallowed_methods, reason = "the one setting of these tests")]
fn server() -> Url {
    let url = std::env::var("HOLDFAST_TEST_POSTGRES")
        .expect("HOLDFAST_TEST_POSTGRES is not set; run `cargo xtask test`, which starts a PostgreSQL for it");
    Url::parse(&url).expect("HOLDFAST_TEST_POSTGRES is a URL")
}

/// A database of one test; dropped with this value, whoever is still connected.
#[derive(Debug)]
pub struct Database {
    url: Url,
}

impl Database {
    /// An empty one.
    pub async fn create() -> Self {
        let server = server();
        let mut random = [0; 8];
        OsRandom.fill(&mut random);
        let name = format!("holdfast_replicas_{:016x}", u64::from_le_bytes(random));
        let mut admin = PgConnection::connect(server.as_str()).await.expect("the test server is reachable");
        admin.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await.expect("databases may be made there");
        let mut url = server;
        url.set_path(&name);
        Self { url }
    }

    /// Direct.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The same by another address: a line or a pooler.
    pub fn url_by(&self, address: SocketAddr) -> Url {
        let mut url = self.url.clone();
        url.set_ip_host(address.ip()).expect("a URL with a host takes another");
        url.set_port(Some(address.port())).expect("a URL with a host takes a port");
        url
    }

    /// Where the server listens.
    pub async fn address(&self) -> SocketAddr {
        let host = self.url.host_str().expect("a server has a host").trim_matches(['[', ']']).to_owned();
        let mut found = tokio::net::lookup_host((host, self.url.port().unwrap_or(5432))).await.expect("it resolves");
        found.next().expect("it resolves to something")
    }

    /// A session behind everybody's back.
    pub async fn session(&self) -> PgConnection {
        PgConnection::connect(self.url.as_str()).await.expect("the database is reachable")
    }

    /// The rows of a query.
    pub async fn rows<T>(&self, sql: &'static str) -> Vec<T>
    where
        T: for<'r> FromRow<'r, PgRow> + Send + Unpin,
    {
        let mut session = self.session().await;
        let rows = sqlx::query_as(sql).fetch_all(&mut session).await.expect("the query is right");
        session.close().await.ok();
        rows
    }

    /// One number.
    pub async fn number(&self, sql: &'static str) -> i64 {
        self.rows::<(i64,)>(sql).await.first().expect("it answers a row").0
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let name = self.url.path().trim_start_matches('/').to_owned();
        let drop_it = async move {
            let mut admin = PgConnection::connect(server().as_str()).await?;
            admin.execute(AssertSqlSafe(format!("DROP DATABASE {name} WITH (FORCE)"))).await?;
            admin.close().await
        };
        // A runtime of its own: the test's is busy with this very drop.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map(|runtime| runtime.block_on(drop_it))
        });
        if !matches!(dropped.join(), Ok(Ok(Ok(())))) {
            eprintln!("the test database {} is left", self.url.path());
        }
    }
}

/// Everything around the replicas.
#[derive(Debug)]
pub struct Cluster {
    /// The provider.
    pub sandbox: Sandbox,
    /// Their database.
    pub database: Database,
    /// The API key of [`ORG`], with all that callers need.
    pub key: String,
    environment: Vec<(String, String)>,
    folder: TempDir,
}

impl Cluster {
    /// Makes the database, the sandbox, the organisation and its key. No replica runs yet.
    pub async fn start() -> Self {
        let (database, sandbox) = (Database::create().await, Sandbox::builder().start().await);
        let sandbox = sandbox.expect("a port is free");
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let master_key = MasterKey::generate(&OsRandom);
        let mut cluster = Self { sandbox, database, key: String::new(), environment: Vec::new(), folder };
        for (name, value) in [
            ("LISTEN", "127.0.0.1:0"),
            ("PUBLIC_URL", "http://127.0.0.1:8080"),
            ("MASTER_KEY", master_key.expose_secret()),
            ("DATABASE__URL", cluster.database.url().as_str()),
            ("DATABASE__MAX_CONNECTIONS", "8"),
            ("OAUTH_APPS__ZENDESK__CLIENT_ID", CLIENT_ID),
            ("OAUTH_APPS__ZENDESK__CLIENT_SECRET", CLIENT_SECRET),
            ("PROVIDERS__ZENDESK__BASE_URL_OVERRIDE", &cluster.sandbox.zendesk_override()),
            ("NETWORK__ALLOW_PRIVATE_HOSTS", "loopback"),
            // Nobody here waits for events.
            ("WEBHOOKS__MAKE_ON_CONNECT", "false"),
            ("SYNC__ENABLED", "false"),
            // Callers alone lead to exchanges here, unless a test wants the scheduler.
            ("REFRESH__LOOP_INTERVAL_SECS", "3600"),
            ("LOG__FORMAT", "json"),
        ] {
            cluster.environment.push((format!("HOLDFAST_{name}"), value.to_owned()));
        }
        cluster.run(&["migrate"]).await;
        cluster.run(&["user", "create", "--org", ORG, "--email", "ada@acme.example"]).await;
        cluster.key = cluster.new_key("callers").await.1;
        cluster
    }

    /// A replica to be set up.
    pub fn replica(&self, name: &'static str) -> Setup<'_> {
        let setup = Setup { cluster: self, name, program: "holdfast", environment: self.environment.clone() };
        setup.with("lifeboat.dir", &self.lifeboat(name).display().to_string())
    }

    /// The lifeboat of the replica of this name.
    pub fn lifeboat(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.lifeboat"))
    }

    /// Two replicas, `one` and `two`, with the same settings.
    pub async fn two(&self, settings: &[(&str, &str)]) -> (Replica, Replica) {
        let start = |name| self.replica(name).with_all(settings).start();
        tokio::join!(start("one"), start("two"))
    }

    /// Runs a command of the command line to its end; answers what it printed as JSON.
    pub async fn run(&self, arguments: &[&str]) -> serde_json::Value {
        let mut command = command(&self.environment);
        let output = command.arg("--json").args(arguments).current_dir(self.folder.path()).output();
        let output = output.await.expect("the binary can be started");
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{arguments:?}: {}: {err}", output.status);
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{arguments:?} printed {out:?}: {error}"))
    }

    /// One more API key: its id and the key.
    pub async fn new_key(&self, name: &str) -> (String, String) {
        let scopes = "connectors:read,connectors:write,tokens:read,tools,agents";
        let made = self.run(&["key", "create", "--org", ORG, "--name", name, "--scope", scopes]).await;
        let text = |field: &str| made[field].as_str().expect("it is there").to_owned();
        (text("id"), text("key"))
    }

    /// A connected connector whose access token is over, on a helpdesk of this name: the next call for a token needs
    /// an exchange.
    pub async fn expired(&self, replica: &Replica, account: &str) -> Expired {
        let helpdesk = self.sandbox.create_helpdesk(account).expect("it is a DNS label");
        let grant = helpdesk.grant(&GrantRequest::default()).expect("Ada is there");
        // Over here and there.
        helpdesk.expire_access_tokens();
        let body = json!({
            "provider": "zendesk", "account": account, "credential": {
                "access_token": grant.access_token, "refresh_token": grant.refresh_token,
                "expires_in": grant.expires_in, "scope": grant.scope,
            },
        });
        let made = answer(replica.request(Method::POST, "/api/v1/connectors").json(&body)).await;
        assert_eq!(made.status, 201, "{made:?}");
        let id = made.text("id").to_owned();
        // Behind the back of the schedulers: for them it is due when its token would have been over, and a first look
        // of theirs that comes late does nothing to it.
        let expire = "UPDATE credentials SET expires_at = obtained_at \
                      WHERE id = (SELECT credential_id FROM connectors WHERE id = $1)";
        let mut session = self.database.session().await;
        let done = sqlx::query(expire).bind(&id).execute(&mut session).await.expect("the statement is right");
        assert_eq!(done.rows_affected(), 1);
        session.close().await.ok();
        Expired { id, helpdesk, grant }
    }

    /// A folder for settings that stand in files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// A connector whose access token is over.
#[derive(Debug)]
pub struct Expired {
    /// Its id here.
    pub id: String,
    /// Its account there.
    pub helpdesk: Helpdesk,
    /// What it was made with.
    pub grant: TokenAnswer,
}

/// A replica to be started.
#[derive(Clone, Debug)]
pub struct Setup<'a> {
    cluster: &'a Cluster,
    name: &'static str,
    program: &'static str,
    environment: Vec<(String, String)>,
}

impl Setup<'_> {
    /// With this setting: `("refresh.lease_secs", "4")`.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Self {
        let name = format!("HOLDFAST_{}", key.to_uppercase().replace('.', "__"));
        self.environment.retain(|(other, _)| *other != name);
        self.environment.push((name, value.to_owned()));
        self
    }

    /// Another program than `holdfast`, of those that are built with these tests.
    #[must_use]
    pub fn of(mut self, program: &'static str) -> Self {
        self.program = program;
        self
    }

    /// With a variable that is none of ours: `TZ`.
    #[must_use]
    pub fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With all of these.
    #[must_use]
    pub fn with_all(self, settings: &[(&str, &str)]) -> Self {
        settings.iter().fold(self, |setup, (key, value)| setup.with(key, value))
    }

    /// Starts it, and again as long as it ends before it listens, as a supervisor does.
    pub async fn start_in_the_end(self) -> Replica {
        let start = || Replica::try_start(self.name, self.program, &self.environment, &self.cluster.key);
        within("the replica starts", START_BOUND, start).await
    }

    /// Starts it.
    pub async fn start(self) -> Replica {
        Replica::start(self.name, self.program, &self.environment, &self.cluster.key).await
    }
}

/// So many callers at once, spread evenly over the replicas.
pub async fn storm(replicas: &[&Replica], connector: &str, callers: usize) -> Vec<Answer> {
    join_all((0..callers).map(|caller| tokio::spawn(replicas[caller % replicas.len()].token_call(connector))))
        .await
        .into_iter()
        .map(|answer| answer.expect("a caller does not panic"))
        .collect()
}
