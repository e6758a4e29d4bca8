//! What one value alone cannot tell: ranges, and numbers that must fit each other.

use std::time::Duration;

use figment::Figment;
use holdfast_core::{Role, job::Kind};
use holdfast_redis_leases::Redis;
use lettre::message::Mailbox;
use secrecy::ExposeSecret;
use tracing_subscriber::EnvFilter;
use url::Url;

use super::{
    Config, LockBackend, PrivateHost,
    error::{ConfigError, origin},
};
use crate::mail::server_url::ServerUrl;

/// Each call may hold as much in memory.
const MOST_BUFFER_KIB: u32 = 16 * 1024;

/// A finding: the keys that it is about, the first one being the one to change.
#[derive(Debug)]
pub(super) struct Problem {
    keys: Vec<String>,
    what: String,
}

impl Problem {
    fn new(keys: &[&str], what: impl Into<String>) -> Self {
        Self { keys: keys.iter().map(|&key| key.to_owned()).collect(), what: what.into() }
    }

    /// Names where the keys were set. Of several, the place of one that the operator set comes first.
    pub(super) fn located(self, figment: &Figment) -> ConfigError {
        let places: Vec<_> = self.keys.iter().map(|key| origin(figment, key)).collect();
        let set = places.iter().find(|place| !matches!(place.as_str(), "default" | "configuration"));
        let place = set.or(places.first()).map_or("configuration", String::as_str);
        ConfigError(format!("{place}: {}: {}", self.keys.join(", "), self.what))
    }
}

fn ensure(holds: bool, keys: &[&str], what: impl FnOnce() -> String) -> Result<(), Problem> {
    if holds { Ok(()) } else { Err(Problem::new(keys, what())) }
}

pub(super) fn check(config: &Config) -> Result<(), Problem> {
    addresses(config)?;
    database(config)?;
    refresh(config)?;
    lock(config)?;
    agents(config)?;
    jobs(config)?;
    webhooks(config)?;
    sync(config)?;
    events(config)?;
    ensure(
        config.shutdown.drain >= config.refresh.exchange_timeout,
        &["shutdown.drain_secs", "refresh.exchange_timeout_secs"],
        || {
            format!(
                "the drain ({}) must be at least the time-out of an exchange ({}), so that none is cut off",
                secs(config.shutdown.drain),
                secs(config.refresh.exchange_timeout)
            )
        },
    )?;
    for (id, provider) in &config.providers.by_id {
        ensure(
            provider.access_token_life.is_none_or(|life| !life.is_zero()),
            &[&format!("providers.{id}.access_token_life_secs")],
            || "must be above 0".to_owned(),
        )?;
    }
    ensure(!config.proxy.timeout.is_zero(), &["proxy.timeout_secs"], || "must be above 0".to_owned())?;
    ensure(config.proxy.buffer_kib <= MOST_BUFFER_KIB, &["proxy.buffer_kib"], || {
        format!("{} is not usable; allowed is 0 to {MOST_BUFFER_KIB}", config.proxy.buffer_kib)
    })?;
    mail(config)?;
    sign_in(config)?;
    for email in &config.operator.emails {
        ensure(
            email.split('@').count() == 2 && !email.starts_with('@') && !email.ends_with('@'),
            &["operator.emails"],
            || format!("\"{email}\" is no e-mail address"),
        )?;
    }
    if let Some(filter) = &config.log.filter {
        EnvFilter::try_new(filter).map_err(|error| {
            Problem::new(
                &["log.filter"],
                format!("not usable ({error}); allowed is a level, or as in \"warn,holdfast_core=debug\""),
            )
        })?;
    }
    Ok(())
}

fn addresses(config: &Config) -> Result<(), Problem> {
    let url = config.public_url();
    if config.public_url_setting.is_none() {
        ensure(config.is_loopback(), &["public_url", "listen"], || {
            format!("public_url has to be set when listen ({}) is not a loopback address", config.listen)
        })?;
    }
    ensure(
        url.path() == "/" && url.query().is_none() && url.fragment().is_none() && url.username().is_empty(),
        &["public_url"],
        || "allowed is scheme, host and port, such as https://holdfast.example.com".to_owned(),
    )?;
    ensure(url.scheme() == "https" || config.is_loopback(), &["public_url"], || {
        "must be https, unless its host is a loopback one".to_owned()
    })?;
    ensure(
        config.network.allow_private_hosts.is_empty() || config.is_loopback(),
        &["network.allow_private_hosts", "public_url"],
        || format!("private hosts cannot be allowed on an instance with a public address ({url})"),
    )
}

