//! Accepting an invitation: somebody new sets a name and a password, somebody with an account joins with it. Looking
//! changes nothing, since programs that look at mails follow their links.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Redirect, Response},
};
use holdfast_store::{Accept, Accepted, Invitation, InvitationNow};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use tracing::info;

use super::{
    form::Posted,
    parts::Told,
    passwords,
    person::{Person, Visitor},
    provider_sign_in,
    routes::{Needs, Routes},
    second_step,
    sign_in::{Came, begin, provider},
    trouble::{Trouble, sign_in_address},
    view::View,
};
use crate::{app::App, care, keys, words};

pub(super) fn routes() -> Routes {
    let path = "/invitation/{token}";
    Routes::new().get(path, Needs::Link, show).post(path, Needs::Link, accept).referring_nobody()
}

/// What the link is worth to whoever has opened it.
enum Worth {
    /// Nothing, and this is the page that says so.
    Dead(Response),
    /// It is theirs: they are signed in.
    Join(Invitation),
    /// They have an account, and have to sign in first.
    SignIn(Invitation),
    /// They have none yet.
    New(Invitation),
    /// Somebody else is signed in here.
    Other(Invitation, Box<Person>),
}

async fn look(app: &App, visitor: &Visitor, person: Option<Person>, token: &SecretString) -> Result<Worth, Trouble> {
    let now = app.seams.clock.now();
    let dead = |title: &str, text: &str, label: &str, href: &str| {
        Ok(Worth::Dead(Told::new(text, label, href).show(app, visitor, StatusCode::GONE, title)))
    };
    let Some(invitation) = app.store.find_invitation_of(&keys::hash(token.expose_secret())).await? else {
        let text = "It may be cut off at its end. Copy the whole link from the mail, or use its button.";
        return dead("This invitation is not known", text, "Sign in", "/sign-in");
    };
    let (org, email) = (&invitation.org_name, &invitation.email);
    let rows = app.store.find_users_by_email(email).await?;
    let member = rows.iter().any(|user| user.org == invitation.org);
    match invitation.now(now) {
        _ if member => {
            let text = format!("{email} belongs to {org}. There is nothing left to accept.");
            return dead("You belong to it already", &text, "Open Holdfast", "/");
        }
        InvitationNow::Used => {
            let text = format!("An invitation works once, and this one to {org} was accepted.");
            return dead("This invitation was used", &text, "Sign in", "/sign-in");
        }
        InvitationNow::Withdrawn => {
            let text = format!("Somebody of {org} has taken it back. If you think that you should be in, ask them.");
            return dead("This invitation was withdrawn", &text, "To the start page", "/");
        }
        InvitationNow::Replaced => {
            let text = format!(
                "It was sent to {email} again after this link was made. Open the link of the last mail, or ask {} for it.",
                invitation.by
            );
            return dead("A newer invitation is in its place", &text, "To the start page", "/");
        }
        InvitationNow::Expired => {
            let text = format!(
                "Invitations work for 7 days. Ask {} to send it again: this very link works again then.",
                invitation.by
            );
            return dead("This invitation is over", &text, "To the start page", "/");
        }
        InvitationNow::Open => {}
    }
    Ok(match person {
        Some(person) if person.user.email == *email => Worth::Join(invitation),
        Some(person) => Worth::Other(invitation, Box::new(person)),
        // Whom the identity provider vouches for has no password.
        None if rows.iter().any(|user| user.password_hash.is_some() || app.config.oidc().is_some()) => {
            Worth::SignIn(invitation)
        }
        None => Worth::New(invitation),
    })
}

#[derive(Serialize)]
struct InvitationPage<'a> {
    token: &'a str,
    /// `join`, `sign_in`, `new` or `other`.
    way: &'static str,
    by: &'a str,
    org: &'a str,
    email: &'a str,
    as_role: &'static str,
    may: &'static str,
    /// Where somebody signs in, and comes back.
    sign_in: String,
    /// Who is signed in, where that is somebody else.
    other: &'a str,
    name: &'a str,
    problems: Problems,
    /// What the identity provider is called, and whether passwords are for operators alone.
    provider: Option<&'a str>,
    only: bool,
    /// Where its button comes back to.
    back: String,
}

/// By the fields that they stand by.
#[derive(Serialize, Default, PartialEq)]
struct Problems {
    name: String,
    password: String,
}

/// GET /invitation/{token}
async fn show(
    State(app): State<Arc<App>>,
    person: Option<Person>,
    visitor: Visitor,
    Path(token): Path<SecretString>,
) -> Result<Response, Trouble> {
    let worth = look(&app, &visitor, person, &token).await?;
    Ok(page(&app, &visitor, &token, worth, "", Problems::default()))
}

