//! How far a consent is, since the provider sent the person back: noted step by step, and shown live.

use chrono::{DateTime, TimeDelta, Utc};
use holdfast_store::Session;
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::ending::Ended;
use crate::app::App;

/// A consent that takes longer than this was cut off, even if whatever was at it lives: the longest wait for a provider is
/// well below.
const LONGEST: TimeDelta = TimeDelta::minutes(3);

/// What is known by now; a step that is `None` or false has not been reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// The code was exchanged.
    pub(crate) authorised: bool,
    /// Who consented.
    pub(crate) who: Option<Who>,
    /// The permissions were looked at.
    pub(crate) permissions: Option<Permissions>,
    /// The first test ran; `Err` is why it failed.
    pub(crate) test: Option<Result<u64, String>>,
}

/// Who consented.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Who {
    /// Name, or address, or id.
    pub(crate) name: String,
    /// Their role there.
    pub(crate) role: Option<String>,
    /// The account.
    pub(crate) account: String,
    /// Who had connected it before, if that was somebody else.
    pub(crate) before: Option<String>,
}

/// What was granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Permissions {
    /// Asked for, and not granted.
    pub(crate) missing: Vec<String>,
    /// Whether the provider said what it granted.
    pub(crate) told: bool,
}

/// Where a consent stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stand {
    /// The person is at the provider, or never came back.
    Away,
    /// They came back too late, or have not come back in time.
    TooLate,
    /// It is being worked off.
    Working(Progress),
    /// It was being worked off when something cut it off.
    CutOff(Progress),
    /// It ended.
    Ended(Box<Ended>, Progress),
}

/// How far it is, as it was noted last.
pub(super) fn of(session: &Session) -> Progress {
    session.progress.clone().and_then(|kept| serde_json::from_value(kept).ok()).unwrap_or_default()
}

/// Where this consent stands.
pub(crate) fn stand(session: &Session, now: DateTime<Utc>) -> Stand {
    let progress = of(session);
    if let Some(ended) = session.result.as_ref().and_then(Ended::read) {
        return Stand::Ended(Box::new(ended), progress);
    }
    match session.state_used_at {
        Some(at) if now - at > LONGEST || session.worker_alive == Some(false) => Stand::CutOff(progress),
        Some(_) => Stand::Working(progress),
        None if session.state_expires_at.is_none_or(|end| end <= now) => Stand::TooLate,
        None => Stand::Away,
    }
}

/// Notes it. It is only shown, so that trouble of the database costs nothing but a line.
pub(super) async fn note(app: &App, session: &Session, progress: &Progress) {
    let kept = serde_json::to_value(progress).expect("progress is plain data");
    if let Err(error) = app.store.note_progress(session, &kept).await {
        warn!(%error, "could not note how far a consent is");
    }
}
