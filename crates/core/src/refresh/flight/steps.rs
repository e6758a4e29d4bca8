//! What a flight does under its lease: read again, compare, journal, exchange, store or settle.

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use tracing::{Span, error, info, warn};

use super::{Flight, Held};
use crate::{
    credential::{Fingerprint, Reason, Secret, Snapshot, TokenSet, Trouble},
    error::ErrorKind,
    exchange::{self, Grant, Outcome, Refusal, TokenAnswer},
    health::Health,
    id::ExchangeId,
    oauth_app::AppId,
    ports::{
        Begun, Castaway, Changed, Close, Exchange, Failure, Marks, OAuthApp, Rotation, StoreError, Stored, Trigger,
    },
    provider::{Auth, OAuth2, Provider},
    refresh::{
        AuthError, Need, OutcomeKind,
        decide::{self, Case, Look, Next, Orphan, SoFar},
        engine::{FlightResult, chain, ours},
        recovery::Worker,
        timing,
    },
};

/// Everything about the provider that an exchange needs.
struct Terms {
    provider: Arc<dyn Provider>,
    account: String,
    facts: Box<OAuth2>,
    app: OAuthApp,
    app_id: AppId,
}

/// What stands in the way of an exchange.
pub(super) enum Blocked {
    /// Another row is open, and this is to be done about it: give the lease back, and wait for its holder.
    By(Orphan),
    /// The flight is over.
    Over(FlightResult),
}

