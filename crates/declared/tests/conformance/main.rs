//! Each shipped file against the imitation of its service, over HTTP. The imitation was written from what is known of the
//! service, not from the file.

#![expect(clippy::unwrap_used, reason = "a test's helpers may fail as the test does")]

mod by_key;
mod extras;
mod oauth;
mod rig;
