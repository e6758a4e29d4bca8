//! What the caller gets: the provider's answer, or why there is none.

use std::time::Duration;

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::Response,
};
use futures::TryStreamExt;
use holdfast_core::{
    AuthError, Error, Need, Snapshot,
    api_client::Refused,
    ports::{HttpFailure, HttpResponse, Sent, Trigger},
};
use tracing::info;

use super::{super::caller::Caller, headers};
use crate::{
    api::token,
    app::App,
    problem::{Problem, bare},
};
/// Whose answer it is: `provider` or `holdfast`.
pub(in crate::api) const SOURCE: HeaderName = HeaderName::from_static("x-holdfast-source");
/// A page of theirs that somebody opens under our address can do nothing here.
const SANDBOX: HeaderValue = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'; sandbox");
/// After a provider that could not be reached.
const SOON: Duration = Duration::from_secs(5);

/// The provider's answer, its body as it comes.
pub(super) fn to_caller(answer: HttpResponse) -> Response {
    // All that a caller can be told by then is that there is no end.
    let body = answer.body.inspect_err(|failure| info!(%failure, "an answer that was passed on broke off"));
    let mut response = Response::new(Body::from_stream(body));
    *response.status_mut() = answer.status;
    let mut headers = headers::to_caller(answer.headers);
    headers.insert(SOURCE, HeaderValue::from_static("provider"));
    headers.insert(header::CONTENT_SECURITY_POLICY, SANDBOX);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    *response.headers_mut() = headers;
    response
}

/// Why the provider's answer is not there.
pub(super) async fn explain(app: &App, caller: &Caller, known: &Snapshot, error: Error) -> Problem {
    let Error { source: Some(source), .. } = error else { return error.into() };
    let source = match source.downcast::<AuthError>() {
        Ok(auth) => return token::refused(app, caller, known, *auth).await,
        Err(source) => source,
    };
    let name = token::name(app, known);
    if let Some(failure) = source.downcast_ref::<HttpFailure>() {
        let words = bare(&failure.message);
        return match failure.sent {
            Sent::No => Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "provider_unavailable",
                format!("{name} could not be reached; nothing was sent ({words})."),
            )
            .retry_after(SOON),
            Sent::Maybe => Problem::new(
                StatusCode::BAD_GATEWAY,
                "provider_no_answer",
                format!("{name} did not answer; whether the call had an effect is unknown ({words})."),
            ),
        };
    }
    match source.downcast_ref::<Refused>() {
        Some(Refused::Path) => Problem::invalid("path", sentence(&error.message)),
        Some(Refused::OAuthPath | Refused::Closed) => {
            Problem::new(StatusCode::FORBIDDEN, "path_closed", sentence(&error.message))
        }
        Some(Refused::SendAgain) => Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "send_again",
            format!(
                "{name} refused the token that this request began with. There is a new one now, but a body that was \
                 streamed cannot be repeated from here: send the request again."
            ),
        )
        .retry_after(Duration::ZERO),
        Some(Refused::InASuccess) | None => Error { source: Some(source), ..error }.into(),
    }
}

/// Why a connector cannot be called at all.
pub(super) async fn without_client(app: &App, caller: &Caller, known: &Snapshot) -> Problem {
    match app.engine.fresh(&known.connector, &Need::ValidFor(Duration::ZERO), Trigger::Caller).await {
        Err(error) => token::refused(app, caller, known, error).await,
        Ok(_) => Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "provider_unavailable",
            format!("This instance has no adapter for {}, or it does not know the account any more.", known.provider),
        ),
    }
}

/// Words that begin in the middle of a sentence, as one.
fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
}
