//! The schema, one step per file, for SQLite and PostgreSQL. A released step is never edited.

pub use sea_orm_migration::{MigratorTrait, prelude::MigrationTrait};

mod columns;
mod m20261129_120000_create_orgs;
mod m20261129_120100_create_connectors;
mod m20261129_120200_create_exchanges;
mod m20261129_120300_create_outbox;
mod m20261129_120400_create_connect_sessions;
mod m20261129_120500_signal_changes;
mod m20261129_130000_create_browser_sessions;
mod m20261129_130100_oauth_apps;
mod m20261129_130200_create_agents;
mod m20261129_130300_create_mails;
mod m20261129_130700_serve_pages;
mod m20261130_100000_create_incidents;
mod m20261130_110000_claim_due_refreshes;
mod m20261130_110100_warn_of_ends;
mod m20261130_120000_create_spares;
mod m20261130_140000_tell_consents_apart;
mod m20261130_150000_repeat_calls;
mod m20261130_160000_ask_for_keys;
mod m20261130_160000_claim_grants;
mod m20261130_160000_own_oauth_apps;
mod m20261130_170000_keep_what_was_found;
mod m20261130_170000_provider_migrations;
mod m20261130_180000_jobs;
mod m20261130_180000_tell_who_calls;
mod m20261130_180100_keep_places;
mod m20261130_181000_webhooks;
mod m20261130_190000_forget_unfinished;
mod m20261130_200000_event_endpoints;
mod m20261130_210000_subscriptions;
mod m20261130_220000_agents_on_events;
mod m20261130_230000_agents_by_calendar;
mod m20261130_231000_tell_versions;
mod m20261130_232000_brand_orgs;
mod m20261201_100000_team;
mod m20261201_120000_mirror_tickets;
mod m20261201_150000_audit;
mod m20261201_150000_second_factors;
mod m20261201_151000_identities;
mod m20261201_200000_notifications;
mod m20261202_100000_count_usage;
mod m20261203_100000_runs_of_tickets;

/// All steps, in order.
pub struct Migrator;

impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![
            Box::new(m20261129_120000_create_orgs::Migration),
            Box::new(m20261129_120100_create_connectors::Migration),
            Box::new(m20261129_120200_create_exchanges::Migration),
            Box::new(m20261129_120300_create_outbox::Migration),
            Box::new(m20261129_120400_create_connect_sessions::Migration),
            Box::new(m20261129_120500_signal_changes::Migration),
            Box::new(m20261129_130000_create_browser_sessions::Migration),
            Box::new(m20261129_130100_oauth_apps::Migration),
            Box::new(m20261129_130200_create_agents::Migration),
            Box::new(m20261129_130300_create_mails::Migration),
            Box::new(m20261129_130700_serve_pages::Migration),
            Box::new(m20261130_100000_create_incidents::Migration),
            Box::new(m20261130_110000_claim_due_refreshes::Migration),
            Box::new(m20261130_110100_warn_of_ends::Migration),
            Box::new(m20261130_120000_create_spares::Migration),
            Box::new(m20261130_140000_tell_consents_apart::Migration),
            Box::new(m20261130_150000_repeat_calls::Migration),
            Box::new(m20261130_160000_ask_for_keys::Migration),
            Box::new(m20261130_160000_claim_grants::Migration),
            Box::new(m20261130_160000_own_oauth_apps::Migration),
            Box::new(m20261130_170000_keep_what_was_found::Migration),
            Box::new(m20261130_170000_provider_migrations::Migration),
            Box::new(m20261130_180000_jobs::Migration),
            Box::new(m20261130_180000_tell_who_calls::Migration),
            Box::new(m20261130_180100_keep_places::Migration),
            Box::new(m20261130_181000_webhooks::Migration),
            Box::new(m20261130_190000_forget_unfinished::Migration),
            Box::new(m20261130_200000_event_endpoints::Migration),
            Box::new(m20261130_210000_subscriptions::Migration),
            Box::new(m20261130_220000_agents_on_events::Migration),
            Box::new(m20261130_230000_agents_by_calendar::Migration),
            Box::new(m20261130_231000_tell_versions::Migration),
            Box::new(m20261130_232000_brand_orgs::Migration),
            Box::new(m20261201_100000_team::Migration),
            Box::new(m20261201_120000_mirror_tickets::Migration),
            Box::new(m20261201_150000_audit::Migration),
            Box::new(m20261201_150000_second_factors::Migration),
            Box::new(m20261201_151000_identities::Migration),
            Box::new(m20261201_200000_notifications::Migration),
            Box::new(m20261202_100000_count_usage::Migration),
            Box::new(m20261203_100000_runs_of_tickets::Migration),
        ]
    }
}
