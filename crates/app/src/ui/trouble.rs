//! What went wrong, as a page: a sentence, and the next step.

use axum::{
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
};
use holdfast_core::{Role, ports::StoreError};
use serde::Serialize;
use tracing::{error, warn};

use super::person::Person;
use crate::problem::Problem;

/// Why a page could not be shown or a form not be done. It becomes a page in [`super::view::troubles`], which has the
/// templates.
#[derive(Clone)]
pub(crate) enum Trouble {
    /// Nobody is signed in.
    SignedOut {
        /// Where they wanted to go: path and query.
        back: String,
        /// Whether they had filled in a form.
        posted: bool,
    },
    /// Their role does not allow it.
    Forbidden {
        /// What it takes.
        needs: Role,
        /// Who, for the frame.
        person: Option<Box<Person>>,
    },
    /// No such page or thing, or another org's.
    NotFound {
        /// Who, for the frame.
        person: Option<Box<Person>>,
    },
    /// The form has no right token: it is old, or not ours.
    Forged,
    /// The form did not arrive as it was sent.
    Garbled,
    /// The form is longer than any of ours.
    TooLong,
    /// Something else, in words.
    Told {
        /// HTTP status.
        status: StatusCode,
        /// In a few words.
        title: String,
        /// What to do.
        way_on: String,
        /// Where that is done.
        way: Option<Way>,
        /// Who, for the frame.
        person: Option<Box<Person>>,
    },
    /// The same, to somebody who need not have an account here: a helpdesk's admin with a connect link.
    Outside {
        /// HTTP status.
        status: StatusCode,
        /// In a few words.
        title: String,
        /// What to do.
        way_on: String,
    },
}

/// A button that leads on.
#[derive(Clone, Serialize)]
pub(crate) struct Way {
    label: &'static str,
    href: String,
}

impl Trouble {
    /// No such thing in this person's org.
    pub(crate) fn not_found(person: &Person) -> Self {
        Self::NotFound { person: Some(Box::new(person.clone())) }
    }

    /// In words, in the frame of this person.
    pub(crate) fn told(
        person: &Person,
        status: StatusCode,
        title: impl Into<String>,
        way_on: impl Into<String>,
    ) -> Self {
        let person = Some(Box::new(person.clone()));
        Self::Told { status, title: title.into(), way_on: way_on.into(), way: None, person }
    }

    /// With the button that leads to where it can be mended, where it was told in words.
    pub(crate) fn leading_to(mut self, label: &'static str, href: impl Into<String>) -> Self {
        if let Self::Told { way, .. } = &mut self {
            *way = Some(Way { label, href: href.into() });
        }
        self
    }

    /// Where it leads on.
    pub(crate) fn way(&self) -> Option<&Way> {
        match self {
            Self::Told { way, .. } => way.as_ref(),
            _ => None,
        }
    }

    /// In words, to somebody who need not have an account here.
    pub(crate) fn outside(status: StatusCode, title: impl Into<String>, way_on: impl Into<String>) -> Self {
        Self::Outside { status, title: title.into(), way_on: way_on.into() }
    }

    /// The same in the frame of this person.
    pub(crate) fn seen_by(self, seen_by: &Person) -> Self {
        match self {
            Self::Outside { status, title, way_on } => Self::told(seen_by, status, title, way_on),
            Self::Told { status, title, way_on, way, person: None } => {
                Self::Told { status, title, way_on, way, person: Some(Box::new(seen_by.clone())) }
            }
            other => other,
        }
    }

    /// A problem of the API, told to a person.
    pub(crate) fn from_problem(person: &Person, problem: &Problem) -> Self {
        let title = match problem.status() {
            StatusCode::NOT_FOUND => return Self::not_found(person),
            StatusCode::SERVICE_UNAVAILABLE => "Not at the moment",
            _ => "That did not work",
        };
        Self::told(person, problem.status(), title, problem.detail())
    }

