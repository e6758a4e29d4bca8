//! The Reconnect link of a mail: a page, and from there the same consent as ever.
//!
//! The link is signed, and bound to connector, account, epoch and recipient. GET shows a page and changes nothing, so that
//! a scanner of mails can look as often as it likes. POST from that page, by the browser that was shown it, begins the
//! consent. Nobody is signed in by it. Once the epoch has moved it is dead, and says what happened instead.

use std::sync::Arc;

use axum::{
    extract::{Path, State, rejection::FormRejection},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use axum_extra::extract::cookie::CookieJar;
use holdfast_core::{Health, Provider, Role, Snapshot};
use holdfast_store::User;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use subtle::ConstantTimeEq;

use super::{
    make_session,
    page::{Mood, Page, escape},
    start::{begin, browser, cookie, cookie_name, leads_to, open_session, ours},
};
use crate::{
    app::App,
    mail::{
        link::{self, ReconnectLink},
        moment,
        text::line,
    },
};

/// What the form of the page carries.
#[derive(Deserialize)]
pub(super) struct Form {
    form: String,
}

/// A link that can be used.
struct Good {
    snapshot: Arc<Snapshot>,
    provider: Arc<dyn Provider>,
    user: User,
}

/// GET: shows what will happen, and starts nothing.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    Path(token): Path<SecretString>,
    jar: CookieJar,
) -> Result<Response, Page> {
    let secret = app.store.instance_secret(link::SECRET).await.map_err(ours)?;
    let Good { snapshot, provider, user } = look(&app, &token, &secret).await?;
    let browser = browser(&app, &jar);
    let about = provider.about();
    let account = provider.account(&snapshot.account).ok().map(|account| account.display).unwrap_or_default();
    let why = snapshot.health_reason.map(|reason| reason.sentence(about.name)).unwrap_or_default();
    let scopes = about.scopes.iter().map(|scope| format!("<li>{}</li>", escape(scope.words)));
    let body = format!(
        "<p>{} You are about to go to {name}. Sign in there with an admin or agent of the same account and allow the \
         access again. Everything that uses this connector stays as it is.</p>\
         <dl><dt>Account</dt><dd>{}</dd><dt>For</dt><dd>{}</dd><dt>Since</dt><dd>{}</dd></dl>\
         <p>{name} will ask you to allow:</p><ul>{}</ul>\
         <form method=\"post\"><input type=\"hidden\" name=\"form\" value=\"{}\">\
         <button>Continue to {name}</button></form>\
         <p class=\"hint\">Nothing happens before you press the button, and you can close this page.</p>",
        escape(&why),
        escape(&account),
        escape(&line(&user.org_name, 100)),
        moment(snapshot.health_since),
        scopes.collect::<String>(),
        link::form_token(&secret, &browser, &token),
        name = about.name,
    );
    let name = line(&snapshot.name, 100);
    let title = format!("Reconnect {}", if name.is_empty() { account } else { name });
    let leads_to = Some(leads_to(provider.as_ref()));
    let page = Page { status: StatusCode::OK, mood: Mood::Ask, title, body, leads_to };
    Ok((jar.add(cookie(&app, browser)), page).into_response())
}

/// POST: from that page and that browser alone.
pub(super) async fn start(
    State(app): State<Arc<App>>,
    Path(token): Path<SecretString>,
    jar: CookieJar,
    headers: HeaderMap,
    form: Result<axum::Form<Form>, FormRejection>,
) -> Result<Response, Page> {
    let secret = app.store.instance_secret(link::SECRET).await.map_err(ours)?;
    let Good { snapshot, .. } = look(&app, &token, &secret).await?;
    let shown = jar.get(cookie_name(&app)).map(|cookie| link::form_token(&secret, cookie.value(), &token));
    let ours_alone = match (&shown, &form) {
        (Some(shown), Ok(form)) => bool::from(shown.as_bytes().ct_eq(form.0.form.as_bytes())),
        _ => false,
    };
    if !ours_alone || !from_here(&app, &headers) {
        return Err(Page::trouble(
            StatusCode::FORBIDDEN,
            "Press the button on our own page",
            "This did not come from the page that the link shows in this browser. Open the link of the mail again, and \
             press the button there; cookies have to be allowed for it.",
        ));
    }
    let (session, _) = make_session(&app, &snapshot, None).await.map_err(ours)?;
    let opened = open_session(&app, session.expose_secret()).await?;
    begin(&app, session.expose_secret(), &opened, jar).await
}

