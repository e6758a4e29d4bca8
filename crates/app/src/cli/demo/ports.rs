//! The same ports at each start, so that bookmarks and links in mails go on working; others where those are taken.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
};

use anyhow::Context;
use holdfast_sandbox::{Builder, Sandbox};
use tokio::net::TcpListener;

const USUAL: u16 = 8080;

/// Listens for the service, and says so where the port is another one than expected.
pub(super) async fn service(asked: Option<u16>, before: Option<u16>) -> anyhow::Result<(TcpListener, String)> {
    let wanted = match (asked, before) {
        (Some(0), None) => return Ok((bind(0).await.context("no port is free")?, String::new())),
        (Some(0) | None, Some(before)) => before,
        (None, None) => USUAL,
        (Some(asked), _) => {
            let listener = bind(asked).await.with_context(|| {
                format!("cannot listen on 127.0.0.1:{asked}; choose another port, or a free one with `holdfast demo --port 0`")
            });
            return Ok((listener?, String::new()));
        }
    };
    match bind(wanted).await {
        Ok(listener) => Ok((listener, String::new())),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let listener = bind(0).await.context("no port is free")?;
            let port = listener.local_addr()?.port();
            let lost = if before.is_some() { " Links of before lead to the old one." } else { "" };
            Ok((listener, format!("\nPort {wanted} is taken; this demo takes {port}.{lost}\n")))
        }
        Err(error) => Err(error).with_context(|| format!("cannot listen on 127.0.0.1:{wanted}")),
    }
}

/// Starts the sandbox on the port of before, or a free one.
pub(super) async fn sandbox(sandbox: Builder, before: u16) -> io::Result<Sandbox> {
    match sandbox.clone().port(before).start().await {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => sandbox.port(0).start().await,
        started => started,
    }
}

async fn bind(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await
}
