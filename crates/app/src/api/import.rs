//! The body of `POST /connectors`, also a line of `connector import`: a connector, with or without a credential that
//! comes from another system.

pub(super) mod lines;

use std::{collections::BTreeMap, sync::Arc};

use axum::http::StatusCode;
use chrono::{DateTime, TimeDelta, Utc};
use holdfast_core::{
    AppId, ConnectorId, CredentialId, OrgId, Provider, Secret, TokenSet, exchange,
    provider::{Account, ApiKeyAuth, Auth, OAuth2},
    refresh::timing,
};
use holdfast_store::{Created, NewConnector};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use url::Url;
use utoipa::ToSchema;

use crate::{app::App, care, problem::Problem};

/// A connector to be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewConnectorBody {
    /// The provider's id: `zendesk`.
    pub provider: String,
    /// The account, in any form that people type.
    pub account: String,
    /// What people call it; default: the account.
    pub name: Option<String>,
    /// The id that another system knew it by; the API accepts it in place of ours.
    pub alias: Option<String>,
    /// With one it is an import; without, the connector is `pending` until somebody connects it.
    pub credential: Option<CredentialInput>,
}

/// A credential from another system: an API key, or tokens.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CredentialInput {
    #[schema(value_type = Option<String>)]
    access_token: Option<SecretString>,
    #[schema(value_type = Option<String>)]
    refresh_token: Option<SecretString>,
    /// Seconds from now.
    expires_in: Option<u64>,
    /// Or the moment itself.
    expires_at: Option<DateTime<Utc>>,
    /// What was granted, separated as the provider does.
    scope: Option<String>,
    /// Client id of the OAuth app that the tokens were given to. Refused where the installation has another app for the
    /// provider: nobody else can renew them.
    client_id: Option<String>,
    #[schema(value_type = Option<String>)]
    api_key: Option<SecretString>,
    /// What rides along: webhook ids, secrets.
    #[schema(value_type = Option<BTreeMap<String, String>>)]
    extras: Option<BTreeMap<String, SecretString>>,
}

/// Makes the connector.
pub async fn create(app: &App, org: &OrgId, body: NewConnectorBody) -> Result<ConnectorId, Problem> {
    let prepared = prepare(app, org, body).await?;
    let created = put(app, &prepared).await?;
    prepared.id_of(created)
}

fn exists(account: &Account, id: &ConnectorId) -> Problem {
    let detail = format!("This organisation has {} already; nothing was changed.", account.display);
    Problem::conflict("connector_exists", detail, id)
}

fn alias_taken(id: &ConnectorId) -> Problem {
    let detail = "Another connector has this alias; nothing was changed. Give it another one.";
    Problem::conflict("alias_taken", detail, id)
}

/// A connector for a connect link: a new one, or the org's own on that account.
pub(crate) async fn for_link(
    app: &App,
    org: &OrgId,
    provider: String,
    account: Option<String>,
    name: Option<String>,
) -> Result<ConnectorId, Problem> {
    let created = if let Some(account) = account {
        let body = NewConnectorBody { provider, account, name, alias: None, credential: None };
        put(app, &prepare(app, org, body).await?).await?
    } else {
        let name = match &name {
            Some(given) => self::name(Some(given), "")?,
            None => String::new(),
        };
        let new = NewConnector {
            org: org.clone(),
            provider: known_provider(app, &provider)?.about().id.to_owned(),
            account: String::new(),
            name,
            alias: None,
            secret: Secret::Absent,
            app: None,
            due_at: None,
            extras: Vec::new(),
            at: app.seams.clock.now(),
        };
        app.store.create_connector(&new).await?
    };
    match created {
        Created::New(id) | Created::Exists(id) | Created::AliasTaken(id) => Ok(id),
    }
}

/// A connector that may be made.
struct Prepared {
    new: NewConnector,
    account: Account,
    /// No other connector on the installation may have an access to the account.
    alone: bool,
    /// The provider's name.
    provider: &'static str,
}

impl Prepared {
    /// Another connector, of whomever, has what this one would have.
    fn held(&self) -> Problem {
        let detail = format!(
            "{} is connected on this installation already, or about to be, and {} gives an app one access to an \
             account: one of the two would end the other. Disconnect it there first. Nothing was changed.",
            self.account.display, self.provider
        );
        Problem::new(StatusCode::CONFLICT, "account_held", detail)
    }

