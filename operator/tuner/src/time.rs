//! Points in time, as values that can be stored and compared.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A point in time: whole milliseconds since the Unix epoch.
///
/// Arithmetic saturates, so that no stored or skewed clock value can overflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The point `millis` milliseconds after the Unix epoch.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// This point, `later` later.
    #[must_use]
    pub fn plus(self, later: Duration) -> Self {
        Self(
            self.0
                .saturating_add(i64::try_from(later.as_millis()).unwrap_or(i64::MAX)),
        )
    }

    /// This point, `earlier` earlier.
    #[must_use]
    pub fn minus(self, earlier: Duration) -> Self {
        Self(
            self.0
                .saturating_sub(i64::try_from(earlier.as_millis()).unwrap_or(i64::MAX)),
        )
    }

    /// How long ago `earlier` was, seen from here. A point in the future counts as now: zero.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}