fn page(app: &App, visitor: &Visitor, token: &SecretString, worth: Worth, name: &str, problems: Problems) -> Response {
    let (way, invitation, other) = match &worth {
        Worth::Join(invitation) => ("join", invitation, ""),
        Worth::SignIn(invitation) => ("sign_in", invitation, ""),
        Worth::New(invitation) => ("new", invitation, ""),
        Worth::Other(invitation, person) => ("other", invitation, person.user.email.as_str()),
        Worth::Dead(_) => {
            let Worth::Dead(dead) = worth else { unreachable!("it was matched") };
            return dead;
        }
    };
    let status = match way {
        "other" => StatusCode::CONFLICT,
        _ if problems == Problems::default() => StatusCode::OK,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    };
    let token = token.expose_secret();
    let (provider, only) = provider(app);
    let context = InvitationPage {
        token,
        way,
        by: &invitation.by,
        org: &invitation.org_name,
        email: &invitation.email,
        as_role: words::a_role(invitation.role),
        may: words::role_may(invitation.role),
        sign_in: sign_in_address(&format!("/invitation/{token}")),
        other,
        name,
        problems,
        provider,
        only,
        back: format!("/invitation/{token}"),
    };
    let title = format!("Join {}", invitation.org_name);
    let view = View::plain(&visitor.csrf, "pages/account/invitation.html", &title, &context);
    let sources = provider_sign_in::sources(app);
    let view = view.leads_to(sources.as_deref());
    (visitor.jar.clone(), view.status(status).show(app)).into_response()
}

#[derive(Deserialize)]
struct Form {
    #[serde(default)]
    name: String,
    #[serde(default)]
    password: SecretString,
}

/// POST /invitation/{token}
async fn accept(
    State(app): State<Arc<App>>,
    person: Option<Person>,
    visitor: Visitor,
    headers: HeaderMap,
    Path(token): Path<SecretString>,
    Posted(form): Posted<Form>,
) -> Result<Response, Trouble> {
    let worth = look(&app, &visitor, person.clone(), &token).await?;
    let vouched = person.as_ref().is_some_and(|person| person.session.by_provider);
    let (invitation, accept, also) = match (worth, person) {
        (Worth::Join(invitation), Some(person)) => {
            let also = std::iter::once(person.user.id.clone()).chain(person.session.also).collect();
            (invitation, Accept::Known(person.user.id), also)
        }
        // The page has no form then, only the way to the provider.
        (Worth::New(invitation), _) if provider(&app).1 => {
            return Ok(page(&app, &visitor, &token, Worth::New(invitation), "", Problems::default()));
        }
        (Worth::New(invitation), _) => {
            let name = form.name.trim();
            let problems = complaints(&form, &invitation);
            if problems != Problems::default() {
                return Ok(page(&app, &visitor, &token, Worth::New(invitation), &form.name, problems));
            }
            let password_hash = passwords::hash(form.password.clone()).await.map_err(|_| Trouble::Garbled)?;
            (invitation, Accept::New { name: name.to_owned(), password_hash }, Vec::new())
        }
        (worth, _) => return Ok(page(&app, &visitor, &token, worth, "", Problems::default())),
    };
    let hash = keys::hash(token.expose_secret());
    match app.store.accept_invitation(&hash, &accept, app.seams.clock.now()).await? {
        Accepted::Joined(id) => {
            info!(user.id = id, org.id = %invitation.org, "{id} joined by an invitation");
            let joined = app.store.find_user(&id).await?.ok_or(Trouble::Garbled)?;
            if joined.second_factor && matches!(accept, Accept::New { .. }) {
                return second_step::ask(&app, visitor.jar.clone(), &joined, also, "/").await;
            }
            let jar = begin(&app, visitor.jar.clone(), &headers, &joined, also, Came::Otherwise { vouched }).await?;
            Ok((jar, Redirect::to("/")).into_response())
        }
        // Somebody was faster, or has taken it back a moment ago: the page says which.
        Accepted::Member | Accepted::No => {
            Ok(Redirect::to(&format!("/invitation/{}", token.expose_secret())).into_response())
        }
    }
}

fn complaints(form: &Form, invitation: &Invitation) -> Problems {
    let name = form.name.trim();
    let good = care::is_name(name);
    let known = [invitation.email.as_str(), name, invitation.org_name.as_str()];
    Problems {
        name: if good { String::new() } else { format!("Your name {}; your colleagues see it.", care::NAME_RULE) },
        password: passwords::complaint(form.password.expose_secret(), &known).unwrap_or_default(),
    }
}
