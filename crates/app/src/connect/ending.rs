//! How a consent ended, as it is kept and told. The same ending is told in other words to somebody with a link than to
//! somebody who is signed in, since their ways on differ.

use holdfast_core::{
    Provider,
    exchange::{Outcome, Refusal},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::warn;

use crate::words::{capitalised, sentence};

/// How a consent ended, and with whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ended {
    /// The provider's name.
    pub(crate) provider: String,
    /// How.
    #[serde(flatten)]
    pub(crate) ending: Ending,
}

/// How a consent ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ended", rename_all = "snake_case")]
pub(crate) enum Ending {
    /// The grant is stored.
    Connected {
        account: String,
        who: Option<String>,
        /// It was connected before.
        #[serde(default)]
        again: bool,
        /// What the person left out, in words, with the tools that will not work.
        #[serde(default)]
        lacks: Vec<String>,
    },
    /// The grant of a consent that was started later was stored before.
    Overtaken,
    /// The person said no.
    Denied,
    /// The provider could not ask.
    ProviderTrouble,
    /// The provider does not accept what the app asks for.
    AppNotSetUp,
    /// An error that no standard knows.
    UnknownError,
    /// Neither a code nor an error.
    NothingReceived,
    /// There is no OAuth app.
    NoApp,
    /// The org's own OAuth app that was asked for is there no more.
    AppReplaced,
    /// What was kept of its start cannot be read.
    StartLost,
    /// The code is used up or too old.
    NotAccepted,
    /// The provider refuses the app.
    AppRefused { code: Option<String> },
    /// No answer, or none that can be read.
    NoAnswer,
    /// The grant has nothing to be renewed with, and should have.
    NotLasting,
    /// The access works, and is good for nothing.
    NotLetIn { why: String },
    /// Nobody said whose account it is: why, where the provider's answer told.
    NoIdentity {
        #[serde(default)]
        why: Option<String>,
    },
    /// Another account than the connector's.
    OtherAccount { expected: String, got: String, got_id: String },
    /// Not all was granted.
    MissingScopes { scopes: Vec<String> },
    /// The org has the account on another connector.
    Taken { account: String, connector: Option<String> },
    /// The connector was removed meanwhile.
    Removed,
    /// There is no adapter for it, or no account to ask.
    CannotAsk,
    /// Nothing proves that the provider sent the browser back.
    NotProven,
    /// Another connector has the one access that the provider gives an app to the account: this one, where it is of the
    /// same organisation.
    Held { account: String, connector: Option<String>, name: Option<String> },
    /// Another consent is at what this one would end, or the other way round.
    UnderWay,
    /// Something of ours does not answer.
    NotNow,
}

/// Who is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Somebody with a link.
    ByLink,
    /// Somebody with the buttons at hand: signed in, or with the link of a mail.
    Here,
}

impl Ended {
    /// As it is kept.
    pub(crate) fn keep(&self) -> Value {
        serde_json::to_value(self).expect("an ending is plain data")
    }

    /// As it was kept.
    pub(crate) fn read(kept: &Value) -> Option<Self> {
        serde_json::from_value(kept.clone()).ok()
    }

    /// Whether the connector is connected now.
    pub(crate) fn ok(&self) -> bool {
        matches!(self.ending, Ending::Connected { .. } | Ending::Overtaken)
    }

