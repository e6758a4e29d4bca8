//! What happened, in plain words, and what to do about it: one place for pages and mails.

use holdfast_core::{
    Health, Role,
    agent::{RunState, Status},
    credential::{Reason, Trouble},
    error::ErrorKind,
    job,
};
use holdfast_store::MailStage;

/// What is said of something that went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    /// What happened, and what usually causes it: whole sentences.
    pub(crate) what: String,
    /// The next step: whole sentences.
    pub(crate) todo: String,
}

/// A mark's colour. Never alone: a word stands beside it.
pub(crate) type Tone = &'static str;
/// It works.
pub(crate) const GOOD: Tone = "good";
/// Somebody has to do something.
pub(crate) const BAD: Tone = "bad";
/// Trouble that mends itself, or is somebody else's.
pub(crate) const WARN: Tone = "warn";
/// Nothing to see.
pub(crate) const IDLE: Tone = "idle";

/// Why a connector needs Reconnect.
pub(crate) fn failure(reason: Option<Reason>, provider: &str) -> Said {
    let what = reason
        .map_or_else(|| format!("{provider} does not accept the access any more."), |reason| reason.sentence(provider));
    let todo = match reason {
        Some(Reason::ResponseLost) => {
            "Reconnect it once. Nothing is wrong with the account; the access only has to be given again."
        }
        Some(Reason::AccessRefused) => {
            "Reconnect it, as a user who is active there. The account has to be the same; the person need not be."
        }
        Some(Reason::Uninstalled) => {
            "Reconnect it to put the app back. If it was taken off on purpose, disconnect it instead."
        }
        Some(Reason::NotRefreshable) => "Reconnect it: an access that is given now can be renewed by itself.",
        Some(Reason::RefreshRefused) | None => {
            "Reconnect it with an admin or agent of the same account. If the access was taken away on purpose, \
             disconnect it instead."
        }
    };
    Said { what, todo: todo.to_owned() }
}

/// Why a connector is marked as degraded.
pub(crate) fn degraded(class: Trouble, provider: &str) -> Said {
    let (what, todo) = match class {
        Trouble::Busy => (
            format!("{provider} asked us to slow down."),
            "You need do nothing: Holdfast waits as long as it was told, and goes on by itself.",
        ),
        Trouble::Transient => (
            format!("{provider} cannot be reached, or does not answer as it should."),
            "You need do nothing: Holdfast keeps trying, and goes on by itself.",
        ),
        Trouble::Ambiguous => (
            format!("{provider} does not answer as it should."),
            "You need do nothing: Holdfast keeps trying, and asks you to reconnect only if the token that it has is refused.",
        ),
        Trouble::AppBroken => (
            format!("{provider} refuses the OAuth app of this installation, not your account."),
            "Whoever runs this installation has to correct the app's client id or secret. Nobody has to reconnect.",
        ),
        Trouble::Held => (
            format!("{provider} refuses many connections at the same time, this one too."),
            "You need do nothing yet: that is most likely an incident there. Holdfast stops nothing, tries again every few \
             minutes, and asks you to reconnect only if it stays refused.",
        ),
        Trouble::Ours => (
            "Something of Holdfast's own is in trouble: its database, or the key to what is stored.".to_owned(),
            "Whoever runs this installation has to look. Nobody has to reconnect.",
        ),
    };
    Said { what, todo: todo.to_owned() }
}

/// What else there is to know of it.
pub(crate) fn degraded_more(class: Trouble) -> Option<&'static str> {
    (class == Trouble::Ambiguous).then_some(
        "A refresh was not answered, or with a fault of its own, so nobody can know yet whether a new token was issued. \
         Tokens are handed out as long as they live; the timeline has each try.",
    )
}

/// The same where the app is the org's own: its people can mend that.
pub(crate) fn own_app_broken(provider: &str) -> Said {
    Said {
        what: format!(
            "{provider} refuses your organisation's own OAuth app that this was connected with, or that app was taken out."
        ),
        todo:
            "An owner or admin enters it right again under Settings, Your OAuth apps, and nobody has to reconnect; or \
               reconnects this, with the app that is set up now."
                .to_owned(),
    }
}

/// An access that ends and that nothing renews; `renewed`: its tokens are, until then.
pub(crate) fn ending(provider: &str, renewed: bool) -> Said {
    Said {
        what: if renewed {
            format!("{provider} lets this access last for a fixed time only: then it ends for good.")
        } else {
            format!("{provider} gave nothing to renew this access with: it ends for good.")
        },
        todo: "Reconnect it before then, without a break.".to_owned(),
    }
}

