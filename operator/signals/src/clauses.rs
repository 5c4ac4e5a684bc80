//! The query that measures something for many label sets at once.
//!
//! A query has several parts, each tagged with its name and joined by `or`, so that all that one reading needs comes
//! from one evaluation: buckets, count and sum cannot disagree by a scrape, and there is one request, not six.

use std::time::Duration;

use crate::measure::{LONG_COUNT, Measure, Part, SHORT_COUNT};
use crate::plan::{Batch, Family, merge};
use crate::promql;

/// The label that tells the parts of an answer apart.
pub(crate) const TAG: &str = "hedgerow_part";

/// How the series of a part are told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Grouping {
    /// One value per bucket bound and label set.
    Bounds,
    /// One value per label set.
    Set,
    /// Many values per label set.
    Series,
    /// One value per value of the label at this place.
    One(usize),
    /// One value for all.
    All,
}

/// One part of a query, and how its answer is grouped.
#[derive(Clone, Debug)]
pub(crate) struct Clause {
    /// Which part.
    pub(crate) part: Part,
    /// How its answer is grouped.
    pub(crate) grouping: Grouping,
    /// Its PromQL, without the tag.
    text: String,
}

/// The parts of the query for a batch.
pub(crate) fn clauses(batch: &Batch, replica: Option<&str>) -> Vec<Clause> {
    let writer = Writer::new(batch, replica);
    match &batch.measure {
        Measure::Histogram { window } => writer.histogram(*window),
        Measure::Gauge { over, linger } => writer.gauge(*over, *linger),
        Measure::Rate { window, linger } => writer.rate(*window, *linger),
        Measure::Increase { window } => writer.increase(*window),
        Measure::Witness => writer.witness(),
        Measure::Presence { histogram } => writer.presence(batch, *histogram),
    }
}

/// The query: its parts, tagged and joined.
pub(crate) fn text(clauses: &[Clause]) -> String {
    clauses
        .iter()
        .map(|clause| {
            format!(
                "label_replace({}, \"{TAG}\", \"{}\", \"\", \"\")",
                clause.text,
                clause.part.tag()
            )
        })
        .collect::<Vec<_>>()
        .join("\nor ")
}

/// Writes the parts of one batch's query.
struct Writer<'a> {
    family: &'a Family,
    /// The replica label to deduplicate on, unless the policy chose a replica itself.
    replica: Option<&'a str>,
    /// The matchers of each selector.
    selectors: Vec<Vec<String>>,
}

impl<'a> Writer<'a> {
    fn new(batch: &'a Batch, replica: Option<&'a str>) -> Self {
        let family = &batch.family;
        let common: Vec<String> = enforced(family)
            .into_iter()
            .chain(family.requirements.iter().map(promql::requirement))
            .collect();
        let selectors = merge(&family.names, &batch.sets)
            .iter()
            .map(|merged| {
                let labels = family.names.iter().enumerate().map(|(place, name)| {
                    let mut values: Vec<_> = merged.sets.iter().map(|set| set[place].as_str()).collect();
                    values.dedup();
                    promql::is_one_of(name, &values)
                });
                labels.chain(common.iter().cloned()).collect()
            })
            .collect();
        Self {
            family,
            replica: replica.filter(|replica| family.names.iter().all(|name| name != replica)),
            selectors,
        }
    }

    fn histogram(&self, window: Duration) -> Vec<Clause> {
        let range = promql::duration(window);
        let increase = |series: &str| format!("increase({series}[{range}])");
        let mut clauses = vec![
            self.total(Part::Buckets, "sum", Grouping::Bounds, "_bucket", increase),
            // Counted over the increases, so that exactly the series that were added up are counted.
            self.total(Part::Layout, "count", Grouping::Bounds, "_bucket", increase),
            self.total(Part::Count, "sum", Grouping::Set, "_count", increase),
            self.total(Part::Sum, "sum", Grouping::Set, "_sum", increase),
            self.unstable("_count", &range),
        ];
        clauses.extend(self.freshness("_count"));
        clauses
    }

