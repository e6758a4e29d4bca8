//! Webhooks on PostgreSQL: deliveries that are proven, told apart and committed, against bare commits of one row on the same
//! database; and what a stranger's flood costs.

use std::{cell::Cell, net::SocketAddr, time::Duration};

use anyhow::{Context, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use futures::future::try_join_all;
use hmac::{Hmac, KeyInit as _, Mac as _};
use holdfast_app::seams::SystemClock;
use holdfast_core::ports::Clock as _;
use serde_json::{Value, json};
use sha2::Sha256;
use sqlx::PgConnection;

use super::{
    database::Database,
    load, median, millis, pause,
    process::{Installation, Running},
    report::{Goal, Report},
    uptime,
    wire::{self, Connection},
};

const CONNECTIONS: usize = 32;
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(3);
const STEADY: Duration = Duration::from_secs(10);
const FLOOD: u32 = 100_000;
/// Of the flood, before what it costs is counted: connections and pools have grown to their size.
const WARM_UP: u32 = 5_000;
/// Among so many unsigned ones is one that is genuine.
const GENUINE_EVERY: u32 = 500;
/// That a helpdesk's events are about.
const TICKETS: u64 = 1_000;
const SECRET: &str = "zendesk-signing-secret";

/// Who signs, and never says the same twice.
struct Sender {
    path: String,
    next: Cell<u64>,
}

impl Sender {
    fn request(&self) -> Vec<u8> {
        let number = self.next.replace(self.next.get() + 1);
        let ticket = (number % TICKETS).to_string();
        let body = json!({
            "account_id": 123, "id": format!("evt-{number}"), "type": "zen:event-type:ticket.created",
            "subject": format!("zen:ticket:{ticket}"), "time": "2026-11-30T10:00:00Z", "zendesk_event_version": "2022-11-06",
            "event": {}, "detail": {
                "id": ticket, "subject": "Where is my order?", "status": "NEW", "priority": "NORMAL", "requester_id": "7",
                "assignee_id": null, "tags": [], "is_public": true, "created_at": "2026-11-30T10:00:00Z",
                "updated_at": "2026-11-30T10:00:00Z", "via": { "channel": "mail" },
            },
        })
        .to_string();
        let stamp = SystemClock.now().to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
        let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).expect("a key of any length will do");
        mac.update(stamp.as_bytes());
        mac.update(body.as_bytes());
        let signature = BASE64_STANDARD.encode(mac.finalize().into_bytes());
        self.written(
            &format!("x-zendesk-webhook-signature: {signature}\r\nx-zendesk-webhook-signature-timestamp: {stamp}\r\n"),
            &body,
        )
    }

    fn unsigned(&self) -> Vec<u8> {
        self.written("", r#"{"id":"evt-forged","type":"zen:event-type:ticket.created","detail":{"id":"42"}}"#)
    }

    fn written(&self, headers: &str, body: &str) -> Vec<u8> {
        format!(
            "POST {} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\n\r\n{body}",
            self.path,
            body.len()
        )
        .into_bytes()
    }
}

pub(super) async fn run(report: &mut Report) -> anyhow::Result<()> {
    let database = Database::create().await?;
    let installation = Installation::new()?.with("HOLDFAST_DATABASE__URL", database.url());
    let key = installation.key().await?;
    let holdfast = installation.serve().await?;
    let sender = hook(&holdfast, &key).await?;

    let accepted = accepted(report, &database, &holdfast, &sender).await?;
    steady(report, holdfast.address, &sender, accepted / 2.0).await?;
    flood(report, &holdfast, &sender).await?;
    holdfast.stop().await?;
    database.drop().await
}

async fn hook(holdfast: &Running, key: &str) -> anyhow::Result<Sender> {
    let connector = load::import(holdfast, key, "access").await?;
    let request = wire::post(&format!("/api/v1/connectors/{connector}/webhook"), key, &json!({ "secret": SECRET }));
    let made: Value = serde_json::from_slice(Connection::open(holdfast.address).await?.must(&request).await?)?;
    let url = made["url"].as_str().context("no address")?;
    let path = url.find("/hooks/").map(|at| url[at..].to_owned()).context("an address of another kind")?;
    Ok(Sender { path, next: Cell::new(0) })
}

/// Deliveries against bare commits, in turns; answers how many deliveries were accepted a second.
async fn accepted(
    report: &mut Report,
    database: &Database,
    holdfast: &Running,
    sender: &Sender,
) -> anyhow::Result<f64> {
    let mut session = database.session().await?;
    sqlx::raw_sql("CREATE TABLE bare (id bigserial PRIMARY KEY, body text NOT NULL)").execute(&mut session).await?;
    let mut senders = try_join_all((0..CONNECTIONS).map(|_| Connection::open(holdfast.address))).await?;
    let mut sessions = try_join_all((0..CONNECTIONS).map(|_| database.session())).await?;
    let _warm = (ours(&mut senders, sender).await?, theirs(&mut sessions).await?);
    // As PostgreSQL does by itself within a minute: an installation that has just begun is not what is measured.
    sqlx::raw_sql("ANALYZE").execute(&mut session).await?;
    let (mut rates, mut bare, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (our, their) = (ours(&mut senders, sender).await?, theirs(&mut sessions).await?);
        shares.push(100.0 * our / their);
        rates.push(our);
        bare.push(their);
    }
    let fsync: String = sqlx::query_scalar("SHOW fsync").fetch_one(&mut session).await?;
    let distinct: i64 = sqlx::query_scalar("SELECT count(*) FROM deliveries").fetch_one(&mut session).await?;
    ensure!(u64::try_from(distinct)? == sender.next.get(), "{distinct} are kept of {}", sender.next.get());
    let (rate, bare) = (median(rates), median(bare));
    let note = format!("{CONNECTIONS} connections, one replica; every one that was answered is kept");
    report.add("deliveries accepted", rate, "per second", Goal::None, note);
    let note =
        format!("of {bare:.0} a second: one row each, {CONNECTIONS} sessions, fsync {fsync}; median of {ROUNDS} turns");
    report.add("deliveries, share of bare commits", median(shares), "%", Goal::AtLeast(60.0), note);
    Ok(rate)
}

async fn ours(senders: &mut [Connection], sender: &Sender) -> anyhow::Result<f64> {
    let started = uptime();
    let each = senders.iter_mut().map(|connection| async move {
        let mut count = 0_u32;
        while uptime() - started < ROUND {
            connection.must(&sender.request()).await?;
            count += 1;
        }
        anyhow::Ok(count)
    });
    let count: u32 = try_join_all(each).await?.into_iter().sum();
    Ok(f64::from(count) / (uptime() - started).as_secs_f64())
}

async fn theirs(sessions: &mut [PgConnection]) -> anyhow::Result<f64> {
    let started = uptime();
    let body = "b".repeat(500);
    let each = sessions.iter_mut().map(|session| {
        let body = body.as_str();
        async move {
            let mut count = 0_u32;
            while uptime() - started < ROUND {
                sqlx::query("INSERT INTO bare (body) VALUES ($1)").bind(body).execute(&mut *session).await?;
                count += 1;
            }
            anyhow::Ok(count)
        }
    });
    let count: u32 = try_join_all(each).await?.into_iter().sum();
    Ok(f64::from(count) / (uptime() - started).as_secs_f64())
}

/// As many as come in a second at half load, each at its time, whether those before were answered or not.
async fn steady(report: &mut Report, address: SocketAddr, sender: &Sender, rate: f64) -> anyhow::Result<()> {
    let mut connections = try_join_all((0..CONNECTIONS).map(|_| Connection::open(address))).await?;
    let started = uptime();
    #[expect(clippy::cast_precision_loss, reason = "a few")]
    let between = Duration::from_secs_f64(CONNECTIONS as f64 / rate);
    let each = connections.iter_mut().enumerate().map(|(number, connection)| async move {
        let mut took = Vec::new();
        #[expect(clippy::cast_precision_loss, reason = "a few")]
        let mut at = started + between.mul_f64(number as f64 / CONNECTIONS as f64);
        while at < started + STEADY {
            pause(at.saturating_sub(uptime())).await;
            connection.must(&sender.request()).await?;
            took.push(millis(uptime() - at));
            at += between;
        }
        anyhow::Ok(took)
    });
    let mut took: Vec<f64> = try_join_all(each).await?.concat();
    took.sort_by(f64::total_cmp);
    let p99 = took.get(took.len() * 99 / 100).copied().unwrap_or(f64::NAN);
    let note = format!(
        "{rate:.0} a second for {} s, from when each was to be sent; median {:.1} ms",
        STEADY.as_secs(),
        took[took.len() / 2]
    );
    report.add("delivery at half load, p99", p99, "ms", Goal::Under(50.0), note);
    Ok(())
}

async fn flood(report: &mut Report, holdfast: &Running, sender: &Sender) -> anyhow::Result<()> {
    let mut connections = try_join_all((0..CONNECTIONS).map(|_| Connection::open(holdfast.address))).await?;
    unsigned(&mut connections, sender, WARM_UP).await?;
    let before = holdfast.resident_kib()?;
    let started = uptime();
    let genuine = unsigned(&mut connections, sender, FLOOD).await?;
    let took = (uptime() - started).as_secs_f64();
    let grown = (holdfast.resident_kib()? - before) / 1024.0;
    let note = format!(
        "{FLOOD} unsigned requests in {took:.0} s, each told 401; {genuine} genuine ones among them were accepted; resident size over \
         what it was after the first {WARM_UP}"
    );
    report.add("memory after a flood", grown, "MiB", Goal::Under(8.0), note);
    Ok(())
}

/// Sends unsigned ones and now and then a genuine one; answers how many of those.
async fn unsigned(connections: &mut [Connection], sender: &Sender, count: u32) -> anyhow::Result<u32> {
    let left = Cell::new(count);
    let each = connections.iter_mut().map(|connection| {
        let (left, forged) = (&left, sender.unsigned());
        async move {
            let mut genuine = 0;
            while left.get() > 0 {
                left.set(left.get() - 1);
                if left.get() % GENUINE_EVERY == 0 {
                    connection.must(&sender.request()).await?;
                    genuine += 1;
                }
                let answer = connection.ask(&forged).await?;
                ensure!(answer.status == 401, "{}: {}", answer.status, String::from_utf8_lossy(answer.body));
            }
            anyhow::Ok(genuine)
        }
    });
    Ok(try_join_all(each).await?.into_iter().sum())
}
