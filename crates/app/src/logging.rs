//! The log: on stderr, so that stdout carries data alone.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::{EnvFilter, Layer, Registry, layer::SubscriberExt, util::SubscriberInitExt};

use crate::config::{LogConfig, LogFormat};

/// Starts the log. `usual` is the filter where the operator has set none: `info` for the service, `warn` for commands
/// that come and go. Where a log runs already (tests start several instances in one process), that one stays.
pub fn init(config: &LogConfig, usual: &str) {
    let _ = tracing_subscriber::registry().with(output(config)).with(filter(config, usual)).try_init();
}

/// The configuration has checked the filter; should it be unusable all the same, too much is logged rather than nothing.
fn filter(config: &LogConfig, usual: &str) -> EnvFilter {
    EnvFilter::try_new(config.filter.as_deref().unwrap_or(usual)).unwrap_or_else(|_| EnvFilter::new("info"))
}

fn output(config: &LogConfig) -> Box<dyn Layer<Registry> + Send + Sync> {
    let lines = tracing_subscriber::fmt::layer().with_writer(stderr);
    match config.format {
        LogFormat::Pretty => lines.with_ansi(stderr().is_terminal()).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starting_it_twice_does_no_harm() {
        for format in [LogFormat::Json, LogFormat::Pretty] {
            init(&LogConfig { format, filter: None }, "off");
        }
    }

    #[test]
    fn the_operators_filter_wins() {
        let set = LogConfig { format: LogFormat::Json, filter: Some("warn,holdfast_core=debug".to_owned()) };
        let unset = LogConfig { format: LogFormat::Json, filter: None };

        assert!(filter(&set, "info").to_string().contains("holdfast_core=debug"));
        assert_eq!(filter(&unset, "warn").to_string(), "warn");
    }
}
