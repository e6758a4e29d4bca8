//! All that is known of one ticket, newest first: what came in, which agents ran, what they wrote. On top stands the one line
//! that says why nothing was done, with the next step.

use std::sync::Arc;

use axum::response::Response;
use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::{
    ConnectorId, Snapshot,
    agent::{RunState, StepOutcome},
    webhook::Topic,
};
use holdfast_store::{Delivery, DeliveryFilter, LineFilter, OnlyOn, Run, RunTicket, TicketLine};
use serde::Serialize;
use url::Url;

use super::{Asked, LinkOf, NO_TICKET, Of, Passed, TypedTicket, badge, query, standing::Facts, why};
use crate::{
    agents::manage::has_tickets,
    app::App,
    called, hooks,
    mail::text::line,
    ui::{
        moment::{Moment, span},
        parts::{Badge, Choice},
        person::Person,
        trouble::Trouble,
        view::{Here, View},
    },
};

/// Of a page.
const ENTRIES: usize = 25;
/// Of what people said, the newest; the line on top is made from that.
const SAID: u32 = 25;
/// Connectors that a ticket may be on, to choose from.
const MOST_CONNECTORS: u32 = 20;
/// Of what an agent wrote, or why it did not; the step's page has all of it.
const LONGEST_WORDS: usize = 240;
/// Lines of one run.
const MOST_LINES: usize = 6;

#[derive(Serialize)]
struct StoryPage {
    /// As it was typed.
    typed: String,
    /// Why that is no ticket.
    problem: Option<&'static str>,
    /// `#14`.
    ticket: String,
    /// Where it is.
    of: Option<Of>,
    /// Its health.
    health: Option<Badge>,
    /// The connectors on which there is one of this id, where there are several.
    choices: Vec<Choice>,
    /// There are more of them.
    more_choices: bool,
    why: Option<why::Why>,
    /// Nothing tells of what happens there.
    deaf: bool,
    entries: Vec<Entry>,
    newest: Option<String>,
    older: Option<String>,
    /// Where nothing is known: what it may have come to.
    helpdesks: Vec<Helpdesk>,
    /// The link is of a helpdesk that is not connected here: its host.
    elsewhere: Option<String>,
    /// For so long what came in is kept.
    kept: String,
}

/// Something that happened.
#[derive(Serialize)]
struct Entry {
    badge: Badge,
    what: String,
    link: String,
    dry: bool,
    at: Moment,
    /// In small letters: who asked, in which word.
    more: String,
    lines: Vec<EntryLine>,
    #[serde(skip)]
    order: String,
}

#[derive(Serialize)]
struct EntryLine {
    words: String,
    /// The page with all of it.
    link: Option<String>,
    /// What was written.
    quote: Option<String>,
}

/// A connector that could know of the ticket.
#[derive(Serialize)]
struct Helpdesk {
    of: Of,
    badge: Badge,
    told: bool,
    /// When the ticket was last changed, as the mirror has it.
    mirrored: Option<Moment>,
}

/// The part of an id that newer ones have greater, whatever they are ids of.
pub(super) fn order(id: &str) -> &str {
    id.split_once('_').map_or(id, |(_, order)| order)
}

