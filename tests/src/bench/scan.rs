//! The look for what is due, and its claim, among a million connectors.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, ensure};
use holdfast_app::seams::{OsRandom, SystemClock};
use holdfast_core::{
    AppId, Secret,
    ports::{ClaimDue, Clock as _, DueStore as _},
};
use holdfast_store::{Created, MasterKey, NewConnector, Options, Store};
use secrecy::SecretString;
use sqlx::{AssertSqlSafe, Connection as _};

use super::{
    database::Database,
    millis,
    report::{Goal, Report},
    uptime,
};

const CONNECTORS: u32 = 1_000_000;
const DUE: u32 = 300;
const ROUNDS: usize = 500;
/// As the settings ship.
const BATCH: u32 = 64;

pub(super) async fn run(report: &mut Report) -> anyhow::Result<()> {
    let database = Database::create().await?;
    let options = Options {
        url: database.url().to_owned(),
        listen_url: None,
        max_connections: 4,
        master_key: MasterKey::parse(&MasterKey::generate(&OsRandom))?,
        replica: "bench".to_owned(),
        clock: Arc::new(SystemClock),
        random: Arc::new(OsRandom),
        heartbeat: Options::HEARTBEAT,
    };
    let store = Store::connect(options).await?;
    store.migrate().await?;
    store.unlock().await?;
    let started = uptime();
    seed(&store, &database).await.context("a million connectors")?;
    let seeded = uptime() - started;

    let now = SystemClock.now();
    let zendesk = AppId::instance("zendesk");
    let wish = ClaimDue { app: &zendesk, now, holder: "bench", ttl: Duration::from_mins(1), limit: BATCH };
    let plan = store.explain_claim(&wish).await?;
    eprintln!("how a claim is made:\n{plan}");
    let by_index = plan.contains("credentials_due") && !plan.contains("Seq Scan on c");
    let (mut looks, mut claims) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let began = uptime();
        let found = store.first_due(&["zendesk"], now).await?;
        looks.push(millis(uptime() - began));
        ensure!(found.len() == 1, "nothing is due");
        let began = uptime();
        let claimed = store.claim_due(&wish).await?;
        claims.push(millis(uptime() - began));
        ensure!(claimed.len() == BATCH as usize, "{} were claimed", claimed.len());
        let ids: Vec<_> = claimed.into_iter().map(|due| due.credential).collect();
        store.give_back("bench", &ids).await?;
    }
    store.shut().await?;

    let note = |figures: &[f64]| {
        format!(
            "of {ROUNDS}; median {:.2} ms; 1,000,000 connectors, {DUE} due; seeded in {:.0} s",
            at(figures, 0.5),
            seeded.as_secs_f64()
        )
    };
    report.add("look for what is due, p99", at(&looks, 0.99), "ms", Goal::Under(10.0), note(&looks));
    let index = if by_index { "by index" } else { "NOT by index" };
    report.add(
        "claim of 64 that are due, p99",
        at(&claims, 0.99),
        "ms",
        Goal::Under(10.0),
        format!("{index}; {}", note(&claims)),
    );
    ensure!(by_index, "the plan is another one:\n{plan}");
    database.drop().await
}

/// One connector by the usual way, and the others as copies of it: what is sealed in them is not looked at.
async fn seed(store: &Store, database: &Database) -> anyhow::Result<()> {
    let now = SystemClock.now();
    let new = NewConnector {
        org: store.ensure_org("Bench").await?,
        provider: "zendesk".to_owned(),
        account: "first".to_owned(),
        name: "First".to_owned(),
        alias: None,
        secret: Secret::ApiKey(SecretString::from("k".repeat(200))),
        app: None,
        due_at: None,
        extras: Vec::new(),
        at: now,
    };
    ensure!(matches!(store.create_connector(&new).await?, Created::New(_)), "it was there before");
    let credential = "org_id, provider, kind, sealed, version, fingerprint, scopes, obtained_at, rotated_at";
    let connector = "org_id, provider, name, health, health_since, epoch, created_at";
    // Due over the coming hour, as with tokens of an hour; the first ones are due now.
    let sql = format!(
        "ALTER TABLE credentials DISABLE TRIGGER USER; ALTER TABLE connectors DISABLE TRIGGER USER; \
         INSERT INTO credentials (id, {credential}, expires_at, due_at) \
         SELECT 'cred_' || i, {credential}, now() + interval '2 hours', \
         CASE WHEN i <= {DUE} THEN now() - interval '1 second' ELSE now() + interval '10 minutes' + i * interval '3 ms' END \
         FROM credentials, generate_series(1, {CONNECTORS}) i; \
         INSERT INTO connectors (id, credential_id, account, {connector}) \
         SELECT 'con_' || i, 'cred_' || i, 'copy' || i, {connector} FROM connectors, generate_series(1, {CONNECTORS}) i; \
         ALTER TABLE credentials ENABLE TRIGGER USER; ALTER TABLE connectors ENABLE TRIGGER USER"
    );
    let mut session = database.session().await?;
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut session).await?;
    sqlx::raw_sql("VACUUM ANALYZE").execute(&mut session).await?;
    Ok(session.close().await?)
}

/// The figure below which this share of them lies.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a place in a list"
)]
pub(super) fn at(figures: &[f64], share: f64) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len());
    sorted[place - 1]
}
