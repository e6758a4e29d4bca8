//! From a claimed message to what is sent: who gets it now, what of it still stands, and the words for it.

mod account;
mod channel;
mod connectors;
mod events;
mod notices;
mod operators;

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::{OrgId, Role, Snapshot};
use holdfast_store::{ClaimedMail, ConnectorView, MailKind, User, told_of};

#[cfg(test)]
pub(crate) use channel::ChannelLine;
pub(crate) use channel::{ForChannel, for_channel};

use super::{
    Outgoing,
    templates::{Button, Frame, Rendered},
    text::line,
};
use crate::{app::App, called, ui::moment::span, words};

/// Of a name or an account.
const NAME: usize = 80;
/// Of a provider's own words.
const WORDS: usize = 200;
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
        MailKind::NeedsYou => connectors::needs_you(app, mail, reader).await?,
        MailKind::StillWaiting => connectors::still_waiting(app, mail, reader).await?,
        MailKind::BackAgain => connectors::back_again(app, mail, reader).await?,
        MailKind::AppRefused => operators::app_refused(app, mail, reader).await?,
        MailKind::ExpiresSoon | MailKind::LastDay => connectors::expires_soon(app, mail, reader).await?,
        MailKind::NobodyTold => operators::nobody_told(app, mail, reader).await?,
        MailKind::MustReconnect => connectors::must_reconnect(app, mail, reader).await?,
        MailKind::WebhookStopped => events::webhook_stopped(app, mail, reader).await?,
        MailKind::EndpointStopped => events::endpoint_stopped(app, mail, reader).await?,
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
