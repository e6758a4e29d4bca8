//! What makes providers send: when somebody has to look at it, and what goes with a connector that is taken off. The looks
//! themselves are jobs: `jobs/subscription.rs`.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::{
    ApiClient, Health, Snapshot,
    job::Kind,
    ports::{Changed, StoreError, Trigger},
    refresh::Need,
    webhook::{Event, Key, SecretFrom, Wanted, Webhook},
};
use holdfast_store::{Endpoint, Entry, NewEndpoint, NewJob, NewlyConnected, Owner, Receiver};
use metrics::counter;
use serde_json::json;
use tracing::{info, warn};

use super::manage::{adapter, address, new_secret, way};
use crate::{app::App, metrics::SUBSCRIPTIONS};

/// Rows that one look takes at most; there is another one within a second.
const AT_ONCE: u32 = 100;
/// A connector that was connected before this, and had no webhook thought of, gets none by itself any more.
const NEW_FOR: TimeDelta = TimeDelta::hours(24);
/// What is left of a token that is given back: enough for what is asked before that.
const LEAST_LIFE: std::time::Duration = std::time::Duration::from_secs(30);

/// For the timeline.
pub(crate) const BY_ITSELF: &str = "Holdfast";

/// Whether this provider's side is kept here: its API can, and it reaches this address.
pub(crate) fn is_kept(app: &App, provider: &str, way: &dyn Webhook) -> bool {
    way.subscriptions().is_some() && reaches_us(app, provider)
}

/// A provider on the internet does not reach a loopback address; one that the operator has put in its place may.
fn reaches_us(app: &App, provider: &str) -> bool {
    let elsewhere = app.config.providers.by_id.get(provider).is_some_and(|one| one.base_url_override.is_some());
    elsewhere || !app.config.is_loopback()
}

/// One look: webhooks of new connectors are thought of, and the jobs for what is due are put into the queue. Any number
/// of replicas may do it.
pub async fn round(app: &App) -> Result<(), StoreError> {
    let now = app.seams.clock.now();
    if app.config.webhooks.make_on_connect {
        for new in app.store.newly_connected(now - NEW_FOR, AT_ONCE).await? {
            make_by_itself(app, &new, now).await?;
            app.store.settle_newly_connected(&new, now).await?;
        }
    }
    let next = now + TimeDelta::from_std(app.config.webhooks.look).unwrap_or(TimeDelta::MAX);
    for due in app.store.due_looks(now, AT_ONCE).await? {
        // Another replica may have been faster.
        let _claimed = app.store.claim_look(&due, next, now).await?;
    }
    Ok(())
}

/// A person has connected it, so that its agents hear of events from then on. Where the address is there, somebody has
/// decided already; and an import changes nothing at the provider.
async fn make_by_itself(app: &App, new: &NewlyConnected, now: DateTime<Utc>) -> Result<(), StoreError> {
    let Some(way) = way(app, &new.provider, None).filter(|way| is_kept(app, &new.provider, *way)) else {
        return Ok(());
    };
    if !new.consented {
        return Ok(());
    }
    let facts = way.facts();
    let secret = matches!(facts.secret, SecretFrom::Us | SecretFrom::Either).then(|| new_secret(app));
    let owner = Owner::Connector(new.connector.clone());
    let endpoint = NewEndpoint {
        org: Some(&new.org),
        owner: &owner,
        provider: &new.provider,
        kind: facts.id,
        secret: secret.as_ref(),
        at: now,
        actor: BY_ITSELF,
    };
    let (endpoint, made) = app.store.make_endpoint(&endpoint).await?;
    if made == Changed::Yes {
        app.store.set_receive(&endpoint, true, BY_ITSELF, now).await?;
    }
    Ok(())
}

/// What of a connector has to be taken away at its provider before the access is given back, and what it is done with.
pub(crate) struct Leaving {
    app: Arc<App>,
    known: Arc<Snapshot>,
    api: ApiClient,
    endpoints: Vec<Endpoint>,
}

