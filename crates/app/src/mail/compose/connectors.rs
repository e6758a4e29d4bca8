//! Mails about connectors: one needs somebody, still does, works again, ends soon, has to be reconnected.

use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::{Health, Secret, Snapshot, TokenSet, credential::Reason};
use holdfast_store::{ClaimedMail, ConnectorView, MailItem, Recovery};
use secrecy::ExposeSecret;

use super::{
    NAME, Reader, WORDS, account_name, connector_name, day, frame, lasted, line, moment, names, page, provider_name,
};
use crate::{
    app::App,
    called,
    mail::{
        link::{self, LINK_LIFE, ReconnectLink},
        templates::{
            BackAgain, Button, ConnectorNeedsYou, EndingSoon, ExpiresSoon, Failed, MustReconnect, Recovered, Rendered,
            SeveralConnectorsNeedYou, StillWaiting, ToReconnect, render,
        },
    },
    oauth_apps::in_days,
    words::{self, counted},
};

/// Of the operator's words to a migration, as long as they may be.
const REASON: usize = 400;
/// Connectors in one message; what is more is counted.
const LISTED: usize = 25;
/// Agents of one connector.
const AGENTS: usize = 12;

/// The items that still stand; the others are left out from now on.
pub(super) async fn standing<'a>(
    app: &App,
    mail: &'a ClaimedMail,
    stands: impl Fn(Health, bool) -> Result<(), &'static str>,
) -> anyhow::Result<Vec<&'a MailItem>> {
    let mut standing = Vec::new();
    for item in &mail.items {
        let verdict = match item.now {
            Some((health, epoch)) => stands(health, epoch == item.epoch),
            None => Err("the connector was removed"),
        };
        match verdict {
            Ok(()) => standing.push(item),
            Err(reason) => app.store.drop_mail_item(mail, item, reason).await?,
        }
    }
    Ok(standing)
}

/// Whether a failure is still the connector's state.
pub(super) fn still_failed(now: Health, same_epoch: bool) -> Result<(), &'static str> {
    match now {
        Health::AuthFailed if same_epoch => Ok(()),
        Health::AuthFailed => Err("it has failed anew since"),
        Health::Disconnected => Err("it was disconnected before this was sent"),
        Health::Connected | Health::Pending => Err("it worked again before this was sent"),
    }
}

/// Whether it still works with the grant that ends.
fn still_ends(now: Health, same_epoch: bool) -> Result<(), &'static str> {
    match now {
        Health::Connected if same_epoch => Ok(()),
        Health::Connected => Err("it was reconnected before this was sent"),
        Health::AuthFailed | Health::Disconnected | Health::Pending => Err("it had stopped before this was sent"),
    }
}

/// Whether a recovered connector still works, whatever has happened to it in between.
fn still_works(now: Health, _same_epoch: bool) -> Result<(), &'static str> {
    match now {
        Health::Connected => Ok(()),
        Health::AuthFailed | Health::Disconnected | Health::Pending => Err("it had stopped again before this was sent"),
    }
}

/// The first ones with their connectors; one that was removed a moment ago is no longer among them.
pub(super) async fn listed_views<'a>(
    app: &App,
    items: impl Iterator<Item = &'a MailItem>,
) -> anyhow::Result<Vec<(&'a MailItem, ConnectorView)>> {
    let mut views = Vec::new();
    for item in items.take(LISTED) {
        let found = app.store.find_connector(&item.org, item.connector.as_str()).await?;
        // The id of a deleted one may be another one's alias.
        views.extend(found.filter(|view| view.snapshot.connector == item.connector).map(|view| (item, view)));
    }
    Ok(views)
}

