//! On PostgreSQL, triggers that tell every replica what changed: no writer can forget it, it costs no statement, and
//! it is heard at commit, never before. On SQLite there is one process, which tells itself.

use sea_orm_migration::{prelude::*, sea_orm::DbBackend};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const UP: &str = "
CREATE FUNCTION holdfast_connector_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('holdfast', 'connector:' || COALESCE(NEW.id, OLD.id));
    RETURN NULL;
END $$;
CREATE FUNCTION holdfast_credential_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('holdfast', 'connector:' || connectors.id)
        FROM connectors WHERE connectors.credential_id = COALESCE(NEW.id, OLD.id);
    RETURN NULL;
END $$;
CREATE FUNCTION holdfast_api_key_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('holdfast', 'key:' || COALESCE(NEW.id, OLD.id));
    RETURN NULL;
END $$;
CREATE TRIGGER connectors_changed AFTER INSERT OR UPDATE OR DELETE ON connectors
    FOR EACH ROW EXECUTE FUNCTION holdfast_connector_changed();
CREATE TRIGGER credentials_changed AFTER INSERT OR UPDATE OR DELETE ON credentials
    FOR EACH ROW EXECUTE FUNCTION holdfast_credential_changed();
CREATE TRIGGER api_keys_changed AFTER INSERT OR UPDATE OR DELETE ON api_keys
    FOR EACH ROW EXECUTE FUNCTION holdfast_api_key_changed();
";

const DOWN: &str = "
DROP TRIGGER connectors_changed ON connectors;
DROP TRIGGER credentials_changed ON credentials;
DROP TRIGGER api_keys_changed ON api_keys;
DROP FUNCTION holdfast_connector_changed();
DROP FUNCTION holdfast_credential_changed();
DROP FUNCTION holdfast_api_key_changed();
";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        run(manager, UP).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        run(manager, DOWN).await
    }
}

async fn run(manager: &SchemaManager<'_>, statements: &str) -> Result<(), DbErr> {
    if manager.get_database_backend() == DbBackend::Postgres {
        manager.get_connection().execute_unprepared(statements).await?;
    }
    Ok(())
}
