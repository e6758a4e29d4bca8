//! The queue: jobs, and each attempt at one that is over.

use sea_orm_migration::prelude::*;

use crate::columns::{at, at_or_null, belongs, count, id, json, text, text_or_null, unique};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const INDEXES: [&str; 8] = [
    // From one org with work to the next, and inside it from lane to lane, oldest first.
    "CREATE INDEX jobs_ready ON jobs (kind, org_id, lane, due_at, id) WHERE state = 'ready'",
    "CREATE INDEX jobs_waiting ON jobs (due_at) WHERE state = 'waiting'",
    "CREATE INDEX jobs_running ON jobs (kind, lane) WHERE state = 'running'",
    // What a change of the connector's health moves.
    "CREATE INDEX jobs_open ON jobs (lane, state, due_at, id) WHERE state IN ('ready', 'waiting', 'parked')",
    "CREATE INDEX jobs_parked ON jobs (parked_at) WHERE state = 'parked'",
    "CREATE INDEX jobs_dead ON jobs (org_id, id) WHERE state = 'dead'",
    "CREATE INDEX jobs_over ON jobs (state, ended_at) WHERE ended_at IS NOT NULL",
    "CREATE INDEX jobs_by_org ON jobs (org_id, id)",
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // `lane` is the connector of jobs that work with one, else `-`. `claim` grows with each claim and marks its
        // holder's acts; the lease ends by the database's clock. `attempts` are those that count. The connector is no
        // foreign key, because a job says what became of it after that is gone.
        let jobs = Table::create()
            .table("jobs")
            .col(id())
            .col(text("org_id"))
            .col(text("kind"))
            .col(text("key"))
            .col(text_or_null("connector_id"))
            .col(text("lane"))
            .col(text("subject"))
            .col(json("payload"))
            .col(text("state"))
            .col(at("due_at"))
            .col(count("attempts"))
            .col(count("claim"))
            .col(text_or_null("holder"))
            .col(count("lease_expires_at_ms"))
            .col(at("created_at"))
            .col(at_or_null("started_at"))
            .col(at_or_null("parked_at"))
            .col(at_or_null("ended_at"))
            .col(text_or_null("code"))
            .col(text_or_null("detail"))
            .col(text_or_null("actor"))
            .index(&mut unique(&["org_id", "kind", "key"]))
            .foreign_key(&mut belongs("jobs", "org_id", "orgs"))
            .take();
        manager.create_table(jobs).await?;
        for index in INDEXES {
            manager.get_connection().execute_unprepared(index).await?;
        }

        // `number` is the claim that it was made under.
        let attempts = Table::create()
            .table("job_attempts")
            .col(text("job_id"))
            .col(count("number"))
            .col(text_or_null("holder"))
            .col(at("started_at"))
            .col(at("ended_at"))
            .col(text("outcome"))
            .col(text_or_null("code"))
            .col(text_or_null("detail"))
            .primary_key(Index::create().col("job_id").col("number"))
            .foreign_key(&mut belongs("job_attempts", "job_id", "jobs"))
            .take();
        manager.create_table(attempts).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in ["job_attempts", "jobs"] {
            manager.drop_table(Table::drop().table(table).take()).await?;
        }
        Ok(())
    }
}
