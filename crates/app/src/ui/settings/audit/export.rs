//! The audit log as a file: all lines of a filter, read page by page while they are sent.

use std::sync::Arc;

use axum::{
    body::{Body, Bytes},
    extract::{Query, State},
    http::header,
    response::{IntoResponse, Response},
};
use futures::stream;
use holdfast_core::ports::StoreError;
use holdfast_store::AuditLine;

use super::{Asked, Problems};
use crate::{
    api::AuditBody,
    app::App,
    ui::{person::Person, trouble::Trouble},
};

/// Read at a time.
const ROWS: u64 = 500;

const HEAD: &str = "at,actor_kind,actor_id,actor,surface,address,action,target_kind,target_id,target,before,after\r\n";

/// Where an export is.
enum At {
    Begin,
    After(String),
    End,
}

/// GET /settings/audit/export
pub(super) async fn export(
    State(app): State<Arc<App>>,
    person: Person,
    Query(asked): Query<Asked>,
) -> Result<Response, Trouble> {
    let (filter, problems) = asked.filter(&person);
    if problems != Problems::default() {
        return Err(Trouble::Garbled);
    }
    let csv = asked.format != "jsonl";
    let (kind, name) = if csv { ("text/csv; charset=utf-8", "csv") } else { ("application/jsonl", "jsonl") };
    let org = person.org().clone();
    let lines = stream::try_unfold(At::Begin, move |at| {
        let (app, org, filter) = (Arc::clone(&app), org.clone(), filter.clone());
        async move {
            let mut text = String::new();
            let cursor = match at {
                At::End => return Ok::<_, StoreError>(None),
                At::Begin => {
                    text.push_str(if csv { HEAD } else { "" });
                    None
                }
                At::After(cursor) => Some(cursor),
            };
            let page = app.store.audit_lines(&org, &filter, cursor.as_deref(), ROWS).await?;
            for line in page.data {
                text.push_str(&if csv { as_csv(&line) } else { as_json(line) });
            }
            Ok(Some((Bytes::from(text), page.next_cursor.map_or(At::End, At::After))))
        }
    });
    let headers = [
        (header::CONTENT_TYPE, kind.to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"holdfast-audit.{name}\"")),
    ];
    Ok((headers, Body::from_stream(lines)).into_response())
}

fn as_json(line: AuditLine) -> String {
    let mut text = serde_json::to_string(&AuditBody::from(line)).expect("a line is plain data");
    text.push('\n');
    text
}

fn as_csv(line: &AuditLine) -> String {
    let json = |value: &Option<serde_json::Value>| value.as_ref().map(ToString::to_string).unwrap_or_default();
    let (actor_kind, actor_id, actor) = &line.actor;
    let (target_kind, target_id, target) = &line.target;
    let cells = [
        &line.at.to_rfc3339(),
        actor_kind,
        actor_id.as_deref().unwrap_or_default(),
        actor,
        &line.from.0,
        line.from.1.as_deref().unwrap_or_default(),
        &line.action,
        target_kind,
        target_id,
        target,
        &json(&line.before),
        &json(&line.after),
    ];
    format!("{}\r\n", cells.map(cell).join(","))
}

/// A cell that no spreadsheet takes for a formula: names are what people typed.
fn cell(text: &str) -> String {
    let formula =
        text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '\u{FF1D}', '\u{FF0B}', '\u{FF0D}', '\u{FF20}']);
    format!("\"{}{}\"", if formula { "'" } else { "" }, text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::cell;

    #[test]
    fn no_cell_is_a_formula_or_breaks_out_of_its_quotes() {
        for (text, safe) in [
            ("Ada", "\"Ada\""),
            ("=1+1", "\"'=1+1\""),
            ("@SUM(A1)", "\"'@SUM(A1)\""),
            ("-2", "\"'-2\""),
            ("+2", "\"'+2\""),
            ("\t=1", "\"'\t=1\""),
            ("a\",\"=1", "\"a\"\",\"\"=1\""),
            ("", "\"\""),
        ] {
            assert_eq!(cell(text), safe);
        }
    }
}
