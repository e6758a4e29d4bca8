//! The commands themselves.

use std::sync::Arc;

use holdfast_core::{
    ConnectorId, OrgId, Role, Snapshot,
    ports::{Changed, CredentialStore},
};
use holdfast_store::{
    By, ByKind, EmailTaken, FactorOwner, Filter, NewKey, NewUser, Surface, TeamChange, Unlink, User, acting,
};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    migrations::{self, Wanted},
    webhooks,
};
use crate::{
    api::{self, ConnectorBody},
    app::App,
    care,
    keys::{self, SCOPES},
    mailbox,
    moving::Format,
    oidc,
    problem::Problem,
    ui::{
        forgotten, passwords,
        throttle::{self, Subject},
    },
};

/// What a command asks. It crosses a socket that only the server's own user may open.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each is a command of the command line")]
pub enum Ask {
    UserCreate {
        org: String,
        email: String,
        role: Option<Role>,
        operator: bool,
        password: Option<String>,
    },
    UserRemove {
        email: String,
        org: Option<String>,
    },
    UserSetPassword {
        email: String,
        org: Option<String>,
        password: Option<String>,
    },
    UserResetPassword {
        email: String,
    },
    UserResetTwoFactor {
        email: String,
    },
    UserUnlinkProvider {
        email: String,
    },
    UserSetRole {
        email: String,
        org: Option<String>,
        role: Role,
    },
    UserList {
        org: Option<String>,
    },
    KeyCreate {
        org: String,
        name: String,
        scopes: Vec<String>,
    },
    KeyList {
        org: Option<String>,
    },
    KeyRevoke {
        id: String,
    },
    ConnectorList {
        org: Option<String>,
    },
    ConnectorShow {
        id: String,
    },
    ConnectorTest {
        id: String,
    },
    ConnectorImport {
        org: Option<String>,
        from: Format,
        items: Vec<String>,
        dry_run: bool,
    },
    MigrationStart {
        provider: String,
        deadline: Option<String>,
        reason: Option<String>,
        only_endless: bool,
        dry_run: bool,
    },
    MigrationList,
    MigrationShow {
        id: String,
    },
    MigrationEnd {
        id: String,
    },
    WebhookOfApp {
        provider: String,
        org: Option<String>,
        kind: Option<String>,
        secret: Option<String>,
    },
}

/// Why a command was not done: one line, with the next step.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Refused {
    /// For people.
    pub message: String,
    /// Stable; where the API has one for it.
    pub code: Option<String>,
}

impl Refused {
    /// With a message alone.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: None }
    }
}

impl<E: Into<Problem>> From<E> for Refused {
    fn from(error: E) -> Self {
        let problem: Problem = error.into();
        Self { message: problem.detail().to_owned(), code: Some(problem.code().to_owned()) }
    }
}

/// Does what was asked, as whoever runs the installation.
pub async fn run(app: &Arc<App>, ask: Ask) -> Result<Value, Refused> {
    let by = By {
        kind: ByKind::Cli,
        id: None,
        name: "Whoever runs this installation".to_owned(),
        surface: Surface::Cli,
        address: None,
    };
    acting(by, done(app, ask)).await
}

