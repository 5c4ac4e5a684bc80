//! Waiting for conditions.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

/// Short, because every test waits; long enough not to load the machine that it waits for.
const PAUSE: Duration = Duration::from_millis(100);

/// Asks `probe` until it has an answer, and returns that.
///
/// # Errors
/// When there is none within `deadline`: says `what` was waited for and the last error that `probe` gave.
pub async fn eventually<T>(
    what: &str,
    deadline: Duration,
    mut probe: impl AsyncFnMut() -> Result<T>,
) -> Result<T> {
    let start = Instant::now();
    loop {
        match probe().await {
            Ok(answer) => return Ok(answer),
            Err(error) if start.elapsed() >= deadline => {
                return Err(error.context(format!("waited {deadline:?} for this: {what}")));
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
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
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}
