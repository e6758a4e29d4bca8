//! OAuth apps: an org's own, and the instance's, of which those of the configuration come first, then those that operators
//! set in the web UI. Remembered while signals are known to arrive.

use std::{
    collections::{BTreeMap, HashMap},
    sync::RwLock,
    time::Duration,
};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use holdfast_core::{
    AppId, OrgId, Provider,
    exchange::Grant,
    ports::{Changed, OAuthApp, OAuthApps, Signals, StoreError},
    provider::Auth,
    refresh::ClientTaken,
};
use holdfast_store::{AppSecret, Store, StoredApp};
use secrecy::SecretString;
use tracing::{info, warn};

use crate::{
    app::App,
    config::{Config, OAuthAppConfig},
    keys,
};

/// So many accounts are asked at most: one of them may be closed, or may not know the app.
const ACCOUNTS_ASKED: u32 = 3;
/// All of them together, since somebody waits for the page.
const LONGEST_CHECK: Duration = Duration::from_secs(10);

/// All of them, as everything that needs one finds it.
pub struct Apps {
    configured: BTreeMap<String, OAuthAppConfig>,
    store: Store,
    kept: RwLock<Kept>,
}

/// An app with its name, if there is one.
type Found = Option<(AppId, OAuthApp)>;

#[derive(Default)]
struct Kept {
    /// Of the web UI, by whose own and provider, with the era of the signals in which each was looked up.
    apps: HashMap<(Option<OrgId>, String), (u64, Found)>,
    /// Moves with each change, so that a look-up under way at that moment is not kept.
    generation: u64,
}

/// When a client secret ends, and where a new one is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretEnd {
    /// Of which provider.
    pub provider: String,
    /// When the provider lets it end.
    pub at: DateTime<Utc>,
    /// Whether it is the configuration's.
    pub configured: bool,
}

/// The end of a client secret is told from this many days ahead on (TE-11).
pub const SECRET_WARNING_DAYS: i64 = 30;

impl SecretEnd {
    /// What the operator is told, if it is near or over.
    pub fn warning(&self, now: DateTime<Utc>) -> Option<String> {
        let (provider, days) = (&self.provider, (self.at - now).num_days());
        let place = |key: &str| {
            if self.configured {
                format!("oauth_apps.{provider}.{key}")
            } else {
                "the web UI, under Settings, OAuth apps".to_owned()
            }
        };
        if self.at <= now {
            let (end, place) = (self.at.date_naive(), place("client_secret"));
            Some(format!("the client secret of {provider} ended on {end}; make a new one there and set it in {place}"))
        } else if days <= SECRET_WARNING_DAYS {
            let (days, place) = (in_days(days), place("next_client_secret"));
            Some(format!(
                "the client secret of {provider} ends {days}; make a new one there and set it as the next one in {place}"
            ))
        } else {
            None
        }
    }
}

/// `in 7 days`, `in 1 day`, `today`.
pub(crate) fn in_days(days: i64) -> String {
    match days {
        ..=0 => "today".to_owned(),
        1 => "in 1 day".to_owned(),
        days => format!("in {days} days"),
    }
}

impl Apps {
    /// Over this configuration and store.
    pub fn new(config: &Config, store: Store) -> Self {
        Self { configured: config.oauth_apps.clone(), store, kept: RwLock::default() }
    }

    /// The app that consents of this org are given to: its own if it has one, else the instance's. An error also where a
    /// stored secret cannot be opened: another app in its place would be a surprise.
    pub async fn for_consent(&self, org: &OrgId, provider: &str) -> Result<Found, StoreError> {
        match self.stored(Some(org), provider).await? {
            Some(own) => Ok(Some(own)),
            None => Ok(self.instances(provider).await?.map(|app| (AppId::instance(provider), app))),
        }
    }

    /// The instance's app of this provider, if one is set up. An error also where a stored secret cannot be opened.
    pub async fn instances(&self, provider: &str) -> Result<Option<OAuthApp>, StoreError> {
        if let Some(configured) = self.configured.get(provider) {
            return Ok(Some(configured.app()));
        }
        Ok(self.stored(None, provider).await?.map(|(_, app)| app))
    }

