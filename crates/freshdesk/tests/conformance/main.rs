//! The adapter and the sandbox, over real HTTP: written by different hands from the same pages.

#![expect(clippy::unwrap_used, reason = "a test's helpers may fail as the test does")]

mod changes;
mod connection;
mod feed;
mod reading;
mod rig;
