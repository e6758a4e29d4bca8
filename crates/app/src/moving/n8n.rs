//! n8n's credentials, as its command `n8n export:credentials --all --decrypted` writes them
//! (<https://docs.n8n.io/hosting/cli-commands/#export-credentials>): an array with a `type` and its `data` for each.

use holdfast_core::Providers;
use serde_json::{Map, Value, json};

use super::{Moved, body, first, no_account, pair, text};

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

/// What came beside the tokens and goes on being needed.
const EXTRAS: [&str; 2] = ["instance_url", "api_domain"];

pub(super) fn read(providers: &Providers, item: &Value) -> Result<Moved, String> {
    let kind = text(item, "type").ok_or("There is no type in it: this is no credential of n8n.")?;
    let known = TYPES.iter().find(|(theirs, _)| *theirs == kind);
    let (_, provider) = *known.ok_or(
        "n8n keeps this kind of credential for a service that Holdfast has no provider for. `holdfast provider list` \
         shows what there is; a file in providers.dir adds one.",
    )?;
    let data = match item.get("data") {
        Some(Value::String(_)) => {
            return Err(
                "This export is encrypted. Make one with `n8n export:credentials --all --decrypted`.".to_owned()
            );
        }
        Some(data) if data.is_object() => data,
        _ => return Err("There is no data in it: this is no credential of n8n.".to_owned()),
    };
    let account = text(item, "account").or_else(|| first(data, &ACCOUNTS));
    let account = account.ok_or_else(|| no_account(provider, "data"))?;
    let credential = match data.get("oauthTokenData").filter(|tokens| tokens.is_object()) {
        Some(tokens) => tokens_of(data, tokens)?,
        None => key_of(providers, kind, provider, account, data)?,
    };
    let alias = item.get("id").and_then(|id| match id {
        Value::Number(number) => Some(format!("n8n-{number}")),
        Value::String(id) if !id.is_empty() => Some(id.clone()),
        _ => None,
    });
    let longer_alias = alias.as_ref().map(|alias| format!("{kind}:{alias}"));
    Ok(Moved { body: body(provider, account, text(item, "name"), alias.as_deref(), credential), longer_alias })
}

/// Only the refresh token where there is one: n8n does not keep when it got the access token, so that nobody knows
/// whether that still lives. The first use makes a new one.
fn tokens_of(data: &Value, tokens: &Value) -> Result<Map<String, Value>, String> {
    let field = ["refresh_token", "access_token"].into_iter().find(|field| text(tokens, field).is_some());
    let field = field.ok_or("Nobody has given a consent for it in n8n: there is no token in it.")?;
    let mut out = Map::from_iter([(field.to_owned(), json!(text(tokens, field)))]);
    for (ours, value) in [("scope", text(tokens, "scope")), ("client_id", text(data, "clientId"))] {
        if let Some(value) = value {
            out.insert(ours.to_owned(), json!(value));
        }
    }
    let of = |name: &&str| Some(((*name).to_owned(), json!(text(tokens, name)?)));
    let mut extras: Map<_, _> = EXTRAS.iter().filter_map(of).collect();
    if let Some(realm) = tokens.get("callbackQueryString").and_then(|query| text(query, "realmId")) {
        extras.insert("realmId".to_owned(), json!(realm));
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
    data: &Value,
) -> Result<Map<String, Value>, String> {
    let key = first(data, &KEYS).ok_or("There is neither a token nor a key in it.")?;
    let takes_keys = providers.find(provider).is_some_and(|found| found.about().takes_keys());
    let (field, value) = match text(data, "email") {
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
