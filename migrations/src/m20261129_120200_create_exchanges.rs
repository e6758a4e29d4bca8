//! Leases, the journal of exchanges, and the signs of life that tell a slow owner from a lost one.

use sea_orm_migration::prelude::*;

use crate::columns::{at, at_or_null, belongs, count, id, text, text_or_null};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // Times end in `_ms` where they are the database's: milliseconds since 1970. A released lease keeps its row,
        // so that the fencing token never starts again.
        let leases = Table::create()
            .table("leases")
            .col(ColumnDef::new("credential_id").text().not_null().primary_key())
            .col(text("holder"))
            .col(count("fencing_token"))
            .col(count("expires_at_ms"))
            .take();
        manager.create_table(leases).await?;

        // No foreign key to the credential: it outlives its connectors, with which these rows go, and the check at its
        // deletion would read the whole table.
        let exchanges = Table::create()
            .table("exchanges")
            .col(id())
            .col(text("org_id"))
            .col(text("connector_id"))
            .col(text("credential_id"))
            .col(count("version"))
            .col(text("holder"))
            .col(count("fencing_token"))
            .col(count("lease_expires_at_ms"))
            .col(text("trigger"))
            .col(at("started_at"))
            .col(at_or_null("closed_at"))
            .col(text_or_null("outcome"))
            .col(text_or_null("detail"))
            .col(count("sends"))
            .col(count("duration_ms"))
            .foreign_key(&mut belongs("exchanges", "org_id", "orgs"))
            .foreign_key(&mut belongs("exchanges", "connector_id", "connectors"))
            .take();
        manager.create_table(exchanges).await?;
        // What keeps a second exchange out even where the lease store fails: one open row per credential.
        let one_open = "CREATE UNIQUE INDEX exchanges_one_open ON exchanges (credential_id) WHERE closed_at IS NULL";
        manager.get_connection().execute_unprepared(one_open).await?;
        let timeline = Index::create()
            .name("exchanges_by_connector")
            .table("exchanges")
            .col("connector_id")
            .col("started_at")
            .col("id")
            .take();
        manager.create_index(timeline).await?;

        let replicas =
            Table::create().table("replicas").col(id()).col(count("started_at_ms")).col(count("seen_at_ms")).take();
        manager.create_table(replicas).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in ["replicas", "exchanges", "leases"] {
            manager.drop_table(Table::drop().table(table).take()).await?;
        }
        Ok(())
    }
}
