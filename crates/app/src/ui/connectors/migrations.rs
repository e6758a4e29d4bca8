//! What has to be reconnected since a provider changes how access works: on the home page, with how far the org is.

use chrono::{DateTime, NaiveDate, Utc};
use holdfast_core::{OrgId, Snapshot, ports::StoreError};
use holdfast_store::{ConnectorLine, MigrationProgress};
use serde::Serialize;

use super::{Mark, connect_word};
use crate::{
    app::App,
    called,
    ui::parts::Badge,
    words::{self, counted},
};

/// So many connectors of each are shown with a button.
const SHOWN: u64 = 10;

/// A migration that the org has not done its part of.
#[derive(Serialize)]
pub(super) struct MigrationCard {
    id: String,
    title: String,
    reason: String,
    /// `2 of 5 are done.`
    progress: String,
    rows: Vec<Row>,
    more: u64,
    /// How many connectors.
    #[serde(skip)]
    pub(super) open: u64,
}

#[derive(Serialize)]
struct Row {
    id: String,
    mark: Mark,
    name: String,
    account: String,
    badge: Badge,
    connect: &'static str,
}

impl MigrationCard {
    /// Those that this org has something to do for, the newest first.
    pub(super) async fn all(app: &App, org: &OrgId, now: DateTime<Utc>) -> Result<Vec<Self>, StoreError> {
        let mut cards = Vec::new();
        for progress in app.store.migrations_of(org).await?.into_iter().filter(|progress| progress.open > 0) {
            let lines = app.store.migration_lines(org, &progress.migration.id, SHOWN).await?;
            cards.push(Self::new(app, &progress, &lines, now.date_naive()));
        }
        Ok(cards)
    }

    fn new(app: &App, progress: &MigrationProgress, lines: &[ConnectorLine], today: NaiveDate) -> Self {
        let (migration, open) = (&progress.migration, progress.open);
        let row = |line: &ConnectorLine| Row {
            id: line.id.to_string(),
            mark: Mark::of(app, &line.provider),
            name: called::parts(app, &line.provider, &line.account, &line.name),
            account: called::account(app, &line.provider, &line.account),
            badge: Badge::of_health(line.health, line.degraded.is_some()),
            connect: connect_word(line.health),
        };
        Self {
            title: title(open, migration.deadline, today),
            reason: words::migration(app.provider_name(&migration.provider), migration.reason.as_deref()),
            progress: format!("{} of {} done.", progress.connectors - open, progress.connectors),
            rows: lines.iter().map(row).collect(),
            more: open.saturating_sub(lines.len() as u64),
            id: migration.id.clone(),
            open,
        }
    }
}

/// On the page of a connector.
#[derive(Serialize)]
pub(super) struct MigrationMark {
    title: String,
    reason: String,
}

impl MigrationMark {
    /// Where a migration wants it reconnected.
    pub(super) async fn read(app: &App, connector: &Snapshot, now: DateTime<Utc>) -> Result<Option<Self>, StoreError> {
        let mut found = app.store.must_reconnect(std::slice::from_ref(&connector.connector)).await?;
        Ok(found.remove(&connector.connector).map(|must| Self {
            title: titled("It", true, must.by, now.date_naive()),
            reason: words::migration(app.provider_name(&connector.provider), must.reason.as_deref()),
        }))
    }
}

fn title(open: u64, deadline: Option<NaiveDate>, today: NaiveDate) -> String {
    titled(&counted(open, "connector"), open == 1, deadline, today)
}

fn titled(what: &str, one: bool, deadline: Option<NaiveDate>, today: NaiveDate) -> String {
    let by = |day: NaiveDate| day.format("%-d %B %Y");
    let verb = if one { "has" } else { "have" };
    match deadline {
        None => format!("{what} {verb} to be reconnected"),
        Some(day) if day < today => format!("{what} should be reconnected since {}", by(day)),
        Some(day) => format!("{what} {verb} to be reconnected by {}", by(day)),
    }
}

#[cfg(test)]
mod tests {
    use super::title;

    #[test]
    fn a_deadline_is_said_as_what_it_is() {
        let day = |text: &str| text.parse().unwrap();
        for (open, deadline, words) in [
            (1, None, "1 connector has to be reconnected"),
            (3, Some("2027-04-01"), "3 connectors have to be reconnected by 1 April 2027"),
            (1, Some("2027-03-02"), "1 connector has to be reconnected by 2 March 2027"),
            (2, Some("2027-03-01"), "2 connectors should be reconnected since 1 March 2027"),
        ] {
            assert_eq!(title(open, deadline.map(day), day("2027-03-02")), words);
        }
    }
}