async fn done(app: &Arc<App>, ask: Ask) -> Result<Value, Refused> {
    match ask {
        Ask::UserCreate { org, email, role, operator, password } => {
            user_create(app, &org, &email, role, operator, password.map(SecretString::from)).await
        }
        Ask::UserRemove { email, org } => user_remove(app, &email, org.as_deref()).await,
        Ask::UserSetPassword { email, org, password } => {
            user_set_password(app, &email, org.as_deref(), password.map(SecretString::from)).await
        }
        Ask::UserResetPassword { email } => user_reset_password(app, &email).await,
        Ask::UserResetTwoFactor { email } => user_reset_two_factor(app, &email).await,
        Ask::UserUnlinkProvider { email } => user_unlink_provider(app, &email).await,
        Ask::UserSetRole { email, org, role } => user_set_role(app, &email, org.as_deref(), role).await,
        Ask::UserList { org } => {
            let mut all = Vec::new();
            for (name, org) in orgs(app, org.as_deref()).await? {
                for user in app.store.users(&org).await? {
                    all.push(json!({
                        "id": user.id, "org": name, "email": user.email, "name": user.name, "role": user.role,
                        "operator": user.operator, "created_at": user.created_at,
                        "password": if user.password_hash.is_some() { "set" } else { "none" },
                        "two_factor": if user.second_factor { "on" } else { "off" },
                    }));
                }
            }
            Ok(Value::Array(all))
        }
        Ask::KeyCreate { org, name, scopes } => key_create(app, &org, &name, &scopes).await,
        Ask::KeyList { org } => {
            let mut all = Vec::new();
            for (name, org) in orgs(app, org.as_deref()).await? {
                for key in app.store.keys(&org).await? {
                    all.push(json!({
                        "id": key.id, "org": name, "name": key.name, "scopes": key.scopes,
                        "created_at": key.created_at, "revoked_at": key.revoked_at,
                    }));
                }
            }
            Ok(Value::Array(all))
        }
        Ask::KeyRevoke { id } => key_revoke(app, &id).await,
        Ask::ConnectorList { org } => {
            let mut all = Vec::new();
            for (name, org) in orgs(app, org.as_deref()).await? {
                let mut cursor = None;
                loop {
                    let page = app.store.connectors(&org, &Filter::default(), cursor.as_deref(), 200).await?;
                    for body in ConnectorBody::all(app, &page.data).await? {
                        let mut body = serde_json::to_value(body).expect("it is plain data");
                        body["org"] = json!(name);
                        all.push(body);
                    }
                    cursor = page.next_cursor;
                    if cursor.is_none() {
                        break;
                    }
                }
            }
            Ok(Value::Array(all))
        }
        Ask::ConnectorShow { id } => {
            let known = connector(app, &id).await?;
            let view = app.store.find_connector(&known.org, &id).await?.ok_or_else(|| unknown("connector", &id))?;
            Ok(serde_json::to_value(ConnectorBody::of(app, &view).await?).expect("it is plain data"))
        }
        Ask::ConnectorTest { id } => {
            let known = connector(app, &id).await?;
            let report = care::test(app, &known, "command line").await?;
            Ok(serde_json::to_value(report).expect("it is plain data"))
        }
        Ask::ConnectorImport { org, from, items, dry_run } => {
            let org = one_org(app, org.as_deref()).await?;
            Ok(Value::Array(api::import_all(app, &org, from, &items, dry_run).await))
        }
        Ask::MigrationStart { provider, deadline, reason, only_endless, dry_run } => {
            let (deadline, reason) = (deadline.as_deref(), reason.as_deref());
            migrations::start(app, &Wanted { provider: &provider, deadline, reason, only_endless, dry_run }).await
        }
        Ask::MigrationList => migrations::list(app).await,
        Ask::MigrationShow { id } => migrations::show(app, &id).await,
        Ask::MigrationEnd { id } => migrations::end(app, &id).await,
        Ask::WebhookOfApp { provider, org, kind, secret } => {
            let org = match org.as_deref() {
                None => None,
                named => Some(one_org(app, named).await?),
            };
            webhooks::of_app(app, &provider, org.as_ref(), kind, secret).await
        }
    }
}

async fn user_create(
    app: &App,
    org: &str,
    email: &str,
    role: Option<Role>,
    operator: bool,
    password: Option<SecretString>,
) -> Result<Value, Refused> {
    let email = email.trim();
    if !mailbox::is_address(email) {
        return Err(Refused::new(format!("{email:?} is not an e-mail address, such as ada@example.com")));
    }
    let password_hash = match password {
        None => None,
        Some(password) => Some(hashed(password, &[email, org]).await?),
    };
    let org = app.store.ensure_org(&checked_name(org, "organisation")?).await?;
    let role = match role {
        Some(role) => role,
        // Who comes to others may do what is asked of them, and no more than they say.
        None if app.store.users(&org).await?.is_empty() => Role::Owner,
        None => Role::Member,
    };
    let at = app.seams.clock.now();
    let user = NewUser { org, email: email.to_owned(), name: None, role, operator, password_hash, at };
    match app.store.create_user(&user).await? {
        Ok(id) => Ok(json!({ "id": id, "role": role })),
        Err(EmailTaken) => Err(Refused::new(format!("the organisation has a person with the address {email} already"))),
    }
}

