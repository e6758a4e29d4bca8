//! API requests that meet their answer before their body is in memory: large ones, and trouble with them.

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::sync::Arc;

use axum::body::{Body, BodyDataStream, Bytes};
use axum::http::{HeaderValue, header, request::Parts};
use axum::response::Response;
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::counters::{Count, Counts};
use crate::desk::{Desk, World, locked};
use crate::faults::{Download, broken, hang_up};
use crate::http::Answer;
use crate::zendesk::api::{authenticate, not_authenticated};

/// A piece of a download.
const PIECE_BYTES: usize = 64 * 1024;

/// `path` starts with the imitation's prefix. What is not answered here goes on with its body.
pub(crate) async fn serve(world: &World, path: &[String], parts: &Parts, body: Body) -> ControlFlow<Response, Body> {
    let [prefix, name, api, ..] = path else { return ControlFlow::Continue(body) };
    let Some(desk) = world.find(name).filter(|_| prefix == "zendesk" && api == "api") else {
        return ControlFlow::Continue(body);
    };
    let (dropped, refuses_after, echo, download) = {
        let mut faults = locked(&desk.faults);
        (faults.drops_api(), faults.api_refuses_after, faults.api_echo, faults.api_download)
    };
    if dropped {
        desk.counts.api_calls.up();
        return ControlFlow::Break(hang_up());
    }
    if refuses_after.is_none() && !echo && download.is_none() {
        return ControlFlow::Continue(body);
    }
    let mut rest = body.into_data_stream();
    let begun = begin(&mut rest, refuses_after.unwrap_or_default()).await;
    let answered = match credentials(world, &desk, parts) {
        Err(refusal) => Some(refusal.header("connection", "close").into_response()),
        Ok(()) => match download {
            Some(download) => Some(send(&desk, download)),
            None if echo => Some(repeat(&desk, parts, begun.clone(), &mut rest).await.into_response()),
            None => None,
        },
    };
    let Some(response) = answered else {
        return ControlFlow::Continue(Body::from_stream(stream::iter(begun).map(Ok).chain(rest)));
    };
    desk.counts.api_calls.up();
    if response.status() == 401 {
        desk.counts.unauthorized.up();
    }
    ControlFlow::Break(response)
}

/// The first pieces of a body, up to this length or its end.
async fn begin(body: &mut BodyDataStream, length: u64) -> Vec<Bytes> {
    let (mut pieces, mut read) = (Vec::new(), 0);
    while read < length
        && let Some(Ok(piece)) = body.next().await
    {
        read += piece.len() as u64;
        pieces.push(piece);
    }
    pieces
}

fn credentials(world: &World, desk: &Desk, parts: &Parts) -> Result<(), Answer> {
    let header = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    authenticate(desk, header, world.clock.now_ms())?.map(|_| ()).ok_or_else(not_authenticated)
}

async fn repeat(desk: &Arc<Desk>, parts: &Parts, begun: Vec<Bytes>, rest: &mut BodyDataStream) -> Answer {
    let (mut digest, mut length) = (Sha256::new(), 0);
    // The server drops whoever reads a body that breaks off.
    let mut reading = Unless { desk: Arc::clone(desk), count: |counts| &counts.bodies_broken, done: false };
    let mut pieces = stream::iter(begun).map(Ok).chain(rest);
    while let Some(piece) = pieces.next().await {
        let Ok(piece) = piece else { return Answer::empty(400) };
        length += piece.len();
        digest.update(&piece);
    }
    reading.done = true;
    let headers: Vec<Value> = parts
        .headers
        .iter()
        .map(|(name, value)| json!([name.as_str(), String::from_utf8_lossy(value.as_bytes())]))
        .collect();
    let digest = digest.finalize().iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        write!(text, "{byte:02x}").ok();
        text
    });
    Answer::json(
        200,
        json!({
            "method": parts.method.as_str(),
            "target": parts.uri.path_and_query().map(ToString::to_string),
            "headers": headers,
            "length": length,
            "sha256": digest,
        }),
    )
}

/// Counts what was dropped before it was done.
struct Unless {
    desk: Arc<Desk>,
    count: fn(&Counts) -> &Count,
    done: bool,
}

impl Drop for Unless {
    fn drop(&mut self) {
        if !self.done {
            (self.count)(&self.desk.counts).up();
        }
    }
}

fn send(desk: &Arc<Desk>, download: Download) -> Response {
    let piece = Bytes::from(vec![b'd'; PIECE_BYTES]);
    let reader = Unless { desk: Arc::clone(desk), count: |counts| &counts.readers_gone, done: false };
    let pieces = stream::unfold((reader, 0_u64), move |(mut reader, sent)| {
        let piece = piece.clone();
        async move {
            let end = download.break_off_after.or(download.stand_still_after).unwrap_or(download.bytes);
            let left = usize::try_from(end.min(download.bytes) - sent).unwrap_or(usize::MAX);
            if left > 0 {
                let piece = piece.slice(..left.min(PIECE_BYTES));
                let sent = sent + piece.len() as u64;
                reader.done = sent == download.bytes;
                return Some((Ok(piece), (reader, sent)));
            }
            if download.stand_still_after.is_some() {
                std::future::pending::<()>().await;
            }
            if download.break_off_after.is_some() && !reader.done {
                // What was sent goes out before the connection does.
                crate::clock::pause(20).await;
                reader.done = true;
                return Some((Err(broken()), (reader, sent)));
            }
            None
        }
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(download.bytes));
    response
}
