//! `holdfast connector import`: each connection says what happened to it; a bad one stops nothing.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read as _},
    iter,
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
/// A connector takes a few kilobytes. What is longer is thrown away as it is read.
const LONGEST_LINE_BYTES: usize = 256 * 1024;

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

type Items = Box<dyn Iterator<Item = anyhow::Result<Item>>>;

/// A connection by its number, or why it cannot be read.
type Item = (u64, Result<String, &'static str>);

/// Ours: a connector per line, by its number. One that cannot be read stops nothing.
fn lines(mut input: Box<dyn BufRead>) -> Items {
    let mut number = 0;
    let read = iter::from_fn(move || {
        number += 1;
        let line = line(&mut *input).with_context(|| format!("cannot read line {number}")).transpose()?;
        Some(line.map(|line| (number, line)))
    });
    Box::new(read.filter(|item| !matches!(item, Ok((_, Ok(line))) if line.trim().is_empty())))
}

/// `None`: there are no more.
fn line(input: &mut dyn BufRead) -> io::Result<Option<Result<String, &'static str>>> {
    let mut bytes = Vec::new();
    let most = LONGEST_LINE_BYTES as u64 + 1;
    if (&mut *input).take(most).read_until(b'\n', &mut bytes)? == 0 {
        return Ok(None);
    }
    if bytes.len() > LONGEST_LINE_BYTES && bytes.last() != Some(&b'\n') {
        while bytes.last().is_some_and(|last| *last != b'\n') {
            bytes.clear();
            (&mut *input).take(most).read_until(b'\n', &mut bytes)?;
        }
        return Ok(Some(Err("This line is longer than any connector: more than 256 kB.")));
    }
    let Ok(text) = String::from_utf8(bytes) else {
        return Ok(Some(Err("This line is not UTF-8: save the file as UTF-8.")));
    };
    // Editors on Windows put a mark before the first line.
    Ok(Some(Ok(text.trim_start_matches('\u{feff}').to_owned())))
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
    let items = values.into_iter().flat_map(Format::items).map(|item| Ok(item.to_string()));
    Ok(Box::new((1..).zip(items).map(Ok)))
}

async fn import(
    admin: &mut Admin,
    org: Option<&str>,
    (from, dry_run): (Format, bool),
    items: &mut dyn Iterator<Item = anyhow::Result<Item>>,
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
        let items = batch.iter().filter_map(|(_, item)| item.clone().ok()).collect();
        let ask = Ask::ConnectorImport { org: org.map(str::to_owned), from, items, dry_run };
        let answer = admin.ask(ask).await?;
        let mut answered = 0;
        let mut said = |item: &Result<String, &str>| {
            if let Err(why) = item {
                return ("failed".to_owned(), (*why).to_owned(), None);
            }
            answered += 1;
            match &answer {
                Ok(reports) => {
                    let report = &reports[answered - 1];
                    (text(&report["status"]), text(&report["detail"]), report["warning"].as_str())
                }
                Err(refused) => ("failed".to_owned(), refused.message.clone(), None),
            }
        };
        for (number, item) in &batch {
            let (status, detail, warning) = said(item);
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
