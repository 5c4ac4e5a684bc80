//! Listening on loopback, and stopping when told to.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result};
use axum::Router;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// A listener on `address`, or on a free loopback port.
pub(crate) async fn listen(address: Option<SocketAddr>) -> Result<(TcpListener, SocketAddr)> {
    let wanted = address.unwrap_or_else(|| (Ipv4Addr::LOCALHOST, 0).into());
    let listener = TcpListener::bind(wanted)
        .await
        .with_context(|| format!("cannot listen on {wanted}"))?;
    let bound = listener.local_addr()?;
    Ok((listener, bound))
}

/// Serves until the process is told to stop.
pub(crate) async fn serve(listener: TcpListener, router: Router) -> Result<()> {
    axum::serve(listener, router).await.context("the server ended")
}

/// Returns when the process is told to stop: SIGTERM or SIGINT.
pub(crate) async fn stopped() -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = terminate.recv() => {}
        interrupted = tokio::signal::ctrl_c() => interrupted?,
    }
    Ok(())
}
