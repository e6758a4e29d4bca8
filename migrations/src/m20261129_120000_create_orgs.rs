//! The instance, orgs with their data keys, people, and the keys that callers of the API show.

use sea_orm_migration::prelude::*;

use crate::columns::{at, at_or_null, belongs, bytes, flag, id, json, text, text_or_null, unique};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // Key and value; holds the canary that tells a wrong master key.
        let instance = Table::create()
            .table("instance")
            .col(ColumnDef::new("key").text().not_null().primary_key())
            .col(bytes("value"))
            .take();
        manager.create_table(instance).await?;

        let orgs = Table::create()
            .table("orgs")
            .col(id())
            .col(text("name").unique_key().take())
            .col(bytes("sealed_data_key"))
            .col(at("created_at"))
            .take();
        manager.create_table(orgs).await?;

        // `email` is stored in lower case.
        let users = Table::create()
            .table("users")
            .col(id())
            .col(text("org_id"))
            .col(text("email"))
            .col(text("role"))
            .col(flag("operator"))
            .col(text_or_null("password_hash"))
            .col(at("created_at"))
            .foreign_key(&mut belongs("users", "org_id", "orgs"))
            .index(&mut unique(&["org_id", "email"]))
            .take();
        manager.create_table(users).await?;

        // `hash` is the SHA-256 of the key: it has the entropy that makes a slow hash needless.
        let api_keys = Table::create()
            .table("api_keys")
            .col(id())
            .col(text("org_id"))
            .col(text("name"))
            .col(bytes("hash").unique_key().take())
            .col(json("scopes"))
            .col(at("created_at"))
            .col(at_or_null("revoked_at"))
            .foreign_key(&mut belongs("api_keys", "org_id", "orgs"))
            .take();
        manager.create_table(api_keys).await?;
        let by_org = Index::create().name("api_keys_by_org").table("api_keys").col("org_id").take();
        manager.create_index(by_org).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in ["api_keys", "users", "orgs", "instance"] {
            manager.drop_table(Table::drop().table(table).take()).await?;
        }
        Ok(())
    }
}
