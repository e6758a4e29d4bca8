//! `sheets.googleapis.com/v4/spreadsheets/{id}/values/{range}`: get and append.
//!
//! <https://developers.google.com/workspace/sheets/api/reference/rest/v4/spreadsheets.values>

use serde_json::{Value, json};

use super::a1::{self, Area};
use super::api::{Call, no_such_method};
use super::error::{error, invalid, not_found};
use super::state::{Spreadsheet, State};
use crate::http::Answer;

const READ: [&str; 3] = ["spreadsheets", "spreadsheets.readonly", "drive.file"];
const WRITE: [&str; 2] = ["spreadsheets", "drive.file"];

pub(super) fn serve(state: &mut State, call: &Call<'_>, id: &str, range: &str) -> Result<Answer, Answer> {
    let (range, appends) = match range.strip_suffix(":append") {
        Some(range) => (range, true),
        None => (range, false),
    };
    match (call.request.method.as_str(), appends) {
        ("GET", false) => {
            call.needs(&READ, &["valueRenderOption", "majorDimension", "dateTimeRenderOption"], &[])?;
            get(sheet(state, call, id)?, call, range)
        }
        ("POST", true) => {
            let known = [
                "valueInputOption",
                "insertDataOption",
                "includeValuesInResponse",
                "responseValueRenderOption",
                "responseDateTimeRenderOption",
            ];
            call.needs(&WRITE, &known, &[])?;
            append(sheet(state, call, id)?, call, id, range)
        }
        _ => Err(no_such_method()),
    }
}

fn sheet<'a>(state: &'a mut State, call: &Call<'_>, id: &str) -> Result<&'a mut Spreadsheet, Answer> {
    let sheet = state.spreadsheets.get_mut(id).ok_or_else(not_found)?;
    if sheet.editors.contains(&call.bearer.sub) {
        Ok(sheet)
    } else {
        Err(error(403, "PERMISSION_DENIED", "forbidden", "The caller does not have permission"))
    }
}

/// The area, and its tab by number.
fn area(sheet: &Spreadsheet, range: &str) -> Result<(Area, usize), Answer> {
    let names: Vec<&str> = sheet.tabs.iter().map(|(name, _)| name.as_str()).collect();
    let unknown = || invalid(&format!("Unable to parse range: {range}"));
    let area = a1::read(range, &names).ok_or_else(unknown)?;
    let tab = match &area.tab {
        Some(tab) => names.iter().position(|name| name == tab).ok_or_else(unknown)?,
        None => 0,
    };
    Ok((area, tab))
}

fn one_of<'a>(call: &Call<'a>, name: &str, allowed: &[&str]) -> Result<Option<&'a str>, Answer> {
    match call.request.param(name) {
        Some(value) if !allowed.contains(&value) => {
            Err(invalid(&format!("Invalid value at '{name}' (type.googleapis.com), \"{value}\"")))
        }
        value => Ok(value),
    }
}

fn get(sheet: &Spreadsheet, call: &Call<'_>, range: &str) -> Result<Answer, Answer> {
    let render = one_of(call, "valueRenderOption", &["FORMATTED_VALUE", "UNFORMATTED_VALUE", "FORMULA"])?;
    one_of(call, "majorDimension", &["ROWS"])?;
    let (area, tab) = area(sheet, range)?;
    let (name, cells) = &sheet.tabs[tab];
    let rows =
        cells.iter().skip(area.first_row).take(area.last_row.map_or(usize::MAX, |last| last + 1 - area.first_row));
    let columns = area.last_column.map_or(usize::MAX, |last| last + 1 - area.first_column);
    let mut values: Vec<Vec<Value>> = rows
        .map(|row| {
            let mut row: Vec<Value> =
                row.iter().skip(area.first_column).take(columns).map(|cell| shown(cell, render)).collect();
            // What is empty at the end is left out.
            while row.last().is_some_and(|cell| *cell == "") {
                row.pop();
            }
            row
        })
        .collect();
    while values.last().is_some_and(Vec::is_empty) {
        values.pop();
    }
    let mut body = json!({"range": format!("{name}!{}", named(&area, cells.len())), "majorDimension": "ROWS"});
    if !values.is_empty() {
        body["values"] = json!(values);
    }
    Ok(Answer::json(200, body))
}