    /// Status, title and way on.
    pub(crate) fn words(&self) -> (StatusCode, String, String) {
        let say = |status, title: &str, way_on: &str| (status, title.to_owned(), way_on.to_owned());
        match self {
            Self::SignedOut { .. } => say(
                StatusCode::UNAUTHORIZED,
                "You are signed out",
                "Sign in again and go on from the page where you were; what you had typed was not sent.",
            ),
            Self::Forbidden { needs, .. } => (
                StatusCode::FORBIDDEN,
                "You may look, but not do this".to_owned(),
                format!(
                    "It takes the role {}. An owner or admin of your organisation can give it to you, under Settings, Team.",
                    needs.as_str()
                ),
            ),
            Self::NotFound { .. } => say(
                StatusCode::NOT_FOUND,
                "There is nothing here",
                "It may have been removed, or the address is cut off at its end.",
            ),
            Self::Forged => say(
                StatusCode::FORBIDDEN,
                "This form is out of date",
                "You signed in or out since it was opened, or it came from another site, or your browser keeps no cookies. \
                 Go back, load the page again, and send it from there. Nothing was changed.",
            ),
            Self::Garbled => say(
                StatusCode::BAD_REQUEST,
                "The form did not arrive as it was sent",
                "Go back, load the page again, and send it once more. Nothing was changed.",
            ),
            Self::TooLong => say(
                StatusCode::PAYLOAD_TOO_LARGE,
                "That is too long",
                "Go back, shorten what you entered, and send it again. Nothing was changed.",
            ),
            Self::Told { status, title, way_on, .. } | Self::Outside { status, title, way_on } => {
                (*status, title.clone(), way_on.clone())
            }
        }
    }

    /// Who, for the frame.
    pub(crate) fn person(&self) -> Option<&Person> {
        match self {
            Self::Forbidden { person, .. } | Self::NotFound { person } | Self::Told { person, .. } => person.as_deref(),
            Self::SignedOut { .. } | Self::Forged | Self::Garbled | Self::TooLong | Self::Outside { .. } => None,
        }
    }
}

impl From<StoreError> for Trouble {
    fn from(cause: StoreError) -> Self {
        error!(error = format!("{:#}", anyhow::Error::new(cause)), "the database is in trouble");
        Self::Told {
            status: StatusCode::SERVICE_UNAVAILABLE,
            title: "Not at the moment".to_owned(),
            way_on: "Something on our side does not answer. Try again in a minute; nothing was changed.".to_owned(),
            way: None,
            person: None,
        }
    }
}

/// What a page shows of it.
#[derive(Serialize)]
pub(crate) struct TroublePage {
    pub(crate) title: String,
    pub(crate) way_on: String,
    pub(crate) sign_in: Option<String>,
    pub(crate) way: Option<Way>,
    /// Whether signing in could help.
    pub(crate) account: bool,
    pub(crate) request: String,
}

impl IntoResponse for Trouble {
    fn into_response(self) -> Response {
        if let Self::SignedOut { back, posted: false } = &self {
            return Redirect::to(&sign_in_address(back)).into_response();
        }
        let (status, title, _) = self.words();
        if status.is_server_error() {
            warn!(http.status = status.as_u16(), "a page could not be shown: {title}");
        }
        // The layer around the pages makes the page of it.
        let mut response = status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Where to sign in, and back.
pub(crate) fn sign_in_address(back: &str) -> String {
    if back == "/" {
        return "/sign-in".to_owned();
    }
    let query = url::form_urlencoded::Serializer::new(String::new()).append_pair("next", back).finish();
    format!("/sign-in?{query}")
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use holdfast_store::{BrowserSession, User};

    use super::*;

    #[test]
    fn the_way_on_is_kept_for_whoever_sees_it() {
        let user = User {
            id: "usr_1".to_owned(),
            org: "org_1".into(),
            org_name: "Acme".to_owned(),
            email: "ada@acme.test".to_owned(),
            name: None,
            role: Role::Member,
            operator: false,
            password_hash: None,
            created_at: DateTime::UNIX_EPOCH,
            second_factor: false,
            second_factor_required: false,
        };
        let session = BrowserSession {
            id: "ses_1".to_owned(),
            user: user.id.clone(),
            also: Vec::new(),
            by_provider: false,
            browser: None,
            created_at: DateTime::UNIX_EPOCH,
            seen_at: DateTime::UNIX_EPOCH,
            expires_at: DateTime::UNIX_EPOCH,
        };
        let person = Person { user, session, vouched: false, csrf: String::new(), demo: None };
        let (status, words) = (StatusCode::CONFLICT, String::new);
        let nobodys = Trouble::Told { status, title: words(), way_on: words(), way: None, person: None };

        let seen = nobodys.leading_to("Back", "/agents").seen_by(&person);

        assert_eq!(seen.person().map(|person| person.user.id.as_str()), Some("usr_1"));
        assert_eq!(seen.way().map(|way| way.href.as_str()), Some("/agents"));
    }
}
