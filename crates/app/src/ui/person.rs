//! Who is signed in.

use std::{convert::Infallible, sync::Arc};

use axum::{
    extract::{FromRequestParts, OptionalFromRequestParts, Request},
    http::{HeaderMap, Method, Uri, header, request::Parts},
};
use axum_extra::extract::cookie::CookieJar;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::TimeDelta;
use holdfast_core::{OrgId, Role};
use holdfast_store::{BrowserSession, User};
use sha2::{Digest, Sha256};
use url::Url;

use super::{
    cookies::{self, Kind},
    trouble::Trouble,
};
use crate::{app::App, demo::Bar, keys};

/// A session that was not used for this long is over.
pub(super) const LONGEST_PAUSE: TimeDelta = TimeDelta::days(14);
/// A visit is noted no more often than this.
const NOTE_EVERY: TimeDelta = TimeDelta::minutes(5);

/// Somebody who is signed in.
#[derive(Clone)]
pub(crate) struct Person {
    /// Who.
    pub(crate) user: User,
    /// In which session.
    pub(crate) session: BrowserSession,
    /// Whether the identity provider has seen their second factor, or that is its business.
    pub(crate) vouched: bool,
    /// What their forms carry.
    pub(crate) csrf: String,
    /// Where this is a demo.
    pub(crate) demo: Option<Arc<Bar>>,
}

impl Person {
    /// Whose things they see.
    pub(crate) fn org(&self) -> &OrgId {
        &self.user.org
    }

    /// Whether they may do what this role may.
    pub(crate) fn may(&self, role: Role) -> bool {
        self.user.role >= role
    }

    /// A page that says no, unless they may.
    pub(crate) fn needs(&self, role: Role) -> Result<(), Trouble> {
        if self.may(role) {
            Ok(())
        } else {
            Err(Trouble::Forbidden { needs: role, person: Some(Box::new(self.clone())) })
        }
    }

    /// A page that does not exist, unless they run the instance.
    pub(crate) fn needs_operator(&self) -> Result<(), Trouble> {
        if self.user.operator { Ok(()) } else { Err(Trouble::NotFound { person: Some(Box::new(self.clone())) }) }
    }

    /// Whether they see nothing of their org before they have set up the second factor that it asks for.
    pub(crate) fn lacks_second_factor(&self) -> bool {
        self.user.second_factor_required && !self.user.second_factor && !self.vouched
    }

    /// For the timeline.
    pub(crate) fn actor(&self) -> String {
        self.user.shown().to_owned()
    }

    /// The person of this cookie.
    pub(crate) async fn find(app: &App, jar: &CookieJar) -> Result<Option<Self>, Trouble> {
        let Some(token) = Kind::Session.read(app, jar) else { return Ok(None) };
        let now = app.seams.clock.now();
        let found = app.store.find_browser_session(&keys::hash(&token), now, now - LONGEST_PAUSE).await?;
        let Some((session, user)) = found else { return Ok(None) };
        if now - session.seen_at >= NOTE_EVERY {
            app.store.touch_browser_session(&session.id, now).await?;
        }
        let demo = match app.demo.get() {
            Some(demo) => Some(Arc::new(demo.bar(app, &user.org).await?)),
            None => None,
        };
        let vouched = session.by_provider && app.config.oidc().is_some_and(|oidc| !oidc.asks_for_second_factor());
        Ok(Some(Self { user, session, vouched, csrf: csrf(&token), demo }))
    }
}

impl FromRequestParts<Arc<App>> for Person {
    type Rejection = Trouble;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Trouble> {
        // The guard of the routes has looked already, where the route says that it takes somebody.
        if let Some(person) = parts.extensions.get::<Self>() {
            return Ok(person.clone());
        }
        let found = Self::find(app, &CookieJar::from_headers(&parts.headers)).await?;
        found.ok_or_else(|| nobody(app, &parts.method, &parts.uri, &parts.headers))
    }
}

/// Nobody is signed in: where this request's person goes on once they are.
pub(super) fn signed_out(app: &App, request: &Request) -> Trouble {
    nobody(app, request.method(), request.uri(), request.headers())
}

/// What was posted is gone; the page with its form is where to go on, and a browser says which one that was.
fn nobody(app: &App, method: &Method, uri: &Uri, headers: &HeaderMap) -> Trouble {
    if *method == Method::GET || *method == Method::HEAD {
        let back = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        return Trouble::SignedOut { back, posted: false };
    }
    let referer = headers.get(header::REFERER).and_then(|page| Url::parse(page.to_str().ok()?).ok());
    let page = referer.filter(|page| page.origin() == app.config.public_url().origin());
    let back = page
        .map_or_else(|| "/".to_owned(), |page| page[url::Position::BeforePath..url::Position::AfterQuery].to_owned());
    Trouble::SignedOut { back, posted: true }
}

impl OptionalFromRequestParts<Arc<App>> for Person {
    type Rejection = Trouble;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Option<Self>, Trouble> {
        if let Some(person) = parts.extensions.get::<Self>() {
            return Ok(Some(person.clone()));
        }
        Self::find(app, &CookieJar::from_headers(&parts.headers)).await
    }
}

/// Somebody who need not be signed in: a browser with a cookie of its own, so that forms can be told from forgeries.
pub(crate) struct Visitor {
    /// Send it back with the page: `(visitor.jar, page)`.
    pub(crate) jar: CookieJar,
    /// The cookie's value.
    pub(crate) browser: String,
    /// What forms carry.
    pub(crate) csrf: String,
}

impl FromRequestParts<Arc<App>> for Visitor {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Infallible> {
        let jar = CookieJar::from_headers(&parts.headers);
        let browser = cookies::browser(app, &jar);
        let csrf = csrf(&browser);
        Ok(Self { jar: jar.add(Kind::Browser.set(app, browser.clone())), browser, csrf })
    }
}

/// What a form carries to prove that it is ours: nobody can make it without the cookie, and it gives the cookie away to
/// nobody.
pub(crate) fn csrf(cookie: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(b"holdfast form|");
    hash.update(cookie.as_bytes());
    URL_SAFE_NO_PAD.encode(hash.finalize())
}
