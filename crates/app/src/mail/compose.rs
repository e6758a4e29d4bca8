//! From a claimed message to what is sent: who gets it now, what of it still stands, and the words for it.

mod account;
mod channel;
mod notices;

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::{Health, OrgId, Role, Secret, Snapshot, TokenSet, credential::Reason, notify::Topic};
use holdfast_store::{ClaimedMail, ConnectorView, MailItem, MailKind, Recovery, Stopped, User, told_of};
use secrecy::ExposeSecret;

#[cfg(test)]
pub(crate) use channel::ChannelLine;
pub(crate) use channel::{ForChannel, for_channel};

use super::{
    Outgoing,
    link::{self, LINK_LIFE, ReconnectLink},
    templates::{
        AppRefused, BackAgain, Button, ConnectorNeedsYou, EndingSoon, EndpointStopped, ExpiresSoon, Failed, Frame,
        MustReconnect, NobodyTold, Recovered, Rendered, SeveralConnectorsNeedYou, StillWaiting, ToReconnect,
        WebhookNotSent, WebhookStopped, render,
    },
    text::line,
};
use crate::{
    app::App,
    called, endpoints, hooks,
    oauth_apps::in_days,
    ui::moment::span,
    words::{self, counted},
};

/// Of a name or an account.
const NAME: usize = 80;
/// Of a provider's own words.
const WORDS: usize = 200;
/// Of the operator's words to a migration, as long as they may be.
const REASON: usize = 400;
/// Connectors in one message; what is more is counted.
const LISTED: usize = 25;
/// Agents of one connector.
const AGENTS: usize = 12;
/// Names in a subject.
const NAMED: usize = 3;

