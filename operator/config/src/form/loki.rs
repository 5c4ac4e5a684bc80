//! Grafana Loki, which hedges reads from object storage.
//!
//! Source, Loki 3.7: `pkg/storage/chunk/client/hedging/hedging.go` and the library
//! [`hedgedhttp`](https://github.com/cristalhq/hedgedhttp) 0.9.1 under it.

use super::place::Place;
use super::told::told_one;
use super::{Part, RenderError};

/// Loki's own default.
const MAX_PER_SECOND: u32 = 5;

const NOTE: &str = "\
# Hedged reads of Grafana Loki from object storage, from Hedgerow.
# What to do: merge this into Loki's config and restart Loki; it reads it only at start.
# What stands in storage_config wins over common.storage.hedging. The budget is max_per_second, for each process.
";

/// A Loki that reads from object storage.
///
/// On is, in `storage_config.hedging`, `at` in milliseconds, `up_to`, which counts the first request, and `max_per_second`.
/// Off is `at: 0s` and `up_to: 1`, each of which is off by itself: Loki leaves its HTTP client alone when `At == 0`
/// (`ClientWithRegisterer`), as it does by default, and `hedgedhttp` sends no more than `up_to` requests. Without a value `at`
/// would be the default, 0, and `up_to` 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LokiClient {
    /// Hedges per second of a process at most, from 1; `None` is Loki's default, 5.
    pub max_per_second: Option<u32>,
}

impl Place for LokiClient {
    fn is_same(&self, _other: &Self) -> bool {
        true
    }
}

pub(super) fn render(parts: &[Part<LokiClient>]) -> Result<String, RenderError> {
    let hedging = match told_one(parts, check)? {
        None => "    at: 0s\n    up_to: 1\n".to_owned(),
        Some((part, hedge)) => format!(
            "    at: {}ms\n    up_to: {}\n    max_per_second: {}\n",
            hedge.delay_ms,
            hedge.hedges + 1,
            part.place.max_per_second.unwrap_or(MAX_PER_SECOND),
        ),
    };
    Ok(format!("{NOTE}storage_config:\n  hedging:\n{hedging}"))
}

fn check(part: &Part<LokiClient>) -> Result<(), RenderError> {
    match part.place.max_per_second {
        Some(0) => Err(part.cannot("maxPerSecond is 0, with which each hedge fails: give at least 1")),
        _ => Ok(()),
    }
}