/// GET /deliveries?ticket=
pub(super) async fn show(
    app: &Arc<App>,
    person: &Person,
    asked: &Asked,
    on: Option<&Snapshot>,
) -> Result<Response, Trouble> {
    let kept = TimeDelta::from_std(app.config.webhooks.keep).ok().and_then(span).unwrap_or_default();
    let mut page = StoryPage {
        typed: asked.ticket.trim().to_owned(),
        problem: None,
        ticket: String::new(),
        of: None,
        health: None,
        choices: Vec::new(),
        more_choices: false,
        why: None,
        deaf: false,
        entries: Vec::new(),
        newest: None,
        older: None,
        helpdesks: Vec::new(),
        elsewhere: None,
        kept,
    };
    let Some(typed) = TypedTicket::read(&asked.ticket) else {
        page.problem = Some(NO_TICKET);
        return Ok(view(app, person, "Deliveries", &page));
    };
    page.ticket = called::ticket(&typed.ticket);
    let title = format!("Ticket {}", page.ticket);
    let only = match &typed.link {
        Some(link) => only_on(app, person, link).await?,
        None => Some(OnlyOn::Any),
    };
    let only = match (only, on) {
        (None, _) => {
            page.elsewhere = typed.link.as_ref().and_then(Url::host_str).map(str::to_owned);
            return Ok(view(app, person, &title, &page));
        }
        // What a link says goes before the page that it was pasted on.
        (Some(OnlyOn::Connector(of_link)), _) => OnlyOn::Connector(of_link),
        (Some(OnlyOn::Provider(of_link)), Some(on)) if on.provider != of_link => OnlyOn::Provider(of_link),
        (Some(_), Some(on)) => OnlyOn::Connector(on.connector.clone()),
        (Some(any), None) => any,
    };
    let known = app.store.connectors_of_ticket(person.org(), &typed.ticket, &only, MOST_CONNECTORS + 1).await?;
    match known.as_slice() {
        [] => page.helpdesks = helpdesks(app, person, &typed.ticket, &only).await?,
        [one] => {
            tell(app, person, asked, &RunTicket { connector: one.clone(), ticket: typed.ticket }, &mut page).await?;
        }
        several => {
            let most = several.len().min(MOST_CONNECTORS as usize);
            page.more_choices = several.len() > most;
            let several = &several[..most];
            let names = app.store.connectors_by_name(person.org(), several).await?;
            let choice = |id: &ConnectorId| Choice {
                value: super::story_of(id.as_str(), &typed.ticket),
                word: names
                    .get(id)
                    .map(|one| called::named(app, &one.provider, &one.account, &one.name))
                    .unwrap_or_default(),
                chosen: false,
            };
            page.choices = several.iter().map(choice).collect();
        }
    }
    Ok(view(app, person, &title, &page))
}

fn view(app: &App, person: &Person, title: &str, page: &StoryPage) -> Response {
    View::of(person, Here::Deliveries, "pages/deliveries/ticket.html", title, page).show(app)
}

/// Where a link says that the ticket is. `None`: on a helpdesk that is not connected here.
async fn only_on(app: &App, person: &Person, link: &Url) -> Result<Option<OnlyOn>, Trouble> {
    match LinkOf::read(app, link) {
        LinkOf::Nothing => Ok(Some(OnlyOn::Any)),
        LinkOf::Provider(provider) => Ok(Some(OnlyOn::Provider(provider.to_owned()))),
        LinkOf::Accounts(accounts) => {
            for (provider, account) in accounts {
                if let Some(found) = app.store.find_account(person.org(), provider, &account).await? {
                    return Ok(Some(OnlyOn::Connector(found.id)));
                }
            }
            Ok(None)
        }
    }
}

