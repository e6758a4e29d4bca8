//! Agents that wait for events, and the runs that events give them.

use sea_orm_migration::prelude::*;

use crate::columns::{json_or_null, text_or_null};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const UP: [&str; 5] = [
    // Runs of events wait for each other as jobs do, so that an agent may have many of them open.
    "DROP INDEX runs_one_open",
    "CREATE UNIQUE INDEX runs_one_open ON runs (agent_id) WHERE ended_at IS NULL AND job_id IS NULL",
    "CREATE INDEX runs_of_jobs ON runs (job_id) WHERE ended_at IS NULL AND job_id IS NOT NULL",
    "CREATE INDEX runs_by_subject ON runs (agent_id, subject, queued_at) WHERE subject IS NOT NULL",
    "CREATE INDEX runs_of_deliveries ON runs (delivery_id) WHERE delivery_id IS NOT NULL",
];

const DOWN: [&str; 6] = [
    "DROP INDEX runs_of_deliveries",
    "DROP INDEX runs_by_subject",
    "DROP INDEX runs_of_jobs",
    "DROP INDEX runs_one_open",
    // Nothing else tells them from others.
    "DELETE FROM runs WHERE job_id IS NOT NULL",
    "CREATE UNIQUE INDEX runs_one_open ON runs (agent_id) WHERE ended_at IS NULL",
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // `author`: what they are; `author_id`: who, as the provider calls them. `on_events`: topics with commas between them.
        // `event`: what the playbook knows of it; `subject`: the ticket; `job_id`: the job that does the run.
        for (table, columns) in [
            ("deliveries", vec![text_or_null("author"), text_or_null("author_id")]),
            ("agents", vec![text_or_null("on_events")]),
            (
                "runs",
                vec![
                    json_or_null("event"),
                    text_or_null("delivery_id"),
                    text_or_null("subject"),
                    text_or_null("job_id"),
                ],
            ),
        ] {
            for mut column in columns {
                manager.alter_table(Table::alter().table(table).add_column(&mut column).take()).await?;
            }
        }
        for statement in UP {
            manager.get_connection().execute_unprepared(statement).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for statement in DOWN {
            manager.get_connection().execute_unprepared(statement).await?;
        }
        for (table, columns) in [
            ("runs", vec!["event", "delivery_id", "subject", "job_id"]),
            ("agents", vec!["on_events"]),
            ("deliveries", vec!["author", "author_id"]),
        ] {
            for column in columns {
                manager.alter_table(Table::alter().table(table).drop_column(column).take()).await?;
            }
        }
        Ok(())
    }
}
