//! What an org shows of itself on the pages behind its connect links, and where those may lead back to.

use sea_orm_migration::prelude::*;

use crate::columns::text_or_null;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const COLUMNS: [&str; 2] = ["colour", "return_origins"];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // `return_origins`: one per line, as a browser spells them.
        for column in COLUMNS {
            let table = Table::alter().table("orgs").add_column(text_or_null(column)).take();
            manager.alter_table(table).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for column in COLUMNS {
            manager.alter_table(Table::alter().table("orgs").drop_column(column).take()).await?;
        }
        Ok(())
    }
}
