//! What the core needs from outside: time, randomness, HTTP, stores, leases, signals. Each is passed in.

use std::{fmt, pin::Pin, time::Duration};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use chrono::{DateTime, Utc};
use futures::{Stream, StreamExt};
use http::{HeaderMap, Method, StatusCode, uri::PathAndQuery};
use secrecy::SecretString;
use tokio::sync::broadcast;
use url::Url;

use crate::{
    credential::{Reason, Snapshot, TokenSet, Trouble, Version},
    id::{AgentId, ConnectorId, CredentialId, ExchangeId, OrgId},
    oauth_app::AppId,
    provider::Found,
    refresh::OutcomeKind,
};

/// Time.
#[async_trait]
pub trait Clock: Send + Sync + 'static {
    /// The wall clock; for moments that are stored and shown.
    fn now(&self) -> DateTime<Utc>;
    /// Grows steadily, also through a suspend of the machine, and never steps; for deadlines.
    fn uptime(&self) -> Duration;
    /// Waits.
    async fn sleep(&self, duration: Duration);
}

/// Randomness, fit for secrets.
pub trait Random: Send + Sync + 'static {
    /// Fills the buffer.
    fn fill(&self, buffer: &mut [u8]);

    /// Even in `0.0..1.0`.
    fn unit(&self) -> f64 {
        let mut bytes = [0; 4];
        self.fill(&mut bytes);
        f64::from(u32::from_le_bytes(bytes)) / (f64::from(u32::MAX) + 1.0)
    }
}

/// A stream of body chunks.
pub type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes, HttpFailure>> + Send>>;

/// A request's body.
pub enum Body {
    /// In memory: the request can be repeated.
    Bytes(Bytes),
    /// Read from elsewhere as it is sent: it can be sent once.
    Once(ByteStream),
}

impl Body {
    /// No body.
    pub fn empty() -> Self {
        Self::Bytes(Bytes::new())
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::Once(_) => f.write_str("a stream"),
        }
    }
}

/// A request to a provider. Its `Debug` shows no header and no query: they may hold secrets.
pub struct HttpRequest {
    /// Method.
    pub method: Method,
    /// Absolute URL.
    pub url: Url,
    /// For a request that is passed through: path and query to be sent byte for byte, in place of the URL's. Its answer's
    /// body comes as it was sent, compressed or not. `None`: the URL's own, and a compressed body is read for the caller.
    pub exact: Option<PathAndQuery>,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Body,
    /// From the start of the connection, or from the last piece of a streamed body that was taken, to the answer's head; the
    /// answer's body has the same time again between chunks.
    pub timeout: Duration,
}

impl fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}{}", self.method, self.url.host_str().unwrap_or_default(), self.url.path())
    }
}

/// A provider's answer; redirects are answers and are never followed.
pub struct HttpResponse {
    /// Status.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: ByteStream,
}

impl HttpResponse {
    /// Reads the body, at most `limit_bytes`; a longer one is a [`HttpFailure`].
    pub async fn bytes(mut self, limit_bytes: usize) -> Result<Bytes, HttpFailure> {
        let mut all = BytesMut::new();
        while let Some(chunk) = self.body.next().await {
            let chunk = chunk?;
            if all.len() + chunk.len() > limit_bytes {
                return Err(HttpFailure::after_send(format!("the answer is longer than {limit_bytes} bytes")));
            }
            all.extend_from_slice(&chunk);
        }
        Ok(all.freeze())
    }
}

/// No answer, or half of one. The message never holds a URL's query.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct HttpFailure {
    /// Whether the provider may have seen the request.
    pub sent: Sent,
    /// What happened.
    pub message: String,
}

/// Whether the provider may have seen a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Surely not: DNS, connect or TLS failed.
    No,
    /// It may have.
    Maybe,
}

impl HttpFailure {
    /// The request surely did not reach the provider.
    pub fn before_send(message: impl Into<String>) -> Self {
        Self { sent: Sent::No, message: message.into() }
    }

