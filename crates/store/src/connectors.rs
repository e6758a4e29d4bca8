//! Table `connectors`: making, naming and deleting them.

use chrono::{DateTime, Utc};
use holdfast_core::{
    ConnectorId, OrgId, Secret,
    ports::{Changed, StoreError},
};
use secrecy::SecretString;
use serde_json::Value;

use crate::store::Store;

/// A connector to be made.
#[derive(Clone, Debug)]
pub struct NewConnector {
    /// Whose.
    pub org: OrgId,
    /// The provider's id.
    pub provider: String,
    /// The account's canonical id.
    pub account: String,
    /// What people call it.
    pub name: String,
    /// A foreign id that the API accepts too; unique in the org.
    pub alias: Option<String>,
    /// What it authenticates with; [`Secret::Absent`] makes it `pending`.
    pub secret: Secret,
    /// Next time for the scheduler.
    pub due_at: Option<DateTime<Utc>>,
    /// What rides along.
    pub extras: Vec<(String, SecretString)>,
    /// When.
    pub at: DateTime<Utc>,
}

/// What became of a [`NewConnector`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    /// It was made.
    New(ConnectorId),
    /// The org has this one on the same account; nothing was changed.
    Exists(ConnectorId),
    /// Another connector of the org, this one, has the alias; nothing was changed.
    AliasTaken(ConnectorId),
}

impl Store {
    /// Makes a connector. With a credential it starts `connected`, at version and epoch 1, with the effects in the outbox.
    pub async fn create_connector(&self, new: &NewConnector) -> Result<Created, StoreError> {
        let _ = new;
        todo!()
    }

    /// Another name for people. Moves neither version nor epoch.
    pub async fn rename_connector(&self, org: &OrgId, id: &ConnectorId, name: &str) -> Result<Changed, StoreError> {
        let _ = (org, id, name);
        todo!()
    }

    /// Deletes it with its extras, sessions, exchanges and timeline, and the credential when no other connector shares
    /// it. Answers the secret that went with it, for a revocation; `None`: there is no such connector. Its outbox stays.
    pub async fn delete_connector(&self, org: &OrgId, id: &ConnectorId) -> Result<Option<Secret>, StoreError> {
        let _ = (org, id);
        todo!()
    }

    /// Keeps what the provider's who-am-I call said.
    pub async fn set_identity(&self, id: &ConnectorId, identity: &Value) -> Result<Changed, StoreError> {
        let _ = (id, identity);
        todo!()
    }
}