/// Health as a badge: colour and word.
pub(crate) fn health(health: Health, degraded: bool) -> (Tone, &'static str) {
    match health {
        Health::Connected if degraded => (WARN, "Degraded"),
        Health::Connected => (GOOD, "Connected"),
        Health::AuthFailed => (BAD, "Needs Reconnect"),
        Health::Pending => (IDLE, "Not connected yet"),
        Health::Disconnected => (IDLE, "Disconnected"),
    }
}

/// Whether an agent works, as a badge.
pub(crate) fn agent(status: Status) -> (Tone, &'static str) {
    match status {
        Status::Active => (GOOD, "Active"),
        Status::Paused => (IDLE, "Paused"),
        Status::Deactivated => (BAD, "Stopped"),
    }
}

/// How an agent's run stands, as a badge.
pub(crate) fn run(state: RunState) -> (Tone, &'static str) {
    match state {
        RunState::Queued => (IDLE, "Waiting"),
        RunState::Running => (IDLE, "Running"),
        RunState::Succeeded => (GOOD, "Succeeded"),
        RunState::Failed => (BAD, "Failed"),
        RunState::Stopped => (WARN, "Stopped"),
    }
}

/// Where a job is, as a badge.
pub(crate) fn job(state: job::State) -> (Tone, &'static str) {
    match state {
        job::State::Ready => (IDLE, "Next in line"),
        job::State::Waiting => (IDLE, "Waiting for its time"),
        job::State::Running => (IDLE, "Running"),
        job::State::Parked => (WARN, "Waiting for reconnect"),
        job::State::Done => (GOOD, "Done"),
        job::State::Dead => (BAD, "Dead"),
        job::State::Discarded => (IDLE, "Discarded"),
    }
}

/// Where a mail is.
pub(crate) fn mail(stage: MailStage) -> (Tone, &'static str) {
    match stage {
        MailStage::Queued | MailStage::Sending => (IDLE, "mail on its way"),
        MailStage::Posted => (IDLE, "on its way"),
        MailStage::Held => (IDLE, "kept for when they want to hear of it"),
        MailStage::Waiting => (WARN, "put off by the mail server"),
        MailStage::Sent => (GOOD, "told"),
        MailStage::Refused => (BAD, "mail refused"),
        MailStage::GivenUp => (BAD, "mail given up"),
        MailStage::Dropped => (IDLE, "not told any more"),
        MailStage::Unsent => (WARN, "not told: no mail server is set up"),
        MailStage::Nobody => (BAD, "there was nobody to tell"),
    }
}

/// The stable word of an error's kind.
pub(crate) fn kind(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::AuthFailed => "auth_failed",
        ErrorKind::Forbidden => "forbidden",
        ErrorKind::NotFound => "not_found",
        ErrorKind::Conflict => "conflict",
        ErrorKind::Invalid => "invalid",
        ErrorKind::Busy => "busy",
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::Unreadable => "unreadable",
    }
}

/// What to do after a test that failed with an error of this kind, in the word of [`kind`].
pub(crate) fn after_test(kind: &str, failed: bool) -> &'static str {
    match kind {
        "auth_failed" if failed => "Reconnect it.",
        "auth_failed" => "Test again in a minute. If it stays so, reconnect it.",
        "forbidden" => "An admin of the account has to give that user the right, or reconnect it as another user.",
        "busy" => "Nothing to do: wait a minute, then test again. Nobody has to reconnect.",
        "unavailable" => "Nothing to do: Holdfast keeps trying. Test again in a few minutes; nobody has to reconnect.",
        _ => "This is not yours to mend: show the request to whoever runs this installation.",
    }
}

