//! Opens a page in the browser of whoever sits here; nothing happens where there is none.

use std::{
    env,
    process::{Command, Stdio},
};

/// Returns at once, whatever comes of it.
pub(super) fn open(url: &str) {
    // Without a screen these programs would take over the terminal, to show the page in letters.
    let screen =
        cfg!(target_os = "macos") || ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| env::var_os(name).is_some());
    if !screen {
        return;
    }
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let started =
        Command::new(program).arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    if let Ok(mut child) = started {
        // Whoever starts a program has to take note of its end. Nobody waits for this thread.
        std::thread::spawn(move || child.wait());
    }
}
