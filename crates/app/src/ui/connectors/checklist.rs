//! How far a consent is that was started here: a live checklist, and the way on where it came to nothing.

use chrono::{DateTime, Utc};
use holdfast_core::{Health, webhook::subscription::Standing};
use holdfast_store::{Endpoint, Mirror, Session, Subscribed};
use serde::Serialize;

use super::{Mark, sync};
use crate::{
    app::App,
    called,
    connect::{self, Ending, Progress, Stand, Told, partly},
    words::{self, Tone},
};

/// As the page shows it.
#[derive(Serialize)]
pub(super) struct Checklist {
    title: String,
    text: String,
    tone: Tone,
    /// It changes by itself.
    working: bool,
    steps: Vec<Step>,
    /// Whether trying again can help.
    again: bool,
    /// Another account that could be connected as a new connector.
    other: Option<Other>,
    /// The connector that has the account.
    taken: Option<String>,
    /// The OAuth app is at fault.
    app: bool,
}

#[derive(Serialize)]
struct Other {
    mark: Mark,
    account: String,
    shown: String,
}

/// A step: `good`, `warn`, `bad`, `now` or `idle`.
#[derive(Serialize)]
struct Step {
    state: &'static str,
    /// The state for who does not see the mark.
    word: &'static str,
    title: &'static str,
    more: Option<String>,
}

/// The steps before which a consent can fail.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum At {
    Authorised,
    Identity,
    Permissions,
    Test,
}

impl Checklist {
    /// Of this consent.
    pub(super) fn new(app: &App, session: &Session, provider: &str, account: &str, now: DateTime<Utc>) -> Self {
        let name = app.provider_name(provider);
        let about = app.providers().find(provider).map(|found| found.about());
        let key = about.is_some_and(|about| about.takes_keys() && session.by_key.unwrap_or(!about.has_choice()));
        let shown = called::account(app, provider, session.account.as_deref().unwrap_or(account));
        let stand = connect::stand(session, now);
        let who = AskedOf { app, id: provider, name, key };
        let plain = |tone, title: String, text: &str| Self {
            title,
            text: text.to_owned(),
            tone,
            working: false,
            steps: Vec::new(),
            again: true,
            other: None,
            taken: None,
            app: false,
        };
        match stand {
            Stand::Away if key => plain(
                words::IDLE,
                "The key is not given yet".to_owned(),
                "Go on in the window where it is asked for. If that is closed, try again; nothing was changed.",
            ),
            Stand::Away => plain(
                words::IDLE,
                format!("{name} waits for your answer"),
                "Go on in the window where it asks you. If that is closed, try again; nothing was changed.",
            ),
            Stand::TooLate => plain(
                words::WARN,
                "That took too long".to_owned(),
                "A consent has to be given within ten minutes. Try again; nothing was changed.",
            ),
            Stand::CutOff(progress) => Self {
                steps: steps(&who, &progress, None, false, true),
                ..plain(
                    words::WARN,
                    "This was cut off".to_owned(),
                    "Something on our side ended before it was done. Try again.",
                )
            },
            Stand::Working(progress) => Self {
                working: true,
                again: false,
                steps: steps(&who, &progress, None, true, false),
                ..plain(
                    words::IDLE,
                    format!("Connecting {shown}"),
                    "This takes a few seconds. You may leave this page; it goes on by itself.",
                )
            },
            Stand::Ended(ended, progress) => {
                let (title, text) = ended.words(Told::Here);
                let untested = ended.ok() && progress.test.is_none();
                let cut = untested && session.worker_alive == Some(false);
                let testing = untested && !cut && is_recent(session, now);
                let tone = if ended.ok() { words::GOOD } else { words::BAD };
                let failed = failed_at(&ended.ending);
                Self {
                    title: if ended.ok() { format!("{shown} is connected") } else { title },
                    text: match &ended.ending {
                        Ending::Connected { again, lacks, .. } => {
                            let works = if *again {
                                "Everything that uses it goes on by itself."
                            } else {
                                "It can be used from now on."
                            };
                            partly(lacks).map_or_else(|| works.to_owned(), |lacks| format!("{works} {lacks}"))
                        }
                        _ => text,
                    },
                    tone,
                    working: testing,
                    steps: steps(&who, &progress, failed, testing, cut),
                    again: !ended.ok()
                        && !matches!(ended.ending, Ending::Taken { .. } | Ending::Held { .. } | Ending::Removed),
                    other: match &ended.ending {
                        Ending::OtherAccount { got, got_id, .. } => {
                            Some(Other { mark: Mark::of(app, provider), account: got_id.clone(), shown: got.clone() })
                        }
                        _ => None,
                    },
                    taken: match &ended.ending {
                        Ending::Taken { connector, .. } | Ending::Held { connector, .. } => connector.clone(),
                        _ => None,
                    },
                    app: matches!(
                        ended.ending,
                        Ending::AppNotSetUp | Ending::AppRefused { .. } | Ending::NoApp | Ending::AppReplaced
                    ),
                }
            }
        }
    }

    /// With the step for events, where they are to be received: it comes before the test, which is the last.
    pub(super) fn with_webhook(mut self, endpoints: &[Endpoint], provider: &str) -> Self {
        let wanted = endpoints.iter().find(|endpoint| endpoint.subscribed.receive);
        if let Some(endpoint) = wanted.filter(|_| self.tone == words::GOOD && !self.steps.is_empty()) {
            let at = self.steps.len() - 1;
            self.steps.insert(at, webhook_step(&endpoint.subscribed, provider));
        }
        self
    }

