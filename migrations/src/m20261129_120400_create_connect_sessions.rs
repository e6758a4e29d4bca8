//! Connect sessions: the link that an integrator hands out, the consent that was started from it, and its end.

use sea_orm_migration::prelude::*;

use crate::columns::{at, at_or_null, belongs, bytes, bytes_or_null, count, id, json_or_null, text, text_or_null};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // Link, state and browser are stored as SHA-256: who reads the table cannot use them.
        let sessions = Table::create()
            .table("connect_sessions")
            .col(id())
            .col(text("org_id"))
            .col(text("connector_id"))
            .col(bytes("link_hash").unique_key().take())
            .col(bytes_or_null("state_hash").unique_key().take())
            .col(bytes_or_null("browser_hash"))
            .col(bytes_or_null("sealed_verifier"))
            .col(text("purpose"))
            .col(text_or_null("return_url"))
            // The account that the person behind the link named, where the connector has none yet.
            .col(text_or_null("account"))
            .col(count("sequence"))
            .col(at("created_at"))
            .col(at("expires_at"))
            .col(at_or_null("state_expires_at"))
            .col(at_or_null("state_used_at"))
            .col(json_or_null("result"))
            .foreign_key(&mut belongs("connect_sessions", "org_id", "orgs"))
            .foreign_key(&mut belongs("connect_sessions", "connector_id", "connectors"))
            .take();
        manager.create_table(sessions).await?;
        let by_connector =
            Index::create().name("connect_sessions_by_connector").table("connect_sessions").col("connector_id").take();
        manager.create_index(by_connector).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("connect_sessions").take()).await
    }
}
