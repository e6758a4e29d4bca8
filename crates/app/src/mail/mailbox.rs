//! A mailbox instead of a mail server: for the demo, where what was sent is looked at on a page.

use std::{
    fs::Permissions,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use tokio::sync::watch;
use tracing::warn;

use super::{Failure, Outgoing, Transport};

/// Older messages go.
const MOST: usize = 500;

/// Keeps every message whole. Cheap to clone; clones are the same mailbox.
#[derive(Clone)]
pub struct Mailbox(Arc<Inner>);

struct Inner {
    /// Where it is kept beside memory, if anywhere.
    folder: Option<PathBuf>,
    /// The oldest first.
    messages: Mutex<Vec<Arc<Outgoing>>>,
    changed: watch::Sender<usize>,
}

impl Mailbox {
    /// In memory alone.
    pub fn new() -> Self {
        Self::with(None, Vec::new())
    }

    /// Kept in this folder as well, one JSON file per message, so that the next start finds them.
    pub fn in_folder(folder: PathBuf) -> std::io::Result<Self> {
        // Mails hold links that act for who reads them.
        std::fs::create_dir_all(&folder)?;
        std::fs::set_permissions(&folder, Permissions::from_mode(0o700))?;
        let mut messages = Vec::new();
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|end| end == "json") {
                if let Ok(Ok(message)) = std::fs::read(&path).map(|bytes| serde_json::from_slice::<Outgoing>(&bytes)) {
                    messages.push(Arc::new(message));
                } else {
                    warn!("{} is no message of a mailbox; it is left alone", path.display());
                }
            }
        }
        messages.sort_by(|a, b| (a.date, &a.message_id).cmp(&(b.date, &b.message_id)));
        Ok(Self::with(Some(folder), messages))
    }

    fn with(folder: Option<PathBuf>, messages: Vec<Arc<Outgoing>>) -> Self {
        let changed = watch::Sender::new(messages.len());
        Self(Arc::new(Inner { folder, messages: Mutex::new(messages), changed }))
    }

    /// What was sent, the newest first.
    pub fn messages(&self) -> Vec<Arc<Outgoing>> {
        self.held().iter().rev().cloned().collect()
    }

    /// The message of this id, with or without its angle brackets.
    pub fn find(&self, message_id: &str) -> Option<Arc<Outgoing>> {
        let bare = |id: &str| id.trim_matches(['<', '>']).to_owned();
        self.held().iter().find(|message| bare(&message.message_id) == bare(message_id)).cloned()
    }

    /// Changes with each message that comes in: the number of them so far.
    pub fn subscribe(&self) -> watch::Receiver<usize> {
        self.0.changed.subscribe()
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Outgoing>>> {
        self.0.messages.lock().expect("no panic happens while it is held")
    }

    fn file(&self, message: &Outgoing) -> Option<PathBuf> {
        let name: String =
            message.message_id.chars().filter(|c| c.is_ascii_alphanumeric() || "_-".contains(*c)).collect();
        Some(self.0.folder.as_ref()?.join(format!("{name}.json")))
    }
}

impl Default for Mailbox {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Transport for Mailbox {
    async fn ready(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// Takes everything. A repeated message takes the place of the first, as mail programs do it.
    async fn send(&self, mail: &Outgoing) -> Result<String, Failure> {
        if let Some(path) = self.file(mail) {
            let bytes = serde_json::to_vec_pretty(mail).expect("it is plain data");
            if let Err(error) = tokio::fs::write(&path, bytes).await {
                warn!(%error, "a message could not be kept in {}", path.display());
            }
        }
        let mut gone = Vec::new();
        let count = {
            let mut messages = self.held();
            messages.retain(|other| other.message_id != mail.message_id);
            messages.push(Arc::new(mail.clone()));
            let too_many = messages.len().saturating_sub(MOST);
            gone.extend(messages.drain(..too_many));
            messages.len()
        };
        for path in gone.iter().filter_map(|message| self.file(message)) {
            let _left = tokio::fs::remove_file(path).await;
        }
        self.0.changed.send_modify(|seen| *seen = count.max(*seen + 1));
        Ok("it lies in the mailbox of this demo".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mail::outgoing::tests::sample;

    #[tokio::test]
    async fn a_mailbox_keeps_what_came_in_and_finds_it_at_the_next_start() {
        let dir = tempfile::tempdir().unwrap();
        let mailbox = Mailbox::in_folder(dir.path().join("mails")).unwrap();
        let mut changes = mailbox.subscribe();
        let (first, mut second) = (sample(), sample());
        second.message_id = "<mail_2@hub.example>".to_owned();

        mailbox.send(&first).await.unwrap();
        mailbox.send(&second).await.unwrap();
        mailbox.send(&first).await.unwrap();

        assert!(changes.has_changed().unwrap());
        assert_eq!(*changes.borrow_and_update(), 3);
        let ids = |mailbox: &Mailbox| mailbox.messages().iter().map(|one| one.message_id.clone()).collect::<Vec<_>>();
        assert_eq!(ids(&mailbox), ["<mail_1@hub.example>", "<mail_2@hub.example>"]);
        assert_eq!(*mailbox.find("mail_2@hub.example").unwrap(), second);
        let again = Mailbox::in_folder(dir.path().join("mails")).unwrap();
        assert_eq!(ids(&again).len(), 2);
        assert_eq!(*again.find("<mail_1@hub.example>").unwrap(), first);
    }
}
