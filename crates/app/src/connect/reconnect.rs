//! The Reconnect link of a mail: a page, and from there the same consent as ever.
//!
//! The link is signed, and bound to connector, account, epoch and recipient. GET shows a page and changes nothing, so that
//! a scanner of mails can look as often as it likes. POST from that page, by the browser that was shown it, begins the
//! consent. Nobody is signed in by it. Once the epoch has moved it is dead, and says what happened instead.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use holdfast_core::{Health, Provider, Role, Snapshot, TokenSet, ports::StoreError};
use holdfast_store::{Session, User, Way};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use super::{
    secret_of,
    start::{Ways, begin, leads_to, ways},
};
use crate::{
    app::App,
    called,
    mail::{
        link::{self, ReconnectLink},
        moment,
        text::line,
    },
    ui::{form::Posted, person::Visitor, trouble::Trouble, view::View},
    words,
};

/// A link that can be used.
struct Good {
    snapshot: Arc<Snapshot>,
    provider: Arc<dyn Provider>,
    user: User,
}

/// What a link is worth.
enum Worth {
    Good(Good),
    /// What it was for is over, told to somebody who may see the connector.
    Dead(Dead),
}

/// What happened instead, and the way on.
#[derive(Serialize)]
struct Dead {
    #[serde(skip)]
    status: StatusCode,
    /// Nothing is left to do.
    done: bool,
    title: &'static str,
    text: String,
    page: String,
    /// Of the connector that this leads to.
    name: Option<String>,
}

#[derive(Serialize)]
struct ReconnectPage<'a> {
    provider: &'a str,
    why: String,
    account: String,
    org: String,
    /// What the moment below is.
    when: &'static str,
    moment: String,
    scopes: Vec<&'a str>,
    ways: Ways,
    name: String,
}

/// What the form may carry: the way in.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Form {
    by: String,
}

/// GET: shows what will happen, and starts nothing.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    Path(token): Path<SecretString>,
    visitor: Visitor,
) -> Result<Response, Trouble> {
    let Good { snapshot, provider, user } = match look(&app, &token).await? {
        Worth::Good(good) => good,
        Worth::Dead(dead) => return Ok(over(&app, &visitor, &dead)),
    };
    let about = provider.about();
    let account = provider.account(&snapshot.account).ok().map(|account| account.display).unwrap_or_default();
    // One that works is reconnected because its access ends soon.
    let ends_at = snapshot.credential.secret.tokens().and_then(TokenSet::ends_at);
    let works = snapshot.health == Health::Connected;
    let (when, at) = match ends_at.filter(|_| works) {
        Some(ends_at) => ("Works until", ends_at),
        None => ("Since", snapshot.health_since),
    };
    let page = ReconnectPage {
        provider: about.name,
        why: if works {
            words::ending(about.name, true).what
        } else {
            words::failure(snapshot.health_reason, about.name).what
        },
        org: line(&user.org_name, 100),
        when,
        moment: moment(at),
        scopes: about.scopes.iter().map(|scope| scope.words).collect(),
        ways: ways(&app, &snapshot.org, about, Some(&snapshot)).await?,
        name: line(&called::connector(&app, &snapshot), 100),
        account,
    };
    let title = format!("Reconnect {}", page.name);
    let view = View::plain(&visitor.csrf, "pages/connect/reconnect.html", &title, &page);
    let shown = view.leads_to(leads_to(&app).as_str()).show(&app);
    Ok((visitor.jar, shown).into_response())
}

/// POST: from that page and that browser alone.
pub(super) async fn start(
    State(app): State<Arc<App>>,
    Path(token): Path<SecretString>,
    visitor: Visitor,
    form: Result<Posted<Form>, Trouble>,
) -> Result<Response, Trouble> {
    let Good { snapshot, user, .. } = match look(&app, &token).await? {
        Worth::Good(good) => good,
        Worth::Dead(dead) => return Ok(over(&app, &visitor, &dead)),
    };
    let Ok(Posted(form)) = form else {
        return Err(Trouble::outside(
            StatusCode::FORBIDDEN,
            "Press the button on our own page",
            "This did not come from the page that the link shows in this browser. Open the link of the mail again, and \
             press the button there; cookies have to be allowed for it.",
        ));
    };
    let target = begin(&app, &snapshot, None, &form.by, Way::Mail, &user.id, &visitor.browser).await?;
    Ok((StatusCode::SEE_OTHER, visitor.jar, [(header::LOCATION, target)]).into_response())
}

/// The link by which this consent was begun, once more, while there is something to reconnect. For the browser that began
/// it, as long as it could begin one.
pub(super) async fn again(app: &App, session: &Session, snapshot: &Snapshot) -> Result<Option<String>, StoreError> {
    // As there are mails: of a failure, and of an access that ends soon.
    let ends = || snapshot.credential.secret.tokens().is_some_and(|tokens| tokens.ends_at().is_some());
    let worth = snapshot.health == Health::AuthFailed || snapshot.health == Health::Connected && ends();
    let Some(user) = session.user.as_deref().filter(|_| worth) else { return Ok(None) };
    let secret = app.store.instance_secret(link::SECRET).await?;
    let link = ReconnectLink::new(snapshot, snapshot.epoch, user, session.expires_at).sign(&secret);
    Ok(Some(format!("/reconnect/{}", link.expose_secret())))
}

