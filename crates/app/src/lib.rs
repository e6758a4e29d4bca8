//! Holdfast itself: everything that runs.
//!
//! - [`config`]: settings, from the compiled defaults, a file, the environment and flags.

pub mod config;

pub use config::{Config, ConfigError, Sources};
