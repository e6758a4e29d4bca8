//! Who was told of a failure by mail, and who could not be.

use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::{OrgId, Snapshot, ports::StoreError};
use holdfast_store::{MailKind, MailStage, Told as Mail};
use serde::Serialize;

use crate::{
    app::App,
    ui::moment::Moment,
    words::{self, Tone},
};

/// So many people are named.
const NAMED: usize = 8;
/// What is told within this is told within seconds.
const SECONDS: TimeDelta = TimeDelta::seconds(15);

/// As the page shows it.
#[derive(Serialize)]
pub(super) struct Told {
    /// It waits for company, or for the mail server.
    waits: bool,
    /// With which digest it is told, where that is more than some seconds away.
    digest: Option<Moment>,
    /// The mail server does not take mail, since then.
    trouble: Option<Moment>,
    people: Vec<Person>,
    more: usize,
}

#[derive(Serialize)]
struct Person {
    /// `None`: there was nobody.
    who: Option<String>,
    tone: Tone,
    word: &'static str,
    why: Option<String>,
    at: Moment,
    next: Option<Moment>,
}

impl Told {
    /// Of this connector's failure as it is.
    pub(super) async fn read(
        app: &App,
        org: &OrgId,
        connector: &Snapshot,
        now: DateTime<Utc>,
    ) -> Result<Option<Self>, StoreError> {
        let state = app.store.mail_state(org, &connector.connector).await?;
        let Some(state) = state.filter(|state| state.epoch == connector.epoch) else { return Ok(None) };
        let told: Vec<_> = state.told.into_iter().filter(|mail| mail.kind == MailKind::NeedsYou).collect();
        let open = state.gathering_since.is_some() || told.iter().any(|mail| mail.next_at.is_some());
        let digest = state.gathering_since.and(state.kept_until).filter(|at| *at > now + SECONDS);
        let trouble = if open { app.store.mail_trouble().await? } else { None };
        Ok(Some(Self {
            waits: state.gathering_since.is_some(),
            digest: Moment::maybe(digest, now),
            trouble: trouble.map(|trouble| Moment::new(trouble.since, now)),
            more: told.len().saturating_sub(NAMED),
            people: told.into_iter().take(NAMED).map(|mail| Person::of(mail, now)).collect(),
        }))
    }
}

impl Person {
    fn of(mail: Mail, now: DateTime<Utc>) -> Self {
        let (tone, word) = words::mail(mail.stage);
        let told = matches!(mail.stage, MailStage::Refused | MailStage::GivenUp | MailStage::Waiting);
        Self {
            who: mail.who,
            tone,
            word,
            why: mail.why.filter(|_| told),
            at: Moment::new(mail.at, now),
            next: Moment::maybe(mail.next_at.filter(|at| *at > now), now),
        }
    }
}
