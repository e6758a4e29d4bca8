//! The lifeboat as a folder: one sealed file for each token set that the database could not take.
//!
//! A file is named `KIND.ORG.CONNECTOR.ID`, and these are the associated data that it is sealed with, under the data key
//! of its org: without the master key it is worth nothing, and renamed it does not open. Several processes may share the
//! folder: whoever finds a set stores it by the same conditional write, and the second one finds that done.

mod folder;
mod packed;

use std::{
    collections::HashSet,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use holdfast_core::{
    AppId, ConnectorId, OrgId, TokenSet,
    ports::{Castaway, Lifeboat, StoreError},
};
use secrecy::zeroize::Zeroizing;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::{error, warn};

use crate::{seal::Place, sql::because, store::Store};
use folder::Folder;

const ROTATION: &str = "rotation";
const GRANT: &str = "grant";

/// What a consent brought, until it has ended.
#[derive(Clone, Debug)]
pub struct KeptGrant {
    /// Whose.
    pub org: OrgId,
    /// Of which connector.
    pub connector: ConnectorId,
    /// The consent's session.
    pub session: String,
    /// The consent's sequence.
    pub sequence: i64,
    /// The provider's id.
    pub provider: String,
    /// The account that was asked for.
    pub account: String,
    /// The OAuth app that the consent was given to.
    pub app: AppId,
    /// What the code brought.
    pub tokens: TokenSet,
    /// What was granted, where the provider said it with the tokens.
    pub scopes: Option<Vec<String>>,
    /// Once it is known to be right, and only has to be stored.
    pub checked: Option<CheckedGrant>,
}

/// What was found out about a grant that is right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckedGrant {
    /// Who gave it, as it is kept beside the connector.
    pub identity: Value,
    /// Their name there.
    pub who: Option<String>,
    /// Who gave it, for the timeline.
    pub actor: Option<String>,
    /// What it may do, where the provider says that of the access itself.
    #[serde(default)]
    pub scopes: Option<Vec<String>>,
}

/// How it is with the folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LifeboatState {
    /// Sets that are waiting in it.
    pub sets: usize,
    /// Files that could not be opened, and were set aside.
    pub unreadable: usize,
    /// Sets that it took, since the start.
    pub taken: u64,
    /// Failures to take one, since the start.
    pub failures: u64,
    /// What is wrong with it, as far as is known; `None`: it can take a set.
    pub trouble: Option<String>,
}

/// The lifeboat of one machine.
#[derive(Clone)]
pub struct Spool(Arc<Inner>);

struct Inner {
    store: Store,
    folder: Folder,
    trouble: Mutex<Option<String>>,
    taken: AtomicU64,
    failures: AtomicU64,
    /// Files of orgs that this database does not know, which were told of.
    foreign: Mutex<HashSet<String>>,
}

/// What a file is named after.
struct Label<'a> {
    kind: &'a str,
    org: OrgId,
    connector: &'a str,
    id: &'a str,
}

impl<'a> Label<'a> {
    fn of(castaway: &'a Castaway) -> Self {
        let exchange = &castaway.exchange;
        let (connector, id) = (exchange.connector.as_str(), exchange.id.as_str());
        Self { kind: ROTATION, org: exchange.org.clone(), connector, id }
    }

    fn of_grant(grant: &'a KeptGrant, id: &'a str) -> Self {
        Self { kind: GRANT, org: grant.org.clone(), connector: grant.connector.as_str(), id }
    }

    fn read(name: &'a str) -> Option<Self> {
        let mut parts = name.split('.');
        let (kind, org, connector, id) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        parts.next().is_none().then(|| Self { kind, org: org.into(), connector, id })
    }

    /// Ids are ours, and have neither dots nor slashes.
    fn name(&self) -> Result<String, StoreError> {
        let parts = [self.kind, self.org.as_str(), self.connector, self.id];
        let plain = |part: &&str| {
            !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
        };
        if parts.iter().all(plain) {
            return Ok(parts.join("."));
        }
        Err(StoreError::new("name a file of the lifeboat: an id holds what no id holds"))
    }

    fn field(&self) -> String {
        format!("lifeboat.{}.{}", self.kind, self.id)
    }
}

impl KeptGrant {
    /// Names the consent among all.
    pub fn id(&self) -> String {
        format!("{}-{}", self.session, self.sequence)
    }
}

impl Store {
    /// The lifeboat in this folder, which is made when it is needed.
    pub fn lifeboat(&self, folder: PathBuf) -> Spool {
        Spool(Arc::new(Inner {
            store: self.clone(),
            folder: Folder::new(folder),
            trouble: Mutex::default(),
            taken: AtomicU64::default(),
            failures: AtomicU64::default(),
            foreign: Mutex::default(),
        }))
    }
}

impl Spool {
    /// The folder.
    pub fn path(&self) -> &Path {
        self.0.folder.path()
    }

    /// Writes something into the folder to see whether it can take a set, and counts what is in it.
    pub async fn check(&self) -> LifeboatState {
        let probed = self.in_folder(Folder::probe).await;
        *self.trouble() = probed.err().map(|error| error.to_string());
        self.state().await
    }

    /// What is in it, and the trouble that was met last.
    pub async fn state(&self) -> LifeboatState {
        let counted = self.in_folder(|folder| Ok((folder.names()?.len(), folder.aside()?))).await;
        let (sets, unreadable) = counted.unwrap_or_else(|error| {
            self.trouble().get_or_insert(error.to_string());
            (0, 0)
        });
        LifeboatState {
            sets,
            unreadable,
            taken: self.0.taken.load(Ordering::Relaxed),
            failures: self.0.failures.load(Ordering::Relaxed),
            trouble: self.trouble().clone(),
        }
    }

