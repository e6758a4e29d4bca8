//! `GET /providers`.

use std::sync::Arc;

use axum::{Json, extract::State};
use holdfast_core::{
    Provider,
    provider::AuthKind,
    tool::{Access, Tool},
};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{List, caller::Caller};
use crate::{app::App, problem::Problem};

/// A service that can be connected.
#[derive(Serialize, ToSchema)]
pub(super) struct ProviderBody {
    id: &'static str,
    name: &'static str,
    /// `oauth2` or `api_key`.
    auth: &'static str,
    /// Whether a key that a person copies is a way in, as the only one or beside OAuth.
    api_key: bool,
    account: AccountRule,
    /// Further places of an account's API: a path of the proxy that begins with such a name goes there.
    proxy_places: Vec<PlaceBody>,
    scopes: Vec<ScopeBody>,
    tools: Vec<ToolBody>,
    webhooks: bool,
    /// Whether an OAuth app is set up, so that it can be connected now.
    available: bool,
}

/// How an account is written.
#[derive(Serialize, ToSchema)]
struct AccountRule {
    label: &'static str,
    example: &'static str,
    rule: &'static str,
}

/// A further place of an account's API.
#[derive(Serialize, ToSchema)]
struct PlaceBody {
    /// The first segment of the path.
    name: &'static str,
    /// Where the rest of the path leads, for the account that is the example.
    base_url: String,
}

/// A scope that is asked for.
#[derive(Serialize, ToSchema)]
struct ScopeBody {
    name: &'static str,
    words: &'static str,
}

/// An operation for agents.
#[derive(Serialize, ToSchema)]
struct ToolBody {
    name: &'static str,
    description: &'static str,
    /// `read` or `write`.
    access: &'static str,
    /// Of the provider's scopes, those without which it does not work.
    scopes: &'static [&'static str],
    input_schema: Value,
    output_schema: Value,
}

impl ProviderBody {
    fn new(provider: &dyn Provider, available: bool) -> Self {
        let about = provider.about();
        Self {
            id: about.id,
            name: about.name,
            auth: match about.auth_kind {
                AuthKind::OAuth2 => "oauth2",
                AuthKind::ApiKey => "api_key",
            },
            api_key: about.takes_keys(),
            account: AccountRule {
                label: about.account_label,
                example: about.account_example,
                rule: about.account_rule,
            },
            proxy_places: places(provider),
            scopes: about.scopes.iter().map(|scope| ScopeBody { name: scope.name, words: scope.words }).collect(),
            tools: about.tools.iter().map(|tool| ToolBody::new(tool, provider.scopes_of(tool.name))).collect(),
            webhooks: !provider.webhooks().is_empty(),
            available,
        }
    }
}

fn places(provider: &dyn Provider) -> Vec<PlaceBody> {
    let example = provider.account(provider.about().account_example);
    let bases = example.map(|account| provider.bases(&account)).unwrap_or_default();
    bases.into_iter().map(|base| PlaceBody { name: base.name, base_url: base.url.into() }).collect()
}

impl ToolBody {
    fn new(tool: &Tool, scopes: &'static [&'static str]) -> Self {
        let schema = |text| serde_json::from_str(text).expect("a test of the adapter holds its schemas to be JSON");
        Self {
            name: tool.name,
            description: tool.description,
            access: match tool.access {
                Access::Read => "read",
                Access::Write => "write",
            },
            scopes,
            input_schema: schema(tool.input_schema),
            output_schema: schema(tool.output_schema),
        }
    }
}

/// The providers of this instance.
#[utoipa::path(get, path = "/providers", tag = "providers", responses((status = 200, body = List<ProviderBody>)))]
pub(super) async fn list(State(app): State<Arc<App>>, caller: Caller) -> Result<Json<List<ProviderBody>>, Problem> {
    caller.needs("connectors:read")?;
    let mut data = Vec::new();
    for provider in app.providers().iter() {
        let about = provider.about();
        let set_up = about.takes_keys() || app.apps.is_set_up(caller.org(), about.id).await?;
        data.push(ProviderBody::new(provider.as_ref(), set_up));
    }
    Ok(Json(List { data, next_cursor: None }))
}
