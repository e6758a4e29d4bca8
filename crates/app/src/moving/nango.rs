//! Nango's connections, as `GET /connections/{connectionId}` of its API answers each
//! (<https://nango.dev/docs/reference/backend/http-api/connections/get>). Its list has no credentials: whoever moves asks
//! for each connection.

use holdfast_core::Providers;
use serde_json::{Map, Value, json};

use super::{Moved, body, no_account, pair, values::At};

/// Names that differ from ours; what is not here has the same one.
const PROVIDERS: [(&str, &str); 16] = [
    ("freshdesk-oauth", "freshdesk"),
    ("gorgias-basic", "gorgias"),
    ("google-mail", "google"),
    ("google-calendar", "google"),
    ("google-sheet", "google"),
    ("shopify-api-key", "shopify"),
    ("help-scout", "helpscout"),
    ("hubspot-service-key", "hubspot"),
    ("jira", "jira-service-management"),
    ("microsoft", "microsoft-graph"),
    ("outlook", "microsoft-graph"),
    ("salesforce-sandbox", "salesforce"),
    ("slack-bot", "slack"),
    ("stripe-app", "stripe"),
    ("zoho-crm", "zoho"),
    ("zoho-desk", "zoho"),
];

/// Where a connection says which account it is.
const ACCOUNTS: [&str; 7] = ["subdomain", "shop", "domain", "tenant", "oktaDomain", "auth0Domain", "hostname"];

/// What goes on being needed beside the tokens.
const EXTRAS: [&str; 6] = ["instance_url", "api_domain", "realmId", "cloudId", "tenant_id", "portalId"];

pub(super) fn read(providers: &Providers, item: &Value) -> Result<Moved, String> {
    let item = At::whole(item);
    let id = item.text("connection_id")?;
    let id = id.ok_or("There is no connection_id in it: this is no connection of Nango.")?;
    let key = item.text("provider_config_key")?;
    let foreign = item.text("provider")?.or(key).ok_or("There is no provider in it.")?;
    let provider = PROVIDERS.iter().find(|(theirs, _)| *theirs == foreign).map_or(foreign, |(_, ours)| *ours);
    if providers.find(provider).is_none() {
        return Err(format!(
            "Holdfast has no provider for {foreign:?}. `holdfast provider list` shows what there is; a file in \
             providers.dir adds one."
        ));
    }
    let config = item.at("connection_config");
    let account = match item.text("account")? {
        Some(account) => account,
        None => config.first(&ACCOUNTS)?.ok_or_else(|| no_account(provider, "connection_config"))?,
    };
    let given = item.at("credentials");
    if !given.is_object() {
        return Err("There are no credentials in it. The list of connections has none: ask GET \
                    /connections/{connectionId} for each."
            .to_owned());
    }
    let credential = credential(providers, provider, account, &given, &config)?;
    let longer_alias = key.map(|key| format!("{key}:{id}"));
    Ok(Moved { body: body(provider, account, None, Some(id), credential), longer_alias })
}

fn credential(
    providers: &Providers,
    provider: &str,
    account: &str,
    given: &At<'_>,
    config: &At<'_>,
) -> Result<Map<String, Value>, String> {
    let mut out = Map::new();
    match given.text("type")? {
        Some("OAUTH2") => {
            for field in ["access_token", "refresh_token", "expires_at"] {
                if let Some(value) = given.text(field)? {
                    out.insert(field.to_owned(), json!(value));
                }
            }
            let raw = given.at("raw");
            if let Some(scope) = raw.text("scope")? {
                out.insert("scope".to_owned(), json!(scope));
            }
            // An app of the connection's own.
            if let Some(client) = config.text("oauth_client_id_override")? {
                out.insert("client_id".to_owned(), json!(client));
            }
            let mut extras = Map::new();
            for name in EXTRAS {
                if let Some(value) = config.id(name)?.map_or_else(|| raw.id(name), |value| Ok(Some(value)))? {
                    extras.insert(name.to_owned(), json!(value));
                }
            }
            if !extras.is_empty() {
                out.insert("extras".to_owned(), extras.into());
            }
        }
        Some("API_KEY") => {
            let key = given.text("apiKey")?.ok_or("There is no apiKey in its credentials.")?;
            out.insert("api_key".to_owned(), json!(key));
        }
        Some("BASIC") => {
            let user = given.text("username")?.ok_or("There is no username in its credentials.")?;
            let password = given.text("password")?.unwrap_or_default();
            out.insert("api_key".to_owned(), json!(pair(providers, provider, account, user, password)));
        }
        _ => {
            return Err("Its credentials are of a kind that Holdfast does not have. Known are OAUTH2, API_KEY and \
                        BASIC; connect it anew by a connect link."
                .to_owned());
        }
    }
    Ok(out)
}