fn database(config: &Config) -> Result<(), Problem> {
    let postgres = |url: &str| url.starts_with("postgres://") || url.starts_with("postgresql://");
    let url = config.database.url.expose_secret();
    ensure(postgres(url) || url.starts_with("sqlite:"), &["database.url"], || {
        "allowed is sqlite://FILE or postgres://USER:PASSWORD@HOST/NAME".to_owned()
    })?;
    if let Some(listen) = &config.database.listen_url {
        ensure(postgres(listen.expose_secret()), &["database.listen_url"], || {
            "allowed is postgres://USER:PASSWORD@HOST/NAME".to_owned()
        })?;
        ensure(postgres(url), &["database.listen_url", "database.url"], || {
            "a listen_url is for PostgreSQL; database.url is SQLite".to_owned()
        })?;
    }
    ensure((1..=1000).contains(&config.database.max_connections), &["database.max_connections"], || {
        format!("{} is not usable; allowed is 1 to 1000", config.database.max_connections)
    })
}

fn refresh(config: &Config) -> Result<(), Problem> {
    let refresh = &config.refresh;
    for (key, value) in [
        ("exchange_timeout_secs", refresh.exchange_timeout),
        ("wait_bound_secs", refresh.wait_bound),
        ("backoff_base_secs", refresh.backoff_base),
        ("loop_interval_secs", refresh.loop_interval),
    ] {
        ensure(!value.is_zero(), &[&format!("refresh.{key}")], || "must be above 0".to_owned())?;
    }
    ensure(
        refresh.exchange_timeout + refresh.lease_slack < refresh.lease,
        &["refresh.lease_secs", "refresh.exchange_timeout_secs", "refresh.lease_slack_secs"],
        || {
            format!(
                "the lease ({}) must be longer than the time-out of an exchange ({}) and the slack ({}) together",
                secs(refresh.lease),
                secs(refresh.exchange_timeout),
                secs(refresh.lease_slack)
            )
        },
    )?;
    ensure(refresh.margin_share > 0.0 && refresh.margin_share <= 0.5, &["refresh.margin_share"], || {
        format!("{} is not usable; allowed is above 0 and up to 0.5", refresh.margin_share)
    })?;
    ensure(refresh.mass_share > 0.0 && refresh.mass_share <= 1.0, &["refresh.mass_share"], || {
        format!("{} is not usable; allowed is above 0 and up to 1", refresh.mass_share)
    })?;
    ensure(refresh.mass_number > 0, &["refresh.mass_number"], || "0 is not usable; allowed is 1 or more".to_owned())?;
    for (low, low_value, high, high_value) in [
        ("refresh.hold_retry_secs", refresh.hold_retry, "refresh.hold_at_most_secs", refresh.hold_at_most),
        ("refresh.margin_floor_secs", refresh.margin_floor, "refresh.margin_cap_secs", refresh.margin_cap),
        ("refresh.backoff_base_secs", refresh.backoff_base, "refresh.backoff_cap_secs", refresh.backoff_cap),
    ] {
        ensure(low_value <= high_value, &[low, high], || {
            format!("the first ({}) must not be above the second ({})", secs(low_value), secs(high_value))
        })?;
    }
    ensure((1..=10_000).contains(&refresh.unstored_limit), &["refresh.unstored_limit"], || {
        format!("{} is not usable; allowed is 1 to 10000", refresh.unstored_limit)
    })?;
    ensure((1..=10_000).contains(&refresh.batch), &["refresh.batch"], || {
        format!("{} is not usable; allowed is 1 to 10000", refresh.batch)
    })?;
    ensure(
        refresh.claim >= refresh.exchange_timeout * 2,
        &["refresh.claim_secs", "refresh.exchange_timeout_secs"],
        || {
            format!(
                "a claim ({}) must be at least twice the time-out of an exchange ({}), so that what waits behind one is not \
                 claimed again",
                secs(refresh.claim),
                secs(refresh.exchange_timeout)
            )
        },
    )?;
    ensure((16..=100_000_000).contains(&config.cache.max_connectors), &["cache.max_connectors"], || {
        format!("{} is not usable; allowed is 16 to 100000000", config.cache.max_connectors)
    })?;
    let provider = |id: &String, key: &str| format!("providers.{id}.{key}");
    let limits = config
        .providers
        .by_id
        .iter()
        .filter_map(|(id, own)| Some((provider(id, "refresh_at_once"), own.refresh_at_once?)));
    for (key, at_once) in limits.chain([("refresh.at_once".to_owned(), refresh.at_once)]) {
        ensure((1..=10_000).contains(&at_once), &[&key], || format!("{at_once} is not usable; allowed is 1 to 10000"))?;
    }
    let rates = config
        .providers
        .by_id
        .iter()
        .filter_map(|(id, own)| Some((provider(id, "refresh_per_second"), own.refresh_per_second?)));
    for (key, rate) in rates.chain([("refresh.per_second".to_owned(), refresh.per_second)]) {
        ensure(rate == 0.0 || (0.01..=100_000.0).contains(&rate), &[&key], || {
            format!("{rate} is not usable; allowed is 0 for no limit, or 0.01 to 100000")
        })?;
    }
    Ok(())
}

