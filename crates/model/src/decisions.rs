//! The runtime's own decisions (`holdfast_core::refresh::decide`), asked with real types built from a model's few
//! facts. They are pure, so what was answered once is remembered.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::{
    AppId, Credential, Fingerprint, Health, Need, Secret, Snapshot, TokenSet, Version,
    credential::{Backoff, Reason},
    exchange::{Outcome, Refusal, TokenAnswer},
    ports::OpenExchange,
    refresh::decide::{self, Case, Next, Orphan, SoFar},
};
use secrecy::SecretString;

use crate::{
    bounds::{Bounds, TICK, ticks, time},
    database::{Marks, NEVER, Row},
    provider::Token,
};

/// What a flight is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Want {
    /// A token that lives.
    Valid,
    /// Another one than this, which an API has rejected.
    Not(Token),
    /// A token that lives, also of a failed connector: a person's Test.
    Revived,
}

/// [`decide::Look`], without words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Look {
    /// Hand it out.
    Serve,
    /// An exchange is needed.
    Refresh,
    /// There is no token.
    Stop,
    /// Only the test call can tell; the model's credentials never lead there.
    Prove,
}

/// What is looked at: a read of the database, by the reader's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seen {
    /// The stored set.
    pub token: Token,
    /// Of the connector.
    pub health: Health,
    /// Ticks to the end of the access token; [`NEVER`].
    pub expires: i8,
    /// Ticks to the end of the back-off.
    pub retry: i8,
}

/// What came back from the token endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answer {
    /// A new set.
    Rotated(Token),
    /// The grant is over.
    Rejected,
    /// Nothing, or nothing that can be read.
    None,
    /// Wait.
    Busy,
    /// It was not reached.
    Unreachable,
    /// The OAuth app is at fault.
    AppBroken,
}

/// [`SoFar`], as a part of a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "the four facts of `SoFar`")]
pub struct Done {
    /// A refusal has been met.
    pub confirming: bool,
    /// The app's next secret is in use.
    pub on_next_secret: bool,
    /// The same token has been sent again.
    pub replayed: bool,
    /// An answer of this version may be lost.
    pub answer_lost: bool,
}

/// [`Next`], without words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Follows {
    /// Store the set.
    Store(Token),
    /// Pause, read again, send once more.
    Confirm,
    /// Send with the app's next secret.
    NextSecret,
    /// Send the same token once more at once.
    Replay,
    /// Close with these marks.
    Close(Marks),
    /// Declare the connector failed; whether because an answer was lost.
    Fail(bool),
}

/// All that [`after`] depends on.
type Met = (Answer, Done, Option<i8>, bool, i8);

thread_local! {
    static LOOKS: RefCell<HashMap<(Seen, Want), Look>> = RefCell::default();
    static AFTERS: RefCell<HashMap<Met, Follows>> = RefCell::default();
}

/// [`decide::look`].
pub fn look(seen: Seen, want: Want) -> Look {
    LOOKS.with_borrow_mut(|known| *known.entry((seen, want)).or_insert_with(|| really_look(seen, want)))
}

fn really_look(seen: Seen, want: Want) -> Look {
    let need = match want {
        Want::Valid => Need::ValidFor(Duration::from_secs(1)),
        Want::Not(token) => Need::Not(Fingerprint::of(&access_token(token))),
        Want::Revived => Need::Revived,
    };
    match decide::look(&snapshot(seen), &need, now(), false) {
        decide::Look::Serve => Look::Serve,
        decide::Look::Refresh => Look::Refresh,
        decide::Look::Stop(_) => Look::Stop,
        decide::Look::Prove(_) => Look::Prove,
    }
}

/// [`decide::after`]. `left`: ticks of a token that may be served meanwhile. The app has a next secret.
pub fn after(answer: Answer, done: Done, left: Option<i8>, failed_before: bool, bounds: &Bounds) -> Follows {
    let key = (answer, done, left, failed_before, bounds.grace);
    AFTERS.with_borrow_mut(|known| *known.entry(key).or_insert_with(|| really_after(key, bounds)))
}