    /// Its tokens end and nobody here can renew them.
    fn lacks_app(&self) -> Option<&'static str> {
        let renewable = self.new.secret.tokens().is_some_and(|tokens| tokens.refresh_token.is_some());
        (renewable && self.new.app.is_none()).then_some(self.provider)
    }

    fn id_of(&self, created: Created) -> Result<ConnectorId, Problem> {
        match created {
            Created::New(id) => Ok(id),
            Created::Exists(id) => Err(exists(&self.account, &id)),
            Created::AliasTaken(id) => Err(alias_taken(&id)),
        }
    }
}

async fn put(app: &App, prepared: &Prepared) -> Result<Created, Problem> {
    let created = if prepared.alone {
        app.store.create_connector_alone(&prepared.new).await?
    } else {
        Some(app.store.create_connector(&prepared.new).await?)
    };
    created.ok_or_else(|| prepared.held())
}

/// All checks, and nothing written.
async fn prepare(app: &App, org: &OrgId, body: NewConnectorBody) -> Result<Prepared, Problem> {
    let provider = known_provider(app, &body.provider)?;
    let account = provider.account(&body.account).map_err(|invalid| Problem::invalid("account", invalid.message))?;
    let now = app.seams.clock.now();
    let (secret, extras, given_to) = match body.credential {
        None => (Secret::Absent, Vec::new(), None),
        Some(input) => {
            let client_id = input.client_id.clone();
            let (secret, extras) = credential(input, provider.as_ref(), &account, now)?;
            // A key is nobody's app's.
            let given_to = match &secret {
                Secret::Tokens(_) => given_to(app, org, provider.as_ref(), client_id.as_deref()).await?,
                _ => None,
            };
            (secret, extras, given_to)
        }
    };
    let new = NewConnector {
        org: org.clone(),
        provider: provider.about().id.to_owned(),
        name: name(body.name.as_deref(), &account.display)?,
        account: account.id.clone(),
        alias: body.alias.map(|alias| checked_alias(&alias)).transpose()?,
        due_at: due_at(app, &account, &provider.auth(&account), &secret),
        secret,
        app: given_to,
        extras,
        at: now,
    };
    let alone = provider.grants().one_per_account && is_renewed(provider.as_ref(), &new.secret);
    Ok(Prepared { new, account, alone, provider: provider.about().name })
}

/// Whether an exchange is ever made with it: one for a set that renews itself counts as well.
fn is_renewed(provider: &dyn Provider, secret: &Secret) -> bool {
    let upgraded = |tokens: &TokenSet| tokens.is_endless() && provider.upgrade_params().is_some();
    secret.tokens().is_some_and(|tokens| tokens.refresh_token.is_some() || upgraded(tokens))
}

/// The OAuth app that tokens were given to: only that one can renew them (RFC 6749 section 6). Where nobody says which,
/// the one that consents of this org are given to.
async fn given_to(
    app: &App,
    org: &OrgId,
    provider: &dyn Provider,
    client_id: Option<&str>,
) -> Result<Option<AppId>, Problem> {
    let about = provider.about();
    let ours = app.apps.for_consent(org, about.id).await?;
    let Some(client_id) = client_id else { return Ok(ours.map(|(id, _)| id)) };
    let instances = app.apps.instances(about.id).await?.map(|client| (AppId::instance(about.id), client));
    let known: Vec<_> = ours.into_iter().chain(instances).collect();
    if let Some((id, _)) = known.iter().find(|(_, client)| client.client_id == client_id) {
        return Ok(Some(id.clone()));
    }
    let ours = if known.is_empty() { "there is none here" } else { "there is another one here" };
    let detail = format!(
        "These tokens were given to an OAuth app of {}, and {ours}: nobody could renew them. Set that app up here, or \
         connect the account anew.",
        about.name
    );
    Err(Problem::invalid("credential.client_id", detail))
}

fn known_provider<'a>(app: &'a App, id: &str) -> Result<&'a Arc<dyn Provider>, Problem> {
    app.providers().find(id).ok_or_else(|| {
        let known: Vec<_> = app.providers().iter().map(|provider| provider.about().id).collect();
        Problem::invalid("provider", format!("There is no such provider. Known are: {}.", known.join(", ")))
    })
}

/// A connector's name: given, or the account.
pub(super) fn name(given: Option<&str>, account: &str) -> Result<String, Problem> {
    let name = given.map_or(account, str::trim);
    if !care::is_name(name) {
        return Err(Problem::invalid("name", format!("A name {}.", care::NAME_RULE)));
    }
    Ok(name.to_owned())
}

