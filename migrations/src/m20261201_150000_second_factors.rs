//! A second factor for people who sign in: its secret, the codes for whoever loses it, what is being set up, sign-ins of which
//! one half is done, and whether an org's people have to have one.

use sea_orm_migration::prelude::*;

use crate::columns::{at, at_or_null, belongs, bytes, flag, id, json, text, unique};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.alter_table(Table::alter().table("orgs").add_column(flag("second_factor_required")).take()).await?;

        // By address: who is in several orgs has one. `last_step` is the step of the last code that was used; a code of it
        // or of one before is not taken.
        let factors = Table::create()
            .table("second_factors")
            .col(id())
            .col(text("email").unique_key())
            .col(bytes("sealed_secret"))
            .col(ColumnDef::new("last_step").big_integer().not_null())
            .col(at("created_at"))
            .take();
        manager.create_table(factors).await?;

        // `hash` is the SHA-256 of a code.
        let codes = Table::create()
            .table("recovery_codes")
            .col(text("factor_id"))
            .col(bytes("hash"))
            .col(at_or_null("used_at"))
            .foreign_key(&mut belongs("recovery_codes", "factor_id", "second_factors"))
            .index(&mut unique(&["factor_id", "hash"]))
            .take();
        manager.create_table(codes).await?;

        let setups = Table::create()
            .table("second_factor_setups")
            .col(ColumnDef::new("session_id").text().not_null().primary_key())
            .col(bytes("sealed_secret"))
            .col(at("created_at"))
            .foreign_key(&mut belongs("second_factor_setups", "session_id", "browser_sessions"))
            .take();
        manager.create_table(setups).await?;

        // `cookie_hash` is the SHA-256 of a cookie. Where they go on is sealed: a link to an invitation may stand in it.
        let halves = Table::create()
            .table("half_sign_ins")
            .col(ColumnDef::new("cookie_hash").binary().not_null().primary_key())
            .col(text("user_id"))
            .col(json("also"))
            .col(bytes("sealed_next"))
            .col(at("expires_at"))
            .foreign_key(&mut belongs("half_sign_ins", "user_id", "users"))
            .take();
        manager.create_table(halves).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in ["half_sign_ins", "second_factor_setups", "recovery_codes", "second_factors"] {
            manager.drop_table(Table::drop().table(table).take()).await?;
        }
        manager.alter_table(Table::alter().table("orgs").drop_column("second_factor_required").take()).await
    }
}
