//! A text put into a file that exists.

use std::fmt;

#[derive(Debug)]
pub(super) struct Edit {
    pub(super) file: &'static str,
    pub(super) place: Place,
    /// As it goes into the file.
    pub(super) text: String,
}

/// Where in the file.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// In front of this, where it comes first.
    Before(&'static str),
    /// Among the lines that begin with this, by the alphabet.
    Sorted(&'static str),
    /// In the table of providers, by id.
    Row,
}

impl Place {
    /// The file with the text; `None`: the place is not there.
    pub(super) fn insert(self, file: &str, text: &str) -> Option<String> {
        let at = match self {
            Self::Before(what) => file.find(what)?,
            Self::Sorted(prefix) => among(file, |line| line.strip_prefix(prefix), text.strip_prefix(prefix)?)?,
            Self::Row => among(file, id_of, id_of(text)?)?,
        };
        let end = if matches!(self, Self::Row) { "\n" } else { "" };
        Some(format!("{}{text}{end}{}", &file[..at], &file[at..]))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Before(what) => write!(f, "{what:?}"),
            Self::Sorted(prefix) => write!(f, "a line that begins with {prefix:?}"),
            Self::Row => f.write_str("the table of providers"),
        }
    }
}

/// Where the first line with a greater key begins, else where the last line with a key ends.
fn among<'a>(file: &'a str, key: impl Fn(&'a str) -> Option<&'a str>, own: &str) -> Option<usize> {
    let (mut start, mut after) = (0, None);
    for line in file.split_inclusive('\n') {
        if let Some(other) = key(line) {
            if other > own {
                return Some(start);
            }
            after = Some(start + line.len());
        }
        start += line.len();
    }
    after
}

/// Of a row, the text in the first brackets: ``| Front (`front`) | …``.
fn id_of(line: &str) -> Option<&str> {
    let (_, rest) = line.strip_prefix("| ")?.split_once(" (`")?;
    rest.split_once("`) |").map(|(id, _)| id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_finds_its_place_among_its_like() {
        let file = "use a;\nmod b;\nmod d;\n\nfn f() {}\n";
        for (line, expected) in [
            ("mod a;\n", "use a;\nmod a;\nmod b;\nmod d;\n\nfn f() {}\n"),
            ("mod c;\n", "use a;\nmod b;\nmod c;\nmod d;\n\nfn f() {}\n"),
            ("mod e;\n", "use a;\nmod b;\nmod d;\nmod e;\n\nfn f() {}\n"),
        ] {
            assert_eq!(Place::Sorted("mod ").insert(file, line).as_deref(), Some(expected));
        }
        assert_eq!(Place::Before("fn f").insert(file, "x ").unwrap(), file.replace("fn f", "x fn f"));
        assert_eq!(Place::Sorted("type ").insert(file, "type T;\n"), None);
        assert_eq!(Place::Before("fn g").insert(file, "x"), None);
    }

    #[test]
    fn a_row_is_sorted_by_its_id() {
        let table = "| provider | x |\n| --- | --- |\n| Beta (`b`) | 1 |\n| Delta (`d`) | 2 |\n";
        let with = Place::Row.insert(table, "| Alpha (`c`) | 3 |").unwrap();
        assert!(with.contains("| Beta (`b`) | 1 |\n| Alpha (`c`) | 3 |\n| Delta (`d`) | 2 |\n"), "{with}");
    }
}
