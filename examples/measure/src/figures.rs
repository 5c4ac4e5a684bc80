//! The arithmetic: from what was seen to the figures of a way.

use serde::{Deserialize, Serialize};

/// What became of one query, as the load wrote it down.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Query {
    /// When it was due, in Unix seconds.
    pub due: f64,
    /// From then to its answer, in seconds.
    pub latency: f64,
    /// What came; `None` when nothing did.
    pub answer: Option<Answer>,
}

/// What a user got.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Answer {
    /// Sections that came, of those that there are.
    pub sections: u32,
    /// See `sections`.
    pub of: u32,
    /// Those that had not come by the deadline.
    pub late: u32,
}

/// What the programs of a way had counted at a moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    /// Shard calls begun.
    pub calls: f64,
    /// Attempts sent for them.
    pub attempts: f64,
    /// Calls that another than the first attempt answered.
    pub wins: f64,
    /// Seconds for which servers held a slot.
    pub busy: f64,
    /// Attempts that lived on after the answer, and for how many seconds in all.
    pub losers: f64,
    /// See `losers`.
    pub survived: f64,
    /// The deepest queue of any server.
    pub queue: f64,
}

/// The figures of a way in a stretch of time. `None` where there is nothing to count.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Figures {
    /// Queries due in it.
    pub queries: usize,
    /// Their latency as users see it, in ms.
    pub p50_ms: Option<f64>,
    /// See `p50_ms`.
    pub p99_ms: Option<f64>,
    /// See `p50_ms`.
    pub p999_ms: Option<f64>,
    /// Share of queries that got all sections, in %.
    pub complete_percent: Option<f64>,
    /// Share of queries with a section that had not come by the deadline, in %.
    pub late_percent: Option<f64>,
    /// Attempts per shard call.
    pub attempts_per_call: Option<f64>,
    /// Share of the extra attempts that won, in %.
    pub win_percent: Option<f64>,
    /// How long a loser lived on at the servers, on average, in ms.
    pub loser_survival_ms: Option<f64>,
    /// Server time per shard call, in ms.
    pub busy_ms_per_call: Option<f64>,
    /// The deepest queue of any server at any moment.
    pub deepest_queue: Option<f64>,
}

impl Figures {
    /// From the queries due in a stretch of time and the samples taken in it.
    pub(crate) fn new(queries: &[Query], samples: &[Sample]) -> Self {
        let mut latencies: Vec<f64> = queries.iter().map(|query| 1000.0 * query.latency).collect();
        latencies.sort_by(f64::total_cmp);
        let share = |holds: fn(&Answer) -> bool| {
            let number = queries
                .iter()
                .filter(|query| query.answer.as_ref().is_some_and(holds));
            percent(number.count() as f64, queries.len() as f64)
        };
        let first = samples.first().copied().unwrap_or_default();
        let last = samples.last().copied().unwrap_or_default();
        let since = |count: fn(&Sample) -> f64| count(&last) - count(&first);
        let (calls, attempts) = (since(|s| s.calls), since(|s| s.attempts));
        Self {
            queries: queries.len(),
            p50_ms: percentile(&latencies, 0.5),
            p99_ms: percentile(&latencies, 0.99),
            p999_ms: percentile(&latencies, 0.999),
            complete_percent: share(|answer| answer.sections == answer.of),
            late_percent: share(|answer| answer.late > 0),
            attempts_per_call: ratio(attempts, calls),
            win_percent: percent(since(|s| s.wins), attempts - calls),
            loser_survival_ms: ratio(1000.0 * since(|s| s.survived), since(|s| s.losers)),
            busy_ms_per_call: ratio(1000.0 * since(|s| s.busy), calls),
            deepest_queue: samples.iter().map(|sample| sample.queue).reduce(f64::max),
        }
    }
}

