//! What is looked at in the GraphQL requests of callers: one path serves all of Shopify's API, and two of its mutations do
//! what the closed paths of REST do. `delegateAccessTokenCreate` makes a token that outlives ours, and `appUninstall` takes
//! the app off the shop for every connection.
//! <https://shopify.dev/docs/api/admin-graphql/latest/mutations/delegateAccessTokenCreate>

use std::borrow::Cow;

use holdfast_core::provider::Inspected;
use serde::Deserialize;
use url::form_urlencoded;

const CLOSED: [&str; 2] = ["delegateAccessTokenCreate", "appUninstall"];
const REFUSED: &str = "the mutations delegateAccessTokenCreate and appUninstall are not passed on: the connector's own access \
                       would be left or ended by them";
const UNREADABLE: &str = "a GraphQL request is passed on as JSON, not compressed, with its query once and as a text";

/// Not with a second `query`, of which the provider might take the other one.
#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    query: Option<Cow<'a, str>>,
}

/// Whether this path, decoded, serves GraphQL, in whatever spelling.
pub(crate) fn is_graphql(path: &str) -> bool {
    path.to_ascii_lowercase().contains("graphql")
}

/// Documents are looked at, variables are not.
pub(crate) fn inspect(request: &Inspected<'_>) -> Result<(), &'static str> {
    let query = form_urlencoded::parse(request.query.unwrap_or_default().as_bytes());
    if query.filter(|(name, _)| name == "query").any(|(_, document)| is_closed(&document)) {
        return Err(REFUSED);
    }
    if request.body.is_empty() {
        return Ok(());
    }
    if request.encoded {
        return Err(UNREADABLE);
    }
    let mime = request.content_type.map(|whole| whole.split(';').next().unwrap_or_default().trim());
    let document = if mime.is_some_and(|mime| mime.eq_ignore_ascii_case("application/graphql")) {
        std::str::from_utf8(request.body).ok().map(Cow::Borrowed)
    } else {
        serde_json::from_slice::<Request<'_>>(request.body).ok().map(|read| read.query.unwrap_or_default())
    };
    match document {
        Some(document) if is_closed(&document) => Err(REFUSED),
        Some(_) => Ok(()),
        None => Err(UNREADABLE),
    }
}

/// Whether a name of the document, outside of comments and texts, is a closed mutation's. No name has another spelling.
/// <https://spec.graphql.org/October2021/#sec-Source-Text>
fn is_closed(document: &str) -> bool {
    let mut rest = document;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '#' => rest.find(['\n', '\r']).unwrap_or(rest.len()),
            '"' => match text_length(rest) {
                Some(length) => length,
                // Whoever reads it in another way must not find there what we passed over.
                None => return CLOSED.iter().any(|name| rest.contains(name)),
            },
            'A'..='Z' | 'a'..='z' | '_' => {
                let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
                if CLOSED.contains(&&rest[..length]) {
                    return true;
                }
                length
            }
            // A number goes together: what follows it at once is no name.
            '0'..='9' => rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len()),
            other => other.len_utf8(),
        };
        rest = &rest[length..];
    }
    false
}

