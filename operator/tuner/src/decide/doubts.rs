//! Why a decision deserves little confidence.

use super::Start;
use crate::{CountsView, Guidance};

/// Why what clients count is no help: said once it has been unknown for longer than a delay is held, or where there is only
/// one look.
pub(super) fn counters_lost(counts: Option<&CountsView>, start: Start) -> Option<String> {
    let CountsView {
        unknown, guidance, ..
    } = counts?;
    let why = unknown.as_ref()?;
    let is_lost = *guidance == Guidance::Unknown || start == Start::Settled;
    is_lost.then(|| format!("what clients count of their hedges is unknown, {why}"))
}

pub(super) fn joined(doubts: Option<String>, more: Option<String>) -> Option<String> {
    let doubts: Vec<_> = doubts.into_iter().chain(more).collect();
    (!doubts.is_empty()).then(|| doubts.join("; "))
}