impl Flight {
    pub(super) async fn exchange(&self, held: &mut Held) -> Result<Arc<Snapshot>, Blocked> {
        let mut snapshot = self.reread().await?;
        Span::current().record("credential.version", snapshot.credential.version.0);
        let look = self.engine.look(&snapshot, &self.need);
        match look {
            Look::Serve => return Ok(snapshot),
            Look::Stop(error) => return Err(over(error)),
            Look::Prove(reason) => self.prove(&snapshot, reason).await?,
            Look::Refresh => {}
        }
        // A token that was minted moments ago is refused as well. Its refresh token may still work: what comes of it
        // has to pass the test call.
        let doubted = look != Look::Refresh;
        let terms = match self.terms(&snapshot).await {
            Ok(terms) => terms,
            Err(blocked) => return Err(self.unexchanged(&snapshot, blocked).await),
        };
        let _permit = self.engine.permit(&snapshot.provider).await.map_err(over)?;
        let (exchange, _at_work) = self.begin(&snapshot, held, terms.facts.reuse_grace).await?;
        let started = self.uptime();
        let mut sends = 0;
        let mut so_far = SoFar { answer_lost: snapshot.credential.answer_lost, ..SoFar::default() };
        loop {
            let Some(tokens) = snapshot.credential.secret.tokens() else {
                unreachable!("only a token set is due for an exchange, and a fresh read is checked for one");
            };
            let timeout = decide::send_timeout(terms.facts.reuse_grace, sends == 0, &self.engine.settings);
            if !self.hold(held, &exchange, timeout).await {
                let close = self.closing(OutcomeKind::NotSent, None, sends, started, self.lost(&snapshot, so_far));
                self.close(&exchange, close).await;
                return Err(over(AuthError::Unavailable {
                    class: Trouble::Ours,
                    detail: "the lease could not be held".to_owned(),
                    retry_after: Duration::from_secs(1),
                }));
            }
            sends += 1;
            let outcome = self.send(&terms, tokens, so_far.on_next_secret, timeout).await;
            let now = self.engine.ports.clock.now();
            match refusal(&outcome) {
                Some(refusal) if said_yes(refusal) => {
                    self.engine.note_unstored(&snapshot.provider, &self.connector, &refusal.words());
                }
                Some(_) => self.engine.note_unspent(&snapshot.provider),
                None => {}
            }
            // Before a verdict, and never else.
            let spare = match &outcome {
                Outcome::Rejected(_) if so_far.confirming && !so_far.on_spare => {
                    let marks = self.lost(&snapshot, so_far);
                    self.spare(&exchange, sends, started, marks).await?
                }
                _ => None,
            };
            let case = Case {
                grace: terms.facts.reuse_grace,
                has_next_secret: terms.app.next_client_secret.is_some(),
                has_spare: spare.is_some(),
                // The access token of a spare set is nobody's.
                left: self.left(tokens, now).filter(|_| !so_far.on_spare),
                failures: snapshot.credential.backoff.failures,
                unit: self.engine.ports.random.unit(),
            };
            match (decide::after(&outcome, &so_far, &case, now, &self.engine.settings), outcome) {
                (Next::Store, Outcome::Rotated(answer)) => {
                    let stored = self.store(&terms, &exchange, tokens, &answer, sends, started).await?;
                    self.engine.granted(&snapshot).await;
                    if doubted {
                        self.prove_new(&stored).await?;
                    }
                    return Ok(stored);
                }
                (Next::Confirm, _) => {
                    so_far.confirming = true;
                    self.engine.ports.clock.sleep(self.engine.settings.confirm_pause).await;
                    // From a fresh read: a race that somebody else won shows now.
                    match self.reread().await {
                        Ok(again) if still_there(&again, &exchange) => {
                            // A lost owner's row may have been settled between our first read and our own row.
                            so_far.answer_lost |= again.credential.answer_lost;
                            snapshot = again;
                        }
                        moved => {
                            let kind = if moved.is_ok() { OutcomeKind::Superseded } else { OutcomeKind::Internal };
                            let close = self.closing(kind, None, sends, started, self.lost(&snapshot, so_far));
                            self.close(&exchange, close).await;
                            moved?;
                            return Err(Blocked::Over(self.compare().await.unwrap_or_else(|| Err(moved_on()))));
                        }
                    }
                }
                (Next::NextSecret, _) => so_far.on_next_secret = true,
                (Next::Replay, _) => {
                    so_far.replayed = true;
                    so_far.answer_lost = true;
                }
                (Next::Spare, _) => {
                    info!("trying the other set that the provider issued for the same token");
                    so_far.on_spare = true;
                    let mut with_spare = Snapshot::clone(&snapshot);
                    with_spare.credential.secret = spare.map_or(Secret::Absent, Secret::Tokens);
                    snapshot = Arc::new(with_spare);
                }
                (Next::Fail(reason), outcome) => {
                    // A token that never ends may work on although it is not exchanged.
                    if tokens.refresh_token.is_none() && self.still_works(&snapshot).await {
                        let marks = self.rest(&snapshot, so_far);
                        let kind = OutcomeKind::Rejected;
                        return Err(self.give_up(&terms, &exchange, kind, marks, &outcome, sends, started).await);
                    }
                    if let Some(marks) = self.engine.held(&snapshot, so_far.answer_lost).await {
                        let kind = OutcomeKind::Rejected;
                        return Err(self.give_up(&terms, &exchange, kind, marks, &outcome, sends, started).await);
                    }
                    self.meter(&terms, OutcomeKind::Rejected, started);
                    let words = refusal(&outcome).map(Refusal::words);
                    let close = self.closing(OutcomeKind::Rejected, words.clone(), sends, started, None);
                    return Err(Blocked::Over(self.fail(&exchange, &close, reason, words).await));
                }
                (Next::Close(kind, marks), outcome) => {
                    return Err(self.give_up(&terms, &exchange, kind, marks, &outcome, sends, started).await);
                }
                (Next::Store, _) => unreachable!("only a rotated outcome is stored"),
            }
        }
    }

    /// Whether the provider's test call does not refuse the token: no proof that it works, but none that it does not.
    async fn still_works(&self, snapshot: &Snapshot) -> bool {
        !matches!(self.engine.test_call(snapshot).await, Err(error) if error.kind == ErrorKind::AuthFailed)
    }

