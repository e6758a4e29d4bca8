//! Holdfast itself: everything that runs.
//!
//! - [`app`]: the service, put together; [`serve`] lets it answer.
//! - [`api`], [`connect`], [`ops`]: REST, the connect flow's pages, health and metrics.
//! - [`hooks`]: what providers send by themselves.
//! - `endpoints`: what orgs are told of at their own endpoints.
//! - [`ui`]: the web UI.
//! - [`agents`], [`tools`]: agents at work, and the one way to call a tool.
//! - [`oauth_apps`]: OAuth apps, the instance's and those of orgs, wherever they were set.
//! - [`recovery`]: what is done about what a crash left behind.
//! - [`mail`]: who is told of what, and how it is sent.
//! - [`admin`]: what the command line asks of a service, here or in another process.
//! - [`config`]: settings, from the compiled defaults, a file, the environment and flags.
//! - [`seams`]: time, randomness and HTTP as values; the real ones.
//! - [`logging`], [`metrics`]: what the operator sees.
//! - [`cli`]: the command line.
//! - [`demo`]: what a service that runs as a demo shows beside.

pub mod admin;
pub mod agents;
pub mod api;
pub mod app;
mod brand;
mod called;
mod care;
pub mod cli;
pub mod config;
pub mod connect;
pub mod demo;
mod endpoints;
mod giving_back;
pub mod hooks;
pub mod jobs;
pub mod keys;
pub mod logging;
pub mod mail;
mod mailbox;
pub mod metrics;
pub mod moving;
pub mod oauth_apps;
mod oidc;
pub mod ops;
pub mod problem;
pub mod recovery;
pub mod registry;
pub mod seams;
pub mod serve;
pub mod sync;
pub mod tools;
pub mod ui;
pub mod usage;
mod words;

pub use app::App;
pub use config::{Config, ConfigError, Sources};
pub use seams::Seams;
