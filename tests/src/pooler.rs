//! A connection pooler in transaction mode, as strict as one can be: whoever is not inside a transaction has no server
//! connection, and the next statement goes to any of them.
//!
//! It does what PgBouncer does from 1.21 on with `max_prepared_statements` set: prepared statements belong to clients,
//! and are prepared again on a server connection that does not know them. PgBouncer itself would have to be that new,
//! which it is not on every system that the tests run on. Clients log in at the server itself, each over a connection of
//! its own; the first ones stay and become the pool.
//!
//! <https://www.postgresql.org/docs/current/protocol-flow.html>

use std::{
    collections::{HashMap, HashSet, VecDeque},
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinHandle,
};

const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;
const CANCEL_REQUEST: u32 = 80_877_102;

/// A pooler on 127.0.0.1.
#[derive(Debug)]
pub struct Pooler {
    address: SocketAddr,
    pool: Arc<Pool>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Pool {
    server: SocketAddr,
    size: usize,
    /// Connections that belong to the pool, idle or not.
    made: Mutex<usize>,
    idle: Mutex<VecDeque<Server>>,
    free: Semaphore,
    transactions: AtomicU64,
}

impl Pooler {
    /// One with so many server connections.
    pub async fn to(server: SocketAddr, size: usize) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let pool = Arc::new(Pool {
            server,
            size,
            made: Mutex::default(),
            idle: Mutex::default(),
            free: Semaphore::new(0),
            transactions: AtomicU64::default(),
        });
        let shared = Arc::clone(&pool);
        let task = tokio::spawn(async move {
            for number in 0.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                let pool = Arc::clone(&shared);
                tokio::spawn(async move {
                    // A client that goes away is none of our business.
                    let _ended = serve(&pool, Wire::new(stream), number).await;
                });
            }
        });
        Self { address, pool, task }
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Server connections in the pool.
    pub fn server_connections(&self) -> usize {
        *self.pool.made.lock().expect("no panic happens while it is held")
    }

    /// Transactions so far, single statements included.
    pub fn transactions(&self) -> u64 {
        self.pool.transactions.load(Ordering::Relaxed)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One message: its type, and the whole of it.
struct Message {
    kind: u8,
    bytes: Vec<u8>,
}

impl Message {
    fn body(&self) -> &[u8] {
        &self.bytes[5..]
    }

    fn with_body(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).expect("messages are short");
        [&[kind][..], &length.to_be_bytes(), body].concat()
    }
}

/// A connection, read message by message; reading may be given up and taken up again.
#[derive(Debug)]
struct Wire {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Wire {
    fn new(stream: TcpStream) -> Self {
        // Without it, each small message waits for the acknowledgement of the one before.
        stream.set_nodelay(true).ok();
        Self { stream, buffer: Vec::new() }
    }

    async fn fill(&mut self, wanted: usize) -> io::Result<()> {
        while self.buffer.len() < wanted {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }

    fn length(&self, at: usize) -> usize {
        let bytes = self.buffer[at..at + 4].try_into().expect("four are four");
        usize::try_from(u32::from_be_bytes(bytes)).expect("it fits")
    }

    /// The first packet has no type.
    async fn startup(&mut self) -> io::Result<Vec<u8>> {
        self.fill(8).await?;
        let length = self.length(0);
        self.fill(length).await?;
        Ok(self.buffer.drain(..length).collect())
    }

    async fn next(&mut self) -> io::Result<Message> {
        self.fill(5).await?;
        let length = self.length(1) + 1;
        self.fill(length).await?;
        Ok(Message { kind: self.buffer[0], bytes: self.buffer.drain(..length).collect() })
    }

    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }
}

/// A connection of the pool, with the statements that it knows.
#[derive(Debug)]
struct Server {
    wire: Wire,
    known: HashSet<Vec<u8>>,
}

/// What a server connection still owes, in order.
enum Owed {
    /// An answer to a Parse; the client knows of it or not.
    Parsed { name: Vec<u8>, ours: bool },
    /// ReadyForQuery.
    Ready,
}

/// A server connection in the hands of a client.
struct Taken {
    server: Server,
    owed: VecDeque<Owed>,
}

async fn serve(pool: &Pool, mut client: Wire, number: u64) -> io::Result<()> {
    loop {
        let packet = client.startup().await?;
        match u32::from_be_bytes(packet[4..8].try_into().expect("four are four")) {
            SSL_REQUEST | GSS_REQUEST => client.send(b"N").await?,
            CANCEL_REQUEST => return Ok(()),
            _ => {
                log_in(pool, &mut client, &packet).await?;
                break;
            }
        }
    }
    let mut session = Session { number, statements: HashMap::new(), taken: None };
    let ended = session.run(pool, &mut client).await;
    if let Some(taken) = session.taken {
        pool.recover(taken).await;
    }
    ended
}

/// Over a connection of its own, which becomes one of the pool's if that is not full.
async fn log_in(pool: &Pool, client: &mut Wire, packet: &[u8]) -> io::Result<()> {
    let mut server = Wire::new(TcpStream::connect(pool.server).await?);
    server.send(packet).await?;
    loop {
        let message = server.next().await?;
        client.send(&message.bytes).await?;
        match (message.kind, message.body()) {
            (b'E', _) => return Err(io::ErrorKind::PermissionDenied.into()),
            // Passwords and SASL are answered; "ok" and SASL's last word are not.
            (b'R', body) if !matches!(body[..4], [0, 0, 0, 0 | 12]) => {
                let answer = client.next().await?;
                server.send(&answer.bytes).await?;
            }
            (b'Z', _) => break,
            _ => {}
        }
    }
    let wanted = {
        let mut made = pool.made.lock().expect("no panic happens while it is held");
        let wanted = *made < pool.size;
        *made += usize::from(wanted);
        wanted
    };
    if wanted {
        pool.give_back(Server { wire: server, known: HashSet::new() });
    } else {
        server.send(&Message::with_body(b'X', &[])).await?;
    }
    Ok(())
}

impl Pool {
    async fn take(&self) -> Taken {
        self.free.acquire().await.expect("it is never closed").forget();
        self.transactions.fetch_add(1, Ordering::Relaxed);
        // First in, first out: the next statement of a client meets another server connection than the last one.
        let server = self.idle.lock().expect("no panic happens while it is held").pop_front();
        Taken { server: server.expect("a permit stands for one"), owed: VecDeque::new() }
    }

