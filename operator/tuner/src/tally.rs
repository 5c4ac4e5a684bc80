//! What clients counted, as far as it can be true.

use std::time::Duration;

use crate::{Counts, Timestamp, WindowCounts};

/// What clients counted over one window: finite, not negative, and no more hedges won than were sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Tally {
    /// The window.
    pub(crate) window: Duration,
    /// When it ends.
    pub(crate) at: Timestamp,
    /// Calls made.
    pub(crate) calls: f64,
    /// Hedges sent.
    pub(crate) hedges: f64,
    /// Hedges kept back.
    pub(crate) blocked: Option<f64>,
    /// Hedges that answered first.
    pub(crate) wins: Option<f64>,
}

impl Tally {
    fn of(counts: &WindowCounts, at: Timestamp) -> Option<Self> {
        let number = |number: f64| (number.is_finite() && number >= 0.0).then_some(number);
        let hedges = number(counts.hedges)?;
        Some(Self {
            window: counts.window,
            at,
            calls: number(counts.calls)?,
            hedges,
            blocked: counts.blocked.and_then(number),
            wins: counts.wins.and_then(number).map(|wins| wins.min(hedges)),
        })
    }

    /// As it is told.
    pub(crate) const fn told(&self) -> WindowCounts {
        let &Self {
            window,
            calls,
            hedges,
            blocked,
            wins,
            ..
        } = self;
        WindowCounts {
            window,
            calls,
            hedges,
            blocked,
            wins,
        }
    }

    /// When the window begins.
    pub(crate) fn from(&self) -> Timestamp {
        self.at.minus(self.window)
    }

    /// How far its end is from `at`.
    pub(crate) fn apart(&self, at: Timestamp) -> Duration {
        at.since(self.at).max(self.at.since(at))
    }

    /// Hedges whose time had come, sent or not; `None` when those kept back are not known.
    pub(crate) fn due(&self) -> Option<f64> {
        self.blocked.map(|blocked| self.hedges + blocked)
    }

    /// The measured `a`: the share of the calls past the delay that were hedged. Where those kept back are not counted, of
    /// the share of calls that the latency metric says `passed` it. `None` when no call did.
    pub(crate) fn hedged_share(&self, passed: Option<f64>) -> Option<f64> {
        let due = self.due().or_else(|| Some(passed? * self.calls))?;
        (due > 0.0).then(|| (self.hedges / due).min(1.0))
    }

    /// The largest such share that is likely, where those kept back are counted: a smaller one makes the delay shorter (the
    /// upper end of Wilson's interval at two standard deviations).
    pub(crate) fn hedged_at_most(&self) -> Option<f64> {
        let due = self.due().filter(|due| *due > 0.0 && due.is_finite())?;
        let spread = (self.hedges * (due - self.hedges) / due + 1.0).sqrt();
        Some(((self.hedges + 2.0 + 2.0 * spread) / (due + 4.0)).min(1.0))
    }
}

/// The windows of a reading that are sane and no mere moment, narrowest first; none when it is older than `oldest` at `now`.
pub(crate) fn tallies(counts: Option<&Counts>, oldest: Duration, now: Timestamp) -> Vec<Tally> {
    let Some(counts) = counts else { return Vec::new() };
    let at = counts.at.min(now);
    let windows = counts.windows.as_deref().unwrap_or_default();
    if now.since(at) > oldest {
        return Vec::new();
    }
    let mut tallies: Vec<_> = windows
        .iter()
        .filter(|window| !window.window.is_zero())
        .filter_map(|window| Tally::of(window, at))
        .collect();
    tallies.sort_by_key(|tally| tally.window);
    tallies
}

#[cfg(test)]
mod tests {
    use super::tallies;
    use crate::{Counts, Timestamp, WindowCounts};
    use std::time::Duration;

    fn read(hedges: f64, blocked: Option<f64>, wins: Option<f64>) -> Counts {
        Counts {
            at: Timestamp::from_millis(1_000_000),
            windows: Ok(vec![WindowCounts {
                window: Duration::from_secs(600),
                calls: 6000.0,
                hedges,
                blocked,
                wins,
            }]),
        }
    }

    fn tally(counts: &Counts) -> Option<super::Tally> {
        tallies(
            Some(counts),
            Duration::from_secs(300),
            Timestamp::from_millis(1_060_000),
        )
        .first()
        .copied()
    }

    #[test]
    fn the_share_hedged_is_of_the_calls_whose_hedge_was_due() {
        let near =
            |share: Option<f64>, expected: f64| share.is_some_and(|share| (share - expected).abs() < 1e-12);
        // 240 of 300: 0.8, whatever the metric says. Without those kept back: 240 of 5 % of 6000.
        let counted = tally(&read(240.0, Some(60.0), None)).unwrap();
        assert!(near(counted.hedged_share(Some(0.9)), 0.8));
        let sent_only = tally(&read(240.0, None, None)).unwrap();
        assert!(near(sent_only.hedged_share(Some(0.05)), 0.8));
        assert!(near(sent_only.hedged_share(Some(0.01)), 1.0));
        assert_eq!(
            (sent_only.hedged_share(None), sent_only.hedged_share(Some(0.0))),
            (None, None)
        );
    }

    #[test]
    fn what_cannot_be_is_not_counted() {
        assert_eq!(tally(&read(f64::NAN, None, None)), None);
        assert_eq!(tally(&read(-1.0, None, None)), None);
        let odd = tally(&read(10.0, Some(f64::INFINITY), Some(11.0))).unwrap();
        assert_eq!((odd.blocked, odd.wins), (None, Some(10.0)));
    }

    #[test]
    fn a_reading_is_used_while_it_is_fresh() {
        let counts = read(10.0, None, None);
        let at = |seconds: i64| {
            tallies(
                Some(&counts),
                Duration::from_secs(300),
                Timestamp::from_millis(1_000_000 + seconds * 1000),
            )
            .len()
        };
        assert_eq!((at(-60), at(300), at(301)), (1, 1, 0));
    }
}
