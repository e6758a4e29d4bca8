//! The caller's body: in memory where it is small, so that the request can be repeated, else passed on as it comes.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use axum::{
    body::{Body, BodyDataStream, HttpBody, to_bytes},
    http::StatusCode,
};
use bytes::Bytes;
use futures::{StreamExt, stream};
use holdfast_core::ports::{self, ByteStream, HttpFailure};
use tokio::{runtime::Handle, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::{config::ProxyConfig, problem::Problem};

/// How long a body that nobody wants any more is still read.
const LINGER: Duration = Duration::from_secs(30);

/// What is left of the caller's body.
///
/// Dropped before its end, it is still read for a while and thrown away: a caller that listens only after it has sent
/// everything would else find a broken connection in place of our answer (as RFC 9112 section 9.6 warns).
pub(super) struct Rest {
    body: Option<BodyDataStream>,
    begun: bool,
}

/// A body as it goes out.
pub(super) struct Taken {
    pub(super) body: ports::Body,
    /// Of a stream, where the caller has told it.
    pub(super) length: Option<u64>,
    /// `None`: it is in memory.
    pub(super) upload: Option<Upload>,
}

/// A body that is being passed on.
pub(super) struct Upload {
    end: CancellationToken,
    trouble: Arc<OnceLock<Trouble>>,
}

/// Why the caller's body did not come to its end.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    Stalled,
    Broken,
}

impl Rest {
    /// `begun`: the caller is sending it, or will without another word of ours.
    pub(super) fn new(body: Body, begun: bool) -> Self {
        Self { body: (!body.is_end_stream()).then(|| body.into_data_stream()), begun }
    }

    /// Reads it if it is small, and says so; else it is to be read as it goes out.
    pub(super) async fn take(mut self, config: &ProxyConfig) -> Result<Taken, Problem> {
        let length = self.body.as_ref().map_or(Some(0), |body| body.size_hint().exact());
        match length.filter(|length| *length <= config.buffer_bytes()) {
            Some(0) => Ok(Taken { body: ports::Body::empty(), length: None, upload: None }),
            Some(length) => {
                let body = Body::new(self.body.take().expect("it has a length"));
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                match timeout(config.timeout, to_bytes(body, length)).await {
                    Ok(Ok(bytes)) => Ok(Taken { body: ports::Body::Bytes(bytes), length: None, upload: None }),
                    Ok(Err(_)) => Err(Trouble::Broken.problem()),
                    Err(_) => Err(Trouble::Stalled.problem()),
                }
            }
            None => {
                let upload = Upload { end: CancellationToken::new(), trouble: Arc::default() };
                // Less than what the provider gets: of two that wait for each other, it is the caller who keeps both.
                let patience = config.timeout / 4 * 3;
                let stream = upload.stream(self, patience);
                Ok(Taken { body: ports::Body::Once(stream), length, upload: Some(upload) })
            }
        }
    }

    async fn next(&mut self) -> Option<Result<Bytes, axum::Error>> {
        self.begun = true;
        let next = self.body.as_mut()?.next().await;
        if !matches!(next, Some(Ok(_))) {
            self.body = None;
        }
        next
    }
}

impl Drop for Rest {
    fn drop(&mut self) {
        let body = self.body.take().filter(|_| self.begun);
        if let (Some(mut body), Ok(runtime)) = (body, Handle::try_current()) {
            runtime.spawn(timeout(LINGER, async move { while let Some(Ok(_)) = body.next().await {} }));
        }
    }
}

impl Upload {
    fn stream(&self, rest: Rest, patience: Duration) -> ByteStream {
        let state = (rest, self.end.clone(), Arc::clone(&self.trouble));
        Box::pin(stream::try_unfold(state, move |(mut rest, end, trouble)| async move {
            let what = tokio::select! {
                biased;
                () = end.cancelled() => "is not wanted any more",
                next = timeout(patience, rest.next()) => match next {
                    Ok(None) => return Ok(None),
                    Ok(Some(Ok(bytes))) => return Ok(Some((bytes, (rest, end, trouble)))),
                    Ok(Some(Err(_))) => trouble.get_or_init(|| Trouble::Broken).words(),
                    Err(_) => trouble.get_or_init(|| Trouble::Stalled).words(),
                },
            };
            // Never a plain end: the provider would take the half of it for the whole.
            Err(HttpFailure::after_send(format!("the request's body {what}")))
        }))
    }

    /// Ends it, so that its connection to the provider is closed. If it was the caller's body that went wrong: what to
    /// answer.
    pub(super) fn end(self) -> Option<Problem> {
        self.end.cancel();
        self.trouble.get().map(|trouble| trouble.problem())
    }
}

impl Trouble {
    fn words(self) -> &'static str {
        match self {
            Self::Stalled => "stood still",
            Self::Broken => "broke off",
        }
    }

    fn problem(self) -> Problem {
        let (status, code) = match self {
            Self::Stalled => (StatusCode::REQUEST_TIMEOUT, "body_timeout"),
            Self::Broken => (StatusCode::BAD_REQUEST, "body_broken"),
        };
        let detail = format!("The request's body {} before its end. Send the request again.", self.words());
        Problem::new(status, code, detail)
    }
}
