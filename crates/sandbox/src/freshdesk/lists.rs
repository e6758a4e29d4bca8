//! Pages of plain arrays, by number, with the next one in the `Link` header.
//! <https://developers.freshdesk.com/api/#pagination>

use serde_json::Value;

use crate::freshdesk::fields::{Wrong, refuse};
use crate::http::{Answer, Request};

const USUAL: usize = 30;
const MOST: usize = 100;

/// A page that was asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Page {
    number: usize,
    size: usize,
}

impl Page {
    /// `last` is the number of the last page that is ever shown.
    pub(crate) fn of(request: &Request, last: usize) -> Result<Self, Answer> {
        Ok(Self { number: number(request, "page", 1, last)?, size: number(request, "per_page", USUAL, MOST)? })
    }

    /// A page whose size is not the caller's to choose.
    pub(crate) fn fixed(request: &Request, last: usize) -> Result<Self, Answer> {
        Ok(Self { number: number(request, "page", 1, last)?, size: USUAL })
    }

    pub(crate) fn slice<T>(self, all: &[T]) -> &[T] {
        let start = (self.number - 1).saturating_mul(self.size).min(all.len());
        &all[start..(start + self.size).min(all.len())]
    }

    pub(crate) fn answer<T>(self, request: &Request, base: &str, all: &[T], to_json: impl Fn(&T) -> Value) -> Answer {
        let page = self.slice(all);
        let answer = Answer::json(200, page.iter().map(to_json).collect());
        if self.number * self.size >= all.len() {
            return answer;
        }
        let query = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(request.query.iter().filter(|(name, _)| name != "page"))
            .append_pair("page", &(self.number + 1).to_string())
            .finish();
        answer.header("link", format!("<{base}/api/v2/{}?{query}>; rel=\"next\"", request.path.join("/")))
    }
}

fn number(request: &Request, name: &str, usual: usize, most: usize) -> Result<usize, Answer> {
    match request.param(name) {
        None => Ok(usual),
        Some(text) => text.parse().ok().filter(|number| (1..=most).contains(number)).ok_or_else(|| {
            refuse(Wrong::value(name, format!("It should be a Positive Integer less than or equal to {most}")))
        }),
    }
}
