//! Solutions: articles of the knowledge base.

use serde_json::Value;

use crate::desk::locked;
use crate::freshdesk::api::{Call, not_found};
use crate::freshdesk::fields::{Wrong, params, refuse};
use crate::http::Answer;

/// Drafts and articles for agents are among what is found: the key is an agent's.
pub(crate) fn search(call: &Call<'_>) -> Result<Answer, Answer> {
    params(call.request, &["term"])?;
    let term = call.request.param("term").filter(|term| !term.trim().is_empty());
    let term = term.ok_or_else(|| refuse(Wrong::missing("term")))?.to_lowercase();
    let data = locked(&call.account.data);
    let found: Vec<Value> = data
        .articles
        .iter()
        .filter(|article| {
            let text = format!("{} {}", article.title, article.text).to_lowercase();
            term.split_whitespace().all(|word| text.contains(word))
        })
        .map(crate::freshdesk::data::Article::to_json)
        .collect();
    Ok(Answer::json(200, Value::Array(found)))
}

pub(crate) fn view(call: &Call<'_>, id: &str) -> Result<Answer, Answer> {
    params(call.request, &[])?;
    let data = locked(&call.account.data);
    let article = data.articles.iter().find(|article| article.id.to_string() == id).ok_or_else(not_found)?;
    Ok(Answer::json(200, article.to_json()))
}
