//! Decisions in words, with their numbers.

use crate::latency::Sight;
use crate::message::Percentile;
use crate::saturation::Saturation;
use crate::{Message, Readings, Reason, Rules, Timestamp, messages};

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
    pub(crate) fn message(&self, reason: Reason) -> Message {
        let text = match reason {
            Reason::Stopped | Reason::Invalid | Reason::SourceNotAvailable => self.forced(reason).to_owned(),
            Reason::Saturated => self.saturated(),
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
            _ => match self.waiting() {
                Some(waiting) => waiting,
                None => return self.latency(),
            },
        };
        text.into()
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

    /// What the latency reading says, or why it says nothing.
    fn latency(&self) -> Message {
        let estimate = match &self.sight.finding {
            Ok(estimate) => estimate,
            Err(finding) => return finding.why().to_string().into(),
        };
        let (observed, target) = (&estimate.observed, &estimate.target);
        let aim = target.aim;
        let percentile = Percentile {
            quantile: self.rules.delay.quantile,
            found: target.percentile,
            calls: observed.calls.calls(),
            window: observed.window,
            under_slow_mode: aim.under_slow_mode.then_some((aim.share, target.delay)),
        };
        percentile.into()
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
            waiting.push(self.latency().to_string());
        }
        (!waiting.is_empty()).then(|| waiting.join("; "))
    }

    /// Which signals are above their lines; or, where none is known to be, why hedging does not come back all the same.
    fn saturated(&self) -> String {
        let above = self.saturation.told_saturated();
        if !above.is_empty() {
            return above;
        }
        let unknown = self.saturation.told_unknown(self.now);
        format!("off since a signal was above its line, until all are known to be under theirs: {unknown}")
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