/// Whether the request comes from a page of ours, as far as the browser says. Our pages send no referrer, and browsers
/// then say `null` for the origin of a form.
fn from_here(app: &App, headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|value: &header::HeaderValue| value.to_str().unwrap_or("?").to_owned());
    if let Some(site) = text("sec-fetch-site") {
        return matches!(site.as_str(), "same-origin" | "none");
    }
    let own = app.config.public_url().origin().ascii_serialization();
    text("origin").is_none_or(|origin| origin == "null" || origin == own)
}

/// What the link is worth now. Each way in which it is dead has its own words and way on.
async fn look(app: &App, token: &SecretString, secret: &[u8; 32]) -> Result<Good, Page> {
    let Some(link) = ReconnectLink::verify(token, secret) else {
        return Err(Page::trouble(
            StatusCode::NOT_FOUND,
            "This link is not known",
            "It may be cut off at its end. Copy the whole link from the mail, or use its button.",
        ));
    };
    let user = app.store.find_user(&link.user).await.map_err(ours)?.filter(|user| user.role >= Role::Admin);
    let Some(user) = user else {
        return Err(Page::trouble(
            StatusCode::FORBIDDEN,
            "You are no longer an admin",
            "This link was sent to an admin of the organisation, who has left or has another role now. An admin can \
             reconnect it; each of them has a link of their own in the mail.",
        ));
    };
    let found = app.engine.snapshot(&link.connector).await.map_err(ours)?;
    let Some(snapshot) = found.filter(|snapshot| snapshot.org == user.org) else {
        return Err(Page::trouble(
            StatusCode::GONE,
            "This connector was removed",
            "There is nothing to reconnect any more, and nothing for you to do.",
        ));
    };
    if snapshot.epoch != link.epoch || !link.is_of_account(&snapshot) {
        return Err(passed(app, &snapshot).await?);
    }
    if link.expires_at <= app.seams.clock.now() {
        return Err(dead(
            app,
            &snapshot,
            Mood::Trouble,
            "This link is over",
            "Links in mails work for two weeks. The connector still needs you: sign in, and reconnect it on its page.",
        ));
    }
    match app.providers().find(&snapshot.provider).cloned() {
        Some(provider) => Ok(Good { snapshot, provider, user }),
        None => Err(Page::trouble(
            StatusCode::SERVICE_UNAVAILABLE,
            "This cannot be connected at the moment",
            "The operator of this instance has to add the adapter for it first.",
        )),
    }
}

/// The failure that the link was sent for is over: how, and what now.
async fn passed(app: &App, snapshot: &Snapshot) -> Result<Page, Page> {
    Ok(match snapshot.health {
        Health::Connected => {
            let recovery = app.store.find_recovery(&snapshot.org, &snapshot.connector, None).await.map_err(ours)?;
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
            dead(app, snapshot, Mood::Done, "Already reconnected", &text)
        }
        Health::AuthFailed => dead(
            app,
            snapshot,
            Mood::Trouble,
            "There is a newer link",
            "It was reconnected after this mail, and has stopped again since. Use the link of the newest mail, or sign in \
             and reconnect it on its page.",
        ),
        Health::Disconnected | Health::Pending => dead(
            app,
            snapshot,
            Mood::Trouble,
            "This connector was disconnected",
            "An admin took it off after this mail. If it is wanted again, sign in and connect it on its page.",
        ),
    })
}

/// A dead link of a person who may see the connector: what happened, and the way to it.
fn dead(app: &App, snapshot: &Snapshot, mood: Mood, title: &str, text: &str) -> Page {
    let name = line(&snapshot.name, 100);
    let name = if name.is_empty() { line(&snapshot.account, 100) } else { name };
    let page = app.url(&format!("connectors/{}", snapshot.connector));
    let body = format!("<p>{}</p><p><a href=\"{}\">Open {}</a></p>", escape(text), escape(&page), escape(&name));
    Page { status: StatusCode::GONE, mood, title: title.to_owned(), body, leads_to: None }
}
