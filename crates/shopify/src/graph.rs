//! One request to the GraphQL Admin API, and what its answer is: data, parts that were held back, or an error.

use holdfast_core::{
    ApiClient,
    api_client::{ApiRequest, RateWait},
    error::{Error, ErrorKind, Result, Retry},
    wire,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::error::{graph_error, plain};

/// The Admin API of one shop, in one version.
pub(crate) struct Graph<'a> {
    api: &'a ApiClient,
    path: String,
}

/// What a query brought.
#[derive(Debug)]
pub(crate) struct Answer<T> {
    /// The value of the one field that was asked for at the top.
    pub(crate) data: T,
    /// Paths of what Shopify held back, like `customer.email`: an absent value there is not "none".
    pub(crate) hidden: Vec<String>,
}

impl<'a> Graph<'a> {
    pub(crate) fn new(api: &'a ApiClient, version: &str) -> Self {
        Self { api, path: format!("admin/api/{version}/graphql.json") }
    }

    /// Asks for `field`. A `null` in its place is left to `T`.
    /// <https://shopify.dev/docs/api/admin-graphql>
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        operation: &'static str,
        query: &'static str,
        field: &str,
        variables: Value,
    ) -> Result<Answer<T>> {
        let body = json!({"query": query, "variables": variables});
        let request = || self.api.post(self.path.clone()).operation(operation).reading().json(&body);
        self.answer(operation, field, request).await
    }

    /// Waits, as for a 429, until the points that it takes are restored: what is throttled was not run.
    /// <https://shopify.dev/docs/api/usage/limits>
    async fn answer<T: DeserializeOwned>(
        &self,
        operation: &'static str,
        field: &str,
        request: impl Fn() -> ApiRequest<'a> + Send,
    ) -> Result<Answer<T>> {
        let mut wait = RateWait::default();
        loop {
            let answer = self.answer_once(operation, field, request()).await;
            match answer.as_ref().map_err(|error| (error.kind, &error.retry)) {
                Err((ErrorKind::Busy, Retry::After(told))) => match wait.next(*told) {
                    Some(now) => self.api.pause(now).await,
                    None => return answer,
                },
                _ => return answer,
            }
        }
    }

    async fn answer_once<T: DeserializeOwned>(
        &self,
        operation: &'static str,
        field: &str,
        request: ApiRequest<'_>,
    ) -> Result<Answer<T>> {
        let mut body: Value = request.fetch().await?;
        let hidden = match &body["errors"] {
            Value::Null => Vec::new(),
            Value::Array(list) if list.is_empty() => Vec::new(),
            errors => {
                let hidden = held_back(errors).filter(|_| !body["data"][field].is_null());
                hidden.ok_or_else(|| self.turned_away(graph_error(operation, errors, &body["extensions"]["cost"])))?
            }
        };
        let data = body.get_mut("data").and_then(|data| data.get_mut(field)).map(Value::take);
        let data = data.ok_or_else(|| self.unreadable(operation))?;
        Ok(Answer { data: wire::read_value(self.api, operation, data)?, hidden })
    }

    /// Runs a mutation once; `errors` is the name of its own list of them, which comes with HTTP 200 too.
    ///
    /// `repeatable`: Shopify itself makes sure that a second one with the same key has no second effect. Else nobody
    /// may repeat one whose fate is unknown without a look.
    pub(crate) async fn change<T: DeserializeOwned>(
        &self,
        operation: &'static str,
        mutation: &'static str,
        field: &str,
        errors: &str,
        variables: Value,
        repeatable: bool,
    ) -> Result<T> {
        let body = json!({"query": mutation, "variables": variables});
        let request = || self.api.post(self.path.clone()).operation(operation).json(&body);
        let asked = self.answer::<Map<String, Value>>(operation, field, request).await;
        let mut payload = asked.map_err(|error| if repeatable { error } else { once(error) })?.data;
        if let Some(list) = payload.get(errors).and_then(Value::as_array).filter(|list| !list.is_empty()) {
            return Err(self.turned_away(self.api.error(operation, ErrorKind::Invalid, refused(list))));
        }
        payload.remove(errors);
        wire::read_value(self.api, operation, Value::Object(payload)).map_err(once)
    }

    /// Of an error in an answer with HTTP 200: unless it is one that says nothing, the mutation was not run.
    fn turned_away(&self, error: Error) -> Error {
        if !matches!(error.kind, ErrorKind::Unavailable | ErrorKind::Unreadable) {
            self.api.was_refused();
        }
        error
    }

    /// Whose.
    pub(crate) fn shop(&self) -> &str {
        &self.api.account().id
    }

    pub(crate) fn error(&self, operation: &'static str, kind: ErrorKind, message: impl Into<String>) -> Error {
        self.api.error(operation, kind, message)
    }

    pub(crate) fn mistaken(&self, operation: &'static str, what: &str) -> Error {
        wire::mistaken(self.api, operation, what)
    }

    pub(crate) fn unreadable(&self, operation: &'static str) -> Error {
        wire::unreadable(self.api, operation, ".")
    }
}

