//! Consents tell how they were begun, and which replica works them off.

use sea_orm_migration::prelude::*;

use crate::columns::text_or_null;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// `way`: by link, from a mail, or by somebody who is signed in; null in rows of replicas that do not know it yet, where
/// a `user_id` means signed in. `worker`: the replica that took the state; no reference, since replicas are forgotten.
const COLUMNS: [&str; 2] = ["way", "worker"];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for column in COLUMNS {
            let add = Table::alter().table("connect_sessions").add_column(text_or_null(column)).take();
            manager.alter_table(add).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for column in COLUMNS {
            manager.alter_table(Table::alter().table("connect_sessions").drop_column(column).take()).await?;
        }
        Ok(())
    }
}