pub(super) async fn needs_you(app: &App, mail: &ClaimedMail, reader: &Reader) -> anyhow::Result<Option<Rendered>> {
    let mut items = standing(app, mail, still_failed).await?;
    let agents = app.store.stopped_agents(mail).await?;
    let stopped = |item: &MailItem| agents.get(&item.connector).map_or(&[][..], Vec::as_slice);
    // The worst first: what has stopped the most, then for the longest.
    items.sort_by_key(|item| (std::cmp::Reverse(stopped(item).len()), item.since));
    let views = listed_views(app, items.iter().copied()).await?;
    let Some(org) = mail.org.as_ref().filter(|_| !views.is_empty()) else { return Ok(None) };
    let links = Links::for_reader(app, reader).await?;
    let mut connectors = failures(app, &views, &links, &stopped).await?;
    let link_until = links.until();
    if items.len() == 1 {
        let c = connectors.remove(0);
        let button = Button { url: c.reconnect.clone(), label: format!("{} {}", reader.verb(), c.name) };
        let frame = frame(app, Some(org), reader, Some(button)).await?;
        return Ok(Some(render(&app.views, &ConnectorNeedsYou { frame, c, link_until })?));
    }
    let count = items.len();
    let names = names(connectors.iter().map(|c| c.name.as_str()), count);
    let button = Button { url: app.url(""), label: "See all of them".to_owned() };
    let frame = frame(app, Some(org), reader, Some(button)).await?;
    let more = count - connectors.len();
    let context = SeveralConnectorsNeedYou { frame, connectors, count, more, names, link_until };
    Ok(Some(render(&app.views, &context)?))
}

/// After some days: the same once more, with what has come to wait meanwhile.
pub(super) async fn still_waiting(app: &App, mail: &ClaimedMail, reader: &Reader) -> anyhow::Result<Option<Rendered>> {
    let mut items = standing(app, mail, still_failed).await?;
    let agents = app.store.stopped_agents(mail).await?;
    let stopped = |item: &MailItem| agents.get(&item.connector).map_or(&[][..], Vec::as_slice);
    items.sort_by_key(|item| item.since);
    let views = listed_views(app, items.iter().copied()).await?;
    let Some(org) = mail.org.as_ref().filter(|_| !views.is_empty()) else { return Ok(None) };
    let links = Links::for_reader(app, reader).await?;
    let connectors = failures(app, &views, &links, &stopped).await?;
    let count = items.len();
    let button = if count == 1 {
        let c = &connectors[0];
        Button { url: c.reconnect.clone(), label: format!("{} {}", reader.verb(), c.name) }
    } else {
        Button { url: app.url(""), label: "See all of them".to_owned() }
    };
    let context = StillWaiting {
        frame: frame(app, Some(org), reader, Some(button)).await?,
        names: names(connectors.iter().map(|c| c.name.as_str()), count),
        waited: lasted(app.seams.clock.now() - views[0].0.since),
        more: count - connectors.len(),
        count,
        connectors,
        link_until: links.until(),
    };
    Ok(Some(render(&app.views, &context)?))
}

/// Where one reader mends connectors.
struct Links<'a> {
    reader: &'a Reader,
    ends_at: DateTime<Utc>,
    secret: [u8; 32],
}

impl<'a> Links<'a> {
    async fn for_reader(app: &App, reader: &'a Reader) -> anyhow::Result<Self> {
        let secret = app.store.instance_secret(link::SECRET).await?;
        Ok(Self { reader, ends_at: app.seams.clock.now() + LINK_LIFE, secret })
    }

    /// To the consent for who may give it, to the connector's page for others.
    fn to(&self, app: &App, connector: &Snapshot, epoch: i64) -> String {
        if !self.reader.reconnects {
            return page(app, connector);
        }
        let link = ReconnectLink::new(connector, epoch, &self.reader.id, self.ends_at).sign(&self.secret);
        app.url(&format!("reconnect/{}", link.expose_secret()))
    }

    /// The last day of those that end.
    fn until(&self) -> Option<String> {
        self.reader.reconnects.then(|| day(self.ends_at))
    }
}

