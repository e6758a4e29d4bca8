//! A mail that somebody sends to themselves, to see whether mail arrives. It goes past the queue: they wait for the answer.

use holdfast_core::{id, ports::StoreError};
use holdfast_store::User;
use tracing::{error, info};

use super::{FailureKind, compose, domain};
use crate::app::App;

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trial {
    /// The mail server has taken it, and says so.
    Taken(String),
    /// It has not, and says why. For operators: others learn what concerns their own address alone.
    Refused(String),
    /// It takes nothing at the moment; the words are for operators.
    Trouble(String),
    /// There is none.
    NoServer,
}

impl App {
    /// Sends one, also to an address that gets no other mail: if it is taken, mail goes there again.
    pub(crate) async fn try_mail(&self, user: &User) -> Result<Trial, StoreError> {
        let Some(transport) = self.seams.mail.clone() else { return Ok(Trial::NoServer) };
        let name = id::new("test", self.seams.clock.as_ref(), self.seams.random.as_ref());
        let message_id = format!("<{name}@{}>", domain(&self.config));
        let outgoing = match compose::test(self, user, message_id.clone()).await {
            Ok(outgoing) => outgoing,
            Err(trouble) => {
                error!(error = format!("{trouble:#}"), "a test mail could not be put together");
                return Ok(Trial::Trouble("something of ours is in trouble".to_owned()));
            }
        };
        let sent = transport.send(&outgoing).await;
        transport.rest().await;
        Ok(match sent {
            Ok(said) => {
                self.store.note_test_mail(&self.telling(), &user.id, &user.email, &message_id).await?;
                self.store.note_accepted_address(&user.email).await?;
                info!(user.id = user.id, "sent a test mail");
                Trial::Taken(said)
            }
            Err(failure) => match failure.kind {
                FailureKind::Server => Trial::Trouble(failure.words),
                FailureKind::Recipient { plainly } => {
                    self.store.note_refused_address(&self.telling(), &user.email, &failure.words, plainly).await?;
                    Trial::Refused(failure.words)
                }
                FailureKind::Later | FailureKind::Refused | FailureKind::Unsure => Trial::Refused(failure.words),
            },
        })
    }
}
