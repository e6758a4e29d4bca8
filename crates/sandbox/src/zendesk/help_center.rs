//! `/help_center/articles/search`: the articles of the Help Center, the same in every helpdesk.
//!
//! <https://developer.zendesk.com/api-reference/help_center/help-center-api/search/>

use std::cmp::Reverse;

use serde_json::{Value, json};

use crate::clock::iso;
use crate::http::{Answer, escape};
use crate::zendesk::api::Call;
use crate::zendesk::paging::Offset;
use crate::zendesk::seed::ABOVE_DOUBLE;

/// Where nothing else is asked for.
const DEFAULT_LOCALE: &str = "en-us";
/// What a page holds where nothing is asked for.
const USUAL_PER_PAGE: usize = 25;
/// 2026-01-05T09:00:00Z.
const FIRST_MS: i64 = 1_767_603_600_000;
const DAY_MS: i64 = 86_400_000;

/// Title, what it says, label.
const TOPICS: &[(&str, &str, &str)] = &[
    ("Returns", "Send an item back within 30 days. Print the label in your account & pack it well.", "returns"),
    ("Refunds", "A refund takes up to five working days after the return arrived.", "billing"),
    ("Shipping times", "Parcels leave our warehouse on the day of the order, if it comes before noon.", "shipping"),
    ("Damaged parcels", "Take a picture of the box and write to us; a replacement leaves at once.", "shipping"),
    ("Invoices and VAT", "Invoices are in your account. Change the VAT number before the order.", "billing"),
    ("Signing in", "Use the newest reset link only: each one cancels those before.", "account"),
    ("Warranty", "Two years, the battery included.", "warranty"),
    ("Discount codes", "A code is not valid for items on sale.", "promotion"),
];
const REGIONS: &[&str] = &["Austria", "Germany", "France", "Spain", "Japan", "Canada"];
const GERMAN: &[(&str, &str, &str)] = &[
    ("Rücksendungen", "Innerhalb von 30 Tagen, mit dem Etikett aus Ihrem Konto.", "returns"),
    ("Rückerstattung", "Bis zu fünf Werktage nach Eingang der Rücksendung.", "billing"),
    ("Beschädigte Pakete", "Ein Foto genügt, der Ersatz geht sofort hinaus.", "shipping"),
];

struct Article {
    number: i64,
    locale: &'static str,
    title: String,
    body: String,
    label: &'static str,
}

pub(crate) fn search(call: &Call<'_>) -> Result<Answer, Answer> {
    call.needs("hc", "read")?;
    let request = call.request;
    let words: Vec<String> =
        request.param("query").unwrap_or_default().split_whitespace().map(str::to_lowercase).collect();
    if words.is_empty() && request.param("label_names").is_none() {
        return Err(Answer::json(
            400,
            json!({"error": "InvalidParameter", "description": "query, category, section or label_names has to be given"}),
        ));
    }
    let offset = Offset::with_usual(request, USUAL_PER_PAGE)?.bounded()?;
    let locale = request.param("locale").unwrap_or(DEFAULT_LOCALE);
    let labels: Option<Vec<&str>> = request.param("label_names").map(|names| names.split(',').collect());

    let mut found: Vec<(usize, Article)> = articles()
        .filter(|article| article.locale == locale)
        .filter(|article| labels.as_ref().is_none_or(|labels| labels.contains(&article.label)))
        .filter_map(|article| {
            let text = format!("{} {}", article.title, article.body).to_lowercase();
            let hits = words.iter().filter(|word| text.contains(word.as_str())).count();
            (hits > 0 || words.is_empty()).then_some((hits, article))
        })
        .collect();
    // Most of the words first.
    found.sort_by_key(|(hits, article)| (Reverse(*hits), article.number));

    let base = &call.desk.url;
    let mut body = offset.answer(request, base, "results", &found, |(_, article)| article.to_json(base));
    body.insert("page".to_owned(), offset.page().into());
    body.insert("per_page".to_owned(), offset.per_page().into());
    body.insert("page_count".to_owned(), found.len().div_ceil(offset.per_page()).into());
    Ok(Answer::json(200, Value::Object(body)))
}

fn articles() -> impl Iterator<Item = Article> {
    let english = TOPICS.iter().flat_map(|(title, body, label)| {
        REGIONS.iter().map(move |region| ("en-us", format!("{title}: {region}"), (*body).to_owned(), *label))
    });
    let german = GERMAN.iter().map(|(title, body, label)| ("de", (*title).to_owned(), (*body).to_owned(), *label));
    english.chain(german).zip(1..).map(|((locale, title, body, label), number)| Article {
        number,
        locale,
        title,
        body,
        label,
    })
}

impl Article {
    fn to_json(&self, base: &str) -> Value {
        let id = ABOVE_DOUBLE + 500_000 + self.number;
        let (title, body) = (escape(&self.title), escape(&self.body));
        json!({
            "id": id,
            "url": format!("{base}/api/v2/help_center/{}/articles/{id}.json", self.locale),
            "html_url": format!("{base}/hc/{}/articles/{id}", self.locale),
            "author_id": 1,
            "comments_disabled": false,
            "content_tag_ids": [],
            "draft": false,
            "promoted": false,
            "position": 0,
            "vote_sum": 0,
            "vote_count": 0,
            "section_id": 77,
            "created_at": iso(FIRST_MS + self.number * DAY_MS),
            "updated_at": iso(FIRST_MS + (self.number + 30) * DAY_MS),
            "edited_at": iso(FIRST_MS + (self.number + 30) * DAY_MS),
            "name": self.title,
            "title": self.title,
            "source_locale": DEFAULT_LOCALE,
            "locale": self.locale,
            "outdated": false,
            "outdated_locales": [],
            "label_names": [self.label],
            "body": format!(
                "<h2>{title}</h2>\n<p>{body}</p>\n<ul>\n<li>Free of charge</li>\n<li>Questions&nbsp;? Write to \
                 <a href=\"mailto:help@example.com\">us</a>.</li>\n</ul>"
            ),
            "snippet": format!("<em>{title}</em> {body}"),
            "result_type": "article",
        })
    }
}
