//! `holdfast connector import`: each connection says what happened to it; a bad one stops nothing.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read as _},
    iter,
    path::Path,
    process::ExitCode,
};

use anyhow::{Context, anyhow, bail, ensure};
use clap::ValueEnum as _;
use serde_json::{Value, json};

use super::{Output, ask::text};
use crate::{
    admin::{Admin, Ask},
    config::Config,
    moving::{Format, Plan},
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
    aliased: u64,
    there: u64,
    failed: u64,
}

impl Counts {
    fn of(&mut self, status: &str) -> &mut u64 {
        match status {
            "imported" => &mut self.made,
            "right" => &mut self.right,
            "aliased" => &mut self.aliased,
            "unchanged" => &mut self.there,
            _ => &mut self.failed,
        }
    }

    fn is_none(&self) -> bool {
        self.made + self.right + self.aliased + self.there + self.failed == 0
    }

    fn said(&self, dry_run: bool) -> String {
        let Self { made, right, aliased, there, failed } = self;
        if dry_run {
            return format!("{right} right, {there} unchanged, {failed} failed; nothing was written");
        }
        let aliased = if *aliased > 0 { format!(" {aliased} aliased,") } else { String::new() };
        format!("{made} imported,{aliased} {there} unchanged, {failed} failed")
    }
}

/// What is asked, of whom, and how it is told.
struct Import<'a> {
    admin: Admin,
    org: Option<&'a str>,
    from: Format,
    dry_run: bool,
    output: Output,
    plan: Plan,
    counts: Counts,
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
    let admin = Admin::reach(config).await?;
    let (plan, counts) = (Plan::default(), Counts::default());
    let mut import = Import { admin, org: org.as_deref(), from, dry_run, output, plan, counts };
    let done = import.all(input).await;
    let Import { admin, counts, .. } = import;
    admin.end().await;
    done?;
    eprintln!("{}", counts.said(dry_run));
    Ok(if counts.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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
fn connections(mut input: Box<dyn BufRead>, from: Format) -> anyhow::Result<Items> {
    let mut whole = Vec::new();
    input.read_to_end(&mut whole).context("cannot read the export")?;
    let whole = String::from_utf8(whole).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = good.split(|byte| *byte == b'\n').count();
        anyhow!(
            "line {line}: the export is not UTF-8 there: save it as UTF-8, and import it again; nothing was imported"
        )
    })?;
    let values = serde_json::Deserializer::from_str(whole.trim_start_matches('\u{feff}')).into_iter::<Value>();
    let values: Vec<_> = values.collect::<Result<_, _>>().map_err(|error| {
        let (line, column) = (error.line(), error.column());
        anyhow!("the export is not JSON: line {line}, column {column}; nothing was imported")
    })?;
    let items: Vec<_> = values.into_iter().flat_map(Format::items).map(|item| Ok(item.to_string())).collect();
    ensure!(
        !items.is_empty(),
        "there is no connection in it, and nothing was imported; what it has to be is {}",
        from.is()
    );
    Ok(Box::new((1..).zip(items).map(Ok)))
}

/// Lines that are another system's export: said once, in place of an error for each.
fn are_ours(first: &str) -> anyhow::Result<()> {
    let line = first.trim_start();
    let looks_like = match serde_json::from_str::<Value>(line) {
        Ok(Value::Object(object)) => {
            let theirs = |format: &Format| format.marks().iter().any(|field| object.contains_key(*field));
            [Format::Nango, Format::N8n].into_iter().find(theirs)
        }
        // Written over several lines, or all in one.
        _ if line.starts_with('[') || line.trim_end() == "{" => {
            bail!(
                "line 1: this begins a JSON text of several lines or connections, and our own form has one connector a \
                 line; if it is another system's export, say which: --from nango or --from n8n. Nothing was imported"
            )
        }
        _ => None,
    };
    match looks_like {
        None => Ok(()),
        Some(theirs) => bail!(
            "line 1: this is no connector, it looks like {}; say so with --from {}. Nothing was imported",
            theirs.is(),
            theirs.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
        ),
    }
}

impl Import<'_> {
    async fn all(&mut self, input: Box<dyn BufRead>) -> anyhow::Result<()> {
        // What is wrong with the organisation is said at once, and once.
        self.ask(Vec::new()).await?;
        let mut items = match self.from {
            Format::Holdfast => lines(input),
            _ => connections(input, self.from)?,
        };
        let mut first = true;
        loop {
            let batch: Vec<_> = items.by_ref().take(TOGETHER).collect::<anyhow::Result<_>>()?;
            let Some((_, item)) = batch.first() else { return Ok(()) };
            if let (true, Format::Holdfast, Ok(line)) = (first, self.from, item) {
                are_ours(line)?;
            }
            first = false;
            self.batch(batch).await?;
        }
    }

    async fn ask(&mut self, items: Vec<String>) -> anyhow::Result<Vec<Value>> {
        let ask =
            Ask::ConnectorImport { org: self.org.map(str::to_owned), from: self.from, items, dry_run: self.dry_run };
        let so_far = self.counts.said(self.dry_run);
        match self.admin.ask(ask).await? {
            Ok(Value::Array(reports)) => Ok(reports),
            Ok(_) => bail!("the server answers otherwise than expected: is it of another version? So far: {so_far}"),
            Err(refused) if self.counts.is_none() => bail!("{}", refused.message),
            Err(refused) => bail!("{}; so far: {so_far}", refused.message),
        }
    }

    async fn batch(&mut self, batch: Vec<Item>) -> anyhow::Result<()> {
        // What is counted: an export of others is one text, whose lines say nothing.
        let one = if self.from == Format::Holdfast { "line" } else { "connection" };
        let items = batch.iter().filter_map(|(_, item)| item.clone().ok()).collect();
        let mut reports = self.ask(items).await?.into_iter();
        for (number, item) in batch {
            let mut report = match item {
                Ok(_) => reports.next().context("the server has not answered for each line")?,
                Err(why) => json!({ "status": "failed", "detail": why }),
            };
            if let Some(meets) = report.get_mut("meets").map(Value::take) {
                let meets = serde_json::from_value(meets).context("the server answers otherwise than expected")?;
                let (status, detail) = self.plan.next(one, number, meets);
                // There is nothing to renew where nothing is made.
                let warning = if status == "right" { report["warning"].take() } else { Value::Null };
                report = json!({ "status": status, "detail": detail, "warning": warning });
            }
            let (status, detail) = (text(&report["status"]), text(&report["detail"]));
            *self.counts.of(&status) += 1;
            let mut said = json!({ one: number, "status": status, "detail": detail });
            for more in ["field", "warning"] {
                if report[more].is_string() {
                    said[more] = report[more].take();
                }
            }
            let warning = said["warning"].as_str().map(|warning| format!(". {warning}")).unwrap_or_default();
            self.output.print(&said, || format!("{one} {number}: {status}: {detail}{warning}"))?;
        }
        Ok(())
    }
}