fn checked_alias(alias: &str) -> Result<String, Problem> {
    let fits = (1..=200).contains(&alias.len()) && alias.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/');
    if !fits || alias.starts_with("con_") {
        let detail = "An alias has 1 to 200 visible ASCII characters without a slash, and does not begin with con_.";
        return Err(Problem::invalid("alias", detail));
    }
    Ok(alias.to_owned())
}

/// No access token lives longer.
const LONGEST_LIFE: TimeDelta = TimeDelta::days(366);

type Extras = Vec<(String, SecretString)>;

fn credential(
    input: CredentialInput,
    provider: &dyn Provider,
    account: &Account,
    now: DateTime<Utc>,
) -> Result<(Secret, Extras), Problem> {
    let invalid = |field: &str, detail: &str| Err(Problem::invalid(&format!("credential.{field}"), detail));
    for (field, secret) in
        [("access_token", &input.access_token), ("refresh_token", &input.refresh_token), ("api_key", &input.api_key)]
    {
        let usable = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        if secret.as_ref().is_some_and(|secret| !usable(secret.expose_secret())) {
            let detail = "It is empty, or holds a space, a line break or another character that no HTTP header may \
                          hold: copy it anew, in one piece.";
            return invalid(field, detail);
        }
    }
    let key_auth = provider.key_auth(account);
    let secret = match (provider.auth(account), input.api_key, input.access_token, input.refresh_token) {
        (_, Some(key), None, None) if key_auth.is_some() => {
            let pair = matches!(key_auth, Some(ApiKeyAuth::Pair { .. }));
            if pair && key.expose_secret().split_once(':').is_none_or(|(user, key)| user.is_empty() || key.is_empty()) {
                return invalid("api_key", "At this provider a user name belongs to the key: give them as user:key.");
            }
            Secret::ApiKey(key)
        }
        (Auth::OAuth2(_), Some(_), ..) if key_auth.is_some() => {
            return invalid("api_key", "Give an api_key or tokens, not both.");
        }
        (Auth::ApiKey(_), ..) => return invalid("api_key", "This provider takes an api_key, and no tokens."),
        (Auth::OAuth2(_), Some(_), ..) => return invalid("api_key", "This provider takes tokens, and no api_key."),
        (Auth::OAuth2(_), None, None, None) => {
            return invalid("refresh_token", "Give a refresh_token, an access_token, or both.");
        }
        (Auth::OAuth2(facts), None, access_token, refresh_token) => {
            let expires_at = match (input.expires_in, input.expires_at) {
                (Some(_), Some(_)) => return invalid("expires_in", "Give expires_in or expires_at, not both."),
                (Some(secs), None) => match TimeDelta::try_seconds(i64::try_from(secs).unwrap_or(i64::MAX)) {
                    Some(life) if life <= LONGEST_LIFE => Some(now + life),
                    _ => return invalid("expires_in", "It is in seconds, and at most 366 days."),
                },
                (None, Some(at)) if at > now + LONGEST_LIFE => {
                    return invalid(
                        "expires_at",
                        "It lies at most 366 days ahead; leave it out where the token does not end.",
                    );
                }
                (None, at) => at,
            };
            if refresh_token.is_none() && expires_at.is_some_and(|at| at <= now) {
                let detail = "The access token is over, and there is no refresh_token to renew it with: connect the \
                              account anew, by a connect link.";
                return invalid("expires_at", detail);
            }
            let base_url = base_url(&facts, input.extras.as_ref())?;
            let scopes = input.scope.as_deref().map(|scope| split(scope, &facts));
            Secret::Tokens(TokenSet {
                base_url,
                ..tokens(access_token, refresh_token, expires_at, scopes, &facts, now)
            })
        }
    };
    Ok((secret, checked_extras(input.extras.unwrap_or_default())?))
}

/// The API host that came with the tokens, where this provider names one: held to the same rule as that of an answer.
fn base_url(facts: &OAuth2, extras: Option<&BTreeMap<String, SecretString>>) -> Result<Option<Url>, Problem> {
    let Some(rule) = &facts.base_url_field else { return Ok(None) };
    let Some(given) = extras.and_then(|extras| extras.get(&rule.field)) else { return Ok(None) };
    exchange::api_host(rule, given.expose_secret()).map(Some).ok_or_else(|| {
        let detail =
            format!("{} has to be an https URL whose host ends in {}.", rule.field, rule.suffixes.join(" or "));
        Problem::invalid(&format!("credential.extras.{}", rule.field), detail)
    })
}

