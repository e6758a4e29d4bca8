//! Effects that are written with the change of health that calls for them, and the timeline of a connector.

use sea_orm_migration::prelude::*;

use crate::columns::{at, at_or_null, belongs, count, id, json, text, text_or_null};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // `key` is connector:epoch:effect: each effect once per change. The connector is not a foreign key, because
        // what has to follow a deletion outlives the row.
        let outbox = Table::create()
            .table("outbox")
            .col(id())
            .col(text("org_id"))
            .col(text("connector_id"))
            .col(count("epoch"))
            .col(text("effect"))
            .col(json("payload"))
            .col(text("key").unique_key().take())
            .col(at("created_at"))
            .col(at_or_null("done_at"))
            .foreign_key(&mut belongs("outbox", "org_id", "orgs"))
            .take();
        manager.create_table(outbox).await?;
        let by_connector = Index::create().name("outbox_by_connector").table("outbox").col("connector_id").take();
        manager.create_index(by_connector).await?;
        let undone = "CREATE INDEX outbox_undone ON outbox (created_at) WHERE done_at IS NULL";
        manager.get_connection().execute_unprepared(undone).await?;

        let timeline = Table::create()
            .table("timeline")
            .col(id())
            .col(text("org_id"))
            .col(text("connector_id"))
            .col(at("at"))
            .col(text("kind"))
            .col(text_or_null("outcome"))
            .col(text_or_null("actor"))
            .col(text_or_null("detail"))
            .col(ColumnDef::new("duration_ms").big_integer().null())
            .col(ColumnDef::new("version").big_integer().null())
            .foreign_key(&mut belongs("timeline", "org_id", "orgs"))
            .foreign_key(&mut belongs("timeline", "connector_id", "connectors"))
            .take();
        manager.create_table(timeline).await?;
        let by_connector = Index::create()
            .name("timeline_by_connector")
            .table("timeline")
            .col("connector_id")
            .col("at")
            .col("id")
            .take();
        manager.create_index(by_connector).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in ["timeline", "outbox"] {
            manager.drop_table(Table::drop().table(table).take()).await?;
        }
        Ok(())
    }
}
