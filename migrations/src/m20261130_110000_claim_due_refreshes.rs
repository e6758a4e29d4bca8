//! Due refreshes are claimed by provider: who is due is found by one index, and a claim is a row of its own, so that it
//! neither rewrites a sealed token nor tells anybody.

use sea_orm_migration::prelude::*;

use crate::columns::{at, belongs, count, flag, text, text_or_null};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// A back-off that ends later than the due time puts it off. What a person has to reconnect is not in the index at all.
const DUE: &str = "CREATE INDEX credentials_due ON credentials \
                   (provider, (CASE WHEN retry_at > due_at THEN retry_at ELSE due_at END)) \
                   WHERE due_at IS NOT NULL AND NOT parked";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // `provider` repeats the connectors' own, because an index reads one table; `parked` is set while every connector
        // on the credential has failed.
        for column in [text_or_null("provider"), flag("parked")] {
            manager.alter_table(Table::alter().table("credentials").add_column(column).take()).await?;
        }
        let db = manager.get_connection();
        for fill in [
            "UPDATE credentials SET provider = \
             (SELECT MIN(c.provider) FROM connectors c WHERE c.credential_id = credentials.id)",
            "UPDATE credentials SET parked = TRUE WHERE due_at IS NOT NULL AND NOT EXISTS \
             (SELECT 1 FROM connectors c WHERE c.credential_id = credentials.id AND c.health = 'connected')",
        ] {
            db.execute_unprepared(fill).await?;
        }
        manager.drop_index(Index::drop().name("credentials_by_due_at").table("credentials").to_owned()).await?;
        db.execute_unprepared(DUE).await?;

        // For one due moment: when that moves, the claim is void. Its end is the database's clock's.
        let claims = Table::create()
            .table("refresh_claims")
            .col(text("credential_id").primary_key().take())
            .col(at("due_at"))
            .col(text("holder"))
            .col(count("until_ms"))
            .foreign_key(&mut belongs("refresh_claims", "credential_id", "credentials"))
            .take();
        manager.create_table(claims).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("refresh_claims").take()).await?;
        manager.drop_index(Index::drop().name("credentials_due").table("credentials").to_owned()).await?;
        let due = Index::create().name("credentials_by_due_at").table("credentials").col("due_at").take();
        manager.create_index(due).await?;
        for column in ["parked", "provider"] {
            manager.alter_table(Table::alter().table("credentials").drop_column(column).take()).await?;
        }
        Ok(())
    }
}
