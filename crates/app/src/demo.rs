//! The demo, as far as the service knows that it is one: a bar over every page that leads through the story, and a filled
//! in form to sign in with. [`cli`](crate::cli) starts it.
//!
//! - [`story`]: the steps, each read from what has really happened.
//! - [`mails`]: the mailbox, where all mail of the demo ends.
//! - [`door`]: the printed address, and who gets the form filled in.

mod door;
mod mails;
mod story;

use std::{path::PathBuf, sync::Mutex};

use chrono::{DateTime, Utc};

use holdfast_core::{OrgId, ports::StoreError};
use secrecy::SecretString;

pub(crate) use door::{Welcome, address, welcome};
pub(crate) use story::Bar;
use story::Mails;

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
    /// When somebody last looked at a mail.
    pub read_at: Mutex<Option<DateTime<Utc>>>,
}

impl Demo {
    /// The bar for somebody of this org.
    pub(crate) async fn bar(&self, app: &App, org: &OrgId) -> Result<Bar, StoreError> {
        let mails = Mails {
            sent_at: self.mailbox.messages().first().map(|mail| mail.date),
            read_at: *self.read_at.lock().expect("no panic happens while it is held"),
        };
        Ok(Bar::new(&app.store.milestones(org).await?, mails, &self.control))
    }
}

/// Pages of the demo; where there is none, there is nothing.
pub(crate) fn routes() -> Routes {
    door::routes().merge(mails::routes())
}
