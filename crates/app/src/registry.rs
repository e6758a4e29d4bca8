//! The list of adapters, written by hand: a new provider is one line here.

pub mod declared;

use std::{path::PathBuf, sync::Arc};

use holdfast_core::{Provider, Providers, provider::Invalid};
use holdfast_declared::Declared;
use holdfast_freshdesk::Freshdesk;
use holdfast_front::Front;
use holdfast_google::Google;
use holdfast_gorgias::Gorgias;
use holdfast_pipedrive::Pipedrive;
use holdfast_shopify::Shopify;
use holdfast_zendesk::Zendesk;

use crate::config::Config;

/// Where an adapter comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Code.
    BuiltIn,
    /// A file that comes with Holdfast.
    Shipped,
    /// A file of the operator's.
    File(PathBuf),
}

/// The adapters, as the operator configured them.
pub fn providers(config: &Config) -> anyhow::Result<Providers> {
    let providers = Providers::new(list(config)?.into_iter().map(|(provider, _)| provider).collect());
    let named = config.providers.by_id.keys().map(|id| ("providers", id));
    for (section, id) in named.chain(config.oauth_apps.keys().map(|id| ("oauth_apps", id))) {
        if providers.find(id).is_none() {
            let known: Vec<_> = providers.iter().map(|provider| provider.about().id).collect();
            anyhow::bail!("{section}.{id}: there is no provider \"{id}\"; known are: {}", known.join(", "));
        }
    }
    Ok(providers)
}

/// The same with where each comes from.
pub fn list(config: &Config) -> anyhow::Result<Vec<(Arc<dyn Provider>, Source)>> {
    let built_in: Vec<Arc<dyn Provider>> = vec![
        Arc::new(at(config, "freshdesk", Freshdesk::new, Freshdesk::with_base)?),
        Arc::new(at(config, "front", Front::new, Front::with_base)?),
        Arc::new(google(config)?),
        Arc::new(at(config, "gorgias", Gorgias::new, Gorgias::with_base)?),
        Arc::new(at(config, "pipedrive", Pipedrive::new, Pipedrive::with_base)?),
        Arc::new(shopify(config)?),
        Arc::new(zendesk(config)?),
    ];
    let taken: Vec<_> = built_in.iter().map(|provider| (provider.about().id, provider.about().name)).collect();
    let mut list: Vec<_> = built_in.into_iter().map(|provider| (provider, Source::BuiltIn)).collect();
    for (provider, source) in declared::all(config.providers.dir.as_deref(), &taken)? {
        list.push((Arc::new(configured(config, provider)?), source));
    }
    Ok(list)
}

/// A described provider, as the operator configured it.
pub fn configured(config: &Config, mut provider: Declared) -> anyhow::Result<Declared> {
    let id = provider.about().id;
    let Some(settings) = config.providers.by_id.get(id) else { return Ok(provider) };
    if let Some(base) = &settings.base_url_override {
        let placed = provider.with_base(base);
        provider = placed.map_err(|invalid| anyhow::anyhow!("providers.{id}.base_url_override: {invalid}"))?;
    }
    Ok(match settings.reuse_grace {
        Some(grace) => provider.with_reuse_grace(grace),
        None => provider,
    })
}

/// The adapter of the provider itself, or of what the operator has set in its place.
fn at<P>(
    config: &Config,
    id: &str,
    new: impl FnOnce() -> P,
    with_base: impl FnOnce(&str) -> Result<P, Invalid>,
) -> anyhow::Result<P> {
    match config.providers.by_id.get(id).and_then(|settings| settings.base_url_override.as_deref()) {
        None => Ok(new()),
        Some(template) => {
            with_base(template).map_err(|invalid| anyhow::anyhow!("providers.{id}.base_url_override: {invalid}"))
        }
    }
}

fn google(config: &Config) -> anyhow::Result<Google> {
    let google = at(config, "google", Google::new, Google::with_base)?;
    let Some(topic) = config.providers.by_id.get("google").and_then(|settings| settings.push_topic.as_deref()) else {
        return Ok(google);
    };
    let parts: Vec<&str> = topic.split('/').collect();
    anyhow::ensure!(
        matches!(parts[..], ["projects", project, "topics", name] if !project.is_empty() && !name.is_empty()),
        "providers.google.push_topic: \"{topic}\" is no topic; expected is projects/PROJECT/topics/NAME"
    );
    Ok(google.with_push_topic(topic))
}

fn shopify(config: &Config) -> anyhow::Result<Shopify> {
    let shopify = at(config, "shopify", Shopify::new, Shopify::with_base)?;
    Ok(match config.providers.by_id.get("shopify").and_then(|settings| settings.reuse_grace) {
        Some(grace) => shopify.with_reuse_grace(grace),
        None => shopify,
    })
}