    async fn stored(&self, org: Option<&OrgId>, provider: &str) -> Result<Found, StoreError> {
        let key = (org.cloned(), provider.to_owned());
        let era = self.store.era();
        let generation = {
            let kept = self.kept.read().expect("no panic happens while it is held");
            if let Some((_, app)) = kept.apps.get(&key).filter(|(looked_up_in, _)| Some(*looked_up_in) == era) {
                return Ok(app.clone());
            }
            kept.generation
        };
        let found = self.store.find_oauth_app(org, provider).await?;
        let found = found.map(|stored| Ok((stored.id(), opened(&stored)?))).transpose()?;
        if let Some(era) = era {
            let mut kept = self.kept.write().expect("no panic happens while it is held");
            if kept.generation == generation {
                kept.apps.insert(key, (era, found.clone()));
            }
        }
        Ok(found)
    }

    /// Whether this org can connect the provider: the app that its consents are given to is set up, and its secrets can be
    /// opened.
    pub async fn is_set_up(&self, org: &OrgId, provider: &str) -> Result<bool, StoreError> {
        if let Some(own) = self.store.find_oauth_app(Some(org), provider).await? {
            return Ok(opened(&own).is_ok());
        }
        if self.configured.contains_key(provider) {
            return Ok(true);
        }
        Ok(self.store.find_oauth_app(None, provider).await?.is_some_and(|app| opened(&app).is_ok()))
    }

    /// The configuration's app of this provider: it goes before a stored one, and nobody can change it in the UI.
    pub fn configured(&self, provider: &str) -> Option<&OAuthAppConfig> {
        self.configured.get(provider)
    }

    /// When client secrets of the instance's apps end, as far as that is known. Orgs see on their own pages when theirs do.
    pub async fn ends(&self) -> Result<Vec<SecretEnd>, StoreError> {
        Ok(ends(&self.configured, &self.store.oauth_apps().await?))
    }

    /// Apps changed: nothing that is remembered counts.
    pub fn forget(&self) {
        let mut kept = self.kept.write().expect("no panic happens while it is held");
        kept.apps.clear();
        kept.generation += 1;
    }
}

#[async_trait]
impl OAuthApps for Apps {
    async fn find(&self, app: &AppId) -> Result<Option<OAuthApp>, StoreError> {
        match app.org() {
            None => self.instances(app.provider()).await,
            Some(org) => {
                let own = self.stored(Some(org), app.provider()).await?;
                Ok(own.filter(|(id, _)| id == app).map(|(_, app)| app))
            }
        }
    }
}

/// When the secrets of these apps end. The configuration's app of a provider hides a stored one.
pub fn ends(configured: &BTreeMap<String, OAuthAppConfig>, stored: &[StoredApp]) -> Vec<SecretEnd> {
    let of_config = configured.iter().filter_map(|(provider, app)| {
        Some(SecretEnd { provider: provider.clone(), at: app.client_secret_expires_at?, configured: true })
    });
    let of_ui = stored.iter().filter(|app| !configured.contains_key(&app.provider)).filter_map(|app| {
        Some(SecretEnd { provider: app.provider.clone(), at: app.secret_expires_at?, configured: false })
    });
    of_config.chain(of_ui).collect()
}

fn opened(app: &StoredApp) -> Result<OAuthApp, StoreError> {
    let open = |secret: &Option<AppSecret>| match secret {
        None => Ok(None),
        Some(secret) => secret.secret.clone().map(Some).ok_or_else(|| {
            StoreError::new(format!("open the client secret of {}; it has to be entered again", app.provider))
        }),
    };
    Ok(OAuthApp {
        client_id: app.client_id.clone(),
        client_secret: open(&app.secret)?,
        next_client_secret: open(&app.next_secret)?,
    })
}

/// Asks the provider whether it takes this client, at accounts that are known here; an org's own at that org's. One that takes it settles it: another
/// may be closed, or may not know the app. [`ClientTaken::Unknown`] also where no account is known, and where that takes
/// longer than somebody waits for a page.
pub async fn check(
    app: &App,
    org: Option<&OrgId>,
    provider: &dyn Provider,
    client_id: &str,
    secret: Option<&SecretString>,
) -> Result<ClientTaken, StoreError> {
    tokio::select! {
        checked = ask(app, org, provider, client_id, secret) => checked,
        () = app.seams.clock.sleep(LONGEST_CHECK) => Ok(ClientTaken::Unknown("it did not answer in time".to_owned())),
    }
}

