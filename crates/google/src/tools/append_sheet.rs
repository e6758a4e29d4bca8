//! `append_sheet`.

use holdfast_core::{ApiClient, error::Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    invalid,
    name::APPEND_SHEET as NAME,
    once,
    read_sheet::{range, spreadsheet},
};
use crate::api;

const MOST_ROWS: usize = 1000;
/// What one cell holds at most. <https://support.google.com/drive/answer/37603>
const LONGEST_CELL_CHARS: usize = 50_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    spreadsheet_id: String,
    range: String,
    rows: Vec<Vec<Value>>,
    /// Absent: as they are. A customer's text must not become a formula by itself.
    #[serde(default)]
    parse: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct Answer {
    range: String,
    rows: u64,
    cells: u64,
    table: Option<String>,
}

pub(super) async fn run(api: &ApiClient, arguments: Arguments) -> Result<Answer> {
    let bad = |message: String| invalid(api, NAME, message);
    let spreadsheet = spreadsheet(&arguments.spreadsheet_id).map_err(bad)?;
    let range = range(&arguments.range).map_err(bad)?;
    check(&arguments.rows).map_err(bad)?;
    let input = if arguments.parse { "USER_ENTERED" } else { "RAW" };

    let done = api::append(api, NAME, &spreadsheet, range, input, &arguments.rows).await;
    let done = done.map_err(|error| once(error, "read the end of the table"))?;

    Ok(Answer {
        range: done.updates.range,
        rows: done.updates.rows,
        cells: done.updates.cells,
        table: done.table_range,
    })
}

fn check(rows: &[Vec<Value>]) -> Result<(), String> {
    if rows.is_empty() || rows.len() > MOST_ROWS {
        return Err(format!("rows: expected 1 to {MOST_ROWS} rows"));
    }
    for (number, row) in rows.iter().enumerate() {
        if row.is_empty() {
            return Err(format!("rows[{number}]: expected at least one cell"));
        }
        for (column, cell) in row.iter().enumerate() {
            let fits = match cell {
                Value::String(text) => text.chars().count() <= LONGEST_CELL_CHARS,
                Value::Array(_) | Value::Object(_) => false,
                _ => true,
            };
            if !fits {
                return Err(format!(
                    "rows[{number}][{column}]: expected text of at most {LONGEST_CELL_CHARS} characters, a number, true, \
                     false or null"
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cells_are_plain_values() {
        let rows = |rows: Value| serde_json::from_value::<Vec<Vec<Value>>>(rows).unwrap();
        assert_eq!(check(&rows(json!([["=1+1", 2.5, true, null]]))), Ok(()));
        for (bad, place) in [
            (json!([]), "rows: "),
            (json!([["a"], []]), "rows[1]: "),
            (json!([["a", {"b": 1}]]), "rows[0][1]: "),
            (json!([[["a"]]]), "rows[0][0]: "),
            (json!([["x".repeat(50_001)]]), "rows[0][0]: "),
        ] {
            assert!(check(&rows(bad)).unwrap_err().starts_with(place), "{place}");
        }
    }
}