    /// The request may have reached the provider.
    pub fn after_send(message: impl Into<String>) -> Self {
        Self { sent: Sent::Maybe, message: message.into() }
    }
}

/// HTTP to providers: guarded against private addresses, no redirects, no proxy.
#[async_trait]
pub trait Http: Send + Sync + 'static {
    /// Sends it once.
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpFailure>;
}

/// The database, the lease store or a key is in trouble: ours, never counted against a connector.
#[derive(Debug, thiserror::Error)]
#[error("{doing}")]
pub struct StoreError {
    /// What was tried, for people.
    pub doing: String,
    /// The cause, for the log.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl StoreError {
    /// Without a cause.
    pub fn new(doing: impl Into<String>) -> Self {
        Self { doing: doing.into(), source: None }
    }
}

/// A bounded, owned right to refresh one credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// What it is for.
    pub credential: CredentialId,
    /// Who holds it: the replica.
    pub holder: String,
    /// Grows with each acquisition; from the database, whatever the lease store.
    pub fencing_token: i64,
    /// Its end by the *database's* clock, in milliseconds since 1970.
    pub expires_at_ms: i64,
}

/// An attempt to get a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// Ours.
    Yes(Lease),
    /// Somebody's; this much of it is left.
    Held {
        /// By the store's clock.
        remaining: Duration,
    },
}

/// Leases, by the store's own clock. No connection is held while one is.
#[async_trait]
pub trait LeaseStore: Send + Sync + 'static {
    /// Takes the lease if it is free or over. An error is no lease: nothing may be sent.
    async fn acquire(&self, credential: &CredentialId, holder: &str, ttl: Duration) -> Result<Acquired, StoreError>;
    /// Extends it, only if this very acquisition still holds it; `None`: it does not.
    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Option<Lease>, StoreError>;
    /// Ends it, only if this very acquisition still holds it.
    async fn release(&self, lease: &Lease) -> Result<(), StoreError>;
    /// The lease as it is, if somebody has it.
    async fn current(&self, credential: &CredentialId) -> Result<Option<Lease>, StoreError>;
}

/// What a lease needs from the database wherever else it is kept: its number, and its end by the database's clock, which
/// the journal notes.
#[async_trait]
pub trait Fences: Send + Sync + 'static {
    /// The next fencing token, for a lease of `ttl` that has just been taken elsewhere. [`Acquired::Held`]: the database
    /// has a lease that lasts, of a replica that keeps its leases there.
    async fn draw(&self, credential: &CredentialId, holder: &str, ttl: Duration) -> Result<Acquired, StoreError>;
    /// The lease that was numbered last, whether it lasts or not; its end is not known here.
    async fn drawn(&self, credential: &CredentialId) -> Result<Option<Lease>, StoreError>;
    /// The end of a lease of `ttl` that begins now, as in [`Lease::expires_at_ms`].
    async fn end_of(&self, ttl: Duration) -> Result<i64, StoreError>;
}

/// What made an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// A caller needed a token.
    Caller,
    /// A caller's token was rejected by the API.
    Rejected,
    /// The scheduler, ahead of expiry.
    Schedule,
    /// A person pressed Test.
    Test,
    /// A person's new grant: a code exchange.
    Grant,
}

impl Trigger {
    /// The stable word in the journal.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::Rejected => "rejected",
            Self::Schedule => "schedule",
            Self::Test => "test",
            Self::Grant => "grant",
        }
    }

    /// Reads [`Self::as_str`] back.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Caller, Self::Rejected, Self::Schedule, Self::Test, Self::Grant]
            .into_iter()
            .find(|trigger| trigger.as_str() == word)
    }
}

