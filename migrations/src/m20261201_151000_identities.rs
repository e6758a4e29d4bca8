//! People as the operator's identity provider knows them, who is on the way there, and sessions that rest on it.

use sea_orm_migration::prelude::*;

use crate::columns::{at, bytes, flag, text, unique};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.alter_table(Table::alter().table("browser_sessions").add_column(flag("by_provider")).take()).await?;

        // By address: an identity is that of somebody in whichever orgs, and an address has one for each provider.
        let identities = Table::create()
            .table("identities")
            .col(text("issuer"))
            .col(text("subject"))
            .col(text("email"))
            .col(at("created_at"))
            .index(&mut unique(&["issuer", "subject"]))
            .index(&mut unique(&["issuer", "email"]))
            .take();
        manager.create_table(identities).await?;

        // `cookie_hash` is the SHA-256 of a cookie. Where they go on is sealed: a link to an invitation may stand in it.
        let ways = Table::create()
            .table("provider_sign_ins")
            .col(ColumnDef::new("cookie_hash").binary().not_null().primary_key())
            .col(bytes("sealed_next"))
            .col(at("expires_at"))
            .take();
        manager.create_table(ways).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in ["provider_sign_ins", "identities"] {
            manager.drop_table(Table::drop().table(table).take()).await?;
        }
        manager.alter_table(Table::alter().table("browser_sessions").drop_column("by_provider").take()).await
    }
}