/// What is to be done with a claimed message.
pub(super) enum Composed {
    /// Send it.
    Send(Box<Outgoing>),
    /// There is nothing to tell any more, or nobody to tell it to.
    Drop(&'static str),
}

/// Why a message is not sent to an address.
const SUPPRESSED: &str = "the address takes no mail";

/// Who gets it, as they are now.
struct Reader {
    /// The user's id; empty for an address of the configuration.
    id: String,
    address: String,
    role: &'static str,
    /// Whether a signed link is for them: whoever may not reconnect is led to the connector's page.
    reconnects: bool,
    /// Whether they choose what they are told.
    chooses: bool,
}

/// Puts it together. What does not stand any more is left out, and noted so.
pub(super) async fn compose(app: &App, mail: &ClaimedMail) -> anyhow::Result<Composed> {
    let reader = match reader(app, mail).await? {
        Ok(reader) => reader,
        Err(gone) => return Ok(Composed::Drop(gone)),
    };
    let Some(rendered) = words_of(app, mail, &reader).await? else {
        return Ok(Composed::Drop("it was over before it was sent"));
    };
    Ok(Composed::Send(Box::new(outgoing(app, reader.address, rendered, mail.message_id.clone(), &mail.answers))))
}

/// What it says to this reader. `None`: there is nothing to tell any more.
async fn words_of(app: &App, mail: &ClaimedMail, reader: &Reader) -> anyhow::Result<Option<Rendered>> {
    Ok(match mail.kind {
        MailKind::NeedsYou => needs_you(app, mail, reader).await?,
        MailKind::StillWaiting => still_waiting(app, mail, reader).await?,
        MailKind::BackAgain => back_again(app, mail, reader).await?,
        MailKind::AppRefused => app_refused(app, mail, reader).await?,
        MailKind::ExpiresSoon | MailKind::LastDay => expires_soon(app, mail, reader).await?,
        MailKind::NobodyTold => nobody_told(app, mail, reader).await?,
        MailKind::MustReconnect => must_reconnect(app, mail, reader).await?,
        MailKind::WebhookStopped => webhook_stopped(app, mail, reader).await?,
        MailKind::EndpointStopped => endpoint_stopped(app, mail, reader).await?,
        MailKind::Invitation => account::invitation(app, mail, reader).await?,
        MailKind::PasswordReset => account::password_reset(app, mail, reader).await?,
        MailKind::PasswordChanged => account::password_changed(app, mail, reader).await?,
        MailKind::NewSignIn => account::new_sign_in(app, mail, reader).await?,
        MailKind::SecondFactor => account::second_factor(app, mail, reader).await?,
        MailKind::KeyMade => account::key_made(app, mail, reader).await?,
        MailKind::AddressSuppressed => notices::address_suppressed(app, mail, reader).await?,
        MailKind::ChannelStopped => notices::channel_stopped(app, mail, reader).await?,
        // Sent at once, by whoever wanted to see it.
        MailKind::Test => None,
    })
}

/// A test mail to somebody.
pub(super) async fn test(app: &App, user: &User, message_id: String) -> anyhow::Result<Outgoing> {
    let role = words::a_role(user.role);
    let reader = Reader { id: user.id.clone(), address: user.email.clone(), role, reconnects: false, chooses: true };
    let rendered = notices::test(app, &user.org, &reader).await?;
    Ok(outgoing(app, reader.address, rendered, message_id, &[]))
}

fn outgoing(app: &App, to: String, rendered: Rendered, message_id: String, answers: &[String]) -> Outgoing {
    let Rendered { subject, text, html, .. } = rendered;
    let mut headers = vec![
        ("Auto-Submitted".to_owned(), "auto-generated".to_owned()),
        ("X-Auto-Response-Suppress".to_owned(), "All".to_owned()),
    ];
    if let Some(last) = answers.last() {
        headers.push(("In-Reply-To".to_owned(), last.clone()));
        headers.push(("References".to_owned(), answers.join(" ")));
    }
    Outgoing {
        to,
        from: super::sender(&app.config),
        reply_to: app.config.mail.reply_to.clone(),
        subject,
        text,
        html,
        headers,
        message_id,
        date: app.seams.clock.now(),
    }
}

/// EM-05: whoever has left or lost the role since gets nothing.
async fn reader(app: &App, mail: &ClaimedMail) -> anyhow::Result<Result<Reader, &'static str>> {
    let own = matches!(
        mail.kind,
        MailKind::PasswordReset | MailKind::PasswordChanged | MailKind::NewSignIn | MailKind::SecondFactor
    );
    let Some(id) = &mail.user else {
        if mail.kind == MailKind::Invitation {
            return Ok(Ok(Reader::of_address(&mail.recipient, "invited")));
        }
        let listed = app.config.operator.emails.iter().any(|address| address.trim().to_lowercase() == mail.recipient);
        return Ok(if !listed {
            Err("the address is not among the operators' any more")
        } else if app.store.suppression(&mail.recipient).await?.is_some() {
            Err(SUPPRESSED)
        } else {
            Ok(Reader::of_address(&mail.recipient, "an operator"))
        });
    };
    let Some(user) = app.store.find_user(id).await? else { return Ok(Err("the person has left")) };
    let role = match &mail.org {
        None if own => "somebody with an account",
        None if user.operator => "an operator",
        None => return Ok(Err("the person is no operator any more")),
        Some(org) if user.org != *org => return Ok(Err("the person has left")),
        Some(_) => words::a_role(user.role),
    };
    let reconnects = user.role >= Role::Admin;
    if let Some(org) = &mail.org {
        let all = app.store.addressees(org).await?;
        let Some(one) = all.iter().find(|one| one.id == user.id) else { return Ok(Err("the person has left")) };
        let told = mail.kind.topic().is_none_or(|topic| told_of(&all, topic).iter().any(|told| told.id == user.id));
        if !one.is_admin() && (!one.added || mail.kind.topic().is_none()) {
            return Ok(Err("the person is no admin any more"));
        }
        if one.suppressed.is_some() {
            return Ok(Err(SUPPRESSED));
        }
        if !told {
            return Ok(Err("the person does not want to hear of it any more"));
        }
    } else if mail.kind != MailKind::PasswordReset && app.store.suppression(&user.email).await?.is_some() {
        return Ok(Err(SUPPRESSED));
    }
    Ok(Ok(Reader { id: user.id, address: user.email, role, reconnects, chooses: mail.kind.topic().is_some() }))
}

impl Reader {
    fn of_address(address: &str, role: &'static str) -> Self {
        Self { id: String::new(), address: address.to_owned(), role, reconnects: false, chooses: false }
    }

    /// What they do about a connector.
    fn verb(&self) -> &'static str {
        if self.reconnects { "Reconnect" } else { "Open" }
    }
}

/// The items that still stand; the others are left out from now on.
async fn standing<'a>(
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
fn still_failed(now: Health, same_epoch: bool) -> Result<(), &'static str> {
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
async fn listed_views<'a>(
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

