//! What all lists have: known parameters alone, and pages by a cursor that says nothing.
//! <https://developers.gorgias.com/reference/introduction>

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::error::{Wrong, refused};
use crate::http::{Answer, Request};

/// Refuses parameters that the endpoint does not know, and those that are given twice.
pub(super) fn params(request: &Request, known: &[&str]) -> Result<(), Answer> {
    let mut wrong = Wrong::default();
    for (index, (name, _)) in request.query.iter().enumerate() {
        if !known.contains(&name.as_str()) {
            wrong.add(name, "Unknown field.");
        } else if request.query[..index].iter().any(|(earlier, _)| earlier == name) {
            wrong.add(name, "Given twice.");
        }
    }
    wrong.refuse()
}

/// The page that is asked for, beside the parameters of the list's own.
pub(super) struct Page {
    limit: usize,
    after: Option<i64>,
    order: (String, bool),
}

pub(super) const OF_ALL: [&str; 3] = ["limit", "cursor", "order_by"];

impl Page {
    /// `fields` are what the list can be ordered by, the usual one first, descending.
    pub(super) fn of(request: &Request, fields: &[&str]) -> Result<Self, Answer> {
        let limit =
            match request.param("limit") {
                None => 30,
                Some(text) => text.parse().ok().filter(|limit| (1..=100).contains(limit)).ok_or_else(|| {
                    refused("limit", "Must be greater than or equal to 1 and less than or equal to 100.")
                })?,
            };
        let asked = request.param("order_by").unwrap_or_default();
        let (field, way) = asked.split_once(':').unwrap_or((asked, "desc"));
        let order = match (asked, fields.contains(&field), way) {
            ("", ..) => (fields[0].to_owned(), true),
            (_, true, "asc" | "desc") => (field.to_owned(), way == "desc"),
            _ => return Err(refused("order_by", "Must be one of the fields, with asc or desc.")),
        };
        let after = match request.param("cursor") {
            None => None,
            Some(text) => Some(read_cursor(text).ok_or_else(|| refused("cursor", "Invalid cursor."))?),
        };
        Ok(Self { limit, after, order })
    }

    /// A page of these, which have an `id` each.
    pub(super) fn answer(&self, uri: &str, mut all: Vec<Value>) -> Answer {
        let (field, descending) = &self.order;
        let key = |item: &Value| (item[field].as_str().unwrap_or_default().to_owned(), item["id"].as_i64());
        all.sort_by(|a, b| if *descending { key(b).cmp(&key(a)) } else { key(a).cmp(&key(b)) });
        // Behind the last one that was shown; where that has gone, from the beginning.
        let start = self.after.and_then(|id| Some(all.iter().position(|item| item["id"] == id)? + 1)).unwrap_or(0);
        let more = all.len() > start + self.limit;
        let data: Vec<Value> = all.into_iter().skip(start).take(self.limit).collect();
        let next = data.last().filter(|_| more).and_then(|last| last["id"].as_i64()).map(cursor);
        let meta = json!({"prev_cursor": self.after.map(cursor), "next_cursor": next, "total_resources": null});
        Answer::json(200, json!({"object": "list", "uri": uri, "data": data, "meta": meta}))
    }
}

fn cursor(id: i64) -> String {
    URL_SAFE_NO_PAD.encode(format!("after={id}"))
}

fn read_cursor(text: &str) -> Option<i64> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
    text.strip_prefix("after=")?.parse().ok()
}
