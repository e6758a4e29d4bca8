//! Ports in memory and clocks for tests.