fn zendesk(config: &Config) -> anyhow::Result<Zendesk> {
    let settings = config.providers.by_id.get("zendesk").cloned().unwrap_or_default();
    let mut zendesk = at(config, "zendesk", Zendesk::new, Zendesk::with_base)?;
    if let Some(life) = settings.access_token_life {
        zendesk = zendesk.asking_for(life);
    }
    if let Some(grace) = settings.reuse_grace {
        zendesk = zendesk.with_reuse_grace(grace);
    }
    Ok(zendesk)
}

#[cfg(test)]
mod tests {
    use holdfast_core::{
        error::{ErrorKind, Retry},
        provider::{ApiAnswer, Auth, AuthKind, RefreshLife, Rotation},
        tool::Access,
    };

    use super::*;

    #[test]
    fn every_adapter_has_words_for_each_status_that_a_provider_may_answer() {
        use ErrorKind as K;
        let said = serde_json::json!({"error": "Refused", "errors": [], "message": "No."});
        for provider in providers(&Config::default()).unwrap().iter() {
            let about = provider.about();
            for (status, kinds) in [
                (401, &[K::AuthFailed][..]),
                (402, &[K::Forbidden, K::Unavailable]),
                (403, &[K::Forbidden, K::Unreadable]),
                (404, &[K::NotFound, K::Unavailable, K::Unreadable]),
                (409, &[K::Conflict, K::Unreadable]),
                (422, &[K::Invalid, K::Unreadable]),
                (423, &[K::Unavailable]),
                (429, &[K::Busy]),
                (500, &[K::Unavailable]),
                (502, &[K::Unavailable]),
                (503, &[K::Unavailable]),
                (302, &[K::Unreadable]),
            ] {
                for body in [None, Some(serde_json::Value::Null), Some(said.clone()), Some(serde_json::json!([1, "x"]))]
                {
                    let answer = ApiAnswer { status, body, retry_after: None };
                    let error = provider.api_error("get_ticket", &answer);
                    let at = format!("{} {status} {:?}: {error}", about.id, answer.body);
                    assert!(kinds.contains(&error.kind), "{at}");
                    assert!(error.provider == about.id && !error.message.is_empty(), "{at}");
                    // A conflict may pass, or not.
                    let waits = matches!(error.kind, K::Busy | K::Unavailable);
                    assert!(error.kind == K::Conflict || waits == (error.retry != Retry::Never), "{at}");
                }
            }
        }
    }

    /// What `docs/providers.md` says of all adapters.
    fn table(providers: &Providers) -> String {
        let mut lines = vec![
            "| provider | account | authenticates by | refresh token | tools | test call | scopes that are asked for |"
                .to_owned(),
            "| --- | --- | --- | --- | --- | --- | --- |".to_owned(),
        ];
        for provider in providers.iter() {
            let about = provider.about();
            let example = provider.account(about.account_example).expect("an example is an account");
            let (auth, refresh) = match (about.auth_kind, provider.auth(&example)) {
                (AuthKind::OAuth2, Auth::OAuth2(facts)) => {
                    let pkce = if facts.pkce { ", PKCE" } else { "" };
                    let rotation = match (facts.rotation, facts.refresh_life) {
                        (_, RefreshLife::Replaced { .. }) => "stays until near its end",
                        (Rotation::SingleUse, _) => "works once",
                        (Rotation::Reusable, _) => "stays",
                    };
                    let key = if about.has_choice() { ", or API key" } else { "" };
                    (format!("OAuth 2.0{pkce}{key}"), rotation)
                }
                (AuthKind::ApiKey, Auth::ApiKey(_)) => ("API key".to_owned(), "none"),
                _ => panic!("{} says one thing and does another", about.id),
            };
            assert_eq!(provider.key_auth(&example).is_some(), about.takes_keys(), "{} says where its key is", about.id);
            let tool = |tool: &holdfast_core::tool::Tool| {
                let writes = if tool.access == Access::Write { " (writes)" } else { "" };
                format!("`{}`{writes}", tool.name)
            };
            let tools = about.tools.iter().map(tool).collect::<Vec<_>>().join(", ");
            let tools = if tools.is_empty() { "none: the proxy".to_owned() } else { tools };
            let scopes = about.scopes.iter().map(|scope| scope.name).chain(provider.silent_scopes().iter().copied());
            let scopes = scopes.map(|scope| format!("`{scope}`")).collect::<Vec<_>>().join(", ");
            let scopes = if scopes.is_empty() { "none".to_owned() } else { scopes };
            lines.push(format!(
                "| {} (`{}`) | `{}` | {auth} | {refresh} | {tools} | `{}` | {scopes} |",
                about.name, about.id, about.account_example, about.test_call
            ));
        }
        lines.join("\n")
    }

    #[test]
    fn the_table_of_providers_in_the_documents_is_what_the_adapters_state() {
        let table = table(&providers(&Config::default()).expect("the defaults are right"));

        let documents = include_str!("../../../docs/providers.md");

        let expected = format!("<!-- table -->\n{table}\n<!-- /table -->");
        assert!(documents.contains(&expected), "docs/providers.md has to hold:\n{expected}");
    }
}
