//! A loop of a playbook that has a limit goes on in the next run with what it has left out: the items that were gone through
//! since it last came to the end.

use sea_orm_migration::prelude::*;

use crate::columns::{belongs, json, text};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let places = Table::create()
            .table("agent_places")
            .col(text("agent_id"))
            .col(text("step"))
            .col(json("seen"))
            .primary_key(Index::create().col("agent_id").col("step"))
            .foreign_key(&mut belongs("agent_places", "agent_id", "agents"))
            .take();
        manager.create_table(places).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("agent_places").take()).await
    }
}
