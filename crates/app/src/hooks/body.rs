//! The bytes of a delivery, as they came: no more than a delivery has, in no more time than one takes, and of all that are
//! under way together no more than this process can hold.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::{body::Body, http::header};
use futures::StreamExt as _;
use http::HeaderMap;

use crate::app::App;

/// Of all bodies that are being read at a time.
const MOST_HELD_BYTES: usize = 128 * 1024 * 1024;

/// What is held of bodies that are being read.
#[derive(Clone, Default)]
pub(crate) struct Held(Arc<AtomicUsize>);

/// Why there is no body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoBody {
    /// It is larger than any delivery.
    TooLarge,
    /// It takes longer than any delivery.
    TooSlow,
    /// Too much is under way.
    TooMuch,
    /// The sender has gone away, or speaks no HTTP.
    CutOff,
}

/// A body, and its share of what is held.
pub(super) struct Whole {
    bytes: Vec<u8>,
    held: Held,
}

impl Whole {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn push(&mut self, piece: &[u8]) -> Result<(), NoBody> {
        let before = self.held.0.fetch_add(piece.len(), Ordering::Relaxed);
        // It is given back when this one is dropped.
        self.bytes.extend_from_slice(piece);
        if before + piece.len() > MOST_HELD_BYTES { Err(NoBody::TooMuch) } else { Ok(()) }
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        self.held.0.fetch_sub(self.bytes.len(), Ordering::Relaxed);
    }
}

/// All of it. A length that is told and too large is refused before a byte is read.
pub(super) async fn read(app: &App, headers: &HeaderMap, body: Body) -> Result<Whole, NoBody> {
    let most = app.config.webhooks.body_bytes();
    let told = headers.get(header::CONTENT_LENGTH).and_then(|told| told.to_str().ok()?.parse::<u64>().ok());
    if told.is_some_and(|told| told > most as u64) {
        return Err(NoBody::TooLarge);
    }
    let reading = async {
        let mut whole = Whole { bytes: Vec::new(), held: app.hooks.held.clone() };
        let mut pieces = body.into_data_stream();
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|_| NoBody::CutOff)?;
            if whole.bytes.len() + piece.len() > most {
                return Err(NoBody::TooLarge);
            }
            whole.push(&piece)?;
        }
        Ok(whole)
    };
    tokio::select! {
        read = reading => read,
        () = app.seams.clock.sleep(app.config.webhooks.request) => Err(NoBody::TooSlow),
    }
}