    /// Until an exchange is tried again that is refused while its token works: there is no hurry.
    fn rest(&self, snapshot: &Snapshot, so_far: SoFar) -> Marks {
        let failures = snapshot.credential.backoff.failures.saturating_add(1);
        let retry_at = self.engine.now() + timing::delta(self.engine.settings.backoff_cap);
        Marks { trouble: Trouble::Transient, retry_at, failures, answer_lost: so_far.answer_lost }
    }

    /// The spare set of this credential, if there is one. A database that cannot say so leaves no verdict to be declared.
    async fn spare(
        &self,
        exchange: &Exchange,
        sends: u32,
        started: Duration,
        marks: Option<Marks>,
    ) -> Result<Option<TokenSet>, Blocked> {
        let store = &self.engine.ports.store;
        match store.spare(&exchange.org, &exchange.credential, exchange.version).await {
            Ok(spare) => Ok(spare.filter(|spare| spare.refresh_token.is_some())),
            Err(error) => {
                let close = self.closing(OutcomeKind::Internal, None, sends, started, marks);
                self.close(exchange, close).await;
                Err(over(ours(&error)))
            }
        }
    }

    /// What is left of a token that may be served meanwhile: nothing of one that was just rejected.
    fn left(&self, tokens: &TokenSet, now: DateTime<Utc>) -> Option<Duration> {
        let rejected = matches!(&self.need, Need::Not(token) if *token == Fingerprint::of(&tokens.access_token));
        tokens.expires_at.filter(|_| !rejected).and_then(|end| (end - now).to_std().ok())
    }

    async fn reread(&self) -> Result<Arc<Snapshot>, Blocked> {
        match self.engine.ports.store.load(&self.connector).await {
            Ok(Some(snapshot)) => Ok(Arc::new(snapshot)),
            Ok(None) => Err(over(AuthError::NotFound)),
            Err(error) => Err(over(ours(&error))),
        }
    }

    async fn terms(&self, snapshot: &Snapshot) -> Result<Terms, Blocked> {
        let internal = |detail: String| {
            error!(provider = %snapshot.provider, "{detail}");
            over(AuthError::Unavailable { class: Trouble::Ours, detail, retry_after: Duration::from_mins(1) })
        };
        let Some(provider) = self.engine.providers.find(&snapshot.provider) else {
            return Err(internal(format!("this instance has no adapter for {}", snapshot.provider)));
        };
        let account = provider.account(&snapshot.account).map_err(|invalid| internal(invalid.to_string()))?;
        let Auth::OAuth2(facts) = provider.auth(&account) else {
            return Err(internal(format!("{} has no OAuth 2.0", snapshot.provider)));
        };
        let app_id = snapshot.credential.app.clone();
        let app = self.engine.ports.apps.find(&app_id).await.map_err(|error| over(ours(&error)))?;
        let app = app.ok_or_else(|| {
            let detail = no_app(&app_id);
            over(AuthError::AppRejected { detail, retry_after: Duration::from_mins(1) })
        })?;
        Ok(Terms { provider: Arc::clone(provider), account: snapshot.account.clone(), facts, app, app_id })
    }

    /// There is no OAuth app to exchange it with. A token that never ends needs none: if it is rejected, it is proven as one
    /// is that nothing renews.
    async fn unexchanged(&self, snapshot: &Snapshot, blocked: Blocked) -> Blocked {
        let no_app = matches!(&blocked, Blocked::Over(Err(AuthError::AppRejected { .. })));
        let credential = &snapshot.credential;
        if !no_app || credential.answer_lost || !credential.secret.tokens().is_some_and(TokenSet::is_endless) {
            return blocked;
        }
        match decide::look(snapshot, &self.need, self.engine.ports.clock.now(), false) {
            Look::Prove(reason) => self.prove(snapshot, reason).await.err().unwrap_or(blocked),
            _ => blocked,
        }
    }

