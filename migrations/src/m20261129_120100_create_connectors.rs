//! Credentials, the connectors that authenticate with them, and the extras that ride along.
//!
//! A credential is a table of its own because connectors of one org may share one, and because its version must not
//! move with a rename.

use sea_orm_migration::prelude::*;

use crate::columns::{
    at, at_or_null, belongs, bytes, bytes_or_null, count, flag, id, json, json_or_null, refers, text, text_or_null,
    unique,
};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // `kind` is none, tokens or api_key; `sealed` holds a whole token set, so that no two columns can disagree.
        let credentials = Table::create()
            .table("credentials")
            .col(id())
            .col(text("org_id"))
            .col(text("kind"))
            .col(bytes_or_null("sealed"))
            .col(count("version"))
            .col(text_or_null("fingerprint"))
            .col(json("scopes"))
            .col(at_or_null("obtained_at"))
            .col(at_or_null("expires_at"))
            .col(flag("expires_assumed"))
            .col(at_or_null("refresh_expires_at"))
            .col(text_or_null("base_url"))
            .col(at_or_null("rotated_at"))
            .col(at_or_null("due_at"))
            .col(at_or_null("retry_at"))
            .col(count("failures"))
            .col(text_or_null("degraded_class"))
            .col(at_or_null("degraded_since"))
            .col(flag("answer_lost"))
            .foreign_key(&mut belongs("credentials", "org_id", "orgs"))
            .take();
        manager.create_table(credentials).await?;
        // The scheduler's cost grows with what is due, not with what exists.
        let due = Index::create().name("credentials_by_due_at").table("credentials").col("due_at").take();
        manager.create_index(due).await?;

        // `consent_sequence` counts consents as they start, `grant_sequence` is the one whose grant is stored.
        let connectors = Table::create()
            .table("connectors")
            .col(id())
            .col(text("org_id"))
            .col(text("credential_id"))
            .col(text("provider"))
            .col(text("account"))
            .col(text("name"))
            .col(text_or_null("alias"))
            .col(text("health"))
            .col(text_or_null("health_reason"))
            .col(text_or_null("health_detail"))
            .col(at("health_since"))
            .col(count("epoch"))
            .col(json_or_null("identity"))
            .col(count("consent_sequence"))
            .col(count("grant_sequence"))
            .col(at("created_at"))
            .foreign_key(&mut belongs("connectors", "org_id", "orgs"))
            .foreign_key(&mut refers("connectors", "credential_id", "credentials"))
            .index(&mut unique(&["org_id", "alias"]))
            .take();
        manager.create_table(connectors).await?;
        let by_credential =
            Index::create().name("connectors_by_credential").table("connectors").col("credential_id").take();
        manager.create_index(by_credential).await?;
        // An account is empty until the person behind a connect link has named it.
        let by_account = "CREATE UNIQUE INDEX connectors_by_account ON connectors (org_id, provider, account) \
                          WHERE account <> ''";
        manager.get_connection().execute_unprepared(by_account).await?;
        // Pages of an org's list.
        let by_org = Index::create().name("connectors_by_org").table("connectors").col("org_id").col("id").take();
        manager.create_index(by_org).await?;

        let extras = Table::create()
            .table("extras")
            .col(text("connector_id"))
            .col(text("name"))
            .col(bytes("sealed"))
            .primary_key(Index::create().col("connector_id").col("name"))
            .foreign_key(&mut belongs("extras", "connector_id", "connectors"))
            .take();
        manager.create_table(extras).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in ["extras", "connectors", "credentials"] {
            manager.drop_table(Table::drop().table(table).take()).await?;
        }
        Ok(())
    }
}