/// An exchange, as journalled before it is sent.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The journal row.
    pub id: ExchangeId,
    /// Of what.
    pub credential: CredentialId,
    /// For which connector it was started.
    pub connector: ConnectorId,
    /// Whose.
    pub org: OrgId,
    /// The version that was read under the lease: what the result replaces.
    pub version: Version,
    /// The lease it is sent under.
    pub lease: Lease,
    /// Why.
    pub trigger: Trigger,
    /// When, by our clock.
    pub started_at: DateTime<Utc>,
}

/// An attempt to open the journal row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It is open, and it is the only open one of this credential.
    Yes,
    /// Another one is open.
    Other(OpenExchange),
    /// The credential moved: another version, or its connector is not usable any more.
    Moved,
}

/// An exchange that somebody else journalled and has not closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenExchange {
    /// The journal row.
    pub id: ExchangeId,
    /// Who.
    pub holder: String,
    /// Whether the holder gave a sign of life lately, by the database's clock.
    pub holder_alive: bool,
    /// Whether its line to the database is open. A process that dies loses it at once; one that lives may lose it too.
    pub holder_connected: bool,
    /// How long ago the lease that it was sent under ended; zero while it lasts.
    pub lease_over_for: Duration,
}

/// Why nobody is taken to work on an open row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Its holder gives no sign of life.
    Silent,
    /// Its holder has lost its line to the database, or gives no sign of life: enough inside a provider's reuse grace.
    CutOff,
    /// Its holder is this very process, which does not work on it: a database that was restored, or that failed over and
    /// lost its last commits, has forgotten what we wrote.
    Forgotten,
}

/// What is known of whoever holds a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// See [`OpenExchange::holder_alive`].
    pub alive: bool,
    /// See [`OpenExchange::holder_connected`].
    pub connected: bool,
    /// Whether an exchange of the credential is journalled open, by whomever.
    pub exchanging: bool,
}

/// How a journal row is closed without a new token set.
#[derive(Clone, Debug)]
pub struct Close {
    /// What came of it.
    pub outcome: OutcomeKind,
    /// The provider's or our words, without secrets, at most 300 characters.
    pub detail: Option<String>,
    /// Token requests that were sent under this row.
    pub sends: u32,
    /// How long it took.
    pub duration: Duration,
    /// When, by our clock.
    pub at: DateTime<Utc>,
    /// Marks that go to the credential, if it is still at the exchange's version.
    pub marks: Option<Marks>,
}

/// Marks on a credential after an exchange that brought nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks {
    /// The mark beside health; keeps its `since` while the class stays.
    pub trouble: Trouble,
    /// No exchange before this.
    pub retry_at: DateTime<Utc>,
    /// In a row.
    pub failures: u32,
    /// An answer may be lost.
    pub answer_lost: bool,
}

/// A success to be stored.
#[derive(Clone, Debug)]
pub struct Rotation {
    /// The new set, merged with what the answer did not carry.
    pub tokens: TokenSet,
    /// Next time for the scheduler.
    pub due_at: Option<DateTime<Utc>>,
    /// Token requests that were sent under this row.
    pub sends: u32,
    /// How long it took.
    pub duration: Duration,
    /// When, by our clock.
    pub at: DateTime<Utc>,
}

/// What became of a success.
#[derive(Clone, Debug)]
pub enum Stored {
    /// Written; the snapshot as committed. A connector in `auth_failed` stays there until its test call passes.
    Yes(Box<Snapshot>),
    /// Somebody newer wrote: theirs stays, ours is dropped.
    Superseded,
    /// The connector is disconnected or gone: ours is discarded, and should be revoked.
    Gone,
}

/// A verdict to be declared: `connected` to `auth_failed`.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The version that the provider refused.
    pub version: Version,
    /// Why.
    pub reason: Reason,
    /// The provider's words, without secrets, at most 300 characters.
    pub detail: Option<String>,
    /// When, by our clock.
    pub at: DateTime<Utc>,
}