fn really_after(key: Met, bounds: &Bounds) -> Follows {
    let (answer, done, left, failed_before, _) = key;
    let nothing = Refusal::default;
    let outcome = match answer {
        Answer::Rotated(token) => Outcome::Rotated(Box::new(token_answer(token))),
        Answer::Rejected => Outcome::Rejected(nothing()),
        Answer::None => Outcome::Ambiguous(nothing()),
        Answer::Busy => Outcome::Busy(nothing()),
        Answer::Unreachable => Outcome::Transient(nothing()),
        Answer::AppBroken => Outcome::AppBroken(nothing()),
    };
    let so_far = SoFar {
        confirming: done.confirming,
        on_next_secret: done.on_next_secret,
        replayed: done.replayed,
        answer_lost: done.answer_lost,
        on_spare: false,
    };
    let case = Case {
        grace: bounds.grace_time(),
        has_spare: false,
        has_next_secret: true,
        left: left.map(time),
        failures: u32::from(failed_before),
        unit: 0.0,
    };
    match (decide::after(&outcome, &so_far, &case, now(), &bounds.settings), answer) {
        (Next::Store, Answer::Rotated(token)) => Follows::Store(token),
        (Next::Store, _) => unreachable!("only a rotated outcome is stored"),
        (Next::Confirm, _) => Follows::Confirm,
        (Next::NextSecret, _) => Follows::NextSecret,
        (Next::Replay, _) => Follows::Replay,
        (Next::Spare, _) => unreachable!("the model keeps no second answers"),
        (Next::Fail(reason), _) => Follows::Fail(reason == Reason::ResponseLost),
        (Next::Close(_, marks), _) => Follows::Close(Marks {
            retry: ticks((marks.retry_at - now()).to_std().unwrap_or_default()),
            answer_lost: marks.answer_lost,
        }),
    }
}

/// [`decide::orphan`]; `None`: it may be relieved; else whether the wait for it is longer than `left` ticks.
pub fn orphan(row: &Row, left: i8, bounds: &Bounds) -> Option<bool> {
    let open = OpenExchange {
        id: "open".into(),
        holder: String::new(),
        holder_alive: row.alive_left > 0,
        holder_connected: row.alive_left > 0,
        lease_over_for: time(-row.lease_left),
    };
    match decide::orphan(&open, bounds.grace_time(), &bounds.settings) {
        Orphan::Relieve => None,
        Orphan::Wait => Some(false),
        Orphan::NotBefore(wait) => Some(wait > time(left)),
    }
}

/// [`decide::send_timeout`], in ticks.
pub fn send_timeout(first: bool, bounds: &Bounds) -> i8 {
    ticks(decide::send_timeout(bounds.grace_time(), first, &bounds.settings))
}

/// [`decide::may_send`], with so many ticks of the lease left.
pub fn may_send(left: i8, first: bool, bounds: &Bounds) -> bool {
    let timeout = decide::send_timeout(bounds.grace_time(), first, &bounds.settings);
    decide::may_send(time(left), timeout, &bounds.settings)
}

fn now() -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TICK * 1000
}

fn at(ticks: i8) -> DateTime<Utc> {
    now() + TimeDelta::from_std(TICK).unwrap_or_default() * i32::from(ticks)
}

fn access_token(token: Token) -> SecretString {
    SecretString::from(format!("access-{token}"))
}

fn token_answer(token: Token) -> TokenAnswer {
    TokenAnswer {
        access_token: access_token(token),
        refresh_token: Some(SecretString::from(format!("refresh-{token}"))),
        expires_in: None,
        refresh_expires_in: None,
        scopes: None,
        base_url: None,
    }
}

fn snapshot(seen: Seen) -> Snapshot {
    let secret = match seen.token {
        0 => Secret::Absent,
        token => Secret::Tokens(TokenSet {
            access_token: access_token(token),
            refresh_token: Some(SecretString::from(format!("refresh-{token}"))),
            obtained_at: DateTime::UNIX_EPOCH,
            expires_at: (seen.expires != NEVER).then(|| at(seen.expires)),
            expires_assumed: false,
            refresh_expires_at: None,
            refresh_end_fixed: false,
            scopes: Vec::new(),
            base_url: None,
            found: BTreeMap::new(),
        }),
    };
    Snapshot {
        connector: "connector".into(),
        org: "org".into(),
        provider: "provider".to_owned(),
        account: "account".to_owned(),
        name: "name".to_owned(),
        health: seen.health,
        health_reason: None,
        health_detail: None,
        health_since: DateTime::UNIX_EPOCH,
        epoch: 0,
        credential: Credential {
            id: "credential".into(),
            app: AppId::instance("provider"),
            version: Version(1),
            secret,
            rotated_at: None,
            due_at: None,
            backoff: Backoff { retry_at: (seen.retry > 0).then(|| at(seen.retry)), failures: 0 },
            degraded: None,
            answer_lost: false,
        },
    }
}