    fn gauge(&self, over: Duration, linger: Duration) -> Vec<Clause> {
        let (range, longer) = (promql::duration(over), promql::duration(linger));
        let value = |series: &str| {
            let largest = format!("max_over_time({series}[{range}])");
            if linger > over {
                format!("({largest} or last_over_time({series}[{longer}]))")
            } else {
                largest
            }
        };
        let mut clauses = vec![self.per_series(value)];
        clauses.extend(self.freshness(""));
        clauses
    }

    fn rate(&self, window: Duration, linger: Duration) -> Vec<Clause> {
        let (range, longer) = (promql::duration(window), promql::duration(linger));
        let mut clauses = vec![
            self.per_series(|series| {
                format!("(rate({series}[{range}]) and last_over_time({series}[{longer}]))")
            }),
            self.unstable("", &range),
        ];
        clauses.extend(self.freshness(""));
        clauses
    }

    fn increase(&self, window: Duration) -> Vec<Clause> {
        let range = promql::duration(window);
        let mut clauses = vec![
            self.total(Part::Value, "sum", Grouping::Set, "", |series| {
                format!("increase({series}[{range}])")
            }),
            self.unstable("", &range),
        ];
        clauses.extend(self.freshness(""));
        clauses
    }

    fn witness(&self) -> Vec<Clause> {
        let mut clauses = vec![
            self.extreme(Part::Value, "min", "", |series| series.to_owned()),
            self.extreme(Part::Oldest, "min", "", |series| format!("timestamp({series})")),
        ];
        clauses.extend(self.freshness(""));
        clauses
    }

    fn presence(&self, batch: &Batch, histogram: bool) -> Vec<Clause> {
        let family = self.family;
        let suffix = if histogram { "_bucket" } else { "" };
        let common: Vec<String> = enforced(family).into_iter().collect();
        let count_all = |part, suffix: &str, matcher: Option<String>| {
            let matchers: Vec<_> = common.iter().cloned().chain(matcher).collect();
            let series = promql::selector(&format!("{}{suffix}", family.metric), &matchers);
            Clause {
                part,
                grouping: Grouping::All,
                text: format!("count({series})"),
            }
        };
        let mut clauses = vec![
            Clause {
                part: Part::Here,
                grouping: Grouping::Set,
                text: self.united(suffix, |series| format!("count{}({series})", self.by(None, None))),
            },
            count_all(Part::Metric, suffix, None),
        ];
        for (place, name) in family.names.iter().enumerate() {
            let mut values: Vec<_> = batch.sets.iter().map(|set| set[place].as_str()).collect();
            values.sort_unstable();
            values.dedup();
            let matchers: Vec<_> = common
                .iter()
                .cloned()
                .chain([promql::is_one_of(name, &values)])
                .collect();
            let series = promql::selector(&format!("{}{suffix}", family.metric), &matchers);
            clauses.push(Clause {
                part: Part::Label(place),
                grouping: Grouping::One(place),
                text: format!("count by ({name}) ({series})"),
            });
        }
        for (place, requirement) in family.requirements.iter().enumerate() {
            let matcher = promql::requirement(requirement);
            clauses.push(count_all(Part::Requirement(place), suffix, Some(matcher)));
        }
        if histogram {
            clauses.push(count_all(Part::CountSeries, "_count", None));
            clauses.push(count_all(Part::Bare, "", None));
            clauses.push(count_all(Part::Vmrange, "_bucket", Some("vmrange!=\"\"".into())));
        }
        clauses
    }

    /// The newest sample, and how many there were.
    fn freshness(&self, suffix: &str) -> Vec<Clause> {
        let samples = |part, over| {
            self.extreme(part, "max", suffix, |series| {
                format!("count_over_time({series}[{}])", promql::duration(over))
            })
        };
        vec![
            self.extreme(Part::Newest, "max", suffix, |series| {
                format!("timestamp({series})")
            }),
            samples(Part::ScrapesLong, LONG_COUNT),
            samples(Part::ScrapesShort, SHORT_COUNT),
        ]
    }

    /// The share of samples after which a counter had fallen, where it fell three times or more.
    fn unstable(&self, suffix: &str, range: &str) -> Clause {
        self.extreme(Part::Unstable, "max", suffix, |series| {
            format!("(resets({series}[{range}]) >= 3) / count_over_time({series}[{range}])")
        })
    }

