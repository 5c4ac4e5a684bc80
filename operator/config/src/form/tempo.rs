//! Grafana Tempo, which hedges reads from object storage.
//!
//! Source: `tempodb/backend/{s3,gcs,azure}` of [Tempo](https://github.com/grafana/tempo), the configs and where they are used.

use super::place::Place;
use super::told::told_one;
use super::{Part, RenderError};

const NOTE: &str = "\
# Hedged reads of Grafana Tempo from object storage, from Hedgerow.
# What to do: merge these keys into storage.trace.s3, .gcs or .azure of Tempo's config, whichever backend it has, and
# restart Tempo; it reads them only at start. Tempo has no budget for hedges.
";

/// A Tempo that reads from object storage.
///
/// On is `hedge_requests_at` in milliseconds and `hedge_requests_up_to`, which counts the first request. Off is
/// `hedge_requests_at: 0s` and `hedge_requests_up_to: 1`, each of which is off by itself: each backend hedges only when
/// `HedgeRequestsAt != 0` (`createCore` in `s3/s3.go`, likewise in `gcs` and `azure`), and `hedgedhttp` sends no more than
/// `up_to` requests. No backend has another default for `hedge_requests_at` than 0, so leaving it out is off too; it is said
/// all the same, for one who merges keys does not remove any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TempoClient {
    /// Always `None`: Tempo has no such setting, and a limit that does not hold is refused.
    pub max_per_second: Option<u32>,
}

impl Place for TempoClient {
    fn is_same(&self, _other: &Self) -> bool {
        true
    }
}

pub(super) fn render(parts: &[Part<TempoClient>]) -> Result<String, RenderError> {
    let (at, up_to) = match told_one(parts, check)? {
        None => ("0s".to_owned(), 1),
        Some((_, hedge)) => (format!("{}ms", hedge.delay_ms), hedge.hedges + 1),
    };
    Ok(format!(
        "{NOTE}hedge_requests_at: {at}\nhedge_requests_up_to: {up_to}\n"
    ))
}

fn check(part: &Part<TempoClient>) -> Result<(), RenderError> {
    match part.place.max_per_second {
        Some(_) => Err(part.cannot("Tempo has no limit of hedges per second: leave maxPerSecond out")),
        None => Ok(()),
    }
}
