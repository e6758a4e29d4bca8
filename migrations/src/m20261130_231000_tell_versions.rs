//! What a replica runs, for operators who upgrade.

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
        // Null: a replica of a release before.
        let table = Table::alter().table("replicas").add_column(text_or_null("version")).take();
        manager.alter_table(table).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.alter_table(Table::alter().table("replicas").drop_column("version").take()).await
    }
}
