//! Where a page of ours begins: behind a cursor of Gorgias's, and behind what was shown of its page before.

/// Behind a page of Gorgias's lists there is an opaque text; longer ones are none of its.
const LONGEST_CURSOR: usize = 2000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Whether whole pages are looked through, and not only as much is asked for as is shown.
    pub(super) looks_through: bool,
    /// Things on a page of ours.
    pub(super) size: u32,
    /// Things on Gorgias's page that were shown before.
    pub(super) offset: usize,
    /// Gorgias's own; `None`: its first page.
    pub(super) cursor: Option<String>,
}

impl Place {
    pub(super) fn first(looks_through: bool, size: u32) -> Self {
        Self { looks_through, size, offset: 0, cursor: None }
    }

    /// As an answer's `next_cursor`.
    pub(super) fn written(&self) -> String {
        let way = if self.looks_through { 'l' } else { 'p' };
        format!("{way}.{}.{}.{}", self.size, self.offset, self.cursor.as_deref().unwrap_or_default())
    }

    /// Reads [`Self::written`] back, of a list of the same way.
    pub(super) fn read(text: &str, looks_through: bool, most: u32) -> Result<Self, String> {
        let read = || {
            let mut parts = text.splitn(4, '.');
            let looks = match parts.next()? {
                "l" => true,
                "p" => false,
                _ => return None,
            };
            let (size, offset) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            let cursor = parts.next().filter(|cursor| !cursor.is_empty()).map(str::to_owned);
            let place = Self { looks_through: looks, size, offset, cursor };
            let own = place.cursor.as_deref().unwrap_or_default();
            let fits = looks == looks_through
                && (1..=most).contains(&size)
                && offset < crate::api::PER_PAGE as usize
                && (looks || offset == 0)
                && (place.cursor.is_some() || offset > 0)
                && own.len() <= LONGEST_CURSOR
                && !own.contains(char::is_control);
            // Exactly as it was written: a parser takes "+2" as well.
            (fits && place.written() == text).then_some(place)
        };
        read().ok_or_else(|| {
            "cursor: expected next_cursor of an earlier answer to the same arguments, unchanged".to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_taken_only_as_it_was_given_and_for_the_same_way() {
        let place = |looks_through, size, offset, cursor: Option<&str>| Place {
            looks_through,
            size,
            offset,
            cursor: cursor.map(str::to_owned),
        };
        for there in [
            place(true, 25, 3, None),
            place(true, 100, 99, Some("b3BhcXVl.x=")),
            place(true, 1, 0, Some("a")),
            place(false, 25, 0, Some("a.b.c")),
        ] {
            let text = there.written();
            assert_eq!(Place::read(&text, there.looks_through, 100), Ok(there.clone()), "{text}");
            assert!(Place::read(&text, !there.looks_through, 100).is_err(), "{text}");
        }
        let long = format!("p.25.0.{}", "x".repeat(2001));
        for text in [
            "",
            "l",
            "l.25",
            "l.25.0",
            "l.25.0.",
            "l.25.100.a",
            "l.0.1.a",
            "l.101.1.a",
            "l.+1.1.a",
            "l.01.1.a",
            "x.25.0.a",
            "l.25.-1.a",
            "l.25.1.a\nb",
            &long,
        ] {
            let refused = Place::read(text, text.starts_with('l'), 100).unwrap_err();
            assert!(refused.starts_with("cursor: expected"), "{text}");
        }
        assert!(Place::read("p.25.1.a", false, 100).is_err());
    }
}
