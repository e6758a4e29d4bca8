//! `holdfast migration`: asked of the running server, or done here.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::{
    MigrationCommand, Output,
    ask::{one, table, text},
};
use crate::{admin::Ask, config::Config};

pub(super) async fn run(config: Config, command: MigrationCommand, output: Output) -> anyhow::Result<ExitCode> {
    match command {
        MigrationCommand::Start { provider, deadline, reason, only_endless, dry_run } => {
            let ask = Ask::MigrationStart { provider, deadline, reason, only_endless, dry_run };
            one(config, ask, output, started).await
        }
        MigrationCommand::List => {
            let columns =
                ["id", "provider", "deadline", "connectors", "done", "open", "orgs", "started_at", "ended_at"];
            one(config, Ask::MigrationList, output, |value| table(value, &columns)).await
        }
        MigrationCommand::Show { id } => one(config, Ask::MigrationShow { id }, output, shown).await,
        MigrationCommand::End { id } => {
            one(config, Ask::MigrationEnd { id }, output, |value| match value["open"].as_u64() {
                Some(0) => format!("ended {}; all have been reconnected", text(&value["id"])),
                _ => format!("ended {}; not reconnected: {}", text(&value["id"]), value["open"]),
            })
            .await
        }
    }
}

fn started(value: &Value) -> String {
    let whom = format!("connectors: {}, organisations: {}", value["connectors"], value["orgs"]);
    match (value["id"].as_str(), value["mails"] == json!(true)) {
        (None, _) => format!("would ask for {whom}; nothing was changed"),
        (Some(id), true) => format!("started {id}; {whom}; their admins are told by mail"),
        (Some(id), false) => {
            format!("started {id}; {whom}; no mail server is set up, so they see it on their pages only")
        }
    }
}

fn shown(value: &Value) -> String {
    let mut about = format!("{}: {} of {} done", text(&value["provider"]), value["done"], value["connectors"]);
    for (word, field) in [("by", "deadline"), ("since", "started_at"), ("ended", "ended_at"), ("why:", "reason")] {
        if let Some(said) = value[field].as_str() {
            about = format!("{about}, {word} {said}");
        }
    }
    let orgs = table(&value["by_org"], &["org", "connectors", "done", "open", "admins", "told_at"]);
    let (what, left) = if value["ended_at"].is_null() {
        ("To be reconnected", &value["must_reconnect"])
    } else {
        ("Ended without these", &value["not_reconnected"])
    };
    let left = table(left, &["id", "org", "account", "name", "health", "page"]);
    format!("{about}\n\n{orgs}\n\n{what}\n{left}")
}
