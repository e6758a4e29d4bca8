//! When an access ends for good, and when people are to be told of it.

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
        for column in [at_or_null("ends_at"), at_or_null("warn_at")] {
            manager.alter_table(Table::alter().table("credentials").add_column(column).take()).await?;
        }
        let db = manager.get_connection();
        // Without a refresh token: the only ones that are known to end so far. The first look finds out when to warn.
        let ends = "UPDATE credentials SET ends_at = expires_at, warn_at = obtained_at \
                    WHERE kind = 'tokens' AND due_at IS NULL AND expires_at IS NOT NULL";
        db.execute_unprepared(ends).await?;
        db.execute_unprepared("CREATE INDEX credentials_warned ON credentials (warn_at) WHERE warn_at IS NOT NULL")
            .await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_index(Index::drop().name("credentials_warned").table("credentials").to_owned()).await?;
        for column in ["warn_at", "ends_at"] {
            manager.alter_table(Table::alter().table("credentials").drop_column(column).take()).await?;
        }
        Ok(())
    }
}
