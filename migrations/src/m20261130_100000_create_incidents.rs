//! Providers that refuse so many at once that their verdicts are held.

use sea_orm_migration::prelude::*;

use crate::columns::{at, at_or_null, count};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let incidents = Table::create()
            .table("incidents")
            .col(ColumnDef::new("provider").text().not_null().primary_key())
            .col(at("since"))
            .col(at_or_null("passed_at"))
            .col(count("recovered"))
            .take();
        manager.create_table(incidents).await?;
        // Few are, and they are counted at each refusal.
        let held = "CREATE INDEX credentials_held ON credentials (id) WHERE degraded_class = 'held'";
        manager.get_connection().execute_unprepared(held).await.map(|_| ())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_index(Index::drop().name("credentials_held").table("credentials").to_owned()).await?;
        manager.drop_table(Table::drop().table("incidents").take()).await
    }
}
