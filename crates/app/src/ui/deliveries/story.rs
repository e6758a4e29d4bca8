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
use holdfast_store::{Delivery, DeliveryFilter, LineFilter, Run, RunTicket, TicketLine};
use serde::Serialize;
use url::Url;

use super::{Asked, Of, Passed, TypedTicket, badge, query, why};
use crate::{
    agents::manage::tools_of,
    app::App,
    called, hooks,
    mail::text::line,
    tools,
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
        page.problem = Some("That names no ticket. Type its number, such as 14 or #14, or paste the link of its page.");
        return Ok(view(app, person, "Deliveries", &page));
    };
    page.ticket = called::ticket(&typed.ticket);
    let title = format!("Ticket {}", page.ticket);
    let known = app.store.connectors_of_ticket(person.org(), &typed.ticket, MOST_CONNECTORS).await?;
    let of_link = match &typed.link {
        Some(link) => helpdesk_of(app, person, link).await?,
        None => OfLink::Any,
    };
    if let (OfLink::Nobodys, Some(link)) = (&of_link, &typed.link) {
        page.elsewhere = link.host_str().map(str::to_owned);
        return Ok(view(app, person, &title, &page));
    }
    let meant: Vec<_> = match (on, &of_link) {
        (Some(on), _) => known.into_iter().filter(|id| *id == on.connector).collect(),
        (None, OfLink::One(one)) => known.into_iter().filter(|id| id == one).collect(),
        (None, _) => known,
    };
    match meant.as_slice() {
        [] => page.helpdesks = helpdesks(app, person, &typed.ticket, on, &of_link).await?,
        [one] => {
            tell(app, person, asked, &RunTicket { connector: one.clone(), ticket: typed.ticket }, &mut page).await?;
        }
        several => {
            let names = app.store.connectors_by_name(person.org(), several).await?;
            let choice = |id: &ConnectorId| Choice {
                value: super::story_of(id.as_str(), &typed.ticket),
                word: names.get(id).map(|named| called::named(app, named)).unwrap_or_default(),
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

/// Which helpdesk a link is of.
enum OfLink {
    /// It does not say: all accounts of its provider have the same addresses.
    Any,
    One(ConnectorId),
    /// One that is not connected here.
    Nobodys,
}

async fn helpdesk_of(app: &App, person: &Person, link: &Url) -> Result<OfLink, Trouble> {
    let mut of_link = OfLink::Any;
    for provider in app.providers().iter().filter(|one| has_tickets(app, one.about().id)) {
        let Ok(account) = provider.account(link.as_str()) else { continue };
        match app.store.find_account(person.org(), provider.about().id, &account.id).await? {
            Some(found) => return Ok(OfLink::One(found.id)),
            None => of_link = OfLink::Nobodys,
        }
    }
    Ok(of_link)
}

fn has_tickets(app: &App, provider: &str) -> bool {
    tools_of(app, provider).iter().any(|tool| tool.name == "get_ticket")
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
    let ids: Vec<_> = runs.iter().map(|(run, _)| &run.id).collect();
    let lines = app.store.lines_of_ticket(&ids, on).await?;

    let came = deliveries.data.iter().map(|delivery| of_delivery(delivery, now));
    let ran = runs.iter().map(|(run, agent)| of_run(run, agent, &lines, now));
    let mut entries: Vec<_> = came.chain(ran).collect();
    entries.sort_by(|one, other| other.order.cmp(&one.order));
    let more = entries.len() > ENTRIES || deliveries.next_cursor.is_some();
    entries.truncate(ENTRIES);
    let ticket = ("ticket", on.ticket.as_str());
    let connector = ("connector", on.connector.as_str());
    let address = |before: &str| format!("/deliveries{}", query(&[connector, ticket, ("before", before)]));
    page.older = entries.last().filter(|_| more).map(|last| address(&last.order));
    page.newest = before.map(|_| address(""));
    if before.is_none() {
        page.why = why::of(app, person, &known, on, &deliveries.data, &runs, &lines).await?;
    }
    page.entries = entries;
    page.deaf = !hooks::manage::is_told(app, person.org(), &known.provider, &on.connector, now).await?;
    page.health = Some(Badge::of_health(known.health, known.credential.degraded.is_some()));
    page.of = Some(Of { id: on.connector.to_string(), name: name(app, &known) });
    Ok(())
}

pub(super) fn name(app: &App, known: &Snapshot) -> String {
    if known.name.is_empty() { tools::connector_name(app, &known.provider, &known.account) } else { known.name.clone() }
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
async fn helpdesks(
    app: &Arc<App>,
    person: &Person,
    ticket: &str,
    on: Option<&Snapshot>,
    of_link: &OfLink,
) -> Result<Vec<Helpdesk>, Trouble> {
    let now = app.seams.clock.now();
    let one = match (on, of_link) {
        (Some(on), _) => Some(on.connector.clone()),
        (None, OfLink::One(one)) => Some(one.clone()),
        _ => None,
    };
    let filter = LineFilter { search: one.as_ref().map(ToString::to_string), ..LineFilter::default() };
    let all = app.store.connector_lines(person.org(), &filter, None, u64::from(MOST_CONNECTORS)).await?.data;
    let all: Vec<_> = all.into_iter().filter(|line| has_tickets(app, &line.provider)).collect();
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