    fn give_back(&self, server: Server) {
        self.idle.lock().expect("no panic happens while it is held").push_back(server);
        self.free.add_permits(1);
    }

    /// Of a client that went away in the middle.
    async fn recover(&self, mut taken: Taken) {
        let roll_back = async {
            while taken.owed.iter().any(|owed| matches!(owed, Owed::Ready)) {
                let message = taken.server.wire.next().await?;
                taken.settle(&message);
            }
            taken.server.wire.send(&Message::with_body(b'Q', b"ROLLBACK\0")).await?;
            while taken.server.wire.next().await?.kind != b'Z' {}
            io::Result::Ok(())
        };
        match roll_back.await {
            Ok(()) => self.give_back(taken.server),
            Err(_) => *self.made.lock().expect("no panic happens while it is held") -= 1,
        }
    }
}

impl Taken {
    /// Notes what this message answers; whether the client is to see it.
    fn settle(&mut self, message: &Message) -> bool {
        match message.kind {
            b'1' => !matches!(self.owed.pop_front(), Some(Owed::Parsed { ours: true, .. })),
            // Everything up to the next Sync is skipped.
            b'E' => {
                while let Some(Owed::Parsed { name, .. }) = self.owed.front() {
                    self.server.known.remove(name);
                    self.owed.pop_front();
                }
                true
            }
            b'Z' => {
                self.owed.pop_front();
                true
            }
            _ => true,
        }
    }
}

struct Session {
    number: u64,
    /// The client's prepared statements: its name for each to the Parse that makes it.
    statements: HashMap<Vec<u8>, Vec<u8>>,
    taken: Option<Taken>,
}

impl Session {
    async fn run(&mut self, pool: &Pool, client: &mut Wire) -> io::Result<()> {
        loop {
            let Some(taken) = &mut self.taken else {
                let message = client.next().await?;
                if message.kind == b'X' {
                    return Ok(());
                }
                self.taken = Some(pool.take().await);
                self.forward(message).await?;
                continue;
            };
            tokio::select! {
                message = client.next() => {
                    let message = message?;
                    if message.kind == b'X' {
                        return Ok(());
                    }
                    self.forward(message).await?;
                }
                message = taken.server.wire.next() => {
                    let message = message?;
                    if taken.settle(&message) {
                        client.send(&message.bytes).await?;
                    }
                    let over = message.kind == b'Z' && message.body() == b"I" && taken.owed.is_empty();
                    if over && let Some(taken) = self.taken.take() {
                        pool.give_back(taken.server);
                    }
                }
            }
        }
    }

    /// Sends a client's message on, under the names that are ours.
    async fn forward(&mut self, message: Message) -> io::Result<()> {
        let Some(taken) = &mut self.taken else { return Ok(()) };
        let (kind, body) = (message.kind, message.body());
        let mut bytes = message.bytes.clone();
        // Where the name of a statement begins in the body.
        let at = match (kind, body.first()) {
            (b'P', _) => Some(0),
            (b'B', _) => Some(text(body).len() + 1),
            (b'D' | b'C', Some(b'S')) => Some(1),
            _ => None,
        };
        if let Some(at) = at
            && let name = text(&body[at..])
            && !name.is_empty()
        {
            let own = format!("c{}_", self.number).into_bytes();
            bytes = Message::with_body(kind, &[&body[..at], &own, &body[at..]].concat());
            let known = &mut taken.server.known;
            match kind {
                b'P' => {
                    self.statements.insert(name.to_vec(), bytes.clone());
                    known.insert([&own, name].concat());
                    taken.owed.push_back(Owed::Parsed { name: [&own, name].concat(), ours: false });
                }
                b'C' => {
                    self.statements.remove(name);
                    known.remove(&[&own, name].concat());
                }
                _ => {
                    if let Some(parse) = self.statements.get(name)
                        && known.insert([&own, name].concat())
                    {
                        taken.owed.push_back(Owed::Parsed { name: [&own, name].concat(), ours: true });
                        taken.server.wire.send(parse).await?;
                    }
                }
            }
        } else if kind == b'P' {
            taken.owed.push_back(Owed::Parsed { name: Vec::new(), ours: false });
        }
        if matches!(kind, b'S' | b'Q') {
            taken.owed.push_back(Owed::Ready);
        }
        taken.server.wire.send(&bytes).await
    }
}

/// Up to the zero byte.
fn text(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}
