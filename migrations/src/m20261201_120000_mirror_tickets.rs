//! The mirror of a helpdesk's tickets: how far each connector's has come, the tickets, and which of them were written from
//! here.

use sea_orm_migration::{prelude::*, sea_orm::DbBackend};

use crate::columns::{at, at_or_null, belongs, bytes, count, text, text_or_null};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const UP: [&str; 4] = [
    "CREATE INDEX mirrors_due ON mirrors (due_at) WHERE due_at IS NOT NULL",
    "CREATE INDEX mirrored_tickets_newest ON mirrored_tickets (connector_id, created_at, ticket_id)",
    "CREATE INDEX deliveries_of_subject ON deliveries (connector_id, subject, received_at) WHERE subject IS NOT NULL",
    // What is connected already begins at the next chance.
    "INSERT INTO mirrors (connector_id, org_id, due_at) SELECT id, org_id, created_at FROM connectors WHERE health = 'connected'",
];

/// Pages follow how far a sync is, on every replica.
const SIGNALS: &str = "CREATE TRIGGER mirrors_moved AFTER UPDATE OF \"read\", caught_up_at, code ON mirrors \
     FOR EACH ROW EXECUTE FUNCTION holdfast_part_of_connector_changed()";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // `cursor`: of the next page, in the adapter's own words; it moves with what the page before brought. `first_at`:
        // when the first sync had read all; `walk_began_at`: when the
        // first page was asked for since somebody had read all last; `as_of`: the moment that the mirror shows. `due_at` is null where nobody has to
        // sync: the connector does not work, or its provider has no feed.
        let mirrors = Table::create()
            .table("mirrors")
            .col(text("connector_id"))
            .col(text("org_id"))
            .col(text_or_null("cursor"))
            .col(at_or_null("due_at"))
            .col(text_or_null("job_id"))
            .col(at_or_null("began_at"))
            .col(at_or_null("walk_began_at"))
            .col(at_or_null("first_at"))
            .col(at_or_null("caught_up_at"))
            .col(at_or_null("as_of"))
            .col(count("read"))
            .col(count("tickets"))
            .col(text_or_null("code"))
            .col(text_or_null("detail"))
            .col(at_or_null("failing_since"))
            .primary_key(Index::create().col("connector_id"))
            .foreign_key(&mut belongs("mirrors", "connector_id", "connectors"))
            .foreign_key(&mut belongs("mirrors", "org_id", "orgs"))
            .take();
        manager.create_table(mirrors).await?;

        // What a search filters by lies open; what a customer wrote, and who they are, is sealed.
        let tickets = Table::create()
            .table("mirrored_tickets")
            .col(text("connector_id"))
            .col(text("ticket_id"))
            .col(at("created_at"))
            .col(at("updated_at"))
            .col(at_or_null("replied_at"))
            .col(text("status"))
            .col(text_or_null("priority"))
            .col(text_or_null("requester_id"))
            .col(text("tags"))
            .col(bytes("sealed"))
            .primary_key(Index::create().col("connector_id").col("ticket_id"))
            .foreign_key(&mut belongs("mirrored_tickets", "connector_id", "connectors"))
            .take();
        manager.create_table(tickets).await?;

        let writes = Table::create()
            .table("ticket_writes")
            .col(text("connector_id"))
            .col(text("ticket_id"))
            .col(text("topic"))
            .col(at("written_at"))
            .primary_key(Index::create().col("connector_id").col("ticket_id").col("topic"))
            .foreign_key(&mut belongs("ticket_writes", "connector_id", "connectors"))
            .take();
        manager.create_table(writes).await?;

        // `happened_at`: as the provider says; `same_as`: what told of the same change before.
        for mut column in [at_or_null("happened_at"), text_or_null("same_as")] {
            manager.alter_table(Table::alter().table("deliveries").add_column(&mut column).take()).await?;
        }
        let postgres = manager.get_database_backend() == DbBackend::Postgres;
        for statement in UP.into_iter().chain(postgres.then_some(SIGNALS)) {
            manager.get_connection().execute_unprepared(statement).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.get_connection().execute_unprepared("DROP INDEX deliveries_of_subject").await?;
        for column in ["happened_at", "same_as"] {
            manager.alter_table(Table::alter().table("deliveries").drop_column(column).take()).await?;
        }
        for table in ["ticket_writes", "mirrored_tickets", "mirrors"] {
            manager.drop_table(Table::drop().table(table).take()).await?;
        }
        Ok(())
    }
}
