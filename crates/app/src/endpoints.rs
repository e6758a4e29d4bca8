//! Events to the endpoints of orgs, signed as the Standard Webhooks specification says
//! (<https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md>).
//!
//! - [`message`]: what is sent, and its signature.
//! - [`deliver`]: one attempt, and what follows from it.
//! - [`slack`]: what an org's channel in Slack is told.
//! - [`manage`]: endpoints, made and changed by people and keys; how they stand.

mod deliver;
pub(crate) mod manage;
mod message;
pub(crate) mod slack;

pub(crate) use deliver::Deliver;