/// A provider refuses many at once: what all replicas know of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incident {
    /// Since when.
    pub since: DateTime<Utc>,
    /// It is over, and what is refused is failed again.
    pub passed: bool,
    /// Credentials whose verdict is held now.
    pub held: u64,
    /// Credentials whose verdict was held, and which the provider has taken since.
    pub recovered: u64,
}

/// Whether a conditional change happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// It did.
    Yes,
    /// The record had moved: nothing was written.
    No,
}

/// Credentials and their journal. Every write is one transaction, conditional on what was read.
#[async_trait]
pub trait CredentialStore: Send + Sync + 'static {
    /// The connector with its credential, as committed. `None`: there is no such connector.
    async fn load(&self, connector: &ConnectorId) -> Result<Option<Snapshot>, StoreError>;

    /// Opens the journal row, if the credential is still at `exchange.version`, its connector is `connected` (or in
    /// `auth_failed`, for a [`Trigger::Test`]), and no other row of this credential is open.
    async fn begin(&self, exchange: &Exchange) -> Result<Begun, StoreError>;

    /// Notes a renewed lease on the open row, so that its end stays true.
    async fn extend(&self, exchange: &ExchangeId, lease: &Lease) -> Result<(), StoreError>;

    /// Stores a success where the version is still the exchange's, clears back-off, `degraded` and `answer_lost`, and
    /// closes the row (also when superseded or gone). Not stopped by a lapsed lease, by a failure mark set meanwhile,
    /// or by the row's having been closed as orphaned.
    async fn store_rotation(&self, exchange: &Exchange, rotation: &Rotation) -> Result<Stored, StoreError>;

    /// Closes the row without a new set. One that is not there is written as closed: a [`begin`](Self::begin) that was
    /// given up and is still on its way opens nothing after that.
    async fn close(&self, exchange: &Exchange, close: &Close) -> Result<(), StoreError>;

    /// Closes a row that nobody works on any more as [`OutcomeKind::OwnerLost`] and marks the credential `answer_lost`, if
    /// it is still open and this is still so of its holder.
    async fn close_lost(&self, open: &ExchangeId, loss: Loss, at: DateTime<Utc>) -> Result<Changed, StoreError>;

    /// What is known of who holds this lease.
    async fn holder(&self, lease: &Lease) -> Result<Holder, StoreError>;

    /// Open rows whose holders give no sign of life or have lost their line to the database, and our own whose lease has
    /// ended, with their connectors; at most `limit`.
    async fn lost(&self, limit: u64) -> Result<Vec<(ConnectorId, OpenExchange)>, StoreError>;

    /// Keeps the second answer to a token whose first one is stored, if that is still the credential's newest set and came
    /// from an exchange, not from a person's grant. See [`Self::spare`].
    async fn keep_spare(&self, exchange: &Exchange, tokens: &TokenSet) -> Result<Changed, StoreError>;

    /// Another set that the provider issued for the same token as the one of this version.
    async fn spare(
        &self,
        org: &OrgId,
        credential: &CredentialId,
        version: Version,
    ) -> Result<Option<TokenSet>, StoreError>;

    /// `auth_failed` for every connector on this credential that is `connected`, if the credential is still at that version,
    /// with the effects of the change in the outbox. Closes `exchange` (as [`Close`] says) in the same transaction.
    async fn fail(
        &self,
        credential: &CredentialId,
        failure: &Failure,
        exchange: Option<(&Exchange, &Close)>,
    ) -> Result<Changed, StoreError>;

    /// The test call passed with this version: `auth_failed` back to `connected`, with the effects in the outbox.
    async fn heal(
        &self,
        connector: &ConnectorId,
        version: Version,
        event: crate::health::Event,
        at: DateTime<Utc>,
    ) -> Result<Changed, StoreError>;

    /// Keeps what was found for a grant that came without it, if the credential is still at this version. Moves no version.
    async fn keep_found(&self, connector: &ConnectorId, version: Version, found: &Found)
    -> Result<Changed, StoreError>;

    /// A connector that is due at `now` and has no back-off left gets one until `until`, and is marked. Else nothing
    /// changes.
    async fn postpone(
        &self,
        connector: &ConnectorId,
        trouble: Trouble,
        now: DateTime<Utc>,
        until: DateTime<Utc>,
    ) -> Result<(), StoreError>;

    /// The last incident of this OAuth app.
    async fn incident(&self, app: &AppId) -> Result<Option<Incident>, StoreError>;

    /// Begins an incident of this OAuth app, if none is on; one that began before `over_before` is over.
    async fn begin_incident(
        &self,
        app: &AppId,
        at: DateTime<Utc>,
        over_before: DateTime<Utc>,
    ) -> Result<Changed, StoreError>;

    /// The incident is over.
    async fn end_incident(&self, app: &AppId, at: DateTime<Utc>) -> Result<Changed, StoreError>;

    /// A credential of this OAuth app whose verdict was held was taken by the provider.
    async fn note_recovered(&self, app: &AppId) -> Result<(), StoreError>;

    /// Takes back what was declared since then because an exchange with this OAuth app was refused, as far as nobody was mailed:
    /// back to `connected`, marked [`Trouble::Held`], with no exchange before `retry_at`. That an answer was lost is kept.
    async fn withdraw(
        &self,
        app: &AppId,
        since: DateTime<Utc>,
        retry_at: DateTime<Utc>,
        at: DateTime<Utc>,
    ) -> Result<Vec<ConnectorId>, StoreError>;
}

