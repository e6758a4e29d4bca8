//! Holdfast itself: everything that runs.
//!
//! - [`config`]: settings, from the compiled defaults, a file, the environment and flags.
//! - [`seams`]: time, randomness and HTTP as values; the real ones.
//! - [`logging`], [`metrics`]: what the operator sees.
//! - [`cli`]: the command line.

pub mod cli;
pub mod config;
pub mod logging;
pub mod metrics;
pub mod seams;

pub use config::{Config, ConfigError, Sources};
pub use seams::Seams;
