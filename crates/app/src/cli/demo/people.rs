//! What is there from the start: a company, three of its people, an API key, and a helpdesk that is connected. Each is made
//! only where it is not there yet, so that a first start that was cut off is finished by the next one.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, anyhow};
use holdfast_core::{OrgId, Role};
use holdfast_sandbox::{GrantRequest, Sandbox};
use holdfast_store::{Filter, NewUser};
use secrecy::SecretString;
use serde_json::json;

use super::folder::Kept;
use crate::{
    agents::{
        self,
        manage::{BindingBody, NewAgentBody, TriggerBody},
    },
    api::create,
    app::App,
    demo, keys,
    ui::passwords,
};

const ORG: &str = "Tidewater Supply";
/// Seconds between two runs of the agent.
const AGENT_EVERY_SECS: u64 = 20;

/// Somebody of that company.
pub(super) struct Somebody {
    pub(super) email: &'static str,
    pub(super) name: &'static str,
    role: Role,
    operator: bool,
}

/// Who signs in.
pub(super) const OWNER: Somebody =
    Somebody { email: "ada@tidewater.example", name: "Ada Lindholm", role: Role::Owner, operator: true };
/// Who is told as well. Nobody signs in as him.
const COLLEAGUE: Somebody =
    Somebody { email: "ben@tidewater.example", name: "Ben Osei", role: Role::Admin, operator: false };

/// Who does the daily work, and is told of nothing.
const MEMBER: Somebody =
    Somebody { email: "cleo@tidewater.example", name: "Cleo Marchetti", role: Role::Member, operator: false };

/// Makes all of it; answers the id of the connector.
pub(super) async fn seed(
    app: &Arc<App>,
    sandbox: &Sandbox,
    kept: &Kept,
    token_life: Duration,
) -> anyhow::Result<String> {
    let org = app.store.ensure_org(ORG).await?;
    let password = SecretString::from(kept.password.clone());
    let hash = passwords::hash(password).await?;
    for (somebody, password_hash) in [(OWNER, Some(hash)), (COLLEAGUE, None), (MEMBER, None)] {
        add(app, &org, &somebody, password_hash).await?;
    }
    let hash = keys::hash(&kept.key);
    if app.store.find_key(&hash).await?.is_none() {
        let scopes =
            ["connectors:read", "connectors:write", "tokens:read", "proxy", "tools", "agents"].map(str::to_owned);
        app.store.create_key(&org, "demo", &scopes, &hash, app.seams.clock.now()).await?;
    }
    let connectors = app.store.connectors(&org, &Filter::default(), None, 1).await?.data;
    let connector = match connectors.first() {
        Some(view) => view.snapshot.connector.to_string(),
        None => connect(app, &org, sandbox, token_life).await?,
    };
    if app.store.agents(&org, None, 1).await?.data.is_empty() {
        put_to_work(app, &org, &connector).await?;
    }
    Ok(connector)
}

/// An agent of the first sample, often enough to be seen at work.
async fn put_to_work(app: &Arc<App>, org: &OrgId, connector: &str) -> anyhow::Result<()> {
    let body = NewAgentBody {
        sample: Some("annotate_urgent_tickets".to_owned()),
        connectors: vec![BindingBody { connector: connector.to_owned(), ..BindingBody::default() }],
        trigger: Some(TriggerBody {
            kind: "schedule".to_owned(),
            every_secs: Some(AGENT_EVERY_SECS),
            ..TriggerBody::default()
        }),
        ..NewAgentBody::default()
    };
    let made = agents::manage::create(app, org, OWNER.name, None, body).await;
    made.map(|_| ()).map_err(|problem| anyhow!("the agent was not made: {}", problem.detail()))
}

/// What is stored of the password, if it still is the owner's.
pub(super) async fn hash_of(app: &App, kept: &Kept) -> anyhow::Result<Option<SecretString>> {
    for user in app.store.find_users_by_email(OWNER.email).await? {
        let hashes = vec![user.password_hash.clone()];
        if passwords::verify(kept.password.clone().into(), hashes).await == [true] {
            return Ok(user.password_hash);
        }
    }
    Ok(None)
}

async fn add(app: &App, org: &OrgId, somebody: &Somebody, password_hash: Option<SecretString>) -> anyhow::Result<()> {
    let user = NewUser {
        org: org.clone(),
        email: somebody.email.to_owned(),
        name: Some(somebody.name.to_owned()),
        role: somebody.role,
        operator: somebody.operator,
        password_hash,
        at: app.seams.clock.now(),
    };
    // Taken: the start before came as far as this.
    let _id_or_taken = app.store.create_user(&user).await?;
    Ok(())
}

async fn connect(app: &Arc<App>, org: &OrgId, sandbox: &Sandbox, token_life: Duration) -> anyhow::Result<String> {
    let acme = sandbox.helpdesk(demo::FIRST).context("the sandbox has a first helpdesk")?;
    let asked = GrantRequest { expires_in: u32::try_from(token_life.as_secs()).ok(), ..GrantRequest::default() };
    let grant = acme.grant(&asked).context("the sandbox grants access")?;
    // Nothing that Holdfast holds may be forgotten there.
    sandbox.keep().await;
    let line = json!({
        "provider": "zendesk", "account": demo::FIRST, "name": "Acme support",
        "credential": {
            "access_token": grant.access_token, "refresh_token": grant.refresh_token,
            "expires_in": grant.expires_in, "scope": grant.scope,
        },
    });
    let body = serde_json::from_value(line).expect("it is a connector");
    let id = create(app, org, body).await;
    id.map(|id| id.to_string()).map_err(|problem| anyhow!(problem.detail().to_owned()))
}
