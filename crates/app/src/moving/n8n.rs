//! n8n's credentials, as its command `n8n export:credentials --all --decrypted` writes them
//! (<https://docs.n8n.io/hosting/cli-commands/#export-credentials>): an array with a `type` and its `data` for each.

use holdfast_core::Providers;
use serde_json::{Map, Value, json};

use super::{Moved, body, no_account, pair, values::At};

/// What n8n calls a kind of credential, and whose it is.
const TYPES: [(&str, &str); 26] = [
    ("zendeskOAuth2Api", "zendesk"),
    ("zendeskApi", "zendesk"),
    ("freshdeskApi", "freshdesk"),
    ("shopifyOAuth2Api", "shopify"),
    ("shopifyAccessTokenApi", "shopify"),
    ("googleOAuth2Api", "google"),
    ("gmailOAuth2", "google"),
    ("googleCalendarOAuth2Api", "google"),
    ("googleSheetsOAuth2Api", "google"),
    ("intercomApi", "intercom"),
    ("hubspotOAuth2Api", "hubspot"),
    ("slackOAuth2Api", "slack"),
    ("salesforceOAuth2Api", "salesforce"),
    ("helpScoutOAuth2Api", "helpscout"),
    ("microsoftOAuth2Api", "microsoft-graph"),
    ("microsoftOutlookOAuth2Api", "microsoft-graph"),
    ("microsoftTeamsOAuth2Api", "microsoft-graph"),
    ("xeroOAuth2Api", "xero"),
    ("quickBooksOAuth2Api", "quickbooks"),
    ("githubOAuth2Api", "github"),
    ("notionOAuth2Api", "notion"),
    ("notionApi", "notion"),
    ("dropboxOAuth2Api", "dropbox"),
    ("zohoOAuth2Api", "zoho"),
    ("stripeApi", "stripe"),
    ("openAiApi", "openai"),
];

/// Kinds whose one field is an access token, as OAuth gives it, made by hand at the provider.
const ACCESS_TOKENS: [&str; 3] = ["shopifyAccessTokenApi", "intercomApi", "notionApi"];

/// Where a credential says which account it is.
const ACCOUNTS: [&str; 6] = ["subdomain", "shopSubdomain", "domain", "account", "tenantId", "url"];

/// Where a credential holds a key.
const KEYS: [&str; 5] = ["apiKey", "accessToken", "apiToken", "secretKey", "token"];

pub(super) fn read(providers: &Providers, item: &Value) -> Result<Moved, String> {
    let item = At::whole(item);
    let kind = item.text("type")?.ok_or("There is no type in it: this is no credential of n8n.")?;
    let known = TYPES.iter().find(|(theirs, _)| *theirs == kind);
    let (_, provider) = *known.ok_or(
        "n8n keeps this kind of credential for a service that Holdfast has no provider for. `holdfast provider list` \
         shows what there is; a file in providers.dir adds one.",
    )?;
    let data = item.at("data");
    if data.value().is_string() {
        return Err("This export is encrypted. Make one with `n8n export:credentials --all --decrypted`.".to_owned());
    }
    if !data.is_object() {
        return Err("There is no data in it: this is no credential of n8n.".to_owned());
    }
    let account = match item.text("account")? {
        Some(account) => account,
        None => data.first(&ACCOUNTS)?.ok_or_else(|| no_account(provider, "data"))?,
    };
    let tokens = data.at("oauthTokenData");
    let credential = if tokens.is_object() {
        tokens_of(&data, &tokens)?
    } else {
        key_of(providers, kind, provider, account, &data)?
    };
    let alias = match item.at("id").value() {
        // Its ids were numbers once.
        Value::Number(number) => Some(format!("n8n-{number}")),
        _ => item.text("id")?.map(str::to_owned),
    };
    let longer_alias = alias.as_ref().map(|alias| format!("{kind}:{alias}"));
    Ok(Moved { body: body(provider, account, item.text("name")?, alias.as_deref(), credential), longer_alias })
}

/// Only the refresh token where there is one: n8n does not keep when it got the access token, so that nobody knows
/// whether that still lives. The first use makes a new one.
fn tokens_of(data: &At<'_>, tokens: &At<'_>) -> Result<Map<String, Value>, String> {
    let (refresh, access) = (tokens.text("refresh_token")?, tokens.text("access_token")?);
    let (field, token) = match (refresh, access) {
        (Some(token), _) => ("refresh_token", token),
        (None, Some(token)) => ("access_token", token),
        (None, None) => return Err("Nobody has given a consent for it in n8n: there is no token in it.".to_owned()),
    };
    let mut out = Map::from_iter([(field.to_owned(), json!(token))]);
    for (ours, value) in [("scope", tokens.text("scope")?), ("client_id", data.text("clientId")?)] {
        if let Some(value) = value {
            out.insert(ours.to_owned(), json!(value));
        }
    }
    let mut extras = Map::new();
    let realm = tokens.at("callbackQueryString").id("realmId")?;
    for (name, value) in
        [("instance_url", tokens.id("instance_url")?), ("api_domain", tokens.id("api_domain")?), ("realmId", realm)]
    {
        if let Some(value) = value {
            extras.insert(name.to_owned(), json!(value));
        }
    }
    if !extras.is_empty() {
        out.insert("extras".to_owned(), extras.into());
    }
    Ok(out)
}

fn key_of(
    providers: &Providers,
    kind: &str,
    provider: &str,
    account: &str,
    data: &At<'_>,
) -> Result<Map<String, Value>, String> {
    let key = data.first(&KEYS)?.ok_or("There is neither a token nor a key in it.")?;
    let takes_keys = providers.find(provider).is_some_and(|found| found.about().takes_keys());
    let (field, value) = match data.text("email")? {
        _ if ACCESS_TOKENS.contains(&kind) => ("access_token", key.to_owned()),
        _ if !takes_keys => {
            return Err(format!(
                "It holds a key, and Holdfast connects {provider} by OAuth alone: connect it anew by a connect link."
            ));
        }
        Some(user) => ("api_key", pair(providers, provider, account, user, key)),
        None => ("api_key", key.to_owned()),
    };
    Ok(Map::from_iter([(field.to_owned(), json!(value))]))
}