/// Puts together what is known of a ticket on one connector.
async fn tell(
    app: &Arc<App>,
    person: &Person,
    asked: &Asked,
    on: &RunTicket,
    page: &mut StoryPage,
) -> Result<(), Trouble> {
    let now = app.seams.clock.now();
    let known = app.engine.snapshot(&on.connector).await?.ok_or_else(|| Trouble::not_found(person))?;
    let before = Some(order(&asked.before)).filter(|before| before.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    let before = before.filter(|before| !before.is_empty());
    let filter =
        DeliveryFilter { connector: Some(on.connector.clone()), state: None, subject: Some(on.ticket.clone()) };
    let cursor = before.map(|before| format!("dlv_{before}"));
    let limit = ENTRIES as u64;
    let deliveries = app.store.deliveries(person.org(), &filter, cursor.as_deref(), limit).await?;
    let cursor = before.map(|before| format!("run_{before}"));
    let runs = app.store.runs_of_ticket(person.org(), on, cursor.as_deref(), limit).await?;
    let ids: Vec<_> = runs.data.iter().map(|(run, _)| &run.id).collect();
    let lines = app.store.lines_of_ticket(&ids, on).await?;

    let came = deliveries.data.iter().map(|delivery| of_delivery(delivery, now));
    let ran = runs.data.iter().map(|(run, agent)| of_run(run, agent, &lines, now));
    let mut entries: Vec<_> = came.chain(ran).collect();
    entries.sort_by(|one, other| other.order.cmp(&one.order));
    let more = entries.len() > ENTRIES || deliveries.next_cursor.is_some() || runs.next_cursor.is_some();
    entries.truncate(ENTRIES);
    let ticket = ("ticket", on.ticket.as_str());
    let connector = ("connector", on.connector.as_str());
    let address = |before: &str| format!("/deliveries{}", query(&[connector, ticket, ("before", before)]));
    page.older = entries.last().filter(|_| more).map(|last| address(&last.order));
    page.newest = before.map(|_| address(""));
    if before.is_none() {
        let said = app.store.said_on_ticket(person.org(), on, SAID).await?;
        let answer = app.store.answer_of_ticket(person.org(), on).await?;
        let (came, runs, lines) = (&deliveries.data, &runs.data, &lines);
        page.why =
            why::of(app, person, &known, on, Facts { said: &said, came, runs, answer: answer.as_ref(), lines }).await?;
    }
    page.entries = entries;
    page.deaf = !hooks::manage::is_told(app, person.org(), &known.provider, &on.connector, now).await?;
    page.health = Some(Badge::of_health(known.health, known.credential.degraded.is_some()));
    page.of = Some(Of {
        id: on.connector.to_string(),
        name: called::named(app, &known.provider, &known.account, &known.name),
    });
    Ok(())
}

fn of_delivery(delivery: &Delivery, now: DateTime<Utc>) -> Entry {
    let what = match Topic::parse(&delivery.topic) {
        Some(Topic::TicketCreated) => "The ticket was created",
        Some(Topic::TicketReplied) => "A reply or a note came in",
        Some(Topic::TicketChanged) => "The ticket was changed",
        _ => delivery.topic.as_str(),
    };
    let words = |words: String| EntryLine { words, link: None, quote: None };
    let mut lines = Vec::new();
    if let Some(detail) = &delivery.detail {
        let mut told = words(line(detail, LONGEST_WORDS));
        told.link = delivery.same_as.as_ref().map(|same| format!("/deliveries/{same}"));
        lines.push(told);
    }
    let passed = delivery.passed_over.iter().flatten().map(Passed::from);
    lines.extend(passed.map(|passed| words(format!("{} {}.", passed.name, passed.why))));
    Entry {
        badge: badge(delivery.state),
        what: what.to_owned(),
        link: format!("/deliveries/{}", delivery.id),
        dry: false,
        at: Moment::new(delivery.received_at, now),
        more: match delivery.kind.as_str() {
            "sync" => "found by a sync; no webhook told of it".to_owned(),
            kind => kind.to_owned(),
        },
        lines,
        order: order(delivery.id.as_str()).to_owned(),
    }
}

fn of_run(run: &Run, agent: &str, lines: &[TicketLine], now: DateTime<Utc>) -> Entry {
    let address = format!("/agents/{}/runs/{}", run.agent, run.id);
    let step = |one: &TicketLine| Some(format!("{address}/steps/{}", one.position));
    let mut told = Vec::new();
    if let Some(detail) = &run.detail {
        told.push(EntryLine { words: line(detail, LONGEST_WORDS), link: None, quote: None });
    }
    let own: Vec<_> = lines.iter().filter(|one| one.run == run.id).collect();
    let wrote = own.iter().filter(|one| one.tool.is_some());
    told.extend(wrote.map(|one| EntryLine { words: wrote_words(one), link: step(one), quote: quote(one) }));
    if run.detail.is_none() && told.is_empty() {
        let reasons = reasons(run, lines);
        told.extend(reasons.map(|one| EntryLine { words: reason_words(one), link: step(one), quote: None }));
    }
    told.truncate(MOST_LINES);
    Entry {
        badge: Badge::of_run(run.state),
        what: match run.state {
            RunState::Queued => format!("{agent} is to run"),
            RunState::Running => format!("{agent} is running"),
            _ => format!("{agent} ran"),
        },
        link: address.clone(),
        dry: run.dry,
        at: Moment::new(run.started_at.unwrap_or(run.queued_at), now),
        more: match (&run.actor, &run.event) {
            (Some(actor), _) => format!("asked for by {actor}"),
            (None, Some(_)) => "set off by what came in".to_owned(),
            (None, None) if run.state == RunState::Succeeded && !own.iter().any(|one| one.tool.is_some()) => {
                "by its schedule; of its runs that wrote nothing here the newest alone is shown".to_owned()
            }
            (None, None) => "by its schedule".to_owned(),
        },
        lines: told,
        order: order(run.id.as_str()).to_owned(),
    }
}

/// Why a run wrote nothing on the ticket, as far as it says.
pub(super) fn reasons<'a>(run: &'a Run, lines: &'a [TicketLine]) -> impl Iterator<Item = &'a TicketLine> {
    let whole = run.event.is_some();
    lines.iter().filter(move |one| one.run == run.id && one.tool.is_none() && (one.of_item || whole))
}

/// `Set priority and tag: its condition did not hold`.
pub(super) fn reason_words(one: &TicketLine) -> String {
    let detail = one.detail.as_deref().unwrap_or_default();
    line(&format!("{}: {detail}", one.title), LONGEST_WORDS)
}

fn wrote_words(one: &TicketLine) -> String {
    let detail = one.detail.as_deref().map(|detail| format!(" {detail}")).unwrap_or_default();
    let words = match one.outcome {
        Some(StepOutcome::Done) => format!("Wrote: {}", one.title),
        Some(StepOutcome::Shown) => format!("Would have written: {}", one.title),
        Some(StepOutcome::Failed) => format!("Could not write: {}.{detail}", one.title),
        Some(StepOutcome::Skipped) => format!("Left out: {}.{detail}", one.title),
        None => format!("Is writing: {}", one.title),
    };
    line(&words, LONGEST_WORDS)
}

/// The text that a customer or a colleague reads.
fn quote(one: &TicketLine) -> Option<String> {
    let body = one.input.as_ref()?.get("body")?.as_str()?;
    Some(line(body, LONGEST_WORDS))
}

/// The helpdesks that could know of a ticket of which nothing has come in.
async fn helpdesks(app: &Arc<App>, person: &Person, ticket: &str, only: &OnlyOn) -> Result<Vec<Helpdesk>, Trouble> {
    let now = app.seams.clock.now();
    let search = match only {
        OnlyOn::Connector(id) => Some(id.to_string()),
        OnlyOn::Any | OnlyOn::Provider(_) => None,
    };
    let is_meant = |id: &str| has_tickets(app, id) && !matches!(only, OnlyOn::Provider(only) if only != id);
    let mut all = Vec::new();
    let providers: Vec<_> = app.providers().iter().map(|one| one.about().id).filter(|id| is_meant(id)).collect();
    for provider in providers {
        let filter =
            LineFilter { provider: Some(provider.to_owned()), search: search.clone(), ..LineFilter::default() };
        let left = (MOST_CONNECTORS as usize).saturating_sub(all.len());
        let found = app.store.connector_lines(person.org(), &filter, None, u64::from(MOST_CONNECTORS)).await?.data;
        all.extend(found.into_iter().take(left));
    }
    let ids: Vec<_> = all.iter().map(|line| &line.id).collect();
    let mirrored = app.store.mirrored_ticket(&ids, ticket).await?;
    let mut helpdesks = Vec::with_capacity(all.len());
    for one in &all {
        helpdesks.push(Helpdesk {
            of: Of { id: one.id.to_string(), name: called::parts(app, &one.provider, &one.account, &one.name) },
            badge: Badge::of_health(one.health, one.degraded.is_some()),
            told: hooks::manage::hears(app, person.org(), &one.id, now).await?,
            mirrored: Moment::maybe(mirrored.get(&one.id).copied(), now),
        });
    }
    Ok(helpdesks)
}
