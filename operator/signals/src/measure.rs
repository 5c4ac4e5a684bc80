//! What is measured of a metric, and of which parts that consists.

use std::time::Duration;

/// Over how long scrapes are counted to measure the scrape interval.
pub(crate) const LONG_COUNT: Duration = Duration::from_secs(300);

/// The same for series that are too young for the long one.
pub(crate) const SHORT_COUNT: Duration = Duration::from_secs(60);

/// What is measured.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Measure {
    /// The distribution in a window, from classic buckets and native histograms.
    Histogram {
        /// The window.
        window: Duration,
        /// The label by whose values it is split.
        outcome: Option<String>,
    },
    /// A gauge's largest value lately, per series.
    Gauge {
        /// Over two scrapes.
        over: Duration,
        /// A series without a sample in `over` counts with its last value for this long.
        linger: Duration,
    },
    /// A counter's rate per second, per series.
    Rate {
        /// The window.
        window: Duration,
        /// A series without a sample for this long does not count.
        linger: Duration,
    },
    /// A counter's increase, all series together.
    Increase {
        /// The window.
        window: Duration,
    },
    /// The smallest value and the oldest sample of all series.
    Witness,
    /// Which part of the selection has series at all.
    Presence {
        /// Whether a histogram is looked for: under the names of its buckets and of its native samples.
        histogram: bool,
    },
}

impl Measure {
    /// Whether it is of a counter, which may not exist before its first increment.
    pub(crate) fn counts(&self) -> bool {
        matches!(self, Self::Rate { .. } | Self::Increase { .. })
    }
}

/// One part of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Part {
    /// The increase per bucket bound.
    Buckets,
    /// How many series each bucket bound has.
    Layout,
    /// The increase of `_count`.
    Count,
    /// The increase of `_sum`.
    Sum,
    /// The increase of a native histogram.
    Native,
    /// The value.
    Value,
    /// The time of the newest sample.
    Newest,
    /// The time of the oldest sample.
    Oldest,
    /// Samples in [`LONG_COUNT`].
    ScrapesLong,
    /// Samples in [`SHORT_COUNT`].
    ScrapesShort,
    /// The share of samples that are smaller than the one before, where there are many.
    Unstable,
    /// [`Self::Newest`] of a native histogram.
    NativeNewest,
    /// [`Self::ScrapesLong`] of a native histogram.
    NativeScrapesLong,
    /// [`Self::ScrapesShort`] of a native histogram.
    NativeScrapesShort,
    /// [`Self::Unstable`] of a native histogram.
    NativeUnstable,
    /// How many series match.
    Here,
    /// How many series the metric has.
    Metric,
    /// How many have the value of the label at this place.
    Label(usize),
    /// How many meet the requirement at this place.
    Requirement(usize),
    /// How many series `_count` has.
    CountSeries,
    /// How many series `_bucket` has.
    Classic,
    /// How many series have the name without a suffix.
    Bare,
    /// How many of those hold numbers, not native histograms.
    Numbers,
    /// How many of the series that match are percentiles.
    Percentiles,
    /// How many of those are not 0.
    BusyPercentiles,
}

impl Part {
    /// What tells the same of a native histogram, where that is another part.
    pub(crate) fn of_native(self) -> Self {
        match self {
            Self::Newest => Self::NativeNewest,
            Self::ScrapesLong => Self::NativeScrapesLong,
            Self::ScrapesShort => Self::NativeScrapesShort,
            Self::Unstable => Self::NativeUnstable,
            other => other,
        }
    }

    /// Its name in the answer.
    pub(crate) fn tag(self) -> String {
        match self {
            Self::Buckets => "buckets".into(),
            Self::Layout => "layout".into(),
            Self::Count => "count".into(),
            Self::Sum => "sum".into(),
            Self::Native => "native".into(),
            Self::Value => "value".into(),
            Self::Newest => "newest".into(),
            Self::Oldest => "oldest".into(),
            Self::ScrapesLong => "scrapes_long".into(),
            Self::ScrapesShort => "scrapes_short".into(),
            Self::Unstable => "unstable".into(),
            Self::NativeNewest => "native_newest".into(),
            Self::NativeScrapesLong => "native_scrapes_long".into(),
            Self::NativeScrapesShort => "native_scrapes_short".into(),
            Self::NativeUnstable => "native_unstable".into(),
            Self::Here => "here".into(),
            Self::Metric => "metric".into(),
            Self::Label(place) => format!("label_{place}"),
            Self::Requirement(place) => format!("requirement_{place}"),
            Self::CountSeries => "count_series".into(),
            Self::Bare => "bare".into(),
            Self::Classic => "classic".into(),
            Self::Numbers => "numbers".into(),
            Self::Percentiles => "percentiles".into(),
            Self::BusyPercentiles => "busy_percentiles".into(),
        }
    }
}