/// The one person of this address, in this org where there are several.
async fn person(app: &App, email: &str, org: Option<&str>) -> Result<User, Refused> {
    let rows = app.store.find_users_by_email(email).await?;
    let mut asked: Vec<_> = rows.into_iter().filter(|user| org.is_none_or(|org| user.org_name == org)).collect();
    match (asked.len(), org) {
        (1, _) => Ok(asked.remove(0)),
        (0, Some(org)) => Err(Refused::new(format!("nobody in {org:?} has the address {email}"))),
        (0, None) => Err(nobody(email)),
        _ => {
            let names: Vec<_> = asked.iter().map(|user| user.org_name.as_str()).collect();
            let names = names.join(", ");
            Err(Refused::new(format!("{email} is in several organisations; say which with --org: {names}")))
        }
    }
}

/// Somebody has forgotten theirs. Whoever runs the installation is who may do that.
async fn user_set_password(
    app: &App,
    email: &str,
    org: Option<&str>,
    password: Option<SecretString>,
) -> Result<Value, Refused> {
    let user = person(app, email, org).await?;
    let made = password.is_none().then(|| made_up(app));
    let password = password.or_else(|| made.clone()).expect("one of the two is there");
    let hash = hashed(password, &[&user.email, &user.org_name]).await?;
    app.store.set_password(&[user.id.as_str()], &hash, None, Some((&app.telling(), "operator"))).await?;
    throttle::forget(app, Subject::address(&user.email)).await?;
    Ok(json!({ "id": user.id, "password": made.as_ref().map(ExposeSecret::expose_secret) }))
}

/// A link by which they set one themselves: who hands it over never knows the password.
async fn user_reset_password(app: &App, email: &str) -> Result<Value, Refused> {
    if app.store.find_users_by_email(email).await?.is_empty() {
        return Err(nobody(email));
    }
    let (url, expires_at) = forgotten::make_link(app, email).await?;
    Ok(json!({ "url": url, "expires_at": expires_at }))
}

/// For somebody who has lost their app and their recovery codes.
async fn user_reset_two_factor(app: &App, email: &str) -> Result<Value, Refused> {
    let rows = app.store.find_users_by_email(email).await?;
    let Some(user) = rows.first() else { return Err(nobody(email)) };
    let owner = FactorOwner { user: &user.id, email: &user.email };
    if app.store.reset_second_factor(owner, &app.telling()).await? == Changed::No {
        return Err(Refused::new(format!("{email} has no second factor: their password alone signs them in")));
    }
    throttle::forget(app, Subject::second_factor(&user.email)).await?;
    Ok(json!({ "id": user.id, "two_factor": "off" }))
}

/// For somebody whose account at the provider was made anew: nobody else is let in by the address until then.
async fn user_unlink_provider(app: &App, email: &str) -> Result<Value, Refused> {
    let rows = app.store.find_users_by_email(email).await?;
    let Some(user) = rows.first() else { return Err(nobody(email)) };
    let unlink = Unlink { user: &user.id, email: &user.email, provider: oidc::name(app), session: None };
    if app.store.unlink_identities(unlink, &app.telling()).await? == Changed::No {
        return Err(Refused::new(format!("{email} is linked to no account at an identity provider")));
    }
    Ok(json!({ "id": user.id, "linked": false }))
}

async fn user_set_role(app: &App, email: &str, org: Option<&str>, role: Role) -> Result<Value, Refused> {
    let user = person(app, email, org).await?;
    match app.store.set_role(&user.org, &user.id, role, None, app.seams.clock.now()).await? {
        TeamChange::LastOwner => Err(last_owner(email, &user.org_name)),
        TeamChange::Nobody | TeamChange::NotAllowed | TeamChange::LastOperator => Err(nobody(email)),
        TeamChange::Done => Ok(json!({ "id": user.id, "role": role })),
    }
}

/// Somebody leaves. The last owner stays: nobody else could be told of a failure, or make another one.
async fn user_remove(app: &App, email: &str, org: Option<&str>) -> Result<Value, Refused> {
    let user = person(app, email, org).await?;
    match app.store.remove_user(&user.org, &user.id, None, app.seams.clock.now()).await? {
        TeamChange::LastOwner => Err(last_owner(email, &user.org_name)),
        TeamChange::Nobody | TeamChange::NotAllowed | TeamChange::LastOperator => Err(nobody(email)),
        TeamChange::Done => Ok(json!({ "id": user.id, "removed": true })),
    }
}

fn last_owner(email: &str, org: &str) -> Refused {
    let words = "give that role to somebody else first: `holdfast user set-role`";
    Refused::new(format!("{email} is the last owner of {org:?}; {words}"))
}

