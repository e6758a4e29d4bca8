//! Webhooks: the addresses that providers send to, what arrived there, and what was turned away.

use sea_orm_migration::prelude::*;

use crate::columns::{at, at_or_null, belongs, bytes_or_null, count, id, json, text, text_or_null, unique};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const INDEXES: [&str; 10] = [
    // One address serves all accounts of an OAuth app: a delivery says whose it is.
    "CREATE INDEX connectors_by_told_account ON connectors (provider, account)",
    "CREATE INDEX connectors_by_identity ON connectors (provider, (identity ->> 'id'))",
    "CREATE UNIQUE INDEX webhook_endpoints_of_connector ON webhook_endpoints (connector_id, kind) \
     WHERE connector_id IS NOT NULL AND deleted_at IS NULL",
    "CREATE UNIQUE INDEX webhook_endpoints_of_app ON webhook_endpoints (app, kind) WHERE app IS NOT NULL",
    "CREATE INDEX webhook_endpoints_to_tell ON webhook_endpoints (org_id) \
     WHERE gone_at IS NOT NULL OR warned_at IS NOT NULL",
    "CREATE INDEX deliveries_of_org ON deliveries (org_id, id)",
    "CREATE INDEX deliveries_of_connector ON deliveries (connector_id, id)",
    "CREATE INDEX deliveries_parked ON deliveries (connector_id) WHERE state = 'parked'",
    // Events that are not done, by their jobs.
    "CREATE INDEX deliveries_open ON deliveries (job_id) WHERE state IN ('received', 'parked')",
    "CREATE INDEX deliveries_by_age ON deliveries (received_at)",
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // Of a connector, or of an OAuth app; `org_id` is null for the instance's app. The connector is no foreign key: a
        // sender who still knows the address of a deleted one is told that it is gone for good.
        // `refused`: proven deliveries that were turned away in a row. `failures`: all that were, proven or not.
        let endpoints = Table::create()
            .table("webhook_endpoints")
            .col(id())
            .col(text_or_null("org_id"))
            .col(text_or_null("connector_id"))
            .col(text_or_null("app"))
            .col(text("provider"))
            .col(text("kind"))
            .col(bytes_or_null("sealed_secret"))
            .col(bytes_or_null("sealed_previous"))
            .col(at_or_null("previous_until"))
            .col(at("created_at"))
            .col(at_or_null("first_at"))
            .col(at_or_null("accepted_at"))
            .col(count("refused"))
            .col(at_or_null("refused_since"))
            .col(at_or_null("gone_at"))
            .col(at_or_null("gone_told_at"))
            .col(count("failures"))
            .col(at_or_null("failing_since"))
            .col(at_or_null("warned_at"))
            .col(at_or_null("warn_told_at"))
            .col(at_or_null("deleted_at"))
            .foreign_key(&mut belongs("webhook_endpoints", "org_id", "orgs"))
            .take();
        manager.create_table(endpoints).await?;

        // The unique key is the promise: one event of a connector is taken once, on whatever replica it arrives.
        let deliveries = Table::create()
            .table("deliveries")
            .col(id())
            .col(text("org_id"))
            .col(text("connector_id"))
            .col(text("endpoint_id"))
            .col(text("dedupe"))
            .col(text("topic"))
            .col(text("kind"))
            .col(text_or_null("subject"))
            .col(text("state"))
            .col(text_or_null("detail"))
            .col(text_or_null("job_id"))
            .col(count("repeats"))
            .col(count("size_bytes"))
            .col(json("headers"))
            .col(bytes_or_null("sealed_body"))
            .col(at("received_at"))
            .col(at_or_null("settled_at"))
            .foreign_key(&mut belongs("deliveries", "org_id", "orgs"))
            .foreign_key(&mut belongs("deliveries", "connector_id", "connectors"))
            .index(&mut unique(&["connector_id", "dedupe"]))
            .take();
        manager.create_table(deliveries).await?;

        // One row for each reason: a flood makes no more of them.
        let rejections = Table::create()
            .table("webhook_rejections")
            .col(text("endpoint_id"))
            .col(text("reason"))
            .col(count("count"))
            .col(at("first_at"))
            .col(at("last_at"))
            .col(json("samples"))
            .primary_key(Index::create().col("endpoint_id").col("reason"))
            .foreign_key(&mut belongs("webhook_rejections", "endpoint_id", "webhook_endpoints"))
            .take();
        manager.create_table(rejections).await?;

        for index in INDEXES {
            manager.get_connection().execute_unprepared(index).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for index in ["connectors_by_told_account", "connectors_by_identity"] {
            manager.drop_index(Index::drop().name(index).table("connectors").to_owned()).await?;
        }
        for table in ["webhook_rejections", "deliveries", "webhook_endpoints"] {
            manager.drop_table(Table::drop().table(table).take()).await?;
        }
        Ok(())
    }
}