/// Which of the live replicas this one is: limits of all of them together are divided by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// From 0; each live replica has another one.
    pub rank: u32,
    /// How many live, at least 1.
    pub of: u32,
}

/// A wish for due work.
#[derive(Clone, Debug)]
pub struct ClaimDue<'a> {
    /// Of this OAuth app.
    pub app: &'a AppId,
    /// By our clock; what is due later is left alone.
    pub now: DateTime<Utc>,
    /// Who claims.
    pub holder: &'a str,
    /// How long others leave it alone, by the database's clock.
    pub ttl: Duration,
    /// At most so many.
    pub limit: u32,
}

/// A credential whose refresh is due, and ours to begin until the claim is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueRefresh {
    /// What to refresh.
    pub credential: CredentialId,
    /// One of its connectors that works.
    pub connector: ConnectorId,
    /// Since when it is due; the end of a back-off where that is later.
    pub due_at: DateTime<Utc>,
}

/// Due work, which any number of replicas claim past each other. A claim keeps others from beginning the same work, and
/// nothing else: what may be sent is for the lease to say. It is for one due moment, so a rotation or a back-off ends it.
#[async_trait]
pub trait DueStore: Send + Sync + 'static {
    /// The OAuth apps of these providers that something is due of at `now` that nobody has claimed, with the moment since
    /// when.
    async fn first_due(
        &self,
        providers: &[&str],
        now: DateTime<Utc>,
    ) -> Result<Vec<(AppId, DateTime<Utc>)>, StoreError>;

    /// Claims what is due, in `connected`, not backing off, and nobody's: of the longest due the one whose access token
    /// ends first.
    async fn claim_due(&self, claim: &ClaimDue<'_>) -> Result<Vec<DueRefresh>, StoreError>;

    /// Gives claims back that nothing was begun under.
    async fn give_back(&self, holder: &str, credentials: &[CredentialId]) -> Result<(), StoreError>;

    /// Puts off what has been due since before `missed` and whose access token is over at `now`: each to a random moment
    /// within `window`. Nothing is lost by it, and it makes way for tokens that still live. Answers how many those were.
    async fn put_off_missed(
        &self,
        app: &AppId,
        missed: DateTime<Utc>,
        now: DateTime<Utc>,
        window: Duration,
    ) -> Result<u64, StoreError>;

    /// This replica's place; one that has given no sign of life yet counts itself as well.
    async fn place(&self, holder: &str) -> Result<Place, StoreError>;
}

