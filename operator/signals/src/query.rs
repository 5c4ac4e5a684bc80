//! What is to be read, as structured fields. Nothing here is PromQL.

use std::collections::BTreeMap;
use std::time::Duration;

/// The two kinds of reading. They are asked for apart: how long the one takes never delays the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReadingKind {
    /// How long calls take: heavy queries, and nothing that hurts when it is a minute late.
    Latency,
    /// The saturation signals: light queries, and the switch waits for them.
    Saturation,
}

impl ReadingKind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Latency, Self::Saturation];

    /// Its name as a metric label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Saturation => "saturation",
        }
    }
}

/// What is to be read for one target.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TargetQuery {
    /// A label pair enforced on every query of every kind (`namespace="helpdesk"`), set by the source's administrator.
    pub enforced: Option<(String, String)>,
    /// The latency to read now, if it is due.
    pub latency: Option<LatencyQuery>,
    /// The counters that clients export, to be read now if they are due.
    pub counts: Option<CountsQuery>,
    /// The saturation signals to read now, if they are due.
    pub signals: Vec<SignalQuery>,
}

impl TargetQuery {
    /// Whether it asks for a reading of that kind.
    pub const fn asks(&self, kind: ReadingKind) -> bool {
        match kind {
            ReadingKind::Latency => self.latency.is_some(),
            ReadingKind::Saturation => !self.signals.is_empty(),
        }
    }

    /// This, without readings of the other kind.
    pub fn only(&self, kind: ReadingKind) -> Self {
        let latency = self.latency.clone();
        let counts = self.counts.clone();
        let signals = self.signals.clone();
        Self {
            enforced: self.enforced.clone(),
            latency: latency.filter(|_| kind == ReadingKind::Latency),
            counts: counts.filter(|_| kind == ReadingKind::Latency),
            signals: if kind == ReadingKind::Saturation {
                signals
            } else {
                Vec::new()
            },
        }
    }
}

/// A latency histogram to read.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyQuery {
    /// The histogram's name, without `_bucket`.
    pub metric: String,
    /// Which of its series.
    pub selector: Selector,
    /// The unit of its bounds.
    pub unit: Unit,
    /// The windows, narrowest first.
    pub windows: Vec<Duration>,
    /// How attempts that ended otherwise than with an answer are told apart.
    pub outcomes: Option<Outcomes>,
    /// A counter of calls that timed out and never entered the histogram.
    pub timeouts: Option<Counter>,
}

/// How attempts that ended otherwise than with an answer are told apart, by a label of the histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcomes {
    /// The label.
    pub label: String,
    /// Its values for attempts that were cut short: how long they had run, and no more, is known.
    pub cancelled: Vec<String>,
    /// Its values for fast failures, which would mislead: they do not count.
    pub ignored: Vec<String>,
}

/// The counters that clients export.
#[derive(Clone, Debug, PartialEq)]
pub struct CountsQuery {
    /// Calls made.
    pub calls: Counter,
    /// Hedges sent.
    pub hedges: Counter,
    /// Hedges that a budget, a permit or a deadline kept back.
    pub blocked: Option<Counter>,
    /// Hedges that answered first.
    pub wins: Option<Counter>,
    /// The windows, narrowest first.
    pub windows: Vec<Duration>,
}

/// The unit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Microseconds.
    Microseconds,
}

/// A saturation signal to read.
#[derive(Clone, Debug, PartialEq)]
pub struct SignalQuery {
    /// What it is.
    pub kind: SignalKind,
    /// When an absent series is a zero.
    pub zero_when_absent: Option<Witness>,
}

/// The kinds of saturation signal.
#[derive(Clone, Debug, PartialEq)]
pub enum SignalKind {
    /// A gauge, one value per series.
    Gauge {
        /// Its name.
        metric: String,
        /// Which of its series.
        selector: Selector,
    },
    /// A rate per second, one value per series; or, with `per`, one ratio of two sums.
    Rate {
        /// The counter.
        of: Counter,
        /// Over which window.
        window: Duration,
        /// The counter to divide by.
        per: Option<Counter>,
    },
    /// An alert of the source's rules.
    Alert {
        /// Its name.
        name: String,
    },
}

impl SignalKind {
    /// The name of the metric or alert.
    pub fn name(&self) -> &str {
        match self {
            Self::Gauge { metric, .. } => metric,
            Self::Rate { of, .. } => &of.metric,
            Self::Alert { name } => name,
        }
    }
}

/// A counter: absent without a witness is unknown.
#[derive(Clone, Debug, PartialEq)]
pub struct Counter {
    /// Its name.
    pub metric: String,
    /// Which of its series.
    pub selector: Selector,
    /// When an absent series is a zero.
    pub zero_when_absent: Option<Witness>,
}

/// A series whose presence, fresh and above 0 in every series, proves that absence elsewhere means zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Witness {
    /// Its name (`up`).
    pub metric: String,
    /// Which of its series; at least one label.
    pub match_labels: BTreeMap<String, String>,
}

/// Which series of a metric.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Selector {
    /// Labels by equality.
    pub match_labels: BTreeMap<String, String>,
    /// Further requirements.
    pub requirements: Vec<Requirement>,
}

/// One requirement on a label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirement {
    /// The label.
    pub key: String,
    /// How its value is compared.
    pub operator: Operator,
    /// With what; empty with `Exists`.
    pub values: Vec<String>,
}

/// How a label's value is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    /// One of the values.
    In,
    /// None of the values.
    NotIn,
    /// Any value that is not empty.
    Exists,
}
