//! Pages by number, behind a cursor that keeps the size of the page: for providers that count pages themselves.

use super::{MOST_PER_PAGE, USUAL_PER_PAGE};

/// A page of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// From 1.
    pub number: u32,
    /// Things on it, as asked for.
    pub size: u32,
}

/// What may be asked for.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// On a page where nothing is asked for.
    pub usual: u32,
    /// On a page.
    pub most: u32,
    /// The number of the last thing that the provider shows of one list; pages that could reach beyond it are not asked for.
    pub end: u32,
    /// The number of the last page that the provider shows, however little is on each.
    pub pages: u32,
}

impl Bounds {
    /// Of tickets and customers, at a provider that shows so many of one list.
    pub const fn ending_at(end: u32) -> Self {
        Self { usual: USUAL_PER_PAGE, most: MOST_PER_PAGE, end, pages: u32::MAX }
    }

    fn hold(self, page: Page) -> bool {
        (1..=self.pages).contains(&page.number)
            && (1..=self.most).contains(&page.size)
            && page.end().is_some_and(|end| end <= self.end)
    }
}

impl Page {
    /// Of the arguments `limit` and `cursor`. A cursor has its size with it: every page of one list has the same.
    pub fn of(limit: Option<u32>, cursor: Option<&str>, bounds: Bounds) -> Result<Self, String> {
        let size = page_size(limit, bounds.usual, bounds.most)?;
        let Some(cursor) = cursor else { return Ok(Self { number: 1, size }) };
        let read = || {
            let (number, size) = cursor.split_once('-')?;
            let page = Self { number: number.parse().ok()?, size: size.parse().ok()? };
            // Exactly as it is written: a parser takes "+2" as well.
            (bounds.hold(page) && page.cursor() == cursor).then_some(page)
        };
        read().ok_or_else(|| "cursor: expected next_cursor of an earlier answer, unchanged".to_owned())
    }

    /// As an answer's `next_cursor`.
    pub fn cursor(self) -> String {
        format!("{}-{}", self.number, self.size)
    }

    /// Number of the last thing that it can hold.
    fn end(self) -> Option<u32> {
        self.number.checked_mul(self.size)
    }

    /// Cursor of the page behind it, where there is one; and where the provider has one that it does not show, what is
    /// missing, in words: `whose` is its name, `what` are the things, `narrow` says how to get at the others.
    pub fn after(self, there_is_more: bool, bounds: Bounds, words: &Words<'_>) -> (Option<String>, Option<String>) {
        if !there_is_more {
            return (None, None);
        }
        let next = Self { number: self.number.saturating_add(1), ..self };
        if bounds.hold(next) {
            return (Some(next.cursor()), None);
        }
        let Words { whose, what, total, narrow } = words;
        let all = total.map_or_else(|| "More".to_owned(), |total| total.to_string());
        let note = format!(
            "{all} {what}s match, and {whose} shows the first {} only; this was the last page, up to {what} {}. For the \
             others narrow the search{narrow}.",
            bounds.end.min(bounds.pages.saturating_mul(self.size)),
            self.end().unwrap_or(bounds.end)
        );
        (None, Some(note))
    }
}

/// The words of [`Page::after`].
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    /// `Zendesk`.
    pub whose: &'a str,
    /// `ticket`.
    pub what: &'a str,
    /// How many match, where the provider tells.
    pub total: Option<u64>,
    /// `, for example with created<2026-01-01 in the query`; may be empty.
    pub narrow: &'a str,
}

/// How much is asked for on a page.
pub fn page_size(limit: Option<u32>, usual: u32, most: u32) -> Result<u32, String> {
    let size = limit.unwrap_or(usual);
    if (1..=most).contains(&size) { Ok(size) } else { Err(format!("limit: expected 1 to {most}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds::ending_at(1000);
    const WORDS: Words<'_> = Words { whose: "Desk", what: "ticket", total: Some(5000), narrow: " by date" };

    #[test]
    fn a_cursor_is_taken_only_as_it_was_given() {
        assert_eq!(Page::of(None, None, BOUNDS), Ok(Page { number: 1, size: 25 }));
        assert_eq!(Page::of(Some(100), None, BOUNDS), Ok(Page { number: 1, size: 100 }));
        assert_eq!(Page::of(Some(50), Some("3-20"), BOUNDS), Ok(Page { number: 3, size: 20 }));
        for limit in [0, 101] {
            assert!(Page::of(Some(limit), None, BOUNDS).unwrap_err().starts_with("limit: expected 1 to 100"));
        }
        for cursor in
            ["", "2", "0-25", "2-0", "2-101", "11-100", "-1-25", "4294967295-2", "a-b", "2-25-", "+2-25", "02-25"]
        {
            assert!(Page::of(None, Some(cursor), BOUNDS).unwrap_err().starts_with("cursor: expected"), "{cursor}");
        }
    }

    #[test]
    fn a_page_that_was_offered_is_taken_back() {
        let first = Page::of(Some(40), None, BOUNDS).unwrap();

        let (next, _) = first.after(true, BOUNDS, &WORDS);

        assert_eq!(Page::of(None, next.as_deref(), BOUNDS), Ok(Page { number: 2, size: 40 }));
    }

    #[test]
    fn the_end_that_a_provider_sets_to_a_list_is_told() {
        let page = |number, size| Page { number, size };
        let after = |page: Page, more: bool| page.after(more, BOUNDS, &WORDS);
        assert_eq!(after(page(1, 100), false), (None, None));
        assert_eq!(after(page(9, 100), true), (Some("10-100".to_owned()), None));
        let (next, note) = after(page(10, 100), true);
        assert_eq!(next, None);
        assert!(note.unwrap().starts_with("5000 tickets match, and Desk shows the first 1000 only"));
        // The last page of an odd size would cross the bound, so the list ends before it.
        let (next, note) = after(page(33, 30), true);
        assert_eq!(next, None);
        let note = note.unwrap();
        assert!(note.contains("up to ticket 990. For the others narrow the search by date."), "{note}");
        // So does a bound on the number of pages.
        let (next, note) = page(4, 10).after(true, Bounds { pages: 4, ..BOUNDS }, &WORDS);
        assert_eq!(next, None);
        assert!(note.unwrap().contains("shows the first 40 only; this was the last page, up to ticket 40"));
        let unknown = Words { total: None, ..WORDS };
        assert!(page(10, 100).after(true, BOUNDS, &unknown).1.unwrap().starts_with("More tickets match"));
    }
}
