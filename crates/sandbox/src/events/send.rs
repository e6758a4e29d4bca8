//! One request over a socket of its own.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use url::Url;

use super::{EventAttempt, PATIENCE, Parcel};

pub(super) async fn once(url: &str, parcel: &Parcel) -> Result<EventAttempt, String> {
    let url = Url::parse(url).map_err(|error| format!("url: {error}"))?;
    if url.scheme() != "http" {
        return Err("url: the sandbox sends to http:// alone".to_owned());
    }
    let answer = timeout(PATIENCE, exchange(&url, parcel)).await;
    let Ok(Ok(answer)) = answer else {
        return Ok(EventAttempt { status: 0, retry_after: None, content_type: String::new(), body: String::new() });
    };
    let text = String::from_utf8_lossy(&answer);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|status| status.parse().ok());
    let find = |wanted: &str| {
        head.lines().skip(1).find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case(wanted).then(|| value.trim().to_owned())
        })
    };
    Ok(EventAttempt {
        status: status.unwrap_or(0),
        retry_after: find("retry-after").and_then(|secs| secs.parse().ok()),
        content_type: find("content-type").unwrap_or_default(),
        body: body.to_owned(),
    })
}

async fn exchange(url: &Url, parcel: &Parcel) -> std::io::Result<Vec<u8>> {
    let host = url.host_str().unwrap_or_default();
    let port = url.port_or_known_default().unwrap_or(80);
    let mut socket = TcpStream::connect((host, port)).await?;
    let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
    let mut head = format!("{} {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n", parcel.method);
    for (name, value) in &parcel.headers {
        head = format!("{head}{name}: {value}\r\n");
    }
    head = format!("{head}Content-Length: {}\r\n\r\n", parcel.body.len());
    socket.write_all(head.as_bytes()).await?;
    socket.write_all(&parcel.body).await?;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).await?;
    Ok(answer)
}
