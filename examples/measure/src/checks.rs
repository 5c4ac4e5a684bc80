//! What must hold of each case.

use hedgerow_stage::Expectation;

use crate::figures::Figures;
use crate::play::{Played, Stretch};
use crate::scenario::Scenario;
use crate::stage::BUDGET_PERCENT;
use crate::way::Way;

/// A slow replica: at most this share of the late queries that there are without hedging.
const LATE_LEFT: f64 = 0.2;
/// Old data or errors: at most this share of the incomplete queries that there are without hedging.
const INCOMPLETE_LEFT: f64 = 0.5;
/// A brown-out: at most so much slower than without hedging while it lasts, and half a minute after.
const SLOWER_DURING: f64 = 1.5;
const SLOWER_AFTER: f64 = 1.1;
/// When all replicas are slow at the same moments, the operator says so ...
const TOGETHER: &str = "SlowTogether";
/// ... within so many seconds of the first query.
const TOLD_WITHIN: f64 = 120.0;
/// Attempts and calls are not counted at one moment: the 8 calls of a query may come in between.
const NOT_AT_ONCE: f64 = 8.0;

/// The lines of a case.
pub(crate) fn lines(played: &Played) -> Vec<Expectation> {
    let case = Case {
        name: played.scenario.name(),
        played,
    };
    let mut lines = match played.scenario {
        Scenario::SlowReplica => vec![
            case.late_left(),
            case.truth("hedging is on at its end (1: yes)", played.hedging),
        ],
        Scenario::SlowTogether => vec![case.at_most(
            "the condition Effective=False says SlowTogether, s after the first query",
            TOLD_WITHIN,
            played.ineffective.get(TOGETHER).copied(),
        )],
        Scenario::StaleReplica | Scenario::FirstError => vec![case.incomplete_left()],
        Scenario::LosersRunOn => vec![case.at_most(
            "server time, times that of unhedged",
            1.0 + BUDGET_PERCENT / 100.0,
            case.against_unhedged("during", |figures| figures.busy_ms_per_call),
        )],
        Scenario::BrownOut => vec![
            case.at_most(
                "p50 during it, times that of unhedged",
                SLOWER_DURING,
                case.against_unhedged("during", |figures| figures.p50_ms),
            ),
            case.at_most(
                "p50 30 s after it, times that of unhedged",
                SLOWER_AFTER,
                case.against_unhedged("after", |figures| figures.p50_ms),
            ),
        ],
    };
    lines.push(case.at_most(
        "attempts per call, at any moment since the first",
        1.0 + BUDGET_PERCENT / 100.0,
        played.spent.most_attempts_per_call,
    ));
    lines.push(case.at_most(
        "attempts beyond 1.1 per call, in any stretch of time",
        played.spent.saved.unwrap_or(f64::NAN) + NOT_AT_ONCE,
        played.spent.most_attempts_beyond,
    ));
    lines
}

struct Case<'a> {
    name: &'static str,
    played: &'a Played,
}

