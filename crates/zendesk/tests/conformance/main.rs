//! The adapter and the sandbox, over real HTTP: written by different hands from the same pages.

#![expect(clippy::unwrap_used, reason = "a test's helpers may fail as the test does")]

mod connection;
mod feed;
mod lookups;
mod new_tickets;
mod rig;
mod tools;
mod webhooks;
