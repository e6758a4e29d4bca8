//! A listener whose connections send the head of a request in time: who dribbles it is hung up on.
//! What comes after the head has limits of its own, where it is read.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    extract::connect_info::Connected,
    serve::{IncomingStream, Listener},
};
use futures::{FutureExt as _, future::BoxFuture};
use holdfast_core::ports::Clock;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
};
use tracing::debug;

/// For the head of a request, from its first byte on.
const LIMIT: Duration = Duration::from_secs(30);
/// Ends a head (RFC 9112 section 2.1).
const END: &[u8; 4] = b"\r\n\r\n";
/// Begins HTTP/2 (RFC 9113 section 3.4), which is no text afterwards and has time-outs of its own.
const HTTP2: &[u8; 3] = b"PRI";
/// An answer that comes before its request is whole (RFC 9110 section 15.2).
const BEFORE: &[u8] = b"HTTP/1.1 1";

/// Who called.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

impl Connected<IncomingStream<'_, HeadsInTime>> for Peer {
    fn connect_info(stream: IncomingStream<'_, HeadsInTime>) -> Self {
        Self(*stream.remote_addr())
    }
}

pub(super) struct HeadsInTime {
    listener: TcpListener,
    clock: Arc<dyn Clock>,
}

impl HeadsInTime {
    pub(super) fn new(listener: TcpListener, clock: Arc<dyn Clock>) -> Self {
        Self { listener, clock }
    }
}

impl Listener for HeadsInTime {
    type Io = InTime;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (stream, peer) = Listener::accept(&mut self.listener).await;
        // Else the small end of an answer may wait for the caller to acknowledge its beginning, which callers put off.
        if let Err(error) = stream.set_nodelay(true) {
            debug!(%error, "a connection could not be told to send at once");
        }
        let clock = Arc::clone(&self.clock);
        // Nothing is due yet: clients keep a spare connection, and say nothing on it for minutes.
        (InTime { stream, clock, part: Part::Head { seen: 0, matched: 0 }, deadline: None }, peer)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

fn limit(clock: &Arc<dyn Clock>) -> BoxFuture<'static, ()> {
    let clock = Arc::clone(clock);
    async move { clock.sleep(LIMIT).await }.boxed()
}

/// What is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// So many of its first bytes begin HTTP/2, and so many of its last ones its end.
    Head { seen: u8, matched: u8 },
    /// What follows it, until it is answered.
    Rest,
    /// Not ours to time.
    Untimed,
}

impl Part {
    fn after(mut self, bytes: &[u8]) -> Self {
        for byte in bytes {
            let Self::Head { seen, matched } = self else { return self };
            let matched = match () {
                () if *byte == END[usize::from(matched)] => matched + 1,
                () if *byte == END[0] => 1,
                () => 0,
            };
            let begins = usize::from(seen) < HTTP2.len() && *byte == HTTP2[usize::from(seen)];
            // Past its first bytes, or with other ones, it is no HTTP/2.
            let seen = if begins { seen + 1 } else { u8::MAX };
            self = if usize::from(seen) == HTTP2.len() {
                Self::Untimed
            } else if usize::from(matched) == END.len() {
                Self::Rest
            } else {
                Self::Head { seen, matched }
            };
        }
        self
    }
}

/// A connection.
pub(super) struct InTime {
    stream: TcpStream,
    clock: Arc<dyn Clock>,
    part: Part,
    deadline: Option<BoxFuture<'static, ()>>,
}

impl InTime {
    fn wrote(&mut self, bytes: &[u8]) {
        if self.part == Part::Rest && !bytes.starts_with(BEFORE) {
            self.part = Part::Head { seen: u8::MAX, matched: 0 };
        }
    }
}

impl AsyncRead for InTime {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        let this = &mut *self;
        match read {
            Poll::Ready(Ok(())) => {
                let bytes = &buf.filled()[before..];
                this.part = this.part.after(bytes);
                match this.part {
                    Part::Head { .. } if !bytes.is_empty() && this.deadline.is_none() => {
                        this.deadline = Some(limit(&this.clock));
                    }
                    Part::Head { .. } => {}
                    Part::Rest | Part::Untimed => this.deadline = None,
                }
                read
            }
            Poll::Ready(Err(_)) => read,
            Poll::Pending => match this.deadline.as_mut().map(|deadline| deadline.poll_unpin(cx)) {
                Some(Poll::Ready(())) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                Some(Poll::Pending) | None => Poll::Pending,
            },
        }
    }
}

impl AsyncWrite for InTime {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.wrote(buf);
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let Some(first) = bufs.iter().find(|buf| !buf.is_empty()) {
            self.wrote(first);
        }
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: Part = Part::Head { seen: 0, matched: 0 };

    #[test]
    fn a_head_ends_where_its_empty_line_does_however_it_is_cut() {
        let head = b"POST /hooks/x HTTP/1.1\r\nHost: a\r\n\r\n";
        for cut in 0..=head.len() {
            let part = NEW.after(&head[..cut]);
            assert_eq!(part == Part::Rest, cut == head.len(), "{cut}");
            assert_eq!(part.after(&head[cut..]), Part::Rest, "{cut}");
        }
        assert_eq!(NEW.after(b"\r\r\n\r\n"), Part::Rest);
        assert_ne!(NEW.after(b"\n\n\r\n\n\r"), Part::Rest);
        assert_eq!(NEW.after(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), Part::Untimed);
        assert_eq!(NEW.after(b"PRO / HTTP/1.1\r\n\r\n"), Part::Rest);
    }
}
