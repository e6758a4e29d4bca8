//! A consent tells whether a key is asked for in its place, at providers that have both.

use sea_orm_migration::prelude::*;

use crate::columns::flag_or_null;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// Null in rows of replicas that do not know it yet: the provider's first way.
const COLUMN: &str = "by_key";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let add = Table::alter().table("connect_sessions").add_column(flag_or_null(COLUMN)).take();
        manager.alter_table(add).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.alter_table(Table::alter().table("connect_sessions").drop_column(COLUMN).take()).await
    }
}