/// A line of the timeline: colour, and what happened. Kinds that are not known here are told by their own words.
pub(crate) fn line(kind: &str, outcome: Option<&str>, provider: &str) -> (Tone, String) {
    let say = |tone, text: &str| (tone, text.to_owned());
    match (kind, outcome) {
        ("exchange", None) => say(IDLE, "A refresh is under way"),
        ("exchange", Some(outcome)) => exchange(outcome, provider),
        ("test", Some("passed")) => say(GOOD, "Test passed"),
        ("test", _) => say(BAD, "Test failed"),
        ("health", Some("auth_failed")) => say(BAD, "Stopped working: needs Reconnect"),
        ("health", Some("connected")) => say(GOOD, "Works again"),
        ("health", Some("disconnected")) => say(IDLE, "Taken off"),
        ("connected", _) => say(GOOD, "Connected"),
        ("reconnected", _) => say(GOOD, "Reconnected"),
        ("disconnected", Some("revoked")) => (IDLE, format!("Disconnected; the access was given back to {provider}")),
        ("disconnected", _) => say(IDLE, "Disconnected"),
        ("consent", _) => say(WARN, "A connect was not finished"),
        ("renamed", _) => say(IDLE, "Renamed"),
        ("account", _) => say(IDLE, "Account changed"),
        ("alias", _) => say(IDLE, "An import gave it its alias"),
        ("webhook", Some("made")) => say(IDLE, "The webhook's address was made"),
        ("webhook", Some("secret_changed")) => say(IDLE, "The webhook has another secret"),
        ("webhook", Some("enabled")) => say(GOOD, "The webhook takes deliveries again"),
        ("webhook", Some("receive_on")) => say(IDLE, "Events are to be received"),
        ("webhook", Some("receive_off")) => say(IDLE, "Events are not to be received any more"),
        ("webhook", Some("subscribed")) => (GOOD, format!("{provider} sends its events here")),
        ("webhook", Some("subscribed_again")) => {
            (WARN, format!("The webhook was gone at {provider}, and was made again"))
        }
        ("webhook", Some("switched_on_again")) => {
            (WARN, format!("The webhook was switched off at {provider}, and was switched on again"))
        }
        ("webhook", Some("address_set_right")) => {
            (WARN, format!("The webhook at {provider} had another address, and was set right"))
        }
        ("webhook", Some("settings_set_right")) => (IDLE, format!("The webhook at {provider} was set right")),
        ("webhook", Some("unsubscribed" | "withdrawn")) => (IDLE, format!("The webhook at {provider} was taken away")),
        ("webhook", Some("not_withdrawn")) => (WARN, format!("The webhook at {provider} could not be taken away")),
        ("webhook", Some("not_allowed")) => (BAD, format!("{provider} does not allow the webhook")),
        ("webhook", Some("out_of_reach")) => (WARN, format!("The webhook at {provider} could not be looked at")),
        ("webhook", Some("first_delivery")) => say(GOOD, "The first event arrived"),
        ("webhook", Some("not_removed")) => {
            (IDLE, format!("{provider} said that the app was taken off, and still takes the access"))
        }
        ("webhook", Some("history_lost")) => (WARN, format!("{provider} does not remember so far back")),
        ("webhook", Some("gone")) => (BAD, format!("The webhook stopped: {provider} is told that it is gone")),
        ("expiring", _) => say(WARN, "Ends soon: reconnect it before"),
        (other, outcome) => {
            let words = other.replace(['_', '.'], " ");
            let words = capitalised(&words);
            let outcome = outcome.map(|outcome| format!(": {}", outcome.replace('_', " "))).unwrap_or_default();
            (IDLE, format!("{words}{outcome}"))
        }
    }
}

fn exchange(outcome: &str, provider: &str) -> (Tone, String) {
    match outcome {
        "rotated" => (GOOD, "Token renewed".to_owned()),
        "rejected" => (BAD, format!("{provider} refused the refresh token")),
        "app_broken" => (WARN, format!("{provider} refused the OAuth app")),
        "busy" => (WARN, format!("{provider} asked us to wait")),
        "transient" => (WARN, format!("{provider} could not be reached")),
        "ambiguous" => (WARN, format!("{provider} gave no answer that can be used")),
        "superseded" => (IDLE, "A newer token was there already".to_owned()),
        "discarded" => (IDLE, "Disconnected meanwhile; the new token was given back".to_owned()),
        "not_sent" => (IDLE, "Not sent: somebody else was faster".to_owned()),
        "owner_lost" => (WARN, "The process that was at it ended; an answer may be lost".to_owned()),
        _ => (BAD, "Something went wrong on our side".to_owned()),
    }
}

/// Why an exchange was made, after "Token renewed".
pub(crate) fn trigger(word: &str) -> &str {
    match word {
        "caller" => "somebody needed a token",
        "rejected" => "an API had rejected the token",
        "schedule" => "ahead of its expiry",
        "test" => "for a test",
        "grant" => "with a new consent",
        other => other,
    }
}

/// With a capital letter.
pub(crate) fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// With a capital letter, and a full stop unless it has a mark of its own at the end.
pub(crate) fn sentence(text: &str) -> String {
    let text = capitalised(text);
    if text.ends_with(['.', '!', '?']) || text.is_empty() { text } else { format!("{text}.") }
}

/// A role's name.
pub(crate) fn role(role: Role) -> &'static str {
    match role {
        Role::Owner => "Owner",
        Role::Admin => "Admin",
        Role::Member => "Member",
        Role::Viewer => "Viewer",
    }
}

/// The same with its article.
pub(crate) fn a_role(role: Role) -> &'static str {
    match role {
        Role::Owner => "an owner",
        Role::Admin => "an admin",
        Role::Member => "a member",
        Role::Viewer => "a viewer",
    }
}

