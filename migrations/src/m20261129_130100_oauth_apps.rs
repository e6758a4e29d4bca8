//! The instance's own OAuth apps, as operators set them in the web UI, and a signal when one changes.

use sea_orm_migration::{prelude::*, sea_orm::DbBackend};

use crate::columns::{at, at_or_null, bytes_or_null, count, text, text_or_null};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const UP: &str = "
CREATE FUNCTION holdfast_oauth_app_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('holdfast', 'app:' || COALESCE(NEW.provider, OLD.provider));
    RETURN NULL;
END $$;
CREATE TRIGGER oauth_apps_changed AFTER INSERT OR UPDATE OR DELETE ON oauth_apps
    FOR EACH ROW EXECUTE FUNCTION holdfast_oauth_app_changed();
";

const DOWN: &str = "
DROP TRIGGER oauth_apps_changed ON oauth_apps;
DROP FUNCTION holdfast_oauth_app_changed();
";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // The secrets are sealed for the instance. `..._checked_at` is when the provider last took them: null, it has not
        // been asked, or has not said. `revision` counts changes, so that none is made over one that was not seen.
        let apps = Table::create()
            .table("oauth_apps")
            .col(ColumnDef::new("provider").text().not_null().primary_key())
            .col(text("client_id"))
            .col(bytes_or_null("sealed_secret"))
            .col(at_or_null("secret_set_at"))
            .col(at_or_null("secret_checked_at"))
            .col(at_or_null("secret_expires_at"))
            .col(bytes_or_null("sealed_next_secret"))
            .col(at_or_null("next_set_at"))
            .col(at_or_null("next_checked_at"))
            .col(count("revision"))
            .col(text_or_null("changed_by"))
            .col(at("changed_at"))
            .take();
        manager.create_table(apps).await?;
        on_postgres(manager, UP).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        on_postgres(manager, DOWN).await?;
        manager.drop_table(Table::drop().table("oauth_apps").take()).await
    }
}

async fn on_postgres(manager: &SchemaManager<'_>, statements: &str) -> Result<(), DbErr> {
    if manager.get_database_backend() == DbBackend::Postgres {
        manager.get_connection().execute_unprepared(statements).await?;
    }
    Ok(())
}