/// Where all errors say that a part below the top was held back (no approval for protected customer data, a scope that
/// only some fields want): those parts. `None`: something else went wrong.
fn held_back(errors: &Value) -> Option<Vec<String>> {
    let mut hidden: Vec<String> = errors
        .as_array()?
        .iter()
        .map(|error| {
            let denied = error["extensions"]["code"] == "ACCESS_DENIED";
            let path = error["path"].as_array().filter(|path| denied && path.len() > 1)?;
            // Without places in lists, so that twenty orders name a field once.
            let names: Vec<&str> =
                path[1..].iter().filter_map(Value::as_str).filter(|name| !matches!(*name, "nodes" | "edges")).collect();
            (!names.is_empty()).then(|| plain(&names.join(".")))
        })
        .collect::<Option<_>>()?;
    hidden.sort_unstable();
    hidden.dedup();
    Some(hidden)
}

/// A write whose fate is unknown is looked at before it is repeated. What was surely turned away is not among these.
fn once(error: Error) -> Error {
    if matches!(error.kind, ErrorKind::Unavailable | ErrorKind::Unreadable) {
        let message =
            format!("{}. Whether it had an effect is unknown: read the order before you repeat it", error.message);
        return Error { message, retry: Retry::Never, ..error };
    }
    error
}

/// `userErrors` in words: each with its field.
fn refused(errors: &[Value]) -> String {
    let said: Vec<String> = errors
        .iter()
        .take(5)
        .map(|error| {
            let message = plain(error["message"].as_str().unwrap_or("no reason is given"));
            let field = error["field"].as_array().map(|path| path.iter().filter_map(Value::as_str).collect::<Vec<_>>());
            match field.filter(|path| !path.is_empty()) {
                Some(path) => format!("{}: {message}", plain(&path.join("."))),
                None => message,
            }
        })
        .collect();
    format!("Shopify does not do it: {}", said.join("; "))
}

/// What was held back, as a note for whoever reads the result.
pub(crate) fn note_of(hidden: &[String]) -> Option<String> {
    (!hidden.is_empty()).then(|| {
        let names: Vec<&str> = hidden.iter().take(12).map(String::as_str).collect();
        format!(
            "Shopify holds back {}: the app is not approved for it, so an absent value there does not mean that there is \
             none.",
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(path: &Value) -> Value {
        json!({"message": "Access denied", "path": path, "extensions": {"code": "ACCESS_DENIED"}})
    }

    #[test]
    fn parts_that_are_held_back_are_named_once() {
        let errors = json!([
            denied(&json!(["orders", "nodes", 0, "email"])),
            denied(&json!(["orders", "nodes", 1, "email"])),
            denied(&json!(["orders", "nodes", 1, "customer", "displayName"])),
        ]);
        assert_eq!(held_back(&errors).unwrap(), ["customer.displayName", "email"]);
        assert!(note_of(&held_back(&errors).unwrap()).unwrap().contains("customer.displayName, email:"));
        assert_eq!(note_of(&[]), None);
    }

    #[test]
    fn anything_else_that_went_wrong_is_no_held_back_part() {
        for errors in [
            json!([denied(&json!(["orders"]))]),
            json!([{"message": "Access denied", "extensions": {"code": "ACCESS_DENIED"}}]),
            json!([denied(&json!(["order", "email"])), {"message": "x", "extensions": {"code": "THROTTLED"}}]),
            json!([{"message": "x", "path": ["order", "email"]}]),
            json!("Access denied"),
        ] {
            assert_eq!(held_back(&errors), None, "{errors}");
        }
    }

    #[test]
    fn refused_fields_are_named() {
        let errors = [
            json!({"field": ["input", "amount"], "message": "is too\nmuch"}),
            json!({"field": null, "message": "Order is closed"}),
            json!({"code": "X"}),
        ];
        assert_eq!(
            refused(&errors),
            "Shopify does not do it: input.amount: is too much; Order is closed; no reason is given"
        );
    }
}