/// What a role may do.
pub(crate) fn role_means(role: Role) -> &'static str {
    match role {
        Role::Owner => "everything, and decides who is an owner",
        Role::Admin => "connectors, agents, API keys and the team; hears of failures",
        Role::Member => "daily work, such as testing a connector and running an agent",
        Role::Viewer => "looks at everything, changes nothing",
    }
}

/// The same as a sentence to whoever gets it.
pub(crate) fn role_may(role: Role) -> &'static str {
    match role {
        Role::Owner => "You may do everything, and you hear when a connector needs somebody.",
        Role::Admin => {
            "You see to connectors, agents, API keys and the team, and you hear when a connector needs somebody."
        }
        Role::Member => "You do the daily work, such as testing a connector and running an agent.",
        Role::Viewer => "You may look at everything, and change nothing.",
    }
}

/// Why a provider's migration asks for new grants: the operator's words, or what is true of each.
pub(crate) fn migration(provider: &str, reason: Option<&str>) -> String {
    reason.map_or_else(
        || format!("{provider} changes how access works; what was allowed before has to be allowed anew."),
        sentence,
    )
}

/// `1 connector`, `2 connectors`.
pub(crate) fn counted(count: u64, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

/// Why a delivery was turned away, and what to do about it, from the stable word.
pub(crate) struct TurnedAway {
    /// A sentence.
    pub(crate) what: &'static str,
    /// Another one.
    pub(crate) todo: &'static str,
}

pub(crate) fn turned_away(reason: &str) -> TurnedAway {
    let (what, todo) = match reason {
        "no_signature" => (
            "They carry no proof of who sent them.",
            "Look at the provider whether it sends the secret or signs, as the steps on the connector's page say.",
        ),
        "stale" => (
            "They were signed too long ago, or by a clock that is ahead.",
            "Check this machine's clock; if it is right, the provider repeats old deliveries, and new ones come through.",
        ),
        "wrong_signature" => (
            "Their signature is wrong: most likely the provider has another secret than we have.",
            "Bring the provider's secret here, or copy ours to it once more.",
        ),
        "wrong_sender" => (
            "They are signed for another receiver, or in the name of another sender.",
            "Compare audience and service account of the push subscription with the connector's page.",
        ),
        "parked_too_long" => ("The connector has waited for a reconnect for too long.", "Reconnect it."),
        "parked_too_much" => ("Too much waits for the connector to be reconnected.", "Reconnect it."),
        "disconnected" => {
            ("The connector was disconnected.", "Connect it again, or take the webhook out at the provider.")
        }
        _ => ("They were turned away.", "The connector's page says more."),
    };
    TurnedAway { what, todo }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// EM-06
    #[test]
    fn each_reason_says_what_happened_and_what_to_do() {
        let reasons = [
            Reason::RefreshRefused,
            Reason::ResponseLost,
            Reason::AccessRefused,
            Reason::NotRefreshable,
            Reason::Uninstalled,
        ]
        .map(Some);
        let said: Vec<_> = reasons.into_iter().chain([None]).map(|reason| failure(reason, "Zendesk")).collect();
        for (number, one) in said.iter().enumerate() {
            assert!(one.what.contains("Zendesk") && one.what.ends_with('.'), "{one:?}");
            assert!(one.todo.contains("Reconnect it") && one.todo.ends_with('.'), "{one:?}");
            assert!(said[..number].iter().all(|other| other.what != one.what), "{one:?}");
        }
        for class in
            [Trouble::Busy, Trouble::Transient, Trouble::Ambiguous, Trouble::AppBroken, Trouble::Held, Trouble::Ours]
        {
            let one = degraded(class, "Zendesk");
            assert!(one.what.ends_with('.') && one.todo.ends_with('.'), "{one:?}");
            assert!(!one.todo.contains("Reconnect it"), "nobody has to: {one:?}");
        }
    }

    /// HL-08
    #[test]
    fn each_kind_of_a_failed_test_has_its_next_step() {
        let steps: Vec<_> = [ErrorKind::AuthFailed, ErrorKind::Forbidden, ErrorKind::Busy, ErrorKind::Unavailable]
            .into_iter()
            .map(|error| after_test(kind(error), true))
            .collect();
        for (number, step) in steps.iter().enumerate() {
            assert!(!steps[..number].contains(step), "{step}");
        }
        assert_ne!(after_test("auth_failed", true), after_test("auth_failed", false));
    }

    #[test]
    fn a_line_of_a_kind_that_is_not_known_is_told_by_its_own_words() {
        assert_eq!(line("agent_stopped", Some("by_connector"), "Zendesk").1, "Agent stopped: by connector");
        assert_eq!(line("", None, "Zendesk").1, "");
        assert_eq!(line("exchange", Some("rotated"), "Zendesk"), (GOOD, "Token renewed".to_owned()));
    }
}
