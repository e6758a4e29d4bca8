//! Which tickets a run is about, the way from a ticket to what came in about it and to its runs, and why an event gave an agent
//! no run.

use sea_orm_migration::prelude::*;

use crate::columns::{belongs, json_or_null, text};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const BACKFILL: [&str; 3] = [
    // What is known of runs so far: the event that each is about, and the tickets that tools were called for.
    "INSERT INTO run_tickets (run_id, org_id, connector_id, ticket_id) \
     SELECT id, org_id, event -> 'connector' ->> 'id', event ->> 'ticket_id' FROM runs \
     WHERE event ->> 'ticket_id' IS NOT NULL AND event -> 'connector' ->> 'id' IS NOT NULL",
    "INSERT INTO run_tickets (run_id, org_id, connector_id, ticket_id) \
     SELECT DISTINCT s.run_id, r.org_id, s.connector_id, s.input ->> 'ticket_id' FROM run_steps s \
     JOIN runs r ON r.id = s.run_id WHERE s.connector_id IS NOT NULL AND s.input ->> 'ticket_id' IS NOT NULL \
     ON CONFLICT DO NOTHING",
    "CREATE INDEX run_tickets_by_ticket ON run_tickets (org_id, ticket_id, connector_id, run_id)",
];
const DELIVERIES: &str =
    "CREATE INDEX deliveries_of_ticket ON deliveries (org_id, subject, id) WHERE subject IS NOT NULL";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // The connector is no foreign key: a run says what it was about after that is gone.
        let tickets = Table::create()
            .table("run_tickets")
            .col(text("run_id"))
            .col(text("org_id"))
            .col(text("connector_id"))
            .col(text("ticket_id"))
            .primary_key(Index::create().col("run_id").col("connector_id").col("ticket_id"))
            .foreign_key(&mut belongs("run_tickets", "run_id", "runs"))
            .take();
        manager.create_table(tickets).await?;
        for statement in BACKFILL {
            manager.get_connection().execute_unprepared(statement).await?;
        }
        // Last, since webhooks wait from here to the end. `passed_over`: the connector's agents that got no run, each with its name and why.
        let mut passed_over = json_or_null("passed_over");
        manager.alter_table(Table::alter().table("deliveries").add_column(&mut passed_over).take()).await?;
        manager.get_connection().execute_unprepared(DELIVERIES).await.map(|_| ())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.get_connection().execute_unprepared("DROP INDEX deliveries_of_ticket").await?;
        manager.alter_table(Table::alter().table("deliveries").drop_column("passed_over").take()).await?;
        manager.drop_table(Table::drop().table("run_tickets").take()).await
    }
}