fn nobody(email: &str) -> Refused {
    Refused::new(format!("nobody has the address {email}; `holdfast user list` shows who is there"))
}

/// A password that can be read out over the telephone: 96 random bits.
fn made_up(app: &App) -> SecretString {
    let mut bytes = [0; 12];
    app.seams.random.fill(&mut bytes);
    let group = |three: &[u8]| three.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    SecretString::from(bytes.chunks(3).map(group).collect::<Vec<_>>().join("-"))
}

async fn hashed(password: SecretString, known: &[&str]) -> Result<SecretString, Refused> {
    if let Some(complaint) = passwords::complaint(password.expose_secret(), known) {
        // As the errors of commands begin.
        let (first, rest) = complaint.split_at(1);
        return Err(Refused::new(format!("{}{rest}", first.to_lowercase())));
    }
    passwords::hash(password).await.map_err(|error| Refused::new(error.to_string()))
}

async fn key_create(app: &App, org: &str, name: &str, scopes: &[String]) -> Result<Value, Refused> {
    if let Some(unknown) = scopes.iter().find(|scope| !SCOPES.contains(&scope.as_str())) {
        return Err(Refused::new(format!("there is no scope {unknown:?}; there are: {}", SCOPES.join(", "))));
    }
    let name = checked_name(name, "key")?;
    let org = app.store.find_org(org).await?.ok_or_else(|| no_org(org))?;
    let key = keys::secret_text("hf_", app.seams.random.as_ref());
    let hash = keys::hash(key.expose_secret());
    let (id, at) = (app.store.new_key_id(), app.seams.clock.now());
    let new = NewKey { org: &org, id: &id, name: &name, scopes, hash: &hash, at };
    app.store.create_key_as(&new, Some((&app.telling(), "whoever runs this installation"))).await?;
    Ok(json!({ "id": id, "key": key.expose_secret() }))
}

async fn key_revoke(app: &App, id: &str) -> Result<Value, Refused> {
    for (_, org) in app.store.orgs().await? {
        if app.store.keys(&org).await?.iter().any(|key| key.id == id) {
            app.store.revoke_key(&org, id, app.seams.clock.now()).await?;
            app.keys.forget();
            return Ok(json!({ "id": id, "revoked": true }));
        }
    }
    Err(unknown("key", id))
}

fn checked_name(name: &str, what: &str) -> Result<String, Refused> {
    let name = name.trim();
    if !care::is_name(name) {
        return Err(Refused::new(format!("the name of the {what} {}", care::NAME_RULE)));
    }
    Ok(name.to_owned())
}

/// By its id, or by the alias that one org has for it.
async fn connector(app: &App, id: &str) -> Result<Snapshot, Refused> {
    if let Some(found) = app.store.load(&ConnectorId::from(id)).await? {
        return Ok(found);
    }
    let mut found = Vec::new();
    for (_, org) in app.store.orgs().await? {
        found.extend(app.store.find_connector(&org, id).await?);
    }
    match found.len() {
        0 => Err(unknown("connector", id)),
        1 => Ok(found.remove(0).snapshot),
        _ => {
            Err(Refused::new(format!("several organisations have a connector {id}; take its id from `connector list`")))
        }
    }
}

async fn orgs(app: &App, only: Option<&str>) -> Result<Vec<(String, OrgId)>, Refused> {
    let all = app.store.orgs().await?;
    match only {
        None => Ok(all),
        Some(name) => {
            let found = all.into_iter().find(|(own, _)| own == name).ok_or_else(|| no_org(name))?;
            Ok(vec![found])
        }
    }
}

async fn one_org(app: &App, name: Option<&str>) -> Result<OrgId, Refused> {
    let mut found = orgs(app, name).await?;
    match found.len() {
        1 => Ok(found.remove(0).1),
        0 => Err(Refused::new("there is no organisation yet; make one with `holdfast user create --org NAME ...`")),
        _ => Err(Refused::new("there are several organisations; say which with --org NAME")),
    }
}

fn no_org(name: &str) -> Refused {
    Refused::new(format!("there is no organisation {name:?}; `holdfast user create --org NAME ...` makes one"))
}

fn unknown(what: &str, id: &str) -> Refused {
    Refused::new(format!("there is no {what} {id}; `holdfast {what} list` shows them"))
}