    /// Opens the journal row; relieves an owner that is taken for lost.
    async fn begin(
        &self,
        snapshot: &Arc<Snapshot>,
        held: &Held,
        grace: Duration,
    ) -> Result<(Exchange, Worker), Blocked> {
        let ports = &self.engine.ports;
        let exchange = Exchange {
            id: ExchangeId::new(ports.clock.as_ref(), ports.random.as_ref()),
            credential: self.credential.clone(),
            connector: self.connector.clone(),
            org: snapshot.org.clone(),
            version: snapshot.credential.version,
            lease: held.lease.clone(),
            trigger: self.trigger,
            started_at: ports.clock.now(),
        };
        let at_work = self.engine.work_on(&exchange.id);
        let begun = match ports.store.begin(&exchange).await {
            Ok(begun) => begun,
            Err(error) => {
                // Whether it was written is not known: make sure that it does not stay open.
                let close = self.closing(OutcomeKind::NotSent, None, 0, self.uptime(), None);
                self.close(&exchange, close).await;
                return Err(over(ours(&error)));
            }
        };
        match begun {
            Begun::Yes => {
                *self.open.lock().expect("no panic happens while it is held") = Some(exchange.clone());
                Ok((exchange, at_work))
            }
            Begun::Moved => Err(Blocked::Over(self.compare_stored().await.unwrap_or_else(|| Err(moved_on())))),
            Begun::Other(open) => {
                let orphan = self.engine.orphan(&open, grace);
                if orphan == Orphan::Relieve {
                    self.engine.settle(&open, grace).await.map_err(|error| over(ours(&error)))?;
                }
                // Even when it is relieved: the next read has to see that an answer may be lost.
                Err(Blocked::By(orphan))
            }
        }
    }

    async fn compare_stored(&self) -> Option<FlightResult> {
        self.engine.forget(&self.connector);
        self.compare().await
    }

    /// Makes sure that the lease outlasts the request; renews it conditionally if not.
    async fn hold(&self, held: &mut Held, exchange: &Exchange, timeout: Duration) -> bool {
        let settings = &self.engine.settings;
        if decide::may_send(held.until.saturating_sub(self.uptime()), timeout, settings) {
            return true;
        }
        let asked = self.uptime();
        let renewed = match self.engine.ports.leases.renew(&held.lease, settings.lease).await {
            Ok(Some(lease)) => lease,
            Ok(None) => return false,
            Err(error) => {
                warn!(error = %chain(&error), "could not renew the lease");
                return false;
            }
        };
        *held = Held { lease: renewed, until: asked + settings.lease };
        if let Err(error) = self.engine.ports.store.extend(&exchange.id, &held.lease).await {
            warn!(error = %chain(&error), "could not note the renewed lease");
            return false;
        }
        decide::may_send(held.until.saturating_sub(self.uptime()), timeout, settings)
    }

    async fn send(&self, terms: &Terms, tokens: &TokenSet, next_secret: bool, timeout: Duration) -> Outcome {
        let secret = if next_secret { &terms.app.next_client_secret } else { &terms.app.client_secret };
        let upgrade = terms.provider.upgrade_params();
        let grant = match (&tokens.refresh_token, &upgrade) {
            (Some(refresh_token), _) => Grant::Refresh(refresh_token),
            (None, Some(params)) => Grant::Upgrade { token: &tokens.access_token, params },
            (None, None) => unreachable!("a token set that nothing renews is never due for an exchange"),
        };
        self.engine.call(terms.provider.as_ref(), &terms.facts, &terms.app, secret.as_ref(), &grant, timeout).await
    }

