//! Signing in: sessions of browsers, what slows down guessing, and people who left.

use sea_orm_migration::prelude::*;

use crate::columns::{at, at_or_null, belongs, bytes, count, id, json, text, text_or_null};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // SQLite adds one column a statement. Who left keeps the row: the timeline names them.
        for column in [text_or_null("name"), at_or_null("removed_at")] {
            let alter = Table::alter().table("users").add_column(column).take();
            manager.alter_table(alter).await?;
        }
        // People sign in by address alone, without saying where.
        let by_email = Index::create().name("users_by_email").table("users").col("email").take();
        manager.create_index(by_email).await?;

        // `token_hash` is the SHA-256 of the cookie. `also` holds the ids of the same person's rows in other orgs whose
        // password was proven at sign-in.
        let sessions = Table::create()
            .table("browser_sessions")
            .col(id())
            .col(text("user_id"))
            .col(json("also"))
            .col(bytes("token_hash").unique_key().take())
            .col(text_or_null("browser"))
            .col(at("created_at"))
            .col(at("seen_at"))
            .col(at("expires_at"))
            .foreign_key(&mut belongs("browser_sessions", "user_id", "users"))
            .take();
        manager.create_table(sessions).await?;
        let by_user = Index::create().name("browser_sessions_by_user").table("browser_sessions").col("user_id").take();
        manager.create_index(by_user).await?;

        // `subject` is a hash of what is counted: an address, or where the request came from.
        let throttles = Table::create()
            .table("throttles")
            .col(ColumnDef::new("subject").binary().not_null().primary_key())
            .col(count("failures"))
            .col(at("last_at"))
            .take();
        manager.create_table(throttles).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in ["throttles", "browser_sessions"] {
            manager.drop_table(Table::drop().table(table).take()).await?;
        }
        manager.drop_index(Index::drop().name("users_by_email").table("users").to_owned()).await?;
        for column in ["name", "removed_at"] {
            manager.alter_table(Table::alter().table("users").drop_column(column).take()).await?;
        }
        Ok(())
    }
}
