//! Takes the answer to a batch apart: each label set gets exactly its own. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use hedgerow_tuner::{Unknown, UnknownReason};

use crate::answer::{Sample, Value, number};
use crate::clauses::{Clause, Grouping, TAG};
use crate::measure::{Measure, Part};
use crate::native::Native;
use crate::plan::Batch;

/// How far apart the totals of one histogram's two kinds may be, as a share.
const SAME_COUNT: f64 = 0.01;

/// What the answer says for one label set.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Group {
    parts: BTreeMap<Part, Vec<Point>>,
    /// The native histograms, by outcome.
    natives: BTreeMap<String, Native>,
    /// Why it cannot be used, where it cannot.
    fault: Option<Unknown>,
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Point {
    /// The bucket's bound as it was spelled; `None` without a label `le`.
    pub(crate) bound: Option<String>,
    /// The value of the label that tells outcomes apart; empty without.
    pub(crate) outcome: String,
    /// The time of evaluation on the server's clock, in seconds since the epoch.
    pub(crate) time: f64,
    /// The value.
    pub(crate) value: f64,
}

impl Group {
    /// The values of a part.
    pub(crate) fn points(&self, part: Part) -> &[Point] {
        self.parts.get(&part).map_or(&[], Vec::as_slice)
    }

    /// The native histograms, by outcome. Where there are any they stand for the classic buckets.
    pub(crate) fn natives(&self) -> &BTreeMap<String, Native> {
        &self.natives
    }

    /// The one value of a part that has one for each label set.
    pub(crate) fn point(&self, part: Part) -> Option<&Point> {
        self.points(part).first()
    }

    /// The value of such a part.
    pub(crate) fn number(&self, part: Part) -> Option<f64> {
        self.point(part).map(|point| point.value)
    }

    /// Whether the answer says nothing at all for this label set.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.natives.is_empty()
    }

    /// Whether there is a distribution.
    pub(crate) fn has_distribution(&self) -> bool {
        !self.natives.is_empty() || !self.points(Part::Buckets).is_empty()
    }

    /// Why it cannot be used, where it cannot.
    pub(crate) fn usable(&self) -> Result<(), Unknown> {
        self.fault.clone().map_or(Ok(()), Err)
    }

    /// A group with these values, for tests.
    #[cfg(test)]
    pub(crate) fn of(points: impl IntoIterator<Item = (Part, Option<&'static str>, f64, f64)>) -> Self {
        let mut group = Self::default();
        for (part, bound, time, value) in points {
            group.parts.entry(part).or_default().push(Point {
                bound: bound.map(str::to_owned),
                outcome: String::new(),
                time,
                value,
            });
        }
        group
    }

    /// The same with each value under an outcome, for tests.
    #[cfg(test)]
    pub(crate) fn split(
        points: impl IntoIterator<Item = (Part, Option<&'static str>, &'static str, f64)>,
    ) -> Self {
        let mut group = Self::default();
        for (part, bound, outcome, value) in points {
            group.parts.entry(part).or_default().push(Point {
                bound: bound.map(str::to_owned),
                outcome: outcome.to_owned(),
                time: 0.0,
                value,
            });
        }
        group
    }

    /// A group with one native histogram, for tests.
    #[cfg(test)]
    pub(crate) fn native(native: Native) -> Self {
        Self {
            natives: [(String::new(), native)].into(),
            ..Self::default()
        }
    }

    fn add(&mut self, clause: &Clause, names: &[String], outcome: Option<&str>, sample: &Sample) {
        let bound = sample.labels.get("le").cloned();
        let outcome = outcome.and_then(|label| sample.labels.get(label)).cloned();
        let outcome = outcome.unwrap_or_default();
        let value = match (&sample.value, clause.part) {
            (Value::Number(value), part) if part != Part::Native => *value,
            // A summary or gauge has the plain name too.
            (Value::Number(_), _) => return,
            (Value::Histogram(native), Part::Native) => {
                // Of an HA pair the one that saw more counts.
                let known = self.natives.entry(outcome).or_default();
                if known.buckets.is_empty() || known.count < native.count {
                    known.clone_from(native);
                }
                return;
            }
            (Value::Histogram(_), _) => {
                self.blame(
                    UnknownReason::NotAHistogram,
                    "a native histogram came back where a number was asked for",
                );
                return;
            }
        };
        let points = self.parts.entry(clause.part).or_default();
        if clause.grouping != Grouping::Series {
            let expected = |label: &str| {
                label == TAG
                    || names.iter().any(|name| name == label)
                    || clause.also.iter().any(|also| also == label)
            };
            let differing: Vec<&str> = sample
                .labels
                .keys()
                .map(String::as_str)
                .filter(|label| !expected(label))
                .collect();
            let same = |point: &Point| point.bound == bound && point.outcome == outcome;
            if !differing.is_empty() || points.iter().any(same) {
                let why = if differing.is_empty() {
                    "the same series came back twice".to_owned()
                } else {
                    format!(
                        "more series came back than were asked for; they differ in {}",
                        differing.join(", ")
                    )
                };
                self.blame(
                    UnknownReason::AmbiguousResult,
                    &format!("{why}; select one of them, or let the source declare its replica label"),
                );
                return;
            }
        }
        points.push(Point {
            bound,
            outcome,
            time: sample.time,
            value,
        });
    }

    /// Settles whether this is a classic or a native histogram.
    ///
    /// A metric may be stored as both: then both have counted the same, and the native one is finer. Where they have not,
    /// some instances tell only one kind, or all of them changed from one to the other within the window: neither has the
    /// whole distribution, until the window holds one kind alone.
    fn settle_kind(&mut self) {
        if self.natives.is_empty() {
            return;
        }
        let native: f64 = self.natives.values().map(|native| native.count).sum();
        if !self.points(Part::Buckets).is_empty() {
            let whole = |point: &&Point| point.bound.as_deref().map(number) == Some(f64::INFINITY);
            let buckets = self.points(Part::Buckets).iter();
            let classic: f64 = buckets.filter(whole).map(|point| point.value).sum();
            // What is no number agrees with nothing.
            let agree = (classic - native).abs() <= SAME_COUNT * classic.max(native);
            if !agree {
                self.blame(
                    UnknownReason::MixedBuckets,
                    &format!(
                        "its classic buckets count {classic:.0} calls and its native histograms {native:.0}: some instances \
                         have one kind only, or the kind has changed within the window; let all have the same and wait until \
                         the window has passed"
                    ),
                );
                return;
            }
        }
        for part in [Part::Buckets, Part::Layout, Part::Count, Part::Sum] {
            self.parts.remove(&part);
        }
        for part in [
            Part::Newest,
            Part::ScrapesLong,
            Part::ScrapesShort,
            Part::Unstable,
        ] {
            match self.parts.remove(&part.of_native()) {
                Some(points) => self.parts.insert(part, points),
                None => self.parts.remove(&part),
            };
        }
    }

    fn blame(&mut self, reason: UnknownReason, message: &str) {
        self.fault.get_or_insert_with(|| Unknown::new(reason, message));
    }
}

