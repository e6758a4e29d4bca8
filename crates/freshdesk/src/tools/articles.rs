//! `search_articles`.

use holdfast_core::{
    ApiClient,
    error::{Error, ErrorKind, Result},
    helpdesk::{Bounds, FoundArticles, MOST_ARTICLES, Page, SearchArticles, USUAL_ARTICLES},
    tool::invalid,
};

use super::customers::part;
use crate::api;

pub(super) const NAME: &str = "search_articles";

const BOUNDS: Bounds = Bounds { usual: USUAL_ARTICLES, most: MOST_ARTICLES, ..Bounds::ending_at(u32::MAX) };

pub(super) async fn run(api: &ApiClient, asked: SearchArticles) -> Result<FoundArticles> {
    let refused = |message: String| invalid(api, NAME, message);
    let text = asked.text().map_err(refused)?;
    let page = Page::of(asked.limit, asked.cursor.as_deref(), BOUNDS).map_err(refused)?;
    if asked.locale.is_some() {
        return Err(refused("locale: Freshdesk's search takes no language; leave it out".to_owned()));
    }

    let found = api::articles(api, NAME, text).await.map_err(|error| match error.kind {
        // It is a search: nothing that was asked for could be missing but the search itself.
        ErrorKind::NotFound => Error {
            message: "this Freshdesk has no search for articles".to_owned(),
            kind: ErrorKind::Forbidden,
            ..error
        },
        _ => error,
    })?;

    let all = found.len();
    let for_customers: Vec<_> = found.into_iter().filter(crate::model::WireArticle::is_for_customers).collect();
    let left_out = all - for_customers.len();
    let (part, more) = part(for_customers, page);
    let base = &api.account().base_url;
    let next = Page { number: page.number.saturating_add(1), ..page };
    Ok(FoundArticles {
        articles: part.into_iter().map(|article| article.into_model(base)).collect(),
        // It may have answered with the first ones only.
        total: None,
        next_cursor: more.then(|| next.cursor()),
        note: (left_out > 0)
            .then(|| format!("{left_out} more are drafts, or not for all customers; they are left out.")),
    })
}