    /// Step 6: stores the success, whatever it takes. The open journal row keeps others from exchanging meanwhile.
    async fn store(
        &self,
        terms: &Terms,
        exchange: &Exchange,
        old: &TokenSet,
        answer: &TokenAnswer,
        sends: u32,
        started: Duration,
    ) -> Result<Arc<Snapshot>, Blocked> {
        let ports = &self.engine.ports;
        let now = ports.clock.now();
        let tokens = exchange::merge(&terms.facts, Some(old), answer, now);
        let rotation = Rotation {
            due_at: timing::due_at(&tokens, terms.facts.refresh_life, &self.credential, &self.engine.settings),
            tokens,
            sends,
            duration: self.uptime().saturating_sub(started),
            at: now,
        };
        let castaway = Arc::new(Castaway {
            provider: terms.provider.about().id.to_owned(),
            account: terms.account.clone(),
            app: terms.app_id.clone(),
            exchange: exchange.clone(),
            rotation,
        });
        let stored = self.engine.save(&castaway).await;
        self.settled();
        self.engine.forget(&self.connector);
        match stored {
            Stored::Yes(snapshot) => {
                self.meter(terms, OutcomeKind::Rotated, started);
                info!(
                    credential.version = %snapshot.credential.version,
                    exchange.outcome = "rotated",
                    duration_ms = ms(castaway.rotation.duration),
                    "rotated the credential of connector {}",
                    self.connector
                );
                if self.trigger == Trigger::Rejected {
                    self.engine.note_minted_for_rejection(&snapshot);
                }
                if snapshot.health == Health::AuthFailed {
                    return self.heal(&snapshot).await.map_err(Blocked::Over);
                }
                Ok(Arc::new(*snapshot))
            }
            Stored::Superseded => {
                self.meter(terms, OutcomeKind::Superseded, started);
                info!(exchange.outcome = "superseded", "a newer set was stored meanwhile; ours is not the one in use");
                self.engine.keep_spare(exchange, &castaway.rotation.tokens).await;
                Err(Blocked::Over(self.compare().await.unwrap_or_else(|| Err(moved_on()))))
            }
            Stored::Gone => {
                self.meter(terms, OutcomeKind::Discarded, started);
                info!(
                    exchange.outcome = "discarded",
                    "the connector was disconnected meanwhile; revoking the new token"
                );
                self.engine.revoke(&terms.facts, &terms.app, &castaway.rotation.tokens.access_token).await;
                Err(over(AuthError::Disconnected))
            }
        }
    }

    /// A success that was stored after a refusal heals the connector once the provider's test call has passed with it.
    async fn heal(&self, snapshot: &Snapshot) -> Result<Arc<Snapshot>, FlightResult> {
        self.engine.heal_in_time(snapshot).await;
        match self.compare().await {
            Some(Ok(snapshot)) => Ok(snapshot),
            Some(error) => Err(error),
            None => Err(Err(moved_on())),
        }
    }

    /// Asks the provider's test call about a token that a caller says is rejected. `Ok`: it is refused there too, and an
    /// exchange may help.
    async fn prove(&self, snapshot: &Snapshot, reason: Reason) -> Result<(), Blocked> {
        match self.engine.test_call(snapshot).await {
            Ok(()) if reason == Reason::NotRefreshable => Err(over(unproven(
                "the token's time is over, nothing can renew it, and yet the provider still takes it: reconnect soon"
                    .to_owned(),
            ))),
            Ok(()) => Err(over(AuthError::StillGood)),
            Err(error) if error.kind == ErrorKind::AuthFailed => {
                if snapshot.credential.secret.tokens().is_some_and(|tokens| tokens.refresh_token.is_some()) {
                    return Ok(());
                }
                Err(Blocked::Over(self.refused(snapshot, reason, error.message).await))
            }
            Err(error) => Err(over(unproven(error.message))),
        }
    }

