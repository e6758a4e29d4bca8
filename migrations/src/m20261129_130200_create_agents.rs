//! Agents, the connectors that they are bound to, what stops them, their runs with each step; and calls of tools that
//! were made under an idempotency key.

use sea_orm_migration::{prelude::*, sea_orm::DbBackend};

use crate::columns::{at, at_or_null, belongs, bytes, count, flag, id, json, json_or_null, text, text_or_null};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const UP: &str = "
CREATE FUNCTION holdfast_agent_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('holdfast', 'agent:' || COALESCE(NEW.id, OLD.id));
    RETURN NULL;
END $$;
CREATE FUNCTION holdfast_agent_part_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('holdfast', 'agent:' || COALESCE(NEW.agent_id, OLD.agent_id));
    RETURN NULL;
END $$;
CREATE TRIGGER agents_changed AFTER INSERT OR UPDATE OR DELETE ON agents
    FOR EACH ROW EXECUTE FUNCTION holdfast_agent_changed();
CREATE TRIGGER agent_connectors_changed AFTER INSERT OR UPDATE OR DELETE ON agent_connectors
    FOR EACH ROW EXECUTE FUNCTION holdfast_agent_part_changed();
CREATE TRIGGER agent_stops_changed AFTER INSERT OR UPDATE OR DELETE ON agent_stops
    FOR EACH ROW EXECUTE FUNCTION holdfast_agent_part_changed();
CREATE TRIGGER runs_changed AFTER INSERT OR UPDATE ON runs
    FOR EACH ROW EXECUTE FUNCTION holdfast_agent_part_changed();
CREATE TRIGGER run_steps_changed AFTER INSERT OR UPDATE ON run_steps
    FOR EACH ROW EXECUTE FUNCTION holdfast_agent_part_changed();
";

