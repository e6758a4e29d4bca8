//! Some accounts need more in each request than their name and a token: Xero's tenant id, Atlassian's cloud id. It is found
//! out at the consent, and stays with the token set.

use sea_orm_migration::prelude::*;

use crate::columns::json_or_null;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in ["credentials", "spares"] {
            // Null: nothing was found, or there was nothing to find.
            manager.alter_table(Table::alter().table(table).add_column(json_or_null("found")).take()).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in ["spares", "credentials"] {
            manager.alter_table(Table::alter().table(table).drop_column("found").take()).await?;
        }
        Ok(())
    }
}
