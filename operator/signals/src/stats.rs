//! What a source has done so far, for metrics.

use std::collections::BTreeMap;
use std::time::Duration;

use hedgerow_tuner::{Unknown, UnknownReason};

/// What a source has done since it was made, and how it is now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceStats {
    /// Requests sent.
    pub requests: u64,
    /// Bytes of answers received, headers apart.
    pub bytes: u64,
    /// The time that requests took, all together.
    pub busy: Duration,
    /// Failed requests by reason; a reason that never came up is not in it.
    pub failures: BTreeMap<UnknownReason, u64>,
    /// Groups in answers that nobody asked for; they are dropped.
    pub dropped_groups: u64,
    /// Answers that carried `infos`; they are used.
    pub infos: u64,
    /// How far the server's clock is ahead of ours (negative: behind), in milliseconds; `None` before it was measured.
    pub clock_skew_ms: Option<i64>,
    /// The failure of everything that this source was asked since it last answered anything; `None` while it answers.
    pub failing: Option<Unknown>,
}

impl SourceStats {
    /// The skew above which the two clocks are a condition of the source.
    pub const SKEW_TOLERATED: Duration = Duration::from_secs(30);

    /// Whether the server's clock differs from ours by more than [`Self::SKEW_TOLERATED`].
    pub fn is_skewed(&self) -> bool {
        self.clock_skew_ms
            .is_some_and(|skew| u128::from(skew.unsigned_abs()) > Self::SKEW_TOLERATED.as_millis())
    }
}
