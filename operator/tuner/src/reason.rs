//! The bounded names that appear in status, events, metrics, documents and `plan`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Declares an enum whose variants are also its names as people and machines see them.
macro_rules! names {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$variant_meta])* $variant),+ }

        impl $name {
            /// Every name, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name as it is written everywhere.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant)),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

names! {
    /// Why a target is hedged as it is, or not at all. The order of the off-reasons is their precedence.
    Reason {
        /// A person stopped hedging: the `hedgerow-off` ConfigMap, the annotation, or `mode: Disabled`.
        Stopped,
        /// A saturation signal is above its line, or its alert fires.
        Saturated,
        /// A saturation signal has been unknown for longer than `maxUnknown`.
        SaturationUnknown,
        /// Latency has been unknown for longer than `maxStaleness`, or is proved longer than the delay.
        LatencyUnknown,
        /// There has been no usable reading yet.
        WarmingUp,
        /// The delay that the percentile asks for is above `delay.max`: the service is slow as a whole.
        AboveMax,
        /// The delay that the percentile asks for leaves a hedge no time to answer before the deadline.
        NoTimeToHedge,
        /// Hedges do not win.
        NoBenefit,
        /// Nothing keeps hedging off any more; the cooldown has not run out, or a reading is missing.
        CoolingDown,
        /// Latency is unknown; the last good delay is held.
        Held,
        /// Hedging is coming back at a part of its budget.
        Ramping,
        /// Hedging with a delay tuned to the latency.
        Tuned,
        /// `mode: Observe`: decided and reported, while clients are told off.
        Observing,
        /// The policy is not valid.
        Invalid,
        /// The source does not exist, or this namespace may not name it.
        SourceNotAvailable,
    }
}

names! {
    /// Why a reading is not a number.
    UnknownReason {
        /// No series has this metric name.
        MetricNotFound,
        /// The metric exists; no series has the labels asked for.
        SelectorMatchesNothing,
        /// The series exist and nothing was counted.
        NoTraffic,
        /// Fewer samples than `minSamples`, or a narrower window contradicts a wider one.
        TooFewSamples,
        /// The quantile lies in the +Inf bucket: only a lower bound is known.
        AboveTopBucket,
        /// The metric is not a histogram that can be read.
        NotAHistogram,
        /// Cumulative bucket counts fall.
        NonMonotonic,
        /// The series have different bucket bounds, and too few in common.
        MixedBuckets,
        /// The bucket bounds do not fit the values.
        BucketsUnsuitable,
        /// The values cannot be in the unit that was declared.
        ImplausibleUnit,
        /// A counter falls and rises as several processes answer one scrape.
        CounterUnstable,
        /// A native histogram that the server does not scrape natively.
        NativeNotScraped,
        /// Hedges are counted and no cancelled attempt was ever seen.
        CensoringUnseen,
        /// The source has no alerting rule of that name.
        AlertNotFound,
        /// The newest sample is too old.
        Stale,
        /// NaN, or a value that does not parse.
        NotANumber,
        /// A value that this quantity cannot have.
        OutOfRange,
        /// More series than one where one was asked for.
        AmbiguousResult,
        /// The source says that its answer is incomplete.
        PartialResponse,
        /// The source refuses the query.
        QueryInvalid,
        /// The source cannot run queries.
        BackendCannotQuery,
        /// The source refuses our credentials.
        Unauthorized,
        /// The answer is not one that the API promises.
        BadResponse,
        /// The answer is larger than the cap.
        ResponseTooLarge,
        /// The source asks for fewer requests.
        Throttled,
        /// The source cannot be reached, or fails.
        Unavailable,
        /// The source did not answer in time.
        Timeout,
    }
}

names! {
    /// What makes hedging pay less than it could.
    DiagnosisReason {
        /// The replicas are slow at the same time, for one reason.
        SlowTogether,
        /// Slowness belongs to the request: any replica takes as long.
        RequestBound,
        /// Hedges do not win.
        NoBenefit,
        /// The clients' counters and the latency metric do not speak of the same calls.
        EstimateDisagrees,
        /// The common case is slow.
        TooSlow,
    }
}

names! {
    /// How a share of missed deadlines is known.
    Basis {
        /// Counted.
        Measured,
        /// Computed from what was counted as hedged, with the share that was hedged as counted: of independent attempts.
        Inferred,
        /// Computed for the delay and budget asked for: of independent attempts.
        Predicted,
    }
}

names! {
    /// What kept the applied delay from the one that the percentile asks for.
    LimitedBy {
        /// `delay.min`.
        Min,
        /// A delay falls by at most 20 % per 30 s of new samples.
        FallRate,
        /// Buckets too wide to place a delay within one: the delay is a bucket's edge.
        LowResolution,
        /// The hedge share at the applied delay is still within its band.
        HoldBand,
        /// The delay is placed under a slow mode of a few per cent.
        Plateau,
        /// A ceiling of the source.
        Source,
    }
}