/// Extras with names that are short words.
pub(super) fn checked_extras(extras: BTreeMap<String, SecretString>) -> Result<Extras, Problem> {
    let fits = |name: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        (1..=100).contains(&name.len()) && name.bytes().all(plain)
    };
    if extras.keys().any(|name| !fits(name)) {
        let detail = "The name of an extra has 1 to 100 letters, digits, dots, hyphens or underscores.";
        return Err(Problem::invalid("extras", detail));
    }
    Ok(extras.into_iter().collect())
}

fn tokens(
    access_token: Option<SecretString>,
    refresh_token: Option<SecretString>,
    expires_at: Option<DateTime<Utc>>,
    scopes: Option<Vec<String>>,
    facts: &OAuth2,
    now: DateTime<Utc>,
) -> TokenSet {
    // Only a refresh token: the access token counts as over, so that the first use makes one.
    let only_refresh = access_token.is_none();
    let assumed = expires_at.is_none() && refresh_token.is_some();
    let default = facts.expires_in_default.map(|life| now + TimeDelta::from_std(life).unwrap_or_default());
    let (refresh_expires_at, refresh_end_fixed) = match refresh_token {
        Some(_) => exchange::first_refresh_end(facts, now),
        None => (None, false),
    };
    TokenSet {
        access_token: access_token.unwrap_or_else(|| SecretString::from("")),
        obtained_at: now,
        expires_at: if only_refresh { Some(now) } else { expires_at.or(default.filter(|_| assumed)) },
        expires_assumed: assumed && !only_refresh && default.is_some(),
        refresh_token,
        refresh_expires_at,
        refresh_end_fixed,
        scopes: scopes.unwrap_or_default(),
        base_url: None,
        found: BTreeMap::new(),
    }
}

fn split(scope: &str, facts: &OAuth2) -> Vec<String> {
    let separator = |c: char| c == facts.scope_separator || c.is_whitespace();
    scope.split(separator).filter(|scope| !scope.is_empty()).map(str::to_owned).collect()
}

/// The scheduler's moment for a secret that is about to be stored. The jitter hangs on the account here, since the
/// credential's id is not made yet; the first rotation takes over.
fn due_at(app: &App, account: &Account, auth: &Auth, secret: &Secret) -> Option<DateTime<Utc>> {
    let (Auth::OAuth2(facts), Some(tokens)) = (auth, secret.tokens()) else { return None };
    timing::due_at(tokens, facts.refresh_life, &CredentialId::from(account.id.as_str()), &app.config.engine())
}

/// Serde's words without the values that they repeat: ``invalid type: string "secret"`` and ``integer `4711` `` must not
/// bring a secret back. Names of fields stay.
pub(super) fn without_values(words: &str) -> String {
    // Between the first quote and the last: a value may hold quotes of its own.
    let mut out = match (words.find('"'), words.rfind('"')) {
        (Some(first), Some(last)) if first < last => format!("{}\"...\"{}", &words[..first], &words[last + 1..]),
        (Some(first), _) => format!("{}\"...\"", &words[..first]),
        _ => words.to_owned(),
    };
    for kind in ["integer `", "floating point `", "boolean `", "character `"] {
        if let Some((before, rest)) = out.split_once(kind)
            && let Some((_, after)) = rest.split_once('`')
        {
            out = format!("{before}{kind}...`{after}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::without_values;

    #[test]
    fn a_parsers_words_repeat_no_value() {
        assert_eq!(
            without_values("invalid type: string \"s3cret\", expected u64 at line 1"),
            "invalid type: string \"...\", expected u64 at line 1"
        );
        assert_eq!(
            without_values("invalid type: integer `4711`, expected a"),
            "invalid type: integer `...`, expected a"
        );
        assert_eq!(without_values("unknown field `token`, expected `name`"), "unknown field `token`, expected `name`");
        let nested = "invalid type: string \"{\\\"access_token\\\":\\\"s3cret\\\"}\", expected struct";
        assert_eq!(without_values(nested), "invalid type: string \"...\", expected struct");
        assert_eq!(without_values("cut off \"s3cr"), "cut off \"...\"");
        assert_eq!(
            without_values("invalid type: string \"a\\\"s3cret\\\\\", expected u64"),
            "invalid type: string \"...\", expected u64"
        );
    }
}
