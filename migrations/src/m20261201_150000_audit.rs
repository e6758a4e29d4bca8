//! What people, keys, the command line and links changed. Rows are added and nothing else: the database itself refuses to
//! change or to delete one.

use sea_orm_migration::{prelude::*, sea_orm::DbBackend};

use crate::columns::{at, json_or_null, refers, text, text_or_null};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const INDEXES: [&str; 1] = ["CREATE INDEX audit_log_by_org ON audit_log (org_id, number)"];

const SQLITE: &str = "
CREATE TRIGGER audit_log_stays BEFORE UPDATE ON audit_log BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER audit_log_lasts BEFORE DELETE ON audit_log BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
";

const POSTGRES: &str = "
CREATE FUNCTION holdfast_audit_log_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log is append-only';
END $$;
CREATE TRIGGER audit_log_stays BEFORE UPDATE OR DELETE ON audit_log
    FOR EACH ROW EXECUTE FUNCTION holdfast_audit_log_stays();
";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // `number` is the order in which lines were written, also within a moment. `org_id` is null for what concerns the whole instance. `before` and `after` hold the fields that changed.
        let table = Table::create()
            .table("audit_log")
            .col(ColumnDef::new("number").big_integer().not_null().auto_increment().primary_key())
            .col(text("id").unique_key())
            .col(text_or_null("org_id"))
            .col(at("at"))
            .col(text("action"))
            .col(text("actor_kind"))
            .col(text_or_null("actor_id"))
            .col(text("actor_name"))
            .col(text("surface"))
            .col(text_or_null("address"))
            .col(text("target_kind"))
            .col(text("target_id"))
            .col(text("target_name"))
            .col(json_or_null("before"))
            .col(json_or_null("after"))
            .foreign_key(&mut refers("audit_log", "org_id", "orgs"))
            .take();
        manager.create_table(table).await?;
        let connection = manager.get_connection();
        for index in INDEXES {
            connection.execute_unprepared(index).await?;
        }
        let triggers = if manager.get_database_backend() == DbBackend::Postgres { POSTGRES } else { SQLITE };
        connection.execute_unprepared(triggers).await.map(|_| ())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("audit_log").take()).await?;
        if manager.get_database_backend() == DbBackend::Postgres {
            manager.get_connection().execute_unprepared("DROP FUNCTION holdfast_audit_log_stays()").await?;
        }
        Ok(())
    }
}