/// The groups of a batch, in the order of its sets, and how many groups came back that nobody asked for.
pub(crate) fn take_apart(batch: &Batch, clauses: &[Clause], samples: &[Sample]) -> (Vec<Group>, u64) {
    let names = &batch.family.names;
    let outcome = match &batch.measure {
        Measure::Histogram { outcome, .. } => outcome.as_deref(),
        _ => None,
    };
    let clause_of: HashMap<String, &Clause> =
        clauses.iter().map(|clause| (clause.part.tag(), clause)).collect();
    let place_of: HashMap<Vec<&str>, usize> = batch
        .sets
        .iter()
        .enumerate()
        .map(|(place, set)| (set.iter().map(String::as_str).collect(), place))
        .collect();
    let mut groups = vec![Group::default(); batch.sets.len()];
    let mut strangers = BTreeSet::new();
    for sample in samples {
        // An absent label and an empty one are the same in Prometheus.
        let label = |name: &str| sample.labels.get(name).map_or("", String::as_str);
        let Some(clause) = clause_of.get(label(TAG)) else {
            strangers.insert(vec![label(TAG)]);
            continue;
        };
        match clause.grouping {
            Grouping::Set | Grouping::Series => {
                let set: Vec<&str> = names.iter().map(|name| label(name)).collect();
                match place_of.get(&set) {
                    Some(&place) => groups[place].add(clause, names, outcome, sample),
                    None => drop(strangers.insert(set)),
                }
            }
            Grouping::One(name) => {
                let value = names.get(name).map_or("", |name| label(name));
                for (group, set) in groups.iter_mut().zip(&batch.sets) {
                    if set.get(name).is_some_and(|wanted| wanted == value) {
                        group.add(clause, names, outcome, sample);
                    }
                }
            }
            Grouping::All => {
                for group in &mut groups {
                    group.add(clause, names, outcome, sample);
                }
            }
        }
    }
    for group in &mut groups {
        group.settle_kind();
    }
    (groups, u64::try_from(strangers.len()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::clauses::clauses;
    use crate::measure::Measure;
    use crate::plan::Family;

    fn batch(measure: Measure, names: &[&str], sets: &[&[&str]]) -> Batch {
        Batch {
            family: Family {
                metric: "m".into(),
                names: names.iter().map(|&name| name.to_owned()).collect(),
                requirements: vec![],
                enforced: None,
            },
            measure,
            sets: sets
                .iter()
                .map(|set| set.iter().map(|&v| v.to_owned()).collect())
                .collect(),
        }
    }

    const INCREASE: Measure = Measure::Increase {
        window: Duration::from_secs(60),
    };

    fn sample(labels: &[(&str, &str)], value: f64) -> Sample {
        Sample {
            labels: labels
                .iter()
                .map(|&(k, v)| (k.to_owned(), v.to_owned()))
                .collect(),
            time: 1.0,
            value: Value::Number(value),
        }
    }

    #[test]
    fn values_that_look_like_patterns_are_told_apart_by_equality() {
        let batch = batch(INCREASE, &["app"], &[&["a.c"], &[".*"], &[""]]);
        let clauses = clauses(&batch, None);
        let samples = [
            sample(&[(TAG, "value"), ("app", "a.c")], 1.0),
            sample(&[(TAG, "value"), ("app", "abc")], 2.0),
            sample(&[(TAG, "value")], 3.0),
        ];
        let (groups, dropped) = take_apart(&batch, &clauses, &samples);
        assert_eq!(groups[0].number(Part::Value), Some(1.0));
        assert!(groups[1].is_empty());
        assert_eq!(groups[2].number(Part::Value), Some(3.0));
        assert_eq!(dropped, 1);
    }

    #[test]
    fn more_series_than_asked_for_are_ambiguous_and_the_label_is_named() {
        let batch = batch(INCREASE, &["app"], &[&["a"], &["b"]]);
        let clauses = clauses(&batch, None);
        let samples = [
            sample(&[(TAG, "value"), ("app", "a"), ("replica", "0")], 1.0),
            sample(&[(TAG, "value"), ("app", "a"), ("replica", "1")], 1.0),
            sample(&[(TAG, "value"), ("app", "b")], 5.0),
        ];
        let (groups, _) = take_apart(&batch, &clauses, &samples);
        let unknown = groups[0].usable().unwrap_err();
        assert_eq!(unknown.reason, UnknownReason::AmbiguousResult);
        assert!(unknown.message.contains("replica"));
        assert!(groups[1].usable().is_ok());
    }

    #[test]
    fn a_native_histogram_spoils_its_own_group_alone() {
        let batch = batch(INCREASE, &["app"], &[&["a"], &["b"]]);
        let clauses = clauses(&batch, None);
        let native = Sample {
            value: Value::Histogram(Native::default()),
            ..sample(&[(TAG, "value"), ("app", "a")], 0.0)
        };
        let samples = [native, sample(&[(TAG, "value"), ("app", "b")], 5.0)];
        let (groups, _) = take_apart(&batch, &clauses, &samples);
        assert_eq!(
            groups[0].usable().unwrap_err().reason,
            UnknownReason::NotAHistogram
        );
        assert_eq!(groups[1].number(Part::Value), Some(5.0));
    }

    proptest! {
        /// Whatever comes back, each set gets the values that carry exactly its labels.
        #[test]
        fn each_set_gets_exactly_its_own(
            sets in prop::collection::btree_set(prop::collection::vec("[a.|*]{0,2}", 2), 1..8),
            answers in prop::collection::btree_map(prop::collection::vec("[a.|*]{0,2}", 2), 0.0..10.0f64, 0..12),
        ) {
            let batch = Batch { sets: sets.into_iter().collect(), ..batch(INCREASE, &["x", "y"], &[]) };
            let clauses = clauses(&batch, None);
            let samples: Vec<_> = answers
                .iter()
                .map(|(set, value)| sample(&[(TAG, "value"), ("x", &set[0]), ("y", &set[1])], *value))
                .collect();
            let (groups, dropped) = take_apart(&batch, &clauses, &samples);
            for (set, group) in batch.sets.iter().zip(&groups) {
                prop_assert_eq!(group.number(Part::Value), answers.get(set).copied());
            }
            let strangers = answers.keys().filter(|set| !batch.sets.contains(set)).count();
            prop_assert_eq!(dropped, strangers as u64);
        }
    }
}