    /// Keeps what a consent brought, in place of what was kept of it: a crash loses it no more.
    pub async fn put_grant(&self, grant: &KeptGrant) -> Result<(), StoreError> {
        self.put_sealed(Label::of_grant(grant, &grant.id()), packed::pack_grant(grant)).await
    }

    /// What consents have brought that have not ended. As [`Lifeboat::list`].
    pub async fn list_grants(&self) -> Result<Vec<KeptGrant>, StoreError> {
        self.list_unpacked(GRANT, packed::unpack_grant).await
    }

    /// The consent has ended.
    pub async fn remove_grant(&self, grant: &KeptGrant) -> Result<(), StoreError> {
        self.remove_sealed(Label::of_grant(grant, &grant.id())).await
    }

    async fn list_unpacked<T>(
        &self,
        kind: &str,
        unpack: impl Fn(OrgId, &str, &str, &[u8]) -> Option<T>,
    ) -> Result<Vec<T>, StoreError> {
        let mut all = Vec::new();
        for (name, plain) in self.list_sealed(kind).await? {
            let label = Label::read(&name);
            match label.and_then(|label| unpack(label.org, label.connector, label.id, &plain)) {
                Some(unpacked) => all.push(unpacked),
                None => self.set_aside(name).await,
            }
        }
        Ok(all)
    }

    async fn put_sealed(&self, label: Label<'_>, plain: Zeroizing<Vec<u8>>) -> Result<(), StoreError> {
        let put = async {
            // Known since the credential was read: no database is asked.
            let key = self.0.store.data_key(self.0.store.db(), &label.org).await?;
            let place = Place { org: &label.org, owner: label.connector, field: &label.field() };
            let (name, sealed) = (label.name()?, key.seal(place, &plain));
            let written = self.in_folder(move |folder| folder.write(&name, &sealed)).await;
            written.map_err(|error| because(format!("write to the lifeboat {}", self.path().display()), error))
        };
        let put = put.await;
        let count = if put.is_ok() { &self.0.taken } else { &self.0.failures };
        count.fetch_add(1, Ordering::Relaxed);
        *self.trouble() = put.as_ref().err().map(|error| match &error.source {
            Some(source) => source.to_string(),
            None => error.to_string(),
        });
        put
    }

    /// What is sealed in the files of this kind, with their names.
    async fn list_sealed(&self, kind: &str) -> Result<Vec<(String, Zeroizing<Vec<u8>>)>, StoreError> {
        let names = self.in_folder(Folder::names).await.unwrap_or_else(|error| {
            error!(%error, "cannot look into the lifeboat {}", self.path().display());
            *self.trouble() = Some(error.to_string());
            Vec::new()
        });
        let mut found = Vec::new();
        for name in names {
            let label = match Label::read(&name) {
                Some(label) if label.kind == kind => label,
                Some(label) if [ROTATION, GRANT].contains(&label.kind) => continue,
                _ => {
                    self.set_aside(name).await;
                    continue;
                }
            };
            let Some(key) = self.0.store.find_data_key(self.0.store.db(), &label.org).await? else {
                self.tell_foreign(&name);
                continue;
            };
            let read = name.clone();
            match self.in_folder(move |folder| folder.read(&read)).await {
                Ok(Some(sealed)) => {
                    let place = Place { org: &label.org, owner: label.connector, field: &label.field() };
                    match key.open(place, &sealed) {
                        Ok(plain) => found.push((name, plain)),
                        Err(_) => self.set_aside(name).await,
                    }
                }
                Ok(None) => {}
                Err(error) => error!(%error, "cannot read {name} in the lifeboat"),
            }
        }
        Ok(found)
    }

    async fn remove_sealed(&self, label: Label<'_>) -> Result<(), StoreError> {
        let name = label.name()?;
        let removed = self.in_folder(move |folder| folder.remove(&name)).await;
        removed.map_err(|error| because(format!("remove a file from the lifeboat {}", self.path().display()), error))
    }

    /// Nobody can open it now. Somebody may find the key one day.
    async fn set_aside(&self, name: String) {
        let shown = name.clone();
        match self.in_folder(move |folder| folder.set_aside(&name)).await {
            Ok(there) => error!(
                "a file of the lifeboat cannot be opened: it is damaged, or was sealed with another key; it is kept as {}",
                there.display()
            ),
            Err(error) => error!(%error, "a file of the lifeboat, {shown}, can neither be opened nor be set aside"),
        }
    }

    /// It belongs to another database, whose service may still be at it.
    fn tell_foreign(&self, name: &str) {
        let mut told = self.0.foreign.lock().expect("no panic happens while it is held");
        if told.insert(name.to_owned()) {
            warn!("{name} in the lifeboat is of an organisation that this database does not know; it is left alone");
        }
    }

    async fn in_folder<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Folder) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let folder = self.0.folder.clone();
        tokio::task::spawn_blocking(move || work(&folder)).await.unwrap_or_else(|error| Err(io::Error::other(error)))
    }

    fn trouble(&self) -> MutexGuard<'_, Option<String>> {
        self.0.trouble.lock().expect("no panic happens while it is held")
    }
}

#[async_trait]
impl Lifeboat for Spool {
    async fn put(&self, castaway: &Castaway) -> Result<(), StoreError> {
        self.put_sealed(Label::of(castaway), packed::pack(castaway)).await
    }

    async fn list(&self) -> Result<Vec<Castaway>, StoreError> {
        self.list_unpacked(ROTATION, packed::unpack).await
    }

    async fn remove(&self, castaway: &Castaway) -> Result<(), StoreError> {
        self.remove_sealed(Label::of(castaway)).await
    }
}
