//! Mail: what the outbox says has to be told becomes a message per recipient, is sent, and is kept with what became of it.
//!
//! - [`App::mail_due`](crate::App::mail_due) is the worker's one step, [`run`] its loop.
//! - [`Transport`] is the seam to whatever takes mail: [`Smtp`] for a server, [`Mailbox`] for a demo.
//! - `templates/mail` holds the words. Nothing that others wrote reaches them but through `text::line`.

mod compose;
pub(crate) mod link;
mod mailbox;
mod outgoing;
mod round;
pub(crate) mod server_url;
mod smtp;
mod templates;
pub(crate) mod text;
mod transport;
mod trial;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use chrono::{DateTime, Utc};
use holdfast_core::ports::StoreError;
use holdfast_store::Tell;
use lettre::message::Mailbox as Sender;

#[cfg(test)]
pub(crate) use compose::ChannelLine;
pub(crate) use compose::{ForChannel, for_channel, moment};
pub use mailbox::Mailbox;
pub use outgoing::Outgoing;
pub use round::{Round, run};
pub use smtp::Smtp;
pub(crate) use templates::register_filters;
pub use transport::{Failure, FailureKind, Transport};
pub(crate) use trial::Trial;

use crate::{app::App, config::Config};

/// What a replica remembers about mail.
#[derive(Default)]
pub struct Mail {
    warned: AtomicBool,
}

impl Mail {
    /// True the first time.
    fn warn_once(&self) -> bool {
        !self.warned.swap(true, Ordering::Relaxed)
    }
}

/// Whether people can be mailed, as pages for admins and operators say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MailStatus {
    /// No mail server is configured.
    NotConfigured,
    /// As far as is known.
    Works,
    /// The mail server takes nothing.
    Trouble {
        /// Since when, without a break.
        since: DateTime<Utc>,
        /// When it is tried next.
        retry_at: DateTime<Utc>,
        /// What the last attempt came to, in short; for operators only.
        error: String,
    },
}

impl App {
    /// How something that is written down now is told by mail.
    pub(crate) fn telling(&self) -> Tell {
        Tell { at: self.seams.clock.now(), domain: domain(&self.config), sends: self.seams.mail.is_some() }
    }

    /// Whether people can be mailed.
    pub async fn mail_status(&self) -> Result<MailStatus, StoreError> {
        if self.seams.mail.is_none() {
            return Ok(MailStatus::NotConfigured);
        }
        Ok(match self.store.mail_trouble().await? {
            None => MailStatus::Works,
            Some(trouble) => {
                MailStatus::Trouble { since: trouble.since, retry_at: trouble.retry_at, error: trouble.error }
            }
        })
    }
}

/// The configured mail server; `None`: there is none.
pub fn transport(config: &Config) -> anyhow::Result<Option<Arc<dyn Transport>>> {
    Ok(Smtp::from_config(config)?.map(|smtp| Arc::new(smtp) as Arc<dyn Transport>))
}

/// Who mails come from. Without a setting (a demo's mailbox) nobody answers there.
fn sender(config: &Config) -> String {
    config.mail.from.clone().unwrap_or_else(|| format!("Holdfast <holdfast@{}>", domain(config)))
}

/// The right side of the messages' ids: the sender's domain.
fn domain(config: &Config) -> String {
    let from = config.mail.from.as_ref().and_then(|from| from.parse::<Sender>().ok());
    from.map_or_else(|| "holdfast.invalid".to_owned(), |from| from.email.domain().to_owned())
}
