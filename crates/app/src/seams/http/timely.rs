//! A body that is given out in time or not at all.

use std::{
    error::Error,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use holdfast_core::ports::Clock;
use http_body::{Body, Frame, SizeHint};

use crate::seams::SystemClock;

/// A request's body, which the connection asks for when it is about to write.
///
/// A process may stand still between the look at its lease and that moment (stopped, suspended, a starved machine). When
/// it wakes, the time-out of the request and the connection that is ready to write are due at once, and either may go
/// first. So the body looks at the time itself: past it, what must not be sent late, such as a refresh token that somebody
/// else has spent meanwhile, is not written.
pub(super) struct Timely {
    bytes: Option<Bytes>,
    /// By [`Clock::uptime`].
    until: Duration,
}

/// Asked for too late: nothing of it was written.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the process stood still for too long; nothing was sent")]
pub(super) struct TooLate;

impl Timely {
    /// One that is given out for so long from now.
    pub(super) fn new(bytes: Bytes, within: Duration) -> Self {
        Self { bytes: Some(bytes), until: SystemClock.uptime() + within }
    }
}

impl TooLate {
    /// Whether that is why a request failed.
    pub(super) fn caused(error: &(dyn Error + 'static)) -> bool {
        let mut cause = Some(error);
        while let Some(this) = cause {
            if this.is::<Self>() {
                return true;
            }
            cause = this.source();
        }
        false
    }
}

impl Body for Timely {
    type Data = Bytes;
    type Error = TooLate;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, TooLate>>> {
        let Some(bytes) = self.bytes.take() else { return Poll::Ready(None) };
        if SystemClock.uptime() >= self.until {
            return Poll::Ready(Some(Err(TooLate)));
        }
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    /// Known beforehand: token endpoints want a `Content-Length`.
    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}