    /// One value per series.
    fn per_series(&self, expression: impl Fn(&str) -> String) -> Clause {
        let united = self.united("", expression);
        Clause {
            part: Part::Value,
            grouping: Grouping::Series,
            text: match self.replica {
                Some(replica) => format!("max without ({replica}) ({united})"),
                None => united,
            },
        }
    }

    /// A largest or smallest value per label set.
    fn extreme(
        &self,
        part: Part,
        operator: &str,
        suffix: &str,
        expression: impl Fn(&str) -> String,
    ) -> Clause {
        Clause {
            part,
            grouping: Grouping::Set,
            text: self.united(suffix, |series| {
                format!("{operator}{}({})", self.by(None, None), expression(series))
            }),
        }
    }

    /// A sum or count. Each member of an HA pair sees every call, so of their totals the largest counts.
    fn total(
        &self,
        part: Part,
        operator: &str,
        grouping: Grouping,
        suffix: &str,
        expression: impl Fn(&str) -> String,
    ) -> Clause {
        let bound = (grouping == Grouping::Bounds).then_some("le");
        let text = self.united(suffix, |series| {
            let expression = expression(series);
            match self.replica {
                None => format!("{operator}{}({expression})", self.by(bound, None)),
                Some(replica) => format!(
                    "max{}({operator}{}({expression}))",
                    self.by(bound, None),
                    self.by(bound, Some(replica))
                ),
            }
        });
        Clause { part, grouping, text }
    }

    /// `expression` of each selector, united.
    fn united(&self, suffix: &str, expression: impl Fn(&str) -> String) -> String {
        self.selectors
            .iter()
            .map(|matchers| {
                expression(&promql::selector(
                    &format!("{}{suffix}", self.family.metric),
                    matchers,
                ))
            })
            .collect::<Vec<_>>()
            .join(" or ")
    }

    /// The grouping clause: the labels asked for, a bucket's bound, a replica label.
    fn by(&self, bound: Option<&str>, replica: Option<&str>) -> String {
        let names = self.family.names.iter().map(String::as_str);
        let labels: Vec<_> = bound
            .filter(|bound| names.clone().all(|name| name != *bound))
            .into_iter()
            .chain(names.clone())
            .chain(replica)
            .collect();
        if labels.is_empty() {
            String::new()
        } else {
            format!(" by ({}) ", labels.join(", "))
        }
    }
}