fn lock(config: &Config) -> Result<(), Problem> {
    let lock = &config.lock;
    if lock.backend != LockBackend::Redis {
        return Ok(());
    }
    let Some(url) = &lock.redis_url else {
        let what = "\"redis\" needs lock.redis_url, such as redis://USER:PASSWORD@HOST:6379/0";
        return Err(Problem::new(&["lock.backend", "lock.redis_url"], what));
    };
    Redis::check_url(url).map_err(|problem| Problem::new(&["lock.redis_url"], problem.to_string()))?;
    let (timeout, most) = (lock.redis_timeout, config.refresh.wait_bound / 2);
    ensure(!timeout.is_zero() && timeout <= most, &["lock.redis_timeout_secs", "refresh.wait_bound_secs"], || {
        let (timeout, most) = (secs(timeout), secs(most));
        format!("{timeout} is not usable; allowed is above 0 and up to half of what a caller waits, {most}")
    })
}

fn agents(config: &Config) -> Result<(), Problem> {
    let agents = &config.agents;
    ensure(!agents.loop_interval.is_zero(), &["agents.loop_interval_secs"], || "must be above 0".to_owned())?;
    ensure(agents.run_lease >= Duration::from_secs(5), &["agents.run_lease_secs"], || {
        format!(
            "{} is not usable; allowed is 5 s and more, so that a busy replica keeps its runs",
            secs(agents.run_lease)
        )
    })?;
    for (key, value, most) in [
        ("at_once", agents.at_once, 1000),
        ("most_calls", agents.most_calls, 100_000),
        ("keep_runs", agents.keep_runs, 10_000),
        ("runs_per_ticket", agents.runs_per_ticket, 10_000),
    ] {
        ensure((1..=most).contains(&value), &[&format!("agents.{key}")], || {
            format!("{value} is not usable; allowed is 1 to {most}")
        })?;
    }
    Ok(())
}

fn jobs(config: &Config) -> Result<(), Problem> {
    let jobs = &config.jobs;
    for (key, value, least, why) in [
        ("loop_interval_secs", jobs.loop_interval, 0.001, "so that the loop is not hot"),
        ("lease_secs", jobs.lease, 5.0, "so that a busy replica keeps its jobs"),
        ("longest_attempt_secs", jobs.longest_attempt, 1.0, "so that an attempt can come to its end"),
        ("backoff_base_secs", jobs.backoff_base, 0.1, "so that a failing job rests"),
    ] {
        ensure(value.as_secs_f64() >= least, &[&format!("jobs.{key}")], || {
            format!("{} is not usable; allowed is {least} s and more, {why}", secs(value))
        })?;
    }
    ensure(jobs.backoff_cap >= jobs.backoff_base, &["jobs.backoff_cap_secs", "jobs.backoff_base_secs"], || {
        let (cap, base) = (secs(jobs.backoff_cap), secs(jobs.backoff_base));
        format!("the longest pause ({cap}) must be at least the first ({base})")
    })?;
    let mut numbers = vec![
        ("at_once".to_owned(), Some(jobs.at_once), 1000),
        ("per_connector".to_owned(), Some(jobs.per_connector), 1000),
        ("attempts".to_owned(), Some(jobs.attempts), 1000),
        ("parked_at_most_days".to_owned(), Some(jobs.parked_at_most_days), 3650),
        ("keep_done_days".to_owned(), Some(jobs.keep_done_days), 3650),
        ("keep_dead_days".to_owned(), Some(jobs.keep_dead_days), 3650),
    ];
    for kind in Kind::ALL {
        let (name, of) = (kind.as_str(), jobs.of(kind));
        for (key, value) in [("at_once", of.at_once), ("per_connector", of.per_connector), ("attempts", of.attempts)] {
            numbers.push((format!("{name}.{key}"), value, 1000));
        }
    }
    for (key, value, most) in numbers {
        let Some(value) = value else { continue };
        ensure((1..=most).contains(&value), &[&format!("jobs.{key}")], || {
            format!("{value} is not usable; allowed is 1 to {most}")
        })?;
    }
    Ok(())
}

