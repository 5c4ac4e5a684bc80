//! Waiting for conditions.

use std::time::Duration;

use anyhow::{Result, anyhow};
use tokio::time::{Instant, sleep, timeout_at};

/// Short, because every test waits; long enough not to load the machine that it waits for.
const PAUSE: Duration = Duration::from_millis(100);

/// What a probe says when there is nothing to wait for any more.
#[derive(Debug)]
pub struct Hopeless(pub String);

impl std::fmt::Display for Hopeless {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Hopeless {}

/// Asks `probe` until it has an answer, and returns that. A probe that hangs is given up at the deadline.
///
/// # Errors
/// When there is none within `deadline`: says `what` was waited for and the last error that `probe` gave. At once when the probe
/// says that it is [`Hopeless`].
pub async fn eventually<T>(
    what: &str,
    deadline: Duration,
    mut probe: impl AsyncFnMut() -> Result<T>,
) -> Result<T> {
    let end = Instant::now() + deadline;
    let mut seen = anyhow!("nothing was answered");
    loop {
        match timeout_at(end, probe()).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) if error.is::<Hopeless>() => {
                return Err(error.context(format!("waited in vain for this: {what}")));
            }
            Ok(Err(error)) => seen = error,
            Err(_) => {}
        }
        if Instant::now() >= end {
            return Err(seen.context(format!("waited {deadline:?} for this: {what}")));
        }
        sleep(PAUSE).await;
    }
}

/// Asks `probe` for as long as `period`, and fails as soon as it does: for what must stay as it is.
///
/// # Errors
/// The first error of `probe`, and when it broke.
pub async fn steadily(
    what: &str,
    period: Duration,
    mut probe: impl AsyncFnMut() -> Result<()>,
) -> Result<()> {
    let start = Instant::now();
    while start.elapsed() < period {
        probe()
            .await
            .map_err(|error| anyhow!("broke after {:?}: {what}: {error:#}", start.elapsed()))?;
        sleep(PAUSE).await;
    }
    Ok(())
}
