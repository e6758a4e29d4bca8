//! Second answers to one refresh token: a provider that takes a used token again for a while may issue two sets, and which of
//! them it goes on taking is known only later.

use sea_orm_migration::prelude::*;

use crate::columns::{at_or_null, belongs, bytes, count, flag, json, text, text_or_null};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // `version` is the one of the set that it is the other answer to; a spare of an older version serves nothing.
        let spares = Table::create()
            .table("spares")
            .col(text("credential_id").primary_key())
            .col(count("version"))
            .col(bytes("sealed"))
            .col(json("scopes"))
            .col(at_or_null("obtained_at"))
            .col(at_or_null("expires_at"))
            .col(flag("expires_assumed"))
            .col(at_or_null("refresh_expires_at"))
            .col(flag("refresh_end_fixed"))
            .col(text_or_null("base_url"))
            .foreign_key(&mut belongs("spares", "credential_id", "credentials"))
            .take();
        manager.create_table(spares).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("spares").take()).await
    }
}
