//! The store against real databases: the same suite on SQLite and on PostgreSQL.

#![expect(clippy::unwrap_used, reason = "tests, and their helpers")]

mod agents;
mod audit;
mod claims;
mod counting;
mod credentials;
mod due;
mod grants;
mod harness;
mod imports;
mod jobs;
mod journal;
mod leases;
mod lifeboat;
mod lines;
mod mirrors;
mod own_apps;
mod people;
mod protocol;
mod provider_migrations;
mod reading;
mod runs;
mod sealing;
mod sessions;
mod signals;
mod starting;
mod stories;
mod team;
mod usage;
mod webhooks;
