//! Mails: one row per message and recipient, what each is about, when an org was last told, and the mail server's trouble.

use sea_orm_migration::prelude::*;

use crate::columns::{at, at_or_null, belongs, count, flag, id, json, text, text_or_null, unique};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const INDEXES: [&str; 6] = [
    // Other effects are undone for longer, or for ever: what is to be told must not be searched among them.
    "CREATE INDEX outbox_to_tell ON outbox (org_id, effect, created_at) \
     WHERE done_at IS NULL AND effect IN ('mail_admins', 'mail_recovery')",
    "CREATE INDEX credentials_app_broken ON credentials (org_id) WHERE degraded_class = 'app_broken'",
    "CREATE INDEX mails_open ON mails (next_at) WHERE settled_at IS NULL",
    "CREATE INDEX mails_settled ON mails (settled_at) WHERE settled_at IS NOT NULL",
    // One open trouble per app and org, and one for the instance.
    "CREATE UNIQUE INDEX app_troubles_of_org ON app_troubles (org_id, provider) \
     WHERE ended_at IS NULL AND org_id IS NOT NULL",
    "CREATE UNIQUE INDEX app_troubles_of_instance ON app_troubles (provider) WHERE ended_at IS NULL AND org_id IS NULL",
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // Whoever makes mails for an org holds its row: what comes meanwhile is company for the next one.
        let windows = Table::create()
            .table("mail_windows")
            .col(text("org_id"))
            .col(text("kind"))
            .col(at("until_at"))
            .foreign_key(&mut belongs("mail_windows", "org_id", "orgs"))
            .index(&mut unique(&["org_id", "kind"]))
            .take();
        manager.create_table(windows).await?;

        // `org_id` is null where the operators are told; `user_id` where the address stands in the configuration, and
        // where nobody was there to be told. `recipient` is the user's id or that address. The message's id is given
        // once: however often it is sent, it is the same message. `unsure`: it may have been accepted already.
        let mails = Table::create()
            .table("mails")
            .col(id())
            .col(text_or_null("org_id"))
            .col(text_or_null("user_id"))
            .col(text("recipient"))
            .col(text("kind"))
            .col(json("about"))
            .col(text("message_id").unique_key().take())
            .col(json("answers"))
            .col(text("state"))
            .col(flag("unsure"))
            .col(count("attempts"))
            .col(at("next_at"))
            .col(text_or_null("claim"))
            .col(ColumnDef::new("claimed_until_ms").big_integer().null())
            .col(text_or_null("address"))
            .col(text_or_null("error"))
            .col(at("created_at"))
            .col(at_or_null("settled_at"))
            .foreign_key(&mut belongs("mails", "org_id", "orgs"))
            .foreign_key(&mut belongs("mails", "user_id", "users"))
            .take();
        manager.create_table(mails).await?;

        // The unique key is the promise: one message per recipient, connector, epoch and kind. The connector is not a
        // foreign key: what was told outlives it.
        let items = Table::create()
            .table("mail_items")
            .col(text("mail_id"))
            .col(text("org_id"))
            .col(text("connector_id"))
            .col(count("epoch"))
            .col(text("kind"))
            .col(text("recipient"))
            .col(at("since"))
            .col(at("at"))
            .col(text_or_null("dropped"))
            .foreign_key(&mut belongs("mail_items", "mail_id", "mails"))
            .foreign_key(&mut belongs("mail_items", "org_id", "orgs"))
            .index(&mut unique(&["connector_id", "epoch", "kind", "recipient"]))
            .take();
        manager.create_table(items).await?;
        let by_mail = Index::create().name("mail_items_by_mail").table("mail_items").col("mail_id").take();
        manager.create_index(by_mail).await?;

        // From the first refusal of an OAuth app to the moment when it is taken again; of one org, or of the instance.
        let troubles = Table::create()
            .table("app_troubles")
            .col(id())
            .col(text_or_null("org_id"))
            .col(text("provider"))
            .col(at("since"))
            .col(at("seen_at"))
            .col(at_or_null("told_at"))
            .col(at_or_null("ended_at"))
            .foreign_key(&mut belongs("app_troubles", "org_id", "orgs"))
            .take();
        manager.create_table(troubles).await?;

        // One row at most: the mail server does not take anything at the moment.
        let server = Table::create()
            .table("mail_trouble")
            .col(id())
            .col(at("since"))
            .col(at("tried_at"))
            .col(at("retry_at"))
            .col(count("failures"))
            .col(text("error"))
            .take();
        manager.create_table(server).await?;

        for index in INDEXES {
            manager.get_connection().execute_unprepared(index).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (index, table) in [("outbox_to_tell", "outbox"), ("credentials_app_broken", "credentials")] {
            manager.drop_index(Index::drop().name(index).table(table).to_owned()).await?;
        }
        for table in ["mail_trouble", "app_troubles", "mail_items", "mails", "mail_windows"] {
            manager.drop_table(Table::drop().table(table).take()).await?;
        }
        Ok(())
    }
}