/// Of the text that this begins with, quotes and all. `None`: it does not end, or not on its line.
fn text_length(rest: &str) -> Option<usize> {
    if let Some(block) = rest.strip_prefix("\"\"\"") {
        let mut from = 0;
        while let Some(at) = block[from..].find("\"\"\"").map(|at| at + from) {
            if !block[..at].ends_with('\\') {
                return Some(at + 6);
            }
            from = at + 3;
        }
        return None;
    }
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '\n' | '\r' => return None,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(content_type: &str, body: &str) -> Result<(), &'static str> {
        let content_type = Some(content_type);
        inspect(&Inspected { query: None, content_type, encoded: false, body: body.as_bytes() })
    }

    #[test]
    fn a_closed_mutation_is_found_however_it_is_written() {
        for document in [
            "mutation { delegateAccessTokenCreate(input: {}) { delegateAccessToken { accessToken } } }",
            "mutation{mine:delegateAccessTokenCreate(input:{}){userErrors{message}}}",
            "mutation M { a: shop { id } ,,,\n\t\u{feff} x :\r\n # no\n delegateAccessTokenCreate # yes\n (input: {}) { shop { id } } }",
            "mutation { ...F } fragment F on Mutation { delegateAccessTokenCreate(input: {}) { shop { id } } }",
            "mutation { a(note: \"x \\\" y\") { id } delegateAccessTokenCreate(input: {}) { shop { id } } }",
            "mutation { a(note: \"\"\"x \\\"\"\" y\"\"\") { id } delegateAccessTokenCreate(input: {}) { shop { id } } }",
            "mutation { a(note: \"\") { id } delegateAccessTokenCreate(input: {}) { shop { id } } }",
            "mutation { a(note: \"x\n\") { id } delegateAccessTokenCreate(input: {}) { shop { id } } b(note: \"\") { id } }",
            "# \"\n mutation { delegateAccessTokenCreate(input: {}) { shop { id } } } # \"",
            "mutation { appUninstall { app { id } } }",
        ] {
            let body = json!({"query": document, "variables": {}}).to_string();
            assert_eq!(asked("application/json", &body), Err(REFUSED), "{document}");
            assert_eq!(asked("application/json; charset=utf-8", &body.replace("Token", "\\u0054oken")), Err(REFUSED));
            assert_eq!(asked("application/graphql", document), Err(REFUSED), "{document}");
            let query: String = form_urlencoded::Serializer::new(String::new()).append_pair("query", document).finish();
            let request = Inspected { query: Some(&query), content_type: None, encoded: false, body: b"" };
            assert_eq!(inspect(&request), Err(REFUSED), "{document}");
        }
    }

    #[test]
    fn what_only_says_the_word_is_passed_on() {
        let say = "delegateAccessTokenCreate";
        for (document, variables) in [
            ("query($q: String) { orders(first: 1, query: $q) { nodes { id } } }", json!({"q": say})),
            ("mutation { orderUpdate(input: {note: \"delegateAccessTokenCreate\"}) { order { id } } }", json!({})),
            ("mutation { a(note: \"\"\"one \"delegateAccessTokenCreate\" \"\"\") { id } }", json!({"query": say})),
            ("# delegateAccessTokenCreate\nquery { shop { id } }", json!({"input": {"query": [say]}})),
            ("query { delegateAccessTokenCreated: shop { id my_delegateAccessTokenCreate: name } }", json!(null)),
        ] {
            let body = json!({"query": document, "variables": variables, "operationName": say});
            assert_eq!(asked("application/json", &body.to_string()), Ok(()), "{document}");
        }
    }

    #[test]
    fn a_request_that_cannot_be_read_is_not_passed_on() {
        let hidden = "mutation { delegateAccessTokenCreate(input: {}) { shop { id } } }";
        for body in [
            format!("{{\"query\": \"{hidden}\", \"query\": \"query {{ shop {{ id }} }}\"}}"),
            format!("[{{\"query\": \"{hidden}\"}}]"),
            format!("{{\"query\": [\"{hidden}\"]}}"),
            format!("{{\"query\": \"{hidden}\"}} x"),
            format!("query={hidden}"),
        ] {
            assert_eq!(asked("application/json", &body), Err(UNREADABLE), "{body}");
            assert_eq!(asked("application/x-www-form-urlencoded", &body), Err(UNREADABLE), "{body}");
        }
        let packed =
            Inspected { query: None, content_type: Some("application/json"), encoded: true, body: b"\x1f\x8b" };
        assert_eq!(inspect(&packed), Err(UNREADABLE));
    }

    #[test]
    fn graphql_is_where_its_path_says_so() {
        for (path, is) in [
            ("admin/api/2026-10/graphql.json", true),
            ("admin/api/graphql", true),
            ("admin//API/2026-10/GraphQL.json/", true),
            ("admin/api/2026-10/orders.json", false),
        ] {
            assert_eq!(is_graphql(path), is, "{path}");
        }
    }
}