const DOWN: &str = "
DROP TRIGGER run_steps_changed ON run_steps;
DROP TRIGGER runs_changed ON runs;
DROP TRIGGER agent_stops_changed ON agent_stops;
DROP TRIGGER agent_connectors_changed ON agent_connectors;
DROP TRIGGER agents_changed ON agents;
DROP FUNCTION holdfast_agent_part_changed();
DROP FUNCTION holdfast_agent_changed();
";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let db = manager.get_connection();
        // `due_at` is empty while the agent is paused or stopped, so that looking for what is due meets only what is.
        let agents = Table::create()
            .table("agents")
            .col(id())
            .col(text("org_id"))
            .col(text("name"))
            .col(json("runner"))
            .col(ColumnDef::new("every_secs").big_integer().null())
            .col(at_or_null("due_at"))
            .col(at_or_null("paused_at"))
            .col(text_or_null("paused_by"))
            .col(at("created_at"))
            .foreign_key(&mut belongs("agents", "org_id", "orgs"))
            .take();
        manager.create_table(agents).await?;
        let by_org = Index::create().name("agents_by_org").table("agents").col("org_id").col("id").take();
        manager.create_index(by_org).await?;
        db.execute_unprepared("CREATE INDEX agents_due ON agents (due_at) WHERE due_at IS NOT NULL").await?;

        // `role` is what the playbook calls the connector; `tools` is what the agent may use on it.
        let bindings = Table::create()
            .table("agent_connectors")
            .col(text("agent_id"))
            .col(text("role"))
            .col(text("connector_id"))
            .col(json("tools"))
            .primary_key(Index::create().col("agent_id").col("role"))
            .foreign_key(&mut belongs("agent_connectors", "agent_id", "agents"))
            .foreign_key(&mut belongs("agent_connectors", "connector_id", "connectors"))
            .take();
        manager.create_table(bindings).await?;
        let by_connector =
            Index::create().name("agent_connectors_by_connector").table("agent_connectors").col("connector_id").take();
        manager.create_index(by_connector).await?;

        // One row per cause. The connector is no foreign key and its name is kept, because the cause outlives it.
        let stops = Table::create()
            .table("agent_stops")
            .col(text("agent_id"))
            .col(text("connector_id"))
            .col(count("epoch"))
            .col(text("reason"))
            .col(text("provider"))
            .col(text("account"))
            .col(at("stopped_at"))
            .primary_key(Index::create().col("agent_id").col("connector_id"))
            .foreign_key(&mut belongs("agent_stops", "agent_id", "agents"))
            .take();
        manager.create_table(stops).await?;
        let by_connector =
            Index::create().name("agent_stops_by_connector").table("agent_stops").col("connector_id").take();
        manager.create_index(by_connector).await?;

        // `claim` grows with each claim and marks its holder's acts; the lease ends by the database's clock.
        let runs = Table::create()
            .table("runs")
            .col(id())
            .col(text("org_id"))
            .col(text("agent_id"))
            .col(text("state"))
            .col(text_or_null("actor"))
            .col(flag("dry"))
            .col(at("queued_at"))
            .col(at_or_null("started_at"))
            .col(at_or_null("ended_at"))
            .col(text_or_null("holder"))
            .col(count("claim"))
            .col(count("lease_expires_at_ms"))
            .col(text_or_null("code"))
            .col(text_or_null("detail"))
            .col(text_or_null("connector_id"))
            .col(count("calls"))
            .col(count("writes"))
            .col(count("failures"))
            .foreign_key(&mut belongs("runs", "org_id", "orgs"))
            .foreign_key(&mut belongs("runs", "agent_id", "agents"))
            .take();
        manager.create_table(runs).await?;
        let by_agent = Index::create().name("runs_by_agent").table("runs").col("agent_id").col("id").take();
        manager.create_index(by_agent).await?;
        for index in [
            // An agent never runs twice at once.
            "CREATE UNIQUE INDEX runs_one_open ON runs (agent_id) WHERE ended_at IS NULL",
            "CREATE INDEX runs_queued ON runs (queued_at) WHERE state = 'queued'",
            "CREATE INDEX runs_running ON runs (lease_expires_at_ms) WHERE state = 'running'",
        ] {
            db.execute_unprepared(index).await?;
        }

        // Inputs and outputs are kept masked and shortened.
        let run_steps = Table::create()
            .table("run_steps")
            .col(text("run_id"))
            .col(count("position"))
            .col(text("agent_id"))
            .col(text("step"))
            .col(text_or_null("title"))
            .col(text_or_null("item"))
            .col(text_or_null("tool"))
            .col(text_or_null("access"))
            .col(text_or_null("connector_id"))
            .col(json_or_null("input"))
            .col(json_or_null("output"))
            .col(text_or_null("outcome"))
            .col(text_or_null("code"))
            .col(text_or_null("detail"))
            .col(at("started_at"))
            .col(ColumnDef::new("duration_ms").big_integer().null())
            .primary_key(Index::create().col("run_id").col("position"))
            .foreign_key(&mut belongs("run_steps", "run_id", "runs"))
            .take();
        manager.create_table(run_steps).await?;

        // `result` is empty while the call is under way, and when nobody knows how it ended.
        let calls = Table::create()
            .table("tool_calls")
            .col(text("org_id"))
            .col(text("key"))
            .col(bytes("request_hash"))
            .col(text("state"))
            .col(json_or_null("result"))
            .col(at("created_at"))
            .primary_key(Index::create().col("org_id").col("key"))
            .foreign_key(&mut belongs("tool_calls", "org_id", "orgs"))
            .take();
        manager.create_table(calls).await?;
        let by_age = Index::create().name("tool_calls_by_age").table("tool_calls").col("created_at").take();
        manager.create_index(by_age).await?;

        triggers(manager, UP).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        triggers(manager, DOWN).await?;
        for table in ["tool_calls", "run_steps", "runs", "agent_stops", "agent_connectors", "agents"] {
            manager.drop_table(Table::drop().table(table).take()).await?;
        }
        Ok(())
    }
}

/// On PostgreSQL alone: on SQLite there is one process, which tells itself.
async fn triggers(manager: &SchemaManager<'_>, statements: &str) -> Result<(), DbErr> {
    if manager.get_database_backend() == DbBackend::Postgres {
        manager.get_connection().execute_unprepared(statements).await?;
    }
    Ok(())
}
