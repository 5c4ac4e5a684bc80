//! What hedging does to the user's query.

use crate::history::Coverage;
use crate::survival::Survival;
use crate::tail::Attempt;
use crate::{Basis, Effect, Hedging, Measures, Rules};

/// What is inferred is said where chance and buckets each leave no more than this part of it open.
const KNOWN_TO: f64 = 0.05;

/// What is known of the calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'a> {
    /// What the metric observed.
    pub(crate) calls: &'a Survival,
    /// One attempt.
    pub(crate) attempt: &'a Survival,
    /// How much of it was hedged.
    pub(crate) coverage: &'a Coverage,
    /// The one delay, in seconds, that all of it was hedged at.
    pub(crate) delay: Option<f64>,
    /// The measured `a`: the share of the calls past the delay that were hedged.
    pub(crate) hedged_share: Option<f64>,
    /// Nothing says that attempts of one call are slow together.
    pub(crate) independent: bool,
}

/// What `hedging` does, or would do; its share is told as 0 when there is none.
///
/// Of independent attempts with the survival `S`, a share `a` of those past the delay `d` hedged, a call misses the
/// deadline `T` with `m = S(T) (1 - a (1 - S(T-d)))` and a query that waits for `N` calls with `1 - (1-m)^N`. Where `a` was
/// not measured it is predicted: `min(1, B / S(d))`.
///
/// A metric of logical calls measures `S(T)` while nothing is hedged and `m` while everything is. Then `S(T)` is inferred,
/// with the measured `a`; a window that was partly hedged identifies neither. A metric of attempts measures `S(T)` always
/// and `m` never. Where attempts are known to be slow together, nothing is inferred from their independence.
pub(crate) fn effect(rules: &Rules, known: Option<&Known<'_>>, hedging: Option<&Hedging>) -> Effect {
    let off = Effect {
        hedge_share: hedging.is_none().then_some(0.0),
        ..Effect::default()
    };
    let Some(known) = known else { return off };
    let unseen = rules.unseen();
    let asked = hedging.and_then(|hedging| {
        let delay = hedging.delay_ms / 1e3;
        Some(Asked {
            delay,
            passed: known.attempt.at(delay - unseen)?,
            budget: budget(hedging),
        })
    });
    let effect = Effect {
        hedge_share: off
            .hedge_share
            .or(asked.map(|asked| asked.passed.min(asked.budget))),
        ..off
    };
    let Some(deadline) = rules.deadline else {
        return effect;
    };
    let deadline = deadline.as_secs_f64() - unseen;
    let misses = known.misses(rules, asked.as_ref(), deadline);
    let per_query = |(miss, _): (f64, Basis)| query_miss_share(miss, rules.fan_out);
    Effect {
        miss_share_unhedged: misses.unhedged.map(per_query),
        unhedged_basis: misses.unhedged.map(|(_, basis)| basis),
        miss_share_hedged: misses.hedged.map(per_query),
        hedged_basis: misses.hedged.map(|(_, basis)| basis),
        ..effect
    }
}

/// The hedging that is asked about.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// In seconds.
    delay: f64,
    /// The share of attempts that pass it.
    passed: f64,
    /// Hedges per call.
    budget: f64,
}

/// The share of calls that miss the deadline, and how that is known.
#[derive(Clone, Copy, Debug, Default)]
struct Misses {
    unhedged: Option<(f64, Basis)>,
    hedged: Option<(f64, Basis)>,
}

impl Known<'_> {
    fn misses(&self, rules: &Rules, asked: Option<&Asked>, deadline: f64) -> Misses {
        let of_calls = rules.measures == Measures::LogicalCall;
        match self.coverage {
            Coverage::Wholly(_) if of_calls => Misses {
                unhedged: self.inferred(deadline).map(|miss| (miss, Basis::Inferred)),
                hedged: self.calls.at(deadline).map(|miss| (miss, Basis::Measured)),
            },
            Coverage::Partly(_) if of_calls => Misses::default(),
            _ => {
                let alone = self.attempt.at(deadline);
                let hedged = alone
                    .zip(asked)
                    .and_then(|(alone, asked)| self.predicted(alone, asked, deadline));
                Misses {
                    unhedged: alone.map(|miss| (miss, Basis::Measured)),
                    hedged: hedged.map(|miss| (miss, Basis::Predicted)),
                }
            }
        }
    }

    /// `S(T) = S_L(T) / (1 - a (1 - S(T-d)))`, from calls that were all hedged.
    ///
    /// None without the measured `a`: its upper bound would promise too much. And with most of them hedged what is left at
    /// the deadline is little, and is divided by little: so none where the standard error of what is left, or what the
    /// buckets leave open of it, is too large.
    fn inferred(&self, deadline: f64) -> Option<f64> {
        let hedged_share = self.hedged_share.filter(|_| self.independent)?;
        let delay = self.delay?;
        let missed = self.calls.at(deadline)?;
        if self.calls.calls() * missed < 1.0 / (KNOWN_TO * KNOWN_TO) {
            return None;
        }
        let attempt = Attempt {
            seen: self.calls,
            hedged: Some((delay, hedged_share)),
        };
        let (least, most) = attempt.inferred(deadline)?;
        let known = most <= (1.0 + KNOWN_TO) * (1.0 + KNOWN_TO) * least;
        known.then(|| (least * most).sqrt().clamp(missed, 1.0))
    }

    /// `m`, of attempts that miss `alone`.
    fn predicted(&self, alone: f64, asked: &Asked, deadline: f64) -> Option<f64> {
        if !self.independent {
            return None;
        }
        let possible = if asked.passed > 0.0 {
            (asked.budget / asked.passed).min(1.0)
        } else {
            1.0
        };
        let measured = self.hedged_share.filter(|_| *self.coverage != Coverage::Unhedged);
        let hedged_share = measured.unwrap_or(possible);
        let hedge_too_late = self.attempt.at(deadline - asked.delay)?;
        Some(alone * (1.0 - hedged_share * (1.0 - hedge_too_late)))
    }
}

