//! What goes into the mails about accounts.

use serde::Serialize;

use super::Frame;

/// Somebody is asked to join an org.
#[derive(Clone, Debug, Serialize)]
pub(in crate::mail) struct Invitation {
    #[serde(flatten)]
    pub(in crate::mail) frame: Frame,
    /// Who asks.
    pub(in crate::mail) by: String,
    pub(in crate::mail) to: String,
    /// "an admin", and what that is, as a sentence.
    pub(in crate::mail) as_role: &'static str,
    pub(in crate::mail) may: &'static str,
    /// The last day.
    pub(in crate::mail) until: String,
}

/// Somebody has said that a password is forgotten.
#[derive(Clone, Debug, Serialize)]
pub(in crate::mail) struct PasswordReset {
    #[serde(flatten)]
    pub(in crate::mail) frame: Frame,
    pub(in crate::mail) address: String,
    pub(in crate::mail) until: String,
    /// Where it is set, where there are several.
    pub(in crate::mail) orgs: Vec<String>,
}

/// A password was changed.
#[derive(Clone, Debug, Serialize)]
pub(in crate::mail) struct PasswordChanged {
    #[serde(flatten)]
    pub(in crate::mail) frame: Frame,
    pub(in crate::mail) address: String,
    pub(in crate::mail) at: String,
    /// How, as a sentence.
    pub(in crate::mail) how: &'static str,
}

/// A browser that was not seen before.
#[derive(Clone, Debug, Serialize)]
pub(in crate::mail) struct NewSignIn {
    #[serde(flatten)]
    pub(in crate::mail) frame: Frame,
    pub(in crate::mail) address: String,
    pub(in crate::mail) at: String,
    pub(in crate::mail) browser: String,
    /// Where it is, as far as that is known.
    pub(in crate::mail) from: Option<String>,
}

/// Something was done with somebody's second factor.
#[derive(Clone, Debug, Serialize)]
pub(in crate::mail) struct SecondFactor {
    #[serde(flatten)]
    pub(in crate::mail) frame: Frame,
    pub(in crate::mail) address: String,
    pub(in crate::mail) at: String,
    /// What happened, in a few words, then as a sentence; then what to do.
    pub(in crate::mail) title: &'static str,
    pub(in crate::mail) what: String,
    pub(in crate::mail) advice: &'static str,
}

/// An API key was made.
#[derive(Clone, Debug, Serialize)]
pub(in crate::mail) struct KeyMade {
    #[serde(flatten)]
    pub(in crate::mail) frame: Frame,
    pub(in crate::mail) name: String,
    pub(in crate::mail) by: String,
    pub(in crate::mail) at: String,
    /// What it may do, in words.
    pub(in crate::mail) may: Vec<&'static str>,
}

#[cfg(test)]
pub(super) mod samples {
    use super::*;
    use crate::mail::templates::tests::frame;

    const AT: &str = "29 November 2026, 10:05 UTC";

    pub(in crate::mail) fn invitation() -> Invitation {
        Invitation {
            frame: frame("invited", Some(("https://hub.example/invitation/abc", "Accept the invitation"))),
            by: "Ada <Admin>".to_owned(),
            to: "Acme & Sons".to_owned(),
            as_role: "a member",
            may: "You do the daily work, such as testing a connector and running an agent.",
            until: "6 December 2026, 10:05 UTC".to_owned(),
        }
    }

    pub(in crate::mail) fn password_reset() -> PasswordReset {
        PasswordReset {
            frame: frame("an operator", Some(("https://hub.example/reset/abc", "Set a new password"))),
            address: "ada@acme.example".to_owned(),
            until: AT.to_owned(),
            orgs: vec!["Acme & Sons".to_owned(), "Globex".to_owned()],
        }
    }

    pub(in crate::mail) fn password_changed() -> PasswordChanged {
        PasswordChanged {
            frame: frame("an operator", Some(("https://hub.example/forgotten", "It was not me"))),
            address: "ada@acme.example".to_owned(),
            at: AT.to_owned(),
            how: "It was set by a link that was mailed to you.",
        }
    }

    pub(in crate::mail) fn new_sign_in() -> NewSignIn {
        NewSignIn {
            frame: frame("an operator", Some(("https://hub.example/settings/account", "See where you are signed in"))),
            address: "ada@acme.example".to_owned(),
            at: AT.to_owned(),
            browser: "Firefox on Linux".to_owned(),
            from: Some("203.0.113.7".to_owned()),
        }
    }

    pub(in crate::mail) fn second_factor() -> SecondFactor {
        SecondFactor {
            frame: frame("an operator", Some(("https://hub.example/forgotten", "It was not me"))),
            address: "ada@acme.example".to_owned(),
            at: AT.to_owned(),
            title: "Two-factor sign-in was turned off",
            what: "From now on your password alone signs you in.".to_owned(),
            advice: "If it was you, there is nothing to do. If not, set a new password at once.",
        }
    }

    pub(in crate::mail) fn key_made() -> KeyMade {
        KeyMade {
            frame: frame("an admin", Some(("https://hub.example/settings/keys", "See the keys"))),
            name: "Ticket <assistant>".to_owned(),
            by: "Ada Admin".to_owned(),
            at: AT.to_owned(),
            may: vec!["Read access tokens of connectors", "Run tools, such as reading and answering tickets"],
        }
    }
}