fn events(config: &Config) -> Result<(), Problem> {
    let events = &config.events;
    let (least, most) = (Duration::from_secs(1), Duration::from_hours(24));
    ensure(
        (1..=50).contains(&events.retries.len()) && events.retries.iter().all(|pause| (least..=most).contains(pause)),
        &["events.retry_secs"],
        || "allowed are 1 to 50 pauses of 1 to 86400 seconds".to_owned(),
    )?;
    ensure(!events.timeout.is_zero() && events.timeout <= Duration::from_mins(1), &["events.timeout_secs"], || {
        format!("{} is not usable; allowed is above 0 and up to 60 s", secs(events.timeout))
    })?;
    ensure(
        events.timeout * 2 < config.jobs.longest_attempt,
        &["events.timeout_secs", "jobs.longest_attempt_secs"],
        || "an attempt at a job must be given more than twice the time of an endpoint's answer".to_owned(),
    )?;
    for (key, value) in
        [("events.secret_overlap_secs", events.secret_overlap), ("events.disable_after_secs", events.disable_after)]
    {
        ensure(value >= Duration::from_mins(1), &[key], || {
            format!("{} is not usable; allowed is 60 s and more", secs(value))
        })?;
    }
    let keep = Duration::from_hours(24) * events.keep_days;
    ensure(events.keep_days <= 3650 && keep > events.span(), &["events.keep_days", "events.retry_secs"], || {
        let span = secs(events.span());
        format!("allowed is up to 3650 days, and more than an event is tried for ({span})")
    })?;
    ensure(
        !events.allow_private_hosts.contains(&PrivateHost::Loopback) || config.is_loopback(),
        &["events.allow_private_hosts", "public_url"],
        || {
            let url = config.public_url();
            format!("\"loopback\" cannot be allowed on an instance with a public address ({url}); name HOST:PORT")
        },
    )
}

fn sync(config: &Config) -> Result<(), Problem> {
    let sync = &config.sync;
    let every = Duration::from_mins(1)..=Duration::from_hours(24);
    ensure(every.contains(&sync.every), &["sync.every_secs"], || {
        format!("{} is not usable; allowed is 60 s to a day (86400 s)", secs(sync.every))
    })?;
    ensure((1..=3650).contains(&sync.first_days), &["sync.first_days"], || {
        format!("{} is not usable; allowed is 1 to 3650", sync.first_days)
    })?;
    ensure(sync.slice >= Duration::from_secs(1), &["sync.slice_secs"], || {
        format!("{} is not usable; allowed is 1 s and more, so that a job comes somewhere", secs(sync.slice))
    })?;
    ensure(sync.slice <= config.jobs.longest_attempt / 2, &["sync.slice_secs", "jobs.longest_attempt_secs"], || {
        let (slice, longest) = (secs(sync.slice), secs(config.jobs.longest_attempt));
        format!("a slice ({slice}) has to be at most half of the longest attempt ({longest}), or it is broken off")
    })?;
    let within = sync.search_within;
    ensure(within.is_zero() || within >= sync.every, &["sync.search_within_secs", "sync.every_secs"], || {
        let (within, every) = (secs(within), secs(sync.every));
        format!(
            "a mirror that is synced each {every} is seldom younger than {within}; allowed is 0 (never), or that and more"
        )
    })
}