/// A token set that a provider has issued and that the database has not taken.
#[derive(Clone, Debug)]
pub struct Castaway {
    /// The provider's id: for a revocation, should nobody want the set any more.
    pub provider: String,
    /// The account there.
    pub account: String,
    /// What the set was asked for with.
    pub app: AppId,
    /// The exchange that brought it.
    pub exchange: Exchange,
    /// What it brought.
    pub rotation: Rotation,
}

/// Keeps token sets across a crash while the database cannot take them. Needs no database to keep one.
#[async_trait]
pub trait Lifeboat: Send + Sync + 'static {
    /// Keeps it, sealed: once this has answered, no crash of ours loses it. The same exchange replaces what was kept of it.
    async fn put(&self, castaway: &Castaway) -> Result<(), StoreError>;
    /// All that is kept, also by processes before. What cannot be opened is set aside and told, never deleted. An error
    /// means that the database cannot say how to open them; a lifeboat that cannot be looked into counts as empty.
    async fn list(&self) -> Result<Vec<Castaway>, StoreError>;
    /// The database has it, or nobody wants it any more.
    async fn remove(&self, castaway: &Castaway) -> Result<(), StoreError>;
}

/// Something changed in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// This connector or its credential.
    Connector(ConnectorId),
    /// This API key, by id.
    ApiKey(String),
    /// This agent: itself, what stops it, a run of it.
    Agent(AgentId),
    /// An OAuth app of this provider: the instance's, or an org's own.
    OAuthApp(String),
    /// Signals may have been missed: trust nothing that is remembered.
    All,
}

/// Changes, from this process and from the others.
pub trait Signals: Send + Sync + 'static {
    /// From now on.
    fn subscribe(&self) -> broadcast::Receiver<Signal>;
    /// The era, while signals are known to arrive; `None`: memory is not to be trusted. It grows with each silence, and
    /// what was remembered in an earlier one is void, even before its [`Signal::All`] has been worked off.
    fn era(&self) -> Option<u64>;
}

/// Client id and secrets of a provider's OAuth app.
#[derive(Clone, Debug)]
pub struct OAuthApp {
    /// Public.
    pub client_id: String,
    /// `None`: a public client.
    pub client_secret: Option<SecretString>,
    /// Tried when the current one is refused, so that a secret can be rotated.
    pub next_client_secret: Option<SecretString>,
}

/// OAuth apps: the instance's, or an org's own.
#[async_trait]
pub trait OAuthApps: Send + Sync + 'static {
    /// The app of this name, and never another one in its place; `None`: it is not set up.
    async fn find(&self, app: &AppId) -> Result<Option<OAuthApp>, StoreError>;
}

/// Counts; the app turns them into metrics.
pub trait Meter: Send + Sync + 'static {
    /// An exchange ended.
    fn exchange(&self, provider: &str, outcome: OutcomeKind, duration: Duration);
    /// Callers that found a flight under way and joined it.
    fn joined(&self);
    /// A flight waited this long for its lease.
    fn lease_wait(&self, waited: Duration);
    /// A verdict was held, and the provider took the credential later: nobody had to reconnect.
    fn false_alarm(&self, provider: &str);
    /// A provider's clock is this far ahead of ours, as its `Date` header says (RFC 9110 section 6.6.1), to the second and
    /// the time that its answer took.
    fn clock_ahead(&self, _provider: &str, _by: chrono::TimeDelta) {}
    /// The scheduler claimed so many due refreshes.
    fn claimed(&self, _provider: &str, _count: usize) {}
    /// The scheduler began a refresh this long after it was due.
    fn late(&self, _provider: &str, _by: Duration) {}
    /// A request went to the provider's API for this connector. `fine`: it was answered, with a status below 400.
    fn called(&self, _connector: &ConnectorId, _fine: bool) {}
}