async fn needs_you(app: &App, mail: &ClaimedMail, reader: &Reader) -> anyhow::Result<Option<Rendered>> {
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
async fn still_waiting(app: &App, mail: &ClaimedMail, reader: &Reader) -> anyhow::Result<Option<Rendered>> {
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

async fn back_again(app: &App, mail: &ClaimedMail, reader: &Reader) -> anyhow::Result<Option<Rendered>> {
    let items = standing(app, mail, still_works).await?;
    let agents = app.store.running_agents(mail).await?;
    let views = listed_views(app, items.iter().copied()).await?;
    let Some(org) = mail.org.as_ref().filter(|_| !views.is_empty()) else { return Ok(None) };
    let count = items.len();
    let mut connectors = Vec::new();
    for (item, view) in &views {
        let running = agents.get(&item.connector).map_or(&[][..], Vec::as_slice);
        let recovery = app.store.find_recovery(&item.org, &item.connector, Some(item.at)).await?;
        connectors.push(Recovered::of(app, view, item, recovery.as_ref(), running));
    }
    let names = names(connectors.iter().map(|c| c.name.as_str()), count);
    let url = if count == 1 { connectors[0].page.clone() } else { app.url("") };
    let frame = frame(app, Some(org), reader, Some(Button { url, label: "Open Holdfast".to_owned() })).await?;
    let more = count - connectors.len();
    Ok(Some(render(&app.views, &BackAgain { frame, connectors, more, names })?))
}

async fn expires_soon(app: &App, mail: &ClaimedMail, reader: &Reader) -> anyhow::Result<Option<Rendered>> {
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

async fn app_refused(app: &App, mail: &ClaimedMail, reader: &Reader) -> anyhow::Result<Option<Rendered>> {
    let id = mail.about["trouble"].as_str().unwrap_or_default();
    let Some(trouble) = app.store.find_app_trouble(id, mail.org.as_ref()).await? else { return Ok(None) };
    let operator = mail.org.is_none();
    let mut waiting = counted(trouble.connectors, "connector");
    if operator && trouble.orgs > 1 {
        waiting = format!("{waiting} of {}", counted(trouble.orgs, "organisation"));
    }
    let provider = trouble.app.provider();
    let own = trouble.app.org().is_some();
    let button = if own {
        let url = app.url(&format!("settings/own-apps/{provider}"));
        Button { url, label: "Open your OAuth app".to_owned() }
    } else if operator {
        let url = app.url(&format!("settings/oauth-apps/{provider}"));
        Button { url, label: "Open the OAuth app".to_owned() }
    } else {
        Button { url: app.url(""), label: "Open Holdfast".to_owned() }
    };
    let frame = frame(app, mail.org.as_ref(), reader, Some(button)).await?;
    let context = AppRefused {
        frame,
        operator,
        own,
        provider: provider_name(app, provider),
        provider_id: line(provider, NAME),
        configured: app.config.oauth_apps.contains_key(provider),
        since: moment(trouble.since),
        waiting,
        verb: if trouble.connectors == 1 { "waits" } else { "wait" },
        words: trouble.detail.map(|words| line(&words, WORDS)).filter(|words| !words.is_empty()),
    };
    Ok(Some(render(&app.views, &context)?))
}

async fn nobody_told(app: &App, mail: &ClaimedMail, reader: &Reader) -> anyhow::Result<Option<Rendered>> {
    let items = standing(app, mail, still_failed).await?;
    let views = listed_views(app, items.iter().copied()).await?;
    let Some((first, _)) = views.first() else { return Ok(None) };
    let count = items.len();
    let org_name = app.store.org_name(&first.org).await?.unwrap_or_default();
    let called: Vec<String> = views.iter().map(|(_, view)| connector_name(app, view)).collect();
    let context = NobodyTold {
        frame: frame(app, None, reader, None).await?,
        org_name: line(&org_name, NAME),
        waiting: counted(count as u64, "connector"),
        verb: if count == 1 { "needs" } else { "need" },
        names: names(called.iter().map(String::as_str), count),
        since: moment(first.since),
    };
    Ok(Some(render(&app.views, &context)?))
}

async fn must_reconnect(app: &App, mail: &ClaimedMail, reader: &Reader) -> anyhow::Result<Option<Rendered>> {
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

/// EM-07: the reason, the last error in short, where the rest of them stands, and the steps back.
async fn webhook_stopped(app: &App, mail: &ClaimedMail, reader: &Reader) -> anyhow::Result<Option<Rendered>> {
    let Some(org) = &mail.org else { return Ok(None) };
    let endpoint = mail.about["endpoint"].as_str().unwrap_or_default();
    let not_sent = mail.about["not_sent"].as_bool().unwrap_or_default();
    let Some(trouble) = app.store.find_webhook_trouble(org, endpoint, not_sent).await? else { return Ok(None) };
    let Some(view) = app.store.find_connector(org, trouble.connector.as_str()).await? else { return Ok(None) };
    // EM-01: the mail about the failure names both.
    if view.snapshot.health == Health::AuthFailed && !not_sent && wants_failures(app, org, mail).await? {
        let connector = &view.snapshot.connector;
        if app.store.failure_is_about_to_be_told(org, connector, &mail.recipient).await? {
            return Ok(None);
        }
    }
    let provider = provider_name(app, &view.snapshot.provider);
    if not_sent {
        let button =
            Button { url: format!("{}/webhook", page(app, &view.snapshot)), label: "Look at the webhook".to_owned() };
        let context = WebhookNotSent {
            frame: frame(app, Some(org), reader, Some(button)).await?,
            name: connector_name(app, &view),
            account: account_name(app, &view),
            since: moment(trouble.since),
            why: line(trouble.not_sent.as_deref().unwrap_or_default(), 2 * WORDS),
            provider,
        };
        return Ok(Some(render(&app.views, &context)?));
    }
    let facts = hooks::manage::way(app, &view.snapshot.provider, Some(&trouble.kind))
        .map(holdfast_core::webhook::Webhook::facts);
    let reason = words::turned_away(trouble.reason.as_deref().unwrap_or_default());
    let limit = facts.and_then(|facts| facts.own_limit);
    let button =
        Button { url: format!("{}/webhook", page(app, &view.snapshot)), label: "See what was turned away".to_owned() };
    let context = WebhookStopped {
        frame: frame(app, Some(org), reader, Some(button)).await?,
        name: connector_name(app, &view),
        account: account_name(app, &view),
        gone: trouble.gone_at.map(moment),
        since: moment(trouble.since),
        count: counted(trouble.failures, "event"),
        reason: line(reason.what, 2 * WORDS),
        todo: line(reason.todo, 2 * WORDS),
        limit: limit.map(|limit| line(&format!("After {} in a row, {}.", limit.failures, limit.then), WORDS)),
        provider,
    };
    Ok(Some(render(&app.views, &context)?))
}

async fn wants_failures(app: &App, org: &OrgId, mail: &ClaimedMail) -> anyhow::Result<bool> {
    let all = app.store.addressees(org).await?;
    // The channel is told of all failures.
    Ok(mail.user.is_none() || told_of(&all, Topic::Failures).iter().any(|one| one.id == mail.recipient))
}

async fn endpoint_stopped(app: &App, mail: &ClaimedMail, reader: &Reader) -> anyhow::Result<Option<Rendered>> {
    let Some(org) = &mail.org else { return Ok(None) };
    let (id, now) = (mail.about["endpoint"].as_str().unwrap_or_default(), app.seams.clock.now());
    let found = app.store.find_event_endpoint(org, id, now).await?;
    let Some(endpoint) = found.filter(|endpoint| endpoint.stopped.is_some()) else { return Ok(None) };
    let last = app.store.event_attempts(org, &endpoint.id, None, 1).await?.data.pop();
    let button = Button {
        url: app.url(&format!("settings/event-endpoints/{}", endpoint.id)),
        label: "Open the endpoint".to_owned(),
    };
    let settings = &app.config.events;
    let long = TimeDelta::from_std(settings.disable_after).ok().and_then(span).unwrap_or_default();
    let context = EndpointStopped {
        frame: frame(app, Some(org), reader, Some(button)).await?,
        name: line(&endpoints::manage::name(&endpoint), NAME),
        url: line(&endpoint.url, 2 * WORDS),
        reason: match endpoint.stopped {
            Some(Stopped::Gone) => "It answered that it is gone (410).".to_owned(),
            _ => format!("Every attempt to bring an event there has failed for {long}."),
        },
        stopped: moment(endpoint.disabled_at.unwrap_or(now)),
        failing: endpoint.failing_since.filter(|_| endpoint.failures > 1).map(moment),
        count: counted(endpoint.failures, "attempt"),
        last: last.and_then(|attempt| attempt.fault).map(|fault| line(&fault, WORDS)),
        kept: counted(settings.keep_days.into(), "day"),
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
        let words = snapshot.health_detail.as_deref().filter(|_| !keyed).map(|words| line(words, WORDS));
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
            page: page(app, &view.snapshot),
        }
    }
}

async fn frame(app: &App, org: Option<&OrgId>, reader: &Reader, button: Option<Button>) -> anyhow::Result<Frame> {
    let url = app.config.public_url();
    let org = match org {
        Some(org) => app.store.org_name(org).await?.map(|name| line(&name, NAME)),
        None => None,
    };
    Ok(Frame {
        base: url.as_str().trim_end_matches('/').to_owned(),
        host: url.authority().to_owned(),
        role: reader.role,
        choose: reader.chooses.then(|| app.url("settings/notifications")),
        org,
        button,
    })
}

fn page(app: &App, connector: &Snapshot) -> String {
    app.url(&format!("connectors/{}", connector.connector))
}

fn provider_name(app: &App, id: &str) -> String {
    line(app.provider_name(id), NAME)
}

/// What it is called, on one line.
fn connector_name(app: &App, view: &ConnectorView) -> String {
    line(&called::connector(app, &view.snapshot), NAME)
}

/// The account's address, and what the provider calls it.
fn account_name(app: &App, view: &ConnectorView) -> String {
    let snapshot = &view.snapshot;
    let known = app.providers().find(&snapshot.provider).and_then(|provider| provider.account(&snapshot.account).ok());
    let address = known.map_or_else(|| line(&snapshot.account, NAME), |account| line(&account.display, NAME));
    let called = view.identity.as_ref().and_then(|identity| identity["account"].as_str());
    match called.map(|called| line(called, NAME)) {
        Some(called) if !called.is_empty() && called != address => format!("{address} ({called})"),
        _ => address,
    }
}

fn listed(agents: &[String]) -> (Vec<String>, usize) {
    let shown: Vec<String> = agents.iter().take(AGENTS).map(|agent| line(agent, NAME)).collect();
    let more = agents.len() - shown.len();
    (shown, more)
}

/// A few names, and how many more there are.
fn names<'a>(all: impl Iterator<Item = &'a str>, count: usize) -> String {
    let mut seen = BTreeSet::new();
    let shown: Vec<&str> = all.filter(|name| seen.insert(*name)).take(NAMED).collect();
    match (shown.as_slice(), count.saturating_sub(shown.len())) {
        ([one], 0) => (*one).to_owned(),
        ([first @ .., last], 0) => format!("{} and {last}", first.join(", ")),
        (shown, more) => format!("{} and {more} more", shown.join(", ")),
    }
}

/// In full, with its zone: a mail is read anywhere.
pub(crate) fn moment(at: DateTime<Utc>) -> String {
    at.format("%-d %B %Y, %H:%M UTC").to_string()
}

pub(crate) fn day(at: DateTime<Utc>) -> String {
    at.format("%-d %B %Y").to_string()
}

/// How long, in its largest unit.
fn lasted(time: TimeDelta) -> String {
    let minutes = Some(time).filter(|time| *time >= TimeDelta::minutes(1));
    minutes.and_then(span).unwrap_or_else(|| "less than a minute".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_as_people_say_them() {
        for (secs, words) in [
            (0, "less than a minute"),
            (59, "less than a minute"),
            (60, "1 minute"),
            (7199, "1 hour"),
            (7200, "2 hours"),
            (200_000, "2 days"),
            (-5, "less than a minute"),
        ] {
            assert_eq!(lasted(TimeDelta::seconds(secs)), words);
        }
        assert_eq!(moment("2026-11-09T08:05:59Z".parse().unwrap()), "9 November 2026, 08:05 UTC");
    }

    #[test]
    fn a_line_of_names_stays_short() {
        for (all, count, words) in [
            (&["Acme"][..], 1, "Acme"),
            (&["Acme", "Globex"][..], 2, "Acme and Globex"),
            (&["Acme", "Globex", "Initech"][..], 3, "Acme, Globex and Initech"),
            (&["Acme", "Globex", "Initech", "Hooli"][..], 40, "Acme, Globex, Initech and 37 more"),
        ] {
            assert_eq!(names(all.iter().copied(), count), words);
        }
    }
}
