//! What goes into the mails about being told.

use serde::Serialize;

use super::Frame;

/// Somebody of the org gets no mail any more.
#[derive(Clone, Debug, Serialize)]
pub(in crate::mail) struct AddressSuppressed {
    #[serde(flatten)]
    pub(in crate::mail) frame: Frame,
    pub(in crate::mail) name: String,
    pub(in crate::mail) address: String,
    /// "an admin".
    pub(in crate::mail) as_role: &'static str,
    pub(in crate::mail) since: String,
    /// The mail server's words.
    pub(in crate::mail) said: String,
}

/// The org's channel in Slack is gone.
#[derive(Clone, Debug, Serialize)]
pub(in crate::mail) struct ChannelStopped {
    #[serde(flatten)]
    pub(in crate::mail) frame: Frame,
    /// What is shown of its address.
    pub(in crate::mail) hint: String,
    pub(in crate::mail) since: String,
    /// What it answered.
    pub(in crate::mail) said: String,
}

/// Somebody wants to see whether mail arrives.
#[derive(Clone, Debug, Serialize)]
pub(in crate::mail) struct Test {
    #[serde(flatten)]
    pub(in crate::mail) frame: Frame,
    pub(in crate::mail) address: String,
    pub(in crate::mail) at: String,
}

/// One of each, with everything in it.
#[cfg(test)]
pub(super) mod samples {
    use super::*;
    use crate::mail::templates::tests::frame;

    const BUTTON: Option<(&str, &str)> = Some(("https://hub.example/settings/notifications", "Open the notifications"));

    pub(in crate::mail::templates) fn address_suppressed() -> AddressSuppressed {
        AddressSuppressed {
            frame: frame("an owner", BUTTON),
            name: "Ben <Acme>".to_owned(),
            address: "ben@acme.example".to_owned(),
            as_role: "an admin",
            since: "30 November 2026, 10:05 UTC".to_owned(),
            said: "550 5.1.1 <ben@acme.example> no such user".to_owned(),
        }
    }

    pub(in crate::mail::templates) fn channel_stopped() -> ChannelStopped {
        ChannelStopped {
            frame: frame("an owner", BUTTON),
            hint: "hooks.slack.com … f9Qx".to_owned(),
            since: "30 November 2026, 10:05 UTC".to_owned(),
            said: "It answered 404: no_service".to_owned(),
        }
    }

    pub(in crate::mail::templates) fn test() -> Test {
        Test {
            frame: frame("an admin", BUTTON),
            address: "ada@acme.example".to_owned(),
            at: "30 November 2026, 10:05 UTC".to_owned(),
        }
    }
}
