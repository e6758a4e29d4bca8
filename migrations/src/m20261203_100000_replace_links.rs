//! A link that was replaced by a later one is told apart from one that nobody knows.

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
        let replaced = at_or_null("replaced_at");
        manager.alter_table(Table::alter().table("account_links").add_column(replaced).take()).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // An older release would follow them.
        let gone = "DELETE FROM account_links WHERE replaced_at IS NOT NULL";
        manager.get_connection().execute_unprepared(gone).await?;
        manager.alter_table(Table::alter().table("account_links").drop_column("replaced_at").take()).await
    }
}