/// The smallest of sorted values that at least a share `q` of them does not exceed.
pub(crate) fn percentile(sorted: &[f64], q: f64) -> Option<f64> {
    let rank = (q * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

/// The most attempts per call from the first call to any moment. Early moments with few calls say nothing.
pub(crate) fn most_attempts_per_call(samples: &[(f64, Sample)]) -> Option<f64> {
    let enough = samples.iter().filter(|(_, sample)| sample.calls >= 100.0);
    enough
        .filter_map(|(_, sample)| ratio(sample.attempts, sample.calls))
        .reduce(f64::max)
}

/// The most attempts, in any stretch of time between two samples, beyond `per_call` for each call of that stretch.
pub(crate) fn most_attempts_beyond(samples: &[(f64, Sample)], per_call: f64) -> Option<f64> {
    let beyond = samples
        .iter()
        .map(|(_, sample)| sample.attempts - per_call * sample.calls);
    let mut least = f64::INFINITY;
    let rises = beyond.map(|beyond| {
        least = least.min(beyond);
        beyond - least
    });
    rises.reduce(f64::max)
}

/// At least the calls of the busiest second: each second lies between two samples, and the busiest of those stretches counts.
pub(crate) fn most_calls_in_a_second(samples: &[(f64, Sample)]) -> Option<f64> {
    let stretch = |(place, next): (usize, &(f64, Sample))| {
        let (_, first) = &samples[place];
        let after = samples[place..].iter().find(|(at, _)| *at >= next.0 + 1.0);
        after.map(|(_, last)| last.calls - first.calls)
    };
    samples
        .iter()
        .skip(1)
        .enumerate()
        .filter_map(stretch)
        .reduce(f64::max)
}

fn percent(part: f64, whole: f64) -> Option<f64> {
    ratio(100.0 * part, whole)
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(latency: f64, sections: u32, late: u32) -> Query {
        Query {
            due: 0.0,
            latency,
            answer: Some(Answer {
                sections,
                of: 8,
                late,
            }),
        }
    }

    #[test]
    fn a_percentile_is_a_value_that_was_seen() {
        let values: Vec<f64> = (1..=1000).map(f64::from).collect();
        assert_eq!(percentile(&values, 0.5), Some(500.0));
        assert_eq!(percentile(&values, 0.99), Some(990.0));
        assert_eq!(percentile(&values, 0.999), Some(999.0));
        assert_eq!(percentile(&values, 1.0), Some(1000.0));
        assert_eq!(percentile(&values[..3], 0.5), Some(2.0));
        assert_eq!(percentile(&values[..1], 0.0), Some(1.0));
        assert_eq!(percentile(&[], 0.5), None);
    }

    #[test]
    fn the_figures_of_four_queries_by_hand() {
        let lost = Query {
            due: 0.0,
            latency: 2.0,
            answer: None,
        };
        let queries = [query(0.1, 8, 0), query(1.0, 7, 1), query(0.3, 7, 0), lost];
        let samples = [
            Sample {
                calls: 100.0,
                attempts: 104.0,
                wins: 1.0,
                busy: 10.0,
                losers: 4.0,
                survived: 0.4,
                queue: 2.0,
            },
            Sample {
                queue: 9.0,
                ..Sample::default()
            },
            Sample {
                calls: 132.0,
                attempts: 140.0,
                wins: 2.0,
                busy: 13.2,
                losers: 8.0,
                survived: 0.48,
                queue: 0.0,
            },
        ];
        let figures = Figures::new(&queries, &samples);
        // Of 100, 300, 1000 and 2000 ms.
        assert_eq!((figures.p50_ms, figures.p99_ms), (Some(300.0), Some(2000.0)));
        // One of four is whole, and one of four was late; nothing at all is neither.
        assert_eq!(
            (figures.complete_percent, figures.late_percent),
            (Some(25.0), Some(25.0))
        );
        // 36 attempts for 32 calls, and one of the 4 extra ones won.
        assert_eq!(
            (figures.attempts_per_call, figures.win_percent),
            (Some(1.125), Some(25.0))
        );
        // 3.2 s for 32 calls; 80 ms for 4 losers.
        assert!((figures.busy_ms_per_call.unwrap() - 100.0).abs() < 1e-9);
        assert!((figures.loser_survival_ms.unwrap() - 20.0).abs() < 1e-9);
        assert_eq!(figures.deepest_queue, Some(9.0));
    }

    #[test]
    fn without_anything_to_count_nothing_is_known() {
        let figures = Figures::new(&[], &[]);
        assert_eq!((figures.p50_ms, figures.late_percent), (None, None));
        assert_eq!((figures.attempts_per_call, figures.win_percent), (None, None));
        assert_eq!((figures.loser_survival_ms, figures.deepest_queue), (None, None));
    }

    #[test]
    fn the_most_attempts_per_call_are_those_of_the_worst_moment() {
        let at = |calls, attempts| sample(0.0, calls, attempts);
        let samples = [at(2.0, 4.0), at(100.0, 105.0), at(200.0, 224.0), at(400.0, 420.0)];
        // 2 calls are too few; then 1.05, 1.12, 1.05.
        assert_eq!(most_attempts_per_call(&samples), Some(1.12));
        assert_eq!(most_attempts_per_call(&[]), None);
    }

    fn sample(at: f64, calls: f64, attempts: f64) -> (f64, Sample) {
        let counted = Sample {
            calls,
            attempts,
            ..Sample::default()
        };
        (at, counted)
    }

    #[test]
    fn attempts_beyond_the_budget_are_those_of_the_worst_stretch_between_any_two_samples() {
        // Beyond 1.1 per call: 0, -8, +6, -4, then 0. The worst stretch is the third: 14 more than 110 of 100 calls.
        let samples = [
            sample(0.0, 0.0, 0.0),
            sample(1.0, 100.0, 102.0),
            sample(2.0, 200.0, 226.0),
            sample(3.0, 300.0, 326.0),
            sample(4.0, 400.0, 440.0),
        ];
        assert!((most_attempts_beyond(&samples, 1.1).unwrap() - 14.0).abs() < 1e-9);
        assert_eq!(most_attempts_beyond(&samples[..1], 1.1), Some(0.0));
        assert_eq!(most_attempts_beyond(&[], 1.1), None);
    }

    #[test]
    fn the_busiest_second_lies_between_two_samples() {
        let samples = [
            sample(0.0, 0.0, 0.0),
            sample(0.5, 10.0, 0.0),
            sample(1.0, 90.0, 0.0),
            sample(1.5, 100.0, 0.0),
            sample(2.1, 110.0, 0.0),
        ];
        // A second that begins between 0 and 0.5 ends by 1.5, and one that begins between 0.5 and 1 by 2.1: of 100 calls each.
        assert_eq!(most_calls_in_a_second(&samples), Some(100.0));
        assert_eq!(most_calls_in_a_second(&samples[..2]), None);
    }
}
