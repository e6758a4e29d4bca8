//! The two ways in which Zendesk pages: by offset and by cursor.
//!
//! <https://developer.zendesk.com/api-reference/introduction/pagination/>

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde_json::{Map, Value, json};

use crate::http::{Answer, Request};

/// Most that one page holds, whatever was asked for.
const PAGE: usize = 100;
/// Lists by number end after so many pages, whatever is on them.
const MOST_PAGES: usize = 100;
/// A search shows no result beyond this one, though it still offers the page.
pub(crate) const SEARCH_LIMIT: usize = 1000;

/// A page by number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offset {
    page: usize,
    per_page: usize,
}

impl Offset {
    pub(crate) fn of(request: &Request) -> Result<Self, Answer> {
        Self::with_usual(request, PAGE)
    }

    /// With so many on a page where nothing is asked for.
    pub(crate) fn with_usual(request: &Request, usual: usize) -> Result<Self, Answer> {
        let number = |name: &str, default: usize| match request.param(name) {
            None | Some("") => Ok(default),
            Some(text) => match text.parse::<usize>() {
                Ok(number) if number > 0 => Ok(number),
                _ => Err(bad(&format!("Invalid value for parameter {name}"))),
            },
        };
        Ok(Self { page: number("page", 1)?, per_page: number("per_page", usual)?.min(PAGE) })
    }

    /// Refuses a page beyond the hundredth.
    pub(crate) fn bounded(self) -> Result<Self, Answer> {
        if self.page > MOST_PAGES {
            return Err(bad("The page is beyond the limit of offset pagination; use cursor pagination"));
        }
        Ok(self)
    }

    pub(crate) fn page(self) -> usize {
        self.page
    }

    pub(crate) fn per_page(self) -> usize {
        self.per_page
    }

    pub(crate) fn exceeds(self, limit: usize) -> bool {
        self.page.saturating_mul(self.per_page) > limit
    }

    /// One page of `all` under `key`; `all` is everything that matched.
    pub(crate) fn answer<T>(
        self,
        request: &Request,
        base: &str,
        key: &str,
        all: &[T],
        to_json: impl Fn(&T) -> Value,
    ) -> Map<String, Value> {
        let start = (self.page - 1).saturating_mul(self.per_page).min(all.len());
        let end = (start + self.per_page).min(all.len());
        let link = |page: usize| address(request, base, &["page"], &[("page", page.to_string())]);
        let mut body = Map::new();
        body.insert(key.to_owned(), all[start..end].iter().map(to_json).collect());
        body.insert("count".to_owned(), all.len().into());
        let next = (end < all.len()).then(|| link(self.page + 1));
        let previous = (self.page > 1).then(|| link(self.page - 1));
        body.insert("next_page".to_owned(), next.into());
        body.insert("previous_page".to_owned(), previous.into());
        body
    }
}

/// A page after a place in an order: `(rank, id)` of the last entry that was shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor {
    size: usize,
    after: Option<(i64, i64)>,
}

/// From the beginning, as many as fit.
impl Default for Cursor {
    fn default() -> Self {
        Self { size: PAGE, after: None }
    }
}

impl Cursor {
    /// `None` when the caller does not page by cursor.
    pub(crate) fn of(request: &Request) -> Result<Option<Self>, Answer> {
        let after = request.param("page[after]");
        let size = match request.param("page[size]") {
            None if after.is_none() => return Ok(None),
            None => PAGE,
            Some(text) => match text.parse::<usize>() {
                Ok(size @ 1..=PAGE) => size,
                _ => return Err(bad("page[size] has to be between 1 and 100")),
            },
        };
        let after = match after {
            None | Some("") => None,
            Some(text) => Some(decode(text).ok_or_else(|| bad("Invalid cursor"))?),
        };
        Ok(Some(Self { size, after }))
    }

    #[expect(clippy::too_many_arguments, reason = "both callers name each of them at the call")]
    /// The entries of one page. `all` is in ascending order of `place`, or in descending order.
    pub(crate) fn answer<T>(
        self,
        request: &Request,
        base: &str,
        key: &str,
        all: &[T],
        descending: bool,
        place: impl Fn(&T) -> (i64, i64),
        to_json: impl Fn(&T) -> Value,
    ) -> (Map<String, Value>, std::ops::Range<usize>) {
        let start = self.after.map_or(0, |after| {
            all.partition_point(|entry| if descending { place(entry) >= after } else { place(entry) <= after })
        });
        let end = (start + self.size).min(all.len());
        let page = &all[start..end];
        let has_more = end < all.len();
        let after = page.last().map(|last| encode(place(last)));
        let next = after.as_ref().filter(|_| has_more).map(|after| {
            address(
                request,
                base,
                &["page[after]", "page[size]"],
                &[("page[after]", after.clone()), ("page[size]", self.size.to_string())],
            )
        });
        let before = page.first().map(|first| encode(place(first)));
        let mut body = Map::new();
        body.insert(key.to_owned(), page.iter().map(to_json).collect());
        body.insert("meta".to_owned(), json!({"has_more": has_more, "after_cursor": after, "before_cursor": before}));
        body.insert("links".to_owned(), json!({"next": next, "prev": null}));
        (body, start..end)
    }
}

/// The address of this request with other paging parameters.
fn address(request: &Request, base: &str, without: &[&str], with: &[(&str, String)]) -> String {
    let query = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(request.query.iter().filter(|(name, _)| !without.contains(&name.as_str())))
        .extend_pairs(with)
        .finish();
    format!("{base}/api/v2/{}.json?{query}", request.path.join("/"))
}

fn encode((rank, id): (i64, i64)) -> String {
    BASE64.encode(format!("{rank}|{id}"))
}

fn decode(text: &str) -> Option<(i64, i64)> {
    let text = String::from_utf8(BASE64.decode(text).ok()?).ok()?;
    let (rank, id) = text.split_once('|')?;
    Some((rank.parse().ok()?, id.parse().ok()?))
}

fn bad(description: &str) -> Answer {
    Answer::json(400, json!({"error": "InvalidPaginationParameter", "description": description}))
}
