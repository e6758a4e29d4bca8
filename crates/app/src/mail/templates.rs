//! The templates in `templates/mail`, and what goes into each. A mail is subject, text and HTML from one context; a
//! context always carries all its fields. Its texts are one line each already (`text::line`).

mod account;
mod notices;

use serde::Serialize;
use serde_json::{Value, json};
use tera::{Kwargs, State, Tera};

pub(super) use account::{Invitation, KeyMade, NewSignIn, PasswordChanged, PasswordReset, SecondFactor};
pub(super) use notices::{AddressSuppressed, ChannelStopped, Test};

use super::text::{self, Literal};
use crate::ui::view::Views;

/// `literal` in HTML and `plain` in text: for everything that others wrote.
pub(crate) fn register_filters(tera: &mut Tera) {
    tera.register_filter("literal", Literal);
    tera.register_filter("plain", |text: &str, _: Kwargs, _: &State| text::unlinked(text));
}

/// A message's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rendered {
    pub(super) subject: String,
    pub(super) text: String,
    pub(super) html: String,
    /// What they were made from.
    pub(super) context: Value,
}

/// A context with the folder of its templates.
pub(super) trait Template: Serialize {
    const NAME: &'static str;
    /// One with everything in it.
    #[cfg(test)]
    fn sample() -> Self;
}

/// Around every mail.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Frame {
    /// The public address, without a slash at its end.
    pub(super) base: String,
    /// Its host.
    pub(super) host: String,
    /// "an owner", "an admin", "an operator".
    pub(super) role: &'static str,
    /// Of which organisation; `None`: of the instance.
    pub(super) org: Option<String>,
    /// Where they choose what they are told.
    pub(super) choose: Option<String>,
    /// The one button.
    pub(super) button: Option<Button>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Button {
    pub(super) url: String,
    pub(super) label: String,
}

