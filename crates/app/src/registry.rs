//! The list of adapters, written by hand: a new provider is one line here.

use std::sync::Arc;

use holdfast_core::{Provider, Providers};
use holdfast_shopify::Shopify;
use holdfast_zendesk::Zendesk;

use crate::config::Config;

/// The adapters, as the operator configured them.
pub fn providers(config: &Config) -> anyhow::Result<Providers> {
    let list: Vec<Arc<dyn Provider>> = vec![Arc::new(zendesk(config)?), Arc::new(shopify(config)?)];
    let providers = Providers::new(list);
    let named = config.providers.keys().map(|id| ("providers", id));
    for (section, id) in named.chain(config.oauth_apps.keys().map(|id| ("oauth_apps", id))) {
        if providers.find(id).is_none() {
            let known: Vec<_> = providers.iter().map(|provider| provider.about().id).collect();
            anyhow::bail!("{section}.{id}: there is no provider \"{id}\"; known are: {}", known.join(", "));
        }
    }
    Ok(providers)
}

fn shopify(config: &Config) -> anyhow::Result<Shopify> {
    let settings = config.providers.get("shopify").cloned().unwrap_or_default();
    let shopify = match settings.base_url_override {
        None => Shopify::new(),
        Some(template) => Shopify::with_base(&template)
            .map_err(|invalid| anyhow::anyhow!("providers.shopify.base_url_override: {invalid}"))?,
    };
    Ok(match settings.reuse_grace {
        Some(grace) => shopify.with_reuse_grace(grace),
        None => shopify,
    })
}

fn zendesk(config: &Config) -> anyhow::Result<Zendesk> {
    let settings = config.providers.get("zendesk").cloned().unwrap_or_default();
    let mut zendesk = match settings.base_url_override {
        None => Zendesk::new(),
        Some(template) => Zendesk::with_base(&template)
            .map_err(|invalid| anyhow::anyhow!("providers.zendesk.base_url_override: {invalid}"))?,
    };
    if let Some(life) = settings.access_token_life {
        zendesk = zendesk.asking_for(life);
    }
    if let Some(grace) = settings.reuse_grace {
        zendesk = zendesk.with_reuse_grace(grace);
    }
    Ok(zendesk)
}
