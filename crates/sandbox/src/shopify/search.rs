//! Shopify's search language, as far as it is imitated: terms that have to hold together, alternatives in brackets,
//! phrases in quotes. A field that is not known is ignored, as Shopify does it: then everything is found.
//!
//! <https://shopify.dev/docs/api/usage/search-syntax>

use serde_json::Value;

/// One term: its field, its comparison, its value.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    field: Option<String>,
    comparison: String,
    value: String,
}

/// Alternatives that have to hold together with others.
type Terms = Vec<Vec<Term>>;

/// What is kept of a list.
pub(crate) fn find(kind: &str, list: &[Value], query: Option<&str>) -> Vec<Value> {
    let terms = read(query.unwrap_or_default());
    let holds = |item: &&Value| terms.iter().all(|any| any.iter().any(|term| holds(kind, item, term)));
    list.iter().filter(holds).cloned().collect()
}

fn holds(kind: &str, item: &Value, term: &Term) -> bool {
    let value = term.value.to_lowercase();
    let text = |of: &Value| of.as_str().unwrap_or_default().to_lowercase();
    // Tokens, not whole values: a search finds more than what is equal.
    let has = |of: &Value| text(of).contains(value.as_str());
    let Some(field) = term.field.as_deref() else {
        let names: &[&str] = match kind {
            "orders" => &["name", "email"],
            "customers" => &["displayName"],
            _ => &["title", "vendor"],
        };
        return names.iter().any(|name| has(&item[*name]));
    };
    match (kind, field) {
        ("orders", "name") => text(&item["name"]).trim_start_matches('#').contains(value.trim_start_matches('#')),
        ("orders", "email") => has(&item["email"]),
        ("orders", "confirmation_number") => text(&item["confirmationNumber"]) == value,
        ("orders", "customer_id") => text(&item["customer"]["id"]).ends_with(&format!("/{value}")),
        ("orders", "sku") => list(&item["lineItems"]).any(|line| text(&line["sku"]) == value),
        ("orders", "status") => match value.as_str() {
            "cancelled" => !item["cancelledAt"].is_null(),
            "closed" => !item["closedAt"].is_null(),
            "open" => item["cancelledAt"].is_null() && item["closedAt"].is_null(),
            "not_closed" => item["closedAt"].is_null(),
            _ => true,
        },
        // Moments in UTC are sorted as text.
        ("orders", "created_at") => match term.comparison.as_str() {
            ">=" => text(&item["createdAt"]) >= value,
            "<" => text(&item["createdAt"]) < value,
            _ => text(&item["createdAt"]) == value,
        },
        ("products", "sku") => list(&item["variants"]).any(|variant| text(&variant["sku"]) == value),
        ("products", "vendor") => text(&item["vendor"]) == value,
        ("products", "status") => text(&item["status"]) == value,
        ("customers", "email") => has(&item["defaultEmailAddress"]["emailAddress"]),
        _ => true,
    }
}

fn list(of: &Value) -> impl Iterator<Item = &Value> {
    of.as_array().into_iter().flatten()
}

fn read(query: &str) -> Terms {
    let mut rest = query.trim();
    let mut all = Vec::new();
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('(') {
            let mut alternatives = Vec::new();
            rest = inner.trim_start();
            while !rest.is_empty() && !rest.starts_with(')') {
                if let Some(behind) = rest.strip_prefix("OR ") {
                    rest = behind.trim_start();
                    continue;
                }
                let (term, behind) = term(rest);
                alternatives.push(term);
                rest = behind.trim_start();
            }
            rest = rest.strip_prefix(')').unwrap_or(rest).trim_start();
            all.push(alternatives);
        } else {
            let (term, behind) = term(rest);
            all.push(vec![term]);
            rest = behind.trim_start();
        }
    }
    all
}

fn term(text: &str) -> (Term, &str) {
    let name = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
    let (field, mut rest) = match text[name..].strip_prefix(':') {
        Some(behind) if name > 0 => (Some(text[..name].to_owned()), behind),
        _ => (None, text),
    };
    let mut comparison = String::new();
    while field.is_some()
        && let Some(mark) = rest.chars().next().filter(|c| matches!(c, '<' | '>' | '='))
    {
        comparison.push(mark);
        rest = &rest[1..];
    }
    let mut value = String::new();
    if let Some(inside) = rest.strip_prefix('"') {
        let mut letters = inside.char_indices();
        let mut end = inside.len();
        while let Some((at, c)) = letters.next() {
            match c {
                '\\' => value.extend(letters.next().map(|(_, c)| c)),
                '"' => {
                    end = at + 1;
                    break;
                }
                c => value.push(c),
            }
        }
        return (Term { field, comparison, value }, &inside[end..]);
    }
    let end =
        rest.find(|c: char| c.is_whitespace() || c == ')').unwrap_or(rest.len()).max(usize::from(!rest.is_empty()));
    let end = (end..=rest.len()).find(|end| rest.is_char_boundary(*end)).unwrap_or(rest.len());
    value.push_str(&rest[..end]);
    (Term { field, comparison, value }, &rest[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_read_with_their_quotes_and_alternatives() {
        let term = |field: Option<&str>, comparison: &str, value: &str| Term {
            field: field.map(str::to_owned),
            comparison: comparison.to_owned(),
            value: value.to_owned(),
        };
        let query =
            r##"(name:"#1" OR name:"1") email:"a\" OR email:\"b" status:open created_at:>="2026" "two words" 陳 )"##;
        assert_eq!(
            read(query),
            [
                vec![term(Some("name"), "", "#1"), term(Some("name"), "", "1")],
                vec![term(Some("email"), "", "a\" OR email:\"b")],
                vec![term(Some("status"), "", "open")],
                vec![term(Some("created_at"), ">=", "2026")],
                vec![term(None, "", "two words")],
                vec![term(None, "", "陳")],
                vec![term(None, "", ")")],
            ]
        );
        assert_eq!(read(""), Terms::new());
    }
}
