//! The adapter against the sandbox, over HTTP.

#![expect(clippy::unwrap_used, reason = "a test's helpers may fail as the test does")]

mod connection;
mod events_and_sheets;
mod mail;
mod rig;
