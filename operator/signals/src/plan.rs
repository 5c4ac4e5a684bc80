//! Which questions share a query. Pure.
//!
//! Targets that ask the same measure of the same metric, with the same label names, requirements and enforced label,
//! share a query; their label values become alternatives, and the answer is grouped by those labels. So the number of
//! queries follows the number of metrics, not of targets.

use std::collections::{BTreeMap, BTreeSet};

use crate::measure::Measure;
use crate::{Requirement, Selector, promql};

/// Label sets that one query asks for at most.
pub(crate) const MAX_SETS: usize = 200;

/// Selectors that one query unites at most. Sets that differ in one label share a selector.
const MAX_SELECTORS: usize = 64;

/// What may share a query: everything but the label values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Family {
    /// The metric as the policy names it.
    pub(crate) metric: String,
    /// The labels asked for by equality, sorted: the answer is grouped by them.
    pub(crate) names: Vec<String>,
    /// Further requirements, sorted.
    pub(crate) requirements: Vec<Requirement>,
    /// The label pair that the source's administrator enforces.
    pub(crate) enforced: Option<(String, String)>,
}

/// The values of the labels in [`Family::names`], in that order.
pub(crate) type LabelSet = Vec<String>;

/// One question: a measure of a metric for one label set.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ask {
    /// What may share a query with it.
    pub(crate) family: Family,
    /// What is measured.
    pub(crate) measure: Measure,
    /// For which label values.
    pub(crate) set: LabelSet,
}

impl Ask {
    /// The question for the series of `metric` that `selector` selects.
    pub(crate) fn new(
        measure: Measure,
        metric: &str,
        selector: &Selector,
        enforced: Option<&(String, String)>,
    ) -> Self {
        let mut requirements = selector.requirements.clone();
        for requirement in &mut requirements {
            requirement.values.sort();
            requirement.values.dedup();
        }
        requirements.sort();
        requirements.dedup();
        Self {
            measure,
            family: Family {
                metric: metric.to_owned(),
                names: selector.match_labels.keys().cloned().collect(),
                requirements,
                enforced: enforced.cloned(),
            },
            set: selector.match_labels.values().cloned().collect(),
        }
    }

    /// What is asked, for people: the selector, and over which window.
    pub(crate) fn describe(&self) -> String {
        let family = &self.family;
        let labels = family.names.iter().zip(&self.set);
        let matchers: Vec<_> = labels
            .map(|(name, value)| promql::is_one_of(name, &[value]))
            .chain(family.requirements.iter().map(promql::requirement))
            .collect();
        let series = promql::selector(&family.metric, &matchers);
        match self.measure {
            Measure::Histogram { window, .. }
            | Measure::Rate { window, .. }
            | Measure::Increase { window } => {
                format!("{series} over {}", promql::duration(window))
            }
            Measure::Gauge { .. } | Measure::Witness | Measure::Presence { .. } => series,
        }
    }
}

/// Questions that share one query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    /// What they have in common.
    pub(crate) family: Family,
    /// What is measured.
    pub(crate) measure: Measure,
    /// Their label sets, distinct.
    pub(crate) sets: Vec<LabelSet>,
}

impl Batch {
    /// The two halves; of a single set nothing is left for the second.
    pub(crate) fn halves(self) -> (Self, Self) {
        let mut first = self;
        let rest = first.sets.split_off(first.sets.len().div_ceil(2));
        let second = Self {
            sets: rest,
            ..first.clone()
        };
        (first, second)
    }

    /// The question for one of its sets.
    pub(crate) fn ask(&self, set: &LabelSet) -> Ask {
        Ask {
            family: self.family.clone(),
            measure: self.measure.clone(),
            set: set.clone(),
        }
    }
}

/// The fewest queries for these questions. Those for which `alone` says so get a query of their own.
pub(crate) fn plan(asks: BTreeSet<Ask>, alone: impl Fn(&Ask) -> bool) -> Vec<Batch> {
    let mut batches = Vec::new();
    let mut shared: BTreeMap<(Family, Measure), Vec<LabelSet>> = BTreeMap::new();
    for ask in asks {
        if alone(&ask) {
            batches.push(Batch {
                family: ask.family,
                measure: ask.measure,
                sets: vec![ask.set],
            });
        } else {
            shared.entry((ask.family, ask.measure)).or_default().push(ask.set);
        }
    }
    for ((family, measure), sets) in shared {
        for sets in chunks(&family.names, &sets) {
            batches.push(Batch {
                family: family.clone(),
                measure: measure.clone(),
                sets,
            });
        }
    }
    batches
}