    /// A token that was just issued in place of two that were refused: the provider's test call has the last word.
    async fn prove_new(&self, snapshot: &Snapshot) -> Result<(), Blocked> {
        match self.engine.test_call(snapshot).await {
            Err(error) if error.kind == ErrorKind::AuthFailed => {
                Err(Blocked::Over(self.refused(snapshot, Reason::AccessRefused, error.message).await))
            }
            _ => Ok(()),
        }
    }

    async fn refused(&self, snapshot: &Snapshot, reason: Reason, words: String) -> FlightResult {
        let at = self.engine.ports.clock.now();
        let failure = Failure { version: snapshot.credential.version, reason, detail: Some(words), at };
        let declared = self.engine.ports.store.fail(&self.credential, &failure, None).await;
        self.declared(&failure, declared).await
    }

    /// Declares the verdict and closes the row. If the database is in trouble, goes on trying beside the flight: else the
    /// row of a living holder would keep everybody out for ever.
    async fn fail(&self, exchange: &Exchange, close: &Close, reason: Reason, detail: Option<String>) -> FlightResult {
        self.settled();
        let failure = Failure { version: exchange.version, reason, detail, at: close.at };
        let declared = self.engine.ports.store.fail(&self.credential, &failure, Some((exchange, close))).await;
        if let Err(error) = &declared {
            warn!(error = %chain(error), "could not declare a verdict; going on trying");
            let (engine, exchange, close) = (Arc::clone(&self.engine), exchange.clone(), close.clone());
            let (failure, at_work) = (failure.clone(), self.engine.work_on(&exchange.id));
            self.engine.tasks.spawn(async move {
                let _until_it_is_written = at_work;
                let store = &engine.ports.store;
                let row = Some((&exchange, &close));
                engine.insist("declare a verdict", || store.fail(&exchange.credential, &failure, row)).await;
                engine.forget(&exchange.connector);
            });
        }
        self.declared(&failure, declared).await
    }

    async fn declared(&self, failure: &Failure, declared: Result<Changed, StoreError>) -> FlightResult {
        match declared {
            Ok(Changed::Yes) => {
                let words = failure.detail.as_deref().unwrap_or("no words");
                let reason = failure.reason.as_str();
                warn!(health.reason = reason, "connector {} needs a person: {words}", self.connector);
            }
            Ok(Changed::No) => info!("a verdict came too late: the credential has moved on"),
            Err(error) => return Err(ours(&error)),
        }
        self.engine.forget(&self.connector);
        let snapshot = self.engine.known(&self.connector).await?;
        // Test looks behind a failure mark; here it is the answer.
        if snapshot.health == Health::AuthFailed {
            return Err(decide::failed(&snapshot));
        }
        self.compare().await.unwrap_or_else(|| Err(moved_on()))
    }

    #[expect(clippy::too_many_arguments, reason = "what an exchange that brought nothing leaves behind")]
    async fn give_up(
        &self,
        terms: &Terms,
        exchange: &Exchange,
        kind: OutcomeKind,
        marks: Marks,
        outcome: &Outcome,
        sends: u32,
        started: Duration,
    ) -> Blocked {
        self.meter(terms, kind, started);
        let words = refusal(outcome).map(Refusal::words);
        let retry_after = (marks.retry_at - self.engine.ports.clock.now()).to_std().unwrap_or_default();
        warn!(
            exchange.outcome = kind.as_str(),
            retry_after_ms = ms(retry_after),
            "an exchange for connector {} brought nothing: {}",
            self.connector,
            words.as_deref().unwrap_or("no answer")
        );
        let detail = words.clone().unwrap_or_else(|| "no answer".to_owned());
        let class = marks.trouble;
        if class == Trouble::AppBroken {
            self.engine.alert_app(&terms.app_id, &detail);
        }
        let close = self.closing(kind, words, sends, started, Some(marks));
        self.close(exchange, close).await;
        over(if class == Trouble::AppBroken {
            AuthError::AppRejected { detail, retry_after }
        } else {
            AuthError::Unavailable { class, detail, retry_after }
        })
    }

