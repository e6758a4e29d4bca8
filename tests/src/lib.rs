//! The harness: databases, processes, a service in this process, lines that can be cut.
//!
//! - [`database`]: a database of its own for each test, of either kind.
//! - [`service`]: a service in this process with a clock in the test's hand, entered by HTTP.
//! - [`browser`]: somebody's browser: cookies, and no redirects by itself.
//! - [`command`]: the binary `holdfast` as a process.
//! - [`canary`]: looks for secrets where none may be.
//! - [`wait`]: bounded polling.

pub mod browser;
pub mod canary;
pub mod command;
pub mod database;
pub mod service;
pub mod wait;
