//! A client in a pod: follows the document in a mounted ConfigMap, and tells when it changed and what was hedged.
//!
//! Its calls are always slow, so that each is hedged as far as the document allows: `mounted-client DIRECTORY KEY`. It
//! prints a line of JSON for
//! - each change of the document: `{"at", "revision", "enabled", "reason", "mounted"}`, `mounted` being when kubelet had
//!   swapped the file in;
//! - each hedge: `{"at", "hedge": true}`.
//!
//! Times are in seconds since 1970.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use hedgerow_client::{Attempt, Hedger, NativeDocument};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval, sleep};

/// Often enough that some hundredths of a second are told.
const LOOK: Duration = Duration::from_millis(10);
/// 50 calls a second: at a budget of 10 % a hedge every 0.2 s.
const CALL: Duration = Duration::from_millis(20);
/// No primary answers before this.
const DEADLINE: Duration = Duration::from_secs(1);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, key] = arguments.as_slice() else {
        anyhow::bail!("usage: mounted-client DIRECTORY KEY");
    };
    let hedger = Hedger::builder("mounted-client")
        .deadline(DEADLINE)
        .follow_directory(directory, key)
        .await;
    let mut stop = signal(SignalKind::terminate())?;
    tokio::select! {
        () = tell_changes(&hedger, Path::new(directory)) => {}
        () = call(&hedger) => {}
        _ = stop.recv() => {}
    }
    Ok(())
}

/// Tells each change of the document, the first one included.
async fn tell_changes(hedger: &Hedger, directory: &Path) {
    let content = |document: &Arc<NativeDocument>| (document.revision, document.reason.clone());
    let mut told = None;
    loop {
        let document = hedger.document();
        let now = document.as_ref().map(content);
        if now != told {
            say(&json!({
                "at": seconds(SystemTime::now()),
                "revision": document.as_ref().map(|document| document.revision),
                "enabled": document.as_ref().is_some_and(|document| document.hedging.is_some()),
                "reason": document.as_ref().map(|document| document.reason.clone()),
                "mounted": mounted(directory).ok(),
            }));
            told = now;
        }
        sleep(LOOK).await;
    }
}

/// When kubelet swapped in what is mounted: it makes a symlink anew each time.
fn mounted(directory: &Path) -> Result<f64> {
    let link = directory.join("..data");
    let written = link
        .symlink_metadata()
        .context("no ConfigMap is mounted")?
        .modified()?;
    Ok(seconds(written))
}

/// Makes slow calls for ever.
async fn call(hedger: &Hedger) {
    let mut tick = interval(CALL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tick.tick().await;
        let hedger = hedger.clone();
        tokio::spawn(async move {
            // A call that gives no answer in time is what it is about.
            let _ = hedger.call(2, attempt).await;
        });
    }
}

/// The primary is too slow for ever, and a hedge answers at once.
async fn attempt(attempt: Attempt) -> Result<(), std::convert::Infallible> {
    if attempt.is_hedge() {
        say(&json!({ "at": seconds(SystemTime::now()), "hedge": true }));
    } else {
        sleep(2 * DEADLINE).await;
    }
    Ok(())
}

fn say(line: &Value) {
    println!("{line}");
}

fn seconds(at: SystemTime) -> f64 {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
