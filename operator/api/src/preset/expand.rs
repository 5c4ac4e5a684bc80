//! A policy as if nobody knew of presets.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{KnownOutcomes, KnownValue, LatencyPreset, SignalPreset};
use crate::{Counter, HedgingCounters, Labels, Latency, Operator, Outcomes, Requirement, Signal, Target};

impl Target {
    /// The target with what its presets fix written out, and the presets left out. A preset that does not exist is left as it
    /// is; [`validate`](crate::validate) refuses it.
    pub fn written_out(&self) -> Cow<'_, Self> {
        let latency = self.latency.known();
        let signals = &self.saturation.signals;
        if latency.is_none() && signals.iter().all(|signal| signal.known().is_none()) {
            return Cow::Borrowed(self);
        }
        let mut written = self.clone();
        if let Some(preset) = latency {
            if written.hedging.is_none() {
                written.hedging = self.latency.hedging_of(preset);
            }
            self.latency.write_out(preset, &mut written.latency);
        }
        for signal in &mut written.saturation.signals {
            if let Some(preset) = signal.known() {
                signal.write_out(preset);
            }
        }
        Cow::Owned(written)
    }
}

impl Latency {
    /// The preset that it names.
    pub fn known(&self) -> Option<&'static LatencyPreset> {
        LatencyPreset::named(self.preset.as_ref()?)
    }

    fn write_out(&self, preset: &LatencyPreset, written: &mut Self) {
        written.preset = None;
        written.metric = Some(preset.metric.into());
        written.unit = Some(preset.unit);
        written.measures = Some(preset.measures);
        written.outcomes = preset.outcomes.as_ref().map(outcomes);
        written.match_labels = with_labels(&self.match_labels, preset.labels);
        if let (None, Some(timeouts)) = (&self.timeouts, preset.timeouts) {
            written.timeouts = Some(self.beside(timeouts, preset));
        }
    }

    fn hedging_of(&self, preset: &LatencyPreset) -> Option<HedgingCounters> {
        let known = preset.hedging.as_ref()?;
        Some(HedgingCounters {
            calls: self.beside(known.calls, preset),
            hedges: self.beside(known.hedges, preset),
            blocked: Some(self.beside(known.blocked, preset)),
            wins: Some(self.beside(known.wins, preset)),
        })
    }

    /// A counter of the same exporter, of the same series.
    fn beside(&self, counter: &str, preset: &LatencyPreset) -> Counter {
        Counter {
            rate_of: counter.into(),
            match_labels: with_labels(&self.match_labels, preset.labels),
            match_expressions: self.match_expressions.clone(),
            zero_when_absent: None,
        }
    }
}

impl Signal {
    /// The preset that it names.
    pub fn known(&self) -> Option<&'static SignalPreset> {
        SignalPreset::named(self.preset.as_ref()?)
    }

    fn write_out(&mut self, preset: &SignalPreset) {
        self.preset = None;
        self.match_labels = with_labels(&self.match_labels, preset.labels);
        self.match_expressions
            .extend(preset.present.iter().map(|&label| Requirement {
                key: label.into(),
                operator: Operator::Exists,
                values: Vec::new(),
            }));
        self.off_above.get_or_insert_with(|| preset.off_above.into());
        match preset.value {
            KnownValue::Gauge(metric) => self.metric = Some(metric.into()),
            KnownValue::Share { of, per } => {
                self.rate_of = Some(of.into());
                self.per = Some(Counter {
                    rate_of: per.into(),
                    match_labels: self.match_labels.clone(),
                    match_expressions: self.match_expressions.clone(),
                    zero_when_absent: None,
                });
            }
        }
    }
}

fn with_labels(said: &Labels, fixed: &[(&str, &str)]) -> Labels {
    let fixed = fixed.iter().map(|&(label, value)| (label.into(), value.into()));
    Labels(
        said.0
            .clone()
            .into_iter()
            .chain(fixed)
            .collect::<BTreeMap<_, _>>(),
    )
}

fn outcomes(known: &KnownOutcomes) -> Outcomes {
    let values = |values: &[&str]| values.iter().map(|&value| value.into()).collect();
    Outcomes {
        label: known.label.into(),
        cancelled: values(known.cancelled),
        ignored: values(known.ignored),
    }
}
