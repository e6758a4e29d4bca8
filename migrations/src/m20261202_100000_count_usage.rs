//! What each connector was used for, by day; and the way to an org's changes of health.

use sea_orm_migration::prelude::*;

use crate::columns::{at, belongs, count, text};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const INDEXES: [&str; 2] = [
    "CREATE INDEX connector_usage_by_day ON connector_usage (day)",
    "CREATE INDEX timeline_of_health ON timeline (org_id, \"at\") \
     WHERE kind IN ('health', 'connected', 'reconnected')",
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let usage = Table::create()
            .table("connector_usage")
            .col(text("connector_id"))
            .col(text("day"))
            .col(count("calls"))
            .col(count("failed"))
            .col(count("tokens"))
            .col(at("last_at"))
            .primary_key(Index::create().col("connector_id").col("day"))
            .foreign_key(&mut belongs("connector_usage", "connector_id", "connectors"))
            .take();
        manager.create_table(usage).await?;
        for index in INDEXES {
            manager.get_connection().execute_unprepared(index).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.get_connection().execute_unprepared("DROP INDEX timeline_of_health").await?;
        manager.drop_table(Table::drop().table("connector_usage").take()).await
    }
}
