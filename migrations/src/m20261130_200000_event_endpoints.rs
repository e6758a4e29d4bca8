//! Events that orgs are told of: what happened, where each org wants it, and each attempt to bring it there.

use sea_orm_migration::prelude::*;

use crate::columns::{
    at, at_or_null, belongs, bytes, bytes_or_null, count, flag, id, json, text, text_or_null, unique,
};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const INDEXES: [&str; 6] = [
    "CREATE INDEX event_endpoints_untold ON event_endpoints (disabled_at) WHERE stopped IS NOT NULL AND told_at IS NULL",
    // What is sent again since a moment, and what is too old.
    "CREATE INDEX events_by_org ON events (org_id, \"at\", id)",
    "CREATE INDEX events_by_age ON events (\"at\")",
    "CREATE INDEX event_attempts_by_endpoint ON event_attempts (endpoint_id, id)",
    "CREATE INDEX event_attempts_by_age ON event_attempts (\"at\")",
    "CREATE INDEX event_endpoints_by_org ON event_endpoints (org_id, id)",
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // `types` is a list; an empty one means all. `stopped` says why we stopped by ourselves; a person who disables an
        // endpoint leaves none. `wish` and `secret_wish` are the idempotency keys of the calls that made it, and that
        // made its secret.
        let endpoints = Table::create()
            .table("event_endpoints")
            .col(id())
            .col(text("org_id"))
            .col(text("url"))
            .col(text("description"))
            .col(json("types"))
            .col(flag("enabled"))
            .col(bytes("sealed_secret"))
            .col(bytes_or_null("sealed_previous"))
            .col(at_or_null("previous_until"))
            .col(at("secret_at"))
            .col(at("created_at"))
            .col(at_or_null("delivered_at"))
            .col(at_or_null("failing_since"))
            .col(count("failures"))
            .col(at_or_null("disabled_at"))
            .col(text_or_null("stopped"))
            .col(at_or_null("told_at"))
            .col(text_or_null("wish"))
            .col(text_or_null("secret_wish"))
            .index(&mut unique(&["org_id", "wish"]))
            .foreign_key(&mut belongs("event_endpoints", "org_id", "orgs"))
            .take();
        manager.create_table(endpoints).await?;

        // `key` names what the event tells of: the same is told once, for as long as the row is kept.
        let events = Table::create()
            .table("events")
            .col(id())
            .col(text("org_id"))
            .col(text("kind"))
            .col(text("key"))
            .col(json("data"))
            .col(at("at"))
            .index(&mut unique(&["org_id", "key"]))
            .foreign_key(&mut belongs("events", "org_id", "orgs"))
            .take();
        manager.create_table(events).await?;

        // No foreign keys to event and job: an attempt says what happened after they are forgotten.
        let attempts = Table::create()
            .table("event_attempts")
            .col(id())
            .col(text("endpoint_id"))
            .col(text("event_id"))
            .col(text("kind"))
            .col(text("job_id"))
            .col(count("number"))
            .col(at("at"))
            .col(count("duration_ms"))
            .col(text("outcome"))
            .col(ColumnDef::new("status").big_integer().null().take())
            .col(text_or_null("detail"))
            .foreign_key(&mut belongs("event_attempts", "endpoint_id", "event_endpoints"))
            .take();
        manager.create_table(attempts).await?;

        for index in INDEXES {
            manager.get_connection().execute_unprepared(index).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in ["event_attempts", "events", "event_endpoints"] {
            manager.drop_table(Table::drop().table(table).take()).await?;
        }
        Ok(())
    }
}
