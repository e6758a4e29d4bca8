//! The scheduler: claims, limits, and that nobody's trouble is another one's.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard},
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{future::join_all, stream};
use holdfast_core::{
    ApiClient, AppId, Provider, Secret,
    credential::{Trouble, Version},
    error::{Error, Result},
    exchange::{Refusal, Verdict},
    health::Health,
    ports::{Body, ClaimDue, DueStore as _, Http, HttpFailure, HttpRequest, HttpResponse},
    provider::{About, Account, ApiAnswer, Auth, AuthKind, Identity, Invalid, OAuth2, RefreshLife},
    refresh::schedule::Allowance,
    testkit::Script,
    tool::{ToolCall, ToolOutput},
};
use http::StatusCode;
use serde_json::json;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use url::form_urlencoded;

use super::*;

/// Two providers, each an adapter like the fake one, with a token endpoint of its own.
struct Named {
    about: &'static About,
    fake: FakeProvider,
}

macro_rules! about {
    ($id:literal) => {
        About {
            id: $id,
            name: $id,
            line: "For tests",
            auth_kind: AuthKind::OAuth2,
            account_label: "Account",
            account_example: "acme",
            account_rule: "any label",
            key_help: None,
            app_steps: &[],
            scopes: &[],
            tools: &[],
            test_call: "GET /me",
        }
    };
}

static QUICK: About = about!("quick");
static SLOW: About = about!("slow");

impl Named {
    fn provider(about: &'static About) -> Arc<dyn Provider> {
        Self::with(about, |_| {})
    }

    fn with(about: &'static About, change: impl FnOnce(&mut OAuth2)) -> Arc<dyn Provider> {
        let mut fake = FakeProvider::new();
        fake.facts.token_url = format!("https://{}.test/token", about.id).parse().unwrap();
        change(&mut fake.facts);
        Arc::new(Self { about, fake })
    }
}

#[async_trait]
impl Provider for Named {
    fn about(&self) -> &'static About {
        self.about
    }

    fn account(&self, typed: &str) -> std::result::Result<Account, Invalid> {
        self.fake.account(typed)
    }

    fn auth(&self, account: &Account) -> Auth {
        self.fake.auth(account)
    }

    fn verdict(&self, refusal: &Refusal) -> Option<Verdict> {
        self.fake.verdict(refusal)
    }

    fn api_error(&self, operation: &'static str, answer: &ApiAnswer) -> Error {
        self.fake.api_error(operation, answer)
    }

    async fn identity(&self, api: &ApiClient) -> Result<Identity> {
        self.fake.identity(api).await
    }

    async fn call(&self, api: &ApiClient, call: &ToolCall) -> Result<ToolOutput> {
        self.fake.call(api, call).await
    }
}

/// What one endpoint saw.
#[derive(Clone, Default)]
struct Seen {
    open: usize,
    most_open: usize,
    /// Uptime and refresh token of each request that was answered with a token.
    served: Vec<(Duration, String)>,
    busy: usize,
}

/// Token endpoints of many accounts: each refresh token works once, where nothing else is set.
struct Crowd {
    clock: Arc<PausedClock>,
    takes: HashMap<&'static str, Duration>,
    /// Served in a second; more are told to wait for 5 s.
    per_second: Option<usize>,
    /// What answers say of the access token's life.
    life: serde_json::Value,
    /// Refresh tokens live for so long, and are replaced by a refresh in so much of its end only.
    replaces: Option<(Duration, Duration)>,
    seen: Mutex<HashMap<String, Seen>>,
}

