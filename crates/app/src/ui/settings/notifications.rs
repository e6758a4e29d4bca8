//! Notifications: what one is told and when, who else is, whether mail arrives, and the org's channel in Slack. Everybody
//! chooses for themselves; admins add others.

mod channel;
mod habits;
mod people;

use std::sync::Arc;

use axum::{
    extract::{Query, State},
    http::StatusCode,
    response::Response,
};
use holdfast_core::{
    Role,
    notify::{Pace, Topic},
    ports::StoreError,
};
use holdfast_store::{Addressee, Channel, told_of};
use serde::{Deserialize, Serialize};

use crate::{
    app::App,
    mail::MailStatus,
    ui::{
        moment::Moment,
        parts::{Badge, Choice},
        person::Person,
        routes::{Needs, Routes},
        trouble::Trouble,
        view::{Here, View},
    },
    words::{self, BAD, GOOD, IDLE, WARN},
};

const HERE: &str = "/settings/notifications";

pub(super) fn routes() -> Routes {
    Routes::new()
        .get(HERE, Needs::SignedIn, show)
        .merge(habits::routes())
        .merge(people::routes())
        .merge(channel::routes())
}

/// Whether somebody, or the channel, cannot be told: for the overview.
pub(super) async fn trouble(app: &App, person: &Person) -> Result<bool, StoreError> {
    let all = app.store.addressees(person.org()).await?;
    if !person.may(Role::Admin) {
        return Ok(all.iter().any(|one| one.id == person.user.id && one.suppressed.is_some()));
    }
    let channel = app.store.find_channel(person.org()).await?;
    let stopped = channel.is_some_and(|channel| channel.stopped_at.is_some());
    Ok(stopped || all.iter().any(|one| one.suppressed.is_some()))
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Asked {
    did: String,
}

/// What was wrong with a form, or what an act came to, by its place on the page.
#[derive(Default, Serialize)]
struct Said {
    /// What was done.
    done: Option<&'static str>,
    /// A test mail: whether it is good, and the words.
    mail: Option<Answer>,
    /// A test of the channel.
    channel: Option<Answer>,
    /// By the field of the channel's address.
    address: String,
    /// By the fields of one's own habits.
    habits: habits::Problems,
}

#[derive(Serialize)]
struct Answer {
    good: bool,
    words: String,
}

#[derive(Serialize)]
struct NotificationsPage {
    said: Said,
    mail: MailLine,
    /// `None`: they are told nothing.
    own: Option<habits::Fields>,
    suppressed: Option<Suppressed>,
    id: String,
    people: Vec<Row>,
    /// Who could be added.
    others: Vec<Choice>,
    /// `None`: not theirs to see.
    channel: Option<ChannelLine>,
}

#[derive(Serialize)]
struct MailLine {
    badge: Badge,
    /// Since when mail cannot be delivered.
    since: Option<Moment>,
    /// For operators: why.
    why: Option<String>,
    /// When a mail to the reader was taken last.
    last: Option<Moment>,
    /// Whether there is a mail server.
    sends: bool,
}

#[derive(Serialize)]
struct Suppressed {
    since: Moment,
    why: String,
}

#[derive(Serialize)]
struct Row {
    id: String,
    name: String,
    /// Empty where they are called by it.
    email: String,
    here: bool,
    role: &'static str,
    /// An admin has added them, and may take them out.
    added: bool,
    /// What they are told, in words.
    what: String,
    when: String,
    suppressed: Option<Suppressed>,
    /// Whether the reader may have the address tried again.
    may_try: bool,
}

#[derive(Serialize, Default)]
struct ChannelLine {
    /// Empty: there is none.
    hint: String,
    badge: Option<Badge>,
    /// When a message was taken last.
    last: Option<Moment>,
    since: Option<Moment>,
    error: Option<String>,
}

/// GET /settings/notifications
async fn show(State(app): State<Arc<App>>, person: Person, Query(asked): Query<Asked>) -> Result<Response, Trouble> {
    let done = match asked.did.as_str() {
        "saved" => Some("It is saved."),
        "added" => Some("They are told from now on."),
        "removed" => Some("They are told no more."),
        "again" => Some("The address is tried again with the next mail."),
        "channel" => Some("The channel is set. Send a test to see whether it arrives."),
        "no_channel" => Some("The channel is removed."),
        _ => None,
    };
    page(&app, &person, Said { done, ..Said::default() }, None, StatusCode::OK).await
}

/// The page, with what was said; `typed`: one's own habits as they were typed.
async fn page(
    app: &App,
    person: &Person,
    said: Said,
    typed: Option<habits::Fields>,
    status: StatusCode,
) -> Result<Response, Trouble> {
    let now = app.seams.clock.now();
    let all = app.store.addressees(person.org()).await?;
    let own = all.iter().find(|one| one.id == person.user.id);
    let admin = person.may(Role::Admin);
    let failures: Vec<_> = told_of(&all, Topic::Failures).into_iter().map(|one| one.id.clone()).collect();
    let suppressed = |one: &Addressee| {
        one.suppressed
            .as_ref()
            .map(|why| Suppressed { since: Moment::new(why.at, now), why: words::sentence(&why.error) })
    };
    let row = |one: &Addressee| Row {
        id: one.id.clone(),
        name: one.shown.clone(),
        email: if one.shown == one.email { String::new() } else { one.email.clone() },
        here: one.id == person.user.id,
        role: words::role(one.role),
        added: one.added && !one.is_admin(),
        what: what(one, failures.contains(&one.id)),
        when: when(one),
        suppressed: suppressed(one),
        may_try: admin || one.id == person.user.id,
    };
    let told = |one: &&Addressee| one.is_admin() || one.added;
    let other = |one: &Addressee| Choice { value: one.id.clone(), word: one.shown.clone(), chosen: false };
    let page = NotificationsPage {
        mail: mail_line(app, person).await?,
        own: typed.or_else(|| own.filter(told).map(|one| habits::Fields::of(&one.habits))),
        suppressed: own.and_then(suppressed),
        id: person.user.id.clone(),
        people: all.iter().filter(told).map(row).collect(),
        others: all.iter().filter(|one| admin && !told(one)).map(other).collect(),
        channel: if admin { Some(channel_line(app, person).await?) } else { None },
        said,
    };
    let view = View::of(person, Here::Settings, "pages/settings/notifications.html", "Notifications", &page);
    Ok(view.status(status).show(app))
}

async fn mail_line(app: &App, person: &Person) -> Result<MailLine, StoreError> {
    let now = app.seams.clock.now();
    let (badge, since, why) = match app.mail_status().await? {
        MailStatus::NotConfigured => ((WARN, "No mail server"), None, None),
        MailStatus::Works => ((GOOD, "Mail is delivered"), None, None),
        MailStatus::Trouble { since, error, .. } => ((BAD, "Mail cannot be delivered"), Some(since), Some(error)),
    };
    Ok(MailLine {
        badge: badge.into(),
        since: Moment::maybe(since, now),
        why: why.filter(|_| person.user.operator).map(|why| words::sentence(&why)),
        last: Moment::maybe(app.store.last_delivery(&person.user.id).await?, now),
        sends: app.seams.mail.is_some(),
    })
}

async fn channel_line(app: &App, person: &Person) -> Result<ChannelLine, StoreError> {
    let now = app.seams.clock.now();
    let Some(channel) = app.store.find_channel(person.org()).await? else { return Ok(ChannelLine::default()) };
    let Channel { hint, delivered_at, failing_since, error, stopped_at, .. } = channel;
    let badge = match (stopped_at, failing_since, delivered_at) {
        (Some(_), _, _) => (BAD, "Gone: nothing is sent"),
        (None, Some(_), _) => (WARN, "Failing"),
        (None, None, Some(_)) => (GOOD, "Messages arrive"),
        (None, None, None) => (IDLE, "Not used yet"),
    };
    Ok(ChannelLine {
        hint,
        badge: Some(badge.into()),
        last: Moment::maybe(delivered_at, now),
        since: Moment::maybe(stopped_at.or(failing_since), now),
        error,
    })
}

/// What somebody is told, in words. `failures`: whether of failures, whatever they want.
fn what(one: &Addressee, failures: bool) -> String {
    let wanted: Vec<&str> = Topic::ALL
        .into_iter()
        .filter(|topic| one.habits.wants(*topic) || (*topic == Topic::Failures && failures))
        .map(habits::topic)
        .collect();
    match wanted.as_slice() {
        all if all.len() == Topic::ALL.len() => "Everything".to_owned(),
        [] => "Nothing".to_owned(),
        some => some.join(", "),
    }
}

fn when(one: &Addressee) -> String {
    let habits = &one.habits;
    let zone = habits.zone.name();
    let pace = match habits.pace {
        Pace::AtOnce => "At once".to_owned(),
        Pace::Hourly => "Every hour".to_owned(),
        Pace::Daily => format!("Daily at {}:00, {zone}", habits.hour),
    };
    let quiet = habits.quiet.map(|(from, to)| format!("; quiet from {from}:00 to {to}:00, {zone}")).unwrap_or_default();
    let waits = habits.pace != Pace::AtOnce || habits.quiet.is_some();
    let failures = if waits && !habits.failures_wait { "; failures at once" } else { "" };
    format!("{pace}{quiet}{failures}")
}
