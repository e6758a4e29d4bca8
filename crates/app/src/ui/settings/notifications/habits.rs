//! What one is told, and when, as one chooses it.

use std::{collections::BTreeSet, sync::Arc};

use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
};
use holdfast_core::notify::{Habits, Pace, Topic, Zone};
use holdfast_store::HabitsChange;
use serde::{Deserialize, Serialize};
use tracing::info;

use super::{HERE, Said, page};
use crate::{
    app::App,
    ui::{
        form::Posted,
        parts::Choice,
        person::Person,
        routes::{Needs, Routes},
        trouble::Trouble,
    },
};

pub(super) fn routes() -> Routes {
    Routes::new().post(HERE, Needs::SignedIn, save)
}

#[derive(Default, Serialize)]
pub(super) struct Problems {
    topics: String,
    zone: String,
    quiet: String,
}

/// The form.
#[derive(Serialize)]
pub(super) struct Fields {
    topics: Vec<Choice>,
    paces: Vec<Choice>,
    hours: Vec<Choice>,
    zone: String,
    from: Vec<Choice>,
    to: Vec<Choice>,
    at_once: bool,
}

impl Fields {
    pub(super) fn of(habits: &Habits) -> Self {
        Self {
            topics: Topic::ALL
                .into_iter()
                .map(|topic| choice(topic.as_str(), means(topic), habits.wants(topic)))
                .collect(),
            paces: Pace::ALL.into_iter().map(|one| choice(one.as_str(), pace(one), one == habits.pace)).collect(),
            hours: hours(Some(habits.hour)),
            zone: habits.zone.name().to_owned(),
            from: hours(habits.quiet.map(|(from, _)| from)),
            to: hours(habits.quiet.map(|(_, to)| to)),
            at_once: !habits.failures_wait,
        }
    }
}

fn choice(value: &str, word: &str, chosen: bool) -> Choice {
    Choice { value: value.to_owned(), word: word.to_owned(), chosen }
}

fn hours(chosen: Option<u32>) -> Vec<Choice> {
    (0..24).map(|hour| choice(&hour.to_string(), &format!("{hour}:00"), chosen == Some(hour))).collect()
}

/// In a list of what somebody is told.
pub(super) fn topic(topic: Topic) -> &'static str {
    match topic {
        Topic::Failures => "Failures",
        Topic::Reminders => "Reminders",
        Topic::Recoveries => "Recoveries",
        Topic::Ending => "Access that ends",
        Topic::Webhooks => "Webhooks that stop",
    }
}

fn means(topic: Topic) -> &'static str {
    match topic {
        Topic::Failures => "A connector needs somebody: its provider refuses the access, or its OAuth app",
        Topic::Reminders => "It still waits, after 1, 3, 7 and 14 days",
        Topic::Recoveries => "It works again, where you were told of the failure",
        Topic::Ending => "Access ends soon, or has to be renewed by a day",
        Topic::Webhooks => "A webhook or an event endpoint has stopped",
    }
}

fn pace(pace: Pace) -> &'static str {
    match pace {
        Pace::AtOnce => "At once; what happens together comes together",
        Pace::Hourly => "Gathered, at every full hour",
        Pace::Daily => "Gathered, once a day",
    }
}

/// As it was typed.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Typed {
    topics: Vec<String>,
    pace: String,
    hour: String,
    zone: String,
    from: String,
    to: String,
    at_once: String,
}

/// An hour of a list. Inside: none was chosen.
fn hour(text: &str) -> Result<Option<u32>, Trouble> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().ok().filter(|hour| *hour < 24).map(Some).ok_or(Trouble::Garbled)
}

impl Typed {
    /// What it says, with what is wrong with it.
    fn read(&self) -> Result<(Habits, Problems), Trouble> {
        let mut problems = Problems::default();
        let wanted = self.topics.iter().map(|word| Topic::parse(word).ok_or(Trouble::Garbled));
        let wanted = wanted.collect::<Result<BTreeSet<_>, _>>()?;
        let zone = self.zone.trim().parse::<Zone>().unwrap_or_else(|_| {
            "There is no time zone of this name. Take one like Europe/Berlin, America/New_York or UTC."
                .clone_into(&mut problems.zone);
            Zone::UTC
        });
        let quiet = match (hour(&self.from)?, hour(&self.to)?) {
            (None, None) => None,
            (Some(from), Some(to)) if from != to => Some((from, to)),
            (Some(_), Some(_)) => {
                "Quiet hours end at another hour than they begin.".clone_into(&mut problems.quiet);
                None
            }
            _ => {
                "Choose when quiet hours begin and when they end, or neither.".clone_into(&mut problems.quiet);
                None
            }
        };
        let habits = Habits {
            off: Topic::ALL.into_iter().filter(|topic| !wanted.contains(topic)).collect(),
            pace: Pace::parse(&self.pace).ok_or(Trouble::Garbled)?,
            hour: hour(&self.hour)?.unwrap_or(Habits::default().hour),
            zone,
            quiet,
            failures_wait: self.at_once.is_empty(),
        };
        Ok((habits, problems))
    }

    /// The form again, with what was typed in it.
    fn fields(&self, habits: &Habits) -> Fields {
        let chosen = |text: &str| hour(text).ok().flatten();
        let (from, to) = (hours(chosen(&self.from)), hours(chosen(&self.to)));
        Fields { zone: self.zone.clone(), from, to, ..Fields::of(habits) }
    }
}

/// POST /settings/notifications
async fn save(State(app): State<Arc<App>>, person: Person, Posted(typed): Posted<Typed>) -> Result<Response, Trouble> {
    let (habits, mut problems) = typed.read()?;
    if problems.zone.is_empty() && problems.quiet.is_empty() {
        let (id, at) = (&person.user.id, app.seams.clock.now());
        match app.store.set_habits(person.org(), id, &habits, id, at).await? {
            HabitsChange::Done => {
                info!(user.id = id, "{id} has changed what they are told");
                return Ok(Redirect::to(&format!("{HERE}?did=saved")).into_response());
            }
            HabitsChange::Nobody => return Err(Trouble::not_found(&person)),
            HabitsChange::LastOne => {
                "Nobody else who can reconnect is told of failures, so you stay. Nothing was saved. Have another owner or \
                 admin told of them first."
                    .clone_into(&mut problems.topics);
            }
        }
    }
    let said = Said { habits: problems, ..Said::default() };
    page(&app, &person, said, Some(typed.fields(&habits)), StatusCode::UNPROCESSABLE_ENTITY).await
}
