//! The adapter against the sandbox, over real HTTP.

#![expect(clippy::unwrap_used, reason = "a test's helpers may fail as the test does")]

mod changes;
mod connection;
mod feed;
mod reading;
mod rig;
mod webhooks;
