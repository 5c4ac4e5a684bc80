//! What a histogram says of its attempts, by how they ended. Pure.

use hedgerow_tuner::{Histogram, Unknown, UnknownReason};

use crate::group::{Group, Point};
use crate::layout::{self, Buckets};
use crate::measure::Part;
use crate::native::Native;
use crate::{Outcomes, Unit};

/// What was observed in one window.
#[derive(Debug, PartialEq)]
pub(crate) struct Observed {
    /// The attempts that count, or why they say nothing.
    pub(crate) answered: Result<Histogram, Unknown>,
    /// Those that were cut short; `None` where no outcome says so, and where there were none.
    pub(crate) cancelled: Option<Histogram>,
    /// What was left out, where series differ.
    pub(crate) caveat: Option<String>,
}

impl Observed {
    /// What `group` says. Without `outcomes` everything counts.
    pub(crate) fn of(group: &Group, outcomes: Option<&Outcomes>, unit: Unit) -> Result<Self, Unknown> {
        let Some(outcomes) = outcomes else {
            let (answered, caveat) = distribution(group, unit, |_| true)?;
            return Ok(Self {
                answered,
                cancelled: None,
                caveat,
            });
        };
        // OpenTelemetry gives the label only to what failed: that nothing has it may be good news, or another spelling.
        let untold = (!tells_outcomes(group)).then(|| {
            format!(
                "no series has the label {}, which is to tell outcomes apart: did nothing fail, or is it spelled otherwise?",
                outcomes.label
            )
        });
        let is_cancelled = |outcome: &str| outcomes.cancelled.iter().any(|value| value == outcome);
        let is_ignored = |outcome: &str| outcomes.ignored.iter().any(|value| value == outcome);
        let (answered, caveat) = distribution(group, unit, |outcome| {
            !is_cancelled(outcome) && !is_ignored(outcome)
        })?;
        let (cancelled, _) = distribution(group, unit, |outcome| {
            is_cancelled(outcome) && !is_ignored(outcome)
        })?;
        let cancelled = match cancelled {
            Ok(cancelled) => Some(cancelled),
            Err(why) if why.reason == UnknownReason::NoTraffic => None,
            // Attempts that were cut short and cannot be read hide the slowest calls.
            Err(why) => {
                return Err(Unknown::new(
                    why.reason,
                    format!("the attempts that were cut short cannot be read: {}", why.message),
                ));
            }
        };
        // With the cancelled beside it this is no idleness: how long they ran without an answer is evidence.
        let answered = answered.map_err(|why| match &cancelled {
            Some(cancelled) if why.reason == UnknownReason::NoTraffic => Unknown::new(
                why.reason,
                format!(
                    "no attempt was answered in the window, and {:.0} were cut short",
                    cancelled.count()
                ),
            ),
            _ => why,
        });
        let caveats: Vec<String> = untold.into_iter().chain(caveat).collect();
        Ok(Self {
            answered,
            cancelled,
            caveat: joined(caveats),
        })
    }
}

/// Whether any value says how its attempts ended.
fn tells_outcomes(group: &Group) -> bool {
    let classic = group
        .points(Part::Buckets)
        .iter()
        .any(|point| !point.outcome.is_empty());
    classic || group.natives().keys().any(|outcome| !outcome.is_empty())
}

/// The distribution of the outcomes that are `wanted`, and what was left out.
type Distribution = (Result<Histogram, Unknown>, Option<String>);

fn distribution(group: &Group, unit: Unit, wanted: impl Fn(&str) -> bool) -> Result<Distribution, Unknown> {
    let per_second = per_second(unit);
    if !group.natives().is_empty() {
        let natives = group.natives().iter().filter(|(outcome, _)| wanted(outcome));
        let merged = Native::merged(natives.map(|(_, native)| native));
        return Ok((merged.histogram(per_second), unchecked("sum", merged.sum)));
    }
    let Buckets { cumulative, caveat } = layout::buckets(group, &wanted)?;
    let total = |part: Part| {
        let points: Vec<&Point> = group
            .points(part)
            .iter()
            .filter(|point| wanted(&point.outcome))
            .collect();
        (!points.is_empty()).then(|| points.iter().map(|point| point.value).sum::<f64>())
    };
    let (sum, count) = (total(Part::Sum), total(Part::Count));
    let unchecked = [("_sum", sum), ("_count", count)]
        .into_iter()
        .filter_map(|(part, total)| unchecked(part, total?));
    let caveats: Vec<String> = caveat.into_iter().chain(unchecked).collect();
    let distribution = Histogram::from_cumulative(
        cumulative
            .into_iter()
            .map(|(bound, calls)| (bound / per_second, calls)),
        sum.map(|sum| sum / per_second),
        count,
    );
    Ok((distribution, joined(caveats)))
}

