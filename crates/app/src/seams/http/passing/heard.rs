//! A connection on which the other side is heard out.

use std::{
    io::{self, ErrorKind, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A server that refuses a large body answers and hangs up in the middle of it. The client below would give up with the
/// first write that fails, and never read the answer that has already arrived. So such a write does not fail: it waits, and
/// the reading side finds the answer, or the end.
///
/// Once the other side has hung up, a read never waits, so nobody waits for long. Whoever writes has to read as well, as
/// every HTTP connection does.
pub(super) struct Heard<S> {
    pub(super) stream: S,
    /// The other side has hung up.
    pub(super) over: bool,
}

impl<S> Heard<S> {
    fn written(&mut self, written: io::Result<usize>) -> Poll<io::Result<usize>> {
        let hung_up = |error: &io::Error| {
            matches!(
                error.kind(),
                ErrorKind::BrokenPipe
                    | ErrorKind::ConnectionReset
                    | ErrorKind::ConnectionAborted
                    | ErrorKind::NotConnected
            )
        };
        self.over |= written.as_ref().is_err_and(hung_up);
        if self.over { Poll::Pending } else { Poll::Ready(written) }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Heard<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.over {
            return Poll::Pending;
        }
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes));
        self.written(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.over {
            return Poll::Pending;
        }
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, parts));
        self.written(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.over {
            return Poll::Ready(Ok(()));
        }
        match ready!(Pin::new(&mut self.stream).poll_flush(context)) {
            Ok(()) => Poll::Ready(Ok(())),
            Err(error) => self.written(Err(error)).map_ok(drop),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.over {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Heard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: Connection> Connection for Heard<S> {
    fn connected(&self) -> Connected {
        self.stream.connected()
    }
}
