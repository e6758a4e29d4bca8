//! A call of a tool whose outcome is unknown may be made once more where the provider knows its key again: when the key was
//! first used, and when the last attempt under it began.

use sea_orm_migration::prelude::*;

use crate::columns::at_or_null;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // Null: there was one attempt, at `created_at`.
        manager.alter_table(Table::alter().table("tool_calls").add_column(at_or_null("taken_at")).take()).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.alter_table(Table::alter().table("tool_calls").drop_column("taken_at").take()).await
    }
}
