//! Agents that run at times of a calendar.

use sea_orm_migration::prelude::*;

use crate::columns::{at_or_null, text_or_null};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const COLUMNS: [&str; 4] = ["cron", "cron_zone", "cron_missed", "missed_at"];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // `missed_at`: when it was due and could not run, until it can.
        let columns =
            [text_or_null("cron"), text_or_null("cron_zone"), text_or_null("cron_missed"), at_or_null("missed_at")];
        for mut column in columns {
            manager.alter_table(Table::alter().table("agents").add_column(&mut column).take()).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // Nothing else would make them due.
        manager.get_connection().execute_unprepared("UPDATE agents SET due_at = NULL WHERE cron IS NOT NULL").await?;
        for column in COLUMNS {
            manager.alter_table(Table::alter().table("agents").drop_column(column).take()).await?;
        }
        Ok(())
    }
}
