//! A line that can be cut: a TCP proxy between two programs, in the hands of a test.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, tcp::OwnedReadHalf, tcp::OwnedWriteHalf},
    sync::watch,
    task::JoinHandle,
};

/// What a line does with what is sent over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Whole,
    /// What is open is dropped, what is new is refused.
    Cut,
    /// Everything stays open, nothing comes through; on connections before this number only.
    SilentBefore(usize),
}

impl State {
    fn passes(self, number: usize) -> bool {
        match self {
            Self::Whole => true,
            Self::Cut => false,
            Self::SilentBefore(end) => number >= end,
        }
    }
}

/// A proxy on 127.0.0.1 that passes everything on to one address. Dropping it ends all its connections.
#[derive(Debug)]
pub struct Line {
    address: SocketAddr,
    state: watch::Sender<State>,
    open: Arc<Open>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Open {
    now: AtomicUsize,
    most: AtomicUsize,
    ever: AtomicUsize,
}

impl Line {
    /// A whole line to this address.
    pub async fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let state = watch::Sender::new(State::Whole);
        let open = Arc::<Open>::default();
        let (states, count) = (state.clone(), Arc::clone(&open));
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let (states, count) = (states.subscribe(), Arc::clone(&count));
                tokio::spawn(async move {
                    let now = count.now.fetch_add(1, Ordering::SeqCst) + 1;
                    count.most.fetch_max(now, Ordering::SeqCst);
                    let number = count.ever.fetch_add(1, Ordering::SeqCst);
                    // However it ends, both ends are closed.
                    let _ended = carry(near, target, states, number).await;
                    count.now.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { address, state, open, task }
    }

    /// Where to connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Drops what is open; new connections are closed at once.
    pub fn cut(&self) {
        self.state.send_replace(State::Cut);
    }

    /// Nothing comes through any more, in neither direction, and nobody is told.
    pub fn silence(&self) {
        self.state.send_replace(State::SilentBefore(usize::MAX));
    }

    /// Nothing comes through any more on what is open, and nobody is told; new connections come through. As after a
    /// server that moved to another host.
    pub fn strand(&self) {
        self.state.send_replace(State::SilentBefore(self.ever_open()));
    }

    /// New connections come through again, and what was silent goes on.
    pub fn heal(&self) {
        self.state.send_replace(State::Whole);
    }

    /// Connections that are open now.
    pub fn open(&self) -> usize {
        self.open.now.load(Ordering::SeqCst)
    }

    /// The most connections that were ever open at once.
    pub fn most_open(&self) -> usize {
        self.open.most.load(Ordering::SeqCst)
    }

    /// All connections that there ever were.
    pub fn ever_open(&self) -> usize {
        self.open.ever.load(Ordering::SeqCst)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.state.send_replace(State::Cut);
        self.task.abort();
    }
}

/// Carries one connection until one side closes, or the line is cut.
async fn carry(
    near: TcpStream,
    target: SocketAddr,
    mut states: watch::Receiver<State>,
    number: usize,
) -> io::Result<()> {
    near.set_nodelay(true)?;
    let mut gone = states.clone();
    let work = async move {
        // A silent line takes connections and passes nothing on, not even their beginning.
        states.wait_for(|state| state.passes(number)).await.map_err(io::Error::other)?;
        let far = TcpStream::connect(target).await?;
        far.set_nodelay(true)?;
        let ((near_read, near_write), (far_read, far_write)) = (near.into_split(), far.into_split());
        // The end of either direction ends both: a program that hung up waits for no answer.
        tokio::select! {
            done = pass(near_read, far_write, states.clone(), number) => done,
            done = pass(far_read, near_write, states, number) => done,
        }
    };
    tokio::select! {
        done = work => done,
        _ = gone.wait_for(|state| *state == State::Cut) => Ok(()),
    }
}

async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut states: watch::Receiver<State>,
    number: usize,
) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = from.read(&mut buffer).await?;
        states.wait_for(|state| state.passes(number)).await.map_err(io::Error::other)?;
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..read]).await?;
    }
}
