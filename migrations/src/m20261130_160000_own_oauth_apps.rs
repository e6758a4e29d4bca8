//! OAuth apps of single orgs, and which app a consent was begun with.
//!
//! From here on `provider` of `credentials`, `incidents` and `app_troubles` names an OAuth app: by the provider's id the
//! instance's, and `PROVIDER:ORG:CLIENT_ID` an org's own. A replica that does not know those yet looks for plain ids, so that
//! its scheduler leaves such credentials alone.

use sea_orm_migration::{prelude::*, sea_orm::DbBackend};

use crate::columns::{at, at_or_null, belongs, bytes_or_null, count, text, text_or_null};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const UP: &str = "CREATE TRIGGER own_oauth_apps_changed AFTER INSERT OR UPDATE OR DELETE ON own_oauth_apps \
                  FOR EACH ROW EXECUTE FUNCTION holdfast_oauth_app_changed()";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // As `oauth_apps`, with secrets sealed for the org.
        let apps = Table::create()
            .table("own_oauth_apps")
            .col(text("org_id"))
            .col(text("provider"))
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
            .primary_key(Index::create().col("org_id").col("provider"))
            .foreign_key(&mut belongs("own_oauth_apps", "org_id", "orgs"))
            .take();
        manager.create_table(apps).await?;
        if manager.get_database_backend() == DbBackend::Postgres {
            manager.get_connection().execute_unprepared(UP).await?;
        }
        // Null: no consent was begun, or by a replica that knows the instance's apps alone.
        let app = Table::alter().table("connect_sessions").add_column(text_or_null("app")).take();
        manager.alter_table(app).await
    }

    /// What was connected with an own app is left as it is: no other app renews it.
    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.alter_table(Table::alter().table("connect_sessions").drop_column("app").take()).await?;
        manager.drop_table(Table::drop().table("own_oauth_apps").take()).await
    }
}
