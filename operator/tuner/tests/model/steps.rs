//! What one step of time can bring: every kind of reading.

use std::time::Duration;

use hedgerow_tuner::{
    Alert, Delay, Histogram, Latency, Line, Readings, Reason, Rules, Signal, SignalRules, SignalValue, Stop,
    SwitchRules, Timestamp, Unknown, UnknownReason, WindowReading, Windows,
};

use crate::common;

/// Between two decisions.
pub(crate) const STEP: Duration = Duration::from_secs(60);

/// Cooldown, propagation, ramp and patience are one step each, so that few steps go through all of them.
pub(crate) fn rules() -> Rules {
    let value = SignalRules {
        name: "queue".to_owned(),
        line: Line::Value {
            off_above: 50.0,
            on_below: 35.0,
            at_least: None,
        },
    };
    let alert = SignalRules {
        name: "incident".to_owned(),
        line: Line::Alert,
    };
    let common = common::rules();
    Rules {
        delay: Delay {
            max: Duration::from_secs(1),
            ..common.delay
        },
        windows: Windows {
            window: 10 * STEP,
            max_window: 10 * STEP,
            ..common.windows
        },
        switch: SwitchRules {
            signals: vec![value, alert],
            max_unknown: STEP,
            cooldown: STEP,
            ramp_step: STEP,
        },
        max_staleness: 2 * STEP,
        propagation: STEP,
        ..common
    }
}

/// What one signal says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Level {
    /// Back under its line.
    Good,
    /// Under its line, and not back.
    Between,
    /// Above it.
    Above,
    /// Nothing.
    Unknown,
}

/// What latency says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Seen {
    /// A delay under every line.
    Fine,
    /// One above `delay.max`.
    Slow,
    /// That the delay in force is too short.
    Bound,
    /// That nothing is called.
    Idle,
    /// Nothing.
    Unknown,
}

/// What one step brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Step {
    /// A person stops it.
    pub(crate) stopped: bool,
    /// The queue.
    pub(crate) queue: Level,
    /// The alert, which is never between.
    pub(crate) alert: Level,
    /// Latency.
    pub(crate) latency: Seen,
}

/// Nothing is wrong.
pub(crate) const GOOD: Step = Step {
    stopped: false,
    queue: Level::Good,
    alert: Level::Good,
    latency: Seen::Fine,
};

/// Every step that there is: each level of each signal, and two that are not good at once, with every kind of latency; and a stop.
pub(crate) fn all() -> Vec<Step> {
    use Level::{Above, Between, Good, Unknown};
    const SEEN: [Seen; 5] = [Seen::Fine, Seen::Slow, Seen::Bound, Seen::Idle, Seen::Unknown];
    let signals = [
        (Good, Good),
        (Between, Good),
        (Above, Good),
        (Unknown, Good),
        (Good, Above),
        (Good, Unknown),
        (Unknown, Above),
        (Between, Unknown),
    ];
    let read = signals.into_iter().flat_map(|(queue, alert)| {
        SEEN.map(|latency| Step {
            stopped: false,
            queue,
            alert,
            latency,
        })
    });
    let stopped = Step {
        stopped: true,
        ..GOOD
    };
    read.chain([stopped]).collect()
}

impl Step {
    /// What each signal says.
    pub(crate) fn levels(self) -> [Level; 2] {
        [self.queue, self.alert]
    }

    /// It as readings taken at `now`.
    pub(crate) fn readings(self, now: Timestamp) -> Readings {
        let signal = |level, value| {
            Some(Signal {
                at: now,
                scrape_interval: Some(STEP / 4),
                value: match level {
                    Level::Unknown => Err(unknown(UnknownReason::Timeout)),
                    _ => Ok(value),
                },
            })
        };
        let queue = match self.queue {
            Level::Above => 51.0,
            Level::Between => 36.0,
            Level::Good | Level::Unknown => 34.0,
        };
        let alert = match self.alert {
            Level::Above => Alert::Firing,
            _ => Alert::Inactive,
        };
        Readings {
            stop: self.stopped.then(|| Stop {
                reason: Reason::Stopped,
                message: "for a test".to_owned(),
            }),
            latency: Some(Latency {
                at: now,
                windows: self.latency.windows(),
            }),
            counts: None,
            signals: vec![
                signal(self.queue, SignalValue::Series(vec![queue])),
                signal(self.alert, SignalValue::Alert(alert)),
            ],
        }
    }
}

impl Seen {
    fn windows(self) -> Result<Vec<WindowReading>, Unknown> {
        let buckets: &[(f64, f64)] = match self {
            // The p95 is 0.5 s, 2 s, and at least 0.9 s.
            Self::Fine => &[(0.1, 500.0), (0.5, 950.0), (1.0, 980.0), (4.0, 1000.0)],
            Self::Slow => &[(0.4, 500.0), (2.0, 950.0), (4.0, 980.0), (8.0, 1000.0)],
            Self::Bound => &[(0.1, 500.0), (0.5, 800.0), (0.9, 900.0)],
            Self::Idle => return Err(unknown(UnknownReason::NoTraffic)),
            Self::Unknown => return Err(unknown(UnknownReason::Unavailable)),
        };
        let buckets = buckets.iter().copied().chain([(f64::INFINITY, 1000.0)]);
        Ok(vec![WindowReading {
            window: 10 * STEP,
            distribution: Histogram::from_cumulative(buckets, None, None),
            cancelled: None,
            timeouts: None,
            caveat: None,
        }])
    }
}

fn unknown(reason: UnknownReason) -> Unknown {
    Unknown::new(reason, "for a test")
}
