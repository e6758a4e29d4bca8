//! What pages need: who started a consent and how far it is, what the last test said, lists by name, and signals that
//! tell of it.

use sea_orm_migration::{prelude::*, sea_orm::DbBackend};

use crate::columns::{json_or_null, text_or_null};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// Lines of the timeline and steps of a consent are shown while they happen, on every replica.
const SIGNALS: &str = "
CREATE FUNCTION holdfast_part_of_connector_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('holdfast', 'connector:' || NEW.connector_id);
    RETURN NULL;
END $$;
CREATE TRIGGER timeline_written AFTER INSERT ON timeline
    FOR EACH ROW EXECUTE FUNCTION holdfast_part_of_connector_changed();
CREATE TRIGGER connect_sessions_changed AFTER UPDATE ON connect_sessions
    FOR EACH ROW EXECUTE FUNCTION holdfast_part_of_connector_changed();
";

const NO_SIGNALS: &str = "
DROP TRIGGER connect_sessions_changed ON connect_sessions;
DROP TRIGGER timeline_written ON timeline;
DROP FUNCTION holdfast_part_of_connector_changed();
";

/// The same order on both databases: by bytes, capitals and small letters alike.
const BY_NAME: [&str; 2] = [
    "CREATE INDEX connectors_by_name ON connectors (org_id, (lower(name) COLLATE \"C\"), id)",
    "CREATE INDEX connectors_by_name ON connectors (org_id, lower(name), id)",
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // `user_id` is who started it in the web UI, where somebody did. No reference: who left keeps the row, and SQLite
        // adds none to a table that is there.
        for column in [text_or_null("user_id"), json_or_null("progress")] {
            manager.alter_table(Table::alter().table("connect_sessions").add_column(column).take()).await?;
        }
        manager.alter_table(Table::alter().table("connectors").add_column(json_or_null("last_test")).take()).await?;
        let postgres = manager.get_database_backend() == DbBackend::Postgres;
        manager.get_connection().execute_unprepared(BY_NAME[usize::from(!postgres)]).await?;
        if postgres {
            manager.get_connection().execute_unprepared(SIGNALS).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        if manager.get_database_backend() == DbBackend::Postgres {
            manager.get_connection().execute_unprepared(NO_SIGNALS).await?;
        }
        manager.drop_index(Index::drop().name("connectors_by_name").table("connectors").to_owned()).await?;
        manager.alter_table(Table::alter().table("connectors").drop_column("last_test").take()).await?;
        for column in ["user_id", "progress"] {
            manager.alter_table(Table::alter().table("connect_sessions").drop_column(column).take()).await?;
        }
        Ok(())
    }
}
