//! The domain of Holdfast: it keeps credentials alive, and knows no web framework, no ORM, no HTTP
//! client and no mail. What it needs from outside stands in [`ports`].
//!
//! - [`refresh`]: the engine, the only way to an access token.
//! - [`exchange`]: one call to a token endpoint, as pure functions.
//! - [`oauth_app`]: which OAuth app a grant was made with.
//! - [`health`]: the state machine of a connector.
//! - [`provider`]: what an adapter states about its service.
//! - [`webhook`]: what a provider sends by itself, told from what others send.
//! - [`api_client`]: the authenticated client that adapters call their service with.
//! - [`ticket`], [`helpdesk`]: the ticket model and the tools that all helpdesks share.
//! - [`mirror`]: what a helpdesk's adapter reads so that its tickets are known here too.
//! - [`agent`], [`tool`], [`playbook`]: who acts, what it may do, and the runner that needs no AI.
//! - [`job`]: background work that is stored before it is done.
//! - [`notify`]: what people are told, and when one of them wants to hear it.
//! - [`visible`]: what people see of a text.

pub mod agent;
pub mod api_client;
pub mod calendar;
pub mod credential;
pub mod error;
pub mod event;
pub mod exchange;
pub mod health;
pub mod helpdesk;
pub mod id;
pub mod job;
pub mod jws;
pub mod mask;
pub mod mirror;
#[cfg(feature = "mutants")]
pub mod mutants;
pub mod notify;
pub mod oauth_app;
pub mod playbook;
pub mod ports;
pub mod provider;
pub mod refresh;
pub mod role;
pub mod schema;
#[cfg(feature = "testkit")]
pub mod testkit;
pub mod ticket;
pub mod tool;
pub mod totp;
pub mod visible;
pub mod webhook;
pub mod wire;

pub use api_client::ApiClient;
pub use credential::{Credential, Fingerprint, Secret, Snapshot, TokenSet, Version};
pub use error::{Error, ErrorKind, Retry};
pub use health::Health;
pub use id::{
    AgentId, ConnectorId, CredentialId, DeliveryId, EventEndpointId, EventId, ExchangeId, JobId, OrgId, RunId,
};
pub use oauth_app::AppId;
pub use provider::{About, Account, Auth, Identity, OAuth2, Provider, Providers};
pub use refresh::{AuthError, Engine, Need};
pub use role::Role;
