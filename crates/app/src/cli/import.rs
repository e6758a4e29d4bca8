//! `holdfast connector import`: each connection says what happened to it; a bad one stops nothing.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::Path,
    process::ExitCode,
};

use anyhow::Context;
use serde_json::{Value, json};

use super::{Output, ask::text};
use crate::{
    admin::{Admin, Ask},
    config::Config,
    moving::Format,
};

/// So many are asked for at once; the server stores them together.
const TOGETHER: usize = 200;

/// What became of all of them.
#[derive(Default)]
struct Counts {
    made: u64,
    right: u64,
    there: u64,
    failed: u64,
}

pub(super) async fn run(
    config: Config,
    org: Option<String>,
    (from, dry_run): (Format, bool),
    file: &Path,
    output: Output,
) -> anyhow::Result<ExitCode> {
    let input: Box<dyn BufRead> = if file == Path::new("-") {
        Box::new(BufReader::new(io::stdin()))
    } else {
        let opened = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
        Box::new(BufReader::new(opened))
    };
    let mut items = match from {
        Format::Holdfast => lines(input),
        _ => connections(input)?,
    };
    let mut admin = Admin::reach(config).await?;
    let mut counts = Counts::default();
    let done = import(&mut admin, org.as_deref(), (from, dry_run), &mut *items, output, &mut counts).await;
    admin.end().await;
    let Counts { made, right, there, failed } = counts;
    if dry_run {
        eprintln!("{right} right, {there} unchanged, {failed} failed; nothing was written");
    } else {
        eprintln!("{made} imported, {there} unchanged, {failed} failed");
    }
    done?;
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

type Items = Box<dyn Iterator<Item = anyhow::Result<(u64, String)>>>;

/// Ours: a connector per line, by its number.
fn lines(input: Box<dyn BufRead>) -> Items {
    let numbered = (1..).zip(input.lines());
    let read = numbered.map(|(number, line)| {
        let mut line = line.with_context(|| format!("cannot read line {number}"))?;
        // Editors on Windows put a mark before the first line.
        if number == 1 && line.starts_with('\u{feff}') {
            line.drain(..'\u{feff}'.len_utf8());
        }
        Ok((number, line))
    });
    Box::new(read.filter(|item| !matches!(item, Ok((_, line)) if line.trim().is_empty())))
}

/// Another system's: JSON, counted by connection.
fn connections(mut input: Box<dyn BufRead>) -> anyhow::Result<Items> {
    let mut whole = String::new();
    input.read_to_string(&mut whole).context("cannot read the export")?;
    let values = serde_json::Deserializer::from_str(whole.trim_start_matches('\u{feff}')).into_iter::<Value>();
    let values: Vec<_> = values.collect::<Result<_, _>>().map_err(|error| {
        let (line, column) = (error.line(), error.column());
        anyhow::anyhow!("the export is not JSON: line {line}, column {column}; nothing was imported")
    })?;
    let items = values.into_iter().flat_map(Format::items).map(|item| item.to_string());
    Ok(Box::new((1..).zip(items.collect::<Vec<_>>()).map(Ok)))
}

async fn import(
    admin: &mut Admin,
    org: Option<&str>,
    (from, dry_run): (Format, bool),
    items: &mut dyn Iterator<Item = anyhow::Result<(u64, String)>>,
    output: Output,
    counts: &mut Counts,
) -> anyhow::Result<()> {
    // What is counted: an export of others is one text, whose lines say nothing.
    let one = if from == Format::Holdfast { "line" } else { "connection" };
    loop {
        let batch: Vec<_> = items.take(TOGETHER).collect::<anyhow::Result<_>>()?;
        if batch.is_empty() {
            return Ok(());
        }
        let (numbers, items): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        let ask = Ask::ConnectorImport { org: org.map(str::to_owned), from, items, dry_run };
        let answer = admin.ask(ask).await?;
        let said = |index: usize| match &answer {
            Ok(reports) => {
                let report = &reports[index];
                (text(&report["status"]), text(&report["detail"]), report["warning"].as_str())
            }
            Err(refused) => ("failed".to_owned(), refused.message.clone(), None),
        };
        for (index, number) in numbers.into_iter().enumerate() {
            let (status, detail, warning) = said(index);
            let count = match status.as_str() {
                "imported" => &mut counts.made,
                "right" => &mut counts.right,
                "unchanged" => &mut counts.there,
                _ => &mut counts.failed,
            };
            *count += 1;
            let mut report = json!({ one: number, "status": status, "detail": detail });
            if let Some(warning) = warning {
                report["warning"] = json!(warning);
            }
            let warning = warning.map(|warning| format!(". {warning}")).unwrap_or_default();
            output.print(&report, || format!("{one} {number}: {status}: {detail}{warning}"))?;
        }
    }
}
