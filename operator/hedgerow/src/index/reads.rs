//! What is read of one target, and when.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hedgerow_signals::{LatencyQuery, ReadingKind, TargetQuery, TargetReadings};
use hedgerow_tuner::{Decision, Readings, Timestamp};

use super::counts;
use crate::compile::Target;
use crate::schedule;

#[derive(Debug)]
pub(super) struct Reads {
    pub(super) readings: Readings,
    /// What the next latency reading shall cover.
    windows: Vec<Duration>,
    counts: counts::State,
    /// When each kind of reading is due; at once where nothing is said.
    due_at: BTreeMap<ReadingKind, Timestamp>,
    /// The kinds of reading that were taken since the target was remembered or seen first.
    was_read: BTreeSet<ReadingKind>,
}

impl Reads {
    /// Of a target that was not followed until now.
    pub(super) fn new(target: &Target) -> Self {
        Self {
            readings: Readings {
                signals: vec![None; target.query.signals.len()],
                ..Readings::default()
            },
            windows: vec![target.rules.windows.window],
            counts: counts::State::new(&target.query),
            due_at: BTreeMap::new(),
            was_read: BTreeSet::new(),
        }
    }

    /// The same of an edited target: what is still read alike is kept, the rest is due at once.
    pub(super) fn follow(&mut self, old: &Target, new: &Target, same_source: bool) {
        if same_source && old == new {
            return;
        }
        let same_place = same_source && old.query.enforced == new.query.enforced;
        if !same_place || old.query.latency != new.query.latency {
            self.readings.latency = None;
        }
        self.readings.signals = new
            .query
            .signals
            .iter()
            .map(|signal| {
                let at = old
                    .query
                    .signals
                    .iter()
                    .position(|old| same_place && old == signal)?;
                self.readings.signals.get(at)?.clone()
            })
            .collect();
        if !same_place || !counts::alike(&old.query, &new.query) {
            self.readings.counts = None;
        }
        self.windows = vec![new.rules.windows.window];
        self.counts = counts::State::new(&new.query);
        self.due_at.clear();
    }

    /// What is to be asked now, if a reading of that kind is due, and since when it is. It counts as asked for then.
    pub(super) fn ask(
        &mut self,
        target: &Target,
        kind: ReadingKind,
        (period, phase): (Duration, Duration),
        now: Timestamp,
    ) -> Option<(TargetQuery, Option<Timestamp>)> {
        let at = self.due_at.get(&kind).copied();
        // What lies more than a period ahead was planned before the clock was set back.
        if !at.is_none_or(|at| at <= now || at > now.plus(period)) {
            return None;
        }
        self.due_at.insert(kind, schedule::next(now, period, phase));
        let mut query = target.query.only(kind);
        if let Some(latency) = &mut query.latency {
            latency.windows.clone_from(&self.windows);
        }
        self.counts.ask(&mut query);
        Some((query, at))
    }

    /// When a reading of that kind is due next.
    pub(super) fn next_due(&self, kind: ReadingKind) -> Option<Timestamp> {
        self.due_at.get(&kind).copied()
    }

    /// Takes in what was read by `query`.
    pub(super) fn take(&mut self, kind: ReadingKind, query: &TargetQuery, read: TargetReadings) {
        if query.latency.is_some() {
            self.readings.latency = read.latency;
        }
        counts::take(&mut self.readings.counts, query, read.counts);
        if !query.signals.is_empty() {
            self.readings.signals = read.signals.into_iter().map(Some).collect();
        }
        self.was_read.insert(kind);
    }

    /// Asks for what a decision wants to know; at once, when it wants more than the one `before` it.
    pub(super) fn want(&mut self, decision: &Decision, before: Option<&Decision>) {
        self.windows.clone_from(&decision.windows_wanted);
        self.counts.want(&decision.counts_wanted);
        let is_new = before.is_none_or(|before| before.windows_wanted != decision.windows_wanted);
        if decision.wants_wider && is_new {
            self.due_at.remove(&ReadingKind::Latency);
        }
    }

    /// Whether a reading is still to come.
    pub(super) fn awaits_reading(&self, target: &Target) -> bool {
        let is_missing = |kind| target.query.asks(kind) && !self.was_read.contains(&kind);
        ReadingKind::ALL.into_iter().any(is_missing)
    }
}

/// Whether `asked`, of the target as it is now, asks for the same as `query`, which was out meanwhile.
pub(super) fn asked_alike(asked: &TargetQuery, query: &TargetQuery) -> bool {
    let latency = |query: &TargetQuery| {
        let latency = query.latency.clone()?;
        Some(LatencyQuery {
            windows: Vec::new(),
            ..latency
        })
    };
    asked.enforced == query.enforced
        && (query.latency.is_none() || latency(asked) == latency(query))
        && (query.counts.is_none() || counts::alike(asked, query))
        && (query.signals.is_empty() || asked.signals == query.signals)
}
