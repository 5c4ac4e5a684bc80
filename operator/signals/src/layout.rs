//! Whether all series have the same buckets; and what is left when they have not. Pure.

use std::collections::BTreeMap;

use hedgerow_tuner::{Unknown, UnknownReason};

use crate::answer::number;
use crate::group::{Group, Point};
use crate::measure::Part;

/// Fewer bounds in common than this, +Inf among them, are no distribution.
const FEWEST_COMMON: usize = 3;

/// Cumulative buckets that every series has.
#[derive(Debug, PartialEq)]
pub(crate) struct Buckets {
    /// `(upper bound in the metric's unit, increase)`, in rising order.
    pub(crate) cumulative: Vec<(f64, f64)>,
    /// What was left out, where the series differ.
    pub(crate) caveat: Option<String>,
}

/// Whether the buckets are those of a classic histogram.
pub(crate) fn check(group: &Group) -> Result<(), Unknown> {
    series(group).map(drop)
}

/// How many series there are by bound, and in all: each has the bucket up to +Inf.
fn series(group: &Group) -> Result<(BTreeMap<Bound, f64>, f64), Unknown> {
    let series = by_bound(group.points(Part::Layout), |_| true)?;
    match series.last_key_value() {
        Some((Bound(f64::INFINITY), &all)) => Ok((series, all)),
        _ => Err(Unknown::new(
            UnknownReason::NotAHistogram,
            "there is no bucket with le=\"+Inf\": the histogram is cut or relabelled, so the slowest calls cannot be counted",
        )),
    }
}

/// The buckets of a group, reduced to the bounds that all its series have; of those outcomes that are `wanted`.
///
/// A series without a bound adds nothing to that bound's total, which would read as calls that took longer.
pub(crate) fn buckets(group: &Group, wanted: impl Fn(&str) -> bool) -> Result<Buckets, Unknown> {
    let increases = by_bound(group.points(Part::Buckets), wanted)?;
    let (series, all) = series(group)?;
    if series.len() == 1 {
        // What the text formats show of a histogram that has only native buckets.
        return Err(Unknown::new(
            UnknownReason::NativeNotScraped,
            "its only bucket is le=\"+Inf\": a native histogram of which the source scrapes the classic side alone (set \
             scrape_native_histograms in its configuration), or one whose other buckets are dropped",
        ));
    }
    let cumulative: Vec<_> = series
        .iter()
        .filter(|&(_, count)| (count - all).abs() < 0.5)
        .map(|(bound, _)| (bound.0, increases.get(bound).copied().unwrap_or(0.0)))
        .collect();
    let (common, bounds) = (cumulative.len(), series.len());
    if common == bounds {
        return Ok(Buckets {
            cumulative,
            caveat: None,
        });
    }
    let message = format!("{common} of {bounds} bucket bounds are in all {all:.0} series");
    if common < FEWEST_COMMON {
        return Err(Unknown::new(
            UnknownReason::MixedBuckets,
            format!("{message}: too few; give the instances the same buckets, or select those that have"),
        ));
    }
    Ok(Buckets {
        cumulative,
        caveat: Some(format!("{message}; only those are used")),
    })
}

/// A bound, ordered.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bound(f64);

impl Eq for Bound {}

impl PartialOrd for Bound {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bound {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Values by bound; those of bounds that are spelled in different ways are added up.
fn by_bound(points: &[Point], wanted: impl Fn(&str) -> bool) -> Result<BTreeMap<Bound, f64>, Unknown> {
    let mut values = BTreeMap::new();
    for point in points.iter().filter(|point| wanted(&point.outcome)) {
        let bound = point.bound.as_deref().map(number).filter(|bound| !bound.is_nan());
        let Some(bound) = bound else {
            return Err(Unknown::new(
                UnknownReason::NotAHistogram,
                match &point.bound {
                    Some(spelled) => format!("a bucket has the bound le={spelled:?}, which is no number"),
                    None => "its buckets have no label le; VictoriaMetrics' vmrange buckets must be exported as classic ones \
                             (prometheus_buckets() in a recording rule, or the client's Prometheus histogram)"
                        .to_owned(),
                },
            ));
        };
        // -0 and 0 are one bound.
        *values.entry(Bound(bound + 0.0)).or_insert(0.0) += point.value;
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets(group: &Group) -> Result<Buckets, Unknown> {
        super::buckets(group, |_| true)
    }

    fn group(buckets: &[(&'static str, f64, f64)]) -> Group {
        Group::of(buckets.iter().flat_map(|&(bound, increase, series)| {
            [
                (Part::Buckets, Some(bound), 0.0, increase),
                (Part::Layout, Some(bound), 0.0, series),
            ]
        }))
    }

    #[test]
    fn one_layout_is_used_whole() {
        let read = buckets(&group(&[("0.1", 2.0, 3.0), ("1", 5.0, 3.0), ("+Inf", 6.0, 3.0)])).unwrap();
        assert_eq!(read.cumulative, [(0.1, 2.0), (1.0, 5.0), (f64::INFINITY, 6.0)]);
        assert_eq!(read.caveat, None);
    }

    #[test]
    fn bounds_spelled_in_two_ways_are_one() {
        // One pod by Go (1e-05), one by Java (1.0E-5).
        let read = buckets(&group(&[
            ("1e-05", 1.0, 1.0),
            ("1.0E-5", 2.0, 1.0),
            ("0", 0.0, 1.0),
            ("0.0", 0.0, 1.0),
            ("+Inf", 4.0, 1.0),
            ("inf", 5.0, 1.0),
        ]))
        .unwrap();
        assert_eq!(read.cumulative, [(0.0, 0.0), (1e-5, 3.0), (f64::INFINITY, 9.0)]);
        assert_eq!(read.caveat, None);
    }

    #[test]
    fn of_two_layouts_only_the_common_bounds_are_used() {
        let read = buckets(&group(&[
            ("0.5", 90.0, 2.0),
            ("0.75", 60.0, 1.0),
            ("1", 180.0, 2.0),
            ("+Inf", 200.0, 2.0),
        ]))
        .unwrap();
        assert_eq!(
            read.cumulative,
            [(0.5, 90.0), (1.0, 180.0), (f64::INFINITY, 200.0)]
        );
        assert!(
            read.caveat
                .unwrap()
                .contains("3 of 4 bucket bounds are in all 2 series")
        );
    }

    #[test]
    fn fewer_than_three_common_bounds_are_mixed_buckets() {
        let unknown = buckets(&group(&[
            ("0.5", 90.0, 1.0),
            ("1", 180.0, 2.0),
            ("+Inf", 200.0, 2.0),
        ]))
        .unwrap_err();
        assert_eq!(unknown.reason, UnknownReason::MixedBuckets);
    }

    #[test]
    fn without_an_infinite_bucket_it_is_no_histogram() {
        // linkerd-response_latency_ms.prom
        let unknown = buckets(&group(&[
            ("10", 1260.0, 1.0),
            ("20", 1274.0, 1.0),
            ("30", 1276.0, 1.0),
        ]))
        .unwrap_err();
        assert_eq!(unknown.reason, UnknownReason::NotAHistogram);
        assert!(unknown.message.contains("+Inf"));
    }

    #[test]
    fn vmrange_buckets_are_named_for_what_they_are() {
        let group = Group::of([(Part::Buckets, None, 0.0, 6.0), (Part::Layout, None, 0.0, 1.0)]);
        let unknown = buckets(&group).unwrap_err();
        assert_eq!(unknown.reason, UnknownReason::NotAHistogram);
        assert!(unknown.message.contains("vmrange"));
    }
}
