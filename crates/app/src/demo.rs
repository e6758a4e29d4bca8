//! The demo, as far as the service knows that it is one: a bar over every page that leads through the story, and a filled
//! in form to sign in with. [`cli`](crate::cli) starts it.
//!
//! - [`story`]: the steps, each read from what has really happened.
//! - [`mails`]: the mailbox, where all mail of the demo ends.
//! - [`door`]: the printed address, and who gets the form filled in.

mod door;
mod mails;
mod story;

use std::{
    collections::HashSet,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use holdfast_core::{OrgId, ports::StoreError};
use holdfast_store::Milestones;
use secrecy::SecretString;

pub(crate) use door::{Welcome, address, welcome};
pub(crate) use story::Bar;
use story::{Mail, last_broken};

use crate::{
    app::App,
    mail::{Mailbox, Outgoing},
    ui::routes::Routes,
};

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
        let mail = last_broken(&connectors).map(|broken| self.mail_of(broken)).unwrap_or_default();
        Ok(Bar::new(&connectors, mail, &self.control))
    }

    /// What has become of the mail about this one's last failure: every mail leads to the pages of what it is about.
    fn mail_of(&self, broken: &Milestones) -> Mail {
        let page = format!("connectors/{}", broken.connector);
        let about = |mail: &Arc<Outgoing>| Some(mail.date) >= broken.failed_at && mail.text.contains(&page);
        let mails: Vec<_> = self.mailbox.messages().into_iter().filter(about).collect();
        let read = self.read.lock().expect("no panic happens while it is held");
        match mails.as_slice() {
            [] => Mail::None,
            mails if mails.iter().any(|mail| read.contains(&mail.message_id)) => Mail::Read,
            _ => Mail::Sent,
        }
    }
}

/// Pages of the demo; where there is none, there is nothing.
pub(crate) fn routes() -> Routes {
    door::routes().merge(mails::routes())
}
