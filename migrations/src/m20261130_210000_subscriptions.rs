//! What makes providers send: whether it is wanted, how it was found there, and when to look again.

use sea_orm_migration::prelude::*;

use crate::columns::{at_or_null, flag, json_or_null, text_or_null};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLE: &str = "webhook_endpoints";

const INDEXES: [(&str, &str); 3] = [
    (
        "webhook_endpoints_to_look_at",
        "CREATE INDEX webhook_endpoints_to_look_at ON webhook_endpoints (look_at) WHERE look_at IS NOT NULL",
    ),
    (
        "webhook_endpoints_alarming",
        "CREATE INDEX webhook_endpoints_alarming ON webhook_endpoints (alarm_at) \
         WHERE alarm_at IS NOT NULL AND alarm_told_at IS NULL",
    ),
    (
        "outbox_webhooks_to_make",
        "CREATE INDEX outbox_webhooks_to_make ON outbox (created_at) WHERE effect = 'make_webhooks' AND done_at IS NULL",
    ),
];

/// `receive`: a person wants events, and the provider's side is kept here. `standing`: how that was found at `looked_at`,
/// since `standing_since`, and `standing_words` why; null: nobody has looked. `known`: the subscriptions as they were
/// seen. `look_at` is null where nobody has to look: none is wanted, or the connector does not work.
fn columns() -> [ColumnDef; 10] {
    [
        flag("receive"),
        text_or_null("standing"),
        text_or_null("standing_words"),
        at_or_null("standing_since"),
        json_or_null("known"),
        at_or_null("looked_at"),
        at_or_null("lapses_at"),
        at_or_null("look_at"),
        at_or_null("alarm_at"),
        at_or_null("alarm_told_at"),
    ]
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for column in columns() {
            manager.alter_table(Table::alter().table(TABLE).add_column(column).take()).await?;
        }
        for (_, index) in INDEXES {
            manager.get_connection().execute_unprepared(index).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (name, _) in INDEXES {
            manager.get_connection().execute_unprepared(&format!("DROP INDEX {name}")).await?;
        }
        for column in columns() {
            let name = column.get_column_name();
            manager.alter_table(Table::alter().table(TABLE).drop_column(name).take()).await?;
        }
        Ok(())
    }
}
