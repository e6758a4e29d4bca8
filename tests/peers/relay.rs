//! What stands between Holdfast and a peer: it passes everything on, keeps a record of what was asked at the token endpoint, and
//! loses or holds answers that the peer has given.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};
use url::form_urlencoded;

/// A proxy on 127.0.0.1, as `base_url_override` wants one: the peer's host is a folder of it.
#[derive(Debug)]
pub(crate) struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    peer: SocketAddr,
    token_path: &'static str,
    exchanges: Mutex<Vec<Exchange>>,
    open: AtomicUsize,
    most_open: AtomicUsize,
    to_lose: AtomicUsize,
    holds: watch::Sender<bool>,
}

/// A refresh token that the peer was shown, and what it said.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    /// The refresh token.
    pub shown: String,
    /// HTTP status of the peer's answer.
    pub status: u16,
    /// The peer's answer.
    pub answer: Value,
}

/// A request or an answer: its head without the empty line, and its body.
struct Message {
    head: String,
    body: Vec<u8>,
}

impl Relay {
    /// To the peer at this address, whose token endpoint has this path.
    pub(crate) async fn to(peer: SocketAddr, token_path: &'static str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port is free");
        let shared = Arc::new(Shared {
            peer,
            token_path,
            exchanges: Mutex::default(),
            open: AtomicUsize::new(0),
            most_open: AtomicUsize::new(0),
            to_lose: AtomicUsize::new(0),
            holds: watch::Sender::new(false),
        });
        let (address, work) = (listener.local_addr().expect("it is bound"), Arc::clone(&shared));
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let shared = Arc::clone(&work);
                // However it ends, its connections are closed.
                tokio::spawn(async move { shared.carry(near).await });
            }
        });
        Self { address, shared, task }
    }

    /// `http://127.0.0.1:PORT`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Begins the record anew.
    pub(crate) fn forget(&self) {
        self.shared.exchanges.lock().expect("no panic happens while it is held").clear();
    }

    /// All refresh tokens of the record that the peer was shown and has answered, in order.
    pub(crate) fn refreshes(&self) -> Vec<Exchange> {
        self.shared.exchanges.lock().expect("no panic happens while it is held").clone()
    }

    /// What the peer said to them.
    pub(crate) fn statuses(&self) -> Vec<u16> {
        self.refreshes().iter().map(|exchange| exchange.status).collect()
    }

    /// The most requests for a refresh that were ever open at once.
    pub(crate) fn most_open(&self) -> usize {
        self.shared.most_open.load(Ordering::SeqCst)
    }

    /// The next answer to a refresh is read and thrown away; its connection is closed.
    pub(crate) fn lose_the_next_answer(&self) {
        self.shared.to_lose.store(1, Ordering::SeqCst);
    }

    /// Answers to refreshes are kept back from now on, or passed on again.
    pub(crate) fn hold_answers(&self, hold: bool) {
        self.shared.holds.send_replace(hold);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    /// One request with its answer.
    async fn carry(&self, mut near: TcpStream) -> io::Result<()> {
        let request = Message::read(&mut near).await?;
        let (line, headers) = request.head.split_once("\r\n").ok_or(io::ErrorKind::InvalidData)?;
        let line = without_host(line);
        let headers = headers.lines().filter(|header| !is(header, "connection"));
        let head = headers.fold(line.clone(), |head, header| head + "\r\n" + header);
        let shown = self.refresh_token(&line, &request.body);

        if shown.is_some() {
            let open = self.open.fetch_add(1, Ordering::SeqCst) + 1;
            self.most_open.fetch_max(open, Ordering::SeqCst);
        }
        let answer = self.ask(&head, &request.body).await;
        let passes = match shown {
            Some(shown) => {
                let passes = self.settle(shown, answer.as_deref().unwrap_or_default()).await;
                self.open.fetch_sub(1, Ordering::SeqCst);
                passes
            }
            None => true,
        };
        if passes {
            near.write_all(&answer?).await?;
            near.shutdown().await?;
        }
        Ok(())
    }

    /// The peer's whole answer; it closes the connection after it.
    async fn ask(&self, head: &str, body: &[u8]) -> io::Result<Vec<u8>> {
        let mut far = TcpStream::connect(self.peer).await?;
        far.write_all(format!("{head}\r\nConnection: close\r\n\r\n").as_bytes()).await?;
        far.write_all(body).await?;
        let mut answer = Vec::new();
        far.read_to_end(&mut answer).await?;
        Ok(answer)
    }

    /// Notes a refresh that the peer has answered; whether its answer is passed on.
    async fn settle(&self, shown: String, answer: &[u8]) -> bool {
        let text = String::from_utf8_lossy(answer);
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
        let body = text.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
        let answer = serde_json::from_str(body).unwrap_or_default();
        let exchange = Exchange { shown, status, answer };
        self.exchanges.lock().expect("no panic happens while it is held").push(exchange);
        let mut holds = self.holds.subscribe();
        // It fails only when the relay is gone.
        let _ended = holds.wait_for(|holds| !holds).await;
        self.to_lose.compare_exchange(1, 0, Ordering::SeqCst, Ordering::SeqCst).is_err()
    }

    /// The token that this request shows to the token endpoint.
    fn refresh_token(&self, line: &str, body: &[u8]) -> Option<String> {
        let asked = line.split(' ').nth(1).is_some_and(|path| path == self.token_path);
        let field = |name| form_urlencoded::parse(body).find(|(other, _)| other == name);
        field("refresh_token").filter(|_| asked && line.starts_with("POST ")).map(|(_, token)| token.into_owned())
    }
}

impl Message {
    async fn read(stream: &mut TcpStream) -> io::Result<Self> {
        let mut bytes = Vec::new();
        let end = loop {
            if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break end;
            }
            if stream.read_buf(&mut bytes).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        let body = bytes.split_off(end + 4);
        let head = String::from_utf8(bytes[..end].to_vec()).map_err(io::Error::other)?;
        let length = head.lines().find(|header| is(header, "content-length"));
        let length = length.and_then(|header| header.split_once(':')?.1.trim().parse().ok()).unwrap_or(body.len());
        let mut message = Self { head, body };
        let mut rest = vec![0; length.saturating_sub(message.body.len())];
        stream.read_exact(&mut rest).await?;
        message.body.extend(rest);
        Ok(message)
    }
}

fn is(header: &str, name: &str) -> bool {
    header.split_once(':').is_some_and(|(other, _)| other.eq_ignore_ascii_case(name))
}

/// A request line whose path does not begin with the folder of a host any more.
fn without_host(line: &str) -> String {
    let mut parts = line.split(' ');
    let (method, path) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let folder = path.strip_prefix('/').and_then(|path| path.split_once('/'));
    match folder {
        Some((host, rest)) if host.ends_with(".example") => format!("{method} /{rest} HTTP/1.1"),
        _ => line.to_owned(),
    }
}