fn named(area: &Area, rows: usize) -> String {
    let last_row = area.last_row.unwrap_or(rows.max(1000) - 1) + 1;
    let last_column = a1::letters(area.last_column.unwrap_or(25));
    format!("{}{}:{last_column}{last_row}", a1::letters(area.first_column), area.first_row + 1)
}

fn shown(cell: &Value, render: Option<&str>) -> Value {
    match (cell, render) {
        (Value::Object(cell), Some("FORMULA")) => cell["formula"].clone(),
        // Nothing is reckoned here.
        (Value::Object(_), _) => "#N/A".into(),
        (Value::Null, _) => "".into(),
        (Value::Bool(flag), None | Some("FORMATTED_VALUE")) => flag.to_string().to_uppercase().into(),
        (Value::Number(number), None | Some("FORMATTED_VALUE")) => number.to_string().into(),
        (cell, _) => cell.clone(),
    }
}

fn append(sheet: &mut Spreadsheet, call: &Call<'_>, id: &str, range: &str) -> Result<Answer, Answer> {
    let input = one_of(call, "valueInputOption", &["RAW", "USER_ENTERED"])?;
    let input = input.ok_or_else(|| invalid("'valueInputOption' is required but not specified"))?;
    one_of(call, "insertDataOption", &["OVERWRITE", "INSERT_ROWS"])?;
    call.flag("includeValuesInResponse")?;
    let body = call.body(&["range", "majorDimension", "values"])?;
    if body.get("majorDimension").is_some_and(|dimension| dimension != "ROWS") {
        return Err(invalid("Only rows are appended here"));
    }
    if body.get("range").and_then(Value::as_str).is_some_and(|own| own != range) {
        return Err(invalid("Requested writing within range does not match value range"));
    }
    let rows = body.get("values").and_then(Value::as_array).ok_or_else(|| invalid("Invalid value at 'data.values'"))?;
    let mut read: Vec<Vec<Value>> = Vec::new();
    for row in rows {
        let row = row.as_array().ok_or_else(|| invalid("Invalid value at 'data.values'"))?;
        if row.iter().any(|cell| cell.is_array() || cell.is_object()) {
            return Err(invalid("Invalid values: list_value"));
        }
        read.push(row.iter().map(|cell| entered(cell, input)).collect());
    }
    let (area, tab) = area(sheet, range)?;
    let (name, cells) = &mut sheet.tabs[tab];
    while cells.last().is_some_and(|row| row.iter().all(Value::is_null)) {
        cells.pop();
    }
    let table = (!cells.is_empty()).then(|| {
        let width = cells.iter().map(Vec::len).max().unwrap_or(1).max(1);
        format!("{name}!{}1:{}{}", a1::letters(area.first_column), a1::letters(width - 1), cells.len())
    });
    let first = cells.len();
    let count = read.iter().map(Vec::len).sum::<usize>();
    let width = read.iter().map(Vec::len).max().unwrap_or_default();
    for row in &read {
        let mut whole = vec![Value::Null; area.first_column];
        whole.extend(row.iter().cloned());
        cells.push(whole);
    }
    let (from, to) = (a1::letters(area.first_column), a1::letters(area.first_column + width.max(1) - 1));
    let updated = format!("{name}!{from}{}:{to}{}", first + 1, first + read.len().max(1));
    let mut answer = json!({"spreadsheetId": id, "updates": {"spreadsheetId": id, "updatedRange": updated,
        "updatedRows": read.len(), "updatedColumns": width, "updatedCells": count}});
    if let Some(table) = table {
        answer["tableRange"] = table.into();
    }
    Ok(Answer::json(200, answer))
}

/// A cell as it is, or as if a person had typed it.
fn entered(cell: &Value, input: &str) -> Value {
    match cell {
        Value::String(text) if input == "USER_ENTERED" => {
            if text.starts_with('=') {
                return json!({ "formula": text });
            }
            let number = text.trim().parse::<f64>().ok().and_then(serde_json::Number::from_f64);
            number.map_or_else(|| cell.clone(), Value::Number)
        }
        _ => cell.clone(),
    }
}