/// What is missing where a total is no number, which checks nothing.
fn unchecked(part: &str, total: f64) -> Option<String> {
    (!total.is_finite()).then(|| format!("its {part} is {total}, so the buckets are not checked against it"))
}

fn joined(caveats: Vec<String>) -> Option<String> {
    (!caveats.is_empty()).then(|| caveats.join("; "))
}

/// How many of the unit are a second. Dividing by it keeps 5 ms exactly 0.005 s, as multiplying by 0.001 would not.
const fn per_second(unit: Unit) -> f64 {
    match unit {
        Unit::Seconds => 1.0,
        Unit::Milliseconds => 1e3,
        Unit::Microseconds => 1e6,
    }
}

#[cfg(test)]
mod tests {
    use hedgerow_tuner::NativeBucket;

    use super::*;

    fn outcomes() -> Outcomes {
        Outcomes {
            label: "status".into(),
            cancelled: vec!["CANCELLED".into()],
            ignored: vec!["UNAVAILABLE".into()],
        }
    }

    /// Calls per bucket up to 0.1 s, up to 1 s and above, and their sum in seconds, by outcome.
    fn group(by_outcome: &[(&'static str, [f64; 3], f64)]) -> Group {
        let bounds = ["0.1", "1", "+Inf"];
        let counted = by_outcome.iter().flat_map(|&(outcome, calls, sum)| {
            let mut below = 0.0;
            let buckets: Vec<_> = bounds
                .into_iter()
                .zip(calls)
                .map(|(bound, calls)| {
                    below += calls;
                    (Part::Buckets, Some(bound), outcome, below)
                })
                .collect();
            let totals = [
                (Part::Count, None, outcome, below),
                (Part::Sum, None, outcome, sum),
            ];
            buckets.into_iter().chain(totals)
        });
        let layout = bounds.map(|bound| (Part::Layout, Some(bound), "", 2.0));
        Group::split(counted.chain(layout))
    }

    fn calls(histogram: &Histogram) -> Vec<f64> {
        histogram.buckets().iter().map(|bucket| bucket.1).collect()
    }

    const OK: (&str, [f64; 3], f64) = ("OK", [70.0, 20.0, 0.0], 12.0);
    const CANCELLED: (&str, [f64; 3], f64) = ("CANCELLED", [0.0, 4.0, 6.0], 9.0);
    const UNAVAILABLE: (&str, [f64; 3], f64) = ("UNAVAILABLE", [900.0, 0.0, 0.0], 1.0);

    #[test]
    fn the_cancelled_stand_apart_and_the_ignored_do_not_count() {
        let group = group(&[OK, ("NOT_FOUND", [1.0, 0.0, 0.0], 0.05), CANCELLED, UNAVAILABLE]);
        let observed = Observed::of(&group, Some(&outcomes()), Unit::Seconds).unwrap();
        assert_eq!(calls(&observed.answered.unwrap()), [71.0, 91.0, 91.0]);
        assert_eq!(calls(&observed.cancelled.unwrap()), [0.0, 4.0, 10.0]);
        assert_eq!(observed.caveat, None);
    }

    #[test]
    fn without_outcomes_everything_counts() {
        let observed = Observed::of(&group(&[OK, CANCELLED]), None, Unit::Seconds).unwrap();
        assert_eq!(calls(&observed.answered.unwrap()), [70.0, 94.0, 100.0]);
        assert_eq!(observed.cancelled, None);
    }

    #[test]
    fn nothing_cancelled_is_no_fault() {
        let observed = Observed::of(&group(&[OK]), Some(&outcomes()), Unit::Seconds).unwrap();
        assert_eq!(calls(&observed.answered.unwrap()), [70.0, 90.0, 90.0]);
        assert_eq!(observed.cancelled, None);
    }

    #[test]
    fn a_label_that_no_series_has_is_named() {
        let group = group(&[("", [70.0, 20.0, 0.0], 12.0)]);
        let observed = Observed::of(&group, Some(&outcomes()), Unit::Seconds).unwrap();
        assert_eq!(calls(&observed.answered.unwrap()), [70.0, 90.0, 90.0]);
        assert_eq!(observed.cancelled, None);
        let caveat = observed.caveat.unwrap();
        assert!(caveat.contains("label status"), "{caveat}");
    }

    #[test]
    fn when_all_were_cut_short_what_is_known_of_them_stays() {
        let observed = Observed::of(&group(&[CANCELLED]), Some(&outcomes()), Unit::Seconds).unwrap();
        let unknown = observed.answered.unwrap_err();
        assert_eq!(unknown.reason, UnknownReason::NoTraffic);
        assert!(
            unknown.message.contains("10 were cut short"),
            "{}",
            unknown.message
        );
        assert_eq!(calls(&observed.cancelled.unwrap()), [0.0, 4.0, 10.0]);
        let idle = group(&[("OK", [0.0; 3], 0.0), ("CANCELLED", [0.0; 3], 0.0)]);
        let observed = Observed::of(&idle, Some(&outcomes()), Unit::Seconds).unwrap();
        assert_eq!(observed.answered.unwrap_err().reason, UnknownReason::NoTraffic);
        assert_eq!(observed.cancelled, None);
    }

    #[test]
    fn a_total_that_is_no_number_checks_nothing_and_is_said() {
        // 70 calls up to 0.1 s and 20 up to 1 s take at most 7 + 20 = 27 s: a sum of 1000 s is refused, one of NaN is told.
        let with_sum = |sum| {
            let group = group(&[("OK", [70.0, 20.0, 0.0], sum)]);
            Observed::of(&group, None, Unit::Seconds).unwrap()
        };
        assert_eq!(with_sum(12.0).caveat, None);
        assert_eq!(
            with_sum(1000.0).answered.unwrap_err().reason,
            UnknownReason::BucketsUnsuitable
        );
        for (sum, written) in [(f64::NAN, "NaN"), (f64::INFINITY, "inf")] {
            let observed = with_sum(sum);
            assert_eq!(calls(&observed.answered.unwrap()), [70.0, 90.0, 90.0]);
            let told = format!("its _sum is {written}, so the buckets are not checked against it");
            assert_eq!(observed.caveat, Some(told));
        }
        let buckets = [("0.1", 70.0), ("1", 90.0), ("+Inf", 90.0)];
        let values = buckets
            .iter()
            .map(|&(bound, calls)| (Part::Buckets, Some(bound), "", calls));
        let layout = buckets
            .iter()
            .map(|&(bound, _)| (Part::Layout, Some(bound), "", 2.0));
        let group = Group::split(values.chain([(Part::Count, None, "", f64::NAN)]).chain(layout));
        let observed = Observed::of(&group, None, Unit::Seconds).unwrap();
        assert_eq!(
            observed.caveat.unwrap(),
            "its _count is NaN, so the buckets are not checked against it"
        );
    }

    #[test]
    fn a_sum_of_a_native_histogram_that_is_no_number_is_said_too() {
        // Calls that were observed as NaN are counted, and in no bucket.
        let with_sum = |sum| {
            let buckets = [(0.25, 0.5, 70.0), (0.5, 1.0, 20.0), (1.0, 2.0, 10.0)];
            let native = Native {
                count: 100.0,
                sum,
                buckets: buckets
                    .map(|(lower, upper, calls)| NativeBucket { lower, upper, calls })
                    .into(),
            };
            Observed::of(&Group::native(native), None, Unit::Seconds).unwrap()
        };
        assert_eq!(with_sum(60.0).caveat, None);
        let observed = with_sum(f64::NAN);
        assert!((observed.answered.unwrap().count() - 100.0).abs() < 1e-9);
        assert_eq!(
            observed.caveat.unwrap(),
            "its sum is NaN, so the buckets are not checked against it"
        );
    }

    #[test]
    fn cancelled_attempts_that_cannot_be_read_make_everything_unknown() {
        let group = group(&[OK, ("CANCELLED", [f64::NAN, 4.0, 6.0], 9.0)]);
        let unknown = Observed::of(&group, Some(&outcomes()), Unit::Seconds).unwrap_err();
        assert_eq!(unknown.reason, UnknownReason::NotANumber);
        assert!(unknown.message.contains("cut short"), "{}", unknown.message);
    }
}