/// Sets whose values differ in one label only, and are therefore one selector with alternatives. Merging sets that
/// differ in more would select combinations that nobody asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Merged<'a> {
    /// The place of the label that differs; it may be any when there is one set.
    pub(crate) pivot: usize,
    /// The sets, at least one.
    pub(crate) sets: Vec<&'a LabelSet>,
}

/// The fewest selectors for these sets that one differing label gives.
pub(crate) fn merge<'a>(names: &[String], sets: &'a [LabelSet]) -> Vec<Merged<'a>> {
    (0..names.len().max(1))
        .map(|pivot| {
            let mut by_rest: BTreeMap<Vec<&str>, Vec<&LabelSet>> = BTreeMap::new();
            for set in sets {
                let rest = set
                    .iter()
                    .enumerate()
                    .filter(|&(place, _)| place != pivot)
                    .map(|(_, value)| value.as_str())
                    .collect();
                by_rest.entry(rest).or_default().push(set);
            }
            by_rest
                .into_values()
                .map(|sets| Merged { pivot, sets })
                .collect::<Vec<_>>()
        })
        .min_by_key(Vec::len)
        .unwrap_or_default()
}

/// Splits sets so that each part stays within the limits of one query.
fn chunks(names: &[String], sets: &[LabelSet]) -> Vec<Vec<LabelSet>> {
    let mut chunks: Vec<Vec<LabelSet>> = Vec::new();
    let mut selectors = 0;
    for merged in merge(names, sets) {
        for part in merged.sets.chunks(MAX_SETS) {
            let part = part.iter().map(|&set| set.clone());
            match chunks.last_mut() {
                Some(chunk) if selectors < MAX_SELECTORS && chunk.len() + part.len() <= MAX_SETS => {
                    chunk.extend(part);
                    selectors += 1;
                }
                _ => {
                    chunks.push(part.collect());
                    selectors = 1;
                }
            }
        }
    }
    chunks
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::Operator;

    const MEASURE: Measure = Measure::Increase {
        window: Duration::from_secs(600),
    };

    fn ask(metric: &str, labels: &[(&str, &str)]) -> Ask {
        let selector = Selector {
            match_labels: labels
                .iter()
                .map(|&(k, v)| (k.to_owned(), v.to_owned()))
                .collect(),
            requirements: vec![],
        };
        Ask::new(MEASURE, metric, &selector, None)
    }

    fn shared(asks: impl IntoIterator<Item = Ask>) -> Vec<Batch> {
        plan(asks.into_iter().collect(), |_| false)
    }

    #[test]
    fn fifty_policies_on_one_metric_are_one_query() {
        let one = shared([ask("m", &[("app", "a")])]);
        let fifty = shared((0..50).map(|i| ask("m", &[("app", &format!("a{i}"))])));
        assert_eq!((one.len(), fifty.len()), (1, 1));
        assert_eq!(fifty[0].sets.len(), 50);
    }

    #[test]
    fn fifty_policies_that_differ_in_two_labels_are_one_query_too() {
        let asks = (0..50).map(|i| {
            let (namespace, app) = (format!("n{i}"), format!("a{i}"));
            ask("m", &[("namespace", &namespace), ("app", &app)])
        });
        assert_eq!(shared(asks).len(), 1);
    }

    #[test]
    fn the_same_question_is_asked_once() {
        let batches = shared([ask("m", &[("a", "1")]), ask("m", &[("a", "1")])]);
        assert_eq!(batches[0].sets.len(), 1);
    }

    #[test]
    fn two_hundred_label_sets_are_the_most_that_a_query_asks_for() {
        let batches = shared((0..401).map(|i| ask("m", &[("app", &i.to_string())])));
        let sizes: Vec<_> = batches.iter().map(|batch| batch.sets.len()).collect();
        assert_eq!(sizes, [200, 200, 1]);
    }

    #[test]
    fn what_is_not_equal_is_not_merged() {
        let base = ask("m", &[("app", "a")]);
        let with = |change: fn(&mut Ask)| {
            let mut other = ask("m", &[("app", "b")]);
            change(&mut other);
            other
        };
        for other in [
            with(|ask| ask.family.metric = "n".into()),
            with(|ask| ask.family.names = vec!["job".into()]),
            with(|ask| ask.family.enforced = Some(("namespace".into(), "x".into()))),
            with(|ask| {
                ask.family.requirements = vec![Requirement {
                    key: "code".into(),
                    operator: Operator::Exists,
                    values: vec![],
                }];
            }),
            with(|ask| {
                ask.measure = Measure::Increase {
                    window: Duration::from_secs(60),
                }
            }),
        ] {
            assert_eq!(shared([base.clone(), other]).len(), 2);
        }
    }

    #[test]
    fn requirements_in_another_order_are_the_same() {
        let requirement = |key: &str, values: &[&str]| Requirement {
            key: key.into(),
            operator: Operator::In,
            values: values.iter().map(|&v| v.to_owned()).collect(),
        };
        let ask = |value: &str, requirements| {
            let selector = Selector {
                match_labels: [("app".to_owned(), value.to_owned())].into(),
                requirements,
            };
            Ask::new(MEASURE, "m", &selector, None)
        };
        let one = ask("a", vec![requirement("x", &["1", "2"]), requirement("y", &["3"])]);
        let two = ask("b", vec![requirement("y", &["3"]), requirement("x", &["2", "1"])]);
        assert_eq!(shared([one, two]).len(), 1);
    }

    #[test]
    fn a_culprit_is_asked_for_alone() {
        let culprit = ask("m", &[("app", "bad")]);
        let asks = BTreeSet::from([
            culprit.clone(),
            ask("m", &[("app", "a")]),
            ask("m", &[("app", "b")]),
        ]);
        let batches = plan(asks, |ask| *ask == culprit);
        let sizes: Vec<_> = batches.iter().map(|batch| batch.sets.len()).collect();
        assert_eq!(sizes, [1, 2]);
        assert_eq!(batches[0].sets[0], culprit.set);
    }

    #[test]
    fn the_label_that_differs_most_carries_the_alternatives() {
        let names = ["app".to_owned(), "zone".to_owned()];
        let sets: Vec<LabelSet> = [["a", "z1"], ["a", "z2"], ["b", "z1"]]
            .iter()
            .map(|set| set.map(str::to_owned).to_vec())
            .collect();
        let merged = merge(&names, &sets);
        assert_eq!(merged.len(), 2);
        assert_eq!(merged.iter().map(|m| m.sets.len()).sum::<usize>(), 3);
    }

    proptest! {
        #[test]
        fn a_selector_selects_no_combination_that_nobody_asked_for(
            sets in prop::collection::btree_set(prop::collection::vec("[a-c]", 3), 1..30)
        ) {
            let names: Vec<String> = ["x", "y", "z"].map(str::to_owned).to_vec();
            let sets: Vec<LabelSet> = sets.into_iter().collect();
            let merged = merge(&names, &sets);
            let mut seen: Vec<_> = merged.iter().flat_map(|m| m.sets.iter().map(|&s| s.clone())).collect();
            for selector in &merged {
                for set in &selector.sets {
                    for (place, value) in set.iter().enumerate() {
                        prop_assert!(place == selector.pivot || *value == selector.sets[0][place]);
                    }
                }
            }
            seen.sort();
            prop_assert_eq!(seen, sets);
        }

        #[test]
        fn each_question_is_in_exactly_one_query_and_each_query_within_the_limits(
            asks in prop::collection::btree_set(("[mn]", prop::collection::vec("[a-f]{1,2}", 2)), 0..400)
        ) {
            let asks: BTreeSet<Ask> =
                asks.iter().map(|(metric, v)| ask(metric, &[("x", &v[0]), ("y", &v[1])])).collect();
            let batches = plan(asks.clone(), |_| false);
            let planned: Vec<Ask> =
                batches.iter().flat_map(|batch| batch.sets.iter().map(|set| batch.ask(set))).collect();
            prop_assert_eq!(planned.len(), asks.len());
            prop_assert_eq!(planned.into_iter().collect::<BTreeSet<_>>(), asks);
            for batch in &batches {
                prop_assert!(batch.sets.len() <= MAX_SETS);
                prop_assert!(merge(&batch.family.names, &batch.sets).len() <= MAX_SELECTORS);
            }
        }
    }
}
