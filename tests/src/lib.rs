//! The harness: databases, processes, a service in this process, lines that can be cut.

pub mod cluster;
pub mod cut;
pub mod pooler;
pub mod process;
pub mod until;
