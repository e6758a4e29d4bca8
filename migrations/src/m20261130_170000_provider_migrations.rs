//! A provider's migration: by when which connectors have to be reconnected, and why.

use sea_orm_migration::prelude::*;

use crate::columns::{at, at_or_null, belongs, count, flag, id, text, text_or_null};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const INDEXES: [&str; 4] = [
    // What must be done for a provider is one thing at a time.
    "CREATE UNIQUE INDEX provider_migrations_under_way ON provider_migrations (provider) WHERE ended_at IS NULL",
    "CREATE INDEX migration_connectors_of_org ON migration_connectors (org_id, migration_id)",
    "CREATE INDEX migration_connectors_untold ON migration_connectors (migration_id, org_id) WHERE told_at IS NULL",
    "CREATE INDEX migration_connectors_unreminded ON migration_connectors (migration_id, org_id) \
     WHERE reminded_at IS NULL",
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // `deadline` is a day, as 2027-04-01. `remind_at` is null where nobody is to be reminded.
        let migrations = Table::create()
            .table("provider_migrations")
            .col(id())
            .col(text("provider"))
            .col(text_or_null("reason"))
            .col(text_or_null("deadline"))
            .col(flag("only_endless"))
            .col(at("started_at"))
            .col(at_or_null("remind_at"))
            .col(at_or_null("ended_at"))
            .take();
        manager.create_table(migrations).await?;

        // Whom it concerns, and the grant that each had then: whoever has another one by now has acted.
        let connectors = Table::create()
            .table("migration_connectors")
            .col(text("migration_id"))
            .col(text("connector_id"))
            .col(text("org_id"))
            .col(count("grant_sequence"))
            .col(at_or_null("told_at"))
            .col(at_or_null("reminded_at"))
            .primary_key(Index::create().col("connector_id").col("migration_id"))
            .foreign_key(&mut belongs("migration_connectors", "migration_id", "provider_migrations"))
            .foreign_key(&mut belongs("migration_connectors", "connector_id", "connectors"))
            .foreign_key(&mut belongs("migration_connectors", "org_id", "orgs"))
            .take();
        manager.create_table(connectors).await?;

        for index in INDEXES {
            manager.get_connection().execute_unprepared(index).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in ["migration_connectors", "provider_migrations"] {
            manager.drop_table(Table::drop().table(table).take()).await?;
        }
        Ok(())
    }
}
