//! Decisions, as a test wants them.

use std::time::Duration;

use hedgerow_config::{Limits, Part};
use hedgerow_tuner::{Hedging, Orders, Reason};

/// Hedge after `delay_ms`.
pub(crate) const fn hedge_after(delay_ms: f64) -> Orders {
    Orders {
        hedging: Some(Hedging {
            delay_ms,
            min_remaining_ms: 0.0,
            percent: 10.0,
            min_per_second: 0.0,
        }),
        reason: Reason::Tuned,
    }
}

/// Do not hedge.
pub(crate) const fn off() -> Orders {
    Orders {
        hedging: None,
        reason: Reason::Saturated,
    }
}

/// `orders` for `place`, with a deadline of ten seconds and two attempts at most.
pub(crate) fn part_of<P>(orders: Orders, place: P) -> Part<P> {
    part_within(Duration::from_secs(10), orders, place)
}

/// `orders` for `place`, with another deadline.
pub(crate) fn part_within<P>(deadline: Duration, orders: Orders, place: P) -> Part<P> {
    Part {
        target: "kb-search".to_owned(),
        orders,
        limits: Limits {
            deadline: Some(deadline),
            max_attempts: 2,
            max_concurrent: 100,
        },
        place,
    }
}
