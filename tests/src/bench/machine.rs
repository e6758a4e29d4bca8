//! What the figures were measured on.

use std::fs;

use serde_json::{Value, json};

/// Processor, memory, kernel and how busy it was already.
pub(super) fn facts() -> Value {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    json!({
        "cores": cores,
        "cpu": field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        "memory": field("/proc/meminfo", "MemTotal").unwrap_or_default(),
        "kernel": fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim(),
        "load_average_before": load_average(),
    })
}

/// Of the last minute.
pub(super) fn load_average() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

/// The value of the first `name: value` in a file.
pub(super) fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let found = text.lines().filter_map(|line| line.split_once(':')).find(|(key, _)| key.trim() == name);
    found.map(|(_, value)| value.trim().to_owned())
}
