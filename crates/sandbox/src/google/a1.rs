//! Ranges in A1 notation: `Orders!A1:F`, `'My tab'!2:4`, `B2`, `Orders`.

/// A part of a tab; ends are `None` where they are open, and inside it else. From 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Area {
    pub(super) tab: Option<String>,
    pub(super) first_row: usize,
    pub(super) last_row: Option<usize>,
    pub(super) first_column: usize,
    pub(super) last_column: Option<usize>,
}

/// `None`: it is none. `tabs` are the names that there are.
pub(super) fn read(text: &str, tabs: &[&str]) -> Option<Area> {
    let (tab, cells) = match text.rsplit_once('!') {
        Some((tab, cells)) => (Some(tab), cells),
        None if tabs.iter().any(|tab| *tab == unquoted(text)) => (Some(text), ""),
        None => (None, text),
    };
    let tab = tab.map(|tab| unquoted(tab).to_owned());
    if tab.as_ref().is_some_and(|tab| !tabs.contains(&tab.as_str())) {
        return None;
    }
    if text.is_empty() {
        return None;
    }
    if cells.is_empty() {
        return Some(Area { tab, first_row: 0, last_row: None, first_column: 0, last_column: None });
    }
    let (from, to) = cells.split_once(':').unwrap_or((cells, cells));
    let ((first_column, first_row), (last_column, last_row)) = (place(from)?, place(to)?);
    let whole = from == to && (first_column.is_none() || first_row.is_none()) && !cells.contains(':');
    if whole {
        return None;
    }
    Some(Area {
        tab,
        first_row: first_row.unwrap_or(0),
        last_row,
        first_column: first_column.unwrap_or(0),
        last_column,
    })
}

fn unquoted(tab: &str) -> &str {
    tab.strip_prefix('\'').and_then(|tab| tab.strip_suffix('\'')).unwrap_or(tab)
}

/// Column and row of `B12`, `B` or `12`.
fn place(text: &str) -> Option<(Option<usize>, Option<usize>)> {
    let text = text.trim_matches('$');
    let split = text.find(|c: char| c.is_ascii_digit()).unwrap_or(text.len());
    let (letters, digits) = text.split_at(split);
    let letters = letters.trim_end_matches('$');
    if letters.len() > 3 || !letters.bytes().all(|c| c.is_ascii_alphabetic()) || text.is_empty() {
        return None;
    }
    let column = letters.bytes().fold(0_usize, |sum, c| sum * 26 + usize::from(c.to_ascii_uppercase() - b'A') + 1);
    let row = if digits.is_empty() { None } else { Some(digits.parse::<usize>().ok()?.checked_sub(1)?) };
    Some((column.checked_sub(1), row))
}

/// The letters of a column.
pub(super) fn letters(column: usize) -> String {
    let (mut rest, mut out) = (column + 1, Vec::new());
    while rest > 0 {
        rest -= 1;
        out.push(char::from(b'A' + u8::try_from(rest % 26).unwrap_or_default()));
        rest /= 26;
    }
    out.into_iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_sheets_reads_them() {
        let area = |tab: Option<&str>, rows: (usize, Option<usize>), columns: (usize, Option<usize>)| {
            let tab = tab.map(str::to_owned);
            Some(Area { tab, first_row: rows.0, last_row: rows.1, first_column: columns.0, last_column: columns.1 })
        };
        let tabs = ["Orders", "My tab"];
        for (text, expected) in [
            ("Orders", area(Some("Orders"), (0, None), (0, None))),
            ("Orders!A1:F", area(Some("Orders"), (0, None), (0, Some(5)))),
            ("'My tab'!B2:C3", area(Some("My tab"), (1, Some(2)), (1, Some(2)))),
            ("B2", area(None, (1, Some(1)), (1, Some(1)))),
            ("A:C", area(None, (0, None), (0, Some(2)))),
            ("2:4", area(None, (1, Some(3)), (0, None))),
            ("Nothing!A1", None),
            ("Nothing", None),
            ("A0", None),
            ("", None),
            ("A1:", None),
        ] {
            assert_eq!(read(text, &tabs), expected, "{text}");
        }
        assert_eq!(["A", "Z", "AA", "AZ", "BA"], [0, 25, 26, 51, 52].map(letters).each_ref().map(String::as_str));
    }
}
