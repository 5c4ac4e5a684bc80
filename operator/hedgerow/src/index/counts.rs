//! The counters that clients export: read with the latency, over the windows that the last decision wants.

use std::time::Duration;

use hedgerow_signals::{CountsQuery, TargetQuery};
use hedgerow_tuner::Counts;

/// What is known of the counters of one target.
#[derive(Debug)]
pub(super) struct State {
    /// What the next reading shall cover; nothing is read when it is empty.
    windows: Vec<Duration>,
}

impl State {
    /// Of a target about which nothing was decided yet.
    pub(super) fn new(query: &TargetQuery) -> Self {
        let windows = query.counts.as_ref().map(|counts| counts.windows.clone());
        Self {
            windows: windows.unwrap_or_default(),
        }
    }

    /// The last decision wants these windows.
    pub(super) fn want(&mut self, windows: &[Duration]) {
        self.windows = windows.to_vec();
    }

    /// Makes `query`, in which everything stands that the target could ask, ask for what is due.
    pub(super) fn ask(&self, query: &mut TargetQuery) {
        query.counts = query
            .counts
            .take()
            .filter(|_| query.latency.is_some() && !self.windows.is_empty())
            .map(|counts| CountsQuery {
                windows: self.windows.clone(),
                ..counts
            });
    }
}

/// Whether the same counters are read, over whatever windows.
pub(super) fn alike(one: &TargetQuery, other: &TargetQuery) -> bool {
    let counters = |query: &TargetQuery| {
        query.counts.clone().map(|counts| CountsQuery {
            windows: Vec::new(),
            ..counts
        })
    };
    counters(one) == counters(other)
}

/// Takes in what was read by `query`.
pub(super) fn take(known: &mut Option<Counts>, query: &TargetQuery, read: Option<Counts>) {
    if query.counts.is_some() {
        *known = read;
    }
}

#[cfg(test)]
mod tests {
    use hedgerow_tuner::{Timestamp, WindowCounts};
    use serde_json::json;

    use super::*;
    use crate::fixtures::{follow, written_spec};

    const TEN_MINUTES: Duration = Duration::from_secs(600);
    const HALF_AN_HOUR: Duration = Duration::from_secs(1800);

    /// The query of a target that counts these hedges.
    fn query(hedges: &str) -> TargetQuery {
        let mut spec = written_spec();
        spec["targets"][0]["hedging"] =
            json!({ "calls": { "rateOf": "calls_total" }, "hedges": { "rateOf": hedges } });
        follow(&spec).compiled.targets[0].query.clone()
    }

    fn asked(state: &State, mut query: TargetQuery) -> Option<Vec<Duration>> {
        state.ask(&mut query);
        query.counts.map(|counts| counts.windows)
    }

    #[test]
    fn counters_are_read_over_the_window_of_the_latency_until_a_decision_wants_others() {
        let mut state = State::new(&query("hedges_total"));
        assert_eq!(asked(&state, query("hedges_total")), Some(vec![TEN_MINUTES]));
        state.want(&[TEN_MINUTES, HALF_AN_HOUR]);
        assert_eq!(
            asked(&state, query("hedges_total")),
            Some(vec![TEN_MINUTES, HALF_AN_HOUR])
        );
        state.want(&[]);
        assert_eq!(asked(&state, query("hedges_total")), None);
    }

    #[test]
    fn counters_are_not_read_when_the_latency_is_not() {
        let state = State::new(&query("hedges_total"));
        let signals_alone = TargetQuery {
            latency: None,
            ..query("hedges_total")
        };
        assert_eq!(asked(&state, signals_alone), None);
    }

    #[test]
    fn other_windows_are_the_same_question_and_other_counters_are_not() {
        let mut wider = query("hedges_total");
        wider.counts.as_mut().unwrap().windows = vec![HALF_AN_HOUR];
        assert!(alike(&query("hedges_total"), &wider));
        assert!(!alike(&query("hedges_total"), &query("other_total")));
        let without = TargetQuery {
            counts: None,
            ..query("hedges_total")
        };
        assert!(!alike(&query("hedges_total"), &without));
    }

    #[test]
    fn what_was_not_asked_for_changes_nothing() {
        let counts = |calls| Counts {
            at: Timestamp::default(),
            windows: Ok(vec![WindowCounts {
                window: TEN_MINUTES,
                calls,
                hedges: 5.0,
                blocked: None,
                wins: None,
            }]),
        };
        let mut known = Some(counts(100.0));
        let mut signals_alone = query("hedges_total");
        signals_alone.counts = None;
        take(&mut known, &signals_alone, None);
        assert_eq!(known, Some(counts(100.0)));
        take(&mut known, &query("hedges_total"), Some(counts(200.0)));
        assert_eq!(known, Some(counts(200.0)));
    }
}