/// Connectors that have failed, each with its likely end and with what waits for it.
async fn failures<'a>(
    app: &App,
    views: &[(&'a MailItem, ConnectorView)],
    links: &Links<'_>,
    stopped: &(impl Fn(&MailItem) -> &'a [String] + Sync),
) -> anyhow::Result<Vec<Failed>> {
    let ids: Vec<_> = views.iter().map(|(item, _)| item.connector.clone()).collect();
    let waiting = app.store.waiting_jobs(&ids).await?;
    let mut connectors: Vec<Failed> = Vec::new();
    for (item, view) in views {
        let url = links.to(app, &view.snapshot, item.epoch);
        let mut failed = Failed::of(app, view, item.since, stopped(item), url);
        if let Some(likely) = called::likely_end(app, &view.snapshot).await? {
            failed.why = format!("{} {likely}", failed.why);
        }
        if let Some(trouble) = app.store.turned_away_of(&item.org, &item.connector).await? {
            let reason = words::turned_away(trouble.reason.as_deref().unwrap_or_default());
            let since = moment(trouble.since);
            failed.webhook =
                Some(line(&format!("Its events are turned away since {since}. {}", reason.what), 2 * WORDS));
        }
        failed.verb = links.reader.verb();
        failed.waits = waiting
            .iter()
            .find(|(id, _)| *id == item.connector)
            .map(|(_, count)| format!("{}, done once it is reconnected", counted(*count, "job")));
        connectors.push(failed);
    }
    Ok(connectors)
}

pub(super) async fn back_again(app: &App, mail: &ClaimedMail, reader: &Reader) -> anyhow::Result<Option<Rendered>> {
    let items = standing(app, mail, still_works).await?;
    let agents = app.store.running_agents(mail).await?;
    let views = listed_views(app, items.iter().copied()).await?;
    let Some(org) = mail.org.as_ref().filter(|_| !views.is_empty()) else { return Ok(None) };
    let count = items.len();
    let mut connectors = Vec::new();
    for (item, view) in &views {
        let running = agents.get(&item.connector).map_or(&[][..], Vec::as_slice);
        let recovery = app.store.find_recovery(&item.org, &item.connector, Some(item.at)).await?;
        let mut back = Recovered::of(app, view, item, recovery.as_ref(), running);
        let came = app.store.deliveries_between(&item.connector, item.since, item.at).await?;
        let are = if came == 1 { "is" } else { "are" };
        let told = format!("{} came meanwhile, and {are} worked off now", counted(came, "event"));
        back.caught_up = (came > 0).then_some(told);
        connectors.push(back);
    }
    let names = names(connectors.iter().map(|c| c.name.as_str()), count);
    let button = if count == 1 {
        Button { url: connectors[0].page.clone(), label: format!("Open {}", connectors[0].name) }
    } else {
        Button { url: app.url(""), label: "See all of them".to_owned() }
    };
    let frame = frame(app, Some(org), reader, Some(button)).await?;
    let more = count - connectors.len();
    Ok(Some(render(&app.views, &BackAgain { frame, connectors, more, names })?))
}

pub(super) async fn expires_soon(app: &App, mail: &ClaimedMail, reader: &Reader) -> anyhow::Result<Option<Rendered>> {
    let items = standing(app, mail, still_ends).await?;
    let mut views = listed_views(app, items.iter().copied()).await?;
    let Some(org) = mail.org.as_ref().filter(|_| !views.is_empty()) else { return Ok(None) };
    let now = app.seams.clock.now();
    let end = |view: &ConnectorView| view.snapshot.credential.secret.tokens().and_then(TokenSet::ends_at);
    views.sort_by_key(|(_, view)| end(view).unwrap_or(DateTime::<Utc>::MAX_UTC));
    let ids: Vec<_> = views.iter().map(|(item, _)| item.connector.clone()).collect();
    let agents = app.store.agents_of(&ids).await?;
    let links = Links::for_reader(app, reader).await?;
    let mut connectors = Vec::new();
    for (item, view) in &views {
        let provider = provider_name(app, &view.snapshot.provider);
        let renewed = view.snapshot.credential.secret.tokens().is_some_and(|tokens| tokens.refresh_token.is_some());
        let at_work = agents.get(&item.connector).map_or(&[][..], Vec::as_slice);
        let at_work: Vec<String> = at_work.iter().map(|agent| agent.name.clone()).collect();
        let (agents, more_agents) = listed(&at_work);
        connectors.push(EndingSoon {
            name: connector_name(app, view),
            account: account_name(app, view),
            ends: end(view).map(moment).unwrap_or_default(),
            why: line(&words::ending(&provider, renewed).what, 2 * WORDS),
            provider,
            agents,
            more_agents,
            reconnect: links.to(app, &view.snapshot, item.epoch),
            verb: reader.verb(),
        });
    }
    let count = items.len();
    let names = names(connectors.iter().map(|c| c.name.as_str()), count);
    let button = if count == 1 {
        let c = &connectors[0];
        Button { url: c.reconnect.clone(), label: format!("{} {}", reader.verb(), c.name) }
    } else {
        Button { url: app.url(""), label: "See all of them".to_owned() }
    };
    let frame = frame(app, Some(org), reader, Some(button)).await?;
    let more = count - connectors.len();
    // Counted up, as people count: what ends in six and a half days ends in seven.
    let left = views.first().and_then(|(_, view)| end(view)).map_or(TimeDelta::zero(), |at| at - now);
    let first = in_days((left + TimeDelta::hours(12)).num_days());
    let context = ExpiresSoon { frame, connectors, count, more, names, first, link_until: links.until() };
    Ok(Some(render(&app.views, &context)?))
}

pub(super) async fn must_reconnect(app: &App, mail: &ClaimedMail, reader: &Reader) -> anyhow::Result<Option<Rendered>> {
    let id = mail.about["migration"].as_str().unwrap_or_default();
    let Some(org) = &mail.org else { return Ok(None) };
    let under_way = app.store.migrations_of(org).await?;
    let Some(progress) = under_way.into_iter().find(|one| one.migration.id == id && one.open > 0) else {
        return Ok(None);
    };
    let lines = app.store.migration_lines(org, id, LISTED as u64).await?;
    let connectors: Vec<_> = lines
        .iter()
        .map(|one| ToReconnect {
            name: line(&called::parts(app, &one.provider, &one.account, &one.name), NAME),
            account: line(&called::account(app, &one.provider, &one.account), NAME),
        })
        .collect();
    let migration = &progress.migration;
    let button = Button { url: app.url("connectors?health=must_reconnect"), label: "Reconnect them".to_owned() };
    let context = MustReconnect {
        frame: frame(app, Some(org), reader, Some(button)).await?,
        what: counted(progress.open, "connector"),
        verb: if progress.open == 1 { "has" } else { "have" },
        provider: provider_name(app, &migration.provider),
        by: migration.deadline.map(|day| day.format("%-d %B %Y").to_string()),
        reason: line(&words::migration(app.provider_name(&migration.provider), migration.reason.as_deref()), REASON),
        done: (progress.connectors > progress.open)
            .then(|| format!("{} of {}", progress.connectors - progress.open, progress.connectors)),
        reminder: mail.about["reminder"].as_bool().unwrap_or_default(),
        more: progress.open.saturating_sub(connectors.len() as u64),
        connectors,
    };
    Ok(Some(render(&app.views, &context)?))
}

impl Failed {
    fn of(app: &App, view: &ConnectorView, since: DateTime<Utc>, agents: &[String], reconnect: String) -> Self {
        let (snapshot, provider) = (&view.snapshot, provider_name(app, &view.snapshot.provider));
        let why = words::failure(snapshot.health_reason, &provider).what;
        let headline = match snapshot.health_reason {
            Some(Reason::NotRefreshable) => format!("the access to {provider} is over"),
            _ => format!("{provider} refused the access"),
        };
        let keyed = matches!(snapshot.credential.secret, Secret::ApiKey(_));
        // Of a refused key the adapter says what happened, and the reason says the same.
        let words = snapshot.health_detail.as_deref().filter(|_| !keyed).map(|words| line(words, 2 * WORDS));
        let (agents, more_agents) = listed(agents);
        Self {
            name: connector_name(app, view),
            account: account_name(app, view),
            since: moment(since),
            headline,
            why: line(&why, 2 * WORDS),
            words: words.filter(|words| !words.is_empty()),
            keyed,
            agents,
            more_agents,
            reconnect,
            verb: "Reconnect",
            waits: None,
            webhook: None,
            page: page(app, snapshot),
            provider,
        }
    }
}

impl Recovered {
    fn of(app: &App, view: &ConnectorView, item: &MailItem, recovery: Option<&Recovery>, agents: &[String]) -> Self {
        let (agents, more_agents) = listed(agents);
        Self {
            name: connector_name(app, view),
            provider: provider_name(app, &view.snapshot.provider),
            account: account_name(app, view),
            at: moment(item.at),
            lasted: lasted(item.at - item.since),
            reconnected: recovery.is_some_and(|recovery| recovery.reconnected),
            by: recovery
                .and_then(|recovery| recovery.by.as_deref())
                .map(|by| line(by, NAME))
                .filter(|by| !by.is_empty()),
            agents,
            more_agents,
            caught_up: None,
            page: page(app, &view.snapshot),
        }
    }
}

fn listed(agents: &[String]) -> (Vec<String>, usize) {
    let shown: Vec<String> = agents.iter().take(AGENTS).map(|agent| line(agent, NAME)).collect();
    let more = agents.len() - shown.len();
    (shown, more)
}
