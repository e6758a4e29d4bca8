//! `search_articles`.

use holdfast_core::{
    ApiClient,
    error::Result,
    helpdesk::{Bounds, FoundArticles, MOST_ARTICLES, Page, SEARCH_ARTICLES, SearchArticles, USUAL_ARTICLES, Words},
};

use super::invalid;
use crate::api;

pub(super) const NAME: &str = SEARCH_ARTICLES.name;

/// Pages by number end here, whatever is on them.
/// <https://developer.zendesk.com/api-reference/introduction/pagination/#using-offset-pagination>
const BOUNDS: Bounds = Bounds { usual: USUAL_ARTICLES, most: MOST_ARTICLES, end: 10_000, pages: 100 };

pub(super) async fn run(api: &ApiClient, arguments: SearchArticles) -> Result<FoundArticles> {
    let query = arguments.text().map_err(invalid(api, NAME))?;
    let locale = arguments.locale.as_deref().map(locale).transpose().map_err(invalid(api, NAME))?;
    let page = Page::of(arguments.limit, arguments.cursor.as_deref(), BOUNDS).map_err(invalid(api, NAME))?;

    let found = api::articles(api, NAME, query, locale.as_deref(), page).await?;

    let words = Words { whose: "Zendesk", what: "article", total: found.count, narrow: "" };
    let (next_cursor, note) = page.after(found.next_page.is_some(), BOUNDS, &words);
    Ok(FoundArticles {
        articles: found.results.into_iter().map(crate::model::WireArticle::into_model).collect(),
        total: found.count,
        next_cursor,
        note,
    })
}

/// A locale as the help center writes it: `en-us`, `pt-br`, `zh-cn`, `de`.
fn locale(text: &str) -> Result<String, String> {
    let fits = (2..=35).contains(&text.len())
        && text.split(['-', '_']).all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    if !fits {
        return Err("locale: expected a language, like \"en-us\" or \"de\"".to_owned());
    }
    Ok(text.to_ascii_lowercase().replace('_', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locale_is_written_as_the_help_center_writes_it() {
        for (given, written) in [("en-us", "en-us"), ("pt_BR", "pt-br"), ("DE", "de"), ("sr-Latn-RS", "sr-latn-rs")] {
            assert_eq!(locale(given), Ok(written.to_owned()));
        }
        for given in ["", "e", "*", "en-", "-us", "en us", "de/../x", "ドイツ語", &"a".repeat(36)] {
            assert!(locale(given).unwrap_err().starts_with("locale: expected"), "{given}");
        }
    }
}
