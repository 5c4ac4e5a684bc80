//! A network between a program and a server, which a test can break.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Result;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

/// A TCP proxy in front of a server. It serves for as long as this value and the runtime that started it live.
#[derive(Debug)]
pub struct Link {
    address: SocketAddr,
    condition: watch::Sender<Condition>,
    server: AbortHandle,
}

/// How a [`Link`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Everything passes at once.
    Whole,
    /// Everything passes, each piece this much later.
    Slow(Duration),
    /// Connections are accepted and stay open, what is sent is acknowledged, and nothing passes. All of it is delivered once
    /// the link is whole again, also what was sent by a peer that has given up since: the worst that a network may do.
    Stalled,
    /// The connections that there are break with a reset, and so does every new one.
    Cut,
}

impl Link {
    /// A whole link to a server of this machine, at a port that the kernel chooses.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn to(server: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let condition = watch::Sender::new(Condition::Whole);
        let serving = tokio::spawn(serve(listener, server, condition.subscribe()));
        Ok(Self {
            address,
            condition,
            server: serving.abort_handle(),
        })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Makes it be so, from now on.
    pub fn set(&self, condition: Condition) {
        self.condition.send_replace(condition);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(listener: TcpListener, server: SocketAddr, condition: watch::Receiver<Condition>) {
    // Dropped with this task, and the connections with it.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((client, _)) => {
                    connections.spawn(connect(client, server, condition.clone()));
                }
                // Out of descriptors, say: a later one may be taken.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connect(mut client: TcpStream, server: SocketAddr, condition: watch::Receiver<Condition>) {
    let mut cut = condition.clone();
    let pass = async {
        let Ok(mut server) = TcpStream::connect(server).await else {
            return;
        };
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        tokio::join!(
            pump(from_client, to_server, condition.clone()),
            pump(from_server, to_client, condition),
        );
    };
    let was_cut = tokio::select! {
        () = pass => false,
        cut = cut.wait_for(|now| *now == Condition::Cut) => cut.is_ok(),
    };
    if was_cut {
        // Closing it then sends a reset. What cannot be set is closed all the same.
        let _ = client.set_zero_linger();
    }
}

/// Passes on what is sent in one direction, until its end.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut condition: watch::Receiver<Condition>,
) {
    let mut piece = vec![0; 64 * 1024];
    loop {
        let length = from.read(&mut piece).await.unwrap_or(0);
        let now = *condition.borrow();
        if let Condition::Slow(by) = now {
            tokio::time::sleep(by).await;
        }
        if condition
            .wait_for(|now| *now != Condition::Stalled)
            .await
            .is_err()
        {
            return;
        }
        let passed = match length {
            0 => to.shutdown().await,
            _ => to.write_all(&piece[..length]).await,
        };
        if length == 0 || passed.is_err() {
            return;
        }
    }
}
