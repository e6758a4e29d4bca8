//! The harness: databases, processes, a service in this process, lines that can be cut.
//!
//! - [`database`]: a database of its own for each test, of either kind.
//! - [`service`]: a service in this process with a clock in the test's hand, entered by HTTP.
//! - [`browser`]: somebody's browser without its window: cookies, and no redirects by itself.
//! - [`html`]: what a page says and asks, and such browsers that fill it in.
//! - [`people`]: people of such a service, and their way in.
//! - [`chromium`]: a real browser: pages are looked at, filled, pressed and checked.
//! - [`command`]: the binary `holdfast` as a process.
//! - [`demo`]: `holdfast demo` as a process.
//! - [`canary`]: looks for secrets where none may be.
//! - [`wait`]: bounded polling that tells what was last seen.
//! - [`cluster`]: what replicas share: a PostgreSQL database, a sandbox, an organisation with its key.
//! - [`process`]: replicas: `holdfast serve` as processes that serve, are called, and are killed.
//! - [`receiver`]: a program that is told of events.
//! - [`plain`]: HTTP/1.1 as bytes.
//! - [`cut`]: a line between two programs that can be cut.
//! - [`days`]: a day that is ahead.
//! - [`pooler`]: a connection pooler in transaction mode.
//! - [`redis`]: a Redis that is killed and comes back empty.
//! - [`smtp`]: a mail server whose moods a test decides.

pub mod browser;
pub mod canary;
pub mod chromium;
pub mod cluster;
pub mod command;
pub mod cut;
pub mod database;
pub mod days;
pub mod demo;
pub mod everywhere;
pub mod hooks;
pub mod html;
pub mod people;
pub mod plain;
pub mod pooler;
pub mod process;
pub mod receiver;
pub mod redis;
pub mod service;
pub mod smtp;
pub mod wait;
pub mod wire;
