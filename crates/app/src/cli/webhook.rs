//! `holdfast webhook`: asked of the running server, or done here.

use std::process::ExitCode;

use serde_json::Value;

use super::{
    Output, WebhookCommand,
    ask::{one, one_line, text},
};
use crate::{admin::Ask, config::Config};

pub(super) async fn run(config: Config, command: WebhookCommand, output: Output) -> anyhow::Result<ExitCode> {
    let WebhookCommand::App { provider, org, kind, secret_stdin } = command;
    let secret = secret_stdin.then(|| one_line("Secret")).transpose()?;
    one(config, Ask::WebhookOfApp { provider, org, kind, secret }, output, shown).await
}

fn shown(value: &Value) -> String {
    let steps = value["steps"].as_array().map(Vec::as_slice).unwrap_or_default();
    let steps: Vec<String> = steps.iter().enumerate().map(|(at, step)| format!("{}. {}", at + 1, text(step))).collect();
    let needs = if value["status"] == "needs_secret" {
        "\nIt takes nothing before it has its secret: --secret-stdin"
    } else {
        ""
    };
    format!("{}\n{}{needs}", text(&value["url"]), steps.join("\n"))
}