    /// Title, and what it means with the way on.
    pub(crate) fn words(&self, told: Told) -> (String, String) {
        let name = &self.provider;
        let again = match told {
            Told::ByLink => "Start again from your link",
            Told::Here => "Try again",
        };
        let open = match told {
            Told::ByLink => "open the link again",
            Told::Here => "try again",
        };
        let operator = "Whoever runs this installation has to look at it";
        match &self.ending {
            Ending::Connected { account, who, again: before, lacks } => {
                let who = who.as_deref().map(|who| format!(" as {who}")).unwrap_or_default();
                let close = match told {
                    Told::ByLink => " You can close this page;",
                    Told::Here => "",
                };
                let now =
                    if *before { "everything that uses it goes on by itself" } else { "it can be used from now on" };
                let lacks = partly(lacks).map(|lacks| format!(" {lacks}")).unwrap_or_default();
                let text = format!("{account} is connected{who}.{close} {now}.{lacks}");
                ("Connected".to_owned(), if close.is_empty() { sentences(&text) } else { text })
            }
            Ending::Overtaken => (
                "Connected".to_owned(),
                "It was reconnected from another window that was started after this one. Nothing is left to do."
                    .to_owned(),
            ),
            Ending::Denied => (
                "Access was not allowed".to_owned(),
                format!(
                    "{name} says that the request was declined. {} when you want to allow it. Nothing was changed.",
                    capitalised(open)
                ),
            ),
            Ending::ProviderTrouble => (
                format!("{name} has a problem"),
                "It could not ask you for consent. Try again in a few minutes; nothing was changed.".to_owned(),
            ),
            Ending::AppNotSetUp => (
                "The OAuth app is not set up right".to_owned(),
                format!("{name} does not accept what this app asks for. {operator}; nothing was changed."),
            ),
            Ending::UnknownError => {
                (format!("{name} sent an error"), format!("It is none that we know. {again}; nothing was changed."))
            }
            Ending::NothingReceived => (
                "Nothing was received".to_owned(),
                format!("{name} sent you back with neither a code nor an error. {again}; nothing was changed."),
            ),
            Ending::NoApp => (
                "There is no OAuth app".to_owned(),
                "Whoever runs this installation, or an owner or admin of your organisation, has to set one up first. Nothing was \
                 changed."
                    .to_owned(),
            ),
            Ending::AppReplaced => (
                "The OAuth app was replaced meanwhile".to_owned(),
                format!(
                    "Your organisation's own OAuth app was taken out or given another client id while you were at {name}. \
                     {again}, with the one that is set up now; nothing was changed."
                ),
            ),
            Ending::StartLost => (
                "This consent cannot be finished".to_owned(),
                format!("What was kept of its start cannot be read. {again}."),
            ),
            Ending::NotAccepted => (
                format!("{name} did not accept the consent"),
                format!("It is used up or too old. {again}; nothing was changed."),
            ),
            Ending::AppRefused { code } => (
                "The OAuth app is refused".to_owned(),
                format!(
                    "{name} refuses the app or what it asks for ({}). Whoever set it up has to correct it; \
                     then {open}. Nothing was changed.",
                    code.as_deref().unwrap_or("without an error code")
                ),
            ),
            Ending::NoAnswer => (
                format!("{name} did not answer as it should"),
                format!("{again} in a few minutes; nothing was changed."),
            ),
            Ending::NotLasting => (
                format!("{name} gave no lasting access"),
                format!(
                    "It sent nothing to renew the access with, so that it would end within the hour. Remove the app in \
                     your account at {name}, then {open}. Nothing was changed."
                ),
            ),
            Ending::NotLetIn { why } => {
                (format!("{name} did not let us in"), format!("{} Nothing was changed.", sentence(why)))
            }
            Ending::NoIdentity { why } => (
                format!("{name} did not say whose account this is"),
                match why {
                    Some(why) => format!(
                        "{} {again} once that is put right, or in a few minutes if it may pass by itself. Nothing was \
                         changed.",
                        sentence(why)
                    ),
                    None => format!("{again} in a few minutes; nothing was changed."),
                },
            ),
            Ending::OtherAccount { expected, got, .. } => (
                "That was another account".to_owned(),
                format!(
                    "This connector belongs to {expected}, and you signed in to {got}. Sign in to the right one, or \
                     connect the other one as a new connector. Nothing was changed."
                ),
            ),
            Ending::MissingScopes { scopes } => (
                "A permission is missing".to_owned(),
                format!("{name} did not grant: {}. {} and allow all of it.", scopes.join("; "), capitalised(open)),
            ),
            Ending::Taken { account, .. } => (
                format!("{account} is connected already"),
                match told {
                    Told::ByLink => {
                        "This organisation has it on another connector. Ask whoever sent you the link for one that \
                         reconnects that one. Nothing was changed."
                    }
                    Told::Here => {
                        "Your organisation has it on another connector; reconnect that one if it needs it. Nothing was \
                         changed."
                    }
                }
                .to_owned(),
            ),
            Ending::Removed => (
                "This connector was removed".to_owned(),
                "There is nothing to connect any more. The access was given back.".to_owned(),
            ),
            Ending::CannotAsk => (
                format!("{name} cannot be connected"),
                "This installation has no adapter for it, or the account is missing. Ask whoever runs it.".to_owned(),
            ),
            Ending::NotProven => (
                format!("That did not come from {name}"),
                format!(
                    "The way back was not signed as {name} signs it, so nothing was accepted. {again}. If this stays so, \
                     the client secret of the OAuth app is wrong, and whoever runs this installation has to correct it."
                ),
            ),
            Ending::Held { account, name: held, .. } => (
                format!("{account} is connected already"),
                match held {
                    Some(held) => format!(
                        "The connector \"{held}\" has it, and {name} gives an app one access to an account: another one \
                         would end that connector's. Reconnect it if it needs it, or disconnect it first. Nothing was \
                         changed."
                    ),
                    None => format!(
                        "Another organisation on this installation has it, and {name} gives an app one access to an \
                         account: another one would end theirs. It has to be disconnected there first. Nothing was \
                         changed."
                    ),
                },
            ),
            Ending::UnderWay => (
                format!("{name} is being connected already"),
                format!(
                    "Another consent there is being worked on, and two at once would end each other's access. {again} in \
                     a minute; nothing was changed."
                ),
            ),
            Ending::NotNow => (
                "Not at the moment".to_owned(),
                format!("Something on our side does not answer. {again} in a minute; nothing was changed."),
            ),
        }
    }
}

impl Ending {
    /// The provider's own error: only `access_denied` means that the person declined (RFC 6749 section 4.1.2.1).
    pub(super) fn refused(error: Option<&str>) -> Self {
        match error {
            Some("access_denied") => Self::Denied,
            Some("server_error" | "temporarily_unavailable") => Self::ProviderTrouble,
            Some("invalid_scope" | "unauthorized_client" | "unsupported_response_type" | "invalid_request") => {
                Self::AppNotSetUp
            }
            Some(_) => Self::UnknownError,
            None => Self::NothingReceived,
        }
    }

