//! Decisions in words, with their numbers.

use crate::latency::Sight;
use crate::saturation::Saturation;
use crate::{Quantile, Readings, Reason, Rules, Timestamp, messages};

/// What a message is made of.
pub(crate) struct Told<'a> {
    pub(crate) rules: &'a Rules,
    pub(crate) readings: &'a Readings,
    pub(crate) saturation: &'a Saturation,
    pub(crate) sight: &'a Sight,
    pub(crate) until: Option<Timestamp>,
    pub(crate) now: Timestamp,
}

impl Told<'_> {
    /// The reason with its numbers: what is so, why, and what it waits for.
    pub(crate) fn message(&self, reason: Reason) -> String {
        match reason {
            Reason::Stopped | Reason::Invalid | Reason::SourceNotAvailable => self.forced(reason).to_owned(),
            Reason::Saturated => self.saturation.told_saturated(),
            Reason::SaturationUnknown => self.saturation.told_unknown(self.now),
            Reason::AboveMax => {
                let max = messages::duration(self.rules.delay.max);
                format!(
                    "{}, delay.max is {max}: the service is slow as a whole",
                    self.latency()
                )
            }
            Reason::NoTimeToHedge => {
                let deadline = messages::duration(self.rules.deadline.unwrap_or_default());
                format!(
                    "{}: a hedge could not answer within the deadline of {deadline}",
                    self.latency()
                )
            }
            Reason::CoolingDown => self.cooling(),
            Reason::Held => format!("the delay is held: {}", self.latency()),
            _ => self.waiting().unwrap_or_else(|| self.latency()),
        }
    }

    /// What turns hedging off whatever is read.
    fn forced(&self, reason: Reason) -> &str {
        let stop = self.readings.stop.as_ref();
        match stop.filter(|stop| stop.reason() == reason) {
            Some(stop) => &stop.message,
            None if reason == Reason::Stopped => "mode: Disabled",
            None => self.rules.fault().unwrap_or_default(),
        }
    }

    /// `p95 512 ms of 12000 calls in 10m`, or why there is no such thing.
    fn latency(&self) -> String {
        match &self.sight.finding {
            Ok(estimate) => {
                let target = &estimate.target;
                let percentile = match target.percentile {
                    Quantile::Estimate { seconds, .. } => messages::milliseconds(seconds),
                    Quantile::AtLeast(bound) => format!("at least {}", messages::milliseconds(bound)),
                };
                let name = messages::percentile(self.rules.delay.quantile);
                let calls = estimate.observed.calls.calls();
                let window = messages::duration(estimate.observed.window);
                let slow = match target.aim.under_slow_mode {
                    true => format!(
                        ", in a slow mode; under it {} pass {}",
                        messages::share(target.aim.share),
                        messages::milliseconds(target.delay)
                    ),
                    false => String::new(),
                };
                format!("{name} {percentile} of {calls:.0} calls in {window}{slow}")
            }
            Err(finding) => finding.why().to_string(),
        }
    }

    /// What keeps hedging off beside the time that a cooldown takes.
    fn waiting(&self) -> Option<String> {
        let mut waiting = Vec::new();
        if self.saturation.is_not_back() {
            waiting.push(self.saturation.told_saturated());
        }
        if !self.saturation.is_known() {
            waiting.push(self.saturation.told_unknown(self.now));
        }
        if self.sight.finding.is_err() {
            waiting.push(self.latency());
        }
        (!waiting.is_empty()).then(|| waiting.join("; "))
    }

    fn cooling(&self) -> String {
        let left = self
            .until
            .map(|until| until.since(self.now))
            .filter(|left| !left.is_zero());
        let left = left.map(|left| format!("back in {}", messages::duration(left)));
        left.into_iter()
            .chain(self.waiting())
            .collect::<Vec<_>>()
            .join("; ")
    }
}