    /// Marks for a row that closes without an outcome of its own, if an answer was lost on the way.
    fn lost(&self, snapshot: &Snapshot, so_far: SoFar) -> Option<Marks> {
        let failures = snapshot.credential.backoff.failures.saturating_add(1);
        so_far.answer_lost.then(|| Marks {
            trouble: Trouble::Ambiguous,
            retry_at: self.engine.now() + timing::delta(self.engine.settings.backoff_base),
            failures,
            answer_lost: true,
        })
    }

    pub(super) fn closing(
        &self,
        outcome: OutcomeKind,
        detail: Option<String>,
        sends: u32,
        started: Duration,
        marks: Option<Marks>,
    ) -> Close {
        let duration = self.uptime().saturating_sub(started);
        Close { outcome, detail, sends, duration, at: self.engine.ports.clock.now(), marks }
    }

    /// Closes the row; if the database is in trouble, goes on trying beside the flight, so that callers get their answer.
    pub(super) async fn close(&self, exchange: &Exchange, close: Close) {
        self.settled();
        let closed = self.engine.ports.store.close(exchange, &close).await;
        self.engine.forget(&self.connector);
        if let Err(error) = closed {
            warn!(error = %chain(&error), "could not close the journal row; going on trying");
            let (engine, exchange) = (Arc::clone(&self.engine), exchange.clone());
            let at_work = self.engine.work_on(&exchange.id);
            self.engine.tasks.spawn(async move {
                let _until_it_is_written = at_work;
                let store = &engine.ports.store;
                engine.insist("close the journal row", || store.close(&exchange, &close)).await;
                engine.forget(&exchange.connector);
            });
        }
    }

    fn settled(&self) {
        *self.open.lock().expect("no panic happens while it is held") = None;
    }

    fn meter(&self, terms: &Terms, kind: OutcomeKind, started: Duration) {
        let duration = self.uptime().saturating_sub(started);
        self.engine.ports.meter.exchange(terms.provider.about().id, kind, duration);
    }
}

/// Whether a fresh read still holds the token set that the exchange is about.
fn still_there(snapshot: &Snapshot, exchange: &Exchange) -> bool {
    snapshot.credential.version == exchange.version && snapshot.credential.secret.tokens().is_some()
}

/// Where the app that a grant was made with is entered. Nothing else can be used in its place.
fn no_app(app: &AppId) -> String {
    let provider = app.provider();
    match app.own_client_id() {
        None => format!(
            "no OAuth app is set up for {provider}; enter it in the web UI under Settings, OAuth apps, or set \
             oauth_apps.{provider}.client_id"
        ),
        Some(client_id) => format!(
            "this connector was connected with the organisation's own OAuth app {client_id}, which is not set up any \
             more; enter it again in the web UI under Settings, Your OAuth apps, or reconnect the connector"
        ),
    }
}

fn over(error: AuthError) -> Blocked {
    Blocked::Over(Err(error))
}

fn unproven(detail: String) -> AuthError {
    AuthError::Unavailable { class: Trouble::Transient, detail, retry_after: Duration::from_secs(5) }
}

fn moved_on() -> AuthError {
    AuthError::Unavailable {
        class: Trouble::Transient,
        detail: "the credential changed meanwhile".to_owned(),
        retry_after: Duration::from_millis(500),
    }
}

fn refusal(outcome: &Outcome) -> Option<&Refusal> {
    match outcome {
        Outcome::Rotated(_) => None,
        Outcome::Rejected(refusal)
        | Outcome::AppBroken(refusal)
        | Outcome::Busy(refusal)
        | Outcome::Transient(refusal)
        | Outcome::Ambiguous(refusal) => Some(refusal),
    }
}

/// A success by its status, in which no token could be read.
fn said_yes(refusal: &Refusal) -> bool {
    (200..300).contains(&refusal.status) && refusal.code.is_none()
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