    /// A code that brought no token.
    pub(super) fn not_exchanged(outcome: &Outcome) -> Self {
        let tell = |refusal: &Refusal| warn!(refusal = refusal.words(), "a code could not be exchanged");
        match outcome {
            Outcome::Rotated(_) => unreachable!("a success is handled before"),
            Outcome::Rejected(refusal) => {
                tell(refusal);
                Self::NotAccepted
            }
            Outcome::AppBroken(refusal) => {
                tell(refusal);
                Self::AppRefused { code: refusal.code.clone() }
            }
            Outcome::Busy(refusal) | Outcome::Transient(refusal) | Outcome::Ambiguous(refusal) => {
                tell(refusal);
                Self::NoAnswer
            }
        }
    }
}

/// What does not work, of a grant that lacks something: a sentence or two.
pub(crate) fn partly(lacks: &[String]) -> Option<String> {
    let last = "Reconnect it and allow that too, if it is wanted.";
    (!lacks.is_empty()).then(|| format!("Not allowed, so that it does not work: {}. {last}", lacks.join("; ")))
}

/// What a grant lacks of what was asked for, each with the tools that need it.
pub(crate) fn lacking(provider: &dyn Provider, granted: &[String]) -> Vec<String> {
    let about = provider.about();
    let missing = about.scopes.iter().filter(|scope| !granted.iter().any(|granted| granted == scope.name));
    let words = missing.map(|scope| {
        let needs = about.tools.iter().filter(|tool| provider.scopes_of(tool.name).contains(&scope.name));
        let tools: Vec<_> = needs.map(|tool| tool.name).collect();
        if tools.is_empty() { scope.words.to_owned() } else { format!("{} ({})", scope.words, tools.join(", ")) }
    });
    words.collect()
}

/// Each sentence begins with a capital letter.
fn sentences(text: &str) -> String {
    text.split_inclusive(". ").map(capitalised).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endings() -> Vec<Ending> {
        vec![
            Ending::Connected {
                account: "acme.zendesk.com".to_owned(),
                who: Some("Ada".to_owned()),
                again: true,
                lacks: Vec::new(),
            },
            Ending::Connected {
                account: "acme.zendesk.com".to_owned(),
                who: None,
                again: false,
                lacks: vec!["Send mail (send_mail)".to_owned()],
            },
            Ending::NotLasting,
            Ending::Overtaken,
            Ending::Denied,
            Ending::ProviderTrouble,
            Ending::AppNotSetUp,
            Ending::UnknownError,
            Ending::NothingReceived,
            Ending::NoApp,
            Ending::AppReplaced,
            Ending::StartLost,
            Ending::NotAccepted,
            Ending::AppRefused { code: Some("invalid_client".to_owned()) },
            Ending::NoAnswer,
            Ending::NotLetIn { why: "the user is a customer there".to_owned() },
            Ending::NotLetIn { why: "Freshdesk says: You are not authorized to perform this action.".to_owned() },
            Ending::NoIdentity { why: None },
            Ending::NoIdentity { why: Some("there is no Freshdesk at this address; was it closed?".to_owned()) },
            Ending::OtherAccount { expected: "acme".to_owned(), got: "globex".to_owned(), got_id: "222".to_owned() },
            Ending::MissingScopes { scopes: vec!["write".to_owned()] },
            Ending::Taken { account: "acme.zendesk.com".to_owned(), connector: None },
            Ending::Removed,
            Ending::CannotAsk,
            Ending::NotProven,
            Ending::Held { account: "acme".to_owned(), connector: None, name: Some("Shop".to_owned()) },
            Ending::Held { account: "acme".to_owned(), connector: None, name: None },
            Ending::UnderWay,
            Ending::NotNow,
        ]
    }

    /// CO-04, CO-07
    #[test]
    fn each_ending_has_its_own_words_and_only_a_denial_says_declined() {
        for told in [Told::ByLink, Told::Here] {
            let mut seen = Vec::new();
            for ending in endings() {
                let ended = Ended { provider: "Zendesk".to_owned(), ending };
                let words = ended.words(told);
                assert!(words.1.ends_with('.') && words.1.starts_with(char::is_uppercase) || ended.ok(), "{words:?}");
                assert_eq!(words.1.contains("declined"), ended.ending == Ending::Denied, "{words:?}");
                assert_eq!(words.0 == "Connected", ended.ok(), "{words:?}");
                assert!(told == Told::ByLink || !words.1.contains("link"), "{words:?}");
                let twice = [".", "!", "?"].iter().any(|mark| words.1.contains(&format!("{mark}.")));
                assert!(!twice, "one mark ends a sentence: {words:?}");
                assert!(!seen.contains(&words), "{words:?}");
                assert_eq!(Ended::read(&ended.keep()).as_ref(), Some(&ended), "it is kept as it is");
                seen.push(words);
            }
        }
    }
}