    /// With the step for the first sync, where there is to be one: the last, and it may take long.
    pub(super) fn with_sync(mut self, mirror: Option<&Mirror>) -> Self {
        if let Some(mirror) = mirror.filter(|_| self.tone == words::GOOD && !self.steps.is_empty()) {
            self.steps.push(sync_step(mirror));
        }
        self
    }

    /// Whether there is nothing to say any more: a success whose connector has failed or was taken off since.
    pub(super) fn is_stale(&self, health: Health) -> bool {
        self.tone == words::GOOD && health != Health::Connected
    }

    /// What is said when it changes.
    pub(super) fn news(&self) -> &str {
        &self.title
    }
}

fn sync_step(mirror: &Mirror) -> Step {
    let tickets = |count| Some(words::counted(count, "ticket"));
    let (state, word, more) = match (&mirror.fault, mirror.first_at) {
        (Some(fault), _) => ("warn", "not done", Some(format!("{} {}", fault.detail, sync::todo(&fault.code)))),
        (None, Some(_)) => ("good", "done", tickets(mirror.tickets)),
        (None, None) => ("now", "under way", tickets(mirror.read).filter(|_| mirror.read > 0)),
    };
    Step { state, word, title: "First sync", more }
}

fn webhook_step(subscribed: &Subscribed, provider: &str) -> Step {
    let (state, word, more) = match subscribed.standing {
        Some(Standing::Made) => ("good", "done", Some(format!("{provider} sends its events here"))),
        Some(Standing::Forbidden | Standing::Failing) => ("warn", "not made", subscribed.words.clone()),
        Some(Standing::Removed) | None => ("now", "under way", None),
    };
    Step { state, word, title: "Webhook", more }
}

/// The first test runs right after; what it has not said within a minute it will not say any more.
fn is_recent(session: &Session, now: DateTime<Utc>) -> bool {
    session.state_used_at.is_some_and(|at| now - at < chrono::TimeDelta::minutes(1))
}

/// Which step it failed at.
fn failed_at(ending: &Ending) -> Option<At> {
    match ending {
        Ending::Connected { .. } | Ending::Overtaken | Ending::Taken { .. } | Ending::Removed => None,
        Ending::NotLetIn { .. } | Ending::NoIdentity { .. } | Ending::OtherAccount { .. } => Some(At::Identity),
        Ending::MissingScopes { .. } => Some(At::Permissions),
        _ => Some(At::Authorised),
    }
}

/// Whom a consent or a key is asked of.
struct AskedOf<'a> {
    app: &'a App,
    id: &'a str,
    /// As people know it.
    name: &'a str,
    /// It is asked for a key.
    key: bool,
}

/// `working`: the first that is not reached is under way. `cut`: it was, when what was at it ended.
fn steps(provider: &AskedOf<'_>, progress: &Progress, failed: Option<At>, working: bool, cut: bool) -> Vec<Step> {
    let identity = progress.who.as_ref().map(|who| {
        let role = who.role.as_deref().map(|role| format!(", {role}")).unwrap_or_default();
        let before = who.before.as_deref().map(|before| format!("; before it was {before}")).unwrap_or_default();
        let account = if who.name == who.account { String::new() } else { format!(" of {}", who.account) };
        format!("{}{role}{account}{before}", who.name)
    });
    let &AskedOf { app, id, name: provider, key } = provider;
    let permissions = progress.permissions.as_ref();
    let lacks = permissions.is_some_and(|permissions| !permissions.missing.is_empty());
    let granted = permissions.map(|permissions| match (&permissions.missing[..], permissions.told) {
        ([], true) => "All that was asked for".to_owned(),
        ([], false) => format!("{provider} does not say what it granted; the test tells"),
        (missing, _) => format!("Not allowed: {}", called::scopes(app, id, missing).join("; ")),
    });
    let test = progress.test.as_ref().map(|test| match test {
        Ok(latency) => format!("{provider} answered in {latency} ms"),
        Err(error) => error.clone(),
    });
    let done = [
        if key {
            (At::Authorised, "Key", progress.authorised, Some("It was given here".to_owned()))
        } else {
            (At::Authorised, "Authorised", progress.authorised, Some(format!("{provider} accepted the consent")))
        },
        (At::Identity, "Identity", identity.is_some(), identity),
        (At::Permissions, "Permissions", permissions.is_some(), granted),
        (At::Test, "First test", progress.test.is_some(), test),
    ];
    let mut busy = working || cut;
    let cut_off =
        |at| if at == At::Test { "This was cut off. Press Test to see whether it works." } else { "This was cut off." };
    let step = |(at, title, done, more): (At, &'static str, bool, Option<String>)| {
        let bad = failed == Some(at) || at == At::Test && matches!(progress.test, Some(Err(_)));
        let (state, word) = match (bad, done) {
            (true, _) => ("bad", "failed"),
            (false, true) if at == At::Permissions && lacks => ("warn", "not all"),
            (false, true) => ("good", "done"),
            (false, false) if std::mem::take(&mut busy) => {
                if cut {
                    ("bad", "cut off")
                } else {
                    ("now", "under way")
                }
            }
            (false, false) => ("idle", "not reached"),
        };
        let more = if word == "cut off" { Some(cut_off(at).to_owned()) } else { more.filter(|_| done) };
        Step { state, word, title, more }
    };
    done.into_iter().map(step).collect()
}