/// Hedges per call that the budget allows; `minPerSecond` allows hedges that no share bounds.
fn budget(hedging: &Hedging) -> f64 {
    if hedging.min_per_second > 0.0 {
        1.0
    } else {
        hedging.percent / 100.0
    }
}

/// Share of queries that miss when each of their `fan_out` calls misses with probability `miss`, independently.
fn query_miss_share(miss: f64, fan_out: Option<u32>) -> f64 {
    let calls = f64::from(fan_out.unwrap_or(1).max(1));
    // 1 - (1 - m)^N without losing small m.
    (-(calls * (-miss).ln_1p()).exp_m1()).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::{Known, effect, query_miss_share};
    use crate::history::Coverage;
    use crate::inversion::Hedged;
    use crate::survival::Survival;
    use crate::{
        Basis, Budget, Delay, Hedging, Histogram, Measures, Mode, NoBenefit, Plateau, Rules, SwitchRules,
        Windows,
    };
    use std::time::Duration;

    const WHOLLY: f64 = 1.0;

    fn rules(measures: Measures, add: Duration) -> Rules {
        let second = Duration::from_secs(1);
        Rules {
            mode: Mode::Enforce,
            measure: String::new(),
            measures,
            counted: true,
            no_benefit: NoBenefit::Report,
            deadline: Some(second),
            fan_out: None,
            delay: Delay {
                quantile: 0.95,
                min: Duration::ZERO,
                max: second,
                add,
                plateau: Plateau::Ignore,
            },
            budget: Budget {
                percent: 10.0,
                limited_by_source: false,
                max_attempts: 2,
                max_concurrent: 1,
                min_per_second: 0.0,
            },
            windows: Windows {
                window: second,
                max_window: second,
                min_samples: 1,
                low_confidence: false,
            },
            switch: SwitchRules {
                signals: Vec::new(),
                max_unknown: second,
                cooldown: second,
                ramp_step: second,
            },
            max_staleness: second,
            propagation: second,
        }
    }

    const HEDGING: Hedging = Hedging {
        delay_ms: 500.0,
        min_remaining_ms: 150.0,
        percent: 10.0,
        min_per_second: 0.0,
    };

    fn survival(buckets: &[(f64, f64)]) -> Survival {
        let buckets = buckets.iter().copied().chain([(f64::INFINITY, 100_000.0)]);
        Survival::observed(
            &Histogram::from_cumulative(buckets, None, None).unwrap(),
            0.0,
            None,
        )
    }

    fn hedged(part: f64) -> Vec<Hedged> {
        vec![Hedged {
            delay: 0.5,
            budget: 0.1,
            part,
            in_doubt: 0.0,
        }]
    }

    fn near(found: Option<f64>, expected: f64) -> bool {
        found.is_some_and(|found| (found - expected).abs() < 1e-9)
    }

    #[test]
    fn a_query_misses_when_one_of_its_calls_does() {
        // 1 - 0.99^N.
        for (calls, percent) in [(1, 1.0), (10, 9.6), (50, 39.5), (100, 63.4), (1000, 100.0)] {
            let found = query_miss_share(0.01, Some(calls)) * 100.0;
            assert!((found - percent).abs() < 0.05, "{calls} calls: {found} %");
        }
    }

    #[test]
    fn a_hedge_that_is_as_slow_as_one_call_in_twenty_leaves_one_in_four_hundred() {
        // 5 % take more than a second, and none of these ends between 0.5 and 1 s: 0.05^2 = 0.25 %.
        let attempt = survival(&[(0.5, 95_000.0), (1.0, 95_000.0), (2.0, 100_000.0)]);
        let known = Known {
            calls: &attempt,
            attempt: &attempt,
            coverage: &Coverage::Unhedged,
            delay: Some(0.5),
            hedged_share: None,
            independent: true,
        };
        let effect = effect(
            &rules(Measures::LogicalCall, Duration::ZERO),
            Some(&known),
            Some(&HEDGING),
        );
        assert!(near(effect.miss_share_unhedged, 0.05), "{effect:?}");
        assert!(near(effect.miss_share_hedged, 0.0025), "{effect:?}");
        assert_eq!(
            (effect.unhedged_basis, effect.hedged_basis),
            (Some(Basis::Measured), Some(Basis::Predicted))
        );
    }

    #[test]
    fn attempts_are_measured_also_while_hedging_and_what_hedging_does_is_predicted_as_it_was_counted() {
        // S(T) = 2 %, S(T-d) = 5 %; four fifths of the calls past the delay were hedged: 0.02 (1 - 0.8 x 0.95) = 0.48 %.
        let attempt = survival(&[(0.5, 95_000.0), (1.0, 98_000.0), (2.0, 100_000.0)]);
        for coverage in [Coverage::Partly(hedged(0.5)), Coverage::Wholly(hedged(WHOLLY))] {
            let known = Known {
                calls: &attempt,
                attempt: &attempt,
                coverage: &coverage,
                delay: Some(0.5),
                hedged_share: Some(0.8),
                independent: true,
            };
            let effect = effect(
                &rules(Measures::Attempt { losers_run_on: true }, Duration::ZERO),
                Some(&known),
                Some(&HEDGING),
            );
            assert!(near(effect.miss_share_unhedged, 0.02), "{effect:?}");
            assert!(near(effect.miss_share_hedged, 0.0048), "{effect:?}");
            assert_eq!(
                (effect.unhedged_basis, effect.hedged_basis),
                (Some(Basis::Measured), Some(Basis::Predicted))
            );
        }
    }

    #[test]
    fn a_server_does_not_see_the_network() {
        // 100 ms of network: a call misses when the server takes more than 0.9 s (2 %), passes the delay of 0.5 s with more
        // than 0.4 s (5 %), and a hedge is late with more than 0.4 s: 0.02 x 0.05 = 0.1 %.
        let server = survival(&[(0.4, 95_000.0), (0.9, 98_000.0), (2.0, 100_000.0)]);
        let known = Known {
            calls: &server,
            attempt: &server,
            coverage: &Coverage::Unhedged,
            delay: Some(0.5),
            hedged_share: None,
            independent: true,
        };
        let effect = effect(
            &rules(Measures::Server, Duration::from_millis(100)),
            Some(&known),
            Some(&HEDGING),
        );
        assert!(near(effect.hedge_share, 0.05), "{effect:?}");
        assert!(near(effect.miss_share_unhedged, 0.02), "{effect:?}");
        assert!(near(effect.miss_share_hedged, 0.001), "{effect:?}");
    }

    #[test]
    fn what_calls_would_miss_alone_is_inferred_from_the_share_that_was_hedged() {
        // S_L(T) = 0.48 %, a = 0.8, S(T-d) = S(d) = 5 %: 0.0048 / (1 - 0.8 x 0.95) = 2 %.
        let calls = survival(&[(0.5, 95_000.0), (1.0, 99_520.0), (2.0, 100_000.0)]);
        let coverage = Coverage::Wholly(hedged(WHOLLY));
        let told = |hedged_share, independent, calls: &Survival| {
            let known = Known {
                calls,
                attempt: calls,
                coverage: &coverage,
                delay: Some(0.5),
                hedged_share,
                independent,
            };
            effect(
                &rules(Measures::LogicalCall, Duration::ZERO),
                Some(&known),
                Some(&HEDGING),
            )
        };
        let inferred = told(Some(0.8), true, &calls);
        assert!(near(inferred.miss_share_unhedged, 0.02), "{inferred:?}");
        assert!(near(inferred.miss_share_hedged, 0.0048), "{inferred:?}");
        assert_eq!(
            (inferred.unhedged_basis, inferred.hedged_basis),
            (Some(Basis::Inferred), Some(Basis::Measured))
        );

        // Not without the share, not of attempts that are slow together, not of 288 calls (whose standard error is 6 %), and
        // not where the bucket from 0.25 to 0.55 s leaves open how many attempts take 0.5 s.
        assert_eq!(told(None, true, &calls).miss_share_unhedged, None);
        assert_eq!(told(Some(0.8), false, &calls).miss_share_unhedged, None);
        let few = survival(&[(0.5, 95_000.0), (1.0, 99_712.0), (2.0, 100_000.0)]);
        assert_eq!(told(Some(0.8), true, &few).miss_share_unhedged, None);
        let coarse = survival(&[
            (0.1, 10_000.0),
            (0.55, 99_000.0),
            (1.0, 99_520.0),
            (2.0, 100_000.0),
        ]);
        assert_eq!(told(Some(1.0), true, &coarse).miss_share_unhedged, None);
    }
}
