//! The harness: databases, processes, a service in this process, lines that can be cut.
