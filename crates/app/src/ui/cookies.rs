//! Cookies: one that says who is signed in, one that tells browsers apart before anybody is.

use axum_extra::extract::cookie::{Cookie, CookieJar, SameSite};
use secrecy::ExposeSecret;

use crate::{app::App, keys};

/// Which cookie.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// Of somebody who is signed in.
    Session,
    /// Of somebody who has shown their password and owes their second factor.
    Half,
    /// Of somebody who is at the identity provider.
    Provider,
    /// Of a browser, signed in or not: consents and forms are bound to it, and who signs in with it is not told of a new one.
    Browser,
}

impl Kind {
    /// `__Host-` wherever browsers accept it: over https.
    pub(crate) fn name(self, app: &App) -> &'static str {
        match (self, secure(app)) {
            (Self::Session, true) => "__Host-holdfast_session",
            (Self::Session, false) => "holdfast_session",
            (Self::Half, true) => "__Host-holdfast_half",
            (Self::Half, false) => "holdfast_half",
            (Self::Provider, true) => "__Host-holdfast_provider",
            (Self::Provider, false) => "holdfast_provider",
            (Self::Browser, true) => "__Host-holdfast_browser",
            (Self::Browser, false) => "holdfast_browser",
        }
    }

    /// What the browser sent, if it can be one of ours.
    pub(crate) fn read(self, app: &App, jar: &CookieJar) -> Option<String> {
        jar.get(self.name(app)).map(Cookie::value).filter(|value| value.len() >= 40).map(str::to_owned)
    }

    /// To be sent.
    pub(crate) fn set(self, app: &App, value: String) -> Cookie<'static> {
        let cookie = Cookie::build((self.name(app), value))
            .path("/")
            .http_only(true)
            .secure(secure(app))
            // Lax: a provider's redirect back and a link in a mail are navigations from elsewhere, and have to carry it.
            .same_site(SameSite::Lax);
        match self {
            Self::Session | Self::Half | Self::Provider => cookie.build(),
            Self::Browser => cookie.permanent().build(),
        }
    }

    /// To be forgotten.
    pub(crate) fn end(self, app: &App) -> Cookie<'static> {
        let mut cookie = self.set(app, String::new());
        cookie.make_removal();
        cookie
    }
}

/// The browser's own cookie; a new one where it has none.
pub(crate) fn browser(app: &App, jar: &CookieJar) -> String {
    Kind::Browser
        .read(app, jar)
        .unwrap_or_else(|| keys::secret_text("", app.seams.random.as_ref()).expose_secret().to_owned())
}

fn secure(app: &App) -> bool {
    app.config.public_url().scheme() == "https"
}