async fn ask(
    app: &App,
    org: Option<&OrgId>,
    provider: &dyn Provider,
    client_id: &str,
    secret: Option<&SecretString>,
) -> Result<ClientTaken, StoreError> {
    let client = OAuthApp { client_id: client_id.to_owned(), client_secret: None, next_client_secret: None };
    let random = app.seams.random.as_ref();
    let (code, verifier) = (keys::secret_text("", random), keys::secret_text("", random));
    let redirect_uri = app.redirect_uri();
    let mut found = ClientTaken::Unknown("no account of it is connected yet".to_owned());
    for account in app.store.some_accounts(org, provider.about().id, ACCOUNTS_ASKED).await? {
        let Ok(account) = provider.account(&account) else { continue };
        let Auth::OAuth2(facts) = provider.auth(&account) else { continue };
        let verifier = facts.pkce.then_some(&verifier);
        let grant = Grant::Code { code: &code, redirect_uri: &redirect_uri, verifier };
        match app.engine.try_client(provider, &facts, &client, secret, &grant).await {
            ClientTaken::Yes => return Ok(ClientTaken::Yes),
            ClientTaken::No(refusal) => found = ClientTaken::No(refusal),
            ClientTaken::Unknown(words) if !matches!(found, ClientTaken::No(_)) => found = ClientTaken::Unknown(words),
            ClientTaken::Unknown(_) => {}
        }
    }
    Ok(found)
}

/// Has the provider look at a secret that an app is to have, and notes on it whether it was taken.
pub async fn look_at(
    app: &App,
    org: Option<&OrgId>,
    provider: &dyn Provider,
    client_id: &str,
    secret: &mut Option<AppSecret>,
) -> Result<ClientTaken, StoreError> {
    let plain = secret.as_ref().and_then(|secret| secret.secret.clone());
    let taken = check(app, org, provider, client_id, plain.as_ref()).await?;
    if let Some(secret) = secret {
        secret.checked_at = (taken == ClientTaken::Yes).then(|| app.seams.clock.now());
    }
    Ok(taken)
}

/// Saves an app over the revision that it carries. It counts from then on, and connectors that waited for it try again at
/// once, without anybody's consent (RC-03).
pub async fn save(app: &App, new: &StoredApp) -> Result<Changed, StoreError> {
    let changed = app.store.save_oauth_app(new).await?;
    if changed == Changed::Yes {
        renewed(app, &new.id()).await;
    }
    Ok(changed)
}

async fn renewed(app: &App, id: &AppId) {
    let provider = id.provider();
    app.apps.forget();
    match app.store.retry_refused_app(id, app.seams.clock.now()).await {
        Ok(0) => {}
        Ok(count) => {
            info!(provider, "{count} connectors of {provider} try again with the corrected OAuth app");
            app.due.notify_one();
        }
        Err(error) => warn!(%error, "connectors of {provider} try again only when their rest is over"),
    }
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, TimeDelta, Utc};
    use holdfast_store::StoredApp;

    use super::ends;
    use crate::config::{Config, Sources};

    fn stored(end: DateTime<Utc>) -> StoredApp {
        StoredApp {
            org: None,
            provider: "zendesk".to_owned(),
            client_id: "client".to_owned(),
            secret: None,
            next_secret: None,
            secret_expires_at: Some(end),
            revision: 1,
            changed_by: None,
            changed_at: end,
        }
    }

    /// TE-11
    #[test]
    fn a_client_secret_that_ends_is_told_in_time_and_after_and_where_it_is_set() {
        let end: DateTime<Utc> = "2027-01-31T00:00:00Z".parse().unwrap();
        let sources = Sources::default()
            .with_variable("HOLDFAST_OAUTH_APPS__ZENDESK__CLIENT_ID", "client")
            .with_variable("HOLDFAST_OAUTH_APPS__ZENDESK__CLIENT_SECRET_EXPIRES_AT", "2027-01-31T00:00:00Z");
        let config = Config::load(&sources).unwrap();
        // One that was stored before is hidden by the configuration's.
        let hidden = stored(end - TimeDelta::days(300));

        for (place, ends) in [
            ("oauth_apps.zendesk", ends(&config.oauth_apps, &[hidden])),
            ("the web UI", ends(&Config::default().oauth_apps, &[stored(end)])),
        ] {
            assert_eq!(ends.len(), 1);
            let told = |days: i64| ends[0].warning(end - TimeDelta::days(days));
            assert_eq!(told(31), None);
            let table = [
                (30, "ends in 30 days"),
                (7, "ends in 7 days"),
                (1, "ends in 1 day;"),
                (0, "ended on 2027-01-31"),
                (-9, "ended"),
            ];
            for (days, words) in table {
                let line = told(days).unwrap();
                assert!(line.contains(words) && line.contains(place), "{days} days before: {line}");
            }
        }
    }
}
