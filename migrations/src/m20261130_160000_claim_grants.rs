//! Consents whose codes were exchanged and whose grants are not stored yet, and grants that are being given back: at some
//! providers the one ends the other.

use sea_orm_migration::prelude::*;

use crate::columns::{at, belongs, count, id, text, text_or_null};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // `id` is the consent's, session and sequence. Without a connector, something is being given back.
        let claims = Table::create()
            .table("grant_claims")
            .col(id())
            .col(text("provider"))
            .col(text("account"))
            .col(text_or_null("connector_id"))
            .col(count("sequence"))
            .col(at("taken_at"))
            .foreign_key(&mut belongs("grant_claims", "connector_id", "connectors"))
            .take();
        manager.create_table(claims).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("grant_claims").take()).await
    }
}