impl Case<'_> {
    fn late_left(&self) -> Expectation {
        let limit = self.of(Way::Unhedged, |figures| figures.late_percent);
        self.at_most(
            "late queries, %",
            LATE_LEFT * limit.unwrap_or(f64::NAN),
            self.of(Way::Hedgerow, |figures| figures.late_percent),
        )
    }

    fn incomplete_left(&self) -> Expectation {
        let incomplete = |way| {
            self.of(way, |figures| figures.complete_percent)
                .map(|whole| 100.0 - whole)
        };
        self.at_most(
            "incomplete queries, %",
            INCOMPLETE_LEFT * incomplete(Way::Unhedged).unwrap_or(f64::NAN),
            incomplete(Way::Hedgerow),
        )
    }

    fn against_unhedged(&self, stretch: &str, value: fn(&Figures) -> Option<f64>) -> Option<f64> {
        let stretch = self.stretch(stretch)?;
        let of = |way| stretch.of(way).and_then(value);
        Some(of(Way::Hedgerow)? / of(Way::Unhedged)?)
    }

    fn of(&self, way: Way, value: fn(&Figures) -> Option<f64>) -> Option<f64> {
        self.stretch("during")?.of(way).and_then(value)
    }

    fn stretch(&self, title: &str) -> Option<&Stretch> {
        self.played
            .stretches
            .iter()
            .find(|stretch| stretch.title == title)
    }

    /// A limit that is not known holds nothing.
    fn at_most(&self, what: &'static str, limit: f64, measured: Option<f64>) -> Expectation {
        Expectation {
            phase: self.name,
            what,
            expected: format!("at most {limit:.2}"),
            accepted: (0.0, limit),
            measured,
            decimals: 2,
        }
    }

    fn truth(&self, what: &'static str, holds: bool) -> Expectation {
        Expectation {
            phase: self.name,
            what,
            expected: "yes".to_owned(),
            accepted: (1.0, 1.0),
            measured: Some(f64::from(u8::from(holds))),
            decimals: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::play::{Row, Spent};

    fn figures(late: f64, complete: f64, p50: f64, busy: f64) -> Figures {
        Figures {
            late_percent: Some(late),
            complete_percent: Some(complete),
            p50_ms: Some(p50),
            busy_ms_per_call: Some(busy),
            ..Figures::new(&[], &[])
        }
    }

    /// A case in which both ways show these figures, during it and after.
    fn played(scenario: Scenario, unhedged: Figures, hedgerow: Figures) -> Played {
        let stretch = |title| Stretch {
            title,
            ways: vec![
                Row {
                    way: Way::Unhedged,
                    figures: unhedged,
                },
                Row {
                    way: Way::Hedgerow,
                    figures: hedgerow,
                },
            ],
        };
        Played {
            scenario,
            stretches: vec![stretch("during"), stretch("after")],
            said: ["Tuned".to_owned()].into(),
            hedging: true,
            ineffective: BTreeMap::new(),
            spent: Spent {
                most_attempts_per_call: Some(1.05),
                most_attempts_beyond: Some(10.0),
                saved: Some(20.0),
            },
        }
    }

    fn verdicts(played: &Played) -> Vec<bool> {
        lines(played).iter().map(Expectation::holds).collect()
    }

    #[test]
    fn with_a_slow_replica_at_most_a_fifth_is_late_and_hedging_is_on() {
        let unhedged = figures(20.0, 80.0, 500.0, 100.0);
        let with = |late| played(Scenario::SlowReplica, unhedged, figures(late, 96.0, 500.0, 100.0));
        assert_eq!(verdicts(&with(4.0)), [true; 4]);
        assert_eq!(verdicts(&with(4.1)), [false, true, true, true]);
        let off = Played {
            hedging: false,
            ..with(4.0)
        };
        assert_eq!(verdicts(&off), [true, false, true, true]);
    }

    #[test]
    fn slowness_of_all_is_said_in_two_minutes_and_going_off_does_not_do() {
        let same = figures(20.0, 80.0, 500.0, 100.0);
        let off = Played {
            hedging: false,
            ..played(Scenario::SlowTogether, same, same)
        };
        assert_eq!(verdicts(&off), [false, true, true]);
        for (reason, after, holds) in [
            ("SlowTogether", 120.0, true),
            ("SlowTogether", 120.5, false),
            ("NoBenefit", 60.0, false),
        ] {
            let said = Played {
                ineffective: [(reason.to_owned(), after)].into(),
                ..played(Scenario::SlowTogether, same, same)
            };
            assert_eq!(verdicts(&said), [holds, true, true], "{reason} {after}");
        }
    }

    #[test]
    fn of_old_data_and_errors_at_most_half_is_left() {
        for scenario in [Scenario::StaleReplica, Scenario::FirstError] {
            let unhedged = figures(9.0, 40.0, 500.0, 100.0);
            let with = |complete| played(scenario, unhedged, figures(1.0, complete, 500.0, 100.0));
            assert_eq!(verdicts(&with(70.0)), [true, true, true]);
            assert_eq!(verdicts(&with(69.0)), [false, true, true]);
        }
    }

    #[test]
    fn losers_that_run_on_cost_no_more_than_the_budget() {
        let with = |busy| {
            played(
                Scenario::LosersRunOn,
                figures(9.0, 91.0, 500.0, 100.0),
                figures(1.0, 99.0, 500.0, busy),
            )
        };
        assert_eq!(verdicts(&with(109.0)), [true, true, true]);
        assert_eq!(verdicts(&with(111.0)), [false, true, true]);
    }

    #[test]
    fn a_brown_out_is_not_made_much_worse_and_is_over_when_it_is_over() {
        let with = |p50| {
            played(
                Scenario::BrownOut,
                figures(9.0, 91.0, 500.0, 100.0),
                figures(9.0, 91.0, p50, 100.0),
            )
        };
        assert_eq!(verdicts(&with(549.0)), [true, true, true, true]);
        assert_eq!(verdicts(&with(749.0)), [true, false, true, true]);
        assert_eq!(verdicts(&with(751.0)), [false, false, true, true]);
    }

    #[test]
    fn the_budget_holds_in_every_case() {
        let same = figures(9.0, 91.0, 500.0, 100.0);
        let with = |change: fn(&mut Spent)| {
            let mut played = played(Scenario::LosersRunOn, same, same);
            change(&mut played.spent);
            verdicts(&played)[1..].to_vec()
        };
        for attempts in [None, Some(1.101)] {
            let mut over = played(Scenario::LosersRunOn, same, same);
            over.spent.most_attempts_per_call = attempts;
            assert_eq!(verdicts(&over), [true, false, true]);
        }
        // What was saved, and a query that came while it was counted.
        assert_eq!(
            with(|spent| spent.most_attempts_beyond = Some(28.0)),
            [true, true]
        );
        assert_eq!(
            with(|spent| spent.most_attempts_beyond = Some(28.1)),
            [true, false]
        );
        assert_eq!(with(|spent| spent.most_attempts_beyond = None), [true, false]);
        assert_eq!(with(|spent| spent.saved = None), [true, false]);
    }

    #[test]
    fn what_was_not_measured_does_not_hold() {
        let nothing = Figures::new(&[], &[]);
        for scenario in [
            Scenario::SlowReplica,
            Scenario::StaleReplica,
            Scenario::LosersRunOn,
            Scenario::BrownOut,
        ] {
            assert!(!verdicts(&played(scenario, nothing, nothing))[0], "{scenario:?}");
        }
    }
}