fn webhooks(config: &Config) -> Result<(), Problem> {
    let webhooks = &config.webhooks;
    for (key, value, least, most) in [
        ("body_kib", webhooks.body_kib, 16, 16 * 1024),
        ("retry_after_secs", webhooks.retry_after_secs, 1, 59),
        ("park_events", webhooks.park_events, 0, 1_000_000),
        ("gone_after", webhooks.gone_after, 10, 1_000_000),
        ("warn_after", webhooks.warn_after, 1, 1_000_000),
    ] {
        ensure((least..=most).contains(&value), &[&format!("webhooks.{key}")], || {
            format!("{value} is not usable; allowed is {least} to {most}")
        })?;
    }
    ensure(
        !webhooks.request.is_zero() && webhooks.request <= Duration::from_mins(2),
        &["webhooks.request_secs"],
        || format!("{} is not usable; allowed is above 0 and up to 120 s", secs(webhooks.request)),
    )?;
    for (key, value) in [
        ("webhooks.gone_after_secs", webhooks.gone_after_time),
        ("webhooks.secret_overlap_secs", webhooks.secret_overlap),
    ] {
        ensure(value >= Duration::from_mins(1), &[key], || {
            format!("{} is not usable; allowed is 60 s and more", secs(value))
        })?;
    }
    let look = Duration::from_mins(1)..=Duration::from_hours(24);
    ensure(look.contains(&webhooks.look), &["webhooks.look_secs"], || {
        format!("{} is not usable; allowed is 60 s to a day (86400 s)", secs(webhooks.look))
    })?;
    let (warn, gone) = (webhooks.warn_after, webhooks.gone_after);
    ensure(warn < gone, &["webhooks.warn_after", "webhooks.gone_after"], || {
        format!("people are to be warned ({warn}) before a webhook says that it is gone ({gone})")
    })?;
    let (bodies, rows) = (webhooks.keep_bodies, webhooks.keep);
    ensure(bodies <= rows, &["webhooks.keep_bodies_secs", "webhooks.keep_secs"], || {
        format!("bodies ({}) are kept no longer than what they belong to ({})", secs(bodies), secs(rows))
    })?;
    // An event that came again later would be taken for a new one.
    ensure(rows >= Duration::from_hours(24), &["webhooks.keep_secs"], || {
        format!("{} is not usable; allowed is a day (86400 s) and more: providers repeat events for hours", secs(rows))
    })
}

fn mail(config: &Config) -> Result<(), Problem> {
    if let Some(url) = &config.smtp.url {
        ServerUrl::parse(url).map_err(|problem| Problem::new(&["smtp.url"], problem))?;
        ensure(config.mail.from.is_some(), &["mail.from", "smtp.url"], || {
            "has to be set when smtp.url is, such as \"Holdfast <holdfast@example.com>\"".to_owned()
        })?;
    }
    for (key, value) in [("mail.from", &config.mail.from), ("mail.reply_to", &config.mail.reply_to)] {
        let Some(value) = value else { continue };
        let usable = value.parse::<Mailbox>().is_ok_and(|mailbox| mailbox.email.domain().is_ascii());
        ensure(usable, &[key], || format!("\"{value}\" is no address; allowed is NAME <ADDRESS> or an address alone"))?;
    }
    for (key, value) in [
        ("mail.loop_interval_secs", config.mail.loop_interval),
        ("mail.send_timeout_secs", config.mail.send_timeout),
        ("mail.retry_base_secs", config.mail.retry_base),
    ] {
        ensure(!value.is_zero(), &[key], || "must be above 0".to_owned())?;
    }
    for (low, low_value, high, high_value) in [
        ("mail.retry_base_secs", config.mail.retry_base, "mail.retry_cap_secs", config.mail.retry_cap),
        ("mail.retry_cap_secs", config.mail.retry_cap, "mail.give_up_after_secs", config.mail.give_up_after),
    ] {
        ensure(low_value <= high_value, &[low, high], || {
            format!("the first ({}) must not be above the second ({})", secs(low_value), secs(high_value))
        })?;
    }
    Ok(())
}

fn sign_in(config: &Config) -> Result<(), Problem> {
    let Some(oidc) = config.oidc() else { return Ok(()) };
    let url = Url::parse(&oidc.issuer).ok();
    let usable = url.is_some_and(|url| {
        let reached = url.scheme() == "https" || url.scheme() == "http" && super::is_loopback(&url);
        reached && url.query().is_none() && url.fragment().is_none()
    });
    ensure(usable, &["sign_in.oidc.issuer"], || {
        format!("\"{}\" is no issuer; allowed is an address that begins with https://", oidc.issuer)
    })?;
    ensure(!oidc.client_id.is_empty(), &["sign_in.oidc.client_id", "sign_in.oidc.issuer"], || {
        "has to be set when sign_in.oidc.issuer is".to_owned()
    })?;
    ensure(oidc.scopes.iter().any(|scope| scope == "openid"), &["sign_in.oidc.scopes"], || {
        "have to hold openid".to_owned()
    })?;
    for domain in &oidc.domains {
        ensure(!domain.contains('@') && domain.contains('.'), &["sign_in.oidc.domains"], || {
            format!("\"{domain}\" is no domain, such as example.com")
        })?;
    }
    let keys = &["sign_in.oidc.first_time_role", "sign_in.oidc.first_time_org"];
    ensure(oidc.first_time_role.is_some() == oidc.first_time_org.is_some(), keys, || {
        "both are set, or neither is".to_owned()
    })?;
    ensure(oidc.first_time_role != Some(Role::Owner), &keys[..1], || {
        "nobody becomes an owner by signing in; allowed are admin, member and viewer".to_owned()
    })
}

fn secs(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}
