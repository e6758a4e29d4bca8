//! Public keys of those who sign deliveries (RFC 7517), fetched beside what arrives: a delivery that needs one which is not
//! here is told to come again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use futures::StreamExt as _;
use holdfast_core::{
    jws::PublicKey,
    ports::{Body, HttpRequest},
};
use http::{HeaderMap, Method, StatusCode, header};
use serde_json::Value;
use tokio::sync::Notify;
use tracing::{debug, warn};
use url::Url;

use crate::app::App;

/// For one set of keys.
const TIMEOUT: Duration = Duration::from_secs(10);
/// A set is smaller.
const MOST_BYTES: usize = 256 * 1024;
/// Whatever strangers sign with: no set is asked for more often.
const AGAIN_AFTER: Duration = Duration::from_secs(30);
/// What a set may say of how long it is good for.
const GOOD_FOR: (Duration, Duration) = (Duration::from_mins(1), Duration::from_hours(24));

/// What was fetched, by address, and what is wanted.
#[derive(Default)]
pub(crate) struct Keys {
    sets: RwLock<BTreeMap<Url, Set>>,
    wanted: Mutex<BTreeSet<Url>>,
    wake: Notify,
}

#[derive(Clone)]
struct Set {
    keys: Arc<[PublicKey]>,
    /// By our uptime, as all moments here.
    tried_at: Duration,
    good_until: Duration,
}

impl Keys {
    /// What is here. What is old stays in use while nothing newer can be had, and is asked for.
    pub(super) fn of(&self, app: &App, url: &Url) -> Arc<[PublicKey]> {
        let set = self.sets.read().unwrap_or_else(PoisonError::into_inner).get(url).cloned();
        let Some(set) = set else {
            self.want(app, url);
            return Arc::default();
        };
        if set.good_until <= app.seams.clock.uptime() {
            self.want(app, url);
        }
        set.keys
    }

    /// A key is not here. Answers whether it may be there by now; else the set was asked just now, and who signed is a stranger.
    pub(super) fn want(&self, app: &App, url: &Url) -> bool {
        let tried = self.sets.read().unwrap_or_else(PoisonError::into_inner).get(url).map(|set| set.tried_at);
        if tried.is_some_and(|tried| app.seams.clock.uptime().saturating_sub(tried) < AGAIN_AFTER) {
            return self.sets.read().unwrap_or_else(PoisonError::into_inner)[url].keys.is_empty();
        }
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner).insert(url.clone());
        self.wake.notify_one();
        true
    }

    /// Until something is wanted.
    pub(super) async fn wanted(&self) {
        self.wake.notified().await;
    }

    /// Fetches what is wanted.
    pub(super) async fn fetch_wanted(&self, app: &App) {
        let wanted = std::mem::take(&mut *self.wanted.lock().unwrap_or_else(PoisonError::into_inner));
        for url in wanted {
            let fetched = fetch(app, &url).await;
            let now = app.seams.clock.uptime();
            let mut sets = self.sets.write().unwrap_or_else(PoisonError::into_inner);
            match fetched {
                Ok((keys, good_for)) => {
                    debug!("fetched {} public keys from {url}", keys.len());
                    sets.insert(url, Set { keys: keys.into(), tried_at: now, good_until: now + good_for });
                }
                Err(error) => {
                    warn!(
                        error = format!("{error:#}"),
                        "cannot fetch the public keys at {url}: signed deliveries wait"
                    );
                    let before = sets.get(&url).map(|set| Arc::clone(&set.keys)).unwrap_or_default();
                    sets.insert(url, Set { keys: before, tried_at: now, good_until: now + AGAIN_AFTER });
                }
            }
        }
    }
}

async fn fetch(app: &App, url: &Url) -> anyhow::Result<(Vec<PublicKey>, Duration)> {
    let request = HttpRequest {
        method: Method::GET,
        url: url.clone(),
        exact: None,
        headers: HeaderMap::new(),
        body: Body::Bytes(bytes::Bytes::new()),
        timeout: TIMEOUT,
    };
    let response = app.seams.http.send(request).await?;
    anyhow::ensure!(response.status == StatusCode::OK, "it answers {}", response.status);
    let good_for = max_age(&response.headers).unwrap_or(GOOD_FOR.0).clamp(GOOD_FOR.0, GOOD_FOR.1);
    let (mut document, mut pieces) = (Vec::new(), response.body);
    while let Some(piece) = pieces.next().await {
        document.extend_from_slice(&piece?);
        anyhow::ensure!(document.len() <= MOST_BYTES, "it is larger than any set of keys");
    }
    let keys = PublicKey::set(&serde_json::from_slice::<Value>(&document)?);
    let keys =
        keys.filter(|keys| !keys.is_empty()).ok_or_else(|| anyhow::anyhow!("it holds no keys that we verify with"))?;
    Ok((keys, good_for))
}

/// RFC 9111 section 5.2.2.1.
fn max_age(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::CACHE_CONTROL)?.to_str().ok()?;
    let secs = text.split(',').find_map(|part| part.trim().strip_prefix("max-age="))?;
    secs.parse().ok().map(Duration::from_secs)
}
