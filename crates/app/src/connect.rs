//! Connect and Reconnect: a link, a page, the provider's consent, and back.
//!
//! GET on a link only shows a page, since mail scanners follow links; a POST from that page starts the consent, bound
//! to this browser by a cookie. `state` works once, for ten minutes. Nothing is written before the provider has said
//! whose account came back. Somebody who is signed in needs no link: [`begin`]. A link
//! of a mail (`reconnect.rs`) has a page of its own before the same consent. Where the provider gives keys and asks for no
//! consent, a page of ours (`key.rs`) stands in the place of the provider's.

mod asked;
mod callback;
mod claim;
mod consent;
mod ending;
mod key;
mod progress;
mod reconnect;
mod start;

pub(crate) use consent::resume;
pub(crate) use ending::{Ending, Told, partly};
pub(crate) use progress::{Progress, Stand, stand};
pub(crate) use start::{Ways, begin, leads_to, no_app, ways};

use std::{
    collections::{HashMap, HashSet},
    sync::Mutex,
};

use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::{ConnectorId, OrgId, Snapshot};
use holdfast_store::{KeptGrant, NewSession, Way};
use secrecy::ExposeSecret;
use url::Url;

use crate::{
    app::App,
    keys,
    problem::Problem,
    ui::routes::{Needs, Routes},
};

/// How long a link can be used to start a consent.
const LINK_LIFE: TimeDelta = TimeDelta::hours(1);
/// The same of one that somebody hands on by hand.
const LINK_LIFE_BY_HAND: TimeDelta = TimeDelta::days(7);
/// How long a consent may take (RFC 9700 asks for a short life; people read consent pages slowly).
const STATE_LIFE: TimeDelta = TimeDelta::minutes(10);

/// A connect link.
#[derive(Clone)]
pub struct Link {
    /// For a person's browser; a secret until it is used.
    pub url: String,
    /// After this it starts nothing.
    pub expires_at: DateTime<Utc>,
}

/// Links that errors have named lately, so that a failing connector that is asked a thousand times makes one.
#[derive(Default)]
pub struct Links(Mutex<HashMap<ConnectorId, (i64, Link)>>);

/// Consents whose tokens are at hand and that have not ended: this process is at them.
#[derive(Default)]
pub struct Consents(Mutex<HashSet<String>>);

impl Consents {
    /// False: this process is at it already.
    fn begin(&self, grant: &KeptGrant) -> bool {
        self.0.lock().expect("no panic happens while it is held").insert(grant.id())
    }

    fn end(&self, grant: &KeptGrant) {
        self.0.lock().expect("no panic happens while it is held").remove(&grant.id());
    }
}

/// The pages, outside of `/api`.
pub(crate) fn routes() -> Routes {
    Routes::new()
        .get("/connect/{link}", Needs::Link, start::show)
        .post("/connect/{link}", Needs::Link, start::start)
        .get("/reconnect/{token}", Needs::Link, reconnect::show)
        .post("/reconnect/{token}", Needs::Link, reconnect::start)
        .get("/oauth/callback", Needs::Link, callback::callback)
        .get("/connect/key/{state}", Needs::Link, key::show)
        .post("/connect/key/{state}", Needs::Link, key::take)
        .get("/connect/ended/{session}", Needs::Link, callback::ended)
        .get("/connect/trouble/{word}", Needs::Link, callback::trouble)
        .referring_nobody()
}

/// The secret of a link as it was made: mail programs take a full stop or a bracket after it for a part of it.
fn secret_of(link: &str) -> &str {
    link.trim_end_matches(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_')
}

/// A new link for this connector.
pub async fn make_link(app: &App, connector: &Snapshot, return_url: Option<String>) -> Result<Link, Problem> {
    link_for(app, connector, return_url, LINK_LIFE, true).await
}

/// The same for a person who hands it on in a mail or a chat: it can wait.
pub(crate) async fn make_link_by_hand(app: &App, connector: &Snapshot) -> Result<Link, Problem> {
    link_for(app, connector, None, LINK_LIFE_BY_HAND, true).await
}

async fn link_for(
    app: &App,
    connector: &Snapshot,
    return_url: Option<String>,
    life: TimeDelta,
    asked_for: bool,
) -> Result<Link, Problem> {
    let text = keys::secret_text("", app.seams.random.as_ref());
    let text = text.expose_secret();
    let at = app.seams.clock.now();
    let expires_at = at + life;
    let session = NewSession {
        org: connector.org.clone(),
        connector: connector.connector.clone(),
        link_hash: keys::hash(text),
        purpose: start::purpose(connector),
        return_url,
        way: Way::Link,
        user: None,
        at,
        expires_at,
        asked_for,
    };
    app.store.create_session(&session).await?;
    Ok(Link { url: app.url(&format!("connect/{text}")), expires_at })
}

/// Where an error sends a person: a connect link for callers that may make one, else the connector's page.
pub async fn reconnect_url(app: &App, connector: &Snapshot, may_connect: bool) -> Result<String, Problem> {
    if !may_connect {
        return Ok(app.url(&format!("connectors/{}", connector.connector)));
    }
    let soon = app.seams.clock.now() + LINK_LIFE / 2;
    let kept = app.links.0.lock().expect("no panic happens while it is held").get(&connector.connector).cloned();
    if let Some((epoch, link)) = kept
        && epoch == connector.epoch
        && link.expires_at > soon
    {
        return Ok(link.url);
    }
    let link = link_for(app, connector, None, LINK_LIFE, false).await?;
    let mut links = app.links.0.lock().expect("no panic happens while it is held");
    links.retain(|_, (_, link)| link.expires_at > soon);
    links.insert(connector.connector.clone(), (connector.epoch, link.clone()));
    Ok(link.url)
}

/// A `return_url` of an origin that the org has registered, or that the operator has listed for all.
pub async fn checked_return_url(app: &App, org: &OrgId, given: Option<&str>) -> Result<Option<String>, Problem> {
    let Some(given) = given else { return Ok(None) };
    let own = app.store.org_face(org).await?.unwrap_or_default().return_origins;
    let listed = |url: &Url| {
        let of_all = app.config.connect.return_origins.iter().any(|origin| origin.origin() == url.origin());
        of_all || own.contains(&url.origin().ascii_serialization())
    };
    match Url::parse(given) {
        Ok(url) if matches!(url.scheme(), "https" | "http") && listed(&url) => Ok(Some(url.into())),
        _ => Err(Problem::invalid(
            "return_url",
            "It has to be an absolute URL of an origin that your organisation has registered under Settings, Organisation, \
             or that is listed in connect.return_origins.",
        )),
    }
}
