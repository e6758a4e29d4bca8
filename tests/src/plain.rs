//! HTTP/1.1 as bytes, for what a client would tidy up on its way: odd paths, headers of connections, halves of bodies.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// Nothing that is asked here takes nearly as long.
const BOUND: Duration = Duration::from_mins(1);

/// A connection for one request.
#[derive(Debug)]
pub struct Plain(TcpStream);

/// What came back until the connection was closed.
#[derive(Debug)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// In their order, names in small letters.
    pub headers: Vec<(String, String)>,
    /// Without the framing of chunks.
    pub body: Vec<u8>,
    /// Whether the body came to its end.
    pub whole: bool,
}

impl Plain {
    /// Opens one to `http://HOST:PORT`.
    ///
    /// # Panics
    /// When nobody listens there.
    pub async fn open(base: &str) -> Self {
        let address = base.strip_prefix("http://").expect("the base is plain HTTP");
        let stream = TcpStream::connect(address).await.expect("somebody listens");
        stream.set_nodelay(true).expect("the stream is open");
        Self(stream)
    }

    /// Sends bytes, if the other side still takes them.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) -> std::io::Result<()> {
        self.0.write_all(bytes.as_ref()).await
    }

    /// Reads one line with nothing but an empty line behind it.
    ///
    /// # Panics
    /// When something else comes.
    pub async fn line(&mut self) -> String {
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"\r\n\r\n") {
            let byte = timeout(BOUND, self.0.read_u8()).await.expect("it comes in time");
            bytes.push(byte.expect("the connection is open"));
        }
        String::from_utf8_lossy(&bytes).trim_end().to_owned()
    }

    /// Reads until the other side closes.
    ///
    /// # Panics
    /// When it does not, or answers no HTTP.
    pub async fn reply(mut self) -> Reply {
        let mut bytes = Vec::new();
        let read = timeout(BOUND, self.0.read_to_end(&mut bytes)).await.expect("the connection is closed in the end");
        assert!(!bytes.is_empty(), "no answer: {read:?}");
        Reply::parse(&bytes)
    }

    /// Reads until an answer is whole, however long the connection stays open.
    ///
    /// # Panics
    /// When none comes.
    pub async fn first_reply(mut self) -> Reply {
        let mut bytes = Vec::new();
        let whole = async {
            loop {
                assert!(self.0.read_buf(&mut bytes).await.expect("the connection is open") > 0, "no whole answer");
                if bytes.windows(4).any(|four| four == b"\r\n\r\n") {
                    let reply = Reply::parse(&bytes);
                    if reply.whole {
                        return reply;
                    }
                }
            }
        };
        timeout(BOUND, whole).await.expect("an answer comes")
    }
}

/// One request, whose lines end as they should, and its answer. It has to ask for `connection: close`.
pub async fn ask(base: &str, request: &str) -> Reply {
    let mut plain = Plain::open(base).await;
    plain.send(request.replace('\n', "\r\n")).await.expect("the request is taken");
    plain.reply().await
}

impl Reply {
    /// The first header of this name.
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value)
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no head: {:?}", String::from_utf8_lossy(bytes)));
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|status| status.parse().ok());
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let mut reply =
            Self { status: status.expect("a status line"), headers, body: bytes[end + 4..].to_vec(), whole: true };
        if reply.header("transfer-encoding") == "chunked" {
            (reply.body, reply.whole) = unchunked(&reply.body);
        } else if let Ok(length) = reply.header("content-length").parse::<usize>() {
            reply.whole = reply.body.len() == length;
        }
        reply
    }
}

fn unchunked(mut bytes: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let Some(end) = bytes.windows(2).position(|two| two == b"\r\n") else { return (body, false) };
        let size = String::from_utf8_lossy(&bytes[..end]);
        let size = usize::from_str_radix(&size, 16).expect("the size of a chunk is in hex");
        if size == 0 {
            return (body, true);
        }
        let rest = &bytes[end + 2..];
        body.extend_from_slice(&rest[..size.min(rest.len())]);
        if rest.len() < size + 2 {
            return (body, false);
        }
        bytes = &rest[size + 2..];
    }
}

#[cfg(test)]
mod tests {
    use super::Reply;

    #[test]
    fn a_reply_tells_whether_it_is_whole() {
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
        let reply = Reply::parse(chunked.as_bytes());
        assert_eq!((reply.status, reply.text().as_str(), reply.whole), (200, "abcde", true));
        assert!(!Reply::parse(&chunked.as_bytes()[..chunked.len() - 8]).whole);
        assert!(!Reply::parse(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab").whole);
    }
}
