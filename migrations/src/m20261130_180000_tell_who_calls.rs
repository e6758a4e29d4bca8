//! A call of a tool under a key names the replica that makes it, so that a key whose owner died is known as such.

use sea_orm_migration::prelude::*;

use crate::columns::text_or_null;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // Null: a replica before this step took it.
        manager.alter_table(Table::alter().table("tool_calls").add_column(text_or_null("holder")).take()).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.alter_table(Table::alter().table("tool_calls").drop_column("holder").take()).await
    }
}