fn enforced(family: &Family) -> Option<String> {
    family
        .enforced
        .as_ref()
        .map(|(name, value)| promql::is_one_of(name, &[value]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Operator, Requirement};

    fn batch(measure: Measure, names: &[&str], sets: &[&[&str]]) -> Batch {
        Batch {
            family: Family {
                metric: "read_seconds".into(),
                names: names.iter().map(|&name| name.to_owned()).collect(),
                requirements: vec![],
                enforced: None,
            },
            measure,
            sets: sets
                .iter()
                .map(|set| set.iter().map(|&value| value.to_owned()).collect())
                .collect(),
        }
    }

    /// The query's parts without their tags, by name.
    fn parts(batch: &Batch, replica: Option<&str>) -> Vec<String> {
        clauses(batch, replica)
            .into_iter()
            .map(|clause| format!("{}: {}", clause.part.tag(), clause.text))
            .collect()
    }

    const TEN_MINUTES: Duration = Duration::from_secs(600);

    #[test]
    fn the_query_of_a_histogram() {
        let batch = batch(
            Measure::Histogram { window: TEN_MINUTES },
            &["index"],
            &[&["kb"], &["faq"]],
        );
        assert_eq!(
            parts(&batch, None),
            [
                r#"buckets: sum by (le, index) (increase(read_seconds_bucket{index=~"kb|faq"}[10m]))"#,
                r#"layout: count by (le, index) (increase(read_seconds_bucket{index=~"kb|faq"}[10m]))"#,
                r#"count: sum by (index) (increase(read_seconds_count{index=~"kb|faq"}[10m]))"#,
                r#"sum: sum by (index) (increase(read_seconds_sum{index=~"kb|faq"}[10m]))"#,
                r#"unstable: max by (index) ((resets(read_seconds_count{index=~"kb|faq"}[10m]) >= 3) / count_over_time(read_seconds_count{index=~"kb|faq"}[10m]))"#,
                r#"newest: max by (index) (timestamp(read_seconds_count{index=~"kb|faq"}))"#,
                r#"scrapes_long: max by (index) (count_over_time(read_seconds_count{index=~"kb|faq"}[5m]))"#,
                r#"scrapes_short: max by (index) (count_over_time(read_seconds_count{index=~"kb|faq"}[1m]))"#,
            ]
        );
    }

    #[test]
    fn the_parts_are_tagged_and_joined() {
        let batch = batch(Measure::Witness, &[], &[&[]]);
        let text = text(&clauses(&batch, None));
        assert!(text.starts_with(r#"label_replace(min(read_seconds), "hedgerow_part", "value", "", "")"#));
        assert_eq!(text.matches("\nor label_replace(").count(), 4);
    }

    #[test]
    fn of_a_pair_the_larger_total_counts_and_values_are_read_once() {
        let increase = batch(Measure::Increase { window: TEN_MINUTES }, &["app"], &[&["a"]]);
        assert_eq!(
            parts(&increase, Some("replica"))[0],
            r#"value: max by (app) (sum by (app, replica) (increase(read_seconds{app="a"}[10m])))"#
        );
        let over = Duration::from_secs(30);
        let gauge = batch(
            Measure::Gauge {
                over,
                linger: 2 * over,
            },
            &["app"],
            &[&["a"]],
        );
        assert_eq!(
            parts(&gauge, Some("replica"))[0],
            r#"value: max without (replica) ((max_over_time(read_seconds{app="a"}[30s]) or last_over_time(read_seconds{app="a"}[1m])))"#
        );
        let pinned = batch(Measure::Increase { window: TEN_MINUTES }, &["replica"], &[&["0"]]);
        assert_eq!(
            parts(&pinned, Some("replica"))[0],
            r#"value: sum by (replica) (increase(read_seconds{replica="0"}[10m]))"#
        );
    }

    #[test]
    fn sets_that_differ_in_two_labels_are_united_not_crossed() {
        let batch = batch(
            Measure::Increase { window: TEN_MINUTES },
            &["app", "zone"],
            &[&["a", "1"], &["b", "2"]],
        );
        assert_eq!(
            parts(&batch, None)[0],
            r#"value: sum by (app, zone) (increase(read_seconds{app="a",zone="1"}[10m])) or sum by (app, zone) (increase(read_seconds{app="b",zone="2"}[10m]))"#
        );
    }

    #[test]
    fn the_enforced_label_and_requirements_are_in_every_part() {
        let all = [
            Measure::Histogram { window: TEN_MINUTES },
            Measure::Gauge {
                over: TEN_MINUTES,
                linger: TEN_MINUTES,
            },
            Measure::Rate {
                window: TEN_MINUTES,
                linger: TEN_MINUTES,
            },
            Measure::Increase { window: TEN_MINUTES },
            Measure::Witness,
            Measure::Presence { histogram: true },
            Measure::Presence { histogram: false },
        ];
        for measure in all {
            let presence = matches!(measure, Measure::Presence { .. });
            let mut batch = batch(measure, &["namespace"], &[&["other"]]);
            batch.family.enforced = Some(("namespace".into(), "helpdesk".into()));
            batch.family.requirements = vec![Requirement {
                key: "code".into(),
                operator: Operator::Exists,
                values: vec![],
            }];
            for clause in clauses(&batch, None) {
                let selectors = clause.text.matches("read_seconds").count();
                assert_eq!(
                    clause.text.matches(r#"namespace="helpdesk""#).count(),
                    selectors,
                    "{}",
                    clause.text
                );
                if !presence {
                    assert_eq!(
                        clause.text.matches(r#"code!="""#).count(),
                        selectors,
                        "{}",
                        clause.text
                    );
                }
            }
        }
    }
}
