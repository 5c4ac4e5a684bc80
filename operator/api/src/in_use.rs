//! The values that hold where a policy leaves them unsaid. They stand here and not in the schema because each follows from
//! another field; status shows them.
//!
//! A method fails only for a text that is no number or duration, which [`validate`](crate::validate) refuses.

use std::time::Duration;

use crate::text::{NotADecimal, NotADuration};
use crate::{Delay, HedgePolicySpec, Latency, Signal, Target, Unit, limits};

/// Over which window a signal's rate is taken where none is said.
const SIGNAL_WINDOW_UNSAID: Duration = Duration::from_secs(120);

impl HedgePolicySpec {
    /// How long a last good delay is held while latency is unknown: `maxStaleness`, and at least two intervals, since a
    /// delay that is held for less would lapse between two readings.
    ///
    /// # Errors
    /// When a duration is not one.
    pub fn max_staleness_in_use(&self) -> Result<Duration, NotADuration> {
        Ok(self
            .max_staleness
            .parse()?
            .max(self.interval.parse()?.saturating_mul(2)))
    }
}

impl Target {
    /// The delay above which hedging goes off: `delay.max`; unsaid, the deadline, or 10 s without one.
    ///
    /// # Errors
    /// When a duration is not one.
    pub fn delay_max_in_use(&self) -> Result<Duration, NotADuration> {
        match self.delay.max.as_ref().or(self.deadline.as_ref()) {
            Some(max) => max.parse(),
            None => Ok(limits::DELAY_MAX_UNSAID),
        }
    }

    /// The samples that a usable window holds: `latency.minSamples`; unsaid, what the percentile needs.
    ///
    /// # Errors
    /// When the percentile is no decimal.
    pub fn min_samples_in_use(&self) -> Result<u32, NotADecimal> {
        let needed = self.delay.samples_needed()?;
        Ok(self
            .latency
            .min_samples
            .map_or(needed, |said| u32::try_from(said).unwrap_or(needed)))
    }

    /// Whether `latency.minSamples` is smaller than the percentile needs, so that its delay deserves little confidence.
    ///
    /// # Errors
    /// When the percentile is no decimal.
    pub fn has_few_samples(&self) -> Result<bool, NotADecimal> {
        Ok(self.min_samples_in_use()? < self.delay.samples_needed()?)
    }
}

impl Delay {
    /// The quantile to hedge at: `percentile` as a share, in `[0.5, 0.9999]`.
    ///
    /// # Errors
    /// When the percentile is no decimal.
    pub fn quantile(&self) -> Result<f64, NotADecimal> {
        Ok(self.percentile.parse()? / 100.0)
    }

    /// The samples that put 20 into the tail: 20 / (1 - q), rounded up. 400 for the 95th percentile.
    ///
    /// # Errors
    /// When the percentile is no decimal.
    pub fn samples_needed(&self) -> Result<u32, NotADecimal> {
        // In millionths of a per cent: in floating point 20 / (1 - 0.9) is above 200 and would be rounded to 201.
        const WHOLE: u64 = 100_000_000;
        let tail = WHOLE.saturating_sub(self.percentile.millionths()?).max(1);
        Ok(u32::try_from((20 * WHOLE).div_ceil(tail)).unwrap_or(u32::MAX))
    }
}

impl Latency {
    /// The unit of the histogram: its preset's; else `unit`; unsaid, what the metric's name ends in; `None` when it ends in
    /// no unit.
    pub fn unit_in_use(&self) -> Option<Unit> {
        let known = self.known().map(|preset| preset.unit);
        let named = || unit_by_name(self.metric.as_ref()?);
        known.or(self.unit).or_else(named)
    }
}

impl Signal {
    /// Over which window the rate is taken: `window`; unsaid, 2 minutes.
    ///
    /// # Errors
    /// When the duration is not one.
    pub fn window_in_use(&self) -> Result<Duration, NotADuration> {
        self.window
            .as_ref()
            .map_or(Ok(SIGNAL_WINDOW_UNSAID), |window| window.parse())
    }

    /// The line under which hedging may come back: `onBelow`; unsaid, 0.7 times `offAbove`; `None` for an alert.
    ///
    /// # Errors
    /// When a line is no decimal.
    pub fn on_below_in_use(&self) -> Result<Option<f64>, NotADecimal> {
        match (&self.on_below, &self.off_above) {
            (Some(on_below), _) => on_below.parse().map(Some),
            (None, Some(off_above)) => Ok(Some(0.7 * off_above.parse()?)),
            (None, None) => Ok(None),
        }
    }
}

/// The unit that a metric's name ends in.
fn unit_by_name(metric: &str) -> Option<Unit> {
    let (_, suffix) = metric.rsplit_once('_')?;
    match suffix {
        "seconds" => Some(Unit::Seconds),
        "milliseconds" | "ms" => Some(Unit::Milliseconds),
        "microseconds" | "us" | "usec" => Some(Unit::Microseconds),
        _ => None,
    }
}