/// A connector that has failed.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Failed {
    pub(super) name: String,
    pub(super) provider: String,
    pub(super) account: String,
    pub(super) since: String,
    /// What happened, in a few words.
    pub(super) headline: String,
    /// The same with its usual cause, as sentences.
    pub(super) why: String,
    /// The provider's own words.
    pub(super) words: Option<String>,
    /// It is connected with a key.
    pub(super) keyed: bool,
    /// By name.
    pub(super) agents: Vec<String>,
    /// Beside those.
    pub(super) more_agents: usize,
    /// The signed link, or the page.
    pub(super) reconnect: String,
    /// What it is called: "Reconnect", or "Open".
    pub(super) verb: &'static str,
    /// What is kept for it meanwhile.
    pub(super) waits: Option<String>,
    /// That its webhook is in trouble too, and why.
    pub(super) webhook: Option<String>,
    /// The connector's page.
    pub(super) page: String,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct ConnectorNeedsYou {
    #[serde(flatten)]
    pub(super) frame: Frame,
    pub(super) c: Failed,
    /// The last day of signed links.
    pub(super) link_until: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct SeveralConnectorsNeedYou {
    #[serde(flatten)]
    pub(super) frame: Frame,
    /// The worst first.
    pub(super) connectors: Vec<Failed>,
    /// With those that are not in the list.
    pub(super) count: usize,
    pub(super) more: usize,
    /// A few of them, for a line.
    pub(super) names: String,
    /// The last day of signed links.
    pub(super) link_until: Option<String>,
}

/// Connectors that have waited for days.
#[derive(Clone, Debug, Serialize)]
pub(super) struct StillWaiting {
    #[serde(flatten)]
    pub(super) frame: Frame,
    /// What has waited for longest first.
    pub(super) connectors: Vec<Failed>,
    /// With those that are not in the list.
    pub(super) count: usize,
    pub(super) more: usize,
    pub(super) names: String,
    /// For how long the first one has.
    pub(super) waited: String,
    /// The last day of signed links.
    pub(super) link_until: Option<String>,
}

/// A connector that works again.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Recovered {
    pub(super) name: String,
    pub(super) provider: String,
    pub(super) account: String,
    pub(super) at: String,
    /// How long it did not.
    pub(super) lasted: String,
    /// By a person's consent.
    pub(super) reconnected: bool,
    /// Whose, where that is known.
    pub(super) by: Option<String>,
    pub(super) agents: Vec<String>,
    pub(super) more_agents: usize,
    /// What came meanwhile, where anything did.
    pub(super) caught_up: Option<String>,
    pub(super) page: String,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct BackAgain {
    #[serde(flatten)]
    pub(super) frame: Frame,
    pub(super) connectors: Vec<Recovered>,
    pub(super) more: usize,
    pub(super) names: String,
}

/// A connector whose access ends for good.
#[derive(Clone, Debug, Serialize)]
pub(super) struct EndingSoon {
    pub(super) name: String,
    pub(super) provider: String,
    pub(super) account: String,
    pub(super) ends: String,
    pub(super) why: String,
    /// Those that stop then, by name.
    pub(super) agents: Vec<String>,
    /// Beside those.
    pub(super) more_agents: usize,
    /// The signed link, or the page.
    pub(super) reconnect: String,
    /// What it is called: "Reconnect", or "Open".
    pub(super) verb: &'static str,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct ExpiresSoon {
    #[serde(flatten)]
    pub(super) frame: Frame,
    /// The first to end first.
    pub(super) connectors: Vec<EndingSoon>,
    /// With those that are not in the list.
    pub(super) count: usize,
    pub(super) more: usize,
    pub(super) names: String,
    /// When the first one ends: "in 7 days".
    pub(super) first: String,
    /// The last day of signed links.
    pub(super) link_until: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct AppRefused {
    #[serde(flatten)]
    pub(super) frame: Frame,
    /// Whether it is about the instance's app, and for those who can mend it.
    pub(super) operator: bool,
    /// Whether it is about the org's own, which its admins can mend.
    pub(super) own: bool,
    pub(super) provider: String,
    pub(super) provider_id: String,
    /// Whether the app stands in the configuration; else it was set on its page.
    pub(super) configured: bool,
    pub(super) since: String,
    /// How many connectors, as words.
    pub(super) waiting: String,
    /// "waits" or "wait".
    pub(super) verb: &'static str,
    pub(super) words: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct NobodyTold {
    #[serde(flatten)]
    pub(super) frame: Frame,
    pub(super) org_name: String,
    /// How many connectors, as words.
    pub(super) waiting: String,
    /// "needs" or "need".
    pub(super) verb: &'static str,
    pub(super) names: String,
    pub(super) since: String,
}

/// A connector that has to be reconnected for a provider's migration.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ToReconnect {
    pub(super) name: String,
    pub(super) account: String,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct MustReconnect {
    #[serde(flatten)]
    pub(super) frame: Frame,
    /// How many connectors, as words, and "has" or "have".
    pub(super) what: String,
    pub(super) verb: &'static str,
    pub(super) provider: String,
    /// The last day.
    pub(super) by: Option<String>,
    pub(super) reason: String,
    /// "2 of 5"; `None`: none is.
    pub(super) done: Option<String>,
    /// Whether they were told before.
    pub(super) reminder: bool,
    pub(super) connectors: Vec<ToReconnect>,
    /// Beside those.
    pub(super) more: u64,
}

/// A webhook that has stopped, or is about to.
#[derive(Clone, Debug, Serialize)]
pub(super) struct WebhookStopped {
    #[serde(flatten)]
    pub(super) frame: Frame,
    pub(super) name: String,
    pub(super) account: String,
    pub(super) provider: String,
    /// Since when it answers that it is gone; `None`: it does not yet.
    pub(super) gone: Option<String>,
    /// Since when deliveries are turned away, and how many were.
    pub(super) since: String,
    pub(super) count: String,
    /// Why the last one was.
    pub(super) reason: String,
    /// What to do about it.
    pub(super) todo: String,
    /// When the provider itself gives up, as a sentence.
    pub(super) limit: Option<String>,
}

/// An event endpoint that gets nothing any more.
#[derive(Clone, Debug, Serialize)]
pub(super) struct EndpointStopped {
    #[serde(flatten)]
    pub(super) frame: Frame,
    /// What people call it, or its host.
    pub(super) name: String,
    pub(super) url: String,
    /// Why, as a sentence.
    pub(super) reason: String,
    /// Since when it is disabled.
    pub(super) stopped: String,
    /// Since when every attempt has failed, and how many did.
    pub(super) failing: Option<String>,
    pub(super) count: String,
    /// What became of the last attempt.
    pub(super) last: Option<String>,
    /// How long events are kept.
    pub(super) kept: String,
}

/// A webhook whose provider does not send, and nothing of ours helps.
#[derive(Clone, Debug, Serialize)]
pub(super) struct WebhookNotSent {
    #[serde(flatten)]
    pub(super) frame: Frame,
    pub(super) name: String,
    pub(super) account: String,
    pub(super) provider: String,
    pub(super) since: String,
    /// Why, and what to do about it.
    pub(super) why: String,
}

/// Subject, text and HTML.
pub(super) fn render<T: Template>(views: &Views, context: &T) -> anyhow::Result<Rendered> {
    let mut context = serde_json::to_value(context)?;
    let part = |name: &str, context: &Value| views.render(&format!("mail/{}/{name}", T::NAME), context);
    let subject = text::line(&part("subject.txt", &context)?, 200);
    context["subject"] = json!(subject);
    let (text, html) = (part("body.txt", &context)?, part("body.html", &context)?);
    Ok(Rendered { subject, text: close_up(&text), html: html.trim_start().to_owned(), context })
}

/// What loops and conditions leave behind: no more than one empty line in a row, none at the ends.
fn close_up(text: &str) -> String {
    let mut closed = String::with_capacity(text.len());
    for line in text.trim().lines() {
        let line = if line == "-- " { line } else { line.trim_end() };
        if !line.is_empty() || !closed.ends_with("\n\n") {
            closed.push_str(line);
            closed.push('\n');
        }
    }
    closed
}

macro_rules! templates {
    ($($type:ident = $name:literal, $sample:expr;)*) => {
        $(impl Template for $type {
            const NAME: &'static str = $name;
            #[cfg(test)]
            fn sample() -> Self {
                $sample
            }
        })*

        /// Every template with its sample.
        #[cfg(test)]
        fn samples() -> Vec<(&'static str, Rendered)> {
            let views = Views::load().unwrap();
            vec![$(($name, render(&views, &$type::sample()).unwrap())),*]
        }
    };
}

templates! {
    ConnectorNeedsYou = "connector_needs_you", tests::connector_needs_you();
    SeveralConnectorsNeedYou = "several_connectors_need_you", tests::several_connectors_need_you();
    StillWaiting = "still_waiting", tests::still_waiting();
    BackAgain = "back_again", tests::back_again();
    ExpiresSoon = "expires_soon", tests::expires_soon();
    AppRefused = "app_refused", tests::app_refused();
    NobodyTold = "nobody_told", tests::nobody_told();
    MustReconnect = "must_reconnect", tests::must_reconnect();
    WebhookStopped = "webhook_stopped", tests::webhook_stopped();
    EndpointStopped = "endpoint_stopped", tests::endpoint_stopped();
    WebhookNotSent = "webhook_not_sent", tests::webhook_not_sent();
    Invitation = "invitation", account::samples::invitation();
    PasswordReset = "password_reset", account::samples::password_reset();
    PasswordChanged = "password_changed", account::samples::password_changed();
    NewSignIn = "new_sign_in", account::samples::new_sign_in();
    SecondFactor = "second_factor", account::samples::second_factor();
    KeyMade = "key_made", account::samples::key_made();
    AddressSuppressed = "address_suppressed", notices::samples::address_suppressed();
    ChannelStopped = "channel_stopped", notices::samples::channel_stopped();
    Test = "test", notices::samples::test();
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn frame(role: &'static str, button: Option<(&str, &str)>) -> Frame {
        Frame {
            base: "https://hub.example".to_owned(),
            host: "hub.example".to_owned(),
            role,
            org: (role != "an operator").then(|| "Acme & Sons".to_owned()),
            choose: (role != "an operator").then(|| "https://hub.example/settings/notifications".to_owned()),
            button: button.map(|(url, label)| Button { url: url.to_owned(), label: label.to_owned() }),
        }
    }

    fn failed(name: &str) -> Failed {
        Failed {
            name: name.to_owned(),
            provider: "Zendesk".to_owned(),
            account: "acme.zendesk.com".to_owned(),
            since: "29 November 2026, 10:05 UTC".to_owned(),
            headline: "Zendesk refused the access".to_owned(),
            why: "Zendesk refused the refresh token. Usually the app was removed or the user was deactivated."
                .to_owned(),
            keyed: false,
            words: Some("invalid_grant: <b>gone</b>".to_owned()),
            agents: vec!["Tagger".to_owned(), "Answerer".to_owned()],
            more_agents: 1,
            reconnect: "https://hub.example/reconnect/abc".to_owned(),
            verb: "Reconnect",
            waits: Some("3 jobs, done once it is reconnected".to_owned()),
            webhook: Some("Its events are turned away since 29 November 2026, 10:00 UTC.".to_owned()),
            page: "https://hub.example/connectors/con_1".to_owned(),
        }
    }

    pub(super) fn connector_needs_you() -> ConnectorNeedsYou {
        ConnectorNeedsYou {
            frame: frame("an admin", Some(("https://hub.example/reconnect/abc", "Reconnect Acme <support>"))),
            c: failed("Acme <support>"),
            link_until: Some("13 December 2026".to_owned()),
        }
    }

    pub(super) fn several_connectors_need_you() -> SeveralConnectorsNeedYou {
        let bare = Failed { words: None, agents: Vec::new(), more_agents: 0, ..failed("Globex") };
        SeveralConnectorsNeedYou {
            frame: frame("an owner", Some(("https://hub.example/", "See all of them"))),
            connectors: vec![failed("Acme support"), bare],
            count: 5,
            more: 3,
            names: "Acme support, Globex and 3 more".to_owned(),
            link_until: Some("13 December 2026".to_owned()),
        }
    }

    pub(super) fn still_waiting() -> StillWaiting {
        let SeveralConnectorsNeedYou { frame, connectors, count, more, names, link_until } =
            several_connectors_need_you();
        StillWaiting { frame, connectors, count, more, names, waited: "3 days".to_owned(), link_until }
    }

    pub(super) fn back_again() -> BackAgain {
        let one = Recovered {
            name: "Acme support".to_owned(),
            provider: "Zendesk".to_owned(),
            account: "acme.zendesk.com".to_owned(),
            at: "29 November 2026, 12:10 UTC".to_owned(),
            lasted: "2 hours".to_owned(),
            reconnected: true,
            by: Some("Ada Admin".to_owned()),
            agents: vec!["Tagger".to_owned()],
            more_agents: 2,
            caught_up: Some("3 events came meanwhile, and are worked off now".to_owned()),
            page: "https://hub.example/connectors/con_1".to_owned(),
        };
        let other = Recovered {
            name: "Globex".to_owned(),
            reconnected: false,
            by: None,
            agents: Vec::new(),
            more_agents: 0,
            caught_up: None,
            ..one.clone()
        };
        BackAgain {
            frame: frame("an admin", Some(("https://hub.example/", "Open Holdfast"))),
            connectors: vec![one, other],
            more: 1,
            names: "Acme support and 2 more".to_owned(),
        }
    }

    pub(super) fn expires_soon() -> ExpiresSoon {
        let one = EndingSoon {
            name: "Acme <support>".to_owned(),
            provider: "Zendesk".to_owned(),
            account: "acme.zendesk.com".to_owned(),
            ends: "6 December 2026, 10:05 UTC".to_owned(),
            why: "Zendesk lets this access last for a fixed time only: then it ends for good.".to_owned(),
            agents: vec!["Answerer".to_owned()],
            more_agents: 1,
            reconnect: "https://hub.example/reconnect/abc".to_owned(),
            verb: "Reconnect",
        };
        let other = EndingSoon { name: "Globex".to_owned(), agents: Vec::new(), more_agents: 0, ..one.clone() };
        ExpiresSoon {
            frame: frame("an owner", Some(("https://hub.example/", "See all of them"))),
            connectors: vec![one, other],
            count: 4,
            more: 2,
            names: "Acme <support>, Globex and 2 more".to_owned(),
            first: "in 7 days".to_owned(),
            link_until: Some("13 December 2026".to_owned()),
        }
    }

    pub(super) fn app_refused() -> AppRefused {
        AppRefused {
            frame: frame(
                "an operator",
                Some(("https://hub.example/settings/oauth-apps/zendesk", "Open the OAuth app")),
            ),
            operator: true,
            own: false,
            provider: "Zendesk".to_owned(),
            provider_id: "zendesk".to_owned(),
            configured: true,
            since: "29 November 2026, 10:05 UTC".to_owned(),
            waiting: "40 connectors of 8 organisations".to_owned(),
            verb: "wait",
            words: Some("invalid_client".to_owned()),
        }
    }

    pub(super) fn nobody_told() -> NobodyTold {
        NobodyTold {
            frame: frame("an operator", None),
            org_name: "Acme & Sons".to_owned(),
            waiting: "1 connector".to_owned(),
            verb: "needs",
            names: "Acme support".to_owned(),
            since: "29 November 2026, 10:05 UTC".to_owned(),
        }
    }

    pub(super) fn must_reconnect() -> MustReconnect {
        let one = |name: &str, account: &str| ToReconnect { name: name.to_owned(), account: account.to_owned() };
        MustReconnect {
            frame: frame("an admin", Some(("https://hub.example/connectors?health=must_reconnect", "Reconnect them"))),
            what: "30 connectors".to_owned(),
            verb: "have",
            provider: "Zendesk".to_owned(),
            by: Some("1 April 2027".to_owned()),
            reason: "Tokens of before stop working then.".to_owned(),
            done: Some("5 of 35".to_owned()),
            reminder: true,
            connectors: vec![one("Acme <support>", "acme.zendesk.com"), one("Globex", "globex.zendesk.com")],
            more: 28,
        }
    }

    pub(super) fn webhook_not_sent() -> WebhookNotSent {
        WebhookNotSent {
            frame: frame("an admin", Some(("https://hub.example/connectors/con_1/webhook", "Look at the webhook"))),
            name: "Acme <Support>".to_owned(),
            account: "acme.zendesk.com".to_owned(),
            provider: "Zendesk".to_owned(),
            since: "29 November 2026, 10:00 UTC".to_owned(),
            why: "The user who connected Zendesk may not do this. Zendesk lets only administrators make webhooks."
                .to_owned(),
        }
    }

    pub(super) fn webhook_stopped() -> WebhookStopped {
        WebhookStopped {
            frame: frame(
                "an admin",
                Some(("https://hub.example/connectors/con_1/webhook", "See what was turned away")),
            ),
            name: "Acme <support>".to_owned(),
            account: "acme.gorgias.com".to_owned(),
            provider: "Gorgias".to_owned(),
            gone: Some("30 November 2026, 10:05 UTC".to_owned()),
            since: "29 November 2026, 10:05 UTC".to_owned(),
            count: "500 events".to_owned(),
            reason: "The connector was disconnected.".to_owned(),
            todo: "Connect it again.".to_owned(),
            limit: Some("After 100 in a row, Gorgias switches the integration off.".to_owned()),
        }
    }

    pub(super) fn endpoint_stopped() -> EndpointStopped {
        EndpointStopped {
            frame: frame("an owner", Some(("https://hub.example/settings/event-endpoints/eep_1", "Open the endpoint"))),
            name: "Our <app>".to_owned(),
            url: "https://app.example/events?a=1&b=2".to_owned(),
            reason: "Every attempt to bring an event there has failed for 5 days.".to_owned(),
            stopped: "30 November 2026, 10:05 UTC".to_owned(),
            failing: Some("25 November 2026, 10:05 UTC".to_owned()),
            count: "31 attempts".to_owned(),
            last: Some("It answered 500: only 2xx counts as taken.".to_owned()),
            kept: "30 days".to_owned(),
        }
    }

    #[test]
    fn every_template_renders_its_sample() {
        let samples = samples();

        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../templates/mail");
        let folders = std::fs::read_dir(folder).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_dir());
        assert_eq!(folders.count(), samples.len(), "every folder has a context");
        for (name, mail) in &samples {
            assert!(!mail.subject.is_empty() && !mail.subject.contains('\n'), "{name}: {}", mail.subject);
            for part in [&mail.text, &mail.html] {
                assert!(part.len() > 200 && !part.contains("{{") && !part.contains("{%"), "{name}: {part}");
            }
            assert!(mail.text.lines().all(|line| line == "-- " || line == line.trim_end()), "{name}: {:?}", mail.text);
            assert!(!mail.text.contains("\n\n\n"), "{name}: {}", mail.text);
            assert!(mail.html.starts_with("<!doctype html>"), "{name}: {}", mail.html);
        }
    }

    /// EM-04: nothing is loaded from elsewhere, and every link leads to the public address.
    #[test]
    fn no_mail_loads_anything_or_leads_elsewhere() {
        for (name, mail) in samples() {
            for attribute in ["src=", "background=", "url(", "<img", "<script", "<link", "@import"] {
                assert!(!mail.html.contains(attribute), "{name} has {attribute}");
            }
            for link in mail.html.split("href=\"").skip(1) {
                assert!(
                    link.starts_with("https://hub.example/") || link.starts_with("https://hub.example\""),
                    "{link}"
                );
            }
            for link in mail.text.split("://").skip(1) {
                assert!(link.starts_with("hub.example"), "{name}: {link}");
            }
        }
    }

    #[test]
    fn only_what_a_person_can_mend_has_a_button_to_reconnect() {
        let button = |mail: &Rendered| mail.html.matches("class=\"button\"").count();
        let org = AppRefused {
            operator: false,
            frame: frame("an owner", Some(("https://hub.example/", "Open Holdfast"))),
            ..app_refused()
        };
        let own = AppRefused {
            operator: false,
            own: true,
            frame: frame("an owner", Some(("https://hub.example/settings/own-apps/zendesk", "Open your OAuth app"))),
            ..app_refused()
        };
        let views = Views::load().unwrap();
        let own = render(&views, &own).unwrap();
        assert!(own.subject.starts_with("Zendesk refuses your organisation's OAuth app"), "{}", own.subject);
        for part in [&own.text, &own.html] {
            assert!(part.contains("https://hub.example/settings/own-apps/zendesk"), "{part}");
            assert!(part.contains("nobody has to reconnect") && !part.contains("people who"), "{part}");
        }
        let (needs_you, org) = (render(&views, &connector_needs_you()).unwrap(), render(&views, &org).unwrap());

        assert_eq!((button(&needs_you), button(&org)), (1, 1));
        assert!(needs_you.html.contains("<bdi>Reconnect Acme &lt;support&gt;</bdi></a>"), "{}", needs_you.html);
        assert!(!org.html.contains("/reconnect/") && org.text.contains("nothing to reconnect"), "{}", org.text);
        assert_eq!(org.subject, "Zendesk is paused: nothing for you to reconnect");
        let by_page = AppRefused { configured: false, ..app_refused() };
        let (configured, by_page) = (render(&views, &app_refused()).unwrap(), render(&views, &by_page).unwrap());
        for mail in [&configured, &by_page] {
            assert!(!mail.html.contains("/reconnect/"), "{}", mail.html);
            assert!(mail.text.contains("https://hub.example/settings/oauth-apps/zendesk"), "{}", mail.text);
        }
        assert!(configured.text.contains("oauth_apps.zendesk.client_id"), "{}", configured.text);
        assert!(!by_page.text.contains("oauth_apps."), "{}", by_page.text);
        assert_eq!(button(&render(&views, &nobody_told()).unwrap()), 0);
    }

    #[test]
    fn a_mail_says_all_of_it_in_both_parts() {
        let mail = render(&Views::load().unwrap(), &connector_needs_you()).unwrap();

        assert_eq!(mail.subject, "Acme <support> needs you: Zendesk refused the access");
        let shown = mail.html.replace("<span>", "").replace("</span>", "").replace("<bdi>", "").replace("</bdi>", "");
        for words in
            ["acme.zendesk.com", "29 November 2026, 10:05 UTC", "Usually the app was removed", "Answerer", "1 more"]
        {
            assert!(mail.text.contains(words), "{words} is not in {}", mail.text);
            assert!(shown.contains(words), "{words} is not in {shown}");
        }
        assert!(mail.text.contains("<b>gone</b>") && shown.contains("&lt;b&gt;gone&lt;/b&gt;"));
        assert!(mail.text.contains("https://hub.example/reconnect/abc"));
    }
}
