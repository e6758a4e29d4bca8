//! `holdfast user`, `key` and `connector`: asked of the running server, or done here.

use std::{
    io::{self, BufRead, IsTerminal},
    process::ExitCode,
};

use anyhow::Context;
use serde_json::{Value, json};

use super::{ConnectorCommand, KeyCommand, Output, UserCommand, import};
use crate::{
    admin::{Admin, Ask},
    config::Config,
};

pub(super) async fn user(config: Config, command: UserCommand, output: Output) -> anyhow::Result<ExitCode> {
    let typed = |from_stdin: bool| from_stdin.then(|| one_line("Password")).transpose();
    match command {
        UserCommand::Create { org, email, role, operator, password_stdin } => {
            let password = typed(password_stdin)?;
            let ask = Ask::UserCreate { org, email, role: role.map(Into::into), operator, password };
            let say = |value: &Value| format!("created user {}, {}", text(&value["id"]), text(&value["role"]));
            one(config, ask, output, say).await
        }
        UserCommand::SetPassword { email, org, password_stdin } => {
            let ask = Ask::UserSetPassword { email, org, password: typed(password_stdin)? };
            one(config, ask, output, |value| match value["password"].as_str() {
                Some(made) => made.to_owned(),
                None => format!("set the password of user {}", text(&value["id"])),
            })
            .await
        }
        UserCommand::ResetPassword { email } => {
            one(config, Ask::UserResetPassword { email }, output, |value| text(&value["url"])).await
        }
        UserCommand::ResetTwoFactor { email } => {
            let say = |value: &Value| format!("two-factor sign-in of user {} is off", text(&value["id"]));
            one(config, Ask::UserResetTwoFactor { email }, output, say).await
        }
        UserCommand::UnlinkProvider { email } => {
            let say = |value: &Value| format!("user {} is linked to no account at the provider", text(&value["id"]));
            one(config, Ask::UserUnlinkProvider { email }, output, say).await
        }
        UserCommand::Remove { email, org } => {
            let ask = Ask::UserRemove { email, org };
            one(config, ask, output, |value| format!("removed user {}", text(&value["id"]))).await
        }
        UserCommand::SetRole { email, org, role } => {
            let ask = Ask::UserSetRole { email, org, role: role.into() };
            one(config, ask, output, |value| format!("user {} is {} now", text(&value["id"]), text(&value["role"])))
                .await
        }
        UserCommand::List { org } => {
            let columns = ["id", "org", "email", "name", "role", "operator", "password", "two_factor", "created_at"];
            one(config, Ask::UserList { org }, output, |value| table(value, &columns)).await
        }
    }
}

pub(super) async fn key(config: Config, command: KeyCommand, output: Output) -> anyhow::Result<ExitCode> {
    match command {
        KeyCommand::Create { org, name, scopes } => {
            one(config, Ask::KeyCreate { org, name, scopes }, output, |value| text(&value["key"])).await
        }
        KeyCommand::List { org } => {
            let columns = ["id", "org", "name", "scopes", "created_at", "revoked_at"];
            one(config, Ask::KeyList { org }, output, |value| table(value, &columns)).await
        }
        KeyCommand::Revoke { id } => {
            one(config, Ask::KeyRevoke { id }, output, |value| format!("revoked {}", text(&value["id"]))).await
        }
    }
}

pub(super) async fn connector(config: Config, command: ConnectorCommand, output: Output) -> anyhow::Result<ExitCode> {
    match command {
        ConnectorCommand::List { org } => {
            let columns = ["id", "org", "provider", "account", "health", "health_since", "name"];
            one(config, Ask::ConnectorList { org }, output, |value| table(value, &columns)).await
        }
        ConnectorCommand::Show { id } => one(config, Ask::ConnectorShow { id }, output, pretty).await,
        ConnectorCommand::Test { id } => {
            let mut admin = Admin::reach(config).await?;
            let answer = admin.ask(Ask::ConnectorTest { id }).await;
            admin.end().await;
            let report = answer?.map_err(|refused| anyhow::anyhow!(refused.message))?;
            output.print(&report, || verdict(&report))?;
            Ok(if report["ok"] == json!(true) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        ConnectorCommand::Import { org, from, dry_run, file } => {
            import::run(config, org, (from, dry_run), &file, output).await
        }
    }
}

/// Asks one thing and prints its answer.
pub(super) async fn one(
    config: Config,
    ask: Ask,
    output: Output,
    shown: impl FnOnce(&Value) -> String,
) -> anyhow::Result<ExitCode> {
    let mut admin = Admin::reach(config).await?;
    let answer = admin.ask(ask).await;
    admin.end().await;
    let value = answer?.map_err(|refused| anyhow::anyhow!(refused.message))?;
    output.print(&value, || shown(&value))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn one_line(what: &str) -> anyhow::Result<String> {
    if io::stdin().is_terminal() {
        eprintln!("{what} (it is shown as you type; pipe it in to avoid that):");
    }
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).with_context(|| format!("cannot read the {}", what.to_lowercase()))?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).expect("it is plain data")
}

fn verdict(report: &Value) -> String {
    if report["ok"] == json!(true) {
        let who = &report["identity"];
        format!(
            "works: {} as {} ({}), answered in {} ms",
            text(&who["account"]),
            text(&who["name"]),
            text(&who["role"]),
            report["latency_ms"]
        )
    } else {
        format!("does not work: {} (health: {})", text(&report["error"]), text(&report["health"]))
    }
}

/// Columns wide enough for what they hold.
pub(super) fn table(value: &Value, columns: &[&str]) -> String {
    let rows = value.as_array().map(Vec::as_slice).unwrap_or_default();
    if rows.is_empty() {
        return "none".to_owned();
    }
    let head: Vec<String> = columns.iter().map(|name| name.to_uppercase()).collect();
    let cells = rows.iter().map(|row| columns.iter().map(|name| text(&row[name])).collect::<Vec<_>>());
    let lines: Vec<Vec<String>> = std::iter::once(head).chain(cells).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let render = |line: &Vec<String>| {
        let padded = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    lines.iter().map(render).collect::<Vec<_>>().join("\n")
}