fn over(app: &App, visitor: &Visitor, dead: &Dead) -> Response {
    View::plain(&visitor.csrf, "pages/connect/dead_link.html", dead.title, dead).status(dead.status).show(app)
}

/// What the link is worth now. Each way in which it is dead has its own words and way on.
async fn look(app: &App, token: &SecretString) -> Result<Worth, Trouble> {
    // Without a secret no link was ever made, and looking at one makes none.
    let secret = app.store.find_instance_secret(link::SECRET).await?;
    let Some(link) = secret.and_then(|secret| ReconnectLink::verify(&secret_of(token.expose_secret()).into(), &secret))
    else {
        return Ok(Worth::Dead(lost(
            StatusCode::NOT_FOUND,
            "This link is not known",
            "It may be cut off at its end. Copy the whole link from the mail, or use its button.",
        )));
    };
    let user = app.store.find_user(&link.user).await?.filter(|user| user.role >= Role::Admin);
    let Some(user) = user else {
        return Ok(Worth::Dead(lost(
            StatusCode::FORBIDDEN,
            "You are no longer an admin",
            "This link was sent to an admin of the organisation, who has left or has another role now. An admin can \
             reconnect it; each of them has a link of their own in the mail.",
        )));
    };
    let found = app.engine.snapshot(&link.connector).await?;
    let Some(snapshot) = found.filter(|snapshot| snapshot.org == user.org) else {
        return Ok(Worth::Dead(lost(
            StatusCode::GONE,
            "This connector was removed",
            "There is nothing to reconnect any more, and nothing for you to do.",
        )));
    };
    if snapshot.epoch != link.epoch || !link.is_of_account(&snapshot) {
        return Ok(Worth::Dead(passed(app, &snapshot).await?));
    }
    if link.expires_at <= app.seams.clock.now() {
        return Ok(Worth::Dead(dead(
            app,
            &snapshot,
            false,
            "This link is over",
            "Links in mails work for two weeks. The connector still needs you: sign in, and reconnect it on its page.",
        )));
    }
    match app.providers().find(&snapshot.provider).cloned() {
        Some(provider) => Ok(Worth::Good(Good { snapshot, provider, user })),
        None => Err(Trouble::outside(
            StatusCode::SERVICE_UNAVAILABLE,
            "This cannot be connected at the moment",
            "The operator of this instance has to add the adapter for it first.",
        )),
    }
}

/// The failure that the link was sent for is over: how, and what now.
async fn passed(app: &App, snapshot: &Snapshot) -> Result<Dead, Trouble> {
    Ok(match snapshot.health {
        Health::Connected => {
            let recovery = app.store.find_recovery(&snapshot.org, &snapshot.connector, None).await?;
            let text = match recovery {
                Some(recovery) if recovery.reconnected => {
                    let by = recovery.by.map(|by| line(&by, 100)).filter(|by| !by.is_empty());
                    let who = by.map_or_else(|| "It was reconnected".to_owned(), |by| format!("{by} reconnected it"));
                    format!("{who} on {}. Nothing is left to do.", moment(recovery.at))
                }
                Some(recovery) => {
                    format!("It works again since {}, without a reconnect. Nothing is left to do.", moment(recovery.at))
                }
                None => "It works again. Nothing is left to do.".to_owned(),
            };
            dead(app, snapshot, true, "Already reconnected", &text)
        }
        Health::AuthFailed => dead(
            app,
            snapshot,
            false,
            "There is a newer link",
            "It was reconnected after this mail, and has stopped again since. Use the link of the newest mail, or sign in \
             and reconnect it on its page.",
        ),
        Health::Disconnected | Health::Pending => dead(
            app,
            snapshot,
            false,
            "This connector was disconnected",
            "An admin took it off after this mail. If it is wanted again, sign in and connect it on its page.",
        ),
    })
}

/// A dead link of a person who may see the connector: what happened, and the way to it.
fn dead(app: &App, snapshot: &Snapshot, done: bool, title: &'static str, text: &str) -> Dead {
    let name = line(&called::connector(app, snapshot), 100);
    let page = app.url(&format!("connectors/{}", snapshot.connector));
    Dead { status: StatusCode::GONE, done, title, text: text.to_owned(), page, name: Some(name) }
}

/// A dead link that leads to no connector: only Holdfast itself is left to go to.
fn lost(status: StatusCode, title: &'static str, text: &str) -> Dead {
    Dead { status, done: false, title, text: text.to_owned(), page: "/connectors".to_owned(), name: None }
}
