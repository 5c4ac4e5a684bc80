//! Two HTTP replicas on this machine, one of them slow now and then, and a client that follows a document in a directory:
//!
//!     cargo run -p hedgerow-client --example two-replicas
//!
//! It calls a while without a document, then writes one as kubelet does, and calls on. The last lines are what
//! Prometheus would read.

use std::error::Error;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use hedgerow_client::{Attempt, Hedger, Invalid, Metrics};
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use prometheus_client::registry::Registry;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// What the operator would write: hedge after 30 ms, at most half of the calls.
const DOCUMENT: &str = r#"{
  "apiVersion": "hedgerow.dev/v1", "policy": "helpdesk/kb-search", "policyUID": "example", "target": "shard-read",
  "revision": 1, "issuedAt": "2026-11-30T10:00:00Z", "enabled": true, "reason": "Tuned",
  "delayMs": 30.0, "deadlineMs": 1000.0, "minRemainingMs": 10.0, "maxAttempts": 2,
  "budget": { "percent": 50.0, "burst": 10, "minPerSecond": 0.0, "maxConcurrent": 100 }
}"#;

#[tokio::main]
async fn main() -> Result<()> {
    // Every fifth request to the first replica takes 300 ms; all others 5 ms.
    let replicas = [replica(5).await?, replica(u32::MAX).await?];

    let metrics = Metrics::default();
    let mut registry = Registry::default();
    metrics.register(&mut registry);

    let mount = tempfile::tempdir()?;
    let hedger = Hedger::builder("shard-read")
        .metrics(&metrics)
        .deadline(Duration::from_secs(1))
        .follow_directory(mount.path(), "shard-read.json")
        .await;

    println!("without a document  {}", calls(&hedger, replicas).await?);
    publish(mount.path())?;
    while hedger.document().is_none() {
        sleep(Duration::from_millis(5)).await;
    }
    println!("hedged after 30 ms  {}", calls(&hedger, replicas).await?);

    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)?;
    for line in text.lines().filter(|line| line.starts_with("hedgerow_client")) {
        if ["calls", "hedges_total", "wins", "survival_seconds_count"]
            .iter()
            .any(|name| line.contains(name))
        {
            println!("{line}");
        }
    }
    Ok(())
}

/// Calls 60 times, and says how long that took.
async fn calls(hedger: &Hedger, replicas: [SocketAddr; 2]) -> Result<String> {
    let mut took = Vec::new();
    for _ in 0..60 {
        let began = Instant::now();
        let attempt = |attempt: Attempt| read(replicas[attempt.number], attempt);
        hedger
            .call_checked(replicas.len(), attempt, is_ok)
            .await
            .map_err(|error| error.to_string())?;
        took.push(began.elapsed().as_millis());
    }
    took.sort_unstable();
    Ok(format!(
        "median {} ms, slowest tenth from {} ms on",
        took[30], took[54]
    ))
}

/// A fast failure is no answer.
fn is_ok(answer: &Response<Bytes>) -> std::result::Result<(), Invalid> {
    match answer.status() {
        StatusCode::OK => Ok(()),
        status => Err(status.to_string().into()),
    }
}

/// One attempt, over a connection of its own. Dropped, it closes the connection, and tells when that is done.
async fn read(replica: SocketAddr, attempt: Attempt) -> Result<Response<Bytes>> {
    let stream = TcpStream::connect(replica).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let completion = attempt.completion();
    tokio::spawn(async move {
        // How it ends is told by the answer; that it has ended, by the guard.
        let _ = connection.await;
        drop(completion);
    });
    let mut request = Request::get("/read")
        .header("host", "replica")
        .body(Empty::<Bytes>::new())?;
    attempt.mark(request.headers_mut());
    let (head, body) = sender.send_request(request).await?.into_parts();
    Ok(Response::from_parts(head, body.collect().await?.to_bytes()))
}

/// Serves on a free port of this machine.
async fn replica(every: u32) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        let requests = AtomicU32::new(1);
        while let Ok((stream, _)) = listener.accept().await {
            let slow = requests.fetch_add(1, Ordering::Relaxed).is_multiple_of(every);
            let takes = Duration::from_millis(if slow { 300 } else { 5 });
            let answer = service_fn(move |_| async move {
                sleep(takes).await;
                Ok::<_, std::convert::Infallible>(Response::new(Full::new(Bytes::from_static(b"read"))))
            });
            // A client that goes away is no error of the replica.
            tokio::spawn(server::Builder::new().serve_connection(TokioIo::new(stream), answer));
        }
    });
    Ok(address)
}

/// Writes the document as kubelet writes a ConfigMap: a new directory, and `..data` swapped to it.
fn publish(mount: &Path) -> Result<()> {
    fs::create_dir(mount.join("..1"))?;
    fs::write(mount.join("..1/shard-read.json"), DOCUMENT)?;
    symlink("..data/shard-read.json", mount.join("shard-read.json"))?;
    symlink("..1", mount.join("..data_tmp"))?;
    fs::rename(mount.join("..data_tmp"), mount.join("..data"))?;
    Ok(())
}
