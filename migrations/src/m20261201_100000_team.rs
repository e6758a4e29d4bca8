//! People who invite people: invitations, links that mails carry, forgotten passwords, browsers that were seen before, and
//! when somebody was last seen.

use sea_orm_migration::prelude::*;

use crate::columns::{at, at_or_null, belongs, bytes, id, text, text_or_null, unique};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const STATEMENTS: [&str; 4] = [
    "UPDATE users SET seen_at = (SELECT MAX(s.seen_at) FROM browser_sessions s WHERE s.user_id = users.id)",
    // An address is invited once: whoever invites it again renews the invitation.
    "CREATE UNIQUE INDEX invitations_open ON invitations (org_id, email) \
     WHERE accepted_at IS NULL AND withdrawn_at IS NULL",
    "CREATE INDEX password_resets_untold ON password_resets (created_at) WHERE told_at IS NULL",
    "CREATE INDEX password_resets_by_email ON password_resets (email)",
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.alter_table(Table::alter().table("users").add_column(at_or_null("seen_at")).take()).await?;

        // `invited_by` is a person's id, without a reference: who left stays named. `mail_id` is the last mail of it.
        let invitations = Table::create()
            .table("invitations")
            .col(id())
            .col(text("org_id"))
            .col(text("email"))
            .col(text("role"))
            .col(text("invited_by"))
            .col(text_or_null("mail_id"))
            .col(at("created_at"))
            .col(at("sent_at"))
            .col(at("expires_at"))
            .col(at_or_null("accepted_at"))
            .col(at_or_null("withdrawn_at"))
            .foreign_key(&mut belongs("invitations", "org_id", "orgs"))
            .take();
        manager.create_table(invitations).await?;

        // The link's text is in the mail and nowhere else; `hash` is its SHA-256. A mail that is sent again has another
        // link to the same `subject`, an invitation or a reset, which says itself whether it still stands.
        let links = Table::create()
            .table("account_links")
            .col(ColumnDef::new("hash").binary().not_null().primary_key())
            .col(text("subject"))
            .col(at("created_at"))
            .take();
        manager.create_table(links).await?;

        // By address, whether anybody has it or not.
        let resets = Table::create()
            .table("password_resets")
            .col(id())
            .col(text("email"))
            .col(at("created_at"))
            .col(at("expires_at"))
            .col(at_or_null("told_at"))
            .col(at_or_null("used_at"))
            .col(at_or_null("voided_at"))
            .take();
        manager.create_table(resets).await?;

        // `hash` is the SHA-256 of the cookie that tells browsers apart.
        let browsers = Table::create()
            .table("known_browsers")
            .col(text("user_id"))
            .col(bytes("hash"))
            .col(at("seen_at"))
            .foreign_key(&mut belongs("known_browsers", "user_id", "users"))
            .index(&mut unique(&["user_id", "hash"]))
            .take();
        manager.create_table(browsers).await?;

        for statement in STATEMENTS {
            manager.get_connection().execute_unprepared(statement).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in ["known_browsers", "password_resets", "account_links", "invitations"] {
            manager.drop_table(Table::drop().table(table).take()).await?;
        }
        manager.alter_table(Table::alter().table("users").drop_column("seen_at").take()).await
    }
}
