//! Who is told what and when, reminders, addresses that take no mail, and an org's channel in Slack.

use sea_orm_migration::prelude::*;

use crate::columns::{at, at_or_null, belongs, bytes, count, flag, json, text, text_or_null};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const STATEMENTS: [&str; 7] = [
    // Those that still wait are reminded of once, then when it is time.
    "UPDATE outbox SET remind_at = created_at WHERE effect = 'mail_admins'",
    "CREATE INDEX outbox_reminders ON outbox (remind_at) WHERE remind_at IS NOT NULL",
    // What was told before there was a channel is not told there.
    "UPDATE outbox SET channel_at = created_at WHERE effect LIKE 'mail_%'",
    "CREATE INDEX outbox_to_channel ON outbox (org_id, created_at) WHERE channel_at IS NULL AND effect LIKE 'mail_%'",
    "CREATE INDEX outbox_reminders_to_tell ON outbox (org_id, created_at) \
     WHERE done_at IS NULL AND effect = 'mail_reminder'",
    "CREATE INDEX mails_by_user ON mails (user_id, settled_at)",
    "CREATE INDEX mails_held ON mails (org_id, recipient) WHERE state = 'held'",
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // Without a row everything is as by default. `added`: an admin wants them told, whatever their role. `off` are the
        // topics that they do not want.
        let settings = Table::create()
            .table("notification_settings")
            .col(ColumnDef::new("user_id").text().not_null().primary_key())
            .col(flag("added"))
            .col(json("off"))
            .col(text("pace"))
            .col(count("hour"))
            .col(text("zone"))
            .col(ColumnDef::new("quiet_from").big_integer().null())
            .col(ColumnDef::new("quiet_to").big_integer().null())
            .col(flag("failures_wait"))
            .col(text("changed_by"))
            .col(at("changed_at"))
            .foreign_key(&mut belongs("notification_settings", "user_id", "users"))
            .take();
        manager.create_table(settings).await?;

        // Refusals of one recipient in a row. Once `suppressed_at` is set, it gets no mail that nobody asks for.
        let refused = Table::create()
            .table("refused_addresses")
            .col(ColumnDef::new("address").text().not_null().primary_key())
            .col(count("failures"))
            .col(at("since"))
            .col(text("error"))
            .col(at_or_null("suppressed_at"))
            .take();
        manager.create_table(refused).await?;

        // The URL is a secret: who has it writes into the channel. `hint` is what is shown of it.
        let channels = Table::create()
            .table("slack_channels")
            .col(ColumnDef::new("org_id").text().not_null().primary_key())
            .col(text("id"))
            .col(bytes("sealed_url"))
            .col(text("hint"))
            .col(text("made_by"))
            .col(at("made_at"))
            .col(at_or_null("delivered_at"))
            .col(at_or_null("failing_since"))
            .col(count("failures"))
            .col(text_or_null("error"))
            .col(at_or_null("stopped_at"))
            .foreign_key(&mut belongs("slack_channels", "org_id", "orgs"))
            .take();
        manager.create_table(channels).await?;

        for column in [at_or_null("remind_at"), at_or_null("channel_at")] {
            manager.alter_table(Table::alter().table("outbox").add_column(column).take()).await?;
        }
        for statement in STATEMENTS {
            manager.get_connection().execute_unprepared(statement).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let indexes = [
            ("outbox_reminders", "outbox"),
            ("outbox_to_channel", "outbox"),
            ("outbox_reminders_to_tell", "outbox"),
            ("mails_by_user", "mails"),
            ("mails_held", "mails"),
        ];
        for (index, table) in indexes {
            manager.drop_index(Index::drop().name(index).table(table).to_owned()).await?;
        }
        for column in ["channel_at", "remind_at"] {
            manager.alter_table(Table::alter().table("outbox").drop_column(column).take()).await?;
        }
        for table in ["slack_channels", "refused_addresses", "notification_settings"] {
            manager.drop_table(Table::drop().table(table).take()).await?;
        }
        Ok(())
    }
}
