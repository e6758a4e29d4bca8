//! The demo, as far as the service knows that it is one: a bar over every page that leads through the story, and a filled
//! in form to sign in with. [`cli`](crate::cli) starts it.
//!
//! - [`story`]: the steps, each read from what has really happened.
//! - [`mails`]: the mailbox, where all mail of the demo ends.
//! - [`door`]: the printed address, and who gets the form filled in.

mod door;
mod mails;
mod story;

use std::{collections::HashSet, path::PathBuf, sync::Mutex};

use holdfast_core::{OrgId, ports::StoreError};
use holdfast_store::{MailKind, MailStage, Milestones};
use secrecy::SecretString;

pub(crate) use door::{Welcome, address, welcome};
pub(crate) use story::Bar;
use story::{Mail, last_broken};

use crate::{app::App, mail::Mailbox, ui::routes::Routes};

/// The helpdesk that is connected from the start, by its account.
pub(crate) const FIRST: &str = "acme";
/// The one that is left to be connected.
pub(crate) const SECOND: &str = "globex";

/// What a service that runs as a demo knows.
pub struct Demo {
    /// The sandbox's control page.
    pub control: String,
    /// Whom the demo has made to sign in.
    pub email: String,
    /// The password that it has made for them.
    pub password: SecretString,
    /// What is stored of that password; `None`: they have set another one.
    pub password_hash: Option<SecretString>,
    /// Where its data is.
    pub folder: PathBuf,
    /// Where its mail ends.
    pub mailbox: Mailbox,
    /// The ids of the mails that somebody has looked at.
    pub read: Mutex<HashSet<String>>,
}

impl Demo {
    /// The bar for somebody of this org.
    pub(crate) async fn bar(&self, app: &App, org: &OrgId) -> Result<Bar, StoreError> {
        let connectors = app.store.milestones(org).await?;
        let mail = match last_broken(&connectors) {
            Some(broken) => self.mail_of(app, org, broken).await?,
            None => Mail::None,
        };
        Ok(Bar::new(&connectors, mail, &self.control))
    }

    /// What has become of the mail about this one's last failure.
    async fn mail_of(&self, app: &App, org: &OrgId, broken: &Milestones) -> Result<Mail, StoreError> {
        let state = app.store.mail_state(org, &broken.connector).await?;
        let told = state.into_iter().flat_map(|state| state.told);
        let sent: Vec<_> =
            told.filter(|mail| mail.kind == MailKind::NeedsYou && mail.stage == MailStage::Sent).collect();
        let read = self.read.lock().expect("no panic happens while it is held");
        Ok(match sent.as_slice() {
            [] => Mail::None,
            sent if sent.iter().any(|mail| read.contains(&mail.message_id)) => Mail::Read,
            _ => Mail::Sent,
        })
    }
}

/// Pages of the demo; where there is none, there is nothing.
pub(crate) fn routes() -> Routes {
    door::routes().merge(mails::routes())
}
