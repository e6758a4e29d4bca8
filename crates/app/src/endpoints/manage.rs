//! Endpoints, as people and keys make and change them; what API and pages share.

use chrono::TimeDelta;
use holdfast_core::{
    OrgId,
    event::EventType,
    ports::{Changed, StoreError},
    visible,
};
use holdfast_store::{EventEndpoint, MadeEventEndpoint, NewEventEndpoint, NewEventSecret, Stopped};
use secrecy::SecretString;
use url::Url;

use super::message;
use crate::{
    app::App,
    config::{PrivateHost, is_loopback},
    seams::{Guard, Way},
};

/// Of a URL, in characters.
const LONGEST_URL: usize = 2000;
/// Of a description, in characters.
pub(crate) const LONGEST_DESCRIPTION: usize = 200;

/// How an endpoint stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It takes events, as far as is known.
    Active,
    /// The last attempt failed.
    Failing,
    /// It answered that it is gone.
    Gone,
    /// It has failed for too long.
    GivenUp,
    /// A person disabled it.
    Disabled,
}

impl Standing {
    /// By what is known of it.
    pub(crate) fn of(endpoint: &EventEndpoint) -> Self {
        match (endpoint.enabled, endpoint.stopped) {
            (true, _) if endpoint.failing_since.is_some() => Self::Failing,
            (true, _) => Self::Active,
            (false, Some(Stopped::Gone)) => Self::Gone,
            (false, Some(Stopped::Failing)) => Self::GivenUp,
            (false, None) => Self::Disabled,
        }
    }

    /// The stable word in the API.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Failing => "failing",
            Self::Gone => "gone",
            Self::GivenUp => "given_up",
            Self::Disabled => "disabled",
        }
    }
}

/// Where events are to be sent, as it is stored; the error says what is allowed.
pub(crate) fn url(app: &App, typed: &str) -> Result<String, String> {
    let typed = typed.trim();
    let allowed = "Enter an address such as https://app.example.com/holdfast-events.";
    if typed.chars().count() > LONGEST_URL {
        return Err(format!("An address has at most {LONGEST_URL} characters."));
    }
    let url = Url::parse(typed).map_err(|_| allowed.to_owned())?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(allowed.to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        let instead = "whether an event is ours, its signature says";
        return Err(format!("Leave user, password and # out of the address: {instead}."));
    }
    let exceptions = &app.config.events.allow_private_hosts;
    match Guard::new(exceptions).admit(&url) {
        Err(refusal) if refusal.contains("without TLS") => Err("The address has to begin with https://.".to_owned()),
        Ok(Way::Guarded) if !is_loopback(&url) || exceptions.contains(&PrivateHost::Loopback) => Ok(url.into()),
        Ok(Way::Open) => Ok(url.into()),
        Ok(Way::Guarded) | Err(_) => {
            Err("This is no public address. Who runs this installation can allow it: events.allow_private_hosts."
                .to_owned())
        }
    }
}

/// What people call it, or where it is.
pub(crate) fn name(endpoint: &EventEndpoint) -> String {
    if !endpoint.description.is_empty() {
        return endpoint.description.clone();
    }
    let host = Url::parse(&endpoint.url).ok().and_then(|url| url.host_str().map(str::to_owned));
    host.unwrap_or_else(|| endpoint.id.to_string())
}

/// What people call it; it may be empty.
pub(crate) fn description(typed: &str) -> Result<&str, String> {
    let typed = typed.trim();
    if typed.is_empty() || visible::is_line(typed, LONGEST_DESCRIPTION) {
        return Ok(typed);
    }
    Err(format!("A description is one line of at most {LONGEST_DESCRIPTION} characters."))
}

/// Types by their words; none means all.
pub(crate) fn types(words: &[String]) -> Result<Vec<EventType>, String> {
    let mut types = Vec::new();
    for word in words {
        let known = EventType::parse(word).filter(|kind| kind.is_chosen());
        let kind = known.ok_or_else(|| {
            let all: Vec<_> = chosen().map(EventType::as_str).collect();
            format!("There is no such type of event; allowed are {}.", all.join(", "))
        })?;
        if !types.contains(&kind) {
            types.push(kind);
        }
    }
    Ok(types)
}

/// All types that endpoints choose from.
pub(crate) fn chosen() -> impl Iterator<Item = EventType> {
    EventType::ALL.into_iter().filter(|kind| kind.is_chosen())
}

/// Makes one, with a secret of its own.
pub(crate) async fn make(
    app: &App,
    org: &OrgId,
    url: &str,
    description: &str,
    types: &[EventType],
    wish: Option<&str>,
) -> Result<MadeEventEndpoint, StoreError> {
    let secret = message::new_secret(app.seams.random.as_ref());
    let at = app.seams.clock.now();
    app.store.create_event_endpoint(&NewEventEndpoint { org, url, description, types, secret: &secret, wish, at }).await
}

/// Gives it another secret. The one before signs too for as long as configured; `at_once`: it is over.
pub(crate) async fn rotate(
    app: &App,
    org: &OrgId,
    id: &str,
    at_once: bool,
    wish: Option<&str>,
) -> Result<Option<(EventEndpoint, Changed)>, StoreError> {
    let secret: SecretString = message::new_secret(app.seams.random.as_ref());
    let at = app.seams.clock.now();
    let overlap = TimeDelta::from_std(app.config.events.secret_overlap).unwrap_or(TimeDelta::days(1));
    let previous_until = (!at_once).then(|| at + overlap);
    app.store.rotate_event_secret(org, id, &NewEventSecret { secret: &secret, previous_until, wish, at }).await
}