impl Crowd {
    fn new(clock: &Arc<PausedClock>, takes: &[(&'static str, Duration)]) -> Self {
        let takes = takes.iter().copied().collect();
        let seen = Mutex::default();
        Self { clock: Arc::clone(clock), takes, per_second: None, life: json!(3600), replaces: None, seen }
    }

    /// The refresh token that is there after this one was presented.
    fn next(&self, presented: &str, seen: &Seen, now: Duration) -> String {
        let Some((life, window)) = self.replaces else {
            assert!(seen.served.iter().all(|(_, before)| before != presented), "{presented} was presented twice");
            return format!("{presented}'");
        };
        let born =
            presented.rsplit('@').next().and_then(|secs| secs.parse().ok()).map_or(Duration::ZERO, Duration::from_secs);
        assert!(now - born < life, "{presented} has died");
        if now - born < life - window { presented.to_owned() } else { format!("RT@{}", now.as_secs()) }
    }

    fn seen(&self, provider: &str) -> Seen {
        self.lock().get(provider).cloned().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Seen>> {
        self.seen.lock().unwrap()
    }
}

#[async_trait]
impl Http for Crowd {
    async fn send(&self, request: HttpRequest) -> std::result::Result<HttpResponse, HttpFailure> {
        let provider = request.url.host_str().unwrap().trim_end_matches(".test").to_owned();
        let Body::Bytes(body) = &request.body else { panic!("a form is in memory") };
        let fields: HashMap<_, _> = form_urlencoded::parse(body).into_owned().collect();
        let presented = fields["refresh_token"].clone();
        let now = self.clock.uptime();
        let (status, answer) = {
            let mut all = self.lock();
            let seen = all.entry(provider.clone()).or_default();
            seen.open += 1;
            seen.most_open = seen.most_open.max(seen.open);
            let lately = seen.served.iter().rev().take_while(|(at, _)| now - *at < Duration::from_secs(1)).count();
            if self.per_second.is_some_and(|most| lately >= most) {
                seen.busy += 1;
                (429, json!({"error": "slow_down"}))
            } else {
                let next = self.next(&presented, seen, now);
                seen.served.push((now, presented.clone()));
                (200, json!({"access_token": format!("AT-{next}"), "refresh_token": next, "expires_in": self.life}))
            }
        };
        self.clock.sleep(self.takes[provider.as_str()]).await;
        self.lock().get_mut(&provider).unwrap().open -= 1;
        let mut headers = http::HeaderMap::new();
        if status == 429 {
            headers.insert("retry-after", "5".parse().unwrap());
        }
        let body = Box::pin(stream::iter([Ok(Bytes::from(answer.to_string()))]));
        Ok(HttpResponse { status: StatusCode::from_u16(status).unwrap(), headers, body })
    }
}

/// A rig whose connectors belong to a crowd of accounts at two providers.
struct CrowdRig {
    rig: Rig,
    crowd: Arc<Crowd>,
    providers: Vec<Arc<dyn Provider>>,
}

type Member = (Arc<Engine>, Arc<Replica>);

impl CrowdRig {
    fn new(takes: &[(&'static str, Duration)]) -> Self {
        Self::with(takes, |_| {})
    }

    fn with(takes: &[(&'static str, Duration)], change: impl FnOnce(&mut Crowd)) -> Self {
        let mut rig = Rig::new();
        // As in a process that has stored sets of all of them.
        rig.settings.unstored_limit = 10_000;
        let mut crowd = Crowd::new(&rig.clock, takes);
        change(&mut crowd);
        let providers = vec![Named::provider(&QUICK), Named::provider(&SLOW)];
        Self { rig, crowd: Arc::new(crowd), providers }
    }

    fn replica(&self, name: &str) -> Member {
        let replica = self.rig.store.replica();
        let ports = Ports {
            clock: self.rig.clock.clone(),
            random: Arc::new(SeededRandom::new(name.bytes().map(u64::from).sum())),
            http: self.crowd.clone(),
            store: replica.clone(),
            lifeboat: self.rig.boat(name),
            leases: replica.clone(),
            signals: replica.clone(),
            apps: self.rig.app.clone(),
            meter: Arc::new(NoMeter),
        };
        let engine = Engine::new(ports, self.rig.settings, Providers::new(self.providers.clone()), name.to_owned());
        (engine, replica)
    }

    /// Connectors of one provider whose access tokens live for so long.
    fn connect(&self, provider: &str, count: usize, life: Duration) -> Vec<ConnectorId> {
        let connect = |number: usize| {
            let name = format!("{provider}{number:04}");
            let connector = self.rig.store.connect(&name, &(format!("AT-{name}"), format!("RT-{name}")), life);
            self.rig.store.change(&connector, |row| {
                provider.clone_into(&mut row.provider);
                row.credential.app = AppId::instance(provider);
            });
            connector
        };
        (0..count).map(connect).collect()
    }

    /// Makes them due at this moment.
    fn due_now(&self, connectors: &[ConnectorId]) {
        for connector in connectors {
            let now = self.rig.clock.now();
            self.rig.store.change(connector, |row| row.credential.due_at = Some(now));
        }
    }

    fn refreshed(&self, connectors: &[ConnectorId]) -> usize {
        connectors.iter().filter(|connector| self.rig.store.row(connector).credential.version > Version(1)).count()
    }
}

/// A scheduler on a task, as in a replica that serves.
fn serve((engine, replica): &Member, settings: ScheduleSettings) -> CancellationToken {
    let stop = CancellationToken::new();
    let (scheduler, stopped) = (Scheduler::new(Arc::clone(engine), replica.clone(), settings), stop.clone());
    tokio::spawn(async move { scheduler.run(&Notify::new(), &stopped).await });
    stop
}

fn limit(at_once: u32, per_second: Option<f64>) -> ScheduleSettings {
    ScheduleSettings { allowance: Allowance { at_once, per_second }, ..ScheduleSettings::default() }
}

const TENTH: Duration = Duration::from_millis(100);

#[tokio::test(start_paused = true)]
async fn the_scheduler_refreshes_what_is_due_once_and_ahead_of_expiry() {
    let rig = Rig::new();
    let (one, two) = (rig.replica("a"), rig.replica("b"));
    let connector = rig.store.connect("con", &rig.endpoint.grant(), HOUR);
    let (mut first, mut second) = (scheduler(&one), scheduler(&two));
    assert_eq!(first.round().await.unwrap(), 0);
    rig.pass(Duration::from_mins(57)).await;

    let (a, b) = tokio::join!(first.round(), second.round());

    assert_eq!(a.unwrap() + b.unwrap(), 1);
    assert_eq!(rig.spent(), ["RT1"]);
    assert_eq!(ask_token(&one.0, &connector).await, "AT2");
    assert_eq!(first.round().await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn connectors_whose_refresh_cannot_begin_keep_no_other_one_waiting() {
    let rig = Rig::new();
    let replica = rig.replica("a");
    for n in 0..10 {
        let broken = rig.expired_connector(&format!("broken{n}"));
        rig.store.change(&broken, |row| row.credential.secret = Secret::Unreadable);
    }
    let fine = rig.expired_connector("fine");

    assert_eq!(scheduler(&replica).round().await.unwrap(), 1);
    assert_eq!(scheduler(&replica).round().await.unwrap(), 0, "the others rest");

    assert_eq!(rig.store.row(&fine).credential.version, Version(2));
    assert_eq!(rig.store.row(&"broken3".into()).credential.degraded.unwrap().class, Trouble::Ours);
}

/// At one provider, too: an own app has limits of its own there.
#[tokio::test(start_paused = true)]
async fn an_org_with_an_own_app_waits_for_nobody_elses() {
    let rig = CrowdRig::new(&[("slow", Duration::from_secs(19))]);
    let all = rig.connect("slow", 510, HOUR);
    let (instance, own) = all.split_at(500);
    for connector in own {
        let app = AppId::own("slow", "org".into(), "client");
        rig.rig.store.change(connector, |row| row.credential.app = app);
    }
    rig.due_now(instance);
    rig.rig.pass(Duration::from_millis(1)).await;
    rig.due_now(own);

    let _stop = serve(&rig.replica("a"), ScheduleSettings::default());
    rig.rig.pass(Duration::from_secs(1)).await;
    assert_eq!(rig.crowd.seen("slow").open, 64 + 10, "both lanes have begun");
    rig.rig.pass(Duration::from_secs(19)).await;

    assert_eq!((rig.refreshed(own), rig.refreshed(instance)), (10, 64));
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_is_slow_delays_no_other_one() {
    let rig = CrowdRig::new(&[("quick", TENTH), ("slow", Duration::from_secs(19))]);
    let slow = rig.connect("slow", 500, HOUR);
    let quick = rig.connect("quick", 200, HOUR);
    rig.due_now(&slow);
    rig.rig.pass(Duration::from_millis(1)).await;
    rig.due_now(&quick);

    let _stop = serve(&rig.replica("a"), ScheduleSettings::default());
    rig.rig.pass(Duration::from_secs(1)).await;

    assert_eq!((rig.refreshed(&quick), rig.refreshed(&slow)), (200, 0));
    assert_eq!(rig.crowd.seen("slow").open, 64, "it has all of its own slots");
}

#[tokio::test(start_paused = true)]
async fn replicas_share_the_limits_of_an_app() {
    let rig = CrowdRig::new(&[("quick", TENTH)]);
    let connectors = rig.connect("quick", 300, HOUR);
    rig.due_now(&connectors);
    let names = ["a", "b", "c", "d"];
    rig.rig.store.live(&names);

    let stops: Vec<_> = names.iter().map(|name| serve(&rig.replica(name), limit(10, None))).collect();
    rig.rig.pass(Duration::from_millis(3500)).await;

    assert_eq!(rig.crowd.seen("quick").most_open, 10);
    assert_eq!(rig.refreshed(&connectors), 300, "they use it up: 30 rounds of a tenth of a second");
    stops.iter().for_each(CancellationToken::cancel);
}

#[tokio::test(start_paused = true)]
async fn replicas_share_the_rate_of_an_app() {
    let rig = CrowdRig::new(&[("quick", TENTH)]);
    let connectors = rig.connect("quick", 300, HOUR);
    rig.due_now(&connectors);
    rig.rig.store.live(&["a", "b"]);

    let _stops = ["a", "b"].map(|name| serve(&rig.replica(name), limit(64, Some(20.0))));
    rig.rig.pass(Duration::from_secs(10)).await;

    let served = rig.crowd.seen("quick").served;
    assert!((190..=205).contains(&served.len()), "{} in ten seconds at 20 a second", served.len());
    let in_a_second =
        |from: Duration| served.iter().filter(move |(at, _)| (from..from + Duration::from_secs(1)).contains(at));
    let most = served.iter().map(|(at, _)| in_a_second(*at).count()).max().unwrap();
    assert!(most <= 24, "{most} in one second");
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_replica_has_claimed_is_taken_over_in_bounded_time() {
    let rig = CrowdRig::new(&[("quick", TENTH)]);
    let connectors = rig.connect("quick", 20, HOUR);
    rig.due_now(&connectors);
    let (dead, alive) = (rig.replica("dead"), rig.replica("alive"));
    let settings = ScheduleSettings::default();
    let now = rig.rig.clock.now();
    let claim = ClaimDue { app: &AppId::instance("quick"), now, holder: "dead", ttl: settings.claim, limit: 12 };
    assert_eq!(dead.1.claim_due(&claim).await.unwrap().len(), 12);

    let claimed_for = settings.claim;
    let _stop = serve(&alive, settings);
    rig.rig.pass(Duration::from_secs(2)).await;
    assert_eq!(rig.refreshed(&connectors), 8, "those are somebody's");
    rig.rig.pass(claimed_for).await;

    assert_eq!(rig.refreshed(&connectors), 20);
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_stops_gives_back_what_it_has_not_begun() {
    let rig = CrowdRig::new(&[("quick", Duration::from_secs(10))]);
    let connectors = rig.connect("quick", 8, HOUR);
    rig.due_now(&connectors);
    let (one, two) = (rig.replica("a"), rig.replica("b"));
    let stop = serve(&one, limit(4, None));
    rig.rig.pass(TENTH).await;

    stop.cancel();
    rig.rig.pass(TENTH).await;
    let _stop = serve(&two, limit(4, None));
    rig.rig.pass(Duration::from_secs(11)).await;

    assert_eq!(rig.refreshed(&connectors), 8, "four by each, at once");
}

/// EX-08
#[tokio::test(start_paused = true)]
async fn after_an_outage_a_provider_that_takes_ten_a_second_gets_everybody_fresh() {
    let rig = CrowdRig::with(&[("quick", Duration::from_millis(20))], |crowd| crowd.per_second = Some(10));
    let connectors = rig.connect("quick", 500, HOUR);
    rig.rig.pass(HOUR * 3).await;
    let names = ["a", "b", "c"];
    rig.rig.store.live(&names);

    let replicas: Vec<_> = names.iter().map(|name| rig.replica(name)).collect();
    for replica in &replicas {
        serve(replica, ScheduleSettings::default());
    }
    rig.rig.pass(Duration::from_secs(30)).await;
    // Callers do not wait for the scheduler's turn, nor for a time that nobody needs.
    let asked = join_all(connectors[400..405].iter().map(|connector| ask(&replicas[0].0, connector))).await;
    rig.rig.pass(Duration::from_mins(6)).await;

    assert!(asked.iter().filter(|answer| answer.is_ok()).count() >= 3, "{asked:?}");
    assert_eq!(rig.refreshed(&connectors), 500);
    assert!(connectors.iter().all(|connector| rig.rig.store.row(connector).health == Health::Connected));
    let seen = rig.crowd.seen("quick");
    assert!(seen.busy < 250, "{} of the requests were too many", seen.busy);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_is_busy_is_asked_less_and_not_in_vain() {
    let rig = CrowdRig::with(&[("quick", Duration::from_millis(20))], |crowd| crowd.per_second = Some(10));
    let connectors = rig.connect("quick", 500, HOUR);
    rig.due_now(&connectors);

    let _stop = serve(&rig.replica("a"), ScheduleSettings::default());
    rig.rig.pass(Duration::from_mins(2)).await;

    let seen = rig.crowd.seen("quick");
    assert_eq!(rig.refreshed(&connectors), 500, "{} were told to wait", seen.busy);
    assert!(seen.busy < 500, "{} were told to wait", seen.busy);
}

#[tokio::test(start_paused = true)]
async fn what_was_missed_is_caught_up_spread_out_and_what_still_lives_goes_first() {
    let rig = CrowdRig::new(&[("quick", TENTH)]);
    let over = rig.connect("quick", 300, HOUR);
    rig.rig.pass(HOUR * 3).await;
    let living = (0..50).map(|number| {
        let name = format!("living{number:02}");
        let connector = rig.rig.store.connect(&name, &(format!("AT-{name}"), format!("RT-{name}")), HOUR);
        rig.rig.store.change(&connector, |row| "quick".clone_into(&mut row.provider));
        connector
    });
    let living: Vec<_> = living.collect();
    rig.due_now(&living);

    let _stop = serve(&rig.replica("a"), ScheduleSettings::default());
    rig.rig.pass(Duration::from_secs(1)).await;
    assert_eq!(rig.refreshed(&living), 50, "before their tokens end");
    let mut minutes = Vec::new();
    for _ in 0..5 {
        let before = rig.refreshed(&over);
        rig.rig.pass(Duration::from_mins(1)).await;
        minutes.push(rig.refreshed(&over) - before);
    }

    assert_eq!(rig.refreshed(&over), 300);
    assert!(minutes.iter().all(|minute| (30..100).contains(minute)), "over five minutes: {minutes:?}");
}

/// EX-09: idle connectors, whether anything uses them or not.
#[tokio::test(start_paused = true)]
async fn a_connector_that_nobody_asks_for_outlives_the_idle_limit_of_its_refresh_token() {
    let rig = CrowdRig::new(&[("quick", TENTH)]);
    let connector = rig.connect("quick", 1, HOUR).pop().unwrap();
    let replica = rig.replica("a");
    let _stop = serve(&replica, ScheduleSettings { interval: Duration::from_mins(5), ..ScheduleSettings::default() });

    rig.rig.pass(Duration::from_hours(24 * 120)).await;

    assert_eq!(ask_token(&replica.0, &connector).await, token(&rig.rig.store.row(&connector)));
    let times: Vec<_> = rig.crowd.seen("quick").served.into_iter().map(|(at, _)| at).collect();
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] < HOUR), "an access token ended in between");
}

/// EX-09, where nothing but idleness ends: the access token never does.
#[tokio::test(start_paused = true)]
async fn a_refresh_token_that_dies_of_idleness_is_kept_alive_and_one_that_dies_of_age_is_left_alone() {
    const DAY: Duration = Duration::from_hours(24);
    let mut rig = CrowdRig::with(&[("quick", TENTH), ("slow", TENTH)], |crowd| crowd.life = serde_json::Value::Null);
    let lasting = |life: RefreshLife| {
        move |facts: &mut OAuth2| {
            facts.expires_in_default = None;
            facts.refresh_life = life;
        }
    };
    rig.providers = vec![
        Named::with(&QUICK, lasting(RefreshLife::Idle(DAY * 30))),
        Named::with(&SLOW, lasting(RefreshLife::Age(DAY * 365))),
    ];
    let (idle, aging) = (rig.connect("quick", 1, HOUR), rig.connect("slow", 1, HOUR));
    // The first refresh brings tokens without an end.
    rig.rig.store.change(&idle[0], never_ends);
    rig.rig.store.change(&aging[0], never_ends);
    let both = [idle[0].clone(), aging[0].clone()];
    rig.due_now(&both);
    let replica = rig.replica("a");
    let _stop = serve(&replica, ScheduleSettings { interval: HOUR, ..ScheduleSettings::default() });

    rig.rig.pass(DAY * 120).await;

    let served = rig.crowd.seen("quick").served;
    assert!((7..=9).contains(&served.len()), "{} exchanges in 120 days", served.len());
    assert!(served.windows(2).all(|pair| pair[1].0 - pair[0].0 < DAY * 16), "well inside of 30 days");
    assert_eq!(rig.crowd.seen("slow").served.len(), 1, "nothing is won by refreshing it");
    assert_eq!(rig.rig.store.row(&aging[0]).credential.due_at, None);
    let _token = ask(&replica.0, &idle[0]).await.unwrap();
}

/// EX-09, where a refresh brings another refresh token only near the end of the one that is there.
#[tokio::test(start_paused = true)]
async fn a_refresh_token_that_is_replaced_near_its_end_is_refreshed_there_until_another_one_comes() {
    const DAY: Duration = Duration::from_hours(24);
    let mut rig = CrowdRig::with(&[("quick", TENTH)], |crowd| {
        crowd.life = serde_json::Value::Null;
        // Two days later than the adapter begins to hope for it.
        crowd.replaces = Some((DAY * 60, DAY * 2));
    });
    rig.providers = vec![Named::with(&QUICK, |facts| {
        facts.expires_in_default = None;
        facts.refresh_life = RefreshLife::Replaced { life: DAY * 60, window: DAY * 4 };
    })];
    let connector = rig.connect("quick", 1, HOUR).remove(0);
    rig.rig.store.change(&connector, never_ends);
    rig.due_now(std::slice::from_ref(&connector));
    let replica = rig.replica("a");
    let _stop = serve(&replica, ScheduleSettings { interval: HOUR, ..ScheduleSettings::default() });

    rig.rig.pass(DAY * 200).await;

    let served = rig.crowd.seen("quick").served;
    let tokens: std::collections::BTreeSet<_> = served.iter().map(|(_, token)| token).collect();
    assert_eq!(tokens.len(), 3, "one every 58 days: {served:?}");
    assert!((13..=18).contains(&served.len()), "some of the refreshes came too early: {served:?}");
    let row = rig.rig.store.row(&connector);
    assert_eq!(row.health, Health::Connected);
    assert_eq!(row.credential.secret.tokens().unwrap().ends_at(), None, "nobody has to be told");
}

fn never_ends(row: &mut Snapshot) {
    if let Secret::Tokens(tokens) = &mut row.credential.secret {
        tokens.expires_at = None;
    }
}

/// EX-02: the last known life stands in for the one that is missing, and the token is renewed ahead of it.
#[tokio::test(start_paused = true)]
async fn one_answer_without_a_life_does_not_switch_the_scheduler_off() {
    let rig = Rig::new();
    let replica = rig.replica("a");
    let connector = rig.store.connect("con", &rig.endpoint.grant(), HOUR);
    rig.endpoint.script([
        Script::Changed(json!({"expires_in": 3600})),
        Script::Changed(json!({"expires_in": null})),
        Script::Changed(json!({"expires_in": 3600})),
    ]);
    let _stop = serve(&replica, ScheduleSettings::default());

    rig.pass(HOUR * 3).await;

    let times: Vec<_> = rig.endpoint.posts().into_iter().map(|post| post.at).collect();
    assert!(times.len() >= 3, "{times:?}");
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] < HOUR), "each before the hour was over: {times:?}");
    assert_eq!(rig.store.row(&connector).health, Health::Connected);
}
