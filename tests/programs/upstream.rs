//! Hosts that answer HTTP calls as slowly as they are told.

use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use tokio::net::TcpListener;

use crate::attempts::{Attempts, CALL, TAKES};

/// Starts `count` hosts on loopback, which note in `attempts` what they see. They end with the test's runtime.
pub(crate) async fn hosts(count: usize, attempts: &Attempts) -> Vec<SocketAddr> {
    let mut addresses = Vec::new();
    for host in 0..count {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        addresses.push(listener.local_addr().unwrap());
        let app = Router::new()
            .fallback(answer)
            .with_state((host, attempts.clone()));
        tokio::spawn(async move { axum::serve(listener, app).await });
    }
    addresses
}

async fn answer(State((host, attempts)): State<(usize, Attempts)>, headers: HeaderMap) -> StatusCode {
    let said = |name| headers.get(name).map_or("", |value| value.to_str().unwrap());
    if attempts.work(host, said(CALL), said(TAKES), None).await {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    }
}
