//! `read_sheet`.

use holdfast_core::{ApiClient, error::Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{id, invalid, name::READ_SHEET as NAME, within};
use crate::api;

const MOST_ROWS: u32 = 1000;
const USUAL_ROWS: u32 = 200;
/// Where a spreadsheet is opened.
const PAGE: &str = "https://docs.google.com/spreadsheets/d/";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    spreadsheet_id: String,
    range: String,
    render: Option<Render>,
    limit: Option<u32>,
    cursor: Option<String>,
}

/// How cells are given.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Render {
    Formatted,
    Unformatted,
    Formula,
}

#[derive(Debug, Serialize)]
pub(super) struct Answer {
    range: String,
    rows: Vec<Vec<Value>>,
    row_count: usize,
    next_cursor: Option<String>,
}

pub(super) async fn run(api: &ApiClient, arguments: Arguments) -> Result<Answer> {
    let bad = |message: String| invalid(api, NAME, message);
    let spreadsheet = spreadsheet(&arguments.spreadsheet_id).map_err(bad)?;
    let range = range(&arguments.range).map_err(bad)?;
    let size = within("limit", arguments.limit, USUAL_ROWS, MOST_ROWS).map_err(bad)? as usize;
    let from = match arguments.cursor.as_deref() {
        None => 0,
        Some(cursor) => {
            let digits = cursor.bytes().all(|byte| byte.is_ascii_digit());
            let read = cursor.parse::<usize>().ok().filter(|_| digits);
            read.ok_or_else(|| bad("cursor: expected next_cursor of an earlier answer, unchanged".to_owned()))?
        }
    };
    let render = match arguments.render {
        None | Some(Render::Formatted) => "FORMATTED_VALUE",
        Some(Render::Unformatted) => "UNFORMATTED_VALUE",
        Some(Render::Formula) => "FORMULA",
    };

    let found = api::values(api, NAME, &spreadsheet, range, render).await?;

    let count = found.values.len();
    let next = from.checked_add(size).filter(|next| *next < count);
    Ok(Answer {
        range: found.range,
        rows: found.values.into_iter().skip(from).take(size).collect(),
        row_count: count,
        next_cursor: next.map(|next| next.to_string()),
    })
}

/// The id, or the address of the page that shows it.
pub(super) fn spreadsheet(text: &str) -> Result<String, String> {
    let text = text.trim();
    let text = text.strip_prefix(PAGE).map_or(text, |rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    id("spreadsheet_id", text).map_err(|_| {
        format!("spreadsheet_id: expected the id of a spreadsheet, or the address of its page like {PAGE}ID/edit")
    })
}

/// A range in A1 notation, as far as it is one line; Sheets knows the rest.
pub(super) fn range(text: &str) -> Result<&str, String> {
    let text = text.trim();
    if text.is_empty() || text.len() > 300 || text.contains(|c: char| c.is_control() || matches!(c, '?' | '#' | '\\')) {
        return Err("range: expected a range in A1 notation, like \"Orders!A1:F\"".to_owned());
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spreadsheet_is_named_by_its_id_or_its_page() {
        for text in [
            "1AbC_-9",
            " 1AbC_-9 ",
            "https://docs.google.com/spreadsheets/d/1AbC_-9",
            "https://docs.google.com/spreadsheets/d/1AbC_-9/edit#gid=0",
        ] {
            assert_eq!(spreadsheet(text), Ok("1AbC_-9".to_owned()));
        }
        for text in
            ["", "a/b", "https://evil.example/spreadsheets/d/1", "https://docs.google.com/spreadsheets/d/", ".."]
        {
            assert!(spreadsheet(text).unwrap_err().starts_with("spreadsheet_id: "), "{text}");
        }
        assert_eq!(range(" 'My tab'!A1:B "), Ok("'My tab'!A1:B"));
        for text in ["", "a?b", "a#b", "a\nb"] {
            assert!(range(text).is_err(), "{text:?}");
        }
    }
}
