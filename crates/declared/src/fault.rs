//! What is wrong with a file: where, which key, why, and what to do about it.

use toml_edit::{ImDocument, Item, TableLike};

/// One line for whoever wrote the file. Holds no value of it, which may be a secret that stands in the wrong place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: line {line}: {key}: {reason}; {remedy}")]
pub struct Fault {
    /// The file's name.
    pub file: String,
    /// Counted from 1.
    pub line: usize,
    /// `test.path`.
    pub key: String,
    /// What is wrong.
    pub reason: String,
    /// What to do.
    pub remedy: String,
}

/// A file as it was written, to say where in it a key stands.
pub(crate) struct Written<'a> {
    pub(crate) file: &'a str,
    pub(crate) text: &'a str,
    pub(crate) document: ImDocument<&'a str>,
}

impl Written<'_> {
    /// A fault of this key; of the nearest table around it where the key itself is missing.
    pub(crate) fn fault(&self, key: &str, reason: impl Into<String>, remedy: impl Into<String>) -> Fault {
        self.fault_at(self.offset(key), key, reason, remedy)
    }

    pub(crate) fn fault_at(
        &self,
        offset: usize,
        key: &str,
        reason: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Fault {
        fault(self.file, self.text, offset, key, reason, remedy)
    }

    /// The key at this place, or whose value is.
    pub(crate) fn key_at(&self, offset: usize) -> Option<String> {
        deepest(self.document.as_table(), offset)
    }

    fn offset(&self, key: &str) -> usize {
        let (mut item, mut offset) = (self.document.as_item(), 0);
        for part in key.split('.') {
            let Some((key, next)) = item.as_table_like().and_then(|table| entry(table, part)) else { return offset };
            offset = key.or(next.span().map(|span| span.start)).unwrap_or(offset);
            item = next;
        }
        offset
    }
}

fn deepest(table: &dyn TableLike, offset: usize) -> Option<String> {
    let names: Vec<&str> = table.iter().map(|(name, _)| name).collect();
    names.into_iter().find_map(|name| {
        let (key, item) = table.get_key_value(name)?;
        if let Some(rest) = item.as_table_like().and_then(|inner| deepest(inner, offset)) {
            return Some(format!("{name}.{rest}"));
        }
        let spans = [key.span(), item.span()];
        spans.into_iter().flatten().any(|span| span.contains(&offset)).then(|| name.to_owned())
    })
}

fn entry<'a>(table: &'a dyn TableLike, name: &str) -> Option<(Option<usize>, &'a Item)> {
    let (key, item) = table.get_key_value(name)?;
    Some((key.span().map(|span| span.start), item))
}

/// Of a file that is TOML.
pub(crate) fn of_key(file: &str, text: &str, key: &str, reason: &str, remedy: &str) -> Fault {
    let document = ImDocument::parse(text).ok();
    let at = document.map_or(0, |document| Written { file, text, document }.offset(key));
    fault(file, text, at, key, reason, remedy)
}

/// Before there is a document.
pub(crate) fn fault(
    file: &str,
    text: &str,
    offset: usize,
    key: &str,
    reason: impl Into<String>,
    remedy: impl Into<String>,
) -> Fault {
    let line = 1 + text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count();
    Fault { file: file.to_owned(), line, key: key.to_owned(), reason: reason.into(), remedy: remedy.into() }
}
