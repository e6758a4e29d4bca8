//! Data on stdout: for people, or as JSON.

use std::io::{ErrorKind, Write, stdout};

use serde::Serialize;

/// Where a command's data goes.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    json: bool,
}

impl Output {
    /// With `--json` or without.
    pub fn new(json: bool) -> Self {
        Self { json }
    }

    /// Prints a value as one line of JSON, or else the text, which is made only then.
    pub fn print(self, value: &impl Serialize, text: impl FnOnce() -> String) -> anyhow::Result<()> {
        let line = if self.json { serde_json::to_string(value)? } else { text() };
        let mut stdout = stdout().lock();
        match writeln!(stdout, "{line}").and_then(|()| stdout.flush()) {
            // `holdfast connector list | head` has seen enough.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            other => Ok(other?),
        }
    }
}
