//! What a policy asks for, resolved: defaults filled in, ceilings applied, units converted.

use std::time::Duration;

/// Whether decisions reach clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Clients are told what was decided.
    #[default]
    Enforce,
    /// Decided and reported; clients are told off.
    Observe,
    /// Forced off, reason `Stopped`.
    Disabled,
}

/// What one observation of the latency histogram is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measures {
    /// A call as its caller sees it, hedges included.
    #[default]
    LogicalCall,
    /// One physical request, primary or hedge.
    Attempt {
        /// Whether an attempt that lost runs to its end, so that none is cut short.
        losers_run_on: bool,
    },
    /// One request as the server sees it: without the network.
    Server,
}

/// What is done when hedges do not win.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NoBenefit {
    /// It is said.
    #[default]
    Report,
    /// Hedging goes off, and is probed at times.
    Disable,
}

/// What is done with a slow mode of a few per cent, in which the percentile lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plateau {
    /// The delay is placed under it.
    #[default]
    Follow,
    /// The delay stays at the percentile.
    Ignore,
}

/// The rules of one target.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// Whether decisions reach clients.
    pub mode: Mode,
    /// The metric read and its unit, as one string (`shard_read_duration_seconds/Seconds`). An accepted reading is remembered under it,
    /// so that a changed metric or unit is checked for plausibility again.
    pub measure: String,
    /// What one observation of the histogram is.
    pub measures: Measures,
    /// Whether clients export counters of their hedges, which close the loop.
    pub counted: bool,
    /// What is done when hedges do not win.
    pub no_benefit: NoBenefit,
    /// What one call may take in all.
    pub deadline: Option<Duration>,
    /// Sub-requests that one user query waits for; only reported on.
    pub fan_out: Option<u32>,
    /// How the delay is placed.
    pub delay: Delay,
    /// What hedging may cost.
    pub budget: Budget,
    /// From how much data the delay is computed.
    pub windows: Windows,
    /// When hedging goes off, and how it comes back.
    pub switch: SwitchRules,
    /// How long a last good delay is held while latency is unknown.
    pub max_staleness: Duration,
    /// How long a document takes to reach clients.
    pub propagation: Duration,
}

/// How the delay is placed.
#[derive(Clone, Debug, PartialEq)]
pub struct Delay {
    /// The quantile `q` of the attempt's latency to hedge at, in `[0.5, 0.9999]`.
    pub quantile: f64,
    /// Never hedge earlier than this.
    pub min: Duration,
    /// Hedging a service whose quantile is above this is off.
    pub max: Duration,
    /// Added to the quantile: the network between client and server.
    pub add: Duration,
    /// What is done with a slow mode in which the quantile lies.
    pub plateau: Plateau,
}

/// What hedging may cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    /// Hedges per 100 calls, in `(0, 100]`: the smaller of the policy's and the source's cap.
    pub percent: f64,
    /// Whether `percent` is a source's ceiling rather than the policy's own.
    pub limited_by_source: bool,
    /// Attempts per call, the primary included, in `2..=5`.
    pub max_attempts: u8,
    /// Hedges in flight per client process.
    pub max_concurrent: u32,
    /// Hedges per second that a client process may always send, at full budget.
    pub min_per_second: f64,
}

/// From how much data the delay is computed.
#[derive(Clone, Debug, PartialEq)]
pub struct Windows {
    /// The rolling window.
    pub window: Duration,
    /// A quiet service's window doubles up to this.
    pub max_window: Duration,
    /// Samples that a usable window holds.
    pub min_samples: u32,
    /// Whether `min_samples` is smaller than the percentile needs (20 / (1 - q)).
    pub low_confidence: bool,
}

/// When hedging goes off, and how it comes back.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchRules {
    /// The saturation signals, by name; any one above its line turns hedging off.
    pub signals: Vec<SignalRules>,
    /// How long a signal may be unknown before hedging goes off.
    pub max_unknown: Duration,
    /// How long hedging stays off after the last bad value.
    pub cooldown: Duration,
    /// The budget comes back at 25, 50, 100 %, one step after each of these.
    pub ramp_step: Duration,
}

/// One saturation signal.
#[derive(Clone, Debug, PartialEq)]
pub struct SignalRules {
    /// Its name in the policy.
    pub name: String,
    /// What turns hedging off.
    pub line: Line,
}

/// What turns hedging off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Line {
    /// A value above a line.
    Value {
        /// Off above this.
        off_above: f64,
        /// Back only below this.
        on_below: f64,
        /// The value is the `at_least`-th largest series; unset: 2, or 10 % of the series if more, 1 when there is one.
        at_least: Option<u32>,
    },
    /// An alert that fires.
    Alert,
}

impl Rules {
    /// What the metric does not see of the time that a client waits, in seconds: the network, where a server measures.
    pub(crate) fn unseen(&self) -> f64 {
        match self.measures {
            Measures::Server => self.delay.add.as_secs_f64(),
            Measures::LogicalCall | Measures::Attempt { .. } => 0.0,
        }
    }

    /// What makes these rules impossible to decide by, if anything. A policy that was accepted has no such fault.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let positive = |number: f64| number.is_finite() && number > 0.0;
        let lines_hold = self.switch.signals.iter().all(|signal| match signal.line {
            Line::Value {
                off_above, on_below, ..
            } => off_above.is_finite() && on_below.is_finite(),
            Line::Alert => true,
        });
        if !(self.delay.quantile > 0.0 && self.delay.quantile < 1.0) {
            Some("the percentile is not between 0 and 100")
        } else if self.delay.min > self.delay.max {
            Some("delay.min is above delay.max")
        } else if self.delay.max.is_zero() {
            Some("delay.max is zero")
        } else if !positive(self.budget.percent) || self.budget.percent > 100.0 {
            Some("budget.percent is not above 0 and at most 100")
        } else if !(self.budget.min_per_second.is_finite() && self.budget.min_per_second >= 0.0) {
            Some("budget.perClient.minPerSecond is not a number from 0 up")
        } else if !lines_hold {
            Some("a saturation signal's line is not a number")
        } else {
            None
        }
    }
}