/// `None`: there is nothing, or nothing to ask with. The token that is used lives for a little longer afterwards.
pub(crate) async fn leaving(app: &Arc<App>, known: &Snapshot) -> Result<Option<Leaving>, StoreError> {
    if known.health != Health::Connected {
        return Ok(None);
    }
    let mut endpoints = app.store.endpoints_of(&known.org, &known.connector, app.seams.clock.now()).await?;
    endpoints.retain(|one| {
        let kept = adapter(app, one).is_some_and(|way| way.subscriptions().is_some());
        kept && (one.subscribed.receive || !one.subscribed.known.is_empty())
    });
    if endpoints.is_empty() {
        return Ok(None);
    }
    let fresh = app.engine.fresh(&known.connector, &Need::ValidFor(LEAST_LIFE), Trigger::Caller);
    let known = tokio::select! {
        fresh = fresh => fresh.ok(),
        () = app.seams.clock.sleep(crate::care::WITHIN / 3) => None,
    };
    let api = known.as_ref().and_then(|known| ApiClient::fixed(&app.engine, known));
    Ok(known.zip(api).map(|(known, api)| Leaving { app: Arc::clone(app), known, api, endpoints }))
}

impl Leaving {
    /// Takes them away, and writes the timeline where there still is one.
    pub(crate) async fn run(self, deleted: bool) {
        let mut left = false;
        for endpoint in &self.endpoints {
            if let Err(error) = self.take_away(endpoint).await {
                info!(connector.id = %self.known.connector, "a webhook is left at its provider: {error}");
                left = true;
            }
        }
        if deleted {
            return;
        }
        if !left && let Err(error) = self.app.store.forget_subscriptions(&self.known.connector).await {
            warn!(error = format!("{:#}", anyhow::Error::new(error)), "could not forget what is gone at a provider");
        }
        let provider = self.app.provider_name(&self.known.provider);
        let entry = Entry {
            org: self.known.org.clone(),
            connector: self.known.connector.clone(),
            at: self.app.seams.clock.now(),
            kind: "webhook".to_owned(),
            outcome: Some(if left { "not_withdrawn" } else { "withdrawn" }.to_owned()),
            actor: None,
            detail: left.then(|| format!("It may still send here; take the webhook out at {provider}.")),
            duration: None,
            version: None,
        };
        if let Err(error) = self.app.store.add_timeline(&entry).await {
            warn!(error = format!("{:#}", anyhow::Error::new(error)), "could not write the timeline");
        }
    }

    async fn take_away(&self, endpoint: &Endpoint) -> holdfast_core::error::Result<()> {
        let Some(kept) = adapter(&self.app, endpoint).and_then(Webhook::subscriptions) else { return Ok(()) };
        let (url, now) = (address(&self.app, endpoint), self.app.seams.clock.now());
        let remembered = &endpoint.subscribed.known;
        let wanted = Wanted { endpoint: &endpoint.id, url: &url, secret: None, remembered, now };
        for seen in kept.look(&self.api, &wanted).await? {
            kept.remove(&self.api, &seen).await?;
            count(&endpoint.provider, "removed");
        }
        Ok(())
    }
}

/// Its provider says that the app was taken off there. That may have been long ago, and the connector has been connected
/// again since (RC-08): a job asks the provider whether the access is still good. Written before the provider is told that
/// its event was taken.
pub(crate) async fn removal_told(
    app: &App,
    endpoint: &Endpoint,
    receiver: &Receiver,
    event: &Event,
    at: DateTime<Utc>,
) -> Result<(), StoreError> {
    let (Key::Id(key) | Key::Digest(key, _)) = &event.key;
    let job = NewJob {
        org: receiver.org.clone(),
        kind: Kind::Subscription,
        key: format!("removed:{}:{key}", receiver.connector),
        connector: Some(receiver.connector.clone()),
        subject: endpoint.id.clone(),
        payload: json!({ "removed": receiver.connector }),
        due_at: at,
        at,
    };
    app.store.enqueue(&job).await.map(|_| ())
}

/// What was done at a provider, for the metrics.
pub(crate) fn count(provider: &str, outcome: &'static str) {
    counter!(SUBSCRIPTIONS, "provider" => provider.to_owned(), "outcome" => outcome).increment(1);
}

/// A connector's events may be missing from then until now: its provider had stopped sending. In words for people; whoever
/// writes them down has the connector synced ([`sync::catch_up`](crate::sync::catch_up)).
pub(crate) fn missed(from: DateTime<Utc>, to: DateTime<Utc>) -> String {
    let moment = |at: DateTime<Utc>| at.format("%Y-%m-%d %H:%M").to_string();
    format!("What happened between {} and {} (UTC) may not have arrived here", moment(from), moment(to))
}
