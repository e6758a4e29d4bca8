//! A caller that costs little: one kept connection, requests as bytes, and only as much of HTTP/1.1 as our servers answer.

use std::net::SocketAddr;

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// One kept connection.
pub(super) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// What came back.
pub(super) struct Answer<'a> {
    pub(super) status: u16,
    pub(super) body: &'a [u8],
}

/// A request without a body, as bytes to be sent many times.
pub(super) fn get(path: &str, key: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\naccept: */*\r\n\r\n").into_bytes()
}

/// A request with a JSON body.
pub(super) fn post(path: &str, key: &str, body: &Value) -> Vec<u8> {
    let body = body.to_string();
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

impl Connection {
    pub(super) async fn open(address: SocketAddr) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(4096) })
    }

    /// Sends a request and waits for the whole answer.
    pub(super) async fn ask(&mut self, request: &[u8]) -> anyhow::Result<Answer<'_>> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        let (head, length) = loop {
            ensure!(self.stream.read_buf(&mut self.buffer).await? > 0, "the connection was closed before an answer");
            if let Some(head) = end_of_head(&self.buffer) {
                break (head, content_length(&self.buffer[..head])?);
            }
        };
        while self.buffer.len() < head + length {
            ensure!(self.stream.read_buf(&mut self.buffer).await? > 0, "the connection was closed within an answer");
        }
        ensure!(self.buffer.len() == head + length, "more came back than one answer");
        Ok(Answer { status: status(&self.buffer)?, body: &self.buffer[head..] })
    }

    /// As [`Self::ask`]; anything but success is an error.
    pub(super) async fn must(&mut self, request: &[u8]) -> anyhow::Result<&[u8]> {
        let answer = self.ask(request).await?;
        if !(200..300).contains(&answer.status) {
            bail!("{}: {}", answer.status, String::from_utf8_lossy(answer.body));
        }
        Ok(answer.body)
    }
}

fn end_of_head(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4)
}

fn content_length(head: &[u8]) -> anyhow::Result<usize> {
    const NAME: &[u8] = b"\r\ncontent-length: ";
    let at = head.windows(NAME.len()).position(|part| part == NAME).context("an answer without content-length")?;
    let digits = head[at + NAME.len()..].iter().take_while(|byte| byte.is_ascii_digit());
    Ok(digits.fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0')))
}

fn status(head: &[u8]) -> anyhow::Result<u16> {
    let digits = head.strip_prefix(b"HTTP/1.1 ").and_then(|rest| rest.get(..3)).context("this is not HTTP/1.1")?;
    Ok(digits.iter().fold(0, |sum, digit| sum * 10 + u16::from(digit.wrapping_sub(b'0'))))
}

#[cfg(test)]
mod tests {
    use super::{content_length, end_of_head, status};

    #[test]
    fn the_head_is_understood() {
        let answer = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 120\r\nx: y\r\n\r\n{";

        assert_eq!(end_of_head(answer), Some(answer.len() - 1));
        assert_eq!(content_length(answer).unwrap(), 120);
        assert_eq!(status(answer).unwrap(), 503);
        assert_eq!(end_of_head(&answer[..20]), None);
    }
}
